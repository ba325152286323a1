// Dead streams: what could not be processed, with its reason (after a pipeline has given up on it; before a person looks).
// Beside each event, signal and journal stream lies one, in the same slot, so that parking and acknowledging are one step.
// A parked entry keeps the fields it had, so re-queueing it is moving it: it becomes a fresh entry for the group that had
// parked it and no other, and that group asks ClickHouse for its event ids first, so nothing is stored twice.
// Invariant: nothing that was parked is dropped. A dead stream is bounded at DEAD_ENTRIES_MAX; when it is full the batch that
// has more to park waits, and its stream with it, until somebody acts on `gatehouse dead list`.
import { agentOf } from '../../schemas/audit-log.ts';
import { decodeSummaries, ENTRY_FIELD, type EventSummary } from '../../schemas/entry.ts';
import { JOURNAL_FIELD, type JournalEntry } from '../../schemas/journal.ts';
import { SIGNAL_FIELD, type Signal } from '../../schemas/signal.ts';
import { readAsset } from '../assets.ts';
import type { Commands } from '../redis/client.ts';
import { type Keys, REGISTRY_SHARDS } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';
import type { DeadLetterFields } from './consume.ts';

/** Fields that parking adds: why, when (epoch ms), and the id of the entry it comes from. */
const PARKED_FIELD = { reason: 'why', at: 'at', from: 'from' } as const;
const REASON_CHARACTERS_MAX = 500;

const retry = new Script<string | null>('stream-dead-retry', readAsset('src/redis/stream-dead-retry.lua'));

export function deadLetterWords(parked: {
  fields: ReadonlyMap<string, string | Buffer>;
  group: string;
  from: string;
  reason: string;
}): DeadLetterFields {
  const { group, from, reason } = parked;
  const kept = [...parked.fields].filter(([name]) => name !== ENTRY_FIELD.group).flat();
  const why = reason.slice(0, REASON_CHARACTERS_MAX);
  return [
    ...kept,
    ENTRY_FIELD.group,
    group,
    PARKED_FIELD.reason,
    why,
    PARKED_FIELD.at,
    String(Date.now()),
    PARKED_FIELD.from,
    from,
  ];
}

export type DeadLetter = {
  /** Stream it belongs to, and its id in the dead stream. */
  stream: string;
  id: string;
  group: string;
  reason: string;
  /** ISO time at which it was parked. */
  parkedAt: string;
  /** Id of the entry it comes from. */
  from: string;
  bytes: number;
  /** Ids of its events, where it is an event entry that can be read. */
  eventIds: string[];
};

export class DeadLetters {
  readonly #redis: Commands;
  /** stream -> its dead stream */
  readonly #streams = new Map<string, string>();

  constructor(options: { redis: Commands; keys: Keys }) {
    const { keys } = options;
    this.#redis = options.redis;
    for (let partition = 0; partition < keys.partitions; partition++) {
      this.#streams.set(keys.events(partition), keys.dead(partition));
      this.#streams.set(keys.signals(partition), keys.signalsDead(partition));
    }
    for (let shard = 0; shard < REGISTRY_SHARDS; shard++)
      this.#streams.set(keys.journal(shard), keys.journalDead(shard));
  }

