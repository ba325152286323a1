// Remembers spans that were recorded, for IDEMPOTENCY_KEPT_MS (beside append-once.ts, for the judging thread): in which
// part, so that a span is recorded once in whatever request it comes; whose it was, for spans within it that come
// later; the one agent that a trace names; and which span was done by which decision.
// A span points to its part, and the part's own record says whether it is recorded. So a span is claimed before the
// append, with nothing to be done behind it: a claim whose part was never recorded is taken over. The part's record is
// `running` before its spans are claimed, so a part without one has ended.
// Invariant: of two parts with one span, one records it. Notes have the bound of kept answers, and an even share of it;
// past it the oldest go first, and such a span is taken for a new one.
// Failure: ServiceError unavailable; nothing was recorded.
import { IDEMPOTENCY_KEPT_MS } from '../common/limits.ts';
import { readAsset } from '../process/assets.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';
import { keeping, nothingRecorded, type OnceKey } from './append-once.ts';

const note = new Script<[evicted: number, ...there: string[]]>(
  'span-notes',
  keeping(readAsset('src/redis/span-notes.lua')),
  { acknowledges: true },
);

/**
 * Its partition and how its name ends, as the judging thread makes it (`noteName`): hashing them would hold up the loop
 * that answers.
 */
type NoteName = string;
/**
 * `spans`: `agent` is the id of the one that it, or a span around it, names; '' where none does. `traces`: which agent
 * each names, or SEVERAL. `decisions`: by which span each was done.
 */
export type SpansClaim = {
  part: OnceKey;
  spans: readonly { note: NoteName; agent: string }[];
  traces: readonly { note: NoteName; agent: string }[];
  decisions: readonly { note: NoteName; span: string }[];
};
/** `running`: another request records it at this moment. */
type SpanState = 'own' | 'recorded' | 'running';
/** In the order of the claim. `decisions`: is it this span's? */
export type ClaimAnswer = { spans: SpanState[]; decisions: boolean[] };

export const SEVERAL = '-';

/** `scope`: a key that is bound to an agent knows its own spans alone. `of`: what the note is of. */
export function noteName(
  keys: Keys,
  account: string,
  { scope, of }: { scope: string; of: readonly string[] },
): NoteName {
  // No Idempotency-Key of a caller has a character 0. Notes of one trace lie together.
  const end = keys.idempotencyEnd(`\0${[scope, ...of].join('/')}`);
  return `${keys.partitionOf(account, of[1]!)}/${end}`;
}

type Note = { note: NoteName; value: string; before: string };

export class SpanNotes {
  readonly #redis: Commands;
  readonly #keys: Keys;
  readonly #bytesMax: () => number;
  readonly #onEvicted: (notes: number) => void;

  /** As of AppendOnce. */
  constructor(options: { redis: Commands; keys: Keys; bytesMax: () => number; onEvicted: (notes: number) => void }) {
    this.#redis = options.redis;
    this.#keys = options.keys;
    this.#bytesMax = options.bytesMax;
    this.#onEvicted = options.onEvicted;
  }

