// Declared policies on a real Redis: what a plan says is what is done, in one commit or not at all; nothing of another
// owner is touched; of two who apply the same plan one wins. GATEHOUSE_TEST_REDIS_CLUSTER=1 runs it on a Cluster.
import t from 'tap';
import type { Policy, PolicyCreate } from '../../schemas/policy.ts';
import type { PolicyDeclaration, PolicyPlan } from '../../schemas/policy-plan.ts';
import { POLICIES_ACTIVE_MAX, POLICIES_MAX } from '../../src/common/limits.ts';
import { Agents } from '../../src/registry/agents.ts';
import { ExternalChecks } from '../../src/registry/external-checks.ts';
import { Policies } from '../../src/registry/policies/policies.ts';
import { PolicyDeclarations } from '../../src/registry/policies/policy-declaration.ts';
import { startRedis } from '../support/redis.ts';
import { actor, connectStore, journalOf, newAccount, refusal } from './harness.ts';

const { address } = await startRedis(t);
const store = await connectStore(t, address);
const other = await connectStore(t, address, store.keys);
const policies = new Policies(store);
const declarations = new PolicyDeclarations(store);
const block = (name: string, more: Partial<PolicyCreate> = {}): PolicyCreate => {
  return { name, type: 'block_action', conditions: { tool: 'x' }, actions: ['block'], ...more };
};

