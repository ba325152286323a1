// What the demands of an account's rules (demands.ts) speak of, by number: texts that are searched for in an event, and
// paths at which something may stand. The codec that reads bodies on their bytes (ingest/wasm-codec.ts) looks for all
// of it in one pass, and answers by number (TextView).
// Invariant: numbers of a set that begins with another's (shadows beside the policies in force) are the same for what
// both speak of. What is beyond the bounds has no number, and the demands that would need it are left out.
import type { Path } from './conditions/path.ts';
import type { Demand, TextView } from './judgement.ts';
import type { Clause } from './text-search/literal-prefilter.ts';

/** Literals of a set: as many as have a bit in what the search for them answers (ingest/wasm/layout.ts). */
export const LITERALS_MAX = 512;
/** Watched paths: as many have a place in the record of an event (there, too). */
export const PATHS_MAX = 32;
const PATH_CHARACTERS_MAX = 256;

/** What stands at a path is not known. */
export const UNKNOWN: unique symbol = Symbol('unknown');

/** Some of the set's literals: literal 32 * `word` + k is bit k of `mask`. */
type LiteralBits = { readonly word: number; readonly mask: number };

export class Sought {
  readonly literals: string[];
  /** The keys of each path. */
  readonly paths: (readonly string[])[];
  readonly #numbers: Map<string, number>;
  readonly #places: Map<string, number>;

  constructor(before?: Sought) {
    this.literals = [...(before?.literals ?? [])];
    this.paths = [...(before?.paths ?? [])];
    this.#numbers = new Map(this.literals.map((literal, number) => [literal, number]));
    this.#places = new Map(this.paths.map((keys, place) => [JSON.stringify(keys), place]));
  }

  /** One of a clause's literals must occur; null: not all of them have a number. */
  demand(clause: Clause | null): Demand | null {
    const bits = clause === null ? null : this.#bits(clause);
    return bits && ((event) => isMet(bits, event));
  }

  #bits(clause: Clause): readonly LiteralBits[] | null {
    const fresh = new Set(clause.filter((literal) => !this.#numbers.has(literal)));
    if (this.literals.length + fresh.size > LITERALS_MAX) return null;
    for (const literal of fresh) this.#numbers.set(literal, this.literals.push(literal) - 1);
    return bitsOf(clause.map((literal) => this.#numbers.get(literal)!));
  }

  /** The place of a path into the payload; null: it is not watched. */
  path({ root, segments }: Pick<Path, 'root' | 'segments'>): number | null {
    if (root !== 'payload' || segments.length === 0) return null;
    const name = JSON.stringify(segments);
    const known = this.#places.get(name);
    if (known !== undefined) return known;
    if (this.paths.length === PATHS_MAX || name.length > PATH_CHARACTERS_MAX || !name.isWellFormed()) return null;
    const place = this.paths.push(segments) - 1;
    this.#places.set(name, place);
    return place;
  }
}

function isMet(clause: readonly LiteralBits[], event: TextView): boolean {
  for (const { word, mask } of clause) if (event.hasAny(word, mask)) return true;
  return false;
}

function bitsOf(numbers: readonly number[]): LiteralBits[] {
  const masks = new Map<number, number>();
  for (const number of numbers) masks.set(number >> 5, (masks.get(number >> 5) ?? 0) | (1 << (number & 31)));
  return [...masks].map(([word, mask]) => ({ word, mask }));
}
