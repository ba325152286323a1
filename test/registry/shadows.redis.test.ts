// Shadows as records, on a real Redis: what one may copy, how many there may be, when they expire, and that a promotion
// is one change. GATEHOUSE_TEST_REDIS_CLUSTER=1 runs it on a Cluster.
import t from 'tap';
import { ShadowExpiry } from '../../pipelines/shadow/shadow-expiry.ts';
import type { Policy, PolicyCreate } from '../../schemas/policy.ts';
import { SHADOW_KEPT_MS, SHADOWS_ACTIVE_MAX } from '../../src/common/limits.ts';
import { Agents } from '../../src/registry/agents.ts';
import { Policies } from '../../src/registry/policies/policies.ts';
import { PolicyDeclarations } from '../../src/registry/policies/policy-declaration.ts';
import { PolicyPromotions } from '../../src/registry/policies/policy-promotion.ts';
import { silent } from '../streams/harness.ts';
import { startRedis } from '../support/redis.ts';
import { actor, connectStore, journalOf, newAccount, refusal } from './harness.ts';

const { address } = await startRedis(t);
const connected = await connectStore(t, address);
let nowMs = Date.UTC(2026, 10, 27);
const store = { ...connected, now: () => nowMs++ };
const { redis, keys } = store;
const policies = new Policies(store);
const promotions = new PolicyPromotions(store);
const declarations = new PolicyDeclarations(store);
const expiry = new ShadowExpiry({ ...store, log: silent });

let names = 0;
const block = (more: Partial<PolicyCreate> = {}): PolicyCreate => {
  return { name: `p${++names}`, type: 'block_action', conditions: { tool: 'x' }, actions: ['block'], ...more };
};
const made = async (account: string, more: Partial<PolicyCreate> = {}) =>
  JSON.parse((await policies.create(account, block(more), actor)).answer) as Policy;
const shadow = (account: string, more: Partial<PolicyCreate> = {}) => made(account, { mode: 'shadow', ...more });
const counted = async (account: string) => [
  await redis.scard(keys.activePolicies(account)),
  await redis.scard(keys.activeShadows(account)),
];
const dueOf = (account: string, { id }: Policy) =>
  redis.zscore(keys.shadowExpiries(keys.shardOf(account)), `${account}/${id}`);

t.test('a shadow copies a policy that is no shadow, of its type and scope, or none', async (t) => {
  const account = newAccount();
  const agents = new Agents(store);
  const { id: agent } = (await agents.register(account, { name: 'a', framework: 'custom' }, actor)).agent;
  const original = await made(account, { agent_id: agent });
  t.match(original, { mode: 'enforce' });
  t.notOk('expires_at' in original || 'shadow_of' in original);
  const copy = await shadow(account, { shadow_of: original.id, conditions: { tool: 'y' } });
  const expiresMs = Date.parse(copy.created_at) + SHADOW_KEPT_MS;
  t.match(copy, {
    mode: 'shadow',
    shadow_of: original.id,
    agent_id: agent,
    expires_at: new Date(expiresMs).toISOString(),
  });
  t.same(await policies.get(account, copy.id), copy);
  t.same(await counted(account), [1, 1]);
  t.equal(await dueOf(account, copy), String(expiresMs));
  const elsewhere = await made(newAccount());
  const wrong: [Partial<PolicyCreate>, string][] = [
    [{ shadow_of: original.id }, '/shadow_of'],
    [{ mode: 'enforce', shadow_of: original.id }, '/shadow_of'],
    [{ mode: 'shadow', shadow_of: copy.id }, '/shadow_of'],
    [{ mode: 'shadow', shadow_of: elsewhere.id }, '/shadow_of'],
    [{ mode: 'shadow', shadow_of: 'pol_x' }, '/shadow_of'],
    [{ mode: 'shadow', shadow_of: original.id, type: 'require_approval' }, '/shadow_of'],
    [{ mode: 'shadow', shadow_of: original.id, agent_id: null }, '/agent_id'],
  ];
  for (const [more, path] of wrong)
    await refusal(t, policies.create(account, block(more), actor), 'validation_failed', path);
  const bound = { ...actor, boundTo: 'agt_other' };
  const asBound = policies.create(
    account,
    block({ mode: 'shadow', shadow_of: original.id, agent_id: 'agt_other' }),
    bound,
  );
  await refusal(t, asBound, 'validation_failed', '/shadow_of');
  t.same((await policies.list(account, { mode: ['shadow'], limit: 10, offset: 0 })).items, [copy]);
  t.same((await policies.list(account, { mode: ['enforce'], limit: 10, offset: 0 })).items, [original]);
  t.ok(await policies.remove(account, original.id, actor));
  t.same(await policies.get(account, copy.id), copy, 'it stays when the policy that it copies is deleted');

  const { items } = await policies.list(account, { limit: 10, offset: 0 });
  t.equal(items.length, 1);
  await agents.remove(account, agent, actor);
  t.equal(await policies.get(account, copy.id), null, 'it goes with its agent');
  t.same(await counted(account), [0, 0]);
  t.equal(await dueOf(account, copy), null);
});

