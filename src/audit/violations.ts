// What a verification can find (beside ledger.ts and chain-cursor.ts), and which of several findings comes first.
// changed       a row is not what was chained
// missing       an entry of the chain, or its row, is not there, and no erasure or expiry accounts for it
// added         a row that the chain does not know
// moved         a piece of the chain stands where another one stood
// chain_broken  entries of the chain are not those that its hashes were made of
// head_mismatch the chain is shorter than, or different from, what is remembered of it elsewhere
import type { FaultKind } from '../../schemas/closed-sets.ts';

export type Violation = {
  chain: string;
  /** Number in its chain; absent for a row that has none. */
  position?: number;
  kind: FaultKind;
  /** Epoch ms at which the entry arrived, as far as is known. */
  atMs: number;
  /** Id of the row. */
  id?: string;
};

/** Findings that are kept: the earliest ones, and a count of all. Bounded, since a table may be wrong as a whole. */
const KEPT_MAX = 1_000;

export class Violations {
  count = 0;
  readonly #kept: Violation[] = [];
  readonly #kinds = new Map<FaultKind, { count: number; first: Violation }>();

  readonly add = (fault: Violation, times = 1): void => {
    this.count += times;
    if (this.#kept.length < KEPT_MAX) this.#kept.push(fault);
    const same = this.#kinds.get(fault.kind) ?? { count: 0, first: fault };
    const first = fault.atMs < same.first.atMs ? fault : same.first;
    this.#kinds.set(fault.kind, { count: same.count + times, first });
  };

  /** How many of each kind that was found, and the earliest of them. */
  get kinds(): { kind: FaultKind; count: number; first: Violation }[] {
    return [...this.#kinds].map(([kind, { count, first }]) => ({ kind, count, first }));
  }

  /** The earliest by arrival. */
  get first(): Violation | null {
    return this.#kept.reduce<Violation | null>(
      (first, one) => (first === null || one.atMs < first.atMs ? one : first),
      null,
    );
  }
}
