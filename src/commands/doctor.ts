// `gatehouse doctor`: is everything there that Gatehouse needs? A line for each thing: a yes with what was found, or
// what to do. Works with the settings as a start would take them: on stores of your own, or on the data folder, beside
// a Gatehouse that runs there or without one (the engines then do not run, and their lines say so).
// Invariant: it changes nothing, and no value of a secret setting is shown. A bad setting ended the command before
// (config.ts).
// Failure: what cannot be found out is a no with the reason; each question has a bound, so it ends within seconds.
// Status 1: a no.
import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { schemaFault } from '../../clickhouse/schema-state.ts';
import { diskSpace } from '../common/disk-space.ts';
import { clickhouseReady, makeClickHouse, makeCommands, makeKeys, redisReady } from '../composition/clients.ts';
import { isFileLocked } from '../embedded/file-lock.ts';
import { checkRedisProgram } from '../embedded/redis-server.ts';
import { type Runtime, StateDir } from '../embedded/state-dir.ts';
import { chooseTransport } from '../http/transport/choose.ts';
import { readAsset } from '../process/assets.ts';
import { type Config, environmentWith, givenSettings } from '../process/config.ts';
import { userFacingMessage } from '../process/report-failure.ts';
import { type Commands, mastersOf } from '../redis/client.ts';
import { readDurability } from '../redis/durability.ts';
import { presenceOf } from '../registry/recovery/presence.ts';
import { clickhouseFault } from '../stores/faults.ts';
import type { Command } from './context.ts';

type Diagnosis = { what: string; ok: boolean; found: string; cure?: string };

/** Below a gigabyte ClickHouse merges no more large parts, and Redis cannot write its file again. */
const DISK_FREE_BYTES_MIN = 2 ** 30;
const DISK_FREE_SHARE_MIN = 0.05;
/** Identifiers, windows and retention go by clocks; within this much nothing is seen of it. */
const CLOCK_MS_MAX = 1_000;
const STORE_WAIT_MS_MAX = 3_000;
const GIB = 2 ** 30;

export const doctor: Command = async ({ config, options, print }) => {
  if (options['repair'] === true) {
    (await import('./repair.ts')).repair(config, print);
    return;
  }
  const findings = await examine(config);
  const isWell = findings.every(({ ok }) => ok);
  if (options['json'] === true) print(JSON.stringify({ ok: isWell, findings }));
  else for (const finding of findings) print(lineOf(finding));
  if (!isWell) process.exitCode = 1;
};

function lineOf({ what, ok, found, cure }: Diagnosis): string {
  return `${ok ? 'yes' : 'NO '}  ${what.padEnd(24)} ${found}${cure === undefined ? '' : `\n     ${''.padEnd(24)} ${cure}`}`;
}

async function examine(config: Config): Promise<Diagnosis[]> {
  const state = new StateDir(config.dataDir);
  const needsEngines = config.redisUrl === undefined || config.clickhouseUrl === undefined;
  const runtime = needsEngines ? state.readRuntime() : undefined;
  const full: Config = {
    ...config,
    ...(config.redisUrl === undefined && runtime !== undefined
      ? {
          redisUrl: runtime.redisUrl,
          redisCluster: runtime.redisCluster,
          redisPrefix: runtime.redisPrefix,
          partitions: runtime.partitions,
        }
      : {}),
    ...(config.clickhouseUrl === undefined && runtime !== undefined
      ? { clickhouseUrl: runtime.clickhouseUrl, clickhouseDatabase: runtime.clickhouseDatabase }
      : {}),
  };
  return [
    settings(),
    await versions(config),
    ...(needsEngines ? [await programs(config)] : []),
    ...(await dataFolder(state, runtime)),
    ...(await redis(full, config.redisUrl === undefined)),
    ...(await clickhouse(full)),
  ];
}

function settings(): Diagnosis {
  const given = givenSettings();
  return {
    what: 'settings',
    ok: true,
    found: given.length === 0 ? 'none given: the defaults hold' : `given: ${given.join(', ')}`,
  };
}