t.test('an account has so many active shadows, which are none of its policies in force', async (t) => {
  const account = newAccount();
  const all: Policy[] = [];
  for (let i = 0; i < SHADOWS_ACTIVE_MAX; i++) all.push(await shadow(account));
  await refusal(t, policies.create(account, block({ mode: 'shadow' }), actor), 'validation_failed', '/status');
  const idle = await shadow(account, { status: 'inactive' });
  const activate = () => policies.patch(account, idle.id, { body: { status: 'active' } }, actor);
  await refusal(t, activate(), 'validation_failed', '/status');
  await policies.patch(account, all[0]!.id, { body: { status: 'inactive' } }, actor);
  await activate();
  t.same(await counted(account), [0, SHADOWS_ACTIVE_MAX]);
  const full = declarations.apply(
    account,
    { owner: 'team', policies: [block({ mode: 'shadow' })], dry_run: true },
    actor,
  );
  await refusal(t, full, 'validation_failed', '/status');
});

t.test(
  'a shadow is made inactive when its time is over, and has a new time when it is made active again',
  async (t) => {
    const account = newAccount();
    const original = await made(account);
    const copy = await shadow(account, { shadow_of: original.id });
    const other = await shadow(account);
    await policies.patch(account, other.id, { body: { status: 'inactive' } }, actor);
    t.equal(await dueOf(account, other), null);
    t.equal(await expiry.look(), 0);
    nowMs += SHADOW_KEPT_MS;
    t.equal(await expiry.look(), 1 + SHADOWS_ACTIVE_MAX, 'with those of the account before');
    t.equal(await expiry.look(), 0);
    t.match(await policies.get(account, copy.id), { status: 'inactive', mode: 'shadow', revision: 2 });
    t.same(await counted(account), [1, 0]);
    const { audit } = (await journalOf(store, account)).at(-1)!;
    t.match(audit, [
      {
        ...{ action: 'policy.updated', actor: 'system', resource_id: copy.id },
        details: { changed: ['status'], before: { status: 'active' }, after: { status: 'inactive' }, expired: true },
      },
    ]);
    const again = (await policies.patch(account, copy.id, { body: { status: 'active' } }, actor))!;
    t.ok(Date.parse(again.expires_at!) > nowMs + SHADOW_KEPT_MS - 1_000);
    t.equal(await dueOf(account, copy), String(Date.parse(again.expires_at!)));
    const renamed = (await policies.patch(account, copy.id, { body: { name: 'renamed' } }, actor))!;
    t.equal(renamed.expires_at, again.expires_at, 'another change does not make it live longer');
    nowMs += SHADOW_KEPT_MS + 1_000;
    const late = (await policies.patch(account, copy.id, { body: { status: 'active' } }, actor))!;
    t.ok(Date.parse(late.expires_at!) > nowMs, 'also before it was made inactive');
    t.equal(await expiry.look(), 0);

    // Left there by mistake, it is passed over, and not looked at again and again.
    await redis.zadd(keys.shadowExpiries(keys.shardOf(account)), 1, `${account}/${original.id}`);
    t.equal(await expiry.look(), 0);
    t.match(await policies.get(account, original.id), { status: 'active', revision: 1 });
    t.ok(Number(await dueOf(account, original)) > nowMs);
  },
);

