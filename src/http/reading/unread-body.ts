// What is left of a body whose request is answered already (under exchange.ts), on a connection that ends behind the
// answer. A client that says `Connection: close` makes uWebSockets.js close as soon as the answer has left, whatever is
// still to come: the client's next write fails, and it never reads why it was refused.
// Invariant: the answer leaves once: when the last of the body was read and dropped, or LINGER_MS later.
// Failure: a client that sends for longer may lose the answer; one that leaves is forgotten.

/** uWebSockets.js ends a connection on which nothing comes after 8 to 12 s: the answer must have left by then. */
const LINGER_MS = 5_000;

export class UnreadBody {
  #isRead = false;
  #answer: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** Nothing more comes. */
  read(): void {
    this.#isRead = true;
    const answer = this.#answer;
    this.left();
    answer?.();
  }

  /** Calls `answer`, at once if nothing is left. */
  answerBehind(answer: () => void): void {
    if (this.#isRead) {
      answer();
      return;
    }
    this.#answer = answer;
    this.#timer = setTimeout(() => this.read(), LINGER_MS);
  }

  /** The client has left. */
  left(): void {
    clearTimeout(this.#timer);
    this.#answer = undefined;
  }
}
