// Erases deleted agents from ClickHouse (after the registry has set the tombstone; run by the process that drains the
// shard's journal).
//   mark     where the streams end now: the agent's event stream for every group, the journal for the store
//   drain    wait until all of them have been acknowledged up to there
//   erase    delete the agent's mails in the outbox and its rows, drop its dead letters and its approvals
//   forget   the erasure and the agent's last sign of life; the tombstone stays
//   files    now and then, by the process that has the first shard: what held the rows is rewritten (file-cleaning.ts)
// Invariant: when the rows are deleted nothing that was appended before the tombstone can still be inserted: it has
// been acknowledged, and a late duplicate of an acknowledged insert is dropped by its token. What is appended after the
// tombstone, by a front that has not heard of it, is dropped by the store pipeline, which inspects the tombstones after
// it has read. Anything that fails is tried again at the next poll; an erasure leaves its hash only when it is done.
import type { ClickHouse } from '../../clickhouse/client.ts';
import { blankIds } from '../../clickhouse/queries/chain-blocks.ts';
import { eraseAgent } from '../../clickhouse/queries/erase-agent.ts';
import { outboxDeliveriesOf } from '../../clickhouse/queries/list-deliveries.ts';
import { packAgent } from '../../src/audit/hash.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { Log } from '../../src/process/log.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { dropDeliveriesOf } from '../../src/registry/alerts/deliveries.ts';
import { Approvals } from '../../src/registry/approvals/approvals.ts';
import { forgetStepsOf } from '../../src/registry/budgets/step-removal.ts';
import { type Erasure, noteErased } from '../../src/registry/erasures.ts';
import { dropBacktestsOf } from '../../src/registry/policies/backtest-removal.ts';
import { DeadLetters } from '../../src/streams/dead-letters.ts';
import { EVENT_GROUPS, JOURNAL_GROUPS } from '../../src/streams/groups.ts';
import { positionOf } from '../../src/streams/read-barrier.ts';
import { compareIds } from '../../src/streams/stream-id.ts';
import { forgetBaseline } from '../forget-baseline.ts';
import { FileCleaning } from './file-cleaning.ts';

// Marks are kept in memory alone: a new owner marks later ends, which is right as well. Two owners at once do the same
// twice.

/** The part of the chains' flusher (chain-flush.ts) that an erasure needs. */
type Chains = { flush(streams: readonly string[]): Promise<void> };

/** A stream has to be acknowledged by a group up to `end`. */
type Mark = { stream: string; group: string; end: string };

type EraserOptions = {
  redis: Commands;
  keys: Keys;
  clickhouse: ClickHouse;
  chains: Chains;
  /** Left out: there is no outbox. */
  removeMails?: (deliveryIds: readonly string[]) => Promise<void>;
  metrics: Metrics;
  log: Log;
};

export class Eraser {
  readonly #options: EraserOptions;
  readonly #dead: DeadLetters;
  readonly #approvals: Approvals;
  readonly #files: FileCleaning;
  readonly #marks = new Map<string, Mark[]>();
  #busy: Promise<void> | undefined;

  constructor(options: EraserOptions) {
    this.#options = options;
    this.#dead = new DeadLetters(options);
    this.#approvals = new Approvals(options);
    this.#files = new FileCleaning(options);
  }

  /**
   * Inspects the erasures of these registry shards and does what can be done now. Never rejects; one poll at a time.
   */
  look(shards: readonly number[]): Promise<void> {
    this.#busy ??= this.#lookAll(shards).finally(() => {
      this.#busy = undefined;
    });
    return this.#busy;
  }

  async #lookAll(shards: readonly number[]): Promise<void> {
    for (const shard of shards) {
      try {
        const erasures = await this.#options.redis.hgetall(this.#options.keys.erasures(shard));
        for (const [agent, text] of Object.entries(erasures)) await this.#eraseOrWarn(shard, agent, text);
      } catch (error) {
        this.#options.log.warn({ err: error, shard }, 'erasure.failed');
      }
    }
    if (shards.includes(0)) await this.#files.look();
    else this.#options.metrics.set('gatehouse_erasure_late_seconds', {}, 0);
  }

  /** One that fails, as by a mail that cannot be removed, keeps no other from being done. */
  async #eraseOrWarn(shard: number, agent: string, text: string): Promise<void> {
    try {
      await this.#erase(shard, agent, text);
    } catch (error) {
      this.#options.log.warn({ err: error, shard, agent }, 'erasure.failed');
    }
  }

  async #erase(shard: number, agent: string, text: string): Promise<void> {
    const { redis, keys, log, clickhouse, chains } = this.#options;
    const erasure = JSON.parse(text) as Erasure;
    const { account } = erasure;
    const marks = this.#marks.get(agent) ?? (await this.#mark(account, agent));
    this.#marks.set(agent, marks);
    if (!(await this.#drained(marks))) return;
    const partition = keys.partitionOf(account, agent);
    // What the agent's entries have added to the chains was acknowledged with them, so it waits there or is copied
    // already.
    await chains.flush([keys.events(partition), keys.journal(keys.shardOf(account))]);
    await this.#removeMails(account, agent);
    await eraseAgent(clickhouse, account, agent);
    await blankIds(clickhouse, account, packAgent(agent));
    const streams = [keys.events(partition), keys.signals(partition), keys.journal(keys.shardOf(account))];
    let deadLetters = 0;
    for (const stream of streams) deadLetters += await this.#dead.dropAgent(stream, agent);
    await this.#approvals.dropAgent(account, agent);
    await dropDeliveriesOf({ redis, keys }, account, agent);
    await dropBacktestsOf({ redis, keys }, account, agent);
    await forgetStepsOf({ redis, keys }, account, agent);
    await forgetBaseline(redis, keys, account, agent);
    await redis.hdel(keys.lastSeen(partition), agent);
    await noteErased({ redis, keys }, agent, erasure);
    await redis.hdel(keys.erasures(shard), agent);
    this.#marks.delete(agent);
    log.info({ account, agent, deadLetters }, 'agent.erased');
  }

  /** Before the rows that name them. Mails on other machines' disks are out of reach (docs/channels.md). */
  async #removeMails(account: string, agent: string): Promise<void> {
    const { clickhouse, removeMails } = this.#options;
    if (removeMails !== undefined) await removeMails(await outboxDeliveriesOf(clickhouse, account, agent));
  }

  async #mark(account: string, agent: string): Promise<Mark[]> {
    const { redis, keys } = this.#options;
    const events = keys.events(keys.partitionOf(account, agent));
    const journal = keys.journal(keys.shardOf(account));
    const all = [
      ...EVENT_GROUPS.map((group) => ({ stream: events, group })),
      ...JOURNAL_GROUPS.map((group) => ({ stream: journal, group })),
    ];
    return Promise.all(
      all.map(async ({ stream, group }) => ({
        stream,
        group,
        end: (await positionOf(redis, keys, stream, group)).last,
      })),
    );
  }

  async #drained(marks: readonly Mark[]): Promise<boolean> {
    const { redis, keys } = this.#options;
    const done = await Promise.all(
      marks.map(
        async ({ stream, group, end }) =>
          compareIds((await positionOf(redis, keys, stream, group)).watermark, end) >= 0,
      ),
    );
    return done.every((one) => one);
  }
}
