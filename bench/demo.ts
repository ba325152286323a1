// `npm run demo [-- FILE…]`: replays recorded agent runs against a service of its own on a scratch data directory, with
// eight policies that only log, and prints what each of them matched. Without files it takes ../shared/data/*.ndjson,
// and where there are none our own short runs, bench/demo-runs.ndjson.
import { setTimeout as sleep } from 'node:timers/promises';
import { HttpClient } from './http-client.ts';
import { demoRuns, POLICIES, replay } from './replay.ts';
import { startBenchService } from './service.ts';

/** Within this policies are in force on every process. */
const IN_FORCE_MS = 1_000;

const files = process.argv.slice(2).length > 0 ? process.argv.slice(2) : demoRuns();
const service = await startBenchService({});
const client = new HttpClient({ ...service, connections: 4 });
try {
  for (const { name, type, conditions } of POLICIES) {
    await client.json('POST', '/v1/policies', { name, type, conditions, actions: ['log'] });
  }
  await sleep(IN_FORCE_MS);
  const started = performance.now();
  const result = await replay(client, files, (file, events) => process.stdout.write(`${file}: ${events} events\n`));
  const seconds = (performance.now() - started) / 1000;
  const listed = await client.json<{ total: number }>('GET', '/v1/events?limit=1');
  process.stdout.write(
    `\n${result.events} events of ${result.agents.size} agents sent in ${seconds.toFixed(1)} s, ${listed.total} listed\n\n`,
  );
  for (const { name } of POLICIES)
    process.stdout.write(`${String(result.matches.get(name) ?? 0).padStart(6)}  ${name}\n`);
} finally {
  client.close();
  await service.stop();
}
