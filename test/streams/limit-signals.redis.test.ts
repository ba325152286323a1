// Keys that meet their request limit: one signal a minute and key, from however many fronts, and none lost on a hiccup.
import t from 'tap';
import { SIGNAL_FIELD, type Signal, type SignalEntry } from '../../schemas/signal.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { RequestLimiter } from '../../src/registry/accounts/request-limit.ts';
import { LimitSignals } from '../../src/streams/limit-signals.ts';
import { startRedis } from '../support/redis.ts';
import { connect, eventually, freshAgent, freshKeys } from './harness.ts';

const server = await startRedis(t);
const redis = await connect(t, server.address);
const MINUTE = 30_000_000;
const START = MINUTE * 60_000;

async function signalsOf(keys: Keys, client: Commands = redis): Promise<Signal[]> {
  const streams = Array.from({ length: keys.partitions }, (_, p) => client.xrange(keys.signals(p), '-', '+'));
  return (await Promise.all(streams))
    .flat()
    .flatMap(([, fields]) => (JSON.parse(fields[fields.indexOf(SIGNAL_FIELD) + 1]!) as SignalEntry).signals);
}

t.test('several fronts report a key once a minute', async (t) => {
  const keys = freshKeys();
  const { account } = freshAgent();
  let now = START;
  const fronts = [1, 2, 3].map(() => new LimitSignals({ redis, keys, now: () => now }));
  const meet = async () => {
    for (let i = 0; i < 100; i++) for (const front of fronts) front.note(account, 'key_a');
    await Promise.all(fronts.map((front) => front.flush()));
  };
  await meet();
  now += 59_999;
  await meet();
  t.match(await signalsOf(keys), [
    {
      id: `rate_limit_exceeded/key_a/${MINUTE}`,
      trigger: 'rate_limit_exceeded',
      account,
      agent: null,
      severity: 'medium',
      at: START,
      message: /key_a .* 429/,
      apiKey: { id: 'key_a' },
    },
  ]);
  t.equal((await signalsOf(keys)).length, 1);
  now += 1;
  await meet();
  fronts[0]!.note(account, 'key_b');
  await fronts[0]!.flush();
  t.same(
    (await signalsOf(keys)).map(({ id }) => id),
    [`key_a/${MINUTE}`, `key_a/${MINUTE + 1}`, `key_b/${MINUTE + 1}`].map((rest) => `rate_limit_exceeded/${rest}`),
  );
  const marker = keys.limitSignalled(keys.partitionOf(account, account), 'key_b', MINUTE + 1);
  const life = await redis.pttl(marker);
  t.ok(life > 0 && life <= 120_000, 'its marker goes by itself');
});

t.test('the limiter reports every refusal, and of nothing else', async (t) => {
  const refused: string[] = [];
  const limiter = new RequestLimiter({
    ...{ redis, keys: freshKeys(), limit: { perSecond: 1, burst: 2 } },
    onRefused: (account, key) => refused.push(`${account}/${key}`),
  });
  const caller = { account: 'acc_1', keyId: 'key_1', requestLimit: null };
  const verdicts = await Promise.all([1, 2, 3, 4].map(() => limiter.admit(caller)));
  t.equal(verdicts.filter((verdict) => verdict === true).length, 2);
  await limiter.admit(caller);
  t.same(refused, ['acc_1/key_1', 'acc_1/key_1', 'acc_1/key_1']);
});

t.test('a Redis that is away for a moment, or full, loses no signal', async (t) => {
  const own = await startRedis(t, { single: true });
  const client = await connect(t, own.address);
  const keys = freshKeys();
  const { account } = freshAgent();
  const signals = new LimitSignals({ redis: client, keys });
  t.teardown(() => signals.stop());
  own.servers[0]!.child.kill('SIGKILL');
  signals.note(account, 'key_a');
  signals.start();
  await signals.flush();
  await own.servers[0]!.restart();
  t.equal(await eventually(async () => (await signalsOf(keys, client).catch(() => [])).length), 1);
  await client.call('CONFIG', 'SET', 'maxmemory', '1');
  signals.note(account, 'key_b');
  await signals.flush();
  await client.call('CONFIG', 'SET', 'maxmemory', '0');
  t.equal((await signalsOf(keys, client)).length, 2);
});

t.test('what waits is bounded and does not wait for ever', async (t) => {
  const own = await startRedis(t, { single: true });
  const client = await connect(t, own.address);
  const keys = freshKeys();
  let now = START;
  const signals = new LimitSignals({ redis: client, keys, now: () => now });
  own.servers[0]!.child.kill('SIGKILL');
  await signals.flush();
  for (let i = 0; i < 25_000; i++) signals.note('acc_1', `key_${i}`);
  await signals.flush();
  now += 60_000;
  signals.note('acc_1', 'key_fresh');
  await signals.flush();
  await own.servers[0]!.restart();
  await eventually(() => client.ping().catch(() => false));
  await signals.flush();
  t.same(
    (await signalsOf(keys, client)).map(({ apiKey }) => apiKey!.id),
    ['key_fresh'],
    'what is older than a minute is no news',
  );
});

t.test('a check whose breaker opens is reported once a minute, by whichever front', async (t) => {
  const keys = freshKeys();
  const { account } = freshAgent();
  const fronts = [1, 2].map(() => new LimitSignals({ redis, keys, now: () => START }));
  const check = { id: 'chk_1', name: 'guard' };
  for (const front of fronts) {
    front.noteCheck(account, check);
    front.note(account, 'key_a');
    await front.flush();
  }
  const signals = await signalsOf(keys);
  t.equal(signals.length, 2);
  t.match(
    signals.find(({ trigger }) => trigger === 'check_failing'),
    { id: `check_failing/chk_1/${MINUTE}`, account, agent: null, severity: 'high', message: /"guard"/, check },
  );
});
