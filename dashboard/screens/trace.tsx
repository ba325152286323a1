// One trace: its events in the order of time, with the gaps between them, a call beside its result. First the skeleton;
// a body is read when it is opened. Only what the agent sent is shown: an event has a time and no length, so nothing is
// drawn as a span.
import { useMemo } from 'preact/hooks';
import { type List, useList, useRead } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { spanText } from '../core/time.ts';
import type { EventRow, Trace as TraceOf } from '../core/types.ts';
import { CopyButton, Outcome, Time } from '../parts/buttons.tsx';
import { EventView } from '../parts/event-view.tsx';
import { shareUrl } from '../parts/filters.tsx';
import { useKeys } from '../parts/keys.ts';
import { Cut, Literal } from '../parts/literal.tsx';
import { AgentLink } from '../parts/named.tsx';
import { NARROW_ROW_PX, narrow, Side } from '../parts/side.tsx';
import { Empty, Reading } from '../parts/states.tsx';
import { VirtualRows } from '../parts/virtual-rows.tsx';

const ROW_PX = 40;

export function Trace() {
  const { params } = place.value;
  const trace = params.get('id') ?? '';
  const path = `v1/traces/${encodeURIComponent(trace)}?payload=preview`;
  const list = useList<EventRow>(trace === '' ? undefined : path, { name: 'events' });
  const summary = useRead<TraceOf>(
    trace === '' ? undefined : `v1/traces/${encodeURIComponent(trace)}?payload=none&limit=1`,
  );
  const open = list.items.findIndex(({ id }) => id === params.get('event'));
  const show = (index: number) => {
    const event = list.items[index];
    if (event !== undefined) setParams({ event: event.id, of: event.agent_id }, { replace: params.has('event') });
  };
  useKeys({
    j: { does: 'Next event', run: () => show(open + 1) },
    k: { does: 'Previous event', run: () => show(Math.max(0, open - 1)) },
    Escape: { does: 'Close the event', run: () => setParams({ event: undefined, of: undefined }) },
  });
  if (trace === '') return <Empty title="Which trace?">The address names none.</Empty>;
  const openId = params.get('event');
  return (
    <div class={`screen ${openId === null ? '' : 'split'}`}>
      <section class="main" aria-label="Trace">
        <header class="bar">
          <h1 class="grow">Trace</h1>
          <CopyButton text={shareUrl} label="Share" />
        </header>
        <Reading of={list}>
          {summary.value !== undefined && <Summary trace={summary.value} />}
          <Sequence list={list} open={open} />
        </Reading>
      </section>
      {openId !== null && (
        <Side label="Open event" of={openId} onClose={() => setParams({ event: undefined, of: undefined })}>
          <EventView key={openId} id={openId} agentId={params.get('of') ?? ''} />
        </Side>
      )}
    </div>
  );
}

function Summary({ trace }: { trace: TraceOf }) {
  return (
    <dl class="facts">
      <dt>Trace</dt>
      <dd>
        <code>
          <Literal text={trace.trace_id} />
        </code>
      </dd>
      <dt>Agents</dt>
      <dd>
        {trace.agents.map((id) => (
          <span key={id}>
            <AgentLink id={id} />{' '}
          </span>
        ))}
      </dd>
      <dt>Began</dt>
      <dd>
        <Time at={trace.started_at} millis />
      </dd>
      {trace.duration_ms > 0 && (
        <>
          <dt>Lasted</dt>
          <dd>{spanText(trace.duration_ms)}</dd>
        </>
      )}
      <dt>Events</dt>
      <dd>{trace.event_count.toLocaleString('en')}</dd>
      {trace.tokens_used !== null && (
        <>
          <dt>Tokens</dt>
          <dd>{trace.tokens_used.toLocaleString('en')}</dd>
        </>
      )}
    </dl>
  );
}

function Sequence({ list, open }: { list: List<EventRow>; open: number }) {
  const { params } = place.value;
  const pairs = useMemo(() => pairsOf(list.items), [list.items]);
  return (
    <VirtualRows
      label="Events of the trace, in order"
      count={list.items.length}
      rowPx={narrow.value ? NARROW_ROW_PX : ROW_PX}
      {...(open >= 0 ? { showIndex: open } : {})}
      onEnd={list.more}
      row={(index) => {
        const event = list.items[index]!;
        const before = list.items[index - 1];
        const gap = before === undefined ? 0 : Date.parse(event.timestamp) - Date.parse(before.timestamp);
        const pair = pairs.get(index);
        const next = new URLSearchParams(params);
        next.set('event', event.id);
        next.set('of', event.agent_id);
        return (
          <a
            class={`step-line ${index === open ? 'open' : ''}`}
            href={hrefOf('trace', next)}
            aria-current={index === open ? 'true' : undefined}
          >
            <span class="gap">{before === undefined ? '' : `+${spanText(gap)}`}</span>
            <span class="type">{event.type}</span>
            <span class="pair">
              {pair === undefined ? '' : pair < index ? `↑ result of ${pair + 1}` : `↓ result in ${pair + 1}`}
            </span>
            <Outcome outcome={event.policy_result.outcome} />
            <Cut text={`${index + 1}. ${event.summary}`} />
          </a>
        );
      }}
    />
  );
}

/** Events that name the same call: the first with the last of them. */
export function pairsOf(events: readonly EventRow[]): Map<number, number> {
  const first = new Map<string, number>();
  const pairs = new Map<number, number>();
  for (const [i, { payload_preview: preview = '' }] of events.entries()) {
    const call = /"(?:tool_call_id|call_id|tool_use_id)":\s*"([^"]{1,200})"/.exec(preview)?.[1];
    if (call === undefined) continue;
    const begun = first.get(call);
    if (begun === undefined) first.set(call, i);
    else {
      pairs.set(begun, i);
      pairs.set(i, begun);
    }
  }
  return pairs;
}
