// Question: what becomes of the service when three times as much comes as it can take: what gets through, how are the
// others refused, does memory stay bounded, and how soon is all well again?
// Method: batches of 100 (500 bytes, five policies, 64 agents), and everything from one generator (open-loop-child.ts).
// First the maximum: a closed loop of 64 connections for 10 s, then a wait until all is stored; events answered by the
// whole time. So the maximum is one of the whole path, HTTP to rows, with both processors busy all the time. Then one
// open loop of three phases: half of the maximum, three times of it for a minute, half of it again. The backlog's bound
// is set to 256 MiB of Redis memory, so that it, too, is met within the minute.
// The callers are of the worst kind: a thousand connections, and none follows Retry-After: refused or not, the next
// request is due when it is due. Latency counts from then. Who finds all connections busy waits, and that counts; after
// 10 s such a caller goes away, and is counted. Goodput: events answered with 2xx a second within the overload.
// Recovered: the first second after it from which on, for three seconds, no request is refused and p99 is within twice
// what it was before. The generator takes its processor time from the service's two cores; its share is printed.
import { whenDrained } from './gauges.ts';
import { MB, type Memory, memoryChart, watchMemory } from './memory-watch.ts';
import { type Samples, summarize } from './open-loop.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import { slope } from './statistics.ts';
import { loadOf, type Target } from './sustained.ts';
import { BATCH_EVENTS, FIVE_POLICIES } from './workload.ts';

const AGENTS = 64;
const TIMES = 3;
const BACKLOG_BYTES = 256 * MB;
/**
 * Many callers: with few the queue would form in the generator, and the service would never be asked for more than it
 * can.
 */
const CONNECTIONS = 1_000;
const GIVE_UP_MS = 10_000;
const BEFORE_SECONDS = 10;
const AFTER_SECONDS = 30;
const WELL_SECONDS = 3;
/** The closed loop: requests are always due, and those that find no connection at once are not missed. */
const CLOSED = { connections: 64, requestsPerSecond: 5_000, giveUpMs: 1, seconds: 10 };
const WARM_SECONDS = 3;

export async function overload(options: { seconds: number }): Promise<boolean> {
  const machine = beginLine('overload');
  const env = { GATEHOUSE_FRONTS: '1', GATEHOUSE_BACKLOG_BYTES_MAX: String(BACKLOG_BYTES) };
  const service = await startBenchService(env);
  try {
    const agents = await makeAgents(service, AGENTS);
    await setPolicies(service, FIVE_POLICIES);
    const target: Target = { service, agents, eventsPerRequest: BATCH_EVENTS };
    const most = await maximum(target);
    const phases = [
      { requestsPerSecond: (most * 0.5) / BATCH_EVENTS, seconds: BEFORE_SECONDS },
      { requestsPerSecond: (most * TIMES) / BATCH_EVENTS, seconds: options.seconds },
      { requestsPerSecond: (most * 0.5) / BATCH_EVENTS, seconds: AFTER_SECONDS },
    ];
    const stop = new AbortController();
    const watched = watchMemory(service, stop.signal);
    const samples = await loadOf(target, phases, { connections: CONNECTIONS, giveUpMs: GIVE_UP_MS });
    stop.abort();
    const memory = await watched;
    const generator = samples.cpuSeconds / phases.reduce((sum, { seconds }) => sum + seconds, 0);
    const drainedMs = await whenDrained(service);
    const row = rowOf(samples, memory, most, options.seconds);
    hand(
      {
        line: 'overload',
        question: 'what does the service do under three times of what it can take?',
        command: `npm run bench -- overload --seconds ${options.seconds}`,
        rows: [row],
        charts: [memoryChart(memory, 'Memory in and after overload'), goodputChart(samples)],
        notes: [
          `The generator took ${(generator * 100).toFixed(0)} % of a core. The backlog had drained ${(drainedMs / 1000).toFixed(1)} s after the last request.`,
        ],
      },
      machine,
    );
    return true;
  } finally {
    await service.stop();
  }
}

