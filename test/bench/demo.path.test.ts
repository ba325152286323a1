// `npm run demo` without recorded runs beside the project: our own are replayed, and every policy matches
// what they hold.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import t from 'tap';
import { demoRuns, OWN_RUNS, POLICIES } from '../../bench/replay.ts';
import { assetPath } from '../../src/process/assets.ts';

/** In bench/demo-runs.ndjson, counted by hand. */
const MATCHES: Record<string, number> = {
  'payment to the attacker': 1,
  'mail to the attacker': 1,
  "the attacker's page": 1,
  'injection marker': 2,
  'e-mail address in an answer': 1,
  'bookings need a person': 3,
  'means of payment in a result': 4,
  'long completions': 1,
};

t.test('a fresh clone has runs of its own to show', async (t) => {
  t.same(demoRuns('/there is no such folder'), [assetPath(OWN_RUNS)]);
  const lines = readFileSync(assetPath(OWN_RUNS), 'utf8').trim().split('\n');
  const demo = [assetPath('build/bench/demo.js'), assetPath(OWN_RUNS)];
  const { stdout } = await promisify(execFile)(process.execPath, demo, { timeout: 180_000 });
  t.match(stdout, `demo-runs.ndjson: ${lines.length} events`);
  t.match(stdout, `${lines.length} events of 4 agents sent`);
  const shown = Object.fromEntries(
    POLICIES.map(({ name }) => [name, Number(new RegExp(`^ *(\\d+)  ${name}$`, 'm').exec(stdout)?.[1])]),
  );
  t.same(shown, MATCHES);
});
