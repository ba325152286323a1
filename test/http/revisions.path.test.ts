// Revisions of policies, against the whole service: raised by each change, shown as ETag and in matches, asked for by
// If-Match, and recorded in the audit log with what was before and after.
import t from 'tap';
import { Api } from '../support/api.ts';
import { ifMatch, newBlock } from '../support/block-policies.ts';
import { startService } from '../support/service.ts';

const service = await startService(t, { env: { GATEHOUSE_FRONTS: '2' } });
const api = await Api.described(t, service);

t.test('a change raises the revision, what changes nothing does not, and the ETag says it', async (t) => {
  const made = await api.post('/v1/policies', newBlock());
  t.match(made, { status: 201, json: { revision: 1 } });
  t.equal(made.headers.get('etag'), '"1"');
  const path = `/v1/policies/${made.json.id}`;
  const changed = await api.patch(path, { severity: 'high' });
  t.match(changed, { status: 200, json: { revision: 2, severity: 'high' } });
  t.equal(changed.headers.get('etag'), '"2"');
  t.match((await api.patch(path, { severity: 'high' })).json, { revision: 2 }, 'nothing changed');
  const read = await api.get(path);
  t.match(read.json, { revision: 2 });
  t.equal(read.headers.get('etag'), '"2"');
  const { items } = (await api.get('/v1/policies')).json;
  t.equal(items.find(({ id }: { id: string }) => id === made.json.id).revision, 2, 'in lists, too');
});

t.test('a match names the revision that decided', async (t) => {
  const { id: agent } = (await api.post('/v1/agents', { name: 'payer' })).json;
  const policy = (await api.post('/v1/policies', newBlock({ conditions: { tool: 'wire' } }))).json;
  const sent = () => api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload: { tool: 'wire', to: 'x' } });
  const first = await api.until(sent, ({ json }) => json.policy_result.matches.length > 0);
  t.match(first.json.policy_result.matches, [{ policy_id: policy.id, revision: 1 }]);
  await api.patch(`/v1/policies/${policy.id}`, { conditions: { tool: 'wire', 'payload.to': 'x' } });
  const second = await api.until(sent, ({ json }) => json.policy_result.matches[0]?.revision === 2);
  const kept = await api.get(`/v1/agents/${agent}/events/${second.json.id}`);
  t.match(kept.json.policy_result.matches, [{ policy_id: policy.id, revision: 2 }], 'and so it is kept');
  const before = await api.get(`/v1/agents/${agent}/events/${first.json.id}`);
  t.match(before.json.policy_result.matches, [{ revision: 1 }], 'what was judged before stays as it was judged');
});

t.test('If-Match: a slower change is refused and has no effect', async (t) => {
  const { id } = (await api.post('/v1/policies', newBlock())).json;
  const path = `/v1/policies/${id}`;
  t.match((await api.patch(path, { severity: 'low' }, ifMatch('"1"'))).json, { revision: 2 });
  const slow = await api.patch(path, { severity: 'critical' }, ifMatch('"1"'));
  t.match(slow, {
    status: 412,
    json: {
      error: { code: 'revision_conflict', details: [{ path: 'If-Match', message: 'the present revision is "2"' }] },
    },
  });
  t.match((await api.get(path)).json, { revision: 2, severity: 'low' });
  t.equal((await api.get(path, ifMatch('"1"'))).status, 412, 'a read, too');
  t.equal((await api.get(path, ifMatch('"2"'))).status, 200);
  t.equal((await api.patch(path, { severity: 'low' }, ifMatch('"1"'))).status, 412, 'also where nothing would change');
  t.match((await api.patch(path, { severity: 'high' }, ifMatch('"1", "2"'))).json, { revision: 3 }, 'one of several');
  t.match((await api.patch(path, { severity: null }, ifMatch('*'))).json, { revision: 4 });
  for (const wrong of ['4', 'W/"4"', '"0"', '"four"', '"4', '', '"4";', '"04"']) {
    const refused = await api.patch(path, { severity: 'low' }, ifMatch(wrong));
    t.match(refused, { status: 400, json: { error: { details: [{ path: 'If-Match' }] } } }, JSON.stringify(wrong));
  }
  t.equal((await api.delete(path, ifMatch('"3"'))).status, 412);
  t.equal((await api.delete(path, ifMatch('"4"'))).status, 204);
  t.equal((await api.patch(path, { severity: 'low' }, ifMatch('"4"'))).status, 404);
  const { id: agent } = (await api.post('/v1/agents', { name: 'no revisions' })).json;
  const unasked = await api.patch(`/v1/agents/${agent}`, { description: 'x' }, ifMatch('"1"'));
  t.match(unasked, { status: 400, json: { error: { details: [{ path: 'If-Match', message: /no revisions/ }] } } });
  t.equal((await api.get(`/v1/agents/${agent}`, ifMatch('"1"'))).status, 200, 'a read goes on');
});

t.test('of two who read the same revision one wins, fifty times', async (t) => {
  const { id } = (await api.post('/v1/policies', newBlock())).json;
  for (let revision = 1; revision <= 50; revision++) {
    const tries = await Promise.all(
      ['a', 'b'].map((who) =>
        api.patch(`/v1/policies/${id}`, { description: `${who}${revision}` }, ifMatch(`"${revision}"`)),
      ),
    );
    t.same(tries.map(({ status }) => status).sort(), [200, 412]);
    const won = tries.find(({ status }) => status === 200)!;
    t.equal((await api.get(`/v1/policies/${id}`)).json.description, won.json.description);
  }
});

t.test('the audit log holds what was before and after, and a restored registry its revisions', async (t) => {
  const conditions = { tool: 'audited', 'payload.amount': { gt: 10 } };
  const { id } = (await api.post('/v1/policies', newBlock({ conditions }))).json;
  await api.patch(`/v1/policies/${id}`, { conditions: { tool: 'audited' }, actions: ['log'] });
  await api.delete(`/v1/policies/${id}`);
  const { logs } = (await api.get(`/v1/audit-logs?resource_id=${id}&order=asc`)).json;
  t.match(logs, [
    { action: 'policy.created', details: { revision: 1, after: { conditions, actions: ['block'] } } },
    {
      action: 'policy.updated',
      details: {
        revision: 2,
        changed: ['conditions', 'actions'],
        before: { conditions, actions: ['block'] },
        after: { conditions: { tool: 'audited' }, actions: ['log'] },
      },
    },
    { action: 'policy.deleted', details: { revision: 3 } },
  ]);
  t.equal(logs.length, 3);
  const { json: alert } = await api.post('/v1/alerts', {
    ...{ name: 'hook', trigger: 'policy_violation', channel: 'webhook', target: 'https://hooks.example.com/geheim' },
  });
  await api.patch(`/v1/alerts/${alert.id}`, {
    target: 'https://hooks.example.com/anders',
    conditions: { severity: 'high' },
  });
  const entries = (await api.get(`/v1/audit-logs?resource_id=${alert.id}`)).json.logs;
  t.match(entries[0].details, { changed: ['target', 'conditions'], after: { conditions: { severity: 'high' } } });
  t.notMatch(JSON.stringify(entries), /geheim|anders|whsec_/, 'no address and no secret');
});
