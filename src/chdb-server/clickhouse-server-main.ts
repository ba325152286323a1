// The process of the embedded ClickHouse: `node clickhouse-server-main.js '{"path":"./data/clickhouse","port":0}'`.
// Its arguments, signals and exit statuses are in README.md beside it.
// Invariant: the process ends when its parent has died, so that no orphan keeps the directory locked.
// Failure: one sentence as the last line on stderr (the engine may have written before it), and an exit status.
import { once } from 'node:events';
import { type ClickHouseServer, type ClickHouseServerOptions, runClickHouseServer } from './clickhouse-server.ts';
import { DataDirectoryError } from './data-directory-error.ts';

const EXIT_FAILED = 1;
const EXIT_REFUSED = 3;

async function main(): Promise<void> {
  const forked = process.connected;
  let leaving = false;
  const replace = () => {
    process.stderr.write('a projection is damaged; its part is loaded again without it\n');
    leave(EXIT_FAILED);
  };
  let server: ClickHouseServer;
  try {
    server = await runClickHouseServer(readOptions(process.argv[2] ?? (await firstMessage())), replace);
  } catch (error) {
    process.stderr.write(`${(error as Error).message.replace(/\s+/g, ' ')}\n`);
    process.exit(error instanceof DataDirectoryError ? EXIT_REFUSED : EXIT_FAILED);
  }
  const leave = (exitStatus = 0) => {
    if (leaving) return;
    leaving = true;
    server.close().then(
      () => process.exit(exitStatus),
      (error: unknown) => {
        process.stderr.write(`${(error as Error).message}\n`);
        process.exit(EXIT_FAILED);
      },
    );
  };
  process
    .on('SIGTERM', () => leave())
    .on('SIGINT', () => leave())
    .on('disconnect', () => leave());
  if (forked && !process.connected) return leave(); // the parent died while we started
  process.stdout.write(`${JSON.stringify({ ready: true, port: server.port })}\n`);
}

async function firstMessage(): Promise<string | undefined> {
  return process.channel ? JSON.stringify((await once(process, 'message'))[0]) : undefined;
}

function readOptions(text: string | undefined): ClickHouseServerOptions {
  const options = JSON.parse(text ?? '{}') as Partial<ClickHouseServerOptions>;
  if (typeof options.path !== 'string' || typeof options.port !== 'number')
    throw new Error('usage: clickhouse-server-main {"path": "…", "port": N}');
  return options as ClickHouseServerOptions;
}

await main();
