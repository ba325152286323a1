// Trimming: an entry leaves its stream when every group has acknowledged it (after acks; nothing comes after it).
// MAXLEN would throw away what is unread; the script removes what lies below the lowest pending or unread entry
// of all groups, and nothing while a group that should exist does not.
// It need not be fenced: in every process it removes only what is acknowledged. A failed trim is tried again with the
// next one.

import { readAsset } from '../process/assets.ts';
import type { Commands } from '../redis/client.ts';
import { Script } from '../redis/script.ts';

const trim = new Script<[number, number]>('stream-trim', readAsset('src/redis/stream-trim.lua'));

type Trimmed = {
  removed: number;
  /** A group that should exist is missing: nothing was trimmed. */
  missing: boolean;
  /** Unknown groups; they hold entries back until an operator removes them. */
  unknownGroups: number;
};

export async function trimStream(redis: Commands, stream: string, groups: readonly string[]): Promise<Trimmed> {
  const [removed, unknownGroups] = await trim.run(redis, [stream], [...groups]);
  return { removed: Math.max(0, removed), missing: removed < 0, unknownGroups };
}
