// Leases, fenced reads and acks, fair shares, trimming, the read barrier's arithmetic. Needs redis-server.
import t from 'tap';
import { JOURNAL_FIELD, JOURNAL_VERSION } from '../../schemas/journal.ts';
import { SIGNAL_FIELD, SIGNAL_VERSION } from '../../schemas/signal.ts';
import { DEAD_ENTRIES_MAX } from '../../src/common/limits.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { DeadStreamFull, StreamReader } from '../../src/streams/consume.ts';
import { DeadLetters, deadLetterFields } from '../../src/streams/dead-letters.ts';
import { ensureGroups } from '../../src/streams/groups.ts';
import { acquireLease, type Lease, LeaseLost } from '../../src/streams/lease.ts';
import { Members, shareOf } from '../../src/streams/members.ts';
import { positionOf, ReadBarrier } from '../../src/streams/read-barrier.ts';
import { compareIds } from '../../src/streams/stream-id.ts';
import { trimStream } from '../../src/streams/trim.ts';
import type { StreamEntry } from '../../src/streams/window.ts';
import { intercepted } from '../support/intercepted.ts';
import { startRedis } from '../support/redis.ts';
import { connect, eventually, freshKeys } from './harness.ts';

/** Any two: what holds for them holds for more. */
const GROUPS = ['store', 'anomaly'] as const;

const server = await startRedis(t);

type Stream = { redis: Commands; keys: Keys; stream: string };

function leaseOf(
  { redis, keys, stream }: Stream,
  owner: string,
  options: { group?: string; retake?: boolean } = {},
): Promise<Lease | null> {
  const { group = 'store', retake = false } = options;
  return acquireLease(redis, { lease: keys.lease(stream, group), fence: keys.fence(stream, group) }, { owner, retake });
}

/** From the stream's beginning, or from behind `place`. */
async function entriesOf(reader: StreamReader, place = '0-0'): Promise<StreamEntry[]> {
  return (await reader.read(place)).entries;
}

/** Until there are no more. */
async function allOf(reader: StreamReader): Promise<StreamEntry[]> {
  const all: StreamEntry[] = [];
  for (;;) {
    const { entries, isEnd } = await reader.read(all.at(-1)?.id ?? '0-0');
    all.push(...entries);
    if (isEnd) return all;
  }
}

function readerOf(
  { redis, keys, stream }: Stream,
  lease: Lease,
  options: { group?: string; without?: string } = {},
): StreamReader {
  return new StreamReader(
    { redis, keys, stream, dead: keys.dead(0), group: 'store', groups: GROUPS, ...options },
    lease,
  );
}

/** A stream with both groups and entries whose field `n` counts from 0. */
async function streamWith(redis: Commands, count: number): Promise<Stream & { ids: string[] }> {
  const keys = freshKeys(1);
  const stream = keys.events(0);
  await ensureGroups(redis, keys, stream, GROUPS);
  const ids: string[] = [];
  for (let n = 0; n < count; n++) ids.push((await redis.xadd(stream, '*', 'n', String(n), 'r', 'x'.repeat(100)))!);
  return { redis, keys, stream, ids };
}

t.test(
  'one owner at a time; its own name takes the lease up at once with a higher fence, and fences the old life off',
  async (t) => {
    const world = await streamWith(await connect(t, server.address), 3);
    const old = (await leaseOf(world, 'a'))!;
    t.equal(await leaseOf(world, 'b', { retake: true }), null, 'held');
    t.equal(await leaseOf(world, 'a'), null, 'not without retake: two processes of one name do not take turns');
    const reader = readerOf(world, old);
    t.equal((await entriesOf(reader)).length, 3);
    const fresh = (await leaseOf(world, 'a', { retake: true }))!;
    t.equal(Number(fresh.text.split(':')[1]), Number(old.text.split(':')[1]) + 1);
    await t.rejects(reader.ack(world.ids.at(-1)!, []), LeaseLost);
    await t.rejects(reader.keepManifest({ first: '0-1', last: '0-1', entries: 1, attempts: 1, plan: null }), LeaseLost);
    await t.rejects(old.renew(), LeaseLost);
    await old.release();
    await fresh.renew();
    t.equal(
      (await positionOf(world.redis, world.keys, world.stream, 'store')).watermark,
      '0-0',
      'nothing was acknowledged',
    );
    t.same(
      (await entriesOf(readerOf(world, fresh))).map(({ id }) => id),
      world.ids,
      'what was read and not acknowledged comes again',
    );
    await fresh.release();
    t.ok(await leaseOf(world, 'b'), 'free');
  },
);

