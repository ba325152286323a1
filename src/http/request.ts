// A request on its way through the door, and what its handler is given (inside Door; steps 1 to 5 of the path).
// One object from head to answer: it is the handler's call, and for a submission of events also the caller who is told what
// came of it. Several of them, one made of the other, were a tenth of what an event that comes alone allocated.
// Invariant: `principal` stands before anybody asks for the body, `body` and `query` before the handler is called; the body's
// memory goes back once, when the answer is made or there is none to make.
import { createHash } from 'node:crypto';
import type Type from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import type { ServiceError } from '../errors.ts';
import type { Answer, Caller } from '../ingest/ingest.ts';
import { parseJson } from '../ingest/json.ts';
import type { Idempotency } from '../registry/idempotency.ts';
import type { Actor, Principal } from '../registry/principal.ts';
import { errorDetails, validationFailed } from '../validation.ts';
import type { Exchange } from './exchange.ts';
import type { Head } from './head.ts';
import { NO_PARAMETERS, type Parameters, parseQuery, type QueryOf } from './query.ts';
import type { BodyReader } from './read-body.ts';
import { type BodyLimits, bodyBytesMax, type Call, type Route } from './route.ts';

const IDEMPOTENCY_KEY = /^[\x20-\x7e]{1,255}$/;

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
    this.query = route.query ?? NO_PARAMETERS;
    this.bytesMax = bodyBytesMax(route.body, limits);
    this.writes = route.method !== 'GET';
    this.isSubmission = route.body?.kind === 'event' || route.body?.kind === 'batch';
    this.successStatus = Number(Object.keys(route.operation.answers)[0]);
  }
}

export class Request implements Call<unknown, QueryOf<Parameters>>, Caller {
  readonly entry: Entry;
  readonly exchange: Exchange;
  readonly head: Head;
  readonly params: readonly string[];
  readonly rawQuery: string;
  /** undefined: this route takes no body. */
  readonly reader: BodyReader | undefined;
  principal: Principal = undefined as never;
  query: QueryOf<Parameters> = NO_QUERY;
  body: unknown = undefined;
  idempotencyKey: string | undefined = undefined;
  idempotency: Idempotency | undefined = undefined;

  constructor(from: Pick<Request, 'entry' | 'exchange' | 'head' | 'params' | 'rawQuery' | 'reader'>) {
    this.entry = from.entry;
    this.exchange = from.exchange;
    this.head = from.head;
    this.params = from.params;
    this.rawQuery = from.rawQuery;
    this.reader = from.reader;
  }

  get account(): string {
    return this.principal.account;
  }

  get actor(): Actor {
    return { actor: `key:${this.principal.keyId}`, requestId: this.requestId };
  }

  get requestId(): string {
    return this.exchange.requestId;
  }

  get client(): Exchange {
    return this.exchange;
  }

  /** Reads query, Idempotency-Key and body. Throws ServiceError `validation_failed`. */
  makeSound(bytes: Buffer): void {
    const { route, validator, query } = this.entry;
    this.query = parseQuery(query, this.rawQuery);
    this.idempotencyKey = idempotencyKeyOf(route, this.head);
    this.body = validator === undefined ? bytes : readJson(validator, route, bytes);
    if (this.idempotencyKey !== undefined && validator !== undefined)
      this.idempotency = fingerprint(this.idempotencyKey, bytes);
  }

  accepted({ body, release }: Answer): void {
    this.exchange.send({ status: this.entry.successStatus, body, onSent: release });
    this.letGo();
  }

  refused(error: unknown): void {
    this.exchange.fail(error);
    this.letGo();
  }

  /** Nobody reads the body any more. */
  letGo(): void {
    this.reader?.release();
  }
}

const NO_QUERY: QueryOf<Parameters> = Object.freeze({});

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
