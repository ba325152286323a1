// The registry's resources on a real Redis: what is kept, what is refused, and that a change and its journal entry are
// one.
import { createHash, randomBytes } from 'node:crypto';
import t from 'tap';
import type { AlertCreate, AlertRecord } from '../../schemas/alert.ts';
import type { Policy, PolicyCreate } from '../../schemas/policy.ts';
import { isId } from '../../src/common/ids.ts';
import { ALERTS_MAX, API_KEYS_MAX, IDEMPOTENCY_KEPT_MS, POLICIES_ACTIVE_MAX } from '../../src/common/limits.ts';
import { Accounts } from '../../src/registry/accounts/accounts.ts';
import { parseApiKey, sha256Of } from '../../src/registry/accounts/api-key-text.ts';
import { type ApiKeyRecord, ApiKeys } from '../../src/registry/accounts/api-keys.ts';
import { type AgentFilter, Agents } from '../../src/registry/agents.ts';
import { Alerts } from '../../src/registry/alerts/alerts.ts';
import { OutgoingFeeds } from '../../src/registry/alerts/outgoing-feeds.ts';
import { PriceTables } from '../../src/registry/budgets/price-tables.ts';
import { absent, commit, is } from '../../src/registry/commit.ts';
import { Connections } from '../../src/registry/connections.ts';
import { ExternalChecks } from '../../src/registry/external-checks.ts';
import { Policies } from '../../src/registry/policies/policies.ts';
import { NotEmpty, type RestoredRow, rebuildRegistry } from '../../src/registry/recovery/restore.ts';
import { Views } from '../../src/registry/views.ts';
import { pause } from '../support/raw-http.ts';
import { startRedis } from '../support/redis.ts';
import { actor, connectStore, freshKeys, journalOf, newAccount, refusal, wholeJournal } from './harness.ts';

const { address } = await startRedis(t);
const store = await connectStore(t, address);
const other = await connectStore(t, address, store.keys);
const { redis, keys } = store;
const agents = new Agents(store);
const policies = new Policies(store);
const alerts = new Alerts({ ...store, mailTransport: 'smtp' });
const apiKeys = new ApiKeys(store);
const accounts = new Accounts(store);
const page = { limit: 20, offset: 0 };
const block = (name: string, more: Partial<PolicyCreate> = {}): PolicyCreate => ({
  name,
  type: 'block_action',
  conditions: { tool: 'x' },
  actions: ['block'],
  ...more,
});
const hook = (name: string, more: Partial<AlertCreate> = {}): AlertCreate => ({
  name,
  trigger: 'policy_violation',
  channel: 'webhook',
  target: 'https://example.com/hook',
  ...more,
});
const created = async (promise: Promise<{ answer: string }>) => JSON.parse((await promise).answer);

t.test('a commit makes a change with its journal entry, or nothing', async (t) => {
  const account = newAccount();
  const shard = keys.shardOf(account);
  const hash = keys.policies(account);
  const change = { account, at: 1, writes: [['hset', hash, 'f', 'v1']] as const, changes: [], audit: [] };
  const before = Number(await redis.get(keys.revision(shard)));
  t.same(await commit(store, { ...change, guards: [absent('fresh', ['hget', hash, 'f'])] }), { revision: before + 1 });
  t.same(await commit(store, { ...change, guards: [absent('fresh', ['hget', hash, 'f'])] }), { refused: 'fresh' });
  const guards = [is('same', ['hget', hash, 'f'], 'v1'), is('other', ['hget', hash, 'f'], 'v2')];
  t.same(
    await commit(store, { ...change, writes: [['del', hash]], guards }),
    { refused: 'other' },
    'the first that fails',
  );
  t.equal(await redis.hget(hash, 'f'), 'v1', 'a refused commit changes nothing');
  t.equal(Number(await redis.get(keys.revision(shard))), before + 1);
  const journal = await journalOf(store, account);
  t.equal(journal.length, 1);
  t.match(journal[0], { version: 1, account, revision: before + 1, at: 1, changes: [], audit: [] });
});

t.test('registration is idempotent by name, also under concurrent registration', async (t) => {
  const account = newAccount();
  const second = new Agents(other);
  const tries = Array.from({ length: 40 }, (_, i) =>
    (i % 2 ? agents : second).register(account, { name: 'one', description: `by ${i}` }, actor),
  );
  const results = await Promise.all(tries);
  t.equal(new Set(results.map(({ agent }) => agent.id)).size, 1, 'one agent');
  t.equal(results.filter((result) => result.created).length, 1, 'created once');
  t.equal(new Set(results.map(({ agent }) => agent.description)).size, 1, 'every caller gets the same record');
  const { agent } = results[0]!;
  t.ok(isId('agent', agent.id));
  t.match(agent, { name: 'one', metadata: {}, status: 'active', last_seen_at: null, created_at: agent.updated_at });
  const journal = await journalOf(store, account);
  t.equal(journal.length, 1, 'and journalled once');
  t.match(journal[0]!.audit[0], {
    action: 'agent.registered',
    actor: actor.actor,
    resource_type: 'agent',
    resource_id: agent.id,
    details: { name: 'one', request_id: 'req-1' },
  });
  const { last_seen_at: _, ...record } = agent;
  t.same(journal[0]!.changes, [{ kind: 'agent', id: agent.id, record }]);
});

t.test('agents are listed newest first, with exact totals', async (t) => {
  const account = newAccount();
  const ids: string[] = [];
  for (let i = 0; i < 25; i++) {
    ids.unshift((await agents.register(account, { name: `a${i}` }, actor)).agent.id);
    if (i % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 2));
  }
  const inTime = [...ids].sort().reverse();
  const listed = await agents.list(account, { limit: 10, offset: 20 });
  t.equal(listed.total, 25);
  t.same(
    listed.items.map(({ id }) => id),
    inTime.slice(20),
  );
  await agents.patch(account, ids[3]!, { status: 'inactive' }, actor);
  t.same(
    (await agents.list(account, { ...page, status: ['inactive'] })).items.map(({ id }) => id),
    [ids[3]],
  );
  t.equal((await agents.list(account, { ...page, status: ['active'] })).total, 24);
  t.equal((await agents.list(account, { ...page, status: ['active', 'inactive'] })).total, 25, 'any of them');
  await redis.hset(keys.lastSeen(keys.partitionOf(account, ids[0]!)), ids[0]!, 1_700_000_000_123);
  t.equal((await agents.get(account, ids[0]!))!.last_seen_at, '2023-11-14T22:13:20.123Z');
  t.equal(
    (await agents.list(account, { ...page, offset: inTime.indexOf(ids[0]!) })).items[0]!.last_seen_at,
    '2023-11-14T22:13:20.123Z',
  );
});

