// Tries policies on an event, without recording it: a recorded one (one of the newest, or the one that was open), or one
// that is written here. No counter moves. What matched says where, and what did not says which conditions did not hold.
import { useLayoutEffect, useState } from 'preact/hooks';
import { EVENT_TYPES } from '../../schemas/closed-sets.ts';
import type { ApiError } from '../core/api.ts';
import { useNames } from '../core/by-id.ts';
import { jsonWith } from '../core/json.ts';
import { useRead } from '../core/queries.ts';
import { hrefOf } from '../core/router.ts';
import { timeText } from '../core/time.ts';
import type { Evaluated, EventRow, Page } from '../core/types.ts';
import { visible } from '../core/visible.ts';
import { EventLink, Outcome, Time } from './buttons.tsx';
import { checkedJson } from './conditions-editor.tsx';
import { Field } from './dialog.tsx';
import { Literal } from './literal.tsx';
import { AgentField, useFound } from './named.tsx';
import { Problem } from './states.tsx';
import { deciderFirst, Match, Unmet } from './why.tsx';

export type Recorded = { agent_id: string; id: string };
type MadeUp = { agent_id: string; type: string; payload: string };

const NEWEST = 20;
const WRITTEN = 'written';
const PAYLOAD = '{\n  "tool": "send_money",\n  "arguments": { "amount": 5000 }\n}';

type TryProps = {
  tried: Recorded | undefined;
  /** The agent that a made-up event is of, at first. */
  scope?: string | undefined;
  /** `event`: as JSON. Rejects with an ApiError. `form`: around this. */
  ask: (event: string, form: FormData) => Promise<Evaluated>;
};

export function TryPolicy({ tried, scope, ask }: TryProps) {
  const newest = useRead<Page<EventRow>>(`v1/events?payload=none&limit=${NEWEST}`);
  const [chosen, setChosen] = useState(tried?.id);
  const [written, setWritten] = useState<MadeUp>({ agent_id: scope ?? '', type: 'tool_call', payload: PAYLOAD });
  const [answer, setAnswer] = useState<{ of: Recorded | undefined; says: Evaluated }>();
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const rows = newest.value?.items ?? [];
  const events: Recorded[] = [
    ...(tried === undefined || rows.some(({ id }) => id === tried.id) ? [] : [tried]),
    ...rows,
  ];
  const nameOf = useNames(
    'agents',
    events.map((one) => one.agent_id),
  );
  const some = useFound('agents', '', 1).value?.items[0]?.id;
  const event = chosen === WRITTEN ? undefined : (events.find(({ id }) => id === chosen) ?? events[0]);
  // The newest of now stays the one that is tried.
  useLayoutEffect(() => setChosen((before) => before ?? event?.id), [event?.id]);
  const madeUp = { ...written, agent_id: written.agent_id || (some ?? '') };
  const run = async (form: HTMLFormElement) => {
    if (busy) return;
    setBusy(true);
    setError(undefined);
    setAnswer(undefined);
    try {
      setAnswer({ of: event, says: await ask(eventOf(event, madeUp), new FormData(form)) });
    } catch (refusal) {
      setError(refusal as ApiError);
    } finally {
      setBusy(false);
    }
  };
  if (tried === undefined && newest.waiting && newest.error === undefined) return <small>Loading …</small>;
  return (
    <>
      {newest.error !== undefined && <Problem error={newest.error} retry={newest.retry} />}
      <div class="bar">
        <select
          aria-label="Event"
          value={event?.id ?? WRITTEN}
          onChange={({ currentTarget }) => {
            setChosen(currentTarget.value);
            setAnswer(undefined);
          }}
        >
          {events.map((one) => (
            <option key={one.id} value={one.id}>
              {visible(nameOf(one.agent_id))} · {'type' in one ? told(one as EventRow) : one.id}
            </option>
          ))}
          <option value={WRITTEN}>An event that I write</option>
        </select>
        {(event !== undefined || madeUp.agent_id !== '') && (
          <button type="button" aria-busy={busy} onClick={({ currentTarget }) => void run(currentTarget.form!)}>
            Try
          </button>
        )}
      </div>
      {event === undefined && <Written event={madeUp} onChange={setWritten} />}
      {error !== undefined && <Problem error={error} />}
      <div role="status">{answer !== undefined && <Says of={answer.of} says={answer.says} />}</div>
    </>
  );
}

