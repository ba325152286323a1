// Spans as the decoders hand them on, and the events that come of them, for tests of the dialects.
import { eventsOf } from '../../src/otlp/events-of.ts';
import type { AttributeValue, SpanEvent, TraceSpan } from '../../src/otlp/span.ts';

export type Values = Record<string, AttributeValue>;

export function span(name: string, attributes: Values, more: Partial<TraceSpan> = {}): TraceSpan {
  return {
    ...{ traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), parentSpanId: '', name, startMs: 1_000, endMs: 3_000 },
    ...{ events: [], isError: false, statusMessage: '', resource: new Map(), scope: '' },
    ...more,
    attributes: new Map(Object.entries(attributes)),
  };
}

export function eventOfSpan(name: string, attributes: Values): SpanEvent {
  return { name, timeMs: 1_500, attributes: new Map(Object.entries(attributes)) };
}

/** Without where the span stands. */
export function made(...of: TraceSpan[]): Values[] {
  return eventsOf(of)
    .flat()
    .map(({ type, atMs, payload: { otel: _place, ...payload } }) => ({ type, atMs, ...payload }));
}
