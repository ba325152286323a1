// Decision points under an Idempotency-Key, against the whole service with two fronts: a retry gets what it got and
// leaves no second event, and a permission is given again only while it would be given now.
import t, { type Test } from 'tap';
import type { Approval } from '../../schemas/approval.ts';
import { DECISION_REPEATED_MS } from '../../src/common/limits.ts';
import { makeCommands, makeKeys } from '../../src/composition/clients.ts';
import { keptVerdicts, readVerdicts } from '../../src/ingest/kept-verdicts.ts';
import { readConfig } from '../../src/process/config.ts';
import { type Answer, Api } from '../support/api.ts';
import { opened } from '../support/redis.ts';
import { startService } from '../support/service.ts';

const service = await startService(t, { env: { GATEHOUSE_FRONTS: '2' } });
const api = await Api.described(t, service);
const { account_id: account } = (await api.get('/v1/session')).json;
const { redisUrl, redisCluster } = await service.addresses();
const config = readConfig({ GATEHOUSE_REDIS_URL: redisUrl, GATEHOUSE_REDIS_CLUSTER: String(redisCluster) });
const redis = await opened(t, makeCommands(config));
const keys = makeKeys(config);

/** Each point asked about the same thing: a call, or a text that goes to a model. */
const POINTS = {
  claude: {
    path: '/v1/hooks/claude-code',
    body: { hook_event_name: 'PreToolUse', session_id: 's', tool_name: 'pay', tool_input: { to: 'a@example.com' } },
    isAllowed: ({ json }: Answer) => JSON.stringify(json) === '{}',
  },
  opa: {
    path: '/v1/data/gatehouse/decision',
    body: { input: { tool: 'pay', args: { to: 'a@example.com' } } },
    isAllowed: ({ json }: Answer) => json.result.allow === true && json.result.decision === 'allow',
  },
  litellm: {
    path: '/beta/litellm_basic_guardrail_api',
    body: { texts: ['pay', 'a@example.com'], input_type: 'request', model: 'm' },
    isAllowed: ({ json }: Answer) => json.action === 'NONE',
  },
};
type Point = (typeof POINTS)[keyof typeof POINTS];

let made = 0;
/** Something with an agent of its own, and a key that is asked under again and again. */
async function callerOf({ path, body, isAllowed }: Point, more: { wait?: number; body?: object } = {}) {
  const name = `agent-${++made}`;
  const agent = (await api.post('/v1/agents', { name })).json.id as string;
  const key = `key-${made}`;
  const ask = async (): Promise<Answer> => {
    const answer = await api.post(`${path}?agent=${name}&wait=${more.wait ?? 30}`, more.body ?? body, {
      headers: { 'idempotency-key': key },
    });
    if (answer.status !== 200) throw new Error(answer.text);
    return answer;
  };
  const events = async () => (await api.get(`/v1/agents/${agent}/events`)).json.total as number;
  const policy = async (type: string, conditions: object, actions = ['block']) => {
    const asked = { name: `p-${++made}`, type, conditions, actions, agent_id: agent };
    const { status, json, text } = await api.post('/v1/policies', asked);
    if (status !== 201) throw new Error(text);
    return json.id as string;
  };
  return { agent, name, key, ask, events, policy, isAllowed };
}
type Repeated = Awaited<ReturnType<typeof callerOf>>;

async function isDenied(t: Test, { ask, events, isAllowed }: Repeated, why: RegExp): Promise<void> {
  for (let i = 0; i < 4; i++) {
    const answer = await ask();
    t.notOk(isAllowed(answer), answer.text);
    t.match(answer.text, why);
  }
  t.equal(await events(), 1, 'recorded once');
}

/** Its approval, once it waits. */
async function pendingOf(agent: string): Promise<string> {
  const list = () => api.get(`/v1/approvals?status=pending&agent_id=${agent}`);
  return (await api.until(list, ({ json }) => json.total > 0)).json.items[0].id;
}

