// Question: is an event answered in time, whatever the service does that its check asks?
// Method: one event at a time, of an account with one policy that asks a check; a row for each way in which a service
// behaves badly, and one for events that ask none. A check is asked EVENTS times, fewer than open its breaker, then
// another one takes its place: what a breaker answers at once says nothing here. Latency is the caller's.
// Promise: p99 at most 20 ms over the check's timeout, and each event is blocked, as the policy says for a failure.
import { BAD_JUDGES } from '../test/support/judge-servers.ts';
import { HttpClient } from './http-client.ts';
import { startBadJudges } from './neighbour-outside.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import { percentile, sorted } from './statistics.ts';
import type { PolicyOrder } from './workload.ts';

const TIMEOUT_MS = 200;
const OVER_MS_MAX = 20;
const EVENTS = 18;
const NO_CHECK = 'no check';

export async function checks({ tries }: { tries: number }): Promise<boolean> {
  const machine = beginLine('checks');
  const judges = await startBadJudges();
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1', ...judges.env });
  const client = new HttpClient({ ...service, connections: 1 });
  try {
    const [agent] = (await makeAgents(service, 1)) as [string];
    const rows: Row[] = [];
    for (const behaves of [NO_CHECK, ...Object.keys(BAD_JUDGES)]) {
      const latencies: number[] = [];
      let others = 0;
      for (let i = 0; i < Math.ceil(tries / EVENTS); i++) {
        const asked =
          behaves === NO_CHECK ? [] : [await askingOf(client, `${behaves}-${i}`, `${judges.url}/${behaves}`)];
        await setPolicies(service, asked);
        for (let n = 0; n <= EVENTS; n++) {
          const startMs = performance.now();
          const { body } = await client.send('POST', `/v1/agents/${agent}/events`, EVENT);
          // The first one also meets what is made for a new policy.
          if (n > 0) latencies.push(performance.now() - startMs);
          if (body.includes('"outcome":"blocked"') !== asked.length > 0) others++;
        }
      }
      const all = sorted(latencies);
      const row = { 'the service': behaves, 'p50 ms': percentile(all, 0.5), 'p99 ms': percentile(all, 0.99) };
      rows.push({ ...row, 'longest ms': all.at(-1)!, 'not as the policy says': others });
      progress(`${behaves}: p99 ${row['p99 ms']} ms`);
    }
    const question = 'is an event answered in time, whatever the service does that its check asks?';
    hand({ line: 'checks', question, command: `npm run bench -- checks --tries ${tries}`, rows, charts: [] }, machine);
    return rows.every(
      (row) => Number(row['p99 ms']) <= TIMEOUT_MS + OVER_MS_MAX && row['not as the policy says'] === 0,
    );
  } finally {
    client.close();
    await service.stop();
    await judges.stop();
  }
}

const EVENT = JSON.stringify({ type: 'prompt', payload: { text: 'hello' } });

async function askingOf(client: HttpClient, name: string, url: string): Promise<PolicyOrder> {
  await client.json('POST', '/v1/checks', { name, speaks: 'gatehouse', url, timeout_ms: TIMEOUT_MS });
  const conditions = { check: name, on_timeout: 'match', on_error: 'match', on_overload: 'match' };
  return { name, type: 'external_check', conditions, actions: ['block'] };
}
