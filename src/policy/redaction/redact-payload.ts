// Makes the stored copy of an event that a data filter with `redact` matched (as the last part of its judgement, so
// that its work counts as the rest of it does: what is too much for the loop that answers is done elsewhere).
// Works on the caller's own text: in every string and key that holds a match, the match is replaced by
// `[redacted:NAME]`, NAME being the detector's name or `pattern`; every other token, and the rest of such a string,
// stays byte for byte as it was sent (`1e400`, key order, escapes). Overlapping matches are replaced together, under
// the name of the one that starts first. A whole number in which a detector finds something becomes the text of its
// mark.
// Two keys of one object that would become equal get `~2`, `~3` … behind them, so that the copy stays sound JSON.
// A string that is JSON is copied by the same rules: what is found in its strings and numbers is replaced there, and
// what is found in the string as a whole is replaced in each of its strings and numbers that it touches. So it still
// parses. One that begins like JSON and cannot be read, or in which a finding has no place, is replaced whole.
// Fails closed: where positions cannot be found within the budget, that string and all later ones are replaced whole.
import type { Json } from '../../../schemas/common.ts';
import { exactJson, stringEnd } from '../../common/exact-json.ts';
import { exactNumber } from '../../common/exact-number.ts';
import { mayHoldJson } from '../../common/inner-json.ts';
import { applied, type TextEdit } from '../../common/text-edits.ts';
import { Budget, OverBudget, redactUnits } from '../budget.ts';
import type { Path } from '../conditions/path.ts';
import type { Span } from '../detectors/detector-search.ts';
import { NUMBER_DIGITS } from '../detectors/detectors.ts';
import { nameBefore, nameBeside, wholeDigits } from '../text-search/walk.ts';
import { foldedText, mayHoldFoldable } from '../texts/folded.ts';
import { formsOf, innerAt } from '../texts/text-forms.ts';
import { decodedEnd, decodedStart, editsInRaw, placesIn } from './raw-string.ts';
import { type NamedSpan, PATTERN_NAME, type Redaction, redactTrace, UNREADABLE_NAME } from './redaction.ts';

/** `payload`: what the text was parsed to. */
type Redactable = { payload: Json; payloadText: string; trace_id: string | undefined };
/**
 * The copy of an event that is kept. `changed`: keys of the payload's own members in which something was replaced.
 * `worked`: units that it took.
 */
export type RedactedCopy = {
  payloadText: string;
  traceId: string | undefined;
  changed: readonly string[];
  worked: number;
};

/**
 * The event with all matches of all redactions replaced. `here`: units that may be worked on this thread. Throws
 * TooLong over them.
 */
