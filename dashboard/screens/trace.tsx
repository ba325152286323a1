// One trace: as a conversation, as a tree of spans with their times, or as the list of its events. First the skeleton;
// bodies are read of what is on screen. Only what the agent sent is shown: an event that came of no span has a time and
// no length.
import type { ComponentChildren } from 'preact';
import { useList, useRead } from '../core/queries.ts';
import { place, setParams } from '../core/router.ts';
import { spanText } from '../core/time.ts';
import type { EventRow, Trace as TraceOf } from '../core/types.ts';
import { CopyButton, Time } from '../parts/buttons.tsx';
import { ConversationView } from '../parts/conversation.tsx';
import { Cost } from '../parts/cost.tsx';
import { EventView } from '../parts/event-view.tsx';
import { shareUrl } from '../parts/filters.tsx';
import { useKeys } from '../parts/keys.ts';
import { Literal } from '../parts/literal.tsx';
import { AgentLink } from '../parts/named.tsx';
import { Side } from '../parts/side.tsx';
import { Empty, Reading } from '../parts/states.tsx';
import { TraceList } from '../parts/trace-list.tsx';
import { Waterfall } from '../parts/waterfall.tsx';
import '../styles/trace.css';

/** The first is shown where the address names none, and events are of types that say something. */
const VIEWS = { conversation: 'Conversation', tree: 'Tree', list: 'List' } as const;
type View = keyof typeof VIEWS;
const SAYING = new Set(['prompt', 'completion', 'tool_call']);

export function Trace() {
  const { params } = place.value;
  const trace = params.get('id') ?? '';
  const path = `v1/traces/${encodeURIComponent(trace)}?payload=preview`;
  const list = useList<EventRow>(trace === '' ? undefined : path, { name: 'events' });
  const summary = useRead<TraceOf>(
    trace === '' ? undefined : `v1/traces/${encodeURIComponent(trace)}?payload=none&limit=1`,
  );
  const open = list.items.findIndex(({ id }) => id === params.get('event'));
  useKeys({
    Escape: { does: 'Close the event', run: () => setParams({ event: undefined, of: undefined }) },
  });
  if (trace === '') return <Empty title="Which trace?">The address names none.</Empty>;
  const openId = params.get('event');
  const view = viewOf(params.get('view'), list.items);
  return (
    <div class={`screen ${openId === null ? '' : 'split'}`}>
      <section class="main" aria-label="Trace">
        <header class="bar">
          <h1 class="grow">Trace</h1>
          <Views view={view} />
          <CopyButton text={shareUrl} label="Share" />
        </header>
        <Reading of={list}>
          {summary.value !== undefined && <Summary trace={summary.value} />}
          {view === 'conversation' && <ConversationView key={trace} list={list} open={open} />}
          {view === 'tree' && <Waterfall key={trace} trace={trace} list={list} openId={openId} />}
          {view === 'list' && <TraceList list={list} open={open} />}
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

function viewOf(named: string | null, events: readonly EventRow[]): View {
  if (named !== null && Object.hasOwn(VIEWS, named)) return named as View;
  return events.length === 0 || events.some(({ type }) => SAYING.has(type)) ? 'conversation' : 'list';
}

function Views({ view }: { view: View }) {
  return (
    <div class="views" role="group" aria-label="View">
      {Object.entries(VIEWS).map(([name, label]) => (
        <button key={name} type="button" aria-pressed={name === view} onClick={() => setParams({ view: name })}>
          {label}
        </button>
      ))}
    </div>
  );
}

function Summary({ trace }: { trace: TraceOf }) {
  return (
    <dl class="trace-facts">
      <Fact name="Trace">
        <code>
          <Literal text={trace.trace_id} />
        </code>
      </Fact>
      <Fact name="Agents">
        {trace.agents.map((id) => (
          <span key={id}>
            <AgentLink id={id} />{' '}
          </span>
        ))}
      </Fact>
      <Fact name="Began">
        <Time at={trace.started_at} millis />
      </Fact>
      {trace.duration_ms > 0 && <Fact name="Lasted">{spanText(trace.duration_ms)}</Fact>}
      <Fact name="Events">{trace.event_count.toLocaleString('en')}</Fact>
      {trace.tokens_used !== null && <Fact name="Tokens">{trace.tokens_used.toLocaleString('en')}</Fact>}
      {(trace.cost !== null || trace.unpriced_events > 0) && (
        <Fact name="Cost">
          <Cost of={trace.cost} />
          {trace.cost !== null && trace.unpriced_events > 0 && (
            <span class="quiet"> without {trace.unpriced_events.toLocaleString('en')} that have no price</span>
          )}
        </Fact>
      )}
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
