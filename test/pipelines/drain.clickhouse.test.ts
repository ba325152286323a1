// One stream's batches through Drain and EventStore, with a real Redis and a real engine, where something fails in
// between: each case puts the failure at one certain place, where kills of whole processes (crash.clickhouse.test.ts)
// would find it once in many runs.
import { rmSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { ClickHouse, ClickHouseError } from '../../clickhouse/client.ts';
import { Semaphore } from '../../pipelines/semaphore.ts';
import { freePort } from '../../src/embedded/free-port.ts';
import type { Commands } from '../../src/redis/client.ts';
import { EVENT_GROUPS, ensureGroups } from '../../src/streams/groups.ts';
import { LeaseLost } from '../../src/streams/lease.ts';
import { appendOf, freshAgent, makeEvent } from '../streams/harness.ts';
import { type EngineProcess, forkEngine, startClickHouse } from '../support/clickhouse.ts';
import { folderOf } from '../support/folder.ts';
import { intercepted } from '../support/intercepted.ts';
import { startRedis } from '../support/redis.ts';
import { makeWorld, ownerOf, storedIds, type World, whenDrained } from './harness.ts';

const servers = { redis: await startRedis(t), clickhouse: await startClickHouse(t), partitions: 1 };

/** More entries than are read at once. Returns the ids of their events. */
async function appendMany(world: World, entries: number): Promise<string[]> {
  await ensureGroups(world.redis, world.keys, world.keys.events(0), EVENT_GROUPS);
  const ids: string[] = [];
  for (let n = 0; n < entries; n++) {
    const agent = freshAgent();
    const events = Array.from({ length: 3 }, () => makeEvent(agent));
    await world.appender.append(appendOf(agent, events));
    ids.push(...events.map(({ id }) => id));
  }
  return ids.sort();
}

const aloneOf = async (world: World) => (await ownerOf(world, { permits: new Semaphore(1) })).drain;

/** Runs an owner until everything is acknowledged. */
async function drainAll(world: World): Promise<void> {
  const drain = await aloneOf(world);
  const ended = drain.run();
  await whenDrained(world).finally(() => drain.stop());
  await ended;
}

/** Makes every so many-th read of a stream's entries fail, after it was carried out. */
function losingReads(redis: Commands, every: number): Commands {
  let reads = 0;
  const losing = async (answer: unknown) => {
    await answer;
    if (++reads % every === 0) throw new Error('Connection is closed.');
    return answer;
  };
  return intercepted(redis, ({ name, args, go }) =>
    name === 'callBuffer' && args[0] === 'XRANGE' ? losing(go()) : go(),
  );
}

/** Its first insert is carried out, and then its owner is gone. */
class LastWords extends ClickHouse {
  override async insertEvents(rows: readonly Buffer[], token: string): Promise<void> {
    await super.insertEvents(rows, token);
    throw new LeaseLost('gone between insert and acknowledgement');
  }
}

function anotherClient(t: Test, world: World): LastWords {
  const { database } = world.clickhouse;
  const clickhouse = new LastWords({ url: servers.clickhouse.url, database, queryTimeoutSeconds: 60 });
  t.teardown(() => clickhouse.close());
  return clickhouse;
}

t.test('where reads fail in between, nothing is skipped', async (t) => {
  const world = await makeWorld(t, servers);
  const ids = await appendMany(world, 1_000);
  await drainAll({ ...world, redis: losingReads(world.redis, 3) });
  t.same(await storedIds(world.clickhouse), ids);
});

t.test('where reads fail in between, the next owner makes the very same batch of a manifest', async (t) => {
  const world = await makeWorld(t, servers);
  const ids = await appendMany(world, 1_000);
  const first = await aloneOf({ ...world, clickhouse: anotherClient(t, world) });
  await t.rejects(first.run(), LeaseLost);
  t.same(await storedIds(world.clickhouse), ids, 'inserted and not acknowledged');
  await appendMany(world, 3);
  // Not the first entries: their absence would have been noticed.
  await drainAll({ ...world, redis: losingReads(world.redis, 7) });
  const stored = await storedIds(world.clickhouse);
  t.equal(new Set(stored).size, stored.length, 'nothing twice');
  t.equal(stored.length, ids.length + 9, 'nothing missing');
});

/**
 * The engine is killed under the first `tears` inserts that store something, between the two last steps of an insert:
 * what it writes is its log of tokens first and the part's name second. The kill comes after both, and the second is
 * undone.
 */
class TornEngine extends ClickHouse {
  engine: EngineProcess;
  tears = 0;
  /** Inserts that were answered and stored nothing. */
  fromToken = 0;
  readonly #restart: () => Promise<EngineProcess>;
  readonly #failure: () => Error;

  constructor(engine: EngineProcess, restart: () => Promise<EngineProcess>, failure: () => Error) {
    super({ url: engine.url, database: 'gatehouse', queryTimeoutSeconds: 60 });
    this.engine = engine;
    this.#restart = restart;
    this.#failure = failure;
  }

  override async insertEvents(rows: readonly Buffer[], token: string): Promise<void> {
    await super.insertEvents(rows, token);
    const parts = await this.query<{ path: string }>(
      "SELECT path FROM system.parts WHERE database = currentDatabase() AND table = 'events' AND active",
    );
    if (parts.length === 0) this.fromToken++;
    if (parts.length === 0 || this.tears === 0) return;
    this.tears--;
    await this.engine.stop('SIGKILL');
    for (const part of parts) rmSync(part.path, { recursive: true });
    this.engine = await this.#restart();
    throw this.#failure();
  }
}

async function tornWorld(t: Test, tears: number, failure: () => Error): Promise<World & { clickhouse: TornEngine }> {
  const options = { path: path.join(folderOf(t), 'data'), port: await freePort() };
  const clickhouse = new TornEngine(await forkEngine(options), () => forkEngine(options), failure);
  t.teardown(async () => {
    await clickhouse.close();
    await clickhouse.engine.stop('SIGKILL');
  });
  const { url } = clickhouse.engine;
  const world = await makeWorld(t, { ...servers, clickhouse: { url, makeDatabase: () => clickhouse } });
  clickhouse.tears = tears;
  return { ...world, clickhouse };
}

for (const tears of [1, 2]) {
  t.test(`an engine is killed ${tears} times between token and part: the rows are stored all the same`, async (t) => {
    const noAnswer = () => new ClickHouseError('no answer', { code: null });
    const world = await tornWorld(t, tears, noAnswer);
    const ids = await appendMany(world, 20);
    await drainAll(world);
    t.ok(world.clickhouse.fromToken >= tears, 'tokens were known without their rows');
    t.same(await storedIds(world.clickhouse), ids);
  });
}

t.test('the engine and the owner are killed between token and part: the next owner stores the rows', async (t) => {
  const world = await tornWorld(t, 1, () => new LeaseLost('gone with the engine'));
  const ids = await appendMany(world, 20);
  await t.rejects((await aloneOf(world)).run(), LeaseLost);
  t.same(await storedIds(world.clickhouse), []);
  await drainAll(world);
  t.same(await storedIds(world.clickhouse), ids);
});