/** Events a second, HTTP to rows, with work always at hand. */
async function maximum(target: Target): Promise<number> {
  const { seconds, requestsPerSecond, ...how } = CLOSED;
  await loadOf(target, [{ requestsPerSecond, seconds: WARM_SECONDS }], how);
  await whenDrained(target.service);
  const started = performance.now();
  const { answered, refused } = summarize(await loadOf(target, [{ requestsPerSecond, seconds }], how));
  const answeredMs = performance.now() - started;
  await whenDrained(target.service);
  const most = (answered * BATCH_EVENTS * 1000) / (performance.now() - started);
  progress(
    `closed loop: ${Math.round((answered * BATCH_EVENTS * 1000) / answeredMs)} events/s taken in, ${refused} requests refused; ${Math.round(most)} events/s until all was stored`,
  );
  return most;
}

function rowOf(samples: Samples, memory: readonly Memory[], most: number, seconds: number): Row {
  const from = BEFORE_SECONDS * 1000;
  const until = from + seconds * 1000;
  const before = summarize(samples, 2_000, from);
  const during = summarize(samples, from, until);
  const goodput = (answeredWithin(samples, from, until) * BATCH_EVENTS) / seconds;
  // Once the backlog has met its bound; what grew before was room that is there to be used.
  const settled = memory.filter(({ second }) => second > BEFORE_SECONDS + seconds / 3 && second <= until / 1000);
  const growth = (part: 'front' | 'redis') => slope(settled.map((at) => [at.second / 60, at[part] / MB]));
  const largest = (part: 'front' | 'redis') => Math.max(...settled.map((at) => at[part])) / MB;
  return {
    'maximum, events/s': most,
    'offered, events/s': most * TIMES,
    'goodput, events/s': goodput,
    'goodput to maximum': goodput / most,
    'before: p99 ms': before.p99Ms,
    'goodput p50 ms': during.p50Ms,
    'goodput p99 ms': during.p99Ms,
    'refused requests': during.refused,
    'refusal p50 ms': during.refusedP50Ms,
    'refusal p99 ms': during.refusedP99Ms,
    failed: during.failed,
    'gave up': during.unsent,
    'front, most MB': largest('front'),
    'front, MB a minute': growth('front'),
    'redis, most MB': largest('redis'),
    'redis, MB a minute': growth('redis'),
    'recovered after, s': recoveredAfter(samples, until, before.p99Ms) ?? 'not within the run',
  };
}

/** By the time of the answer: what came in the minute and was answered after it did not get through in it. */
function answeredWithin({ dueMs, latencyMs, status }: Samples, fromMs: number, untilMs: number): number {
  let answered = 0;
  for (let i = 0; i < dueMs.length; i++) {
    const at = dueMs[i]! + latencyMs[i]!;
    if (status[i]! >= 200 && status[i]! < 300 && at >= fromMs && at < untilMs) answered++;
  }
  return answered;
}

/** Seconds from the end of the overload. */
export function recoveredAfter(samples: Samples, endMs: number, p99BeforeMs: number): number | undefined {
  const isWell = (second: number) => {
    const from = endMs + second * 1000;
    const { answered, refused, failed, p99Ms } = summarize(samples, from, from + 1_000);
    return answered > 0 && refused + failed === 0 && p99Ms <= 2 * p99BeforeMs;
  };
  for (let second = 0; second + WELL_SECONDS <= AFTER_SECONDS; second++) {
    if (Array.from({ length: WELL_SECONDS }, (_, i) => second + i).every(isWell)) return second;
  }
  return undefined;
}

function goodputChart(samples: Samples) {
  const [good, refused]: [Map<number, number>, Map<number, number>] = [new Map(), new Map()];
  for (const [i, dueMs] of samples.dueMs.entries()) {
    const into = samples.status[i]! >= 200 && samples.status[i]! < 300 ? good : refused;
    const second = Math.floor((dueMs + samples.latencyMs[i]!) / 1000);
    into.set(second, (into.get(second) ?? 0) + BATCH_EVENTS);
  }
  const seconds = [...new Set([...good.keys(), ...refused.keys()])].toSorted((a, b) => a - b);
  const line = (name: string, counts: ReadonlyMap<number, number>) => ({
    name,
    points: seconds.map((x) => ({ x, y: counts.get(x) ?? 0 })),
  });
  const series = [line('taken in', good), line('refused', refused)];
  return {
    kind: 'lines' as const,
    title: 'Goodput in and after overload',
    xTitle: 'seconds',
    yTitle: 'events/s',
    series,
  };
}
