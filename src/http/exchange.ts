// One request and its answer (around the whole path): whatever happens inside, exactly one answer leaves or none can.
// uWebSockets.js ends the process when a handler throws or returns without an abort handler, and throws when an answer
// is touched after its client has gone. So nothing reaches the transport but through here: the abort handler is set in
// the constructor, before anything that could fail, and every write to the socket is in `#write`.
// Invariant: `send` and `fail` may be called at any time, any number of times, from anywhere; the first one counts.
// What throws is answered: a ServiceError as what it says, anything else as 500 `internal`, logged with the request id.
import type { ErrorDetail } from '../../schemas/error.ts';
import { ERRORS, ServiceError } from '../common/errors.ts';
import { PART_TAKEN_MS_MAX } from '../common/limits.ts';
import { type SpansForm, statusBody, typeOf } from '../otlp/answers.ts';
import type { GatewayTrace } from '../otlp/gateway-trace.ts';
import type { SpanExport } from '../otlp/span-export.ts';
import type { Log } from '../process/log.ts';
import { CLEARED_COOKIES } from './admission/browser-sessions.ts';
import type { Cors } from './admission/cors.ts';
import type { InFlight } from './admission/in-flight.ts';
import type { Admitted } from './admission/load-shedding.ts';
import { BodyParts, type PartsReader } from './answers/body-parts.ts';
import type { Head, MalformedHead } from './reading/head.ts';
import { UnreadBody } from './reading/unread-body.ts';
import type { Reply } from './route.ts';
import type { Handler, TransportRequest, TransportResponse } from './transport/transport.ts';

/** The parts that all exchanges of a server share. */
export type ExchangeHost = {
  log: Log;
  /** True while the server drains: every answer then closes its connection. */
  draining: boolean;
  readonly inFlight: InFlight<Exchange>;
  /** Called when an admitted submission is handed to another part to be done, before the exchange is over. */
  onOffloaded: (taken: Admitted) => void;
  /** Called once per exchange; status 0: the client left before its answer. */
  onDone: (exchange: Exchange, status: number) => void;
  /** Answers whose bodies come in parts, while they do. */
  readonly bodies: Set<BodyParts>;
  /** Behind these answers wait. */
  readonly unread: Set<UnreadBody>;
  /** undefined: no spans are sent. */
  readonly traces: Pick<SpanExport, 'begin'> | undefined;
  /** undefined: pages of other origins may not call. */
  readonly cors: Cors | undefined;
  /** Does the transport end a connection behind its last answer under a client that is still sending? */
  readonly closesUnderSenders: boolean;
};

/** Takes a body in. */
export type BodySink = {
  /** `chunk` is the transport's own memory and gone when this returns. */
  take(chunk: Uint8Array, isLast: boolean): void;
  /** The exchange is over, however it ended: nothing more comes. Called once. */
  end(): void;
};

/** uWS gathers what a handler writes up to this many bytes; a longer answer leaves at once. */
const CORK_BUFFER_BYTES = 16 * 1024;
/** Written as one header, since each call into uWS costs as much as the bytes: fixed text of ours. */
const NO_SNIFFING = '\r\nX-Content-Type-Options: nosniff\r\nCache-Control: ';
/** No page of another origin can take the answer for an image, a script or what else it need not be able to read. */
const OWN_ORIGIN = '\r\nCross-Origin-Resource-Policy: same-origin';
const SHARED_JSON = `\r\nContent-Type: application/json${NO_SNIFFING}no-store`;
export const OWN_JSON = `${SHARED_JSON}${OWN_ORIGIN}`;

