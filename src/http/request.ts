// One request during admission, and what its handler is given.
// One object from head to answer: it is the handler's call, and for a submission of events also the caller that is
// notified what came of it. Several of them, one made of the other, were a tenth of what an event that comes alone
// allocated.
// Invariant: `principal` is set before the body is asked for, `body` and `query` before the handler is called; the
// body's memory goes back once, when the answer is made or there is none to make. A key that is bound to an agent comes
// no further than here with another agent in its path or its query.

import { createHash } from 'node:crypto';
import type Type from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import type { ConnectionRecord } from '../../schemas/connection.ts';
import { ServiceError } from '../common/errors.ts';
import { parseExact } from '../common/exact-json.ts';
import { dropOptionalNulls } from '../common/optional-nulls.ts';
import { errorDetails, validationFailed } from '../common/validation.ts';
import type { Answer, Caller } from '../ingest/ingest-parts.ts';
import { parseJson } from '../ingest/json.ts';
import type { JudgedEvent } from '../otlp/gateway-trace.ts';
import type { Actor, Principal } from '../registry/accounts/principal.ts';
import type { Idempotency } from '../registry/idempotency.ts';
import { type Authenticator, authorize, invalidToken, rightsFor } from './admission/authenticate.ts';
import type { BrowserSessions } from './admission/browser-sessions.ts';
import type { CallerAddresses } from './admission/caller-address.ts';
import type { WebhookHead } from './admission/webhook-signature.ts';
import { notFound } from './answers/reply.ts';
import type { Exchange } from './exchange.ts';
import type { Head } from './reading/head.ts';
import type { InflatedBody } from './reading/inflate-body.ts';
import { NO_PARAMETERS, type Parameters, parseQuery, type QueryOf } from './reading/query.ts';
import type { BodyReader } from './reading/read-body.ts';
import { type BodyLimits, bodyBytesMax, type Call, type Owned, type Route, takesGzip } from './route.ts';

const REVISION_TAG = /^ *"([1-9][0-9]{0,14})" *$/;
const IDEMPOTENCY_KEY = /^[\x20-\x7e]{1,255}$/;

/** A route made ready once: names, parameter places, compiled schema. */
export class RouteEntry {
  readonly route: Route;
  /** For metrics and logs. */
  readonly name: string;
  readonly parameterCount: number;
  /** Is it called with a key of an account, or a session? */
  readonly takesKeys: boolean;
  /** The rights that a key must have: the sum of RIGHTS. */
  readonly rights: number;
  /** Where a key that is bound to an agent may touch its own alone. */
  readonly owned: Owned | undefined;
  readonly validator: Validator | undefined;
  readonly query: Parameters;
  readonly bytesMax: number;
  readonly writes: boolean;
  readonly isSubmission: boolean;
  /** In protobuf or JSON, as OTLP has them: compressed, too. Errors are in the form of the request. */
  readonly takesOtlp: boolean;
  /** Does it change something in the name of its caller, and write an entry about the call to the audit log? */
  readonly isAudited: boolean;
  readonly takesGzip: boolean;
  readonly takesChunks: boolean;
  /** Does it hand out what is there, and change nothing? Then it is asked once more who may have it. */
  readonly isRead: boolean;
  /** With which submissions are answered. */
  readonly successStatus: number;

  constructor(route: Route, limits: BodyLimits) {
    this.route = route;
    this.name = `${route.method} ${route.path}`;
    this.parameterCount = route.path.split('{').length - 1;
    this.takesKeys = route.needs !== null && route.needs !== 'operator';
    this.rights = rightsFor(route);
    this.owned = typeof route.bound === 'object' ? route.bound : undefined;
    checkBound(route);
    this.validator = route.body?.kind === 'json' ? Compile(route.body.schema as Type.TSchema) : undefined;
    this.query = route.query ?? NO_PARAMETERS;
    this.bytesMax = bodyBytesMax(route.body, limits);
    this.writes = route.method !== 'GET';
    this.takesOtlp = route.body?.kind === 'otlp';
    this.isSubmission = route.body !== undefined && route.body.kind !== 'json';
    this.takesGzip = takesGzip(route);
    this.takesChunks = route.takesChunks === true;
    this.isRead = route.method === 'GET' || route.needs === 'read';
    this.isAudited = this.writes && !this.isSubmission;
    this.successStatus = Number(Object.keys(route.operation.answers)[0]);
  }
}

