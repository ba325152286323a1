// Reads the durations of conditions: whole seconds as a number, or "30s", "5m", "1h", "1d".

const SECONDS_OF: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

export const DAY_SECONDS = 86_400;

/** Whole seconds, at least 1; null if it is not a duration. */
export function parseDuration(value: unknown): number | null {
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 1 ? value : null;
  const m = typeof value === 'string' ? /^([1-9]\d{0,8})([smhd])$/.exec(value) : null;
  return m === null ? null : Number(m[1]) * SECONDS_OF[m[2]!]!;
}
