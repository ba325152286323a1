// Policies that are in force from a moment on (`starts_at`), against the whole service: judged from then on and not
// before, on each front, seen by reads as what they are, kept by revisions, files and a restart.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Api } from '../support/api.ts';
import { startService } from '../support/service.ts';

t.setTimeout(300_000);
const service = await startService(t, { env: { GATEHOUSE_FRONTS: '2' } });
const api = await Api.described(t, service);

const FAR = '2999-01-01T00:00:00.000Z';
const block = (name: string, tool: string) => ({
  ...{ name, type: 'block_action', actions: ['block'], conditions: { tool } },
});
const agent = (await api.post('/v1/agents', { name: 'payer' })).json.id as string;
/** Begins while an event waits that came when it was no longer new (registry/approvals/approval-review.ts). */
const NEW_MS = 6_000;
const stop = (
  await api.post('/v1/policies', { ...block('stop', 'wire'), starts_at: new Date(Date.now() + 30_000).toISOString() })
).json as { updated_at: string; starts_at: string };
const send = async (tool: string) =>
  (await api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload: { tool } })).json;

t.test('events are judged by it from its moment on, and not before', async (t) => {
  await api.post('/v1/policies', { ...block('never yet', 'ls'), starts_at: FAR });
  const startsMs = Date.now() + 4_000;
  const at = new Date(startsMs).toISOString();
  const made = await api.post('/v1/policies', { ...block('from then on', 'rm'), agent_id: agent, starts_at: at });
  t.match(made, { status: 201, json: { starts_at: at, status: 'active', mode: 'enforce' } });
  let blockedAfter = 0;
  for (let allowedBefore = 0; blockedAfter < 20; ) {
    const {
      policy_result: { outcome },
      id,
    } = await send('rm');
    const receivedMs = Date.parse((await api.get(`/v1/agents/${agent}/events/${id}`)).json.received_at);
    if (receivedMs < startsMs) t.equal(outcome, 'allowed', `before: ${receivedMs - startsMs} ms`);
    if (receivedMs >= startsMs + 1_000) t.equal(outcome, 'blocked', `after: ${receivedMs - startsMs} ms`);
    if (receivedMs < startsMs) allowedBefore++;
    else if (receivedMs >= startsMs + 1_000) blockedAfter++;
    if (blockedAfter === 1) t.ok(allowedBefore > 0, `${allowedBefore} came before`);
  }
  t.match(await send('ls'), { policy_result: { outcome: 'allowed' } }, 'another waits still');
});

t.test('reads say that it is not in force yet', async (t) => {
  const { id } = (await api.post('/v1/policies', { ...block('later', 'mv'), starts_at: '2998-12-31T23:30:00-01:30' }))
    .json;
  const evaluated = await api.post('/v1/policies/evaluate', {
    event: { agent_id: agent, type: 'tool_call', payload: { tool: 'mv' } },
  });
  t.match(evaluated.json.policy_result, { outcome: 'allowed' });
  const judged = evaluated.json.judged.find(({ policy_id }: { policy_id: string }) => policy_id === id);
  t.same(judged, { policy_id: id, name: 'later', result: 'not_started', starts_at: '2999-01-01T01:00:00.000Z' });
  const { policies } = (await api.get('/v1/overview')).json;
  t.notOk(
    policies.never_matched.items.some((one: { id: string }) => one.id === id),
    'it could not match yet',
  );
  const all = (await api.get('/v1/policies?status=active')).json.items as { id: string; starts_at?: string }[];
  t.match(
    all.find((one) => one.id === id),
    { starts_at: '2999-01-01T01:00:00.000Z' },
  );
});

t.test('a revision has it, and putting an earlier one back leaves it', async (t) => {
  const { id } = (await api.post('/v1/policies', block('moved', 'cp'))).json;
  t.match(await send('cp'), { policy_result: { outcome: 'blocked' } });
  const moved = await api.patch(`/v1/policies/${id}`, { starts_at: FAR, description: 'Not now.' });
  t.match(moved.json, { revision: 2, starts_at: FAR });
  t.match(await send('cp'), { policy_result: { outcome: 'allowed' } }, 'it waits from now on');
  const { items } = (await api.get(`/v1/policies/${id}/revisions`)).json;
  t.match(
    items[0].differences.find(({ path }: { path: string }) => path === '/starts_at'),
    { after: FAR },
  );
  const restored = await api.post(`/v1/policies/${id}/revisions/1/restore`, {});
  t.match(restored.json, { revision: 3, starts_at: FAR }, 'as whether it is switched on does');
  t.match((await api.patch(`/v1/policies/${id}`, { starts_at: null })).json, { revision: 4 });
  t.match(await send('cp'), { policy_result: { outcome: 'blocked' } });
});