  /** Ids of the agents of spans and traces, in the order of their notes; null: none is known. */
  async owners(account: string, notes: readonly NoteName[]): Promise<(string | null)[]> {
    const values = await this.#byPartition(notes, notes, (partition, _some, ends) =>
      this.#redis.mget(ends.map((end) => this.#record(partition, account, end))),
    );
    return values.map(agentIn);
  }

  /** Claims spans for a part: those that are free, or of a part that was never recorded, are its own from here on. */
  async claim(account: string, { part, spans, traces, decisions }: SpansClaim): Promise<ClaimAnswer> {
    const pointer = `${part.partition}/${this.#keys.idempotencyEnd(part.key)}/`;
    const notes: Note[] = [
      ...spans.map(({ note, agent }) => ({ note, value: pointer + agent, before: '' })),
      ...traces.map(({ note, agent }) => ({ note, value: agent, before: '' })),
      ...decisions.map(({ note, span }) => ({ note, value: span, before: '' })),
    ];
    const there = await this.#note(account, notes);
    const states = await this.#partStates(account, there.slice(0, spans.length), pointer);
    const later = notes.flatMap((one, i): { i: number; note: Note }[] => {
      const before = there[i]!;
      if (i < spans.length) return states[i] === 'free' ? [{ i, note: { ...one, before } }] : [];
      const isOtherAgent = i < spans.length + traces.length && before !== one.value && before !== SEVERAL;
      return isOtherAgent ? [{ i, note: { ...one, value: SEVERAL, before } }] : [];
    });
    const taken = await this.#note(
      account,
      later.map((one) => one.note),
    );
    for (const [j, { i }] of later.entries())
      if (i < spans.length) states[i] = taken[j]!.startsWith(pointer) ? 'own' : 'running';
    return {
      spans: states as SpanState[],
      decisions: decisions.map(({ span }, i) => there[spans.length + traces.length + i] === span),
    };
  }

  /**
   * The states of the parts that the spans point to; `free`: it was never recorded, or nothing is known of it any more.
   */
  async #partStates(account: string, there: readonly string[], own: string): Promise<(SpanState | 'free')[]> {
    const parts = [...new Set(there.filter((value) => !value.startsWith(own)).map(partIn))];
    const read = await Promise.all(
      parts.map((part) => {
        const [partition, end] = part.split('/') as [string, string];
        return this.#redis.get(this.#keys.idempotencyNamed(Number(partition), account, end));
      }),
    ).catch(fails);
    const records = new Map(parts.map((part, i) => [part, read[i] ?? null]));
    return there.map((value) => (value.startsWith(own) ? 'own' : stateOf(records.get(partIn(value)) ?? null)));
  }

  /** Sets notes, and returns the values that are there now, in the order of `notes`. */
  #note(account: string, notes: readonly Note[]): Promise<string[]> {
    const owner = this.#keys.spanNotesOf(account);
    const bytesMax = Math.floor(this.#bytesMax() / this.#keys.partitions);
    const names = notes.map(({ note }) => note);
    return this.#byPartition(notes, names, async (partition, some, ends) => {
      const keys = [
        this.#keys.idempotencyOrder(partition, owner),
        this.#keys.idempotencyBytes(partition),
        ...ends.map((end) => this.#record(partition, account, end)),
      ];
      const args = some.flatMap(({ value, before }, i) => [ends[i]!, value, before]);
      const [evicted, ...there] = await note.run(this.#redis, keys, [IDEMPOTENCY_KEPT_MS, owner, bytesMax, ...args]);
      if (evicted > 0) this.#onEvicted(evicted);
      return there;
    });
  }

  #record(partition: number, account: string, end: string): string {
    return this.#keys.idempotencyNamed(partition, this.#keys.spanNotesOf(account), end);
  }

  /** Keys of one call lie in one slot. */
  async #byPartition<Of, Result>(
    all: readonly Of[],
    names: readonly NoteName[],
    ask: (partition: number, some: readonly Of[], ends: readonly string[]) => Promise<Result[]>,
  ): Promise<Result[]> {
    const places = new Map<string, number[]>();
    for (const [i, name] of names.entries()) {
      const partition = name.slice(0, name.indexOf('/'));
      const known = places.get(partition);
      if (known === undefined) places.set(partition, [i]);
      else known.push(i);
    }
    const results: Result[] = new Array(all.length);
    await Promise.all(
      [...places].map(async ([partition, at]) => {
        const ends = at.map((i) => names[i]!.slice(partition.length + 1));
        const some = at.map((i) => all[i]!);
        const found = await ask(Number(partition), some, ends);
        for (const [j, i] of at.entries()) results[i] = found[j]!;
      }),
    ).catch(fails);
    return results;
  }
}

function fails(cause: unknown): never {
  throw nothingRecorded(cause);
}

function stateOf(record: string | null): SpanState | 'free' {
  if (record === null) return 'free';
  return record.startsWith('done:') ? 'recorded' : 'running';
}

/** `<partition>/<end of its name>/<agent>` */
function partIn(value: string): string {
  return value.slice(0, value.lastIndexOf('/'));
}

/** The agent in a value. A span's stands behind its part, a trace's alone. */
function agentIn(value: string | null): string | null {
  const agent = value === null ? '' : value.slice(value.lastIndexOf('/') + 1);
  return agent === '' || agent === SEVERAL ? null : agent;
}
