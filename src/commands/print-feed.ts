// `gatehouse feed --cursor FILE`: writes the feed of an account to standard output, a line of JSON for each row, over
// the API of a service (GATEHOUSE_URL, GATEHOUSE_API_KEY; docs/feed.md).
// Invariant: the cursor is put into the file once the rows before it have left this process; so one that is started
// again writes the last page again rather than leave any out. The file is replaced whole.
// Failure: a service that is away or overloaded is asked again, for ever, and standard error says so; what it refuses
// (a cursor that is too old, a key) ends the command with that sentence.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { exactJson } from '../common/exact-json.ts';
import { ask, type Options, ServiceRefused } from './ask-service.ts';
import { UsageError } from './context.ts';

type Page = { items: object[]; cursor: string; has_more: boolean };

const WAIT_SECONDS = 30;
const RETRY_MS = 5_000;

export async function printFeed(options: Options): Promise<number> {
  const { cursor: file, topics, once } = options;
  if (typeof file !== 'string') throw new UsageError('--cursor FILE is missing: where the place is kept');
  let cursor = keptIn(file);
  for (;;) {
    const query = new URLSearchParams(once === true ? {} : { wait: String(WAIT_SECONDS) });
    if (cursor !== undefined) query.set('after', cursor);
    if (typeof topics === 'string') query.set('topics', topics);
    const page = await pageOf(options, query);
    for (const item of page.items) await written(`${exactJson(item)}\n`);
    keep(file, page.cursor);
    cursor = page.cursor;
    if (once === true && !page.has_more) return 0;
  }
}

async function pageOf(options: Options, query: URLSearchParams): Promise<Page> {
  for (;;) {
    try {
      const page = (await ask(options, 'GET', `/v1/feed?${query}`)).body as Page | undefined;
      if (!Array.isArray(page?.items)) throw new ServiceRefused('what answers is not the feed');
      return page;
    } catch (error) {
      const { status = 503 } = error as ServiceRefused;
      if (!(error instanceof ServiceRefused) || (status < 500 && status !== 429)) throw error;
      process.stderr.write(`gatehouse: ${error.message}; it is asked again\n`);
      await sleep(RETRY_MS);
    }
  }
}

function written(line: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(line, (error) => (error ? reject(error) : resolve()));
  });
}

function keptIn(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new UsageError(`--cursor ${file}: ${(error as Error).message}`);
  }
}

function keep(file: string, cursor: string): void {
  writeFileSync(`${file}.new`, `${cursor}\n`, { mode: 0o600, flush: true });
  renameSync(`${file}.new`, file);
}
