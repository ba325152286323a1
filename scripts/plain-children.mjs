// Loaded before each test file (`node-arg` in package.json): what a test starts runs as it runs for users, without the
// hooks by which the test runner collects coverage. Coverage is off, and the hooks take 0.9 s of CPU of every Node.js
// process; a service has six.
// Invariant: no child of a test has NODE_OPTIONS that the test did not give it. Failure: tests are slower, no more.
import processOnSpawn from 'process-on-spawn';

delete process.env.NODE_OPTIONS;
processOnSpawn.removeAllListeners();
