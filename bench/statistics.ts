// The arithmetic of measurements: medians over turns, percentiles over samples, the slope of a backlog.
// All exact over the numbers given; a run is bounded, so its samples fit into memory.

/** The middle one; of an even number the mean of the two in the middle. NaN of none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const half = sorted.length >> 1;
  if (sorted.length === 0) return Number.NaN;
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

/** Ascending samples, made once for several percentiles. */
export function sorted(samples: Iterable<number>): Float64Array {
  return Float64Array.from(samples).sort();
}

/** The smallest sample that at least this share (0 to 1) of all samples do not exceed. NaN of none. */
export function percentile(ascending: ArrayLike<number>, share: number): number {
  if (ascending.length === 0) return Number.NaN;
  return ascending[Math.max(0, Math.ceil(share * ascending.length) - 1)]!;
}

/** Least squares: by how much y grows per unit of x. 0 where all x are alike. */
export function slope(points: readonly (readonly [x: number, y: number])[]): number {
  const n = points.length;
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / n;
  const meanY = points.reduce((sum, [, y]) => sum + y, 0) / n;
  let [above, below] = [0, 0];
  for (const [x, y] of points) {
    above += (x - meanX) * (y - meanY);
    below += (x - meanX) ** 2;
  }
  return below === 0 ? 0 : above / below;
}

/** To so many significant digits: more would claim a precision that no run here has. */
export function rounded(value: number, digits = 3): number {
  return Number.isFinite(value) ? Number(value.toPrecision(digits)) : value;
}
