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
import { processorSeconds, recordTimes, runFiles, Speed, startShared } from './test-runs.mjs';

/**
 * Six minutes of two processors, so that people run it: what no longer fits goes to AT_MERGE, or gets cheaper. 768 were
 * measured on 2026-11-28 with five files that took 100 more; five minutes are the goal.
 */
const BUSY_SECONDS_MAX = 740;
/** A machine whose `Speed` is below this is quiet. */
const QUIET_MAX = 1.15;

const args = process.argv.slice(2);
const isRecorded = args.includes('--record');
const chosen = namesOf(args.filter((arg) => arg !== '--record'));
if ('usage' in chosen) {
  process.stderr.write(`${chosen.usage}\n`);
  process.exit(2);
}
const began = performance.now();
const speed = new Speed();
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
const busy = Math.round(processorSeconds());
const slower = speed.end();
const ended = Object.keys(times).length;
process.stdout.write(
  `${ended - failed.length} of ${chosen.names.length} files passed in ${seconds} s, ${busy} s of processor time ` +
    `(a loop took ${slower.toFixed(1)} times what it takes on the machine that the bounds are for)\n`,
);
for (const name of failed) process.stdout.write(`FAILED ${name}\n`);
// A loop says only what part of the slowness is not ours: on a machine that others share nothing is held against it.
const isOver = chosen.isBounded === true && busy > BUSY_SECONDS_MAX;
if (isOver)
  process.stdout.write(
    `That is more than the ${BUSY_SECONDS_MAX} s of processor time that every change may take. See what takes most ` +
      'above, make it cheaper or move it to AT_MERGE in scripts/test-choice.mjs.\n',
  );
const isTooLong = isOver && slower < QUIET_MAX;
process.exitCode = failed.length > 0 || ended < chosen.names.length || isTooLong ? 1 : 0;
