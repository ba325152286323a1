// The counters behind rate limits, on a real Redis (and on a Cluster with GATEHOUSE_TEST_REDIS_CLUSTER=1).
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { type CounterCheck, type CounterGrant, Counters } from '../../src/policy/quotas/counters.ts';
import { ReplayedCounters } from '../../src/policy/replay/replayed-counters.ts';
import { readAsset } from '../../src/process/assets.ts';
import { type Commands, connectCommands, RedisUnavailable, waitUntilReady } from '../../src/redis/client.ts';
import { OwnTime } from '../support/own-time.ts';
import { opened, startRedis, untilConnected } from '../support/redis.ts';
import { randomFrom, runs, SEED } from '../support/seed.ts';

const redis = await startRedis(t);
const client = await opened(t, untilConnected(connectCommands(redis.address)));
const counters = new Counters(client);

async function take(checks: CounterCheck[], by: Counters = counters): Promise<number[]> {
  return (await by.take(checks)).map(({ granted }) => granted);
}

let keys = 0;

function check(rest: Partial<CounterCheck> = {}): CounterCheck {
  return { key: `{p${keys++}}:rate`, threshold: 5, windowMs: 60_000, count: 1, countsWhenOver: false, ...rest };
}

t.test('places are granted first come first, however many are asked for at once', async (t) => {
  const one = check();
  t.strictSame(await take([{ ...one, count: 3 }]), [3]);
  t.strictSame(await take([{ ...one, count: 3 }]), [2]);
  t.strictSame(await take([{ ...one, count: 3 }]), [0]);
  t.strictSame(await take([check(), { ...check(), count: 9 }, { ...one }]), [1, 5, 0], 'several counters in one go');
  t.strictSame(await take([]), []);
});

t.test('what is refused says in how many ms the next permit is free', async (t) => {
  const one = check({ threshold: 3, windowMs: 1_200 });
  const [all] = await counters.take([{ ...one, count: 3 }]);
  t.equal(all!.freeInMs, 0);
  const [refused] = await counters.take([one]);
  const atMs = refused!.atMs + refused!.freeInMs;
  t.ok(
    atMs > all!.atMs + 1_200 && atMs <= all!.atMs + 1_200 + 20 + 1,
    `a window and a sub-bucket: ${atMs - all!.atMs} ms`,
  );
  await sleep(refused!.freeInMs + 1);
  t.strictSame(await take([one]), [1], 'as it said');

  const counting = check({ threshold: 2, windowMs: 60_000, countsWhenOver: true });
  await counters.take([{ ...counting, count: 2 }]);
  const [first] = await counters.take([{ ...counting, count: 5 }]);
  t.ok(first!.granted === 0 && first!.freeInMs > 58_000 && first!.freeInMs <= 61_001, 'all that came have to leave');
  const lowered = { ...check({ threshold: 9 }) };
  await counters.take([{ ...lowered, count: 9 }]);
  const [after] = await counters.take([{ ...lowered, threshold: 1 }]);
  t.ok(after!.freeInMs > 58_000 && after!.freeInMs <= 61_001, 'a limit that was lowered');
});

t.test('any sequence of calls inside one window is counted like a plain number', async (t) => {
  const calls = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 20 }),
      calls,
      fc.boolean(),
      async (threshold, counts, countsWhenOver) => {
        const one = check({ threshold, countsWhenOver });
        let taken = 0;
        for (const count of counts) {
          const expected = Math.max(0, Math.min(count, threshold - taken));
          taken += countsWhenOver ? count : expected;
          const [granted] = await take([{ ...one, count }]);
          if (granted !== expected) return false;
        }
        return true;
      },
    ),
    { seed: SEED, numRuns: 60 },
  );
  t.pass();
});

