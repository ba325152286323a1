// Backtests, newest first: of the account, or of one policy.
import { triedOf, useBacktests } from '../core/backtests.ts';
import { useWhole } from '../core/queries.ts';
import { hrefOf, place } from '../core/router.ts';
import { Time } from './buttons.tsx';
import { Literal } from './literal.tsx';
import { Empty, More, Reading } from './states.tsx';
import { Table } from './table.tsx';

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
    <Reading of={list} empty={shown.length === 0 && !list.hasMore && <None />}>
      <Table
        head={['Tried', 'Events from', 'to', 'Status', 'Made']}
        rows={shown.map((one) => ({
          key: one.id,
          isOpen: one.id === params.get('backtest'),
          cells: [
            <>
              <a href={hrefFor(one.id)}>
                <Literal text={triedOf(one).name} />
              </a>
              <div class="quiet">{one.revision === null ? 'draft' : `revision ${one.revision}`}</div>
            </>,
            <Time at={one.from} />,
            <Time at={one.to} />,
            <span class={`badge ${one.status}`}>{one.status}</span>,
            <Time at={one.created_at} ago />,
          ],
        }))}
      />
      <More of={list} />
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
