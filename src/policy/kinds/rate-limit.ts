// rate_limit: matches the event that is number threshold+1 or later inside a sliding window. Whether it is
// one only the counters know: judge() requests a permit with a RateCheck, decide() gets the result.
// With `block` among its actions an event that is over takes no permit; without, every event counts.
// An event without a value at the `per` path is counted, too, under a name of its own, so that leaving it out is no way
// around.
import { LongNumber, numberOfText } from '../../common/exact-number.ts';
import type { Budget } from '../budget.ts';
import type { Fields } from '../conditions/field-condition.ts';
import { type Path, parsePath, pathText, visitPath } from '../conditions/path.ts';
import { below } from '../policy-error.ts';
import { foldedText } from '../texts/folded.ts';
import { innerOf } from '../texts/text-forms.ts';
import { DAY_SECONDS, parseDuration } from './duration.ts';
import type { PolicyKind } from './policy-kind.ts';

export type RateLimitTerms = {
  type: 'rate_limit';
  threshold: number;
  windowSeconds: number;
  per: 'agent' | 'account' | Path;
};

const WINDOW_SECONDS_MAX = DAY_SECONDS;
const THRESHOLD_MAX = 1_000_000_000;

export const rateLimit: PolicyKind<RateLimitTerms> = {
  reserved: ['threshold', 'window', 'per'],
  compile(conditions, at, { mistakes }) {
    const { threshold, window, per = 'agent' } = conditions;
    const windowSeconds = parseDuration(window);
    const known = mistakes.details.length;
    if (!Number.isSafeInteger(threshold) || (threshold as number) < 1 || (threshold as number) > THRESHOLD_MAX) {
      mistakes.add(
        below(at, 'threshold'),
        threshold === undefined ? 'is required' : `must be an integer from 1 to ${THRESHOLD_MAX}`,
      );
    }
    if (windowSeconds === null || windowSeconds > WINDOW_SECONDS_MAX) {
      const form = 'must be whole seconds or a duration like "30s", "5m", "1h", "1d", at most 1 day';
      mistakes.add(below(at, 'window'), window === undefined ? 'is required' : form);
    }
    const path =
      per === 'agent' || per === 'account'
        ? per
        : typeof per === 'string'
          ? parsePath(per)
          : 'must be agent, account or a path';
    if (typeof path === 'string' && path !== per) mistakes.add(below(at, 'per'), path);
    if (mistakes.details.length > known) return undefined;
    return {
      type: 'rate_limit',
      threshold: threshold as number,
      windowSeconds: windowSeconds!,
      per: path as RateLimitTerms['per'],
    };
  },
};

export function perText({ per }: RateLimitTerms): string {
  return typeof per === 'string' ? per : pathText(per);
}

/**
 * The value that distinguishes the counters of a `per` path: the JSON of the one value there, which is never empty; ''
 * if there is none, or not one, or if it would take too long to find out. Spellings of one value are one value: a text
 * is folded and without blanks around it, a list of one is its item. An object and different values have no counter of
 * their own: a sender could make as many of them as it likes.
 */
export function counterValue(path: Path, fields: Fields, budget: Budget): string {
  const root = fields[path.root];
  if (root === undefined) return '';
  const only = new OnlyValue(budget);
  const isNotOne = visitPath(root, path, { budget, visit: (value) => only.add(value, 0), unreadable: () => true });
  return isNotOne ? '' : only.text;
}

/** The same of what alone stands at the path; undefined: nothing does. */
export function counterOf(value: unknown, budget: Budget): string {
  const only = new OnlyValue(budget);
  return value === undefined || only.add(value, 0) ? '' : only.text;
}

class OnlyValue {
  readonly #budget: Budget;
  #only: string | undefined;

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  get text(): string {
    return this.#only ?? '';
  }

  /** true: it is not one value. `level`: texts that it is inside of. */
  add(value: unknown, level: number): boolean {
    if (Array.isArray(value)) return value.some((item) => this.add(item, level));
    const inner = typeof value === 'string' ? innerOf(value, level, this.#budget) : undefined;
    if (inner?.value !== undefined && typeof inner.value === 'object') return this.add(inner.value, level + 1);
    const text = textOf(value);
    this.#budget.spend(4 * text.length);
    this.#only ??= text;
    return this.#only !== text || text === '';
  }
}

/** Equal numbers are one counter, whatever they are written like; so is a text that is written as the number is. */
function textOf(value: unknown): string {
  if (value instanceof LongNumber) return String(value);
  if (typeof value === 'object' && value !== null) return '';
  if (typeof value !== 'string') return JSON.stringify(value);
  const text = foldedText(value).trim();
  const number = numberOfText(text);
  return number !== undefined && String(number) === text ? text : JSON.stringify(text);
}
