// Requests of spans in OTLP's JSON form, and what a service answers to them (for the tests of POST /v1/traces).
import type { Answer } from './api.ts';

export const PROTOBUF = { 'content-type': 'application/x-protobuf' };
export const JSON_FORM = { 'content-type': 'application/json' };

type Sending = { body: Buffer | string; headers: Record<string, string> };

/** Bodies are bytes: what they are in JSON is described by its type alone. */
export async function sendSpans(url: string, key: string, { body, headers }: Sending): Promise<Answer> {
  const response = await fetch(`${url}/v1/traces`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, ...headers },
    body: body as string,
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type') === 'application/json';
  return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined };
}

/** Numbers are written as integers; what is an object is a value of OTLP. */
export type Attributes = Record<string, string | number | object>;
let ids = 0;
export const nextId = (digits: number) => (++ids).toString(16).padStart(digits, '0');

/** Makes a span of a trace of its own, unless `more` says otherwise. */
export function spanOf(attributes: Attributes, more: object = {}): object {
  const now = `${Date.now()}000000`;
  return {
    ...{ traceId: nextId(32), spanId: nextId(16), name: 'span', startTimeUnixNano: now, endTimeUnixNano: now },
    attributes: Object.entries(attributes).map(([key, value]) => ({ key, value: valueOfAttribute(value) })),
    ...more,
  };
}

function valueOfAttribute(value: string | number | object): object {
  if (typeof value === 'object') return value;
  return typeof value === 'number' ? { intValue: String(value) } : { stringValue: value };
}

export function bodyOf(spans: object[], service = 'by hand'): string {
  return JSON.stringify({ resourceSpans: [resourceSpansOf(spans, { 'service.name': service })] });
}

export function resourceSpansOf(spans: object[], resource: Record<string, string>): object {
  const attributes = Object.entries(resource).map(([key, stringValue]) => ({ key, value: { stringValue } }));
  return { resource: { attributes }, scopeSpans: [{ scope: { name: 'test' }, spans }] };
}

export const tool = (name: string, attributes: Attributes = {}, more: object = {}) =>
  spanOf(
    {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': name,
      'gen_ai.tool.call.arguments': '{"a":1}',
      ...attributes,
    },
    more,
  );
