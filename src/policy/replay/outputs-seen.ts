// How many output tokens calls had, by agent and model, for what a budget expects of a call (of a replayed budget; as
// src/redis/spend.lua keeps it, on a scale of fourths of powers of two). Pure.
const SEEN_MIN = 20;
const SEEN_MAX = 512;
const SHARE = 0.95;
/** Agents and models; the one that was seen least lately goes. */
const MODELS_MAX = 10_000;
const LEARNT_MS = 7 * 86_400_000;

type Seen = { counts: Map<number, number>; lastMs: number };

export class OutputsSeen {
  readonly #models = new Map<string, Seen>();

  constructor(kept: ReturnType<OutputsSeen['kept']> = []) {
    for (const [model, lastMs, counts] of kept) this.#models.set(model, { lastMs, counts: new Map(counts) });
  }

  kept(): readonly (readonly [model: string, lastMs: number, counts: readonly (readonly [number, number])[]])[] {
    return [...this.#models].map(([model, { counts, lastMs }]) => [model, lastMs, [...counts]]);
  }

  add(model: string, output: number, atMs: number): void {
    const known = this.#models.get(model);
    const counts = known === undefined || known.lastMs + LEARNT_MS <= atMs ? new Map<number, number>() : known.counts;
    this.#models.delete(model);
    this.#models.set(model, { counts, lastMs: atMs });
    if (this.#models.size > MODELS_MAX) this.#models.delete(this.#models.keys().next().value!);
    const step = Math.floor(4 * Math.log2(output + 1));
    counts.set(step, (counts.get(step) ?? 0) + 1);
    if (sumOf(counts) <= SEEN_MAX) return;
    for (const [at, count] of counts) {
      const half = Math.floor(count / 2);
      if (half > 0) counts.set(at, half);
      else counts.delete(at);
    }
  }

  /** The output tokens that 95 of 100 calls stayed within; undefined: too few were seen. */
  usual(model: string): number | undefined {
    const counts = this.#models.get(model)?.counts;
    const all = counts === undefined ? 0 : sumOf(counts);
    if (counts === undefined || all < SEEN_MIN) return undefined;
    let seen = 0;
    for (const [step, count] of [...counts].sort(([a], [b]) => a - b)) {
      seen += count;
      if (seen >= all * SHARE) return Math.ceil(2 ** ((step + 1) / 4));
    }
    return undefined;
  }
}

function sumOf(counts: ReadonlyMap<number, number>): number {
  let sum = 0;
  for (const count of counts.values()) sum += count;
  return sum;
}