const AT_LEISURE = { padding: '', force: false };
const AT_ONCE = { padding: '', force: true };
const LINE_END = /[\r\n\0]/;
const REASONS: Record<number, string> = {
  200: '200 OK',
  201: '201 Created',
  202: '202 Accepted',
  204: '204 No Content',
  302: '302 Found',
  304: '304 Not Modified',
  400: '400 Bad Request',
  401: '401 Unauthorized',
  403: '403 Forbidden',
  404: '404 Not Found',
  405: '405 Method Not Allowed',
  408: '408 Request Timeout',
  409: '409 Conflict',
  412: '412 Precondition Failed',
  413: '413 Payload Too Large',
  415: '415 Unsupported Media Type',
  429: '429 Too Many Requests',
  500: '500 Internal Server Error',
  411: '411 Length Required',
  431: '431 Request Header Fields Too Large',
  503: '503 Service Unavailable',
};

export class Exchange {
  readonly startedMs = performance.now();
  /** Among those in flight (InFlight). */
  place = -1;
  /** `POST /v1/agents/{id}/events`: for metrics and logs; never the caller's own path. */
  route = 'unknown';
  requestId = '';
  /** The caller's trace, as its `traceparent` has it; '' where there is none. */
  traceparent = '';
  /** The span that is sent to a collector; undefined, as for most: none is. */
  trace: GatewayTrace | undefined = undefined;
  /** The origin of the page that asks; '' where none does. */
  origin = '';
  /** It came with a session's cookie, and goes by it: where that is of no use the answer takes it away. */
  hasCookie = false;
  /** Once the key is known. */
  account: string | undefined;
  /** Is this a write that the handler has begun? Then a failure of unknown kind may have left something behind. */
  writing: 'no' | 'before' | 'begun' = 'no';
  isHead = false;
  /** Is this a submission of events? Then a refusal is counted by its code. */
  isSubmission = false;
  /** A submission that was admitted: it is given back when the exchange is over. */
  taken: Admitted | undefined;
  /** The error that the answer states. */
  refusedBy: ServiceError | undefined;
  /**
   * The answer asks the client to close. The connection is not torn down under a client that is still sending: it would
   * find its connection broken and never read the answer. What it sends is read and dropped (see UnreadBody).
   */
  closing = false;
  /** The answer closes it whatever comes. To be set where the body has arrived. */
  closesAfter = false;
  /** Errors are written as google.rpc.Status, in this form; undefined: as everywhere. */
  errorForm: SpansForm | undefined = undefined;
  /** In place of errors, with 200: the body for a caller who takes an error for no answer. undefined: as everywhere. */
  errorAnswer: ((error: ServiceError) => string) | undefined = undefined;
  /** By when it is answered in any case. */
  deadline: NodeJS.Timeout | undefined = undefined;
  /** So does an answer that leaves before the body has arrived: what is left of it is large, or of unknown size. */
  closeIfEarly = false;
  /** The ms that the handler waits on purpose: it is not forgotten before they are over. */
  longPollMs = 0;
  /** A submission that waits for its append: it may be taken back if the client leaves. */
  waiting: { callerLeft(): void } | undefined = undefined;
  readonly #res: TransportResponse;
  readonly #host: ExchangeHost;
  #sink: BodySink | undefined = undefined;
  #inHandler = true;
  #over = false;
  #release: (() => void) | undefined;
  #abort: AbortController | undefined;
  #parts: BodyParts | undefined;
  /** Where the connection ends behind the answer, and a body comes. */
  #unread: UnreadBody | undefined;

  constructor(res: TransportResponse, host: ExchangeHost) {
    res.onAborted(() => {
      const { waiting } = this;
      this.#finish(0);
      if (this.#unread !== undefined) this.#leave(this.#unread);
      waiting?.callerLeft();
      this.#abort?.abort();
      this.#parts?.left();
    });
    this.#res = res;
    this.#host = host;
    host.inFlight.add(this);
  }

  #leave(unread: UnreadBody): void {
    unread.left();
    this.#host.unread.delete(unread);
  }

  /** Gives back the admission of a submission that another part does now. */
  offloaded(): void {
    if (this.taken !== undefined) this.#host.onOffloaded(this.taken);
    this.taken = undefined;
  }

