// Which places of a stored event were redacted, and so cannot be judged again (of a backtest).
// A place is a string, or the name of a key, that holds a mark of redaction; the id of a trace, that is a token.
// Invariant: sound, not exact. What is said to be as it was sent is so. A key that was redacted may be on any path, and
// a private key spread over several members leaves some of them without a mark: then every place counts as redacted.
import { DETECTOR_NAMES, type DetectorName } from '../../../schemas/closed-sets.ts';
import type { JsonObject } from '../../../schemas/common.ts';
import { Budget, withinBudget } from '../budget.ts';
import { type Path, visitPath } from '../conditions/path.ts';
import { pointerOf, type Step } from '../conditions/pointer.ts';
import type { EventView } from '../judgement.ts';
import type { DataFilterTerms } from '../kinds/data-filter.ts';
import { CHECK_NAME, PATTERN_NAME, TRACE_TOKEN_CHARACTERS, UNREADABLE_NAME } from '../redaction/redaction.ts';

const MARK = new RegExp(
  `\\[redacted:(${[...DETECTOR_NAMES, PATTERN_NAME, CHECK_NAME, UNREADABLE_NAME].join('|')})\\]`,
  'g',
);
const TOKEN = /^redacted-[0-9a-f]+$/;
/** The beginning of a mark in the text of a payload. */
const BEGINS = '[redacted:';
/** Following one path. */
const FOLLOW_UNITS = 4_000_000;
type Redactable = Pick<EventView, 'payload' | 'payloadText' | 'trace_id'>;
/** A finding by a mark. `path` left out: in the id of the trace. */
type MarkFound = { detector: DetectorName; path?: string; key?: true };

export class RedactedPlaces {
  readonly #payload: JsonObject;
  readonly #isAll: boolean;
  readonly isTrace: boolean;

  private constructor({ payload, payloadText, trace_id: traceId }: Redactable) {
    this.#payload = payload;
    this.isTrace = traceId !== undefined && isToken(traceId);
    this.#isAll = payloadText.includes(`${BEGINS}private_key]`) || hasMarkedKey(payload);
  }

  /** null: nothing was redacted. */
  static of(event: Redactable): RedactedPlaces | null {
    const { payloadText, trace_id: traceId } = event;
    const isMarked = payloadText.includes(BEGINS) || (traceId !== undefined && isToken(traceId));
    return isMarked ? new RedactedPlaces(event) : null;
  }

  /** May what a condition on this path looks at have been redacted? */
  concern(path: Path): boolean {
    if (path.root === 'trace_id') return this.isTrace;
    if (path.root !== 'payload') return false;
    if (this.#isAll) return true;
    const how = { budget: new Budget(FOLLOW_UNITS), visit: holdsMark, unreadable: () => true };
    return withinBudget(() => visitPath(this.#payload, path, how), true);
  }

  /** A mark of one of the filter's detectors, where the filter looks; undefined: there is none. */
  markFor({ needles, fields }: DataFilterTerms): MarkFound | undefined {
    const wanted = new Set(needles.flatMap(({ detector }) => detector?.name ?? []));
    if (wanted.size === 0) return undefined;
    if (fields === null) return findMark(this.#payload, wanted, []);
    for (const path of fields) {
      const trail: Step[] = [];
      let found: MarkFound | undefined;
      const visit = (value: unknown) => {
        found = findMark(value, wanted, [...trail]);
        return found !== undefined;
      };
      const how = { budget: new Budget(FOLLOW_UNITS), visit, unreadable: () => false, trail };
      visitPath(this.#payload, path, how);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Does a filter look at anything that was redacted? */
  concernFilter({ fields, trace }: DataFilterTerms): boolean {
    if (trace && this.isTrace) return true;
    return fields === null ? holdsMark(this.#payload) : fields.some((path) => this.concern(path));
  }

  /** The payload without what was redacted: null stands there, keys are left out. */
  rest(): JsonObject {
    return this.#isAll ? {} : (withoutMarks(this.#payload) as JsonObject);
  }
}

function isToken(traceId: string): boolean {
  return traceId.length === TRACE_TOKEN_CHARACTERS && TOKEN.test(traceId);
}

function marksIn(text: string): string[] {
  return [...text.matchAll(MARK)].map(([, name]) => name!);
}

/** In a string anywhere in the value, or in a key; bounded by the depth of a payload. */
function holdsMark(value: unknown): boolean {
  if (typeof value === 'string') return value.includes(BEGINS);
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some(holdsMark);
  return Object.entries(value).some(([key, member]) => key.includes(BEGINS) || holdsMark(member));
}

function hasMarkedKey(value: unknown): boolean {
  // Of a text inside a text it is not said what is a key.
  if (typeof value === 'string') return /\[redacted:[a-z_]+\](~\d+)?\\*"\s*:/.test(value);
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some(hasMarkedKey);
  return Object.entries(value).some(([key, member]) => key.includes(BEGINS) || hasMarkedKey(member));
}

function findMark(value: unknown, wanted: ReadonlySet<string>, steps: Step[]): MarkFound | undefined {
  if (typeof value === 'string') {
    const name = marksIn(value).find((mark) => wanted.has(mark));
    return name === undefined ? undefined : { detector: name as DetectorName, path: pointerOf(steps) };
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const members: [Step, unknown][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  for (const [step, member] of members) {
    const named = typeof step === 'string' ? findMark(step, wanted, steps) : undefined;
    const found = named === undefined ? findMark(member, wanted, [...steps, step]) : { ...named, key: true as const };
    if (found !== undefined) return found;
  }
  return undefined;
}

function withoutMarks(value: unknown): unknown {
  if (typeof value === 'string') return value.includes(BEGINS) ? null : value;
  if (Array.isArray(value)) return value.map(withoutMarks);
  // A number that a double does not hold has no members of its own, but is one.
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const rest = Object.entries(value).filter(([key]) => !key.includes(BEGINS));
  return Object.fromEntries(rest.map(([key, member]) => [key, withoutMarks(member)]));
}
