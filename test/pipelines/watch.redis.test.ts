// The watch over silent agents, by a driven clock and a real Redis: who is declared down, when, and how often, whatever
// happens to the watchers meanwhile. Silences of agents are written as fronts write them; watch.path.test.ts has the
// fronts.
import t, { type Test } from 'tap';
import { Watcher } from '../../pipelines/watch/watcher.ts';
import type { Agent } from '../../schemas/agent.ts';
import { SIGNAL_FIELD, type Signal, type SignalEntry } from '../../schemas/signal.ts';
import { WATCH_GAP_MS, WATCH_TICK_MS } from '../../src/common/limits.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { Accounts } from '../../src/registry/accounts/accounts.ts';
import { Agents } from '../../src/registry/agents.ts';
import { IngestHeartbeat } from '../../src/streams/ingest-heartbeat.ts';
import { actor } from '../registry/harness.ts';
import { connect, freshKeys, silent } from '../streams/harness.ts';
import { intercepted } from '../support/intercepted.ts';
import { startRedis } from '../support/redis.ts';

const server = await startRedis(t);
const redis = await connect(t, server.address);

/** A service of its own under a clock that stands until it is driven. */
class World {
  readonly keys: Keys = freshKeys(2);
  readonly store = { redis, keys: this.keys };
  readonly agents = new Agents(this.store);
  readonly accounts = new Accounts(this.store);
  readonly heartbeat = new IngestHeartbeat({
    redis,
    keys: this.keys,
    isAccepting: () => this.isOpen,
    now: () => this.now,
  });
  readonly watcher = this.makeWatcher();
  account = '';
  isOpen = true;
  now = 1_800_000_000_000;

  makeWatcher(client: Commands = redis): Watcher {
    const metrics = new Metrics({ processName: 'test' });
    return new Watcher({ redis: client, keys: this.keys, metrics, log: silent, now: () => this.now });
  }

  async agent(name: string, metadata: Record<string, string> = {}): Promise<Agent> {
    return (await this.agents.register(this.account, { name, metadata }, actor)).agent;
  }

  /** As a front writes it beside an append. */
  async speak({ id }: Agent): Promise<void> {
    const partition = this.keys.partitionOf(this.account, id);
    await redis.hset(this.keys.lastSeen(partition), id, `${this.now}/${this.account}`);
  }

  /** Time goes by: a second at a time, with a beat and a tick of the watch in each. */
  async pass(seconds: number, each: () => Promise<void> = async () => undefined): Promise<void> {
    for (let i = 0; i < seconds; i++) {
      this.now += WATCH_TICK_MS;
      await each();
      await this.heartbeat.mark();
      await this.watcher.tick();
    }
  }

  async signals(): Promise<Signal[]> {
    const streams = [0, 1].map((partition) => redis.xrange(this.keys.signals(partition), '-', '+'));
    return (await Promise.all(streams))
      .flat()
      .flatMap(([, fields]) => (JSON.parse(fields[fields.indexOf(SIGNAL_FIELD) + 1]!) as SignalEntry).signals);
  }

  async names(): Promise<string[]> {
    return (await this.signals()).map(({ message }) => /"(.*?)"/.exec(message)![1]!).sort();
  }
}

async function makeWorld(): Promise<World> {
  const world = new World();
  world.account = (await world.accounts.create('acme', actor)).account.id;
  return world;
}

t.test('an agent that falls silent is notified once, and again after it has sent', async (t) => {
  const world = await makeWorld();
  const agent = await world.agent('worker', { heartbeat_seconds: '60' });
  await world.agent('never spoke', { heartbeat_seconds: '5' });
  const steady = await world.agent('steady', { heartbeat_seconds: '5' });
  const speak = () => world.speak(steady);
  await world.speak(agent);
  const since = world.now;
  await world.pass(60, speak);
  t.same(await world.signals(), [], 'not before its time');
  await world.pass(3, speak);
  t.match(await world.signals(), [
    {
      id: `agent_down/${agent.id}/${since}`,
      trigger: 'agent_down',
      account: world.account,
      agent: agent.id,
      severity: 'high',
      message: /"worker" has sent nothing for 6[123] s/,
      silence: { since, heartbeatSeconds: 60 },
    },
  ]);
  await world.pass(300, speak);
  t.equal((await world.signals()).length, 1, 'once per silence');
  await world.speak(agent);
  const again = world.now;
  await world.pass(60, speak);
  t.equal((await world.signals()).length, 1);
  await world.pass(3, speak);
  t.same(
    (await world.signals()).map(({ id }) => id),
    [since, again].map((ms) => `agent_down/${agent.id}/${ms}`),
  );
});

