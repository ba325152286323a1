// Admission: what happens to every request between its head and its handler.
// The steps are below; their order is part of the API.
// Failure: everything that can fail throws, and `safe` answers it.

import { BATCH_EVENTS_MAX } from '../../../schemas/event.ts';
import type { BufferPool } from '../../common/buffer-pool.ts';
import { ServiceError } from '../../common/errors.ts';
import { formOf } from '../../otlp/answers.ts';
import { currentWork } from '../../process/current-work.ts';
import type { AccountQuotas, QuotaNeed, Release } from '../../registry/accounts/account-quota.ts';
import type { Principal } from '../../registry/accounts/principal.ts';
import type { RequestLimiter } from '../../registry/accounts/request-limit.ts';
import type { CachedConnection } from '../../registry/cache/cache.ts';
import type { PageRequest } from '../answers/pages.ts';
import { notFound } from '../answers/reply.ts';
import type { Exchange } from '../exchange.ts';
import { type Head, readHead } from '../reading/head.ts';
import type { BodyInflater, InflatedBody } from '../reading/inflate-body.ts';
import { type BodyBudget, BodyReader } from '../reading/read-body.ts';
import { Request, type RouteEntry } from '../request.ts';
import type { Owned, Parts, Reply, Route } from '../route.ts';
import type { TransportRequest } from '../transport/transport.ts';
import type { AddressLimit } from './address-limit.ts';
import { type Authenticator, admit, authorize } from './authenticate.ts';
import type { BrowserSessions } from './browser-sessions.ts';
import type { CallerAddresses } from './caller-address.ts';
import { type ConnectionVerdicts, noSecret, notSigned } from './connection-verdicts.ts';
import { type Cors, preflightHeaders } from './cors.ts';
import type { KeyUses } from './key-uses.ts';
import type { LoadShedding, ShedReason } from './load-shedding.ts';
import type { Operators } from './operators.ts';
import { PAGES_ROUTE } from './request-counts.ts';
import type { SubmissionScheduler } from './submission-scheduler.ts';
import { isTimely } from './webhook-signature.ts';

//   head      unambiguous framing, request id                          400 and close
//   path      known?                                                   404
//   method    known for this path?                                     405
//   store     does Redis hold the registry, and keep what it is given? 503
//   key       whose?                                                   401
//   rights    enough?                                                  403
//   limit     within the request limit, and the quotas of the account? 429
//   load      submissions: is the front overloaded?                    503
//   body      bounded, JSON, inflated where it is compressed            413, 415, 400
//   valid     query, Idempotency-Key, JSON, schema                     400
//   owner     a key bound to an agent: is it that agent's?             404
//   handler                                                            404, 409, 503, or success
//
// This order is part of the API. The body's bytes are read from the start all the same: the transport drops what has no
// reader.

type AdmissionParts = Parts & {
  authenticator: Authenticator;
  limiter: Pick<RequestLimiter, 'admit'>;
  quotas: Pick<AccountQuotas, 'reserve'>;
  keyUses: Pick<KeyUses, 'note'>;
  sessionUses: Pick<KeyUses, 'note'>;
  connectionUses: Pick<KeyUses, 'note'>;
  browsers: BrowserSessions;
  verdicts: ConnectionVerdicts;
  budget: BodyBudget;
  buffers: BufferPool;
  inflater: BodyInflater;
  shedding: LoadShedding;
  scheduler: SubmissionScheduler;
  refusal: (writes: boolean) => ServiceError | undefined;
  cors: Cors | undefined;
  callers: CallerAddresses;
  signIns: AddressLimit;
  operators: Operators;
};

/** In turn: those who were refused together shall not come back together. */
const RETRY_AFTER = [{ 'Retry-After': '1' }, { 'Retry-After': '2' }, { 'Retry-After': '3' }];
const NO_BODY = Buffer.alloc(0);
/** Made once, for the log and the counts. */
const SHED = {
  ...{ backlog: shedError('backlog'), count: shedError('count') },
  ...{ overdue: shedError('overdue'), wait: shedError('wait') },
};

export class Admission {
  readonly #parts: AdmissionParts;
  #shed = 0;

  constructor(parts: AdmissionParts) {
    this.#parts = parts;
  }