t.test('an answer that is lost is given again; entries come in order, each once', async (t) => {
  const redis = await connect(t, server.address);
  const world = await streamWith(redis, 10);
  const lease = (await leaseOf(world, 'a'))!;
  const loseOne = losingOneReply(redis);
  const reader = readerOf({ ...world, redis: loseOne }, lease, { without: 'r' });
  await t.rejects(reader.read('0-0'));
  for (let n = 10; n < 13; n++) world.ids.push((await redis.xadd(world.stream, '*', 'n', String(n)))!);
  const entries: StreamEntry[] = [];
  while (entries.length < 13) entries.push(...(await entriesOf(reader, entries.at(-1)?.id)));
  t.same(await reader.read(world.ids.at(-1)!), { entries: [], isEnd: true });
  t.same(
    entries.map(({ id }) => id),
    world.ids,
  );
  t.same(
    entries.map(({ fields }) => fields.get('n')?.toString()),
    world.ids.map((_, n) => String(n)),
  );
  t.notOk(entries[0]!.fields.has('r'), 'a field left out');
  await redis.xdel(world.stream, world.ids[4]!);
  t.same(
    (await allOf(readerOf(world, lease))).map(({ id }) => id),
    world.ids.toSpliced(4, 1),
    'an entry that was deleted is gone',
  );
});

t.test('an ack moves the watermark, forgets the manifest and dead-letters, all or nothing and once', async (t) => {
  const world = await streamWith(await connect(t, server.address), 5);
  const { redis, keys, stream, ids } = world;
  const reader = readerOf(world, (await leaseOf(world, 'a'))!);
  await entriesOf(reader);
  t.equal(await reader.manifest(), null);
  await reader.keepManifest({ first: ids[0]!, last: ids[3]!, entries: 4, attempts: 1, plan: { erased: [] } });
  await new Promise((resolve) => setTimeout(resolve, 30));
  await reader.keepManifest({ first: ids[0]!, last: ids[3]!, entries: 4, attempts: 2, plan: { erased: ['x'] } });
  const kept = (await reader.manifest())!;
  t.same(kept.manifest, { first: ids[0], last: ids[3], entries: 4, attempts: 2, plan: { erased: ['x'] } });
  t.ok(kept.ageMs >= 30 && kept.ageMs < 600_000, `a manifest keeps its age: ${kept.ageMs} ms`);
  const letter = deadLetterFields({ fields: new Map([['n', '2']]), group: 'store', from: ids[2]!, reason: 'because' });
  await reader.ack(ids[3]!, [letter]);
  await reader.ack(ids[3]!, [letter]);
  t.same(
    await new DeadLetters({ redis, keys }).list(10).then((list) => list.map(({ reason, from }) => [reason, from])),
    [['because', ids[2]]],
  );
  t.equal(await reader.manifest(), null);
  t.same(await positionOf(redis, keys, stream, 'store'), { watermark: ids[3], last: ids[4] });
  await reader.ack(ids[4]!, []);
  t.same(await positionOf(redis, keys, stream, 'store'), { watermark: ids[4], last: ids[4] });
});

