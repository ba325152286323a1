// The lines of the suite that measure speed, with their default bounds; bench/main.ts has the command line around them.
// `--turns`, `--seconds`, `--events` bound a line from outside, `--keep` writes its results into bench/results.
import { ingest } from './ingest.ts';
import { real } from './real.ts';

export const SUITE_OPTIONS = {
  /** Rows of `query`. */
  events: { type: 'string' },
  keep: { type: 'boolean' },
} as const;

export type SuiteValues = { turns?: string | undefined; seconds?: string | undefined; events?: string | undefined };
type Line = () => Promise<boolean>;

/** `arguments_`: what stands behind the line's name. */
export function suiteLines(values: SuiteValues, arguments_: readonly string[]): Record<string, Line> {
  const turns = Number(values.turns ?? 3);
  /** What the caller set, else what the line needs. */
  const seconds = (byDefault: number) => (process.argv.includes('--seconds') ? Number(values.seconds) : byDefault);
  return {
    ingest: () => ingest({ turns, seconds: seconds(5) }),
    real: () => real({ turns, seconds: seconds(5), files: [...arguments_] }),
  };
}
