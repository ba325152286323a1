// Redis Sentinel: the form of its addresses, and clients that follow a promotion by three real Sentinels, signed in as
// a user with the documented rights. Whole failovers under load are in test/cluster.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import t from 'tap';
import { sentinelAddressOf } from '../../src/common/sentinel-address.ts';
import { readConfig, secretsIn } from '../../src/process/config.ts';
import { acknowledging, connectCommands } from '../../src/redis/client.ts';
import { TrackedReads } from '../../src/redis/tracked-reads.ts';
import { shownAddress } from '../../src/stores/faults.ts';
import { eventually } from '../streams/harness.ts';
import { opened, restricted, startSentinels } from '../support/redis.ts';

const KEY = '{gh-g}:a';
const OTHER_KEY = '{gh-g}:b';

t.test('an address names Sentinels, the master, and how to sign in to Redis', (t) => {
  const url = 'redis+sentinel://me:p%40ss@one:1,two,[::1]:3/main/2';
  t.same(sentinelAddressOf(url), {
    hosts: [
      { host: 'one', port: 1 },
      { host: 'two', port: 26_379 },
      { host: '::1', port: 3 },
    ],
    ...{ name: 'main', username: 'me', password: 'p@ss', database: 2 },
  });
  t.equal(shownAddress(url), 'redis+sentinel://one:1,two:26379,::1:3/main');
  const config = readConfig({ GATEHOUSE_REDIS_URL: url });
  t.ok(secretsIn(config).includes('p@ss'));
  const refused = (value: string, more: object = {}) =>
    t.throws(() => readConfig({ GATEHOUSE_REDIS_URL: value, ...more }), /^GATEHOUSE_REDIS_URL: its value /, value);
  refused('redis+sentinel://one:1');
  refused('redis+sentinel://one:1/');
  refused('redis+sentinel:///main');
  refused('redis+sentinel://me:p@ss@one:1/main');
  refused('redis+sentinel://me:p%zz@one:1/main');
  refused('rediss+sentinel://one:1/main');
  t.throws(() => readConfig({ GATEHOUSE_REDIS_URL: url, GATEHOUSE_REDIS_CLUSTER: 'true' }), /names Sentinels/);
  t.end();
});

t.test('commands and tracked reads follow a promotion, and what is acknowledged is on the replica', async (t) => {
  const redis = await startSentinels(t);
  const { servers } = redis;
  const address = await restricted(t, redis);
  const [master, replica] = servers;
  const commands = await opened(t, connectCommands(address));
  let invalidated = 0;
  const reads = new TrackedReads(address, (key) => {
    if (key === null) invalidated++;
  });
  t.teardown(() => reads.close());
  t.ok(await reads.connect(10_000));
  await acknowledging(commands).set(KEY, '1');
  t.equal(await reads.get(KEY), '1');

  replica!.child.kill('SIGSTOP');
  await t.rejects(acknowledging(commands).set(KEY, '2'), { name: 'NotReplicated' });
  replica!.child.kill('SIGCONT');
  await acknowledging(commands).set(KEY, '3');

  const before = invalidated;
  master!.child.kill('SIGKILL');
  const isSet = () =>
    acknowledging(commands)
      .set(OTHER_KEY, '4')
      .then(Boolean, () => false);
  t.ok(await eventually(isSet, 20_000), 'the one that was promoted has no replica, and takes writes');
  t.ok(
    await eventually(
      () =>
        reads.get(KEY).then(
          (value) => value === '3',
          () => false,
        ),
      20_000,
    ),
  );
  t.equal(await reads.get(OTHER_KEY), '4');
  t.ok(invalidated > before, 'nothing is kept that may have changed meanwhile');
});

t.test('a client that is cut off while it asks the Sentinels comes back', async (t) => {
  const redis = await startSentinels(t);
  const client = await opened(t, connectCommands(await restricted(t, redis)) as Redis);
  const ends: string[] = [];
  client.on('end', () => ends.push(client.status));
  // As ioredis does when Sentinels say that another master was chosen: it may be asking them at that moment.
  for (let round = 0; round < 20 && ends.length === 0; round++) {
    client.disconnect(true);
    await once(client, 'connecting');
    client.disconnect(true);
    await eventually(async () => client.status === 'ready' || ends.length > 0, 5_000);
  }
  t.ok(ends.length > 0, 'ioredis has taken it for the end');
  t.ok(await eventually(() => client.set(KEY, '1').then(Boolean, () => false), 5_000));
  client.disconnect();
  await once(client, 'end');
  await sleep(500);
  t.equal(client.status, 'end', 'one that is closed stays closed');
});
