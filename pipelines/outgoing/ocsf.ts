// Rows of the feed as events of OCSF, the Open Cybersecurity Schema Framework, for outgoing feeds (docs/feed.md). The
// source: github.com/ocsf/ocsf-schema at v1.5.0, events/application/api_activity.json (class 6003) and
// events/findings/detection_finding.json (2004). This file is the one place that knows their names and numbers.
//   audit log, events, approvals, deliveries   API Activity, with the profile security_control for what was decided
//   anomalies, gaps of the audit chain         Detection Finding
// Invariant: `raw_data` is the row as the feed has it, text of its own, so nothing that a user sent is lost or changed.
import type { Severity } from '../../schemas/closed-sets.ts';
import type { FeedItem } from '../../src/audit/feed.ts';
import { timeOf } from './row-time.ts';

const OCSF_VERSION = '1.5.0';
const API_ACTIVITY = { category_uid: 6, class_uid: 6003 } as const;
const DETECTION_FINDING = { category_uid: 2, class_uid: 2004 } as const;

const ACTIVITY = { create: 1, update: 3, delete: 4, other: 99 } as const;
/** The activity by the second half of an action; others are changes. */
const ACTIVITY_OF: Readonly<Record<string, keyof typeof ACTIVITY>> = {
  created: 'create',
  registered: 'create',
  submitted: 'create',
  deleted: 'delete',
  revoked: 'delete',
  ended: 'delete',
  blocked: 'other',
  pending: 'other',
};
const SEVERITY_ID: Readonly<Record<Severity, number>> = { low: 2, medium: 3, high: 4, critical: 5 };
const INFORMATIONAL = 1;
/** action_id and disposition_id of the profile security_control. */
const DECIDED = {
  allowed: { action_id: 1, disposition_id: 1 },
  blocked: { action_id: 2, disposition_id: 2 },
  pending: { action_id: 99, action: 'Pending', disposition_id: 14 },
} as const;

type Row = Record<string, unknown>;
type Told = { activity: keyof typeof ACTIVITY; operation: string; severity: number; more: object };

/** `account`: whose feed it is. */
export function ocsfText({ topic, text }: FeedItem, account: string): string {
  const row = JSON.parse(text) as Row;
  const isFinding = topic === 'anomalies' || topic === 'gap';
  const { activity, operation, severity, more } = isFinding ? findingOf(topic, row) : toldOf(topic, row);
  const { class_uid, category_uid } = isFinding ? DETECTION_FINDING : API_ACTIVITY;
  const activity_id = ACTIVITY[activity];
  return JSON.stringify({
    ...{ activity_id, ...(activity === 'other' ? { activity_name: operation } : {}), category_uid, class_uid },
    ...{ type_uid: class_uid * 100 + activity_id, severity_id: severity, status_id: 1, time: timeOf(row) },
    metadata: {
      version: OCSF_VERSION,
      product: { name: 'Gatehouse', vendor_name: 'Gatehouse' },
      ...{ uid: textOf(row['id']), event_code: operation, log_name: topic, tenant_uid: account },
      ...('action_id' in more ? { profiles: ['security_control'] } : {}),
    },
    ...more,
    raw_data: text,
  });
}

function toldOf(topic: FeedItem['topic'], row: Row): Told {
  if (topic === 'audit_log') return entryOf(row);
  if (topic === 'events') return eventOf(row);
  const isApproval = topic === 'approvals';
  const operation = `${isApproval ? 'approval' : 'delivery'}.${textOf(row['status'])}`;
  return {
    activity: row['status'] === 'pending' ? 'create' : 'update',
    operation,
    severity: severityOf(row['severity']),
    more: calledBy({
      ...{ operation, actor: textOf(row[isApproval ? 'decided_by' : 'alert_id']) ?? 'system' },
      resources: resourcesOf([
        [isApproval ? 'approval' : 'delivery', row['id']],
        ['agent', row['agent_id']],
        ['event', row['event_id']],
      ]),
    }),
  };
}

function entryOf(row: Row): Told {
  const operation = textOf(row['action'])!;
  const details = (row['details'] ?? {}) as Row;
  const decided = { 'event.blocked': DECIDED.blocked, 'event.pending': DECIDED.pending }[operation];
  return {
    activity: ACTIVITY_OF[operation.slice(operation.lastIndexOf('.') + 1)] ?? 'update',
    operation,
    severity: INFORMATIONAL,
    more: {
      ...calledBy({
        ...{ operation, actor: textOf(row['actor'])!, request: textOf(details['request_id']) },
        ...{ ip: textOf(details['ip']), userAgent: textOf(details['user_agent']) },
        resources: resourcesOf([[textOf(row['resource_type'])!, row['resource_id']]]),
      }),
      ...decided,
    },
  };
}

function eventOf(row: Row): Told {
  const operation = textOf(row['type'])!;
  const {
    outcome,
    reason,
    matches = [],
  } = (row['policy_result'] ?? {}) as {
    outcome?: keyof typeof DECIDED;
    reason?: string | null;
    matches?: { severity?: string }[];
  };
  const agent = textOf(row['agent_id'])!;
  const called = calledBy({ operation, actor: agent, resources: resourcesOf([['event', row['id']]]) });
  return {
    activity: 'create',
    operation,
    severity: Math.max(INFORMATIONAL, ...matches.map(({ severity }) => severityOf(severity))),
    more: {
      ...called,
      actor: { app_uid: agent },
      ...(outcome === undefined ? {} : { ...DECIDED[outcome], ...(reason ? { status_detail: reason } : {}) }),
    },
  };
}

function findingOf(topic: FeedItem['topic'], row: Row): Told {
  const isGap = topic === 'gap';
  const operation = isGap ? 'chain.gap' : `anomaly.${textOf(row['kind'])}`;
  const title = isGap ? `Entries of the audit chain are missing: ${JSON.stringify(row)}` : textOf(row['message']);
  return {
    activity: 'create',
    operation,
    severity: isGap ? SEVERITY_ID.high : severityOf(row['severity']),
    more: {
      is_alert: true,
      finding_info: {
        uid: textOf(row['id']) ?? `${textOf(row['chain'])} ${String(row['from'])}`,
        ...{ title, types: [operation], created_time: timeOf(row) },
      },
      resources: resourcesOf([
        ['agent', row['agent_id']],
        ['event', row['event_id']],
      ]),
    },
  };
}

type CallBy = {
  operation: string;
  actor: string;
  request?: string | undefined;
  ip?: string | undefined;
  userAgent?: string | undefined;
  resources: object[];
};

function calledBy({ operation, actor, request, ip, userAgent, resources }: CallBy): object {
  return {
    actor: { user: { uid: actor } },
    api: { operation, ...(request === undefined ? {} : { request: { uid: request } }) },
    src_endpoint: ip === undefined ? { svc_name: 'gatehouse' } : { ip },
    ...(userAgent === undefined ? {} : { http_request: { user_agent: userAgent } }),
    resources,
  };
}

function resourcesOf(named: readonly [type: string, id: unknown][]): object[] {
  return named.flatMap(([type, id]) => (typeof id === 'string' ? [{ type, uid: id }] : []));
}

function severityOf(severity: unknown): number {
  return SEVERITY_ID[severity as Severity] ?? INFORMATIONAL;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