t.test('dead-lettered signals are shown, put back, and dropped with their agent', async (t) => {
  const redis = await connect(t, server.address);
  const keys = freshKeys(2);
  const dead = new DeadLetters({ redis, keys });
  const deadLetter = (agents: readonly (string | null)[]) => {
    const text = JSON.stringify({ version: SIGNAL_VERSION + 1, signals: agents.map((agent) => ({ agent })) });
    const fields = new Map([[SIGNAL_FIELD, text]]);
    return redis.xadd(
      keys.signalsDead(1),
      '*',
      ...deadLetterFields({ fields, group: 'alert', from: '1-1', reason: 'newer' }),
    );
  };
  for (const agents of [['agt_1', 'agt_1'], ['agt_1', 'agt_2'], [null]]) await deadLetter(agents);
  t.match(await dead.list(10), [{ stream: keys.signals(1), group: 'alert', reason: 'newer' }, {}, {}]);
  t.equal(await dead.dropAgent(keys.signals(1), 'agt_1'), 1);
  t.equal(await dead.retry(await dead.list(10)), 2);
  t.equal(await redis.xlen(keys.signals(1)), 2);
  t.equal(await dead.count(), 0);
});

t.test(
  'dead-lettered registry changes are dropped with the agent that they are about, its deletion is not',
  async (t) => {
    const redis = await connect(t, server.address);
    const keys = freshKeys(1);
    const dead = new DeadLetters({ redis, keys });
    const deadLetter = (action: string, record: object | null, more: object[] = []) => {
      const audit = [
        { action, actor: 'key:key_1', resource_type: 'agent', resource_id: 'agt_1', details: {} },
        ...more,
      ];
      const entry = { version: JOURNAL_VERSION, changes: [{ kind: 'agent', id: 'agt_1', record }], audit };
      const fields = new Map([[JOURNAL_FIELD, JSON.stringify(entry)]]);
      return redis.xadd(
        keys.journalDead(3),
        '*',
        ...deadLetterFields({ fields, group: 'store', from: '1-1', reason: 'x' }),
      );
    };
    await deadLetter('agent.updated', { name: 'a' });
    const kept = [
      await deadLetter('agent.deleted', null),
      await deadLetter('agent.updated', { name: 'a' }, [
        { action: 'policy.updated', actor: 'key:key_1', resource_type: 'policy', resource_id: 'pol_1', details: {} },
      ]),
    ];
    t.equal(await dead.dropAgent(keys.journal(3), 'agt_1'), 1);
    t.same(
      (await dead.list(10)).map(({ id }) => id),
      kept,
    );
  },
);

t.test('a full dead stream drops nothing: the batch waits until there is room', async (t) => {
  const world = await streamWith(await connect(t, server.address), 2);
  const reader = readerOf(world, (await leaseOf(world, 'a'))!);
  const entries = await entriesOf(reader);
  const dead = world.keys.dead(0);
  const fill = world.redis.multi();
  for (let n = 0; n < DEAD_ENTRIES_MAX; n++) fill.xadd(dead, '*', 'n', String(n));
  await fill.exec();
  const letter = deadLetterFields({
    fields: entries[0]!.fields,
    group: 'store',
    from: entries[0]!.id,
    reason: 'unfit',
  });
  await t.rejects(reader.ack(world.ids.at(-1)!, [letter]), DeadStreamFull);
  t.equal(
    (await positionOf(world.redis, world.keys, world.stream, 'store')).watermark,
    '0-0',
    'nothing was acknowledged',
  );
  t.equal(await world.redis.xlen(dead), DEAD_ENTRIES_MAX, 'nothing was dropped');
  await world.redis.xtrim(dead, 'MAXLEN', DEAD_ENTRIES_MAX - 1);
  await reader.ack(world.ids.at(-1)!, [letter]);
  await reader.ack(world.ids.at(-1)!, [letter]);
  t.equal((await positionOf(world.redis, world.keys, world.stream, 'store')).watermark, world.ids.at(-1));
  t.equal(await world.redis.xlen(dead), DEAD_ENTRIES_MAX, 'dead-lettered once');
});

