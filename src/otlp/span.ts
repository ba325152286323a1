// A span as the dialects read it, whatever form it came in (between the decoders and the dialects; types and small
// readers of attributes alone).
// Invariant: every value is JSON: decoders make text of what JSON has no form for (bytes, long integers, NaN).

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
};

/** ns -> ms, to the microsecond: a double of ns would be off by up to 128 of them. */
export function msOfNanos(nanos: bigint): number {
  return Number(nanos / 1000n) / 1000;
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
/** Of values in values. Messages with parts and tool calls have 8. */
export const DEPTH_MAX = 32;

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

/** What JSON text stands for, where a value is JSON text of an object or an array. */
export function parsed(value: AttributeValue): AttributeValue {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.parse(value) as AttributeValue;
  } catch {
    return value;
  }
}

/** The same where all that is written there is JSON text: `"sunny"` stands for sunny. */
export function anyJsonOf(attributes: Attributes, ...names: readonly string[]): AttributeValue | undefined {
  for (const name of names) {
    const value = attributes.get(name);
    if (value === undefined) continue;
    if (typeof value !== 'string') return value;
    try {
      return JSON.parse(value) as AttributeValue;
    } catch {
      return value;
    }
  }
  return undefined;
}

export function isObject(value: AttributeValue | undefined): value is { [key: string]: AttributeValue } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
