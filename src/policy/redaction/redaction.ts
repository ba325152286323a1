// What one data filter with `redact` wants replaced, and where that is in a text (asked by redact-payload.ts about an
// event that it matched). A text is searched as it is and folded; a value also by what it is called; several
// lines together for what is spread over them. A trace's id becomes a token, the same for the same id, so that traces
// stay together.
// Failure: OverBudget where the positions cannot be found within the budget; the caller replaces the text whole.
import { createHmac } from 'node:crypto';
import { type Budget, stateUnits, withinBudget } from '../budget.ts';
import type { Path } from '../conditions/path.ts';
import type { Find, Span } from '../detectors/detector-search.ts';
import type { Detector } from '../detectors/detectors.ts';
import { Automaton } from '../text-search/automaton.ts';
import { LiteralSearch } from '../text-search/literal-search.ts';
import { Program } from '../text-search/program.ts';
import { DETECTOR_UNITS, type Few, FOUND, type Needle, Scanner } from '../text-search/scanner.ts';
import { FOLDING_UNITS, formsOf } from '../texts/text-forms.ts';

/** The name in the mark that replaces a match of a pattern. */
export const PATTERN_NAME = 'pattern';
/** The name in the mark that replaces a finding of a check outside. */
export const CHECK_NAME = 'check';
/** The name in the mark that replaces a text in which no one can tell what it holds. */
export const UNREADABLE_NAME = 'not_json';

/** The values that one rule wants replaced. `fields` null: everywhere in the payload. */
export class Redaction {
  readonly fields: readonly Path[] | null;
  readonly traceKey: string;
  /** Does it look at values by what they are called? */
  readonly looksAtNames: boolean;
  readonly #trace: boolean;
  readonly #scanner: Scanner;
  readonly #wanted: Uint8Array;
  readonly #few: Few;
  /** Needles that may be spread over several lines. */
  readonly #ofLines: readonly Detector[];
  readonly #finders: (Finder | undefined)[];

