// Makes the stored copy of a payload that a data filter with `redact` matched (when the event is encoded).
// Works on the caller's own text: in every string and key that holds a match, the match is replaced by
// `[redacted:NAME]`, NAME being the detector's name or `pattern`; every other token, and the rest of such a string,
// stays byte for byte as it was sent (`1e400`, key order, escapes). Overlapping matches are replaced together, under
// the name of the one that starts first. A whole number in which a detector finds something becomes the text of its
// mark. A trace's id becomes a token, the same for the same id, so that traces stay together.
// Two keys of one object that would become equal get `~2`, `~3` … behind them, so that the copy stays sound JSON.
// Fails closed: where positions cannot be found within the budget, that string and all later ones are replaced whole.
import { createHmac } from 'node:crypto';
import { Budget, OverBudget, REDACT_UNITS } from './budget.ts';
import type { Path } from './conditions/path.ts';
import type { Find, Span } from './detectors/detector-search.ts';
import { NUMBER_DIGITS } from './detectors/detectors.ts';
import { Automaton } from './text-search/automaton.ts';
import { LiteralSearch } from './text-search/literal-search.ts';
import { Program } from './text-search/program.ts';
import { DETECTOR_UNITS, FOUND, type Needle, Scanner } from './text-search/scanner.ts';

/** What one rule wants replaced. `fields` null: everywhere in the payload. */
export class Redaction {
  readonly fields: readonly Path[] | null;
  readonly traceKey: string;
  readonly #trace: boolean;
  readonly #scanner: Scanner;
  readonly #wanted: Uint8Array;
  readonly #finders: (Finder | undefined)[] = [];

  /** `traceKey`: the account's, so that an id cannot be found by trying. */
  constructor(
    needles: readonly Needle[],
    { fields, trace, traceKey = '' }: { fields: readonly Path[] | null; trace: boolean; traceKey?: string },
  ) {
    this.fields = fields;
    this.traceKey = traceKey;
    this.#trace = trace;
    this.#scanner = new Scanner(needles);
    this.#wanted = new Uint8Array(needles.length).fill(1);
  }

