// Simulated traffic of one agent, seeded: arrivals in order, each with its type and tokens (for anomalies.ts and its
// short test). Six shapes of steady traffic. What an injected spike changes is `spike`; everything else continues as
// before.
import type { Observed } from '../pipelines/anomaly/observe.ts';

// biome-ignore format: a shape a line reads as the table that it is
export const SHAPES = {
  constant: 'independent arrivals at one rate; log-normal tokens, σ 0.2',
  daily: 'the rate swings by ±80 % over the day; log-normal tokens, σ 0.2',
  workday: '2 % of the rate, and from 9 to 17 h all of it, reached within 5 min; log-normal tokens, σ 0.2',
  bursty: 'clusters of 8 (geometric) within seconds; errors sit in every tenth cluster; log-normal tokens, σ 0.2',
  'log-normal': 'independent arrivals; tokens log-normal, σ 1',
  pareto: 'independent arrivals; tokens Pareto, α 1.5 (infinite variance)',
} as const;
export type Shape = keyof typeof SHAPES;

/** Error share (all shapes), completions among all events, and the middle of the tokens. */
const ERROR_SHARE = 0.02;
const COMPLETIONS = 0.3;
const TOKENS = 1_200;
const CLUSTER_SIZE = 8;
const CLUSTER_GAP_SECONDS = 0.5;
const DAY = 86_400;

export type Spike = { volume?: number; errorShare?: number; tokens?: number };
type TrafficOptions = {
  shape: Shape;
  /** Events a second, over the whole day; of a workday: in its busy hours. */
  rate: number;
  seed: number;
  /** Epoch seconds at which it begins. */
  from: number;
  spike?: Spike;
};

/** sfc32: small, fast, and good enough for statistics. */
export function random(seed: number): () => number {
  let [a, b, c, d] = [seed | 0, 0x9e3779b9, 0x243f6a88, 1];
  const next = () => {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + t;
    return (t >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 20; i++) next();
  return next;
}

type Cluster = { at: number; left: number; errorShare: number };

export class Traffic {
  readonly #options: TrafficOptions;
  readonly #random: () => number;
  readonly #clusters: Cluster[] = [];
  #at: number;
  #event: { type: Observed['type']; receivedAt: number; tokensUsed?: number } = { type: 'prompt', receivedAt: 0 };

  constructor(options: TrafficOptions) {
    this.#options = options;
    this.#random = random(options.seed);
    this.#at = options.from;
  }

  /** The next event; the same object each time. */
  next(): Observed {
    const errorShare = this.#options.shape === 'bursty' ? this.#nextOfClusters() : this.#nextAlone();
    const event = this.#event;
    event.receivedAt = Math.floor(this.#at * 1000);
    const share = this.#options.spike?.errorShare ?? errorShare;
    const draw = this.#random();
    event.type = draw < share ? 'error' : 'tool_call';
    delete event.tokensUsed;
    if (draw >= 1 - COMPLETIONS) {
      event.type = 'completion';
      event.tokensUsed = Math.max(1, Math.round(this.#tokens() * (this.#options.spike?.tokens ?? 1)));
    }
    return event;
  }

  #nextAlone(): number {
    const most = this.#options.rate * (this.#options.spike?.volume ?? 1) * 1.8;
    do this.#at += this.#exponential(1 / most);
    while (this.#random() * 1.8 >= this.#level(this.#at));
    return ERROR_SHARE;
  }

  /** Share of the rate at this second; at most 1.8. */
  #level(second: number): number {
    const { shape } = this.#options;
    const time = second % DAY;
    if (shape === 'daily') return 1 + 0.8 * Math.sin((2 * Math.PI * time) / DAY);
    if (shape !== 'workday') return 1;
    const [nine, five] = [9 * 3_600, 17 * 3_600];
    const risen = Math.min(1, Math.max(0, (time - nine) / 300)) * Math.min(1, Math.max(0, (five - time) / 300));
    return 0.02 + 0.98 * risen;
  }

  #nextOfClusters(): number {
    const starts = (this.#options.rate * (this.#options.spike?.volume ?? 1)) / CLUSTER_SIZE;
    for (;;) {
      let soonest: Cluster | undefined;
      for (const cluster of this.#clusters) if (soonest === undefined || cluster.at < soonest.at) soonest = cluster;
      const start = this.#start(starts);
      if (soonest === undefined || start < soonest.at) {
        this.#clusters.push(this.#cluster(start));
        this.#nextStart = start + this.#exponential(1 / starts);
        continue;
      }
      this.#at = soonest.at;
      if (--soonest.left === 0) this.#clusters.splice(this.#clusters.indexOf(soonest), 1);
      else soonest.at += this.#exponential(CLUSTER_GAP_SECONDS);
      return soonest.errorShare;
    }
  }

  #nextStart: number | undefined;
  #start(starts: number): number {
    this.#nextStart ??= this.#at + this.#exponential(1 / starts);
    return this.#nextStart;
  }

  /** Every tenth cluster has 11 % errors, the others 1 %: 2 % over all. */
  #cluster(at: number): Cluster {
    let left = 1;
    while (this.#random() > 1 / CLUSTER_SIZE) left++;
    return { at, left, errorShare: this.#random() < 0.1 ? 0.11 : 0.01 };
  }

  #tokens(): number {
    if (this.#options.shape === 'pareto') return (TOKENS / 2 ** (1 / 1.5)) * (1 - this.#random()) ** (-1 / 1.5);
    const sigma = this.#options.shape === 'log-normal' ? 1 : 0.2;
    return TOKENS * Math.exp(sigma * this.#normal());
  }

  #normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.#random())) * Math.cos(2 * Math.PI * this.#random());
  }

  #exponential(mean: number): number {
    return -mean * Math.log(1 - this.#random());
  }
}
