// Writes down what became of a claimed delivery (last step of worker.ts): queue, ClickHouse row and, where a target
// said that it is gone, its alert, in one commit under the claim's guards.
// Invariant: a delivery ends as delivered, failed or cancelled, once; what is to be tried again has its next time in
// the queue. A commit is tried until the claim ends; then the delivery comes back by itself. A claim that no longer
// stands writes nothing.

import { setTimeout as sleep } from 'node:timers/promises';
import type { AlertRecord } from '../../schemas/alert.ts';
import type { Channel } from '../../schemas/closed-sets.ts';

import type { DeliveryAttempt } from '../../schemas/delivery.ts';
import { isoTime } from '../../schemas/time.ts';
import { ServiceError } from '../../src/common/errors.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { Log } from '../../src/process/log.ts';
import {
  claimGuards,
  type DeliveryRecord,
  type DeliveryState,
  deliveryRow,
  dequeueWrites,
  enqueueWrites,
  withAttempt,
} from '../../src/registry/alerts/deliveries.ts';
import { auditLog, SYSTEM, updateDetails } from '../../src/registry/audit.ts';
import {
  type Change,
  type CommandArgs,
  commit,
  type Guard,
  is,
  type RegistryStore,
} from '../../src/registry/commit.ts';
import type { AttemptResult, ChannelSender } from './channel.ts';
import { nextAttemptAt } from './schedule.ts';

/** A claimed delivery: its record as it was read, and when the claim ends. */
export type Claim = { record: DeliveryRecord; text: string; until: number };

const ANSWER_CHARACTERS = 200;

/** A result that could not be written is tried again this often, until its claim ends. */
const WRITE_AGAIN_MS = 1_000;
const WRITES_MAX = 15;

/** `at` and `endedAt`: epoch ms by the queue's clock. */
type Attempted = {
  record: DeliveryRecord;
  /** Where it was sent, whole. */
  sentTo: string;
  result: AttemptResult;
  at: number;
  endedAt: number;
  durationMs: number;
};
type Ending = { claim: Claim; record: DeliveryRecord; state: DeliveryState };
/** Further changes that the commit makes. */
type Also = Pick<Change, 'changes' | 'audit'> & { guards: Guard[]; writes: CommandArgs[] };

type ResultsOptions = RegistryStore & {
  senders: Readonly<Record<Channel, ChannelSender>>;
  metrics: Metrics;
  log: Log;
  random?: () => number;
};

export class Results {
  readonly #options: ResultsOptions;

  constructor(options: ResultsOptions) {
    this.#options = options;
  }

  /** Its alert was deleted or switched off before it was sent. */
  async cancelled(claim: Claim, at: number): Promise<void> {
    this.#count(claim.record, 'cancelled');
    await this.#write({ claim, record: claim.record, state: { status: 'cancelled', nextAttemptAt: null, at } });
  }

  /** It has waited for its host until there was no time left. */
  async expired(claim: Claim, at: number): Promise<void> {
    this.#count(claim.record, 'failed');
    await this.#write({ claim, record: claim.record, state: { status: 'failed', nextAttemptAt: null, at } });
  }

  /** Its alert has another target now: it queues up there. */
  async moved(claim: Claim, record: DeliveryRecord, at: number): Promise<void> {
    await this.#write({ claim, record, state: { status: 'pending', nextAttemptAt: at, at } });
  }

  async attempted(claim: Claim, { record: before, sentTo, result, at, endedAt, durationMs }: Attempted): Promise<void> {
    const { outcome, statusCode, error, retryAfterMs } = result;
    const { transport } = this.#options.senders[before.channel];
    const attempt: DeliveryAttempt = {
      at: isoTime(at),
      duration_ms: durationMs,
      status_code: statusCode,
      error: outcome === 'delivered' ? null : (error ?? 'internal'),
      answer: shownAnswer(result.answer),
    };
    const record = withAttempt(before, attempt, transport === 'https' ? null : transport);
    const next =
      outcome === 'retry'
        ? nextAttemptAt(
            record.tries,
            { now: endedAt, retryAfterMs, endsAt: record.endsAt },
            this.#options.random ?? Math.random,
          )
        : null;
    const status = outcome === 'delivered' ? 'delivered' : next === null ? 'failed' : 'pending';
    const ending: Ending = { claim, record, state: { status, nextAttemptAt: next, at: endedAt } };
    await (outcome === 'gone' ? this.#writeGone(ending, sentTo) : this.#write(ending));
    this.#count(record, status === 'pending' ? 'retry' : status);
    this.#options.log.info(
      {
        delivery: record.id,
        account: record.account,
        alert: record.alert.id,
        channel: record.channel,
        transport,
        attempt: record.tries,
        outcome,
        status,
        statusCode,
        error: attempt.error,
        ms: durationMs,
        count: record.count,
        nextInMs: next === null ? null : next - endedAt,
      },
      'delivery.attempted',
    );
  }

