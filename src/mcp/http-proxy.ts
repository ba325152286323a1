// `gatehouse mcp --listen`: the exchange in front of an MCP server over HTTP, for clients that speak it. A request over
// HTTP is an exchange of its own; sessions, versions and authorization are headers, and pass. A client of HTTP+SSE has
// one exchange for its stream and for what it posts to the address that the stream named.
// Invariant: what goes on is the message that was judged. A response is read message by message before any of it goes
// back; comments, which keep a stream open, go back at once. A stream that broke is taken up again here, so ids of
// stream events are left out. No other path than the server's reaches it, and no page of another origin or name does.
// Failure: a body that cannot be read is 400, another path 404, a server that cannot be reached 502, each as an error
// of JSON-RPC with the id of the request where there is one.
import { createServer, type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse } from 'node:http';
import { type AddressInfo, isIP } from 'node:net';
import { jsonOf } from '../common/json-text.ts';
import type { Governor } from './governor.ts';
import { mcpHeaders } from './headers.ts';
import { McpExchange, routed } from './mcp-exchange.ts';
import {
  failureText,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  INVALID_REQUEST,
  type Incoming,
  type McpMessage,
  readMessages,
  tooLarge,
} from './message.ts';
import { ask, bodyText, eventsOf, isStream, type StreamItem, type Upstream } from './upstream.ts';

type ProxyOptions = Upstream & { host: string; port: number; hostNames: readonly string[] };
type Proxy = { url: string; close(): Promise<void> };
/** Where a client of HTTP+SSE posts, while its stream is open. `say`: onto the stream. */
type Endpoint = { exchange: McpExchange; url: URL; say: (text: string) => Promise<void> };

/** The headers of this hop, or of this program's making. The rest is the server's to read. */
const OWN_HEADERS = new Set(
  'connection content-length content-encoding transfer-encoding keep-alive host upgrade te trailer expect accept-encoding proxy-authorization proxy-authenticate last-event-id'.split(
    ' ',
  ),
);
const LOCAL = new Set(['localhost', '127.0.0.1', '[::1]']);
const BASE = 'http://localhost';
const METHODS = new Set(['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS']);
/** One client has some streams and some calls at once. */
const CONNECTIONS_MAX = 1_000;

