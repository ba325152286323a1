// Reads the head of a request (before anything else is decided about it).
// One walk over the headers, since only a walk shows what is there twice; `getHeader` gives the first alone.
// Invariant: framing is beyond doubt or the request is faulty: a body has one Content-Length, and no Transfer-Encoding,
// at whatever path and by whatever method. The one exception is a route that takes chunks and says so (route.ts):
// `isChunked`, and admission.ts says how that is made safe.
// uWebSockets.js takes the first of two Content-Lengths, any Transfer-Encoding for `chunked`, and chunks for what they
// are not (`:` in a size is a digit, a trailer is the next request); a proxy before us reads them otherwise, and the
// rest of its bytes would become another client's request (request smuggling). So no chunk reaches it elsewhere.
// A faulty head is answered with 400 (411 for a Transfer-Encoding, 431 where it is too large), the connection is
// closed, and nothing that follows on it is executed.
import type { ErrorCode } from '../../common/errors.ts';
import type { WebhookHead } from '../admission/webhook-signature.ts';
import type { TransportRequest } from '../transport/transport.ts';

/** All names and values together. uWebSockets.js bounds a head only where it arrives in several packets. */
const HEAD_CHARACTERS_MAX = 16 * 1024;
/** Proxies add a dozen to what a client sends. uWebSockets.js reads 98 at most, and answers nothing to more. */
const HEADERS_MAX = 90;

/** One that holds a key of ours, put there by mistake, would stand in logs and in the audit log. */
const CALLER_REQUEST_ID = /^(?!.*g(?:th|op)_[\w-]{40})[A-Za-z0-9._-]{1,128}$/;
/** As the W3C's Trace Context has it: version, trace, parent, flags. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
/** uWebSockets.js takes any value of this length for `close`. */
const CLOSE_LENGTH = 5;
const LENGTH = /^[0-9]{1,15}$/;

/** Headers are '' where absent; `contentLength` is 0 then. */
export type Head = {
  authorization: string;
  contentType: string;
  /** The encoding of the body; several in one. */
  contentEncoding: string;
  contentLength: number;
  /** Its body comes in chunks, and its length is not known. Without a fault only where the route takes such a body. */
  isChunked: boolean;
  /** `Connection: close`. */
  closes: boolean;
  /** undefined where absent: an empty one is a mistake to report. */
  idempotencyKey: string | undefined;
  ifMatch: string | undefined;
  requestId: string;
  /** '' where it is none, or not as it must be. */
  traceparent: string;
  /** All that there are, in one. */
  forwardedFor: string;
  userAgent: string;
  host: string;
  /** The first `X-Forwarded-Proto`, in lower case: what the outermost proxy saw. */
  forwardedProto: string;
  /** The headers that only browsers send; undefined: none of them. */
  browser: BrowserHead | undefined;
  /** By which a sender of webhooks signs; undefined: nothing of it. */
  webhook: WebhookHead | undefined;
  /** Why the request must not be trusted; the connection has to be closed. */
  fault: MalformedHead | undefined;
};
/** '' where absent. */
type BrowserHead = {
  cookie: string;
  /** The origin of the page that asks. */
  origin: string;
  /** `Sec-Fetch-Site`. */
  fetchSite: string;
  /** `Gatehouse-Client`: no page of another origin can send it without being asked about before. */
  client: string;
  /** The method that a preflight's page is about to use. */
  requestedMethod: string;
  /** The id of the last row that arrived before a stream broke off. */
  lastEventId: string;
  /** `Gatehouse-Session`: the id of the session that the page goes by. */
  session: string;
};
export type MalformedHead = { code: ErrorCode; text: string };

/**
 * Must be called before the handler returns: the transport takes `req` back then. `takesChunks`: this is for a route
 * that does; anywhere else a Transfer-Encoding is a fault.
 */
export function readHead(req: TransportRequest, takesChunks = false): Head {
  head = {
    authorization: '',
    contentType: '',
    contentEncoding: '',
    contentLength: 0,
    isChunked: false,
    closes: false,
    idempotencyKey: undefined,
    ifMatch: undefined,
    requestId: '',
    traceparent: '',
    forwardedFor: '',
    userAgent: '',
    host: '',
    forwardedProto: '',
    browser: undefined,
    webhook: undefined,
    fault: undefined,
  };
  seen = 0;
  characters = 0;
  count = 0;
  req.forEach(take);
  if (characters > HEAD_CHARACTERS_MAX) tooLarge(`the headers are longer than ${HEAD_CHARACTERS_MAX} characters`);
  if (head.isChunked && !takesChunks) head.fault ??= NO_LENGTH;
  if (head.isChunked && (seen & CONTENT_LENGTH) !== 0) unsound('there is a Content-Length beside a Transfer-Encoding');
  if (count > HEADERS_MAX) tooLarge(`there are more than ${HEADERS_MAX} headers`);
  if (head.requestId === '') head.requestId = ofTrace(head.traceparent) + mintRequestId();
  return head;
}

