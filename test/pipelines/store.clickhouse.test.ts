// The store pipeline against a real Redis and the real engine: what is appended is stored once, what cannot be is
// dead-lettered, what was deleted never appears, and the registry's journal is copied.
import t from 'tap';
import { ENTRY_VERSION, PACKED_ENTRY_VERSION } from '../../schemas/entry.ts';
import type { JournalEntry } from '../../schemas/journal.ts';
import { mintId } from '../../src/common/ids.ts';
import { DeadLetters } from '../../src/streams/dead-letters.ts';
import { ReadBarrier } from '../../src/streams/read-barrier.ts';
import { appendOf, eventually, freshAgent, makeEvent, sentScript } from '../streams/harness.ts';
import { startClickHouse } from '../support/clickhouse.ts';
import { intercepted } from '../support/intercepted.ts';
import { startRedis } from '../support/redis.ts';
import { makeWorld, pickyAbout, startPipelines, storedIds } from './harness.ts';

const servers = { redis: await startRedis(t), clickhouse: await startClickHouse(t) };

t.test('everything that was appended is stored once, over months and partitions, and leaves its stream', async (t) => {
  const world = await makeWorld(t, servers);
  const { appender, clickhouse, keys, redis } = world;
  const { count } = await startPipelines(t, world);
  const agents = Array.from({ length: 20 }, freshAgent);
  const may = Date.UTC(2026, 4, 31, 23, 59, 59, 900);
  const made = agents.map((agent) =>
    Array.from({ length: 10 }, (_, i) => makeEvent(agent, { received_at: may + i * 20 })),
  );
  await Promise.all(agents.map((agent, i) => appender.append(appendOf(agent, made[i]!))));
  const ids = made
    .flat()
    .map(({ id }) => id)
    .sort();
  t.ok(await eventually(async () => (await count('gatehouse_stored_rows_total', { table: 'events' })) >= 200));
  t.same(await storedIds(clickhouse), ids);
  t.equal(await count('gatehouse_taken_events_total'), 200);
  t.ok(
    await eventually(async () => (await redis.xlen(keys.events(0))) + (await redis.xlen(keys.events(1))) === 0),
    'trimmed',
  );
  const [row] = await clickhouse.query<{ payload: string }>('SELECT payload FROM events LIMIT 1');
  t.equal(row!.payload, '{"tool":"search","query":"weather"}');
});

t.test(
  'a row that the table refuses is dead-lettered alone, its 99 neighbours are stored; mended, it is stored once',
  async (t) => {
    const world = await makeWorld(t, servers);
    const { appender, clickhouse, keys, redis } = world;
    await clickhouse.command(pickyAbout('poison'));
    const { count } = await startPipelines(t, world);
    const agent = freshAgent();
    const made = Array.from({ length: 100 }, (_, i) => makeEvent(agent, i === 50 ? { payload: '{"poison":1}' } : {}));
    const good = made
      .filter((_, i) => i !== 50)
      .map(({ id }) => id)
      .sort();
    await appender.append(appendOf(agent, made));
    t.ok(await eventually(async () => (await count('gatehouse_dead_letter_rows_total', { table: 'events' })) === 1));
    t.same(await storedIds(clickhouse), good);
    t.equal(await count('gatehouse_stored_rows_total', { table: 'events' }), 99);
    t.equal(await count('gatehouse_taken_events_total'), 100);
    const dead = new DeadLetters({ redis, keys });
    const [deadLetters, ...more] = await dead.list(10);
    t.equal(more.length, 0);
    t.match(deadLetters, { eventIds: [made[50]!.id], group: 'store', reason: /parse/i });
    await clickhouse.command('ALTER TABLE events DROP COLUMN picky');
    t.equal(await dead.retry([deadLetters!]), 1);
    t.equal(await dead.retry([deadLetters!]), 0, 'gone from the dead stream');
    t.ok(await eventually(async () => (await storedIds(clickhouse)).length === 100));
    t.equal(await dead.count(), 0);
  },
);

