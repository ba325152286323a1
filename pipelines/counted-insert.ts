// Counts an insert in `/metrics` by what came of it (around every insert of a pipeline, whichever table it is for).
// Invariant: once a try, `ok` or `failed`; an error is rethrown, and the drain that holds the batch tries again.
import type { Metrics } from '../src/metrics/metrics.ts';

export async function countedInsert<T>(metrics: Metrics, table: string, insert: () => Promise<T>): Promise<T> {
  let result = 'failed';
  try {
    const inserted = await insert();
    result = 'ok';
    return inserted;
  } finally {
    metrics.inc('gatehouse_inserts_total', { table, result });
  }
}
