// Judges and records the spans of one request (in the judging thread): decoded and sorted by agent, in parts that are
// recorded at once.
// Invariant: a span is recorded once, in whatever request it comes. A part has an Idempotency-Key by its agent and its
// spans, so that what is sent again finds it; streams/span-notes.ts says which of its spans are in another part. The
// part's key is taken before its spans are claimed, and its append is refused where the key was lost: whenever this
// ends, each span is in one part that is recorded, or in none.
// Failure: ServiceError; what was recorded stays, and is found when the request is sent again.
import type { AgentRecord } from '../../schemas/agent.ts';
import type { JsonObject } from '../../schemas/common.ts';
import { ServiceError } from '../common/errors.ts';
import { isId, timeOfId } from '../common/ids.ts';
import { IDEMPOTENCY_KEPT_MS } from '../common/limits.ts';
import { type OtlpSignal, Undecodable } from '../otlp/span.ts';
import {
  countOf,
  type FoundSpans,
  groupsOf,
  type KeptSpan,
  mayBeKnownSoon,
  nothingKept,
  type OwnedSpan,
  partId,
  partsOf,
  readSpans,
  reject,
  type SpanCounts,
  type SpanGroup,
  type SpanPart,
  type SpanSubmission,
} from '../otlp/span-groups.ts';
import { type AgentRef, agentKey, type ResolvedAgent } from '../otlp/span-owners.ts';
import type { Keys } from '../redis/keys.ts';
import type { OnceKey } from '../streams/append-once.ts';
import { noteName, SEVERAL } from '../streams/span-notes.ts';
import type { Codec } from './codec.ts';
import { isSameCall, readPayload } from './decided-calls.ts';
import type { IngestRequest } from './ingest-parts.ts';
import type { CallName, Calls, DecidedEvent, SpansMessage } from './judging-messages.ts';
import { type AskedBefore, observedCodec } from './observed-codec.ts';
import { isTimely } from './submission.ts';

type SpanJudgingParts = {
  keys: Keys;
  eventBytesMax: number;
  /** Asks the front. */
  call<Name extends CallName>(name: Name, args: Calls[Name]['args']): Promise<Calls[Name]['answer']>;
  /** Judges and appends under the key that is taken; frees it where it fails. */
  submit(request: IngestRequest, codec: Codec, of: { agent: AgentRecord; token: string }): Promise<void>;
};
/** The work of a request. `traces`: the agent that it names in each, or SEVERAL. */
type Work = {
  message: SpansMessage;
  decided: ReadonlyMap<string, DecidedEvent & { call: JsonObject | undefined }>;
  traces: ReadonlyMap<string, string>;
};

/** Events that the spans of a request may say were decided before; of any more nothing is asked. */
const DECIDED_MAX = 500;
/** Notes that the front reads for it: a millisecond of the loop that answers. */
const ASKED_AT_ONCE = 500;

export class SpanJudging {
  readonly #parts: SpanJudgingParts;

  constructor(parts: SpanJudgingParts) {
    this.#parts = parts;
  }

