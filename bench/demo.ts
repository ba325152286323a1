// `npm run demo [-- FILE…]`: replays recorded agent runs against a service of its own on a scratch data directory, with
// eight policies that only log, and prints what each of them matched. Without files it takes ../shared/data/*.ndjson,
// and where there are none our own short runs, bench/demo-runs.ndjson.
// `npm run demo -- --url URL --key KEY [FILE…]` fills a service of yours instead, to be looked at: the newest event of
// each file is of now. The key may configure and submit. With `--decide` the policies that block or ask a person do so
// there, and the dashboard has blocked events and approvals to look at; keep that to an account without real agents.
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { HttpClient } from './http-client.ts';
import { demoRuns, POLICIES, replay } from './replay.ts';
import { startBenchService } from './service.ts';

/** Within this policies are in force on every process. Then those of these types block, or ask, with `--decide`. */
const IN_FORCE_MS = 1_000;
const DECIDING = ['block_action', 'require_approval'];

const options = { url: { type: 'string' }, key: { type: 'string' }, decide: { type: 'boolean' } } as const;
const { positionals, values } = read();
if ((values.url === undefined) !== (values.key === undefined)) {
  process.stderr.write('--url and --key go together\n');
  process.exit(2);
}
const files = positionals.length > 0 ? positionals : demoRuns();
const own = values.url === undefined ? await startBenchService({}) : undefined;
const client = new HttpClient({ ...(own ?? { url: values.url!, key: values.key! }), connections: 4 });
try {
  for (const { name, type, conditions } of POLICIES)
    await policy({ name, type, conditions, actions: [values.decide && DECIDING.includes(type) ? 'block' : 'log'] });
  await sleep(IN_FORCE_MS);
  const started = performance.now();
  const result = await replay(client, files, {
    onFile: (file, events) => process.stdout.write(`${file}: ${events} events\n`),
    ...(own === undefined ? { endMs: Date.now() } : {}),
  });
  const seconds = (performance.now() - started) / 1000;
  const listed = await client.json<{ total: number }>('GET', '/v1/events?limit=1');
  process.stdout.write(
    `\n${result.events} events of ${result.agents.size} agents sent in ${seconds.toFixed(1)} s, ${listed.total} listed\n\n`,
  );
  for (const { name } of POLICIES)
    process.stdout.write(`${String(result.matches.get(name) ?? 0).padStart(6)}  ${name}\n`);
} finally {
  client.close();
  await own?.stop();
}

function read() {
  try {
    return parseArgs({ options, allowPositionals: true });
  } catch (error) {
    process.stderr.write(
      `${(error as Error).message}\nUsage: npm run demo [-- [--url URL --key KEY] [--decide] [FILE…]]\n`,
    );
    process.exit(2);
  }
}

/** One of this name that is there already, as after a first run, stays. */
async function policy(body: object): Promise<void> {
  const { status, body: answer } = await client.send('POST', '/v1/policies', JSON.stringify(body));
  if (status !== 201 && status !== 409) throw new Error(`a policy was not created: ${status} ${answer.slice(0, 300)}`);
}
