// The one way out to addresses that users gave: a POST over https to a public address (behind the webhook and chat
// channels, and checks). The URL is checked, its name resolved once, and the connection made to one of the addresses
// that were checked; the socket is asked where it leads before a byte is sent. So neither a spelling nor a name server
// that changes its mind leads inside. node:https on a socket of ours rather than fetch: no proxy variables, no
// redirects, nothing in between; connections are one call's, but where kept ones are handed in (kept-connections.ts).
// Invariant: every stage ends by the one deadline; of an answer the status, Retry-After and its first 4 KiB are kept,
// or its whole body, where that is asked for: then an answer that breaks off, or is longer, is none.
// Failure: an EgressError, whose `reason` is one of a closed set and never the other side's text; `reached`: a
// connection was had.
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect, isIP, type Socket } from 'node:net';
import { type TLSSocket, connect as tlsConnect } from 'node:tls';
import { Deadline, type DeadlineEnding } from './deadline.ts';
import type { KeptConnections, Opening } from './kept-connections.ts';
import { isPublicAddress } from './public-address.ts';
import { byNameServers, bySystem, type Resolve } from './resolve.ts';
import { type TargetUrl, targetUrl } from './target-url.ts';

/** A name may have many addresses; the first ones that answer nothing must not use up the whole time. */
const ADDRESSES_TRIED_MAX = 3;
const CONNECT_MS_MAX = 4_000;
/**
 * Read so that people see why, and for politeness: a receiver that is cut off in the middle of its answer logs an
 * error.
 */
const BODY_BYTES_MAX = 4 * 1024;
const BODY_MS_MAX = 1_000;
const HEAD_BYTES_MAX = 8 * 1024;
/** Interim answers (1xx) before the answer. */
const INTERIM_MAX = 10;

type EgressReason = 'private_address' | 'dns' | 'refused' | 'tls' | 'reset' | DeadlineEnding;

export class EgressError extends Error {
  override name = 'EgressError';
  readonly reason: EgressReason;
  /** It will not go better later: the URL itself is refused. */
  readonly isFinal: boolean;
  /** The host took the connection, TLS included: what failed is the request. */
  readonly reached: boolean;

  constructor(reason: EgressReason, options: { isFinal?: boolean; reached?: boolean; cause?: unknown } = {}) {
    super(reason, { cause: options.cause });
    this.reason = reason;
    this.isFinal = options.isFinal ?? false;
    this.reached = options.reached ?? false;
  }
}

export type Post = {
  headers: Readonly<Record<string, string>>;
  body: Buffer;
  /** For everything: name, connection, TLS, request, answer. */
  timeoutMs: number;
  signal: AbortSignal;
  /** The answer is wanted whole, and may have so many bytes. Left out: its beginning is enough. */
  wholeBytesMax?: number;
  /** Kept for this address. Left out: the connection is for this call alone. With `wholeBytesMax`. */
  kept?: KeptConnections | undefined;
};

/** `text`: what was read of the body, as UTF-8. */
type HttpsAnswer = { status: number; retryAfter: string | undefined; text: string };

type GuardedHttpsOptions = {
  /** `host` or `host:port`: may be private, and may use any port. */
  allowedHosts: ReadonlySet<string>;
  /** Certificate authorities instead of the usual ones. */
  ca?: string;
  /** Resolves names that the operator does not allow. */
  resolve?: Resolve;
};

export class GuardedHttps {
  readonly #allowedHosts: ReadonlySet<string>;
  readonly #ca: string | undefined;
  readonly #resolve: Resolve;

  constructor({ allowedHosts, ca, resolve = byNameServers() }: GuardedHttpsOptions) {
    this.#allowedHosts = allowedHosts;
    this.#ca = ca;
    this.#resolve = resolve;
  }

