// Question: does a rate limit of 500 per second let more than 500 events pass in any one second, over several
// processes? Method: four fronts on one port, four client processes that send small batches as fast as they are
// answered, across many window borders. Of the events that passed, the largest number inside any half-open second is
// counted by `received_at`.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { whenEnded } from './ending.ts';
import { HttpClient } from './http-client.ts';
import { startBenchService } from './service.ts';

const THRESHOLD = 500;
const WINDOW_MS = 1_000;
const HAMMERS = 4;
const EVENTS_A_BATCH = 20;
const CONNECTIONS_A_HAMMER = 4;

export async function rateLimit(options: { seconds: number }): Promise<boolean> {
  const service = await startBenchService({ GATEHOUSE_FRONTS: '4' });
  const client = new HttpClient({ ...service, connections: 2 });
  try {
    const agent = (await client.json<{ id: string }>('POST', '/v1/agents', { name: 'rate-limit' })).id;
    await client.json('POST', '/v1/policies', {
      name: 'five hundred a second',
      type: 'rate_limit',
      conditions: { threshold: THRESHOLD, window: '1s' },
      actions: ['block'],
    });
    const runs = Array.from({ length: HAMMERS }, () =>
      hammer({ url: service.url, key: service.key, agent, seconds: options.seconds }),
    );
    const passed = (await Promise.all(runs)).flat().sort((a, b) => a - b);
    const { most, fewest } = extremes(passed);
    process.stdout.write(
      `${JSON.stringify({ line: 'rate-limit', threshold: THRESHOLD, seconds: options.seconds, passed: passed.length, mostInOneSecond: most, perSecond: Math.round(passed.length / options.seconds), fewestInOneSecond: fewest })}\n`,
    );
    return most <= THRESHOLD && passed.length > 0;
  } finally {
    client.close();
    await service.stop();
  }
}

/** Over all windows that begin with an event; `fewest` leaves out the run's ends. */
function extremes(times: number[]): { most: number; fewest: number } {
  let [most, fewest] = [0, Number.POSITIVE_INFINITY];
  for (let from = 0, to = 0; from < times.length; from++) {
    while (to < times.length && times[to]! < times[from]! + WINDOW_MS) to++;
    most = Math.max(most, to - from);
    if (times[from]! + WINDOW_MS < times.at(-1)!) fewest = Math.min(fewest, to - from);
  }
  return { most, fewest };
}

type Order = { url: string; key: string; agent: string; seconds: number };

/** Runs one client process; answers the `received_at` of what passed, epoch ms. */
async function hammer(order: Order): Promise<number[]> {
  const child = fork(fileURLToPath(import.meta.url), [AS_HAMMER]);
  child.once(
    'exit',
    whenEnded(() => child.kill('SIGKILL')),
  );
  child.send(order);
  const [times] = (await once(child, 'message')) as [number[]];
  child.disconnect();
  return times;
}

const AS_HAMMER = '--as-hammer';

async function runHammer({ url, key, agent, seconds }: Order): Promise<void> {
  const client = new HttpClient({ url, key, connections: CONNECTIONS_A_HAMMER });
  const body = JSON.stringify(Array.from({ length: EVENTS_A_BATCH }, (_, i) => ({ type: 'custom', payload: { i } })));
  const until = Date.now() + seconds * 1000;
  const times: number[] = [];
  const loop = async () => {
    while (Date.now() < until) {
      const { results } = await client.json<{ results: { received_at: string; policy_result: { outcome: string } }[] }>(
        'POST',
        `/v1/agents/${agent}/events/batch`,
        { events: JSON.parse(body) },
      );
      for (const event of results)
        if (event.policy_result.outcome === 'allowed') times.push(Date.parse(event.received_at));
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS_A_HAMMER }, loop));
  client.close();
  process.send!(times);
}

if (process.argv[2] === AS_HAMMER) process.once('message', (order) => void runHammer(order as Order));
