// The shapes of the interface, from the very schemas that the service checks by. Types alone: nothing of them reaches
// the browser.
import type { Static } from 'typebox';
import type { ListedAgent } from '../../schemas/agent.ts';
import type { AlertCreated } from '../../schemas/alert.ts';
import type { ListedAnomaly as AnomalyInList, AnomalySeries } from '../../schemas/anomaly.ts';
import type { ListedApproval } from '../../schemas/approval.ts';
import type { AuditLog } from '../../schemas/audit-log.ts';
import type { AuditVerification } from '../../schemas/audit-verification.ts';
import type { ListedBacktest, Backtest as WholeBacktest } from '../../schemas/backtest.ts';
import type { Event, ListedEvent } from '../../schemas/event.ts';
import type { Facets, Histogram } from '../../schemas/event-counts.ts';
import type { Policy, PolicyRevision as RevisionOfPolicy } from '../../schemas/policy.ts';
import type { PolicyPreview } from '../../schemas/policy-preview.ts';
import type { ReadyPolicy as ReadyPolicyOfFile } from '../../schemas/ready-policy.ts';
import type { ListedSession, Session } from '../../schemas/session.ts';
import type { Difference } from './differences.ts';
import type { RawJson } from './json.ts';

export type { Account } from '../../schemas/account.ts';
export type { Alert } from '../../schemas/alert.ts';
export type { Anomaly } from '../../schemas/anomaly.ts';
export type { ApiKey, ApiKeyCreated } from '../../schemas/api-key.ts';
export type { Approval } from '../../schemas/approval.ts';
export type { BacktestResult, BacktestSample, OutcomeChange } from '../../schemas/backtest.ts';
export type { Connection } from '../../schemas/connection.ts';
export type { Delivery } from '../../schemas/delivery.ts';
export type { PolicyMatch, ShadowJudged, Trace } from '../../schemas/event.ts';
export type { CheckTried, ExternalCheck } from '../../schemas/external-check.ts';
export type { ConditionHeld, ConditionUnmet } from '../../schemas/match-detail.ts';
export type { Compared, Overview } from '../../schemas/overview.ts';
export type { Policy } from '../../schemas/policy.ts';
export type { PolicyEvaluated as Evaluated } from '../../schemas/policy-evaluation.ts';
export type { ShadowCounts, ShadowReport } from '../../schemas/shadow-report.ts';
export type { SavedView } from '../../schemas/view.ts';

type Raw<T> = Omit<T, 'payload'> & { payload: RawJson };

/** With its payload as text, token by token as it was sent. */
export type WholeEvent = Raw<Static<typeof Event>>;
export type EventRow = Omit<Static<typeof ListedEvent>, 'payload'>;
export type ReadyPolicy = Omit<ReadyPolicyOfFile, 'policy'> & { policy: RawJson };
export type PolicyPreviewed = Omit<Static<typeof PolicyPreview>, 'first'> & { first: EventRow[] };
export type ApprovalRow = Omit<Static<typeof ListedApproval>, 'event'> & {
  event?: (WholeEvent & { summary: string }) | null;
};
export type Agent = Static<typeof ListedAgent>;
export type Series = Static<typeof AnomalySeries>;
export type NewAlert = AlertCreated;
export type Verification = Static<typeof AuditVerification>;
export type EventFacets = Static<typeof Facets>;
export type EventHistogram = Static<typeof Histogram>;
export type SignedIn = Static<typeof Session>;
export type BrowserSession = Static<typeof ListedSession>;

export type { AuditLog };
/** With its details as text. */
export type AuditEntry = Omit<AuditLog, 'details'> & { details: RawJson };
export type ListedEntry = AuditEntry & { summary?: string | null };
export type ListedAnomaly = Static<typeof AnomalyInList>;
/** With its conditions as text, number by number as they were written (core/policies.ts). */
export type WholePolicy = Omit<Policy, 'conditions'> & { conditions: RawJson };
export type PolicyRevision = Omit<RevisionOfPolicy, 'policy' | 'differences'> & {
  policy: WholePolicy | null;
  differences: Difference[];
};

type Tried<T> = Omit<T, 'policy'> & { policy: RawJson };
/** With the policy that is tried as text. */
export type Backtest = Tried<WholeBacktest>;
export type BacktestRow = Tried<ListedBacktest>;

/** A page of a list. */
export type Page<T> = { items: T[]; total: number; limit: number; offset: number; next_cursor: string | null };
