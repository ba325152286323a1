// Counts the tokens of one call of a model once where several spans describe it, one in the other: an instrumentation
// of a framework around that of its client, two instrumentations of one client (between the dialects and the events).
// Invariant: of spans that lie in each other the most that any level says is counted, innermost first. What lies within
// a tool, an agent or any other step of a call is a call of its own.
// It knows the spans of one request: where a batch ends between the two, both are counted.
import type { ModelCall, SpanReading } from './dialects/dialect.ts';
import type { Usage } from './dialects/usage.ts';
import type { TraceSpan } from './span.ts';

type Sums = { input: number; total: number };
type Reading = SpanReading | undefined;

/** The usage that is counted of each call that has others in it; of one that is not there, all. */
export function countedBeside(spans: readonly TraceSpan[], readings: readonly Reading[]): Map<ModelCall, Usage> {
  const counted = new Map<ModelCall, Usage>();
  const calls = [...readings.keys()].filter((i) => readings[i]?.kind === 'model');
  // What a log record says its span says as well.
  for (const i of calls)
    if (spans[i]!.records !== undefined && spans[i]!.parentSpanId !== '') counted.set(readings[i] as ModelCall, {});
  if (calls.length < 2) return counted;
  const places = new Map<string, number>();
  for (const [i, { traceId, spanId }] of spans.entries())
    if (!places.has(idOf(traceId, spanId))) places.set(idOf(traceId, spanId), i);
  // Of a span that comes twice the first is kept.
  const isKept = (i: number) => places.get(idOf(spans[i]!.traceId, spans[i]!.spanId)) === i;
  const around = readings.map((reading, i) =>
    reading?.kind === 'model' && isKept(i) ? outerOf(i, spans, readings, places) : -1,
  );
  const within = new Map<number, Sums>();
  for (const i of innermostFirst(around)) {
    const call = readings[i] as ModelCall;
    const inner = within.get(i);
    const sums = sumsOf(call.usage, inner);
    if (inner !== undefined && inner.total > 0) counted.set(call, restOf(call.usage, inner));
    const outer = around[i]!;
    if (outer < 0) continue;
    const known = within.get(outer) ?? { input: 0, total: 0 };
    within.set(outer, { input: known.input + sums.input, total: known.total + sums.total });
  }
  return counted;
}

function idOf(traceId: string, spanId: string): string {
  return `${traceId}/${spanId}`;
}

/** The call of a model that lies next around this one; -1: none does. */
function outerOf(
  i: number,
  spans: readonly TraceSpan[],
  readings: readonly Reading[],
  places: ReadonlyMap<string, number>,
): number {
  const { traceId } = spans[i]!;
  let { parentSpanId } = spans[i]!;
  for (let steps = 0; steps < STEPS_MAX && parentSpanId !== ''; steps++) {
    const at = places.get(idOf(traceId, parentSpanId));
    if (at === undefined || at === i) return -1;
    const reading = readings[at];
    if (reading !== undefined) return reading.kind === 'model' ? at : -1;
    ({ parentSpanId } = spans[at]!);
  }
  return -1;
}

/** Between two spans of one call: of HTTP, retries, a queue. Parents in a circle end here, too. */
const STEPS_MAX = 16;

/** Indices of all calls, each behind those within it. Calls in a circle are left out: each counts for itself. */
function innermostFirst(around: readonly number[]): number[] {
  const left = new Map<number, number>();
  for (const outer of around) if (outer >= 0) left.set(outer, (left.get(outer) ?? 0) + 1);
  const order = [...around.keys()].filter((i) => !left.has(i) && around[i]! >= 0);
  for (const i of order) {
    const outer = around[i]!;
    if (outer < 0) continue;
    const waiting = left.get(outer)! - 1;
    left.set(outer, waiting);
    if (waiting === 0) order.push(outer);
  }
  return order;
}

function sumsOf({ inputTokens = 0, totalTokens = 0 }: Usage, inner: Sums = { input: 0, total: 0 }): Sums {
  return { input: Math.max(inputTokens, inner.input), total: Math.max(totalTokens, inner.total) };
}

/** Nothing where the calls within it have said it all. */
function restOf({ inputTokens = 0, totalTokens = 0 }: Usage, inner: Sums): Usage {
  if (totalTokens <= inner.total) return {};
  return { inputTokens: Math.max(0, inputTokens - inner.input), totalTokens: totalTokens - inner.total };
}
