// The shadows of a policy in force: changed copies of it that are tried beside it.
import { useList, useWhole } from '../core/queries.ts';
import { hrefOf } from '../core/router.ts';
import type { Policy, WholePolicy } from '../core/types.ts';
import { Time } from './buttons.tsx';
import { Empty, Reading } from './states.tsx';

export function PolicyShadows({ policy }: { policy: WholePolicy }) {
  const list = useList<Policy>('v1/policies?mode=shadow');
  useWhole(list, true);
  const shown = list.items.filter(({ shadow_of: of }) => of === policy.id);
  return (
    <section aria-label="Shadows">
      <Reading of={list} {...(shown.length === 0 && !list.hasMore ? { empty: <None /> } : {})}>
        <table class="wide">
          <thead>
            <tr>
              <th scope="col">Shadow</th>
              <th scope="col">Status</th>
              <th scope="col">Expires</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((one) => (
              <tr key={one.id}>
                <th scope="row">
                  <a href={hrefOf('policies', { id: one.id, tab: 'report' })}>{one.name}</a>
                </th>
                <td>
                  <span class={`badge ${one.status}`}>{one.status}</span>
                </td>
                <td>{one.expires_at !== undefined && <Time at={one.expires_at} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Reading>
    </section>
  );
}

function None() {
  return (
    <Empty title="No shadows">
      <p>
        A shadow is a changed copy that is judged on what agents do now, beside this one, while nothing comes of it. Its
        report says what it would newly block and no longer block. Make one with <em>Change</em>: save it as a shadow.
      </p>
    </Empty>
  );
}
