// `gatehouse mcp --listen`: the governor in front of an MCP server over streamable HTTP, for clients that speak it. A
// request over HTTP is an exchange of its own; sessions, versions and authorization are headers, and pass.
// Invariant: what goes on is the message that was judged, written once more: two readers of one text (a key twice)
// cannot read two calls. A response is read message by message before any of it goes back. A stream that broke cannot
// be resumed past the governor, so ids of stream events are left out.
// Failure: a body that is no single message is 400, a page of another origin 403, a server that cannot be reached 502,
// each as an error of JSON-RPC.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  INTERNAL_ERROR,
  INVALID_REQUEST,
  type JSONRPCMessage,
  PARSE_ERROR,
  parseJSONRPCMessage,
} from '@modelcontextprotocol/client';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { type Governor, McpExchange } from './governor.ts';

type ProxyOptions = { upstream: URL; headers: Readonly<Record<string, string>>; host: string; port: number };
type Proxy = { url: string; close(): Promise<void> };

const BODY_BYTES_MAX = 10 * 1024 * 1024;
/** Of this hop. The rest is the server's to read. */
const OWN_HEADERS = new Set(
  'connection content-length content-encoding transfer-encoding keep-alive host upgrade te trailer expect accept-encoding proxy-authorization proxy-authenticate'.split(
    ' ',
  ),
);
const LOCAL = new Set(['localhost', '127.0.0.1', '[::1]']);

/** Listens until it is closed. */
export async function listen(governor: Governor, options: ProxyOptions): Promise<Proxy> {
  const server = createServer((request, response) => {
    serve(request, response, governor, options).catch((error: Error) => {
      governor.options.report(error.message);
      if (response.headersSent) response.destroy();
      else refuse(response, 502, INTERNAL_ERROR, error.message);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${options.host.includes(':') ? `[${options.host}]` : options.host}:${port}${options.upstream.pathname}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  governor: Governor,
  options: ProxyOptions,
): Promise<void> {
  const origin = request.headers.origin;
  // A web page must not reach a server on this machine by a name of its own.
  if (origin !== undefined && !(URL.canParse(origin) && LOCAL.has(new URL(origin).hostname)))
    return refuse(response, 403, INVALID_REQUEST, 'requests of pages are taken from this machine alone');
  const session = request.headers['mcp-session-id'];
  const exchange = new McpExchange(governor, typeof session === 'string' ? session.slice(0, 200) : undefined);
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  let body: string | null = null;
  if (request.method === 'POST') {
    const message = messageIn(await boundedText(request));
    if (message === undefined)
      return refuse(
        response,
        400,
        PARSE_ERROR,
        `the body must be one message of JSON-RPC 2.0, of at most ${BODY_BYTES_MAX} bytes`,
      );
    const { onward, back } = await exchange.fromClient(message);
    if (back !== undefined) return answer(response, 200, back);
    body = JSON.stringify(onward);
  }
  const came = await fetch(options.upstream, {
    method: request.method!,
    headers: onwardHeaders(request, options.headers),
    body,
    redirect: 'manual',
    signal: gone.signal,
  });
  await passBack(came, response, exchange);
}

/** undefined: too large. */
async function boundedText(chunks: AsyncIterable<Uint8Array>): Promise<string | undefined> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX) return undefined;
    parts.push(chunk);
  }
  return Buffer.concat(parts).toString();
}

/** undefined: it is none, or several. */
function messageIn(text: string | undefined): JSONRPCMessage | undefined {
  try {
    return text === undefined ? undefined : parseJSONRPCMessage(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function onwardHeaders(request: IncomingMessage, own: Readonly<Record<string, string>>): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers))
    if (!OWN_HEADERS.has(name) && name !== 'last-event-id' && value !== undefined) headers.set(name, String(value));
  for (const [name, value] of Object.entries(own)) headers.set(name, value);
  return headers;
}

async function passBack(came: Response, response: ServerResponse, exchange: McpExchange): Promise<void> {
  response.statusCode = came.status;
  for (const [name, value] of came.headers) if (!OWN_HEADERS.has(name)) response.appendHeader(name, value);
  const type = came.headers.get('content-type') ?? '';
  if (type.startsWith('text/event-stream') && came.body !== null) return streamBack(came.body, response, exchange);
  const text = came.body === null ? '' : await boundedText(came.body);
  const message = messageIn(text);
  if (message === undefined || (!('method' in message) && message.id === undefined && !came.ok)) {
    // Nothing that a client would take for an answer: no content, or an error of HTTP.
    if (text === undefined || (came.ok && text !== ''))
      throw new Error('the server answered with something that is no message of JSON-RPC');
    response.end(text);
    return;
  }
  const { onward } = await exchange.fromServer(message);
  if (onward === undefined) throw new Error('the server answered another request than this');
  response.end(JSON.stringify(onward));
}

async function streamBack(
  body: ReadableStream<Uint8Array>,
  response: ServerResponse,
  exchange: McpExchange,
): Promise<void> {
  response.flushHeaders();
  const events = body
    .pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>)
    .pipeThrough(new EventSourceParserStream({ maxBufferSize: BODY_BYTES_MAX }));
  for await (const { data } of events) {
    const message = messageIn(data);
    if (message === undefined) continue;
    const { onward } = await exchange.fromServer(message);
    if (onward !== undefined) response.write(`event: message\ndata: ${JSON.stringify(onward)}\n\n`);
  }
  response.end();
}

function refuse(response: ServerResponse, status: number, code: number, message: string): void {
  response.setHeader('connection', 'close');
  answer(response, status, { jsonrpc: '2.0', error: { code, message } });
}

function answer(response: ServerResponse, status: number, message: JSONRPCMessage): void {
  response.statusCode = status;
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify(message));
}
