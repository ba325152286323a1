// Cuts RowBinary of event rows at the rows' borders (a verification reads them back as they were inserted).
// It walks over lengths, decoding only what says which row it is. Bytes that are not rows throw RowCutError.
import { EVENT_ROW_COLUMNS } from '../../schemas/entry.ts';
import { eventLeaf } from './hash.ts';
import type { SeenRow } from './ledger.ts';

class RowCutError extends Error {
  override name = 'RowCutError';
}

const FIXED: { [column: string]: number } = { timestamp: 8, received_at: 8, outcome: 1 };
const NULLABLE: ReadonlySet<string> = new Set(['token_count', 'tokens_used']);

type Column = { name: (typeof EVENT_ROW_COLUMNS)[number]; fixed: number | undefined; nullable: boolean };
const COLUMNS: Column[] = EVENT_ROW_COLUMNS.map((name) => ({ name, fixed: FIXED[name], nullable: NULLABLE.has(name) }));

export function cutEventRows(bytes: Buffer, onRow: (row: SeenRow) => void): void {
  for (let at = 0; at < bytes.length; ) at = cutRow(bytes, at, onRow);
}

function cutRow(bytes: Buffer, start: number, onRow: (row: SeenRow) => void): number {
  let [at, id, agent, atMs] = [start, '', '', 0];
  for (const { name, fixed, nullable } of COLUMNS) {
    if (nullable) {
      at += bytes[at] === 0 ? 9 : 1;
      continue;
    }
    let length = fixed ?? 0;
    if (fixed === undefined) [length, at] = textLength(bytes, at);
    if (name === 'id') id = bytes.toString('utf8', at, at + length);
    else if (name === 'agent_id') agent = bytes.toString('utf8', at, at + length);
    else if (name === 'received_at' && at + 8 <= bytes.length) atMs = Number(bytes.readBigInt64LE(at));
    at += length;
  }
  if (at > bytes.length) throw new RowCutError('ClickHouse sent an event row that is cut short');
  onRow({ id, agent, atMs, leaf: eventLeaf(bytes.subarray(start, at)) });
  return at;
}

/** Length of a text and where it begins. */
function textLength(bytes: Buffer, start: number): [number, number] {
  let length = 0;
  let at = start;
  for (let factor = 1; ; factor *= 128) {
    const byte = bytes[at++];
    if (byte === undefined) throw new RowCutError('ClickHouse sent an event row that is cut short');
    length += (byte & 127) * factor;
    if (byte < 128) return [length, at];
  }
}
