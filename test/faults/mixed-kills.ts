// `npm run test:faults`: kills and stops of every kind, mixed, under load, while the disk fills and empties. At the end
// every event that was acknowledged is counted in ClickHouse: none missing, none twice, none there that was refused
// with `recorded: false`, and no start was refused; no sequence has matched too rarely, and no unit of a budget is lost
// or charged twice (over-time.ts). Meanwhile backups are taken, each restored beside it (backups.ts), and retentions
// are set (aged-rows.ts). The service runs with its data folder on a disk of its own, in a mount namespace; a killed
// supervisor is started again there. `-- --kills N --seed N`. Takes about three seconds a kill. Exit status 1 where
// something is wrong.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createClient } from '@clickhouse/client';
import { HttpClient } from '../../bench/http-client.ts';
import { freePort } from '../../src/embedded/free-port.ts';
import { assetPath } from '../../src/process/assets.ts';
import { randomFrom } from '../support/seed.ts';
import { makeDataDir, serviceEnvironment } from '../support/service.ts';
import { AgedRows } from './aged-rows.ts';
import { Backups, COUNTS } from './backups.ts';
import { OverTime } from './over-time.ts';

const KEY = 'mixed-kills-mixed-kills-mixed-kills';
const DISK_MB = 3_000;
const CLIENTS = 24;
const BATCH_EVENTS = 10;
/** Between two requests of a client: some 5,000 events a second, so that the disk holds what ten minutes bring. */
const PAUSE_MS = 25;
const BACK_MS_MAX = 120_000;
const SETTLE_MS_MAX = 300_000;
const PARTS = ['front-1', 'front-2', 'pipelines', 'clickhouse', 'redis'] as const;
type Kind = (typeof PARTS)[number] | 'supervisor' | 'all' | 'stop';
const KINDS: readonly Kind[] = [...PARTS, ...PARTS, 'redis', 'supervisor', 'supervisor', 'all', 'stop', 'stop'];

type Runtime = {
  pid: number;
  children: Record<string, number>;
  redisUrl: string;
  clickhouseUrl: string;
  clickhouseDatabase: string;
};
type Ledger = { acknowledged: Set<string>; refused: Set<string>; unknown: number };

const { values } = parseArgs({ options: { kills: { type: 'string', default: '200' }, seed: { type: 'string' } } });
const seed = Number(values.seed ?? Date.now() % 2 ** 31);
const random = randomFrom(seed);
const between = (least: number, most: number) => least + random() * (most - least);
const say = (line: string) => process.stdout.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);

const outside = await makeDataDir();
const dataDir = path.join(outside, 'data');
const log = path.join(outside, 'service.log');
mkdirSync(dataDir, { recursive: true, mode: 0o700 });
const port = await freePort();
const looped =
  'mount -t tmpfs -o size=$4m,mode=700 none "$1"; while :; do "$2" "$3" start >> "$5" 2>&1; sleep 0.3; done';
const holder = spawn(
  'unshare',
  ['-rm', 'sh', '-c', looped, 'sh', dataDir, process.execPath, assetPath('build/service/cli.js'), String(DISK_MB), log],
  {
    env: serviceEnvironment({
      ...{
        GATEHOUSE_DATA_DIR: dataDir,
        GATEHOUSE_PORT: String(port),
        GATEHOUSE_BOOTSTRAP_KEY: KEY,
        GATEHOUSE_FRONTS: '2',
      },
      ...{ GATEHOUSE_LOG_LEVEL: 'warn', GATEHOUSE_REQUESTS_PER_SECOND: '100000', GATEHOUSE_REQUESTS_BURST: '100000' },
    }),
    stdio: 'ignore',
    detached: true,
  },
);
const inside = (name: string) => path.join(`/proc/${holder.pid}/root${dataDir}`, name);
const url = `http://127.0.0.1:${port}`;

function runtime(): Runtime | undefined {
  try {
    return JSON.parse(readFileSync(inside('runtime.json'), 'utf8')) as Runtime;
  } catch {
    return undefined;
  }
}

