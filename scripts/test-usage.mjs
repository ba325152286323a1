// Loaded before each test file (scripts/test-runs.mjs, `node-arg` in package.json): what a test starts runs as it runs
// for users, without the hooks by which the test runner collects coverage. Coverage is off, and the hooks take 0.9 s of
// CPU of every Node.js process; a service has six. At its end the file says what processor time it took.
// Invariant: no child of a test has NODE_OPTIONS that the test did not give it. Failure: tests are slower, no more.
import { writeFileSync } from 'node:fs';
import processOnSpawn from 'process-on-spawn';
import { processorSeconds } from './test-runs.mjs';

delete process.env.NODE_OPTIONS;
processOnSpawn.removeAllListeners();

const file = process.env.GATEHOUSE_TEST_USAGE_FILE;
delete process.env.GATEHOUSE_TEST_USAGE_FILE;
if (file !== undefined) process.on('exit', () => writeFileSync(file, String(processorSeconds())));
