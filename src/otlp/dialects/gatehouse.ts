// Our own attributes, for a program that knows best what an event of it should be: `gatehouse.event.type` with its
// payload as JSON text in `gatehouse.event.payload`.
import { EVENT_TYPES, type EventType } from '../../../schemas/closed-sets.ts';
import { type AttributeValue, isObject, jsonOf, type TraceSpan, textOf } from '../span.ts';

/** undefined: the span does not say. */
export function ownEvent({
  attributes,
}: TraceSpan): { type: EventType; payload: { [key: string]: AttributeValue } } | undefined {
  const type = EVENT_TYPES.find((one) => one === textOf(attributes, 'gatehouse.event.type'));
  if (type === undefined) return undefined;
  const payload = jsonOf(attributes, 'gatehouse.event.payload');
  return { type, payload: isObject(payload) ? payload : {} };
}
