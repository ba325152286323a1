// Exactly once, whatever dies: store processes killed between manifest, insert and ack, paused past their lease, the
// engine killed under them, ClickHouse away. Each scenario says how many of its kills hit work in flight.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import t, { type Test } from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import { freePort } from '../../src/embedded/free-port.ts';
import { assetPath } from '../../src/process/assets.ts';
import { ReadBarrier } from '../../src/streams/read-barrier.ts';
import { appendOf, eventually, freshAgent, makeEvent } from '../streams/harness.ts';
import { forkEngine, startClickHouse } from '../support/clickhouse.ts';
import { folderOf } from '../support/folder.ts';
import { startRedis } from '../support/redis.ts';
import { makeWorld, startPipelines, storedIds, type World } from './harness.ts';
import type { VictimOptions } from './victim.ts';

const redisServer = await startRedis(t);
const engine = await startClickHouse(t);
const servers = { redis: redisServer, clickhouse: engine };

function victimOf(t: Test, world: World, options: Partial<VictimOptions> = {}): ChildProcess {
  const { prefix, partitions } = world.keys;
  const all: VictimOptions = {
    redis: redisServer.address,
    clickhouse: { url: engine.url, database: world.clickhouse.database },
    keys: { prefix, partitions },
    name: 'victim',
    ...options,
  };
  const child = fork(assetPath('build/test/pipelines/victim.js'), [JSON.stringify(all)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  t.teardown(() => {
    child.kill('SIGCONT');
    child.kill('SIGKILL');
  });
  return child;
}

/** Appends events of some agents until stopped. Returns the ids that were acknowledged. */
function writing(world: World, agents = 6): { stop: () => Promise<string[]> } {
  let on = true;
  const ids: string[] = [];
  const writers = Array.from({ length: agents }, freshAgent).map(async (agent) => {
    while (on) {
      const events = Array.from({ length: 5 }, () => makeEvent(agent));
      const acknowledged = await world.appender.append(appendOf(agent, events)).then(
        () => true,
        () => false,
      );
      if (acknowledged) ids.push(...events.map(({ id }) => id));
      await new Promise((resolve) => setTimeout(resolve, 15));
    }
  });
  return {
    stop: async () => {
      on = false;
      await Promise.all(writers);
      return ids.sort();
    },
  };
}

async function settle(world: World): Promise<void> {
  const barrier = new ReadBarrier({ ...world, waitMs: 60_000 });
  if (!(await barrier.waitForEvents('', null))) throw new Error('did not drain');
}

t.test('a store process killed before, in and after its inserts, 8 times: every event is stored once', async (t) => {
  const world = await makeWorld(t, servers);
  const writers = writing(world);
  let [kills, inFlight] = [0, 0];
  while (kills < 8) {
    let inserting = false;
    const victim = victimOf(t, world, { die: { before: 0.15, after: 0.25 } });
    victim.on('message', (message) => {
      inserting ||= message === 'insert' || message === 'insert of blocks';
    });
    await once(victim, 'exit');
    kills++;
    if (inserting) inFlight++;
  }
  const ids = await writers.stop();
  const { count } = await startPipelines(t, world, { processName: 'victim' });
  await settle(world);
  t.same(await storedIds(world.clickhouse), ids, `${ids.length} events, each once`);
  t.equal(inFlight, kills, `${inFlight} of ${kills} kills hit an insert`);
  t.ok((await count('gatehouse_taken_events_total')) > 0);
});

t.test('an owner that is stopped past its lease and wakes up changes nothing and counts nothing', async (t) => {
  const world = await makeWorld(t, { ...servers, partitions: 1 });
  const { redis, keys } = world;
  const victim = victimOf(t, world, { name: 'sleeper', insertsWait: true });
  const says = (word: string) =>
    new Promise((resolve) => victim.on('message', (message) => message === word && resolve(true)));
  const [inserting, inserted] = [says('insert'), says('inserted')];
  const agent = freshAgent();
  const made = Array.from({ length: 50 }, () => makeEvent(agent));
  await world.appender.append(appendOf(agent, made));
  await inserting;
  victim.kill('SIGSTOP');
  // Its lease runs out and it is taken for gone.
  await redis.del(keys.lease(keys.events(0), 'store'), keys.lease(keys.events(0), 'anomaly'));
  await redis.del(keys.members());
  const { count } = await startPipelines(t, world, { processName: 'other' });
  await settle(world);
  const more = Array.from({ length: 50 }, () => makeEvent(agent));
  await world.appender.append(appendOf(agent, more));
  await settle(world);
  victim.send('go on');
  victim.kill('SIGCONT');
  await inserted;
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const answer = new Promise<{ stored: number }>((resolve) =>
    victim.on('message', (message) => {
      if (typeof message === 'object') resolve(message as { stored: number });
    }),
  );
  victim.send('count');
  const { stored } = await answer;
  t.equal(stored, 0, 'the sleeper counted nothing');
  t.equal(await count('gatehouse_stored_rows_total', { table: 'events' }), 100);
  t.same(await storedIds(world.clickhouse), [...made, ...more].map(({ id }) => id).sort());
});

t.test('two processes share the streams; one that stops gives its share up, one that joins gets one', async (t) => {
  const world = await makeWorld(t, { ...servers, partitions: 4 });
  const a = await startPipelines(t, world, { processName: 'a' });
  const [eventStreams, signalStreams, journals] = [3 * 4, 4, 16];
  const all = eventStreams + signalStreams + journals;
  t.equal(a.pipelines.held().length, all);
  const writers = writing(world);
  const b = await startPipelines(t, world, { processName: 'b' });
  const events = (held: string[]) => held.filter((name) => name.endsWith(':events')).length;
  t.ok(
    await eventually(() => b.pipelines.held().length === all / 2 && a.pipelines.held().length === all / 2),
    'half each',
  );
  t.equal(events(b.pipelines.held()), eventStreams / 2, 'of each kind');
  await new Promise((resolve) => setTimeout(resolve, 300));
  await a.pipelines.stop();
  t.equal(a.pipelines.held().length, 0);
  t.ok(await eventually(() => b.pipelines.held().length === all), 'all again');
  const ids = await writers.stop();
  await settle(world);
  t.same(await storedIds(world.clickhouse), ids);
  t.ok(await eventually(() => b.pipelines.healthy().ok), 'healthy');
});

t.test(
  'the engine is killed under the pipelines, again and again: they wait, and every event is stored once',
  async (t) => {
    const folder = folderOf(t);
    // Not of the range of outgoing connections: one of those could have it when the engine comes back.
    let own = await forkEngine({ path: path.join(folder, 'data'), port: await freePort() });
    t.teardown(() => own.stop('SIGKILL'));
    const { port } = own;
    const world = await makeWorld(t, {
      redis: redisServer,
      clickhouse: { url: own.url, makeDatabase: () => client(t, own.url) },
    });
    const { count } = await startPipelines(t, world);
    const writers = writing(world, 2);
    for (let kill = 0; kill < 4; kill++) {
      await new Promise((resolve) => setTimeout(resolve, 300 + Math.random() * 400));
      await own.stop('SIGKILL');
      own = await forkEngine({ path: path.join(folder, 'data'), port });
    }
    const ids = await writers.stop();
    await settle(world);
    t.same(await storedIds(world.clickhouse), ids, `${ids.length} events`);
    t.equal(await count('gatehouse_stored_rows_total', { table: 'events' }), ids.length);
    t.ok((await count('gatehouse_inserts_total', { table: 'events', result: 'failed' })) > 0, 'some inserts failed');
  },
);

t.test(
  'Redis is killed under writers and pipelines: what was acknowledged is stored once, nothing twice',
  async (t) => {
    const own = await startRedis(t, { single: true });
    const world = await makeWorld(t, { redis: own, clickhouse: engine });
    const { pipelines } = await startPipelines(t, world);
    const writers = writing(world, 3);
    for (let kill = 0; kill < 3; kill++) {
      await new Promise((resolve) => setTimeout(resolve, 400));
      const [server] = own.servers;
      const exited = once(server!.child, 'exit');
      server!.child.kill('SIGKILL');
      await exited;
      await server!.restart();
    }
    const acknowledged = await writers.stop();
    t.ok(
      await eventually(
        async () =>
          await settle(world).then(
            () => true,
            () => false,
          ),
      ),
      'drains again by itself',
    );
    const stored = await storedIds(world.clickhouse);
    t.equal(new Set(stored).size, stored.length, 'nothing twice');
    const there = new Set(stored);
    t.same(
      acknowledged.filter((id) => !there.has(id)),
      [],
      `${acknowledged.length} acknowledged`,
    );
    t.ok(await eventually(() => pipelines.healthy().ok), 'healthy');
  },
);

t.test('an acknowledged write is seen by the next read, 200 times under load', async (t) => {
  const world = await makeWorld(t, servers);
  const { appender, clickhouse, redis, keys } = world;
  await startPipelines(t, world);
  const writers = writing(world, 4);
  // The time itself is the machine's: what must hold is that a wait that succeeded has not lied.
  const barrier = new ReadBarrier({ redis, keys, waitMs: 60_000 });
  let [missing, late] = [0, 0];
  const tries = Array.from({ length: 6 }, async () => {
    const agent = freshAgent();
    for (let n = 0; n < 34; n++) {
      const event = makeEvent(agent);
      await appender.append(appendOf(agent, [event]));
      if (!(await barrier.waitForEvents(agent.account, agent.agent))) late++;
      const found = await clickhouse.query(
        'SELECT id FROM events WHERE agent_id = {agent:String} AND id = {id:String}',
        { agent: agent.agent, id: event.id },
      );
      if (found.length !== 1) missing++;
    }
  });
  await Promise.all(tries);
  await writers.stop();
  t.equal(missing, 0);
  t.equal(late, 0);
});

function client(t: Test, url: string) {
  const clickhouse = new ClickHouse({ url, database: 'gatehouse', queryTimeoutSeconds: 60 });
  t.teardown(() => clickhouse.close());
  return clickhouse;
}