/** A row that promises what its path or query does not have is a bug, found when the server starts. */
function checkBound({ method, path, query, bound }: Route): void {
  const isSound =
    (bound !== 'path' || path.startsWith('/v1/agents/{id}')) &&
    (bound !== 'query' || query?.['agent_id'] !== undefined);
  if (!isSound) throw new Error(`${method} ${path}: no agent in the ${String(bound)}`);
}

export class Request implements Call<unknown, QueryOf<Parameters>>, Caller {
  readonly entry: RouteEntry;
  readonly exchange: Exchange;
  readonly head: Head;
  readonly params: readonly string[];
  readonly rawQuery: string;
  /** undefined: this route takes no body. */
  readonly reader: BodyReader | undefined;
  principal: Principal = undefined as never;
  /** The name of the operator who calls; undefined: a key of an account does, or none. */
  operator: string | undefined = undefined;
  query: QueryOf<Parameters> = NO_QUERY;
  body: unknown = undefined;
  idempotencyKey: string | undefined = undefined;
  revisions: readonly number[] | undefined = undefined;
  idempotency: Idempotency | undefined = undefined;
  connection: ConnectionRecord | undefined = undefined;
  /** The buffer of a body that came compressed. */
  inflated: InflatedBody | undefined = undefined;
  /** The secret of the session by whose cookie it came; undefined: it came with a key. */
  secret: string | undefined = undefined;
  /** Where it came from; known while the handler runs, of what is audited. */
  callerAddress = '';
  /** The connection's other end. */
  #peer = '';
  readonly #callers: CallerAddresses;
  readonly #browsers: BrowserSessions;
  readonly #authenticator: Authenticator;

  constructor(
    from: Pick<Request, 'entry' | 'exchange' | 'head' | 'params' | 'rawQuery' | 'reader'> & {
      callers: CallerAddresses;
      browsers: BrowserSessions;
      authenticator: Authenticator;
    },
  ) {
    this.#callers = from.callers;
    this.#browsers = from.browsers;
    this.#authenticator = from.authenticator;
    this.entry = from.entry;
    this.exchange = from.exchange;
    this.head = from.head;
    this.params = from.params;
    this.rawQuery = from.rawQuery;
    this.reader = from.reader;
  }

  get account(): string {
    return this.operator === undefined ? this.principal.account : '';
  }