  /** Handles a request of a known path and method. Everything needed of `req` is read before the first wait. */
  enter(entry: RouteEntry, exchange: Exchange, req: TransportRequest): void | Promise<void> {
    const head = readHead(req, entry.takesChunks);
    exchange.begin(head);
    exchange.route = entry.name;
    exchange.writing = entry.writes ? 'before' : 'no';
    exchange.isSubmission = entry.isSubmission;
    exchange.isHead = req.getMethod() === 'head';
    if (entry.takesOtlp) exchange.errorForm = formOf(head.contentType) ?? 'json';
    if (head.fault !== undefined) return exchange.refuse(head.fault);
    const params: string[] = [];
    for (let i = 0; i < entry.parameterCount; i++) params.push(decodeSegment(req.getParameter(i)!));
    if (entry.route.signed === true) this.#parts.verdicts.begin(exchange, params[0]!);
    const rawQuery = req.getQuery() ?? '';
    const reader = this.#beginBody(entry, exchange, head);
    const { callers, browsers, authenticator } = this.#parts;
    const request = new Request({ entry, exchange, head, params, rawQuery, reader, callers, browsers, authenticator });
    return head.isChunked ? this.#serveChunked(request) : this.#serve(request);
  }

  /**
   * Where such a body ends for a proxy before us is not beyond doubt, so nothing that follows it is executed. It is
   * read to its end before anything is answered, and the answer leaves later than the tick of its last chunk: what
   * follows is then a second request before the first one's answer, and the transport closes. The answer closes, too.
   */
  #serveChunked(request: Request): void {
    const { exchange, reader } = request;
    exchange.closing = exchange.closesAfter = true;
    reader!.whenArrived(() => {
      if (exchange.over) return;
      try {
        Promise.resolve(this.#serve(request)).catch((error: unknown) => exchange.fail(error));
      } catch (error) {
        exchange.fail(error);
      }
    });
  }

