// Log records that carry content of generative AI, as spans that the dialects can read (between the decoders and the
// events). The records of one call, by the ids of its span, become one; what is no event of generative AI is left out.
// Invariant: nothing waits for a span that may never come: records become events of their own, which name the span.
// Tokens are the span's to count, where a record names one.
import { isMessageEvent } from './dialects/content.ts';
import {
  type Attributes,
  type AttributeValue,
  isObject,
  parsed,
  type SpanEvent,
  type TraceSpan,
  textOf,
} from './span.ts';

/** A record as it was decoded. `body` undefined: it has none. Times: epoch ms; 0: not known. */
type LogRecord = Pick<TraceSpan, 'traceId' | 'spanId' | 'attributes' | 'resource' | 'scope' | 'place'> & {
  eventName: string;
  timeMs: number;
  observedMs: number;
  body: AttributeValue | undefined;
};

/** The record as a span within the one that it names, with one event. `name` '': it is none of generative AI. */
export function spanOfRecord(record: LogRecord): TraceSpan {
  const { eventName, timeMs, observedMs, body, attributes, spanId, ...of } = record;
  const name = nameOf(eventName, attributes);
  const startMs = timeMs || observedMs;
  const event = { name, timeMs: startMs, attributes: withBody(name, attributes, body) };
  const isError = name.endsWith('.exception');
  return {
    ...{ ...of, name, startMs, endMs: startMs, attributes, events: name === '' ? [] : [event], records: 1 },
    ...{ spanId: '', parentSpanId: spanId, isError, statusMessage: '' },
  };
}

/** Has the record a body that no dialect reads? */
export function isUnread({ name, attributes }: SpanEvent): boolean {
  return !isMessageEvent(name) && name !== CHOICE && attributes.has(EVENT_CONTENT);
}

/** All that it says. */
export function contentOfEvent({ attributes }: SpanEvent): AttributeValue {
  const body = attributes.get(EVENT_CONTENT);
  return body !== undefined && attributes.size === 1 ? parsed(body) : Object.fromEntries(attributes);
}

const DETAILS = 'gen_ai.client.inference.operation.details';
const CONTENT = ['gen_ai.input.messages', 'gen_ai.output.messages', 'gen_ai.system_instructions'];

function nameOf(eventName: string, attributes: Attributes): string {
  const name = (eventName || textOf(attributes, 'event.name') || '').toLowerCase();
  if (name.startsWith('gen_ai.')) return name;
  return name === '' && CONTENT.some((one) => attributes.has(one)) ? DETAILS : '';
}

/** The members of the body are as good as attributes; a body that says none of their names is the content. */
function withBody(name: string, attributes: Attributes, body: AttributeValue | undefined): Attributes {
  if (body === undefined || body === null || body === '') return attributes;
  const opened = parsed(body);
  const isMessage = isMessageEvent(name) || name === CHOICE;
  if (isObject(opened) && (isMessage || Object.keys(opened).some((key) => key.startsWith('gen_ai.'))))
    return new Map([...attributes, ...Object.entries(opened)]);
  return new Map([...attributes, [CONTENT_IN[name] ?? EVENT_CONTENT, body]]);
}

/** Where the dialects look for it. */
const EVENT_CONTENT = 'gen_ai.event.content';
const CONTENT_IN: Record<string, string> = {
  'gen_ai.content.prompt': 'gen_ai.prompt',
  'gen_ai.content.completion': 'gen_ai.completion',
};

/**
 * The calls that the records describe, in the order of their first records. Those of no interest are not among them.
 */
export function callsOf(records: readonly TraceSpan[]): TraceSpan[] {
  const open = new Map<string, Open>();
  const calls: TraceSpan[] = [];
  for (const record of records) {
    const [event] = record.events;
    if (event === undefined) continue;
    const key = record.parentSpanId === '' ? '' : `${record.traceId}/${record.parentSpanId}`;
    const known = open.get(key);
    if (known !== undefined && isOfCall(event.name) && !isNext(known, event.name)) {
      addTo(known, record, event);
      continue;
    }
    const call: Open = { ...record, attributes: attributesOf(record), events: [event], has: new Set([event.name]) };
    calls.push(call);
    if (key !== '' && isOfCall(event.name)) open.set(key, call);
  }
  return calls;
}

/** `has`: names of its events. */
type Open = TraceSpan & { attributes: Map<string, AttributeValue>; events: SpanEvent[]; has: Set<string> };

const CHOICE = 'gen_ai.choice';

function isOfCall(name: string): boolean {
  return isMessageEvent(name) || name === CHOICE || name === DETAILS || name.startsWith('gen_ai.content.');
}

/** Behind an answer a message begins another call: some name the span of an agent that calls a model several times. */
function isNext({ has }: Open, name: string): boolean {
  return name === DETAILS ? has.has(DETAILS) : isMessageEvent(name) && has.has(CHOICE);
}

function addTo(call: Open, record: TraceSpan, event: SpanEvent): void {
  call.events.push(event);
  call.has.add(event.name);
  for (const [name, value] of record.attributes) call.attributes.set(name, value);
  call.startMs = Math.min(call.startMs, record.startMs);
  call.endMs = Math.max(call.endMs, record.endMs);
  call.records = (call.records ?? 0) + 1;
}

/** An event of a message says nothing of the operation. */
function attributesOf({ name, attributes }: TraceSpan): Map<string, AttributeValue> {
  const isNamed = !isOfCall(name) || attributes.has('gen_ai.operation.name');
  return new Map([...(isNamed ? [] : [['gen_ai.operation.name', 'chat'] as const]), ...attributes]);
}
