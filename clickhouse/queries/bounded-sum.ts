// Sums of numbers that callers sent, as SQL. A thousand events may say 2^53 tokens each, and a sum of 64-bit integers
// begins again at the other end: a trace of minus nine quintillions of tokens, a budget that is full of room. So
// everything that sums `tokens_used` or `cost` asks here.

/** The largest integer that every reader of JSON holds exactly. */
const SUM_MAX = Number.MAX_SAFE_INTEGER;

/**
 * The sum of `expression`, whose values are integers from 0, as Int64: exact up to `max`, and `max` beyond. NULL where
 * no row has a value. Float64 adds integers below 2^53 exactly, at the speed of Int64.
 */
export function boundedSum(expression: string, max = SUM_MAX): string {
  const sum = `sum(toFloat64(${expression}))`;
  // Not least(): that of a NULL and a number is the number.
  return `toInt64(if(${sum} > ${max}, toFloat64(${max}), ${sum}))`;
}
