// Connections to one address that are kept between its calls (for checks, under guarded-https.ts, which opens them by
// its own rules): TLS to a service that is asked 100 times a second would cost more than the asking.
// Invariant: a connection leads to the address that was checked when it was opened; after LIFE_MS another is opened,
// its name resolved again. It has one call at a time; what comes while there is none ends it. At most `max` are idle,
// for IDLE_MS: shorter than servers wait, since a call that meets the end of its connection fails, and is not repeated.
import type { ClientRequest } from 'node:http';
import { Agent, type AgentOptions } from 'node:https';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';

/** Gunicorn closes after 2 s, Node.js and Uvicorn after 5 s. */
const IDLE_MS = 1_500;
const LIFE_MS = 60_000;

/** How the connection of a request is opened where none is kept; with the request's options. */
export type Opening = { open: () => Promise<TLSSocket> };

export class KeptConnections extends Agent {
  readonly #openedMs = new WeakMap<Duplex, number>();

  /** `max`: calls at a time, which others bound. */
  constructor(max: number) {
    super({ keepAlive: true, maxFreeSockets: max, timeout: IDLE_MS, scheduling: 'lifo' });
  }

  override createConnection(options: AgentOptions, opened: (error: Error | null, socket: Duplex) => void): undefined {
    (options as unknown as Opening).open().then(
      (socket) => {
        this.#openedMs.set(socket, performance.now());
        opened(null, socket);
      },
      (error: Error) => opened(error, undefined as never),
    );
  }

  override keepSocketAlive(socket: Duplex): boolean {
    if (performance.now() - this.#openedMs.get(socket)! > LIFE_MS) return false;
    socket.once('data', endsIt);
    return super.keepSocketAlive(socket) as unknown as boolean;
  }

  override reuseSocket(socket: Duplex, request: ClientRequest): void {
    socket.removeListener('data', endsIt);
    super.reuseSocket(socket, request);
  }
}

function endsIt(this: Duplex): void {
  this.destroy();
}
