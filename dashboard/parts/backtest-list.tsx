// Backtests, newest first: of the account, or of one policy.
import { triedOf, useBacktests } from '../core/backtests.ts';
import { useWhole } from '../core/queries.ts';
import { hrefOf, place } from '../core/router.ts';
import { Time } from './buttons.tsx';
import { Empty, Reading } from './states.tsx';

export function BacktestList({ policyId }: { policyId?: string }) {
  const list = useBacktests();
  useWhole(list, policyId !== undefined);
  const { params } = place.value;
  const shown = list.items.filter(({ policy_id: id }) => policyId === undefined || id === policyId);
  const hrefFor = (id: string) => {
    const next = new URLSearchParams(params);
    if (policyId === undefined) next.delete('id');
    next.set('backtest', id);
    return hrefOf('policies', next);
  };
  return (
    <Reading of={list} {...(shown.length === 0 && !list.hasMore ? { empty: <None /> } : {})}>
      <table class="wide">
        <thead>
          <tr>
            <th scope="col">Tried</th>
            <th scope="col">Events from</th>
            <th scope="col">to</th>
            <th scope="col">Status</th>
            <th scope="col">Made</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((one) => (
            <tr key={one.id} class={one.id === params.get('backtest') ? 'open' : ''}>
              <th scope="row">
                <a href={hrefFor(one.id)}>{triedOf(one).name}</a>
                <div class="quiet">{one.revision === null ? 'draft' : `revision ${one.revision}`}</div>
              </th>
              <td>
                <Time at={one.from} />
              </td>
              <td>
                <Time at={one.to} />
              </td>
              <td>
                <span class={`badge ${one.status}`}>{one.status}</span>
              </td>
              <td>
                <Time at={one.created_at} ago />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {list.hasMore && (
        <button type="button" onClick={list.more}>
          More of {list.total.toLocaleString('en')}
        </button>
      )}
    </Reading>
  );
}

function None() {
  return (
    <Empty title="No backtests">
      <p>
        A backtest replays a policy over events that were recorded, and says which of them would have been blocked, and
        which no longer. Nothing is changed by it. Start one from the editor of a policy, or from one of its revisions.
      </p>
    </Empty>
  );
}