  get actor(): Actor {
    if (this.operator === undefined) return this.actorAs(this.principal);
    return { actor: `operator:${this.operator}`, requestId: this.requestId, ...this.#calledFrom };
  }

  get requestId(): string {
    return this.exchange.requestId;
  }

  /** To an agent. What needs no key of an account is bound to nothing. */
  get isBound(): boolean {
    return this.entry.takesKeys && this.principal.agentId !== null;
  }

  get contentType(): string {
    return this.head.contentType;
  }

  get webhook(): WebhookHead | undefined {
    return this.head.webhook;
  }

  get lastEventId(): string {
    return this.head.browser?.lastEventId ?? '';
  }

  async isStillAllowed(): Promise<boolean> {
    try {
      await this.keepAllowed();
      return true;
    } catch (error) {
      if (error instanceof ServiceError && (error.status === 401 || error.status === 403)) return false;
      throw error;
    }
  }

  /** Throws ServiceError invalid_token, account_suspended, insufficient_scope, unavailable. */
  async keepAllowed(): Promise<void> {
    const { entry, head, principal, secret } = this;
    // The keys of operators are those that the process began with.
    if (!entry.takesKeys) return;
    const nowMs = Date.now();
    const now = await (secret === undefined
      ? this.#authenticator.principalOf(head.authorization, nowMs)
      : this.#authenticator.ofSession(secret, nowMs, { isUse: false }));
    // Of a Redis that was put back a key may be another one's now.
    if (now.keyId !== principal.keyId || now.agentId !== principal.agentId) throw invalidToken();
    authorize(now, entry.rights, entry.route);
  }

  get isSecure(): boolean {
    return this.#browsers.isSecure(this.head, () => this.#peer);
  }

  /** The actor of a request that signs in: there is no principal yet. */
  actorAs({ keyId, agentId, registersAgents }: Principal): Actor {
    const by = { actor: `key:${keyId}`, requestId: this.requestId, boundTo: agentId, registersAgents };
    return { ...by, ...this.#calledFrom };
  }

  get #calledFrom(): Pick<Actor, 'ip' | 'userAgent' | 'traceparent'> {
    const { userAgent, traceparent } = this.head;
    return { ip: this.callerAddress, userAgent, traceparent };
  }

  get client(): Exchange {
    return this.exchange;
  }

  /**
   * Reads query, Idempotency-Key, If-Match and body. Throws ServiceError validation_failed, other_session; not_found
   * for an agent that a bound key may not know.
   */
  validate(bytes: Buffer): void {
    const { route, validator, query, isAudited } = this.entry;
    if (isAudited) {
      this.callerAddress = this.addressOfCaller();
    }
    this.query = parseQuery(query, this.rawQuery);
    if (this.secret !== undefined)
      this.#browsers.checkSession(String(this.query['session'] ?? ''), this.principal.sessionId);
    this.idempotencyKey = idempotencyKeyOf(route, this.head);
    if (this.head.ifMatch !== undefined) this.revisions = revisionsOf(route, this.head.ifMatch);
    const text = withoutMark(bytes);
    this.body = validator === undefined ? text : readJson(validator, route, text);
    if (this.idempotencyKey !== undefined && validator !== undefined)
      this.idempotency = fingerprint(this.idempotencyKey, text);
    if (this.isBound) this.#restrictToAgent(this.principal.agentId!);
  }

  /** Before the first wait, or while the client is there. */
  addressOfCaller(): string {
    this.#peer = this.exchange.peerAddress();
    return this.#callers.callerOf(this.#peer, this.head.forwardedFor);
  }

  #restrictToAgent(agent: string): void {
    const { route, query } = this.entry;
    if (route.bound === 'path' && this.params[0] !== agent) throw notFound('agent');
    if (route.bound !== 'query') return;
    const asked = this.query['agent_id'];
    if (asked !== undefined && ![asked].flat().every((one) => one === agent)) throw notFound('agent');
    this.query = { ...this.query, agent_id: query['agent_id']!.repeats ? [agent] : agent };
  }

  judged(event: JudgedEvent): void {
    this.exchange.trace?.judged(event);
  }

  accepted({ body, contentType, release, isOwnForm }: Answer): void {
    if (isOwnForm !== true && !this.entry.takesOtlp) this.exchange.trace?.answered(body);
    const type = contentType === undefined ? NO_TYPE : { contentType };
    this.exchange.send({ status: this.entry.successStatus, body, onSent: release, ...type });
    this.releaseBody();
  }

  refused(error: unknown): void {
    this.exchange.fail(error);
    this.releaseBody();
  }

  offloaded(): void {
    this.exchange.offloaded();
  }

  get isGone(): boolean {
    return this.exchange.over;
  }

  whenGone(waiting: { callerLeft(): void }): void {
    this.exchange.waiting = waiting;
  }

  /** The body is no longer read. */
  releaseBody(): void {
    this.reader?.release();
    this.inflated?.release();
    this.inflated = undefined;
  }
}

const NO_TYPE = Object.freeze({});
const NO_QUERY: QueryOf<Parameters> = Object.freeze({});

/** A byte-order mark says nothing: JSON is UTF-8. No protobuf begins with it: there is no wire type 7. */
function withoutMark(bytes: Buffer): Buffer {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes;
}

function readJson(validator: Validator, route: Route, bytes: Buffer): unknown {
  const body = route.body?.kind === 'json' ? route.body : undefined;
  const value = parseJson(bytes, body?.exact === true ? parseExact : undefined);
  if (validator.Check(value)) return value;
  if (body !== undefined) dropOptionalNulls(body.schema, value);
  if (validator.Check(value)) return value;
  const what = body?.what ?? 'body';
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

/**
 * `*` is any revision. Reads of what has no revisions continue as if there were none; a change of it must not
 * pass for a conditional one.
 */
function revisionsOf({ method, conditional }: Route, text: string): number[] | undefined {
  if (method === 'GET' && conditional !== true) return undefined;
  if (conditional !== true) throw badIfMatch('is not supported here: this has no revisions');
  if (text.trim() === '*') return undefined;
  return text.split(',').map((tag) => {
    const [, revision] = REVISION_TAG.exec(tag) ?? [];
    if (revision === undefined) throw badIfMatch('takes a revision as the ETag shows it, "3" with its quotes, or *');
    return Number(revision);
  });
}

function badIfMatch(message: string): ServiceError {
  return validationFailed('The If-Match cannot be heeded.', [{ path: 'If-Match', message }]);
}

function badIdempotencyKey(message: string): ServiceError {
  return validationFailed('The Idempotency-Key cannot be used.', [{ path: 'Idempotency-Key', message }]);
}

function fingerprint(key: string, bytes: Buffer): Idempotency {
  return { key, bodySha256: createHash('sha256').update(bytes).digest('hex') };
}
