// What the events behind the rows of another list say, for `expand=summary` (anomalies, audit log): one look-up for all
// rows of a page, of the rows alone that are about an event.
// A row whose event is not stored, or is erased, gets null.
import { summariesOf } from '../../../clickhouse/queries/get-event.ts';
import { ask } from '../answers/reply.ts';
import { oneOf } from '../reading/query.ts';
import type { Call, Parts } from '../route.ts';

export const expandSummary = oneOf('`summary`: each with what its event says on one line, where it is about one', [
  'summary',
]);

/** `eventOf`: id of the event that a row is about; null: it is about none. */
export async function withSummaries<Row>(
  { account }: Pick<Call, 'account'>,
  { clickhouse }: Pick<Parts, 'clickhouse'>,
  rows: readonly Row[],
  eventOf: (row: Row) => string | null,
): Promise<(Row & { summary: string | null })[]> {
  const ids = rows.map(eventOf).filter((id) => id !== null);
  const summaries = await ask(() => summariesOf(clickhouse, account, ids));
  return rows.map((row) => ({ ...row, summary: summaries.get(eventOf(row) ?? '') ?? null }));
}
