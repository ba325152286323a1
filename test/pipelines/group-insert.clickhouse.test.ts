// Batches of several streams that leave as one insert, with a real Redis and a real engine. Each case puts a failure at
// one certain place, and afterwards every event that was appended is stored, once.
import t, { type Test } from 'tap';
import { ClickHouse, ClickHouseError } from '../../clickhouse/client.ts';
import { InsertCoalescer } from '../../pipelines/insert-coalescer.ts';
import { claimToken, insertGroup } from '../../pipelines/store/group-insert.ts';
import { INSERT_BYTES_MAX, INSERT_ROWS_MAX } from '../../src/common/limits.ts';
import { DeadLetters } from '../../src/streams/dead-letters.ts';
import { EVENT_GROUPS, ensureGroups } from '../../src/streams/groups.ts';
import { LeaseLost } from '../../src/streams/lease.ts';
import { appendOf, eventually, freshAgent, makeEvent, type TestAgent } from '../streams/harness.ts';
import { startClickHouse } from '../support/clickhouse.ts';
import { intercepted } from '../support/intercepted.ts';
import { startRedis } from '../support/redis.ts';
import {
  knowRedis,
  makeWorld,
  ownerOf,
  pickyAbout,
  type StoreOwner,
  storedIds,
  type World,
  whenDrained,
} from './harness.ts';

const PARTITIONS = 3;
const servers = { redis: await startRedis(t), clickhouse: await startClickHouse(t), partitions: PARTITIONS };

type Insert = { rows: number; token: string };

/** A client whose inserts get the outcome that the test sets. */
class Told extends ClickHouse {
  readonly inserts: Insert[] = [];
  /** Before the nth insert, counted from 1, is carried out; whatever it throws is thrown instead of carrying it out. */
  before: (nth: number) => Promise<void> | void = () => undefined;
  after: (nth: number) => Promise<void> | void = () => undefined;
  /** Its process is dead: nothing more is carried out. */
  isDead = false;

  override async query<Row>(...given: Parameters<ClickHouse['query']>): Promise<Row[]> {
    if (this.isDead) throw gone();
    return super.query<Row>(...given);
  }

  override async insertEvents(rows: readonly Buffer[], token: string): Promise<void> {
    const nth = this.inserts.push({ rows: rows.length, token });
    await this.before(nth);
    if (this.isDead) throw gone();
    await super.insertEvents(rows, token);
    await this.after(nth);
    if (this.isDead) throw gone();
  }
}

type Owner = StoreOwner & { ended: Promise<unknown> };
type Case = World & { told: Told; ids: string[]; agents: TestAgent[] };

/** An agent for each partition, with five entries of three events. */
async function begin(t: Test, more: { poison?: true } = {}): Promise<Case> {
  const world = await makeWorld(t, servers);
  await knowRedis(world);
  const told = new Told({ url: servers.clickhouse.url, database: world.clickhouse.database, queryTimeoutSeconds: 60 });
  t.teardown(() => told.close());
  const agents: TestAgent[] = [];
  for (let partition = 0; partition < PARTITIONS; partition++) {
    await ensureGroups(world.redis, world.keys, world.keys.events(partition), EVENT_GROUPS);
    let agent = freshAgent();
    while (world.keys.partitionOf(agent.account, agent.agent) !== partition) agent = freshAgent();
    agents.push(agent);
  }
  const ids: string[] = [];
  for (const agent of agents) {
    for (let n = 0; n < 5; n++) {
      const payload = more.poison && agent === agents[1] && n === 2 ? '{"poison":1}' : '{"tool":"search"}';
      const events = [makeEvent(agent), makeEvent(agent, { payload }), makeEvent(agent)];
      await world.appender.append(appendOf(agent, events));
      ids.push(...events.filter((_, i) => payload !== '{"poison":1}' || i !== 1).map(({ id }) => id));
    }
  }
  return { ...world, told, ids: ids.sort(), agents };
}

/**
 * A process: owners of these partitions that leave together. They are let start so that all are waiting when the place
 * is free.
 */
