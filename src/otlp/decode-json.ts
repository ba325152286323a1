// Reads ExportTraceServiceRequest in OTLP's JSON form: names in lowerCamelCase, ids in hex, 64-bit integers as text (in
// the judging thread, before the dialects).
// Failure: as of decode-protobuf.ts: Undecodable, with the place.
import { faultInWords, findJsonFault } from '../common/json-fault.ts';
import { integerOf, numberOf } from './decode-protobuf.ts';
import {
  ATTRIBUTES_MAX,
  type AttributeValue,
  DEPTH_MAX,
  msOfNanos,
  SPANS_MAX,
  type TraceSpan,
  Undecodable,
} from './span.ts';

type Json = { readonly [key: string]: unknown };
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Throws Undecodable. */
export function decodeJson(body: Uint8Array): TraceSpan[] {
  const spans: TraceSpan[] = [];
  for (const [i, resourceSpans] of listOf(parse(body), 'resourceSpans', '').entries()) {
    const path = `/resourceSpans/${i}`;
    const resource = attributesOf(objectOf(resourceSpans['resource'], `${path}/resource`), `${path}/resource`);
    for (const [j, scopeSpans] of listOf(resourceSpans, 'scopeSpans', path).entries()) {
      const inScope = `${path}/scopeSpans/${j}`;
      const scope = textIn(objectOf(scopeSpans['scope'], `${inScope}/scope`), 'name', `${inScope}/scope`);
      for (const [k, span] of listOf(scopeSpans, 'spans', inScope).entries()) {
        if (spans.length >= SPANS_MAX)
          throw new Undecodable(`there are more than ${SPANS_MAX} spans`, { tooLarge: true });
        spans.push({ ...spanOf(span, `${inScope}/spans/${k}`), resource, scope });
      }
    }
  }
  return spans;
}

function parse(body: Uint8Array): Json {
  let value: unknown;
  try {
    value = JSON.parse(utf8.decode(body));
  } catch (cause) {
    const fault = findJsonFault(Buffer.from(body.buffer, body.byteOffset, body.byteLength));
    throw new Undecodable(`it is no JSON: ${fault === null ? (cause as Error).message : faultInWords(fault)}`, {
      cause,
    });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Undecodable('it is no JSON object');
  return value as Json;
}

function spanOf(span: Json, path: string): Omit<TraceSpan, 'resource' | 'scope'> {
  const status = objectOf(span['status'], `${path}/status`);
  return {
    traceId: textIn(span, 'traceId', path).toLowerCase(),
    spanId: textIn(span, 'spanId', path).toLowerCase(),
    parentSpanId: textIn(span, 'parentSpanId', path).toLowerCase(),
    name: textIn(span, 'name', path),
    startMs: msIn(span, 'startTimeUnixNano', path),
    endMs: msIn(span, 'endTimeUnixNano', path),
    attributes: attributesOf(span, path),
    events: listOf(span, 'events', path).map((event, i) => ({
      name: textIn(event, 'name', `${path}/events/${i}`),
      timeMs: msIn(event, 'timeUnixNano', `${path}/events/${i}`),
      attributes: attributesOf(event, `${path}/events/${i}`),
    })),
    isError: status['code'] === 2 || status['code'] === 'STATUS_CODE_ERROR',
    statusMessage: textIn(status, 'message', `${path}/status`),
  };
}

function listOf(of: Json, name: string, path: string): Json[] {
  const value = of[name];
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new Undecodable(`${path}/${name} is no array`);
  return value.map((element, i) => objectOf(element ?? 0, `${path}/${name}/${i}`));
}

function objectOf(value: unknown, path: string): Json {
  if (value === undefined || value === null) return {};
  if (typeof value !== 'object' || Array.isArray(value)) throw new Undecodable(`${path} is no object`);
  return value as Json;
}

function textIn(of: Json, name: string, path: string): string {
  const value = of[name] ?? '';
  if (typeof value !== 'string') throw new Undecodable(`${path}/${name} is no text`);
  return value;
}

/** ns, as text or number -> ms, to the microsecond. */
function msIn(of: Json, name: string, path: string): number {
  const value = of[name] ?? 0;
  if (typeof value !== 'number' && !(typeof value === 'string' && /^\d{1,20}$/.test(value)))
    throw new Undecodable(`${path}/${name} is no time in ns`);
  return typeof value === 'string' ? msOfNanos(BigInt(value)) : Math.floor(value / 1e3) / 1e3;
}

function attributesOf(of: Json, path: string): Map<string, AttributeValue> {
  const list = listOf(of, 'attributes', path);
  if (list.length > ATTRIBUTES_MAX)
    throw new Undecodable(`${path}/attributes has more than ${ATTRIBUTES_MAX} elements`);
  return new Map(
    list.map((one, i) => {
      const at = `${path}/attributes/${i}`;
      return [textIn(one, 'key', at), anyValue(objectOf(one['value'], `${at}/value`), `${at}/value`, 0)];
    }),
  );
}

function anyValue(value: Json, path: string, depth: number): AttributeValue {
  if (depth > DEPTH_MAX) throw new Undecodable(`${path} is nested deeper than ${DEPTH_MAX}`);
  for (const kind in value) {
    const of = value[kind];
    switch (kind) {
      case 'stringValue':
      case 'bytesValue':
        return textIn(value, kind, path);
      case 'boolValue':
        if (typeof of !== 'boolean') throw new Undecodable(`${path}/${kind} is no boolean`);
        return of;
      case 'intValue':
        return integerIn(of, `${path}/${kind}`);
      case 'doubleValue':
        return doubleIn(of, `${path}/${kind}`);
      case 'arrayValue':
        return listOf(objectOf(of, path), 'values', `${path}/${kind}`).map((one, i) =>
          anyValue(one, `${path}/${kind}/values/${i}`, depth + 1),
        );
      case 'kvlistValue':
        return keyValues(objectOf(of, path), `${path}/${kind}`, depth);
    }
  }
  return null;
}

function keyValues(list: Json, path: string, depth: number): AttributeValue {
  const values = listOf(list, 'values', path);
  if (values.length > ATTRIBUTES_MAX) throw new Undecodable(`${path} has more than ${ATTRIBUTES_MAX} values`);
  return Object.fromEntries(
    values.map((one, i) => {
      const at = `${path}/values/${i}`;
      return [textIn(one, 'key', at), anyValue(objectOf(one['value'], at), `${at}/value`, depth + 1)];
    }),
  );
}

function integerIn(value: unknown, path: string): number | string {
  if (typeof value === 'number' && Number.isInteger(value)) return value;
  if (typeof value === 'string' && /^-?\d{1,20}$/.test(value)) return integerOf(value);
  throw new Undecodable(`${path} is no integer`);
}

/** Protobuf's JSON writes what JSON has no number for as text. */
function doubleIn(value: unknown, path: string): number | string {
  if (typeof value === 'number') return numberOf(value);
  if (value === 'NaN' || value === 'Infinity' || value === '-Infinity') return value;
  throw new Undecodable(`${path} is no number`);
}