  /** `release`: of quotas, what was reserved for this request; called when it is over. */
  reserve(release: (() => void) | undefined): void {
    if (this.#over) release?.();
    else this.#release = release;
  }

  get over(): boolean {
    return this.#over;
  }

  /** Fires when the client leaves before its answer. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.#over) this.#abort.abort();
    return this.#abort.signal;
  }

  /** The handler has returned to the transport: from now on writes must be corked. */
  leaveHandler(): void {
    this.#inHandler = false;
  }

  begin(head: Head): void {
    this.requestId = head.requestId;
    this.traceparent = head.traceparent;
    if (this.#host.traces !== undefined) this.trace = this.#host.traces.begin(head.traceparent);
    if (head.browser !== undefined) this.origin = head.browser.origin;
    if (!head.closes || !this.#host.closesUnderSenders || !(head.isChunked || head.contentLength > 0)) return;
    const unread = new UnreadBody();
    this.#unread = unread;
    this.#res.onData((_chunk, isLast) => {
      if (isLast) unread.read();
    });
  }

  /** Address of the connection's other end; '' once the exchange is over. */
  peerAddress(): string {
    return this.#over ? '' : Buffer.from(this.#res.getRemoteAddressAsText() as ArrayBuffer).toString('latin1');
  }

  /** Hands each piece of the body to the sink; must be called inside the handler. */
  readInto(sink: BodySink): void {
    this.#sink = sink;
    this.#res.onData((chunk, isLast) => {
      if (!this.#over)
        try {
          if (isLast) this.closeIfEarly = false;
          sink.take(chunk instanceof ArrayBuffer ? new Uint8Array(chunk) : chunk, isLast);
        } catch (error) {
          this.fail(error);
        }
      if (isLast) this.#unread?.read();
    });
  }

  /** `reader`: for whom a body in parts is. */
  send(reply: Reply, reader?: PartsReader): void {
    if (!this.#over) {
      const flaw = flawOf(reply);
      if (flaw === undefined) {
        this.#finish(reply.status);
        if (reply.parts !== undefined && !this.isHead) return void this.#sendParts(reply, reply.parts, reader);
        if (this.closesAfter) this.#corked(reply, AT_ONCE);
        else if (this.#unread === undefined) this.#corked(reply, AT_LEISURE);
        else this.#answerBehind(this.#unread, reply);
      } else this.fail(new Error(flaw));
    }
    reply.onSent?.();
  }

  #answerBehind(unread: UnreadBody, reply: Reply): void {
    const { unread: all } = this.#host;
    all.add(unread);
    unread.answerBehind(() => {
      all.delete(unread);
      this.#corked(reply, AT_LEISURE);
    });
  }