async function startOwners(
  world: Case,
  { name = 'one', partitions = [0, 1, 2], clickhouse = world.told as ClickHouse, redis = world.redis } = {},
): Promise<Owner[]> {
  const places = new InsertCoalescer({
    concurrentMax: 2,
    lingerMs: 20,
    rowsMax: INSERT_ROWS_MAX,
    bytesMax: INSERT_BYTES_MAX,
    mayJoin: () => true,
  });
  const hold = Array.from({ length: 2 }, () =>
    places.acquire(() => ({ rows: 0, bytes: 0, isFull: false, alone: true })),
  );
  const owners = await Promise.all(
    partitions.map(async (partition) => {
      const { lease, drain } = await ownerOf(
        { ...world, redis, clickhouse },
        { partition, owner: name, permits: places },
      );
      return { lease, drain, ended: drain.run().catch((error: unknown) => error) };
    }),
  );
  setTimeout(() => {
    for (const permit of hold) permit.release();
  }, 300);
  return owners;
}

async function whenAllDrained(world: World): Promise<void> {
  for (let partition = 0; partition < PARTITIONS; partition++) await whenDrained(world, partition);
}

async function stop(owners: readonly Owner[]): Promise<unknown[]> {
  for (const { drain } of owners) drain.stop();
  return Promise.all(owners.map(({ ended }) => ended));
}

async function manifests({ redis, keys }: World): Promise<{ plan: { group?: string; split?: true } }[]> {
  const texts = await Promise.all(
    Array.from({ length: PARTITIONS }, (_, partition) => redis.get(keys.manifest(keys.events(partition), 'store'))),
  );
  // Their age is in front.
  return texts.map((text) => (text === null ? null : JSON.parse(text.slice(text.indexOf('{')))));
}

const noAnswer = () => new ClickHouseError('no answer', { code: null });
const gone = () => new LeaseLost('gone');

/** One process that loses no lease. */
async function drainAll(t: Test, world: Case): Promise<void> {
  const owners = await startOwners(world);
  await whenAllDrained(world);
  t.same(await stop(owners), [undefined, undefined, undefined]);
}

t.test('three streams are one insert, and each is acknowledged by itself', async (t) => {
  const world = await begin(t);
  await drainAll(t, world);
  t.same(await storedIds(world.clickhouse), world.ids);
  t.equal(world.told.inserts.length, 1);
  const [parts] = await world.clickhouse.query<{ n: number }>('SELECT uniqExact(_part) AS n FROM events');
  t.equal(parts!.n, 1);
});

t.test('an insert whose answer is lost: nothing twice', async (t) => {
  const world = await begin(t);
  world.told.after = (nth) => {
    if (nth === 1) throw noAnswer();
  };
  await drainAll(t, world);
  t.same(await storedIds(world.clickhouse), world.ids);
});

t.test('an insert that never arrives: nothing missing', async (t) => {
  const world = await begin(t);
  world.told.before = (nth) => {
    if (nth <= 3) throw noAnswer();
  };
  await drainAll(t, world);
  t.same(await storedIds(world.clickhouse), world.ids);
});

t.test('an insert whose token is known without its rows: nothing missing', async (t) => {
  const world = await begin(t);
  world.told.after = async (nth) => {
    if (nth > 1) return;
    await world.clickhouse.command('DELETE FROM events WHERE true');
    throw noAnswer();
  };
  await drainAll(t, world);
  t.same(await storedIds(world.clickhouse), world.ids);
});

t.test('an insert that arrives after its batches have been tried again by themselves stores nothing', async (t) => {
  const world = await begin(t);
  let late: Insert | undefined;
  const rows: Buffer[] = [];
  world.told.before = (nth) => {
    if (nth > 1) return;
    late = world.told.inserts[0];
    throw noAnswer();
  };
  const insertEvents = world.told.insertEvents.bind(world.told);
  world.told.insertEvents = async (some, token) => {
    if (rows.length === 0) rows.push(...some);
    return insertEvents(some, token);
  };
  await drainAll(t, world);
  t.same(await storedIds(world.clickhouse), world.ids);
  await world.clickhouse.insertEvents(rows, late!.token);
  t.same(await storedIds(world.clickhouse), world.ids, 'its token had been claimed');
});

