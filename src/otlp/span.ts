// A span as the dialects read it, whatever form it came in (between the decoders and the dialects; types and small
// readers of attributes alone).
// Invariant: every value is JSON: decoders make text of what JSON has no form for (bytes, NaN). A number that a double
// does not hold is a LongNumber, and JSON text that is read keeps its text (`jsonTextOf`): no digit changes on the way.

import { exactJson } from '../common/exact-json.ts';
import { type ExactNumber, exactNumber, LongNumber } from '../common/exact-number.ts';
import { exactValue } from '../common/inner-json.ts';
import { JSON_DEPTH_MAX } from '../common/limits.ts';

export type AttributeValue = string | number | boolean | null | AttributeValue[] | { [key: string]: AttributeValue };
export type Attributes = ReadonlyMap<string, AttributeValue>;

export type SpanEvent = { name: string; timeMs: number; attributes: Attributes };

export type TraceSpan = {
  /** Lower-case hex, as long as it was sent; '' for none. */
  traceId: string;
  spanId: string;
  parentSpanId: string;
  name: string;
  /** Epoch ms, to the microsecond. */
  startMs: number;
  endMs: number;
  attributes: Attributes;
  events: readonly SpanEvent[];
  isError: boolean;
  statusMessage: string;
  resource: Attributes;
  /** Name of the library that made it. */
  scope: string;
  /** Where it stands in the request, as `/resourceSpans/0/scopeSpans/0/spans/2`. */
  place?: string;
  /** Log records that it was made of (log-records.ts); undefined: it is a span. */
  records?: number;
  /** Attributes of numbered names that were left out, since there are too many. */
  attributesLeftOut?: number;
};

/** The signals that a request may carry. Nothing is made of metrics. */
export type OtlpSignal = 'traces' | 'logs' | 'metrics';

/** The spans of a request. `faults`: where and why, for each that cannot be read. */
export type DecodedSpans = { spans: TraceSpan[]; faults: string[] };

/** Adds what `read` gives, or the fault that it throws: a span that cannot be read is rejected by itself. */
export function addSpan({ spans, faults }: DecodedSpans, read: () => TraceSpan): void {
  if (spans.length + faults.length >= SPANS_MAX)
    throw new Undecodable(`there are more than ${SPANS_MAX} spans`, { tooLarge: true });
  try {
    spans.push(read());
  } catch (error) {
    if (!(error instanceof Undecodable)) throw error;
    faults.push(error.message);
  }
}

/** All spans from `first` on share this fault, as of their resource. */
export function rejectFrom({ spans, faults }: DecodedSpans, first: number, fault: string): void {
  faults.push(...spans.splice(first).map(() => fault));
}

/**
 * Attributes in a bounded number. Past it those of numbered names are left out: a conversation is written flat so, an
 * attribute for each part of a message. What says whose span it is, its model, tool and tokens is none of them.
 */
export class AttributesInOrder {
  readonly attributes = new Map<string, AttributeValue>();
  #leftOut = 0;