async function isReady(): Promise<boolean> {
  return fetch(`${url}/readyz`, { signal: AbortSignal.timeout(3_000) }).then(
    ({ status }) => status === 200,
    () => false,
  );
}

/** Throws where it does not come back: a start was refused, or something ended for good. */
async function untilBack(): Promise<void> {
  for (const until = performance.now() + BACK_MS_MAX; !(await isReady()); await sleep(200))
    if (performance.now() > until)
      throw new Error(`it is not ready after ${BACK_MS_MAX / 1000} s:\n${readFileSync(log, 'utf8').slice(-3_000)}`);
}

function signal(pid: number | undefined, name: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(pid, name);
  } catch {
    // It has ended already.
  }
}

async function strike(kind: Kind): Promise<void> {
  const now = runtime();
  if (now === undefined) return;
  const children = Object.values(now.children);
  if (kind === 'supervisor') signal(now.pid, 'SIGKILL');
  else if (kind === 'all') for (const pid of [now.pid, ...children]) signal(pid, 'SIGKILL');
  else if (kind === 'stop') {
    const pid = children[Math.floor(random() * children.length)];
    signal(pid, 'SIGSTOP');
    await sleep(between(1_000, 8_000));
    signal(pid, 'SIGCONT');
  } else signal(now.children[kind], 'SIGKILL');
}

/** Fills what is left of the disk, holds it for some seconds, and lets go. */
async function fillAndEmpty(isOver: () => boolean): Promise<number> {
  let times = 0;
  while (!isOver()) {
    await sleep(between(8_000, 16_000));
    for (let i = 0; i < 200 && !isOver(); i++) {
      try {
        writeFileSync(inside('filler'), Buffer.alloc(32 * 2 ** 20), { flag: 'a' });
      } catch {
        break; // to the last byte
      }
      await sleep(5);
    }
    times++;
    await sleep(between(2_000, 6_000));
    rmSync(inside('filler'), { force: true });
  }
  return times;
}

async function submit(
  client: HttpClient,
  agent: string,
  number: number,
  ledger: Ledger,
  isOver: () => boolean,
): Promise<void> {
  for (let round = 0; !isOver(); round++) {
    const markers = Array.from({ length: round % 4 === 0 ? 1 : BATCH_EVENTS }, (_, i) => `m-${number}-${round}-${i}`);
    const events = markers.map((marker) => ({
      type: 'tool_call',
      payload: { marker, tool: 'probe', text: 'x'.repeat(60) },
    }));
    const isOne = events.length === 1;
    const fate = await client
      .send(
        'POST',
        `/v1/agents/${agent}/events${isOne ? '' : '/batch'}`,
        JSON.stringify(isOne ? events[0] : { events }),
      )
      .then(
        ({ status, body }) =>
          status < 300 ? 'acknowledged' : body.includes('"recorded":false') ? 'refused' : 'unknown',
        (error: NodeJS.ErrnoException) => (error.code === 'ECONNREFUSED' ? 'refused' : 'unknown'),
      );
    if (fate === 'unknown') ledger.unknown += markers.length;
    else for (const marker of markers) ledger[fate].add(marker);
    await sleep(PAUSE_MS);
  }
}

async function storedCounts(ledger: Ledger): Promise<Map<string, number>> {
  let counts = new Map<string, number>();
  for (const until = performance.now() + SETTLE_MS_MAX; performance.now() < until; await sleep(4_000)) {
    const now = runtime();
    if (now === undefined) continue; // it could not be written while the disk was full
    const { clickhouseUrl, clickhouseDatabase: database } = now;
    const clickhouse = createClient({ url: clickhouseUrl, database, request_timeout: 30_000 });
    try {
      const before = counts.size;
      counts = new Map();
      for await (const rows of (await clickhouse.query({ query: COUNTS, format: 'JSONEachRow' })).stream<{
        marker: string;
        n: number;
      }>())
        for (const row of rows) {
          const { marker, n } = row.json();
          counts.set(marker, Number(n));
        }
      const isWhole = [...ledger.acknowledged].every((marker) => counts.has(marker));
      say(`${counts.size} stored`);
      if (isWhole && counts.size === before) break;
    } catch (error) {
      say(`not counted yet: ${(error as Error).message.slice(0, 100)}`);
    } finally {
      await clickhouse.close();
    }
  }
  return counts;
}