async function versions(config: Config): Promise<Diagnosis> {
  const { version } = JSON.parse(readAsset('package.json')) as { version: string };
  let line = '';
  const hear = (fields: object) => {
    line = String((fields as { reason?: unknown }).reason ?? '');
  };
  const log = { error: hear, warn: hear, info: hear, debug: hear, child: () => log, isLevelEnabled: () => true };
  try {
    const { name } = await chooseTransport(config, log);
    const why = line === '' ? '' : ` (${line})`;
    return {
      what: 'versions',
      ok: true,
      found: `Gatehouse ${version}, Node.js ${process.version}, HTTP server ${name}${why}`,
    };
  } catch (error) {
    return no(
      'versions',
      userFacingMessage(error) ?? String(error),
      'GATEHOUSE_HTTP_SERVER=auto takes the one that loads here',
    );
  }
}

async function programs(config: Config): Promise<Diagnosis> {
  try {
    if (config.redisUrl === undefined) await checkRedisProgram(environmentWith());
    await promisify(execFile)('flock', ['--version']);
    return { what: 'programs', ok: true, found: config.redisUrl === undefined ? 'redis-server, flock' : 'flock' };
  } catch (error) {
    const cure = 'npm start installs redis-server where it runs as root; flock comes with the package util-linux';
    return no('programs', userFacingMessage(error) ?? (error as Error).message, cure);
  }
}

async function dataFolder(state: StateDir, runtime: Runtime | undefined): Promise<Diagnosis[]> {
  const isThere = await stat(state.path).then(
    (found) => found.isDirectory(),
    () => false,
  );
  const place = isThere ? state.path : path.dirname(state.path);
  const held = isThere && isFileLocked(state.file('lock'));
  const whose =
    runtime !== undefined
      ? `a Gatehouse runs on it (process ${runtime.pid})`
      : held
        ? 'in use by a Gatehouse'
        : 'nobody uses it';
  const found: Diagnosis = {
    what: 'data folder',
    ok: true,
    found: `${state.path}: ${isThere ? whose : 'not there yet, a start makes it'}`,
  };
  try {
    await access(place, constants.R_OK | constants.W_OK | constants.X_OK);
    return [found, await disk(place)];
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'error';
    return [
      no(
        'data folder',
        `${place} cannot be written (${code})`,
        'GATEHOUSE_DATA_DIR names another, or give it to this user',
      ),
    ];
  }
}

async function disk(folder: string): Promise<Diagnosis> {
  const { free, size } = await diskSpace(folder);
  const found = `${(free / GIB).toFixed(1)} of ${(size / GIB).toFixed(1)} GiB free`;
  if (free >= DISK_FREE_BYTES_MIN && free >= size * DISK_FREE_SHARE_MIN) return { what: 'disk', ok: true, found };
  return no('disk', found, 'make room, or lower GATEHOUSE_RETENTION_DAYS: a full disk stops all writing');
}

async function redis(config: Config, isEmbedded: boolean): Promise<Diagnosis[]> {
  if (config.redisUrl === undefined) return [notRunning('Redis')];
  const client = makeCommands(config);
  try {
    await redisReady(config, client, { waitMs: STORE_WAIT_MS_MAX, say: () => undefined });
    return [
      { what: 'Redis', ok: true, found: await redisVersions(client) },
      ...(isEmbedded ? [] : [await durability(config, client)]),
      await registry(config, client),
      await clock('Redis', async () => {
        const [seconds, micros] = (await mastersOf(client)[0]!.time()) as unknown as [string | number, string | number];
        return Number(seconds) * 1000 + Number(micros) / 1000;
      }),
    ];
  } catch (error) {
    return [
      no(
        'Redis',
        userFacingMessage(error) ?? (error as Error).message,
        'docs/own-stores.md says what Gatehouse needs of it',
      ),
    ];
  } finally {
    client.disconnect();
  }
}

