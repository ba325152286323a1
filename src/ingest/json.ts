// Reads JSON from the wire without losing or changing a token (after the body, before the schema).
// One pass over the text notes the depth, counts the keys and marks where each event's payload lies; JSON.parse then
// checks the grammar and makes the values that policies inspect. The payload's own bytes are cut out by the marks, so
// that what is echoed and kept is what was sent: key order, `1.0`, `1e400`, escapes.
// Ambiguous text is refused: invalid UTF-8, depth over JSON_DEPTH_MAX, a key twice in one object. A key
// that stands twice makes the parsed value hold fewer keys than the text, which is how it is found, at the cost of a
// count. Every failure is ServiceError `malformed_json`, with the place, which a second pass finds; nothing here can
// throw anything else for any input, but for a body of more keys than its reader takes, which is not parsed.
import { isUtf8 } from 'node:buffer';
import type { Json } from '../../schemas/common.ts';
import { ServiceError } from '../common/errors.ts';
import { stringEnd } from '../common/exact-json.ts';
import { countKeys } from '../common/inner-json.ts';
import { faultInWords, findJsonFault, type JsonFault } from '../common/json-fault.ts';
import { JSON_DEPTH_MAX } from '../common/limits.ts';
import { jsonPointer } from '../common/validation.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;

/** Where the events of a body are: the body itself, or the elements of its array. */
export type Shape = 'one' | 'many';

type ParsedJson = { value: Json; text: string };
/** `payloads[i]`: UTF-16 offsets of the payload of element i (0 for a single event); undefined where it has none. */
export type MarkedJson = ParsedJson & { payloads: ([start: number, end: number] | undefined)[] };

type Parse = (text: string) => Json;
/** `keysMax`: in all objects together. */
type Parsing = { parse?: Parse | undefined; keysMax?: number };

/** Parses any JSON body. */
export function parseJson(bytes: Buffer, parse?: Parse): Json {
  return parseMarked(bytes, 'one', { parse }).value;
}

/** Parses a body of events and marks their payloads. */
export function parseMarked(
  bytes: Buffer,
  shape: Shape,
  { parse = JSON.parse, keysMax = Number.POSITIVE_INFINITY }: Parsing = {},
): MarkedJson {
  if (!isUtf8(bytes)) throw malformed(bytes, shape);
  const text = bytes.toString('utf8');
  const scan = new Scan(text, shape);
  if (!scan.run()) throw malformed(bytes, shape);
  if (scan.keys > keysMax)
    throw new ServiceError('validation_failed', `The body has more than ${keysMax} keys.`, { recorded: false });
  let value: Json;
  try {
    value = parse(text);
  } catch (cause) {
    throw malformed(bytes, shape, cause);
  }
  if (countKeys(value, JSON_DEPTH_MAX) !== scan.keys) throw malformed(bytes, shape);
  return { value, text, payloads: scan.payloads };
}

/**
 * The pass over the text. It trusts nothing about the grammar: what it misreads in bad JSON, JSON.parse refuses
 * afterwards.
 */
class Scan {
  keys = 0;
  readonly payloads: ([number, number] | undefined)[] = [];
  readonly #text: string;
  /** Depth at which an event's own keys stand, once known; the root decides between `[…]` and `{"events": […]}`. */
  #eventDepth: number;
  readonly #shape: Shape;
  #element = 0;

  constructor(text: string, shape: Shape) {
    this.#text = text;
    this.#shape = shape;
    this.#eventDepth = shape === 'one' ? 1 : 0;
  }

  /** false: it is nested too deep. */
  run(): boolean {
    const text = this.#text;
    let depth = 0;
    let lastString = -1; // start of the latest string, a key if a colon follows
    let payloadFrom = -1;
    for (let i = 0; i < text.length; i++) {
      switch (text.charCodeAt(i)) {
        case QUOTE:
          lastString = i;
          i = stringEnd(text, i);
          break;
        case COLON:
          this.keys++;
          if (depth === this.#eventDepth && this.#isPayloadKey(lastString)) payloadFrom = i + 1;
          break;
        case OPEN_OBJECT:
        case OPEN_ARRAY:
          if (++depth > JSON_DEPTH_MAX) return false;
          if (depth === 1 && this.#shape === 'many') this.#eventDepth = text.charCodeAt(i) === OPEN_ARRAY ? 2 : 3;
          break;
        case CLOSE_OBJECT:
        case CLOSE_ARRAY:
          if (payloadFrom >= 0 && depth === this.#eventDepth) {
            this.payloads[this.#element] = trimmed(text, payloadFrom, i);
            payloadFrom = -1;
          }
          depth--;
          break;
        case COMMA:
          if (depth === this.#eventDepth && payloadFrom >= 0) {
            this.payloads[this.#element] = trimmed(text, payloadFrom, i);
            payloadFrom = -1;
          } else if (depth === this.#eventDepth - 1) this.#element++;
          break;
      }
    }
    return true;
  }

  /** Is the string that starts there the word `payload`, however it is escaped? */
  #isPayloadKey(start: number): boolean {
    if (start < 0) return false;
    const text = this.#text;
    if (text.startsWith('payload"', start + 1)) return true;
    const end = stringEnd(text, start);
    const raw = text.slice(start, end + 1);
    if (!raw.includes('\\') || raw.length > 6 * 'payload'.length + 2) return false;
    try {
      return JSON.parse(raw) === 'payload';
    } catch {
      return false;
    }
  }
}

function trimmed(text: string, start: number, end: number): [number, number] {
  while (start < end && text.charCodeAt(start) <= 0x20) start++;
  while (end > start && text.charCodeAt(end - 1) <= 0x20) end--;
  return [start, end];
}

/** The error for a body that is not JSON, and where. The fault is found again with care: a refusal has time. */
function malformed(bytes: Buffer, shape: Shape, cause?: unknown): ServiceError {
  const fault = findJsonFault(bytes);
  if (fault === null)
    return new ServiceError('malformed_json', 'The body cannot be read as JSON.', { cause, recorded: false });
  const element = shape === 'many' ? elementOf(fault) : undefined;
  const where = element === undefined ? '' : ` in element ${element}`;
  const sentence = faultInWords(fault);
  const details = [{ path: jsonPointer(fault.path), message: sentence }];
  return new ServiceError('malformed_json', `The body cannot be read as JSON${where}: ${sentence}.`, {
    ...{ cause, details, recorded: false },
  });
}

/** The element of a batch at which the fault lies, in both its forms. */
function elementOf({ path: [first, second] }: JsonFault): number | undefined {
  if (typeof first === 'number') return first;
  return first === 'events' && typeof second === 'number' ? second : undefined;
}