  /** `path`: of what they are, for the fault that there are too many without a number. */
  add(key: string, value: AttributeValue, path: string): void {
    if (this.#leftOut > 0 && NUMBERED.test(key)) this.#leftOut++;
    else this.attributes.set(key, value);
    if (this.attributes.size <= ATTRIBUTES_MAX) return;
    for (const known of this.attributes.keys()) {
      if (!NUMBERED.test(known)) continue;
      this.attributes.delete(known);
      this.#leftOut++;
    }
    if (this.attributes.size > ATTRIBUTES_MAX) throw tooMany(path, 'attributes');
  }

  counted(): Pick<TraceSpan, 'attributesLeftOut'> {
    return this.#leftOut === 0 ? {} : { attributesLeftOut: this.#leftOut };
  }
}

/**
 * The most characters in the attributes of a resource or scope. All its spans carry them, 8,192 times: in payloads,
 * hashes and records.
 */
const SHARED_CHARACTERS_MAX = 32 * 1024;
const WORD_CHARACTERS_MAX = 200;

/** Why what spans share cannot be kept with each of them. */
export function sharedFault(attributes: Attributes, path: string): string | undefined {
  const isLarge = exactJson([...attributes]).length > SHARED_CHARACTERS_MAX;
  return isLarge ? `${path} is larger than ${SHARED_CHARACTERS_MAX} characters` : undefined;
}

/** A name or an id that stands in many payloads. */
export function shortened(text: string): string {
  return text.length <= WORD_CHARACTERS_MAX ? text : text.slice(0, WORD_CHARACTERS_MAX).toWellFormed();
}

export function tooMany(path: string, what: string): Undecodable {
  return new Undecodable(`${path} has more than ${ATTRIBUTES_MAX} ${what}`);
}

/** `llm.input_messages.12.message.content` */
const NUMBERED = /\.\d+(?:\.|$)/;

/** ns -> ms, to the microsecond: a double of ns would be off by up to 128 of them. */
export function msOfNanos(nanos: bigint): number {
  return Number(nanos / 1000n) / 1000;
}

/** An integer of up to 64 bits. */
export function integerOf(value: bigint): AttributeValue {
  const number = Number(value);
  return attributeOf(Number.isSafeInteger(number) ? number : exactNumber(String(value)));
}

/** The value of a double. A number that JSON does not have is text, as protobuf's JSON writes it. */
export function doubleOf(value: ExactNumber): AttributeValue {
  if (value instanceof LongNumber)
    return attributeOf(String(Number(value.text)) === value.text ? Number(value.text) : value);
  return Number.isFinite(value) ? value : String(value);
}

/** Where JSON is read exactly, a LongNumber stands for a number everywhere. */
function attributeOf(value: ExactNumber): AttributeValue {
  return value as unknown as AttributeValue;
}

/** The body is not what it says, or is beyond a bound. `tooLarge`: of spans or bytes. */
export class Undecodable extends Error {
  override name = 'Undecodable';
  readonly tooLarge: boolean;

  constructor(message: string, { tooLarge = false, cause }: { tooLarge?: boolean; cause?: unknown } = {}) {
    super(message, { cause });
    this.tooLarge = tooLarge;
  }
}

/** Exporters send 512 at once, collectors 8,192. */
export const SPANS_MAX = 8_192;
/** SDKs keep 128 of a span; conversations that are written flat, one attribute a message, have more. */
export const ATTRIBUTES_MAX = 2_048;
/** Values in values are as deep at most as in any JSON that comes in. */
export const DEPTH_MAX = JSON_DEPTH_MAX;

export function textOf(attributes: Attributes, ...names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = attributes.get(name);
    if (typeof value === 'string' && value !== '') return value;
  }
  return undefined;
}

/** Counts may come as text, as long integers do in JSON. */
export function countOf(attributes: Attributes, ...names: readonly string[]): number | undefined {
  for (const name of names) {
    const value = attributes.get(name);
    const count = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value;
    if (typeof count === 'number' && Number.isSafeInteger(count) && count >= 0) return count;
  }
  return undefined;
}

/** The value of the first that is there; JSON text is parsed, any other text stays. */
export function jsonOf(attributes: Attributes, ...names: readonly string[]): AttributeValue | undefined {
  for (const name of names) {
    const value = attributes.get(name);
    if (value !== undefined) return parsed(value);
  }
  return undefined;
}

/** The value of JSON text, where a value is JSON text of an object or an array. */
export function parsed(value: AttributeValue): AttributeValue {
  return typeof value === 'string' && /^\s*[[{]/.test(value) ? anyJson(value) : value;
}

/** The texts that objects and arrays were read out of. */
const SOURCES = new WeakMap<object, string>();

/**
 * The value of text that is JSON, of whatever kind: `"sunny"` stands for sunny. Text that has not one reading (a key
 * twice, too deep, no JSON) stays text, which policies treat as such.
 */
export function anyJson(value: AttributeValue): AttributeValue {
  const read = typeof value === 'string' ? (exactValue(value) as AttributeValue | undefined) : undefined;
  if (read === undefined) return value;
  const text = value as string;
  if (typeof read === 'object' && read !== null && text.isWellFormed()) SOURCES.set(read, text.trim());
  return read;
}

/** JSON text of a value; of one that was read out of text it is that text. */
export function jsonTextOf(value: AttributeValue): string {
  const source = typeof value === 'object' && value !== null ? SOURCES.get(value) : undefined;
  return source ?? exactJson(value);
}

export function isObject(value: AttributeValue | undefined): value is { [key: string]: AttributeValue } {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !((value as unknown) instanceof LongNumber)
  );
}