  /** An unknown path, or a method that its path does not have. */
  refuse(exchange: Exchange, req: TransportRequest, error: ServiceError, headers: Record<string, string> = {}): void {
    const head = readHead(req);
    exchange.begin(head);
    exchange.isHead = req.getMethod() === 'head';
    if (head.fault !== undefined) {
      exchange.refuse(head.fault);
      return;
    }
    if (!skippable(head, this.#parts.limits.bodyBytesMax)) exchange.closing = true;
    const reply = exchange.errorReply(error);
    exchange.send({ ...reply, headers: { ...reply.headers, ...headers } });
  }

  /** A page of the dashboard or a file of one: no key is asked for. */
  page(exchange: Exchange, req: TransportRequest, answer: (asked: PageRequest, name: string) => Reply): void {
    const head = readHead(req);
    exchange.begin(head);
    exchange.route = PAGES_ROUTE;
    exchange.isHead = req.getMethod() === 'head';
    if (head.fault !== undefined) {
      exchange.refuse(head.fault);
      return;
    }
    if (!skippable(head, this.#parts.limits.bodyBytesMax)) exchange.closing = true;
    const asked = { acceptEncoding: '', ifNoneMatch: '' };
    req.forEach((name, value) => {
      if (name === 'accept-encoding') asked.acceptEncoding = value;
      if (name === 'if-none-match') asked.ifNoneMatch = value;
    });
    exchange.send(answer(asked, decodeSegment(req.getParameter(0) ?? '')));
  }

  /**
   * Answers the preflight that a browser sends before a page of another origin may call: where that origin may, else as
   * any other method.
   */
  preflight(exchange: Exchange, req: TransportRequest, methods: string, otherwise: () => void): void {
    const head = readHead(req);
    const { origin = '', requestedMethod = '' } = head.browser ?? {};
    if (head.fault !== undefined || requestedMethod === '' || this.#parts.cors?.allows(origin) !== true) {
      otherwise();
      return;
    }
    exchange.begin(head);
    if (!skippable(head, this.#parts.limits.bodyBytesMax)) exchange.closing = true;
    exchange.send({ status: 204, headers: preflightHeaders(methods) });
  }

  /** undefined: this route takes no body. One that comes anyway is dropped; uWS reads it without keeping it. */
  #beginBody(entry: RouteEntry, exchange: Exchange, head: Head): BodyReader | undefined {
    if (entry.route.body === undefined) {
      if (!skippable(head, entry.bytesMax)) exchange.closing = true;
      return undefined;
    }
    if (!skippable(head, this.#parts.limits.bodyBytesMax)) exchange.closeIfEarly = true;
    return new BodyReader(exchange, {
      contentLength: head.isChunked ? entry.bytesMax : head.contentLength,
      bytesMax: entry.bytesMax,
      budget: this.#parts.budget,
      buffers: this.#parts.buffers,
    });
  }

  /** Up to the body. Most requests wait for nothing on the way, and pay for no promise then. */
  #serve(request: Request): void | Promise<void> {
    const { entry, head } = request;
    if (entry.route.needs === null) {
      if (entry.route.body === undefined) return this.#answer(request);
      if (entry.route.signed === true) return this.#serveSigned(request);
      this.#parts.browsers.checkSignIn(head, () => request.exchange.peerAddress());
      this.#parts.signIns.take(request.addressOfCaller(), performance.now());
      this.#takeBody(request);
      return undefined;
    }
    const refusal = this.#parts.refusal(entry.writes);
    if (refusal !== undefined) throw refusal;
    if (entry.route.needs === 'operator') {
      this.#parts.signIns.take(request.addressOfCaller(), performance.now());
      request.operator = this.#parts.operators.nameOf(head.authorization);
      this.#takeBody(request);
      return undefined;
    }
    const nowMs = Date.now();
    if (head.authorization === '' && head.browser !== undefined) {
      const secret = this.#parts.browsers.secretOf(head, () => request.exchange.peerAddress());
      if (secret !== undefined) return this.#serveSession(request, secret, nowMs);
    }
    const found = this.#parts.authenticator.principalOf(head.authorization, nowMs);
    if (found instanceof Promise) return found.then((principal) => this.#admit(request, principal, nowMs));
    return this.#admit(request, found, nowMs);
  }

  /** Whose it is is known from its path, and shown by its body: of what says nothing of a signature none is read. */
  #serveSigned(request: Request): void | Promise<void> {
    const { head, exchange, params } = request;
    const refusal = this.#parts.refusal(true);
    if (refusal !== undefined) throw refusal;
    const admit = ({ record, principal }: CachedConnection) => {
      authorize(principal, request.entry.rights, request.entry.route);
      this.#parts.connectionUses.note(principal.account, record.id, Date.now());
      if (record.secrets.length === 0) throw noSecret();
      if (head.webhook === undefined || !isTimely(head.webhook, Date.now())) throw notSigned();
      request.connection = record;
      request.principal = principal;
      exchange.account = principal.account;
      if (!this.#sheds(exchange, principal.account)) this.#takeBody(request);
    };
    const found = this.#parts.verdicts.find(exchange, params[0]!);
    return found instanceof Promise ? found.then(admit) : admit(found);
  }

  async #serveSession(request: Request, secret: string, nowMs: number): Promise<void> {
    const { authenticator, browsers } = this.#parts;
    const { entry, exchange, head } = request;
    if (entry.writes) browsers.checkChange(head, () => exchange.peerAddress());
    request.secret = secret;
    exchange.hasCookie = true;
    const principal = await authenticator.ofSession(secret, nowMs);
    exchange.hasCookie = false;
    browsers.checkSession(head.browser?.session ?? '', principal.sessionId);
    await this.#admit(request, principal, nowMs);
  }

  #admit(request: Request, principal: Principal, nowMs: number): void | Promise<void> {
    const { rights, route } = request.entry;
    authorize(principal, rights, route);
    request.principal = principal;
    request.exchange.account = principal.account;
    const admitted = admit(this.#parts.limiter, principal);
    if (admitted !== undefined) return admitted.then(() => this.#withinQuotas(request, nowMs));
    return this.#withinQuotas(request, nowMs);
  }

  /** The quotas are the account's, over all its keys. */
  #withinQuotas(request: Request, nowMs: number): void | Promise<void> {
    const { account, quotas } = request.principal;
    if (quotas === null) return this.#takeIn(request, nowMs);
    const reserved = this.#parts.quotas.reserve(account, quotas, needOf(request));
    const takeIn = (release: Release | undefined) => {
      request.exchange.reserve(release);
      this.#takeIn(request, nowMs);
    };
    return reserved instanceof Promise ? reserved.then(takeIn) : takeIn(reserved);
  }

  #takeIn(request: Request, nowMs: number): void {
    const { entry, exchange, principal } = request;
    this.#parts.keyUses.note(principal.account, principal.keyId, nowMs);
    if (principal.sessionId !== null) this.#parts.sessionUses.note(principal.account, principal.sessionId, nowMs);
    if (entry.isSubmission && this.#sheds(exchange, principal.account)) return;
    this.#takeBody(request);
  }

  #takeBody(request: Request): void {
    const { entry, head, reader } = request;
    // What is too large is refused before what is no JSON: the order in which the caller can do something about it.
    if (reader === undefined) {
      if (head.contentLength > entry.bytesMax) throw bodyOfNoUse(entry.bytesMax);
      this.#hand(request, NO_BODY);
      return;
    }
    if (reader.refusal !== undefined) throw reader.refusal;
    checkForm(entry, head);
    if (isGzip(head.contentEncoding)) reader.whole((bytes) => this.#inflate(request, bytes));
    else reader.whole((bytes) => this.#hand(request, bytes));
  }

  /** Does not throw. What came in gives way to what comes out. */
  #inflate(request: Request, bytes: Buffer): void {
    const { entry, exchange, account } = request;
    try {
      const { bytesMax } = entry;
      const inflated = this.#parts.inflater.inflate(bytes, { account, bytesMax, isGone: () => exchange.over });
      if (inflated instanceof Promise)
        inflated.then((body) => this.#handInflated(request, body)).catch((error) => request.refused(error));
      else this.#handInflated(request, inflated);
    } catch (error) {
      request.refused(error);
    }
  }

  #handInflated(request: Request, inflated: InflatedBody): void {
    request.inflated = inflated;
    request.reader!.replaced();
    this.#hand(request, inflated.bytes);
  }

  /** The body is released wherever the handler does not get it. */
  #hand(request: Request, bytes: Buffer): void {
    let begun = false;
    try {
      begun = this.#begin(request, bytes);
    } finally {
      if (!begun) request.releaseBody();
    }
    if (!begun) return;
    const { scheduler } = this.#parts;
    if (!request.entry.isSubmission || scheduler.isFree) this.#start(request);
    else scheduler.put(request.account, () => this.#start(request));
  }

  /** False: it has been answered, or its client has left. */
  #begin(request: Request, bytes: Buffer): boolean {
    const { entry, exchange, principal } = request;
    if (entry.isSubmission && this.#sheds(exchange, principal.account)) return false;
    currentWork.note(exchange.account ?? '', entry.route.path, bytes.length);
    request.validate(bytes);
    if (exchange.over) return false;
    if (entry.isSubmission) exchange.taken = this.#parts.shedding.admit(principal.account, bytes.length);
    return true;
  }

  /** Does not throw: what goes wrong is answered. */
  #start(request: Request): void {
    const { entry, exchange } = request;
    if (exchange.over) {
      request.releaseBody(); // the client has left: do not begin its work
      return;
    }
    if (entry.writes) exchange.writing = 'begun';
    const { submit } = entry.route;
    if (submit === undefined) void this.#answer(request);
    else this.#submit(request, submit);
  }

  #submit(request: Request, submit: NonNullable<Route['submit']>): void {
    try {
      submit(request, this.#parts, request);
    } catch (error) {
      request.refused(error);
    }
  }

  async #answer(request: Request): Promise<void> {
    const { owned, route, isRead } = request.entry;
    try {
      if (owned !== undefined && request.isBound) await this.#checkOwner(owned, request);
      const reply = await route.handle!(request, this.#parts);
      if (isRead) await this.#stillFor(request, reply);
      request.exchange.send(reply, request);
    } catch (error) {
      request.exchange.fail(error);
    } finally {
      request.releaseBody();
    }
  }

  /** However long it took: what was read is for those who may have it now. */
  async #stillFor(request: Request, reply: Reply): Promise<void> {
    try {
      await request.keepAllowed();
    } catch (error) {
      reply.onSent?.();
      throw error;
    }
  }

  /** To a key that is bound to an agent the things of others are unknown. */
  async #checkOwner(owned: Owned, request: Request): Promise<void> {
    if ((await owned.agentOf(request, this.#parts)) !== request.principal.agentId) throw notFound(owned.what);
  }

  /**
   * Answers a submission for which there is no time. No error is made for each: it must cost little.
   */
  #sheds(exchange: Exchange, account: string): boolean {
    const reason = this.#parts.shedding.refuses(account);
    if (reason === undefined) return false;
    if (exchange.errorForm !== undefined || exchange.errorAnswer !== undefined) {
      const options = { recorded: false, retryAfterSeconds: (this.#shed++ % RETRY_AFTER.length) + 1 } as const;
      exchange.fail(new ServiceError('unavailable', `${shedSentence(reason)}; nothing was recorded.`, options));
      return true;
    }
    exchange.refusedBy = SHED[reason];
    const headers = RETRY_AFTER[this.#shed++ % RETRY_AFTER.length]!;
    exchange.send({ status: 503, body: shedBody(reason, exchange.requestId), headers });
    return true;
  }
}

/** The most events that it can hold, but for spans; and what it says it has, which may be compressed. */
function needOf({ entry, head }: Request): QuotaNeed {
  if (!entry.isSubmission) return { events: 0, bytes: 0 };
  const events = entry.route.body?.kind === 'batch' ? BATCH_EVENTS_MAX : 1;
  return { events, bytes: head.isChunked ? 0 : head.contentLength };
}

/** May the rest of this body flow past while the connection continues? Else the answer asks to close it. */
function skippable(head: Head, bytesMax: number): boolean {
  return head.contentLength <= bytesMax;
}

/**
 * A segment that is no UTF-8 names nothing: kept as it is, it will be unknown like any other name that does not exist.
 */
function decodeSegment(segment: string): string {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function checkForm({ takesOtlp, takesGzip }: RouteEntry, { contentType, contentEncoding }: Head): void {
  if (takesOtlp && formOf(contentType) === undefined)
    throw unsupported('The body must be application/x-protobuf or application/json.');
  if (!takesOtlp && !isJson(contentType)) throw unsupported('The body must be application/json.');
  if (isPlain(contentEncoding) || (takesGzip && isGzip(contentEncoding))) return;
  const named = JSON.stringify(contentEncoding.slice(0, ENCODING_CHARACTERS_MAX));
  const taken = takesGzip ? 'gzip, or none' : 'none';
  const message = `The body comes with the Content-Encoding ${named}; taken is ${taken}.`;
  const acceptEncoding = takesGzip ? 'gzip' : 'identity';
  throw new ServiceError('unsupported_media_type', message, { recorded: false, acceptEncoding });
}

/** An error names so much of the encoding. */
const ENCODING_CHARACTERS_MAX = 40;

/** A missing header is taken for JSON. Parameters, `charset` among them, say nothing new: JSON is UTF-8. */
function isJson(contentType: string): boolean {
  if (contentType === 'application/json' || contentType === '') return true;
  const end = contentType.indexOf(';');
  return (end < 0 ? contentType : contentType.slice(0, end)).trim().toLowerCase() === 'application/json';
}

function isPlain(contentEncoding: string): boolean {
  return contentEncoding === '' || contentEncoding.trim().toLowerCase() === 'identity';
}

/** `x-gzip` is the same (RFC 9110). */
function isGzip(contentEncoding: string): boolean {
  return contentEncoding !== '' && /^\s*(x-)?gzip\s*$/i.test(contentEncoding);
}

function unsupported(message: string): ServiceError {
  return new ServiceError('unsupported_media_type', message, { recorded: false });
}

function shedSentence(reason: ShedReason): string {
  return reason === 'backlog' ? 'The backlog is full' : 'More is coming in than can be done';
}

function shedError(reason: ShedReason): ServiceError {
  return new ServiceError('unavailable', `${shedSentence(reason)}; nothing was recorded.`, {
    ...{ recorded: false, internal: `shed: ${reason}` },
  });
}

/** As `errorReply` of the exchange writes it. A request id has nothing in it that JSON would escape. */
function shedBody(reason: ShedReason, requestId: string): string {
  return `{"error":{"code":"unavailable","message":"${shedSentence(reason)}; nothing was recorded.","request_id":"${requestId}","recorded":false}}`;
}

function bodyOfNoUse(bytesMax: number): ServiceError {
  return new ServiceError(
    'payload_too_large',
    `This takes no body, and one larger than ${bytesMax} bytes is not read.`,
  );
}
