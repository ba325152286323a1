// The shadows of a policy in force: changed copies of it that are tried beside it.
import { useList, useWhole } from '../core/queries.ts';
import { hrefOf } from '../core/router.ts';
import type { Policy, WholePolicy } from '../core/types.ts';
import { Time } from './buttons.tsx';
import { Literal } from './literal.tsx';
import { Empty, Reading } from './states.tsx';
import { Table } from './table.tsx';

export function PolicyShadows({ policy }: { policy: WholePolicy }) {
  const list = useList<Policy>('v1/policies?mode=shadow');
  useWhole(list, true);
  const shown = list.items.filter(({ shadow_of: of }) => of === policy.id);
  return (
    <section aria-label="Shadows">
      <Reading of={list} empty={shown.length === 0 && !list.hasMore && <None />}>
        <Table
          head={['Shadow', 'Status', 'Expires']}
          rows={shown.map((one) => ({
            key: one.id,
            cells: [
              <a href={hrefOf('policies', { id: one.id, tab: 'report' })}>
                <Literal text={one.name} />
              </a>,
              <span class={`badge ${one.status}`}>{one.status}</span>,
              one.expires_at !== undefined && <Time at={one.expires_at} />,
            ],
          }))}
        />
      </Reading>
    </section>
  );
}

function None() {
  return (
    <Empty title="No shadows">
      <p>
        A shadow is a changed copy that is judged on what agents do now, beside this one, and decides nothing. Its
        report says what it would newly block and no longer block. Make one with <em>Change</em>: save it as a shadow.
      </p>
    </Empty>
  );
}
