// Decodes a request of spans, and sorts what is kept of it by agent and into parts that are recorded at once (in the
// judging thread, behind the HTTP route and before the judgement).
// Invariant: the events of a span are in one part. A span whose events cannot be kept is rejected by itself and said
// so; a request none of whose spans can be kept is refused whole.
// Failure: Undecodable; nothing of the request is kept.
import { createHash } from 'node:crypto';
import type { EventType } from '../../schemas/closed-sets.ts';
import type { JsonObject } from '../../schemas/common.ts';
import { exactJson } from '../common/exact-json.ts';
import type { SpansForm } from './answers.ts';
import { decodeJson } from './decode-json.ts';
import { decodeProtobuf } from './decode-protobuf.ts';
import { eventsOf, type SpanEventOut } from './events-of.ts';
import { callsOf } from './log-records.ts';
import { type Attributes, type OtlpSignal, type TraceSpan, textOf, Undecodable } from './span.ts';
import { type AgentRef, agentKey, isPending, type Owner, SpanOwners } from './span-owners.ts';
import { payloadWithin } from './span-payload.ts';

/** Spans, or log records: what is said of spans holds for both. `signal` left out: spans. */
export type SentSpans = { body: Uint8Array; form: SpansForm; signal?: OtlpSignal };

/**
 * An event as one that is submitted; `payloadText` is the payload's JSON. `occurredAt`: epoch ms, to the microsecond.
 */
export type SpanSubmission = {
  type: EventType;
  payload: JsonObject;
  payloadText: string;
  /** undefined: of a log record that names none. */
  traceId: string | undefined;
  occurredAt: number;
  /** The event that was asked about before this was done. */
  decisionId?: string;
  /** With what was left out since it is too large. */
  whole?: Omit<SpanSubmission, 'decisionId' | 'whole'>;
};
/** A span of which something is recorded. */
export type KeptSpan = {
  traceId: string;
  spanId: string;
  /** Log records that it was made of; undefined: it is a span. */
  records: number | undefined;
  place: string;
  owner: Owner;
  events: readonly SpanEventOut[];
  decisionId: string | undefined;
  attributesLeftOut: number;
};
/** `rejected`: spans that should have been kept; `reasons`: why, each once. */
export type SpanCounts = { spans: number; ignored: number; rejected: number; reasons: string[] };
/** `ofTraces`: as of SpanOwners. */
export type FoundSpans = SpanCounts & {
  signal: OtlpSignal;
  kept: KeptSpan[];
  ofTraces: ReadonlyMap<string, AgentRef | null>;
};
/** `isNamed`: it, or a span around it, names the agent; else it is what is left. */
export type OwnedSpan = KeptSpan & { isNamed: boolean };
export type SpanGroup = { agent: AgentRef; spans: OwnedSpan[] };
/** The spans and events that are recorded at once, in the order of time. */
export type SpanPart = { span: OwnedSpan; events: SpanSubmission[] }[];

/** Inflated: some 10,000 spans. */
export const SPANS_BYTES_MAX = 8 * 1024 * 1024;
/** One append each, unless a span alone has more. */
const PART_EVENTS_MAX = 500;
const PART_BYTES_MAX = 2 * 1024 * 1024;
const REASONS_MAX = 8;

type Options = {
  /** May an event have happened then? Epoch ms. */
  isTimely: (occurredAt: number) => boolean;
  /** The key's own agent, where it is bound to one: nothing is of another. */
  boundTo: string | undefined;
};

