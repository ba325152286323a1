// What has occurred, for the sequences of all accounts, in Redis, which all processes share (between judgement and
// decision). One script call takes events of one account in their order: it says which sequences match, and keeps
// which steps the events are, as one step (src/redis/sequences.lua). All of an account's lies on one node, so that the
// order in which that counts is the order for every process. Calls of a tick are sent together.
// Invariant: an event's steps are kept before it is recorded. So they may be of one whose append then fails: for a
// window a sequence may match too often, never too rarely.
// Failure: rejects with RedisUnavailable; the caller then refuses the submission.
import { randomBytes } from 'node:crypto';
import type { Outcome } from '../../../schemas/closed-sets.ts';
import { SEQUENCE_LEASE_MS, SEQUENCE_SCOPES_MAX, SEQUENCE_VALUES_MAX } from '../../common/limits.ts';
import { getOrMake } from '../../common/maps.ts';
import { readAsset } from '../../process/assets.ts';
import { acknowledging, type Commands, sendTogether } from '../../redis/client.ts';
import type { Keys } from '../../redis/keys.ts';
import { Script } from '../../redis/script.ts';
import type {
  Memory,
  Occurrence,
  SequenceAnswers,
  SequenceAsk,
  SequenceEvent,
  SequenceMark,
  SequenceMatch,
  SequenceReason,
} from '../sequences/sequence-answer.ts';
import { allOf, openOf, scopesOf } from '../sequences/sequence-memory.ts';

/**
 * `submission`: those of one are recorded together or not at all. `isAlone`: each event is of one memory, and stands
 * there again for another.
 */
export type ToCount = { events: readonly SequenceEvent[]; submission: string; isAlone?: true };
/**
 * `atMs`: epoch ms by Redis's clock. `answers`: of each event. `isUnasked`: nothing was done, and each event must be
 * asked about by itself.
 */
export type SequencesCounted = { atMs: number; answers: readonly SequenceAnswers[]; isUnasked?: true };
type Limits = { values: number; scopes: number };

type SentAnswer = [reason: SequenceReason | 0, after: [atMs: number, id: string, path: string][], waitsFor: string | 0];
type Sent = { now: number; built?: Built; unasked?: true; answers: unknown };
/** The result of a call of a build: the lease is another's; the log has more; the policy was changed; it is known. */
export type Built = 'lost' | 'more' | 'changed' | 'known';
/** An entry of the log of a memory that is not known. `scopes`: their keys. */
export type Logged = Pick<SequenceMark, 'value' | 'places'> & {
  atMs: number;
  id: string;
  agent: string;
  outcome: Outcome;
  isRecorded: boolean;
  scopes: readonly string[];
  amount: SequenceMark['amount'] | null;
};
/** Who makes a memory known, and by which policy, as its record is. `read`: how many entries of the log it has kept. */
type Build = {
  memory: Memory;
  token: string;
  read: number;
  policy: { id: string; text: string };
  ends: boolean;
};
/** An event that occurred: judged again, or read from the log. */
export type PastEvent = { atMs: number; isRecorded: boolean } & (
  | { event: SequenceEvent; logged?: undefined }
  | { event?: undefined; logged: Logged }
);

type SentLog = Pick<Logged, 'id' | 'agent' | 'outcome' | 'value' | 'scopes'> & {
  at: number;
  recorded: 0 | 1;
  places: [place: number, path: string, any: 0 | 1][];
  amount: SequenceMark['amount'] | 0;
};

/** A script holds Redis up for others: 1 ms for so many events. */
export const EVENTS_AT_ONCE = 50;
const SCOPES_AT_ONCE = 50;
/** Longer than any window. */
const APPROVED_KEPT_MS = 2 * 86_400_000;

