// Speaks HTTP byte by byte, for requests that no proper client would send: cut, dripped, pipelined, framed in two ways.
// Nothing here is clever: what is written goes out as it is, what comes back is split into answers by their
// Content-Length.
import net from 'node:net';

type RawAnswer = { status: number; headers: Map<string, string>; body: string };

export class RawConnection {
  readonly #socket: net.Socket;
  readonly #bodiless: boolean;
  readonly #answers: RawAnswer[] = [];
  readonly #waiting = new Set<() => void>();
  #received = '';
  /** Where in `#received` the next answer begins. */
  #at = 0;
  #closed = false;

  private constructor(socket: net.Socket, bodiless: boolean) {
    this.#socket = socket;
    this.#bodiless = bodiless;
    socket.setNoDelay(true);
    socket.on('data', (data) => {
      this.#received += data.toString('latin1');
      this.#split();
    });
    for (const event of ['end', 'close', 'error']) {
      socket.on(event, () => {
        this.#closed = true;
        this.#split();
      });
    }
  }

  /** `bodiless`: the answers are to HEAD, their Content-Length describes nothing. */
  static async open(port: number, options: { bodiless?: boolean } = {}): Promise<RawConnection> {
    const socket = net.connect({ port, host: '127.0.0.1' });
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    return new RawConnection(socket, options.bodiless ?? false);
  }

  /** Latin-1: a character is a byte. */
  write(text: string): void {
    if (!this.#socket.destroyed) this.#socket.write(text, 'latin1');
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Everything received so far. */
  get text(): string {
    return this.#received;
  }

  get answers(): readonly RawAnswer[] {
    return this.#answers;
  }

  /** Resolves when that many answers are there, or the connection is closed; throws after `timeoutMs`. */
  async waitForAnswers(count: number, timeoutMs = 60_000): Promise<readonly RawAnswer[]> {
    await this.#until(() => this.#answers.length >= count || this.#closed, timeoutMs, `${count} answers`);
    return this.#answers;
  }

  async waitForClose(timeoutMs = 60_000): Promise<void> {
    await this.#until(() => this.#closed, timeoutMs, 'a close');
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #split(): void {
    for (;;) {
      const next = readAnswer(this.#received, this.#at, { bodiless: this.#bodiless, ended: this.#closed });
      if (next === undefined) break;
      if (next.answer !== undefined) this.#answers.push(next.answer);
      this.#at = next.end;
    }
    for (const look of this.#waiting) look();
  }

  #until(done: () => boolean, timeoutMs: number, what: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (settled: () => void) => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        settled();
      };
      const late = () =>
        new Error(`waited ${timeoutMs} ms for ${what}; got ${JSON.stringify(this.#received.slice(-500))}`);
      const timer = setTimeout(() => settle(() => reject(late())), timeoutMs);
      const look = () => {
        if (done()) settle(resolve);
      };
      this.#waiting.add(look);
      look();
    });
  }
}

/**
 * Sends `parts` (a number waits so many ms) on one connection and gives back what came until `answers` were there, or
 * its end.
 */
export async function rawExchange(
  port: number,
  parts: (string | number)[],
  options: { answers?: number; bodiless?: boolean; settleMs?: number } = {},
): Promise<{ answers: readonly RawAnswer[]; closed: boolean; text: string }> {
  const connection = await RawConnection.open(port, options);
  try {
    for (const part of parts) {
      if (typeof part === 'number') await pause(part);
      else connection.write(part);
    }
    await connection.waitForAnswers(options.answers ?? 1);
    await pause(options.settleMs ?? 30); // one answer too many, or the close, would come now
    return { answers: connection.answers, closed: connection.closed, text: connection.text };
  } finally {
    connection.destroy();
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

const UNTIL_MS_MAX = 120_000;

/** For what the service does in its own time; the bound is for what never comes. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const deadline = performance.now() + UNTIL_MS_MAX; !(await holds()); await pause(50))
    if (performance.now() > deadline) throw new Error(`did not come true within ${UNTIL_MS_MAX} ms: ${holds}`);
}

/** The answer that begins at `at`, or undefined while it is not whole. One without an `answer` is a `100 Continue`. */
function readAnswer(
  text: string,
  at: number,
  { bodiless, ended }: { bodiless: boolean; ended: boolean },
): { answer?: RawAnswer; end: number } | undefined {
  const headEnd = text.indexOf('\r\n\r\n', at);
  if (headEnd < 0) return undefined;
  const [statusLine, ...lines] = text.slice(at, headEnd).split('\r\n');
  const headers = new Map(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  const status = Number(statusLine!.split(' ')[1]);
  const bodyAt = headEnd + 4;
  if (status === 100) return { end: bodyAt };
  const length = headers.get('content-length');
  // uWebSockets.js's own refusals have no length: they end with the connection.
  if (length === undefined && !bodiless && status !== 204 && !ended) return undefined;
  const bytes = bodiless || status === 204 ? 0 : length === undefined ? text.length - bodyAt : Number(length);
  if (text.length < bodyAt + bytes) return undefined;
  return { answer: { status, headers, body: text.slice(bodyAt, bodyAt + bytes) }, end: bodyAt + bytes };
}