t.test('a promoted copy is a new revision of the policy that it copies, and is gone, in one change', async (t) => {
  const account = newAccount();
  const original = await made(account, { description: 'why' });
  const text = { conditions: { tool: 'y' }, actions: ['log'] as const, severity: 'high' as const };
  const copy = await shadow(account, { ...text, actions: ['log'], shadow_of: original.id });
  await refusal(t, promotions.promote(account, original.id, undefined, actor), 'validation_failed', '/mode');
  await refusal(t, promotions.promote(account, copy.id, [2], actor), 'revision_conflict', 'If-Match');
  t.equal(await promotions.promote(newAccount(), copy.id, undefined, actor), null);
  t.equal(await promotions.promote(account, copy.id, undefined, { ...actor, boundTo: 'agt_other' }), null);
  const before = (await journalOf(store, account)).length;
  const after = (await promotions.promote(account, copy.id, [1], actor))!;
  t.match(after, { ...text, id: original.id, revision: 2, mode: 'enforce', status: 'active', description: 'why' });
  t.same(await policies.get(account, original.id), after);
  t.equal(await policies.get(account, copy.id), null);
  t.same(await counted(account), [1, 0]);
  t.equal(await dueOf(account, copy), null);
  const journal = await journalOf(store, account);
  t.equal(journal.length, before + 1);
  t.match(journal.at(-1)!.audit, [
    {
      ...{ action: 'policy.updated', resource_id: original.id },
      details: {
        ...{
          revision: 2,
          promoted_from: copy.id,
          promoted_revision: 1,
          changed: ['conditions', 'actions', 'severity'],
        },
        ...{ before: { conditions: { tool: 'x' } }, after: { conditions: { tool: 'y' } } },
      },
    },
    { action: 'policy.deleted', resource_id: copy.id, details: { promoted_to: original.id } },
  ]);
  t.equal(await promotions.promote(account, copy.id, undefined, actor), null, 'once');

  const same = await shadow(account, { ...text, actions: ['log'], shadow_of: original.id });
  t.match(
    await promotions.promote(account, same.id, undefined, actor),
    { revision: 2 },
    'nothing differs: no revision',
  );
  t.equal(await policies.get(account, same.id), null);
});

t.test('any other shadow is in force itself, also one whose original was deleted or is inactive', async (t) => {
  const account = newAccount();
  const alone = await shadow(account);
  const promoted = (await promotions.promote(account, alone.id, undefined, actor))!;
  t.match(promoted, { id: alone.id, revision: 2, mode: 'enforce', status: 'active' });
  t.notOk('expires_at' in promoted);
  t.same(await counted(account), [1, 0]);
  const original = await made(account);
  const left = await shadow(account, { shadow_of: original.id });
  await policies.remove(account, original.id, actor);
  const own = (await promotions.promote(account, left.id, undefined, actor))!;
  t.match(own, { id: left.id, mode: 'enforce' });
  t.notOk('shadow_of' in own);
  const idle = await made(account, { status: 'inactive' });
  const copy = await shadow(account, { shadow_of: idle.id, conditions: { tool: 'y' } });
  await policies.patch(account, copy.id, { body: { status: 'inactive' } }, actor);
  t.match(
    await promotions.promote(account, copy.id, undefined, actor),
    { id: idle.id, status: 'inactive', revision: 2, conditions: { tool: 'y' } },
    'what is switched off stays so',
  );
  t.same(await counted(account), [2, 0]);
});

t.test('what was changed in the policy that it copies is undone only by who names that', async (t) => {
  const account = newAccount();
  const original = await made(account);
  const copy = await shadow(account, { shadow_of: original.id, conditions: { tool: 'y' } });
  t.equal(copy.shadow_of_revision, 1);
  const promote = (named?: number) => promotions.promote(account, copy.id, [1], actor, named);
  await refusal(t, promote(2), 'revision_conflict', 'original_revision');
  await policies.patch(account, original.id, { body: { conditions: { tool: ['x', 'z'] } } }, actor);
  for (const named of [undefined, 1, 3]) {
    const { message, details } = await refusal(t, promote(named), 'revision_conflict', 'original_revision');
    t.match(message, /changed meanwhile: it is at revision 2, and the shadow was made of revision 1/);
    t.match(details?.[0]?.message, 'the present revision is 2');
  }
  await policies.patch(account, original.id, { body: { status: 'inactive' } }, actor);
  t.match((await refusal(t, promote(), 'revision_conflict')).message, /at revision 3 and switched off/);
  await refusal(t, promote(2), 'revision_conflict');
  t.match(await policies.get(account, original.id), { revision: 3, conditions: { tool: ['x', 'z'] } });
  t.match(await policies.get(account, copy.id), { status: 'active', shadow_of_revision: 1 }, 'nothing was done');
  t.match(await promote(3), { id: original.id, revision: 4, status: 'inactive', conditions: { tool: 'y' } });
  t.same(await counted(account), [0, 0]);

  const on = await made(account);
  const changed = await shadow(account, { shadow_of: on.id });
  await policies.patch(account, changed.id, { body: { conditions: { tool: 'w' } } }, actor);
  t.match(await policies.get(account, changed.id), { shadow_of_revision: 1 }, 'it stays a copy of what it was');
});

