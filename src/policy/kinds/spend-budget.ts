// budget: what calls of models may use up in a window: money, tokens or calls. Only the counters know whether a
// call still fits: judge() notes a SpendCheck, which is reserved for and settled beside the decision
// (ingest/resolve-budgets.ts, src/redis/spend.lua).
// It is about prompts. Completions and errors are looked at as well, since they say what a prompt came to; there the
// conditions decide only what is charged that was never reserved for.
// Invariant: amounts are whole numbers: millionths of the currency's unit, tokens, or calls.
import { amountText, parseAmount } from '../../common/prices/amount.ts';
import { type Path, parsePath, pathText } from '../conditions/path.ts';
import { below, type Mistakes } from '../policy-error.ts';
import { type BudgetWindow, CALENDARS, zoneOf } from '../spends/budget-window.ts';
import { DAY_SECONDS, parseDuration } from './duration.ts';
import type { PolicyConditions, PolicyKind } from './policy-kind.ts';

/** `currency`: of money alone. */
type BudgetLimit = { unit: 'money' | 'tokens' | 'events'; amount: number; currency: string };

export type BudgetTerms = {
  type: 'budget';
  limit: BudgetLimit;
  window: BudgetWindow;
  per: 'agent' | 'account' | 'trace' | Path;
  estimate: 'worst' | 'expected';
  holdMs: number;
  warnAt: readonly number[];
  unpriced: 'block' | 'allow';
};

/** A thousand million of the unit in millionths: sums of them stay whole in doubles. */
const AMOUNT_MAX = 10 ** 15;
const WINDOW_DAYS_MAX = 30;
const HOLD_SECONDS = { min: 10, max: 3600, left: 600 };
const WARNINGS_MAX = 5;
const RESERVED = ['limit', 'window', 'zone', 'per', 'estimate', 'hold', 'warn_at', 'unpriced'];
const CURRENCIES: ReadonlySet<string> = new Set(Intl.supportedValuesOf('currency'));

export const budget: PolicyKind<BudgetTerms> = {
  reserved: RESERVED,
  compile(conditions, at, { mistakes }) {
    const known = mistakes.details.length;
    if (conditions['type'] !== undefined && conditions['type'] !== 'prompt')
      mistakes.add(below(at, 'type'), 'must be "prompt" or be left out: a budget is about what models are asked');
    const reading = { conditions, at, mistakes };
    const terms: BudgetTerms = {
      type: 'budget',
      limit: limitOf(reading),
      window: windowOf(reading),
      per: perOf(reading),
      estimate: oneOf(reading, 'estimate', ['expected', 'worst']) as BudgetTerms['estimate'],
      holdMs: holdOf(reading),
      warnAt: warningsOf(reading),
      unpriced: oneOf(reading, 'unpriced', ['block', 'allow']) as BudgetTerms['unpriced'],
    };
    return mistakes.details.length > known ? undefined : terms;
  },
};

type Reading = { conditions: PolicyConditions; at: string; mistakes: Mistakes };

const LIMIT_FORM = 'must be an amount such as "25.00 USD", or {"tokens": 200000}, or {"events": 500}';
const NO_LIMIT: BudgetLimit = { unit: 'events', amount: 0, currency: '' };

function limitOf({ conditions: { limit }, at, mistakes }: Reading): BudgetLimit {
  const wrong = (message: string) => {
    mistakes.add(below(at, 'limit'), message);
    return NO_LIMIT;
  };
  if (limit === undefined) return wrong(`is required: ${LIMIT_FORM.slice('must be '.length)}`);
  if (typeof limit === 'string') {
    const money = parseAmount(limit);
    if (money === undefined) return wrong(LIMIT_FORM);
    if (!CURRENCIES.has(money.currency)) return wrong(`has no known currency: ${money.currency} is none of ISO 4217`);
    if (money.millionths === 0) return wrong('must be more than 0; to block every call use a block_action');
    return { unit: 'money', amount: money.millionths, currency: money.currency };
  }
  const [[unit, amount] = [], ...more] = typeof limit === 'object' && limit !== null ? Object.entries(limit) : [];
  if ((unit !== 'tokens' && unit !== 'events') || more.length > 0) return wrong(LIMIT_FORM);
  if (!Number.isSafeInteger(amount) || (amount as number) < 1 || (amount as number) > AMOUNT_MAX) {
    mistakes.add(below(below(at, 'limit'), unit), `must be an integer from 1 to ${AMOUNT_MAX}`);
    return NO_LIMIT;
  }
  return { unit, amount: amount as number, currency: '' };
}