  /** Whether it finds something in a trace's id. */
  findsIn(traceId: string, budget: Budget): boolean {
    if (!this.#trace) return false;
    const spans: NamedSpan[] = [];
    try {
      this.spans(traceId, budget, spans);
    } catch (error) {
      if (error instanceof OverBudget) return true;
      throw error;
    }
    return spans.length > 0;
  }

  get looksAtNumbers(): boolean {
    return this.#scanner.looksAtNumbers;
  }

  /** The detector that finds this whole number. Throws OverBudget. */
  numberName(digits: string, key: string, budget: Budget): string | undefined {
    budget.spend(STRING_UNITS);
    this.#scanner.begin(budget.left, 0, this.#wanted);
    if (!this.#scanner.scanNumber(digits, key)) return undefined;
    const needle = this.#scanner.found.findIndex((found) => found !== FOUND.no);
    return this.#scanner.needles[needle]!.detector!.name;
  }

  get needles(): number {
    return this.#wanted.length;
  }

  /** Adds the positions of all matches in the text. Throws OverBudget. */
  spans(text: string, budget: Budget, spans: NamedSpan[]): void {
    budget.spend(STRING_UNITS);
    this.#scanner.begin(budget.left, budget.left / 4, this.#wanted);
    const isHit = this.#scanner.scan(text);
    budget.left = this.#scanner.unitsLeft;
    budget.spend(this.#scanner.buildUnitsUsed);
    if (!isHit) return;
    this.#scanner.needles.forEach((needle, i) => {
      if (this.#scanner.found[i] === FOUND.no) return;
      this.#finders[i] ??= finderOf(needle);
      const name = needle.detector?.name ?? 'pattern';
      for (const { start, end } of this.#finders[i]!(text, budget)) {
        budget.spend(SPAN_UNITS);
        spans.push({ start, end, name });
      }
    });
  }
}

type NamedSpan = Span & { name: string };

/**
 * What is kept of a trace's id: itself, or a token where one of them finds something in it. What cannot be settled
 * counts as found.
 */
export function redactTrace(traceId: string, redactions: readonly Redaction[]): string {
  const budget = new Budget(REDACT_UNITS);
  const found = redactions.find((redaction) => redaction.findsIn(traceId, budget));
  if (found === undefined) return traceId;
  const token = createHmac('sha256', found.traceKey).update(traceId).digest('hex');
  return `${TOKEN_BEGINS}${token.slice(0, TRACE_TOKEN_CHARACTERS - TOKEN_BEGINS.length)}`;
}

const TOKEN_BEGINS = 'redacted-';
/** Of the whole token, with 128 bits. */
export const TRACE_TOKEN_CHARACTERS = TOKEN_BEGINS.length + 32;
/** Asking one redaction about one string, however short. */
const STRING_UNITS = 60;
/** Noting, ordering and replacing one position, about 700 ns. */
const SPAN_UNITS = 250;
type Finder = (text: string, budget: Budget) => Span[];

function finderOf({ pattern, detector }: Needle): Finder {
  if (detector !== null) return repeated(detector.finds);
  if (pattern!.literal !== null) return plainFinder(new LiteralSearch(pattern!.literal));
  return patternFinder(new Program([pattern!]));
}

/** A detector's way of finding is linear from one finding to the next. */
function repeated(finds: readonly Find[]): Finder {
  return (text, budget) => {
    const spans: Span[] = [];
    for (const find of finds) {
      budget.spend(DETECTOR_UNITS * text.length);
      for (let span = find(text, 0, budget); span !== null; span = find(text, span.end, budget)) {
        budget.spend(64);
        spans.push(span);
      }
    }
    return spans;
  };
}

function plainFinder(plain: LiteralSearch): Finder {
  return (text, budget) => {
    const spans: Span[] = [];
    for (let from = 0; ; ) {
      const start = plain.indexIn(text, from, budget);
      if (start < 0) return spans;
      from = start + plain.text.length;
      spans.push({ start, end: from });
    }
  };
}

/** Backwards once to learn where matches start, then from each start forwards to its longest end. */
function patternFinder(program: Program): Finder {
  const backwards = new Automaton(program, 'starts');
  const forwards = new Automaton(program, 'longest');
  return (text, budget) => {
    const marks = new Uint8Array(text.length + 1);
    const spans: Span[] = [];
    metered(backwards, budget, () => backwards.starts(text, marks, budget));
    for (let start = marks.indexOf(1); start >= 0; ) {
      const end = metered(forwards, budget, () => forwards.longest(text, start, budget));
      if (end > start) spans.push({ start, end }); // nothing to hide in an empty match
      start = marks.indexOf(1, Math.max(end, start + 1));
    }
    return spans;
  };
}

function metered<T>(automaton: Automaton, budget: Budget, run: () => T): T {
  const granted = Math.max(0, budget.left);
  automaton.grant(granted);
  try {
    return run();
  } finally {
    budget.left -= granted - automaton.buildLeft;
  }
}

/** The payload's text with all matches of all redactions replaced. */
export function redactPayload(payloadText: string, redactions: readonly Redaction[]): string {
  return new Copy(payloadText, redactions).run();
}

/**
 * For each redaction: 'in' where it applies, 'out' where it never will, else how far each of its paths has been
 * followed.
 */
type Scope = readonly (readonly number[] | 'in' | 'out')[];

const FLATTEN_CHARACTERS = 256;
const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
/** Code units behind a number, true, false or null. */
const ENDS_SCALAR = Uint8Array.from({ length: 128 }, (_, unit) =>
  unit <= 0x20 || ',]}'.includes(String.fromCharCode(unit)) ? 1 : 0,
);
/** Of what could not be looked through within the budget. */
const OVER_NAME = 'pattern';
const NO_SPANS: NamedSpan[] = [];
const BACKSLASH = 0x5c;

/** One pass over sound JSON: the text was parsed before. */
class Copy {
  readonly #text: string;
  readonly #redactions: readonly Redaction[];
  readonly #budget = new Budget(REDACT_UNITS);
  readonly #looksAtNumbers: boolean;
  #isOver = false;
  #at = 0;
  /** Everything before this position has been copied to `#parts`. */
  #copied = 0;
  readonly #parts: string[] = [];

  constructor(text: string, redactions: readonly Redaction[]) {
    this.#text = text;
    this.#redactions = redactions;
    this.#looksAtNumbers = redactions.some((redaction) => redaction.looksAtNumbers);
  }

  run(): string {
    this.#value(
      this.#redactions.map(({ fields }) => (fields === null ? 'in' : fields.map(() => 0))),
      '',
    );
    this.#parts.push(this.#text.slice(this.#copied));
    return this.#parts.join('');
  }

  /** `key`: of the member that holds the value, itself or in arrays. */
  #value(scope: Scope, key: string): void {
    this.#skipSpace();
    const first = this.#text.charCodeAt(this.#at);
    if (first === OPEN_OBJECT) this.#object(scope);
    else if (first === OPEN_ARRAY) this.#array(scope, key);
    else if (first === QUOTE) this.#string(scope, null);
    else {
      const start = this.#at;
      while (!ENDS_SCALAR[this.#text.charCodeAt(this.#at)]) this.#at++;
      if (this.#looksAtNumbers) this.#number(start, scope, key);
    }
  }

  #number(start: number, scope: Scope, key: string): void {
    const { min, max } = NUMBER_DIGITS;
    if (this.#at - start < min || this.#at - start > max) return;
    const digits = this.#text.slice(start, this.#at);
    if (!/^\d+$/.test(digits)) return;
    const name = this.#numberName(digits, scope, key);
    if (name === undefined) return;
    this.#parts.push(this.#text.slice(this.#copied, start), `"[redacted:${name}]"`);
    this.#copied = this.#at;
  }

  #numberName(digits: string, scope: Scope, key: string): string | undefined {
    const looking = this.#redactions.filter((redaction, r) => scope[r] === 'in' && redaction.looksAtNumbers);
    if (looking.length === 0) return undefined;
    try {
      if (this.#isOver) return OVER_NAME;
      for (const redaction of looking) {
        const name = redaction.numberName(digits, key, this.#budget);
        if (name !== undefined) return name;
      }
      return undefined;
    } catch (error) {
      if (!(error instanceof OverBudget)) throw error;
      this.#isOver = true;
      return OVER_NAME;
    }
  }

  #object(scope: Scope): void {
    const keys = new RedactedKeys();
    this.#at++;
    for (this.#skipSpace(); this.#text.charCodeAt(this.#at) !== CLOSE_OBJECT; this.#skipComma()) {
      const key = this.#string(scope, keys);
      this.#skipSpace();
      this.#at++; // the colon
      this.#value(
        isSettled(scope) ? scope : this.#step(scope, (path, at) => (path.segments[at] === key ? at + 1 : -1)),
        key,
      );
    }
    this.#at++;
  }

  #array(scope: Scope, key: string): void {
    this.#at++;
    this.#skipSpace();
    for (let i = 0; this.#text.charCodeAt(this.#at) !== CLOSE_ARRAY; i++, this.#skipComma()) {
      this.#value(isSettled(scope) ? scope : this.#step(scope, (path, at) => afterIndex(path, at, i)), key);
    }
    this.#at++;
  }

  #skipComma(): void {
    this.#skipSpace();
    if (this.#text.charCodeAt(this.#at) === COMMA) this.#at++;
    this.#skipSpace();
  }

  /** One level deeper; `next` says how far a path is then, -1 for off it. */
  #step(scope: Scope, next: (path: Path, at: number) => number): Scope {
    return scope.map((places, r) => {
      if (typeof places === 'string') return places;
      const paths = this.#redactions[r]!.fields!;
      const after = places.map((at, p) => (at < 0 ? -1 : next(paths[p]!, at)));
      if (after.some((at, p) => at === paths[p]!.segments.length)) return 'in';
      return after.every((at) => at < 0) ? 'out' : after;
    });
  }

