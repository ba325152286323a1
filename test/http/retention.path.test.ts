// Retention and legal holds as callers meet them, against the whole service: what an account may set, what it sees from
// then on, and that what is held stays.
import t from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { encodeStored, plainEvent } from '../support/clickhouse.ts';
import { startService } from '../support/service.ts';

const DAY_MS = 86_400_000;

const service = await startService(t, { env: { GATEHOUSE_RETENTION_DAYS: '200', GATEHOUSE_RETENTION_MIN_DAYS: '7' } });
const api = await Api.described(t, service);

t.test('an account keeps for as long as its admins say, within what the operator allows', async (t) => {
  const byDefault = { prompt: 200, completion: 200, tool_call: 200, error: 200, custom: 200 };
  t.match((await api.get('/v1/account')).json, {
    retention: null,
    retention_in_force: { days: 200, days_by_type: byDefault, least_days: 7, most_days: 200 },
  });
  const set = await api.patch('/v1/account', { retention: { days: 90, days_by_type: { prompt: 30 } } });
  t.match(set, {
    status: 200,
    json: {
      retention: { days: 90, days_by_type: { prompt: 30 } },
      retention_in_force: { days: 90, days_by_type: { prompt: 30, error: 90 } },
    },
  });
  const refused = [
    [{ retention: { days: 201 } }, '/retention/days'],
    [{ retention: { days_by_type: { prompt: 6 } } }, '/retention/days_by_type/prompt'],
    [{ retention: { days: 0 } }, '/retention'],
    [{ retention: { days_by_type: { thought: 30 } } }, '/retention'],
    [{}, '/'],
  ] as const;
  for (const [body, path] of refused) {
    const { status, json } = await api.patch('/v1/account', body);
    t.match({ status, code: json.error.code }, { status: 400, code: 'validation_failed' }, JSON.stringify(body));
    t.ok(json.error.details[0].path.startsWith(path), json.error.details[0].path);
  }
  t.match((await api.get('/v1/audit-logs?action=account.updated')).json.logs[0].details, {
    changed: ['retention'],
    before: { retention: null },
    after: { retention: { days: 90, days_by_type: { prompt: 30 } } },
  });
  t.match((await api.patch('/v1/account', { retention: null })).json, { retention: null });
});

t.test('a shorter retention is in force at once; what is held is read until it is released', async (t) => {
  const key = { key: await keyOfNewAccount(service, 'held') };
  const { id } = (await api.get('/v1/account', key)).json;
  const agent = (await api.post('/v1/agents', { name: 'of old' }, key)).json.id as string;
  const { clickhouseUrl: url, clickhouseDatabase: database } = await service.addresses();
  const clickhouse = new ClickHouse({ url, database, queryTimeoutSeconds: 60 });
  t.teardown(() => clickhouse.close());
  const received_at = Date.now() - 60 * DAY_MS;
  const old = plainEvent({ account_id: id, agent_id: agent, received_at, trace_id: 'an old trace' });
  await clickhouse.insertEvents([encodeStored(old)], old.id);
  const total = async () => (await api.get('/v1/events', key)).json.total as number;
  const single = async () => (await api.get(`/v1/agents/${agent}/events/${old.id}`, key)).status;
  t.same([await total(), await single()], [1, 200]);
  const hold = await api.post('/v1/holds', { reason: 'a case', agent_id: agent }, key);
  t.match(hold, { status: 201, json: { reason: 'a case', agent_id: agent, trace_id: null, created_by: /^key:/ } });
  t.equal((await api.patch('/v1/account', { retention: { days: 30 } }, key)).status, 200);
  t.same([await total(), await single()], [1, 200], 'it is held');
  const refused = await api.delete(`/v1/agents/${agent}`, key);
  t.match(refused, { status: 409, json: { error: { code: 'on_hold', message: new RegExp(hold.json.id) } } });
  t.match((await api.get('/v1/holds', key)).json, { items: [hold.json], total: 1 });
  t.equal((await api.delete(`/v1/holds/${hold.json.id}`, key)).status, 204);
  t.equal((await api.delete(`/v1/holds/${hold.json.id}`, key)).status, 404, 'twice');
  await api.until(
    () => api.get('/v1/events', key),
    ({ json }) => json.total === 0,
  );
  t.equal(await total(), 0, 'released, it goes by its age');
  t.equal(await single(), 404);
  t.equal((await api.get('/v1/traces/an%20old%20trace', key)).status, 404);
  const logs = (await api.get('/v1/audit-logs?resource_type=hold', key)).json.logs;
  t.match(logs, [
    { action: 'hold.released', resource_id: hold.json.id, details: { agent_id: agent, reason: 'a case' } },
    { action: 'hold.created', resource_id: hold.json.id, details: { agent_id: agent, reason: 'a case' } },
  ]);
  t.equal((await api.delete(`/v1/agents/${agent}`, key)).status, 204);
});

t.test('a hold names the account, an agent that is there, or a trace', async (t) => {
  const agent = (await api.post('/v1/agents', { name: 'here' })).json.id as string;
  const refused = [
    [{ reason: 'a', agent_id: agent, trace_id: 't' }, '/trace_id'],
    [{ reason: 'a', agent_id: `${agent.slice(0, -1)}!` }, '/agent_id'],
    [{ reason: 'a', agent_id: 'agt_00000000000000000000000000' }, '/agent_id'],
    [{ agent_id: agent }, '/'],
  ] as const;
  for (const [body, path] of refused) {
    const { status, json } = await api.post('/v1/holds', body);
    t.match({ status, path: json.error.details[0].path }, { status: 400, path: new RegExp(`^${path}`) });
  }
  const trace = (await api.post('/v1/holds', { reason: 'a', trace_id: "it's \\ a `trace`" })).json;
  t.match(await api.delete(`/v1/agents/${agent}`), { status: 409 }, 'an agent may be in the trace');
  t.equal((await api.get('/v1/events')).status, 200, 'whatever is in its name');
  t.equal((await api.delete(`/v1/holds/${trace.id}`)).status, 204);
  const whole = (await api.post('/v1/holds', { reason: 'a' })).json;
  t.match(await api.delete(`/v1/agents/${agent}`), { status: 409 });
  t.equal((await api.delete(`/v1/holds/${whole.id}`)).status, 204);
  t.equal((await api.delete(`/v1/agents/${agent}`)).status, 204);
});