t.test('a group that was destroyed is made again behind its watermark', async (t) => {
  const world = await streamWith(await connect(t, server.address), 4);
  const reader = readerOf(world, (await leaseOf(world, 'a'))!);
  await entriesOf(reader);
  await reader.ack(world.ids[1]!, []);
  await world.redis.xgroup('DESTROY', world.stream, 'store');
  const fresh = readerOf(world, (await leaseOf(world, 'a', { retake: true }))!);
  t.same(
    (await entriesOf(fresh, (await fresh.begin()).position)).map(({ id }) => id),
    world.ids.slice(2),
  );
  await fresh.ack(world.ids[2]!, []);
  const groups = (await world.redis.xinfo('GROUPS', world.stream)) as string[][];
  const made = groups.find((group) => group[1] === 'store')!;
  t.equal(made[made.indexOf('last-delivered-id') + 1], world.ids[2], 'made again, and moved');
});

t.test('trimming never takes an entry that any group has yet to read or to acknowledge', async (t) => {
  const world = await streamWith(await connect(t, server.address), 30);
  const { redis, stream, ids } = world;
  const store = readerOf(world, (await leaseOf(world, 'a'))!);
  const anomaly = readerOf(world, (await leaseOf(world, 'a', { group: 'anomaly' }))!, { group: 'anomaly' });
  const first = async () => (await redis.xrange(stream, '-', '+', 'COUNT', 1))[0]?.[0];
  await entriesOf(store);
  t.equal((await trimStream(redis, stream, GROUPS)).removed, 0, 'the other group has read nothing');
  await store.ack(ids[19]!, []);
  t.equal((await trimStream(redis, stream, GROUPS)).removed, 0);
  await entriesOf(anomaly);
  await anomaly.ack(ids[9]!, []);
  t.equal((await trimStream(redis, stream, GROUPS)).removed, 10);
  t.equal(await first(), ids[10], 'the first that one of them has not acknowledged');
  await redis.xgroup('CREATE', stream, 'somebody', ids[4]!);
  await anomaly.ack(ids.at(-1)!, []);
  await store.ack(ids.at(-1)!, []);
  t.same(
    await trimStream(redis, stream, GROUPS),
    { removed: 0, missing: false, unknownGroups: 1 },
    'a stranger holds entries back',
  );
  await redis.xgroup('DESTROY', stream, 'somebody');
  await redis.xgroup('DESTROY', stream, 'anomaly');
  t.match(
    await trimStream(redis, stream, GROUPS),
    { removed: 0, missing: true },
    'a missing group holds everything back',
  );
  await ensureGroups(redis, world.keys, stream, GROUPS);
  t.equal((await trimStream(redis, stream, GROUPS)).removed, 20);
  t.equal(await redis.xlen(stream), 0);
  t.same(await trimStream(redis, 'nothing', GROUPS), { removed: 0, missing: false, unknownGroups: 0 });
});

