// Reads the requests of OTLP (spans, log records) in protobuf's JSON form (in the judging thread, before the dialects):
// names in lowerCamelCase or as protobuf has them, ids in hex, numbers as numbers or text.
// Invariant: what stands in place of the spans is never ignored, and no digit of a number is changed. Bytes that are
// not UTF-8 become U+FFFD, as in the other form.
// Failure: as of decode-protobuf.ts: Undecodable, with the place; what is wrong within a span is that span's alone.
import { parseExact } from '../common/exact-json.ts';
import { type ExactNumber, exactNumber, isNumber, isObject, LongNumber } from '../common/exact-number.ts';
import { faultInWords, findJsonFault } from '../common/json-fault.ts';
import { spanOfRecord } from './log-records.ts';
import {
  ATTRIBUTES_MAX,
  AttributesInOrder,
  type AttributeValue,
  addSpan,
  DEPTH_MAX,
  type DecodedSpans,
  doubleOf,
  integerOf,
  msOfNanos,
  type OtlpSignal,
  rejectFrom,
  type SpanEvent,
  sharedFault,
  shortened,
  type TraceSpan,
  tooMany,
  Undecodable,
} from './span.ts';

type Json = { readonly [key: string]: unknown };
type Placed = { value: unknown; path: string };
const utf8 = new TextDecoder();
/** Protobuf's own names, by those in lowerCamelCase. */
const SNAKE_CASE = new Map<string, string>();

/** Throws Undecodable. Of metrics nothing is read but whether they are there. */
export function decodeJson(body: Uint8Array, signal: OtlpSignal = 'traces'): DecodedSpans {
  const decoded: DecodedSpans = { spans: [], faults: [] };
  const form = FORMS[signal];
  for (const ofResource of carriedBy(form.request, parse(body), ''))
    if (form.read !== undefined) readResource(ofResource, form, decoded);
  return decoded;
}

function readResource({ value, path }: Placed, form: Form, decoded: DecodedSpans): void {
  const of = objectOf(value, path);
  const first = decoded.spans.length;
  const resource = new AttributesInOrder();
  const fault = faultOf(() => readAttributes(objectIn(of, 'resource', path), `${path}/resource`, resource));
  for (const ofScope of carriedBy(form.resource, of, path)) readScope(ofScope, form, { resource, decoded });
  const shared = fault ?? sharedFault(resource.attributes, `${path}/resource`);
  if (shared !== undefined) rejectFrom(decoded, first, shared);
}

type Within = { resource: AttributesInOrder; decoded: DecodedSpans };

function readScope({ value, path }: Placed, { scope: carrier, read }: Form, { resource, decoded }: Within): void {
  const of = objectOf(value, path);
  const first = decoded.spans.length;
  let scope = '';
  const fault = faultOf(() => {
    const name = memberOf(of, 'instrumentationLibrary', path) === undefined ? 'scope' : 'instrumentationLibrary';
    scope = shortened(textIn(objectIn(of, name, path), 'name', `${path}/${name}`));
  });
  for (const one of carriedBy(carrier, of, path))
    addSpan(decoded, () => read!(objectOf(one.value, one.path), one.path, { resource: resource.attributes, scope }));
  if (fault !== undefined) rejectFrom(decoded, first, fault);
}

function faultOf(read: () => void): string | undefined {
  try {
    read();
    return undefined;
  } catch (error) {
    if (error instanceof Undecodable) return error.message;
    throw error;
  }
}

function parse(body: Uint8Array): Json {
  let value: unknown;
  try {
    value = parseExact(utf8.decode(body));
  } catch (cause) {
    const fault = findJsonFault(Buffer.from(body.buffer, body.byteOffset, body.byteLength));
    throw new Undecodable(`it is no JSON: ${fault === null ? (cause as Error).message : faultInWords(fault)}`, {
      cause,
    });
  }
  if (!isObject(value)) throw new Undecodable('it is no JSON object');
  return value as Json;
}

/** The members that lead to the spans, by either name, and those that may stand beside them. */
type Carrier = { names: readonly string[]; beside: readonly string[] };
type Of = Pick<TraceSpan, 'resource' | 'scope'>;
/** `read` undefined: what is carried is not looked at. */
type Form = {
  request: Carrier;
  resource: Carrier;
  scope: Carrier;
  read?: (value: Json, path: string, of: Of) => TraceSpan;
};

function formOf(request: string, resource: readonly string[], scope: string, read?: Form['read']): Form {
  return {
    request: { names: [request], beside: [] },
    resource: { names: resource, beside: ['resource', 'schemaUrl'] },
    scope: { names: [scope], beside: ['scope', 'instrumentationLibrary', 'schemaUrl'] },
    ...(read && { read }),
  };
}

