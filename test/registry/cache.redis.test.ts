// What fronts know of the registry: that they know it without asking, and that no change stays unknown for a second,
// with notices, without them, with broken cables and with Redis gone.
import t, { type Test } from 'tap';
import type { AgentRecord } from '../../schemas/agent.ts';
import { SESSION_IDLE_MS, SESSION_MS_MAX } from '../../src/common/limits.ts';
import { Authenticator } from '../../src/http/admission/authenticate.ts';
import type { RuleSet } from '../../src/policy/engine.ts';
import type { RedisAddress } from '../../src/redis/client.ts';
import { Accounts } from '../../src/registry/accounts/accounts.ts';
import { sha256Of } from '../../src/registry/accounts/api-key-text.ts';
import { ApiKeys } from '../../src/registry/accounts/api-keys.ts';
import { Sessions } from '../../src/registry/accounts/sessions.ts';
import { Agents } from '../../src/registry/agents.ts';
import { RegistryCache } from '../../src/registry/cache/cache.ts';
import { Policies } from '../../src/registry/policies/policies.ts';
import { OwnTime, undisturbed } from '../support/own-time.ts';
import { startRedis } from '../support/redis.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { actor, connectStore, eventually, journalOf, newAccount, refusal, type Store } from './harness.ts';

const started = await startRedis(t);
const { address } = started;
const store = await connectStore(t, address);
const agents = new Agents(store);
const policies = new Policies(store);
const apiKeys = new ApiKeys(store);
const accounts = new Accounts(store);

async function startCache(
  t: Test,
  at: RedisAddress = address,
  { keys }: Pick<Store, 'keys'> = store,
): Promise<RegistryCache> {
  const cache = new RegistryCache({ address: at, keys });
  await cache.start();
  t.teardown(() => cache.close());
  return cache;
}

const block = (name: string) => ({
  name,
  type: 'block_action' as const,
  conditions: { tool: 'x' },
  actions: ['block' as const],
});
const statusIn = async (cache: RegistryCache, account: string, id: string) =>
  (await cache.agent(account, id))?.record.status;
const sizeOf = (rules: unknown) => (rules as RuleSet).size;
const isPlain = (value: unknown) => !(value instanceof Promise);
const ping = () => store.redis.ping();
/** Ms until it holds, as we and Redis had them. */
const msUntil = (holds: () => boolean | Promise<boolean>) => eventually(holds, ping);

t.test('what was read once is known without asking', async (t) => {
  const cache = await startCache(t);
  const { account, firstKey } = await accounts.create('plain', actor);
  const { agent } = await agents.register(account.id, { name: 'a' }, actor);
  await policies.create(account.id, block('p'), actor);
  await policies.create(account.id, { ...block('q'), status: 'inactive' }, actor);
  const hash = sha256Of(firstKey);
  t.match(await cache.principal(hash), { account: account.id, scope: 'admin', expiresAtMs: null, requestLimit: null });
  const { last_seen_at: _, ...record } = agent;
  t.same(await cache.agent(account.id, agent.id), { record, account: account.id });
  t.equal((await cache.rules(account.id)).size, 1, 'active policies only');
  t.ok(
    isPlain(cache.principal(hash)) && isPlain(cache.agent(account.id, agent.id)) && isPlain(cache.rules(account.id)),
  );
  t.equal(cache.rules(account.id), cache.rules(account.id), 'compiled once');

  t.equal(await cache.agent(newAccount(), agent.id), null, 'an agent of another account is unknown');
  t.equal(await cache.agent(account.id, 'no such id'), null);
  t.equal((await cache.rules(newAccount())).size, 0);
  t.equal(await cache.principal(sha256Of('nobody')), null);
  t.equal(cache.principal(sha256Of('nobody')), null, 'that there is none is known for a while, too');
});

t.test('a change is in force on two fronts within a second', async (t) => {
  const caches = [await startCache(t), await startCache(t)];
  const account = newAccount();
  const { agent } = await agents.register(account, { name: 'a' }, actor);
  let slowest = 0;
  for (let i = 0; i < 50; i++) {
    const status = i % 2 ? 'active' : 'inactive';
    await Promise.all(caches.map((cache) => cache.agent(account, agent.id)));
    await agents.patch(account, agent.id, { status }, actor);
    const ms = await msUntil(async () =>
      (await Promise.all(caches.map((cache) => statusIn(cache, account, agent.id)))).every((s) => s === status),
    );
    slowest = Math.max(slowest, ms);
    await Promise.all(caches.map((cache) => cache.rules(account)));
    await policies.create(account, block(`p${i}`), actor);
    slowest = Math.max(
      slowest,
      await msUntil(async () =>
        (await Promise.all(caches.map(async (cache) => (await cache.rules(account)).size))).every(
          (size) => size === i + 1,
        ),
      ),
    );
  }
  // The check that trusts no notice comes every 500 ms: with notices it is far quicker.
  t.ok(slowest < 200, `100 changes, the slowest after ${slowest} ms`);
});

