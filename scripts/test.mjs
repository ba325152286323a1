// `npm test`, `npm run test:all` and the like:
//   node scripts/test.mjs                  what every change runs
//   node scripts/test.mjs --all            every test file but those of the night
//   node scripts/test.mjs --rest           of these, what `npm test` does not run
//   node scripts/test.mjs --night          every test file
//   node scripts/test.mjs --unit           what needs nothing but Node.js, with a tenth of its random cases
//   node scripts/test.mjs --since COMMIT   what reaches a file that has changed since then, of all
//   node scripts/test.mjs NAME …           these: the beginning of a path in test, such as http/api
// `--record` writes how long each took to test/times.json. Where more than one file runs, one ClickHouse engine and
// one whole service are started first, for the files that need none of their own (test/support/clickhouse.ts,
// shared-service.ts). Ends with 1 where a file failed, 2 where it was called wrongly.
import { namesOf } from './test-choice.mjs';
import { processorSeconds, recordTimes, runFiles, startShared } from './test-runs.mjs';

const args = process.argv.slice(2);
const isRecorded = args.includes('--record');
const chosen = namesOf(args.filter((arg) => arg !== '--record'));
if ('usage' in chosen) {
  process.stderr.write(`${chosen.usage}\n`);
  process.exit(2);
}
const began = performance.now();
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
const ended = Object.keys(times).length;
process.stdout.write(
  `${ended - failed.length} of ${chosen.names.length} files passed in ${seconds} s, ${busy} s of processor time\n`,
);
for (const name of failed) process.stdout.write(`FAILED ${name}\n`);
process.exitCode = failed.length > 0 || ended < chosen.names.length ? 1 : 0;
