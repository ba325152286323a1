// The time that OCSF and syslog give to a row of the feed.

/** Epoch ms of when a row of the feed was last changed, or of now for what has no time. */
export function timeOf(row: Record<string, unknown>): number {
  const at = row['updated_at'] ?? row['decided_at'] ?? row['timestamp'] ?? row['created_at'];
  const ms = typeof at === 'string' ? Date.parse(at) : Number.NaN;
  return Number.isNaN(ms) ? Date.now() : ms;
}