/** Throws ApiError, naming the place of what is no JSON. */
function eventOf(recorded: Recorded | undefined, { payload, ...madeUp }: MadeUp): string {
  if (recorded !== undefined) return JSON.stringify({ agent_id: recorded.agent_id, id: recorded.id });
  return jsonWith(madeUp, { payload: checkedJson(payload, 'payload') });
}

function told({ type, timestamp, policy_result: { outcome } }: EventRow): string {
  return `${type} · ${outcome} · ${timeText(timestamp)}`;
}

type WrittenProps = { event: MadeUp; onChange: (event: MadeUp) => void };

function Written({ event, onChange }: WrittenProps) {
  if (event.agent_id === '') return <small>Every event belongs to an agent: register one first.</small>;
  return (
    <>
      <div class="columns">
        <AgentField
          label="Agent of the event"
          value={event.agent_id}
          onValue={(id) => onChange({ ...event, agent_id: id })}
        />
        <Field label="Type of the event">
          <select
            value={event.type}
            onChange={({ currentTarget }) => onChange({ ...event, type: currentTarget.value })}
          >
            {EVENT_TYPES.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </Field>
      </div>
      <Field label="Payload (JSON)">
        <textarea
          spellcheck={false}
          rows={Math.max(4, event.payload.split('\n').length)}
          value={event.payload}
          onInput={({ currentTarget }) => onChange({ ...event, payload: currentTarget.value })}
        />
      </Field>
    </>
  );
}

function Says({ of, says: { judged, policy_result: result } }: { of: Recorded | undefined; says: Evaluated }) {
  const [first] = judged;
  const isDraft = first?.policy_id.startsWith('/') === true;
  const others = judged.filter(({ result: found }) => found !== 'matched');
  return (
    <>
      <p>
        {of === undefined ? (
          'The event'
        ) : (
          <EventLink agentId={of.agent_id} id={of.id}>
            The event
          </EventLink>
        )}{' '}
        {isDraft ? SAYS[first.result] : 'by the policies in force would be'} <Outcome outcome={result.outcome} />
      </p>
      <ul class="matches">
        {deciderFirst(result.matches, result.policy_id).map((match) => (
          <Match key={match.policy_id} match={match} decided={match.policy_id === result.policy_id} isDraft={isDraft} />
        ))}
        {others.map((one) => (
          <NotMatched key={one.policy_id} one={one} isDraft={isDraft} />
        ))}
      </ul>
    </>
  );
}

const SAYS = {
  matched: 'would match, and by this policy alone be',
  not_matched: 'would not match, and by this policy alone be',
  counted: 'would be counted; until the limit is over it is',
  asked: 'would be asked about by its check, which was not called; without it it is',
  not_started: 'would not be judged yet, and is',
};

type Judged = Evaluated['judged'][number];

const RESULTS = {
  ...{ matched: 'matched', not_matched: 'did not match', counted: 'would count it', asked: 'would ask its check' },
  not_started: 'is not in force yet',
};

function NotMatched({ one, isDraft }: { one: Judged; isDraft: boolean }) {
  const { policy_id: id, name, result, unmet = [], starts_at: at } = one;
  return (
    <li>
      {isDraft ? (
        <Literal text={name} />
      ) : (
        <a href={hrefOf('policies', { id })}>
          <Literal text={name} />
        </a>
      )}{' '}
      <span class="quiet">
        {RESULTS[result]}
        {at !== undefined && (
          <>
            , from <Time at={at} />
          </>
        )}
      </span>
      <Unmet conditions={unmet} />
    </li>
  );
}
