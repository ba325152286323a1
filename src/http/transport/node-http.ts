// The Node.js HTTP server as a transport (see transport.ts), for platforms where uWebSockets.js does not load.
// It answers what uWebSockets.js answers, byte for byte, and holds the same bounds: a head of HEAD_BYTES_MAX, a body
// that comes in at 16 KiB/s at least, an answer that is taken as fast. It reads strictly (never `insecureHTTPParser`):
// a length that is there twice, a length beside an encoding, a bad chunk are refused here already. It costs about half
// of the requests per second (bench/README.md). Pipelining: requests that a client sends without waiting are handled
// side by side and answered in order, PIPELINED_MAX at most.
// Invariant: behind an answer that closes its connection nothing is handled. The connection is then closed gently: what
// the client still sends is read and dropped for LINGER_MS, since a reset would take the answer from it.
// Failure: what cannot be read is answered (`onUnreadable`) where no other answer is due on that connection, and the
// connection ends.
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import net, { type Socket } from 'node:net';
import { NodeConnection, PIECE_BYTES } from './node-connection.ts';
import { Router, type Verb } from './router.ts';
import type { Handler, Transport, TransportRequest, TransportResponse, Unreadable } from './transport.ts';

/**
 * All headers together: src/http/reading/head.ts refuses more than 16 KiB in words of ours, this only bounds what is
 * read.
 */
const HEAD_BYTES_MAX = 32 * 1024;
/** A head must be there within this time, as uWebSockets.js wants it. */
const HEAD_MS_MAX = 10_000;
/** Balancers keep connections for 60 s; the side that is asked must not be the one that closes first. */
const IDLE_MS_MAX = 75_000;
const SWEEP_MS = 1_000;
/** Many more than any client sends without waiting; each is under the request limit of its key besides. */
const PIPELINED_MAX = 64;
const SEPARATOR = '\r\n';

/** Processes can share a port by themselves (SO_REUSEPORT) since Node.js 22.12. */
export function canSharePort(version = process.versions.node): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > 22 || (major === 22 && minor >= 12);
}

export class NodeTransport implements Transport {
  readonly name = 'node';
  onUnreadable: Unreadable = () => ({ headers: [], body: '' });
  readonly #routers = new Map<string, Router<Handler>>();
  readonly #others = new Router<Handler>();
  #unknown: Handler | undefined;
  readonly #connections = new Map<Socket, NodeConnection>();
  readonly #server: http.Server;
  readonly #sharePort: boolean;
  #sweep: NodeJS.Timeout | undefined;

