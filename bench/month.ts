// A service with a month of events inside its ClickHouse, for the lines that read (query, dashboard): `events` of a
// thousand agents (history.ts), written straight in; merges are waited for, up to ten minutes, not forced.
// With `data` the service's folder is kept, and taken up again where it is for as many events, also where a run that
// was ended has written only some of them; without it goes with the line.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { launchService, type TestService } from '../test/support/service.ts';
import { whenEnded } from './ending.ts';
import { type History, type HistoryPlan, writeHistory } from './history.ts';
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
  const { month: kept, begun } = keptIn(options);
  const key = (kept ?? begun)?.key;
  const env = { GATEHOUSE_FRONTS: '1', GATEHOUSE_QUERY_TIMEOUT_SECONDS: '60' };
  const service =
    options.data === undefined
      ? await startBenchService(env)
      : await launchKept({
          dataDir: options.data,
          env: { GATEHOUSE_LOG_LEVEL: 'warn', ...env, ...(key && { GATEHOUSE_BOOTSTRAP_KEY: key }) },
        });
  const { clickhouseUrl, clickhouseDatabase } = await service.addresses();
  const clickhouse = new RecordingClickHouse({ url: clickhouseUrl, database: clickhouseDatabase });
  try {
    const month = kept ?? (await makeMonth(service, clickhouse, { ...options, begun }));
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

/** The facts that are kept with a folder: of a whole month, and of one that was begun. */
type Month = { key: string; account: string; history: History; seconds: number };
type Begun = HistoryPlan & { key: string };
const monthFile = (folder: string) => path.join(folder, 'month.json');
const begunFile = (folder: string) => path.join(folder, 'begun.json');

/** Neither: the month has to be made. */
function keptIn({ events, data }: MonthOptions): { month?: Month; begun?: Begun } {
  if (data === undefined) return {};
  mkdirSync(data, { recursive: true });
  const check = (held: number) => {
    if (held !== events) throw new Error(`${data} is for ${held} events, not ${events}`);
  };
  if (existsSync(monthFile(data))) {
    const month = JSON.parse(readFileSync(monthFile(data), 'utf8')) as Month;
    check(month.history.events);
    return { month };
  }
  if (existsSync(begunFile(data))) {
    const begun = JSON.parse(readFileSync(begunFile(data), 'utf8')) as Begun;
    check(begun.events);
    return { begun };
  }
  if (readdirSync(data).length > 0) throw new Error(`${data} holds something, but no month of this line`);
  return {};
}

async function makeMonth(
  service: TestService,
  recording: RecordingClickHouse,
  { events, data, begun }: MonthOptions & { begun: Begun | undefined },
): Promise<Month> {
  const plan = begun ?? {
    key: service.key,
    account: await defaultAccount(service),
    agents: await makeAgents(service, MONTH_AGENTS),
    events,
    toMs: Date.now(),
  };
  if (data !== undefined) writeFileSync(begunFile(data), JSON.stringify(plan));
  const started = performance.now();
  const { found, ...history } = await writeHistory(recording, plan);
  // Of all of them, at the rate of those that were written now.
  const seconds = ((performance.now() - started) / 1000) * (events / (events - found));
  const month = { key: plan.key, account: plan.account, history, seconds };
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
