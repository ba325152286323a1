// The schemas of the API's description: which have a name, and how one refers to another (beside document.ts).
// A schema that has a name is under `components` and is referred to wherever it occurs, inside others and in
// parameters too; what a place says of it by itself (`description`) stays beside the reference.
// Invariant: one schema has one name. Two names for one form are a mistake of ours and end the start.

import Type, { type TObject, type TProperties, type TSchema } from 'typebox';
import {
  AccountInForce,
  AccountPatch,
  AdminAccount,
  AdminAccountCreate,
  AdminAccountPatch,
  RequestLimit,
} from '../../../schemas/account.ts';
import { Agent, AgentActivity, AgentCreate, AgentPatch, ListedAgent } from '../../../schemas/agent.ts';
import { Alert, AlertConditions, AlertCreate, AlertCreated, AlertPatch } from '../../../schemas/alert.ts';
import { Anomaly, AnomalySeries, ListedAnomaly, SeriesPoint } from '../../../schemas/anomaly.ts';
import { ApiKey, ApiKeyCreate, ApiKeyCreated } from '../../../schemas/api-key.ts';
import { Approval, ApprovalDecision, ListedApproval } from '../../../schemas/approval.ts';
import { AuditLog, AuditLogPage, ListedAuditLog } from '../../../schemas/audit-log.ts';
import {
  AuditChainHead,
  AuditCheckpoint,
  AuditComparison,
  AuditFault,
  AuditVerification,
  VerificationJob,
  VerificationOrder,
} from '../../../schemas/audit-verification.ts';
import {
  Backtest,
  BacktestCreate,
  BacktestError,
  BacktestPage,
  BacktestPolicy,
  BacktestProgress,
  BacktestResult,
  BacktestSample,
  ListedBacktest,
  OutcomeChange,
  TriedPolicy,
} from '../../../schemas/backtest.ts';
import { BudgetState, BudgetStates } from '../../../schemas/budget.ts';
import {
  AGENTS_BY,
  CONNECTION_MODES,
  ON_FAILURE,
  SPEAKS,
  TRIGGERS,
  VIEW_SCREENS,
} from '../../../schemas/closed-sets.ts';
import { FreeObject, Metadata, page } from '../../../schemas/common.ts';
import { Connection, ConnectionCreate, ConnectionPatch } from '../../../schemas/connection.ts';
import {
  AuthZenAnswer,
  AuthZenQuestion,
  Hook,
  HookAnswer,
  InferenceAnswer,
  InferenceHook,
  LiteLlmAnswer,
  LiteLlmCheck,
  OpaAnswer,
  OpaQuery,
} from '../../../schemas/decision-points.ts';
import { Delivery, DeliveryAttempt } from '../../../schemas/delivery.ts';
import { about } from '../../../schemas/described.ts';
import { ErasureReport } from '../../../schemas/erasure.ts';
import { ErrorBody, ErrorDetail, ErrorInfo } from '../../../schemas/error.ts';
import {
  Batch,
  BatchResult,
  BudgetReserved,
  Event,
  EventError,
  ListedEvent,
  PolicyMatch,
  PolicyResult,
  ShadowJudged,
  Submission,
  Trace,
  TraceWithEvents,
} from '../../../schemas/event.ts';
import { Facet, Facets, Histogram } from '../../../schemas/event-counts.ts';
import { CheckCreate, CheckPatch, CheckTrial, CheckTried, ExternalCheck } from '../../../schemas/external-check.ts';
import { FeedItem, FeedPage } from '../../../schemas/feed.ts';
import { Hold, HoldCreate } from '../../../schemas/hold.ts';
import { ConditionHeld, ConditionUnmet } from '../../../schemas/match-detail.ts';
import {
  NotifiedAlert,
  NotifiedAnomaly,
  NotifiedApproval,
  NotifiedEvent,
  NotifiedPolicy,
  NotifiedSilence,
  WEBHOOK_NOTIFICATIONS,
} from '../../../schemas/notification.ts';
import {
  OutgoingFeed,
  OutgoingFeedCreate,
  OutgoingFeedCreated,
  OutgoingFeedPatch,
  OutgoingFeedProgress,
} from '../../../schemas/outgoing-feed.ts';
import { Compared, CostSums, Overview, OverviewWindow, TokenCounts } from '../../../schemas/overview.ts';
import {
  Policy,
  PolicyActivity,
  PolicyCreate,
  PolicyDifference,
  PolicyPatch,
  PolicyRevision,
} from '../../../schemas/policy.ts';
import {
  ConditionOperators,
  ConditionScalar,
  FieldCondition,
  SequenceStep,
  ShellEntry,
  SqlEntry,
} from '../../../schemas/policy-conditions.ts';
import {
  EvaluatedEvent,
  JudgedPolicy,
  PolicyDraft,
  PolicyEvaluated,
  PolicyEvaluation,
} from '../../../schemas/policy-evaluation.ts';
import { PlannedPolicy, PolicyDeclaration, PolicyPlan, PolicyPlanConflict } from '../../../schemas/policy-plan.ts';
import { PolicyPreview } from '../../../schemas/policy-preview.ts';
import {
  POLICY_COMPONENTS,
  PolicyByType,
  PolicyCreateByType,
  PolicyMatchByType,
  PolicyPatchByType,
} from '../../../schemas/policy-types.ts';
import { Price, PriceRates, PriceTable, PriceTableChange, PriceTableRevision } from '../../../schemas/price-table.ts';
import { QuotaRate, Quotas, QuotasPatch } from '../../../schemas/quota.ts';
import { ReadyPolicies, ReadyPolicy } from '../../../schemas/ready-policy.ts';
import { RetentionInForce, RetentionPatch } from '../../../schemas/retention.ts';
import { PayloadSchema } from '../../../schemas/schema-keywords.ts';
import { Readiness, ServiceStatus } from '../../../schemas/service-status.ts';
import { ListedSession, Session, SessionCreate } from '../../../schemas/session.ts';
import { ShadowReport } from '../../../schemas/shadow-report.ts';
import {
  ExportLogsServiceRequest,
  ExportLogsServiceResponse,
  ExportMetricsServiceRequest,
  ExportMetricsServiceResponse,
  ExportTraceServiceRequest,
  ExportTraceServiceResponse,
  RpcStatus,
} from '../../../schemas/spans.ts';
import { AccountUsage, UsedSums } from '../../../schemas/usage.ts';
import { SavedView, ViewCreate } from '../../../schemas/view.ts';
import { type NamedSchema, of, SETS, set, taken } from './named-sets.ts';

