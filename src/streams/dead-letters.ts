// Dead-letter streams: entries that could not be processed, with the reason (after a pipeline has given up; before an
// operator looks). Each event, signal and journal stream has one, in the same hash slot, so that dead-lettering and
// acknowledging are one step. A dead letter keeps the fields of its entry, so re-queueing moves it: it becomes a fresh
// entry for the one group that had given up, and that group asks ClickHouse for its event ids first, so nothing is
// stored twice.
// Invariant: no dead letter is dropped. A stream holds at most DEAD_ENTRIES_MAX; when it is full a batch with more of
// them waits, and its stream with it, until an operator acts on `gatehouse dead list`.
import { agentOf } from '../../schemas/audit-log.ts';
import { decodeSummaries, ENTRY_FIELD, type EventSummary } from '../../schemas/entry.ts';
import { JOURNAL_FIELD, type JournalEntry } from '../../schemas/journal.ts';
import { SIGNAL_FIELD, type Signal } from '../../schemas/signal.ts';
import { readAsset } from '../process/assets.ts';
import type { Commands } from '../redis/client.ts';
import { type Keys, REGISTRY_SHARDS } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';
import type { DeadLetterFields } from './consume.ts';

/** Fields that are added: the reason, the time (epoch ms), and the id of the original entry. */
const DEAD_LETTER_FIELD = { reason: 'why', at: 'at', from: 'from' } as const;
const REASON_CHARACTERS_MAX = 500;

const retry = new Script<string | null>('stream-dead-retry', readAsset('src/redis/stream-dead-retry.lua'));

export function deadLetterFields(letter: {
  fields: ReadonlyMap<string, string | Buffer>;
  group: string;
  from: string;
  reason: string;
}): DeadLetterFields {
  const { group, from, reason } = letter;
  const kept = [...letter.fields].filter(([name]) => name !== ENTRY_FIELD.group).flat();
  const why = reason.slice(0, REASON_CHARACTERS_MAX);
  return [
    ...kept,
    ENTRY_FIELD.group,
    group,
    DEAD_LETTER_FIELD.reason,
    why,
    DEAD_LETTER_FIELD.at,
    String(Date.now()),
    DEAD_LETTER_FIELD.from,
    from,
  ];
}

export type DeadLetter = {
  /** Stream it belongs to, and its id in the dead stream. */
  stream: string;
  id: string;
  group: string;
  reason: string;
  /** ISO time. */
  givenUpAt: string;
  /** Id of the original entry. */
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

  /** Re-queues dead letters. Returns how many of them were still there. */
  async retry(entries: readonly Pick<DeadLetter, 'stream' | 'id'>[]): Promise<number> {
    const stay = Object.values(DEAD_LETTER_FIELD);
    const ids = await Promise.all(
      entries.map(({ stream, id }) => retry.run(this.#redis, [this.#dead(stream), stream], [id, ...stay])),
    );
    return ids.filter((id) => id !== null).length;
  }

  /** Drops a stream's dead letters all of whose events, signals or changes are of this agent. Returns their number. */
  async dropAgent(stream: string, agent: string): Promise<number> {
    const dead = this.#dead(stream);
    const entries = await this.#redis.xrangeBuffer(dead, '-', '+');
    const ids = entries
      .filter(([, fields]) =>
        isOfAgent([...summariesOf(fields), ...signalsOf(fields), ...agentsInJournal(fields)], agent),
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
    reason: text(DEAD_LETTER_FIELD.reason),
    givenUpAt: new Date(Number(text(DEAD_LETTER_FIELD.at))).toISOString(),
    from: text(DEAD_LETTER_FIELD.from),
    bytes: fields.reduce((sum, field) => sum + field.length, 0),
    eventIds: summariesOf(fields).map((summary) => summary.id),
  };
}

function isOfAgent(agents: readonly { agent: string | null }[], agent: string): boolean {
  return agents.length > 0 && agents.every((one) => one.agent === agent);
}

/** Empty where they cannot be read: that may be why the entry is here. */
function summariesOf(fields: readonly Buffer[]): EventSummary[] {
  return objectsIn(readOf(fields, ENTRY_FIELD.summaries, decodeSummaries)) as EventSummary[];
}

function signalsOf(fields: readonly Buffer[]): Signal[] {
  const entry = jsonOf(fields, SIGNAL_FIELD) as { signals?: unknown } | null;
  return objectsIn(entry?.signals) as Signal[];
}

/**
 * The agent of a journal entry. The deletion itself belongs to the account: a change without a record has no
 * agent.
 */
function agentsInJournal(fields: readonly Buffer[]): { agent: string | null }[] {
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
