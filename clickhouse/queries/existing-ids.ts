// Which of these events are stored already? The store pipeline asks when it takes up a batch whose insert token may
// have been forgotten. The ids say when their events arrived, so only parts and granules of that time are read. The one
// query that spans accounts: it is asked by a pipeline about its own stream, never on behalf of a caller.
import { timeOfId } from '../../src/common/ids.ts';
import type { ClickHouse } from '../client.ts';

const IDS_AT_ONCE = 5_000;

export async function existingIds(clickhouse: ClickHouse, ids: readonly string[]): Promise<Set<string>> {
  const found = new Set<string>();
  for (let i = 0; i < ids.length; i += IDS_AT_ONCE) {
    const some = ids.slice(i, i + IDS_AT_ONCE);
    const times = some.map(timeOfId);
    const rows = await clickhouse.query<{ id: string }>(
      `SELECT id FROM events
       WHERE received_at BETWEEN fromUnixTimestamp64Milli({from:Int64}, 'UTC') AND fromUnixTimestamp64Milli({to:Int64}, 'UTC') AND id IN {ids:Array(String)}`,
      { from: Math.min(...times), to: Math.max(...times), ids: some },
      { settings: { optimize_use_projections: 0 } },
    );
    for (const row of rows) found.add(row.id);
  }
  return found;
}
