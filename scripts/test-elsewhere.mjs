// Runs the whole-service tests a second time on other engines than the embedded ones:
//   node scripts/test-elsewhere.mjs cluster      a Redis Cluster of three masters, started by each test on loopback;
//                                                and failovers (test/cluster), which have no other place
//   node scripts/test-elsewhere.mjs clickhouse   one ClickHouse engine, started here on loopback and given by its
//                                                address
// Ends with the tests' exit status; what was started here is ended here.
import path from 'node:path';
import { runFiles, startEngine, testNames } from './test-runs.mjs';

const tests = testNames().filter((name) => name.endsWith('.path'));
/** Failovers are tests of a Cluster alone, each minutes long. */
const FAILOVERS = ['cluster/failover.cluster', 'cluster/several-machines.cluster'];
/** The tests of the Redis that a service starts itself: its folder, its memory, its end. */
const OWN_REDIS = ['outages', 'settings', 'put-back', 'cli', 'shared-folder', 'outbox', 'idempotency'];
const isOfOwnRedis = (file) => OWN_REDIS.includes(path.basename(file, '.path'));
const onCluster = [...tests.filter((file) => !isOfOwnRedis(file)), ...FAILOVERS];

const where = process.argv[2];
if (where === 'cluster') await run(onCluster, { GATEHOUSE_TEST_REDIS_CLUSTER: '1' });
else if (where === 'clickhouse') await onOwnEngine();
else {
  process.stderr.write('usage: node scripts/test-elsewhere.mjs cluster|clickhouse\n');
  process.exitCode = 2;
}

async function onOwnEngine() {
  const engine = await startEngine();
  try {
    await run(tests, { GATEHOUSE_TEST_CLICKHOUSE_URL: engine.url });
  } finally {
    await engine.stop();
  }
}

async function run(names, env) {
  const { failed } = await runFiles(names, { env });
  process.exitCode = failed.length > 0 ? 1 : 0;
}