async function redisVersions(client: Commands): Promise<string> {
  const infos = await Promise.all(mastersOf(client).map((node) => node.info('server').catch(() => '')));
  const found = new Set(infos.map((info) => /^redis_version:(\S+)/m.exec(info)?.[1] ?? 'unknown'));
  return `version ${[...found].join(', ')}, ${infos.length === 1 ? 'one master' : `${infos.length} masters`}`;
}

async function durability(config: Config, client: Commands): Promise<Diagnosis> {
  const what = 'Redis keeps events';
  const { unsafe, weak, unread } = await readDurability(client);
  if (unsafe.length === 0) {
    const notes = [...weak, ...unread];
    return { what, ok: true, found: notes.length === 0 ? 'appendonly yes, noeviction' : notes.join('; ') };
  }
  const cure =
    'set it in redis.conf and by CONFIG SET; GATEHOUSE_ALLOW_UNSAFE_REDIS=1 allows it for data that may be lost';
  return config.allowUnsafeRedis
    ? { what, ok: true, found: `allowed: ${unsafe.join('; ')}` }
    : no(what, unsafe.join('; '), cure);
}

async function registry(config: Config, client: Commands): Promise<Diagnosis> {
  const { state } = await presenceOf({ redis: client, keys: makeKeys(config) });
  if (state === 'there') return { what: 'registry', ok: true, found: 'in Redis' };
  if (state === 'empty')
    return no(
      'registry',
      'there is none',
      '"gatehouse account create NAME" begins one; "gatehouse registry restore" brings a lost one back',
    );
  return no('registry', 'parts of it are missing', '"gatehouse registry restore" brings them back from ClickHouse');
}

async function clickhouse(config: Config): Promise<Diagnosis[]> {
  if (config.clickhouseUrl === undefined) return [notRunning('ClickHouse')];
  const client = makeClickHouse(config);
  try {
    await clickhouseReady(config, { waitMs: STORE_WAIT_MS_MAX, say: () => undefined });
    const fault = await schemaFault(client);
    if (fault !== undefined) return [no('ClickHouse', fault, '"gatehouse migrate" brings the tables up to date')];
    const [row] = await client.query<{ version: string }>('SELECT version() AS version');
    return [
      {
        what: 'ClickHouse',
        ok: true,
        found: `version ${row?.version}, database ${config.clickhouseDatabase}, tables up to date`,
      },
      await clock('ClickHouse', () => clickhouseTime(client)),
    ];
  } catch (error) {
    const said = userFacingMessage(error) ?? (error as Error).message;
    const { kind } = clickhouseFault(error);
    return [
      no(
        'ClickHouse',
        said,
        kind === 'credentials'
          ? 'GATEHOUSE_CLICKHOUSE_URL holds user and password'
          : 'docs/own-stores.md says what Gatehouse needs of it',
      ),
    ];
  } finally {
    await client.close();
  }
}

async function clickhouseTime(client: ClickHouse): Promise<number> {
  const [row] = await client.query<{ ms: number }>('SELECT toUnixTimestamp64Milli(now64(3)) AS ms');
  return Number(row?.ms);
}

/** Half of the time that the question took is taken for its way there. */
async function clock(name: string, ask: () => Promise<number>): Promise<Diagnosis> {
  const what = `clock of ${name}`;
  const askedMs = Date.now();
  const thereMs = await ask();
  const offMs = Math.round(thereMs - (askedMs + Date.now()) / 2);
  const found = `${Math.abs(offMs)} ms ${offMs < 0 ? 'behind' : 'ahead of'} this machine's`;
  return Math.abs(offMs) <= CLOCK_MS_MAX ? { what, ok: true, found } : no(what, found, 'let NTP set both clocks');
}

function notRunning(what: string): Diagnosis {
  return no(what, 'no address is given, and no Gatehouse runs on the data folder', 'npm start, or set the address');
}

function no(what: string, found: string, cure: string): Diagnosis {
  return { what, ok: false, found, cure };
}
