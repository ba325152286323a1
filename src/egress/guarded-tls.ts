// The one way out to addresses that users gave: a TLS connection to a public address (under guarded-https.ts, and
// syslog of outgoing feeds). The name is resolved once, and the connection made to one of the addresses that were
// checked; the socket is asked where it leads before a byte is sent. So neither a spelling nor a name server that
// changes its mind leads inside. On a socket of ours: no proxy variables, no shared connections, nothing in between.
// Invariant: every stage ends by the one deadline, and the socket with it.
// Failure: an EgressError, whose `reason` is one of a closed set and never the other side's text; `reached`: a
// connection was had.
import { connect, isIP, type Socket } from 'node:net';
import { type TLSSocket, connect as tlsConnect } from 'node:tls';
import type { EGRESS_ERRORS } from '../../schemas/closed-sets.ts';
import { Deadline, type DeadlineEnding } from './deadline.ts';
import { isPublicAddress } from './public-address.ts';
import { byNameServers, bySystem, type Resolve } from './resolve.ts';
import type { TargetUrl } from './target-url.ts';

/** A name may have many addresses; the first ones that answer nothing must not use up the whole time. */
const ADDRESSES_TRIED_MAX = 3;
const CONNECT_MS_MAX = 4_000;

type EgressReason = (typeof EGRESS_ERRORS)[number] | DeadlineEnding;

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

export type GuardedTlsOptions = {
  /** Certificate authorities instead of the usual ones. */
  ca?: string;
  /** Resolves names that the operator does not allow. */
  resolve?: Resolve;
};

/**
 * `timeoutMs`: for everything: name, connection, TLS, and what is done with it. `isKept`: a connection with which all
 * went well is another's to end.
 */
type During = { timeoutMs: number; signal: AbortSignal; protocols?: string[]; isKept?: boolean };

export class GuardedTls {
  readonly #ca: string | undefined;
  readonly #resolve: Resolve;

  constructor({ ca, resolve = byNameServers() }: GuardedTlsOptions) {
    this.#ca = ca;
    this.#resolve = resolve;
  }

  /** The result of `use` with a connection, which ends with it. Throws EgressError. */
  during<T>(target: TargetUrl, during: During, use: (tls: TLSSocket, over: AbortSignal) => Promise<T>): Promise<T> {
    return this.opening(target, during, async (open, over) => use(await open(), over));
  }

  /** The same where `use` opens the connection itself, if it needs one. */
  async opening<T>(
    target: TargetUrl,
    { timeoutMs, signal, protocols, isKept = false }: During,
    use: (open: () => Promise<TLSSocket>, over: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const deadline = new Deadline(timeoutMs, signal);
    const over = deadline.signal;
    let socket: Socket | undefined;
    let reached = false;
    const open = async (): Promise<TLSSocket> => {
      socket = await connectToAny(await this.#addresses(target, over), target, over);
      const tls = await secure(socket, target, { ca: this.#ca, protocols });
      reached = true;
      return tls;
    };
    try {
      const result = await use(open, over);
      if (isKept) socket = undefined;
      return result;
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
function secure(
  socket: Socket,
  { host }: TargetUrl,
  { ca, protocols }: { ca: string | undefined; protocols: string[] | undefined },
): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const tls = tlsConnect({
      socket,
      host,
      servername: isIP(host) === 0 ? host : '',
      rejectUnauthorized: true,
      minVersion: 'TLSv1.2',
      ...(protocols === undefined ? {} : { ALPNProtocols: protocols }),
      ...(ca === undefined ? {} : { ca }),
    });
    tls.on('error', (error: NodeJS.ErrnoException) => {
      reject(new EgressError(error.code === 'ECONNRESET' ? 'reset' : 'tls', { cause: error }));
    });
    tls.once('close', () => reject(new EgressError('reset')));
    tls.once('secureConnect', () => resolve(tls));
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
