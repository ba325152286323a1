// `npm run demo` without recorded runs beside the project: our own are replayed, and every policy matches
// what they hold. And with `--url` the service of that address is filled.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import t from 'tap';
import { demoRuns, OWN_RUNS, POLICIES } from '../../bench/replay.ts';
import { assetPath } from '../../src/process/assets.ts';
import { Api } from '../support/api.ts';
import { startService } from '../support/service.ts';

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

t.test('it fills a service that runs, with runs of now', async (t) => {
  const service = await startService(t);
  const api = new Api(t, service);
  const demo = [assetPath('build/bench/demo.js'), assetPath(OWN_RUNS), '--url', service.url, '--key', service.key];
  const deciding = [...demo, '--decide'];
  const began = Date.now();
  for (let run = 1; run <= 2; run++) {
    const { stdout } = await promisify(execFile)(process.execPath, deciding, { timeout: 180_000 });
    t.match(stdout, /of 4 agents sent/, `run ${run}`);
  }
  const [newest] = (await api.get('/v1/events?limit=1')).json.items;
  t.ok(Date.parse(newest.timestamp) >= began, newest.timestamp);
  t.equal(
    (await api.get('/v1/events?outcome=pending')).json.total,
    2 * MATCHES['bookings need a person']!,
    'to decide',
  );
  t.ok((await api.get('/v1/events?outcome=blocked')).json.total > 0, 'blocked, to be looked at');
  t.equal((await api.get('/v1/policies')).json.total, POLICIES.length, 'each policy once');
  const alone = promisify(execFile)(process.execPath, demo.slice(0, 4), { timeout: 60_000 });
  const refusal = await alone.catch((error: { code: number; stderr: string }) => error);
  t.match(refusal, { code: 2, stderr: '--url and --key go together\n' });
});
