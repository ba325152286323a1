// The door: what happens to every request between its head and its handler (steps 1 to 5 and 12 on the path).
//
//   head      framing beyond doubt, request id                         400 and close
//   path      known?                                                   404
//   method    known for this path?                                     405
//   key       whose?                                                   401
//   scope     enough?                                                  403
//   limit     within the request limit?                                429
//   load      submissions: is there time for it?                       503
//   body      bounded, JSON                                            413, 415
//   sound     query, Idempotency-Key, JSON, schema                     400
//   handler                                                            404, 409, 503, or success
//
// That order is API (decisions 2). The body's bytes are taken in from the start all the same: uWS drops what nobody listens to.
// Everything that can fail does so by throwing; `safe` answers it.

import type { HttpRequest } from 'uWebSockets.js';
import { createHash } from 'node:crypto';
import type Type from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { ServiceError } from '../errors.ts';
import type { Answer, Caller } from '../ingest/ingest.ts';
import { parseJson } from '../ingest/json.ts';
import type { Idempotency } from '../registry/idempotency.ts';
import type { Principal } from '../registry/principal.ts';
import type { RequestLimiter } from '../registry/request-limit.ts';
import type { Slabs } from '../slabs.ts';
import { errorDetails, validationFailed } from '../validation.ts';
import { type Authenticator, admit, authorize } from './authenticate.ts';
import type { Exchange } from './exchange.ts';
import { type Head, readHead } from './head.ts';
import type { KeyUses } from './key-uses.ts';
import type { LoadShedding, ShedReason } from './load-shedding.ts';
import { type Parameters, parseQuery, type QueryOf } from './query.ts';
import { type BodyBudget, BodyReader } from './read-body.ts';
import { type BodyLimits, bodyBytesMax, type Call, type Parts, type Route } from './route.ts';

export type DoorParts = Parts & {
  authenticator: Authenticator;
  limiter: Pick<RequestLimiter, 'admit'>;
  keyUses: Pick<KeyUses, 'note'>;
  budget: BodyBudget;
  slabs: Slabs;
  limits: BodyLimits;
  shedding: LoadShedding;
};

const IDEMPOTENCY_KEY = /^[\x20-\x7e]{1,255}$/;
/** In turn: those who were refused together shall not come back together. */
const RETRY_AFTER = [{ 'Retry-After': '1' }, { 'Retry-After': '2' }, { 'Retry-After': '3' }];
const NO_BODY = Buffer.alloc(0);

/** A route made ready once: names, parameter places, compiled schema. */
export class Entry {
  readonly route: Route;
  /** For metrics and logs. */
  readonly name: string;
  readonly parameterCount: number;
  readonly validator: Validator | undefined;
  readonly query: Parameters;
  readonly bytesMax: number;
  readonly writes: boolean;
  readonly isSubmission: boolean;
  /** With which submissions are answered. */
  readonly successStatus: number;

  constructor(route: Route, limits: BodyLimits) {
    this.route = route;
    this.name = `${route.method} ${route.path}`;
    this.parameterCount = route.path.split('{').length - 1;
    this.validator = route.body?.kind === 'json' ? Compile(route.body.schema as Type.TSchema) : undefined;
    this.query = route.query ?? {};
    this.bytesMax = bodyBytesMax(route.body, limits);
    this.writes = route.method !== 'GET';
    this.isSubmission = route.body?.kind === 'event' || route.body?.kind === 'batch';
    this.successStatus = Number(Object.keys(route.operation.answers)[0]);
  }
}

export class Door {
  readonly #parts: DoorParts;
  #shed = 0;

  constructor(parts: DoorParts) {
    this.#parts = parts;
  }

  /** Handles a request of a known path and method. Everything needed of `req` is read before the first wait. */
  enter(entry: Entry, exchange: Exchange, req: HttpRequest): void | Promise<void> {
    const head = readHead(req);
    exchange.begin(head);
    exchange.route = entry.name;
    exchange.writing = entry.writes ? 'before' : 'no';
    exchange.isSubmission = entry.isSubmission;
    exchange.isHead = req.getMethod() === 'head';
    if (head.fault !== undefined) return exchange.refuse(head.fault);
    const params: string[] = [];
    for (let i = 0; i < entry.parameterCount; i++) params.push(decodeSegment(req.getParameter(i)));
    const rawQuery = req.getQuery() ?? '';
    const body = this.#beginBody(entry, exchange, head);
    return this.#serve({ entry, exchange, head, params, rawQuery, body });
  }

