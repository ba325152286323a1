// Rate limits as fronts ask for them, on a real Redis: places held in advance spare trips, and change nothing in what
// passes.
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { ServiceError } from '../../src/common/errors.ts';
import { mintId } from '../../src/common/ids.ts';
import { QUOTA_LEASE_MS, QUOTA_RETURN_MS } from '../../src/common/limits.ts';
import { type QuotaGrant, RateLimitBatcher } from '../../src/ingest/rate-limit-batcher.ts';
import type { RateCheck } from '../../src/policy/judgement.ts';
import { Counters } from '../../src/policy/quotas/counters.ts';
import { type Commands, connectCommands } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import { opened, startRedis, untilConnected } from '../support/redis.ts';

const server = await startRedis(t, { single: true });
const keys = new Keys({ prefix: 'rateLimits-', partitions: 2 });
const account = mintId('account', Date.now());
const agent = mintId('agent', Date.now());
const WINDOW_MS = 8_000;

function limit(threshold: number, windowMs = WINDOW_MS): RateCheck {
  const policyId = mintId('policy', Date.now());
  const rule = undefined as never; // no one asks a counter for its rule
  return { rule, policyId, counterScope: 'account', counterValue: '', threshold, windowMs, countsWhenOver: false };
}

type Front = { rateLimits: RateLimitBatcher; redis: Commands };

async function front(t: Test): Promise<Front> {
  const redis = await opened(t, untilConnected(connectCommands(server.address)));
  return { rateLimits: new RateLimitBatcher(new Counters(redis), keys), redis };
}

function ask({ rateLimits }: Front, check: RateCheck, places = 1): Promise<QuotaGrant> {
  return new Promise((resolve, refused) => {
    rateLimits.ask(account, agent, [{ check, permits: places, run: 0 }], {
      counted: ([count]) => resolve(count!),
      refused,
    });
  });
}

async function taken({ redis }: Front, { policyId, windowMs }: RateCheck): Promise<number> {
  return Number(await redis.hget(keys.accountCounter(account, `${policyId}/${windowMs}`, ''), 'sum'));
}

async function calls({ redis }: Front): Promise<number> {
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0);
}

/** Lone events, one after the other. */
async function flow(one: Front, check: RateCheck, ms: number): Promise<number> {
  let events = 0;
  for (const until = performance.now() + ms; performance.now() < until; events++) {
    if ((await ask(one, check)).granted !== 1) throw new Error('far below its limit');
    await sleep(1);
  }
  return events;
}

t.test('a steady flow far below its limit takes few trips, and is counted to the event', async (t) => {
  const one = await front(t);
  const check = limit(1_000_000, 60_000);
  const before = await calls(one);
  const events = await flow(one, check, 1_000);
  const spent = (await calls(one)) - before;
  t.ok(spent < events / 4, `${spent} calls for ${events} events`);
  t.ok((await taken(one, check)) >= events, 'held counts as taken');
  await sleep(2 * (QUOTA_LEASE_MS + QUOTA_RETURN_MS));
  t.equal(await taken(one, check), events, 'what was not used is back, though there was no further request');
  t.ok((await calls(one)) - before <= spent + 2);
});

t.test('a rateLimits that closes gives back what it holds', async (t) => {
  const one = await front(t);
  const check = limit(1_000_000, 60_000);
  const events = await flow(one, check, 200);
  await one.rateLimits.close();
  t.equal(await taken(one, check), events);
});

t.test('a limit that comes near is kept and used to the last place, over several fronts', async (t) => {
  const fronts = await Promise.all(Array.from({ length: 4 }, () => front(t)));
  const check = limit(6_000);
  const passed: number[] = [];
  let over = 0;
  const hammer = async (one: Front, index: number) => {
    // For longer than a front may keep its leased permits.
    for (let overSince = Number.POSITIVE_INFINITY; performance.now() < overSince + 400; ) {
      const places = 1 + (index % 3);
      const { granted, atMs } = await ask(one, check, places);
      passed.push(...Array<number>(granted).fill(atMs));
      if (granted < places) {
        over++;
        overSince = Math.min(overSince, performance.now());
        await sleep(5);
      } else if (passed.length % 7 === 0) await sleep(1);
    }
  };
  await Promise.all(fronts.flatMap((one) => Array.from({ length: 3 }, (_, i) => hammer(one, i))));
  passed.sort((a, b) => a - b);
  const end = passed[0]! + WINDOW_MS;
  t.ok(over > 0);
  t.equal(passed.filter((at) => at < end).length, 6_000, 'not one more, not one less');
  t.ok((await calls(fronts[0]!)) > 0);
});

t.test('an event that one limit blocks takes no permit of another', async (t) => {
  const one = await front(t);
  const [near, far] = [limit(2), limit(100)];
  const alerting = { ...limit(50), countsWhenOver: true };
  const askAll = (permits: number) =>
    new Promise<readonly QuotaGrant[]>((counted, refused) => {
      const requests = [far, near, alerting].map((check) => ({ check, permits, run: 0 }));
      one.rateLimits.ask(account, agent, requests, { counted, refused });
    });
  t.same(
    (await askAll(5)).map(({ granted }) => granted),
    [5, 2, 5],
  );
  t.match(await askAll(1), [{ granted: 1 }, { granted: 0 }, { granted: 1 }]);
  const until = performance.now() + 5_000;
  const sums = () => Promise.all([far, near, alerting].map((check) => taken(one, check)));
  while ((await sums()).join() !== '2,2,2' && performance.now() < until) await sleep(20);
  t.same(await sums(), [2, 2, 2], 'each limit counts the two events that passed');
});

t.test(
  'of a batch each event counts by itself: those that pass keep their permits where others are over',
  async (t) => {
    const one = await front(t);
    const [near, far] = [limit(3), limit(100)];
    const checks = Array.from({ length: 5 }, (_, run) =>
      [near, far].map((check) => ({ check, permits: 1, run })),
    ).flat();
    const askAll = () =>
      new Promise<readonly QuotaGrant[]>((counted, refused) => {
        one.rateLimits.ask(account, agent, checks, { counted, refused });
      });
    const granted = async () => (await askAll()).filter((_, i) => i % 2 === 0).map((grant) => grant.granted);
    t.same(await granted(), [1, 1, 1, 0, 0]);
    const until = performance.now() + 5_000;
    while ((await taken(one, far)) !== 3 && performance.now() < until) await sleep(20);
    t.same(await Promise.all([near, far].map((check) => taken(one, check))), [3, 3]);
    t.same(await granted(), [0, 0, 0, 0, 0], 'never more than the threshold');
  },
);

t.test('what is held may be used while Redis is away, and nothing else', async (t) => {
  const one = await front(t);
  const check = limit(1_000_000, 60_000);
  await flow(one, check, 300);
  const before = await taken(one, check);
  one.redis.disconnect();
  let passed = 0;
  const error = await (async () => {
    for (;;) {
      try {
        await ask(one, check);
        passed++;
      } catch (refused) {
        return refused;
      }
    }
  })();
  t.ok(error instanceof ServiceError && error.code === 'unavailable' && error.recorded === false);
  const other = await front(t);
  t.equal(await taken(other, check), before, `${passed} passed, all of them counted before`);
});