t.test(
  'rows that do not end where they should are dead-lettered alone: none is ever read on into its neighbour',
  async (t) => {
    const world = await makeWorld(t, { ...servers, partitions: 1 });
    const { appender, clickhouse } = world;
    const { count } = await startPipelines(t, world, { groups: ['store'] });
    const agent = freshAgent();
    const whole = Array.from({ length: 60 }, () => makeEvent(agent, { tokens_used: 7 }));
    const odd = Array.from({ length: 20 }, (_, i) => {
      const { row } = makeEvent(agent);
      const cut = row.subarray(0, -1 - i);
      return makeEvent(agent, { row: i % 2 ? cut : Buffer.concat([row, Buffer.alloc(1 + i)]) });
    });
    await appender.append(
      appendOf(
        agent,
        [...whole, ...odd].sort((a, b) => (a.id < b.id ? -1 : 1)),
      ),
    );
    t.ok(await eventually(async () => (await count('gatehouse_dead_letter_rows_total', { table: 'events' })) === 20));
    t.same(await storedIds(clickhouse), whole.map(({ id }) => id).sort());
  },
);

t.test(
  'a table that refuses everything dead-letters nothing: the batch waits and is stored when the table is mended',
  async (t) => {
    const world = await makeWorld(t, { ...servers, partitions: 1 });
    const { appender, clickhouse, keys, redis } = world;
    await clickhouse.command(pickyAbout('tool'));
    const { pipelines, count } = await startPipelines(t, world, { groups: ['store'] });
    const agent = freshAgent();
    const made = Array.from({ length: 150 }, () => makeEvent(agent));
    await appender.append(appendOf(agent, made));
    const failed = () => count('gatehouse_inserts_total', { table: 'events', result: 'failed' });
    t.ok(await eventually(async () => (await failed()) > 30));
    t.equal(await new DeadLetters({ redis, keys }).count(), 0);
    await clickhouse.command('ALTER TABLE events DROP COLUMN picky');
    t.ok(await eventually(async () => (await storedIds(clickhouse)).length === 150));
    t.ok(await eventually(() => pipelines.healthy().ok), 'healthy again');
  },
);

t.test('a re-queued entry whose events are stored already changes nothing', async (t) => {
  const world = await makeWorld(t, { ...servers, partitions: 1 });
  const { appender, clickhouse, keys, redis } = world;
  const { count } = await startPipelines(t, world);
  const agent = freshAgent();
  const made = Array.from({ length: 10 }, () => makeEvent(agent));
  await appender.append(appendOf(agent, made));
  t.ok(await eventually(async () => (await storedIds(clickhouse)).length === 10));
  const { summaries, rows } = appendOf(agent, [...made.slice(3), makeEvent(agent)]);
  await redis.xadd(
    keys.dead(0),
    '*',
    'v',
    ENTRY_VERSION,
    'd',
    `[${summaries.join(',')}]`,
    'r',
    rows,
    'g',
    'store',
    'why',
    'test',
    'at',
    '1',
    'from',
    '1-1',
  );
  const dead = new DeadLetters({ redis, keys });
  await dead.retry(await dead.list(1));
  t.ok(await eventually(async () => (await count('gatehouse_taken_events_total')) === 18));
  const stored = await storedIds(clickhouse);
  t.equal(stored.length, 11);
  t.equal(new Set(stored).size, 11);
});

t.test('an unreadable entry is dead-lettered whole, and the next one is stored', async (t) => {
  const world = await makeWorld(t, { ...servers, partitions: 1 });
  const { appender, clickhouse, keys, redis } = world;
  const agent = freshAgent();
  await redis.xadd(keys.events(0), '*', 'v', '9', 'd', '[]');
  const unsound = [
    ['[null]', 'abc'],
    [JSON.stringify([makeEvent(agent).summary]), 'short'],
    ['[["evt_1","prompt",1,1,3]]', 'abc'],
  ];
  for (const [summaries, rows] of unsound)
    await redis.xadd(keys.events(0), '*', 'v', ENTRY_VERSION, 'd', summaries!, 'r', rows!);
  await redis.xadd(keys.events(0), '*', 'v', PACKED_ENTRY_VERSION, 'd', '[]', 'r', 'rows');
  await appender.append(appendOf(agent, [makeEvent(agent)]));
  const { count } = await startPipelines(t, world);
  t.ok(await eventually(async () => (await storedIds(clickhouse)).length === 1));
  // Dead-lettered with the acknowledgement, which comes after the insert.
  t.ok(await eventually(async () => (await count('gatehouse_dead_letter_rows_total', { table: 'events' })) === 5));
  t.ok(
    await new ReadBarrier({ redis, keys, waitMs: 60_000 }).waitForAnomalies(agent.account, agent.agent),
    'neither group is held up',
  );
  const dead = await new DeadLetters({ redis, keys }).list(100);
  const reasons = dead.filter(({ group }) => group === 'store').map(({ reason }) => reason);
  t.match(reasons, [/version 9/, /summary/, /bytes/, /whose/, /unpacked/]);
});

