// OpenTelemetry's active span, where a program has registered it: found by its global, so that nothing is imported.
type Span = {
  spanContext(): { traceId: string };
  setAttribute(name: string, value: string): unknown;
  /** The attributes of the SDK's spans; the API has no way to read them. */
  attributes?: Record<string, unknown>;
};
type Api = { context?: { active(): { getValue(key: symbol): unknown } } };

const API = Symbol.for('opentelemetry.js.api.1');
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN');
const DECISION = 'gatehouse.decision.id';
/** How the conventions in use name the tool of a span that is the call of one. */
const TOOL_NAMES = ['gen_ai.tool.name', 'tool.name', 'ai.toolCall.name', 'traceloop.entity.name'];

function activeSpan(): Span | undefined {
  return (globalThis as Record<symbol, Api | undefined>)[API]?.context?.active().getValue(SPAN) as Span | undefined;
}

/** undefined: there is no span. */
export function activeTraceId(): string | undefined {
  const id = activeSpan()?.spanContext().traceId;
  return id === undefined || /^0*$/.test(id) ? undefined : id;
}

/**
 * The span says which event was judged for it, and is not judged again. So it must be that of the call itself: what
 * lies around it (a model's call, an agent, an outer tool) was not asked about, and a second call is not the first.
 */
export function noteDecision(eventId: string, tool: unknown): void {
  const span = activeSpan();
  const attributes = span?.attributes;
  if (attributes === undefined || attributes[DECISION] !== undefined) return;
  if (TOOL_NAMES.some((name) => attributes[name] === tool)) span!.setAttribute(DECISION, eventId);
}
