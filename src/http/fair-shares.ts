// Who is owed a place in a strained front (asked by load-shedding.ts before it refuses).
// What was let in during the last window is divided evenly among the accounts that asked in it; an account that has had less
// than that in this window is owed. So an account that asks for little is let in while one that floods is refused, and among
// many that flood each gets about the same. Work is reckoned as load-shedding.ts does.
// Approximate on purpose: a window is short, the share is that of the last one, and each front reckons for itself.
// Bound: ACCOUNTS_MAX accounts a window; those beyond it are treated alike, as if there were no shares.

const WINDOW_MS = 250;
/** Names and numbers, some 100 bytes each: 1 MB. */
const ACCOUNTS_MAX = 10_000;

export class FairShares {
  #windowMs = Number.NEGATIVE_INFINITY;
  /** Work let in during this window; 0 for one that has only asked. */
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

  /** It has been let in. */
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
    // With one account there is nobody to be fair to: it is refused by the clock alone.
    this.#share = this.#had.size > 1 ? this.#total / this.#had.size : 0;
    this.#had.clear();
    this.#total = 0;
    this.#windowMs = nowMs;
  }
}
