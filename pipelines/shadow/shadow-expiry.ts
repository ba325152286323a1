// Makes shadows inactive whose time is over (a ticker of each pipelines process, beside the pipelines). Fronts judge by
// them no longer from that moment on, by themselves; this is so that lists say it, there is room for others, and the
// audit log has it.
// No lease: an expiry is a commit that holds only while the policy is as it was read, so any number of processes may
// look at the same ones. What fails is tried again at the next poll.
import { Periodic } from '../../src/common/async.ts';
import type { Log } from '../../src/process/log.ts';
import { dueMembers } from '../../src/redis/many-keys.ts';
import type { RegistryStore } from '../../src/registry/commit.ts';
import { Policies } from '../../src/registry/policies/policies.ts';

const POLL_MS = 5_000;
const AT_ONCE = 100;
/** The delay of a due member that is no shadow to be made inactive: it is there by mistake, and in no hurry. */
const LOOK_AGAIN_MS = 60 * 60 * 1000;

type ShadowExpiryOptions = RegistryStore & { log: Log };

export class ShadowExpiry {
  readonly #options: ShadowExpiryOptions;
  readonly #policies: Policies;
  readonly #ticks = new Periodic(POLL_MS, () => this.#tick());

  constructor(options: ShadowExpiryOptions) {
    this.#options = options;
    this.#policies = new Policies(options);
  }

  start(): void {
    this.#ticks.start();
  }

  async stop(): Promise<void> {
    await this.#ticks.stop();
  }

  /** Answers how many shadows it has made inactive. Rejects where Redis cannot be asked. */
  async look(): Promise<number> {
    const { redis, keys, now = Date.now } = this.#options;
    const due = await dueMembers(redis, keys.ofShards(keys.shadowExpiries), { now: now(), max: AT_ONCE });
    let expired = 0;
    for (const [shard, members] of due.entries())
      for (const member of members) {
        const [account, id] = member.split('/') as [string, string];
        if (await this.#policies.expire(account, id)) expired++;
        // A later time that it has got meanwhile stays.
        else await redis.zadd(keys.shadowExpiries(shard), 'XX', 'GT', now() + LOOK_AGAIN_MS, member);
      }
    return expired;
  }

  async #tick(): Promise<void> {
    try {
      const expired = await this.look();
      if (expired > 0) this.#options.log.info({ expired }, 'shadows.expired');
    } catch (error) {
      this.#options.log.warn({ err: error }, 'shadows.look_failed');
    }
  }
}
