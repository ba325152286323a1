// A data filter's scanner with its walker, both made when the first event has to be inspected (used by rule-index.ts
// and engine.ts): laying patterns out costs more than all else of a set, and where the prefilters fail no event needs
// them.
import type { Path } from './conditions/path.ts';
import type { DataFilterTerms } from './kinds/data-filter.ts';
import { type Needle, Scanner } from './text-search/scanner.ts';
import { Walker } from './text-search/walk.ts';

/** Instructions of a detector's candidate: the nine have 500 together. */
const DETECTOR_INSTRUCTIONS = 60;

/**
 * A scanner with its walker, made when the first event has to be inspected: laying patterns out costs more than all
 * else of a set, and it is not computed where prefilters are shut. `fields` null: of the whole payload. `trace`: of
 * `trace_id`, too.
 */
export class Filter {
  readonly fields: readonly Path[] | null;
  readonly trace: boolean;
  readonly wanted: Uint8Array;
  readonly #needles: readonly Needle[];
  #walker: Walker | undefined;
  #scanner: Scanner | undefined;

  constructor(needles: readonly Needle[], { fields, trace }: Pick<DataFilterTerms, 'fields' | 'trace'>) {
    this.fields = fields;
    this.trace = trace;
    this.wanted = new Uint8Array(needles.length);
    this.#needles = needles;
  }

  /** Does it search for the same in the same places? */
  isFor(needles: readonly Needle[], { fields, trace }: Pick<DataFilterTerms, 'fields' | 'trace'>): boolean {
    if (fields !== this.fields || trace !== this.trace || needles.length !== this.#needles.length) return false;
    return needles.every(({ key }, i) => key === this.#needles[i]!.key);
  }

  get weight(): number {
    return this.#needles.reduce((sum, { pattern }) => sum + (pattern?.instructions.length ?? DETECTOR_INSTRUCTIONS), 0);
  }

  get scanner(): Scanner {
    this.#scanner ??= new Scanner(this.#needles);
    return this.#scanner;
  }

  get walker(): Walker {
    this.#walker ??= new Walker(this.scanner);
    return this.#walker;
  }
}