  /** Resolves with any answer, whatever its status; redirects are answers like others. Throws EgressError. */
  async post(text: string, post: Post): Promise<HttpsAnswer> {
    const target = targetUrl(text, this.#allowedHosts);
    if (typeof target === 'string') throw new EgressError('private_address', { isFinal: true });
    const deadline = new Deadline(post.timeoutMs, post.signal);
    const over = deadline.signal;
    let socket: Socket | undefined;
    let reached = false;
    const open = async (): Promise<TLSSocket> => {
      socket = await connectToAny(await this.#addresses(target, over), target, over);
      const tls = await secure(socket, target, this.#ca);
      reached = true;
      return tls;
    };
    try {
      const way = post.kept === undefined ? await open() : { open, agent: post.kept };
      const answer = await exchange(way, target, post, over);
      if (post.kept !== undefined) socket = undefined;
      return answer;
    } catch (error) {
      if (deadline.ending !== undefined) throw new EgressError(deadline.ending, { reached });
      if (reached)
        throw new EgressError(error instanceof EgressError ? error.reason : 'reset', { reached, cause: error });
      throw error instanceof EgressError ? error : new EgressError('reset', { cause: error });
    } finally {
      socket?.destroy();
      deadline.end();
    }
  }

  /** Those that may be connected to. */
  async #addresses({ host, isAllowed }: TargetUrl, over: AbortSignal): Promise<string[]> {
    if (isIP(host) !== 0) return [host]; // was checked with the URL
    const resolve = isAllowed ? bySystem : this.#resolve;
    let found: string[];
    try {
      found = await orAborted(resolve(host, over), over);
    } catch (cause) {
      throw new EgressError('dns', { cause });
    }
    if (found.length === 0) throw new EgressError('dns');
    const good = isAllowed ? found : found.filter(isPublicAddress);
    if (good.length === 0) throw new EgressError('private_address');
    return good;
  }
}

async function connectToAny(addresses: readonly string[], target: TargetUrl, over: AbortSignal): Promise<Socket> {
  let failure: unknown;
  for (const address of addresses.slice(0, ADDRESSES_TRIED_MAX)) {
    try {
      return await connectTo(address, target, over);
    } catch (error) {
      if (over.aborted) throw error;
      failure = error;
    }
  }
  throw failure;
}

/**
 * `address` is a literal, so nothing is looked up. The socket dies with the deadline, at whatever stage it is by then.
 */
function connectTo(address: string, { port, isAllowed }: TargetUrl, over: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    over.throwIfAborted();
    const socket = connect({ host: address, port, noDelay: true, signal: over });
    const fail = (error: EgressError): void => {
      clearTimeout(timer);
      reject(error);
      socket.destroy();
    };
    const timer = setTimeout(() => fail(new EgressError('timeout')), CONNECT_MS_MAX);
    socket.on('error', (cause) => fail(new EgressError('refused', { cause })));
    socket.once('connect', () => {
      clearTimeout(timer);
      if (isAllowed || isPublicAddress(socket.remoteAddress ?? '')) resolve(socket);
      else fail(new EgressError('private_address'));
    });
  });
}

/** The certificate must be the host's whatever the environment says (NODE_TLS_REJECT_UNAUTHORIZED). */
function secure(socket: Socket, { host }: TargetUrl, ca: string | undefined): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const tls = tlsConnect({
      socket,
      host,
      servername: isIP(host) === 0 ? host : '',
      rejectUnauthorized: true,
      minVersion: 'TLSv1.2',
      ALPNProtocols: ['http/1.1'],
      ...(ca === undefined ? {} : { ca }),
    });
    tls.on('error', (error: NodeJS.ErrnoException) => {
      reject(new EgressError(error.code === 'ECONNRESET' ? 'reset' : 'tls', { cause: error }));
    });
    tls.once('close', () => reject(new EgressError('reset')));
    tls.once('secureConnect', () => resolve(tls));
  });
}

type Way = TLSSocket | (Opening & { agent: KeptConnections });

function exchange(way: Way, { url, host, port }: TargetUrl, post: Post, over: AbortSignal): Promise<HttpsAnswer> {
  return new Promise((resolve, reject) => {
    const request = httpsRequest({
      ...('agent' in way ? way : { createConnection: () => way }),
      method: 'POST',
      host,
      port,
      path: `${url.pathname}${url.search}`,
      headers: { host: url.host, ...post.headers, 'content-length': post.body.length, ...closing(way) },
      maxHeaderSize: HEAD_BYTES_MAX,
      insecureHTTPParser: false,
      signal: over,
    });
    let interim = 0;
    let answer: HttpsAnswer | undefined;
    let isRead = false;
    // What breaks after the head of the answer has come changes nothing: the status is known.
    const fail = (error: Error): void => (answer === undefined ? reject(error) : resolve(answer));
    request.on('error', fail);
    // The answer that is read has an end of its own, which may come behind that of the request.
    request.on('close', () => isRead || fail(new EgressError('reset')));
    request.on('information', () => {
      if (++interim > INTERIM_MAX) request.destroy(new EgressError('reset'));
    });
    request.once('response', (response) => {
      const got: HttpsAnswer = {
        status: response.statusCode ?? 0,
        retryAfter: response.headers['retry-after'],
        text: '',
      };
      if (post.wholeBytesMax !== undefined) {
        isRead = true;
        readWhole(response, post.wholeBytesMax).then((text) => resolve({ ...got, text }), fail);
        return;
      }
      answer = got;
      const chunks: Buffer[] = [];
      let bytes = 0;
      const done = (): void => {
        clearTimeout(timer);
        got.text = Buffer.concat(chunks).subarray(0, BODY_BYTES_MAX).toString('utf8');
        resolve(got);
        request.destroy();
      };
      const timer = setTimeout(done, BODY_MS_MAX);
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > BODY_BYTES_MAX) done();
      });
      for (const end of ['end', 'error', 'close']) response.once(end, done);
    });
    request.end(post.body);
  });
}

function closing(way: Way): { connection?: 'close' } {
  return 'agent' in way ? {} : { connection: 'close' };
}

/** Rejects where it breaks off or is too large. */
function readWhole(response: IncomingMessage, bytesMax: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    response.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > bytesMax) response.destroy(new EgressError('reset'));
    });
    response.once('error', reject);
    response.once('end', () => resolve(Buffer.concat(chunks).toString('utf8')));
    response.once('close', () => reject(new EgressError('reset')));
  });
}

/** `getaddrinfo` does not end when it is no longer wanted. */
function orAborted<T>(promise: Promise<T>, over: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(over.reason);
    if (over.aborted) stop();
    over.addEventListener('abort', stop, { once: true });
    promise.then(resolve, reject).finally(() => over.removeEventListener('abort', stop));
  });
}