export class SequenceStore {
  readonly #redis: Commands;
  readonly #keys: Keys;
  readonly #limits: Limits;
  readonly #forget = new Script<number>('sequences-forget', readAsset('src/redis/sequences-forget.lua'), {
    acknowledges: true,
  });
  readonly #script = new Script<string>('sequences', readAsset('src/redis/sequences.lua'), {
    acknowledges: true,
  });

  constructor(
    redis: Commands,
    keys: Keys,
    limits: Limits = { values: SEQUENCE_VALUES_MAX, scopes: SEQUENCE_SCOPES_MAX },
  ) {
    this.#redis = redis;
    this.#keys = keys;
    this.#limits = limits;
  }

  /** `atMs`: when they occurred; left out: now. */
  async count(account: string, { events, ...of }: ToCount, atMs = 0): Promise<SequencesCounted> {
    if (events.length <= EVENTS_AT_ONCE) return this.#call(account, { ...of, events }, atMs);
    // Of several calls none may be left undone.
    if (events.some(({ times }) => times !== undefined)) return { atMs, answers: [], isUnasked: true };
    const calls: Promise<SequencesCounted>[] = [];
    for (let from = 0; from < events.length; from += EVENTS_AT_ONCE)
      calls.push(this.#call(account, { ...of, events: events.slice(from, from + EVENTS_AT_ONCE) }, atMs));
    const counted = await Promise.all(calls);
    return { atMs: counted.at(-1)!.atMs, answers: counted.flatMap(({ answers }) => answers) };
  }

  /** They are recorded. To be called before that is answered. */
  async settle(account: string, ids: readonly string[], atMs: number): Promise<void> {
    const list = this.#keys.sequencesApproved(account);
    const later = ids.map((id) => `${atMs} ${this.#keys.sequenceLater(account, id)}`);
    await acknowledging(this.#redis).rpush(list, ...later);
    await this.#redis.pexpire(list, APPROVED_KEPT_MS);
  }

  /** Forgets that there were memories of other names than these, once nothing of them counts any longer. Idempotent. */
  async dropUnused(account: string, names: ReadonlySet<string>): Promise<void> {
    for (const name of await this.#names(account)) {
      if (names.has(name)) continue;
      const kept = [this.#keys.sequenceScopes(account, name), this.#keys.sequenceLog(account, name)];
      if ((await this.#redis.exists(...kept)) === 0)
        await this.#redis.hdel(this.#keys.sequences(account), name, `${name}/over`, `${name}/cut`);
    }
  }

  async #names(account: string): Promise<Set<string>> {
    const fields = await this.#redis.hkeys(this.#keys.sequences(account));
    return new Set(fields.map((field) => field.replace(/\/(over|cut)$/, '')));
  }

  /** Nothing says any more that it was the agent. The steps it did alone go; of others stays when. Idempotent. */
  async forgetAgent(account: string, agent: string): Promise<void> {
    for (const name of await this.#names(account)) {
      const index = this.#keys.sequenceScopes(account, name);
      const own = [allOf(agent), openOf(agent)].map((scope) => this.#keys.sequenceScope(account, name, scope));
      await this.#redis.del(...own);
      await this.#redis.zrem(index, ...own);
      const scopes = await this.#redis.zrange(index, '0', '-1');
      for (let from = 0; from < scopes.length; from += SCOPES_AT_ONCE)
        await this.#forget.run(this.#redis, scopes.slice(from, from + SCOPES_AT_ONCE), [agent, ...own]);
      await this.#forget.run(this.#redis, [this.#keys.sequenceLog(account, name)], [agent, ...own]);
    }
  }

  /** A token by which the memory is made known; null: another process does, or has. What it had is removed. */
  async begin(account: string, { name }: Memory): Promise<string | null> {
    const token = randomBytes(16).toString('base64url');
    const lease = this.#keys.sequenceLease(account, name);
    if ((await this.#redis.set(lease, token, 'PX', SEQUENCE_LEASE_MS, 'NX')) === null) return null;
    // Only who has the lease makes it known; another may have done so since it was found wanting.
    if ((await this.#redis.hget(this.#keys.sequences(account), name)) === '1') {
      await this.release(account, { name }, token);
      return null;
    }
    const index = this.#keys.sequenceScopes(account, name);
    const scopes = await this.#redis.zrange(index, '0', '-1');
    for (let from = 0; from < scopes.length; from += SCOPES_AT_ONCE)
      await this.#redis.del(...scopes.slice(from, from + SCOPES_AT_ONCE));
    await this.#redis.del(index);
    // A log that has lost entries begins again: what it had will be stored by the time that the events are read.
    if ((await this.#cut(account, name)) > 0) {
      await this.#redis.del(this.#keys.sequenceLog(account, name));
      await this.#redis.hdel(this.#keys.sequences(account), `${name}/cut`);
    }
    return token;
  }

  /** Lets others make it known. */
  async release(account: string, { name }: Pick<Memory, 'name'>, token: string): Promise<void> {
    const lease = this.#keys.sequenceLease(account, name);
    if ((await this.#redis.get(lease)) === token) await this.#redis.del(lease);
  }

  /** Entries of the log from this one on, by number; null: some of them are lost. */
  async logged(account: string, { name }: Memory, from: number): Promise<Logged[] | null> {
    const texts = await this.#redis.lrange(this.#keys.sequenceLog(account, name), from, -1);
    return (await this.#cut(account, name)) > 0 ? null : texts.map(loggedOf);
  }

  async #cut(account: string, name: string): Promise<number> {
    return Number((await this.#redis.hget(this.#keys.sequences(account), `${name}/cut`)) ?? 0);
  }

  /** Keeps what occurred, in its order. */
  async build(account: string, build: Build, past: readonly PastEvent[]): Promise<Built | undefined> {
    let built: Built | undefined;
    for (let from = 0; from === 0 || from < past.length; from += EVENTS_AT_ONCE) {
      const some = past.slice(from, from + EVENTS_AT_ONCE);
      const call = new Call(account, this.#keys);
      call.memory(build.memory);
      const sent = some.map((one) => call.past(build.memory, one));
      const isEnd = build.ends && from + EVENTS_AT_ONCE >= past.length;
      const input = { events: sent, memories: call.memories, submission: 'build', build: call.build(build, isEnd) };
      const { values, scopes } = this.#limits;
      const later = some.map(({ event }) => (event === undefined ? '' : this.#later(account, event)));
      const reply = await this.#script.run(this.#redis, call.keys, [JSON.stringify(input), values, scopes, ...later]);
      built = (JSON.parse(reply) as Sent).built;
      if (built === 'lost') return built;
    }
    return built;
  }

  /** Sends the calls that `send` makes in one write. */
  together(send: () => void): void {
    sendTogether(acknowledging(this.#redis), send);
  }

  async #call(account: string, { events, submission, isAlone }: ToCount, atMs: number): Promise<SequencesCounted> {
    const call = new Call(account, this.#keys);
    const sent = events.map((event) => call.event(event, atMs));
    const input = JSON.stringify({ events: sent, memories: call.memories, submission, alone: isAlone });
    const { values, scopes } = this.#limits;
    const args = [input, values, scopes, ...events.map((event) => this.#later(account, event))];
    const reply = JSON.parse(await this.#script.run(this.#redis, call.keys, args)) as Sent;
    if (reply.unasked) return { atMs: reply.now, answers: [], isUnasked: true };
    return { atMs: reply.now, answers: listOf(reply.answers).map((sent) => listOf(sent).map(matchOf)) };
  }

  /** Names its keys itself: the commit that approves the event does not know them. */
  #later(account: string, { id, agent, later }: SequenceEvent): string {
    if (later.length === 0) return '';
    const call = new Call(account, this.#keys);
    const sent = later.map((mark) => call.mark(mark));
    return JSON.stringify({ id, agent, memories: call.memories, keys: call.keys, marks: sent });
  }
}

/** The writes of the commit that approves an event, in one step with the decision: from then on it has occurred. */
export function settledWrites(keys: Keys, account: string, { id, atMs }: { id: string; atMs: number }) {
  const list = keys.sequencesApproved(account);
  return [
    ['rpush', list, `${atMs} ${keys.sequenceLater(account, id)}`],
    ['pexpire', list, APPROVED_KEPT_MS],
  ] as const;
}

/** Keys and memories of one call, each once. */
class Call {
  readonly keys: string[];
  readonly memories: unknown[] = [];
  readonly #account: string;
  readonly #names: Keys;
  readonly #numbers = new Map<string, number>();
  readonly #memories = new Map<string, { number: number; scopes: Map<string, number> }>();

  constructor(account: string, names: Keys) {
    this.#account = account;
    this.#names = names;
    this.keys = [names.sequences(account), names.sequencesApproved(account)];
  }

  event(
    { id, agent, outcome, asks, marks, later: after, waitMs, isOpen, times, submission }: SequenceEvent,
    atMs: number,
    isRecorded = false,
  ): unknown[] {
    const later = after.length > 0 ? this.#key(this.#names.sequenceLater(this.#account, id)) : 0;
    return [
      id,
      outcome,
      asks.map((ask) => this.#ask(ask)),
      marks.map((mark) => this.mark(mark)),
      later,
      waitMs,
      atMs,
      agent,
      isRecorded ? 1 : isOpen ? 2 : 0,
      times ?? 1,
      submission ?? 0,
    ];
  }

  /** `isRecorded`: it is what it would have been once it is recorded, and approved if it had to be. */
  past(memory: Memory, { event, logged, atMs, isRecorded }: PastEvent): unknown[] {
    if (event !== undefined) return this.event(event, atMs, isRecorded);
    const { id, agent, outcome, value, scopes, places, amount } = logged;
    const sent = places.map(({ place, path, isOfAnyOutcome }) => [place, path, isOfAnyOutcome ? 1 : 0]);
    const mark = [this.memory(memory).number, value, scopes.map((key) => this.#key(key)), sent, amount ?? 0];
    return [id, outcome, [], [mark], 0, 0, atMs, agent, isRecorded ? 1 : 0, 1, 0];
  }

  build({ memory, token, read, policy }: Build, isEnd: boolean): object {
    const lease = this.#key(this.#names.sequenceLease(this.#account, memory.name));
    if (!isEnd) return { token, lease, read };
    const policies = this.#key(this.#names.policies(this.#account));
    const wanted = this.#key(this.#names.sequencesWanted(this.#names.shardOf(this.#account)));
    const member = `${this.#account}/${policy.id}`;
    return { ...{ token, lease, read, policies, wanted, member }, policy: policy.id, text: policy.text };
  }

  #ask({ memory, scope: { own, agent }, value, amount, effect }: SequenceAsk): unknown[] {
    const scope = (name: string) => this.#scope(memory, name);
    const hasOwn = own !== null && agent !== null;
    return [
      this.memory(memory).number,
      value,
      scope(own ?? allOf(agent!)),
      scope(own ?? openOf(agent!)),
      hasOwn ? scope(openOf(agent)) : 0,
      hasOwn ? scope(allOf(agent)) : 0,
      effect === 'blocked' ? 1 : 0,
      memory.most === null ? 0 : amount,
    ];
  }

  mark({ memory, scope, value, amount, places }: SequenceMark): unknown[] {
    const scopes = scopesOf(scope).map((name) => this.#scope(memory, name));
    const sent = places.map(({ place, path, isOfAnyOutcome }) => [place, path, isOfAnyOutcome ? 1 : 0]);
    return [this.memory(memory).number, value, scopes, sent, memory.most === null ? 0 : amount];
  }

  memory({ name, windowMs, steps, atLeast, hasUnless, most }: Memory) {
    return getOrMake(this.#memories, name, () => {
      const index = this.#key(this.#names.sequenceScopes(this.#account, name));
      const log = this.#key(this.#names.sequenceLog(this.#account, name));
      const sent = [name, windowMs, steps, atLeast, hasUnless ? 1 : 0, index, most ?? 0, log];
      return { number: this.memories.push(sent), scopes: new Map<string, number>() };
    });
  }

  /** Its key hashes text, and the events of a batch mostly share their scopes. */
  #scope(memory: Memory, scope: string): number {
    const key = () => this.#key(this.#names.sequenceScope(this.#account, memory.name, scope));
    return getOrMake(this.memory(memory).scopes, scope, key);
  }

  #key(key: string): number {
    return getOrMake(this.#numbers, key, () => this.keys.push(key));
  }
}

function matchOf(sent: unknown): SequenceMatch | null {
  if (sent === 0) return null;
  const [reason, after, waitsFor] = sent as SentAnswer;
  return {
    after: (listOf(after) as SentAnswer[1]).map(([atMs, id, path]): Occurrence => ({ id, atMs, path })),
    ...(reason === 0 ? {} : { reason }),
    ...(waitsFor === 0 ? {} : { waitsFor }),
  };
}

function loggedOf(text: string): Logged {
  const { at: atMs, recorded, places, amount, scopes, ...rest } = JSON.parse(text) as SentLog;
  return {
    ...{ ...rest, atMs, isRecorded: recorded === 1, scopes: listOf(scopes) as string[] },
    amount: amount === 0 ? null : amount,
    places: places.map(([place, path, any]) => ({ place, path, isOfAnyOutcome: any === 1 })),
  };
}

/** Lua does not distinguish an empty list from an empty object. */
function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