  /** Copies a string, replaced where it has to be; answers its decoded text. `keys`: the object's, if it is a key. */
  #string(scope: Scope, keys: RedactedKeys | null): string {
    const start = this.#at;
    const end = this.#stringEnd(start);
    this.#at = end;
    const raw = this.#text.slice(start + 1, end - 1);
    const escaped = raw.includes('\\');
    // JSON.parse also where nothing is escaped: a long slice of a slice is slow to read by character.
    const text =
      escaped || raw.length > FLATTEN_CHARACTERS ? (JSON.parse(this.#text.slice(start, end)) as string) : raw;
    const spans = !this.#isOver && scope.includes('in') ? this.#spans(text, scope) : NO_SPANS;
    let body = spans.length === 0 ? raw : replaced(raw, escaped ? placesIn(raw) : null, spans);
    if (this.#isOver && raw !== '' && scope.includes('in')) body = `[redacted:${OVER_NAME}]`;
    if (keys !== null) body = keys.distinct(body);
    if (body !== raw) {
      this.#parts.push(this.#text.slice(this.#copied, start + 1), body);
      this.#copied = end - 1;
    }
    return text;
  }

  #spans(text: string, scope: Scope): NamedSpan[] {
    const spans: NamedSpan[] = [];
    if (text.length === 0) return spans;
    try {
      scope.forEach((places, r) => {
        if (places === 'in') this.#redactions[r]!.spans(text, this.#budget, spans);
      });
      return merged(spans);
    } catch (error) {
      if (!(error instanceof OverBudget)) throw error;
      this.#isOver = true;
      return NO_SPANS;
    }
  }

  #skipSpace(): void {
    while (this.#text.charCodeAt(this.#at) <= 0x20) this.#at++;
  }

  /** Behind the quote that closes the string which opens at `open`. */
  #stringEnd(open: number): number {
    for (let from = open + 1; ; ) {
      const quote = this.#text.indexOf('"', from);
      let backslashes = 0;
      while (this.#text.charCodeAt(quote - 1 - backslashes) === BACKSLASH) backslashes++;
      if (backslashes % 2 === 0) return quote + 1;
      from = quote + 1;
    }
  }
}

/**
 * Keeps the keys of one object apart that redaction would make equal. Others cannot be: the payload's own were
 * different. Each key continues from the number that its last one got, so n equal keys are n steps.
 */
class RedactedKeys {
  /** Key to the number that is tried next. */
  #taken: Map<string, number> | null = null;

