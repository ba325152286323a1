// Open-loop load: requests are due at a fixed rate whatever the server does, and latency counts from the moment a
// request was due, not from when it could be sent. So a server that stalls is charged with everything that had to wait
// behind the stall. The load runs in a process of its own (open-loop-child.ts); this file has its schedule, which is
// pure, and the order for it.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { assetPath } from '../src/process/assets.ts';
import { whenEnded } from './ending.ts';
import { percentile, sorted } from './statistics.ts';

export type Phase = { requestsPerSecond: number; seconds: number };

/** When each request of a load is due. Times are ms on the caller's clock. */
export class Schedule {
  /** The number of requests of the whole load. */
  readonly count: number;
  readonly endMs: number;
  readonly #steps: { first: number; startMs: number; everyMs: number }[] = [];
  #next = 0;
  #step = 0;

  constructor(phases: readonly Phase[], startMs: number) {
    let [first, at] = [0, startMs];
    for (const { requestsPerSecond, seconds } of phases) {
      this.#steps.push({ first, startMs: at, everyMs: 1000 / requestsPerSecond });
      first += Math.round(requestsPerSecond * seconds);
      at += seconds * 1000;
    }
    this.count = first;
    this.endMs = at;
  }

  /** Requests handed out so far. */
  get taken(): number {
    return this.#next;
  }

  /** When the next request is due; undefined: there are no more. */
  get nextMs(): number | undefined {
    if (this.#next >= this.count) return undefined;
    while (this.#step + 1 < this.#steps.length && this.#steps[this.#step + 1]!.first <= this.#next) this.#step++;
    const { first, startMs, everyMs } = this.#steps[this.#step]!;
    return startMs + (this.#next - first) * everyMs;
  }

  /** The moment at which the next request was due, if that has come: it is then handed out. */
  take(nowMs: number): number | undefined {
    const dueMs = this.nextMs;
    if (dueMs === undefined || dueMs > nowMs) return undefined;
    this.#next++;
    return dueMs;
  }
}

/** Requests of a run: its samples lie in memory. */
export const SAMPLES_MAX = 6_000_000;

export type OpenLoad = {
  url: string;
  /** Taken in turn. `body` is an index. */
  requests: { path: string; key: string; body: number }[];
  bodies: string[];
  phases: Phase[];
  /** At most so many requests are under way at once; those that find none free wait, and their waiting counts. */
  connections: number;
  /** A caller that has not even found a connection for so long goes away. Without it all wait. */
  giveUpMs?: number;
};

/** `status` where there is none. */
export const NO_ANSWER = 0;
export const GIVEN_UP = 1;

/** One entry a request, in the order of their ends. Times in ms; `dueMs` since the load began. */
export type Samples = {
  dueMs: Float64Array;
  latencyMs: Float64Array;
  status: Uint16Array;
  /** Requests that were due and had no answer, or were not even sent, when the load ended. */
  unsent: number;
  /** Processor time of the generator, seconds: it shares the machine with what it measures. */
  cpuSeconds: number;
};

/** Runs the load in a process of its own. The samples lie in memory: 18 bytes a request. */
export async function openLoad(load: OpenLoad): Promise<Samples> {
  const child = fork(assetPath('build/bench/open-loop-child.js'), { serialization: 'advanced' });
  const strike = whenEnded(() => child.kill('SIGKILL'));
  try {
    child.send(load);
    const [samples] = (await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(([code]) => {
        throw new Error(`the load ended with ${code}`);
      }),
    ])) as [Samples];
    return samples;
  } finally {
    strike();
    if (child.connected) child.disconnect();
  }
}

export type Summary = {
  answered: number;
  refused: number;
  failed: number;
  unsent: number;
  p50Ms: number;
  p99Ms: number;
  p999Ms: number;
  maxMs: number;
  refusedP50Ms: number;
  refusedP99Ms: number;
};

/**
 * Summarizes the requests that were due in [fromMs, toMs). 429 and 503 are refusals; latency is of those with a 2xx.
 */
export function summarize(samples: Samples, fromMs = 0, toMs = Number.POSITIVE_INFINITY): Summary {
  const { dueMs, latencyMs, status, unsent } = samples;
  const [good, refused]: [number[], number[]] = [[], []];
  let [failed, givenUp] = [0, 0];
  for (let i = 0; i < dueMs.length; i++) {
    if (dueMs[i]! < fromMs || dueMs[i]! >= toMs) continue;
    if (status[i]! >= 200 && status[i]! < 300) good.push(latencyMs[i]!);
    else if (status[i] === 503 || status[i] === 429) refused.push(latencyMs[i]!);
    else if (status[i] === GIVEN_UP) givenUp++;
    else failed++;
  }
  const [ascending, ascendingRefused] = [sorted(good), sorted(refused)];
  return {
    answered: good.length,
    refused: refused.length,
    failed,
    unsent: unsent + givenUp,
    p50Ms: percentile(ascending, 0.5),
    p99Ms: percentile(ascending, 0.99),
    p999Ms: percentile(ascending, 0.999),
    maxMs: percentile(ascending, 1),
    refusedP50Ms: percentile(ascendingRefused, 0.5),
    refusedP99Ms: percentile(ascendingRefused, 0.99),
  };
}