t.test('many counters asked for at once are counted each by itself, whatever they share', async (t) => {
  const ask = fc.record({
    counter: fc.nat(150),
    count: fc.integer({ min: 1, max: 4 }),
  });
  const rounds = fc.array(fc.array(ask, { minLength: 1, maxLength: 300, size: 'max' }), { minLength: 1, maxLength: 4 });
  let run = 0;
  await fc.assert(
    fc.asyncProperty(rounds, async (asked) => {
      run++;
      const taken = new Map<number, number>();
      for (const round of asked) {
        const checks = round.map(({ counter, count }) => ({
          key: `{many${run}-${counter % 3}}:rate:${counter}`,
          threshold: 1 + (counter % 7),
          windowMs: 60_000 + counter,
          count,
          countsWhenOver: counter % 2 === 0,
        }));
        const expected = round.map(({ counter, count }, i) => {
          const before = taken.get(counter) ?? 0;
          const granted = Math.max(0, Math.min(count, checks[i]!.threshold - before));
          taken.set(counter, before + (checks[i]!.countsWhenOver ? count : granted));
          return granted;
        });
        if (JSON.stringify(await take(checks)) !== JSON.stringify(expected)) return false;
      }
      return true;
    }),
    { seed: SEED, numRuns: 40 },
  );
  t.pass();
});

t.test('counters of one hash tag go in one call, so many at most that Redis is not held up', async (t) => {
  const single = await startRedis(t, { single: true });
  const own = await opened(t, untilConnected(connectCommands(single.address)));
  const mine = new Counters(own);
  await mine.take([check()]); // the script is known from here on
  const calls = async () =>
    Number(/cmdstat_evalsha:calls=(\d+)/.exec((await own.call('INFO', 'commandstats')) as string)![1]);
  const before = await calls();
  const of = (tag: string, count: number) =>
    Array.from({ length: count }, (_, i) => ({ ...check(), key: `{${tag}}:rate:${i}` }));
  t.strictSame(new Set(await take([...of('p1', 120), ...of('p2', 50), ...of('r1', 1)], mine)), new Set([1]));
  t.equal((await calls()) - before, 3 + 1 + 1);
});

t.test('a place is free again one window later, at most a sixtieth late; what is over takes none', async (t) => {
  // All by Redis's clock, which counted: when an answer arrives is the machine's affair.
  const { refusedAt, startedAt, grantedAt } = await untilFree();
  t.ok(refusedAt.length > 20, `${refusedAt.length} tries over`);
  t.ok(grantedAt - startedAt >= 1_000, `granted after ${grantedAt - startedAt} ms`);
  t.ok(refusedAt.at(-1)! - startedAt <= 1_018, `refused for the last time after ${refusedAt.at(-1)! - startedAt} ms`);
});

/**
 * Takes all places of a window of a second and tries for another. Once more if the machine stood still over half of it.
 */
async function untilFree(): Promise<{ startedAt: number; refusedAt: number[]; grantedAt: number }> {
  for (let tries = 1; ; tries++) {
    const one = check({ threshold: 2, windowMs: 1000 });
    const [first] = await counters.take([{ ...one, count: 2 }]);
    const refusedAt: number[] = [];
    let [next] = await counters.take([one]);
    for (; next!.granted === 0; [next] = await counters.take([one])) {
      refusedAt.push(next!.atMs);
      await sleep(4);
    }
    const found = { startedAt: first!.atMs, refusedAt, grantedAt: next!.atMs };
    if (refusedAt.length > 20 || tries === 20) return found;
  }
}

/** One caller may hold so little of what is free. */
const SHARE = 128;

/**
 * One counter with sub-buckets of 10 ms, of which the answer's time says exactly which one it was. Of its places some
 * are held in advance and come back, soon or when their sub-bucket is long gone.
 */