const NO_LENGTH: MalformedHead = {
  code: 'length_required',
  text: 'a body comes with a Content-Length, not with a Transfer-Encoding',
};

// The walk is synchronous, so its state can stand here and its callback be made once (a closure for each request costs
// 0.3 µs).
let head: Head;
let seen: number;
let characters: number;
let count: number;

function browser(): BrowserHead {
  head.browser ??= {
    cookie: '',
    origin: '',
    fetchSite: '',
    client: '',
    requestedMethod: '',
    lastEventId: '',
    session: '',
  };
  return head.browser;
}

function webhook(): WebhookHead {
  head.webhook ??= { id: '', timestamp: '', signature: '' };
  return head.webhook;
}

/** Headers that may stand once, each with a bit of its own. */
const HOST = 1;
const CONTENT_LENGTH = 2;
const AUTHORIZATION = 4;
const CONTENT_TYPE = 8;
const IDEMPOTENCY_KEY = 16;
const REQUEST_ID = 32;
const IF_MATCH = 64;

function take(name: string, value: string): void {
  characters += name.length + value.length;
  count++;
  let bit = 0;
  switch (name) {
    case 'host':
      head.host = value;
      bit = HOST;
      break;
    case 'authorization':
      head.authorization = value;
      bit = AUTHORIZATION;
      break;
    case 'content-type':
      head.contentType = value;
      bit = CONTENT_TYPE;
      break;
    case 'idempotency-key':
      head.idempotencyKey = value;
      bit = IDEMPOTENCY_KEY;
      break;
    case 'if-match':
      head.ifMatch = value;
      bit = IF_MATCH;
      break;
    case 'x-request-id':
      // Proxies add one beside a client's: the first counts, and no harm is in a second.
      if ((seen & REQUEST_ID) === 0 && CALLER_REQUEST_ID.test(value)) head.requestId = value;
      seen |= REQUEST_ID;
      return;
    case 'content-length':
      if (LENGTH.test(value)) head.contentLength = Number(value);
      else unsound('the Content-Length is not a number');
      bit = CONTENT_LENGTH;
      break;
    case 'content-encoding':
      head.contentEncoding = head.contentEncoding === '' ? value : `${head.contentEncoding}, ${value}`;
      return;
    case 'transfer-encoding':
      if (head.isChunked || value.trim().toLowerCase() !== 'chunked') head.fault ??= NO_LENGTH;
      head.isChunked = true;
      return;
    default:
      takeOfCaller(name, value);
      return;
  }
  if ((seen & bit) !== 0) unsound(`the header ${name} is there twice`);
  seen |= bit;
}

/** Who asks, and from where. None of these decides how the request is read, so one may stand twice. */
function takeOfCaller(name: string, value: string): void {
  switch (name) {
    case 'connection':
      if (value.length === CLOSE_LENGTH) head.closes = true;
      break;
    case 'traceparent':
      if (TRACEPARENT.test(value)) head.traceparent = value;
      break;
    case 'user-agent':
      head.userAgent = value;
      break;
    case 'x-forwarded-for':
      head.forwardedFor = head.forwardedFor === '' ? value : `${head.forwardedFor},${value}`;
      break;
    case 'x-forwarded-proto':
      if (head.forwardedProto === '') head.forwardedProto = firstOf(value);
      break;
    case 'origin':
      browser().origin = value;
      break;
    case 'cookie':
      browser().cookie += `;${value}`;
      break;
    case 'sec-fetch-site':
      browser().fetchSite = value;
      break;
    case 'gatehouse-client':
      browser().client = value;
      break;
    case 'gatehouse-session':
      browser().session = value;
      break;
    case 'last-event-id':
      browser().lastEventId = value;
      break;
    case 'access-control-request-method':
      browser().requestedMethod = value;
      break;
    case 'webhook-id':
      webhook().id = value;
      break;
    case 'webhook-timestamp':
      webhook().timestamp = value;
      break;
    case 'webhook-signature':
      webhook().signature = value;
  }
}

/** The first of a list: each proxy adds its own behind those of the ones before it. */
function firstOf(list: string): string {
  const comma = list.indexOf(',');
  return (comma < 0 ? list : list.slice(0, comma)).trim().toLowerCase();
}

function unsound(text: string): void {
  head.fault ??= { code: 'validation_failed', text };
}

function tooLarge(text: string): void {
  head.fault ??= { code: 'headers_too_large', text };
}

// Ours: 8 characters that identify the process, then a count. Ten times cheaper than a random one for each request.
const PROCESS = Math.floor(Math.random() * 36 ** 8)
  .toString(36)
  .padStart(8, '0');
let minted = 0;

/** A request of a trace is found by the trace's id, also in what was recorded. */
function ofTrace(traceparent: string): string {
  return traceparent === '' ? '' : `${traceparent.slice(3, 35)}-`;
}

export function mintRequestId(): string {
  return `${PROCESS}-${(minted++).toString(36)}`;
}
