// A POST or PUT over https to an address that users gave (behind webhooks, chats, outgoing feeds and checks), by the
// guarded way out (guarded-tls.ts). The URL is checked first. node:https on that socket rather than fetch: no proxy
// variables, no redirects; connections are one call's, but where kept ones are handed in (kept-connections.ts).
// Invariant: of an answer the status, Retry-After and its first 4 KiB are kept, or its whole body, where that is asked
// for: then an answer that breaks off, or is longer, is none.
// Failure: an EgressError, as of the way out; one that is final where the URL itself is refused.
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { TLSSocket } from 'node:tls';
import { EgressError, GuardedTls, type GuardedTlsOptions } from './guarded-tls.ts';
import type { KeptConnections, Opening } from './kept-connections.ts';
import { type TargetUrl, targetUrl } from './target-url.ts';

/**
 * Read so that people see why, and for politeness: a receiver that is cut off in the middle of its answer logs an
 * error.
 */
const BODY_BYTES_MAX = 4 * 1024;
const BODY_MS_MAX = 1_000;
const HEAD_BYTES_MAX = 8 * 1024;
/** Interim answers (1xx) before the answer. */
const INTERIM_MAX = 10;

export type Post = {
  /** Left out: POST. */
  method?: 'PUT';
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

type GuardedHttpsOptions = GuardedTlsOptions & {
  /** `host` or `host:port`: may be private, and may use any port. */
  allowedHosts: ReadonlySet<string>;
};

export class GuardedHttps {
  readonly #allowedHosts: ReadonlySet<string>;
  readonly #way: GuardedTls;

  constructor({ allowedHosts, ...way }: GuardedHttpsOptions) {
    this.#allowedHosts = allowedHosts;
    this.#way = new GuardedTls(way);
  }

  /** Resolves with any answer, whatever its status; redirects are answers like others. Throws EgressError. */
  async post(text: string, post: Post): Promise<HttpsAnswer> {
    const target = targetUrl(text, this.#allowedHosts);
    if (typeof target === 'string') throw new EgressError('private_address', { isFinal: true });
    const { timeoutMs, signal, kept } = post;
    const asked = { timeoutMs, signal, protocols: ['http/1.1'] };
    if (kept === undefined) return this.#way.during(target, asked, (tls, over) => exchange(tls, target, post, over));
    return this.#way.opening(target, { ...asked, isKept: true }, (open, over) =>
      exchange({ open, agent: kept }, target, post, over),
    );
  }
}

type Way = TLSSocket | (Opening & { agent: KeptConnections });

function exchange(way: Way, { url, host, port }: TargetUrl, post: Post, over: AbortSignal): Promise<HttpsAnswer> {
  return new Promise((resolve, reject) => {
    const request = httpsRequest({
      ...('agent' in way ? way : { createConnection: () => way }),
      method: post.method ?? 'POST',
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
