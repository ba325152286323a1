// `npm test`, `npm run test:all` and the like:
//   node scripts/test.mjs                  what every change runs, with a tenth of the random cases
//   node scripts/test.mjs --all            every test file but those of the night
//   node scripts/test.mjs --rest           of these, what `npm test` does not run, and random cases whole
//   node scripts/test.mjs --night          every test file
//   node scripts/test.mjs --unit           what needs nothing but Node.js, with a tenth of its random cases
//   node scripts/test.mjs --since COMMIT   what reaches a file that has changed since then, of all
//   node scripts/test.mjs NAME …           these: the beginning of a path in test, such as http/api
// `--record` writes how long each took to test/times.json. Where more than one file runs, one ClickHouse engine and
// one whole service are started first, for the files that need none of their own (test/support/clickhouse.ts,
// shared-service.ts). Ends with 1 where a file failed, or where what every change runs took longer than it may; with 2
// where it was called wrongly.
import { namesOf } from './test-choice.mjs';
import { processorSeconds, ReferenceWork, recordTimes, runFiles, startShared } from './test-runs.mjs';

/**
 * Processor time of what every change runs, in what scripts/test-reference.mjs takes on the same machine meanwhile: six
 * minutes of two processors on a quiet one, so that people run it. What no longer fits goes to AT_MERGE, or gets
 * cheaper.
 */
const TIMES_REFERENCE_MAX = 2_000;

const args = process.argv.slice(2);
const isRecorded = args.includes('--record');
const chosen = namesOf(args.filter((arg) => arg !== '--record'));
if ('usage' in chosen) {
  process.stderr.write(`${chosen.usage}\n`);
  process.exit(2);
}
const began = performance.now();
const reference = new ReferenceWork();
const shared = chosen.names.length > 1 && !chosen.alone ? await startShared() : undefined;
let outcome;
try {
  outcome = await runFiles(chosen.names, { env: { ...shared?.env, ...chosen.env } });
} finally {
  await shared?.stop();
}
const { failed, times } = outcome;
if (isRecorded) recordTimes(times);
const seconds = Math.round((performance.now() - began) / 1000);
const { median, sum } = await reference.end();
const busy = processorSeconds() - sum;
const ended = Object.keys(times).length;
process.stdout.write(
  `${ended - failed.length} of ${chosen.names.length} files passed in ${seconds} s, ${busy.toFixed(0)} s of processor ` +
    `time: ${(busy / median).toFixed(0)} times what a fixed piece of work takes on this machine (${median.toFixed(2)} s)\n`,
);
for (const name of failed) process.stdout.write(`FAILED ${name}\n`);
const isOver = chosen.isBounded === true && busy > TIMES_REFERENCE_MAX * median;
if (isOver)
  process.stdout.write(
    `That is more than the ${TIMES_REFERENCE_MAX} times that every change may take. See what takes most above, make it ` +
      'cheaper or move it to AT_MERGE in scripts/test-choice.mjs.\n',
  );
process.exitCode = failed.length > 0 || ended < chosen.names.length || isOver ? 1 : 0;
