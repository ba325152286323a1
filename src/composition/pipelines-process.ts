// A pipelines process: takes entries from the streams and makes rows, anomalies and erasures of them (`gatehouse
// pipelines`). Stands behind Redis and before ClickHouse; several share the partitions by leases. Composed here.
// Invariant: connections first, pipelines second, and let go in the reverse order, so a batch that runs can be
// finished.
// Failure: while Redis or ClickHouse is away the drains wait; what is not acknowledged stays in the streams.

import type { ClickHouse } from '../../clickhouse/client.ts';
import { storedEvents } from '../../clickhouse/queries/get-event.ts';
import { makeChannels } from '../../pipelines/alert/channels/channels.ts';
import { removeMails } from '../../pipelines/alert/channels/mail-folder.ts';
import { DeliveryWorker } from '../../pipelines/alert/worker.ts';
import { ApprovalExpiry } from '../../pipelines/approval/expiry.ts';
import { BatchSender } from '../../pipelines/outgoing/batch-sender.ts';
import { failingFeeds } from '../../pipelines/outgoing/failing-feeds.ts';
import { OutgoingFeedWorker } from '../../pipelines/outgoing/outgoing-feed-worker.ts';
import { Pipelines } from '../../pipelines/pipelines.ts';
import { MemoryWorker } from '../../pipelines/sequences/memory-worker.ts';
import { ShadowExpiry } from '../../pipelines/shadow/shadow-expiry.ts';
import { Watcher } from '../../pipelines/watch/watcher.ts';
import { readVerification } from '../audit/daily-verification.ts';
import { Feed } from '../audit/feed.ts';
import { GuardedHttps } from '../egress/guarded-https.ts';
import { GuardedTls } from '../egress/guarded-tls.ts';
import { outboxFolderOf, outboxWarning } from '../egress/mail-transport.ts';
import { allowedHostsOf } from '../egress/target-url.ts';
import { BEHIND_SAID_MS } from '../embedded/ipc.ts';
import { DependencyGauges } from '../metrics/dependency-gauges.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Config } from '../process/config.ts';
import { type Part, periodicPart } from '../process/lifecycle.ts';
import type { Log } from '../process/log.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { keptNow } from '../registry/accounts/account-retention.ts';
import { Agents } from '../registry/agents.ts';
import { REGISTRY_MISSING } from '../registry/recovery/presence.ts';
import { probeClickHouse } from '../stores/readiness.ts';
import { OTHER_INSTALLATION } from '../stores/redis-watch.ts';
import { DeadLetters } from '../streams/dead-letters.ts';
import { ReadBarrier } from '../streams/read-barrier.ts';
import {
  connectionsPart,
  makeClickHouse,
  makeCommands,
  makeKeys,
  makeRedisWatch,
  STORES_READY_MS_MAX,
} from './clients.ts';
import type { WorkerContext } from './worker-process.ts';

/** One length a dead stream; what lies there waits for a person. */
const DEAD_LOOK_MS = 10_000;
const CARE_LOOK_MS = 10_000;

export async function pipelinesParts({
  config,
  log,
  metrics,
  link,
  isSupervised,
  say,
}: WorkerContext): Promise<Part[]> {
  warnOfOutbox(config, log);
  const redis = makeCommands(config);
  const clickhouse = makeClickHouse(config);
  const watch = makeRedisWatch({ config, log, metrics, isSupervised }, { redis, clickhouse });
  const mayWork = () => watch.trouble !== REGISTRY_MISSING && watch.trouble !== OTHER_INSTALLATION;
  const alertLog = log.child({ part: 'deliveries' });
  const channels = makeChannels(config, { log: alertLog, metrics, outbox: outboxFolderOf(config) });
  const { senders } = channels;
  const deliveries = new DeliveryWorker({
    ...{ redis, keys: makeKeys(config), senders, metrics, log: alertLog, publicUrl: config.publicUrl },
  });
  const pipelines = new Pipelines({
    redis,
    clickhouse,
    keys: makeKeys(config),
    metrics,
    log: log.child({ part: 'pipelines' }),
    lingerMs: config.storeLingerMs,
    retention: config,
    processName: config.processName,
    onEnqueued: (lanes) => deliveries.wake(lanes),
    removeMails: (deliveryIds) => removeMails(outboxFolderOf(config), deliveryIds),
    mayWork,
  });
  const memories = new MemoryWorker({
    ...{ redis, clickhouse, keys: makeKeys(config), metrics, mayWork },
    log: log.child({ part: 'sequences' }),
  });
  const outgoing = outgoingParts({ config, log, metrics }, redis, mayWork);
  const watcher = new Watcher({ redis, keys: makeKeys(config), metrics, log: log.child({ part: 'watch' }) });
  const expiry = new ApprovalExpiry({
    ...{ redis, keys: makeKeys(config), metrics, log: log.child({ part: 'approvals' }) },
    fetchEvent: storedEvents(clickhouse),
  });
  const shadows = new ShadowExpiry({ redis, keys: makeKeys(config), log: log.child({ part: 'shadows' }) });
  metrics.sampleBy(() => metrics.set('gatehouse_pipelines_stuck', {}, pipelines.healthy().ok ? 0 : 1));
  return [
    connectionsPart({ config, redis: [redis], clickhouse, waitMs: STORES_READY_MS_MAX, mayBeAway: false, say, log }),
    { name: 'redis watch', start: () => watch.start(), stop: () => watch.stop() },
    { name: 'tables', start: () => sayMissingTables(clickhouse, log), stop: () => undefined },
    { name: 'channels', start: () => undefined, stop: () => channels.close() },
    { name: 'pipelines', start: () => pipelines.start(), stop: () => pipelines.stop() },
    saysBehind(() => link.sayBehind(pipelines.storeLagMs())),
    deliveries,
    countsDead(new DeadLetters({ redis, keys: makeKeys(config) }), metrics),
    showsCare({ redis, keys: makeKeys(config) }, metrics),
    new DependencyGauges({ metrics, redis, clickhouse }),
    { name: 'watch', start: () => watcher.start(), stop: () => watcher.stop() },
    { name: 'approval expiry', start: () => expiry.start(), stop: () => expiry.stop() },
    memories,
    ...outgoing,
    { name: 'shadow expiry', start: () => shadows.start(), stop: () => shadows.stop() },
  ];
}

