// The name of a part of the embedded engine: `PARTITION_FIRST_LAST_LEVEL`, with the number of a mutation behind it
// where one has rewritten the part. Read by data-directory.ts and torn-parts.ts.

/** `first` and `last`: numbers of the inserts whose rows it has. */
export type PartName = { partition: string; first: number; last: number; isSingleInsert: boolean };

/** undefined: no name of a part. */
export function parsePartName(name: string): PartName | undefined {
  const [, partition, first, last, level, mutation] = /^([^/]+?)_(\d+)_(\d+)_(\d+)(?:_(\d+))?$/.exec(name) ?? [];
  if (partition === undefined) return undefined;
  // What a mutation rewrote is no longer the part that its insert made. A ReplacingMergeTree writes what is inserted at
  // level 1; elsewhere a part of one insert at level 1 has its source beside it.
  const isSingleInsert = first === last && Number(level) <= 1 && mutation === undefined;
  return { partition, first: Number(first), last: Number(last), isSingleInsert };
}
