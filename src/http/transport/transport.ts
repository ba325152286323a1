// What the HTTP front needs of an HTTP server: the dozen calls below, and nothing else (under server.ts and
// exchange.ts). Two servers offer them: uWebSockets.js (uws.ts), whose own objects have these methods and are handed
// through as they are, and the Node.js HTTP server (node-http.ts). choose.ts says which one a front runs on.
// Invariant: a handler is called once for each request that has a sound request line and head; what a client sends
// otherwise is answered or dropped by the transport, and never reaches a handler.
import type { Verb } from './router.ts';

/** Valid until the handler returns. */
export type TransportRequest = {
  /** In lower case. */
  getMethod(): string;
  /** The query after the `?`, as it was sent; undefined or '' where there is none. */
  getQuery(): string | undefined;
  /** The nth segment of the path that the pattern names, as it was sent. */
  getParameter(index: number): string | undefined;
  /** Each header in the order of arrival, repeated ones too; names in lower case. */
  forEach(take: (name: string, value: string) => void): void;
};

export type TransportResponse = {
  /** Address of the other end of the connection, in ASCII. Not to be asked for once it was answered or has ended. */
  getRemoteAddressAsText(): ArrayBuffer | Uint8Array;
  /** Must be set before the handler returns. Called if the client leaves before the answer, at most once. */
  onAborted(handler: () => void): unknown;
  /**
   * Must be set before the handler returns. `chunk` belongs to the transport and may be gone when the callback returns.
   */
  onData(handler: (chunk: ArrayBuffer | Uint8Array, isLast: boolean) => void): unknown;
  /** Gathers what `write` writes into one packet. Inside the handler everything is gathered already. */
  cork(write: () => void): unknown;
  /** Code and reason: `200 OK`. */
  writeStatus(status: string): unknown;
  /** `value` may hold further header lines, each behind a CR LF. */
  writeHeader(name: string, value: string): unknown;
  /**
   * Adds Date and Content-Length. `close`: the connection ends behind the answer, and nothing that follows on it is
   * handled.
   */
  end(body: string | Buffer, close?: boolean): unknown;
  /**
   * A part of a body of unknown length; `end('')` ends it. False: it is kept, and `onWritable` says when it
   * was taken.
   */
  write(part: string | Uint8Array): boolean;
  /** Set once, before `write`. Called whenever what was kept has been taken; answers true. */
  onWritable(handler: () => boolean): unknown;
  /** For answers to HEAD and with status 204; the caller has written a Content-Length where there is to be one. */
  endWithoutBody(): unknown;
  /** Ends the connection without an answer. Throws or does nothing where it has ended. */
  close(): unknown;
};

export type Handler = (response: TransportResponse, request: TransportRequest) => void;

/**
 * Makes the answer to what no handler sees, a request that cannot be read, and counts it. `headers` are whole lines.
 */
export type Unreadable = (status: 400 | 405 | 408 | 431, fault: string) => { headers: string[]; body: string };

export interface Transport {
  readonly name: 'uws' | 'node';
  /** Open connections. */
  readonly connections: number;
  /** Set before `listen`. uWebSockets.js answers such requests by itself, and reports none. */
  onUnreadable: Unreadable;
  /** `pattern`: a path with `{name}` for a segment. Registered before `listen`. */
  on(verb: Verb, pattern: string, handler: Handler): void;
  /** For verbs that have no handler of their own there. */
  onOther(pattern: string, handler: Handler): void;
  /** For paths that match no pattern. */
  onUnknown(handler: Handler): void;
  /** Resolves with the port. Rejects where the address cannot be had. */
  listen(host: string, port: number): Promise<number>;
  /** No new connections; those that are open continue. */
  stopListening(): void;
  /** Ends what is left of them. */
  close(): void;
}
