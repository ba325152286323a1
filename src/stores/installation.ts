// Do this Redis, this ClickHouse and these settings belong together? Asked at a start and whenever Redis comes back. A
// process with more partitions than the others would append to streams that the others do not read; one with another
// prefix or database would serve a registry without the history that belongs to it.
// Invariant: the first process writes down what all others must have; it never changes.
// Failure: what differs is a sentence. Where ClickHouse cannot be asked, what Redis knows is compared alone.
import type { ClickHouse } from '../../clickhouse/client.ts';
import { type Installation, readInstallation, replaceInstallation } from '../../clickhouse/installation.ts';
import { registryRevisions } from '../../clickhouse/queries/registry-revisions.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { StoreError } from './faults.ts';

/** A ClickHouse that hangs must not keep a front from serving. */
const ASK_MS_MAX = 2_000;

type OfRedis = Omit<Installation, 'prefix'>;
type Stores = { redis: Commands; keys: Keys; clickhouse: ClickHouse };

/**
 * undefined: they belong together. `mayTakeOver`: a database without a registry, which was made behind this Redis, is
 * its own from now on; it is said elsewhere that it misses its history. Throws where Redis cannot be asked.
 */
export async function otherInstallation(
  { redis, keys, clickhouse }: Stores,
  { mayTakeOver }: { mayTakeOver: boolean },
): Promise<string | undefined> {
  const stored = await readInstallation(clickhouse, AbortSignal.timeout(ASK_MS_MAX)).catch(() => undefined);
  const { partitions, prefix } = keys;
  if (stored !== undefined && stored.prefix !== prefix)
    return `GATEHOUSE_REDIS_PREFIX is ${prefix}, but the database ${clickhouse.database} belongs to an installation with ${stored.prefix}`;
  if (stored !== undefined && stored.partitions !== partitions) return otherPartitions(partitions, stored.partitions);
  if (stored !== undefined) await writeWhereNone(redis, keys, stored);
  const known = await heldByRedis(redis, keys);
  if (known === undefined) return undefined;
  if (known.partitions !== partitions) return otherPartitions(partitions, known.partitions);
  if (stored === undefined || stored.id === known.id) return undefined;
  if (!mayTakeOver || (await registryRevisions(clickhouse)).size > 0)
    return `Redis belongs to the installation ${known.id}, but the database ${clickhouse.database} of ClickHouse to ${stored.id}: one of the two addresses is that of another`;
  await replaceInstallation(clickhouse, { ...known, prefix });
  return undefined;
}

/**
 * The id of the installation that Redis belongs to, for a database that is made behind it; undefined: to none yet.
 * Throws StoreError where it has another number of partitions than the settings.
 */
export async function installationIdOf(redis: Commands, keys: Keys): Promise<string | undefined> {
  const known = await heldByRedis(redis, keys);
  if (known !== undefined && known.partitions !== keys.partitions)
    throw new StoreError(otherPartitions(keys.partitions, known.partitions));
  return known?.id;
}

async function writeWhereNone(redis: Commands, keys: Keys, { id, partitions }: Installation): Promise<void> {
  await redis.setnx(keys.installation(), JSON.stringify({ id, partitions } satisfies OfRedis));
}

async function heldByRedis(redis: Commands, keys: Keys): Promise<OfRedis | undefined> {
  const held = await redis.get(keys.installation());
  return held === null ? undefined : (JSON.parse(held) as OfRedis);
}

function otherPartitions(ours: number, theirs: number): string {
  return `GATEHOUSE_PARTITIONS is ${ours}, but this installation has ${theirs}: it keeps the number that it began with`;
}