t.test('agents are found by name, and by what the watch says of them', async (t) => {
  const account = newAccount();
  const [first, second, third] = [await named('one'), await named('two'), await named('three')];
  async function named(name: string) {
    return (await agents.register(account, { name, metadata: {} }, actor)).agent.id;
  }
  const ids = async (filter: AgentFilter, of: Partial<typeof page> = {}) => {
    const { items, total } = await agents.list(account, { ...page, ...filter, ...of });
    return { ids: items.map(({ id }) => id), total };
  };
  const newestFirst = (...some: string[]) => ({ ids: some.sort().reverse(), total: some.length });
  t.same(await ids({ name: ['two'] }), newestFirst(second));
  t.same(await ids({ name: ['On', 'ONE', 'one '] }), newestFirst(), 'the very name');
  t.same(await ids({ name: ['two', 'one', 'nobody'] }), newestFirst(first, second));
  t.same(await ids({ name: ['two', 'one'] }, { limit: 1, offset: 1 }), {
    ids: newestFirst(first, second).ids.slice(1),
    total: 2,
  });
  await agents.patch(account, second, { status: 'inactive' }, actor);
  t.same(await ids({ name: ['two', 'one'], status: ['inactive'] }), newestFirst(second));
  t.same(await ids({ status: ['down'] }), newestFirst(), 'none was notified');
  const speaks = (id: string, ms: number) =>
    redis.hset(keys.lastSeen(keys.partitionOf(account, id)), id, `${ms}/${account}`);
  for (const id of [first, second, third]) {
    await speaks(id, 1_000);
    await redis.hset(keys.watchNotes(keys.partitionOf(account, id)), id, 't1000/60000');
  }
  t.same(await ids({ status: ['down'] }), newestFirst(first, third), 'the silence of the stopped one is expected');
  t.same(await ids({ status: ['down', 'inactive'] }), newestFirst(first, second, third));
  t.same(await ids({ status: ['down'], name: ['three', 'two'] }), newestFirst(third));
  await speaks(third, 2_000);
  t.same(await ids({ status: ['down'] }), newestFirst(first), 'the other is back');
  await agents.patch(account, first, { metadata: { heartbeat_seconds: '0' } }, actor);
  t.same(await ids({ status: ['down'] }), newestFirst(), 'its watch is off');
});

t.test('a registration that says otherwise than the agent is changes nothing, and says so', async (t) => {
  const account = newAccount();
  const as = { name: 'one', description: 'd', framework: 'custom' as const, metadata: { a: '1', b: '2' } };
  const { agent } = await agents.register(account, as, actor);
  for (const [body, differs] of [
    [{}, false],
    [as, false],
    [{ metadata: { b: '2', a: '1' } }, false],
    [{ metadata: { a: '1' } }, true],
    [{ metadata: { a: '1', b: '3' } }, true],
    [{ metadata: { a: '1', c: '2' } }, true],
    [{ metadata: { a: '1', toString: '2' } }, true],
    [{ description: 'e' }, true],
    [{ framework: 'library_b' as const }, true],
  ] as const) {
    const again = await agents.register(account, { name: 'one', ...body }, actor);
    t.same(again, { agent, created: false, differs }, JSON.stringify(body));
  }
});

t.test('an agent is updated field by field, and its audit entry says what changed', async (t) => {
  const account = newAccount();
  const { agent } = await agents.register(account, { name: 'first', metadata: { a: '1' } }, actor);
  await agents.register(account, { name: 'second' }, actor);
  await refusal(t, agents.patch(account, agent.id, { name: 'second' }, actor), 'name_taken');
  const patched = (await agents.patch(
    account,
    agent.id,
    { name: 'third', metadata: { b: '2' }, status: 'inactive' },
    actor,
  ))!;
  t.match(patched, { id: agent.id, name: 'third', metadata: { b: '2' }, status: 'inactive' });
  t.notOk('a' in patched.metadata);
  t.same(await agents.get(account, agent.id), patched);
  const entry = (await journalOf(store, account)).at(-1)!;
  t.same(entry.audit[0]!.details, {
    changed: ['name', 'metadata', 'status'],
    before: { name: 'first', metadata: { a: '1' }, status: 'active' },
    after: { name: 'third', metadata: { b: '2' }, status: 'inactive' },
    request_id: 'req-1',
  });
  const count = (await journalOf(store, account)).length;
  t.same(
    await agents.patch(account, agent.id, { name: 'third' }, actor),
    patched,
    'a patch that changes nothing changes nothing',
  );
  t.equal((await journalOf(store, account)).length, count);
  t.equal((await agents.register(account, { name: 'first' }, actor)).created, true, 'the old name is free');
  t.equal(await agents.patch(account, 'agt_unknown', { name: 'x' }, actor), null);
});

t.test('patches at the same time are all kept', async (t) => {
  const account = newAccount();
  const { agent } = await agents.register(account, { name: 'busy' }, actor);
  const second = new Agents(other);
  await Promise.all([
    agents.patch(account, agent.id, { description: 'd' }, actor),
    second.patch(account, agent.id, { framework: 'custom' }, actor),
    agents.patch(account, agent.id, { metadata: { k: 'v' } }, actor),
    second.patch(account, agent.id, { status: 'inactive' }, actor),
  ]);
  t.match(await agents.get(account, agent.id), {
    description: 'd',
    framework: 'custom',
    metadata: { k: 'v' },
    status: 'inactive',
  });
  t.equal((await journalOf(store, account)).length, 5);
});

