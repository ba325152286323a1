// Deliveries as callers meet them, over the whole service with receivers by https: test notifications, what a list
// shows and filters, sending a failed one again, what an agent's deletion takes along, and accounts apart.
import t from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import { pendingDeliveries } from '../../clickhouse/queries/list-deliveries.ts';
import type { Delivery } from '../../schemas/delivery.ts';
import type { Signal } from '../../schemas/signal.ts';
import { mintId } from '../../src/common/ids.ts';
import { connectCommands } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import { appendSignals } from '../../src/streams/signals.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { authorityFile } from '../support/certificate.ts';
import { startReceiver } from '../support/https-receiver.ts';
import { pause, until } from '../support/raw-http.ts';
import { opened } from '../support/redis.ts';
import { startService } from '../support/service.ts';

const hook = await startReceiver(t);
const service = await startService(t, {
  env: {
    GATEHOUSE_EGRESS_ALLOWED_HOSTS: `localhost:${hook.port}`,
    NODE_EXTRA_CA_CERTS: await authorityFile(t),
  },
});
const api = await Api.described(t, service);
let names = 0;

async function newAlert(more: object = {}): Promise<{ id: string }> {
  const body = {
    name: `alert ${++names}`,
    trigger: 'policy_violation',
    channel: 'webhook',
    target: `${hook.url}/secret-path`,
  };
  return (await api.post('/v1/alerts', { ...body, ...more })).json;
}

t.test('a test notification is shown at once, and then as delivered', async (t) => {
  const alert = await newAlert({ status: 'inactive' });
  const made = await api.post(`/v1/alerts/${alert.id}/test`, undefined);
  t.match(made, {
    status: 201,
    json: { alert_id: alert.id, status: 'pending', test: true, target: hook.url, attempts: [] },
  });
  t.notMatch(made.text, 'secret-path');
  const listed = await api.get(`/v1/deliveries?alert_id=${alert.id}`);
  t.match(listed, { status: 200, json: { total: 1, limit: 50, offset: 0, items: [{ id: made.json.id }] } });
  await until(async () => (await api.get(`/v1/deliveries/${made.json.id}`)).json.status === 'delivered');
  const { json } = await api.get(`/v1/deliveries/${made.json.id}`);
  t.match(json, { next_attempt_at: null, attempts: [{ status_code: 200, error: null }] });
  t.equal(hook.received.filter(({ headers }) => headers['webhook-id'] === made.json.id).length, 1);
  await api.delete(`/v1/alerts/${alert.id}`);
  t.equal((await api.post(`/v1/alerts/${alert.id}/test`, undefined)).status, 404);
});

t.test('filters and pages', async (t) => {
  const alert = await newAlert();
  const ids: string[] = [];
  for (let i = 0; i < 3; i++) ids.unshift((await api.post(`/v1/alerts/${alert.id}/test`, undefined)).json.id);
  const of = async (query: string) => (await api.get(`/v1/deliveries?alert_id=${alert.id}${query}`)).json;
  t.same(
    (await of('')).items.map(({ id }: { id: string }) => id),
    ids,
    'newest first',
  );
  t.match(await of('&limit=1&offset=1'), { total: 3, items: [{ id: ids[1] }] });
  await until(async () => (await of('&status=delivered')).total === 3);
  t.equal((await of('&status=failed')).total, 0);
  t.equal((await of('&channel=email')).total, 0);
  t.equal((await of('&status=failed&status=delivered')).total, 3);
  t.equal((await of(`&agent_id=${mintId('agent', 0)}`)).total, 0);
  const changed: number[] = (await of('')).items.map(({ updated_at: at }: Delivery) => Date.parse(at));
  const iso = (ms: number) => new Date(ms).toISOString();
  t.equal((await of(`&from=${iso(Math.min(...changed))}&to=${iso(Math.max(...changed))}`)).total, 3);
  t.equal((await of(`&from=${iso(Math.max(...changed) + 1)}`)).total, 0);
  t.equal((await of(`&to=${iso(Math.min(...changed) - 1)}`)).total, 0);
  for (const query of ['limit=0', 'limit=501', 'status=lost', 'channel=fax', 'from=today', 'nonsense=1'])
    t.equal((await api.get(`/v1/deliveries?${query}`)).status, 400, query);
});

t.test('a failed delivery is sent again under its id; what was delivered is not', async (t) => {
  hook.answer = (_request, response) => void response.writeHead(410).end();
  const alert = await newAlert();
  const { id } = (await api.post(`/v1/alerts/${alert.id}/test`, undefined)).json;
  await until(async () => (await api.get(`/v1/deliveries/${id}`)).json.status === 'failed');
  t.match((await api.get(`/v1/alerts/${alert.id}`)).json, { status: 'inactive' }, '410 switched the alert off');
  const audit = (await api.get(`/v1/audit-logs?resource_id=${alert.id}&action=alert.updated`)).json.logs;
  t.match(audit, [{ actor: 'system', details: { reason: 'target_gone', delivery_id: id } }]);
  hook.answer = (_request, response) => void response.end();
  const again = await api.post(`/v1/deliveries/${id}/redeliver`, undefined);
  t.match(again, { status: 200, json: { id, status: 'pending', attempts: [{ status_code: 410 }] } });
  await until(async () => (await api.get(`/v1/deliveries/${id}`)).json.status === 'delivered');
  const { json } = await api.get(`/v1/deliveries/${id}`);
  t.equal(json.attempts.length, 2);
  t.equal(hook.received.filter(({ headers }) => headers['webhook-id'] === id).length, 2);
  t.match(await api.post(`/v1/deliveries/${id}/redeliver`, undefined), {
    status: 409,
    json: { error: { code: 'not_redeliverable' } },
  });
});

