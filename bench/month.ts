// A service with a month of events inside its ClickHouse, for the lines that read (query, dashboard): `events` of a
// thousand agents (history.ts), written straight in; merges are waited for, up to ten minutes, not forced.
// With `data` the service's folder is kept, and taken up again where it holds as many events; without it goes with the
// line.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { launchService, type TestService } from '../test/support/service.ts';
import { whenEnded } from './ending.ts';
import { type History, writeHistory } from './history.ts';
import { RecordingClickHouse } from './recording-clickhouse.ts';
import { startBenchService } from './service.ts';
import { defaultAccount, makeAgents } from './setup.ts';

export const MONTH_AGENTS = 1_000;
const MERGE_MS_MAX = 10 * 60_000;

export type MonthOptions = { events: number; data?: string | undefined };

export type OnMonth = Omit<Month, 'key'> & {
  service: TestService;
  /** On the service's ClickHouse; the line closes it, and stops the service. */
  clickhouse: RecordingClickHouse;
  /** How merging ended, as a sentence's part. */
  merged: string;
};

/** One front. */
export async function startOnMonth(options: MonthOptions): Promise<OnMonth> {
  const kept = keptIn(options);
  const env = { GATEHOUSE_FRONTS: '1', GATEHOUSE_QUERY_TIMEOUT_SECONDS: '60' };
  const service =
    options.data === undefined
      ? await startBenchService(env)
      : await launchKept({
          dataDir: options.data,
          env: { GATEHOUSE_LOG_LEVEL: 'warn', ...env, ...(kept && { GATEHOUSE_BOOTSTRAP_KEY: kept.key }) },
        });
  const { clickhouseUrl, clickhouseDatabase } = await service.addresses();
  const clickhouse = new RecordingClickHouse({ url: clickhouseUrl, database: clickhouseDatabase });
  try {
    const month = kept ?? (await makeMonth(service, clickhouse, options));
    return { ...month, service, clickhouse, merged: await whenMerged(clickhouse) };
  } catch (error) {
    await clickhouse.close();
    await service.stop();
    throw error;
  }
}

/** Its folder stays. */
function launchKept(options: Parameters<typeof launchService>[0]): Promise<TestService> {
  return launchService({ ...options, onSpawn: whenEnded });
}

/** What has to be known of a folder that was kept. */
type Month = { key: string; account: string; history: History; seconds: number };
const monthFile = (folder: string) => path.join(folder, 'month.json');

/** Undefined: the month has to be made. */
function keptIn({ events, data }: MonthOptions): Month | undefined {
  if (data === undefined) return undefined;
  mkdirSync(data, { recursive: true });
  if (!existsSync(monthFile(data))) {
    if (readdirSync(data).length > 0) throw new Error(`${data} holds something, but not a whole month of this line`);
    return undefined;
  }
  const month = JSON.parse(readFileSync(monthFile(data), 'utf8')) as Month;
  if (month.history.events !== events) throw new Error(`${data} holds ${month.history.events} events, not ${events}`);
  return month;
}

async function makeMonth(
  service: TestService,
  recording: RecordingClickHouse,
  { events, data }: MonthOptions,
): Promise<Month> {
  const agents = await makeAgents(service, MONTH_AGENTS);
  const account = await defaultAccount(service);
  const started = performance.now();
  const history = await writeHistory(recording, { account, agents, events });
  const month = { key: service.key, account, history, seconds: (performance.now() - started) / 1000 };
  if (data !== undefined) writeFileSync(monthFile(data), JSON.stringify(month));
  return month;
}

/** Says how it ended: a read is judged by how many parts it has to look into. */
async function whenMerged(clickhouse: RecordingClickHouse): Promise<string> {
  const started = performance.now();
  let quiet = 0;
  while (quiet < 3 && performance.now() - started < MERGE_MS_MAX) {
    await sleep(2_000);
    const [merges] = await clickhouse.query<{ n: number }>('SELECT count() AS n FROM system.merges');
    quiet = merges?.n === 0 ? quiet + 1 : 0;
  }
  const [parts] = await clickhouse.query<{ n: number; bytes: number; rows: number }>(
    "SELECT count() AS n, sum(bytes_on_disk) AS bytes, sum(rows) AS rows FROM system.parts WHERE active AND table = 'events' AND database = currentDatabase()",
  );
  const seconds = Math.round((performance.now() - started) / 1000);
  const perRow = ((parts?.bytes ?? 0) / (parts?.rows ?? 1)).toFixed(0);
  return `merges ${quiet < 3 ? 'still going on' : 'done'} after ${seconds} s, ${parts?.n} parts, ${perRow} bytes of disk a row with indexes and projections`;
}
