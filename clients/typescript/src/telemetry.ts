// OpenTelemetry's active span, where a program has registered it: found by its global, so that nothing is imported.
type Span = {
  spanContext(): { traceId: string };
  setAttribute(name: string, value: string): unknown;
};
type Api = { context?: { active(): { getValue(key: symbol): unknown } } };

const API = Symbol.for('opentelemetry.js.api.1');
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN');

function activeSpan(): Span | undefined {
  return (globalThis as Record<symbol, Api | undefined>)[API]?.context?.active().getValue(SPAN) as Span | undefined;
}

/** undefined: there is no span. */
export function activeTraceId(): string | undefined {
  const id = activeSpan()?.spanContext().traceId;
  return id === undefined || /^0*$/.test(id) ? undefined : id;
}

/** The span says which event was judged for it. */
export function noteDecision(eventId: string): void {
  activeSpan()?.setAttribute('gatehouse.decision.id', eventId);
}
