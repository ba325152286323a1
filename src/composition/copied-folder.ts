// After a start on a copy of a data folder that was made while Gatehouse ran: says which events the copy lacks, and
// closes the gap that they leave in the audit chains with a signed note.
// Such a copy is not of one moment. Where ClickHouse's tables were read before Redis and the chains, the chains know
// rows that are in no table of the copy and in no stream any more: they are gone, and `verify` would be false for ever.
// Invariant: only rows younger than the newest ones that the copy has (less BEFORE_MS), and older than the start, are
// noted. Killed before it is done, the next start does it; a gap that is noted is not noted twice.
// Failure: logged; the next start tries again. `gatehouse audit close-gap` does the same by hand.
import type { ClickHouse } from '../../clickhouse/client.ts';
import { isoTime } from '../../schemas/time.ts';
import { findMissing, noteGap } from '../commands/close-gap.ts';
import type { Config } from '../process/config.ts';
import type { Log } from '../process/log.ts';
import { waitUntilReady } from '../redis/client.ts';
import { Accounts } from '../registry/accounts/accounts.ts';
import { ReadBarrier } from '../streams/read-barrier.ts';
import { makeClickHouse, makeCommands, makeKeys, STORES_READY_MS_MAX } from './clients.ts';

/** Rows of one time are stored within minutes, also behind a backlog. */
const BEFORE_MS = 600_000;
const SETTLE_MS = 60_000;
const BY = 'gatehouse start';
const REASON = 'the data folder is a copy that was made while Gatehouse ran';

/** `toMs`: epoch ms of the start. */
export async function mendCopiedFolder(config: Config, log: Log, toMs: number): Promise<void> {
  const redis = makeCommands(config);
  const clickhouse = makeClickHouse(config);
  const keys = makeKeys(config);
  const stores = { redis, keys, clickhouse };
  try {
    await waitUntilReady(redis, STORES_READY_MS_MAX);
    const newest = await newestEvents(clickhouse);
    const barrier = new ReadBarrier({ redis, keys, waitMs: SETTLE_MS });
    for (const { id: account, name } of await new Accounts(stores).list()) {
      const settle = () => barrier.waitForAuditLog(account);
      await settle();
      const fromMs = Math.max(0, (newest.get(account) ?? 0) - BEFORE_MS);
      const found = await findMissing(stores, config, { account, asked: { fromMs, toMs }, settle });
      const lost = { account, name, rows: found.count };
      if (found.count === 0) continue;
      const entry = await noteGap(stores, config, { account, found, by: BY, reason: REASON });
      log.warn({ ...lost, from: isoTime(found.firstMs), to: isoTime(found.lastMs), entry }, 'copy.rows_missing');
    }
  } finally {
    redis.disconnect();
    await clickhouse.close();
  }
}

/** By account, epoch ms. */
async function newestEvents(clickhouse: ClickHouse): Promise<Map<string, number>> {
  const rows = await clickhouse.query<{ id: string; at: number }>(
    'SELECT account_id AS id, toUnixTimestamp64Milli(max(received_at)) AS at FROM events GROUP BY account_id',
  );
  return new Map(rows.map(({ id, at }) => [id, at]));
}