t.test(
  'a deleted agent: what is in flight never appears, what is stored goes, and the erasure is forgotten at the end',
  async (t) => {
    const world = await makeWorld(t, { ...servers, partitions: 1 });
    const { appender, clickhouse, keys, redis } = world;
    const [gone, stays] = [freshAgent(), freshAgent()];
    const first = await startPipelines(t, world);
    await appender.append(
      appendOf(gone, [makeEvent(gone, { outcome: 'blocked', summary: { outcome: 'blocked', reason: 'policy' } })]),
    );
    t.ok(await eventually(async () => (await storedIds(clickhouse)).length === 1));
    await first.pipelines.stop();

    await appender.append(appendOf(gone, [makeEvent(gone), makeEvent(gone)]));
    const kept = makeEvent(stays);
    await appender.append(appendOf(stays, [kept]));
    const shard = keys.shardOf(gone.account);
    await redis.sadd(keys.tombstones(gone.account), gone.agent);
    await redis.hset(keys.erasures(shard), gone.agent, JSON.stringify({ account: gone.account, at: Date.now() }));
    const { count } = await startPipelines(t, world);
    t.ok(await eventually(async () => (await redis.hlen(keys.erasures(shard))) === 0), 'erased');
    t.same(await storedIds(clickhouse), [kept.id]);
    t.same(await clickhouse.query('SELECT id FROM anomalies FINAL'), []);
    t.equal(await count('gatehouse_erased_rows_total'), 2);
    t.equal(await redis.hget(keys.lastSeen(0), gone.agent), null);
    t.equal(await redis.sismember(keys.tombstones(gone.account), gone.agent), 1, 'the tombstone stays');

    // A front that has not heard of it yet.
    await appender.append(appendOf(gone, [makeEvent(gone)]));
    t.ok(await eventually(async () => (await count('gatehouse_erased_rows_total')) === 3));
    t.same(await storedIds(clickhouse), [kept.id]);
  },
);

t.test('an agent deleted between two owners of one batch: its neighbours are stored once all the same', async (t) => {
  const world = await makeWorld(t, { ...servers, partitions: 1 });
  const { appender, clickhouse, keys, redis } = world;
  const [gone, stays] = [freshAgent(), freshAgent()];
  const made = [makeEvent(gone), makeEvent(gone)];
  const kept = [makeEvent(stays), makeEvent(stays)];
  await Promise.all([appender.append(appendOf(gone, made)), appender.append(appendOf(stays, kept))]);
  // The first owner inserts and dies before its ack: it cannot, since its engine answers and then its Redis says no
  // more.
  const first = await startPipelines(
    t,
    { ...world, redis: refusing(world.redis, 'stream-ack') },
    { processName: 'same', groups: ['store'] },
  );
  t.ok(await eventually(async () => (await storedIds(clickhouse)).length === 4));
  await first.pipelines.stop();
  const shard = keys.shardOf(gone.account);
  await redis.sadd(keys.tombstones(gone.account), gone.agent);
  await redis.hset(keys.erasures(shard), gone.agent, JSON.stringify({ account: gone.account, at: Date.now() }));
  const { count } = await startPipelines(t, world, { processName: 'same' });
  t.ok(await eventually(async () => (await redis.hlen(keys.erasures(shard))) === 0), 'erased');
  t.same(await storedIds(clickhouse), kept.map(({ id }) => id).sort());
  t.equal(await count('gatehouse_stored_rows_total', { table: 'events' }), 4);
});