/** Throws Undecodable. */
export function readSpans({ body, form, signal = 'traces' }: SentSpans, options: Options): FoundSpans {
  const decoded = form === 'json' ? decodeJson(body, signal) : decodeProtobuf(body, signal);
  const { faults } = decoded;
  const spans = signal === 'logs' ? callsOf(decoded.spans) : decoded.spans;
  const owners = new SpanOwners(spans, options.boundTo);
  const kept = new Map<string, KeptSpan>();
  const ignored = decoded.spans.length - countOf(spans);
  const counts: SpanCounts = { spans: decoded.spans.length + faults.length, ignored, rejected: 0, reasons: [] };
  for (const fault of faults) reject(counts, fault);
  const made = eventsOf(spans);
  for (const [i, span] of spans.entries()) {
    const events = isPending(span) ? [] : made[i]!;
    const fault = events.length === 0 ? undefined : faultOf(span, events, options);
    if (events.length === 0) counts.ignored += countOf([span]);
    else if (fault !== undefined) reject(counts, `${span.place}: ${fault}`, countOf([span]));
    else keep(kept, span, { owner: owners.of(span), events });
  }
  return { ...counts, signal, kept: [...kept.values()], ofTraces: owners.ofTraces };
}

/** Counts spans. Several log records are one. */
export function countOf(spans: readonly { records?: number | undefined }[]): number {
  return spans.reduce((sum, { records = 1 }) => sum + records, 0);
}

/** The first of a span that comes twice. */
function keep(kept: Map<string, KeptSpan>, span: TraceSpan, of: Pick<KeptSpan, 'owner' | 'events'>): void {
  const { traceId, records, place = '', attributes, attributesLeftOut = 0 } = span;
  const spanId = records === undefined ? span.spanId : recordId(span, of.events);
  const id = traceId + spanId;
  const decisionId = textOf(attributes, 'gatehouse.decision.id');
  if (!kept.has(id)) kept.set(id, { traceId, spanId, records, place, decisionId, attributesLeftOut, ...of });
}

/** Log records have no id: those that say the same at the same time, of the same program, are the same. */
function recordId({ resource, events: [first] }: TraceSpan, events: readonly SpanEventOut[]): string {
  const said = exactJson([first?.timeMs, events]);
  return `log/${createHash('sha256').update(textOfResource(resource)).update(said).digest('base64url')}`;
}

/** Made once for all that share it. */
function textOfResource(resource: Attributes): string {
  const text = resources.get(resource) ?? exactJson([...resource]);
  resources.set(resource, text);
  return text;
}

const resources = new WeakMap<Attributes, string>();

/** Why the span cannot be kept. */
function faultOf(span: TraceSpan, events: readonly SpanEventOut[], { isTimely }: Options): string | undefined {
  const { traceId, records } = span;
  // A log record names the span that it is in, if there is one.
  const spanId = records === undefined ? span.spanId : span.parentSpanId;
  const isAlone = records !== undefined && spanId === '';
  if (!isId(traceId, 32) && !(isAlone && traceId === ''))
    return 'a trace id is not 16 bytes that are not all 0, in JSON 32 digits in hex';
  if (!isId(spanId, 16) && !isAlone) return 'a span id is not 8 bytes that are not all 0, in JSON 16 digits in hex';
  return events.every(({ atMs }) => isTimely(atMs)) ? undefined : 'a time is before 2000 or more than 24 h ahead';
}

function isId(id: string, digits: number): boolean {
  return id.length === digits && /^[0-9a-f]+$/.test(id) && !/^0+$/.test(id);
}

/** The name of one item of each signal. */
const ONE_OF: Record<OtlpSignal, string> = { traces: 'span', logs: 'log record', metrics: 'metric' };

const NO_AGENT =
  'no agent is named (gatehouse.agent.id, gen_ai.agent.name or service.name; OTEL_SERVICE_NAME sets the last)';

/** `reason`: with the place of the span, the first of those that have it. */
export function reject(counts: Pick<SpanCounts, 'rejected' | 'reasons'>, reason: string, spans = 1): void {
  counts.rejected += spans;
  const what = reason.replace(PLACE, '');
  if (counts.reasons.length < REASONS_MAX && !counts.reasons.some((known) => known.endsWith(what)))
    counts.reasons.push(reason);
}

const PLACE = /^\/[^ ]*?\/(?:spans|logRecords)\/\d+/;

/**
 * By agent. `known`: the agent of a span that earlier requests had, by its trace and span, or of the trace by that
 * alone.
 */
