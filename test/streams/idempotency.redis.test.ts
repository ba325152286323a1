// What is kept under Idempotency-Keys of events: its bound, whose records go, and that a key belongs to one request of
// an account. Needs redis-server.
import t from 'tap';
import { ServiceError } from '../../src/common/errors.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { answerOnce } from '../../src/registry/idempotency.ts';
import { AppendOnce } from '../../src/streams/append-once.ts';
import { Backlog } from '../../src/streams/backlog.ts';
import { startRedis } from '../support/redis.ts';
import { appendOf, connect, freshAgent, freshKeys, makeEvent } from './harness.ts';

const server = await startRedis(t, { single: true });
const OUTCOME = JSON.stringify(['evt_01jd5x0f6w3q8z5n7r2k9v4t1m mi3k2v9q mi3k2v9q']);

type Who = { account: string; agent: string };

/** Begins and appends; `again`: its outcome was kept. */
async function send(
  once: AppendOnce,
  keys: Keys,
  { account, agent }: Who,
  key: string,
  fingerprint = 'f',
): Promise<'new' | 'again'> {
  const partition = keys.partitionOf(account, agent);
  const at = { partition, account, key };
  const begun = await once.begin({ ...at, fingerprint });
  if (begun.state === 'replay') return 'again';
  const { summaries, rows } = appendOf({ account, agent }, [makeEvent({ account, agent })]);
  await once.append({ ...at, token: begun.token, agent, summaries, rows, outcome: OUTCOME });
  return 'new';
}

async function code(promise: Promise<unknown>): Promise<string | undefined> {
  return promise.then(
    () => undefined,
    (error: unknown) => (error instanceof ServiceError ? error.code : String(error)),
  );
}

async function sums(redis: Commands, keys: Keys): Promise<Record<string, number>> {
  const all = await redis.hgetall(keys.idempotencyBytes(0));
  return Object.fromEntries(Object.entries(all).map(([account, bytes]) => [account, Number(bytes)]));
}

t.test('past the bound an account with more than an even share loses its oldest, and no other', async (t) => {
  const redis = await connect(t, server.address);
  const keys = freshKeys(1);
  let evicted = 0;
  const bytesMax = 200 * 1024;
  const once = new AppendOnce({ redis, keys, bytesMax: () => bytesMax, onEvicted: (records) => (evicted += records) });
  const [much, little] = [freshAgent(), freshAgent()];
  for (let i = 0; i < 20; i++) await send(once, keys, little, `l${i}`);
  for (let i = 0; i < 1_500; i += 50)
    await Promise.all(Array.from({ length: 50 }, (_, j) => send(once, keys, much, `m${i + j}`)));
  t.ok(evicted > 500, `${evicted} were let go`);
  const { '': all, [much.account]: most, [little.account]: few } = await sums(redis, keys);
  t.equal(all, most! + few!);
  t.ok(all! <= bytesMax + 1024, `${all} bytes`);
  for (let i = 0; i < 20; i++) t.equal(await send(once, keys, little, `l${i}`), 'again');
  t.equal(await send(once, keys, much, 'm1499'), 'again', 'the newest is there');
  t.equal(await send(once, keys, much, 'm0'), 'new', 'the oldest is not');
  t.equal(
    await redis.llen(keys.idempotencyOrder(0, much.account)),
    (await redis.keys(`*idem:${much.account}:*`)).length,
  );
});

