// One event of a conversation: who said what, and in its place what a policy stopped or changed of it, with the reason.
// Its body is read when it comes on screen; where the preview is all of it, the preview is taken.
// Failure: a body that cannot be read leaves the preview with the error beside it.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Conversation, ShownMessage, ShownPart } from '../core/conversation-messages.ts';
import type { ConversationReader } from '../core/conversation-reader.ts';
import { useRead } from '../core/queries.ts';
import { readablePreview } from '../core/tokens.ts';
import type { EventRow, WholeEvent } from '../core/types.ts';
import { Outcome, Time } from './buttons.tsx';
import { Part } from './conversation-part.tsx';
import { Cut, Literal } from './literal.tsx';
import { Payload } from './payload.tsx';
import { deciderFirst, Match, Redaction } from './why.tsx';

/** `since`: words for the time since the event before. `href`: opens it beside. `hasFocus`: it was gone to by a key. */
type TurnProps = {
  event: EventRow;
  place: number;
  since: string;
  pair: string;
  href: string;
  isCurrent: boolean;
  hasFocus: boolean;
  onFocused: () => void;
  isRaw: boolean;
  onRaw: () => void;
  reader: ConversationReader;
};

export function Turn(props: TurnProps) {
  const { event, place, isCurrent, hasFocus, onFocused, isRaw, reader } = props;
  const box = useRef<HTMLElement>(null);
  const preview = event.payload_preview ?? '';
  const isWhole = useMemo(() => new TextEncoder().encode(preview).length === event.payload_bytes, [event]);
  const path = `v1/agents/${encodeURIComponent(event.agent_id)}/events/${encodeURIComponent(event.id)}`;
  reader.version.value;
  const conversation = reader.of(event.id);
  const reading = useRead<WholeEvent>(!isWhole && (conversation === undefined || isRaw) ? path : undefined);
  const payload = isWhole ? preview : reading.value?.payload.text;
  useEffect(() => {
    if (payload !== undefined && conversation === undefined)
      reader.ask({ id: event.id, place, payload, type: event.type });
  }, [payload, conversation]);
  useEffect(() => {
    if (!isCurrent || !hasFocus) return;
    box.current?.focus({ preventScroll: true });
    onFocused(); // once: it comes and goes as the box is scrolled
  }, [isCurrent, hasFocus]);
  return (
    <article
      ref={box}
      class={`turn ${isCurrent ? 'current' : ''} ${event.policy_result.outcome}`}
      aria-label={`${place + 1}. ${event.type}`}
      aria-current={isCurrent ? 'true' : undefined}
      tabIndex={-1}
    >
      <Head {...props} facts={conversation?.facts ?? []} />
      <Judged event={event} payload={payload} />
      {isRaw ? (
        <Raw payload={payload} />
      ) : conversation ? (
        <Messages conversation={conversation} event={event} place={place} reader={reader} />
      ) : (
        <Cut preview text={readablePreview(preview)} />
      )}
      {reading.error !== undefined && (
        <p class="quiet" role="alert">
          {reading.error.message}{' '}
          <button type="button" onClick={reading.retry}>
            Try again
          </button>
        </p>
      )}
    </article>
  );
}

function Head({ event, place, since, pair, href, isRaw, onRaw, facts }: TurnProps & { facts: readonly string[] }) {
  const { outcome } = event.policy_result;
  return (
    <header class="turn-head">
      <span class="turn-place">{place + 1}</span>
      <span class="turn-type">{event.type}</span>
      {outcome !== 'allowed' && <Outcome outcome={outcome} />}
      <span class="quiet">{since === '' ? <Time at={event.timestamp} millis /> : since}</span>
      {facts.map((fact) => (
        <span key={fact} class="quiet turn-fact">
          <Literal text={fact} />
        </span>
      ))}
      {pair !== '' && <span class="quiet">{pair}</span>}
      <span class="grow" />
      <button type="button" class="link" aria-pressed={isRaw} onClick={onRaw}>
        Raw
      </button>
      <a href={href}>Open</a>
    </header>
  );
}

function Raw({ payload }: { payload: string | undefined }) {
  return payload === undefined ? <p class="quiet">Reading …</p> : <Payload text={payload} />;
}

/** The result of the policies for the event. Matches that changed nothing are folded. */
function Judged({ event: { policy_result: result }, payload }: { event: EventRow; payload: string | undefined }) {
  const { outcome, reason, matches, policy_id: decided } = result;
  if (outcome === 'allowed' && matches.length === 0) return null;
  const list = (
    <ul class="matches">
      {deciderFirst(matches, decided).map((match) => (
        <Match key={match.policy_id} match={match} decided={match.policy_id === decided} />
      ))}
    </ul>
  );
  if (outcome === 'allowed')
    return (
      <>
        {matches
          .filter(({ type }) => type === 'data_filter')
          .map((match) => (
            <Redaction key={match.policy_id} match={match} payload={payload} />
          ))}
        <details class="part judged-part">
          <summary>{matches.length === 1 ? 'A policy matched' : `${matches.length} policies matched`}</summary>
          {list}
        </details>
      </>
    );
  return (
    <section class={`judged ${outcome}`} aria-label="What a policy made of it">
      {reason === 'agent_inactive' && <p>The agent is switched off.</p>}
      {reason === 'approval' && <p>A person decided, or the time for it was over.</p>}
      {list}
    </section>
  );
}