const saidOf = (schema: TSchema) => (schema as { description?: string }).description ?? '';

const NOTIFICATIONS: Record<string, NamedSchema> = Object.fromEntries(
  TRIGGERS.map((trigger) => {
    const words = trigger.split('_').map((word) => word[0]!.toUpperCase() + word.slice(1));
    const schema = WEBHOOK_NOTIFICATIONS[trigger];
    return [`${words.join('')}Notification`, of(saidOf(schema), schema)];
  }),
);

const NAMED: Record<string, NamedSchema> = {
  ...SETS,
  Account: of('The account and its settings.', AccountInForce),
  AccountPatch: of('What to change of the account; at least one field.', AccountPatch),
  AdminAccount: of('An account, as those who run the service see it.', AdminAccount),
  AdminAccountCreate: taken('An account to make.', AdminAccountCreate),
  AdminAccountPatch: taken('What to change of an account; at least one field.', AdminAccountPatch),
  AdminAccountPage: of('A page of accounts.', page(AdminAccount)),
  RequestLimit: of('Requests that each key of an account may make.', RequestLimit),
  Quotas: of('What all keys of an account together may use.', Quotas),
  QuotasPatch: taken('What to change of quotas.', QuotasPatch),
  QuotaRate: of('How much may come in a while.', QuotaRate),
  Retention: of('How long what is stored is kept.', RetentionPatch),
  RetentionInForce: of('How long what is stored is kept, in force.', RetentionInForce),
  Agent: of('A registered record that stands for one AI system.', Agent),
  AgentCreate: taken('An agent to register.', AgentCreate),
  AgentPatch: taken('What to change of an agent; at least one field.', AgentPatch),
  ListedAgent: of('An agent in a list, with what it did if that was asked for.', ListedAgent),
  AgentActivity: of('What an agent did in the last day.', AgentActivity),
  AgentPage: of('A page of agents.', page(ListedAgent)),
  Metadata: of('Text by key, of your own.', Metadata),
  Submission: taken('An event as it is sent.', Submission),
  Payload: of(
    'Any JSON object. It is kept and comes back token by token: key order, `1.0`, `12345678901234567890`.',
    FreeObject,
  ),
  Batch: of('Up to 100 events, judged in their order.', Batch),
  Event: of('An event, and what the policies made of it.', Event),
  EventError: of('In the place of an element of a batch that was refused: why.', EventError, withCodes(EventError)),
  ListedEvent: of('An event in a list, with as much of its payload as was asked for.', ListedEvent),
  EventPage: of('A page of events.', page(ListedEvent)),
  BatchResult: of('What became of the elements of a batch.', BatchResult),
  PolicyResult: of('What the policies made of an event.', PolicyResult),
  PolicyMatch: of('A policy that matched; `type` says which form `detail` has.', PolicyMatch, PolicyMatchByType),
  Trace: of('Events that share a `trace_id`, in numbers.', Trace),
  TracePage: of('A page of traces.', page(Trace)),
  TraceWithEvents: of(
    'A trace with a page of its events in time order; `event_count` says how many there are.',
    TraceWithEvents,
  ),
  Policy: of('A policy; `type` says which form `conditions` have.', Policy, PolicyByType),
  PolicyCreate: of('A policy to create; `type` says which form `conditions` have.', PolicyCreate, PolicyCreateByType),
  PolicyPatch: taken(
    'What to change of a policy; at least one field. `type` and `agent_id` are fixed.',
    PolicyPatch,
    PolicyPatchByType,
  ),
  PolicyActivity: of('What a policy did in the last day.', PolicyActivity),
  PolicyPage: of('A page of policies.', page(Policy)),
  PolicyDifference: of('How two texts of a policy differ in one place.', PolicyDifference),
  PolicyRevision: of('What a policy said from one change to the next.', PolicyRevision),
  PolicyRevisionPage: of('A page of revisions of a policy.', page(PolicyRevision)),
  ShadowJudged: of('What one shadow would have made of an event.', ShadowJudged),
  ShadowReport: of('What a shadow would have changed.', ShadowReport),
  BacktestCreate: taken('Which policy to replay over which events.', BacktestCreate),
  TriedPolicy: taken('A policy that need not exist, to be replayed.', TriedPolicy),
  Backtest: of('A backtest, with its result once it is done.', Backtest),
  ListedBacktest: of('A backtest without its result.', ListedBacktest),
  BacktestPolicy: of('The policy that is tried.', BacktestPolicy),
  BacktestProgress: of('How far a backtest is.', BacktestProgress),
  BacktestError: of('Why a backtest failed.', BacktestError),
  BacktestPage: of('A page of backtests.', BacktestPage),
  BacktestResult: of('What a backtest found.', BacktestResult),
  BacktestSample: of('One event whose outcome was looked at again.', BacktestSample),
  OutcomeChange: of('How many events of one outcome would have which.', OutcomeChange),
  PolicyDeclaration: taken('The policies of an owner, all of them.', PolicyDeclaration),
  PlannedPolicy: of('What a declaration makes of one policy.', PlannedPolicy),
  PolicyPlan: of('What a declaration changes.', PolicyPlan),
  PolicyPlanConflict: of('That a plan is not the present one, and the one that is.', PolicyPlanConflict),
  PolicyDraft: taken('A policy that need not exist, to be tried.', PolicyDraft),
  EvaluatedEvent: taken(
    'An event to be judged: one that was recorded, by its id, or one that is made up.',
    EvaluatedEvent,
  ),
  PolicyEvaluation: taken('An event, and the policies to judge it by.', PolicyEvaluation),
  JudgedPolicy: of('What one policy said.', JudgedPolicy),
  PolicyEvaluated: of('What the policies said.', PolicyEvaluated),
  PolicyPreview: of('What a policy would have matched.', PolicyPreview),
  ReadyPolicy: of('A policy that comes with the service.', ReadyPolicy),
  ReadyPolicies: of('The policies that come with the service.', ReadyPolicies),
  ...Object.fromEntries(
    Object.entries(POLICY_COMPONENTS).map(([name, schema]) => [
      name,
      (name.endsWith('PolicyCreate') ? taken : of)(saidOf(schema), schema),
    ]),
  ),
  FieldCondition: of(saidOf(FieldCondition), FieldCondition),
  ConditionScalar: of(saidOf(ConditionScalar), ConditionScalar),
  ConditionHeld: of(saidOf(ConditionHeld), ConditionHeld),
  ConditionUnmet: of(saidOf(ConditionUnmet), ConditionUnmet),
  ConditionOperators: of(saidOf(ConditionOperators), ConditionOperators),
  ShellEntry: of(saidOf(ShellEntry), ShellEntry),
  SqlEntry: of(saidOf(SqlEntry), SqlEntry),
  SequenceStep: of(saidOf(SequenceStep), SequenceStep),
  PayloadSchema: of(saidOf(PayloadSchema), PayloadSchema),
  Alert: of('A rule of who is told of which signals.', Alert),
  AlertConditions: taken('Which of the signals of its kind an alert tells of. Without a key: all.', AlertConditions),
  AlertCreate: taken('An alert to create.', AlertCreate),
  AlertCreated: of('The new alert; for a webhook with its signing secret.', AlertCreated),
  AlertPatch: taken('What to change of an alert; at least one field.', AlertPatch),
  AlertPage: of('A page of alerts.', page(Alert)),
  Hold: of('What is kept whatever its age: the account, an agent or a trace.', Hold),
  HoldCreate: taken('A hold to make.', HoldCreate),
  HoldPage: of('A page of holds.', page(Hold)),
  AccountUsage: of('What the account used, by day and by agent.', AccountUsage),
  UsedSums: of('What some events used together.', UsedSums),
  SavedView: of('A list of the dashboard with its filters, saved under a name.', SavedView),
  ViewCreate: taken('A view to save.', ViewCreate),
  BudgetStates: of('What is left of budgets.', BudgetStates),
  BudgetState: of('What is left of a budget for one scope.', BudgetState),
  BudgetReserved: of('What a budget holds for a call.', BudgetReserved),
  PriceTable: of('The price table of the account.', PriceTable),
  PriceTableChange: taken('A price table to take the place of the present one.', PriceTableChange),
  PriceTableRevision: of('The price table as it was at one of its revisions.', PriceTableRevision),
  Price: of('What a million tokens of a model cost.', Price),
  PriceRates: of('What a million tokens cost in a batch.', PriceRates),
  CostSums: of('What events cost by one of their values, the highest first.', CostSums),
  SavedViewPage: of('A page of saved views.', page(SavedView)),
  Connection: of('A product that sends each prompt and call of a tool to be judged.', Connection),
  ConnectionCreate: taken('A connection to create.', ConnectionCreate),
  ConnectionPatch: taken('What to change of a connection; at least one field.', ConnectionPatch),
  ConnectionPage: of('A page of connections.', page(Connection)),
  Check: of('A service outside that judges texts.', ExternalCheck),
  CheckCreate: taken('A check to create.', CheckCreate),
  CheckPatch: taken('What to change of a check; at least one field.', CheckPatch),
  CheckTrial: taken('A text to ask a check about.', CheckTrial),
  CheckTried: of('What a check said of a text.', CheckTried),
  CheckPage: of('A page of checks.', page(ExternalCheck)),
  Speaks: set(SPEAKS, 'In which form a check is asked.'),
  OnFailure: set(ON_FAILURE, 'What is answered where a request cannot be judged.'),
  ConnectionMode: set(CONNECTION_MODES, 'Whether anything is stopped.'),
  AgentsBy: set(AGENTS_BY, 'What tells the agents of a connection apart.'),
  ViewScreen: set(VIEW_SCREENS, 'A screen of the dashboard that a view can be saved of.'),
  Delivery: of('One notification on its way to one target.', Delivery),
  DeliveryAttempt: of('One attempt to send a notification.', DeliveryAttempt),
  DeliveryPage: of('A page of deliveries.', page(Delivery)),
  Approval: of('The decision that a pending event waits for.', Approval),
  ApprovalDecision: taken('A decision. An approval is decided once.', ApprovalDecision),
  ListedApproval: of('An approval in a list, with its event if that was asked for.', ListedApproval),
  ApprovalPage: of('A page of approvals.', page(ListedApproval)),
  Anomaly: of('Unusual behaviour of an agent.', Anomaly),
  ListedAnomaly: of('An anomaly in a list, with what its event says if that was asked for.', ListedAnomaly),
  AnomalyPage: of('A page of anomalies.', page(ListedAnomaly)),
  SeriesPoint: of('A completion, or a window of time.', SeriesPoint),
  AnomalySeries: of('What was seen around an anomaly.', AnomalySeries),
  AuditLog: of('An entry of the audit log.', AuditLog),
  ListedAuditLog: of('An entry in a list, with what its event says if that was asked for.', ListedAuditLog),
  AuditLogPage: of('A page of the audit log. The one list that is called `logs`.', AuditLogPage),
  OutgoingFeed: of('What is committed, sent to a receiver.', OutgoingFeed),
  OutgoingFeedCreated: of('An outgoing feed, with its secret.', OutgoingFeedCreated),
  OutgoingFeedProgress: of('What became of an outgoing feed so far.', OutgoingFeedProgress),
  OutgoingFeedCreate: taken('An outgoing feed to create.', OutgoingFeedCreate),
  OutgoingFeedPatch: taken('What to change of an outgoing feed; at least one field.', OutgoingFeedPatch),
  OutgoingFeedPage: of('A page of outgoing feeds.', page(OutgoingFeed)),
  FeedPage: of('What was committed behind a place of the feed.', FeedPage),
  FeedItem: of('One row of the feed.', FeedItem),
  AuditVerification: of('What a verification of the audit chain found.', AuditVerification),
  VerificationJob: of('A verification of the audit chain that was ordered, and how far it is.', VerificationJob),
  VerificationOrder: taken('A verification of the audit chain to order.', VerificationOrder),
  AuditCheckpoint: of('Where the audit chains of an account stood, signed.', AuditCheckpoint),
  AuditComparison: taken('A checkpoint to verify the audit chain against.', AuditComparison),
  AuditFault: of('An entry that is not as it was chained.', AuditFault),
  AuditChainHead: of('Where a chain ends.', AuditChainHead),
  ApiKey: of('An API key, without the key itself.', ApiKey),
  ApiKeyCreate: of('An API key to create.', ApiKeyCreate),
  ApiKeyCreated: of('The new API key, with the key itself.', ApiKeyCreated),
  ApiKeyPage: of('A page of API keys.', page(ApiKey)),
  SessionCreate: of('What a browser signs in with.', SessionCreate),
  Session: of('Who calls, by a session or by a key alone.', Session),
  ListedSession: of('A browser that is signed in.', ListedSession),
  SessionPage: of('A page of sessions.', page(ListedSession)),
  Histogram: of('Counts of events over time.', Histogram),
  Facet: of('Counts of events by the values of one field.', Facet),
  Overview: of('What a window of time had, beside the same time of other days.', Overview),
  OverviewWindow: of('A stretch of time.', OverviewWindow),
  OverviewComparison: of('A count, beside the same time of other days.', Compared),
  OverviewTokens: of('Tokens by the values of one field.', TokenCounts),
  Facets: of('Counts of events by the values of their fields.', Facets),
  ServiceStatus: of('What a process says of itself.', ServiceStatus),
  Readiness: of('What a front says of what it needs.', Readiness),
  NotifiedAlert: of('The alert that tells.', NotifiedAlert),
  NotifiedPolicy: of('A policy that matched.', NotifiedPolicy),
  NotifiedApproval: of('The approval that an event waits for.', NotifiedApproval),
  NotifiedEvent: of('The event that a signal follows from, without its payload.', NotifiedEvent),
  NotifiedAnomaly: of('An anomaly in numbers.', NotifiedAnomaly),
  NotifiedSilence: of('The silence of an agent.', NotifiedSilence),
  ...NOTIFICATIONS,
  Error: of('What went wrong. Every error has this body.', ErrorBody),
  ErrorInfo: of('What went wrong, for programs and for people.', ErrorInfo, withCodes(ErrorBody).properties.error),
  ErasureReport: of('How far the erasure of a deleted agent has come.', ErasureReport),
  ErrorDetail: of('One thing that is wrong.', ErrorDetail),
  ExportLogsServiceRequest: of('Log records, as OTLP has them.', ExportLogsServiceRequest),
  ExportLogsServiceResponse: of('What came of log records, as OTLP has it.', ExportLogsServiceResponse),
  ExportMetricsServiceRequest: of('Metrics, as OTLP has them.', ExportMetricsServiceRequest),
  ExportMetricsServiceResponse: of('What came of metrics, as OTLP has it.', ExportMetricsServiceResponse),
  ExportTraceServiceRequest: of('Spans of traces, as OTLP has them.', ExportTraceServiceRequest),
  ExportTraceServiceResponse: of('What came of spans, as OTLP has it.', ExportTraceServiceResponse),
  Hook: taken('A hook of a tool.', Hook),
  HookAnswer: of('What a hook is answered. Each tool reads its own members.', HookAnswer),
  OpaQuery: of('A query, in the form of the Open Policy Agent.', OpaQuery),
  OpaAnswer: of('A decision, in the form of the Open Policy Agent.', OpaAnswer),
  AuthZenQuestion: taken('An access evaluation, in the form of AuthZEN.', AuthZenQuestion),
  AuthZenAnswer: of('A decision, in the form of AuthZEN.', AuthZenAnswer),
  InferenceHook: of('What a product sends that asks before each prompt and call of a tool.', InferenceHook),
  InferenceAnswer: of('The verdict on an inference hook.', InferenceAnswer),
  LiteLlmCheck: taken('What LiteLLM asks of a guardrail.', LiteLlmCheck),
  LiteLlmAnswer: of('What LiteLLM is answered.', LiteLlmAnswer),
  RpcStatus: of('What went wrong, as google.rpc.Status has it.', RpcStatus),
};

