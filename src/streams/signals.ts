// Appends signals to the signal streams (from the anomaly pipeline, the watch over silent agents and the request limit;
// before the alert pipeline). A signal lies in the partition of its agent, one without an agent in that of its account.
// At least once: a sender that is unsure appends again, the alert pipeline identifies signals by their ids.
// Works while Redis is full, since pipelines that empty it append here. Throws RedisUnavailable.
import { SIGNAL_FIELD, SIGNAL_VERSION, type Signal, type SignalEntry } from '../../schemas/signal.ts';
import { readAsset } from '../process/assets.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';

const append = new Script<string>('signals-append', readAsset('src/redis/signals-append.lua'), { acknowledges: true });

/** Signals of one entry: the notifications that they lead to are planned together. */
const SIGNALS_PER_ENTRY_MAX = 200;

export async function appendSignals(redis: Commands, keys: Keys, signals: readonly Signal[]): Promise<void> {
  const byPartition = new Map<number, Signal[]>();
  for (const signal of signals) {
    const partition = keys.partitionOf(signal.account, signal.agent ?? signal.account);
    const found = byPartition.get(partition);
    if (found === undefined) byPartition.set(partition, [signal]);
    else found.push(signal);
  }
  for (const [partition, all] of byPartition) {
    for (let at = 0; at < all.length; at += SIGNALS_PER_ENTRY_MAX) {
      const entry: SignalEntry = { version: SIGNAL_VERSION, signals: all.slice(at, at + SIGNALS_PER_ENTRY_MAX) };
      await append.run(redis, [keys.signals(partition)], [SIGNAL_FIELD, JSON.stringify(entry)]);
    }
  }
}
