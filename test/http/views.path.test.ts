// Saved views against the whole service: made, listed, deleted, under one name each, as many as may be, audited, given
// again under an Idempotency-Key, kept to their account, and refused to keys that may not.
import t from 'tap';
import { VIEWS_MAX } from '../../src/common/limits.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService(t);
const api = new Api(t, service);
const view = (name: string, more = {}) => ({ name, screen: 'events', query: 'outcome=blocked&range=24h', ...more });

t.test('a view is saved, listed and deleted, and the audit log has it', async (t) => {
  const made = await api.post('/v1/views', view('blocked today'));
  t.equal(made.status, 201);
  t.match(made.json, { ...view('blocked today'), id: /^viw_[0-9a-z]{26}$/, created_at: /Z$/ });
  const other = await api.post('/v1/views', view('all traces', { screen: 'traces', query: '' }));
  t.equal(other.status, 201, 'a whole list is one, too');
  t.same((await api.get('/v1/views')).json.items, [other.json, made.json], 'newest first');
  t.match((await api.get('/v1/views?limit=1')).json, { total: 2, items: [{ id: other.json.id }] });
  t.match(await api.post('/v1/views', view('all traces')), { status: 409, json: { error: { code: 'name_taken' } } });

  t.equal((await api.delete(`/v1/views/${other.json.id}`)).status, 204);
  t.equal((await api.delete(`/v1/views/${other.json.id}`)).status, 404);
  t.equal((await api.delete('/v1/views/alr_01jd3fq5w0c8m2v7x4k9n6t1rz')).status, 404);
  t.same((await api.get('/v1/views')).json.items, [made.json]);
  t.equal((await api.post('/v1/views', view('all traces'))).status, 201, 'its name is free again');
  const { json: log } = await api.get('/v1/audit-logs?resource_type=view');
  t.match(log.logs, [
    { action: 'view.created', details: { name: 'all traces' } },
    { action: 'view.deleted', resource_id: other.json.id, details: { name: 'all traces' } },
    { action: 'view.created', resource_id: other.json.id, details: { screen: 'traces', query: '' } },
    { action: 'view.created', resource_id: made.json.id, details: { query: 'outcome=blocked&range=24h' } },
  ]);
});

t.test('what is no view is refused by its field', async (t) => {
  for (const [more, path] of [
    [{ screen: 'settings' }, '/screen'],
    [{ query: `q=${'x'.repeat(1_999)}` }, '/query'],
    [{ query: 'q=a b' }, '/query'],
    [{ query: 'q=a#b' }, '/query'],
    [{ name: '' }, '/name'],
    [{ agent_id: null }, '/agent_id'],
  ] as const) {
    const { status, json } = await api.post('/v1/views', view('refused', more));
    t.match({ status, path: json.error.details[0].path }, { status: 400, path }, JSON.stringify(more).slice(0, 40));
  }
  t.equal((await api.post('/v1/views', view('long', { query: `q=${'x'.repeat(1_998)}` }))).status, 201);
});

t.test('a request that is sent again makes one view', async (t) => {
  const headers = { 'idempotency-key': 'a view' };
  const first = await api.post('/v1/views', view('once'), { headers });
  const again = await api.post('/v1/views', view('once'), { headers });
  t.equal(again.status, 201);
  t.equal(again.text, first.text);
  const conflict = await api.post('/v1/views', view('another'), { headers });
  t.match(conflict, { status: 409, json: { error: { code: 'idempotency_conflict' } } });
});

t.test('keys see and change what their scope says', async (t) => {
  const agent = (await api.post('/v1/agents', { name: 'bound' })).json.id as string;
  const made = (await api.post('/v1/views', view('of the account'))).json.id as string;
  const withKey = async (body: object) => {
    const { key } = (await api.post('/v1/api-keys', { label: 'one', ...body })).json;
    return { key: key as string };
  };
  const reader = await withKey({ scope: 'read' });
  t.equal((await api.get('/v1/views', reader)).status, 200);
  t.equal((await api.post('/v1/views', view('by a reader'), reader)).status, 403);
  t.equal((await api.delete(`/v1/views/${made}`, reader)).status, 403);
  const bound = await withKey({ scope: 'write', agent_id: agent });
  t.equal((await api.get('/v1/views', bound)).status, 403, 'views name what is of other agents');
  t.equal((await api.post('/v1/views', view('by its agent'), bound)).status, 403);
  const stranger = { key: await keyOfNewAccount(service, 'strangers') };
  t.equal((await api.get('/v1/views', stranger)).json.total, 0, 'of another account');
  t.equal((await api.delete(`/v1/views/${made}`, stranger)).status, 404);
});

t.test('an account has so many, and no more', async (t) => {
  const { total } = (await api.get('/v1/views?limit=1')).json;
  for (let n = total; n < VIEWS_MAX; n++) await api.post('/v1/views', view(`view ${n}`));
  const over = await api.post('/v1/views', view('one too many'));
  t.match(over, { status: 400, json: { error: { details: [{ message: /at most 100 views/ }] } } });
  t.equal((await api.get('/v1/views?limit=1')).json.total, VIEWS_MAX);
});