  async count(): Promise<number> {
    const lengths = await Promise.all([...this.#streams.values()].map((dead) => this.#redis.xlen(dead)));
    return lengths.reduce((sum, length) => sum + length, 0);
  }

  /** The oldest `limit` of each stream. */
  async list(limit: number): Promise<DeadLetter[]> {
    const lists = await Promise.all([...this.#streams].map(([stream, dead]) => this.#listOne(stream, dead, limit)));
    return lists.flat();
  }

  async #listOne(stream: string, dead: string, limit: number): Promise<DeadLetter[]> {
    const entries = await this.#redis.xrangeBuffer(dead, '-', '+', 'COUNT', limit);
    return entries.map(([id, fields]) => describe(stream, id.toString(), fields));
  }

  /** Re-queues parked entries. Returns how many of them were still there. */
  async retry(entries: readonly Pick<DeadLetter, 'stream' | 'id'>[]): Promise<number> {
    const stay = Object.values(PARKED_FIELD);
    const ids = await Promise.all(
      entries.map(({ stream, id }) => retry.run(this.#redis, [this.#dead(stream), stream], [id, ...stay])),
    );
    return ids.filter((id) => id !== null).length;
  }

  /** Drops a stream's parked entries all of whose events, signals or changes are of this agent. Returns their number. */
  async dropAgent(stream: string, agent: string): Promise<number> {
    const dead = this.#dead(stream);
    const entries = await this.#redis.xrangeBuffer(dead, '-', '+');
    const ids = entries
      .filter(([, fields]) =>
        isOfAgent([...summariesOf(fields), ...signalsOf(fields), ...toldInJournal(fields)], agent),
      )
      .map(([id]) => id.toString());
    return ids.length === 0 ? 0 : this.#redis.xdel(dead, ...ids);
  }

  #dead(stream: string): string {
    const dead = this.#streams.get(stream);
    if (dead === undefined) throw new Error(`no stream ${stream}`);
    return dead;
  }
}

function describe(stream: string, id: string, fields: readonly Buffer[]): DeadLetter {
  const text = (name: string) => fieldOf(fields, name)?.toString() ?? '';
  return {
    stream,
    id,
    group: text(ENTRY_FIELD.group),
    reason: text(PARKED_FIELD.reason),
    parkedAt: new Date(Number(text(PARKED_FIELD.at))).toISOString(),
    from: text(PARKED_FIELD.from),
    bytes: fields.reduce((sum, field) => sum + field.length, 0),
    eventIds: summariesOf(fields).map((summary) => summary.id),
  };
}

function isOfAgent(told: readonly { agent: string | null }[], agent: string): boolean {
  return told.length > 0 && told.every((one) => one.agent === agent);
}

/** Empty where they cannot be read: that may be why the entry is here. */
function summariesOf(fields: readonly Buffer[]): EventSummary[] {
  return objectsIn(readOf(fields, ENTRY_FIELD.summaries, decodeSummaries)) as EventSummary[];
}

function signalsOf(fields: readonly Buffer[]): Signal[] {
  const entry = jsonOf(fields, SIGNAL_FIELD) as { signals?: unknown } | null;
  return objectsIn(entry?.signals) as Signal[];
}

/** What a journal entry tells of. The deletion itself is the account's, not the agent's: a change without a record is of nobody. */
function toldInJournal(fields: readonly Buffer[]): { agent: string | null }[] {
  const entry = jsonOf(fields, JOURNAL_FIELD) as Partial<JournalEntry> | null;
  const changes = objectsIn(entry?.changes) as JournalEntry['changes'];
  const audit = objectsIn(entry?.audit) as JournalEntry['audit'];
  const rows = objectsIn(entry?.rows) as NonNullable<JournalEntry['rows']>;
  return [
    ...changes.map(({ kind, id, record }) => ({ agent: kind === 'agent' && record !== null ? id : null })),
    ...audit.map((log) => ({ agent: agentOf(log, log.details ?? {}) })),
    ...rows.map(({ row }) => ({ agent: typeof row?.['agent_id'] === 'string' ? row['agent_id'] : null })),
  ];
}

function objectsIn(value: unknown): object[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'object' && one !== null) : [];
}

function jsonOf(fields: readonly Buffer[], name: string): unknown {
  return readOf(fields, name, JSON.parse);
}

/** null: there is no such field, or it cannot be read. */
function readOf(fields: readonly Buffer[], name: string, read: (text: string) => unknown): unknown {
  try {
    return read(fieldOf(fields, name)?.toString() ?? 'null');
  } catch {
    return null;
  }
}

function fieldOf(fields: readonly Buffer[], name: string): Buffer | undefined {
  for (let i = 0; i + 1 < fields.length; i += 2) if (fields[i]!.toString('latin1') === name) return fields[i + 1];
  return undefined;
}
