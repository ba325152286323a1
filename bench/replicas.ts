// Question: what does it cost to acknowledge an event only when a replica of Redis has it?
// Method: one Redis Cluster of three masters with a replica each, all on this machine; two services on it, one with the
// default (a WAIT for one replica a group) and one with GATEHOUSE_REDIS_REPLICAS=0, each with a key prefix and a
// ClickHouse of its own. Both take turns in one run, single events over 64 connections and batches of 100 over 32, with
// five policies; medians over the turns. Six processes of Redis share two cores with everything else: the ratio is what
// counts, and it is the dear case, since a replica's work is done by the same cores.
import type { Test } from 'tap';
import { startCluster } from '../test/support/redis.ts';
import { gatehouse } from './contenders.ts';
import { entrant } from './ingest.ts';
import { beginLine, hand } from './report.ts';
import { runRounds, turnCells } from './rounds.ts';
import { type BenchService, startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import { FIVE_POLICIES, KINDS, requestsOf } from './workload.ts';

const WAYS = [
  { name: 'a replica has it', replicas: undefined },
  { name: 'the master has it', replicas: '0' },
];

export async function replicas(options: { turns: number; seconds: number }): Promise<boolean> {
  const machine = beginLine('replicas');
  const teardowns: (() => unknown)[] = [];
  const owner = { teardown: (end: () => unknown) => void teardowns.push(end) } as unknown as Test;
  const services: BenchService[] = [];
  try {
    const { address } = await startCluster(owner, { replicas: 1, args: ['--appendfsync', 'everysec'] });
    const entrants = [];
    for (const [i, { name, replicas }] of WAYS.entries()) {
      const service = await startBenchService({
        GATEHOUSE_REDIS_URL: address.url,
        GATEHOUSE_REDIS_CLUSTER: 'true',
        GATEHOUSE_REDIS_PREFIX: `way-${i}-`,
        GATEHOUSE_REDIS_REPLICAS: replicas,
      });
      services.push(service);
      const agents = await makeAgents(service, 8);
      await setPolicies(service, FIVE_POLICIES);
      const senders = agents.map((agent) => ({ agent, key: service.key }));
      for (const kind of KINDS)
        entrants.push(entrant({ ...gatehouse(service), name }, kind.kind, requestsOf(senders, kind)));
    }
    const results = await runRounds(entrants, { ...options, services });
    const speed = (kind: string, name: string) => results.get(`${kind}: ${name}`)!.eventsPerSecond;
    const rows = KINDS.flatMap(({ kind }) =>
      WAYS.map(({ name }) => ({
        '': `${kind}: ${name}`,
        ...turnCells(results.get(`${kind}: ${name}`)!, {
          'to the master alone': speed(kind, name) / speed(kind, 'the master has it'),
        }),
      })),
    );
    const question = 'what does it cost to acknowledge an event only when a replica of Redis has it?';
    const command = `npm run bench -- replicas --turns ${options.turns} --seconds ${options.seconds}`;
    hand({ line: 'replicas', question, command, rows }, machine);
    return true;
  } finally {
    for (const service of services) await service.stop();
    for (const end of teardowns.toReversed()) await end();
  }
}
