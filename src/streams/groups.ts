// The consumer groups of each stream (before the first read; after the streams' keys).
// A group has one reader at a time, the owner of its lease, so it has no consumers: it is a position in the stream,
// behind which everything is still to be done, and the acknowledgement moves it.
// Invariant: a stream is trimmed only when every group named here exists; a group starts behind its watermark, a new
// one at the stream's very beginning. A group that vanished makes acknowledgements fail with NOGROUP; the reader makes
// it again.
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';

/** Pipelines that read event streams. */
export const EVENT_GROUPS = ['store', 'anomaly', 'alert'] as const;
/** Pipelines that read signal streams. */
export const SIGNAL_GROUPS = ['alert'] as const;
/** Pipelines that read journal streams. */
export const JOURNAL_GROUPS = ['store'] as const;
export type Group = (typeof EVENT_GROUPS)[number];

/** Makes the groups of a stream, and the stream, where they are missing. */
export async function ensureGroups(
  redis: Commands,
  keys: Keys,
  stream: string,
  groups: readonly string[],
): Promise<void> {
  await Promise.all(groups.map((group) => ensureGroup(redis, keys, stream, group)));
}

async function ensureGroup(redis: Commands, keys: Keys, stream: string, group: string): Promise<void> {
  try {
    const watermark = await redis.get(keys.watermark(stream, group));
    await redis.xgroup('CREATE', stream, group, watermark ?? '0', 'MKSTREAM');
  } catch (error) {
    if (!(error instanceof Error && error.message.startsWith('BUSYGROUP'))) throw error;
  }
}