for (const where of ['before', 'after'] as const) {
  t.test(
    `a process that dies ${where} the insert: processes that take its streams over, one by one, store each event once`,
    async (t) => {
      const world = await begin(t);
      world.told[where] = () => {
        world.told.isDead = true;
      };
      const dead = await startOwners(world);
      for (const { ended } of dead) t.type(await ended, LeaseLost);
      t.same(await storedIds(world.clickhouse), where === 'after' ? world.ids : []);
      const plans = (await manifests(world)).map(({ plan }) => plan.group);
      t.equal(new Set(plans).size, 1);
      t.type(plans[0], 'string', 'all manifests name the same insert');
      for (const partition of [2, 0, 1]) {
        const owners = await startOwners(world, { partitions: [partition], clickhouse: world.clickhouse });
        await whenDrained(world, partition);
        await stop(owners);
      }
      t.same(await storedIds(world.clickhouse), world.ids);
    },
  );
}

t.test(
  'one of the streams changes hands under the insert, and its new owner is first: the others do not take the answer for their rows',
  async (t) => {
    const world = await begin(t);
    let owners: Owner[] = [];
    let others: Owner[] = [];
    world.told.before = async (nth) => {
      if (nth > 1) return;
      const stream = world.keys.events(1);
      await world.redis.del(world.keys.lease(stream, 'store'));
      others = await startOwners(world, { name: 'two', partitions: [1], clickhouse: world.clickhouse });
      await whenDrained(world, 1);
      t.equal((await storedIds(world.clickhouse)).length, 15, 'its rows alone, under the token of all');
      owners[1]!.lease.lose();
    };
    owners = await startOwners(world);
    await whenAllDrained(world);
    t.type((await stop(owners))[1], LeaseLost);
    await stop(others);
    t.same(await storedIds(world.clickhouse), world.ids);
  },
);

t.test('a row that the table refuses is dead-lettered alone; the other streams are stored', async (t) => {
  const world = await begin(t, { poison: true });
  await world.clickhouse.command(pickyAbout('poison'));
  await drainAll(t, world);
  t.same(await storedIds(world.clickhouse), world.ids);
  t.equal(await new DeadLetters(world).count(), 1);
  t.notOk(
    (await manifests(world)).some((manifest) => manifest !== null),
    'no manifest is left',
  );
});

t.test('a stream that cannot get on does not hold up the others', async (t) => {
  const world = await begin(t);
  let held: (() => void) | undefined;
  const slow = intercepted(world.redis, ({ name, go }) => {
    if (name !== 'smismember' || held !== undefined) return go();
    return new Promise<void>((resolve) => {
      held = resolve;
    }).then(go);
  });
  const owners = await startOwners(world, { redis: slow });
  t.ok(
    await eventually(async () => (await storedIds(world.clickhouse)).length === 30),
    'two of three are stored while the third is asked about its agents',
  );
  held!();
  await whenAllDrained(world);
  await stop(owners);
  t.same(await storedIds(world.clickhouse), world.ids);
});

t.test('rows of two months are two inserts; where the second fails, it is not known what is stored', async (t) => {
  const [may, june] = [Date.UTC(2026, 4, 31), Date.UTC(2026, 5, 1)];
  const rows = [may, june, may].map((received_at) => {
    const { summary, row } = makeEvent(freshAgent(), { received_at });
    return { summary, bytes: row };
  });
  const parts = rows.map((row) => ({ rows: [row], ensureHeld: () => Promise.resolve() }));
  const sent: string[] = [];
  const options = (failsAt: number, isBadData: boolean) => ({
    token: 'T',
    isBadData: () => isBadData,
    insert: async (some: readonly unknown[], token: string) => {
      if (sent.push(`${token} ${some.length}`) === failsAt) throw noAnswer();
    },
  });
  t.equal(await insertGroup(parts, options(0, false)), 'done');
  t.same(sent.splice(0), ['T:202605 2', 'T:202606 1']);
  t.equal(await insertGroup(parts, options(1, true)), 'alone', 'refused');
  t.same(sent.splice(0), ['T:202605 2']);
  t.equal(await insertGroup(parts, options(1, false)), 'unknown', 'no answer');
  sent.splice(0);
  t.equal(await insertGroup(parts, options(2, true)), 'unknown', 'the first month is stored');
});

t.test('a claim waits until no insert under its token is running', async (t) => {
  const { summary, row } = makeEvent(freshAgent());
  let [running, asked] = [3, 0];
  await claimToken([{ summary, bytes: row }], {
    token: 'T',
    isBadData: () => true,
    insert: () => Promise.reject(noAnswer()),
    duplicates: async (token) => {
      t.equal(token, 'T');
      asked++;
      return { running: running--, tokensAreTrue: false };
    },
  });
  t.equal(asked, 4);
});