export function groupsOf(found: FoundSpans, known: ReadonlyMap<string, string>): SpanGroup[] {
  const groups = new Map<string, SpanGroup>();
  for (const span of found.kept) {
    const agent = agentOf(span, known);
    if (agent === undefined) {
      reject(found, `${span.place}: ${NO_AGENT}`, countOf([span]));
      continue;
    }
    const key = agentKey(agent);
    const group = groups.get(key) ?? { agent, spans: [] };
    groups.set(key, group);
    group.spans.push({ ...span, isNamed: span.owner.named !== undefined || isKnown(span, known) });
  }
  return [...groups.values()];
}

export function nothingKept({ signal, reasons }: FoundSpans): Undecodable {
  return new Undecodable(`no ${ONE_OF[signal]} of it can be kept: ${reasons.join('; ')}`);
}

function agentOf({ owner, traceId }: KeptSpan, known: ReadonlyMap<string, string>): AgentRef | undefined {
  const { named, outside, inTrace, program } = owner;
  if (named !== undefined || outside === undefined) return named ?? program;
  const [ofSpan, ofTrace] = [known.get(traceId + outside), known.get(traceId)];
  if (ofSpan !== undefined) return { id: ofSpan };
  if (inTrace === null) return program;
  return inTrace ?? (ofTrace === undefined ? program : { id: ofTrace });
}

/** Is it the program's only since no request has named an agent around it yet? */
export function mayBeKnownSoon(span: KeptSpan, known: ReadonlyMap<string, string>): boolean {
  const { named, outside, inTrace, program } = span.owner;
  if (named !== undefined || outside === undefined || program === undefined || inTrace) return false;
  return !isKnown(span, known) && !known.has(span.traceId);
}

function isKnown({ owner: { outside }, traceId }: KeptSpan, known: ReadonlyMap<string, string>): boolean {
  return outside !== undefined && known.has(traceId + outside);
}

/**
 * The same spans make the same parts, of which one is held at a time. `asName`: as which agent they were sent, where
 * another has them.
 */
export function* partsOf(spans: readonly OwnedSpan[], eventBytesMax: number, asName?: string): Generator<SpanPart> {
  let part: SpanPart = [];
  let [events, bytes] = [0, 0];
  for (const span of [...spans].sort(byTime)) {
    const made = span.events.map((event) => submissionOf(span, event, { eventBytesMax, asName }));
    const size = made.reduce((sum, { payloadText }) => sum + payloadText.length, 0);
    if (part.length > 0 && (events + made.length > PART_EVENTS_MAX || bytes + size > PART_BYTES_MAX)) {
      yield part;
      part = [];
      [events, bytes] = [0, 0];
    }
    part.push({ span, events: made });
    events += made.length;
    bytes += size;
  }
  if (part.length > 0) yield part;
}

/** By where they begin. */
function byTime({ events: a }: OwnedSpan, { events: b }: OwnedSpan): number {
  return a[0]!.atMs - b[0]!.atMs;
}

type Submitting = { eventBytesMax: number; asName: string | undefined };

function submissionOf(span: OwnedSpan, event: SpanEventOut, { eventBytesMax, asName }: Submitting): SpanSubmission {
  const { traceId, decisionId, attributesLeftOut } = span;
  const made = payloadWithin(event.payload, { bytesMax: eventBytesMax, asName, attributesLeftOut });
  const of = { type: event.type, traceId: traceId || undefined, occurredAt: event.atMs };
  const submission = { ...of, payload: made.payload as JsonObject, payloadText: made.text };
  return {
    ...submission,
    ...(decisionId === undefined ? {} : { decisionId }),
    ...(made.whole && { whole: { ...of, payload: made.whole.payload as JsonObject, payloadText: made.whole.text } }),
  };
}

/** The same for the same spans, whatever else is sent with them. */
export function partId(part: SpanPart): string {
  const hash = createHash('sha256');
  for (const { span } of part) hash.update(span.traceId).update(span.spanId);
  return hash.digest('base64url');
}
