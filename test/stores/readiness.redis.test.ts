// Whether a call can succeed (`/readyz`), and the words for why not, with a real Redis in states in which it answers a
// ping and still refuses what a call needs.
import t, { type Test } from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import { connectCommands, type RedisAddress } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import { Accounts } from '../../src/registry/accounts/accounts.ts';
import { readiness } from '../../src/stores/readiness.ts';
import { actor, eventually } from '../registry/harness.ts';
import { startRedis } from '../support/redis.ts';

const keys = new Keys({ prefix: 'ready-', partitions: 4 });
/** A ClickHouse that is away throughout: the tests are about what Redis lacks. */
const clickhouse = new ClickHouse({ url: 'http://127.0.0.1:1', database: 'none', queryTimeoutSeconds: 1 });
t.teardown(() => clickhouse.close());

function ready(t: Test, address: RedisAddress) {
  const redis = connectCommands(address);
  t.teardown(() => redis.disconnect());
  const watch = { trouble: undefined, reason: '', degraded: undefined };
  const leaving = new AbortController().signal;
  const ask = async () =>
    (await readiness({ redis, keys, clickhouse, watch, leaving })).faults.find(({ path }) => path === 'redis')?.message;
  /** Connections come and go with what is done to Redis here. `undefined`: nothing is at fault. */
  const becomes = async (wanted: RegExp | undefined) => {
    let said: string | undefined;
    const isSaid = async () => {
      said = await ask();
      return wanted === undefined ? said === undefined : wanted.test(said ?? '');
    };
    await eventually(isSaid).catch(() => undefined);
    t.match(said, wanted, `${wanted}`);
  };
  return { redis, becomes };
}

t.test('every part takes a write, and there is an account', async (t) => {
  const { servers } = await startRedis(t, { single: true });
  const { redis, becomes } = ready(t, { url: `redis://127.0.0.1:${servers[0]!.port}`, cluster: false });
  await becomes(/^registry: there is no account: "gatehouse migrate"/);
  await new Accounts({ redis, keys }).create('first', actor);
  await becomes(undefined);
  for (const key of keys.probes()) t.ok(Number(await redis.pttl(key)) > 0, `${key} goes by itself`);

  await redis.config('SET', 'maxmemory', '1');
  await becomes(/^refusal: it has no memory left \(maxmemory\) \(OOM/);
  await redis.config('SET', 'maxmemory', '0');
  await becomes(undefined);

  await redis.replicaof('127.0.0.1', 1);
  await becomes(/^refusal: it is a replica, which takes no writes \(READONLY/);
  await redis.replicaof('NO', 'ONE');
  await becomes(undefined);
});

t.test('a Cluster is said to be one, and what is none is not taken for one', async (t) => {
  const { servers } = await startRedis(t, { single: true });
  await ready(t, { url: `redis://127.0.0.1:${servers[0]!.port}`, cluster: true }).becomes(
    /^refusal: it is no node of a Cluster, but GATEHOUSE_REDIS_CLUSTER is set/,
  );
  const args = ['--cluster-enabled', 'yes'];
  const nodes = await Promise.all([startRedis(t, { single: true, args }), startRedis(t, { single: true, args })]);
  const ports = nodes.map(({ servers }) => servers[0]!.port) as [number, number];
  const [one, other] = ports.map((port) => ready(t, { url: `redis://127.0.0.1:${port}`, cluster: false }));
  await one!.becomes(/^refusal: the Cluster is down, or a part of it has no master \(CLUSTERDOWN/);
  await one!.redis.call('CLUSTER', 'ADDSLOTSRANGE', '0', '8191');
  await other!.redis.call('CLUSTER', 'ADDSLOTSRANGE', '8192', '16383');
  await one!.redis.call('CLUSTER', 'MEET', '127.0.0.1', String(ports[1]));
  await one!.becomes(/^refusal: it is a node of a Cluster, but GATEHOUSE_REDIS_CLUSTER is not set \(MOVED/);
});
