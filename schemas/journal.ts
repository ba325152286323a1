// What crosses a process border on the registry's journal streams: one entry per registry change, with its audit
// record. The registry writes the change, its audit log entry and this entry in one atomic step; the store pipeline
// copies it into ClickHouse (`registry` and `audit_log`), from where `gatehouse registry restore` can rebuild an empty
// Redis.

import type { AuditLog } from './audit-log.ts';
import type { ResourceType } from './closed-sets.ts';
import type { Signal } from './signal.ts';

export const JOURNAL_VERSION = 1;
/** The single field of a journal entry: the JSON of a JournalEntry. */
export const JOURNAL_FIELD = 'j';

/** Tables that the journal feeds beside `registry` and `audit_log`; their column `revision` is the entry's. */
export type JournalTable = 'approvals' | 'deliveries' | 'price_revisions';

export type JournalEntry = {
  version: typeof JOURNAL_VERSION;
  account: string;
  /**
   * Rises by one with each change of the account's registry shard: the order in which restore replays. Put in by the
   * script that commits.
   */
  revision: number;
  /** Epoch ms of the change. */
  at: number;
  /**
   * The resource after the change, `record: null` after its deletion. One change can touch several (an agent's
   * deletion).
   */
  changes: {
    kind: Exclude<ResourceType, 'event' | 'approval' | 'session' | 'backtest' | 'hold'>;
    id: string;
    record: object | null;
  }[];
  audit: AuditLog[];
  /**
   * Rows of what has tables of its own, as their columns are (times as ISO text, `created_at` among them); one of a
   * higher `revision` replaces one of the same key.
   */
  rows?: { table: JournalTable; row: Record<string, unknown> }[];
  /** Signals that follow from the change: handed to the alerts once the change is stored. */
  signals?: Signal[];
  /** The agent that this change erases: its rows go, once the streams have drained past the change. */
  erases?: string;
};
