// Prices: which one an event gets, and what it costs, against reckoning by hand and against plain decimals; what does
// not hold together is refused with its place.
import fc from 'fast-check';
import t from 'tap';
import { Compile } from 'typebox/compile';
import { type Price, PriceTableChange } from '../../schemas/price-table.ts';
import { amountText, parseAmount } from '../../src/common/prices/amount.ts';
import { PriceList, priceMistakes, type TokenParts } from '../../src/common/prices/price-list.ts';
import { runs, SEED } from '../support/seed.ts';

const NOW = Date.parse('2026-06-15T12:00:00Z');
const NONE: TokenParts = { input: 0, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 0 };
const flat = (model: string, input: string, more: Partial<Price> = {}): Price => ({
  ...{ model, input: `${input} USD`, output: '0 USD', ...more },
});
const listOf = (...prices: Price[]) => new PriceList({ revision: 7, currency: 'USD', prices, updated_at: '' });

/** The cost of a million input tokens, unless others are given: the price itself, in millionths. */
function costOf(
  prices: readonly Price[],
  model: string,
  of: Partial<{ at: string; batch: boolean; tokens: Partial<TokenParts> }> = {},
) {
  const { at, batch: isBatch = false, tokens = { input: 1_000_000 } } = of;
  const atMs = at === undefined ? NOW : Date.parse(at);
  return listOf(...prices).costOf({ ...NONE, ...tokens }, { model, atMs, isBatch });
}

t.test('amounts go to millionths and back', async (t) => {
  const cases: [text: string, millionths: number, shown?: string][] = [
    ['0 USD', 0, '0.00 USD'],
    ['2.50 USD', 2_500_000],
    ['10 EUR', 10_000_000, '10.00 EUR'],
    ['0.000001 USD', 1],
    ['0.1 USD', 100_000, '0.10 USD'],
    ['999999999.999999 USD', 999_999_999_999_999],
    ['0.012300 USD', 12_300, '0.0123 USD'],
  ];
  for (const [text, millionths, shown = text] of cases) {
    const money = parseAmount(text)!;
    t.equal(money.millionths, millionths, text);
    t.equal(amountText(money.millionths, money.currency), shown);
  }
  t.equal(amountText(-1_500, 'USD'), '-0.0015 USD');
  for (const text of ['1', '1.0000001 USD', '1.5USD', '-1 USD', '1e3 USD', '1 usd', '1. USD', '1234567890 USD', ''])
    t.equal(parseAmount(text), undefined, text);
});

t.test('the more exact glob is taken, then the later price, then the first', async (t) => {
  const prices = [
    ...[flat('*', '1'), flat('gpt-*', '2'), flat('gpt-4o*', '3'), flat('gpt-4o-mini*', '4'), flat('gpt-4o', '5')],
    ...[flat('gpt-?o-mini-x', '6'), flat('a*b', '7'), flat('ab*', '8')],
  ];
  for (const [model, price] of [
    ['other', 1],
    ['gpt-5', 2],
    ['gpt-4o-2024-08-06', 3],
    ['gpt-4o-mini-2024-07-18', 4],
    ['gpt-4o', 5],
    ['gpt-4o-mini-x', 6],
    ['ab', 7],
    ['GPT-4o', 1],
  ] as const) {
    t.equal(costOf(prices, model), price * 1_000_000, model);
    t.equal(costOf(prices.slice(1), 'other'), null, 'without a price it is unknown');
  }
  const exact = [flat('gpt-4o-mini-*', '1'), flat('gpt-4o', '2')];
  t.equal(costOf(exact, 'gpt-4o'), 2_000_000, 'an exact name before any glob');
});

t.test('a price holds from the beginning of its first day to the beginning of the day that ends it', async (t) => {
  const prices = [
    flat('m', '1', { until: '2026-01-01' }),
    flat('m', '2', { from: '2026-01-01', until: '2026-02-01' }),
    flat('m', '3', { from: '2026-03-01' }),
  ];
  for (const [at, price] of [
    ['1999-01-01T00:00:00Z', 1],
    ['2025-12-31T23:59:59.999Z', 1],
    ['2026-01-01T00:00:00Z', 2],
    ['2026-01-31T23:59:59.999Z', 2],
    ['2026-02-01T00:00:00Z', null],
    ['2026-02-28T23:59:59.999Z', null],
    ['2026-03-01T00:00:00Z', 3],
  ] as const)
    t.equal(costOf(prices, 'm', { at }), price === null ? null : price * 1_000_000, at);
  const offer = [flat('m*', '1'), flat('m*', '2', { from: '2026-05-01' })];
  t.equal(costOf(offer, 'm'), 2_000_000, 'of two that hold the one that began later');
});

t.test('all tokens of an event are of the highest tier that its input is above, cached ones counted', async (t) => {
  const tiers = [
    { above: 500, input: '3 USD', output: '30 USD', cached_input: '0.30 USD' },
    { above: 200, input: '2 USD', output: '20 USD', batch: { input: '1 USD', output: '10 USD' } },
  ];
  const prices = [flat('m', '1', { output: '10 USD', tiers, batch: { input: '0.50 USD', output: '5 USD' } })];
  const cost = (tokens: Partial<TokenParts>, batch = false) => costOf(prices, 'm', { tokens, batch });
  t.equal(cost({ input: 200, output: 1 }), 200 + 10);
  t.equal(cost({ input: 201, output: 1 }), 402 + 20);
  t.equal(cost({ input: 100, cachedInput: 101 }), 402, 'cached input is input, at its price');
  t.equal(cost({ input: 100, cacheWrite: 300, cacheWrite1h: 100 }), 1000);
  t.equal(cost({ input: 100, cacheWrite: 300, cacheWrite1h: 101 }), 1503);
  t.equal(cost({ input: 500, cachedInput: 1 }), 1500, 'three tenths of a millionth are none');
  t.equal(cost({ input: 500, cachedInput: 2 }), 1501, 'six tenths are one');
  t.equal(cost({ output: 100_000 }), 1_000_000, 'output makes no tier');
  t.equal(cost({ input: 200 }, true), 100);
  t.equal(cost({ input: 201 }, true), 201);
  t.equal(cost({ input: 501 }, true), null, 'a tier without a price of batches has none');
  t.equal(costOf([flat('m', '1')], 'm', { batch: true }), null);
});

