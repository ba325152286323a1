// `npm run bench -- LINE`: one command for every measurement (command-line.ts says which). Each line's file opens with its question and
// method. Exit status 1 where a line makes a promise and the run broke it, 2 where it was called wrongly.
import { alerts } from './alerts.ts';
import { anomalies } from './anomalies.ts';
import { audit } from './audit.ts';
import { type Call, CallError, LINES, type LineName, readCall } from './command-line.ts';
import { durability } from './durability.ts';
import { endToEnd } from './end-to-end.ts';
import { freshReads } from './fresh-reads.ts';
import { fsync } from './fsync.ts';
import { inForce } from './in-force.ts';
import { ingest } from './ingest.ts';
import { latency } from './latency.ts';
import { memory } from './memory.ts';
import { overload } from './overload.ts';
import { policies } from './policies.ts';
import { query } from './query.ts';
import { rateLimit } from './rate-limit.ts';
import { real } from './real.ts';
import { scale } from './scale.ts';
import { watch } from './watch.ts';

/** What the caller set, else what the line says that it needs. */
function runnersOf({ number, text, operands }: Call): Record<LineName, () => Promise<boolean>> {
  const of = (line: LineName, option: 'turns' | 'seconds' | 'tries' | 'kills' | 'hours' | 'events' | 'agents') =>
    number(option) ?? Number((LINES[line].options as Record<string, number>)[option]);
  const speed = (line: LineName) => ({ turns: of(line, 'turns'), seconds: of(line, 'seconds') });
  const rate = number('rate');
  return {
    ingest: () => ingest(speed('ingest')),
    real: () => real({ ...speed('real'), files: operands }),
    'end-to-end': () => endToEnd({ seconds: of('end-to-end', 'seconds'), ...(rate === undefined ? {} : { rate }) }),
    latency: () => latency(speed('latency')),
    policies: () => policies(speed('policies')),
    query: () => query({ events: of('query', 'events'), data: text('data') }),
    scale: () => scale({ ...speed('scale'), agents: of('scale', 'agents') }),
    fsync: () => fsync(speed('fsync')),
    memory: () => memory({ seconds: of('memory', 'seconds') }),
    overload: () => overload({ seconds: of('overload', 'seconds') }),
    durability: () => durability({ kills: of('durability', 'kills') }),
    'fresh-reads': () => freshReads({ tries: of('fresh-reads', 'tries') }),
    'in-force': () => inForce({ tries: of('in-force', 'tries') }),
    'rate-limit': () => rateLimit({ seconds: of('rate-limit', 'seconds') }),
    anomalies: () => anomalies({ hours: of('anomalies', 'hours'), agents: of('anomalies', 'agents') }),
    alerts: () => alerts({ events: of('alerts', 'tries'), kills: of('alerts', 'kills'), part: operands[0] }),
    audit: () => audit({ tamperings: of('audit', 'tries'), operations: 10 * of('audit', 'tries') }),
    watch: () => watch({ agents: of('watch', 'agents') }),
  };
}

/** One after the other; a line that fails does not keep the others from being run. */
async function runLines(call: Call): Promise<boolean> {
  const runners = runnersOf(call);
  const failed: string[] = [];
  for (const line of call.lines) {
    try {
      if (!(await runners[line]())) failed.push(line);
    } catch (error) {
      process.stderr.write(`${line}: ${(error as Error).stack}\n`);
      failed.push(line);
    }
  }
  if (failed.length > 0) process.stderr.write(`not passed: ${failed.join(', ')}\n`);
  return failed.length === 0;
}

try {
  const call = readCall(process.argv.slice(2), (text) => process.stdout.write(`${text}\n`));
  if (call !== undefined && !(await runLines(call))) process.exitCode = 1;
} catch (error) {
  if (!(error instanceof CallError)) throw error;
  process.stderr.write(`bench: ${error.message}\n`);
  process.exitCode = 2;
}