/** The table of errors lies beside the service, not beside the forms: here the two meet. */
function withCodes<E extends TProperties>(body: TObject<{ error: TObject<E> }>) {
  const { error } = body.properties;
  const code = about(SETS['ErrorCode']!.schema, 'What went wrong, for programs.');
  const { properties, ...others } = error as TObject<E> & { description?: string };
  const { description } = others;
  const inner = Type.Object({ ...properties, code }, description === undefined ? {} : { description });
  return Type.Object({ error: inner });
}

type Node = Record<string, unknown>;

/** Their values are data: nothing in them is a schema. */
const DATA: ReadonlySet<string> = new Set([
  'enum',
  'const',
  'examples',
  'example',
  'default',
  'required',
  'discriminator',
]);
/** The keywords that describe a schema and do not change what it accepts. */
const ANNOTATIONS: ReadonlySet<string> = new Set(['title', 'description', 'examples', 'default']);

const NAMES = new Map<string, string>();
for (const [name, { schema }] of Object.entries(NAMED)) {
  const key = keyOf(schema as Node);
  if (NAMES.has(key)) throw new Error(`${name} and ${NAMES.get(key)} are one schema`);
  NAMES.set(key, name);
}

let components: Record<string, object> | undefined;

/** The schemas of `components.schemas`, in the order of NAMED. */
export function componentSchemas(): Record<string, object> {
  components ??= Object.fromEntries(Object.entries(NAMED).map(([name, { shown }]) => [name, members(shown as Node)]));
  return components;
}