/** As many are on screen at once; the others are behind a button. */
const MESSAGES_SHOWN = 20;

type MessagesProps = { conversation: Conversation; event: EventRow; place: number; reader: ConversationReader };
type Run = { repeated: boolean; from: number; messages: ShownMessage[] };

/** Types of events that carry no history: the same call again is a call. */
const SAYS_ITS_OWN = new Set(['tool_call', 'error']);

function Messages({ conversation, event: { id, type }, place, reader }: MessagesProps) {
  const { messages, earlier } = conversation;
  const results = useMemo(() => resultsIn(messages), [conversation]);
  const runs = runsOf(messages, (message, at) => {
    const isNew = SAYS_ITS_OWN.has(type) || (at === messages.length - 1 && message.role !== 'tool');
    return !isNew && reader.isRepeated(message, place);
  });
  return (
    <>
      {earlier > 0 && <p class="quiet">{earlier.toLocaleString('en')} messages before these are in the payload.</p>}
      {runs.map((run) => (
        <RunOfMessages key={run.from} run={run} id={id} reader={reader} results={results} />
      ))}
    </>
  );
}

type RunProps = { run: Run; id: string; reader: ConversationReader; results: Results };

function RunOfMessages({ run: { repeated, from, messages }, id, reader, results }: RunProps) {
  const key = `${id}/run/${from}`;
  const hidden = repeated ? messages.length : Math.max(0, messages.length - MESSAGES_SHOWN);
  const isUnfolded = reader.unfolded.has(key);
  const shown = isUnfolded ? messages : messages.slice(hidden);
  const count = `${hidden.toLocaleString('en')} ${hidden === 1 ? 'message' : 'messages'}`;
  return (
    <>
      {hidden > 0 && (
        <button
          type="button"
          class="link repeated"
          aria-expanded={isUnfolded}
          onClick={() => {
            if (!reader.unfolded.delete(key)) reader.unfolded.add(key);
            reader.version.value++;
          }}
        >
          {repeated ? `${count} as before` : `${count} before these`}
        </button>
      )}
      {shown.map((message, i) => (
        <OneMessage
          key={from + messages.length - shown.length + i}
          message={message}
          place={`${id}/${from + messages.length - shown.length + i}`}
          reader={reader}
          results={results}
        />
      ))}
    </>
  );
}

/** Gathers neighbours that are alike: said before, or new. */
function runsOf(messages: readonly ShownMessage[], isRepeated: (message: ShownMessage, at: number) => boolean): Run[] {
  const runs: Run[] = [];
  for (const [at, message] of messages.entries()) {
    const repeated = isRepeated(message, at);
    const last = runs.at(-1);
    if (last !== undefined && last.repeated === repeated) last.messages.push(message);
    else runs.push({ repeated, from: at, messages: [message] });
  }
  return runs;
}

/** The result of a call, and which results stand with their calls. */
type Results = { of: ReadonlyMap<ShownPart, ShownPart>; taken: ReadonlySet<ShownPart> };

function resultsIn(messages: readonly ShownMessage[]): Results {
  const of = new Map<ShownPart, ShownPart>();
  const taken = new Set<ShownPart>();
  const calls: (ShownPart & { kind: 'call' })[] = [];
  for (const part of messages.flatMap(({ parts }) => parts)) {
    if (part.kind === 'call') calls.push(part);
    if (part.kind !== 'result') continue;
    const open = calls.filter((call) => !of.has(call));
    const call =
      part.id === ''
        ? open.find(({ tool, id }) => id === '' && (tool === part.tool || part.tool === ''))
        : open.find(({ id }) => id === part.id);
    if (call === undefined) continue;
    of.set(call, part);
    taken.add(part);
  }
  return { of, taken };
}

/** Roles that have a colour. */
const ROLES = new Set(['user', 'assistant', 'system', 'developer', 'tool', 'error']);

type OneProps = { message: ShownMessage; place: string; reader: ConversationReader; results: Results };

function OneMessage({ message: { role, name, parts }, place, reader, results: { of, taken } }: OneProps) {
  const shown = parts.filter((part) => !taken.has(part));
  if (shown.length === 0) return null;
  return (
    <div class={`message by-${ROLES.has(role) ? role : 'other'}`}>
      <div class="message-role">
        <Literal text={role} />
        {name !== '' && (
          <span class="quiet">
            {' '}
            <Literal text={name} />
          </span>
        )}
      </div>
      <div class="message-parts">
        {shown.map((part, i) => (
          <Part key={i} part={part} result={of.get(part)} place={`${place}/${i}`} reader={reader} />
        ))}
      </div>
    </div>
  );
}