  /** As SubmittedSpans. */
  async record(message: SpansMessage, nowMs: number): Promise<SpanCounts & { awaited: string[][] }> {
    const { boundTo, signal = 'traces', isAgain } = message;
    const isTime = (occurredAt: number) => isTimely(occurredAt, nowMs);
    const found = readOrRefused(signal, () => readSpans(message, { boundTo, isTimely: isTime }));
    const known = await this.#owners(found, message);
    const mayWait = signal === 'traces' && !isAgain;
    const waiting = new Set(mayWait ? found.kept.filter((span) => mayBeKnownSoon(span, known)) : []);
    if (waiting.size > 0) found.kept = found.kept.filter((span) => !waiting.has(span));
    const groups = groupsOf(found, known);
    const refs = groups.map(({ agent }) => agent);
    const agents = refs.length === 0 ? [] : await this.#parts.call('agents', { refs });
    const kept: { spans: readonly OwnedSpan[]; agent: ResolvedAgent }[] = [];
    for (const [i, { spans }] of groups.entries()) {
      const agent = agents[i]!;
      if (typeof agent === 'object') kept.push({ spans, agent });
      else reject(found, `${spans[0]!.place}: ${agent}`, countOf(spans));
    }
    if (found.rejected > 0 && kept.length + waiting.size === 0) throw refusedAs(signal, nothingKept(found));
    const work = { message, decided: await this.#decided(found.kept, nowMs), traces: tracesOf(found, groups, agents) };
    for (const { spans, agent } of kept)
      for (const part of partsOf(spans, this.#parts.eventBytesMax, agent.asName))
        await this.#recordPart(part, agent.record, work);
    const { spans, ignored, rejected, reasons } = found;
    return { spans, ignored, rejected, reasons, awaited: this.#awaited(waiting, message) };
  }

  /** Each pair of notes once. */
  #awaited(waiting: Iterable<KeptSpan>, message: SpansMessage): string[][] {
    const pairs = new Map<string, string[]>();
    for (const { traceId, owner } of waiting) {
      const [outside, trace] = [traceId + owner.outside, this.#note(message, 'trace', traceId)];
      if (!pairs.has(outside)) pairs.set(outside, [this.#note(message, 'span', traceId, owner.outside!), trace]);
    }
    return [...pairs.values()];
  }

  /** Finds the owners of the spans at which the request ends, and of their traces: as groupsOf takes them. */
  async #owners({ kept }: FoundSpans, message: SpansMessage): Promise<ReadonlyMap<string, string>> {
    const names = new Map<string, string>();
    for (const { traceId, owner } of kept) {
      if (owner.outside === undefined) continue;
      names.set(traceId, this.#note(message, 'trace', traceId));
      names.set(traceId + owner.outside, this.#note(message, 'span', traceId, owner.outside));
    }
    const [asked, notes] = [[...names.keys()], [...names.values()]];
    const known = new Map<string, string>();
    for (let from = 0; from < notes.length; from += ASKED_AT_ONCE) {
      const agents = await this.#parts.call('owners', { notes: notes.slice(from, from + ASKED_AT_ONCE) });
      for (const [i, agent] of agents.entries()) if (agent !== null) known.set(asked[from + i]!, agent);
    }
    return known;
  }

  #note({ account, boundTo = '' }: SpansMessage, ...of: readonly string[]): string {
    return noteName(this.#parts.keys, account, { scope: boundTo, of });
  }

  /**
   * By their ids. What is not stored yet is judged as if it had not been asked about, and so is what is older than the
   * note that it was used.
   */
  async #decided(kept: readonly KeptSpan[], nowMs: number): Promise<Work['decided']> {
    const isNew = (id: string) => isId('event', id) && timeOfId(id) > nowMs - IDEMPOTENCY_KEPT_MS;
    const asked = [...new Set(kept.flatMap(({ decisionId }) => decisionId ?? []))];
    const ids = asked.filter(isNew).slice(0, DECIDED_MAX);
    const events = ids.length === 0 ? [] : await this.#parts.call('decided', { ids });
    return new Map(events.map((event) => [event.id, { ...event, call: readPayload(event.payloadText) }]));
  }

  async #recordPart(part: SpanPart, agent: AgentRecord, work: Work): Promise<void> {
    const { account, requestId } = work.message;
    const key = `\0part/${work.message.boundTo ?? ''}/${agent.id}/${partId(part)}`;
    const once: OnceKey = { partition: this.#parts.keys.partitionOf(account, agent.id), account, key };
    const begun = await this.#parts.call('begin', { ...once, fingerprint: FINGERPRINT }).catch(waits);
    if (begun.state === 'replay') return;
    const { token } = begun;
    const pieces = await this.#claimed(part, once, { agent, work }).catch(async (error: unknown) => {
      await this.#parts.call('release', { ...once, token });
      throw error;
    });
    const events = pieces.map(({ event }) => event);
    const codec = observedCodec(
      events,
      pieces.map(({ asked }) => asked),
    );
    const request: IngestRequest = {
      ...{ account, agentId: agent.id, shape: 'many', body: NO_BODY, requestId, idempotencyKey: key },
    };
    await this.#parts.submit(request, codec, { agent, token });
  }

  /** The events that are recorded with this part, in the order of time. */
  async #claimed(part: SpanPart, once: OnceKey, { agent, work }: { agent: AgentRecord; work: Work }): Promise<Piece[]> {
    const pieces = part.flatMap(({ span, events }) =>
      events.map((event): Piece => ({ span, event, asked: askedBefore(event, agent, work.decided) })),
    );
    const asking = pieces.filter(({ asked }) => asked !== undefined);
    const { message } = work;
    const traceIds = [...new Set(part.map(({ span }) => span.traceId))];
    const claimed = await this.#parts.call('claim', {
      part: once,
      spans: part.map(({ span }) => {
        const note = this.#note(message, 'span', span.traceId, span.spanId);
        return { note, agent: span.isNamed ? agent.id : '' };
      }),
      traces: traceIds.flatMap((traceId) => {
        const named = work.traces.get(traceId);
        return named === undefined ? [] : { note: this.#note(message, 'trace', traceId), agent: named };
      }),
      decisions: asking.map(({ span, asked }) => {
        // Whichever key sends it: agent, tool and arguments are compared.
        const note = noteName(this.#parts.keys, message.account, { scope: '', of: ['decision', asked!.before.id] });
        return { note, span: span.traceId + span.spanId };
      }),
    });
    if (claimed.spans.includes('running')) throw stillRunning();
    const ofOthers = new Set(asking.filter((_, i) => !claimed.decisions[i]));
    const own = new Set(part.filter((_, i) => claimed.spans[i] === 'own').map(({ span }) => span));
    return pieces
      .filter(({ span }) => own.has(span))
      .map((piece) => (ofOthers.has(piece) ? { ...piece, asked: undefined } : piece))
      .sort((a, b) => a.event.occurredAt - b.event.occurredAt);
  }
}

type Piece = { span: OwnedSpan; event: SpanSubmission; asked: AskedBefore | undefined };

/** A part is what its key says. */
const FINGERPRINT = 'spans';
const NO_BODY = Buffer.alloc(0);

function tracesOf(
  { ofTraces }: FoundSpans,
  groups: readonly SpanGroup[],
  agents: readonly (ResolvedAgent | string)[],
): ReadonlyMap<string, string> {
  const ids = new Map(groups.map(({ agent }, i) => [agentKey(agent), agents[i]!]));
  const idOfRef = (ref: AgentRef | null) => {
    if (ref === null) return SEVERAL;
    const agent = ids.get(agentKey(ref));
    return typeof agent === 'object' ? agent.record.id : undefined;
  };
  const named = [...ofTraces].map(([traceId, ref]) => [traceId, idOfRef(ref)] as const);
  return new Map(named.filter((one): one is [string, string] => one[1] !== undefined));
}

/**
 * The decision that a call of a tool says it is of: of the same agent, the same tool and the same arguments. Its record
 * may have been redacted since it was asked.
 */
function askedBefore(
  { decisionId, type, payload }: SpanSubmission,
  agent: AgentRecord,
  decided: Work['decided'],
): AskedBefore | undefined {
  const event = decided.get(decisionId ?? '');
  if (event?.call === undefined || type !== 'tool_call' || event.type !== type || event.agentId !== agent.id)
    return undefined;
  // It was done all the same: judged again, which says that nothing was prevented.
  if (event.outcome === 'blocked' && payload['result'] !== undefined) return undefined;
  if (isSameCall(event.call, payload)) return { before: event, call: undefined };
  return event.payloadText.includes('[redacted:') ? { before: event, call: event.call } : undefined;
}

const WHAT: Record<OtlpSignal, string> = { traces: 'spans', logs: 'log records', metrics: 'metrics' };

/** Throws ServiceError for what cannot be read. */
function readOrRefused<T>(signal: OtlpSignal, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof Undecodable ? refusedAs(signal, error) : error;
  }
}

function refusedAs(signal: OtlpSignal, { message, tooLarge }: Undecodable): ServiceError {
  const sentence = `The ${WHAT[signal]} cannot be taken: ${message}.`;
  return new ServiceError(tooLarge ? 'payload_too_large' : 'validation_failed', sentence, { recorded: false });
}

/** Exporters try again after 503, and never after 409. */
function waits(error: unknown): never {
  throw error instanceof ServiceError && error.code === 'idempotency_in_progress' ? stillRunning() : error;
}

function stillRunning(): ServiceError {
  const options = { recorded: false, retryAfterSeconds: 1 } as const;
  return new ServiceError('unavailable', 'The same spans are being recorded at this moment.', options);
}