/** Listens until it is closed. */
export async function listen(governor: Governor, options: ProxyOptions): Promise<Proxy> {
  const proxy = new HttpProxy(governor, options);
  const server = createServer((request, response) => void proxy.serve(request, response));
  server.maxConnections = CONNECTIONS_MAX;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${options.host.includes(':') ? `[${options.host}]` : options.host}:${port}${options.url.pathname}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

class HttpProxy {
  readonly #governor: Governor;
  readonly #options: ProxyOptions;
  readonly #endpoints = new Map<string, Endpoint>();

  constructor(governor: Governor, options: ProxyOptions) {
    this.#governor = governor;
    this.#options = options;
  }

  /** Never rejects. */
  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const target = request.url!.replace(/^\/+/, '/');
    const { pathname, search } = URL.canParse(target, BASE) ? new URL(target, BASE) : { pathname: '', search: '' };
    const endpoint = this.#endpoints.get(pathname + search);
    const stranger = this.#stranger(request);
    if (stranger !== undefined) return refuse(response, 403, failureText('null', INVALID_REQUEST, stranger));
    if (endpoint === undefined && pathname !== this.#options.url.pathname)
      return refuse(response, 404, failureText('null', INVALID_REQUEST, 'the server is at another path'));
    if (!METHODS.has(request.method!))
      return refuse(response, 405, failureText('null', INVALID_REQUEST, 'not a method of MCP'));
    const session = request.headers['mcp-session-id'];
    const trace = typeof session === 'string' ? session.slice(0, 200) : undefined;
    const exchange = endpoint?.exchange ?? new McpExchange(this.#governor, trace);
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const serving = new Serving(this.#governor, this.#options, exchange, request, response, gone.signal);
    try {
      if (endpoint !== undefined) await serving.posted(endpoint);
      else if (request.method === 'POST') await serving.post();
      else await serving.pass((to, say) => this.#opened(to, { exchange, say }, response));
    } catch (error) {
      if (!gone.signal.aborted) await serving.broken(error as Error);
    }
  }

  /** Why a request is not taken; undefined: it comes from where it may. */
  #stranger({ headers }: IncomingMessage): string | undefined {
    const { origin, host = '', 'sec-fetch-site': site = 'none' } = headers;
    const nameOf = (url: string) => (URL.canParse(url) ? new URL(url).hostname : '');
    const isOurs = (name: string) =>
      LOCAL.has(name) || name === this.#options.host || this.#options.hostNames.includes(name);
    // A web page must not reach a server on this machine, by another name of it either.
    if (origin !== undefined ? !isOurs(nameOf(origin)) : site !== 'none' && site !== 'same-origin')
      return 'requests of pages are taken from this machine alone';
    const name = nameOf(`http://${host}`);
    if (isOurs(name) || isIP(name.replace(/^\[|\]$/g, '')) !== 0) return undefined;
    return `${jsonOf(host)} is not a name of this server: --host-name adds one`;
  }

  /** A stream of HTTP+SSE names where the client is to post. What it is to say in place of that. */
  #opened(to: string, { exchange, say }: Omit<Endpoint, 'url'>, response: ServerResponse): string | undefined {
    const { url: base } = this.#options;
    const url = URL.canParse(to, base.href) ? new URL(to, base) : undefined;
    if (url?.origin !== base.origin) return undefined;
    const at = url.pathname + url.search;
    this.#endpoints.set(at, { exchange, url, say });
    response.once('close', () => this.#endpoints.delete(at));
    return at;
  }
}

/** One request over HTTP. */
class Serving {
  readonly #governor: Governor;
  readonly #upstream: Upstream;
  readonly #exchange: McpExchange;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #signal: AbortSignal;
  /** Answers that are ours, of a batch of which the rest went on. */
  #back: string | undefined;

  constructor(
    governor: Governor,
    upstream: Upstream,
    exchange: McpExchange,
    request: IncomingMessage,
    response: ServerResponse,
    signal: AbortSignal,
  ) {
    this.#governor = governor;
    this.#upstream = upstream;
    this.#exchange = exchange;
    this.#request = request;
    this.#response = response;
    this.#signal = signal;
  }

  async post(): Promise<void> {
    const incoming = await this.#incoming();
    const first = incoming.items[0]!;
    if (!incoming.isBatch && first.kind === 'fault')
      return refuse(this.#response, 400, failureText(first.id, first.code, first.why));
    const headers = this.#headersFor(incoming);
    if (headers === undefined) return;
    const { onward, back } = await routed(incoming, (item) => this.#exchange.fromClient(item));
    if (onward === undefined) {
      if (back !== undefined) return answer(this.#response, 200, back);
      this.#response.writeHead(202).end();
      return;
    }
    this.#back = back;
    await this.#passBack(await this.#ask(headers, onward), incoming);
  }

  /** Passes a request without a message: a stream of the server's, the end of a session. `opened`: see HttpProxy. */
  async pass(opened: (to: string, say: (text: string) => Promise<void>) => string | undefined): Promise<void> {
    const headers = this.#headersFor({ text: '', isBatch: false, items: [] });
    const came = await this.#ask(headers!);
    if (came.statusCode === 200 && isStream(came)) return this.#streamBack(came, false, opened);
    // Clients may read the body of a GET as a stream whatever it says that it is.
    const isRead = this.#request.method === 'GET' && came.statusCode! < 300;
    const text = isRead ? void came.destroy() : await bodyText(came);
    this.#head(came);
    if (isRead) this.#response.statusCode = 502;
    this.#response.end(text);
  }

  /** A message of a client of HTTP+SSE, whose answers go onto its stream. */
  async posted({ url, say }: Endpoint): Promise<void> {
    const incoming = await this.#incoming();
    const headers = this.#headersFor(incoming);
    if (headers === undefined) return;
    const { onward, back } = await routed(incoming, (item) => this.#exchange.fromClient(item));
    if (back !== undefined) await say(back);
    let status = 202;
    if (onward !== undefined) {
      try {
        const came = await this.#ask(headers, onward, url);
        status = came.statusCode!;
        const text = await bodyText(came);
        if (status >= 300) throw new Error(`the server answered with the status ${status} of HTTP: ${text ?? ''}`);
      } catch (error) {
        if (status < 300) status = 502;
        for (const item of incoming.items) {
          if (item.kind !== 'request') continue;
          const failed = failureText(item.id!.text, INTERNAL_ERROR, (error as Error).message.slice(0, 10_000));
          // Judged as the answer that it is.
          const judged = await routed(readMessages(failed, 'server'), (one) => this.#exchange.fromServer(one));
          if (judged.onward !== undefined) await say(judged.onward);
        }
      }
    }
    this.#response.writeHead(status).end();
  }

  /** The server cannot be reached, or its answer broke off. */
  async broken(error: Error): Promise<void> {
    this.#governor.options.report(error.message);
    const failures = this.#exchange.allFailed(error.message);
    if (!this.#response.headersSent)
      return refuse(
        this.#response,
        502,
        joined([...failures, ...list(this.#back)]) ?? failureText('null', INTERNAL_ERROR, error.message),
      );
    for (const text of failures) await this.#say(text);
    this.#response.end();
  }

  async #incoming(): Promise<Incoming> {
    const text = await bodyText(this.#request);
    return text === undefined ? tooLarge('', '') : readMessages(text, 'client');
  }

  /** The client's, and those that are made from the messages. undefined: they differ, which was answered. */
  #headersFor({ items }: Incoming): OutgoingHttpHeaders | undefined {
    const headers: OutgoingHttpHeaders = {};
    for (const [name, value] of Object.entries(this.#request.headers))
      if (!OWN_HEADERS.has(name) && !name.startsWith('mcp-')) headers[name] = value;
    const messages = items.filter((item): item is McpMessage => item.kind !== 'fault');
    try {
      return { ...headers, ...mcpHeaders(this.#request.headers, messages) };
    } catch (error) {
      const id = messages[0]?.id?.text ?? 'null';
      answer(this.#response, 400, failureText(id, INVALID_PARAMS, (error as Error).message));
      return undefined;
    }
  }

  #ask(headers: OutgoingHttpHeaders, body?: string, url?: URL): Promise<IncomingMessage> {
    const to = { method: this.#request.method!, headers, signal: this.#signal };
    return ask(this.#upstream, {
      ...to,
      ...(body === undefined ? {} : { body }),
      ...(url === undefined ? {} : { url }),
    });
  }

  async #passBack(came: IncomingMessage, incoming: Incoming): Promise<void> {
    const { statusCode: status = 0 } = came;
    const isOk = status >= 200 && status < 300;
    const isAlone = !incoming.isBatch;
    if (isOk && isStream(came)) return this.#streamBack(came, isAlone);
    const text = await bodyText(came);
    const answered = text === undefined ? tooLarge('', '') : readMessages(text, 'server');
    const isMessage = answered.items.every(({ kind }) => kind !== 'fault');
    // Nothing waits: a notification, which has no answer.
    if (this.#exchange.waiting === 0 && this.#back === undefined && !isMessage) {
      this.#head(came);
      this.#response.end(text);
      return;
    }
    if (!isOk && !isMessage) return this.#refused(came, text ?? '');
    const { onward } = await routed(answered, (item) => this.#exchange.fromServer(item, isAlone));
    const whole = joined([...list(onward), ...list(this.#back), ...this.#exchange.allFailed(NOT_ANSWERED)]);
    this.#head(came);
    // An error of ours in place of what cannot be read, or is not there.
    if (!isMessage) this.#response.statusCode = text === '' ? 200 : 502;
    this.#response.setHeader('content-type', 'application/json');
    this.#response.end(whole);
  }

  /** An error of HTTP that is no message: what it says to a call is judged as its answer. */
  async #refused(came: IncomingMessage, text: string): Promise<void> {
    const failed: string[] = [];
    const isCalling = this.#exchange.isCalling;
    for (const id of this.#exchange.ids) {
      const said = `{"jsonrpc":"2.0","id":${id.text},"error":${jsonOf({ code: INTERNAL_ERROR, message: `HTTP ${came.statusCode}`, data: text })}}`;
      const { onward } = await this.#exchange.fromServer(readMessages(said, 'server').items[0]!);
      if (onward !== said) failed.push(onward ?? said);
    }
    if (!isCalling || failed.length === 0) {
      this.#head(came);
      this.#response.end(text);
      return;
    }
    answer(this.#response, 200, joined([...failed, ...list(this.#back)])!);
  }

  async #streamBack(
    came: IncomingMessage,
    isAlone: boolean,
    opened?: (to: string, say: (text: string) => Promise<void>) => string | undefined,
  ): Promise<void> {
    this.#head(came);
    this.#response.flushHeaders();
    const say = (text: string) => this.#say(text);
    if (this.#back !== undefined) await say(this.#back);
    const headers: OutgoingHttpHeaders = { accept: 'text/event-stream' };
    for (const name of ['authorization', 'mcp-session-id', 'mcp-protocol-version'])
      if (this.#request.headers[name] !== undefined) headers[name] = this.#request.headers[name];
    const again = (lastEventId: string) =>
      ask(this.#upstream, {
        method: 'GET',
        headers: { ...headers, 'last-event-id': lastEventId },
        signal: this.#signal,
      });
    const isDone = () => this.#signal.aborted || (isAlone && this.#exchange.waiting === 0);
    for await (const item of eventsOf(came, again, { isDone, signal: this.#signal })) {
      if ('data' in item && item.event === 'endpoint') {
        const at = opened?.(item.data, say);
        if (at !== undefined) await this.#write(`event: endpoint\ndata: ${at}\n\n`);
      } else await this.#item(item, isAlone);
    }
    for (const text of isAlone || this.#request.method === 'POST' ? this.#exchange.allFailed(NOT_ANSWERED) : [])
      await say(text);
    this.#response.end();
  }

  async #item(item: StreamItem, isAlone: boolean): Promise<void> {
    if ('retryMs' in item) return this.#write(`retry: ${item.retryMs}\n\n`);
    if ('comment' in item) return this.#write(`: ${item.comment}\n\n`);
    const { data, event = 'message' } = item;
    if (event !== 'message') this.#governor.options.report(`an event ${jsonOf(event)} of a stream was dropped`);
    // Nothing to read, and a sign of life.
    if (event !== 'message' || data === '') return this.#write(': \n\n');
    const { onward } = await routed(readMessages(data, 'server'), (one) => this.#exchange.fromServer(one, isAlone));
    if (onward !== undefined) await this.#say(onward);
  }

  #say(text: string): Promise<void> {
    return this.#write(`event: message\ndata: ${text.replace(/\r\n?|\n/g, '\ndata: ')}\n\n`);
  }

  /** Resolves when more may follow. */
  async #write(text: string): Promise<void> {
    if (this.#response.destroyed || this.#response.write(text)) return;
    await new Promise<void>((resolve) => {
      this.#response.once('drain', resolve);
      this.#response.once('close', resolve);
    });
  }

  #head(came: IncomingMessage): void {
    this.#response.statusCode = came.statusCode!;
    for (const [name, value] of Object.entries(came.headers))
      if (!OWN_HEADERS.has(name) && value !== undefined) this.#response.setHeader(name, value);
  }
}

const NOT_ANSWERED = 'the server did not answer the request';

const list = (text: string | undefined) => (text === undefined ? [] : [text]);

/** One text, or a batch of all. */
function joined(texts: readonly string[]): string | undefined {
  if (texts.length < 2) return texts[0];
  return `[${texts.map((text) => (text.trim().startsWith('[') ? text.trim().slice(1, -1) : text)).join(',')}]`;
}

function refuse(response: ServerResponse, status: number, text: string): void {
  response.setHeader('connection', 'close');
  answer(response, status, text);
}

function answer(response: ServerResponse, status: number, text: string): void {
  response.statusCode = status;
  response.setHeader('content-type', 'application/json');
  response.end(text);
}