  /**
   * 410: the target wants no more, so its alert is switched off, in the system's name, unless it has left that target
   * meanwhile.
   */
  async #writeGone(ending: Ending, sentTo: string): Promise<void> {
    const { redis, keys } = this.#options;
    const { account, alert } = ending.record;
    const hash = keys.alerts(account);
    for (let round = 0; round < WRITES_MAX; round++) {
      const text = await redis.hget(hash, alert.id);
      const before = text === null ? null : (JSON.parse(text) as AlertRecord);
      if (text === null || before === null || before.status === 'inactive' || before.target !== sentTo) {
        await this.#write(ending);
        return;
      }
      const { at } = ending.state;
      const after: AlertRecord = { ...before, status: 'inactive', updated_at: isoTime(at) };
      const agent = after.agent_id === null ? {} : { agent_id: after.agent_id };
      const details = {
        ...updateDetails(before, after),
        reason: 'target_gone',
        delivery_id: ending.record.id,
        ...agent,
      };
      const also: Also = {
        guards: [is('alert', ['hget', hash, alert.id], text)],
        writes: [['hset', hash, alert.id, JSON.stringify(after)]],
        changes: [{ kind: 'alert', id: alert.id, record: after }],
        audit: [auditLog({ action: 'alert.updated', type: 'alert', id: alert.id, details }, SYSTEM, at)],
      };
      if (await this.#write(ending, also)) return;
    }
  }

  /** False: the alert was changed meanwhile, and nothing was written. */
  async #write(ending: Ending, also?: Also): Promise<boolean> {
    for (let tries = 1; ; tries++) {
      try {
        const refused = await this.#commit(ending, also);
        if (refused === 'alert') return false;
        if (refused === 'erased') await this.erased(ending.claim);
        else if (refused !== undefined)
          this.#options.log.warn({ delivery: ending.record.id, refused }, 'delivery.superseded');
        return true;
      } catch (error) {
        if (!(error instanceof ServiceError) || tries >= WRITES_MAX) throw error;
      }
      await sleep(WRITE_AGAIN_MS);
    }
  }

  async #commit({ claim, record, state }: Ending, also: Also | undefined): Promise<string | undefined> {
    const { keys } = this.#options;
    const writes = dequeueWrites(keys, claim.record);
    if (state.status === 'pending') writes.push(...enqueueWrites(keys, record, state.nextAttemptAt!));
    const { refused } = await commit(this.#options, {
      account: record.account,
      at: state.at,
      guards: [...claimGuards(keys, claim.record, claim), ...(also?.guards ?? [])],
      writes: [...writes, ...(also?.writes ?? [])],
      changes: also?.changes ?? [],
      audit: also?.audit ?? [],
      rows: [deliveryRow(record, state)],
      whenFull: true,
    });
    return refused;
  }

  /** Its agent was deleted: nothing is written about it any more. */
  async erased({ record: { account, id, lane, channel } }: Claim): Promise<void> {
    const { redis, keys, senders } = this.#options;
    await senders[channel].withdraw?.(id);
    await redis.hdel(keys.deliveries(account), id);
    await redis.zrem(keys.deliveryLane(account, lane), id);
  }

  #count({ channel }: DeliveryRecord, result: string): void {
    const { transport } = this.#options.senders[channel];
    this.#options.metrics.inc('gatehouse_deliveries_total', { channel, transport, result });
  }
}

/** For people: on one line, and no half of a character at its end. null: nothing was said. */
function shownAnswer(answer: string | undefined): string | null {
  const text = (answer ?? '').replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, ' ').trim();
  const short = [...text.slice(0, 2 * ANSWER_CHARACTERS)].slice(0, ANSWER_CHARACTERS).join('');
  return short === '' ? null : short;
}
