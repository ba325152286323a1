// What has occurred, for the sequences of all accounts, in Redis, which all processes share (between judgement and
// decision). One script call takes events of one account in their order: it says which sequences match, and keeps
// which steps the events are, as one step (src/redis/sequences.lua). All of an account's lies on one node, so that the
// order in which that counts is the order for every process. Calls of a tick are sent together.
// Invariant: an event's steps are kept before it is recorded. So they may be of one whose append then fails: for a
// window a sequence may match too often, never too rarely.
// Failure: rejects with RedisUnavailable; the caller then refuses the submission.
import { SEQUENCE_SCOPES_MAX, SEQUENCE_VALUES_MAX } from '../../common/limits.ts';
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

/** `atMs`: epoch ms by Redis's clock. `answers`: of each event. */
/** `submission`: those of one are recorded together or not at all. */
export type ToCount = { events: readonly SequenceEvent[]; submission: string };
export type SequencesCounted = { atMs: number; answers: readonly SequenceAnswers[] };
type Limits = { values: number; scopes: number };

type SentAnswer = [reason: SequenceReason | 0, after: [atMs: number, id: string, path: string][], waitsFor: string | 0];
type Sent = { now: number; answers: unknown };

/** A script holds Redis up for others: 1 ms for so many events. */
const EVENTS_AT_ONCE = 50;
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
  async count(account: string, { events, submission }: ToCount, atMs = 0): Promise<SequencesCounted> {
    const calls: Promise<SequencesCounted>[] = [];
    for (let from = 0; from < events.length; from += EVENTS_AT_ONCE)
      calls.push(this.#call(account, { submission, events: events.slice(from, from + EVENTS_AT_ONCE) }, atMs));
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

  /** Nothing says any more that it was the agent. The steps it did alone go; of others stays when. Idempotent. */
  async forgetAgent(account: string, agent: string): Promise<void> {
    const known = await this.#redis.hkeys(this.#keys.sequences(account));
    for (const name of new Set(known.map((field) => field.replace(/\/over$/, '')))) {
      const index = this.#keys.sequenceScopes(account, name);
      const own = [allOf(agent), openOf(agent)].map((scope) => this.#keys.sequenceScope(account, name, scope));
      await this.#redis.del(...own);
      await this.#redis.zrem(index, ...own);
      const scopes = await this.#redis.zrange(index, '0', '-1');
      for (let from = 0; from < scopes.length; from += SCOPES_AT_ONCE)
        await this.#forget.run(this.#redis, scopes.slice(from, from + SCOPES_AT_ONCE), [agent]);
    }
  }

  /** What is called by `send` goes in one write. */
  together(send: () => void): void {
    sendTogether(acknowledging(this.#redis), send);
  }

  async #call(account: string, { events, submission }: ToCount, atMs: number): Promise<SequencesCounted> {
    const call = new Call(account, this.#keys);
    const sent = events.map((event) => call.event(event, atMs));
    const input = JSON.stringify({ events: sent, memories: call.memories, submission });
    const { values, scopes } = this.#limits;
    const args = [input, values, scopes, ...events.map((event) => this.#later(account, event))];
    const reply = JSON.parse(await this.#script.run(this.#redis, call.keys, args)) as Sent;
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

/** What the commit writes that approves an event, in one step with the decision: from then on it has occurred. */
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
  readonly #places = new Map<string, number>();

  constructor(account: string, names: Keys) {
    this.#account = account;
    this.#names = names;
    this.keys = [names.sequences(account), names.sequencesApproved(account)];
  }

  event({ id, agent, outcome, asks, marks, later: after, waitMs }: SequenceEvent, atMs: number): unknown[] {
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
    ];
  }

  #ask({ memory, scope: { own, agent }, value, amount, effect }: SequenceAsk): unknown[] {
    const scope = (name: string) => this.#scope(memory, name);
    const hasOwn = own !== null && agent !== null;
    return [
      this.#memory(memory),
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
    return [this.#memory(memory), value, scopes, sent, memory.most === null ? 0 : amount];
  }

  #memory({ name, windowMs, steps, atLeast, hasUnless, most }: Memory): number {
    let place = this.#places.get(name);
    if (place === undefined) {
      const index = this.#key(this.#names.sequenceScopes(this.#account, name));
      place = this.memories.push([name, windowMs, steps, atLeast, hasUnless ? 1 : 0, index, most ?? 0]);
      this.#places.set(name, place);
    }
    return place;
  }

  #scope({ name }: Memory, scope: string): number {
    return this.#key(this.#names.sequenceScope(this.#account, name, scope));
  }

  #key(key: string): number {
    let number = this.#numbers.get(key);
    if (number === undefined) {
      number = this.keys.push(key);
      this.#numbers.set(key, number);
    }
    return number;
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

/** Lua does not distinguish an empty list from an empty object. */
function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