async function followed(random: () => number, ms: number): Promise<string[]> {
  const windowMs = 600;
  const size = random() < 0.5 ? 1 : 200;
  const threshold = 1 + Math.floor(random() * 40 * size);
  const one = check({ threshold, windowMs, countsWhenOver: random() < 0.5 });
  const buckets = new Map<number, number>();
  const wrong: string[] = [];
  let inHand = { places: 0, bucket: 0 };
  for (const until = performance.now() + ms; performance.now() < until; ) {
    const count = Math.floor(random() * 6 * size);
    const hold = Math.floor(random() * 3) * Math.floor(random() * 30);
    const back = random() < 0.7 ? Math.floor(random() * (inHand.places + 1)) : 0;
    const call = { ...one, count, lease: { lease: hold, returned: back, returnedBucket: inHand.bucket } };
    const [{ granted, atMs, leased: held, bucket, usableMs }] = (await counters.take([call])) as [CounterGrant];
    const places = buckets.get(inHand.bucket) ?? 0;
    if (back > 0 && inHand.bucket >= bucket - 60) buckets.set(inHand.bucket, places - back);
    let taken = 0;
    for (const [number, places] of buckets) if (number >= bucket - 60) taken += places;
    const expected = Math.max(0, Math.min(count, threshold - taken));
    const free = Math.floor((threshold - taken - count) / SHARE);
    const expectedHeld = expected < count ? 0 : Math.max(0, Math.min(hold, free));
    if (bucket !== Math.floor((atMs * 60) / windowMs) || usableMs < 0 || usableMs > 10)
      wrong.push(`${bucket}, ${atMs}`);
    if (granted !== expected || held !== expectedHeld)
      wrong.push(`${granted} of ${count}, ${held} of ${hold} at ${atMs}, ${taken} taken of ${threshold}`);
    buckets.set(bucket, (buckets.get(bucket) ?? 0) + (one.countsWhenOver ? count : expected) + held);
    inHand = held > 0 ? { places: held, bucket } : { ...inHand, places: inHand.places - back };
    const rest = random();
    if (rest < 0.02) await sleep(500 + random() * 300);
    else if (rest < 0.5) await sleep(random() * 60);
  }
  return wrong;
}

t.test('a counter that is used on and off counts what a plain list of all places says', async (t) => {
  const random = randomFrom(SEED);
  const wrong = await Promise.all(Array.from({ length: 24 }, () => followed(random, 4_000)));
  t.strictSame(wrong.flat(), []);
});

t.test('places that come back to where nothing is known of them are taken off nothing', async (t) => {
  const one = check({ threshold: 1_000_000 });
  const [first] = await counters.take([{ ...one, count: 100, lease: { lease: 50, returned: 0, returnedBucket: 0 } }]);
  t.match(first, { granted: 100, leased: 50 });
  const { bucket } = first!;
  const sum = async () => Number(await client.hget(one.key, 'sum'));
  for (const [back, backBucket] of [
    [151, bucket],
    [1, bucket - 1],
    [1, bucket + 1],
    [1, bucket - 61],
  ] as const) {
    await counters.take([{ ...one, count: 0, lease: { lease: 0, returned: back, returnedBucket: backBucket } }]);
    t.equal(await sum(), 150, `${back} to ${backBucket - bucket}`);
  }
  await counters.take([{ ...one, count: 0, lease: { lease: 0, returned: 50, returnedBucket: bucket } }]);
  t.equal(await sum(), 100);
  const gone = check();
  await counters.take([{ ...gone, count: 0, lease: { lease: 0, returned: 5, returnedBucket: bucket } }]);
  t.equal(await client.exists(gone.key), 0, 'a counter that has expired is not made again');
});

t.test('where every event counts, a limit stays reached while events keep coming', async (t) => {
  const one = check({ threshold: 2, windowMs: 1000, countsWhenOver: true });
  const times: number[] = [];
  let granted = 0;
  let allowed = 2;
  while (times.length < 2 || times.at(-1)! - times[0]! < 1_600) {
    const [taken] = await counters.take([one]);
    // A machine that stood still kept them from coming; what that lets through is not held against the limit.
    if (times.length > 0 && taken!.atMs - times.at(-1)! > 400) allowed += 2;
    times.push(taken!.atMs);
    granted += taken!.granted;
    await sleep(50);
  }
  t.ok(granted >= 2 && granted <= allowed, `${granted} granted in ${times.length} tries, ${allowed} allowed`);
  await sleep(1_100);
  t.strictSame(await take([one]), [1], 'quiet for a window: free');
});

