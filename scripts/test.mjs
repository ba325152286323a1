// `npm test`: every test file by the runner, three at a time (package.json). Arguments go to the runner; where files
// are named, each starts what it needs. Else one ClickHouse engine and one whole service are started first, for the
// files that need none of their own (test/support/clickhouse.ts, shared-service.ts): a file makes databases or an
// account of its own in them.
// Ends with the runner's exit status; what was started here is ended here.
import { startShared, tap } from './test-runs.mjs';

const args = process.argv.slice(2);
if (args.some((arg) => !arg.startsWith('-'))) process.exitCode = await tap(args);
else {
  const shared = await startShared();
  try {
    process.exitCode = await tap(args, shared.env);
  } finally {
    await shared.stop();
  }
}
