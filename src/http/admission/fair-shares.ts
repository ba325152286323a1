// Fair shares of an overloaded front (load-shedding.ts asks before it refuses).
// The work that was admitted in the last window is divided evenly among the accounts that asked in it; an account that
// had less than that share in the current window is owed the rest. So an account that asks for little is admitted while
// one that floods is refused, and of many that flood each gets about the same. Work is counted as in load-shedding.ts.
// Approximate on purpose: a window is short, the share is that of the last one, and each front counts for itself.
// Bound: ACCOUNTS_MAX accounts a window; further ones are treated as if there were no shares.

const WINDOW_MS = 250;
/** Names and numbers, some 100 bytes each: 1 MB. */
const ACCOUNTS_MAX = 10_000;

export class FairShares {
  #windowMs = Number.NEGATIVE_INFINITY;
  /** Work admitted in this window; 0: the account has only asked. */
  #had = new Map<string, number>();
  #total = 0;
  #share = 0;

  /** Has this account, which asks now, had less than an even share? */
  isOwed(account: string, nowMs: number): boolean {
    if (nowMs - this.#windowMs >= WINDOW_MS) this.#turnOver(nowMs);
    const had = this.#had.get(account);
    if (had !== undefined) return had < this.#share;
    if (this.#had.size >= ACCOUNTS_MAX) return false;
    this.#had.set(account, 0);
    return this.#share > 0;
  }

  /** Counts work that was admitted. */
  note(account: string, work: number): void {
    const had = this.#had.get(account);
    if (had !== undefined) this.#had.set(account, had + work);
    this.#total += work;
  }

  clear(): void {
    this.#had.clear();
    this.#total = 0;
    this.#share = 0;
    this.#windowMs = Number.NEGATIVE_INFINITY;
  }

  #turnOver(nowMs: number): void {
    // With one account there are no shares: the clock alone decides.
    this.#share = this.#had.size > 1 ? this.#total / this.#had.size : 0;
    this.#had.clear();
    this.#total = 0;
    this.#windowMs = nowMs;
  }
}
