// Reads submissions out of a body: one event, or the elements of a batch.
// Before it: the body's bytes. After it: judgement. A submission is either sound or carries the error that takes its
// place in the reply; a batch without a sound element, or out of bounds, is refused whole.

import { Compile } from 'typebox/compile';
import type { EventType } from '../../schemas/closed-sets.ts';
import type { JsonObject } from '../../schemas/common.ts';
import type { ErrorDetail } from '../../schemas/error.ts';
import { BATCH_EVENTS_MAX, Submission as SubmissionSchema } from '../../schemas/event.ts';
import { isoTime, parseExactTime } from '../../schemas/time.ts';
import { ServiceError } from '../common/errors.ts';
import { dropOptionalNulls } from '../common/optional-nulls.ts';
import { errorDetails, validationFailed } from '../common/validation.ts';
import { type MarkedJson, parseMarked } from './json.ts';

const validator = Compile(SubmissionSchema);

const OCCURRED_AT_MIN = Date.UTC(2000, 0, 1);
const OCCURRED_AT_AHEAD_MAX_MS = 24 * 60 * 60 * 1000;

/** One event as its caller sent it. `payloadText` is the caller's own JSON text. */
export type ParsedSubmission = {
  type: EventType;
  payload: JsonObject;
  payloadText: string;
  traceId: string | undefined;
  /** Epoch ms, to the microsecond. */
  occurredAt: number;
};
/** `tooLarge`: for that alone. */
export type Rejected = { rejected: ErrorDetail[]; tooLarge?: true };
export type Element = ParsedSubmission | Rejected;

export function isRejected(element: Element): element is Rejected {
  return 'rejected' in element;
}

export function readSubmission(body: Buffer, nowMs: number): ParsedSubmission {
  const parsed = parseMarked(body, 'one');
  const element = toElement(parsed.value, parsed, 0, '', nowMs);
  if (isRejected(element)) throw validationFailed('The event does not fit its schema.', element.rejected);
  return element;
}

/** `eventBytesMax`: what the payload of one element may take, as a body of its own may. */
export function readBatch(body: Buffer, nowMs: number, eventBytesMax: number): Element[] {
  const parsed = parseMarked(body, 'many');
  const { events, base } = eventsOf(parsed.value);
  const mayBeLarge = body.length > eventBytesMax;
  const elements = events.map((value, i): Element => {
    const path = `${base}/${i}`;
    const element = toElement(value, parsed, i, path, nowMs);
    if (!mayBeLarge || isRejected(element) || Buffer.byteLength(element.payloadText) <= eventBytesMax) return element;
    return {
      rejected: [{ path: `${path}/payload`, message: `is larger than ${eventBytesMax} bytes` }],
      tooLarge: true,
    };
  });
  const rejected = elements.filter(isRejected);
  if (rejected.length === elements.length) {
    const details = rejected.flatMap((element) => element.rejected).slice(0, 16);
    if (rejected.every(({ tooLarge }) => tooLarge))
      throw new ServiceError('payload_too_large', EVENT_TOO_LARGE, { details, recorded: false });
    throw validationFailed('No event of the batch fits the schema.', details);
  }
  return elements;
}

export const EVENT_TOO_LARGE = 'The event is larger than one may be.';

/** The reference form `{"events": […]}` or the bare array of the guide. */
function eventsOf(value: unknown): { events: unknown[]; base: string } {
  if (Array.isArray(value)) return { events: bounded(value, '/'), base: '' };
  if (typeof value !== 'object' || value === null) throw badBatch('/', 'must be an object with `events`, or an array');
  const unknown = Object.keys(value).filter((key) => key !== 'events');
  if (unknown.length > 0) throw badBatch(`/${unknown[0]}`, 'unknown field');
  const events = (value as { events?: unknown }).events;
  if (events === undefined) throw badBatch('/events', 'is required');
  if (!Array.isArray(events)) throw badBatch('/events', 'must be an array');
  return { events: bounded(events, '/events'), base: '/events' };
}

function bounded(events: unknown[], path: string): unknown[] {
  if (events.length === 0) throw badBatch(path, 'must hold at least 1 event');
  if (events.length > BATCH_EVENTS_MAX)
    throw badBatch(path, `must hold at most ${BATCH_EVENTS_MAX} events, holds ${events.length}`);
  return events;
}

function badBatch(path: string, message: string) {
  return validationFailed('The batch does not fit its schema.', [{ path, message }]);
}

/** Whether an event may have happened then. */
export function isTimely(occurredAt: number, nowMs: number): boolean {
  return occurredAt >= OCCURRED_AT_MIN && occurredAt <= nowMs + OCCURRED_AT_AHEAD_MAX_MS;
}

/** Clients take a segment of a path that is `.` or `..` away: no GET could name such a trace. */
export function isTraceId(text: string): boolean {
  return text !== '.' && text !== '..';
}

function toElement(value: unknown, parsed: MarkedJson, index: number, path: string, nowMs: number): Element {
  if (!validator.Check(value)) dropOptionalNulls(SubmissionSchema, value);
  if (!validator.Check(value)) return { rejected: errorDetails(validator, value, path) };
  const { type, payload, trace_id: traceId, timestamp } = value;
  if (traceId !== undefined && !traceId.isWellFormed()) {
    return { rejected: [{ path: `${path}/trace_id`, message: 'must not hold a lone surrogate' }] };
  }
  if (traceId !== undefined && !isTraceId(traceId)) {
    const message = 'must not be . or ..: no URL can name it';
    return { rejected: [{ path: `${path}/trace_id`, message }] };
  }
  const occurredAt = timestamp === undefined ? nowMs : parseExactTime(timestamp)!;
  if (!isTimely(occurredAt, nowMs)) {
    const message = `must lie between ${isoTime(OCCURRED_AT_MIN)} and 24 h from now`;
    return { rejected: [{ path: `${path}/timestamp`, message }] };
  }
  const mark = parsed.payloads[index]!;
  return {
    type,
    payload: payload as JsonObject,
    payloadText: parsed.text.slice(mark[0], mark[1]),
    traceId,
    occurredAt,
  };
}
