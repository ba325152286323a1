// What a process has begun last, in memory that its stall guard's thread reads when the process's own thread stands
// still (stall-guard.ts). Written with each request that is admitted: some 50 ns, nothing is allocated.
// Invariant: ids and routes alone, never anything of a body.

const NUMBERS = 2;
const ACCOUNT_BYTES = 32;
const ROUTE_BYTES = 64;
const ACCOUNT_AT = 4 * NUMBERS;
const ROUTE_AT = ACCOUNT_AT + ACCOUNT_BYTES;

const CURRENT_WORK_BYTES = ROUTE_AT + ROUTE_BYTES;

type DescribedWork = { account: string; route: string; bytes: number };

/** A view of the same memory on either side. */
export class CurrentWork {
  readonly shared: SharedArrayBuffer;
  /** Beats, and bytes of the body. */
  readonly #numbers: Int32Array;
  readonly #account: Uint8Array;
  readonly #route: Uint8Array;

  constructor(shared = new SharedArrayBuffer(CURRENT_WORK_BYTES)) {
    this.shared = shared;
    this.#numbers = new Int32Array(shared, 0, NUMBERS);
    this.#account = new Uint8Array(shared, ACCOUNT_AT, ACCOUNT_BYTES);
    this.#route = new Uint8Array(shared, ROUTE_AT, ROUTE_BYTES);
  }

  /** Says that the thread continues. */
  beat(): void {
    Atomics.add(this.#numbers, 0, 1);
  }

  get beats(): number {
    return Atomics.load(this.#numbers, 0);
  }

  /** ASCII, cut where they are longer than any of ours. */
  note(account: string, route: string, bytes: number): void {
    this.#numbers[1] = bytes;
    write(this.#account, account);
    write(this.#route, route);
  }

  read(): DescribedWork {
    return { account: read(this.#account), route: read(this.#route), bytes: this.#numbers[1]! };
  }
}

/** The current work of this process. */
export const currentWork = new CurrentWork();

function write(to: Uint8Array, text: string): void {
  const length = Math.min(text.length, to.length);
  for (let i = 0; i < length; i++) to[i] = text.charCodeAt(i);
  if (length < to.length) to[length] = 0;
}

function read(from: Uint8Array): string {
  const end = from.indexOf(0);
  return String.fromCharCode(...from.subarray(0, end < 0 ? from.length : end));
}
