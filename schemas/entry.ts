// What crosses a process border on the event streams: one entry per partition and tick, versioned.
// Before it: ingest encodes. After it: the store pipeline moves `rows` into ClickHouse unparsed, and every other pipeline reads digests.
// Invariant: the concatenated RowBinary rows lie in the order of the digests, and each digest says how many bytes its row has,
// so a pipeline can cut, drop or bisect rows without parsing one.
// An entry of another version, or one whose lengths do not add up, throws EntryFormatError: the pipeline parks it.
import type { EventType, Outcome, PolicyAction, PolicyType, Severity } from './common.ts';
import type { Reason } from './event.ts';

export const ENTRY_VERSION = 1;
/**
 * Field names inside a stream entry: version, digests (JSON array), rows (RowBinary).
 * `group` stands only in an entry that was parked and re-queued: the one group that processes it again.
 */
export const ENTRY_FIELD = { version: 'v', digests: 'd', rows: 'r', group: 'g' } as const;

/** Columns of an event row, in the order in which RowBinary carries them. `clickhouse/001_events.sql` must agree. */
export const EVENT_ROW_COLUMNS = [
  'account_id', // String
  'agent_id', // String
  'id', // String
  'type', // String (LowCardinality)
  'trace_id', // String, '' for none
  'timestamp', // DateTime64(3): Int64 epoch ms
  'received_at', // DateTime64(3): Int64 epoch ms
  'payload', // String, the caller's own JSON text (redacted where a policy says so)
  'search_text', // String, '' unless the payload's text holds \u escapes: then its decoded strings, one a line
  'outcome', // Enum8: 1 allowed, 2 blocked, 3 pending
  'reason', // String (LowCardinality), '' for null
  'policy_id', // String, '' for null
  'approval_id', // String, '' for none
  'policy_result', // String, JSON; '' for allowed without matches
  'model', // String (LowCardinality), '' for none
  'token_count', // Nullable(Int64)
  'tokens_used', // Nullable(Int64)
  'request_id', // String
] as const;

export type MatchDigest = {
  policy_id: string;
  name: string;
  type: PolicyType;
  actions: PolicyAction[];
  severity: Severity | null;
  /** Of a rate limit that is over: which counter (hash of policy and value) and its window, so that it is told of once a window. */
  limit?: { counter: string; windowMs: number };
};

/** What pipelines other than store need of an event. Times are epoch ms. Optional fields are left out when null or empty. */
export type EventDigest = {
  account: string;
  agent: string;
  id: string;
  type: EventType;
  occurredAt: number;
  receivedAt: number;
  outcome: Outcome;
  reason?: Reason;
  policyId?: string;
  /** Of a pending event: what its approval is opened with. */
  approvalId?: string;
  approval?: { timeoutSeconds: number; onTimeout: 'deny' | 'approve' };
  traceId?: string;
  tokensUsed?: number;
  matches?: MatchDigest[];
  rowBytes: number;
};

export type EventEntry = { digests: EventDigest[]; rows: Buffer };

export class EntryFormatError extends Error {
  override name = 'EntryFormatError';
}

/** Splits an entry's rows along its digests. Throws EntryFormatError if the lengths do not add up. */
export function rowsOf(entry: EventEntry): Buffer[] {
  let at = 0;
  const rows = entry.digests.map((digest) => {
    const row = entry.rows.subarray(at, at + digest.rowBytes);
    at += digest.rowBytes;
    return row;
  });
  if (at !== entry.rows.length) throw new EntryFormatError(`rows hold ${entry.rows.length} bytes, digests say ${at}`);
  return rows;
}

/** Reads an entry from its stream fields. `rows` may be absent where the reader asked for digests only. */
export function decodeEntry(fields: ReadonlyMap<string, Buffer>): EventEntry {
  const version = fields.get(ENTRY_FIELD.version)?.toString();
  if (version !== String(ENTRY_VERSION))
    throw new EntryFormatError(`entry of version ${version ?? 'none'}, expected ${ENTRY_VERSION}`);
  const text = fields.get(ENTRY_FIELD.digests);
  if (text === undefined) throw new EntryFormatError('entry without digests');
  let digests: unknown;
  try {
    digests = JSON.parse(text.toString());
  } catch (cause) {
    throw new EntryFormatError('digests are not JSON', { cause });
  }
  if (!Array.isArray(digests)) throw new EntryFormatError('digests are not an array');
  return { digests: digests as EventDigest[], rows: fields.get(ENTRY_FIELD.rows) ?? Buffer.alloc(0) };
}