  /** A path that nobody knows, or a method that its path does not have. */
  refuse(exchange: Exchange, req: HttpRequest, error: ServiceError, headers: Record<string, string> = {}): void {
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

  /** undefined: this route takes no body. One that comes anyway is dropped; uWS reads it without keeping it. */
  #beginBody(entry: Entry, exchange: Exchange, head: Head): BodyReader | undefined {
    if (entry.route.body === undefined) {
      if (!skippable(head, entry.bytesMax)) exchange.closing = true;
      return undefined;
    }
    if (!skippable(head, this.#parts.limits.bodyBytesMax)) exchange.closeIfEarly = true;
    return new BodyReader(exchange, {
      contentLength: head.contentLength,
      bytesMax: entry.bytesMax,
      budget: this.#parts.budget,
      slabs: this.#parts.slabs,
    });
  }

  /** Up to the body. Most requests wait for nothing on the way, and pay for no promise then. */
  #serve(request: Request): void | Promise<void> {
    const { entry, exchange, head } = request;
    if (entry.route.scope === null) return this.#answer(request, publicCall(exchange));
    const nowMs = Date.now();
    const found = this.#parts.authenticator.principalOf(head.authorization, nowMs);
    if (found instanceof Promise) return found.then((principal) => this.#admit(request, principal, nowMs));
    return this.#admit(request, found, nowMs);
  }

  #admit(request: Request, principal: Principal, nowMs: number): void | Promise<void> {
    authorize(principal, request.entry.route.scope!);
    const admitted = admit(this.#parts.limiter, principal, nowMs);
    if (admitted !== undefined) return admitted.then(() => this.#takeIn(request, principal, nowMs));
    this.#takeIn(request, principal, nowMs);
    return undefined;
  }

  #takeIn(request: Request, principal: Principal, nowMs: number): void {
    this.#parts.keyUses.note(principal, nowMs);
    const { entry, exchange, head, body } = request;
    if (entry.isSubmission && this.#sheds(exchange, principal.account)) return;
    // What is too large is refused before what is no JSON: the order in which the caller can do something about it.
    if (body === undefined) {
      if (head.contentLength > entry.bytesMax) throw bodyOfNoUse(entry.bytesMax);
      this.#hand(request, principal, NO_BODY);
      return;
    }
    if (body.refusal !== undefined) throw body.refusal;
    if (!isJson(head.contentType)) {
      throw new ServiceError('unsupported_media_type', 'The body must be application/json.', { recorded: false });
    }
    body.whole((bytes) => this.#hand(request, principal, bytes));
  }

  /** The body is let go of wherever the handler does not get it. */
  #hand(request: Request, principal: Principal, bytes: Buffer): void {
    let call: SoundCall | undefined;
    try {
      call = this.#begin(request, principal, bytes);
    } finally {
      if (call === undefined) request.body?.release();
    }
    if (call === undefined) return;
    if (request.entry.route.submit === undefined) void this.#answer(request, call);
    else this.#submit(request, call, request.entry.route.submit);
  }

  #submit(request: Request, call: SoundCall, submit: NonNullable<Route['submit']>): void {
    const submitter = new Submitter(request);
    try {
      submit(call, this.#parts, submitter);
    } catch (error) {
      submitter.refused(error);
    }
  }

  /** undefined: it has been answered, or nobody waits for it any more. */
  #begin(request: Request, principal: Principal, bytes: Buffer): SoundCall | undefined {
    const { entry, exchange, head, params } = request;
    const { route } = entry;
    if (entry.isSubmission && this.#sheds(exchange, principal.account)) return undefined;
    const call: SoundCall = {
      principal,
      account: principal.account,
      actor: { actor: `key:${principal.keyId}`, requestId: exchange.requestId },
      requestId: exchange.requestId,
      params,
      query: parseQuery(entry.query, request.rawQuery),
      idempotencyKey: idempotencyKeyOf(route, head),
      idempotency: undefined,
      body: entry.validator === undefined ? bytes : readJson(entry.validator, route, bytes),
      client: exchange,
    };
    if (call.idempotencyKey !== undefined && entry.validator !== undefined) {
      call.idempotency = fingerprint(call.idempotencyKey, bytes);
    }
    if (exchange.over) return undefined; // the client has left: nothing begins that nobody waits for
    if (entry.isSubmission) exchange.waitsSinceMs = this.#parts.shedding.take(principal.account, bytes.length);
    if (entry.writes) exchange.writing = 'begun';
    return call;
  }

  async #answer({ entry, exchange, body }: Request, call: SoundCall): Promise<void> {
    try {
      exchange.send(await entry.route.handle!(call, this.#parts));
    } catch (error) {
      exchange.fail(error);
    } finally {
      body?.release();
    }
  }

  /** Answers a submission for which there is no time. No error is made and nothing is logged for each: it must cost little. */
  #sheds(exchange: Exchange, account: string): boolean {
    const reason = this.#parts.shedding.refuses(account);
    if (reason === undefined) return false;
    exchange.refusedAs = 'unavailable';
    const headers = RETRY_AFTER[this.#shed++ % RETRY_AFTER.length]!;
    exchange.send({ status: 503, body: shedBody(reason, exchange.requestId), headers });
    return true;
  }
}

/** Answers a submission of events once it is told what came of it. */
class Submitter implements Caller {
  readonly #request: Request;

  constructor(request: Request) {
    this.#request = request;
  }

  accepted({ body, release }: Answer): void {
    const { entry, exchange } = this.#request;
    exchange.send({ status: entry.successStatus, body, onSent: release });
    this.#request.body?.release();
  }

  refused(error: unknown): void {
    this.#request.exchange.fail(error);
    this.#request.body?.release();
  }
}

type SoundCall = Call<unknown, QueryOf<Parameters>>;

type Request = {
  entry: Entry;
  exchange: Exchange;
  head: Head;
  params: string[];
  rawQuery: string;
  body: BodyReader | undefined;
};

function publicCall(exchange: Exchange): SoundCall {
  return {
    principal: undefined as never,
    account: '',
    actor: undefined as never,
    requestId: exchange.requestId,
    params: [],
    query: {},
    body: undefined,
    idempotencyKey: undefined,
    idempotency: undefined,
    client: exchange,
  };
}

/** May the rest of this body flow past while the connection goes on? Else the answer asks to close it. */
function skippable(head: Head, bytesMax: number): boolean {
  return head.contentLength >= 0 && head.contentLength <= bytesMax;
}

/** A segment that is no UTF-8 names nothing: kept as it is, it will be unknown like any other name that does not exist. */
function decodeSegment(segment: string): string {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** A missing header is taken for JSON (decisions 2). Parameters, `charset` among them, say nothing new: JSON is UTF-8. */
function isJson(contentType: string): boolean {
  if (contentType === 'application/json' || contentType === '') return true;
  const end = contentType.indexOf(';');
  return (end < 0 ? contentType : contentType.slice(0, end)).trim().toLowerCase() === 'application/json';
}

function readJson(validator: Validator, route: Route, bytes: Buffer): unknown {
  const value = parseJson(bytes);
  if (validator.Check(value)) return value;
  const what = route.body?.kind === 'json' ? route.body.what : 'body';
  throw validationFailed(`The ${what} does not fit its schema.`, errorDetails(validator, value));
}

function idempotencyKeyOf(route: Route, head: Head): string | undefined {
  const key = head.idempotencyKey;
  if (key === undefined || route.idempotency === undefined) return undefined;
  if (route.idempotency === 'refused')
    throw badIdempotencyKey('is not supported here: a retry would create a second one');
  if (!IDEMPOTENCY_KEY.test(key)) throw badIdempotencyKey('must be 1 to 255 printable ASCII characters');
  return key;
}

function badIdempotencyKey(message: string): ServiceError {
  return validationFailed('The Idempotency-Key cannot be used.', [{ path: 'Idempotency-Key', message }]);
}

function fingerprint(key: string, bytes: Buffer): Idempotency {
  return { key, bodySha256: createHash('sha256').update(bytes).digest('hex') };
}

/** As `errorReply` of the exchange writes it. A request id has nothing in it that JSON would escape. */
function shedBody(reason: ShedReason, requestId: string): string {
  const message = reason === 'backlog' ? 'The backlog is full' : 'More is coming in than can be done';
  return `{"error":{"code":"unavailable","message":"${message}; nothing was recorded.","request_id":"${requestId}","recorded":false}}`;
}

function bodyOfNoUse(bytesMax: number): ServiceError {
  return new ServiceError(
    'payload_too_large',
    `This takes no body, and one larger than ${bytesMax} bytes is not read.`,
  );
}