t.test(
  'a policy begins at its time, on each front and on one that starts meanwhile, and nobody waits for it',
  async (t) => {
    const before = await startCache(t);
    const account = newAccount();
    await policies.create(account, block('always'), actor);
    await policies.create(account, { ...block('far'), starts_at: '2999-01-01T00:00:00Z' }, actor);
    await policies.create(account, { ...block('over'), starts_at: '2020-01-01T00:00:00+02:00' }, actor);
    const namesIn = async (cache: RegistryCache) =>
      [...(await cache.rules(account)).rules.values()].map(({ policy }) => policy.name).sort();
    const startsMs = Date.now() + 1_500;
    const soon = JSON.parse(
      (await policies.create(account, { ...block('soon'), starts_at: new Date(startsMs).toISOString() }, actor)).answer,
    );
    t.equal(soon.starts_at, new Date(startsMs).toISOString());
    const after = await startCache(t);
    for (const cache of [before, after]) {
      const names = await namesIn(cache);
      if (Date.now() < startsMs) t.same(names, ['always', 'over'], 'not before its time');
    }
    const caches = [before, after];
    // No event asks for the rules meanwhile: what is known is only looked at.
    const known = () =>
      caches.map((cache) => cache.rules(account)).every((rules) => isPlain(rules) && sizeOf(rules) === 3);
    await eventually(known, ping);
    t.ok(Date.now() >= startsMs, 'not before its time');
    for (const cache of caches) t.same(await namesIn(cache), ['always', 'over', 'soon']);

    await policies.patch(account, soon.id, { body: { starts_at: '2999-01-01T00:00:00Z' } }, actor);
    await eventually(async () => (await Promise.all(caches.map(namesIn))).every((names) => names.length === 2), ping);
    await policies.patch(account, soon.id, { body: { starts_at: null } }, actor);
    await eventually(async () => (await Promise.all(caches.map(namesIn))).every((names) => names.length === 3), ping);
    t.notOk('starts_at' in (await policies.get(account, soon.id))!);
  },
);

t.test('a new key works, a revoked one does not, an expired one neither', async (t) => {
  const cache = await startCache(t);
  const { account } = await accounts.create('keys', actor);
  const key = await apiKeys.create(account.id, { label: 'k', scope: 'read' }, actor);
  t.match(await cache.principal(sha256Of(key.key)), { keyId: key.id, scope: 'read' });
  await apiKeys.revoke(account.id, key.id, actor);
  const revokedMs = await msUntil(async () => (await cache.principal(sha256Of(key.key))) === null);
  t.ok(revokedMs < 1_000, `revoked after ${revokedMs} ms`);

  const { soon, before } = await undisturbed(290, async () => {
    const expires_at = new Date(Date.now() + 300).toISOString();
    const soon = await apiKeys.create(account.id, { label: 's', scope: 'read', expires_at }, actor);
    return { soon, before: await cache.principal(sha256Of(soon.key)) };
  });
  t.match(before, { keyId: soon.id }, 'known until then');
  await new Promise((resolve) => setTimeout(resolve, 310));
  t.equal(cache.principal(sha256Of(soon.key)), null, 'refused at its time, cached or not');

  const used = await apiKeys.create(account.id, { label: 'u', scope: 'read' }, actor);
  await cache.principal(sha256Of(used.key));
  await apiKeys.touch(account.id, new Map([[used.id, Date.now()]]));
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.ok(isPlain(cache.principal(sha256Of(used.key))), 'use does not make a key unknown');
  await accounts.setRequestLimit(account.id, { per_second: 7, burst: 9 }, actor);
  const limitedMs = await msUntil(
    async () => (await cache.principal(sha256Of(used.key)))?.requestLimit?.perSecond === 7,
  );
  t.ok(limitedMs < 1_000, `limited after ${limitedMs} ms`);

  const { keys, redis } = store;
  await redis.set(keys.apiKeyIndex(sha256Of('half')), `${account.id}/key_half`);
  t.equal(await cache.principal(sha256Of('half')), null, 'an index without a record is no key');
});

t.test('a deleted agent is unknown within a second, a registered one known', async (t) => {
  const cache = await startCache(t);
  const account = newAccount();
  const { agent } = await agents.register(account, { name: 'a' }, actor);
  t.ok(await cache.agent(account, agent.id));
  await agents.remove(account, agent.id, actor);
  const ms = await msUntil(async () => (await cache.agent(account, agent.id)) === null);
  t.ok(ms < 1_000, `unknown after ${ms} ms`);
});