  /** `sharePort`: other processes may listen on the same port. */
  constructor({ sharePort }: { sharePort: boolean }) {
    this.#sharePort = sharePort;
    this.#server = http.createServer({
      maxHeaderSize: HEAD_BYTES_MAX,
      insecureHTTPParser: false,
      requireHostHeader: false, // its own answer has no body
      headersTimeout: HEAD_MS_MAX,
      requestTimeout: 0, // bodies are watched by their rate (NodeConnection)
      keepAliveTimeout: IDLE_MS_MAX,
      connectionsCheckingInterval: SWEEP_MS,
    });
    this.#server.maxHeadersCount = 0; // head.ts counts them: what is cut off here could not be refused there
    this.#server.on('connection', (socket: Socket) => this.#connected(socket));
    this.#server.on('request', (req: IncomingMessage, res: ServerResponse) => this.#take(req, res));
    this.#server.on('checkExpectation', (req: IncomingMessage, res: ServerResponse) => this.#take(req, res));
    this.#server.on('connect', (_req: IncomingMessage, socket: Socket) =>
      this.#refuse(socket, 405, 'CONNECT is not served here'),
    );
    this.#server.on('clientError', (error: ParserError, socket: Socket) => this.#unreadable(error, socket));
  }

  get connections(): number {
    return this.#connections.size;
  }

  on(verb: Verb, pattern: string, handler: Handler): void {
    const router = this.#routers.get(verb) ?? new Router<Handler>();
    router.add(pattern, handler);
    this.#routers.set(verb, router);
  }

  onOther(pattern: string, handler: Handler): void {
    this.#others.add(pattern, handler);
  }

  onUnknown(handler: Handler): void {
    this.#unknown = handler;
  }

  listen(host: string, port: number): Promise<number> {
    this.#sweep = setInterval(() => this.#endSlow(), SWEEP_MS);
    this.#sweep.unref();
    const reusePort = this.#sharePort ? { reusePort: true } : {};
    return new Promise((resolve, reject) => {
      this.#server.once('error', (cause: NodeJS.ErrnoException) =>
        reject(new Error(`cannot listen on ${host}:${port}: ${cause.code ?? cause.message}`, { cause })),
      );
      this.#server.listen({ host, port, exclusive: true, ...reusePort }, () =>
        resolve((this.#server.address() as net.AddressInfo).port),
      );
    });
  }

  /** Not http.Server's `close`, which would end idle connections under clients that are about to send. */
  stopListening(): void {
    if (this.#server.listening) net.Server.prototype.close.call(this.#server);
  }

  close(): void {
    clearInterval(this.#sweep);
    this.#server.closeAllConnections();
  }

  #connected(socket: Socket): void {
    const connection = new NodeConnection(socket);
    this.#connections.set(socket, connection);
    socket.on('close', () => {
      this.#connections.delete(socket);
      connection.closed();
    });
  }

  #take(req: IncomingMessage, res: ServerResponse): void {
    const connection = this.#connections.get(req.socket);
    if (connection === undefined || connection.isClosing) return;
    if (connection.pending >= PIPELINED_MAX) {
      connection.destroy();
      return;
    }
    if (req.headers.host === undefined && req.httpVersionMinor > 0) {
      if (connection.mayRefuse) this.#refuse(req.socket, 400, 'there is no Host header');
      else connection.destroy();
      return;
    }
    if (req.headers['transfer-encoding'] !== undefined) connection.last(); // admission.ts closes behind every such body
    if (req.headers.upgrade !== undefined) {
      // Nothing is upgraded here; but Node.js drops what came in the same packet behind such a request, and would take
      // what comes later for the next one.
      connection.last();
      res.shouldKeepAlive = false;
    }
    const method = req.method ?? '';
    const [path, query] = targetOf(req.url ?? '');
    const found = this.#routers.get(method)?.find(path) ?? this.#others.find(path);
    const request = new NodeRequest(req, { method, query, parameters: found?.parameters ?? [] });
    (found?.value ?? this.#unknown!)(new NodeResponse(req, res, connection), request);
  }

  #unreadable(error: ParserError, socket: Socket): void {
    const connection = this.#connections.get(socket);
    const isHead = error.rawPacket?.toString('latin1', 0, 5) === 'HEAD '; // whose answer must have no body
    if (connection === undefined || !connection.mayRefuse || isHead || error.code === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    const problem = problemOf(error, socket);
    if (problem === undefined) socket.destroy();
    else this.#refuse(socket, ...problem);
  }

  /** Outside of any request: the whole answer is written here. */
  #refuse(socket: Socket, ...[status, fault]: Parameters<Unreadable>): void {
    const connection = this.#connections.get(socket);
    const { headers, body } = this.onUnreadable(status, fault);
    const lines = [
      `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}`,
      ...headers,
      'Connection: close',
      `Date: ${new Date().toUTCString()}`,
      `Content-Length: ${Buffer.byteLength(body)}`,
    ];
    socket.write(`${lines.join(SEPARATOR)}${SEPARATOR}${SEPARATOR}${body}`);
    if (connection === undefined) socket.end();
    else connection.closeGently();
  }

  #endSlow(): void {
    const nowMs = performance.now();
    for (const connection of this.#connections.values()) if (connection.isLate(nowMs)) connection.destroy();
  }
}

type ParserError = NodeJS.ErrnoException & { reason?: string; rawPacket?: Buffer };

/** undefined: a connection on which nothing was said. */
function problemOf(error: ParserError, { bytesRead }: Socket): Parameters<Unreadable> | undefined {
  if (error.code === 'HPE_HEADER_OVERFLOW') return [431, `the headers are longer than ${HEAD_BYTES_MAX} bytes`];
  if (error.code === 'HPE_INVALID_METHOD' && isOtherMethod(error.rawPacket)) return [405, 'no path takes this method'];
  if (error.code !== 'ERR_HTTP_REQUEST_TIMEOUT') return [400, faultOf(error)];
  return bytesRead === 0 ? undefined : [408, `the head was not there after ${HEAD_MS_MAX / 1000} s`];
}

function faultOf({ reason, code }: ParserError): string {
  return `it is not HTTP/1.1: ${reason ?? code ?? 'it cannot be parsed'}`;
}

/** A request line as it must be, but with a method that the parser does not know. */
function isOtherMethod(packet: Buffer | undefined): boolean {
  return (
    packet !== undefined &&
    /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40} \S{1,8000} HTTP\/1\.[01]\r?\n/.test(packet.toString('latin1'))
  );
}

/** Path and query. Clients behind a proxy send the whole address; what is before the path says nothing new. */
function targetOf(url: string): [path: string, query: string | undefined] {
  const target = url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?#]*/i, '');
  const at = target.indexOf('?');
  const path = at < 0 ? target : target.slice(0, at);
  return [path === '' ? '/' : path, at < 0 ? undefined : target.slice(at + 1)];
}