t.test(
  'a manifest too old for tokens to be trusted: ClickHouse is asked, and exactly what is missing is stored',
  async (t) => {
    const world = await makeWorld(t, { ...servers, partitions: 1 });
    const { appender, clickhouse, keys, redis } = world;
    const agent = freshAgent();
    const made = Array.from({ length: 32 }, () => makeEvent(agent));
    await appender.append(appendOf(agent, made));
    const deaf = { ...world, redis: refusing(redis, 'stream-ack') };
    const first = await startPipelines(t, deaf, { processName: 'same', groups: ['store'] });
    t.ok(await eventually(async () => (await storedIds(clickhouse)).length === 32));
    await first.pipelines.stop();
    const key = keys.manifest(keys.events(0), 'store');
    const manifest = (await redis.get(key))!;
    await redis.set(key, `1000|${manifest.slice(manifest.indexOf('|') + 1)}`);
    // As if these had never arrived: under their old token they could not come back.
    await clickhouse.command('DELETE FROM events WHERE id IN {ids:Array(String)}', {
      ids: [made[3]!.id, made[17]!.id],
    });
    t.equal((await storedIds(clickhouse)).length, 30);
    await startPipelines(t, world, { processName: 'same', groups: ['store'] });
    t.ok(await eventually(async () => (await redis.exists(key)) === 0));
    t.same(await storedIds(clickhouse), made.map(({ id }) => id).sort());
  },
);

t.test('an insert that fails is counted whichever table it is for, and so is the one that ends it', async (t) => {
  const world = await makeWorld(t, servers);
  const { clickhouse, keys, redis } = world;
  const account = mintId('account', Date.now());
  const changes = [{ kind: 'policy' as const, id: mintId('policy', Date.now()), record: { name: 'p' } }];
  const entry: JournalEntry = { version: 1, account, revision: 1, at: Date.now(), changes, audit: [] };
  await clickhouse.command('RENAME TABLE registry TO registry_away');
  const { count } = await startPipelines(t, world);
  await redis.xadd(keys.journal(keys.shardOf(account)), '*', 'j', JSON.stringify(entry));
  const inserts = (result: string) => count('gatehouse_inserts_total', { table: 'registry', result });
  t.ok(await eventually(async () => (await inserts('failed')) > 1));
  t.equal(await inserts('ok'), 0);
  await clickhouse.command('RENAME TABLE registry_away TO registry');
  t.ok(await eventually(async () => (await inserts('ok')) === 1));
});

t.test('the journal is copied: newest revision of each resource, each audit record once', async (t) => {
  const world = await makeWorld(t, servers);
  const { clickhouse, keys, redis } = world;
  const account = mintId('account', Date.now());
  const policy = mintId('policy', Date.now());
  const entries = [1, 2, 3].map(
    (revision): JournalEntry => ({
      version: 1,
      account,
      revision,
      at: Date.now(),
      changes: [{ kind: 'policy', id: policy, record: revision === 3 ? null : { name: `n${revision}` } }],
      audit: [
        {
          id: mintId('auditLog', Date.now()),
          action: 'policy.updated',
          actor: 'key:key_1',
          resource_type: 'policy',
          resource_id: policy,
          details: { name: `n${revision}` },
          created_at: new Date().toISOString(),
        },
      ],
    }),
  );
  const journal = keys.journal(keys.shardOf(account));
  for (const entry of [...entries, entries[0]!]) await redis.xadd(journal, '*', 'j', JSON.stringify(entry));
  const { pipelines } = await startPipelines(t, world);
  const barrier = new ReadBarrier({ redis, keys, waitMs: 60_000 });
  t.ok(await barrier.waitForJournal(account));
  const registry = await clickhouse.query<{ id: string; revision: number; record: string }>(
    'SELECT id, toUInt32(revision) AS revision, record FROM registry FINAL',
  );
  t.same(registry, [{ id: policy, revision: 3, record: '' }]);
  const logs = await clickhouse.query<{ id: string; details: string }>(
    'SELECT id, details FROM audit_log FINAL ORDER BY details',
  );
  t.same(
    logs,
    entries.map(({ audit }) => ({ id: audit[0]!.id, details: JSON.stringify(audit[0]!.details) })),
  );
  t.ok(await eventually(() => pipelines.healthy().ok), 'healthy');
});

