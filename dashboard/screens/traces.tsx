// The list of traces: runs of agents, the newest first.
import { query } from '../core/api.ts';
import { useNames } from '../core/by-id.ts';
import { useList } from '../core/queries.ts';
import { hrefOf, place } from '../core/router.ts';
import { rangeOf, spanText } from '../core/time.ts';
import type { Trace } from '../core/types.ts';
import { Outcome, Time } from '../parts/buttons.tsx';
import { Filters, TimeRange } from '../parts/filters.tsx';
import { Cut } from '../parts/literal.tsx';
import { NARROW_ROW_PX, narrow } from '../parts/side.tsx';
import { Empty, Reading } from '../parts/states.tsx';
import { VirtualRows } from '../parts/virtual-rows.tsx';

export function Traces() {
  const { params } = place.value;
  const agents = params.getAll('agent_id');
  const list = useList<Trace>(`v1/traces${query({ ...rangeOf(params), agent_id: agents })}`);
  const nameOf = useNames(
    'agents',
    list.items.flatMap((trace) => trace.agents),
  );
  return (
    <div class="screen">
      <header class="bar">
        <h1 class="grow">Traces</h1>
        <TimeRange />
      </header>
      <Filters specs={[{ name: 'agent_id', label: 'Agent', choices: [], found: 'agents' }]} />
      <Reading
        of={list}
        {...(list.items.length === 0
          ? {
              empty: (
                <Empty title="No traces here">
                  <p>
                    A trace is what events with the same <code>trace_id</code> are. Send one with each event of a run.
                  </p>
                </Empty>
              ),
            }
          : {})}
      >
        <p class="quiet">{list.total.toLocaleString('en')} traces</p>
        <VirtualRows
          label="Traces, newest first"
          count={list.items.length}
          rowPx={narrow.value ? NARROW_ROW_PX : 34}
          onEnd={list.more}
          row={(index) => {
            const trace = list.items[index]!;
            return (
              <a class="trace-line" href={hrefOf('trace', { id: trace.trace_id })}>
                <Time at={trace.started_at} />
                <Cut text={trace.trace_id} />
                <Cut text={trace.agents.map(nameOf).join(', ')} />
                <span>{trace.event_count} events</span>
                <span>{trace.duration_ms > 0 && spanText(trace.duration_ms)}</span>
                <span>{trace.tokens_used === null ? '' : `${trace.tokens_used.toLocaleString('en')} tokens`}</span>
                <span>
                  {Object.entries(trace.outcomes)
                    .filter(([outcome]) => outcome !== 'allowed')
                    .map(([outcome, count]) => (
                      <span key={outcome}>
                        {count} <Outcome outcome={outcome} />{' '}
                      </span>
                    ))}
                </span>
              </a>
            );
          }}
        />
      </Reading>
    </div>
  );
}