type Around = Pick<WorkerContext, 'config' | 'log' | 'metrics'>;

/** Outgoing feeds read as callers do, within what is kept of each account. */
function outgoingParts({ config, log, metrics }: Around, redis: Commands, mayWork: () => boolean): Part[] {
  const keys = makeKeys(config);
  const clickhouse = makeClickHouse(config, { keptOf: keptNow({ redis, keys }, config) });
  const agents = new Agents({ redis, keys });
  const erasing = (account: string) => agents.erasing(account);
  const allowedHosts = allowedHostsOf(config.egressAllowedHosts);
  const worker = new OutgoingFeedWorker({
    ...{ redis, keys, metrics, mayWork, processName: config.processName },
    feed: new Feed({ clickhouse, keys, barrier: new ReadBarrier({ redis, keys }), erasing }),
    sender: new BatchSender({
      ...{ https: new GuardedHttps({ allowedHosts }), way: new GuardedTls({}), allowedHosts, clickhouse },
    }),
    log: log.child({ part: 'outgoing feeds' }),
  });
  return [
    { name: 'reader of outgoing feeds', start: () => undefined, stop: () => clickhouse.close() },
    worker,
    periodicPart('failing outgoing feeds', CARE_LOOK_MS, () => failingFeeds({ redis, keys }, metrics)),
  ];
}

/**
 * One that is run by itself works with others' stores. Under `gatehouse start` the supervisor knows whose they are, and
 * says it.
 */
function warnOfOutbox(config: Config, log: Log): void {
  const scattered = process.connected ? undefined : outboxWarning(config);
  if (scattered !== undefined) log.warn(scattered, 'mail.outbox_of_this_machine');
}

/** While Redis is away the last count stands; `gatehouse_dependency_up` says that it is. */
function countsDead(dead: DeadLetters, metrics: Metrics): Part {
  return periodicPart('count of dead entries', DEAD_LOOK_MS, () =>
    dead.count().then(
      (count) => metrics.set('gatehouse_dead_entries', {}, count),
      () => undefined,
    ),
  );
}

/** The last backup and the last verification, as others noted them. While Redis is away the last figures stand. */
function showsCare({ redis, keys }: { redis: Commands; keys: Keys }, metrics: Metrics): Part {
  return periodicPart('backup and verification', CARE_LOOK_MS, async () => {
    try {
      const backupMs = await redis.get(keys.backupNote());
      const { verified, invalid, found } = await readVerification(redis, keys);
      metrics.set('gatehouse_backup_timestamp_seconds', {}, Number(backupMs ?? 0) / 1000);
      metrics.set('gatehouse_audit_verified_timestamp_seconds', {}, verified / 1000);
      metrics.set('gatehouse_audit_invalid_accounts', {}, Math.max(invalid.length, found.length));
    } catch {
      // `gatehouse_dependency_up` says that Redis is away.
    }
  });
}

/** They are waited for like a ClickHouse that is away; nothing is lost meanwhile, but an operator should know. */
async function sayMissingTables(clickhouse: ClickHouse, log: Log): Promise<void> {
  const fault = await probeClickHouse(clickhouse);
  if (fault !== undefined) log.warn({ ...fault }, 'clickhouse.not_ready');
}

/** The supervisor gives storing as much of the processor as it needs. */
function saysBehind(say: () => void): Part {
  return periodicPart('word to the supervisor', BEHIND_SAID_MS, async () => say());
}
