// The closed sets of the interface: what a field may be, where that is a list.
// Used everywhere. It imports nothing: the dashboard reads it in the browser, where a library of schemas would
// cost more than a screen.
// Invariant: a closed set is written once, here, as a literal array; its type and its JSON Schema follow from it.

export const EVENT_TYPES = ['prompt', 'completion', 'tool_call', 'error', 'custom'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** The frameworks that an agent may name: the contract's literals, then frameworks by the names they go by. */
export const FRAMEWORKS = [
  'provider_a',
  'library_b',
  'custom',
  'openai',
  'openai-agents',
  'anthropic',
  'claude-agent-sdk',
  'claude-code',
  'langchain',
  'langgraph',
  'llamaindex',
  'crewai',
  'autogen',
  'semantic-kernel',
  'pydantic-ai',
  'vercel-ai',
  'google-adk',
  'mastra',
  'smolagents',
  'haystack',
  'dspy',
  'strands',
  'agno',
  'mcp',
] as const;

export const STATUSES = ['active', 'inactive'] as const;
export type Status = (typeof STATUSES)[number];

export const ACCOUNT_STATUSES = ['active', 'suspended'] as const;
export type AccountStatus = (typeof ACCOUNT_STATUSES)[number];

export const SEVERITIES = ['low', 'medium', 'high', 'critical'] as const;
export type Severity = (typeof SEVERITIES)[number];

export const OUTCOMES = ['allowed', 'blocked', 'pending'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export const SCOPES = ['read', 'write', 'admin'] as const;
export type Scope = (typeof SCOPES)[number];

export const PERMISSIONS = ['submit', 'read', 'decide', 'configure'] as const;
export type Permission = (typeof PERMISSIONS)[number];

export const POLICY_TYPES = [
  'block_action',
  'rate_limit',
  'data_filter',
  'require_approval',
  'sequence',
  'external_check',
  'budget',
] as const;
export type PolicyType = (typeof POLICY_TYPES)[number];

export const POLICY_ACTIONS = ['block', 'alert', 'log'] as const;
export type PolicyAction = (typeof POLICY_ACTIONS)[number];

/** Whether a policy judges what agents do, or is only tried beside those that do. */
export const POLICY_MODES = ['enforce', 'shadow'] as const;
export type PolicyMode = (typeof POLICY_MODES)[number];

/** The verdicts that a shadow by itself can give an event. */
export const SHADOW_VERDICTS = ['blocked', 'pending', 'matched', 'not_matched', 'skipped'] as const;
export type ShadowVerdict = (typeof SHADOW_VERDICTS)[number];

/** Why a shadow was not judged on an event. */
export const SHADOW_SKIPS = ['budget', 'counters', 'error'] as const;
export type ShadowSkip = (typeof SHADOW_SKIPS)[number];

/** How a shadow differs from the policy that it copies on an event. */
export const SHADOW_CHANGES = [
  'newly_blocked',
  'no_longer_blocked',
  'newly_pending',
  'no_longer_pending',
  'newly_matched',
  'no_longer_matched',
] as const;
export type ShadowChange = (typeof SHADOW_CHANGES)[number];

/** The actions that make a revision of a policy. */
export const REVISION_ACTIONS = ['created', 'updated', 'deleted'] as const;

/** The actions that a declaration can plan for a policy. */
export const PLANNED_ACTIONS = ['create', 'update', 'replace', 'delete', 'unchanged'] as const;

/** The faults of a service's backups: the last is old, or there was none. */
export const BACKUP_STATES = ['old', 'never'] as const;

/** The results that an evaluation gives each policy. */
export const EVALUATION_RESULTS = ['matched', 'not_matched', 'counted', 'asked', 'not_started'] as const;
export type EvaluationResult = (typeof EVALUATION_RESULTS)[number];

export const BACKTEST_STATUSES = ['waiting', 'running', 'done', 'failed'] as const;

/** The outcomes that a backtest gives an event. */
export const BACKTEST_OUTCOMES = [...OUTCOMES, 'unknown'] as const;

/** Why a backtest cannot say what would have become of an event. */
export const UNKNOWN_REASONS = ['redacted_text', 'redacted_condition', 'past_retention', 'not_asked'] as const;
export type UnknownReason = (typeof UNKNOWN_REASONS)[number];

export const TRIGGERS = [
  'policy_violation',
  'anomaly_detected',
  'agent_down',
  'rate_limit_exceeded',
  'budget_warning',
  'budget_exhausted',
  'check_failing',
] as const;
export type Trigger = (typeof TRIGGERS)[number];

export const CHANNELS = ['email', 'chat_app', 'webhook'] as const;
export type Channel = (typeof CHANNELS)[number];

/** How a mail goes: by an SMTP server, or as a file into the outbox. */
export const MAIL_TRANSPORTS = ['smtp', 'outbox'] as const;
export type MailTransport = (typeof MAIL_TRANSPORTS)[number];

export const ANOMALY_KINDS = ['token_spike', 'error_rate', 'volume_spike', 'blocked_event'] as const;
export type AnomalyKind = (typeof ANOMALY_KINDS)[number];

export const ORDERS = ['asc', 'desc'] as const;

/** The values by which traces are sorted. */
export const TRACE_SORTS = ['started_at', 'duration', 'tokens', 'cost', 'events', 'blocked', 'errors'] as const;
export type TraceSort = (typeof TRACE_SORTS)[number];

/** How much of its payload an event is listed with. */
export const PAYLOAD_MODES = ['full', 'preview', 'none'] as const;
export type PayloadMode = (typeof PAYLOAD_MODES)[number];

export const REASONS = ['policy', 'agent_inactive', 'approval', 'approval_missing'] as const;
export type Reason = (typeof REASONS)[number];

/** By which way events come that are reported after the fact. */
export const EVENT_SOURCES = ['otlp'] as const;

export const APPROVAL_STATUSES = ['pending', 'approved', 'denied', 'expired'] as const;
export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];

export const ON_TIMEOUT = ['deny', 'approve'] as const;

export const DELIVERY_STATUSES = ['pending', 'delivered', 'failed', 'cancelled'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

export const AUDIT_ACTIONS = [
  'agent.registered',
  'agent.updated',
  'agent.deleted',
  'policy.created',
  'policy.updated',
  'policy.deleted',
  'alert.created',
  'alert.updated',
  'alert.deleted',
  'event.submitted',
  'event.blocked',
  'event.pending',
  'approval.approved',
  'approval.denied',
  'approval.expired',
  'api_key.created',
  'api_key.revoked',
  'session.created',
  'session.ended',
  'backtest.created',
  'backtest.deleted',
  'view.created',
  'view.deleted',
  'hold.created',
  'hold.released',
  'connection.created',
  'connection.updated',
  'connection.deleted',
  'check.created',
  'check.updated',
  'check.deleted',
  'outgoing_feed.created',
  'outgoing_feed.updated',
  'outgoing_feed.deleted',
  'prices.updated',
  'account.created',
  'account.updated',
  'account.deleted',
  'registry.recovered',
  'chain.recovered',
  'chain.gap_closed',
] as const;
export type AuditAction = (typeof AUDIT_ACTIONS)[number];

export const RESOURCE_TYPES = [
  'agent',
  'event',
  'policy',
  'alert',
  'api_key',
  'approval',
  'session',
  'backtest',
  'view',
  'hold',
  'connection',
  'check',
  'outgoing_feed',
  'prices',
  'account',
] as const;
export type ResourceType = (typeof RESOURCE_TYPES)[number];

/** The answers of a connection where it cannot judge; and its modes: whether it stops anything at all. */
export const ON_FAILURE = ['deny', 'allow'] as const;
export const CONNECTION_MODES = ['enforce', 'watch'] as const;
/** The names that identify the agents of a connection. */
export const AGENTS_BY = ['application', 'actor'] as const;

/** In which form a check outside is asked (src/checks/formats). */
export const SPEAKS = ['gatehouse', 'litellm_guardrail', 'openai_chat', 'openai_moderation', 'presidio'] as const;
export type Speaks = (typeof SPEAKS)[number];

/** Why a check has said nothing of an event. */
export const CHECK_FAILURES = ['timeout', 'error', 'overload', 'too_large'] as const;
export type CheckFailure = (typeof CHECK_FAILURES)[number];

/** The effects on an event of which a check has said nothing: a policy names one for each way that this comes about. */
export const ON_CHECK_FAILURE = ['match', 'skip', 'pending'] as const;
export type OnCheckFailure = (typeof ON_CHECK_FAILURE)[number];

/** Lists of the dashboard that a view can be saved of. */
export const VIEW_SCREENS = ['events', 'traces', 'anomalies', 'audit'] as const;

/** The topics of the feed, in the order in which a cursor counts them. */
export const FEED_TOPICS = ['audit_log', 'events', 'anomalies', 'approvals', 'deliveries'] as const;
export type FeedTopic = (typeof FEED_TOPICS)[number];

/** In which form rows of an outgoing feed are sent. */
export const FEED_FORMATS = ['json', 'ocsf'] as const;
/** How the rows of a batch are put together. */
export const BATCH_BODIES = ['array', 'lines', 'parquet'] as const;

/** Why an address that a user gave was not reached in time (src/egress). */
export const EGRESS_ERRORS = ['timeout', 'refused', 'reset', 'private_address', 'tls', 'dns'] as const;
/** Why a receiver has not taken a batch of an outgoing feed. */
export const OUTGOING_ERRORS = [...EGRESS_ERRORS, 'status', 'ahead'] as const;
export type OutgoingError = (typeof OUTGOING_ERRORS)[number];

/** How far the verification that an account has ordered is. */
export const JOB_STATUSES = ['waiting', 'running', 'done', 'failed'] as const;

export const FAULT_KINDS = ['changed', 'missing', 'added', 'moved', 'chain_broken', 'head_mismatch'] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

/** Why a budget counts as over though it is not known to be. */
export const BUDGET_UNKNOWN = ['unpriced', 'no_ceiling', 'state_unknown'] as const;

export const DETECTOR_NAMES = [
  'email',
  'phone',
  'credit_card',
  'iban',
  'ssn',
  'ip_address',
  'api_key',
  'jwt',
  'private_key',
] as const;
export type DetectorName = (typeof DETECTOR_NAMES)[number];
