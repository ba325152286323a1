// What keys that are bound to an agent may fill of the bounds of their account, on a real Redis.
// GATEHOUSE_TEST_REDIS_CLUSTER=1 runs it on a Cluster.
import t from 'tap';
import type { PolicyCreate } from '../../schemas/policy.ts';
import { OF_AGENT_MAX, POLICIES_ACTIVE_MAX, SHADOWS_ACTIVE_MAX } from '../../src/common/limits.ts';
import type { PolicyWork } from '../../src/policy/policy-work.ts';
import type { Actor } from '../../src/registry/accounts/principal.ts';
import { Agents } from '../../src/registry/agents.ts';
import { Alerts } from '../../src/registry/alerts/alerts.ts';
import { Policies } from '../../src/registry/policies/policies.ts';
import { PolicyPromotions } from '../../src/registry/policies/policy-promotion.ts';
import { startRedis } from '../support/redis.ts';
import { actor, connectStore, newAccount, refusal } from './harness.ts';

const { address } = await startRedis(t);
const store = await connectStore(t, address);
const { redis, keys } = store;
const notAsked = () => Promise.reject(new Error('not asked'));
const sound: PolicyWork = { check: async () => [], evaluate: notAsked, preview: notAsked };
const policies = new Policies(store, sound);
const agents = new Agents(store);

let names = 0;
const block = (agent: string | null, more: Partial<PolicyCreate> = {}): PolicyCreate => {
  const conditions = { tool: 'x' };
  return { name: `p${++names}`, type: 'block_action', agent_id: agent, conditions, actions: ['log'], ...more };
};
async function newAgent(account: string): Promise<{ id: string; actor: Actor }> {
  const { id } = (await agents.register(account, { name: `a${++names}`, framework: 'custom' }, actor)).agent;
  return { id, actor: { ...actor, boundTo: id } };
}
/** How many of so many, sent at once, are made. */
async function fill(account: string, agent: { id: string; actor: Actor }, more?: Partial<PolicyCreate>, tries = 60) {
  const sent = Array.from({ length: tries }, () => policies.create(account, block(agent.id, more), agent.actor));
  const made = (await Promise.allSettled(sent)).filter(({ status }) => status === 'fulfilled');
  return made.length;
}

t.test('T18: bound keys leave the people of the account room for policies in force', async (t) => {
  const account = newAccount();
  const first = await newAgent(account);
  t.equal(await fill(account, first), OF_AGENT_MAX, 'one agent has its share, however many come at once');
  const one = await refusal(t, policies.create(account, block(first.id), first.actor), 'validation_failed', '/');
  t.match(one.details, [
    { message: /^a key of an agent adds none once there are 50 policies, alerts and keys of this agent$/ },
  ]);

  const second = await newAgent(account);
  t.equal(await fill(account, second), OF_AGENT_MAX, 'and another one has its own');
  for (let agents = 2; agents < 16; agents++) await fill(account, await newAgent(account));
  t.equal(await redis.scard(keys.activePolicies(account)), POLICIES_ACTIVE_MAX * 0.75, 'all of them together');
  const last = await newAgent(account);
  const all = await refusal(t, policies.create(account, block(last.id), last.actor), 'validation_failed', '/status');
  t.match(all.details, [{ message: /once there are 750 of the account's 1000 active policies$/ }]);

  const made = JSON.parse((await policies.create(account, block(null), actor)).answer) as { id: string };
  t.equal((await policies.get(account, made.id))?.status, 'active', 'an admin makes one');
  await policies.create(account, block(first.id), actor);
  t.pass('also of an agent that has its share');

  const off = JSON.parse((await policies.create(account, block(last.id, { status: 'inactive' }), last.actor)).answer);
  const on = (by: Actor) => policies.patch(account, off.id, { body: { status: 'active' } }, by);
  await refusal(t, on(last.actor), 'validation_failed', '/status');
  t.match(await on(actor), { status: 'active' }, 'to put one in force goes by who does it');
});

t.test('so it is with shadows, with what a promotion puts in force, and with alerts', async (t) => {
  const account = newAccount();
  const [one, other] = [await newAgent(account), await newAgent(account)];
  const shadow = { mode: 'shadow' } as const;
  t.equal(await fill(account, one, shadow), SHADOWS_ACTIVE_MAX * 0.75);
  await refusal(t, policies.create(account, block(other.id, shadow), other.actor), 'validation_failed', '/status');
  const tried = JSON.parse((await policies.create(account, block(other.id, shadow), actor)).answer) as { id: string };
  for (let agents = 0; agents < 16; agents++) await fill(account, await newAgent(account));
  const promotions = new PolicyPromotions(store, sound);
  const promote = (by: Actor) => promotions.promote(account, tried.id, undefined, by);
  await refusal(t, promote(other.actor), 'validation_failed', '/status');
  t.match(await promote(actor), { mode: 'enforce' });

  const alerts = new Alerts({ ...store, allowedHosts: [], mailTransport: undefined } as never);
  const alert = (by: Actor) => {
    const target = { trigger: 'agent_down', channel: 'email', target: 'a@example.com' } as const;
    return alerts.create(account, { name: `alert ${++names}`, conditions: { agent_id: one.id }, ...target }, by);
  };
  const sent = await Promise.allSettled(Array.from({ length: 60 }, () => alert(one.actor)));
  const left = OF_AGENT_MAX - SHADOWS_ACTIVE_MAX * 0.75;
  t.equal(sent.filter(({ status }) => status === 'fulfilled').length, left, 'in the share of the agent');
  await alert(actor);
  t.pass('another key adds one');
});
