// Every resource of the registry at its newest revision, for `gatehouse registry restore`. In pages, so that a large
// registry fits. Deleted ones come, too (`record: null`): their ids must not be used again.

import type { JournalEntry } from '../../schemas/journal.ts';
import { parseExact } from '../../src/common/exact-json.ts';
import type { ClickHouse } from '../client.ts';

export type RegistryRow = {
  account: string;
  kind: JournalEntry['changes'][number]['kind'];
  id: string;
  revision: number;
  /** Epoch ms of the change. */
  at: number;
  /** null: deleted. */
  record: object | null;
};
type StoredRow = Omit<RegistryRow, 'record'> & { record: string };

const PAGE_ROWS = 10_000;

/** Ordered by account, kind and id. */
export async function* registrySnapshot(clickhouse: ClickHouse): AsyncGenerator<RegistryRow> {
  let after = { account: '', kind: '', id: '' };
  for (;;) {
    const rows = await clickhouse.query<StoredRow>(
      `SELECT account_id AS account, kind, id, revision, toUnixTimestamp64Milli(at) AS at, record FROM registry FINAL
       WHERE (account_id, kind, id) > ({account:String}, {kind:String}, {id:String}) ORDER BY account_id, kind, id LIMIT ${PAGE_ROWS}`,
      after,
    );
    for (const row of rows) yield { ...row, record: row.record === '' ? null : (parseExact(row.record) as object) };
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE_ROWS) return;
    after = { account: last.account, kind: last.kind, id: last.id };
  }
}
