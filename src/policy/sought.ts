// What the demands of an account's rules (demands.ts) speak of, by number: signs that are searched for in an event, and
// paths at which something may stand. The codec that reads bodies on their bytes (ingest/wasm-codec.ts) looks for all
// of it in one pass, and answers by number (TextView).
// Invariant: numbers of a set that begins with another's (shadows beside the policies in force) are the same for what
// both speak of. What is beyond the bounds has no number, and the demands that would need it are left out.
import { getOrMake } from '../common/maps.ts';
import type { Path } from './conditions/path.ts';
import { fingerprintOf, type Sign } from './text-search/signs.ts';
import type { Demand } from './text-view.ts';

/** The number of bits for the signs that an event shows (ingest/wasm/layout.ts); beyond, several signs share one. */
export const SIGN_BITS = 512;
/** All signs of a set have so many spellings of fingerprints, and so many elements. */
export const SPELLINGS_MAX = 16_000;
export const ELEMENTS_MAX = 64_000;
/** Watched paths: as many have a place in the record of an event (there, too). */
export const PATHS_MAX = 32;
const PATH_CHARACTERS_MAX = 256;

/** The answer where it is not known what stands at a path. */
export const UNKNOWN: unique symbol = Symbol('unknown');

export class Sought {
  /** The signs of each number, of which one must show. */
  readonly signs: (readonly Sign[])[];
  /** The keys of each path. */
  readonly paths: (readonly string[])[];
  readonly #numbers: Map<string, number>;
  readonly #places: Map<string, number>;
  #spellings = 0;
  #elements = 0;

  constructor(before?: Sought) {
    this.signs = [...(before?.signs ?? [])];
    this.paths = [...(before?.paths ?? [])];
    if (before !== undefined) {
      this.#spellings = before.#spellings;
      this.#elements = before.#elements;
    }
    this.#numbers = new Map(this.signs.map((signs, number) => [nameOf(signs), number]));
    this.#places = new Map(this.paths.map((keys, place) => [nameOfPath(keys), place]));
  }

  /** The bit of which an event shows that it has one of these signs; null: that cannot be asked. */
  bitOf(signs: readonly Sign[] | null): number | null {
    const number = signs === null ? null : this.#numberOf(signs);
    return number === null ? null : number % SIGN_BITS;
  }

  /** One of these signs must show; null: that cannot be asked. */
  demand(signs: readonly Sign[] | null): Demand | null {
    const bit = this.bitOf(signs);
    return bit === null ? null : isShown(bit);
  }

  #numberOf(signs: readonly Sign[]): number | null {
    const name = nameOf(signs);
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    let spellings = this.#spellings;
    let elements = this.#elements;
    for (const sign of signs) {
      const fingerprint = fingerprintOf(sign);
      if (fingerprint === null) return null;
      spellings += fingerprint.bytes.reduce((product, some) => product * some.length, 1);
      elements += sign.elements.length;
    }
    if (spellings > SPELLINGS_MAX || elements > ELEMENTS_MAX) return null;
    this.#spellings = spellings;
    this.#elements = elements;
    const number = this.signs.push(signs) - 1;
    this.#numbers.set(name, number);
    return number;
  }

  /** The place of own members alone, as CEL and JSON Schema read them; null: it is not watched. */
  member(segments: readonly string[]): number | null {
    // What objects have by nature is no member.
    return segments.some((key) => key in Object.prototype) ? null : this.path({ root: 'payload', segments });
  }

  /** The place of a path into the payload; null: it is not watched. */
  path({ root, segments }: { root: Path['root']; segments: readonly string[] }): number | null {
    if (root !== 'payload' || segments.length === 0) return null;
    const name = nameOfPath(segments);
    const known = this.#places.get(name);
    if (known !== undefined) return known;
    if (this.paths.length === PATHS_MAX || name.length > PATH_CHARACTERS_MAX || !name.isWellFormed()) return null;
    const place = this.paths.push(segments) - 1;
    this.#places.set(name, place);
    return place;
  }
}

/** May the sign of a bit show? */
export function isShown(bit: number): Demand {
  return (event) => event.hasAny(bit >> 5, 1 << (bit & 31));
}

function nameOfPath(keys: readonly string[]): string {
  return keys.map((key) => `${key.length} ${key}`).join();
}

const names = new WeakMap<readonly Sign[], string>();

/** The same for equal signs. */
function nameOf(signs: readonly Sign[]): string {
  return getOrMake(names, signs, () => signs.map(({ elements, check }) => `${check}:${elements.join()}`).join('|'));
}
