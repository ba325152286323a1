// uWebSockets.js as a transport: its application object with the patterns in its own spelling (see transport.ts).
// Its request and response objects have the methods of the interface, so nothing is between it and a handler.
// Several fronts may listen on one port (SO_REUSEPORT); the kernel shares connections out among them.
// Pipelining: it takes the next request of a connection only when the last one is answered, and closes the connection
// of a client that does not wait. Its time-outs are fixed: a connection without traffic for about 10 s is closed.
// Failure: a platform that has no binary for it makes `loadUws` throw; a handler must not (exchange.ts sees to that).
import type uWS from 'uWebSockets.js';
import type { TemplatedApp, us_listen_socket } from 'uWebSockets.js';
import type { Verb } from './router.ts';
import type { Handler, Transport, Unreadable } from './transport.ts';

type Uws = typeof uWS;

const METHODS = {
  GET: 'get',
  POST: 'post',
  PATCH: 'patch',
  DELETE: 'del',
  HEAD: 'head',
  PUT: 'put',
  OPTIONS: 'options',
} as const satisfies Record<Verb, keyof TemplatedApp>;

/** Throws where there is no binary for this Node.js and this C library. */
export async function loadUws(): Promise<Uws> {
  const { default: uws } = await import('uWebSockets.js');
  // The header that names uWebSockets and its version helps an attacker more than a caller.
  (uws as unknown as { _cfg(code: string): void })._cfg('999999990007');
  return uws;
}

export class UwsTransport implements Transport {
  readonly name = 'uws';
  onUnreadable: Unreadable = nobodyAsks;
  readonly #uws: Uws;
  readonly #app: TemplatedApp;
  #socket: us_listen_socket | undefined;
  #connections = 0;

  constructor(uws: Uws) {
    this.#uws = uws;
    this.#app = uws.App();
    // biome-ignore lint/suspicious/useIterableCallbackReturn: not of an array; uWS reports connections, +1 and -1
    this.#app.filter((_res, change) => {
      this.#connections += change as number;
    });
  }

  get connections(): number {
    return this.#connections;
  }

  on(verb: Verb, pattern: string, handler: Handler): void {
    this.#app[METHODS[verb]](spelled(pattern), handler);
  }

  onOther(pattern: string, handler: Handler): void {
    this.#app.any(spelled(pattern), handler);
  }

  onUnknown(handler: Handler): void {
    this.#app.any('/*', handler);
  }

  listen(host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#app.listen(host, port, (socket) => {
        if (!socket)
          return reject(new Error(`cannot listen on ${host}:${port}: the address is not ours or the port is taken`));
        this.#socket = socket;
        resolve(this.#uws.us_socket_local_port(socket));
      });
    });
  }

  stopListening(): void {
    if (this.#socket !== undefined) this.#uws.us_listen_socket_close(this.#socket);
    this.#socket = undefined;
  }

  close(): void {
    this.#app.close();
  }
}

function nobodyAsks(): never {
  throw new Error('uWebSockets.js answers what it cannot read by itself');
}

function spelled(pattern: string): string {
  return pattern.replaceAll(/\{(\w+)\}/g, ':$1');
}
