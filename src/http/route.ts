// What a route is: one row of the table in routes.ts. Registration, 404, 405, HEAD, permissions, what a key bound to an
// agent meets, body limits, queries and the API's description all follow from it, so that none of them can disagree
// with another.
// Invariant: a handler is called with a caller who may, a query that fits, and a body that fits its schema; called for
// a key that is bound to an agent, what its path and its `agent_id` name is of that agent. No row can leave out what it
// needs, or what bound keys meet. Idempotency-Key: heeded where `idempotent` says so, refused where a caller who trusts
// it would be misled (`POST /v1/api-keys`: a retry makes a second key, and an answer that holds a key is not kept),
// ignored elsewhere, where a repetition changes nothing (registering by name, PATCH, DELETE) or nothing is written.

import type Type from 'typebox';
import type { ClickHouse } from '../../clickhouse/client.ts';
import type { Permission, Scope } from '../../schemas/closed-sets.ts';
import type { ConnectionRecord } from '../../schemas/connection.ts';
import type { ServiceCare } from '../../schemas/overview.ts';
import type { Checkpoints } from '../audit/checkpoints.ts';
import type { Feed } from '../audit/feed.ts';
import type { VerificationJobs } from '../audit/verification-job.ts';
import type { AuditVerifier } from '../audit/verifier.ts';
import type { CheckCalls } from '../checks/check-calls.ts';
import type { ErrorCode } from '../common/errors.ts';
import { INFERENCE_BYTES_MAX } from '../common/limits.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { Caller } from '../ingest/ingest-parts.ts';
import type { JudgingWorker } from '../ingest/judging-worker.ts';
import type { SpansIntake } from '../ingest/spans-intake.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { SPANS_BYTES_MAX } from '../otlp/span-groups.ts';
import type { Config } from '../process/config.ts';
import type { RetentionSettings } from '../registry/accounts/account-retention.ts';
import type { Accounts } from '../registry/accounts/accounts.ts';
import type { ApiKeys } from '../registry/accounts/api-keys.ts';
import type { Holds } from '../registry/accounts/holds.ts';
import type { Actor, Principal, RequestLimit } from '../registry/accounts/principal.ts';
import type { RequestLimiter } from '../registry/accounts/request-limit.ts';
import type { Sessions } from '../registry/accounts/sessions.ts';
import type { Agents } from '../registry/agents.ts';
import type { Alerts } from '../registry/alerts/alerts.ts';
import type { Deliveries } from '../registry/alerts/deliveries.ts';
import type { OutgoingFeeds } from '../registry/alerts/outgoing-feeds.ts';
import type { ApprovalWaits } from '../registry/approvals/approval-waits.ts';
import type { Approvals } from '../registry/approvals/approvals.ts';
import type { Budgets } from '../registry/budgets/budgets.ts';
import type { PriceTables } from '../registry/budgets/price-tables.ts';
import type { CheckActivities } from '../registry/check-activity.ts';
import type { Connections } from '../registry/connections.ts';
import type { Conversations } from '../registry/conversations.ts';
import type { ExternalChecks } from '../registry/external-checks.ts';
import type { Idempotency } from '../registry/idempotency.ts';
import type { NewAgents } from '../registry/new-agents.ts';
import type { Backtests } from '../registry/policies/backtests.ts';
import type { Policies } from '../registry/policies/policies.ts';
import type { PolicyDeclarations } from '../registry/policies/policy-declaration.ts';
import type { PolicyEvaluations } from '../registry/policies/policy-evaluation.ts';
import type { PolicyPreviews } from '../registry/policies/policy-preview.ts';
import type { PolicyPromotions } from '../registry/policies/policy-promotion.ts';
import type { ReadyPolicyFiles } from '../registry/policies/ready-policies.ts';
import type { Views } from '../registry/views.ts';
import type { ReadBarrier } from '../streams/read-barrier.ts';
import type { Authenticator } from './admission/authenticate.ts';
import type { WebhookHead } from './admission/webhook-signature.ts';
import type { BodyParts } from './answers/body-parts.ts';
import type { BodySlots } from './answers/body-slots.ts';
import type { Live } from './answers/live.ts';
import type { Parameters, QueryOf } from './reading/query.ts';
import type { Need } from './route-needs.ts';

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

/** The faults that prevent work, by the store at fault; none: ready. `degraded`: ready, but for what was allowed. */
type Health = () => Promise<{ faults: { path: string; message: string }[]; degraded?: string }>;

/** The tasks of those who run the service. `isOwn`: it keeps its stores itself. `invalid`: accounts. */
export type CareFound = Pick<ServiceCare, 'dead_entries' | 'store_behind_seconds'> & {
  /** Epoch ms; 0: there was no backup. */
  lastBackupMs: number;
  isOwn: boolean;
  invalid: readonly string[];
};