for (const [name, point] of Object.entries(POINTS)) {
  t.test(`${name}: a retry is answered as the first time`, async (t) => {
    const one = await callerOf(point);
    const first = await one.ask();
    t.ok(one.isAllowed(first), first.text);
    for (let i = 0; i < 4; i++) t.equal((await one.ask()).text, first.text);
    await one.policy('block_action', { tool: 'something else' });
    await one.policy('data_filter', { detectors: ['api_key'], redact: true }, ['log']);
    await one.policy('require_approval', {}, ['log']);
    for (let i = 0; i < 4; i++) t.equal((await one.ask()).text, first.text, 'policies that change nothing of it');
    t.equal(await one.events(), 1);
  });

  t.test(`${name}: not once the agent is switched off`, async (t) => {
    const one = await callerOf(point);
    t.ok(one.isAllowed(await one.ask()));
    await api.patch(`/v1/agents/${one.agent}`, { status: 'inactive' });
    await isDenied(t, one, /the agent is switched off/);
    await api.patch(`/v1/agents/${one.agent}`, { status: 'active' });
    t.ok(one.isAllowed(await one.ask()), 'what holds now');
  });

  for (const [what, type, conditions, actions] of [
    ['blocks it', 'block_action', {}, ['block']],
    ['wants an approval', 'require_approval', { timeout: '1h' }, ['alert']],
    ['filters it', 'data_filter', { detectors: ['email'] }, ['block']],
    ['redacts it', 'data_filter', { detectors: ['email'], redact: true }, ['log']],
  ] as const)
    t.test(`${name}: not once a policy ${what}`, async (t) => {
      const one = await callerOf(point);
      t.ok(one.isAllowed(await one.ask()));
      const id = await one.policy(type, conditions, [...actions]);
      await isDenied(t, one, /Blocked by a policy that was made since/);
      await api.delete(`/v1/policies/${id}`);
      t.ok(one.isAllowed(await one.ask()), 'what holds now');
    });

  t.test(`${name}: not minutes later`, async (t) => {
    const one = await callerOf(point);
    t.ok(one.isAllowed(await one.ask()));
    const partition = keys.partitionOf(account, one.agent);
    const record = keys.idempotency(partition, account, one.key);
    const [state, fingerprint, ...rest] = (await redis.get(record))!.split(':');
    const [verdict] = readVerdicts(rest.join(':')) as unknown as [{ receivedAt: number }];
    const aged = (byMs: number) =>
      redis.set(
        record,
        `${state}:${fingerprint}:${keptVerdicts([{ ...verdict, receivedAt: verdict.receivedAt - byMs } as never])}`,
        'KEEPTTL',
      );
    await aged(DECISION_REPEATED_MS - 60_000);
    t.ok(one.isAllowed(await one.ask()), 'a retry');
    await aged(DECISION_REPEATED_MS + 1_000);
    await isDenied(t, one, /allowed more than 5 minutes ago under the same Idempotency-Key/);
  });

  t.test(`${name}: one approval is for one call`, async (t) => {
    const one = await callerOf(point);
    const asks = await one.policy('require_approval', { timeout: '1h' }, ['alert']);
    await pause1s();
    const first = one.ask();
    const approval = await pendingOf(one.agent);
    t.equal((await api.post(`/v1/approvals/${approval}`, { decision: 'approve' })).status, 200);
    t.ok(one.isAllowed(await first));
    t.ok(one.isAllowed(await one.ask()), 'a retry of the call');
    await api.patch(`/v1/agents/${one.agent}`, { status: 'inactive' });
    await isDenied(t, one, /the agent is switched off/);
    await api.patch(`/v1/agents/${one.agent}`, { status: 'active' });
    await api.patch(`/v1/policies/${asks}`, { conditions: { timeout: '2h' } });
    await isDenied(t, one, /Blocked by a policy that was made since/);
    await api.patch(`/v1/policies/${asks}`, { status: 'inactive' });
    t.ok(one.isAllowed(await one.ask()));
    const text = (await redis.hget(keys.decidedApprovals(account), approval))!;
    const aged = JSON.parse(text) as Approval;
    aged.decided_at = new Date(Date.parse(aged.decided_at!) - DECISION_REPEATED_MS - 1_000).toISOString();
    await redis.hset(keys.decidedApprovals(account), approval, JSON.stringify(aged));
    await isDenied(t, one, /allowed more than 5 minutes ago under the same Idempotency-Key/);
  });
}

