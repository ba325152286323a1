// Question: how long does a product wait for the verdict on an inference hook, of the size of a turn and of the
// largest?
// Method: one hook at a time, each of a conversation that is all new, of an account with five policies: 64 KB (one
// message), and 10 MB (ten). Latency is the caller's, the body's way over loopback and its signature's check included.
// Promise: p99 at most 50 and 500 ms, and every one is allowed.
import { HttpClient } from './http-client.ts';
import { hookOf, makeConnection, textsOf } from './neighbour-outside.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { startBenchService } from './service.ts';
import { setPolicies } from './setup.ts';
import { percentile, sorted } from './statistics.ts';
import { FIVE_POLICIES } from './workload.ts';

/** `share`: of the tries. */
const SIZES = [
  { name: '64 KB', messages: 1, bytes: 65_000, share: 1, p99MsMax: 50 },
  { name: '10 MB', messages: 10, bytes: 1_000_000, share: 0.2, p99MsMax: 500 },
];
const WARM = 5;

export async function hooks({ tries }: { tries: number }): Promise<boolean> {
  const machine = beginLine('hooks');
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1' });
  const client = new HttpClient({ ...service, connections: 1 });
  try {
    await setPolicies(service, FIVE_POLICIES);
    const connection = await makeConnection(client);
    const rows: Row[] = [];
    let turn = 0;
    for (const { name, messages, bytes, share, p99MsMax } of SIZES) {
      const latencies: number[] = [];
      let others = 0;
      for (let i = -WARM; i < Math.ceil(share * tries); i++) {
        const { method, path, body, headers } = hookOf(turn++, connection, textsOf(messages, bytes));
        const startMs = performance.now();
        const answer = await client.send(method, path, body, headers);
        if (i >= 0) latencies.push(performance.now() - startMs);
        if (answer.body !== '{"action":"allow"}') others++;
      }
      const all = sorted(latencies);
      const row = {
        hook: name,
        'p50 ms': percentile(all, 0.5),
        'p99 ms': percentile(all, 0.99),
        'p99 may be': p99MsMax,
      };
      rows.push({ ...row, 'longest ms': all.at(-1)!, 'not allowed': others });
      progress(`${name}: p50 ${row['p50 ms'].toFixed(1)}, p99 ${row['p99 ms'].toFixed(1)} ms`);
    }
    const question = 'how long does a product wait for the verdict on an inference hook?';
    hand({ line: 'hooks', question, command: `npm run bench -- hooks --tries ${tries}`, rows, charts: [] }, machine);
    return rows.every((row) => Number(row['p99 ms']) <= Number(row['p99 may be']) && row['not allowed'] === 0);
  } finally {
    client.close();
    await service.stop();
  }
}
