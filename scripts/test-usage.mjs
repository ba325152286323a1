// Loaded before each test file (scripts/test-runs.mjs): at its end the file says what processor time it took, with all
// that it started and that has ended. Failure: nothing is said, as of a file that was killed.
import { writeFileSync } from 'node:fs';
import { processorSeconds } from './test-runs.mjs';

const file = process.env.GATEHOUSE_TEST_USAGE_FILE;
delete process.env.GATEHOUSE_TEST_USAGE_FILE; // programs that the test starts are in its own figure
if (file !== undefined) process.on('exit', () => writeFileSync(file, String(processorSeconds())));