  distinct(key: string): string {
    if (!key.includes('[redacted:')) return key;
    this.#taken ??= new Map();
    let next = this.#taken.get(key);
    let distinct = key;
    if (next !== undefined) {
      do distinct = `${key}~${next++}`;
      while (this.#taken.has(distinct));
      this.#taken.set(key, next);
    }
    this.#taken.set(distinct, 2);
    return distinct;
  }
}

/** Is it known of every redaction whether it applies here and below? */
function isSettled(scope: Scope): boolean {
  for (const places of scope) if (typeof places !== 'string') return false;
  return true;
}

function afterIndex(path: Path, at: number, index: number): number {
  if (path.indexes[at]! < 0) return at;
  return path.indexes[at] === index ? at + 1 : -1;
}

/** In order, without overlaps; of two that overlap the first gives the name, the longer one if they start together. */
function merged(spans: NamedSpan[]): NamedSpan[] {
  if (spans.some((span, i) => i > 0 && span.start <= spans[i - 1]!.start)) {
    spans.sort((a, b) => a.start - b.start || b.end - a.end);
  }
  let kept = 0;
  for (const span of spans) {
    const last = spans[kept - 1];
    if (last !== undefined && span.start < last.end) last.end = Math.max(last.end, span.end);
    else spans[kept++] = span;
  }
  spans.length = kept;
  return spans;
}

/** For each code unit of the decoded string, and for its end: where it starts in the raw one. */
function placesIn(raw: string): Int32Array {
  const places = new Int32Array(raw.length + 1);
  let decoded = 0;
  for (let i = 0; i < raw.length; i += raw.charCodeAt(i) !== BACKSLASH ? 1 : raw[i + 1] === 'u' ? 6 : 2)
    places[decoded++] = i;
  places[decoded] = raw.length;
  return places;
}

function replaced(raw: string, places: Int32Array | null, spans: readonly NamedSpan[]): string {
  const parts: string[] = [];
  let from = 0;
  for (const { start, end, name } of spans) {
    parts.push(raw.slice(from, places === null ? start : places[start]), `[redacted:${name}]`);
    from = places === null ? end : places[end]!;
  }
  parts.push(raw.slice(from));
  return parts.join('');
}