t.test('each change of a policy in the journal is one revision, however often it arrives', async (t) => {
  const world = await makeWorld(t, servers);
  const { clickhouse, keys, redis } = world;
  const account = mintId('account', Date.now());
  const [policy, gone, agent] = [mintId('policy', 1), mintId('policy', 2), mintId('agent', 1)];
  const at = Date.UTC(2026, 10, 20);
  const text = (severity: string | null) => ({ id: policy, name: 'n', agent_id: null, severity });
  const log = (action: 'policy.created' | 'policy.updated' | 'policy.deleted', details: Record<string, unknown>) => ({
    ...{
      id: mintId('auditLog', at),
      action,
      actor: 'key:key_1',
      resource_type: 'policy' as const,
      resource_id: policy,
    },
    ...{ details, created_at: new Date(at).toISOString() },
  });
  const entry = (revision: number, record: object | null, audit: JournalEntry['audit']): JournalEntry => {
    return { version: 1, account, revision, at, changes: [{ kind: 'policy', id: policy, record }], audit };
  };
  const [first, fresh] = [
    { ...text(null), revision: 1 },
    { ...text('high'), revision: 2 },
  ];
  const entries = [
    entry(1, first, [log('policy.created', { revision: 1 })]),
    entry(2, fresh, [
      log('policy.updated', { revision: 2, before: { severity: null }, after: { severity: 'high' }, restored_from: 1 }),
    ]),
    entry(3, null, [log('policy.deleted', { revision: 3 })]),
    // With its agent: no audit entry of its own, and no revision.
    { ...entry(4, null, []), changes: [{ kind: 'policy' as const, id: gone, record: null }], erases: agent },
    // Written again into a ClickHouse that has lost it.
    { ...entry(5, null, []), changes: [{ kind: 'policy' as const, id: gone, record: { ...fresh, agent_id: agent } }] },
  ];
  for (const one of [...entries, ...entries])
    await redis.xadd(keys.journal(keys.shardOf(account)), '*', 'j', JSON.stringify(one));
  await startPipelines(t, world);
  t.ok(await new ReadBarrier({ redis, keys, waitMs: 60_000 }).waitForJournal(account));
  const revisions = await clickhouse.query(
    `SELECT policy_id, toUInt32(revision) AS revision, action, actor, agent_id, toUInt32(restored_from) AS restored_from, differences, record
     FROM policy_revisions FINAL ORDER BY policy_id, revision`,
  );
  const by = { policy_id: policy, actor: 'key:key_1', agent_id: '', restored_from: 0, differences: '[]' };
  const difference = { path: '/severity', before: null, after: 'high' };
  t.same(revisions, [
    { ...by, revision: 1, action: 'created', record: JSON.stringify(first) },
    {
      ...{ ...by, revision: 2, action: 'updated', restored_from: 1, differences: JSON.stringify([difference]) },
      record: JSON.stringify(fresh),
    },
    { ...by, revision: 3, action: 'deleted', record: '' },
    {
      ...{ ...by, policy_id: gone, revision: 2, action: 'updated', actor: 'system', agent_id: agent },
      record: JSON.stringify({ ...fresh, agent_id: agent }),
    },
  ]);
});

