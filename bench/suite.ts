// The lines of the suite that measure speed, with their default bounds; bench/main.ts has the command line around them.
// `--turns`, `--seconds`, `--events` bound a line from outside, `--keep` writes its results into bench/results.
import { endToEnd } from './end-to-end.ts';
import { fsync } from './fsync.ts';
import { ingest } from './ingest.ts';
import { latency } from './latency.ts';
import { memory } from './memory.ts';
import { overload } from './overload.ts';
import { policies } from './policies.ts';
import { query } from './query.ts';
import { real } from './real.ts';
import { scale } from './scale.ts';

export const SUITE_OPTIONS = {
  /** Rows of `query`. */
  events: { type: 'string' },
  /** The most agents of `scale`. */
  agents: { type: 'string' },
  /** Folder in which `query` keeps its rows, to take them up again. */
  data: { type: 'string' },
  /** Where `end-to-end` begins to hold, instead of searching for it: events a second. */
  rate: { type: 'string' },
  keep: { type: 'boolean' },
} as const;

export type SuiteValues = {
  [name in 'turns' | 'seconds' | 'events' | 'agents' | 'data' | 'rate']?: string | undefined;
};
type Line = () => Promise<boolean>;

/** `arguments_`: what stands behind the line's name. */
export function suiteLines(values: SuiteValues, arguments_: readonly string[]): Record<string, Line> {
  const turns = Number(values.turns ?? 3);
  /** What the caller set, else what the line needs. */
  const seconds = (byDefault: number) => (process.argv.includes('--seconds') ? Number(values.seconds) : byDefault);
  return {
    ingest: () => ingest({ turns, seconds: seconds(5) }),
    real: () => real({ turns, seconds: seconds(5), files: [...arguments_] }),
    'end-to-end': () => endToEnd({ seconds: seconds(60), ...(values.rate && { rate: Number(values.rate) }) }),
    latency: () => latency({ turns, seconds: seconds(10) }),
    policies: () => policies({ turns, seconds: seconds(4) }),
    query: () => query({ events: Number(values.events ?? 10_000_000), data: values.data }),
    scale: () => scale({ turns, seconds: seconds(3), agents: Number(values.agents ?? 100_000) }),
    fsync: () => fsync({ turns, seconds: seconds(5) }),
    memory: () => memory({ seconds: seconds(600) }),
    overload: () => overload({ seconds: seconds(60) }),
  };
}
