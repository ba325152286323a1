// The journal's way into ClickHouse: registry streams -> tables `registry`, `policy_revisions`, `audit_log`,
// `approvals`, `deliveries` (beside the event store). Each entry is one registry change with its audit record, which
// Redis wrote together; here both are copied, and the records become the next entries of their accounts' audit chains
// (chain.ts).
// Invariant: `registry` keeps the newest revision of each resource, however late or often a change arrives; so do the
// tables that an entry's `rows` are of. Those come as their columns are, times as ISO text; account and revision are
// put in here. The signals of an entry go to the alerts once its rows are stored, again and again if need be: signals
// may be repeated. A revision of a policy is made of its change and the audit entry beside it, so it is there exactly
// when they are. An agent's erasure is not this file's: its audit records are copied like all others and removed later
// (erase.ts). An entry of another version is dead-lettered; refused rows are dead-lettered with their entry.

import { ClickHouseError } from '../../clickhouse/client.ts';
import { agentOf } from '../../schemas/audit-log.ts';
import { EntryFormatError } from '../../schemas/entry.ts';
import { JOURNAL_FIELD, JOURNAL_VERSION, type JournalEntry, type JournalTable } from '../../schemas/journal.ts';
import type { Policy } from '../../schemas/policy.ts';
import { auditLeaf, packAgent } from '../../src/audit/hash.ts';
import { exactJson, parseExact } from '../../src/common/exact-json.ts';
import { DEAD_LETTER_ROWS_MAX } from '../../src/common/limits.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { Log } from '../../src/process/log.ts';
import { SYSTEM } from '../../src/registry/audit.ts';
import { revisionTexts } from '../../src/registry/policies/revision-texts.ts';
import type { BinaryCommandArgs, DeadLetterFields } from '../../src/streams/consume.ts';
import { deadLetterFields } from '../../src/streams/dead-letters.ts';
import { appendSignals } from '../../src/streams/signals.ts';
import type { StreamEntry } from '../../src/streams/window.ts';
import type { Batch } from '../batch.ts';
import { countedInsert } from '../counted-insert.ts';
import type { Applied, Committed, Decoded, Work } from '../drain.ts';
import { type Chained, type ChainOptions, ChainWriter } from './chain.ts';
import { ChainRecovery } from './chain-recovery.ts';
import { TableRefuses } from './insert.ts';
import { hashOf, monthOf } from './rows.ts';

// Exactly once: all tables replace rows of equal key, so writing a batch again changes nothing; the tokens spare the
// parts. After a try without an answer a token may be known whose rows are not there (verify-insert.ts): then the rows
// go once more without one.

const GROUP = 'store';

type Change = { id: string; entry: JournalEntry; fields: ReadonlyMap<string, Buffer> };
type RevisionDetails = {
  revision?: number;
  before?: object;
  after?: object;
  restored_from?: number;
  agent_id?: string;
};
type Table = {
  name: 'registry' | 'policy_revisions' | 'audit_log' | JournalTable;
  /** Rows of one partition of the table. */
  parts: { part: string; rows: object[]; ids: string[] }[];
};

type JournalOptions = ChainOptions & { metrics: Metrics; log: Log };

