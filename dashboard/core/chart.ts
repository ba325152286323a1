// Which series a chart has and in which colours, how high the bars are drawn that are stacked in each bucket, and what
// stands below them.
// Invariant: whatever there is can be seen, beside however tall a bar: a count that is not 0 has a height of its own. So
// bars near the ground are taller than their counts; the table beside the chart has these. No two labels side by side
// are the same, and no two series look the same, to people who see no red or no green as well.

/** Each far from the others, on white and on dark, and from `OTHERS_COLOUR`. Neighbours in a bar are the farthest. */
export const COLOURS = [...['#5b8def', '#fa8f19', '#7c58b3', '#18c376', '#b14a2f', '#bfa0d3', '#2e7e70', '#b27d34']];
export const OTHERS_COLOUR = '#8a929e';

/** All values without a series of their own. No recorded value has this character. */
export const OTHERS = '\0';

type Bucket = { counts: Record<string, number>; total: number };
type Told<B> = { values: string[]; has_other?: boolean; buckets: B[] };

/** Where there are more values than colours the last ones are drawn as one, with those that count in `total` alone. */
export function drawnSeries<B extends Bucket>(data: Told<B>): Pick<Told<B>, 'values' | 'buckets'> {
  const { values, has_other: hasOther = false, buckets } = data;
  if (values.length <= COLOURS.length && !hasOther) return { values, buckets };
  const own = values.slice(0, COLOURS.length);
  const sum = (counts: Readonly<Record<string, number>>, names: readonly string[]) =>
    names.reduce((all, name) => all + (counts[name] ?? 0), 0);
  const withOthers = buckets.map((bucket) => {
    const { counts, total } = bucket;
    // an event that counts for several values, as for policies, leaves less than nothing
    const others = hasOther ? Math.max(0, total - sum(counts, own)) : sum(counts, values.slice(own.length));
    return { ...bucket, counts: { ...counts, [OTHERS]: others } };
  });
  return { values: [...own, OTHERS], buckets: withOthers };
}

/** The least height of a bar as a share of the chart's height: two pixels in the smallest chart. */
const LEAST_SHARE = 1 / 50;

/** Says for each name, from the ground up, how high its bar ends in each bucket, in counts. */
export function stackedHeights({ buckets }: { buckets: readonly Bucket[] }, names: readonly string[]): number[][] {
  const least = Math.max(0, ...buckets.map(({ total }) => total)) * LEAST_SHARE;
  const ends = buckets.map(() => 0);
  return names.map((name) =>
    buckets.map(({ counts }, i) => {
      const count = counts[name] ?? 0;
      ends[i]! += count === 0 ? 0 : Math.max(count, least);
      return ends[i]!;
    }),
  );
}

const DAY_SECONDS = 86_400;

/**
 * `time`: `2026-11-25 18:04:05.123` (core/time.ts). The time of day, as exact as the steps are, and the day where one
 * begins or where a day is all that counts.
 */
export function axisLabel(time: string, stepSeconds: number): string {
  const [day, clock] = time.split(' ') as [string, string];
  if (stepSeconds >= 300 * DAY_SECONDS) return day.slice(0, 4);
  if (stepSeconds >= 28 * DAY_SECONDS) return day.slice(0, 7);
  if (stepSeconds >= DAY_SECONDS || clock === '00:00:00.000') return day.slice(5);
  if (stepSeconds >= 60) return clock.slice(0, 5);
  if (stepSeconds >= 1) return clock.slice(0, 8);
  const isTenths = Math.abs(stepSeconds * 10 - Math.round(stepSeconds * 10)) < 1e-6;
  return clock.slice(0, isTenths ? 10 : 12);
}