/** A schema as the description shows it, with a reference in the place of each named one. */
export function describedSchema(schema: TSchema): object {
  return refer(schema) as object;
}

const written = new WeakMap<object, unknown>();

function refer(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(refer);
  if (typeof value !== 'object' || value === null) return value;
  const known = written.get(value);
  if (known !== undefined) return known;
  const node = value as Node;
  const name = mayBeNamed(node) ? NAMES.get(keyOf(node)) : undefined;
  const result = name === undefined ? members(node) : reference(name, node);
  written.set(value, result);
  return result;
}

function reference(name: string, node: Node): Node {
  const own = (NAMED[name]!.schema as Node)['description'];
  const said = node['description'] === undefined || node['description'] === own ? {} : annotationsOf(node);
  return { $ref: `#/components/schemas/${name}`, ...said };
}

function members(node: Node): Node {
  const written = Object.entries(node).map(([key, item]) => [key, DATA.has(key) ? item : refer(item)]);
  const result = Object.fromEntries(written);
  return isSet(node) && node['type'] === undefined ? { type: 'string', ...result } : result;
}

function annotationsOf(node: Node): Node {
  return Object.fromEntries(Object.entries(node).filter(([key]) => ANNOTATIONS.has(key)));
}

function mayBeNamed(node: Node): boolean {
  return isSet(node) || 'properties' in node || Array.isArray(node['anyOf']) || Array.isArray(node['allOf']);
}

function isSet(node: Node): boolean {
  return Array.isArray(node['enum']) && node['enum'].every((one) => typeof one === 'string');
}

/** The key of a schema by what it accepts, without its annotations. */
function keyOf(node: Node): string {
  if (isSet(node)) return `set ${JSON.stringify(node['enum'])}`;
  return JSON.stringify(Object.fromEntries(Object.entries(node).filter(([key]) => !ANNOTATIONS.has(key))));
}
