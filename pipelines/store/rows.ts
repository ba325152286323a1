// Rows as the store pipeline handles them: bytes with an identity, never parsed (between the stream entry and the
// insert).
// Invariant: rows keep the order of the stream, and every grouping of them depends on nothing but the rows themselves,
// so that a batch that is formed again has the same inserts.
// An entry whose summaries do not fit its rows throws EntryFormatError.
import { hash } from 'node:crypto';
import { rowsOf, type SummarizedRow } from '../../schemas/entry.ts';
import { isWholeRow } from '../../src/common/event-row-codec.ts';
import { readEntry } from '../event-summaries.ts';

/** Rows of one stream entry. */
export function readRows(fields: ReadonlyMap<string, Buffer>): SummarizedRow[] {
  const entry = readEntry(fields);
  const bytes = rowsOf(entry);
  return entry.summaries.map((summary, i) => ({ summary, bytes: bytes[i]! }));
}

/**
 * Rows whose columns end where they end, and those of which that is not so. RowBinary has no borders: ClickHouse reads
 * on into the next row, and in one case out of four finds something that fits. So the lengths of a row are checked
 * before it is inserted.
 */
export function wellFormed(rows: readonly SummarizedRow[]): { rows: SummarizedRow[]; malformed: SummarizedRow[] } {
  const whole: SummarizedRow[] = [];
  const malformed: SummarizedRow[] = [];
  for (const row of rows) (isWholeRow(row.bytes) ? whole : malformed).push(row);
  return { rows: whole, malformed };
}

/**
 * Rows by month of arrival: the tables' partition. An insert into one partition is atomic, into two it can be torn by a
 * kill.
 */
export function byMonth(rows: readonly SummarizedRow[]): Map<number, SummarizedRow[]> {
  const months = new Map<number, SummarizedRow[]>();
  for (const row of rows) {
    const month = monthOf(row.summary.receivedAt);
    const same = months.get(month);
    if (same === undefined) months.set(month, [row]);
    else same.push(row);
  }
  return months;
}

/** 202611 for any moment of November 2026, UTC. */
export function monthOf(epochMs: number): number {
  const date = new Date(epochMs);
  return date.getUTCFullYear() * 100 + date.getUTCMonth() + 1;
}

/** Short hash of identities in their order. */
export function hashOf(ids: Iterable<string>): string {
  let text = '';
  for (const id of ids) text += `${id}\n`;
  return hash('sha256', text, 'base64url').slice(0, 22);
}