const WINDOW_FORM = `must be "day", "week" or "month", or a duration like "1h", "1d", "30d", from 1 minute to ${WINDOW_DAYS_MAX} days`;

function windowOf({ conditions: { window, zone }, at, mistakes }: Reading): BudgetWindow {
  const isCalendar = typeof window === 'string' && CALENDARS.includes(window);
  const seconds = isCalendar ? null : parseDuration(window);
  if (!isCalendar && (seconds === null || seconds < 60 || seconds > WINDOW_DAYS_MAX * DAY_SECONDS))
    mistakes.add(below(at, 'window'), window === undefined ? `is required: ${WINDOW_FORM.slice(8)}` : WINDOW_FORM);
  if (!isCalendar) {
    if (zone !== undefined)
      mistakes.add(below(at, 'zone'), 'is for the windows day, week and month: a duration has no time zone');
    return { ms: (seconds ?? 60) * 1000 };
  }
  const name = zone === undefined ? 'UTC' : typeof zone === 'string' ? zoneOf(zone) : undefined;
  if (name === undefined)
    mistakes.add(below(at, 'zone'), 'must be a time zone of the IANA database, such as "Europe/Berlin"');
  return { calendar: window as 'day', zone: name ?? 'UTC' };
}

function perOf({ conditions: { per = 'agent' }, at, mistakes }: Reading): BudgetTerms['per'] {
  if (per === 'agent' || per === 'account' || per === 'trace') return per;
  const path = typeof per === 'string' ? parsePath(per) : 'must be agent, account, trace or a path';
  if (typeof path !== 'string') return path;
  mistakes.add(below(at, 'per'), path);
  return 'agent';
}

function holdOf({ conditions: { hold }, at, mistakes }: Reading): number {
  const seconds = hold === undefined ? HOLD_SECONDS.left : parseDuration(hold);
  if (seconds !== null && seconds >= HOLD_SECONDS.min && seconds <= HOLD_SECONDS.max) return seconds * 1000;
  mistakes.add(below(at, 'hold'), 'must be whole seconds or a duration like "10m", from 10 seconds to 1 hour');
  return 0;
}

function warningsOf({ conditions: { warn_at: shares = [] }, at, mistakes }: Reading): readonly number[] {
  const isShare = (share: unknown) => typeof share === 'number' && share > 0 && share < 1;
  if (Array.isArray(shares) && shares.length <= WARNINGS_MAX && shares.every(isShare))
    return [...new Set<number>(shares)].sort((a, b) => a - b);
  mistakes.add(
    below(at, 'warn_at'),
    `must be a list of at most ${WARNINGS_MAX} numbers between 0 and 1, such as [0.8, 0.95]`,
  );
  return [];
}

function oneOf({ conditions, at, mistakes }: Reading, key: string, words: readonly string[]): string {
  const word = conditions[key] ?? words[0]!;
  if (words.includes(word as string)) return word as string;
  mistakes.add(below(at, key), `must be one of ${words.join(', ')}`);
  return words[0]!;
}

/** Does the event say what a prompt came to? */
export function settles({ type }: { type: string }): boolean {
  return type !== 'prompt';
}

export function scopeText({ per }: BudgetTerms): string {
  return typeof per === 'string' ? per : pathText(per);
}

/** As a limit is written, money with its currency. */
export function spentText({ unit, currency }: BudgetLimit, amount: number): string | number {
  return unit === 'money' ? amountText(amount, currency) : amount;
}

/** As `window` was written; of a duration the seconds. */
export function windowText(window: BudgetWindow): string {
  return 'ms' in window ? `${window.ms / 1000}s` : window.calendar;
}
