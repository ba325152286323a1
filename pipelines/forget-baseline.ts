// Forgets what the anomaly pipeline has learnt of an agent (from the erasure, after the streams have drained past its
// tombstone). The baseline goes at once; a mark stays in its place for as long as any owner could still hold it in
// memory and write it. Idempotent. Works in a full Redis.
import { readAsset } from '../src/process/assets.ts';
import type { Commands } from '../src/redis/client.ts';
import type { Keys } from '../src/redis/keys.ts';
import { Script } from '../src/redis/script.ts';

const forget = new Script<string>('baseline-forget', readAsset('src/redis/baseline-forget.lua'));

/**
 * A baseline is written within seconds of its agent's last event; an hour outlasts every pause that a lease survives.
 */
const MARK_MS = 60 * 60 * 1000;

export async function forgetBaseline(redis: Commands, keys: Keys, account: string, agent: string): Promise<void> {
  await forget.run(redis, [keys.baseline(keys.partitionOf(account, agent), agent)], [MARK_MS]);
}
