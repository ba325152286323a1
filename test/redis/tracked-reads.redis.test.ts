// Reads that Redis watches, on a Cluster whose slots move without a word to those who read: a master that is cut off
// from the others answers CLUSTERDOWN and redirects nowhere, while another has its slots.
import { Redis } from 'ioredis';
import t from 'tap';
import { TrackedReads } from '../../src/redis/tracked-reads.ts';
import { eventually } from '../registry/harness.ts';
import { startCluster } from '../support/redis.ts';

const CONNECT_MS = 60_000;

t.test('the slots of a master that is cut off are found at another one', async (t) => {
  const { address, servers } = await startCluster(t);
  const nodes = servers.map(({ port }) => new Redis(port, '127.0.0.1', { replyMapping: 'legacy' }));
  t.teardown(() => nodes.forEach((node) => void node.disconnect()));
  const [cut, heir, third] = nodes as [Redis, Redis, Redis];
  const ids = await Promise.all(nodes.map((node) => node.call('CLUSTER', 'MYID') as Promise<string>));
  const ranges = (await cut.call('CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
  const [from, to] = ranges.find(([, , [, port]]) => port === servers[0]!.port)!;
  const key = await keyIn(cut, from, to);
  await cut.set(key, 'before');

  let forgotten = 0;
  const reads = new TrackedReads(address, (changed) => {
    if (changed === null) forgotten++;
  });
  t.teardown(() => reads.close());
  t.equal(await reads.connect(CONNECT_MS), true);
  t.equal(await reads.get(key), 'before');

  for (const other of [heir, third]) await other.call('CLUSTER', 'FORGET', ids[0]!);
  await cut.call('CLUSTER', 'FORGET', ids[1]!);
  await cut.call('CLUSTER', 'FORGET', ids[2]!);
  await heir.call('CLUSTER', 'ADDSLOTSRANGE', String(from), String(to));
  await heir.call('CLUSTER', 'BUMPEPOCH');
  await eventually(async () => {
    const info = await Promise.all([heir, third].map((node) => node.call('CLUSTER', 'INFO') as Promise<string>));
    return info.every((text) => text.includes('cluster_state:ok'));
  });
  await heir.set(key, 'after');
  await t.rejects(cut.get(key), /CLUSTERDOWN/, 'the one that is cut off does not redirect');

  const before = forgotten;
  await eventually(async () => (await reads.get(key).catch(() => null)) === 'after');
  t.ok(forgotten > before, 'what was read before is dropped');
  await heir.set(key, 'later');
  await eventually(async () => (await reads.get(key)) === 'later');
});

async function keyIn(node: Redis, from: number, to: number): Promise<string> {
  for (let n = 0; ; n++) {
    const slot = Number(await node.call('CLUSTER', 'KEYSLOT', `key-${n}`));
    if (slot >= from && slot <= to) return `key-${n}`;
  }
}