t.test('files declare it, and say it only once', async (t) => {
  const policies = [{ ...block('declared', 'dd'), starts_at: '2999-01-01T02:00:00+02:00' }];
  const plan = (await api.post('/v1/policies/apply', { owner: 'o', policies, dry_run: true })).json;
  t.match(plan.policies[0], { action: 'create' });
  await api.post('/v1/policies/apply', { owner: 'o', policies, hash: plan.hash });
  const again = (await api.post('/v1/policies/apply', { owner: 'o', policies, dry_run: true })).json;
  t.match(again.policies[0], { action: 'unchanged' }, 'the same moment in another zone is the same');
  const sooner = [{ ...policies[0], starts_at: '2998-01-01T00:00:00Z' }];
  const moved = (await api.post('/v1/policies/apply', { owner: 'o', policies: sooner, dry_run: true })).json;
  t.match(moved.policies[0], {
    action: 'update',
    differences: [{ path: '/starts_at', before: FAR, after: '2998-01-01T00:00:00.000Z' }],
  });
  const wrong = [{ ...policies[0], mode: 'shadow' }];
  const refused = await api.post('/v1/policies/apply', { owner: 'o', policies: wrong, dry_run: true });
  t.match(refused, { status: 400, json: { error: { details: [{ path: '/policies/0/starts_at' }] } } });
});

t.test('what is no moment, or for no such policy, is refused at its place', async (t) => {
  const refused = async (body: object, message: RegExp) => {
    const { status, json } = await api.post('/v1/policies', { ...block('refused', 'x'), ...body });
    t.equal(status, 400, JSON.stringify(body));
    t.match(json.error.details, [{ path: '/starts_at', message }]);
  };
  await refused({ starts_at: 'tomorrow' }, /date-time/);
  await refused({ starts_at: '2026-12-01' }, /date-time/);
  await refused({ starts_at: '2026-12-01T00:00:00' }, /date-time/);
  await refused({ starts_at: '2026-02-30T00:00:00Z' }, /date-time/);
  await refused({ starts_at: '9999-12-31T23:59:59-14:00' }, /1970 to 9999/);
  await refused({ starts_at: FAR, mode: 'shadow' }, /a shadow is tried from when it is made/);
  const after = { conditions: { tool: 'b', after: [{ tool: 'a' }], within: '1h', per: 'agent' } };
  await refused({ ...after, type: 'sequence', starts_at: FAR }, /a sequence has to hear of what occurs before/);
  const sequence = (
    await api.post('/v1/policies', { ...block('s', 'x'), ...after, type: 'sequence', actions: ['log'] })
  ).json;
  t.match(await api.patch(`/v1/policies/${sequence.id}`, { starts_at: FAR }), { status: 400 });
  t.match(await api.patch(`/v1/policies/${sequence.id}`, { starts_at: null }), { status: 200 });
});

t.test('what waits for a person is judged again by what has begun meanwhile', async (t) => {
  await api.post('/v1/policies', {
    ...{ name: 'ask', type: 'require_approval', actions: ['block'], conditions: { tool: 'wire' } },
  });
  while (Date.now() < Date.parse(stop.updated_at) + NEW_MS) await sleep(100);
  const event = await send('wire');
  t.match(event, { policy_result: { outcome: 'pending' } }, 'the policy that stops it is older, and not in force');
  while (Date.now() < Date.parse(stop.starts_at) + 100) await sleep(100);
  const [approval] = (await api.get(`/v1/approvals?event_id=${event.id}`)).json.items;
  const decided = await api.post(`/v1/approvals/${approval.id}`, { decision: 'approve' });
  t.match(decided.json, { outcome: 'blocked' });
});