t.test('an approval that comes after the wait is for those who come back within minutes', async (t) => {
  const one = await callerOf(POINTS.opa, { wait: 0 });
  await one.policy('require_approval', { timeout: '1h' }, ['alert']);
  await pause1s();
  t.match((await one.ask()).json.result, { allow: false, reason: /is pending/ });
  const approval = await pendingOf(one.agent);
  await api.post(`/v1/approvals/${approval}`, { decision: 'approve' });
  t.ok(one.isAllowed(await one.ask()));
  t.equal(await one.events(), 1);
});

t.test('what was made while it was waited for counts, too', async (t) => {
  const one = await callerOf(POINTS.opa);
  await one.policy('require_approval', { timeout: '1h' }, ['alert']);
  await pause1s();
  const first = one.ask();
  const approval = await pendingOf(one.agent);
  await one.policy('data_filter', { detectors: ['email'], redact: true }, ['log']);
  await api.post(`/v1/approvals/${approval}`, { decision: 'approve' });
  t.match((await first).json.result, { allow: false, reason: /Blocked by a policy that was made since/ });
});

t.test('a large question, which is judged apart', async (t) => {
  const input = { tool: 'pay', args: { text: 'word '.repeat(150_000) } };
  const one = await callerOf(POINTS.opa, { body: { input } });
  t.ok(one.isAllowed(await one.ask()));
  t.ok(one.isAllowed(await one.ask()));
  await api.patch(`/v1/agents/${one.agent}`, { status: 'inactive' });
  await isDenied(t, one, /the agent is switched off/);
});

t.test('a key is of one point: no event and no other point answers for it', async (t) => {
  const one = await callerOf(POINTS.opa);
  const keyed = { headers: { 'idempotency-key': one.key } };
  t.ok(one.isAllowed(await one.ask()));
  const event = { type: 'tool_call', payload: { tool: 'pay', arguments: { to: 'a@example.com' } } };
  t.equal((await api.post(`/v1/agents/${one.agent}/events`, event, keyed)).status, 409);
  const { path } = POINTS.claude;
  const same = { hook_event_name: 'PreToolUse', tool_name: 'pay', tool_input: { to: 'a@example.com' } };
  t.equal((await api.post(`${path}?agent=${one.name}`, same, keyed)).status, 409);

  const other = await callerOf(POINTS.opa);
  const kept = { headers: { 'idempotency-key': other.key } };
  t.equal((await api.post(`/v1/agents/${other.agent}/events`, event, kept)).status, 201);
  t.equal((await api.post(`${POINTS.opa.path}?agent=${other.name}`, POINTS.opa.body, kept)).status, 409);
});

t.test('an event that is sent again is a record: byte for byte, whatever holds by then', async (t) => {
  const one = await callerOf(POINTS.opa);
  const event = { type: 'tool_call', payload: { tool: 'pay' } };
  const send = () => api.post(`/v1/agents/${one.agent}/events`, event, { headers: { 'idempotency-key': one.key } });
  const { text } = await send();
  await one.policy('block_action', {});
  await api.patch(`/v1/agents/${one.agent}`, { status: 'inactive' });
  t.equal((await send()).text, text);
});

/** A policy is in force on both fronts. */
function pause1s(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1_000));
}