  /** `traceKey`: the account's, so that an id cannot be found by trying. `among`: of which others this is a part. */
  constructor(
    needles: readonly Needle[],
    { fields, trace, traceKey = '' }: { fields: readonly Path[] | null; trace: boolean; traceKey?: string },
    among?: Among,
  ) {
    this.fields = fields;
    this.traceKey = traceKey;
    this.#trace = trace;
    this.#scanner = among === undefined ? new Scanner(needles) : among.of.#scanner;
    this.#finders = among === undefined ? [] : among.of.#finders;
    this.#wanted = among?.found ?? new Uint8Array(needles.length).fill(1);
    this.#few = this.#scanner.fewOf(this.#wanted);
    const isWanted = (i: number) => this.#wanted[i] === 1;
    this.looksAtNames = this.#scanner.needles.some(
      ({ detector }, i) => detector?.findsNamed !== undefined && isWanted(i),
    );
    const ofLines = this.#scanner.needles.filter(
      ({ detector }, i) => detector?.ofLines !== undefined && among?.wanted[i] !== 0,
    );
    this.#ofLines = ofLines.map(({ detector }) => detector!);
  }

  /**
   * As this, in an event in which no needle is `found` but these, by number, and over several lines none but those that
   * were `wanted`.
   */
  among(found: Uint8Array, wanted: Uint8Array): Redaction {
    const { fields, traceKey } = this;
    return new Redaction(NO_NEEDLES, { fields, trace: this.#trace, traceKey }, { of: this, found, wanted });
  }

  /** Whether it finds something in a trace's id. */
  findsIn(traceId: string, budget: Budget): boolean {
    if (!this.#trace) return false;
    const spans: NamedSpan[] = [];
    const isOver = withinBudget(() => this.spans(traceId, budget, spans), 'over') === 'over';
    return isOver || spans.length > 0;
  }

  get looksAtNumbers(): boolean {
    return this.#scanner.looksAtNumbers;
  }

  /** The detector that finds this whole number. Throws OverBudget. */
  numberName(digits: string, key: string, budget: Budget): string | undefined {
    budget.spend(STRING_UNITS);
    this.#scanner.begin(this.#wanted, digits.length);
    if (!this.#scanner.scanNumber(digits, key)) return undefined;
    const needle = this.#scanner.found.findIndex((found) => found !== FOUND.no);
    return this.#scanner.needles[needle]!.detector!.name;
  }

  /** Adds what is found in a value by what it is called. */
  namedSpans(name: string, value: string, spans: NamedSpan[]): void {
    const { needles } = this.#scanner;
    for (let i = 0; i < needles.length; i++) {
      const { detector } = needles[i]!;
      if (detector?.findsNamed === undefined || this.#wanted[i] === 0) continue;
      const span = detector.findsNamed(name, value);
      if (span !== null) spans.push({ ...span, name: detector.name });
    }
  }

  /** May something be spread over several lines? */
  get looksAtLines(): boolean {
    return this.#ofLines.length > 0;
  }

  /** Adds what is found in several lines together that is found in none of them alone. Throws OverBudget. */
  spansOfLines(lines: readonly string[], budget: Budget, spans: NamedSpan[]): void {
    for (const detector of this.#ofLines) {
      if (!lines.some((line) => detector.ofLines!.some((literal) => line.includes(literal)))) continue;
      const text = lines.join('\n');
      budget.spend(text.length);
      for (const { start, end } of repeated(detector.finds)(text, budget))
        spans.push({ start, end, name: detector.name });
    }
  }

  get needles(): number {
    return this.#wanted.length;
  }

  /**
   * Adds the positions of all matches in the text, as it is and folded. `isFoldable` false: it has no folded form.
   * Throws OverBudget.
   */
  spans(text: string, budget: Budget, spans: NamedSpan[], isFoldable = true): void {
    this.#spansAsItIs(text, budget, spans);
    if (!isFoldable) return;
    const { folded } = formsOf(text);
    if (folded === undefined) return;
    budget.spend(FOLDING_UNITS * text.length);
    const inFolded: NamedSpan[] = [];
    this.#spansAsItIs(folded.text, budget, inFolded);
    for (const { start, end, name } of inFolded)
      spans.push({ start: folded.places.starts[start]!, end: folded.places.ends[end - 1]!, name });
  }

  #spansAsItIs(text: string, budget: Budget, spans: NamedSpan[]): void {
    budget.spend(STRING_UNITS + this.#wanted.length * text.length);
    this.#scanner.begin(this.#wanted, text.length, Number.POSITIVE_INFINITY, this.#few);
    let isHit = false;
    do isHit = this.#scanner.scan(text) || isHit;
    while (!this.#scanner.isDone());
    if (!isHit) return;
    const { needles, found } = this.#scanner;
    for (let i = 0; i < needles.length; i++) {
      if (found[i] === FOUND.no) continue;
      this.#finders[i] ??= finderOf(needles[i]!);
      const name = needles[i]!.detector?.name ?? PATTERN_NAME;
      for (const { start, end } of this.#finders[i]!(text, budget)) {
        budget.spend(SPAN_UNITS);
        spans.push({ start, end, name });
      }
    }
  }
}

export type NamedSpan = Span & { name: string };
type Among = { of: Redaction; found: Uint8Array; wanted: Uint8Array };

/**
 * The id of a trace as it is kept: itself, or a token where one of the redactions finds something in it. An id that
 * cannot be settled counts as found. Throws TooLong where it takes more than this thread may do.
 */
export function redactTrace(traceId: string, redactions: readonly Redaction[], budget: Budget): string {
  const found = redactions.find((redaction) => redaction.findsIn(traceId, budget));
  if (found === undefined) return traceId;
  const token = createHmac('sha256', found.traceKey).update(traceId).digest('hex');
  return `${TOKEN_BEGINS}${token.slice(0, TRACE_TOKEN_CHARACTERS - TOKEN_BEGINS.length)}`;
}

const TOKEN_BEGINS = 'redacted-';
/** The whole token, with 128 bits, is so long. */
export const TRACE_TOKEN_CHARACTERS = TOKEN_BEGINS.length + 32;
/** Asking one redaction about one string, however short. */
const STRING_UNITS = 60;
/** Noting, ordering and replacing one position, about 700 ns. */
const SPAN_UNITS = 250;
const NO_NEEDLES: readonly Needle[] = [];
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
    backwards.meterFromNothing(stateUnits(text.length));
    forwards.meterFromNothing(stateUnits(text.length));
    backwards.starts(text, marks, budget);
    for (let start = marks.indexOf(1); start >= 0; ) {
      const end = forwards.longest(text, start, budget);
      if (end > start) spans.push({ start, end }); // nothing to hide in an empty match
      start = marks.indexOf(1, Math.max(end, start + 1));
    }
    return spans;
  };
}