export function redact(
  event: Redactable,
  redactions: readonly Redaction[],
  here = Number.POSITIVE_INFINITY,
): RedactedCopy {
  const { payload, payloadText, trace_id: traceId } = event;
  const scope = redactions.map(({ fields }) => (fields === null ? 'in' : fields.map(() => 0)));
  const needles = redactions.reduce((sum, redaction) => sum + redaction.needles, 0);
  const budget = new Budget(redactUnits(payloadText.length, needles), here);
  budget.spend(payloadText.length);
  const work: Work = {
    payload,
    redactions,
    budget,
    isOver: false,
    isFoldable: mayHoldFoldable(payloadText),
    looksAtNumbers: redactions.some((redaction) => redaction.looksAtNumbers),
    looksAtLines: redactions.some((redaction) => redaction.looksAtLines),
    looksAtNames: redactions.some((redaction) => redaction.looksAtNames),
    changed: [],
  };
  const text = applied(payloadText, new Copy(payloadText, work).edits(scope, payload));
  const { changed } = work;
  if (traceId === undefined) return { payloadText: text, traceId, changed, worked: budget.worked };
  const ofTrace = new Budget(redactUnits(traceId.length, needles), budget.here);
  const kept = redactTrace(traceId, redactions, ofTrace);
  return { payloadText: text, traceId: kept, changed, worked: budget.worked + ofTrace.worked };
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
/** The name that stands for what could not be looked through within the budget. */
const OVER_NAME = PATTERN_NAME;
const NO_SPANS: NamedSpan[] = [];
const NO_EDITS: readonly TextEdit[] = [];

/**
 * The work on one payload and the texts inside it. `isOver`: what follows is replaced whole. `isFoldable`: some text of
 * it may have a folded form.
 */
type Work = {
  readonly payload: Json;
  readonly redactions: readonly Redaction[];
  readonly budget: Budget;
  isOver: boolean;
  readonly isFoldable: boolean;
  readonly looksAtNumbers: boolean;
  readonly looksAtLines: boolean;
  readonly looksAtNames: boolean;
  readonly changed: string[];
};
/** Where a text is inside another: how deep, under which key, and what was found in it as a whole. */
type Inside = { level: number; key: string; found: readonly NamedSpan[] };

/**
 * A value where it is: the key of the member that holds it, itself or in arrays; the name beside it; what it was parsed
 * to; what is known to be in it, as part of what is spread over several.
 */
type Member = { key: string; name?: string | undefined; value: Json; found: readonly NamedSpan[] };

const NOT_INSIDE: Inside = { level: 0, key: '', found: [] };
/** A key stands as this, since it is no member itself. */
const KEY: Member = { key: '', value: null, found: NO_SPANS };

/** One pass over sound JSON: the text was parsed before. */
class Copy {
  readonly #text: string;
  readonly #work: Work;
  readonly #inside: Inside;
  /** The first of what was found in the text as a whole that ends behind the position at hand. */
  #nextFound = 0;
  #at = 0;
  readonly #edits: TextEdit[] = [];

  constructor(text: string, work: Work, inside = NOT_INSIDE) {
    this.#text = text;
    this.#work = work;
    this.#inside = inside;
  }

  /** The replacements in the text, in order. `value`: what the text was parsed to. */
  edits(scope: Scope, value: Json): readonly TextEdit[] {
    this.#value(scope, { key: this.#inside.key, value, found: NO_SPANS });
    return this.#edits;
  }

  #value(scope: Scope, member: Member): void {
    this.#skipSpace();
    const first = this.#text.charCodeAt(this.#at);
    if (first === OPEN_OBJECT) this.#object(scope, member);
    else if (first === OPEN_ARRAY) this.#array(scope, member);
    else if (first === QUOTE) this.#string(scope, member, null);
    else this.#scalar(scope, member.key);
  }

  #scalar(scope: Scope, key: string): void {
    const start = this.#at;
    while (!ENDS_SCALAR[this.#text.charCodeAt(this.#at)]) this.#at++;
    const token = { start, end: this.#at };
    const name =
      this.#foundIn(token)[0]?.name ?? (this.#work.looksAtNumbers ? this.#numberName(token, scope, key) : undefined);
    if (name !== undefined) this.#edits.push({ ...token, text: `"[redacted:${name}]"` });
  }

  #numberName({ start, end }: Span, scope: Scope, key: string): string | undefined {
    const token = this.#text.slice(start, end);
    if (!(token.length >= NUMBER_DIGITS.min || /e/i.test(token)) || !/\d/.test(token)) return undefined;
    const digits = wholeDigits(exactNumber(token));
    if (digits === undefined) return undefined;
    const { redactions, budget } = this.#work;
    const looking = redactions.filter((redaction, r) => scope[r] === 'in' && redaction.looksAtNumbers);
    if (looking.length === 0) return undefined;
    try {
      if (this.#work.isOver) return OVER_NAME;
      for (const redaction of looking) {
        const name = redaction.numberName(digits, key, budget);
        if (name !== undefined) return name;
      }
      return undefined;
    } catch (error) {
      return this.#over(error, OVER_NAME);
    }
  }

  #over<T>(error: unknown, instead: T): T {
    if (!(error instanceof OverBudget)) throw error;
    this.#work.isOver = true;
    return instead;
  }

  #object(scope: Scope, { value }: Member): void {
    const keys = new RedactedKeys();
    const members = typeof value === 'object' && !Array.isArray(value) ? value : null;
    const spread = this.#spread(scope, members);
    const isNamed = members !== null && this.#work.looksAtNames;
    const isPayload = members !== null && members === this.#work.payload;
    this.#at++;
    for (this.#skipSpace(); this.#text.charCodeAt(this.#at) !== CLOSE_OBJECT; this.#skipComma()) {
      const key = this.#string(scope, KEY, keys);
      this.#skipSpace();
      this.#at++; // the colon
      const below = isSettled(scope) ? scope : this.#below(scope, foldedText(key));
      const name = isNamed ? nameBeside(members, key) : undefined;
      const before = this.#edits.length;
      this.#value(below, { key, name, value: members?.[key] ?? null, found: spread?.get(key) ?? NO_SPANS });
      if (isPayload && this.#edits.length > before) this.#work.changed.push(key);
    }
    this.#at++;
  }

  #array(scope: Scope, { key, value }: Member): void {
    const items = Array.isArray(value) ? value : null;
    const spread = this.#spread(scope, items);
    const isNamed = items !== null && this.#work.looksAtNames;
    this.#at++;
    this.#skipSpace();
    for (let i = 0; this.#text.charCodeAt(this.#at) !== CLOSE_ARRAY; i++, this.#skipComma()) {
      const below = isSettled(scope) ? scope : this.#step(scope, (path, at) => afterIndex(path, at, i));
      const name = isNamed ? nameBefore(items, i) : undefined;
      this.#value(below, { key, name, value: items?.[i] ?? null, found: spread?.get(String(i)) ?? NO_SPANS });
    }
    this.#at++;
  }

  /** The findings that are spread over the strings of one array or object, by their keys; null: none. */
  #spread(scope: Scope, members: object | null): Map<string, NamedSpan[]> | null {
    if (!this.#work.looksAtLines || members === null || this.#work.isOver || !scope.includes('in')) return null;
    const lines = Object.entries(members).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
    if (lines.length < 2) return null;
    const spans: NamedSpan[] = [];
    try {
      const texts = lines.map(([, line]) => line);
      scope.forEach((places, r) => {
        if (places === 'in') this.#work.redactions[r]!.spansOfLines(texts, this.#work.budget, spans);
      });
    } catch (error) {
      return this.#over(error, null);
    }
    if (spans.length === 0) return null;
    const spread = new Map<string, NamedSpan[]>();
    let begun = 0;
    for (const [key, line] of lines) {
      const within = spans.filter(({ start, end }) => start < begun + line.length && end > begun);
      const clipped = within.map(({ start, end, name }) => ({
        start: Math.max(0, start - begun),
        end: Math.min(line.length, end - begun),
        name,
      }));
      if (clipped.length > 0) spread.set(key, clipped);
      begun += line.length + 1;
    }
    return spread;
  }

  #skipComma(): void {
    this.#skipSpace();
    if (this.#text.charCodeAt(this.#at) === COMMA) this.#at++;
    this.#skipSpace();
  }

  /** Into the member of a key; one that is written as a path has it is folded to the same. */
  #below(scope: Scope, folded: string): Scope {
    return this.#step(scope, (path, at) => (path.folded[at] === folded ? at + 1 : -1));
  }

  /** One level deeper; `next` says how far a path is then, -1 for off it. */
  #step(scope: Scope, next: (path: Path, at: number) => number): Scope {
    return scope.map((places, r) => {
      if (typeof places === 'string') return places;
      const paths = this.#work.redactions[r]!.fields!;
      const after = places.map((at, p) => (at < 0 ? -1 : next(paths[p]!, at)));
      if (after.some((at, p) => at === paths[p]!.segments.length)) return 'in';
      return after.every((at) => at < 0) ? 'out' : after;
    });
  }

  /** Notes what has to be replaced in a string; answers its decoded text. `keys`: the object's, if it is a key. */
  #string(scope: Scope, member: Member, keys: RedactedKeys | null): string {
    const open = this.#at;
    const close = stringEnd(this.#text, open);
    this.#at = close + 1;
    const raw = this.#text.slice(open + 1, close);
    const escaped = raw.includes('\\');
    // Not a long slice of a slice: it is slow to read by character.
    const isSlow = escaped || (raw.length > FLATTEN_CHARACTERS && member.value !== raw);
    let text = member.value === raw ? member.value : raw;
    if (isSlow) text = JSON.parse(this.#text.slice(open, close + 1)) as string;
    const found = this.#knownIn(open + 1, raw, member);
    if (keys === null && this.#work.looksAtNames) this.#findByName(text, scope, member, found);
    const inner = keys === null ? this.#editsInside(text, scope, member, found) : null;
    const edits = inner ?? this.#editsOfSpans(this.#spans(text, scope, found));
    const isReplaced = this.#work.isOver && inner === null && raw !== '' && scope.includes('in');
    if (!isReplaced && edits.length === 0 && (keys === null || !raw.includes('[redacted:'))) return text;
    let edited = editsInRaw(raw, edits);
    if (isReplaced) edited = [{ start: 0, end: raw.length, text: `[redacted:${OVER_NAME}]` }];
    if (keys !== null) {
      const body = keys.distinct(applied(raw, edited));
      edited = body === raw ? [] : [{ start: 0, end: raw.length, text: body }];
    }
    for (const { start, end, text: put } of edited)
      this.#edits.push({ start: open + 1 + start, end: open + 1 + end, text: put });
    return text;
  }

  #editsOfSpans(spans: readonly NamedSpan[]): readonly TextEdit[] {
    return spans.length === 0 ? NO_EDITS : spans.map(mark);
  }

  /** The findings known to be in a string, whose content begins at `from`, before it is looked through. */
  #knownIn(from: number, raw: string, member: Member): NamedSpan[] {
    const whole = this.#inside.found.length === 0 ? NO_SPANS : this.#foundIn({ start: from, end: from + raw.length });
    if (whole.length === 0) return member.found.length === 0 && !this.#work.looksAtNames ? NO_SPANS : [...member.found];
    const places = raw.includes('\\') ? placesIn(raw) : null;
    const known = whole.map(({ start, end, name }) => ({
      start: decodedStart(places, start - from),
      end: decodedEnd(places, end - from),
      name,
    }));
    return [...known, ...member.found];
  }

  #findByName(text: string, scope: Scope, { key, name }: Member, found: NamedSpan[]): void {
    scope.forEach((places, r) => {
      if (places !== 'in') return;
      const redaction = this.#work.redactions[r]!;
      if (!redaction.looksAtNames) return;
      redaction.namedSpans(key, text, found);
      if (name !== undefined) redaction.namedSpans(name, text, found);
    });
  }

  /** The replacements in a text that holds JSON; null: it holds none. */
  #editsInside(text: string, scope: Scope, member: Member, found: readonly NamedSpan[]): readonly TextEdit[] | null {
    if (found.length === 0 && scope.every((places) => places === 'out')) return null;
    if (!mayHoldJson(text)) return null;
    const { level } = this.#inside;
    const inner = innerAt(formsOf(text), level);
    if (inner === undefined) return null;
    if (inner.value === undefined) return [wholeMark(text, UNREADABLE_NAME)];
    const spans = this.#spans(text, scope, found);
    if (!inner.isExact) return this.#editsOfReading(text, scope, member, spans);
    return this.#editsOf(text, inner.value, scope, { level: level + 1, key: member.key, found: spans });
  }

  /** The edits of a text that is JSON, in its tokens. */
  #editsOf(json: string, value: Json, scope: Scope, inside: Inside): TextEdit[] {
    const edits = new Copy(json, this.#work, inside).edits(scope, value);
    return edits.map((edit) => ({ ...edit, text: JSON.stringify(edit.text).slice(1, -1) }));
  }

  /**
   * The edits of a text that is read by other rules than JSON's, so that its tokens have no places: what is found in it
   * as it stands, if nothing is left to be found in what it holds then; else the whole.
   */
  #editsOfReading(text: string, scope: Scope, { key }: Member, spans: readonly NamedSpan[]): TextEdit[] {
    const edits = spans.map(mark);
    const rest = innerAt(formsOf(applied(text, edits)), this.#inside.level);
    if (rest?.value === undefined) return [wholeMark(text, spans[0]?.name ?? UNREADABLE_NAME)];
    const inside = { level: this.#inside.level + 1, key, found: NO_SPANS };
    const [left] = this.#editsOf(exactJson(rest.value), rest.value, scope, inside);
    if (left === undefined) return edits;
    return [wholeMark(text, /\[redacted:([a-z_]+)\]/.exec(left.text)?.[1] ?? UNREADABLE_NAME)];
  }

  /** The findings in the text as a whole, as far as they are in this token. */
  #foundIn({ start, end }: Span): NamedSpan[] {
    const { found } = this.#inside;
    while (this.#nextFound < found.length && found[this.#nextFound]!.end <= start) this.#nextFound++;
    const within: NamedSpan[] = [];
    for (let i = this.#nextFound; i < found.length && found[i]!.start < end; i++) {
      const span = found[i]!;
      within.push({ start: Math.max(span.start, start), end: Math.min(span.end, end), name: span.name });
    }
    return within;
  }

  /** `found`: what is known to be in the text already. In order, without overlaps. */
  #spans(text: string, scope: Scope, found: readonly NamedSpan[]): NamedSpan[] {
    if (text.length === 0 || this.#work.isOver || !scope.includes('in'))
      return found.length === 0 ? NO_SPANS : merged([...found]);
    const { redactions, budget, isFoldable } = this.#work;
    const spans: NamedSpan[] = [];
    try {
      scope.forEach((places, r) => {
        if (places === 'in') redactions[r]!.spans(text, budget, spans, isFoldable);
      });
      if (found.length > 0) spans.push(...found.filter((span) => !spans.some((own) => isSameFinding(own, span))));
      return spans.length === 0 ? NO_SPANS : merged(spans);
    } catch (error) {
      return this.#over(error, NO_SPANS);
    }
  }

  #skipSpace(): void {
    while (this.#text.charCodeAt(this.#at) <= 0x20) this.#at++;
  }
}

/**
 * A detector finds in the value inside a text what it finds in the whole text, but knows its borders better: what is an
 * escape there is a character here.
 */
function isSameFinding(own: NamedSpan, whole: NamedSpan): boolean {
  return own.name === whole.name && own.name !== PATTERN_NAME && own.start < whole.end && whole.start < own.end;
}

function wholeMark(text: string, name: string): TextEdit {
  return mark({ start: 0, end: text.length, name });
}

function mark({ start, end, name }: NamedSpan): TextEdit {
  return { start, end, text: `[redacted:${name}]` };
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
export function merged(spans: NamedSpan[]): NamedSpan[] {
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