const FORMS: Record<OtlpSignal, Form> = {
  traces: formOf('resourceSpans', ['scopeSpans', 'instrumentationLibrarySpans'], 'spans', spanOf),
  logs: formOf('resourceLogs', ['scopeLogs', 'instrumentationLibraryLogs'], 'logRecords', recordOf),
  metrics: formOf('resourceMetrics', ['scopeMetrics'], 'metrics'),
};

/** A member that is not known is ignored, unless it stands in place of all that leads to the spans. */
function carriedBy({ names, beside }: Carrier, of: Json, path: string): Placed[] {
  const there = names.filter((name) => memberOf(of, name, path) !== undefined);
  if (there.length === 0) {
    const unknown = Object.keys(of).find((key) => ![...names, ...beside].some((name) => isName(key, name)));
    if (unknown !== undefined)
      throw new Undecodable(`there is ${path}/${shortened(unknown)}, which is not known, and no ${path}/${names[0]}`);
  }
  return there.flatMap((name) => listIn(of, name, path).map((value, i) => ({ value, path: `${path}/${name}/${i}` })));
}

function spanOf(span: Json, path: string, of: Of): TraceSpan {
  const status = objectIn(span, 'status', path);
  const read = new AttributesInOrder();
  readAttributes(span, path, read);
  const events = listIn(span, 'events', path);
  if (events.length > ATTRIBUTES_MAX) throw tooMany(`${path}/events`, 'events');
  return {
    traceId: textIn(span, 'traceId', path).toLowerCase(),
    spanId: textIn(span, 'spanId', path).toLowerCase(),
    parentSpanId: textIn(span, 'parentSpanId', path).toLowerCase(),
    name: textIn(span, 'name', path),
    startMs: msIn(span, 'startTimeUnixNano', path),
    endMs: msIn(span, 'endTimeUnixNano', path),
    attributes: read.attributes,
    events: events.map((event, i) => eventOf(event, `${path}/events/${i}`)),
    isError: isErrorIn(status, `${path}/status`),
    statusMessage: textIn(status, 'message', `${path}/status`),
    place: path,
    ...of,
    ...read.counted(),
  };
}

function recordOf(record: Json, path: string, of: Of): TraceSpan {
  const read = new AttributesInOrder();
  readAttributes(record, path, read);
  const body = memberOf(record, 'body', path);
  return spanOfRecord({
    traceId: textIn(record, 'traceId', path).toLowerCase(),
    spanId: textIn(record, 'spanId', path).toLowerCase(),
    eventName: textIn(record, 'eventName', path),
    timeMs: msIn(record, 'timeUnixNano', path),
    observedMs: msIn(record, 'observedTimeUnixNano', path),
    body: body === undefined ? undefined : anyValue(objectOf(body, `${path}/body`), `${path}/body`, 0),
    attributes: read.attributes,
    place: path,
    ...of,
  });
}

function eventOf(value: unknown, path: string): SpanEvent {
  const event = objectOf(value, path);
  const read = new AttributesInOrder();
  readAttributes(event, path, read);
  return { name: textIn(event, 'name', path), timeMs: msIn(event, 'timeUnixNano', path), attributes: read.attributes };
}

const STATUS_CODES = ['STATUS_CODE_UNSET', 'STATUS_CODE_OK', 'STATUS_CODE_ERROR'];

/** By the code's name or number. */
function isErrorIn(status: Json, path: string): boolean {
  const code = memberOf(status, 'code', path) ?? 0;
  const number = numberIn(code) ?? (typeof code === 'string' ? STATUS_CODES.indexOf(code) : -1);
  if (typeof number !== 'number' || !Number.isInteger(number) || number < 0)
    throw new Undecodable(`${path}/code is no code of a status`);
  return number === 2;
}

/** `traceId` is `trace_id` in protobuf's own names, which its JSON form takes as well. */
function isName(key: string, name: string): boolean {
  return key === name || key === snakeCase(name);
}

function snakeCase(name: string): string {
  let snake = SNAKE_CASE.get(name);
  if (snake === undefined) {
    snake = name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    SNAKE_CASE.set(name, snake);
  }
  return snake;
}

/** undefined for null: protobuf's JSON means by it what is left out. */
function memberOf(of: Json, name: string, path: string): unknown {
  const [value, other] = [of[name] ?? undefined, snakeCase(name)];
  if (other === name || (of[other] ?? undefined) === undefined) return value;
  if (value !== undefined) throw new Undecodable(`${path}/${name} is there by its other name as well, ${other}`);
  return of[other];
}

function listIn(of: Json, name: string, path: string): unknown[] {
  const value = memberOf(of, name, path) ?? [];
  if (!Array.isArray(value)) throw new Undecodable(`${path}/${name} is no array`);
  return value;
}

function objectIn(of: Json, name: string, path: string): Json {
  return objectOf(memberOf(of, name, path) ?? {}, `${path}/${name}`);
}

