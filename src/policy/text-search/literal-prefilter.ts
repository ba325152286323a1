// A prefilter by literals: what must occur in an event for a rule to match (made once a rule). wasm-codec.ts searches
// for all literals of an account in one pass over the bytes and asks the engine only about the rules whose prefilter
// passes. A prefilter is a list of clauses, all of which must hold; a clause is a list of literals, one of which must
// occur in some key or string of the payload, or in `trace_id`. A rule without a prefilter is always asked.
// Invariant: sound, not complete. A rule whose prefilter fails cannot match; about one whose prefilter passes nothing
// is known. A literal holds only characters that JSON writes as themselves unless it escapes them as \u, so it can be
// searched for in the bytes.
import type { Path } from '../conditions/path.ts';
import { policyPattern } from './pattern-allowance.ts';
import type { Pattern } from './program.ts';
import { type Needle, patternOf } from './scanner.ts';

export type Clause = readonly string[];
/** Of a condition on the payload: of each key of its path, and of each operator one of the texts that it asks for. */
type Clauses = { keys: readonly Clause[]; texts: readonly Clause[] };

const NO_CLAUSES: Clauses = { keys: [], texts: [] };

export function clausesOf(path: Path, operators: ReadonlyMap<string, unknown>): Clauses {
  if (path.root !== 'payload' || holdsForNothing(operators)) return NO_CLAUSES;
  const keys = path.segments.filter((_, i) => path.indexes[i]! < 0).map((key) => anyOf([key]));
  const texts = [...operators].map(([name, operand]) => {
    const wanted = Array.isArray(operand) ? operand : [operand];
    if (!wanted.every((text) => typeof text === 'string')) return null;
    if (name === 'glob') return anyOf(wanted.map(longestPart));
    if (name === 'matches') return anyOf(wanted.map((source) => literalOf(policyPattern(source))));
    return ASK_FOR_TEXT.has(name) ? anyOf(wanted) : null;
  });
  return { keys: keys.filter((clause) => clause !== null), texts: texts.filter((clause) => clause !== null) };
}

function longestPart(glob: string): string {
  return glob.split(/[*?]/).reduce((best, part) => (part.length > best.length ? part : best), '');
}

const ASK_FOR_TEXT: ReadonlySet<string> = new Set(['eq', 'in', 'contains', 'starts_with', 'ends_with']);

/** True also where nothing is at the path. */
function holdsForNothing(operators: ReadonlyMap<string, unknown>): boolean {
  if (operators.get('exists') === false) return true;
  const names = [...operators.keys()].filter((name) => name !== 'exists');
  return operators.get('exists') !== true && names.every((name) => name === 'ne' || name === 'not_in');
}

/** One of these texts must occur: as a clause, if each of them holds something that can be searched for. */
export function anyOf(texts: readonly (string | null)[]): Clause | null {
  const literals = texts.map((text) => (text === null ? null : searchable(text)));
  return literals.every((literal) => literal !== null) ? [...new Set(literals)] : null;
}

/** The longest stretch that is in JSON as it is; to a policy a blank is any blank (texts/blanks.ts). */
function searchable(text: string): string | null {
  if (!text.isWellFormed()) return null;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: JSON writes these as escapes
  const stretches = text.split(/["\\/\u0000-\u0020]/);
  const longest = stretches.reduce((best, stretch) => (stretch.length > best.length ? stretch : best), '');
  // What holds a text holds its beginning. A pair of surrogates that was cut in two must not be searched for.
  const beginning = longest.slice(0, LITERAL_CHARACTERS_MAX);
  const whole = beginning.isWellFormed() ? beginning : beginning.slice(0, -1);
  return whole === '' ? null : whole;
}

/** Enough to be rare, and few enough that all literals of a set fit into their table. */
export const LITERAL_CHARACTERS_MAX = 64;

/** Texts of which each finding holds one; null: none is known. */
export function literalsOfNeedle(needle: Needle): readonly (string | null)[] {
  return needle.detector?.literals ?? [literalOf(patternOf(needle))];
}

const literals = new WeakMap<Pattern, string | null>();

/**
 * The longest text that every match of a pattern holds; null: none, or too costly to find. Looked for once: it costs as
 * much as compiling.
 */
export function literalOf(pattern: Pattern): string | null {
  let literal = literals.get(pattern);
  if (literal === undefined) {
    literal = pattern.literal ?? mandatoryText(pattern);
    literals.set(pattern, literal);
  }
  return literal;
}

const INSTRUCTIONS_LOOKED_AT_MAX = 500;
/** Opcodes of re2js: see program.ts. */
const OP = { alt: 1, altMatch: 2, capture: 3, look: 4, match: 6, nop: 7, rune: 8, rune1: 9 } as const;
const FOLD_CASE = 1;

/** Characters through which every way from the start to a match goes, and that follow one another. */
function mandatoryText({ instructions, start }: Pattern): string | null {
  if (instructions.length > INSTRUCTIONS_LOOKED_AT_MAX) return null;
  let best = '';
  const begun = new Set<number>();
  for (let at = 0; at < instructions.length; at++) {
    if (begun.has(at) || !isMandatory(instructions, start, at)) continue;
    let text = '';
    for (let next = at; next >= 0 && !begun.has(next) && isMandatory(instructions, start, next); ) {
      begun.add(next);
      text += String.fromCodePoint(instructions[next]!.runes[0]!);
      next = characterAfter(instructions, next);
    }
    if (text.length > best.length) best = text;
  }
  return best === '' ? null : best;
}

/** A single character without which no match is reached. */
function isMandatory(instructions: Pattern['instructions'], start: number, at: number): boolean {
  const { op, runes, arg } = instructions[at]!;
  if ((op !== OP.rune && op !== OP.rune1) || runes.length !== 1 || (arg & FOLD_CASE) !== 0) return false;
  const seen = new Set<number>([at]);
  const open = [start];
  while (open.length > 0) {
    const here = open.pop()!;
    if (seen.has(here)) continue;
    seen.add(here);
    const instruction = instructions[here]!;
    if (instruction.op === OP.match) return false;
    open.push(instruction.out);
    if (instruction.op === OP.alt || instruction.op === OP.altMatch) open.push(instruction.arg);
  }
  return true;
}

/** The instruction that follows without a choice, past what reads nothing; -1: there is a choice. */
function characterAfter(instructions: Pattern['instructions'], at: number): number {
  let next = instructions[at]!.out;
  for (;;) {
    const { op, out } = instructions[next]!;
    if (op === OP.rune || op === OP.rune1) return next;
    if (op !== OP.capture && op !== OP.look && op !== OP.nop) return -1;
    next = out;
  }
}
