// `npm run bench -- LINE`: one command for every measurement (command-line.ts says which). Each line's file opens with
// its question and method. Exit status 1 where a line makes a promise and the run broke it, 2 where it was called
// wrongly.
import path from 'node:path';
import { assetPath } from '../src/process/assets.ts';
import { type Call, CallError, LINES, type LineName, type RemoteLine, readCall } from './command-line.ts';
import { atTheVeryEnd } from './ending.ts';
import type { RemoteOptions } from './remote-lines.ts';
import { beginRun, breakRun, endRun } from './report.ts';

/**
 * A line's file is read when it is run: help and wrong calls wait for none of them. What the caller set, else what the
 * line says that it needs.
 */
function runnersOf({ number, text, operands }: Call): Record<LineName, () => Promise<boolean>> {
  const of = (line: LineName, option: 'turns' | 'seconds' | 'tries' | 'kills' | 'hours' | 'events' | 'agents') =>
    number(option) ?? Number((LINES[line].options as Record<string, number>)[option]);
  const speed = (line: LineName) => ({ turns: of(line, 'turns'), seconds: of(line, 'seconds') });
  const [events, rate] = [(line: LineName) => ({ events: of(line, 'events') }), number('rate')];
  return {
    ingest: async () => (await import('./ingest.ts')).ingest(speed('ingest')),
    real: async () => (await import('./real.ts')).real({ ...speed('real'), files: operands }),
    'end-to-end': async () =>
      (await import('./end-to-end.ts')).endToEnd({
        seconds: of('end-to-end', 'seconds'),
        ...(rate === undefined ? {} : { rate }),
      }),
    latency: async () => (await import('./latency.ts')).latency(speed('latency')),
    policies: async () => (await import('./policies.ts')).policies(speed('policies')),
    bombs: async () => (await import('./bombs.ts')).bombs(),
    shadows: async () => (await import('./shadows.ts')).shadows(speed('shadows')),
    query: async () => (await import('./query.ts')).query({ ...events('query'), data: text('data') }),
    dashboard: async () => (await import('./dashboard.ts')).dashboard({ ...events('dashboard'), data: text('data') }),
    scale: async () => (await import('./scale.ts')).scale({ ...speed('scale'), agents: of('scale', 'agents') }),
    replicas: async () => (await import('./replicas.ts')).replicas(speed('replicas')),
    fsync: async () => (await import('./fsync.ts')).fsync(speed('fsync')),
    'counted-state': async () => (await import('./counted-state.ts')).countedState(events('counted-state')),
    memory: async () => (await import('./memory.ts')).memory({ seconds: of('memory', 'seconds') }),
    backup: async () =>
      (await import('./backup.ts')).backup({ ...speed('backup'), rate: rate ?? LINES.backup.options.rate }),
    followers: async () => (await import('./followers.ts')).followers(speed('followers')),
    overload: async () => (await import('./overload.ts')).overload({ seconds: of('overload', 'seconds') }),
    checks: async () => (await import('./checks.ts')).checks({ tries: of('checks', 'tries') }),
    neighbour: async () => (await import('./neighbour.ts')).neighbour({ ...speed('neighbour'), part: operands[0] }),
    hooks: async () => (await import('./hooks.ts')).hooks({ tries: of('hooks', 'tries') }),
    spans: async () => (await import('./spans.ts')).spans({ seconds: of('spans', 'seconds') }),
    backtest: async () =>
      (await import('./backtest.ts')).backtest({ ...speed('backtest'), events: of('backtest', 'events') }),
    durability: async () => (await import('./durability.ts')).durability({ kills: of('durability', 'kills') }),
    'fresh-reads': async () => (await import('./fresh-reads.ts')).freshReads({ tries: of('fresh-reads', 'tries') }),
    'in-force': async () => (await import('./in-force.ts')).inForce({ tries: of('in-force', 'tries') }),
    'rate-limit': async () => (await import('./rate-limit.ts')).rateLimit({ seconds: of('rate-limit', 'seconds') }),
    anomalies: async () =>
      (await import('./anomalies.ts')).anomalies({
        hours: of('anomalies', 'hours'),
        agents: of('anomalies', 'agents'),
      }),
    alerts: async () =>
      (await import('./alerts.ts')).alerts({
        events: of('alerts', 'tries'),
        kills: of('alerts', 'kills'),
        part: operands[0],
      }),
    audit: async () =>
      (await import('./audit.ts')).audit({ tamperings: of('audit', 'tries'), operations: 10 * of('audit', 'tries') }),
    clients: async () => (await import('./clients.ts')).clients({ seconds: of('clients', 'seconds') }),
    watch: async () => (await import('./watch.ts')).watch({ agents: of('watch', 'agents') }),
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

async function runRemoteLines({ lines, target, number }: Call): Promise<boolean> {
  const { reach, runRemote } = await import('./remote.ts');
  const remote = await reach(target!.url, target!.key);
  const optionsOf = (line: RemoteLine): RemoteOptions => {
    const defaults = LINES[line].remote as Record<string, number | string>;
    const of = (option: 'turns' | 'seconds' | 'tries') => number(option) ?? Number(defaults[option] ?? 0);
    return { turns: of('turns'), seconds: of('seconds'), tries: of('tries'), rate: number('rate') };
  };
  return runRemote(remote, lines as RemoteLine[], optionsOf);
}

/** Throws CallError. */
function folderOf({ text }: Call): string {
  const out = text('out');
  if (out === undefined) return assetPath(text('keep') === undefined ? 'build/bench-results' : 'bench/results');
  return path.resolve(process.env['INIT_CWD'] ?? '.', out);
}

async function main(): Promise<void> {
  const call = readCall(process.argv.slice(2), (text) => process.stdout.write(`${text}\n`));
  if (call === undefined) return;
  const folder = folderOf(call);
  try {
    beginRun({ folder, settings: call.typed });
  } catch (error) {
    throw new CallError(`no results can be written to ${folder}: ${(error as NodeJS.ErrnoException).code}`);
  }
  atTheVeryEnd(breakRun);
  const isPassed = await (call.target === undefined ? runLines(call) : runRemoteLines(call));
  endRun();
  if (!isPassed) process.exitCode = 1;
}

await main().catch((error: unknown) => {
  if (!(error instanceof CallError)) throw error;
  process.stderr.write(`bench: ${error.message}\n`);
  process.exitCode = 2;
});