t.test('what is put back is not switched on or off by it', async (t) => {
  const account = newAccount();
  const policy = await made(account);
  await policies.patch(account, policy.id, { body: { conditions: { tool: 'y' }, status: 'inactive' } }, actor);
  const back = await policies.restore(account, policy.id, { text: policy }, actor);
  t.match(back, { revision: 3, status: 'inactive', conditions: policy.conditions });
  t.same(await counted(account), [0, 0]);
  t.match(await policies.restore(account, policy.id, { text: policy }, actor), { revision: 3 }, 'nothing differs');
  const on = await policies.patch(account, policy.id, { body: { status: 'active', severity: 'low' } }, actor);
  t.match(await policies.restore(account, policy.id, { text: { ...on!, status: 'inactive', severity: null } }, actor), {
    ...{ status: 'active', severity: null },
  });
});

t.test('of two who promote at the same time one does', async (t) => {
  const account = newAccount();
  const original = await made(account);
  const copies = [
    await shadow(account, { shadow_of: original.id, conditions: { tool: 'a' } }),
    await shadow(account, { shadow_of: original.id, conditions: { tool: 'b' } }),
  ];
  const twice = [copies[0]!, copies[0]!].map(({ id }) => promotions.promote(account, id, [1], actor));
  const ends = await Promise.allSettled([...twice, promotions.promote(account, copies[1]!.id, [1], actor)]);
  const done = ends.filter((end) => end.status === 'fulfilled' && end.value !== null);
  t.equal(done.length, 1, 'the other copy would undo it');
  t.match(await policies.get(account, original.id), { revision: 2 });
});

t.test('declared shadows are planned like other policies', async (t) => {
  const account = newAccount();
  const original = await made(account);
  const plan = async (declared: PolicyCreate[]) =>
    (await declarations.apply(account, { owner: 'team', policies: declared, dry_run: true }, actor)).plan;
  const apply = async (declared: PolicyCreate[]) => {
    const { hash } = await plan(declared);
    return (await declarations.apply(account, { owner: 'team', policies: declared, hash }, actor)).plan;
  };
  const declared = block({ name: 'tried', mode: 'shadow', shadow_of: original.id, conditions: { tool: 'y' } });
  await apply([declared]);
  const tried = async () => (await policies.list(account, { mode: ['shadow'], limit: 1, offset: 0 })).items[0]!;
  const first = await tried();
  t.match(first, { mode: 'shadow', shadow_of: original.id, revision: 1 });
  t.same(await counted(account), [1, 1]);
  t.match((await plan([declared])).policies, [{ action: 'unchanged' }]);
  nowMs += 60_000;
  await apply([{ ...declared, conditions: { tool: 'z' } }]);
  t.match(await tried(), { revision: 2, expires_at: first.expires_at, conditions: { tool: 'z' } });
  t.match((await plan([{ ...declared, mode: 'enforce', shadow_of: undefined! }])).policies, [{ action: 'replace' }]);
  const lacking = { ...declared, name: 'other', shadow_of: 'pol_00000000000000000000000000' };
  await refusal(t, plan([declared, lacking]), 'validation_failed', '/policies/1/shadow_of');
  await policies.remove(account, original.id, actor);
  t.match((await plan([{ ...declared, conditions: { tool: 'z' } }])).policies, [{ action: 'unchanged' }]);
  await apply([]);
  t.same(await counted(account), [0, 0]);
});
