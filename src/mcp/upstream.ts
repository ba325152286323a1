// Asks a server of MCP at an address, over HTTP: one request on a connection of its own, and the events of a stream. No
// time of ours ends a call or a stream: a tool may work for as long as its client waits.
// Invariant: a redirect is followed on the same origin alone, and never turns a POST into a GET: what was judged goes
// where it was meant to go, and headers with keys go nowhere else.
// Failure: an Error that says what is the matter. A stream that breaks goes on from the last id of its events, where it
// has one; after TRIES_MAX tries in vain it has ended.
import http, { type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import https from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { createParser, ParseError } from 'eventsource-parser';
import { backoffMs } from '../common/async.ts';
import { MESSAGE_BYTES_MAX } from './message.ts';

export type Upstream = { url: URL; headers: Readonly<Record<string, string>> };
type UpstreamRequest = {
  method: string;
  /** On the same origin; left out: the server's. */
  url?: URL;
  headers: OutgoingHttpHeaders;
  body?: string;
  signal: AbortSignal;
};
export type StreamItem = { data: string; event?: string; id?: string } | { comment: string } | { retryMs: number };

const CONNECT_MS = 10_000;
/** A side that is gone is noticed: calls may be silent for long. */
const PROBE_MS = 30_000;
const REDIRECTS_MAX = 5;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const RETRY = { minMs: 1_000, maxMs: 30_000 };
const TRIES_MAX = 5;

export async function ask(upstream: Upstream, asked: UpstreamRequest): Promise<IncomingMessage> {
  let url = asked.url ?? upstream.url;
  for (let count = 0; count <= REDIRECTS_MAX; count++) {
    const response = await request(url, asked, upstream.headers);
    const { location } = response.headers;
    if (!REDIRECTS.has(response.statusCode!) || location === undefined) return response;
    response.destroy();
    const to = URL.canParse(location, url.href) ? new URL(location, url) : undefined;
    const keepsMethod = response.statusCode === 307 || response.statusCode === 308 || asked.method === 'GET';
    if (to?.origin !== url.origin || !keepsMethod)
      throw new Error(`the server answers with a redirect to ${location}: give that as its address if it is right`);
    url = to;
  }
  throw new Error(`the server answers with more than ${REDIRECTS_MAX} redirects`);
}

function request(
  url: URL,
  { method, headers, body, signal }: UpstreamRequest,
  own: Upstream['headers'],
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const all: OutgoingHttpHeaders = { ...headers, 'accept-encoding': 'identity' };
    for (const [name, value] of Object.entries(own)) all[name.toLowerCase()] = value;
    if (body !== undefined) all['content-length'] = Buffer.byteLength(body);
    const asked = (url.protocol === 'https:' ? https : http).request(url, {
      method,
      headers: all,
      signal,
      agent: false,
    });
    const late = setTimeout(() => asked.destroy(new Error(`no connection within ${CONNECT_MS} ms`)), CONNECT_MS);
    asked.once('socket', (socket) => {
      socket.setKeepAlive(true, PROBE_MS);
      socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => clearTimeout(late));
    });
    asked.once('error', reject);
    asked.once('close', () => clearTimeout(late));
    asked.once('response', (response) => {
      const { 'content-encoding': encoding = 'identity' } = response.headers;
      if (encoding === 'identity') return resolve(response);
      asked.destroy();
      reject(new Error(`the server answers in ${encoding}, which it was not asked for`));
    });
    asked.end(body);
  });
}

/** undefined: larger than a message may be. */
export async function bodyText(chunks: AsyncIterable<Uint8Array>): Promise<string | undefined> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > MESSAGE_BYTES_MAX) return undefined;
    parts.push(chunk);
  }
  return Buffer.concat(parts).toString();
}

export function isStream({ headers }: IncomingMessage): boolean {
  return /^text\/event-stream\b/i.test(headers['content-type'] ?? '');
}

/**
 * The events of a stream, which goes on in another where it breaks: `again` asks for what came behind an event. Ends
 * when the server ends it for good, or it broke and `isDone`.
 */
export async function* eventsOf(
  first: IncomingMessage,
  again: (lastEventId: string) => Promise<IncomingMessage>,
  { isDone, signal }: { isDone: () => boolean; signal: AbortSignal },
): AsyncGenerator<StreamItem> {
  let lastId: string | undefined;
  let retryMs: number = RETRY.minMs;
  let response: IncomingMessage | undefined = first;
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    try {
      response ??= await again(lastId!);
      if (response.statusCode !== 200 || !isStream(response)) {
        response.destroy();
        return;
      }
      for await (const item of itemsOfStream(response)) {
        tries = 0;
        if ('retryMs' in item) retryMs = Math.min(item.retryMs, RETRY.maxMs);
        if ('data' in item && item.id !== undefined) lastId = item.id;
        yield item;
      }
    } catch (error) {
      if (lastId === undefined || isDone() || error instanceof ParseError) throw error;
    }
    if (!lastId || isDone()) return;
    response = undefined;
    await sleep(tries === 0 ? retryMs : backoffMs(tries, RETRY), undefined, { signal });
  }
}

async function* itemsOfStream(response: IncomingMessage): AsyncGenerator<StreamItem> {
  const items: StreamItem[] = [];
  let error: Error | undefined;
  const parser = createParser({
    maxBufferSize: MESSAGE_BYTES_MAX,
    onEvent: ({ data, event, id }) =>
      items.push({ data, ...(event === undefined ? {} : { event }), ...(id === undefined ? {} : { id }) }),
    onComment: (comment) => items.push({ comment }),
    onRetry: (retryMs) => items.push({ retryMs }),
    onError: (fault) => {
      if (fault.type === 'max-buffer-size-exceeded') error = fault;
    },
  });
  const decoder = new TextDecoder();
  for await (const chunk of response as AsyncIterable<Buffer>) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* items.splice(0);
    if (error !== undefined) throw error;
  }
}
