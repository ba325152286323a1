// The one description of an event row: the columns in the order in which RowBinary carries them, what kind each is, and
// what it holds for an event that is allowed without a match. Encoder, decoder, the WebAssembly writer and the
// statements of insert and verification follow from it (src/common/event-row-codec.ts, src/ingest/wasm-instance.ts,
// clickhouse/client.ts); clickhouse/ declares the same columns, held by a test. A new column is a line here, its value
// in src/ingest/encode.ts, and a migration.
import type { Outcome } from './closed-sets.ts';

/** `ascii`: text of one byte a character. `int64`: epoch ms, or a count. */
type Kinds = {
  ascii: string;
  text: string;
  int64: number;
  uint16: number;
  nullableInt64: number | null;
  outcome: Outcome;
};
type Kind = keyof Kinds;

export const EVENT_COLUMNS = [
  { name: 'account_id', kind: 'ascii' },
  { name: 'agent_id', kind: 'ascii' },
  { name: 'id', kind: 'ascii' },
  { name: 'type', kind: 'ascii' },
  /** '' for none. */
  { name: 'trace_id', kind: 'text' },
  { name: 'timestamp', kind: 'int64' },
  { name: 'received_at', kind: 'int64' },
  /** The caller's own JSON text, redacted where a policy says so. */
  { name: 'payload', kind: 'text' },
  { name: 'outcome', kind: 'outcome', allowed: 'allowed' },
  /** '' for null, like the next two. */
  { name: 'reason', kind: 'ascii', allowed: '' },
  { name: 'policy_id', kind: 'ascii', allowed: '' },
  { name: 'approval_id', kind: 'ascii', allowed: '' },
  /** JSON. */
  { name: 'policy_result', kind: 'text', allowed: '' },
  /** '' for none. */
  { name: 'model', kind: 'text' },
  { name: 'token_count', kind: 'nullableInt64' },
  /** The payload's own key, else a provider's answer in it, gives the number (src/ingest/token-usage.ts). */
  { name: 'tokens_used', kind: 'nullableInt64' },
  { name: 'request_id', kind: 'ascii' },
  /** Behind the millisecond of `timestamp`. */
  { name: 'timestamp_micros', kind: 'uint16' },
] as const satisfies readonly { name: string; kind: Kind; allowed?: Kinds[Kind] }[];

type Column = (typeof EVENT_COLUMNS)[number];
export type EventColumn = Column['name'];
export type EventColumnKind = Column['kind'];
export type RowValues = { [C in Column as C['name']]: Kinds[C['kind']] };

export const EVENT_ROW_COLUMNS: readonly EventColumn[] = EVENT_COLUMNS.map(({ name }) => name);

/** Enum8 values; `clickhouse/` declares the same. */
export const OUTCOME_VALUE: Record<Outcome, number> = { allowed: 1, blocked: 2, pending: 3 };
