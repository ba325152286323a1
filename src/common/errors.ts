// The one table of what can be answered other than success, and the one error that carries it to the reply.
// A ServiceError's `message` is for the caller: one sentence, never a stack, an SQL text or another account's data;
// what is for us goes into `internal` and `cause`, which are logged and never sent.
// Anything thrown that is not a ServiceError is a bug: the caller gets 500 `internal` and logs it with the request id.

import type { ErrorDetail } from '../../schemas/error.ts';
import { UserFacingError } from './user-facing-error.ts';

/** code -> HTTP status and when it is answered. The table in docs/api.md is tested against this one. */
export const ERRORS = {
  malformed_json: {
    status: 400,
    when: 'not JSON, not UTF-8, not the gzip that it is said to be, a key twice in one object, nested deeper than 64 levels; `message` and `details` say where',
  },
  validation_failed: {
    status: 400,
    when: 'does not fit the schema, a bad enumerated value, a bad query parameter, a pattern or expression that does not compile',
  },
  invalid_token: {
    status: 401,
    when: 'the Authorization header is missing or malformed, the key is unknown, expired or revoked, or the session has ended',
  },
  other_session: {
    status: 401,
    when: "the cookie is of another session than the one that the page says it was drawn for (`Gatehouse-Session`, or `session` of a file's address)",
  },
  insufficient_scope: {
    status: 403,
    when: 'the key is valid, but its scope is too low, it lacks the permission, or it is bound to an agent and this concerns the whole account',
  },
  account_suspended: {
    status: 403,
    when: 'those who run the service have suspended the account of the key, or of the session',
  },
  cross_site_request: {
    status: 403,
    when: "a call with a session's cookie that changes something, from a page of another origin or without `Gatehouse-Client`",
  },
  own_request: { status: 403, when: "a key bound to an agent decides none of that agent's approvals" },
  not_found: { status: 404, when: 'unknown path or resource; a resource of another account is unknown' },
  method_not_allowed: { status: 405, when: 'the path exists, the method does not; `Allow` says which do' },
  name_taken: {
    status: 409,
    when: "an alert or policy of that name exists, or is another owner's, or an agent is renamed onto another's name",
  },
  request_timeout: { status: 408, when: 'the head of the request was not there after 10 s' },
  agent_inactive: { status: 409, when: 'what waits is to be approved, and its agent is switched off' },
  already_decided: { status: 409, when: 'the approval has been decided, by a person or by its timeout' },
  last_admin_key: { status: 409, when: 'the key to be revoked is the last admin key of the account' },
  on_hold: { status: 409, when: 'the agent to be deleted is under a legal hold; `message` says which' },
  check_in_use: { status: 409, when: 'a policy names the check that is to be deleted; `message` says which' },
  backtest_running: {
    status: 409,
    when: 'a backtest of the account waits or runs; `details` says which. It can be deleted',
  },
  idempotency_conflict: {
    status: 409,
    when: 'the Idempotency-Key was used for another request: another body, agent or path',
  },
  idempotency_in_progress: { status: 409, when: 'the first request with this Idempotency-Key is still running' },
  not_redeliverable: {
    status: 409,
    when: 'the delivery is pending or delivered, or its alert was deleted or is inactive',
  },
  revision_conflict: {
    status: 412,
    when: 'If-Match names a revision that is not the present one: another change came first; `details` says which it is. Or the plan to be applied is not the present one, which comes along as `plan`',
  },
  length_required: {
    status: 411,
    when: 'a body without a Content-Length (`Transfer-Encoding` is taken for spans alone)',
  },
  payload_too_large: {
    status: 413,
    when: 'the body is over 1 MiB for one event or for declared policies, 8 MiB for a batch or a hook, 64 KiB for anything else',
  },
  headers_too_large: { status: 431, when: 'more than 90 headers, or more than 16 KiB of them' },
  unsupported_media_type: {
    status: 415,
    when: 'a body that is not application/json, or is compressed otherwise than with gzip, which events and spans may be; `Accept-Encoding` says what is taken',
  },
  rate_limited: {
    status: 429,
    when: 'over the request limit of the key, or a quota of the account over all its keys; `Retry-After` says when to come back',
  },
  quota_exceeded: {
    status: 429,
    when: 'the account has as many stored events, keys or agents as it may have; `message` says which',
  },
  internal: { status: 500, when: 'our fault; logged with the request id' },
  unavailable: {
    status: 503,
    when: 'Redis or ClickHouse is out of reach, the backlog is full, more comes in than can be done, or it took too long; `Retry-After` says when to come back',
  },
} as const;
export type ErrorCode = keyof typeof ERRORS;

export type ServiceErrorOptions = {
  details?: ErrorDetail[];
  /** On a failed write: was anything kept? Left out where nothing could have been. */
  recorded?: false | 'unknown';
  retryAfterSeconds?: number;
  /** The limit that was reached, where the code is `rate_limited`. */
  rateLimit?: { perSecond: number; burst: number; name?: string };
  /** The encodings of a body that are taken here, where the code is `unsupported_media_type`. */
  acceptEncoding?: 'gzip' | 'identity';
  /** `not_found` of what may have been written and is not stored yet. */
  incomplete?: boolean;
  /** For the log only. */
  internal?: string;
  cause?: unknown;
};

export class ServiceError extends UserFacingError {
  override name = 'ServiceError';
  readonly code: ErrorCode;
  readonly details: ErrorDetail[] | undefined;
  readonly recorded: false | 'unknown' | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly rateLimit: ServiceErrorOptions['rateLimit'];
  readonly acceptEncoding: ServiceErrorOptions['acceptEncoding'];
  readonly incomplete: boolean;
  readonly internal: string | undefined;

  constructor(code: ErrorCode, message: string, options: ServiceErrorOptions = {}) {
    super(message, { cause: options.cause });
    this.code = code;
    this.details = options.details;
    this.recorded = options.recorded;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.rateLimit = options.rateLimit;
    this.acceptEncoding = options.acceptEncoding;
    this.incomplete = options.incomplete ?? false;
    this.internal = options.internal;
  }

  get status(): number {
    return ERRORS[this.code].status;
  }
}

/** 503 for what was not recorded, and may be sent again. `cause`: for the log. */
export function notRecorded(sentence: string, cause?: unknown): ServiceError {
  const options = { recorded: false, retryAfterSeconds: 1, cause } as const;
  const internal = cause instanceof Error ? { internal: cause.message } : {};
  return new ServiceError('unavailable', `${sentence}; nothing was recorded.`, { ...options, ...internal });
}

/** A value of a closed set that the code does not know: a bug, or a record of a newer version. */
export function unreachable(value: never): never {
  throw new Error(`unexpected value ${JSON.stringify(value)}`);
}