t.test('a cut connection loses no change', async (t) => {
  const cache = await startCache(t);
  const account = newAccount();
  const { agent } = await agents.register(account, { name: 'a' }, actor);
  const nodes = started.servers.map(({ port }) => ({ url: `redis://127.0.0.1:${port}`, cluster: false }));
  const admins = await Promise.all(nodes.map((node) => connectStore(t, node)));
  for (let i = 0; i < 6; i++) {
    const status = i % 2 ? 'active' : 'inactive';
    await eventually(async () => (await statusIn(cache, account, agent.id).catch(() => undefined)) !== undefined);
    for (const { redis } of admins) await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await eventually(() =>
      agents.patch(account, agent.id, { status }, actor).then(
        () => true,
        () => false,
      ),
    );
    const ms = await eventually(
      async () => (await statusIn(cache, account, agent.id).catch(() => undefined)) === status,
      () => ping().catch(() => undefined),
    );
    t.ok(ms < 1_000, `in force after ${ms} ms`);
  }
});

t.test('a change is in force within a second although no notice of it comes', { skip: address.cluster }, async (t) => {
  let dropping = false;
  let dropped = 0;
  const proxy = await startTcpProxy(t, started.servers[0]!.port, (data) => {
    if (!dropping) return data;
    const text = data.toString('latin1');
    dropped += text.match(NOTICE)?.length ?? 0;
    return Buffer.from(text.replace(NOTICE, ''), 'latin1');
  });
  const cache = await startCache(t, { url: `redis://127.0.0.1:${proxy.port}`, cluster: false });
  const account = newAccount();
  const { agent } = await agents.register(account, { name: 'a' }, actor);
  const key = await apiKeys.create(
    (await accounts.create('deaf', actor)).account.id,
    { label: 'k', scope: 'read' },
    actor,
  );
  dropping = true;
  const start = performance.now();
  let slowest = 0;
  for (let i = 0; i < 6; i++) {
    const status = i % 2 ? 'active' : 'inactive';
    t.ok(await cache.agent(account, agent.id));
    await cache.rules(account);
    await agents.patch(account, agent.id, { status }, actor);
    await policies.create(account, block(`p${i}`), actor);
    slowest = Math.max(
      slowest,
      await msUntil(
        async () =>
          (await statusIn(cache, account, agent.id)) === status && (await cache.rules(account)).size === i + 1,
      ),
    );
  }
  // Each but the first began right after a check, and waited for the next.
  const allMs = performance.now() - start;
  t.ok(allMs > 2_000 && dropped > 0, `notices were lost indeed: ${dropped}, ${allMs.toFixed(0)} ms for six changes`);
  t.ok(slowest < 1_000, `the slowest after ${slowest} ms`);
  t.ok(await cache.principal(sha256Of(key.key)));
  const listed = (await accounts.byName('deaf'))!.id;
  await apiKeys.revoke(listed, key.id, actor);
  const revokedMs = await msUntil(async () => (await cache.principal(sha256Of(key.key))) === null);
  t.ok(revokedMs < 1_000, `revoked after ${revokedMs} ms`);
});

t.test('changes of others in the shard do not make a front forget what stands', async (t) => {
  const cache = await startCache(t);
  const account = newAccount();
  const { agent } = await agents.register(account, { name: 'a' }, actor);
  await cache.agent(account, agent.id);
  let rules = await cache.rules(account);
  let neighbour = newAccount();
  while (store.keys.shardOf(neighbour) !== store.keys.shardOf(account)) neighbour = newAccount();
  // Where we or Redis stood still a notice may come late, and count as lost: that is no fault, and costs a read. A
  // notice and the read that it causes take four turns at most, and have 100 ms: turns of a quarter of that are no
  // standstill, however many.
  const stillMs = 25;
  let [quietMs, sinceStillMs, registered] = [0, 0, 0];
  const faults: string[] = [];
  const end = performance.now() + 20_000;
  for (let last = performance.now(); quietMs < 1_500 && last < end; ) {
    await agents.register(neighbour, { name: `n${registered++}` }, actor);
    await new Promise((resolve) => setTimeout(resolve, 5));
    const tickMs = performance.now() - last;
    last += tickMs;
    sinceStillMs = tickMs < stillMs ? sinceStillMs + tickMs : 0;
    if (tickMs < stillMs) quietMs += tickMs;
    if (cache.rules(account) === rules && isPlain(cache.agent(account, agent.id))) continue;
    if (sinceStillMs > 700) faults.push(`forgotten ${sinceStillMs.toFixed(0)} ms after anything stood still`);
    rules = await cache.rules(account);
    await cache.agent(account, agent.id);
  }
  t.same(faults, [], `notices had told of everything, over ${quietMs.toFixed(0)} ms`);
});

