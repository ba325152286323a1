// The largest value of the last minute (kept for gauges of `/metrics`, where reading must not empty what is read: two
// scrapers would each see a part). A minute is six slots of ten seconds, so a value is shown for 50 to 60 s.
// Pure: times are given. Nothing here can fail.

const SLOT_MS = 10_000;
const SLOTS = 6;

export class RecentMax {
  readonly #slots = new Array<number>(SLOTS).fill(0);
  /** Number of the slot that is open. */
  #open = 0;

  /** `nowMs`: monotonic. */
  note(value: number, nowMs: number): void {
    this.#turnTo(nowMs);
    const place = this.#open % SLOTS;
    if (value > this.#slots[place]!) this.#slots[place] = value;
  }

  /** 0 where nothing was noted. */
  max(nowMs: number): number {
    this.#turnTo(nowMs);
    return Math.max(...this.#slots);
  }

  #turnTo(nowMs: number): void {
    const now = Math.floor(nowMs / SLOT_MS);
    if (now === this.#open) return;
    for (let slot = Math.max(this.#open + 1, now - SLOTS + 1); slot <= now; slot++) this.#slots[slot % SLOTS] = 0;
    this.#open = now;
  }
}
