// A budget as it is meant to count, in plain lists, for random traces against src/redis/spend.lua: no Redis, no script,
// and nothing of the service.
type Held = {
  id: string;
  agent: string;
  who: string;
  amount: number;
  reserved: number;
  endMs: number;
  by: string | undefined;
};
type Stored = { part: number; amount: number };

/** One scope of a budget with a sliding window of `windowMs`; times are epoch ms. */
export class ReferenceBudget {
  readonly #limit: number;
  readonly #windowMs: number;
  readonly #holdMs: number;
  readonly #isCounted: boolean;
  #held: Held[] = [];
  #stored: Stored[] = [];
  readonly #settled = new Set<string>();

  constructor(of: { limit: number; windowMs: number; holdMs: number; isCounted: boolean }) {
    this.#limit = of.limit;
    this.#windowMs = of.windowMs;
    this.#holdMs = of.holdMs;
    this.#isCounted = of.isCounted;
  }

  spent(nowMs: number): number {
    const first = this.partOf(nowMs) - 60;
    return this.#stored.reduce((sum, { part, amount }) => (part >= first ? sum + amount : sum), 0);
  }

  reserved(nowMs: number): number {
    return this.#held.reduce((sum, { amount, endMs }) => (endMs > nowMs ? sum + amount : sum), 0);
  }

  left(nowMs: number): number {
    return this.#limit - this.spent(nowMs) - this.reserved(nowMs);
  }

  partOf(atMs: number): number {
    return Math.floor((atMs * 60) / this.#windowMs);
  }

  /** true: it fits. */
  reserve(id: string, { agent, who, amount }: { agent: string; who: string; amount: number }, nowMs: number): boolean {
    if (this.#held.some((held) => held.id === id && held.endMs > nowMs)) return true;
    const fits = amount <= this.left(nowMs);
    if (fits || this.#isCounted)
      this.#held.push({ id, agent, who, amount, reserved: amount, endMs: nowMs + this.#holdMs, by: undefined });
    return fits;
  }

  /** Finds a completion's reservation: there is one, it has none of its own, or another completion has used it. */
  use(
    id: string,
    { agent, who, target, amount }: { agent: string; who: string; target: string; amount: number },
    nowMs: number,
  ): { word: 'found' | 'own' | 'twice'; target: string; amount: number } {
    const held =
      target === ''
        ? this.#held.find((one) => one.who === who && one.by === undefined && one.endMs > nowMs)
        : this.#held.find((one) => one.id === target && one.agent === agent);
    if (held === undefined) return { word: 'own', target: '', amount: Math.max(0, amount) };
    if (held.by !== undefined && held.by !== id) return { word: 'twice', target: held.id, amount: 0 };
    held.by = id;
    const used = amount < 0 ? held.amount : amount;
    held.amount = used;
    held.endMs = Math.max(held.endMs, nowMs + 60_000);
    return { word: 'found', target: held.id, amount: used };
  }

  /** The completion is not recorded: what it had used is as it was reserved. */
  unuse(id: string, target: string): void {
    const held = this.#held.find((one) => one.id === target);
    if (held === undefined || held.by !== id) return;
    held.by = undefined;
    held.amount = held.reserved;
  }

  /** An error: as `use`, and then there is no such reservation. */
  release(
    { agent, who, target }: { agent: string; who: string; target: string },
    nowMs: number,
  ): { word: 'found' | 'own' | 'twice'; target: string } {
    const held =
      target === ''
        ? this.#held.find((one) => one.who === who && one.by === undefined && one.endMs > nowMs)
        : this.#held.find((one) => one.id === target && one.agent === agent);
    if (held === undefined) return { word: 'own', target: '' };
    if (held.by !== undefined) return { word: 'twice', target: held.id };
    this.#held = this.#held.filter((one) => one !== held);
    return { word: 'found', target: held.id };
  }

  /** Each place of each stream once. */
  settle(place: string, { target, amount }: { target: string; amount: number }, atMs: number): void {
    if (this.#settled.has(place)) return;
    this.#settled.add(place);
    this.#stored.push({ part: this.partOf(atMs), amount });
    for (const held of this.#held) if (held.id === target) held.endMs = 0;
  }
}