t.test('unknown deliveries, and those of others, are 404', async (t) => {
  const alert = await newAlert();
  const { id } = (await api.post(`/v1/alerts/${alert.id}/test`, undefined)).json;
  const other = api.as(await keyOfNewAccount(service, 'another'));
  for (const path of [`/v1/deliveries/${id}`, `/v1/deliveries/${mintId('delivery', 0)}`, '/v1/deliveries/dlv_x']) {
    t.equal((await other.get(path)).status, 404, path);
    t.equal((await other.post(`${path}/redeliver`, undefined)).status, 404, path);
  }
  t.equal((await other.post(`/v1/alerts/${alert.id}/test`, undefined)).status, 404);
  t.equal((await other.get('/v1/deliveries')).json.total, 0);
});

t.test('signals of the signal streams are notified, and one that was appended twice is notified once', async (t) => {
  const alert = await newAlert({ trigger: 'anomaly_detected', conditions: { severity: 'medium' } });
  const account = (await api.get('/v1/account')).json.id as string;
  const { redisUrl, redisCluster } = await service.addresses();
  const redis = await opened(t, connectCommands({ url: redisUrl, cluster: redisCluster }));
  const keys = new Keys({ prefix: 'gh-', partitions: 8 });
  const signal = (id: string, severity: Signal['severity']): Signal => ({
    ...{ id: `anomaly_detected/${id}`, trigger: 'anomaly_detected', account, agent: mintId('agent', 1), severity },
    ...{ at: Date.now(), message: `Anomaly ${id}.` },
  });
  const [low, high] = [signal('low', 'low'), signal('high', 'high')];
  for (let i = 0; i < 3; i++) await appendSignals(redis, keys, [low, high]);
  const told = () => hook.received.filter(({ body }) => body.includes(alert.id));
  await until(() => told().length > 0);
  await appendSignals(redis, keys, [signal('last', 'critical')]);
  await until(() => told().some(({ body }) => body.includes('Anomaly last')));
  t.equal(told().length, 2);
  t.match((await api.get(`/v1/deliveries?alert_id=${alert.id}`)).json, { total: 2 });
});

t.test("an agent's deletion takes its deliveries along, and sends nothing more about it", async (t) => {
  const agent = (await api.post('/v1/agents', { name: 'short-lived' })).json;
  const kept = (await api.post('/v1/agents', { name: 'kept' })).json;
  // Failures of others would open the host's breaker.
  for (const { id } of (await api.get('/v1/alerts')).json.items) await api.delete(`/v1/alerts/${id}`);
  const alert = await newAlert();
  await api.post('/v1/policies', {
    name: 'no pay',
    type: 'block_action',
    conditions: { tool: 'pay' },
    actions: ['block'],
  });
  // Not before the deletion is through, also on a slow machine.
  hook.answer = (_request, response) => void response.writeHead(500, { 'retry-after': '12' }).end();
  const pay = { type: 'tool_call', payload: { tool: 'pay' } };
  for (const { id } of [agent, kept]) {
    const blocked = await api.submitUntil('blocked', id, pay);
    t.equal(blocked.json.policy_result.outcome, 'blocked');
  }
  const total = async (id: string) => (await api.get(`/v1/deliveries?agent_id=${id}&alert_id=${alert.id}`)).json.total;
  await until(async () => (await total(agent.id)) === 1 && (await total(kept.id)) === 1);
  t.match((await api.get(`/v1/deliveries?agent_id=${kept.id}&alert_id=${alert.id}`)).json.items, [
    { alert_id: alert.id, trigger: 'policy_violation', severity: 'high', status: 'pending', test: false, count: 1 },
  ]);
  const { clickhouseUrl: url, clickhouseDatabase: database } = await service.addresses();
  const clickhouse = new ClickHouse({ url, database, queryTimeoutSeconds: 60 });
  t.teardown(() => clickhouse.close());
  const waiting = [];
  for await (const { delivery, signal } of pendingDeliveries(clickhouse)) waiting.push([delivery.status, signal.agent]);
  t.same(
    waiting.sort(),
    [agent.id, kept.id].sort().map((id) => ['pending', id]),
    'what a lost queue is made of again',
  );
  t.equal((await api.delete(`/v1/agents/${agent.id}`)).status, 204);
  t.equal(await total(agent.id), 0, 'gone with the answer');
  t.equal(await total(kept.id), 1);
  const told = () => hook.received.filter(({ body }) => body.includes(agent.id)).length;
  const [ofDeleted, ofKept] = [told(), hook.received.filter(({ body }) => body.includes(kept.id)).length];
  // The first retry comes after 12 s.
  await until(() => hook.received.filter(({ body }) => body.includes(kept.id)).length > ofKept);
  await pause(2_000);
  t.equal(told(), ofDeleted, 'its own retry is not sent');
  t.equal(await total(agent.id), 0);
});