t.test('a full Redis is drained: leases, reads, manifests, acks with dead letters, trims', async (t) => {
  const full = await startRedis(t, { args: ['--maxmemory', '24mb'] });
  const redis = await connect(t, full.address);
  const world = await streamWith(redis, 1);
  const { stream, keys } = world;
  const payload = Buffer.alloc(200_000);
  const fill = () =>
    redis.xadd(stream, '*', 'r', payload).then(
      () => true,
      () => false,
    );
  while (await fill());
  t.notOk(await fill(), 'Redis is full');
  const lease = (await leaseOf(world, 'a'))!;
  await lease.renew();
  const reader = readerOf(world, lease);
  const members = new Members({ redis, key: keys.members(), name: 'a', groups: ['store'] });
  await members.signIn();
  for (;;) {
    const entries = await entriesOf(reader, (await reader.begin()).position);
    if (entries.length === 0) break;
    const ids = entries.map(({ id }) => id);
    await reader.keepManifest({ first: ids[0]!, last: ids.at(-1)!, entries: ids.length, attempts: 1, plan: null });
    await reader.ack(ids.at(-1)!, [
      deadLetterFields({ fields: new Map([['r', 'x']]), group: 'store', from: ids[0]!, reason: 'test' }),
    ]);
  }
  const anomaly = readerOf(world, (await leaseOf(world, 'a', { group: 'anomaly' }))!, {
    group: 'anomaly',
    without: 'r',
  });
  for (;;) {
    const entries = await entriesOf(anomaly, (await anomaly.begin()).position);
    if (entries.length === 0) break;
    await anomaly.ack(entries.at(-1)!.id, []);
  }
  await trimStream(redis, stream, GROUPS);
  t.equal(await redis.xlen(stream), 0);
  t.ok(await eventually(fill), 'and takes entries again');
});

t.test('shares add up to all streams, whatever the number of members', async (t) => {
  for (const count of [1, 8, 16, 24]) {
    for (let members = 1; members <= 9; members++) {
      const shares = Array.from({ length: members }, (_, rank) => shareOf(rank, members, count));
      t.equal(
        shares.reduce((a, b) => a + b),
        count,
      );
      t.ok(Math.max(...shares) - Math.min(...shares) <= 1);
    }
  }
  const redis = await connect(t, server.address);
  const keys = freshKeys(1);
  const [a, b] = ['a', 'b'].map(
    (name) => new Members({ redis, key: keys.members(), name, groups: ['store', 'anomaly'] }),
  );
  await a!.signIn();
  t.equal(a!.share('store', 8), 8);
  await b!.signIn();
  await a!.signIn();
  t.same([a!.share('store', 9), b!.share('store', 9), a!.share('anomaly', 9)], [5, 4, 5]);
  await redis.hset(keys.members(), 'store/b', 1);
  await a!.signIn();
  t.equal(a!.share('store', 8), 8, 'a silent member is gone');
  t.equal(a!.share('anomaly', 8), 4);
  await b!.signOut();
  await a!.signIn();
  t.equal(a!.share('anomaly', 8), 8);
});

t.test('the barrier waits for what was there when the read began, and for no more', async (t) => {
  const world = await streamWith(await connect(t, server.address), 3);
  const { redis, keys, stream, ids } = world;
  const barrier = new ReadBarrier({ redis, keys, waitMs: 400 });
  t.equal(await barrier.waitForEvents('acc', 'agt'), false, 'not in time');
  t.equal(await barrier.waitForJournal('acc'), true, 'nothing there');
  const reader = readerOf(world, (await leaseOf(world, 'a'))!);
  await entriesOf(reader);
  const longBarrier = new ReadBarrier({ redis, keys, waitMs: 60_000 });
  const waiting = [longBarrier.waitForEvents('acc', null), longBarrier.waitForEvents('acc', 'agt')];
  await new Promise((resolve) => setTimeout(resolve, 50));
  await redis.xadd(stream, '*', 'n', 'later');
  await reader.ack(ids.at(-1)!, []);
  t.same(await Promise.all(waiting), [true, true]);
  t.equal(await barrier.waitForEvents('acc', 'agt'), false, 'the later one is not stored');
  t.equal(await barrier.waitForAnomalies('acc', 'agt'), false, 'another group has its own watermark');
  t.same([compareIds('9-1', '10-0') < 0, compareIds('10-2', '10-10') < 0, compareIds('5-5', '5-5')], [true, true, 0]);
});

/** A client whose first read is carried out and its answer lost. */
function losingOneReply(redis: Commands): Commands {
  let lost = false;
  return intercepted(redis, async ({ name, go }) => {
    const answer = await go();
    if (lost || name !== 'callBuffer') return answer;
    lost = true;
    throw new Error('Command timed out');
  });
}
