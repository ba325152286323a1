// The exchanges that are not over (noted by exchange.ts; server.ts asks when it drains, and for those that were
// forgotten). An array in which each knows its place. A Set lays itself out again every few dozen additions, and what
// it leaves behind points to what follows it: once one of these had outlived two collections, each that followed did,
// with the exchanges that it held, so that an eighth of all that requests allocate was kept until the next full
// collection.
// Invariant: an exchange is at its own `place`; -1: it is over.

export type Indexed = { place: number };

export class InFlight<Exchange extends Indexed> implements Iterable<Exchange> {
  readonly #exchanges: Exchange[] = [];

  get size(): number {
    return this.#exchanges.length;
  }

  add(exchange: Exchange): void {
    exchange.place = this.#exchanges.length;
    this.#exchanges.push(exchange);
  }

  /** Once for each that was added. The last one takes its place. */
  remove(exchange: Exchange): void {
    const last = this.#exchanges.pop()!;
    if (last !== exchange) {
      this.#exchanges[exchange.place] = last;
      last.place = exchange.place;
    }
    exchange.place = -1;
  }

  /** Those that were there when it began. */
  [Symbol.iterator](): Iterator<Exchange> {
    return [...this.#exchanges][Symbol.iterator]();
  }
}
