// One look at many keys, against a single Redis and a Cluster (GATEHOUSE_TEST_REDIS_CLUSTER=1): the same answers.
import t from 'tap';
import { connectCommands } from '../../src/redis/client.ts';
import { dueMembers, streamLengths } from '../../src/redis/many-keys.ts';
import { opened, startRedis, untilConnected } from '../support/redis.ts';

const { address } = await startRedis(t);
const redis = await opened(t, untilConnected(connectCommands(address)));
/** In slots of different masters. */
const names = Array.from({ length: 12 }, (_, i) => `{many-${i}}`);

t.test('lengths of streams, in the order of their names', async (t) => {
  const streams = names.map((name) => `${name}:stream`);
  for (let i = 0; i < streams.length; i++)
    for (let n = 0; n < i % 4; n++) await redis.xadd(streams[i]!, '*', 'n', String(n));
  t.same(
    await streamLengths(redis, streams),
    streams.map((_, i) => i % 4),
  );
  t.same(await streamLengths(redis, []), []);
});

t.test('what is due of each set, lowest first, behind what was read before', async (t) => {
  const sets = names.map((name) => `${name}:set`);
  for (const key of sets) for (let score = 1; score <= 5; score++) await redis.zadd(key, score, `m${score}`);
  const all = (members: string[]) => sets.map(() => members);
  t.same(await dueMembers(redis, sets, { now: 3, max: 10 }), all(['m1', 'm2', 'm3']));
  t.same(await dueMembers(redis, sets, { now: 0, max: 10 }), all([]));
  const from = sets.map((_, i) => i % 2);
  t.same(
    await dueMembers(redis, sets, { now: 4, max: 2, from }),
    sets.map((_, i) => (i % 2 === 0 ? ['m1', 'm2'] : ['m2', 'm3'])),
  );
});