t.test('at most the threshold passes in any window, over many clients and window borders', async (t) => {
  const one = check({ threshold: 100, windowMs: 1000 });
  const clients = await Promise.all(Array.from({ length: 4 }, connected));
  const grants: number[] = [];
  // Counted is the time in which there were tries: while a machine stands still no place is used, and none is wasted.
  const time = { newest: 0, tried: 0 };
  const hammer = async (mine: Counters, index: number) => {
    while (time.tried < 3_200) {
      const [taken] = await mine.take([{ ...one, count: 1 + (index % 3) }]);
      const since = time.newest === 0 ? 0 : taken!.atMs - time.newest;
      time.tried += Math.max(0, Math.min(since, 20));
      time.newest = Math.max(time.newest, taken!.atMs);
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
  const own = untilConnected(connectCommands(redis.address));
  await waitUntilReady(own, 60_000);
  return { mine: new Counters(own), own };
}

t.test('a counter expires a little after its window', async (t) => {
  const one = check({ windowMs: 6_000 });
  const [taken] = await counters.take([one]);
  const life = Number(await client.call('PEXPIRETIME', one.key)) - taken!.atMs;
  t.ok(life > 6_000 && life <= 6_102, `${life} ms`);
});

t.test('a clock that was set back takes all places as of now, and is right again a window later', async (t) => {
  const one = check({ threshold: 3, windowMs: 1000 });
  const ahead = Math.floor(((Date.now() + 3_600_000) * 60) / 1000);
  await client.hset(one.key, String(ahead), '3', 'newest', String(ahead), 'sum', '3');
  t.strictSame(await take([one]), [0]);
  t.equal(await client.hexists(one.key, String(ahead)), 0);
  await sleep(1_100);
  t.strictSame(await take([one]), [1]);
});

t.test('a Redis that does not know the script is given it', async (t) => {
  for (const { port } of redis.servers) {
    const plain = connectCommands({ url: `redis://127.0.0.1:${port}`, cluster: false });
    await waitUntilReady(plain, 60_000);
    await plain.script('FLUSH');
    plain.disconnect();
  }
  t.strictSame(await take([check(), check(), check()]), [1, 1, 1]);
});

t.test(
  'a Redis that is full or gone grants nothing: the call fails; what was counted is still counted afterwards',
  async (t) => {
    const single = await startRedis(t, { single: true });
    const own = await opened(t, untilConnected(connectCommands(single.address)));
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
    const time = new OwnTime();
    await t.rejects(mine.take([one]), RedisUnavailable);
    const tookMs = time.stop();
    t.ok(tookMs < 3_500, `and soon: after ${tookMs} ms`);
    await server!.restart();
    await waitUntilReady(own, 60_000);
    t.strictSame(await take([one], mine), [0], 'the places were in the append-only file');
  },
);

t.test('replayed in the order in which they were counted, each place is given as it was', async (t) => {
  // The script with a clock of ours, in microseconds.
  const lua = readAsset('src/redis/rate-window.lua').replace(
    "local time = redis.call('TIME')",
    'local now = tonumber(ARGV[#ARGV])\nlocal time = { math.floor(now / 1000000), now % 1000000 }',
  );
  t.match(lua, 'ARGV[#ARGV]');
  const step = fc.record({ afterMs: fc.integer({ min: 0, max: 9_000 }), counter: fc.integer({ min: 0, max: 2 }) });
  let refused = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(3, 6, 60, 3_600),
      fc.integer({ min: 1, max: 12 }),
      fc.boolean(),
      fc.array(step, { minLength: 40, maxLength: 80 }),
      async (windowSeconds, threshold, countsWhenOver, steps) => {
        const windowMs = windowSeconds * 1000;
        const names = [0, 1, 2].map(() => check().key);
        let replayed = new ReplayedCounters();
        let atMs = 1_764_264_000_123;
        for (const [i, { afterMs, counter }] of steps.entries()) {
          // Many in one sub-bucket, some a window apart.
          atMs += i % 3 === 0 ? Math.floor((afterMs * windowMs) / 30_000) : afterMs % 20;
          const args = [threshold, windowMs, 1, countsWhenOver ? '1' : '0', 0, 0, 0, atMs * 1000];
          const [granted, , , , freeInMs] = (await client.eval(lua, 1, names[counter]!, ...args)) as number[];
          if (i % 10 === 9) replayed = new ReplayedCounters(JSON.parse(JSON.stringify(replayed.kept())));
          const free = replayed.take(names[counter]!, { threshold, windowMs, countsWhenOver }, atMs);
          if (granted === 0) refused++;
          if (free !== (granted === 1 ? 0 : freeInMs)) return false;
        }
        return true;
      },
    ),
    { seed: SEED, numRuns: runs(100) },
  );
  t.ok(refused > 100, `${refused} refused`);
});
