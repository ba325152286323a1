// One connection of the Node.js HTTP server (inside node-http.ts): whose answers are due on it, and whether its client
// is too slow. Both ways a client must do 16 KiB/s, as uWebSockets.js wants it: a body that drips in, or an answer that
// is not taken, would hold memory for as long as the client likes.
// Invariant: a request that has begun and is not answered is notified once that the client left. After `last` and
// `closeGently` nothing is handled any more.
import type { Socket } from 'node:net';

/** A body that has brought less than this in PERIOD_MS is too slow. */
const PERIOD_MS = 10_000;
const BYTES_PER_SECOND_MIN = 16 * 1024;
const PERIOD_BYTES = (PERIOD_MS / 1000) * BYTES_PER_SECOND_MIN;
/** A piece of a large answer: the next one leaves when the last one was taken. */
export const PIECE_BYTES = 256 * 1024;
const PIECE_MS_MAX = PERIOD_MS + (PIECE_BYTES / BYTES_PER_SECOND_MIN) * 1000;
/** How long what a client still sends is read and dropped after the last answer. */
const LINGER_MS = 10_000;

export class NodeConnection {
  readonly #socket: Socket;
  /** Requests that wait for an answer, with their callback for a client that leaves. */
  readonly #waiting = new Map<object, () => void>();
  /** Whose bodies are coming in: one at a time, since a parser reads one request after another. */
  #receiver: object | undefined;
  #bytes = 0;
  /** Monotonic, ms. Infinity: nothing is due. */
  #receiveByMs = Number.POSITIVE_INFINITY;
  #sendByMs = Number.POSITIVE_INFINITY;
  #sending = 0;
  #parts = 0;
  #isClosing = false;
  #isLast = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    // Called by Node.js behind an answer that closes: its own would reset the connection under a client that is still
    // sending.
    socket.destroySoon = () => this.closeGently();
  }

  get isClosing(): boolean {
    return this.#isClosing || this.#isLast;
  }

  /**
   * The answer to the request at hand closes. Node.js does so when it has left, and reads what came in the same packet
   * behind that request before.
   */
  last(): void {
    this.#isLast = true;
  }

  /** Requests that are not answered yet. */
  get pending(): number {
    return this.#waiting.size;
  }

  /** May an answer be written outside of any request? Not where it would be taken for another one's. */
  get mayRefuse(): boolean {
    const isAlone = this.#waiting.size === 0 || (this.#waiting.size === 1 && this.#receiver !== undefined);
    return isAlone && this.#sending === 0 && !this.#isClosing && this.#socket.writable;
  }

  begin(request: object, onAborted: () => void): void {
    this.#waiting.set(request, onAborted);
  }

  receiving(request: object, isComing: boolean): void {
    this.#receiver = isComing ? request : undefined;
    this.#bytes = 0;
    this.#receiveByMs = isComing ? performance.now() + PERIOD_MS : Number.POSITIVE_INFINITY;
  }

  received(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes < PERIOD_BYTES) return;
    this.#bytes = 0;
    this.#receiveByMs = performance.now() + PERIOD_MS;
  }

  answered(request: object): void {
    this.#waiting.delete(request);
    this.#sending++;
    this.taken();
  }

  /** A piece of an answer was: there is time for another one. */
  taken(): void {
    this.#sendByMs = performance.now() + PIECE_MS_MAX;
  }

  sent(): void {
    this.#sending--;
    if (this.#sending === 0) this.#sendByMs = Number.POSITIVE_INFINITY;
  }

  /**
   * An answer whose body comes in parts has begun: its request stays registered, so that it is notified if the client
   * leaves.
   */
  streaming(): void {
    this.#sending++;
  }

  /** A part is on its way. Between parts there may be any time. */
  writing(): void {
    this.#parts++;
    if (this.#parts === 1) this.taken();
  }

  written(): void {
    this.#parts--;
    if (this.#parts === 0) this.#sendByMs = Number.POSITIVE_INFINITY;
    else this.taken();
  }

  /** The last part has been given. */
  streamed(request: object): void {
    this.#waiting.delete(request);
    this.sent();
  }

  isLate(nowMs: number): boolean {
    return nowMs > this.#receiveByMs || nowMs > this.#sendByMs;
  }

  /** Sends what was written, then drops what still comes. */
  closeGently(): void {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#receiveByMs = performance.now() + LINGER_MS;
    this.#socket.end();
    this.#socket.resume();
  }

  destroy(): void {
    this.#isClosing = true;
    this.#socket.destroy();
  }

  closed(): void {
    this.#isClosing = true;
    const left = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const tell of left) tell();
  }
}