export class JournalStore implements Work<Change, null> {
  readonly #options: JournalOptions;
  readonly #chain: ChainWriter;
  readonly #recovery: ChainRecovery;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#chain = new ChainWriter(options);
    this.#recovery = new ChainRecovery(options, this.#chain);
  }

  wentBack(stream: string): void {
    this.#recovery.begin(stream);
  }

  compared(stream: string, fromMs: number | null): AsyncIterable<BinaryCommandArgs[]> {
    return this.#recovery.end(stream, fromMs);
  }

  decode({ id, fields }: StreamEntry): Decoded<Change> {
    const entry = parseExact(fields.get(JOURNAL_FIELD)?.toString() ?? 'null') as JournalEntry | null;
    if (entry?.version !== JOURNAL_VERSION)
      throw new EntryFormatError(`journal entry of version ${entry?.version ?? 'none'}, expected ${JOURNAL_VERSION}`);
    const rows = entry.changes.length + entry.audit.length + (entry.rows?.length ?? 0);
    return { value: { id, entry, fields }, rows, oldestMs: entry.at };
  }

  prepare(changes: readonly Change[]): boolean {
    return changes.length > 0;
  }

  async plan(): Promise<null> {
    return null;
  }

  async apply(batch: Batch<Change, null>): Promise<Applied> {
    const { stored, deadLetters } = await this.#store(batch);
    const signals = stored.flatMap(({ entry }) => entry.signals ?? []);
    if (signals.length > 0) await appendSignals(this.#options.redis, this.#options.keys, signals);
    return { deadLetters, writes: await this.#chain.extend(batch.stream, stored.flatMap(chainedEntries)) };
  }

  async #store(batch: Batch<Change, null>): Promise<{ stored: readonly Change[]; deadLetters: DeadLetterFields[] }> {
    try {
      await this.#insert(batch, batch.values);
      return { stored: batch.values, deadLetters: [] };
    } catch (error) {
      if (!isBadData(error)) throw error;
    }
    // Rare, and these tables may get a row twice: one by one.
    const [stored, deadLetters]: [Change[], DeadLetterFields[]] = [[], []];
    for (const change of batch.values) {
      try {
        await this.#insert(batch, [change]);
        stored.push(change);
      } catch (error) {
        if (!isBadData(error)) throw error;
        deadLetters.push(
          deadLetterFields({ fields: change.fields, group: GROUP, from: change.id, reason: (error as Error).message }),
        );
        if (deadLetters.length > DEAD_LETTER_ROWS_MAX)
          throw new TableRefuses(`ClickHouse refused ${deadLetters.length} journal entries of one batch`);
      }
    }
    return { stored, deadLetters };
  }

  /** The audit log last: an entry of it is there exactly when its change was stored whole, and so in the chain. */
  async #insert(batch: Batch<Change, null>, changes: readonly Change[]): Promise<void> {
    const { clickhouse, metrics } = this.#options;
    for (const { name, parts } of tablesOf(changes)) {
      for (const { part, rows, ids } of parts) {
        await batch.ensureHeld();
        const token = `${batch.stream}:${changes[0]!.id}-${changes.at(-1)!.id}:${part}:${hashOf(ids)}`;
        await countedInsert(metrics, name, async () => {
          await clickhouse.insertRows(name, rows, token);
          if (batch.try !== 'first') await clickhouse.insertRows(name, rows);
        });
        metrics.inc('gatehouse_stored_rows_total', { table: name }, rows.length);
      }
    }
  }

  committed({ first, last, values, deadLettered }: Committed<Change, null>): void {
    const { metrics, log } = this.#options;
    metrics.inc('gatehouse_batches_total', { pipeline: 'journal' });
    metrics.inc(
      'gatehouse_dead_letter_rows_total',
      { table: 'registry' },
      deadLettered.refused + deadLettered.unreadable,
    );
    log.debug({ first, last, changes: values.length, ...deadLettered }, 'journal.flushed');
  }
}

/** The entries that a stored change adds to the registry's chain. */
function chainedEntries({ entry }: Change): Chained[] {
  return entry.audit.map((log) => {
    const createdMs = Date.parse(log.created_at);
    return {
      account: entry.account,
      id: log.id,
      agent: packAgent(agentOf(log, log.details)),
      leaf: auditLeaf({ ...log, details: exactJson(log.details), createdMs }),
      atMs: createdMs,
    };
  });
}

/** The audit log last: see `#insert`. */
function tablesOf(changes: readonly Change[]): Table[] {
  return [registryTable(changes), revisionTable(changes), ...rowTables(changes), auditTable(changes)];
}

