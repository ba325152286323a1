// Runs the whole-service tests a second time on other engines than the embedded ones:
//   node scripts/test-elsewhere.mjs cluster      a Redis Cluster of three masters, started by each test on loopback;
//                                                and failovers (test/cluster), which have no other place
//   node scripts/test-elsewhere.mjs clickhouse   one ClickHouse engine, started here on loopback and given by its
//                                                address
// Ends with the tests' exit status; what was started here is ended here.
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const root = path.dirname(path.dirname(new URL(import.meta.url).pathname));
const folder = path.join(root, 'build', 'test');
const testsNamed = (end) =>
  readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith(end))
    .map((name) => path.join(folder, name));
const tests = testsNamed('.path.test.js');
/** Of a Cluster alone: failovers, each minutes long. */
const failovers = testsNamed('.cluster.js');
/** What these are about is the Redis that a service starts itself: its folder, its memory, its end. */
const OWN_REDIS = ['outages', 'settings', 'put-back', 'cli', 'shared-folder', 'outbox', 'idempotency'];
const isOfOwnRedis = (file) => OWN_REDIS.includes(path.basename(file, '.path.test.js'));
const onCluster = [...tests.filter((file) => !isOfOwnRedis(file)), ...failovers];

const where = process.argv[2];
if (where === 'cluster') process.exitCode = await tap({ GATEHOUSE_TEST_REDIS_CLUSTER: '1' }, onCluster);
else if (where === 'clickhouse') process.exitCode = await onOwnEngine();
else {
  process.stderr.write('usage: node scripts/test-elsewhere.mjs cluster|clickhouse\n');
  process.exitCode = 2;
}

async function onOwnEngine() {
  const data = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-engine-'));
  const main = path.join(root, 'build', 'service', 'clickhouse-server-main.js');
  const options = JSON.stringify({ path: path.join(data, 'clickhouse'), port: 0 });
  const engine = spawn(process.execPath, [main, options], {
    env: { ...process.env, UV_THREADPOOL_SIZE: '16' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const left = new Promise((resolve) => engine.on('exit', resolve));
  try {
    const line = await new Promise((resolve, reject) => {
      engine.stdout.once('data', (chunk) => resolve(chunk.toString()));
      engine.once('exit', (code) => reject(new Error(`the engine ended with ${code}`)));
    });
    return await tap({ GATEHOUSE_TEST_CLICKHOUSE_URL: `http://127.0.0.1:${JSON.parse(line).port}` });
  } finally {
    engine.kill('SIGTERM');
    await left;
    rmSync(data, { recursive: true, force: true });
  }
}

function tap(env, which = tests) {
  const program = path.join(root, 'node_modules', '.bin', 'tap');
  const child = spawn(program, ['run', ...which], { cwd: root, env: { ...process.env, ...env }, stdio: 'inherit' });
  return new Promise((resolve) => child.on('exit', (code) => resolve(code ?? 1)));
}