t.test('a deleted agent is gone at once, with what belongs to it', async (t) => {
  const account = newAccount();
  const { agent } = await agents.register(account, { name: 'secret name' }, actor);
  const { agent: bystander } = await agents.register(account, { name: 'bystander' }, actor);
  const scoped = await created(policies.create(account, block('scoped', { agent_id: agent.id }), actor));
  const global = await created(policies.create(account, block('global'), actor));
  const elsewhere = await created(policies.create(account, block('elsewhere', { agent_id: bystander.id }), actor));
  const alert = await created(alerts.create(account, hook('alert', { conditions: { agent_id: agent.id } }), actor));
  const moved = await created(alerts.create(account, hook('moved', { agent_id: agent.id }), actor));
  await alerts.patch(account, moved.id, { agent_id: bystander.id }, actor);

  t.equal(await agents.remove(account, agent.id, actor), true);
  t.equal(await agents.get(account, agent.id), null);
  t.equal(await agents.remove(account, agent.id, actor), false);
  t.equal(await agents.patch(account, agent.id, { name: 'x' }, actor), null);
  t.same(
    (await agents.list(account, page)).items.map(({ id }) => id),
    [bystander.id],
  );
  t.equal((await agents.list(account, page)).total, 1);
  t.equal(await redis.sismember(keys.tombstones(account), agent.id), 1);
  t.match(JSON.parse((await redis.hget(keys.erasures(keys.shardOf(account)), agent.id))!), { account });
  t.equal(await policies.get(account, scoped.id), null);
  t.same((await policies.list(account, page)).items.map(({ id }) => id).sort(), [global.id, elsewhere.id].sort());
  t.match(await alerts.get(account, alert.id), { status: 'inactive', agent_id: agent.id });
  t.match(await alerts.get(account, moved.id), { status: 'active', agent_id: bystander.id });

  const entry = (await journalOf(store, account)).at(-1)!;
  t.equal(entry.erases, agent.id);
  t.same(
    new Set(entry.changes.map(({ kind, id, record }) => `${kind} ${id} ${record === null ? 'gone' : 'kept'}`)),
    new Set([`agent ${agent.id} gone`, `policy ${scoped.id} gone`, `alert ${alert.id} kept`]),
  );
  t.equal(entry.audit.length, 1);
  t.match(entry.audit[0], { action: 'agent.deleted', resource_type: 'agent', resource_id: agent.id });
  t.same(entry.audit[0]!.details, { request_id: 'req-1' }, 'the bare id and nothing else');
  t.notOk(JSON.stringify(entry.audit).includes('secret name'));

  const again = await agents.register(account, { name: 'secret name' }, actor);
  t.equal(again.created, true, 'the name is free, for an agent with another id');
  t.not(again.agent.id, agent.id);
  await refusal(t, alerts.patch(account, alert.id, { status: 'active' }, actor), 'validation_failed', '/agent_id');
  t.match(await alerts.patch(account, alert.id, { status: 'active', agent_id: null }, actor), {
    status: 'active',
    agent_id: null,
  });
  await refusal(
    t,
    policies.create(account, block('late', { agent_id: agent.id }), actor),
    'validation_failed',
    '/agent_id',
  );
});

t.test('nothing can be scoped to an agent while it is deleted and be overlooked', async (t) => {
  for (let round = 0; round < 15; round++) {
    const account = newAccount();
    const { agent } = await agents.register(account, { name: 'x' }, actor);
    const made = Array.from({ length: 6 }, (_, i) =>
      policies.create(account, block(`p${i}`, { agent_id: agent.id }), actor).then(
        () => 1,
        () => 0,
      ),
    );
    const removed = new Agents(other).remove(account, agent.id, actor);
    await Promise.all([...made, removed]);
    const left = (await policies.list(account, page)).total!;
    if (left > 0) t.fail(`${left} policies of a deleted agent`);
    t.equal(await redis.exists(keys.agentScope(account, agent.id)), 0);
    t.equal(await redis.hlen(keys.policyNames(account)), 0);
    t.equal(await redis.scard(keys.activePolicies(account)), 0);
  }
});

t.test('policies are kept as compiled, named once, filtered', async (t) => {
  const account = newAccount();
  const { agent } = await agents.register(account, { name: 'a' }, actor);
  const first: Policy = await created(policies.create(account, { ...block('one'), actions: 'alert' }, actor));
  t.match(first, { name: 'one', agent_id: null, actions: ['alert'], severity: null, status: 'active' });
  t.ok(isId('policy', first.id));
  t.same(await policies.get(account, first.id), first);
  await refusal(t, policies.create(account, block('one'), actor), 'name_taken');
  const bad = policies.create(account, { ...block('bad'), type: 'rate_limit', conditions: {} }, actor);
  const error = await refusal(t, bad, 'validation_failed');
  t.match(error.details![0]!.path, /^\/conditions/);
  await refusal(t, policies.create(account, block('two', { agent_id: '' }), actor), 'validation_failed', '/agent_id');
  await refusal(
    t,
    policies.create(account, block('two', { agent_id: first.id }), actor),
    'validation_failed',
    '/agent_id',
  );
  const second: Policy = await created(
    policies.create(
      account,
      block('two', { agent_id: agent.id, status: 'inactive', severity: 'high', description: 'd' }),
      actor,
    ),
  );
  const ids = async (filter: object) =>
    (await policies.list(account, { ...page, ...filter })).items.map(({ id }) => id);
  t.same(await ids({}), [second.id, first.id].sort().reverse());
  t.same(await ids({ agent_id: [agent.id] }), [second.id]);
  t.same(await ids({ status: ['active'] }), [first.id]);
  t.same(await ids({ status: ['active', 'inactive'] }), await ids({}), 'any of them');
  t.same(await ids({ type: ['data_filter'] }), []);
  t.same(
    await policies.list(account, { limit: 1, offset: 1 }).then(({ total, items }) => [total, items.length]),
    [2, 1],
  );

  await refusal(t, policies.patch(account, second.id, { body: { name: 'one' } }, actor), 'name_taken');
  const patched = await policies.patch(
    account,
    second.id,
    { body: { status: 'active', severity: null, actions: 'log' } },
    actor,
  );
  t.match(patched, {
    id: second.id,
    status: 'active',
    severity: null,
    actions: ['log'],
    description: 'd',
    agent_id: agent.id,
  });
  const { details } = (await journalOf(store, account)).at(-1)!.audit[0]!;
  t.match(details, {
    revision: 2,
    before: { severity: 'high', status: 'inactive' },
    after: { severity: null, status: 'active', actions: ['log'] },
    agent_id: agent.id,
  });
  t.same((details.changed as string[]).sort(), ['actions', 'severity', 'status']);
  t.equal(await policies.remove(account, first.id, actor), true);
  t.equal(await policies.remove(account, first.id, actor), false);
  t.equal(await policies.get(account, first.id), null);
  t.ok(await created(policies.create(account, block('one'), actor)), 'the name is free again');
  t.same(
    (await journalOf(store, account)).map(({ audit }) => audit[0]!.action),
    ['agent.registered', 'policy.created', 'policy.created', 'policy.updated', 'policy.deleted', 'policy.created'],
  );
});