t.test('many who miss at once ask once', async (t) => {
  const cache = await startCache(t);
  const account = newAccount();
  await policies.create(account, block('p'), actor);
  const sets = await Promise.all(Array.from({ length: 100 }, () => cache.rules(account)));
  t.equal(new Set(sets).size, 1);
});

t.test('a front that Redis is gone for knows nothing, and everything again afterwards', async (t) => {
  const cache = await startCache(t);
  const account = newAccount();
  const { agent } = await agents.register(account, { name: 'a' }, actor);
  await cache.agent(account, agent.id);
  const exits = started.servers.map(({ child }) => new Promise((resolve) => child.once('exit', resolve)));
  for (const { child } of started.servers) child.kill('SIGKILL');
  await Promise.all(exits);
  const ms = await eventually(async () => {
    const time = new OwnTime();
    const error = await Promise.resolve(cache.agent(account, agent.id)).then(
      () => undefined,
      (error: { code: string }) => error,
    );
    const waitedMs = time.stop();
    if (waitedMs > 500) t.fail(`waited ${waitedMs} ms for Redis`);
    return error?.code === 'unavailable';
  });
  t.ok(ms < 1_000, `unavailable after ${ms} ms`);
  await Promise.all(started.servers.map((server) => server.restart()));
  const back = await eventually(
    async () => (await Promise.resolve(cache.agent(account, agent.id)).catch(() => undefined)) !== undefined,
  );
  t.ok(back < 4_000, `back after ${back} ms`);
  await eventually(() =>
    agents.patch(account, agent.id, { status: 'inactive' }, actor).then(
      () => true,
      () => false,
    ),
  );
  await eventually(async () => (await statusIn(cache, account, agent.id).catch(() => undefined)) === 'inactive');
  const record: AgentRecord = (await cache.agent(account, agent.id))!.record;
  t.equal(record.name, 'a');
});

/** Notices of invalidation are RESP3 pushes. */
const NOTICE = />2\r\n\$10\r\ninvalidate\r\n(?:\*1\r\n\$\d+\r\n[^\r]*\r\n|_\r\n)/g;

t.test('a session that was not used for twelve hours has ended, unless another front has seen it', async (t) => {
  const cache = await startCache(t);
  const { firstKey } = await accounts.create('browsers', actor);
  const principal = (await cache.principal(sha256Of(firstKey)))!;
  const sessions = new Sessions(store);
  const { secret, session } = await sessions.create(principal, {
    ...actor,
    ip: '192.0.2.7',
    userAgent: 'x'.repeat(400),
  });
  const authenticator = new Authenticator(cache);
  const begun = Date.parse(session.created_at!);
  const known = await authenticator.ofSession(secret, begun + SESSION_IDLE_MS - 1);
  t.match(known, { keyId: principal.keyId, sessionId: session.id, expiresAtMs: begun + SESSION_MS_MAX });
  const idle = begun + 3 * SESSION_IDLE_MS;
  await refusal(t, authenticator.ofSession(secret, idle), 'invalid_token');
  await sessions.touch(principal.account, new Map([[session.id!, idle - 1_000]]));
  t.equal((await authenticator.ofSession(secret, idle)).sessionId, session.id);
  await sessions.touch(principal.account, new Map([[session.id!, begun + SESSION_MS_MAX]]));
  await refusal(t, authenticator.ofSession(secret, begun + SESSION_MS_MAX), 'invalid_token');
  for (const none of ['', secret.slice(1), `${secret}x`, 'A'.repeat(43)])
    await refusal(t, authenticator.ofSession(none, begun), 'invalid_token');
  const { items } = await sessions.list(principal.account, { limit: 10, offset: 0 });
  t.match(items, [{ id: session.id, ip: '192.0.2.7', user_agent: 'x'.repeat(300) }]);
  const later = new Sessions({ ...store, now: () => begun + SESSION_MS_MAX + 1 });
  t.same((await later.list(principal.account, { limit: 10, offset: 0 })).items, [], 'what is over is not listed');
  await sessions.touch(principal.account, new Map([['ses_of_nobody', begun]]));
  await later.create(principal, actor);
  t.equal(await store.redis.hlen(store.keys.sessionUses(principal.account)), 1, 'nor is anything left of its use');
  t.same(
    await store.redis.hget(store.keys.sessions(principal.account), session.id!),
    null,
    'and goes with the next one',
  );
  const kept = JSON.stringify([
    await store.redis.hvals(store.keys.sessions(principal.account)),
    await journalOf(store, principal.account),
  ]);
  t.notMatch(kept, secret, 'its secret is nowhere kept');
});