function objectOf(value: unknown, path: string): Json {
  if (!isObject(value)) throw new Undecodable(`${path} is no object`);
  return value as Json;
}

function textIn(of: Json, name: string, path: string): string {
  const value = memberOf(of, name, path) ?? '';
  if (typeof value !== 'string') throw new Undecodable(`${path}/${name} is no text`);
  return value;
}

/** ns -> ms, to the microsecond. */
function msIn(of: Json, name: string, path: string): number {
  const nanos = wholeIn(memberOf(of, name, path) ?? 0);
  if (nanos === undefined || nanos < 0n) throw new Undecodable(`${path}/${name} is no time in ns`);
  return msOfNanos(nanos);
}

function readAttributes(of: Json, path: string, into: AttributesInOrder): void {
  for (const [i, one] of listIn(of, 'attributes', path).entries()) {
    const at = `${path}/attributes/${i}`;
    const [key, value] = keyValueOf(one, at, 0);
    into.add(key, value, path);
  }
}

function keyValueOf(one: unknown, path: string, depth: number): [key: string, value: AttributeValue] {
  const of = objectOf(one, path);
  return [textIn(of, 'key', path), anyValue(objectIn(of, 'value', path), `${path}/value`, depth)];
}

const KINDS = ['stringValue', 'boolValue', 'intValue', 'doubleValue', 'arrayValue', 'kvlistValue', 'bytesValue'];
/** By either name. */
const KIND_OF = new Map(KINDS.flatMap((kind) => [[kind, kind] as const, [snakeCase(kind), kind] as const]));

function anyValue(value: Json, path: string, depth: number): AttributeValue {
  if (depth > DEPTH_MAX) throw new Undecodable(`${path} is nested deeper than ${DEPTH_MAX}`);
  let found: string | undefined;
  let isEmpty = true;
  for (const key in value) {
    if (value[key] === null) continue;
    isEmpty = false;
    const kind = KIND_OF.get(key);
    if (kind === undefined) continue;
    if (found !== undefined) throw new Undecodable(`${path} is of two kinds`);
    found = kind;
  }
  if (found !== undefined) return ofKind(found, value, path, depth);
  if (isEmpty) return null;
  throw new Undecodable(`${path} is of no kind that is known`);
}

function ofKind(kind: string, of: Json, path: string, depth: number): AttributeValue {
  const value = memberOf(of, kind, path);
  const at = `${path}/${kind}`;
  switch (kind) {
    case 'boolValue':
      if (typeof value !== 'boolean') throw new Undecodable(`${at} is no boolean`);
      return value;
    case 'intValue':
      return integerIn(value, at);
    case 'doubleValue':
      return doubleIn(value, at);
    case 'arrayValue':
      return listIn(objectOf(value, at), 'values', at).map((one, i) =>
        anyValue(objectOf(one ?? {}, `${at}/values/${i}`), `${at}/values/${i}`, depth + 1),
      );
    case 'kvlistValue':
      return keyValues(objectOf(value, at), at, depth);
    default:
      return textIn(of, kind, path);
  }
}

function keyValues(list: Json, path: string, depth: number): AttributeValue {
  const values = listIn(list, 'values', path);
  if (values.length > ATTRIBUTES_MAX) throw tooMany(path, 'values');
  return Object.fromEntries(values.map((one, i) => keyValueOf(one, `${path}/values/${i}`, depth + 1)));
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Protobuf's JSON writes long numbers as text, and reads any number so. */
function numberIn(value: unknown): ExactNumber | undefined {
  if (isNumber(value)) return value;
  return typeof value === 'string' && NUMBER.test(value) ? exactNumber(value) : undefined;
}

/** Digits of the largest one of 64 bits. */
const WHOLE_DIGITS_MAX = 20;

/** Also of `3.0` and `3e2`. undefined: it has more digits than one of 64 bits, or is none. */
function wholeIn(value: unknown): bigint | undefined {
  if (typeof value === 'string' && WHOLE.test(value)) return BigInt(value);
  const number = numberIn(value);
  if (number instanceof LongNumber) return number.integer(WHOLE_DIGITS_MAX);
  return Number.isInteger(number) && Math.abs(number!) < 2 ** 64 ? BigInt(String(number)) : undefined;
}

const WHOLE = /^-?\d{1,20}$/;

function integerIn(value: unknown, path: string): AttributeValue {
  const whole = wholeIn(value);
  if (whole === undefined) throw new Undecodable(`${path} is no integer`);
  return integerOf(whole);
}

/** Protobuf's JSON writes what JSON has no number for as text. */
function doubleIn(value: unknown, path: string): AttributeValue {
  if (value === 'NaN' || value === 'Infinity' || value === '-Infinity') return value;
  const number = numberIn(value);
  if (number === undefined) throw new Undecodable(`${path} is no number`);
  return doubleOf(number);
}