t.test('an account has so many active policies and no more, however many writers there are', async (t) => {
  const account = newAccount();
  const second = new Policies(other);
  const tries = Array.from({ length: POLICIES_ACTIVE_MAX + 10 }, (_, i) =>
    (i % 2 ? policies : second).create(account, block(`p${i}`), actor).then(
      () => true,
      () => false,
    ),
  );
  t.equal((await Promise.all(tries)).filter(Boolean).length, POLICIES_ACTIVE_MAX);
  await refusal(t, policies.create(account, block('one more'), actor), 'validation_failed', '/status');
  const idle = await created(policies.create(account, block('idle', { status: 'inactive' }), actor));
  await refusal(
    t,
    policies.patch(account, idle.id, { body: { status: 'active' } }, actor),
    'validation_failed',
    '/status',
  );
  const { items } = await policies.list(account, { ...page, status: ['active'] });
  await policies.patch(account, items[0]!.id, { body: { status: 'inactive' } }, actor);
  t.match(await policies.patch(account, idle.id, { body: { status: 'active' } }, actor), { status: 'active' });
});

t.test('alerts agree on their scope, and show their secret once', async (t) => {
  const account = newAccount();
  const { agent } = await agents.register(account, { name: 'a' }, actor);
  const { agent: agent2 } = await agents.register(account, { name: 'b' }, actor);
  const both = hook('both', { agent_id: agent.id, conditions: { agent_id: agent2.id, severity: 'high' } });
  const alert: AlertRecord = await created(alerts.create(account, both, actor));
  t.match(alert, {
    agent_id: agent2.id,
    conditions: { agent_id: agent2.id, severity: 'high' },
    throttle_seconds: 0,
    status: 'active',
  });
  t.match(alert.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  t.notOk('secret' in (await alerts.get(account, alert.id))!);
  t.notOk('secret' in (await alerts.list(account, page)).items[0]!);
  const mail: AlertRecord = await created(
    alerts.create(account, { name: 'mail', trigger: 'agent_down', channel: 'email', target: 'a@b.co' }, actor),
  );
  t.match(mail, { agent_id: null, conditions: {}, throttle_seconds: 60 });
  t.notOk('secret' in mail);
  await refusal(t, alerts.create(account, hook('both'), actor), 'name_taken');
  await refusal(
    t,
    alerts.create(account, hook('x', { target: 'https://127.1/' }), actor),
    'validation_failed',
    '/target',
  );
  await refusal(t, alerts.create(account, hook('x', { channel: 'email' }), actor), 'validation_failed', '/target');
  await refusal(t, alerts.create(account, hook('x', { agent_id: 'agt_no' }), actor), 'validation_failed', '/agent_id');
  await refusal(
    t,
    alerts.create(account, hook('x', { conditions: { agent_id: '' } }), actor),
    'validation_failed',
    '/conditions/agent_id',
  );

  t.match(await alerts.patch(account, alert.id, { conditions: { severity: 'low' } }, actor), {
    agent_id: agent2.id,
    conditions: { agent_id: agent2.id, severity: 'low' },
  });
  t.match(await alerts.patch(account, alert.id, { agent_id: agent.id }, actor), {
    agent_id: agent.id,
    conditions: { agent_id: agent.id },
  });
  const unscoped = (await alerts.patch(account, alert.id, { agent_id: null }, actor))!;
  t.same([unscoped.agent_id, unscoped.conditions], [null, { severity: 'low' }]);
  t.equal(await redis.scard(keys.agentScope(account, agent.id)), 0);
  await refusal(
    t,
    alerts.patch(account, mail.id, { channel: 'webhook', target: 'https://example.com' }, actor),
    'validation_failed',
    '/channel',
  );
  await refusal(t, alerts.patch(account, mail.id, { target: 'not an address' }, actor), 'validation_failed', '/target');
  const moved = await alerts.patch(account, mail.id, { target: 'c@d.co' }, actor);
  t.match(moved, { target: 'c@d.co' });
  const journal = await journalOf(store, account);
  t.same(journal.at(-1)!.audit[0]!.details.changed, ['target']);
  const told = JSON.stringify(journal.map(({ audit }) => audit));
  t.notOk(
    told.includes('whsec_') || told.includes('example.com') || told.includes('c@d.co'),
    'audit entries hold no secret and no target',
  );
  t.equal(await alerts.remove(account, mail.id, actor), true);
  t.equal(await alerts.remove(account, mail.id, actor), false);
  t.equal((await alerts.list(account, page)).total, 1);
});

t.test('an alert is sent where the settings let it', async (t) => {
  const account = newAccount();
  const mailless = new Alerts(store);
  const toBox = { name: 'x', trigger: 'agent_down', channel: 'email', target: 'a@b.co' } as const;
  const mail = await created(mailless.create(account, toBox, actor));
  t.equal(mail.transport, 'outbox', 'without a mail server it goes into the outbox, and says so');
  t.notOk('transport' in JSON.parse((await redis.hget(keys.alerts(account), mail.id))!), 'which is not kept');
  t.match(await alerts.get(account, mail.id), { transport: 'smtp' }, 'with one by SMTP, the same alert');
  t.match(await mailless.patch(account, mail.id, { target: 'b@b.co' }, actor), { transport: 'outbox' });
  const chat = await created(mailless.create(account, hook('chat', { channel: 'chat_app' }), actor));
  t.equal(chat.transport, null, 'other channels have none');
  const moved = await mailless.patch(account, chat.id, { channel: 'email', target: 'a@b.co' }, actor);
  t.match(moved, { channel: 'email', transport: 'outbox' });
  t.same(
    (await mailless.list(account, page)).items.map(({ transport }) => transport),
    ['outbox', 'outbox'],
  );
  const inside = new Alerts({ ...store, allowedHosts: new Set(['intranet', 'hooks.corp:9000']) });
  for (const target of ['https://intranet/', 'https://hooks.corp:9000/x']) {
    await refusal(t, alerts.create(account, hook(target, { target }), actor), 'validation_failed', '/target');
    t.match(await created(inside.create(account, hook(target, { target }), actor)), { target });
  }
});

t.test('an Idempotency-Key gives the first answer again, byte for byte', async (t) => {
  const account = newAccount();
  const idempotency = { key: 'k-1', bodySha256: createHash('sha256').update('body').digest('hex') };
  const first = await alerts.create(account, hook('once'), actor, idempotency);
  t.equal(first.replayed, false);
  await alerts.patch(account, JSON.parse(first.answer).id, { name: 'renamed since' }, actor);
  const again = await new Alerts(other).create(account, hook('once'), actor, idempotency);
  t.same(again, { answer: first.answer, replayed: true });
  t.equal((await alerts.list(account, page)).total, 1);
  await refusal(
    t,
    alerts.create(account, hook('x'), actor, { ...idempotency, bodySha256: 'other' }),
    'idempotency_conflict',
  );
  await refusal(t, policies.create(account, block('x'), actor, idempotency), 'idempotency_conflict');
  const ttl = await redis.pttl(keys.registryIdempotency(account, 'k-1'));
  t.ok(ttl > IDEMPOTENCY_KEPT_MS - 60_000 && ttl <= IDEMPOTENCY_KEPT_MS, 'kept for a day');
  t.equal(
    (await alerts.create(newAccount(), hook('once'), actor, idempotency)).replayed,
    false,
    'keys are scoped to the account',
  );

  const tries = await Promise.allSettled(
    Array.from({ length: 10 }, (_, i) =>
      (i % 2 ? policies : new Policies(other)).create(account, block('race'), actor, { key: 'k-2', bodySha256: 'b' }),
    ),
  );
  const answers = new Set(tries.flatMap((one) => (one.status === 'fulfilled' ? [one.value.answer] : [])));
  t.equal(answers.size, 1, 'one answer');
  for (const one of tries) if (one.status === 'rejected') t.match(one.reason, { code: 'idempotency_in_progress' });
  t.equal((await policies.list(account, page)).total, 1);

  await refusal(t, policies.create(account, block('race'), actor, { key: 'k-3', bodySha256: 'b' }), 'name_taken');
  t.equal(await redis.exists(keys.registryIdempotency(account, 'k-3')), 0, 'a failure frees the key');
  await redis.set(keys.registryIdempotency(account, 'k-4'), 'running:policy.b:somebody');
  await refusal(
    t,
    policies.create(account, block('y'), actor, { key: 'k-4', bodySha256: 'b' }),
    'idempotency_in_progress',
  );
});

t.test('a request whose running marker ran out records nothing', async (t) => {
  const account = newAccount();
  let slow = true;
  const record = keys.registryIdempotency(account, 'k');
  // Between begin and commit the clock is asked for: the moment at which the marker is lost.
  const late = new Policies({
    ...store,
    now: () => {
      if (slow) void redis.del(record);
      slow = false;
      return Date.now();
    },
  });
  const error = await refusal(
    t,
    late.create(account, block('late'), actor, { key: 'k', bodySha256: 'b' }),
    'unavailable',
  );
  t.equal(error.recorded, false);
  t.equal((await policies.list(account, page)).total, 0);
  t.equal((await journalOf(store, account)).length, 0);
});

t.test('API keys are shown once, listed without their text, revoked', async (t) => {
  const account = newAccount();
  const key = await apiKeys.create(account, { label: 'ci', scope: 'write' }, actor);
  t.match(key, { label: 'ci', scope: 'write', expires_at: null });
  t.same(Object.keys(key).sort(), [
    'agent_id',
    'created_at',
    'expires_at',
    'id',
    'key',
    'label',
    'permissions',
    'scope',
  ]);
  const { sha256 } = parseApiKey(key.key)!;
  t.equal(await redis.get(keys.apiKeyIndex(sha256)), `${account}/${key.id}`);
  const expiring = await apiKeys.create(
    account,
    { label: 'soon', scope: 'read', expires_at: '2100-01-01T02:00:00+02:00' },
    actor,
  );
  t.equal(expiring.expires_at, '2100-01-01T00:00:00.000Z');
  await refusal(
    t,
    apiKeys.create(account, { label: 'x', scope: 'read', expires_at: '2020-01-01T00:00:00Z' }, actor),
    'validation_failed',
    '/expires_at',
  );
  await apiKeys.touch(account, new Map([[key.id, 1_700_000_000_000]]));
  const { items, total } = await apiKeys.list(account, page);
  t.equal(total, 2);
  const listed = items.find(({ id }) => id === key.id)!;
  t.match(listed, { hint: key.key.slice(-4), last_used_at: '2023-11-14T22:13:20.000Z' });
  t.notOk('sha256' in listed || 'key' in listed);
  t.notOk(JSON.stringify(await journalOf(store, account)).includes(key.key), 'the text is nowhere');
  const count = (await journalOf(store, account)).length;
  const both = await Promise.all([
    apiKeys.revoke(account, key.id, actor),
    new ApiKeys(other).revoke(account, key.id, actor),
  ]);
  t.same(both.sort(), [false, true], 'one of two revocations finds the key');
  t.equal(await redis.get(keys.apiKeyIndex(sha256)), null);
  const journal = await journalOf(store, account);
  t.equal(journal.length, count + 1);
  t.match(journal.at(-1), {
    changes: [{ kind: 'api_key', id: key.id, record: null }],
    audit: [{ action: 'api_key.revoked' }],
  });
  t.equal(await apiKeys.revoke(account, 'key_nonsense', actor), false);

  const full = newAccount();
  const filler = new Map(Array.from({ length: API_KEYS_MAX }, (_, i) => [`k${i}`, '{}']));
  await redis.hset(keys.apiKeys(full), filler);
  await refusal(t, apiKeys.create(full, { label: 'x', scope: 'read' }, actor), 'validation_failed', '/');
  await redis.hset(keys.alerts(full), new Map(Array.from({ length: ALERTS_MAX }, (_, i) => [`a${i}`, '{}'])));
  await refusal(t, alerts.create(full, hook('x'), actor), 'validation_failed', '/');
});

t.test('the account default is made once, however many processes start at once', async (t) => {
  const fresh = { redis, keys: freshKeys() };
  const made = await Promise.all(
    Array.from({ length: 12 }, (_, i) =>
      new Accounts(i % 2 ? fresh : { ...fresh, redis: other.redis }).ensureDefault(),
    ),
  );
  t.equal(new Set(made.map(({ account }) => account)).size, 1);
  const shown = made.filter(({ key }) => key !== undefined);
  t.equal(shown.length, 1, 'one of them is shown the key');
  const account = made[0]!.account;
  const list = await new ApiKeys(fresh).list(account, page);
  t.equal(list.total, 1);
  t.match(list.items[0], { scope: 'admin', hint: shown[0]!.key!.slice(-4) });
  const record = JSON.parse((await redis.hvals(fresh.keys.apiKeys(account)))[0]!) as ApiKeyRecord;
  t.equal(record.sha256, sha256Of(shown[0]!.key!));
  t.equal((await wholeJournal(fresh)).length, 1, 'one journal entry for account and key');
  t.same(
    (await wholeJournal(fresh))[0]!.changes.map(({ kind }) => kind),
    ['account', 'api_key'],
  );

  const bootstrap = 'a-bootstrap-key-that-is-long-enough-0';
  await Promise.all(Array.from({ length: 6 }, () => new Accounts(fresh).ensureDefault(bootstrap)));
  t.same(await new Accounts(fresh).ensureDefault(bootstrap), { account });
  t.equal((await new ApiKeys(fresh).list(account, page)).total, 2, 'a later bootstrap key is added once');
  t.equal(
    await redis.get(fresh.keys.apiKeyIndex(sha256Of(bootstrap))),
    `${account}/${(await new ApiKeys(fresh).list(account, page)).items.find(({ label }) => label === 'bootstrap key')!.id}`,
  );

  await pause(5);
  const changed = `${bootstrap}-changed`;
  await new Accounts(fresh).ensureDefault(changed);
  const keysThen = (await new ApiKeys(fresh).list(account, page)).items;
  t.equal(keysThen.length, 3);
  const ended = keysThen.filter(({ expires_at: until }) => until !== null && Date.parse(until) <= Date.now());
  t.match(ended, [{ label: 'bootstrap key', hint: bootstrap.slice(-4) }], 'the bootstrap key of before, and no other');
  t.equal(await redis.get(fresh.keys.apiKeyIndex(sha256Of(bootstrap))), null, 'it is no key any more');
  const audited = (await wholeJournal(fresh)).flatMap(({ audit }) => audit);
  t.match(
    audited.filter(({ action }) => action === 'api_key.revoked'),
    [{ actor: 'system', resource_id: ended[0]!.id, details: { reason: 'bootstrap_key_replaced' } }],
    'once, in the audit log',
  );
  await t.rejects(new Accounts(fresh).ensureDefault(bootstrap), {
    name: 'UserFacingError',
    message: /^GATEHOUSE_BOOTSTRAP_KEY: this key was ended/,
  });
  await new Accounts(fresh).ensureDefault(changed);
  t.ok(await redis.get(fresh.keys.apiKeyIndex(sha256Of(changed))), 'the newer one stays');

  const empty = { redis, keys: freshKeys() };
  t.equal((await new Accounts(empty).ensureDefault(bootstrap)).key, undefined, 'a bootstrap key is not shown');
  t.equal((await new ApiKeys(empty).list((await new Accounts(empty).byName('default'))!.id, page)).total, 1);
  await t.rejects(new Accounts(empty).ensureDefault(`gth_${'x'.repeat(40)}`), {
    name: 'UserFacingError',
    message: /^GATEHOUSE_BOOTSTRAP_KEY: its value begins as a key of ours/,
  });
});

t.test('accounts are named once, and their request limit is theirs', async (t) => {
  const { account, firstKey } = await accounts.create('acme', actor);
  t.ok(parseApiKey(firstKey));
  await refusal(t, accounts.create('acme', actor), 'name_taken');
  t.same(await accounts.byName('acme'), account);
  t.equal(await accounts.byName('nobody'), null);
  await accounts.create('beta', actor);
  t.same(
    (await accounts.list()).map(({ name }) => name),
    ['acme', 'beta'],
  );
  const limited = await accounts.setRequestLimit(account.id, { per_second: 5, burst: 10 }, actor);
  t.match(limited, { request_limit: { per_second: 5, burst: 10 } });
  t.match((await journalOf(store, account.id)).at(-1)!.audit[0], {
    action: 'account.updated',
    resource_id: account.id,
    details: { after: { requests_per_second: 5, requests_burst: 10 } },
  });
  t.equal(await accounts.setRequestLimit('acc_nobody', null, actor), null);
  await redis.hset(keys.accountNames(), 'half-made', newAccount());
  t.ok(
    (await accounts.create('half-made', actor)).firstKey,
    'a name that a kill left without its account is completed',
  );
});

t.test("accounts do not see each other's resources", async (t) => {
  const [mine, theirs] = [newAccount(), newAccount()];
  const { agent } = await agents.register(mine, { name: 'a' }, actor);
  const policy = await created(policies.create(mine, block('p'), actor));
  const alert = await created(alerts.create(mine, hook('h'), actor));
  const key = await apiKeys.create(mine, { label: 'k', scope: 'read' }, actor);
  t.equal(await agents.get(theirs, agent.id), null);
  t.equal(await agents.patch(theirs, agent.id, { name: 'x' }, actor), null);
  t.equal(await agents.remove(theirs, agent.id, actor), false);
  t.equal(await policies.get(theirs, policy.id), null);
  t.equal(await policies.patch(theirs, policy.id, { body: { name: 'x' } }, actor), null);
  t.equal(await policies.remove(theirs, policy.id, actor), false);
  t.equal(await alerts.get(theirs, alert.id), null);
  t.equal(await alerts.patch(theirs, alert.id, { name: 'x' }, actor), null);
  t.equal(await alerts.remove(theirs, alert.id, actor), false);
  t.equal(await apiKeys.revoke(theirs, key.id, actor), false);
  for (const list of [
    agents.list(theirs, page),
    policies.list(theirs, page),
    alerts.list(theirs, page),
    apiKeys.list(theirs, page),
  ]) {
    t.same(await list, { items: [], positions: [], total: 0, next: null });
  }
  await refusal(
    t,
    policies.create(theirs, block('p', { agent_id: agent.id }), actor),
    'validation_failed',
    '/agent_id',
  );
  t.equal((await agents.register(theirs, { name: 'a' }, actor)).created, true, 'names are free in another account');
});

t.test('names may be anything a caller can write', async (t) => {
  const account = newAccount();
  for (const name of ['', ' ', '__proto__', 'a\0b', '{x}', '*', 'ü'.repeat(200), '\r\nDEL x', '💥'].filter(
    (name) => name !== '',
  )) {
    const { agent } = await agents.register(account, { name, metadata: JSON.parse(`{"__proto__":"x"}`) }, actor);
    t.equal((await agents.get(account, agent.id))!.name, name);
    t.equal((await agents.register(account, { name }, actor)).agent.id, agent.id);
    t.equal(JSON.parse(await created(policies.create(account, block(name), actor)).then(JSON.stringify)).name, name);
  }
});

t.test('every acknowledged change has its journal entry, with revisions that rise by one', async (t) => {
  const all = await wholeJournal(store);
  for (let shard = 0; shard < 16; shard++) {
    const revisions = all.filter(({ account }) => keys.shardOf(account) === shard).map(({ revision }) => revision);
    t.same(
      revisions,
      Array.from({ length: revisions.length }, (_, i) => i + 1),
    );
    t.equal(Number((await redis.get(keys.revision(shard))) ?? 0), revisions.length);
  }
});

t.test('views are saved and deleted, each name once', async (t) => {
  const account = newAccount();
  const views = new Views(store);
  const view = (name: string) => ({ name, screen: 'events' as const, query: 'type=error' });
  const gone = await created(views.create(account, view('gone'), actor));
  await created(views.create(account, view('kept'), actor));
  await refusal(t, views.create(account, view('kept'), actor), 'name_taken');
  t.ok(await views.remove(account, gone.id, actor));
  t.notOk(await views.remove(account, gone.id, actor), 'once');
  t.match(await views.list(account, page), { total: 1, items: [{ name: 'kept' }] });
});

t.test('connections are kept with their account, and stop with their agent', async (t) => {
  const account = newAccount();
  const connections = new Connections(store);
  const make = (name: string, more = {}) => created(connections.create(account, { name, ...more }, actor));
  const ofAccount = (id: string) => redis.hget(keys.connectionAccounts(keys.shardOf(id)), id);
  const secrets = [`whsec_${'A'.repeat(43)}=`];
  const { agent } = await agents.register(account, { name: 'spoken for' }, actor);
  const [gone, kept, bound] = [
    await make('gone'),
    await make('kept', { secrets }),
    await make('b', { agent_id: agent.id }),
  ];
  await refusal(t, connections.create(account, { name: 'kept' }, actor), 'name_taken');
  t.match(kept, { secrets_set: 1, secrets: undefined });
  for (const { id } of [gone, kept, bound]) t.equal(await ofAccount(id), account, 'in the shard of its account');
  t.ok(await connections.remove(account, gone.id, actor));
  t.notOk(await connections.remove(account, gone.id, actor), 'once');
  t.equal(await ofAccount(gone.id), null);
  t.equal(await connections.patch(newAccount(), kept.id, { mode: 'watch' }, actor), null, 'of another account');
  t.match(await connections.patch(account, kept.id, { mode: 'watch' }, actor), { mode: 'watch', secrets_set: 1 });
  t.ok(await agents.remove(account, agent.id, actor));
  t.match(await connections.get(account, bound.id), { status: 'inactive' });
});

t.test('price tables that are replaced at once are a revision each', async (t) => {
  const account = newAccount();
  const tables = new PriceTables(store);
  const price = (input: string) => ({ prices: [{ model: 'm', input, output: '0 USD' }] });
  const made = await Promise.all(
    ['1 USD', '2 USD', '3 USD', '4 USD'].map((input) => tables.replace(account, price(input), undefined, actor)),
  );
  t.same(made.map(({ revision }) => revision).sort(), [2, 3, 4, 5]);
  t.same(
    await tables.get(account),
    made.find(({ revision }) => revision === 5),
  );
  const rows = (await wholeJournal(store)).filter((entry) => entry.account === account).flatMap((entry) => entry.rows);
  t.same(
    rows.map((row) => [row!.table, row!.row['id']]),
    [2, 3, 4, 5].map((id) => ['price_revisions', id]),
  );
  await refusal(t, tables.replace(account, price('9 USD'), [4], actor), 'revision_conflict');
  await refusal(t, tables.replace(account, price('1 EUR'), undefined, actor), 'validation_failed');
});

t.test('a check is deleted once no policy names it, and not while one is being made', async (t) => {
  const account = newAccount();
  const checks = new ExternalChecks(store);
  const body = { speaks: 'presidio', url: 'https://presidio.example.com/analyze' } as const;
  const made = await created(checks.create(account, { name: 'guard', ...body, secret: 'hush' }, actor));
  await created(checks.create(account, { name: 'other', ...body }, actor));
  await refusal(t, checks.create(account, { name: 'guard', ...body }, actor), 'name_taken');
  t.match(made, { secret_set: true, secret: undefined });
  t.match(await checks.record(account, made.id), { secret: 'hush' });
  const said = { on_timeout: 'match', on_error: 'match', on_overload: 'match' };
  const naming = (name: string, check: string) =>
    policies.create(
      account,
      { name, type: 'external_check', conditions: { check, ...said }, actions: ['block'], status: 'inactive' },
      actor,
    );
  const { id } = await created(naming('names it', 'guard'));
  await refusal(t, checks.remove(account, made.id, actor), 'check_in_use');
  await refusal(t, naming('names none', 'nothing'), 'validation_failed');
  const change = (check: string) => policies.patch(account, id, { body: { conditions: { check, ...said } } }, actor);
  await refusal(t, change('nothing'), 'validation_failed');
  await change('other');
  t.equal(await checks.patch(newAccount(), made.id, { at_once: 1 }, actor), null, 'of another account');
  const both = await Promise.allSettled([checks.remove(account, made.id, actor), naming('at once', 'guard')]);
  t.equal(both.filter(({ status }) => status === 'fulfilled').length, 1, 'one of the two, never both');
  for (const one of (await policies.list(account, { limit: 10, offset: 0 })).items)
    await policies.remove(account, one.id, actor);
  const isThere = (await checks.get(account, made.id)) !== null;
  t.equal(await checks.remove(account, made.id, actor), isThere);
  t.notOk(await checks.remove(account, made.id, actor), 'once');
});

t.test('an outgoing feed goes on from the place that its record was given last', async (t) => {
  const account = newAccount();
  const feeds = new OutgoingFeeds(store);
  const place = (n: number) => ({ approvals: 0, deliveries: 0, chains: [n] });
  const body = { name: 'siem', url: 'https://siem.example.com/?code=hush' };
  const { id } = await created(feeds.create(account, { body, place: place(1) }, actor));
  const text = async () => (await redis.hget(keys.outgoingFeeds(account), id))!;
  const before = await text();
  await feeds.note(account, { text: before, place: place(2) });
  t.match(JSON.parse(await text()), { place: place(2), url: body.url });
  await feeds.note(account, { text: before, place: place(3) });
  t.match(JSON.parse(await text()), { place: place(2) }, 'not where it was changed since');
  t.equal((await feeds.patch(account, id, { name: 'other' }, actor))?.url, 'https://siem.example.com/?…');
  t.match(JSON.parse(await text()), { place: place(2), name: 'other' });
  const [last] = (await wholeJournal(store)).filter((entry) => entry.account === account).slice(-1);
  t.match(last, { audit: [{ action: 'outgoing_feed.updated', details: { changed: ['name'] } }] });
  t.notMatch(JSON.stringify(last!.audit), /hush|whsec_/);
});

t.test('a registry is rebuilt from its journal as it was', async (t) => {
  const rows: RestoredRow[] = (await wholeJournal(store)).flatMap(({ account, revision, changes }) =>
    changes.map(({ kind, id, record }) => ({ account, kind, id, revision, record })),
  );
  await t.rejects(rebuildRegistry(rows, store), NotEmpty, 'a registry that is there is left alone');
  const copy = { redis, keys: freshKeys() };
  const shuffled = rows
    .map((row) => ({ row, at: randomBytes(4).toString('hex') }))
    .sort((a, b) => (a.at < b.at ? -1 : 1));
  const counts = await rebuildRegistry(
    (async function* () {
      for (const { row } of shuffled) yield row;
    })(),
    copy,
  );
  t.ok(counts.agent > 0 && counts.policy > 0 && counts.alert > 0 && counts.api_key > 0 && counts.account > 0);
  t.equal(counts.view, 1);
  t.equal(counts.connection, 2);
  t.equal(counts.check, 1);
  t.equal(counts.outgoing_feed, 1);
  t.equal(counts.prices, 1);
  const skip = /idem:|idem-order|commit:|journal|:api-key-uses|:last-seen|:registry$/;
  const before = await dump(store, skip);
  const after = await dump(copy, skip);
  const journalled = new Set(rows.map(({ account }) => account));
  let compared = 0;
  for (const [key, value] of before) {
    const account = /:(acc_[0-9a-z]{26}):/.exec(key)?.[1];
    if (account !== undefined && !journalled.has(account)) continue;
    // The first test makes changes that touch no resource; its shard may have had no others.
    if (key.endsWith(':revision') && value === '1' && ['0', undefined].includes(after.get(key) as string)) continue;
    // An erasure says when it was ordered, here and there.
    if (key.endsWith(':erasures')) continue;
    compared++;
    if (JSON.stringify(after.get(key)) !== JSON.stringify(value)) t.same(after.get(key), value, key);
  }
  t.ok(compared > 50, `${compared} keys compared`);
  t.equal((await new Accounts(copy).byName('acme'))!.name, 'acme');
  t.same(
    await new Agents(copy)
      .register((await new Accounts(copy).byName('acme'))!.id, { name: 'fresh' }, actor)
      .then((r) => r.created),
    true,
  );
  await t.rejects(rebuildRegistry([], copy), NotEmpty);
});

/** Key without prefix -> its content, in an order that does not depend on insertion. */
async function dump(from: { redis: typeof redis; keys: typeof keys }, skip: RegExp): Promise<Map<string, unknown>> {
  const found = new Map<string, unknown>();
  const nodes =
    'nodes' in from.redis && typeof from.redis.nodes === 'function' ? from.redis.nodes('master') : [from.redis];
  for (const node of nodes) {
    for (const key of await node.keys(`{${from.keys.prefix}[rkg]*`)) {
      if (skip.test(key)) continue;
      found.set(key.replace(from.keys.prefix, ''), await contentOf(from.redis, key));
    }
  }
  return found;
}

async function contentOf(client: typeof redis, key: string): Promise<unknown> {
  const type = await client.type(key);
  if (type === 'string') return client.get(key);
  if (type === 'set') return (await client.smembers(key)).sort();
  if (type === 'zset') return client.zrange(key, '0', '-1');
  return Object.entries(await client.hgetall(key)).sort(([a], [b]) => (a < b ? -1 : 1));
}
