// The price table of an account, ready to reckon with: which price an event gets and what its tokens cost
// (docs/prices.md; on the path of events, src/ingest/event-cost.ts, and where a table is checked,
// src/registry/budgets/price-tables.ts). Pure.
// Which price: of those that hold on the event's day the one of the exact name; else the glob with the most characters
// that are no wildcards; else the one that began later; else the one that stands first.
// Invariant: whole numbers alone. The products of tokens and prices are summed exactly, and the sum is rounded once, to
// the nearest millionth, halves up. What has no price is unknown, never 0.
import type { ErrorDetail } from '../../../schemas/error.ts';
import type { Price, PriceRates } from '../../../schemas/price-table.ts';
import { isLike } from '../glob.ts';
import { remember } from '../maps.ts';
import { parseAmount } from './amount.ts';

/** The record of a price table: in Redis, and in the registry of ClickHouse. */
export type PriceTableRecord = {
  revision: number;
  currency: string | null;
  prices: readonly Price[];
  updated_at: string;
};

/** Tokens of an event, each in one part. */
export type TokenParts = {
  input: number;
  cachedInput: number;
  cacheWrite: number;
  cacheWrite1h: number;
  output: number;
};

type Priced = { model: string; atMs: number; isBatch: boolean };

/** In millionths for a million tokens. */
type Rates = { [Part in keyof TokenParts]: bigint };
/** The rates of events with more input tokens than `above`. `batch` null: unknown. */
type Tier = { above: number; rates: Rates; batch: Rates | null };
/** `fromMs` inclusive, `untilMs` exclusive. `tiers`: the highest first, at the end that of all events. */
type Offer = { model: string; fromMs: number; untilMs: number; maxOutput: number | null; tiers: readonly Tier[] };

const MILLION = 1_000_000n;
/** A thousand million of the currency's unit: what a sum of costs may hold nine thousand of, as Int64. */
const COST_MAX = 10n ** 15n;
/** Models whose prices are known by name: as many as LowCardinality columns are good for. */
const MODELS_MAX = 1_000;

export class PriceList {
  readonly record: PriceTableRecord;
  /** Currency and revision, as they stand beside each cost: `USD 3`. */
  readonly by: string;
  /** The one that is taken first. */
  readonly #offers: readonly Offer[];
  readonly #ofModel = new Map<string, readonly Offer[]>();

  /** `record`: checked by priceMistakes. */
  constructor(record: PriceTableRecord) {
    this.record = record;
    this.by = `${record.currency} ${record.revision}`;
    this.#offers = record.prices.map(offerOf).sort(byPrecedence);
  }

  /** In millionths; null: unknown. */
  costOf(tokens: TokenParts, { model, atMs, isBatch }: Priced): number | null {
    const offer = this.#offer(model, atMs);
    if (offer === undefined) return null;
    const asked = tokens.input + tokens.cachedInput + tokens.cacheWrite + tokens.cacheWrite1h;
    const { rates, batch } = offer.tiers.find(({ above }) => asked > above)!;
    const taken = isBatch ? batch : rates;
    return taken === null ? null : costBy(taken, tokens);
  }

  /** Output tokens that the model gives at most; null: not known. */
  maxOutput(model: string, atMs: number): number | null {
    return this.#offer(model, atMs)?.maxOutput ?? null;
  }

  #offer(model: string, atMs: number): Offer | undefined {
    return this.#of(model).find(({ fromMs, untilMs }) => fromMs <= atMs && atMs < untilMs);
  }

  #of(model: string): readonly Offer[] {
    const like = (offer: Offer) => isLike(model, offer.model);
    return this.#ofModel.get(model) ?? remember(this.#ofModel, model, this.#offers.filter(like), MODELS_MAX);
  }
}

function costBy(rates: Rates, tokens: TokenParts): number | null {
  let sum = 0n;
  for (const part of PARTS) sum += rates[part] * BigInt(tokens[part]);
  const cost = (sum + MILLION / 2n) / MILLION;
  return cost > COST_MAX ? null : Number(cost);
}

const PARTS = ['input', 'cachedInput', 'cacheWrite', 'cacheWrite1h', 'output'] as const satisfies (keyof TokenParts)[];

function offerOf({ model, from, until, tiers = [], batch, max_output: maxOutput, ...rates }: Price): Offer {
  const whole: Tier = { above: -1, rates: ratesOf(rates), batch: batch === undefined ? null : ratesOf(batch) };
  const higher = tiers.map(
    ({ above, batch: ofBatch, ...own }): Tier => ({
      ...{ above, rates: ratesOf(own), batch: ofBatch === undefined ? null : ratesOf(ofBatch) },
    }),
  );
  return {
    model,
    ...spanOf({ from, until }),
    maxOutput: maxOutput ?? null,
    tiers: [...higher.sort((a, b) => b.above - a.above), whole],
  };
}