t.test(
  "the agent's heartbeat comes before the account's setting, and that before 300 s; changes count within a minute",
  async (t) => {
    const world = await makeWorld();
    const [own, wrong, plain] = [
      await world.agent('own', { heartbeat_seconds: '30' }),
      await world.agent('wrong', { heartbeat_seconds: 'soon' }),
      await world.agent('plain'),
    ];
    for (const agent of [own, wrong, plain]) await world.speak(agent);
    await world.pass(33);
    t.same(await world.names(), ['own']);
    await world.pass(265);
    t.same(await world.names(), ['own'], 'just under 300 s');
    await world.pass(5);
    t.same(await world.names(), ['own', 'plain', 'wrong']);

    for (const agent of [wrong, plain]) await world.speak(agent);
    await world.pass(100);
    await world.accounts.patch(world.account, { agent_down_seconds: 120 }, actor);
    await world.agents.patch(world.account, plain.id, { metadata: { heartbeat_seconds: '1000' } }, actor);
    await world.pass(81);
    t.equal((await world.names()).length, 4, 'the new setting was in force within a minute');
    const seconds = (await world.signals()).map(({ silence }) => silence!.heartbeatSeconds);
    t.same(
      seconds.sort((a, b) => a - b),
      [30, 120, 300, 300],
    );
    await world.agents.patch(world.account, plain.id, { metadata: { heartbeat_seconds: '200' } }, actor);
    await world.pass(61);
    t.same((await world.names()).filter((name) => name === 'plain').length, 2, 'and so was the heartbeat');
  },
);

t.test('after a gap in the watch no agent is down before a full period', async (t) => {
  const world = await makeWorld();
  const agent = await world.agent('quiet', { heartbeat_seconds: '30' });
  await world.speak(agent);
  await world.pass(5);
  world.now += 3_600_000; // every process of ours was away, and so was the agent's way to us
  await world.pass(31);
  t.same(await world.signals(), [], 'an hour without us is no silence');
  await world.pass(3);
  t.same(await world.names(), ['quiet'], 'a period after it is');
  t.match((await world.signals())[0]!.message, /for 36\d\d s/, 'and the message is true');
});

t.test('a change of process that leaves no gap leaves the silences counted', async (t) => {
  const world = await makeWorld();
  await world.speak(await world.agent('quiet', { heartbeat_seconds: '30' }));
  await world.pass(15);
  world.now += WATCH_GAP_MS - WATCH_TICK_MS;
  const next = world.makeWatcher();
  for (let i = 0; i < 14; i++) {
    world.now += WATCH_TICK_MS;
    await world.heartbeat.mark();
    await next.tick();
  }
  t.same(await world.names(), ['quiet']);
});

t.test('while no front takes events in, no silence counts', async (t) => {
  const world = await makeWorld();
  await world.speak(await world.agent('refused', { heartbeat_seconds: '30' }));
  await world.pass(5);
  world.isOpen = false;
  await world.pass(120);
  t.same(await world.signals(), [], 'its events would have been refused');
  world.isOpen = true;
  await world.pass(30);
  t.same(await world.signals(), []);
  await world.pass(3);
  t.same(await world.names(), ['refused']);
});

t.test('inactive and deleted agents are never down', async (t) => {
  const world = await makeWorld();
  const [off, gone, killed] = [
    await world.agent('off', { heartbeat_seconds: '10' }),
    await world.agent('gone', { heartbeat_seconds: '10' }),
    await world.agent('killed', { heartbeat_seconds: '10' }),
  ];
  for (const agent of [off, gone, killed]) await world.speak(agent);
  await world.pass(5);
  await world.agents.patch(world.account, off.id, { status: 'inactive' }, actor);
  await world.agents.remove(world.account, gone.id, actor);
  await world.agents.patch(world.account, killed.id, { status: 'inactive' }, actor);
  await world.pass(100, () => world.speak(killed));
  t.same(await world.signals(), []);
  await world.agents.patch(world.account, off.id, { status: 'active' }, actor);
  await world.pass(10);
  t.same(await world.signals(), [], 'made active again, it has a full period');
  await world.pass(12);
  t.same(await world.names(), ['off']);

  const partition = world.keys.partitionOf(world.account, gone.id);
  await redis.hdel(world.keys.lastSeen(partition), gone.id); // what its erasure does in the end
  await world.pass(61);
  t.equal(await redis.zscore(world.keys.watchDue(partition), gone.id), null, 'and it is forgotten');
  t.equal(await redis.hget(world.keys.watchNotes(partition), gone.id), null);
});

