// Decodes a request of spans and sorts its events by agent (in the judging thread, behind the HTTP route and before the
// judgement).
// Invariant: the same bytes give the same groups and parts in the same order: a request that is sent again finds each
// part that was recorded. A span whose events cannot be kept is rejected by itself and said so; a request none of whose
// spans can be kept is refused whole.
// Failure: Undecodable; nothing of the request is kept.
import { createHash } from 'node:crypto';
import type { EventType } from '../../schemas/closed-sets.ts';
import type { JsonObject } from '../../schemas/common.ts';
import type { SpansForm } from './answers.ts';
import { decodeJson } from './decode-json.ts';
import { decodeProtobuf } from './decode-protobuf.ts';
import { eventsOf, type Payload, type SpanEventOut } from './events-of.ts';
import { jsonTextOf, type TraceSpan, textOf, Undecodable } from './span.ts';

export type SentSpans = { body: Uint8Array; form: SpansForm };

/** Which agent: by its id, or by a name under which it is registered if it is new. */
export type AgentRef = { id: string } | { name: string; framework: string };
/**
 * An event as one that is submitted; `payloadText` is the payload's JSON. `occurredAt`: epoch ms, to the microsecond.
 */
export type SpanSubmission = {
  type: EventType;
  payload: JsonObject;
  payloadText: string;
  traceId: string;
  occurredAt: number;
  /** The event that was asked about before this was done. */
  decisionId?: string;
};
/** `spans`: that its events are of. `parts`: its events in the order of time, in bounded numbers. */
type SpanGroup = { agent: AgentRef; spans: number; parts: SpanSubmission[][] };
/** `rejected`: spans that should have been kept; `reasons`: why, each once. */
/** `digest`: SHA-256 of the request's bytes, inflated: gzip writes the time into its head. */
export type SpanGroups = {
  groups: SpanGroup[];
  digest: Buffer;
  spans: number;
  ignored: number;
  rejected: number;
  reasons: string[];
};

/** Inflated: some 10,000 spans. */
export const SPANS_BYTES_MAX = 8 * 1024 * 1024;
/** One append each. */
const PART_EVENTS_MAX = 500;
const PART_BYTES_MAX = 2 * 1024 * 1024;
const REASONS_MAX = 8;
const NAME_CHARACTERS_MAX = 200;

type Options = {
  /** Bytes of the payload of one event. */
  eventBytesMax: number;
  /** May an event have happened then? Epoch ms. */
  isTimely: (occurredAt: number) => boolean;
  /** The key's own agent, where it is bound to one: nothing is of another. */
  boundTo: string | undefined;
};

/** Throws Undecodable. */
export function groupSpans({ body, form }: SentSpans, options: Options): SpanGroups {
  const { spans, faults } = form === 'json' ? decodeJson(body) : decodeProtobuf(body);
  const names = new AgentNames(spans, options.boundTo);
  const groups = new Map<string, Gathered>();
  const result: SpanGroups = {
    ...{ groups: [], spans: spans.length + faults.length, ignored: 0, rejected: 0, reasons: [] },
    digest: createHash('sha256').update(body).digest(),
  };
  for (const fault of faults) reject(result, fault);
  for (const span of spans) {
    const events = eventsOf(span);
    if (events.length === 0) {
      result.ignored++;
      continue;
    }
    const agent = names.of(span);
    const made = submissionsOf(span, events, options);
    const fault = typeof made === 'string' ? made : agent === undefined ? NO_AGENT : undefined;
    if (fault !== undefined) reject(result, `${span.place}: ${fault}`);
    else gather(groups, agent!, made as Timed[]);
  }
  const kept = result.spans - result.ignored - result.rejected;
  if (kept === 0 && result.rejected > 0)
    throw new Undecodable(`no span of it can be kept: ${result.reasons.join('; ')}`);
  result.groups = [...groups.values()].map(partsOf);
  return result;
}

const NO_AGENT =
  'no agent is named (gatehouse.agent.id, gen_ai.agent.name or service.name; OTEL_SERVICE_NAME sets the last)';

/** `reason`: with the place of the span, the first of those that have it. */
export function reject(result: Pick<SpanGroups, 'rejected' | 'reasons'>, reason: string, spans = 1): void {
  result.rejected += spans;
  const what = reason.replace(PLACE, '');
  if (result.reasons.length < REASONS_MAX && !result.reasons.some((known) => known.endsWith(what)))
    result.reasons.push(reason);
}

const PLACE = /^\/[^ ]*?\/spans\/\d+/;

/** `at`: epoch ms, to the microsecond. */
type Timed = { submission: SpanSubmission; at: number };
type Gathered = { agent: AgentRef; spans: number; events: Timed[] };

