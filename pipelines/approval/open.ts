// Opens the approvals of pending events (from the alert pipeline: event streams, group `alert`).
// Everything in an approval comes from the event's summary, so opening it again writes the same.
// Idempotent: an approval that Redis knows, pending or decided, is left alone. Redis forgets decisions after an hour,
// so of events half that old ClickHouse is asked as well; nothing is forgotten before it is there (expiry.ts).
// An event whose agent is deleted opens nothing. Whatever this throws is tried again by the drain.
import type { ClickHouse } from '../../clickhouse/client.ts';
import { decidedApprovals } from '../../clickhouse/queries/list-approvals.ts';
import type { Approval } from '../../schemas/approval.ts';
import type { EventSummary } from '../../schemas/entry.ts';
import { isoTime } from '../../schemas/time.ts';
import { APPROVAL_KEPT_MS, APPROVALS_AT_ONCE } from '../../src/common/limits.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import { Approvals, type ApprovalsOptions } from '../../src/registry/approvals/approvals.ts';

type OpenOptions = ApprovalsOptions & {
  clickhouse: ClickHouse;
  metrics: Pick<Metrics, 'inc'>;
};

/** A decision is younger than its event; half of the time is left for clocks that disagree. */
const SURE_MS = APPROVAL_KEPT_MS / 2;

export async function openApprovals(options: OpenOptions, events: readonly EventSummary[]): Promise<void> {
  const approvals = new Approvals(options);
  const sureMs = (options.now ?? Date.now)() - SURE_MS;
  for (const account of new Set(events.map((event) => event.account))) {
    const own = events.filter((event) => event.account === account);
    const recent = own.filter(({ receivedAt }) => receivedAt > sureMs).map(approvalOf);
    const old = own.filter(({ receivedAt }) => receivedAt <= sureMs).map(approvalOf);
    const all = [...recent, ...(await undecided(options, approvals, { account, old }))];
    const { opened, overflowed } = await approvals.open(account, all);
    if (opened > overflowed)
      options.metrics.inc('gatehouse_approvals_total', { result: 'opened' }, opened - overflowed);
    if (overflowed > 0) options.metrics.inc('gatehouse_approvals_total', { result: 'overflowed' }, overflowed);
  }
}

/** Redis first, ClickHouse after: what Redis has just forgotten is there. */
async function undecided(
  { clickhouse }: OpenOptions,
  approvals: Approvals,
  { account, old }: { account: string; old: readonly Approval[] },
): Promise<Approval[]> {
  const left: Approval[] = [];
  for (let i = 0; i < old.length; i += APPROVALS_AT_ONCE) {
    const unknown = await approvals.unknown(account, old.slice(i, i + APPROVALS_AT_ONCE));
    const found = await decidedApprovals(clickhouse, account, { ids: unknown.map(({ id }) => id) });
    const decided = new Set(found.map(({ id }) => id));
    left.push(...unknown.filter(({ id }) => !decided.has(id)));
  }
  return left;
}

function approvalOf(event: EventSummary): Approval {
  const { timeoutSeconds, onTimeout } = event.approval!;
  return {
    id: event.approvalId!,
    agent_id: event.agent,
    event_id: event.id,
    policy_id: event.policyId ?? '',
    policy_name: event.matches?.find(({ policy_id }) => policy_id === event.policyId)?.name ?? '',
    status: 'pending',
    outcome: 'pending',
    on_timeout: onTimeout,
    created_at: isoTime(event.receivedAt),
    expires_at: isoTime(event.receivedAt + timeoutSeconds * 1000),
    decided_at: null,
    decided_by: null,
    reason: null,
    blocked_by: null,
    comment: null,
  };
}
