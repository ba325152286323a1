// Runs the whole-service tests a second time on other engines than the embedded ones:
//   node scripts/test-elsewhere.mjs cluster      a Redis Cluster of three masters, started by each test on loopback;
//                                                and failovers (test/cluster), which have no other place
//   node scripts/test-elsewhere.mjs clickhouse   one ClickHouse engine, started here on loopback and given by its
//                                                address
// Ends with the tests' exit status; what was started here is ended here.
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { root, startEngine, tap } from './test-runs.mjs';

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
if (where === 'cluster') process.exitCode = await tap(['run', ...onCluster], { GATEHOUSE_TEST_REDIS_CLUSTER: '1' });
else if (where === 'clickhouse') process.exitCode = await onOwnEngine();
else {
  process.stderr.write('usage: node scripts/test-elsewhere.mjs cluster|clickhouse\n');
  process.exitCode = 2;
}

async function onOwnEngine() {
  const engine = await startEngine();
  try {
    return await tap(['run', ...tests], { GATEHOUSE_TEST_CLICKHOUSE_URL: engine.url });
  } finally {
    await engine.stop();
  }
}