/** The parts that handlers work with. */
export type Parts = {
  ingest: Pick<Ingest, 'submit'>;
  spans: Pick<SpansIntake, 'submit'>;
  hookReading: Pick<JudgingWorker, 'readHook'>;
  checkCalls: Pick<CheckCalls, 'ask'>;
  registry: {
    accounts: Accounts;
    /** false: no such account. What it throws: account-removal.ts. */
    removeAccount: (id: string, actor: Actor) => Promise<boolean>;
    agents: Agents;
    newAgents: NewAgents;
    policies: Policies;
    evaluations: PolicyEvaluations;
    previews: PolicyPreviews;
    readyPolicies: ReadyPolicyFiles;
    declarations: PolicyDeclarations;
    backtests: Backtests;
    promotions: PolicyPromotions;
    alerts: Alerts;
    deliveries: Deliveries;
    apiKeys: ApiKeys;
    approvals: Approvals;
    sessions: Sessions;
    views: Views;
    holds: Holds;
    connections: Connections;
    checks: ExternalChecks;
    outgoingFeeds: OutgoingFeeds;
    checkActivities: Pick<CheckActivities, 'read'>;
    conversations: Conversations;
    prices: PriceTables;
    budgets: Budgets;
  };
  authenticator: Pick<Authenticator, 'principalOf'>;
  limiter: Pick<RequestLimiter, 'admit'>;
  clickhouse: ClickHouse;
  audit: Pick<AuditVerifier, 'verify'>;
  verifications: Pick<VerificationJobs, 'order' | 'get' | 'remove'>;
  checkpoints: Pick<Checkpoints, 'take' | 'read'>;
  barrier: Pick<
    ReadBarrier,
    'waitForEvents' | 'waitForJournal' | 'waitForAuditLog' | 'waitForAnomalies' | 'waitForApprovals' | 'waitForOpenings'
  >;
  approvalWaits: Pick<ApprovalWaits, 'wait'>;
  slots: Record<'streams' | 'exports', Pick<BodySlots, 'take'>>;
  live: Pick<Live, 'follow'>;
  feed: Pick<Feed, 'begin' | 'page' | 'chains'>;
  metrics: Pick<Metrics, 'text'>;
  /** By which people reach the service; undefined: that is not known. */
  publicUrl: string | undefined;
  /** The limit of keys whose account has no other. */
  requestLimit: RequestLimit;
  /** The bounds of what accounts may set, and the retention where they have set nothing. */
  retention: RetentionSettings;
  health: Health;
  care: () => Promise<CareFound>;
  /** Aborted: the process was asked to end, and is to get no more traffic. */
  leaving: Pick<AbortSignal, 'aborted'>;
  /** The limits of bodies, and of one event wherever it comes. */
  limits: BodyLimits;
};

export type Reply = {
  status: number;
  /** JSON text, unless `contentType` says otherwise. */
  body?: string | Buffer;
  contentType?: string;
  /** Left out: nothing may keep it. */
  cacheControl?: string;
  headers?: Record<string, string>;
  /** In place of `body`: writes it, part by part. What it throws cuts the connection. */
  parts?: (parts: BodyParts) => Promise<void>;
  /** Runs when `body` is no longer read: it was handed to the socket, or the client has left. */
  onSent?: (() => void) | undefined;
};

/** One authorised, sound request. */
export type Call<Body = unknown, Query = unknown> = {
  principal: Principal;
  /** '' where an operator calls: there is no account but what the path names. */
  account: string;
  actor: Actor;
  /** The same of a principal that the handler itself has found. */
  actorAs(principal: Principal): Actor;
  requestId: string;
  /** The type of the body, as the header says; '' where it says nothing. */
  contentType: string;
  /** Will the browser that asks keep a `Secure` cookie? */
  isSecure: boolean;
  /** The id behind which a stream is taken up again; '': from now on. */
  lastEventId: string;
  /**
   * To be called behind a wait, before what was waited for is handed out or done: by then the key may be revoked, or
   * the session ended. Answers of reads need not, nor bodies in parts: they are asked for at the end, and at each part.
   * Throws ServiceError invalid_token, unavailable.
   */
  keepAllowed(): Promise<void>;
  /** Decoded segments of the path, in order. */
  params: readonly string[];
  query: Query;
  body: Body;
  idempotencyKey: string | undefined;
  /** The headers that sign a request of a signed route, and the connection that it says to be of. */
  webhook: WebhookHead | undefined;
  connection: ConnectionRecord | undefined;
  /** If-Match: the change is made only while the thing is at one of these revisions. undefined: at whichever. */
  revisions: readonly number[] | undefined;
  /** With the body's SHA-256, for creates of the registry. */
  idempotency: Idempotency | undefined;
  /** Its signal fires when the client leaves. Made when asked for: few handlers can stop half-way. */
  client: {
    readonly signal: AbortSignal /** A handler that waits on purpose says for how long. */;
    longPollMs: number;
  };
};

type BodySpec<B> =
  /** Parsed and checked before the handler. `what` completes "The … does not fit its schema.". */
  | { kind: 'json'; schema: Type.TSchema; what: string; exact?: boolean; bytesMax?: number; type?: B }
  /** Handed on as bytes; `schema` describes it. */
  | { kind: BytesKind; schema: Type.TSchema; type?: B };

