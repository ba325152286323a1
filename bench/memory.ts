// Question: how much memory does a front take under full load, and does it grow?
// Method: one front with everything running, batches of 100 (500 bytes, five policies, 64 agents) in a closed loop of
// 32 connections for ten minutes; resident memory of every process from /proc every 5 s. More is taken in than can be
// stored, so the backlog reaches its bound (512 MiB of Redis memory here) within the first minute, and from then on
// what is too much is refused: the front continues at full load, taking in and refusing in turn. Growth is the slope
// over the second half, by least squares; the first half is for caches and pools to find their size. `--seconds` sets
// the length; runs of less than ten minutes say little of growth. Promised: at most FRONT_MB_MAX.
import { readGauges, sumOf, whenDrained } from './gauges.ts';
import { post } from './load.ts';
import { MB, type Memory, memoryChart, watchMemory } from './memory-watch.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { type BenchService, startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import { slope } from './statistics.ts';
import { BATCH_EVENTS, FIVE_POLICIES, requestsOf, sendersOf } from './workload.ts';

const FRONT_MB_MAX = 300;
const AGENTS = 64;
const CONNECTIONS = 32;
const BACKLOG_BYTES = 512 * MB;
const EVERY_SECONDS = 5;
/** Between two lines of progress, in readings. */
const READINGS_SHOWN = 12;

export async function memory(options: { seconds: number }): Promise<boolean> {
  const machine = beginLine('memory');
  const env = { GATEHOUSE_FRONTS: '1', GATEHOUSE_BACKLOG_BYTES_MAX: String(BACKLOG_BYTES) };
  const service = await startBenchService(env);
  try {
    const agents = await makeAgents(service, AGENTS);
    await setPolicies(service, FIVE_POLICIES);
    const before = await countsOf(service);
    const readings = await loaded(service, agents, options.seconds);
    const after = await countsOf(service);
    await whenDrained(service);
    const row = rowOf(readings, options.seconds);
    row['events/s taken in'] = (after.accepted - before.accepted) / options.seconds;
    row['requests refused a second'] = (after.refused - before.refused) / options.seconds;
    hand(
      {
        line: 'memory',
        question: 'how much memory does a front take under full load, and does it grow?',
        command: `npm run bench -- memory --seconds ${options.seconds}`,
        rows: [row],
        charts: [memoryChart(readings, 'Memory under full load')],
      },
      machine,
    );
    return readings.every(({ front }) => front <= FRONT_MB_MAX * MB);
  } finally {
    await service.stop();
  }
}

async function loaded(service: BenchService, agents: readonly string[], seconds: number): Promise<Memory[]> {
  const stop = new AbortController();
  let told = 0;
  const onReading = ({ second, front, redis }: Memory) => {
    if (told++ % READINGS_SHOWN !== 0) return;
    progress(
      `${Math.round(second)} of ${seconds} s: front ${Math.round(front / MB)} MB, Redis ${Math.round(redis / MB)} MB`,
    );
  };
  const watched = watchMemory(service, stop.signal, { everySeconds: EVERY_SECONDS, onReading });
  const load = requestsOf(sendersOf(agents, service.key), { events: BATCH_EVENTS, connections: CONNECTIONS });
  await post({ url: service.url, ...load, seconds });
  stop.abort();
  return watched;
}

async function countsOf(service: BenchService): Promise<{ accepted: number; refused: number }> {
  const text = await (await fetch(`${service.url}/metrics`)).text();
  return { accepted: (await readGauges(service)).accepted, refused: sumOf(text, 'gatehouse_shed_requests_total') };
}

function rowOf(readings: readonly Memory[], seconds: number): Row {
  const half = readings.filter(({ second }) => second >= seconds / 2);
  const most = (part: 'front' | 'redis' | 'pipelines') => Math.max(...readings.map((at) => at[part])) / MB;
  const growth = (part: 'front' | 'pipelines') => slope(half.map((at) => [at.second / 60, at[part] / MB]));
  return {
    minutes: seconds / 60,
    'front, most MB': most('front'),
    'front, MB a minute': growth('front'),
    'redis, most MB': most('redis'),
    'pipelines, most MB': most('pipelines'),
    'pipelines, MB a minute': growth('pipelines'),
  };
}
