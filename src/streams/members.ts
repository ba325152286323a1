// Membership and fair share: which process should hold how many streams of a group (before leases are tried for).
// A process signs in once a second; one that is silent for MEMBER_MS is gone. The streams of a group are shared out
// evenly over its living members, the surplus going to the first names in order, so that the shares of all add up to
// all streams: who holds more than its share gives some up, who holds fewer takes free ones, and each ends at
// rest. The share only says who tries: what keeps two owners apart is the lease. If Redis cannot be asked, the last
// share stands.

import { MEMBER_MS } from '../common/limits.ts';
import { readAsset } from '../process/assets.ts';
import type { Commands } from '../redis/client.ts';
import { Script } from '../redis/script.ts';

const members = new Script<string[]>('stream-members', readAsset('src/redis/stream-members.lua'));

export class Members {
  readonly #redis: Commands;
  readonly #key: string;
  readonly #name: string;
  readonly #groups: readonly string[];
  /** group -> sorted names of its living members. */
  #living = new Map<string, string[]>();

  constructor(options: { redis: Commands; key: string; name: string; groups: readonly string[] }) {
    this.#redis = options.redis;
    this.#key = options.key;
    this.#name = options.name;
    this.#groups = options.groups;
  }

  /** A sign of life; learns who else is there. */
  async signIn(): Promise<void> {
    const fields = await members.run(this.#redis, [this.#key], [MEMBER_MS, 'in', ...this.#fields()]);
    const living = new Map<string, string[]>();
    for (const field of fields.sort()) {
      const slash = field.indexOf('/');
      const group = field.slice(0, slash);
      const names = living.get(group) ?? [];
      names.push(field.slice(slash + 1));
      living.set(group, names);
    }
    this.#living = living;
  }

  async signOut(): Promise<void> {
    await members.run(this.#redis, [this.#key], [MEMBER_MS, 'out', ...this.#fields()]);
  }

  /** How many of `count` streams of a group this process should hold. */
  share(group: string, count: number): number {
    const names = this.#living.get(group) ?? [];
    return shareOf(names.indexOf(this.#name), names.length, count);
  }

  #fields(): string[] {
    return this.#groups.map((group) => `${group}/${this.#name}`);
  }
}

/** The share of the member at `rank` (from 0; -1: not a member) among `members`. */
export function shareOf(rank: number, memberCount: number, count: number): number {
  if (rank < 0) return 0;
  return Math.floor(count / memberCount) + (rank < count % memberCount ? 1 : 0);
}