/** The real client until it meets a script over these many keys; then `then` decides whether and when it continues. */
function interrupted(keyCount: number, then: () => Promise<void>): Commands {
  return intercepted(redis, ({ name, args, go }) =>
    (name === 'evalsha' || name === 'eval') && args[1] === keyCount ? then().then(go) : go(),
  );
}

async function killedAt(t: Test, keyCount: number, told: number): Promise<void> {
  const world = await makeWorld();
  await world.speak(await world.agent('quiet', { heartbeat_seconds: '30' }));
  await world.pass(31); // the watch began a second after the agent spoke
  const dying = world.makeWatcher(
    interrupted(keyCount, async () => {
      throw new Error('killed');
    }),
  );
  for (let i = 0; i < 3; i++) {
    world.now += WATCH_TICK_MS;
    await world.heartbeat.mark();
    await dying.tick().catch((error: Error) => t.equal(error.message, 'killed'));
  }
  t.equal((await world.signals()).length, told, 'so far');
  await world.pass(60);
  const ids = (await world.signals()).map(({ id }) => id);
  t.equal(new Set(ids).size, 1, 'one id, however often it was sent');
  t.equal(ids.length, told + 1, 'and the next watcher sent it');
}

const SETTLE_KEYS = 2;
const SIGNAL_KEYS = 1;

t.test('killed before the signal: the next watcher sends it', (t) => killedAt(t, SIGNAL_KEYS, 0));
t.test('killed between signal and settle: sent again, under the same id', (t) => killedAt(t, SETTLE_KEYS, 3));

t.test('two watchers that find the same silence send it under one id', async (t) => {
  const world = await makeWorld();
  await world.speak(await world.agent('quiet', { heartbeat_seconds: '30' }));
  await world.pass(30);
  let other: Promise<void> | undefined;
  const slow = world.makeWatcher(
    interrupted(SETTLE_KEYS, async () => {
      world.now += WATCH_TICK_MS;
      other ??= world.watcher.tick();
      await other;
    }),
  );
  for (let i = 0; i < 2; i++) {
    world.now += WATCH_TICK_MS;
    await world.heartbeat.mark();
    await slow.tick();
  }
  const ids = (await world.signals()).map(({ id }) => id);
  t.equal(ids.length, 2, 'both found it');
  t.equal(new Set(ids).size, 1);
  await world.pass(60);
  t.equal((await world.signals()).length, 2, 'and that was that');
});

t.test('of two watchers in one second one does the work', async (t) => {
  const world = await makeWorld();
  await world.speak(await world.agent('quiet', { heartbeat_seconds: '5' }));
  const both = [world.watcher, world.makeWatcher()];
  for (let i = 0; i < 20; i++) {
    world.now += WATCH_TICK_MS;
    await world.heartbeat.mark();
    await Promise.all(both.map((watcher) => watcher.tick()));
  }
  t.equal((await world.signals()).length, 1);
});

t.test('many agents fall silent at once: all are notified, a bounded number a tick', async (t) => {
  const world = await makeWorld();
  const first = await world.agent('0', { heartbeat_seconds: '30' });
  const text = (await redis.get(world.keys.agent(world.account, first.id)))!;
  const ids = [first.id];
  for (let i = 1; i < 3_000; i++) ids.push(`agt_${String(i).padStart(26, '0')}`);
  await Promise.all(
    ids.flatMap((id) => [
      redis.set(world.keys.agent(world.account, id), text.replace(first.id, id)),
      redis.hset(world.keys.lastSeen(world.keys.partitionOf(world.account, id)), id, `${world.now}/${world.account}`),
    ]),
  );
  let most = 0;
  let before = 0;
  await world.pass(40, async () => {
    const told = (await world.signals()).length;
    most = Math.max(most, told - before);
    before = told;
  });
  t.equal(new Set((await world.signals()).map(({ agent }) => agent)).size, ids.length, 'all of them');
  t.equal((await world.signals()).length, ids.length, 'each once');
  t.ok(most <= 2_000, `at most ${most} in one tick of two partitions`);
});

t.test('a full Redis is watched all the same', { skip: server.address.cluster }, async (t) => {
  const world = await makeWorld();
  await world.speak(await world.agent('quiet', { heartbeat_seconds: '5' }));
  await world.pass(2);
  await redis.call('CONFIG', 'SET', 'maxmemory', '1');
  await world.pass(8);
  await redis.call('CONFIG', 'SET', 'maxmemory', '0');
  t.same(await world.names(), ['quiet']);
});
