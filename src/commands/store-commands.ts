// `gatehouse migrate` and `gatehouse registry restore`: the tables made as they must be, with the account `default` in
// a Redis that has none, and the registry made again from them. Migrating is safe at any time and beside others that do
// the same. Restoring is for a Redis that was emptied; it refuses one that has lost nothing, so that an old copy never
// covers what is in force; one that was put back to an earlier state is brought forward. A running service continues by
// itself after it.
import { existsSync } from 'node:fs';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { pendingApprovals, rowRevisions } from '../../clickhouse/queries/list-approvals.ts';
import { pendingDeliveries } from '../../clickhouse/queries/list-deliveries.ts';
import { registrySnapshot } from '../../clickhouse/queries/registry-snapshot.ts';
import {
  clickhouseReady,
  knownRegistry,
  makeClickHouse,
  makeCommands,
  makeKeys,
  migrateTables,
  prepareStores,
  redisReady,
  STORES_READY_MS_MAX,
} from '../composition/clients.ts';
import { StateDir } from '../embedded/state-dir.ts';
import { Supervisor } from '../embedded/supervisor.ts';
import { Metrics } from '../metrics/metrics.ts';
import type { Config } from '../process/config.ts';
import { Service } from '../process/lifecycle.ts';
import { createLog } from '../process/log.ts';
import { userFacingMessage, writeToTerminal } from '../process/report-failure.ts';
import type { RegistryStore } from '../registry/commit.ts';
import { bringForward } from '../registry/recovery/recovery.ts';
import { rebuildRegistry } from '../registry/recovery/restore.ts';
import { restoreApprovals } from '../registry/recovery/restore-approvals.ts';
import { restoreDeliveries } from '../registry/recovery/restore-deliveries.ts';
import { type Command, withAddresses } from './context.ts';

export const migrateCommand: Command = async ({ config, print }) => {
  const given = config.clickhouseUrl === undefined ? withAddresses(config) : config;
  const say = writeToTerminal;
  const done = (applied: string[]) =>
    print(applied.length === 0 ? 'the tables are up to date' : `applied ${applied.join(', ')}`);
  if (given.redisUrl === undefined) return done(await migrateTables(given, { redis: undefined, say }));
  const redis = makeCommands(given);
  try {
    await redisReady(given, redis, { waitMs: STORES_READY_MS_MAX, say });
    const { applied, isNew, key } = await prepareStores(given, redis, say);
    done(applied);
    if (!isNew) return;
    print(
      `made the account default; its admin key ${key === undefined ? 'is the bootstrap key' : shownOrKept(key, given)}`,
    );
  } finally {
    redis.disconnect();
  }
};

/** The key, or where it is kept: jobs may log the output, so without a terminal it goes where its owner alone reads. */
function shownOrKept(key: string, { dataDir }: Config): string {
  if (process.stdout.isTTY) return `(shown this once): ${key}`;
  try {
    return `is kept in ${new StateDir(dataDir).keepAdminKey(key).file}`;
  } catch (error) {
    const why = userFacingMessage(error);
    if (why === undefined) throw error;
    return `could not be kept (${why}); "gatehouse key create" makes another`;
  }
}

export const registryRestore: Command = async (context) => {
  await withEngines(context.config, async (config) => {
    const redis = makeCommands(config);
    const clickhouse = makeClickHouse(config);
    try {
      const waiting = { waitMs: STORES_READY_MS_MAX, say: writeToTerminal };
      await Promise.all([redisReady(config, redis, waiting), clickhouseReady(config, waiting)]);
      const store = { redis, keys: makeKeys(config) };
      const recovered = await bringForward(store, knownRegistry(clickhouse));
      if (recovered > 0) context.print(`brought forward: ${recovered} changes that Redis had forgotten`);
      else context.print(`restored ${JSON.stringify(await rebuildFromTables(store, clickhouse))}`);
    } finally {
      redis.disconnect();
      await clickhouse.close();
    }
  });
};

/** In a Redis that has lost its registry, or never had one. Answers how much of each kind there is. */
export async function rebuildFromTables(store: RegistryStore, clickhouse: ClickHouse): Promise<Record<string, number>> {
  let [approval, delivery] = [0, 0];
  const counts = await rebuildRegistry(registrySnapshot(clickhouse), store, {
    async beside(isLost) {
      delivery = await restoreDeliveries(store, pendingDeliveries(clickhouse), isLost);
      const rows = { approvals: pendingApprovals(clickhouse), revisions: await rowRevisions(clickhouse) };
      approval = await restoreApprovals(store, rows, isLost);
    },
  });
  return { ...counts, approval, delivery };
}

/**
 * With the engines that are given, or that run on the data folder; otherwise with those of the data folder, started for
 * this alone: `gatehouse start` refuses to run on a Redis that has lost its registry.
 */
async function withEngines(config: Config, use: (config: Config) => Promise<void>): Promise<void> {
  const state = new StateDir(config.dataDir);
  const isGiven = config.redisUrl !== undefined && config.clickhouseUrl !== undefined;
  if (isGiven || state.readRuntime() !== undefined || !existsSync(state.file('clickhouse'))) {
    return use(withAddresses(config));
  }
  const log = createLog({ level: 'error', processName: 'restore' });
  const supervisor = new Supervisor({
    config,
    log,
    metrics: new Metrics({ processName: 'restore' }),
    prepareStores: async () => ({}),
  });
  const engines = new Service(supervisor.engineParts, log);
  await engines.start();
  try {
    await use(supervisor.config);
  } finally {
    await engines.stop();
  }
}