  async #sendParts(reply: Reply, write: NonNullable<Reply['parts']>, reader?: PartsReader): Promise<void> {
    const parts = new BodyParts(this.#res, { reader, slowMs: PART_TAKEN_MS_MAX });
    this.#parts = parts;
    this.#host.bodies.add(parts);
    try {
      this.#res.cork(() => this.#writeHead(reply, this.#host.draining));
      if (this.#host.draining) parts.abort('draining');
      await write(parts);
      parts.end();
    } catch (error) {
      parts.cut();
      if (parts.signal.aborted && error === parts.signal.reason) return;
      this.#host.log.error({ err: error, requestId: this.requestId, route: this.route }, 'answer.cut');
    } finally {
      this.#host.bodies.delete(parts);
      reply.onSent?.();
    }
  }

  /** Answers an error, and what goes on for it ends as if the client had left. */
  giveUp(error: ServiceError): void {
    const { waiting } = this;
    this.fail(error);
    waiting?.callerLeft();
    this.#abort?.abort();
  }

  /** Answers an error. Details, `recorded`, `Retry-After` and the line of the log follow from it. */
  fail(error: unknown): void {
    if (this.#over) return;
    this.send(this.errorReply(error instanceof ServiceError ? error : internal(error)));
  }

  /**
   * Answers 400, 411 or 431 and closes at once, inside the handler: uWS continues reading behind an answer that closes,
   * and would execute what follows, unless the socket is closed before the handler returns. An answer longer than its
   * cork buffer leaves at once, and then so does the socket: this is why there is white space. HEAD has no body to be
   * long: its connection is just closed.
   */
  refuse({ code, text }: MalformedHead): void {
    if (this.#over) return;
    const error = new ServiceError(code, `The request is not sound: ${text}.`);
    if (this.isHead) {
      this.refusedBy = error;
      this.#finish(error.status);
      this.#close();
      return;
    }
    const reply = this.errorReply(error);
    this.closing = true;
    this.#finish(reply.status);
    this.#corked(reply, { padding: ' '.repeat(CORK_BUFFER_BYTES), force: true });
  }

  errorReply(error: ServiceError): Reply {
    this.refusedBy = error;
    if (this.errorAnswer !== undefined) return { status: 200, body: this.errorAnswer(error) };
    const headers: Record<string, string> = {};
    if (error.status === 401) headers['WWW-Authenticate'] = 'Bearer';
    if (error.code === 'invalid_token' && this.hasCookie) headers['Set-Cookie'] = CLEARED_COOKIES;
    if (error.retryAfterSeconds !== undefined || error.status === 429 || error.status === 503) {
      headers['Retry-After'] = String(Math.max(1, Math.ceil(error.retryAfterSeconds ?? 1)));
    }
    if (error.acceptEncoding !== undefined) headers['Accept-Encoding'] = error.acceptEncoding;
    if (error.incomplete) headers['Gatehouse-Incomplete'] = 'true';
    if (error.rateLimit !== undefined)
      Object.assign(headers, rateLimitHeaders(error.rateLimit, headers['Retry-After']!));
    if (this.errorForm !== undefined)
      return {
        status: error.status,
        headers,
        body: statusBody(error, this.errorForm),
        contentType: typeOf(this.errorForm),
      };
    return { status: error.status, body: errorBody(error, this.requestId, this.#recorded(error)), headers };
  }

  /** Nothing is said where nothing can have been kept: reads, and what the caller got wrong. */
  #recorded(error: ServiceError): false | 'unknown' | undefined {
    if (error.status < 500 || this.writing === 'no') return undefined;
    if (this.writing === 'before') return false;
    return error.recorded ?? 'unknown';
  }

  #finish(status: number): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.deadline);
    this.#host.inFlight.remove(this);
    this.#release?.();
    try {
      this.#sink?.end();
      this.#host.onDone(this, status);
    } catch (error) {
      this.#host.log.error({ err: error, requestId: this.requestId }, 'request.finish_failed');
    }
  }

  /** Inside the handler uWS has corked the socket already; later it must be corked for several writes. */
  #corked(reply: Reply, how: { padding: string; force: boolean }): void {
    try {
      if (this.#inHandler) this.#write(reply, how);
      else this.#res.cork(() => this.#write(reply, how));
    } catch (error) {
      this.#writeFailed(error);
    }
  }

  /** A write can fail only by a bug or a socket that is gone; then the connection is the price, never the process. */
  #writeFailed(error: unknown): void {
    this.#host.log.error({ err: error, requestId: this.requestId, route: this.route }, 'answer.failed');
    this.#close();
  }

  #close(): void {
    try {
      this.#res.close();
    } catch {
      // It was closed already.
    }
  }

  /** `force`: close the connection at once, whatever the client has still to send. */
  #write(reply: Reply, { padding, force }: { padding: string; force: boolean }): void {
    const res = this.#res;
    this.#writeHead(reply, !force && (this.closing || this.closeIfEarly || this.#host.draining));
    if (reply.body !== undefined && !this.isHead) {
      res.end(padding === '' ? reply.body : `${reply.body}${padding}`, force);
      return;
    }
    // `endWithoutBody(length)` would leave the request pending forever and the connection unusable.
    if (reply.body !== undefined) res.writeHeader('Content-Length', String(Buffer.byteLength(reply.body)));
    res.endWithoutBody();
  }