t.test(
  'rows that a journal entry carries: the newest revision of each stands, in the order of revisions',
  async (t) => {
    const world = await makeWorld(t, servers);
    const { clickhouse, keys, redis } = world;
    const account = mintId('account', Date.now());
    const ids = ['2026-10-31T23:59:59.999Z', '2026-11-01T00:00:00.000Z'].map((created_at) => ({
      id: mintId('approval', Date.parse(created_at)),
      created_at,
    }));
    const entryOf = (revision: number, status: 'pending' | 'approved'): JournalEntry => ({
      version: 1,
      account,
      revision,
      at: Date.now(),
      changes: [],
      audit: [],
      rows: ids.map((id) => ({ table: 'approvals', row: approvalRow(id, status) })),
    });
    const [opened, decided] = [entryOf(7, 'pending'), entryOf(9, 'approved')];
    const journal = keys.journal(keys.shardOf(account));
    for (const entry of [decided, opened, decided]) await redis.xadd(journal, '*', 'j', JSON.stringify(entry));
    const { count } = await startPipelines(t, world);
    t.ok(await new ReadBarrier({ redis, keys, waitMs: 60_000 }).waitForJournal(account));
    const rows = await clickhouse.query(
      `SELECT account_id, id, status, toString(created_at) AS created_at, toString(decided_at) AS decided_at, comment, toUInt32(revision) AS revision
     FROM approvals FINAL ORDER BY id`,
    );
    const expected = { account_id: account, status: 'approved', comment: 'as "agreed"', revision: 9 };
    t.same(
      rows,
      ids.map(({ id, created_at }) => ({
        ...expected,
        id,
        created_at: created_at.replace('T', ' ').slice(0, -1),
        decided_at: '2026-11-02 00:00:00.001',
      })),
    );
    t.equal(await count('gatehouse_dead_letter_rows_total'), 0);
  },
);

function approvalRow({ id, created_at }: { id: string; created_at: string }, status: 'pending' | 'approved') {
  const isDecided = status === 'approved';
  return {
    id,
    agent_id: 'agt_1',
    event_id: 'evt_1',
    policy_id: 'pol_1',
    policy_name: 'Payments',
    status,
    outcome: isDecided ? 'allowed' : 'pending',
    on_timeout: 'deny',
    created_at,
    expires_at: '2026-12-01T00:00:00.000Z',
    decided_at: isDecided ? '2026-11-02T00:00:00.001Z' : null,
    decided_by: isDecided ? 'key:key_1' : null,
    comment: isDecided ? 'as "agreed"' : null,
  };
}

t.test('an event blocked by a policy is an anomaly, once; one blocked by the kill switch is none', async (t) => {
  const world = await makeWorld(t, servers);
  const { appender, clickhouse, keys, redis } = world;
  const agent = freshAgent();
  const match = {
    policy_id: 'pol_1',
    name: 'No transfers',
    type: 'block_action' as const,
    actions: ['block' as const],
    severity: 'critical' as const,
  };
  const blocked = { outcome: 'blocked' as const, reason: 'policy' as const, policyId: 'pol_1' };
  const made = [
    makeEvent(agent),
    makeEvent(agent, { outcome: 'blocked', summary: { ...blocked, matches: [match] } }),
    makeEvent(agent, { outcome: 'blocked', summary: { ...blocked, matches: [{ ...match, severity: null }] } }),
    makeEvent(agent, { outcome: 'blocked', summary: { outcome: 'blocked', reason: 'agent_inactive' } }),
  ];
  const { count } = await startPipelines(t, world);
  await appender.append(appendOf(agent, made));
  const barrier = new ReadBarrier({ redis, keys, waitMs: 60_000 });
  t.ok(await barrier.waitForAnomalies(agent.account, agent.agent));
  const rows = await clickhouse.query('SELECT * FROM anomalies FINAL ORDER BY severity DESC');
  t.match(rows, [
    {
      account_id: agent.account,
      agent_id: agent.agent,
      event_id: made[1]!.id,
      id: `ano_${made[1]!.id.slice(4)}`,
      kind: 'blocked_event',
      severity: 'critical',
      observed: null,
      message: 'A tool_call event was blocked by the policy "No transfers" (block_action).',
    },
    { event_id: made[2]!.id, severity: 'high' },
  ]);
  t.equal(rows.length, 2);
  t.ok(await eventually(async () => (await count('gatehouse_anomalies_total', { kind: 'blocked_event' })) === 2));
});

/** A client like this one that drops the calls of one script. */
function refusing(redis: import('../../src/redis/client.ts').Commands, script: string) {
  const { sha } = sentScript(script);
  return intercepted(redis, ({ name, args, go }) =>
    name === 'evalsha' && args[0] === sha ? Promise.reject(new Error('Connection is closed.')) : go(),
  );
}
