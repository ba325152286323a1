// What bodies may be, on both HTTP servers: single events, batches and what is created with JSON.
import t, { type Test } from 'tap';
import { Api } from '../support/api.ts';
import { startService } from '../support/service.ts';

let names = 0;
const unique = (what: string) => `${what}-${++names}`;
const event = (more: object = {}) => ({ type: 'custom', payload: { a: 1 }, ...more });

for (const server of ['uws', 'node']) {
  t.test(`bodies, with GATEHOUSE_HTTP_SERVER=${server}`, async (t) => {
    const service = await startService(t, { env: { GATEHOUSE_HTTP_SERVER: server, GATEHOUSE_FRONTS: '1' } });
    const api = new Api(t, service);
    await api.describe();
    const { id } = (await api.post('/v1/agents', { name: unique('agent') })).json as { id: string };
    const one = `/v1/agents/${id}/events`;
    const sent = { api, one, many: `${one}/batch` };
    await nulls(t, sent);
  });
}

type Sent = { api: Api; one: string; many: string };

async function nulls(t: Test, { api, one, many }: Sent): Promise<void> {
  await t.test('null in an optional field is the same as leaving it out', async (t) => {
    const sent = event({ trace_id: null, timestamp: null });
    const single = await api.post(one, sent);
    t.equal(single.status, 201);
    t.notOk('trace_id' in single.json);
    // With a key the other codec reads it.
    const keyed = await api.post(one, sent, { headers: { 'idempotency-key': unique('key') } });
    t.equal(keyed.status, 201);
    t.match(await api.post(many, { events: [sent, event({ trace_id: 7 }), sent] }), {
      status: 200,
      json: { total: 2, results: [{ type: 'custom' }, { error: { code: 'validation_failed' } }, { type: 'custom' }] },
    });
    for (const dots of ['.', '..']) {
      const refused = { error: { code: 'validation_failed' } };
      t.match(await api.post(one, event({ trace_id: dots })), { status: 400, json: refused }, dots);
      t.match(await api.post(many, [event(), event({ trace_id: dots })]), {
        json: { total: 1, results: [{}, { error: { details: [{ path: '/1/trace_id' }] } }] },
      });
    }
    t.match(await api.post(one, event({ type: null })), { json: { error: { details: [{ path: '/type' }] } } });

    const none = { description: null, framework: null, metadata: null };
    const agent = await api.post('/v1/agents', { name: unique('agent'), ...none });
    t.match(agent, { status: 201, json: { metadata: {} } });
    t.notOk('description' in agent.json);
    const at = `/v1/agents/${agent.json.id}`;
    t.match(await api.patch(at, { description: 'mine', status: null }), { json: { status: 'active' } });
    t.match(await api.patch(at, { description: null, name: unique('agent') }), { json: { description: 'mine' } });
    t.match(await api.patch(at, { description: null }), { status: 400 }, 'nothing is left to change');
    const policy = { name: unique('policy'), type: 'block_action', conditions: { 'payload.x': null }, actions: 'log' };
    t.match(await api.post('/v1/policies', { ...policy, severity: null, description: null, status: null }), {
      status: 201,
      json: { severity: null, status: 'active', conditions: { 'payload.x': null } },
    });
    const alert = { name: unique('alert'), trigger: 'agent_down', channel: 'email', target: 'a@example.com' };
    const open = { conditions: { agent_id: null, severity: null }, throttle_seconds: null, status: null };
    const made = await api.post('/v1/alerts', { ...alert, ...open });
    t.match(made, { status: 201, json: { agent_id: null, status: 'active', throttle_seconds: 60 } });
    t.same(made.json.conditions, {}, 'nulls in it are left out, too');
    t.match(await api.patch(`/v1/alerts/${made.json.id}`, { agent_id: id(one), conditions: null }), { status: 200 });
    t.match(
      await api.patch(`/v1/alerts/${made.json.id}`, { agent_id: null }),
      { json: { agent_id: null } },
      'where null has a meaning it keeps it',
    );
    const trial = { event: { agent_id: id(one), id: null, ...event(), trace_id: null }, policies: null };
    t.match(await api.post('/v1/policies/evaluate', trial), { status: 200 });
  });
}

function id(path: string): string {
  return path.split('/')[3]!;
}