  #writeHead(reply: Reply, asksToClose: boolean): void {
    const res = this.#res;
    const { cors } = this.#host;
    const isShared = cors?.allows(this.origin) === true;
    res.writeStatus(REASONS[reply.status]!);
    // Each call into uWS costs as much as what it writes, so the headers of nearly every answer are one.
    res.writeHeader('X-Request-Id', `${this.requestId}${headersOf(reply, isShared)}`);
    for (const name in reply.headers) res.writeHeader(name, reply.headers[name]!);
    const crossing = cors?.headersFor(this.origin);
    for (const name in crossing) res.writeHeader(name, crossing[name]!);
    if (asksToClose) res.writeHeader('Connection', 'close');
  }
}

/** `isShared`: a page of another origin may read it. */
function headersOf({ body, parts, contentType, cacheControl = 'no-store' }: Reply, isShared: boolean): string {
  if (body === undefined && parts === undefined) return isShared ? '' : OWN_ORIGIN;
  if (contentType === undefined) return isShared ? SHARED_JSON : OWN_JSON;
  return `\r\nContent-Type: ${contentType}${NO_SNIFFING}${cacheControl}${isShared ? '' : OWN_ORIGIN}`;
}

/**
 * The only way a handler reaches the transport: the abort handler first, and whatever the handler throws or rejects
 * with is answered.
 */
export function safe(
  host: ExchangeHost,
  handle: (exchange: Exchange, req: TransportRequest) => void | Promise<void>,
): Handler {
  return (res, req) => {
    const exchange = new Exchange(res, host);
    try {
      handle(exchange, req)?.catch((error: unknown) => exchange.fail(error));
    } catch (error) {
      exchange.fail(error);
    }
    exchange.leaveHandler();
  };
}

/**
 * As draft-ietf-httpapi-ratelimit-headers-10 has them: a full bucket is used up, and is full again after its window.
 */
function rateLimitHeaders(
  { perSecond, burst, name = 'requests' }: NonNullable<ServiceError['rateLimit']>,
  seconds: string,
) {
  return {
    'RateLimit-Policy': `"${name}";q=${burst};w=${Math.max(1, Math.ceil(burst / perSecond))}`,
    RateLimit: `"${name}";r=0;t=${seconds}`,
  };
}

export function errorBody(error: ServiceError, requestId: string, recorded: false | 'unknown' | undefined): string {
  const body: {
    code: string;
    message: string;
    request_id: string;
    details?: ErrorDetail[];
    recorded?: false | 'unknown';
  } = {
    code: error.code,
    message: error.message,
    request_id: requestId,
  };
  if (error.details !== undefined && error.details.length > 0) body.details = error.details;
  if (recorded !== undefined) body.recorded = recorded;
  return JSON.stringify({ error: body });
}

function internal(cause: unknown): ServiceError {
  return new ServiceError('internal', 'Something failed on our side; it is logged with the request id.', { cause });
}

/**
 * Looked for before the first byte leaves. uWS writes a header as it is given: a line end in a value would begin
 * another one.
 */
function flawOf({ status, body, contentType, headers }: Reply): string | undefined {
  if (REASONS[status] === undefined) return `an answer with status ${status}`;
  if (body !== undefined && typeof body !== 'string' && !Buffer.isBuffer(body))
    return 'an answer whose body is no text';
  for (const name in headers) {
    if (headers[name] !== CLEARED_COOKIES && LINE_END.test(headers[name]!)) return `a line end in the header ${name}`;
  }
  return contentType !== undefined && LINE_END.test(contentType) ? 'a line end in the content type' : undefined;
}

/** The statuses that errors can have must have a reason phrase: checked when this file loads. */
for (const { status } of Object.values(ERRORS)) {
  if (REASONS[status] === undefined) throw new Error(`no reason phrase for ${status}`);
}