t.test('what is reckoned is what Redis uses, and no backlog', async (t) => {
  const redis = await connect(t, server.address);
  const keys = freshKeys(1);
  const once = new AppendOnce({ redis, keys, bytesMax: () => 1024 ** 3 });
  const who = freshAgent();
  await redis.flushall();
  await send(once, keys, who, 'first');
  const used = async () => Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))![1]);
  const before = await used();
  for (let i = 0; i < 20_000; i += 200) {
    await Promise.all(Array.from({ length: 200 }, (_, j) => send(once, keys, who, `k${i + j}`)));
    await redis.xtrim(keys.events(0), 'MAXLEN', 0);
  }
  const grown = (await used()) - before;
  const reckoned = (await sums(redis, keys))['']!;
  t.comment(`${Math.round(grown / 20_000)} bytes a record, reckoned ${Math.round(reckoned / 20_000)}`);
  t.ok(Math.abs(grown - reckoned) < grown / 4, `${reckoned} reckoned, ${grown} used`);
  const options = { redis, keys, entriesMax: 1_000_000, bytesMax: before + 1024 ** 2 };
  const backlog = new Backlog({ ...options, idempotencyBytesMax: 1024 ** 3 });
  await backlog.start();
  t.equal(backlog.full(), false, 'a Redis full of kept answers takes events');
  t.equal(backlog.state().idempotencyBytes, reckoned);
  await backlog.stop();
  const strict = new Backlog({ ...options, idempotencyBytesMax: 1024 });
  await strict.start();
  t.equal(strict.full(), true, 'but for what is over their bound');
  await strict.stop();
});

t.test('what has expired leaves the sums', async (t) => {
  const redis = await connect(t, server.address);
  const keys = freshKeys(1);
  const once = new AppendOnce({ redis, keys, bytesMax: () => 1024 ** 3 });
  const [one, other] = [freshAgent(), freshAgent()];
  for (let i = 0; i < 300; i++) await send(once, keys, one, `k${i}`);
  await send(once, keys, other, 'k');
  const list = keys.idempotencyOrder(0, one.account);
  const kept = await redis.lrange(list, 0, -1);
  for (const [i, text] of kept.entries()) if (i < 299) await redis.lset(list, i, text.replace(/^\d+/, '1000'));
  await once.sweep();
  const { '': all, [one.account]: own, [other.account]: its } = await sums(redis, keys);
  t.equal(own, Number(kept[299]!.split('/')[1]));
  t.equal(all, own! + its!);
  await redis.del(list);
  await once.sweep();
  t.same(await sums(redis, keys), { '': its, [other.account]: its });
});

t.test('a key belongs to one request of an account, whatever agent, path or resource it is of', async (t) => {
  const redis = await connect(t, server.address);
  const keys = freshKeys(8);
  const once = new AppendOnce({ redis, keys, bytesMax: () => 1024 ** 3 });
  const first = freshAgent();
  const elsewhere = Array.from({ length: 40 }, () => ({ ...freshAgent(), account: first.account }));
  t.equal(await send(once, keys, first, 'order 1', 'first'), 'new');
  t.ok(new Set(elsewhere.map(({ account, agent }) => keys.partitionOf(account, agent))).size > 4);
  for (const [i, who] of elsewhere.entries()) {
    t.equal(await code(send(once, keys, who, 'order 1', `other-${i}`)), 'idempotency_conflict');
    t.equal(await send(once, keys, who, `own ${i}`), 'new', 'and a key of its own is its own');
  }
  t.equal(await send(once, keys, first, 'order 1', 'first'), 'again', 'the first is still known');
  t.equal(await send(once, keys, freshAgent(), 'order 1'), 'new', 'another account has keys of its own');

  const store = { redis, keys };
  const made = (key: string) =>
    answerOnce(
      store,
      { account: first.account, kind: 'policy', idempotency: { key, bodySha256: 'b' } },
      async ({ writes }) => {
        for (const [command, ...args] of writes('{}')) await redis.call(String(command), ...args);
        return '{}';
      },
    );
  t.equal(await code(made('order 1')), 'idempotency_conflict');
  t.match(await made('policy 1'), { replayed: false });
  t.match(await made('policy 1'), { replayed: true });
  t.equal(await code(send(once, keys, first, 'policy 1')), 'idempotency_conflict');

  const both = await Promise.all(
    elsewhere.slice(0, 8).map((who, i) => code(send(once, keys, who, 'at once', `o${i}`))),
  );
  t.ok(both.filter((one) => one === undefined).length <= 1, 'of several that begin at once one at most is recorded');
});
