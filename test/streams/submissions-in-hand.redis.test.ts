// Who makes something known by what is stored waits for what fronts have in hand, for that alone, and not for ever.
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { IN_HAND_SILENT_MS } from '../../src/common/limits.ts';
import { connectCommands } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import { redisTime } from '../../src/redis/time.ts';
import { SubmissionsInHand, untilAnswered } from '../../src/streams/submissions-in-hand.ts';
import { opened, startRedis, untilConnected } from '../support/redis.ts';

const server = await startRedis(t);
const redis = await opened(t, untilConnected(connectCommands(server.address)));
let prefixes = 0;
const storesOf = () => ({ redis, keys: new Keys({ prefix: `hand-${++prefixes}-`, partitions: 1 }) });

async function frontOf(t: Test, stores: ReturnType<typeof storesOf>): Promise<SubmissionsInHand> {
  const front = new SubmissionsInHand(stores);
  await front.start();
  t.teardown(() => front.stop());
  return front;
}

/** Whether it has ended, now. */
function following(waited: Promise<void>): () => boolean {
  let isDone = false;
  waited.then(
    () => {
      isDone = true;
    },
    () => undefined,
  );
  return () => isDone;
}

t.test('what was in hand is waited for, what comes meanwhile is not', async (t) => {
  const stores = storesOf();
  const fronts = [await frontOf(t, stores), await frontOf(t, stores)] as const;
  const first = fronts[1].begin();
  const isDone = following(untilAnswered(stores));
  await sleep(1_000);
  t.notOk(isDone());
  const later = fronts[1].begin();
  fronts[1].end(first);
  while (!isDone()) await sleep(10);
  fronts[1].end(later);
});

t.test('nothing is in hand where no front runs, or all have stopped', async (t) => {
  const stores = storesOf();
  await untilAnswered(stores);
  const front = new SubmissionsInHand(stores);
  await front.start();
  front.begin();
  await front.stop();
  await untilAnswered(stores);
  t.equal(await redis.hlen(stores.keys.submissionsInHand()), 0);
});

t.test('a submission of a front that has not heard of Redis yet began at no time that is known', async (t) => {
  const stores = storesOf();
  const front = new SubmissionsInHand(stores);
  const early = front.begin();
  await front.start();
  t.teardown(() => front.stop());
  const isDone = following(untilAnswered(stores, { waitMs: 200 }));
  await sleep(1_000);
  t.notOk(isDone());
  front.end(early);
  while (!isDone()) await sleep(10);
});

t.test('a front that says nothing is waited for until it can have nothing left', async (t) => {
  const stores = storesOf();
  const key = stores.keys.submissionsInHand();
  const nowMs = await redisTime(redis);
  await redis.hset(key, 'stopped', `${nowMs - 500} ${nowMs - 500}`);
  const stop = new AbortController();
  const isDone = following(untilAnswered(stores, { signal: stop.signal }));
  await sleep(500);
  t.notOk(isDone());
  await redis.hset(key, 'stopped', `${nowMs - 500} ${nowMs - IN_HAND_SILENT_MS}`);
  while (!isDone()) await sleep(10);
  t.equal(await redis.hlen(key), 0);
});

t.test('what took too long is not appended', async (t) => {
  const { now } = performance;
  t.teardown(() => Object.assign(performance, { now }));
  const front = new SubmissionsInHand(storesOf());
  const generation = front.begin();
  generation.refuseLate();
  Object.assign(performance, { now: () => now.call(performance) + 20_100 });
  t.throws(() => generation.refuseLate(), { code: 'unavailable', recorded: false });
});
