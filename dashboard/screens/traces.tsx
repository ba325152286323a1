// The list of traces: runs of agents by what was asked first, the newest first or by another of their values.
import type { TraceSort } from '../../schemas/closed-sets.ts';
import { query } from '../core/api.ts';
import { useNames } from '../core/by-id.ts';
import { many } from '../core/plural.ts';
import { useList } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { rangeOf, spanText } from '../core/time.ts';
import type { Trace } from '../core/types.ts';
import { CopyButton, Outcome, Time } from '../parts/buttons.tsx';
import { type Column, ColumnMenu, chosenColumns, ListLine } from '../parts/columns.tsx';
import { Cost } from '../parts/cost.tsx';
import { Filters, Search, shareUrl, TimeRange } from '../parts/filters.tsx';
import { Cut } from '../parts/literal.tsx';
import { NARROW_ROW_PX, narrow } from '../parts/side.tsx';
import { Empty, Reading } from '../parts/states.tsx';
import { ViewMenu } from '../parts/view-menu.tsx';
import { VirtualRows } from '../parts/virtual-rows.tsx';

export function Traces() {
  const { params } = place.value;
  const [sort, order] = [params.get('sort') ?? undefined, params.get('order') ?? undefined];
  const filters = { ...rangeOf(params), agent_id: params.getAll('agent_id'), q: params.get('q') ?? undefined };
  const list = useList<Trace>(`v1/traces${query({ ...filters, sort, order })}`);
  const nameOf = useNames(
    'agents',
    list.items.flatMap((trace) => trace.agents),
  );
  const columns = columnsOf(nameOf);
  const shown = chosenColumns(columns);
  const isWhole = filters.q === undefined && filters.agent_id.length === 0 && filters.from === undefined;
  return (
    <div class="screen">
      <header class="bar">
        <h1 class="grow">Traces</h1>
        <Search label="Words in an event" />
        <TimeRange />
        <CopyButton text={shareUrl} label="Share" />
      </header>
      <div class="bar">
        <Filters specs={[{ name: 'agent_id', label: 'Agent', choices: [], found: 'agents' }]} />
        <Sorting />
        <ColumnMenu columns={columns} />
        <ViewMenu screen="traces" />
      </div>
      <Reading
        of={list}
        empty={
          list.items.length === 0 && (
            <Empty title={isWhole ? 'No traces here' : 'Nothing fits these filters'}>
              <p>
                A trace is what events with the same <code>trace_id</code> are. Send one with each event of a run.
              </p>
            </Empty>
          )
        }
      >
        <p class="quiet">{many(list.total, 'trace')}</p>
        <VirtualRows
          label={sort === undefined && order === undefined ? 'Traces, newest first' : 'Traces'}
          remembers
          count={list.items.length}
          rowPx={narrow.value ? NARROW_ROW_PX : 34}
          onEnd={list.more}
          row={(index) => {
            const trace = list.items[index]!;
            return (
              <ListLine
                row={trace}
                href={hrefOf('trace', { id: trace.trace_id })}
                leadWidths="110px"
                lead={<Time at={trace.started_at} ago />}
                said={<Cut text={trace.asked || trace.trace_id} />}
                columns={shown}
              />
            );
          }}
        />
      </Reading>
    </div>
  );
}

const SORTS: Record<TraceSort, string> = {
  started_at: 'when they began',
  duration: 'duration',
  tokens: 'tokens',
  cost: 'cost',
  events: 'events',
  blocked: 'blocked events',
  errors: 'errors',
};

function Sorting() {
  const { params } = place.value;
  const order = params.get('order') ?? 'desc';
  const isByTime = !params.has('sort');
  return (
    <span class="bar">
      <label>
        Sorted by{' '}
        <select
          value={params.get('sort') ?? 'started_at'}
          onChange={({ currentTarget: { value } }) => setParams({ sort: value === 'started_at' ? undefined : value })}
        >
          {Object.entries(SORTS).map(([name, label]) => (
            <option key={name} value={name}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span class="hidden">Direction</span>
        <select
          value={order}
          onChange={({ currentTarget: { value } }) => setParams({ order: value === 'desc' ? undefined : value })}
        >
          <option value="desc">{isByTime ? 'newest' : 'most'} first</option>
          <option value="asc">{isByTime ? 'oldest' : 'least'} first</option>
        </select>
      </label>
    </span>
  );
}

function columnsOf(nameOf: (id: string) => string): Column<Trace>[] {
  return [
    {
      ...{ name: 'agents', label: 'Agents', width: 'minmax(110px, 1fr)', isUsual: true },
      cell: ({ agents }) => <Cut text={agents.map(nameOf).join(', ')} />,
    },
    {
      ...{ name: 'id', label: 'Trace id', width: 'minmax(0, 1fr)' },
      cell: ({ trace_id: id }) => <Cut text={id} />,
    },
    {
      ...{ name: 'events', label: 'Events', width: '80px', isUsual: true, isNumber: true },
      cell: ({ event_count: count }) => `${count.toLocaleString('en')} ${count === 1 ? 'event' : 'events'}`,
    },
    {
      ...{ name: 'duration', label: 'Duration', width: '70px', isUsual: true, isNumber: true },
      cell: ({ duration_ms: duration }) => duration > 0 && spanText(duration),
    },
    {
      ...{ name: 'tokens', label: 'Tokens', width: '110px', isUsual: true, isNumber: true },
      cell: ({ tokens_used: tokens }) => tokens !== null && `${tokens.toLocaleString('en')} tokens`,
    },
    {
      ...{ name: 'cost', label: 'Cost', width: '100px', isUsual: true, isNumber: true },
      cell: ({ cost, unpriced_events: unpriced }) => (cost !== null || unpriced > 0) && <Cost of={cost} />,
    },
    {
      ...{ name: 'outcomes', label: 'Blocked, waiting, errors', width: '150px', isUsual: true },
      cell: ({ outcomes, counts }) => (
        <>
          {Object.entries(outcomes)
            .filter(([outcome]) => outcome !== 'allowed')
            .map(([outcome, count]) => (
              <span key={outcome}>
                {count} <Outcome outcome={outcome} />
              </span>
            ))}
          {counts['error'] !== undefined && (
            <span>
              {counts['error']} {counts['error'] === 1 ? 'error' : 'errors'}
            </span>
          )}
        </>
      ),
    },
  ];
}