function gather(groups: Map<string, Gathered>, agent: AgentRef, events: readonly Timed[]): void {
  const key = JSON.stringify('id' in agent ? [agent.id] : ['', agent.name]);
  const group = groups.get(key) ?? { agent, spans: 0, events: [] };
  groups.set(key, group);
  group.spans++;
  group.events.push(...events);
}

function partsOf({ agent, spans, events }: Gathered): SpanGroup {
  events.sort((a, b) => a.at - b.at);
  const parts: SpanSubmission[][] = [];
  let part: SpanSubmission[] = [];
  let bytes = 0;
  for (const { submission } of events) {
    const size = submission.payloadText.length;
    if (part.length === PART_EVENTS_MAX || (part.length > 0 && bytes + size > PART_BYTES_MAX)) {
      parts.push(part);
      part = [];
      bytes = 0;
    }
    part.push(submission);
    bytes += size;
  }
  return { agent, spans, parts: [...parts, part] };
}

/** Or why the span cannot be kept. */
function submissionsOf(
  span: TraceSpan,
  events: readonly SpanEventOut[],
  { eventBytesMax, isTimely }: Options,
): Timed[] | string {
  if (!isId(span.traceId, 32)) return 'a trace id is not 16 bytes that are not all 0, in JSON 32 digits in hex';
  if (!isId(span.spanId, 16)) return 'a span id is not 8 bytes that are not all 0, in JSON 16 digits in hex';
  const decisionId = textOf(span.attributes, 'gatehouse.decision.id');
  const timed: Timed[] = [];
  for (const { type, atMs, payload } of events) {
    if (!isTimely(atMs)) return 'a time is before 2000 or more than 24 h ahead';
    const payloadText = textOfPayload(payload);
    if (Buffer.byteLength(payloadText) > eventBytesMax) return `an event of it is larger than ${eventBytesMax} bytes`;
    const submission = { type, payload: payload as JsonObject, payloadText, traceId: span.traceId, occurredAt: atMs };
    timed.push({ submission: decisionId === undefined ? submission : { ...submission, decisionId }, at: atMs });
  }
  return timed;
}

function textOfPayload(payload: Payload): string {
  return `{${Object.entries(payload)
    .map(([name, value]) => `${JSON.stringify(name)}:${jsonTextOf(value)}`)
    .join()}}`;
}

function isId(id: string, digits: number): boolean {
  return id.length === digits && /^[0-9a-f]+$/.test(id) && !/^0+$/.test(id);
}

/** Whose a span is, by what it, what is around it and its program say. */
class AgentNames {
  readonly #boundTo: string | undefined;
  readonly #spans = new Map<string, TraceSpan>();
  readonly #known = new Map<TraceSpan, AgentRef | undefined>();

  constructor(spans: readonly TraceSpan[], boundTo: string | undefined) {
    this.#boundTo = boundTo;
    for (const span of spans) this.#spans.set(`${span.traceId}/${span.spanId}`, span);
  }

  /** undefined: none is named. */
  of(span: TraceSpan): AgentRef | undefined {
    if (this.#boundTo !== undefined) return { id: this.#boundTo };
    return this.#own(span) ?? this.#ofAncestors(span) ?? ofProgram(span);
  }

  #own({ attributes, scope }: TraceSpan): AgentRef | undefined {
    const id = textOf(attributes, 'gatehouse.agent.id');
    return id === undefined ? named(textOf(attributes, 'gen_ai.agent.name'), scope) : { id };
  }

  /** The nearest one in the request that names one. Each span is asked once. */
  #ofAncestors(span: TraceSpan): AgentRef | undefined {
    const passed: TraceSpan[] = [];
    let found: AgentRef | undefined;
    for (let at = this.#parentOf(span); at !== undefined; at = this.#parentOf(at)) {
      if (this.#known.has(at)) {
        found = this.#known.get(at);
        break;
      }
      // A loop of parents: entered before it is asked, so that it ends.
      this.#known.set(at, undefined);
      passed.push(at);
      found = this.#own(at);
      if (found !== undefined) break;
    }
    for (const one of passed) this.#known.set(one, found);
    return found;
  }

  #parentOf({ traceId, parentSpanId }: TraceSpan): TraceSpan | undefined {
    return parentSpanId === '' ? undefined : this.#spans.get(`${traceId}/${parentSpanId}`);
  }
}

function ofProgram({ attributes, resource, scope }: TraceSpan): AgentRef | undefined {
  const service = textOf(resource, 'service.name');
  const name =
    textOf(resource, 'gen_ai.main_agent.name') ??
    textOf(attributes, 'agent.name', 'ai.telemetry.functionId') ??
    (service?.startsWith('unknown_service') ? undefined : service);
  return named(name, scope);
}

function named(name: string | undefined, scope: string): AgentRef | undefined {
  return name === undefined ? undefined : { name: name.slice(0, NAME_CHARACTERS_MAX), framework: scope };
}