class NodeRequest implements TransportRequest {
  readonly #req: IncomingMessage;
  readonly #target: { method: string; query: string | undefined; parameters: readonly string[] };

  constructor(
    req: IncomingMessage,
    target: { method: string; query: string | undefined; parameters: readonly string[] },
  ) {
    this.#req = req;
    this.#target = target;
  }

  getMethod(): string {
    return this.#target.method.toLowerCase();
  }

  getQuery(): string | undefined {
    return this.#target.query;
  }

  getParameter(index: number): string | undefined {
    return this.#target.parameters[index];
  }

  forEach(take: (name: string, value: string) => void): void {
    const headers = this.#req.rawHeaders;
    for (let i = 0; i < headers.length; i += 2) take(headers[i]!.toLowerCase(), headers[i + 1]!);
  }
}

class NodeResponse implements TransportResponse {
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  readonly #connection: NodeConnection;
  readonly #headers: string[] = [];
  #onWritable: (() => boolean) | undefined;
  #hasParts = false;
  #status = 500;
  #reason = '';

  constructor(req: IncomingMessage, res: ServerResponse, connection: NodeConnection) {
    this.#req = req;
    this.#res = res;
    this.#connection = connection;
  }

  getRemoteAddressAsText(): Uint8Array {
    return Buffer.from(this.#req.socket.remoteAddress ?? '', 'latin1');
  }

  onAborted(handler: () => void): void {
    this.#connection.begin(this, handler);
  }

  onData(handler: (chunk: Uint8Array, isLast: boolean) => void): void {
    this.#connection.receiving(this, true);
    this.#req.on('data', (chunk: Buffer) => {
      this.#connection.received(chunk.length);
      handler(chunk, false);
    });
    this.#req.on('end', () => {
      this.#connection.receiving(this, false);
      handler(NOTHING, true);
    });
  }

  cork(write: () => void): void {
    write();
  }

  writeStatus(status: string): void {
    this.#status = Number(status.slice(0, 3));
    this.#reason = status.slice(4);
  }

  writeHeader(name: string, value: string): void {
    const [first, ...more] = value.split(SEPARATOR);
    this.#headers.push(name, first!);
    for (const line of more) {
      const at = line.indexOf(': ');
      this.#headers.push(line.slice(0, at), line.slice(at + 2));
    }
  }

  end(body: string | Buffer, close = false): void {
    if (this.#hasParts) {
      this.#connection.streamed(this);
      this.#res.end(body);
      return;
    }
    if (close) this.#headers.push('Connection', 'close');
    // The caller takes its memory back when this returns, and the socket may be read late.
    const bytes = Buffer.from(body as string);
    this.#begin(['Date', new Date().toUTCString(), 'Content-Length', String(bytes.length)]);
    this.#send(bytes, 0);
  }

  write(part: string | Uint8Array): boolean {
    if (!this.#hasParts) {
      this.#hasParts = true;
      const framing = this.#req.httpVersionMinor === 0 ? [] : ['Transfer-Encoding', 'chunked'];
      this.#head(['Date', new Date().toUTCString(), ...framing]);
      this.#connection.streaming();
      this.#res.on('drain', () => this.#onWritable?.());
    }
    this.#connection.writing();
    return this.#res.write(part, (error) => {
      if (!error) this.#connection.written();
    });
  }

  onWritable(handler: () => boolean): void {
    this.#onWritable = handler;
  }

  endWithoutBody(): void {
    this.#begin(['Date', new Date().toUTCString()]);
    this.#send(NOTHING, 0);
  }

  close(): void {
    this.#connection.destroy();
  }

  /** Node.js adds no header of its own to these: `Date` is there, and `Connection` was taken away. */
  #begin(last: string[]): void {
    this.#head(last);
    this.#connection.answered(this);
    this.#res.on('finish', () => this.#connection.sent());
  }

  #head(last: string[]): void {
    const res = this.#res;
    const headers = [...this.#headers, ...last];
    if (this.#req.httpVersionMinor === 0) headers.push('Connection', 'close');
    if (headers.includes('Connection')) this.#connection.last();
    res.sendDate = false;
    res.removeHeader('Connection');
    res.writeHead(this.#status, this.#reason, headers);
  }

  /** A large answer goes out in pieces, since only a piece that was taken whole shows that its client still reads. */
  #send(bytes: Uint8Array, at: number): void {
    const end = at + PIECE_BYTES;
    if (end >= bytes.length) this.#res.end(at === 0 ? bytes : bytes.subarray(at));
    else
      this.#res.write(bytes.subarray(at, end), (error) => {
        if (error) return;
        this.#connection.taken();
        this.#send(bytes, end);
      });
  }
}

const NOTHING = new Uint8Array(0);
