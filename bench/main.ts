// `npm run bench -- NAME [--option number]`: one command for every measurement. Each line's file opens with its question and method.
// Exit status 1 where a line makes a promise and the run broke it.
import { parseArgs } from 'node:util';
import { alerts } from './alerts.ts';
import { anomalies } from './anomalies.ts';
import { audit } from './audit.ts';
import { durability } from './durability.ts';
import { freshReads } from './fresh-reads.ts';
import { inForce } from './in-force.ts';
import { rateLimit } from './rate-limit.ts';
import { SUITE_OPTIONS, suiteLines } from './suite.ts';
import { watch } from './watch.ts';

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    turns: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '5' },
    kills: { type: 'string', default: '20' },
    tries: { type: 'string' },
    hours: { type: 'string', default: '10000' },
    ...SUITE_OPTIONS,
  },
});

const LINES: Record<string, () => Promise<boolean>> = {
  ...suiteLines(values, positionals.slice(1)),
  alerts: () => alerts({ events: Number(values.tries ?? 300), kills: Number(values.kills), part: positionals[1] }),
  anomalies: () => anomalies({ hours: Number(values.hours), agents: Number(values.agents ?? 4) }),
  audit: () => audit({ tamperings: Number(values.tries ?? 1_000), operations: 10 * Number(values.tries ?? 1_000) }),
  durability: () => durability({ kills: Number(values.kills) }),
  'fresh-reads': () => freshReads({ tries: Number(values.tries ?? 10_000) }),
  'in-force': () => inForce({ tries: Number(values.tries ?? 100) }),
  watch: () => watch({ agents: Number(values.agents ?? 100_000) }),
  'rate-limit': () => rateLimit({ seconds: Number(values.seconds) }),
};

const name = positionals[0] ?? '';
if (name !== 'all' && LINES[name] === undefined) {
  process.stderr.write(`usage: npm run bench -- NAME, where NAME is all or one of: ${Object.keys(LINES).join(', ')}\n`);
  process.exitCode = 2;
} else if (!(await runLines(name === 'all' ? Object.keys(LINES) : [name]))) {
  process.exitCode = 1;
}

/** One after the other; a line that fails does not keep the others from being run. */
async function runLines(names: readonly string[]): Promise<boolean> {
  const failed: string[] = [];
  for (const each of names) {
    try {
      if (!(await LINES[each]!())) failed.push(each);
    } catch (error) {
      process.stderr.write(`${each}: ${(error as Error).stack}\n`);
      failed.push(each);
    }
  }
  if (failed.length > 0) process.stderr.write(`not passed: ${failed.join(', ')}\n`);
  return failed.length === 0;
}