function registryTable(changes: readonly Change[]): Table {
  const rows = changes.flatMap(({ entry }) =>
    entry.changes.map(({ kind, id, record }) => ({
      account_id: entry.account,
      kind,
      id,
      revision: entry.revision,
      at: clickhouseTime(entry.at),
      record: record === null ? '' : exactJson(record),
    })),
  );
  const ids = rows.map((row) => `${row.kind}/${row.id}/${row.revision}`);
  return { name: 'registry', parts: rows.length > 0 ? [{ part: 'registry', rows, ids }] : [] };
}

function revisionTable(changes: readonly Change[]): Table {
  const rows = changes.flatMap(({ entry }) =>
    entry.changes.flatMap(({ kind, id, record }) => {
      const revision = kind === 'policy' ? revisionOf(entry, id, record as Policy | null) : undefined;
      return revision === undefined ? [] : [{ ...revision, account_id: entry.account, policy_id: id }];
    }),
  );
  const ids = rows.map((row) => `${row.policy_id}/${row.revision}`);
  return { name: 'policy_revisions', parts: rows.length > 0 ? [{ part: 'policy_revisions', rows, ids }] : [] };
}

/**
 * undefined: the policy went with its agent, and so do its revisions. Of a policy that is written again
 * (src/registry/recovery/history.ts) no more is known than the revision that it is at.
 */
function revisionOf({ audit, at }: JournalEntry, id: string, record: Policy | null) {
  const log = audit.find((one) => one.resource_type === 'policy' && one.resource_id === id);
  const { revision: recorded, before, after, restored_from, agent_id: agent } = (log?.details ?? {}) as RevisionDetails;
  if (record === null && (log?.action !== 'policy.deleted' || recorded === undefined)) return undefined;
  const revision = record === null ? recorded! : record.revision;
  return {
    revision,
    agent_id: (record === null ? agent : record.agent_id) ?? '',
    action: record === null ? 'deleted' : revision === 1 ? 'created' : 'updated',
    actor: log?.actor ?? SYSTEM.actor,
    created_at: clickhouseTime(at),
    restored_from: restored_from ?? 0,
    ...revisionTexts(record, { before, after }),
  };
}

function auditTable(changes: readonly Change[]): Table {
  const months = new Map<number, { part: string; rows: object[]; ids: string[] }>();
  for (const { entry } of changes) {
    for (const log of entry.audit) {
      const at = Date.parse(log.created_at);
      const month = monthOf(at);
      const part = months.get(month) ?? { part: `audit:${month}`, rows: [], ids: [] };
      months.set(month, part);
      part.ids.push(log.id);
      part.rows.push({
        ...log,
        account_id: entry.account,
        details: exactJson(log.details),
        created_at: clickhouseTime(at),
      });
    }
  }
  return { name: 'audit_log', parts: [...months.values()] };
}

/** The rows of entries for tables of their own, with account and revision. A month of `created_at` is a partition. */
function rowTables(changes: readonly Change[]): Table[] {
  const tables = new Map<JournalTable, Map<string, Table['parts'][number]>>();
  for (const { entry } of changes) {
    for (const { table, row } of entry.rows ?? []) {
      const months = tables.get(table) ?? new Map<string, Table['parts'][number]>();
      tables.set(table, months);
      const part = `${table}:${String(row['created_at']).slice(0, 'yyyy-mm'.length)}`;
      const same: Table['parts'][number] = months.get(part) ?? { part, rows: [], ids: [] };
      months.set(part, same);
      same.ids.push(`${String(row['id'])}/${entry.revision}`);
      same.rows.push({ ...row, account_id: entry.account, revision: entry.revision });
    }
  }
  return [...tables].map(([name, months]) => ({ name, parts: [...months.values()] }));
}

/** `2026-11-20 17:28:00.123`, UTC. */
function clickhouseTime(epochMs: number): string {
  return new Date(epochMs).toISOString().replace('T', ' ').slice(0, -1);
}

function isBadData(error: unknown): boolean {
  return error instanceof ClickHouseError && !error.canRetry;
}
