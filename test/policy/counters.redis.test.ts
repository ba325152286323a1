// The counters behind rate limits, on a real Redis (and on a Cluster with GATEHOUSE_TEST_REDIS_CLUSTER=1).
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { type CounterCheck, Counters } from '../../src/policy/counters.ts';
import { type Commands, connectCommands, RedisUnavailable, waitUntilReady } from '../../src/redis/client.ts';
import { startRedis } from '../support/redis.ts';

const seed = Date.now() & 0x7fffffff;
t.comment(`seed ${seed}`);

const redis = await startRedis(t, { args: ['--appendfsync', 'always'] });
const client = connectCommands(redis.address);
t.teardown(() => client.disconnect());
await waitUntilReady(client, 10_000);
const counters = new Counters(client);

async function take(checks: CounterCheck[], by: Counters = counters): Promise<number[]> {
  return (await by.take(checks)).map(({ granted }) => granted);
}

let keys = 0;

function check(rest: Partial<CounterCheck> = {}): CounterCheck {
  return { key: `{p${keys++}}:rate`, threshold: 5, windowMs: 60_000, count: 1, takesPlaceWhenOver: false, ...rest };
}

t.test('places are granted first come first, however many are asked for at once', async (t) => {
  const one = check();
  t.strictSame(await take([{ ...one, count: 3 }]), [3]);
  t.strictSame(await take([{ ...one, count: 3 }]), [2]);
  t.strictSame(await take([{ ...one, count: 3 }]), [0]);
  t.strictSame(await take([check(), { ...check(), count: 9 }, { ...one }]), [1, 5, 0], 'several counters in one go');
  t.strictSame(await take([]), []);
});

t.test('any sequence of calls inside one window is counted like a plain number', async (t) => {
  const calls = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 20 }),
      calls,
      fc.boolean(),
      async (threshold, counts, takesPlaceWhenOver) => {
        const one = check({ threshold, takesPlaceWhenOver });
        let taken = 0;
        for (const count of counts) {
          const expected = Math.max(0, Math.min(count, threshold - taken));
          taken += takesPlaceWhenOver ? count : expected;
          const [granted] = await take([{ ...one, count }]);
          if (granted !== expected) return false;
        }
        return true;
      },
    ),
    { seed, numRuns: 60 },
  );
  t.pass();
});

t.test('a place is free again one window later, at most a sixtieth late; what is over takes none', async (t) => {
  const one = check({ threshold: 2, windowMs: 1000 });
  t.strictSame(await take([{ ...one, count: 2 }]), [2]);
  const started = performance.now();
  let refused = 0;
  while ((await take([one]))[0] === 0) {
    refused++;
    await sleep(4);
  }
  const waited = performance.now() - started;
  t.ok(refused > 20, `${refused} tries over`);
  t.ok(waited > 980 && waited < 1150, `${waited.toFixed(0)} ms`);
});

t.test('where every event counts, a limit stays reached while events keep coming', async (t) => {
  const one = check({ threshold: 2, windowMs: 1000, takesPlaceWhenOver: true });
  const until = performance.now() + 1_600;
  let granted = 0;
  while (performance.now() < until) {
    granted += (await take([one]))[0]!;
    await sleep(50);
  }
  t.equal(granted, 2);
  await sleep(1_100);
  t.strictSame(await take([one]), [1], 'quiet for a window: free');
});

t.test('at most the threshold passes in any window, over many clients and window borders', async (t) => {
  const one = check({ threshold: 100, windowMs: 1000 });
  const clients = await Promise.all(Array.from({ length: 4 }, connected));
  const grants: number[] = [];
  const until = performance.now() + 3_200;
  const hammer = async (mine: Counters, index: number) => {
    while (performance.now() < until) {
      const [taken] = await mine.take([{ ...one, count: 1 + (index % 3) }]);
      grants.push(...Array<number>(taken!.granted).fill(taken!.atMs));
      // Bursts, placed so that they fall on both sides of full seconds.
      if (index % 2 === 1 && Date.now() % 1000 < 700) await sleep(1 + (index % 7));
    }
  };
  await Promise.all(clients.flatMap(({ mine }) => Array.from({ length: 4 }, (_, i) => hammer(mine, i))));
  for (const { own } of clients) own.disconnect();
  // Times are whole ms: those that lie at most 999 apart lie within one second.
  const worst = Math.max(...grants.map((from) => grants.filter((at) => at >= from && at <= from + 999).length));
  t.ok(worst <= 100, `${worst} in one second`);
  t.ok(grants.length >= 300, `${grants.length} granted in 3.2 s: the limit is not only kept but used`);
  t.comment(`${grants.length} granted, ${worst} at most in one second`);
});

async function connected(): Promise<{ mine: Counters; own: Commands }> {
  const own = connectCommands(redis.address);
  await waitUntilReady(own, 10_000);
  return { mine: new Counters(own), own };
}

t.test('a counter expires a little after its window', async (t) => {
  const one = check({ windowMs: 6_000 });
  await take([one]);
  const life = await client.pttl(one.key);
  t.ok(life > 6_000 && life <= 6_102, `${life} ms`);
});

t.test('a clock that was set back takes all places as of now, and is right again a window later', async (t) => {
  const one = check({ threshold: 3, windowMs: 1000 });
  const ahead = Math.floor(((Date.now() + 3_600_000) * 60) / 1000);
  await client.hset(one.key, String(ahead), '3');
  t.strictSame(await take([one]), [0]);
  t.equal(await client.hexists(one.key, String(ahead)), 0);
  await sleep(1_100);
  t.strictSame(await take([one]), [1]);
});

t.test('a Redis that does not know the script is given it', async (t) => {
  for (const { port } of redis.servers) {
    const plain = connectCommands({ url: `redis://127.0.0.1:${port}`, cluster: false });
    await waitUntilReady(plain, 5_000);
    await plain.script('FLUSH');
    plain.disconnect();
  }
  t.strictSame(await take([check(), check(), check()]), [1, 1, 1]);
});

t.test(
  'a Redis that is full or gone grants nothing: the call fails; what was counted is still counted afterwards',
  async (t) => {
    const single = await startRedis(t, { single: true, args: ['--appendfsync', 'always'] });
    const own = connectCommands(single.address);
    t.teardown(() => own.disconnect());
    await waitUntilReady(own, 5_000);
    const mine = new Counters(own);
    const one = check();
    t.strictSame(await take([{ ...one, count: 5 }], mine), [5]);
    await own.config('SET', 'maxmemory', '1mb');
    await t.rejects(mine.take([check()]), RedisUnavailable);
    await own.config('SET', 'maxmemory', '0');
    const [server] = single.servers;
    const exited = once(server!.child, 'exit');
    server!.child.kill('SIGKILL');
    await exited;
    const started = performance.now();
    await t.rejects(mine.take([one]), RedisUnavailable);
    t.ok(performance.now() - started < 3_500, 'and soon');
    await server!.restart();
    await waitUntilReady(own, 10_000);
    t.strictSame(await take([one], mine), [0], 'the places were in the append-only file');
  },
);