t.test('parts without a price of their own have that of what they are', async (t) => {
  const tokens = { input: 1, cachedInput: 10, cacheWrite: 100, cacheWrite1h: 1_000, output: 10_000 };
  const cost = (more: Partial<Price>) => costOf([flat('m', '1', { output: '2 USD', ...more })], 'm', { tokens });
  t.equal(cost({}), 1 + 10 + 100 + 1_000 + 20_000);
  t.equal(cost({ cached_input: '0 USD' }), 1 + 100 + 1_000 + 20_000);
  t.equal(cost({ cache_write: '3 USD' }), 1 + 10 + 300 + 3_000 + 20_000);
  t.equal(cost({ cache_write: '3 USD', cache_write_1h: '5 USD' }), 1 + 10 + 300 + 5_000 + 20_000);
});

t.test('any prices and tokens: the exact sum, rounded once, halves up', async (t) => {
  const rate = fc.nat(20_000_000);
  const count = fc.nat(3_000_000);
  const parts = fc.record({ input: count, cachedInput: count, cacheWrite: count, cacheWrite1h: count, output: count });
  const rates = fc.record({ input: rate, output: rate, cached_input: rate, cache_write: rate, cache_write_1h: rate });
  fc.assert(
    fc.property(parts, rates, (tokens, millionths) => {
      const texts = Object.fromEntries(Object.entries(millionths).map(([name, n]) => [name, amountText(n, 'USD')]));
      const found = costOf([{ model: 'm', ...texts } as Price], 'm', { tokens });
      const { input, output, cached_input: cached, cache_write: write, cache_write_1h: hour } = millionths;
      const products = [
        ...[input * tokens.input, output * tokens.output, cached * tokens.cachedInput],
        ...[write * tokens.cacheWrite, hour * tokens.cacheWrite1h],
      ];
      // In units of 1e-12: whole and remaining millionths apart, each far below 2^53.
      const whole = products.reduce((sum, product) => sum + Math.floor(product / 1e6), 0);
      const rest = products.reduce((sum, product) => sum + (product % 1e6), 0);
      return found === whole + Math.floor((rest + 500_000) / 1e6);
    }),
    { numRuns: runs(2_000), seed: SEED },
  );
  t.equal(costOf([flat('m', '999999999')], 'm', { tokens: { input: 2_000_000 } }), null, 'beyond any sum');
  t.pass();
});

t.test('what does not hold together is refused with its place', async (t) => {
  const mistakes = (prices: Price[], currency: string | null = null) =>
    priceMistakes(prices, currency).map(({ path, message }) => `${path} ${message}`);
  t.same(mistakes([flat('a', '1'), flat('b', '2')]), []);
  t.same(mistakes([flat('a', '1'), flat('b', '1', { cached_input: '1 EUR' })]), [
    '/prices/1/cached_input must be in USD, as the first price is',
  ]);
  t.same(mistakes([flat('a', '1')], 'EUR'), [
    '/prices/0/input must be in EUR, as the costs of the account are',
    '/prices/0/output must be in EUR, as the costs of the account are',
  ]);
  const inTier = { above: 1, input: '1 USD', output: '1 USD', batch: { input: '1 EUR', output: '1 USD' } };
  t.same(mistakes([flat('a', '1', { tiers: [inTier, { ...inTier, batch: undefined } as never] })]), [
    '/prices/0/tiers/0/batch/input must be in USD, as the first price is',
    '/prices/0/tiers/1/above is that of /tiers/0, too',
  ]);
  t.same(mistakes([flat('a', '1', { from: '2026-02-30' })]), ['/prices/0/from is no day of the calendar']);
  t.same(mistakes([flat('a', '1', { from: '2026-02-02', until: '2026-02-02' })]), [
    '/prices/0/until must be after `from`',
  ]);
  t.same(mistakes([flat('a', '1', { until: '2026-02-02' }), flat('a', '2', { from: '2026-02-02' })]), []);
  t.same(mistakes([flat('a', '1', { until: '2026-02-03' }), flat('b', '1'), flat('a', '2', { from: '2026-02-02' })]), [
    '/prices/2/model has a price for some of these days at /prices/0',
  ]);
  const fits = Compile(PriceTableChange);
  for (const [price, isFit] of [
    [flat('a', '1.000000'), true],
    [flat('a', '1.0000000'), false],
    [flat('a', '01'), false],
    [flat('', '1'), false],
    [{ ...flat('a', '1'), tiers: [] }, false],
    [{ ...flat('a', '1'), from: '2026-1-1' }, false],
    [{ model: 'a', input: '1 USD' }, false],
    [{ ...flat('a', '1'), cached: '1 USD' }, false],
  ] as const)
    t.equal(fits.Check({ prices: [price] }), isFit, JSON.stringify(price));
});
