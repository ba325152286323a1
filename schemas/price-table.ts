// The price table of an account: what a million tokens of each model cost, in one currency (docs/prices.md says which
// price an event gets and how its cost is reckoned).
// Invariant: amounts are decimal text with a currency, of at most six decimals: millionths are whole numbers.
import Type from 'typebox';
import { ResponseTime } from './common.ts';
import { about } from './described.ts';

/** As many as a person reads to the end; each is some 200 bytes, and all of them are in memory of each front. */
const PRICES_MAX = 500;
const TIERS_MAX = 5;

const Amount = Type.String({ maxLength: 24, pattern: '^(0|[1-9][0-9]{0,8})([.][0-9]{1,6})? [A-Z]{3}$' });
const Day = Type.String({ maxLength: 10, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' });

const rates = {
  input: about(Amount, 'Of a million input tokens that were not read from a cache.', '2.50 USD'),
  output: about(Amount, 'Of a million output tokens, those of reasoning among them.', '10.00 USD'),
  cached_input: Type.Optional(
    about(Amount, 'Of a million input tokens that were read from a cache. Left out: as `input`.', '1.25 USD'),
  ),
  cache_write: Type.Optional(
    about(Amount, 'Of a million input tokens that were written to a cache. Left out: as `input`.', '3.75 USD'),
  ),
  cache_write_1h: Type.Optional(
    about(Amount, 'Of those that are to stay in the cache for an hour. Left out: as `cache_write`.', '6.00 USD'),
  ),
};

export const PriceRates = Type.Object(rates, { additionalProperties: false });
export type PriceRates = Type.Static<typeof PriceRates>;

const batch = Type.Optional(
  about(PriceRates, 'Of an event that was done in a batch. Left out: the cost of such an event is unknown.'),
);

const PriceTier = Type.Object(
  {
    above: about(
      Type.Integer({ minimum: 1 }),
      'Of events with more input tokens than this, cached ones counted.',
      200_000,
    ),
    ...rates,
    batch,
  },
  { additionalProperties: false },
);

export const Price = Type.Object(
  {
    model: about(
      Type.String({ minLength: 1, maxLength: 200 }),
      'Which models: a glob, `*` any characters, `?` one. The price with the more exact glob is taken.',
      'gpt-4o-2024-*',
    ),
    from: Type.Optional(about(Day, 'The first day, UTC. Left out: since ever.', '2026-01-01')),
    until: Type.Optional(
      about(Day, 'The day from which it no longer holds, UTC. Left out: it has no end.', '2027-01-01'),
    ),
    ...rates,
    batch,
    max_output: Type.Optional(
      about(
        Type.Integer({ minimum: 1, maximum: 100_000_000 }),
        'Output tokens that the model gives at most: what a budget with `estimate: worst` reserves for a call that says no bound of its own. Left out: not known.',
        16_384,
      ),
    ),
    tiers: Type.Optional(
      about(
        Type.Array(PriceTier, { minItems: 1, maxItems: TIERS_MAX }),
        'Other prices of events with many input tokens: all tokens of the event are of the highest tier that it is above.',
      ),
    ),
  },
  { additionalProperties: false },
);
export type Price = Type.Static<typeof Price>;

const Prices = about(
  Type.Array(Price, { maxItems: PRICES_MAX }),
  `All prices, at most ${PRICES_MAX}, in one currency.`,
);

export const PriceTableChange = Type.Object({ prices: Prices }, { additionalProperties: false });
export type PriceTableChange = Type.Static<typeof PriceTableChange>;

export const PriceTable = Type.Object({
  revision: about(
    Type.Integer({ minimum: 1 }),
    'Raised by each change. An account begins with a table without prices, which is revision 1.',
    3,
  ),
  currency: about(
    Type.Union([Type.String(), Type.Null()]),
    'Of all amounts, and of every cost of the account. It is that of the first price, and stays. null: there was none.',
    'USD',
  ),
  prices: Prices,
  updated_at: about(Type.Union([ResponseTime, Type.Null()]), 'When it was last changed. null: never.'),
});
export type PriceTable = Type.Static<typeof PriceTable>;

export const PriceTableRevision = Type.Object({
  ...PriceTable.properties,
  actor: about(Type.String(), 'Who made it so: `key:<key id>`, or `system`.', 'key:key_01jd3fq5w0c8m2v7x4k9n6t1rz'),
});
export type PriceTableRevision = Type.Static<typeof PriceTableRevision>;