function ratesOf({
  input,
  output,
  cached_input = input,
  cache_write = input,
  cache_write_1h = cache_write,
}: PriceRates): Rates {
  const millionths = (text: string) => BigInt(parseAmount(text)!.millionths);
  return {
    ...{ input: millionths(input), cachedInput: millionths(cached_input), cacheWrite: millionths(cache_write) },
    ...{ cacheWrite1h: millionths(cache_write_1h), output: millionths(output) },
  };
}

function spanOf({ from, until }: { from?: string | undefined; until?: string | undefined }) {
  return {
    fromMs: from === undefined ? Number.NEGATIVE_INFINITY : Date.parse(from),
    untilMs: until === undefined ? Number.POSITIVE_INFINITY : Date.parse(until),
  };
}

function byPrecedence(a: Offer, b: Offer): number {
  return literals(b.model) - literals(a.model) || (a.fromMs === b.fromMs ? 0 : b.fromMs - a.fromMs);
}

/** An exact name is more than any glob. */
function literals(glob: string): number {
  return /[*?]/.test(glob) ? glob.replaceAll(/[*?]/g, '').length : Number.MAX_SAFE_INTEGER;
}

/** The mistakes in prices that fit their schema. `currency`: that of the table before; null: it had none. */
export function priceMistakes(prices: readonly Price[], currency: string | null): ErrorDetail[] {
  const wanted = currency ?? currencyOf(prices);
  return prices.flatMap((price, i) =>
    [
      ...currencyMistakes(price, wanted, currency !== null),
      ...dayMistakes(price),
      ...tierMistakes(price),
      ...overlap(prices, i),
    ].map(({ path, message }) => ({ path: `/prices/${i}${path}`, message })),
  );
}

/** null: there is no price. */
export function currencyOf([first]: readonly Price[]): string | null {
  return first === undefined ? null : parseAmount(first.input)!.currency;
}

function currencyMistakes(
  { tiers = [], batch, ...price }: Price,
  wanted: string | null,
  isOfTable: boolean,
): ErrorDetail[] {
  const all: [path: string, rates: PriceRates | undefined][] = [
    ['', price],
    ['/batch', batch],
    ...tiers.flatMap(({ batch: ofBatch, ...rates }, i): [string, PriceRates | undefined][] => [
      [`/tiers/${i}`, rates],
      [`/tiers/${i}/batch`, ofBatch],
    ]),
  ];
  const other = all.flatMap(([path, rates]) =>
    RATE_NAMES.filter((name) => rates?.[name] !== undefined && parseAmount(rates[name])?.currency !== wanted).map(
      (name) => `${path}/${name}`,
    ),
  );
  const message = `must be in ${wanted}, as ${isOfTable ? 'the costs of the account are' : 'the first price is'}`;
  return other.map((path) => ({ path, message }));
}

const RATE_NAMES = ['input', 'output', 'cached_input', 'cache_write', 'cache_write_1h'] as const;

function dayMistakes({ from, until }: Price): ErrorDetail[] {
  const bad = Object.entries({ from, until }).flatMap(([name, day]) =>
    day === undefined || isDay(day) ? [] : [{ path: `/${name}`, message: 'is no day of the calendar' }],
  );
  if (bad.length > 0 || from === undefined || until === undefined || from < until) return bad;
  return [{ path: '/until', message: 'must be after `from`' }];
}

function isDay(text: string): boolean {
  const atMs = Date.parse(text);
  return !Number.isNaN(atMs) && new Date(atMs).toISOString().startsWith(text);
}

function tierMistakes({ tiers = [] }: Price): ErrorDetail[] {
  return tiers.flatMap(({ above }, i) => {
    const first = tiers.findIndex((tier) => tier.above === above);
    return first === i ? [] : [{ path: `/tiers/${i}/above`, message: `is that of /tiers/${first}, too` }];
  });
}

/** Two prices of one glob on one day: it would be the order that decides. */
function overlap(prices: readonly Price[], i: number): ErrorDetail[] {
  const { fromMs, untilMs } = spanOf(prices[i]!);
  const first = prices.findIndex((other, k) => {
    const span = spanOf(other);
    return k < i && other.model === prices[i]!.model && span.fromMs < untilMs && fromMs < span.untilMs;
  });
  return first < 0 ? [] : [{ path: '/model', message: `has a price for some of these days at /prices/${first}` }];
}