type BytesKind = 'event' | 'batch' | 'hook' | 'otlp' | 'inference';

export type AnswerSpec = {
  description: string;
  schema?: Type.TSchema;
  contentType?: string;
  example?: unknown;
  /** Those of this answer alone, each with what it says. */
  headers?: Record<string, string>;
  /** It carries the revision as its `ETag`. */
  etag?: true;
};

export type Operation = {
  id: string;
  tag: string;
  summary: string;
  description?: string;
  /** Status -> what is answered; no schema: no body. */
  answers: Record<number, AnswerSpec>;
  /** Errors beyond those that follow from scope, body, query and path. */
  errors?: ErrorCode[];
  bodyExample?: unknown;
  /** Reads that wait for writes can be incomplete. */
  canBeIncomplete?: boolean;
};

/** The lowest scope that has it; of what operators call no scope of an account's key. */
export const SCOPE_OF: Record<Need | 'operator', Scope | 'operator'> = {
  operator: 'operator',
  read: 'read',
  submit: 'write',
  decide: 'write',
  configure: 'write',
  admin: 'admin',
  any: 'read',
};

/** The rule for a key that is bound to an agent (docs/keys.md). */
type Bound =
  /** `{id}` of the path is an agent: any but its own is unknown. */
  | 'path'
  /** `agent_id` of the query is its own, whether it asks for that or not; any other agent is unknown. */
  | 'query'
  /** The path names a thing that may be an agent's: any that is not its own agent's is unknown. */
  | Owned
  /** The handler keeps to `principal.agentId`, or the registry to `actor.boundTo`. */
  | 'handler'
  /** It concerns the whole account: 403. */
  | 'refused';

export type Owned = {
  /** Completes "No such …." */
  what: string;
  /** The agent that it belongs to, if to any. Throws ServiceError not_found. */
  agentOf(call: Pick<Call, 'account' | 'params'>, parts: Parts): Promise<string | null>;
};

type RouteSpec<B, P extends Parameters> = {
  method: Method;
  /** With `{name}` for a parameter. */
  path: string;
  query?: P;
  body?: BodySpec<B>;
  /** The body may come by `Transfer-Encoding: chunked`; its connection is then closed. Anywhere else that is 411. */
  takesChunks?: true;
  /**
   * The route is of a connection, which `{connection}` names: who calls is shown by the signature of the body, which
   * the handler inspects, and every error is answered as a verdict.
   */
  signed?: true;
  idempotency?: 'heeded' | 'refused';
  /** Its resource has revisions: If-Match is heeded. Where it is left out a change with an If-Match is refused. */
  conditional?: true;
  operation: Operation;
} /** `besides`: a permission that is needed as well. */ & (
  | { needs: Need; besides?: Permission; bound: Bound }
  /** No key needed; or one of an operator, who belongs to no account. */
  | { needs: null | 'operator'; besides?: undefined; bound?: undefined }
) &
  (
    | { handle(call: Call<B, QueryOf<P>>, parts: Parts): Reply | Promise<Reply>; submit?: undefined }
    /** Submissions of events: `caller` is notified of the outcome. */
    | { submit(call: Call<B, QueryOf<P>>, parts: Parts, caller: Caller): void; handle?: undefined }
  );

export type Route = RouteSpec<unknown, Parameters>;

/** Ties a handler's types to its route's schemas; the table forgets them again. */
export function route<B = undefined, P extends Parameters = Record<never, never>>(spec: RouteSpec<B, P>): Route {
  return spec as unknown as Route;
}

/** `exact`: numbers that a double does not hold come as LongNumber. `bytesMax`: where the setting is lower. */
export function jsonBody<S extends Type.TSchema>(
  schema: S,
  what: string,
  { exact = false, bytesMax = 0 }: { exact?: boolean; bytesMax?: number } = {},
): BodySpec<Type.Static<S>> {
  return { kind: 'json', schema, what, exact, bytesMax };
}

export function eventBody(kind: BytesKind, schema: Type.TSchema): BodySpec<Buffer> {
  return { kind, schema };
}

/** Bodies that may be large are taken compressed. */
export function takesGzip({ body }: Pick<Route, 'body'>): boolean {
  return body !== undefined && body.kind !== 'json';
}

export function bodyBytesMax(body: BodySpec<unknown> | undefined, config: BodyLimits): number {
  if (body?.kind === 'event') return config.eventBytesMax;
  if (body?.kind === 'otlp') return SPANS_BYTES_MAX;
  if (body?.kind === 'inference') return INFERENCE_BYTES_MAX;
  // A hook after a call holds its result, which may be left out of the event.
  if (body?.kind === 'batch' || body?.kind === 'hook') return config.batchBytesMax;
  return Math.max(config.bodyBytesMax, body?.kind === 'json' ? (body.bytesMax ?? 0) : 0);
}

export type BodyLimits = Pick<Config, 'eventBytesMax' | 'batchBytesMax' | 'bodyBytesMax'>;