/** By name. */
async function all(account: string): Promise<Policy[]> {
  const { items } = await policies.list(account, { limit: 1_000, offset: 0 });
  return items.sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function planOf(account: string, declared: PolicyCreate[], owner = 'team'): Promise<PolicyPlan> {
  return (await declarations.apply(account, { owner, policies: declared, dry_run: true }, actor)).plan;
}

/** Plans, and applies just that. */
async function apply(account: string, declared: PolicyCreate[], owner = 'team'): Promise<PolicyPlan> {
  const { hash } = await planOf(account, declared, owner);
  const { plan, isStale } = await declarations.apply(account, { owner, policies: declared, hash }, actor);
  t.notOk(isStale);
  t.ok(plan.applied);
  return plan;
}

const actionsOf = ({ policies: planned }: PolicyPlan) => planned.map(({ name, action }) => `${name} ${action}`);

t.test('a plan says what differs, and applied it is in force, in one change', async (t) => {
  const account = newAccount();
  const first = [block('a', { conditions: { tool: 'x', n: { gt: 1, lt: 9 } } }), block('b'), block('c')];
  t.same(actionsOf(await planOf(account, first)), ['a create', 'b create', 'c create']);
  t.same(await all(account), [], 'a plan changes nothing');
  await apply(account, first);
  const [a, b, c] = (await all(account)) as [Policy, Policy, Policy];
  t.match(a, { revision: 1, owner: 'team', applied_revision: 1, status: 'active', severity: null, agent_id: null });
  t.equal((await journalOf(store, account)).length, 1, 'one commit');

  const second = [
    block('a', { conditions: { n: { gt: 2, lt: 9 }, tool: 'x' }, description: 'why' }),
    block('c', { type: 'require_approval' }),
    block('d', { status: 'inactive', severity: 'low' }),
  ];
  const plan = await planOf(account, second);
  t.match(plan.policies, [
    {
      ...{ action: 'update', name: 'a', policy_id: a.id, revision: 1, drifted: false },
      differences: [
        { path: '/conditions/n/gt', before: 1, after: 2 },
        { path: '/description', after: 'why' },
      ],
    },
    {
      ...{ action: 'replace', name: 'c', policy_id: c.id },
      differences: [{ path: '/type', before: 'block_action', after: 'require_approval' }],
    },
    { action: 'create', name: 'd', policy_id: null, revision: null },
    { action: 'delete', name: 'b', policy_id: b.id },
  ]);
  t.same(plan, await planOf(account, second), 'the same plan, the same hash');
  await apply(account, second);
  const [a2, c2, d, ...more] = (await all(account)) as [Policy, Policy, Policy];
  t.same(more, []);
  t.match(a2, { id: a.id, created_at: a.created_at, revision: 2, applied_revision: 2, description: 'why' });
  t.match(c2, { name: 'c', type: 'require_approval', revision: 1 });
  t.not(c2.id, c.id);
  t.match(d, { name: 'd', status: 'inactive', severity: 'low' });
  t.same(
    await store.redis.smembers(store.keys.activePolicies(account)).then((ids) => ids.sort()),
    [a.id, c2.id].sort(),
  );
  t.same(await store.redis.hgetall(store.keys.policyNames(account)), { a: a.id, c: c2.id, d: d.id });
  const journal = await journalOf(store, account);
  t.equal(journal.length, 2);
  t.same(
    journal[1]!.audit.map(({ action, details }) => [action, details['revision'], details['applied_by']]),
    [
      ['policy.updated', 2, 'team'],
      ['policy.deleted', 2, 'team'],
      ['policy.created', 1, 'team'],
      ['policy.created', 1, 'team'],
      ['policy.deleted', 2, 'team'],
    ],
  );
  t.match(journal[1]!.audit[0]!.details, { before: { description: null }, after: { description: 'why' } });

  t.same(actionsOf(await apply(account, second)), ['a unchanged', 'c unchanged', 'd unchanged']);
  t.equal((await journalOf(store, account)).length, 2, 'nothing to do makes no change');
  t.same(actionsOf(await apply(account, [])), ['a delete', 'c delete', 'd delete']);
  t.same(await all(account), []);
});

t.test('policies of another owner are never touched, one of none is taken over, and the plan says so', async (t) => {
  const account = newAccount();
  await apply(account, [block('a'), block('b')], 'one');
  const hand = JSON.parse((await policies.create(account, block('by hand'), actor)).answer) as Policy;
  const untouched = (await all(account)).slice(0, 2);
  await apply(account, [block('x')], 'two');
  await apply(account, [], 'two');
  t.same((await all(account)).slice(0, 2), untouched);
  const taken = { owner: 'two', policies: [block('z'), block('b')], dry_run: true };
  const error = await refusal(t, declarations.apply(account, taken, actor), 'name_taken', '/policies/1/name');
  t.match(error.details, [{ message: 'is the name of a policy of the owner "one"' }]);
  t.equal((await all(account)).length, 3);
  const plan = await apply(account, [block('by hand')], 'two');
  t.match(plan.policies, [{ action: 'update', policy_id: hand.id, differences: [{ path: '/owner', after: 'two' }] }]);
  await policies.patch(account, hand.id, { body: { owner: 'one' } }, actor);
  t.same(actionsOf(await planOf(account, [block('a')], 'one')), ['a unchanged', 'b delete', 'by hand delete']);
  await policies.patch(account, hand.id, { body: { owner: null } }, actor);
  t.notOk('owner' in (await policies.get(account, hand.id))!);
  t.same(actionsOf(await planOf(account, [], 'one')), ['a delete', 'b delete']);
});

t.test('what was changed by hand since is drift, and is undone', async (t) => {
  const account = newAccount();
  const declared = [block('a'), block('b')];
  await apply(account, declared);
  const [a, b] = (await all(account)) as [Policy, Policy];
  await policies.patch(account, a.id, { body: { severity: 'high' } }, actor);
  await policies.patch(account, b.id, { body: { severity: 'high' } }, actor);
  await policies.patch(account, b.id, { body: { severity: null } }, actor);
  const plan = await apply(account, declared);
  t.match(plan.policies, [
    { action: 'update', drifted: true, revision: 2, differences: [{ path: '/severity', before: 'high', after: null }] },
    { action: 'unchanged', drifted: false, revision: 3 },
  ]);
  t.match(await policies.get(account, a.id), { revision: 3, applied_revision: 3, severity: null });
  t.match((await planOf(account, [block('a', { severity: 'low' }), block('b')])).policies, [{ drifted: false }, {}]);
});

t.test('of a declaration that cannot be applied whole nothing is', async (t) => {
  const account = newAccount();
  await apply(account, [block('a')]);
  const before = await all(account);
  const { agent } = await new Agents(store).register(account, { name: 'an agent' }, actor);
  const refused = async (
    declared: PolicyCreate[],
    path: string,
    more: Partial<PolicyDeclaration> = { dry_run: true },
  ) => {
    const declaration = { owner: 'team', policies: declared, ...more };
    return refusal(t, declarations.apply(account, declaration, actor), 'validation_failed', path);
  };
  await refused([block('b'), block('a'), block('b')], '/policies/2/name');
  await refused(
    [block('b'), block('c', { agent_id: agent.id }), block('d', { agent_id: 'agt_x' })],
    '/policies/2/agent_id',
  );
  const mistakes = await refused(
    [block('b', { conditions: { a: { gt: 'x' } } }), block('c'), block('d', { conditions: { patterns: ['x'] } })],
    '/policies/0/conditions/a/gt',
  );
  t.match(mistakes.details, [{}, { path: '/policies/2/conditions/patterns' }], 'every mistake is told');
  await refused([block('b')], '/hash', {});
  const many = (count: number, more = {}) => Array.from({ length: count }, (_, i) => block(`p${i}`, more));
  await refused(many(POLICIES_ACTIVE_MAX + 1), '/status');
  await refused(many(POLICIES_MAX + 1, { status: 'inactive' }), '/');
  t.same(await all(account), before);
  await apply(account, many(POLICIES_ACTIVE_MAX));
  t.equal((await all(account)).length, POLICIES_ACTIVE_MAX, 'as many as can be active, in place of the one');
  await apply(account, many(POLICIES_ACTIVE_MAX, { conditions: { tool: 'y' } }));
  await new Agents(store).remove(account, agent.id, actor);
});

t.test(
  'of two who plan from the same state one wins, and the other is told the plan against the new one',
  async (t) => {
    const account = newAccount();
    const second = new PolicyDeclarations(other);
    for (let round = 0; round < 50; round++) {
      const [one, two] = [0, 1].map((who) =>
        Array.from({ length: 5 }, (_, i) => block(`p${i}`, { conditions: { tool: `${who}-${round}-${i}` } })),
      ) as [PolicyCreate[], PolicyCreate[]];
      const hashes = [(await planOf(account, one)).hash, (await planOf(account, two)).hash];
      const results = await Promise.all([
        declarations.apply(account, { owner: 'team', policies: one, hash: hashes[0]! }, actor),
        second.apply(account, { owner: 'team', policies: two, hash: hashes[1]! }, actor),
      ]);
      t.same(results.map(({ isStale }) => isStale).sort(), [false, true]);
      const won = results.findIndex(({ isStale }) => !isStale);
      const tools = (await all(account)).map(({ conditions }) => conditions['tool']);
      t.same(
        tools,
        [one, two][won]!.map(({ conditions }) => conditions['tool']),
        'all of the one, nothing of the other',
      );
      const { plan } = results[1 - won]!;
      t.notOk(plan.applied);
      t.same(plan, await planOf(account, [one, two][1 - won]!), 'the plan against what is there now');
    }
  },
);

t.test('one of the same text under a new name is renamed, and stays the policy that it is', async (t) => {
  const account = newAccount();
  const limit = (name: string, more: Partial<PolicyCreate> = {}): PolicyCreate => {
    return { name, type: 'rate_limit', conditions: { threshold: 2, window: '1h' }, actions: ['block'], ...more };
  };
  await apply(account, [block('a'), limit('b'), limit('c', { agent_id: null, status: 'inactive' })]);
  const before = await all(account);
  const renamed = [limit('z', { description: 'since' }), block('y'), limit('c', { status: 'inactive' })];
  const plan = await planOf(account, renamed);
  t.same(actionsOf(plan), ['z update', 'y update', 'c unchanged']);
  t.match(plan.policies[0], {
    ...{ policy_id: before[1]!.id, revision: 1, hints: [/^renamed from "b"/] },
    differences: [{ path: '/name', before: 'b', after: 'z' }, { path: '/description' }],
  });
  const journal = (await journalOf(store, account)).length;
  await apply(account, renamed);
  t.equal((await journalOf(store, account)).length, journal + 1, 'one commit');
  const after = await all(account);
  t.same(
    after.map(({ id, name, revision }) => [id, name, revision]),
    [
      [before[2]!.id, 'c', 1],
      [before[0]!.id, 'y', 2],
      [before[1]!.id, 'z', 2],
    ],
  );
  await refusal(t, policies.create(account, block('y'), actor), 'name_taken');
  await policies.create(account, block('a'), actor);

  // Of several of one text it is not known which is which; another text is another policy.
  const alike = newAccount();
  await apply(alike, [block('a'), block('b')]);
  t.same(actionsOf(await planOf(alike, [block('c'), block('b')])), ['c update', 'b unchanged']);
  t.same(actionsOf(await planOf(alike, [block('c'), block('d')])), ['c create', 'd create', 'a delete', 'b delete']);
  t.same(actionsOf(await planOf(alike, [block('c')])), ['c create', 'a delete', 'b delete']);
  t.same(actionsOf(await planOf(alike, [block('c', { actions: ['log'] }), block('b')])), [
    ...['c create', 'b unchanged', 'a delete'],
  ]);
  await policies.create(alike, block('by hand'), actor);
  t.same(
    actionsOf(await planOf(alike, [block('a'), block('b'), block('c')])),
    ['a unchanged', 'b unchanged', 'c create'],
    'what is not the owner’s is not renamed',
  );
});

t.test('a plan that is not the present one changes nothing, whatever changed', async (t) => {
  const account = newAccount();
  await apply(account, [block('a'), block('b')]);
  const [a, b] = (await all(account)) as [Policy, Policy];
  const declared = [block('a', { severity: 'low' }), block('b')];
  const isStale = async (change: () => Promise<unknown>) => {
    const { hash } = await planOf(account, declared);
    await change();
    const before = await all(account);
    const result = await declarations.apply(account, { owner: 'team', policies: declared, hash }, actor);
    t.same(await all(account), before);
    return result.isStale;
  };
  t.ok(await isStale(() => policies.patch(account, a.id, { body: { severity: 'high' } }, actor)), 'what it changes');
  t.ok(await isStale(() => policies.patch(account, b.id, { body: { severity: 'high' } }, actor)), 'what it left alone');
  t.ok(await isStale(() => policies.remove(account, b.id, actor)), 'what is gone');
  const wrong = { owner: 'team', policies: declared, hash: 'x' };
  t.ok((await declarations.apply(account, wrong, actor)).isStale);
  const { hash } = await planOf(account, declared);
  await policies.create(account, block('not of the team'), actor);
  t.notOk((await declarations.apply(account, { owner: 'team', policies: declared, hash }, actor)).isStale);
});

t.test('a declaration names checks that are there', async (t) => {
  const account = newAccount();
  const conditions = { check: 'guard', on_timeout: 'match', on_error: 'match', on_overload: 'match' };
  const declared = block('asks', { type: 'external_check', conditions });
  await t.rejects(planOf(account, [declared]), {
    ...{ code: 'validation_failed', details: [{ path: '/policies/0/conditions/check', message: 'no such check' }] },
  });
  const url = 'https://presidio.example.com/analyze';
  const checks = new ExternalChecks(store);
  const { answer } = await checks.create(account, { name: 'guard', speaks: 'presidio', url }, actor);
  t.same(actionsOf(await apply(account, [declared])), ['asks create']);
  await t.rejects(checks.remove(account, JSON.parse(answer).id, actor), { code: 'check_in_use' });
  await apply(account, []);
  t.ok(await checks.remove(account, JSON.parse(answer).id, actor));
});