try {
  say(`seed ${seed}`);
  await untilBack();
  const client = new HttpClient({ url, key: KEY, connections: CLIENTS });
  const agents = await Promise.all(
    Array.from(
      { length: 12 },
      async (_, i) => (await client.json<{ id: string }>('POST', '/v1/agents', { name: `kills-${i}` })).id,
    ),
  );
  const ledger: Ledger = { acknowledged: new Set(), refused: new Set(), unknown: 0 };
  const overTime = new OverTime(client, (fate, marker) => {
    if (fate === 'unknown') ledger.unknown++;
    else ledger[fate].add(marker);
  });
  await overTime.prepare();
  const aged = new AgedRows(url, runtime);
  await aged.prepare();
  const backups = new Backups({
    ...{ holder: holder.pid!, dataDir, to: path.join(outside, 'backups'), key: KEY, say },
    acknowledged: ledger.acknowledged,
  });
  let over = false;
  const isOver = () => over;
  const clients = Array.from({ length: CLIENTS }, (_, i) =>
    submit(client, agents[i % agents.length]!, i, ledger, isOver),
  );
  const working = [overTime.run(isOver), aged.run(isOver), backups.run(isOver)];
  const filling = fillAndEmpty(isOver);
  const kills = Number(values.kills);
  for (let k = 1; k <= kills; k++) {
    await sleep(between(500, 3_500));
    const kind = KINDS[Math.floor(random() * KINDS.length)]!;
    await strike(kind);
    if (k % 10 === 0) {
      say(
        `${k}/${kills}: ${ledger.acknowledged.size} acknowledged, ${ledger.refused.size} refused, ${ledger.unknown} unknown`,
      );
    }
  }
  over = true;
  const filled = await filling;
  await Promise.all([...clients, ...working]);
  await untilBack();
  const counts = await storedCounts(ledger);
  const { matched, charged, ...charges } = await overTime.verify();
  const [{ restored, refused, ...copies }, { wrong: ofAged, ...kept }] = [backups.verify(), await aged.verify()];
  const wrong = [...charges.wrong, ...copies.wrong, ...ofAged];
  client.close();
  const missing = [...ledger.acknowledged].filter((marker) => !counts.has(marker));
  const twice = [...counts].filter(([, count]) => count > 1);
  const ghosts = [...ledger.refused].filter((marker) => counts.has(marker));
  const ended = readFileSync(log, 'utf8').match(/^gatehouse: .*$/gm) ?? [];
  // What ended a start. On a disk without a byte one ends, and the service manager tries again; and a child may be
  // killed while it starts.
  const refusals = ended.filter((line) => !/warning:|ENOSPC|ended (?:with|by) SIGKILL/.test(line));
  say(
    JSON.stringify({
      ...{ kills, filled, acknowledged: ledger.acknowledged.size, stored: counts.size, unknown: ledger.unknown },
      ...{ missing: missing.length, twice: twice.length, ghosts: ghosts.length, refusedStarts: refusals.length },
      ...{ matched, charged, restored, backupsRefused: refused, ...kept, wrong: wrong.length },
    }),
  );
  for (const line of [...refusals.slice(0, 5), ...wrong.slice(0, 5)]) say(line.slice(0, 300));
  if (missing.length + twice.length + ghosts.length + refusals.length + wrong.length > 0) {
    say(
      `missing ${missing.slice(0, 5).join()}, twice ${twice.slice(0, 5).join()}, ghosts ${ghosts.slice(0, 5).join()}`,
    );
    process.exitCode = 1;
  }
} catch (error) {
  say(String((error as Error).stack));
  process.exitCode = 1;
} finally {
  const last = runtime();
  holder.kill('SIGKILL');
  signal(last?.pid, 'SIGTERM');
  await Promise.race([once(holder, 'exit'), sleep(1_000)]);
  for (let i = 0; i < 300 && last !== undefined && isAlive(last.pid); i++) await sleep(100);
  await rm(outside, { recursive: true, force: true }).catch(() => undefined);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
