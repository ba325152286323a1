// The request limit: what several processes let through together, what a refusal says, and that no token comes from
// nowhere.
import { once } from 'node:events';
import t from 'tap';
import type { RequestLimit } from '../../src/registry/accounts/principal.ts';
import { type Limited, RequestLimiter } from '../../src/registry/accounts/request-limit.ts';
import { undisturbed } from '../support/own-time.ts';
import { startRedis } from '../support/redis.ts';
import { connectStore, eventually, newAccount } from './harness.ts';

const started = await startRedis(t);
const store = await connectStore(t, started.address);
const { redis, keys } = store;

const DEFAULT: RequestLimit = { perSecond: 1000, burst: 2000 };
let made = 0;

function principal(requestLimit: RequestLimit | null): Limited {
  return { account: newAccount(), keyId: `key_${++made}`, requestLimit };
}

t.test('four processes together stay within the bound, and use what there is', async (t) => {
  const limit = { perSecond: 400, burst: 100 };
  const block = 20;
  const caller = principal(limit);
  const limiters = Array.from({ length: 4 }, () => new RequestLimiter({ redis, keys, limit: DEFAULT }));
  const admitted: number[] = [];
  const start = performance.now();
  const seconds = 2.5;
  // While a machine stands still the bucket fills to its burst and no further: what overflows then is not lost by the
  // limit.
  const tries = { last: start, runOver: 0 };
  await Promise.all(
    limiters.map(async (limiter) => {
      while (performance.now() - start < seconds * 1000) {
        while ((await limiter.admit(caller)) === true) admitted.push(performance.now());
        const now = performance.now();
        tries.runOver += Math.max(0, ((now - tries.last) / 1000) * limit.perSecond - limit.burst / 2);
        tries.last = now;
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }),
  );
  admitted.sort((a, b) => a - b);
  const took = (performance.now() - start) / 1000;
  t.ok(
    admitted.length <= limit.burst + took * limit.perSecond + 4 * block,
    `${admitted.length} in ${took.toFixed(2)} s`,
  );
  const least = limit.burst + seconds * limit.perSecond * 0.9 - tries.runOver;
  t.ok(admitted.length >= least, `hammered, hardly a token is wasted: ${admitted.length} of at least ${least | 0}`);
  let worst = 0;
  for (let from = 0, to = 0; to < admitted.length; to++) {
    while (admitted[to]! - admitted[from]! > 1000) from++;
    worst = Math.max(worst, to - from + 1);
  }
  t.ok(worst <= limit.burst + limit.perSecond + 4 * block, `at most ${worst} in any second`);
});

t.test('most requests need no trip', async (t) => {
  const limiter = new RequestLimiter({ redis, keys, limit: DEFAULT });
  const caller = principal(null);
  const first = limiter.admit(caller);
  t.type(first, Promise);
  await first;
  let plain = 0;
  for (let i = 0; i < 49; i++) if (limiter.admit(caller) === true) plain++;
  t.equal(plain, 49, 'the rest of the block');
  await limiter.admit(caller);
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  t.type(limiter.admit(caller), Promise, 'a lease is given up after a second');
});

t.test('a refusal says when to come back, and is right', async (t) => {
  const limiter = new RequestLimiter({ redis, keys, limit: DEFAULT });
  const { caller, verdicts, again } = await undisturbed(400, async () => {
    const caller = principal({ perSecond: 2, burst: 3 });
    const verdicts = await Promise.all(Array.from({ length: 6 }, () => limiter.admit(caller)));
    return { caller, verdicts, again: limiter.admit(caller) };
  });
  t.equal(verdicts.filter((verdict) => verdict === true).length, 3, 'the burst');
  t.match(verdicts[5], { retryAfterSeconds: 1 });
  t.match(again, { retryAfterSeconds: 1 }, 'until then no trip is made');
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  t.equal(await limiter.admit(caller), true);
  const slow = await undisturbed(900, async () => {
    const caller = principal({ perSecond: 1, burst: 1 });
    const first = await limiter.admit(caller);
    await new Promise((resolve) => setTimeout(resolve, 300));
    return [first, await new RequestLimiter({ redis, keys, limit: DEFAULT }).admit(caller)];
  });
  t.match(slow, [true, { retryAfterSeconds: 1 }], 'every process gets the same answer');
});

t.test('keys have buckets of their own, and they vanish when they are full', async (t) => {
  const limiter = new RequestLimiter({ redis, keys, limit: { perSecond: 2, burst: 2 } });
  const { key, other, there } = await undisturbed(800, async () => {
    const [a, b] = [principal(null), principal(null)];
    await Promise.all([limiter.admit(a), limiter.admit(a)]);
    const key = keys.requestLimit(a.account, a.keyId);
    return { key, other: await limiter.admit(b), there: await redis.exists(key) };
  });
  t.same([other, there], [true, 1]);
  t.ok((await redis.pttl(key)) <= 1_001);
  await eventually(async () => (await redis.exists(key)) === 0);
  t.pass('gone by itself');
});

t.test('a full Redis still admits, an unavailable one admits none', async (t) => {
  const limiter = new RequestLimiter({ redis, keys, limit: { perSecond: 1, burst: 5 } });
  const nodes = 'nodes' in redis && typeof redis.nodes === 'function' ? redis.nodes('master') : [redis];
  for (const node of nodes) await node.call('CONFIG', 'SET', 'maxmemory', '1');
  t.equal(await limiter.admit(principal(null)), true);
  for (const node of nodes) await node.call('CONFIG', 'SET', 'maxmemory', '0');
  const exits = started.servers.map(({ child }) => once(child, 'exit'));
  for (const { child } of started.servers) child.kill('SIGKILL');
  await Promise.all(exits);
  await t.rejects(Promise.resolve(limiter.admit(principal(null))), {
    code: 'unavailable',
    recorded: false,
    retryAfterSeconds: 1,
  });
  for (const server of started.servers) await server.restart();
});
