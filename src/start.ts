// `gatehouse start`: the supervisor as a process, and what it does to the stores before any worker runs.
// Stands between the command line and embedded/supervisor.ts. Loads neither the front nor the pipelines: those are children.
// Invariant: standard output is for people, the log goes to standard error.
// Failure: what a person can mend ends the start with one sentence, anything else with the error in the log.
import { registrySnapshot } from '../clickhouse/queries/registry-snapshot.ts';
import { type Config, describeConfig, secretsIn } from './config.ts';
import { StartError, Supervisor } from './embedded/supervisor.ts';
import { runProcess, Service } from './lifecycle.ts';
import { createLog } from './log.ts';
import { outboxNotice, outboxWarning } from './mail-transport.ts';
import { Metrics } from './metrics.ts';
import { waitUntilReady } from './redis/client.ts';
import { Accounts } from './registry/accounts.ts';
import { complain } from './sentence.ts';
import { makeClickHouse, makeCommands, makeKeys, migrateTables, STORES_READY_MS_MAX } from './stores.ts';

export async function runStart(config: Config): Promise<void> {
  const log = createLog({ level: config.logLevel, processName: 'supervisor', secrets: secretsIn(config) });
  const metrics = new Metrics({ processName: 'supervisor', kind: 'supervisor', gather: () => supervisor.gather() });
  const supervisor = new Supervisor({ config, log, metrics, prepareStores });
  log.info({ settings: describeConfig(config) }, 'process.starting');
  const scattered = outboxWarning(config);
  if (scattered !== undefined) log.warn(scattered, 'mail.outbox_of_this_machine');
  await runProcess({
    service: new Service(supervisor.parts, log),
    log,
    onReady: () => process.stdout.write(`${supervisor.notice()}${outboxNotice(config)}`),
    onStartFailed: (error) => complain(error, log),
    onKilled: () => supervisor.abandon(),
  });
}

/** Tables as they must be, and the account `default`; its first admin key if it was made just now. */
async function prepareStores(config: Config): Promise<{ key?: string | undefined }> {
  const redis = makeCommands(config);
  try {
    await Promise.all([migrateTables(config), waitUntilReady(redis, STORES_READY_MS_MAX)]);
    const accounts = new Accounts({ redis, keys: makeKeys(config) });
    if ((await accounts.byName('default')) === null) await refuseLostRegistry(config);
    return await accounts.ensureDefault(config.bootstrapKey);
  } finally {
    redis.disconnect();
  }
}

/** A Redis without accounts beside a ClickHouse that knows some has lost them: a new `default` would hide that. */
async function refuseLostRegistry(config: Config): Promise<void> {
  const clickhouse = makeClickHouse(config);
  try {
    for await (const { kind } of registrySnapshot(clickhouse)) {
      if (kind !== 'account') continue;
      throw new StartError(
        'Redis holds no account, but ClickHouse holds a registry: Redis has lost its data, or is another one. ' +
          '"gatehouse registry restore" makes the registry again from ClickHouse.',
      );
    }
  } finally {
    await clickhouse.close();
  }
}
