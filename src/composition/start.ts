// `gatehouse start`: the supervisor as a process, and what it does to the stores before any worker runs.
// It is between the command line and embedded/supervisor.ts. Loads neither the front nor the pipelines: those are
// children.
// Invariant: standard output is for people, the log goes to standard error. No key is printed where no terminal is.
// Failure: what a person can mend ends the start with one sentence, anything else with the error in the log.
import { registryRevisions } from '../../clickhouse/queries/registry-revisions.ts';
import { outboxNotice, outboxWarning } from '../egress/mail-transport.ts';
import { Supervisor } from '../embedded/supervisor.ts';
import { Metrics } from '../metrics/metrics.ts';
import { type Config, describeConfig, secretsIn } from '../process/config.ts';
import { runProcess, Service } from '../process/lifecycle.ts';
import { createLog } from '../process/log.ts';
import { reportFailure, writeToTerminal } from '../process/report-failure.ts';
import type { Commands } from '../redis/client.ts';
import { readDurability } from '../redis/durability.ts';
import { isHistoryExpected } from '../registry/recovery/history.ts';
import { StoreError } from '../stores/faults.ts';
import { unsafeSentence } from '../stores/redis-watch.ts';
import {
  clickhouseReady,
  makeClickHouse,
  makeCommands,
  makeKeys,
  prepareStores,
  redisReady,
  STORES_READY_MS_MAX,
} from './clients.ts';

export async function runStart(config: Config): Promise<void> {
  const log = createLog({
    level: config.logLevel,
    format: config.logFormat,
    processName: 'supervisor',
    secrets: secretsIn(config),
  });
  const metrics = new Metrics({ processName: 'supervisor', kind: 'supervisor', gather: () => supervisor.gather() });
  const supervisor = new Supervisor({
    config,
    log,
    metrics,
    prepareStores: (full) => prepareSafeStores(full, config.redisUrl !== undefined),
    mendCopiedFolder: async (full, to) => {
      const startedMs = Date.now();
      await (await import('./copied-folder.ts')).mendCopiedFolder(full, to, startedMs);
    },
  });
  log.info({ settings: describeConfig(config) }, 'process.starting');
  const scattered = outboxWarning(config);
  if (scattered !== undefined) log.warn(scattered, 'mail.outbox_of_this_machine');
  await runProcess({
    service: new Service(supervisor.parts, log),
    log,
    // Its fronts wait so long before they drain.
    leavingMs: config.drainSeconds * 1000,
    onReady: () => process.stdout.write(`${supervisor.notice(process.stdout.isTTY === true)}${outboxNotice(config)}`),
    onStartFailed: (error) => reportFailure(error, log),
    onKilled: () => supervisor.abandon(),
  });
}

/** Tables as they must be, and the account `default`; its first admin key if it was made just now. */
async function prepareSafeStores(config: Config, ownRedis: boolean): Promise<{ key?: string | undefined }> {
  const redis = makeCommands(config);
  try {
    const waiting = { waitMs: STORES_READY_MS_MAX, say: writeToTerminal };
    await Promise.all([redisReady(config, redis, waiting), clickhouseReady(config, waiting)]);
    const { unsafe, weak, unread } = await readDurability(redis);
    if (unsafe.length > 0 && !config.allowUnsafeRedis) throw new StoreError(unsafeSentence(unsafe));
    // The embedded one is synced from outside.
    for (const warning of ownRedis ? [...unsafe, ...weak, ...unread] : []) writeToTerminal(`warning: ${warning}`);
    const { key } = await prepareStores(config, redis, writeToTerminal);
    await warnOfLostHistory(config, redis);
    return { key };
  } finally {
    redis.disconnect();
  }
}

/** The fronts give ClickHouse the registry again; what was stored of events is gone. */
async function warnOfLostHistory(config: Config, redis: Commands): Promise<void> {
  const clickhouse = makeClickHouse(config);
  try {
    const isGone = (await registryRevisions(clickhouse)).size === 0;
    if (isGone && (await isHistoryExpected({ redis, keys: makeKeys(config) })))
      writeToTerminal(
        'warning: ClickHouse holds nothing of the history that Redis belongs to: events and audit entries of before are not there (history_missing). ' +
          'Agents, policies and keys are written to it again. If a backup of it is to be restored, stop now.',
      );
  } finally {
    await clickhouse.close();
  }
}
