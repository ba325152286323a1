// Rows of the feed as events of OCSF: what the schema requires of the classes that are used is there, and the row
// itself is kept as it was. The lists are those of github.com/ocsf/ocsf-schema at v1.5.0.
import t from 'tap';
import { ocsfText } from '../../pipelines/outgoing/ocsf.ts';
import type { FeedItem } from '../../src/audit/feed.ts';

const BASE = ['activity_id', 'category_uid', 'class_uid', 'type_uid', 'severity_id', 'time', 'metadata'];
const REQUIRED: Record<number, string[]> = {
  6003: [...BASE, 'actor', 'api', 'src_endpoint'],
  2004: [...BASE, 'finding_info'],
};
/** The attributes that are used, and what their activities may be. */
const KNOWN = new Set([
  ...[...BASE, 'activity_name', 'status_id', 'status_detail', 'raw_data', 'resources', 'is_alert', 'finding_info'],
  ...['actor', 'api', 'src_endpoint', 'http_request', 'action_id', 'action', 'disposition_id'],
]);
const ACTIVITIES: Record<number, number[]> = { 6003: [0, 1, 2, 3, 4, 99], 2004: [0, 1, 2, 3, 99] };

const at = '2026-11-20T17:28:00.123Z';
const entry = {
  ...{ id: 'log_1', action: 'policy.updated', actor: 'key:key_1', resource_type: 'policy', resource_id: 'pol_1' },
  details: { request_id: 'req-1', ip: '198.51.100.7', user_agent: 'curl/8' },
  created_at: at,
};
const event = (outcome: string, matches: object[] = []) =>
  `{"id":"evt_1","agent_id":"agt_1","type":"tool_call","payload":{"n":1.0,"big":12345678901234567890},"trace_id":null,` +
  `"timestamp":"${at}","received_at":"${at}","policy_result":${JSON.stringify({ outcome, reason: 'policy', matches })}}`;
const anomaly = {
  ...{ id: 'ano_1', agent_id: 'agt_1', event_id: 'evt_1', policy_id: null, kind: 'token_spike', severity: 'high' },
  ...{ message: 'far more tokens than usual', timestamp: at, created_at: at },
};
const ROWS: [FeedItem['topic'], string][] = [
  ['audit_log', JSON.stringify(entry)],
  ['audit_log', JSON.stringify({ ...entry, action: 'event.blocked', details: {} })],
  ['events', event('allowed')],
  ['events', event('blocked', [{ severity: 'low' }, { severity: 'critical' }])],
  ['events', event('pending')],
  ['anomalies', JSON.stringify(anomaly)],
  [
    'approvals',
    JSON.stringify({ id: 'apr_1', status: 'denied', agent_id: 'agt_1', event_id: 'evt_1', created_at: at }),
  ],
  [
    'deliveries',
    JSON.stringify({ id: 'dlv_1', status: 'delivered', alert_id: 'alr_1', severity: 'high', updated_at: at }),
  ],
  ['gap', JSON.stringify({ chain: 'e:3', from: 7, to: 9 })],
];
const events = ROWS.map(([topic, text]) => JSON.parse(ocsfText({ topic, text }, 'acc_1')));

t.test('each has what its class requires, and nothing that the class does not know', async (t) => {
  for (const [i, one] of events.entries()) {
    const [topic, text] = ROWS[i]!;
    t.same(
      REQUIRED[one.class_uid]!.filter((name) => one[name] === undefined),
      [],
      `${topic}: what is required`,
    );
    t.same(
      Object.keys(one).filter((name) => !KNOWN.has(name)),
      [],
      `${topic}: what is known`,
    );
    t.equal(one.type_uid, one.class_uid * 100 + one.activity_id);
    t.ok(ACTIVITIES[one.class_uid]!.includes(one.activity_id));
    t.equal(one.activity_id === 99, one.activity_name !== undefined, 'another activity says its name');
    t.match(one.metadata, { version: '1.5.0', product: { vendor_name: 'Gatehouse' }, tenant_uid: 'acc_1' });
    if (one.class_uid === 6003) {
      t.ok(Object.keys(one.actor).length > 0 && Object.keys(one.src_endpoint).length > 0);
      t.type(one.api.operation, 'string');
    } else t.type(one.finding_info.uid, 'string');
    t.equal(one.raw_data, text, 'the row, as it is');
  }
});

t.test('what they say', async (t) => {
  const [changed, logged, allowed, blocked, pending, found, decided, delivered, gap] = events;
  t.match(changed, {
    ...{ activity_id: 3, time: Date.parse(at), severity_id: 1, metadata: { uid: 'log_1', log_name: 'audit_log' } },
    ...{ actor: { user: { uid: 'key:key_1' } }, api: { operation: 'policy.updated', request: { uid: 'req-1' } } },
    ...{ src_endpoint: { ip: '198.51.100.7' }, http_request: { user_agent: 'curl/8' } },
    resources: [{ type: 'policy', uid: 'pol_1' }],
  });
  t.match(logged, { action_id: 2, disposition_id: 2, metadata: { profiles: ['security_control'] } });
  t.match(allowed, { activity_id: 1, action_id: 1, disposition_id: 1, severity_id: 1, actor: { app_uid: 'agt_1' } });
  t.match(blocked, { action_id: 2, disposition_id: 2, severity_id: 5, status_detail: 'policy' });
  t.match(pending, { action_id: 99, action: 'Pending', disposition_id: 14 });
  t.match(found, { class_uid: 2004, severity_id: 4, finding_info: { uid: 'ano_1', types: ['anomaly.token_spike'] } });
  t.match(decided, { activity_id: 3, api: { operation: 'approval.denied' } });
  t.match(delivered, { severity_id: 4, api: { operation: 'delivery.delivered' }, resources: [{ uid: 'dlv_1' }] });
  t.match(gap, { class_uid: 2004, severity_id: 4, finding_info: { uid: 'e:3 7' } });
});
