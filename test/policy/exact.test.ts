// Numbers compared as they are written, whatever their length: in conditions, expressions, schemas and counters,
// against an oracle of whole numbers; and JSON that keeps them.

import fc from 'fast-check';
import t from 'tap';
import { exactJson, parseExact } from '../../src/common/exact-json.ts';
import { compareNumbers, exactNumber, isMultiple, LongNumber, numberOfText } from '../../src/common/exact-number.ts';
import { checkPolicy } from '../../src/policy/compile.ts';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import { runs, SEED } from '../support/seed.ts';
import { decideOn, event, matches, policy } from './support.ts';

/** A decimal and, apart from our reading, what it is: a whole number of 10^-60. */
const decimal = fc
  .record({
    isNegative: fc.boolean(),
    whole: fc.oneof(fc.constantFrom('0', '9007199254740993', '653247040368672769', '1000'), digits(1, 25)),
    fraction: fc.oneof(fc.constant(''), digits(1, 25)),
    exponent: fc.integer({ min: -30, max: 30 }),
  })
  .map(({ isNegative, whole, fraction, exponent }) => {
    const sign = isNegative ? '-' : '';
    const plain = `${sign}${BigInt(whole)}${fraction === '' ? '' : `.${fraction}`}`;
    const value = BigInt(`${sign}${whole}${fraction}`) * 10n ** BigInt(60 - fraction.length + exponent);
    return { text: exponent === 0 ? plain : `${plain}e${exponent}`, value };
  });

function digits(least: number, most: number): fc.Arbitrary<string> {
  return fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: least, maxLength: most });
}

t.test('numbers are in the order of an exact oracle', async (t) => {
  fc.assert(
    fc.property(decimal, decimal, (a, b) => {
      const order = a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
      return compareNumbers(exactNumber(a.text), exactNumber(b.text)) === order;
    }),
    { seed: SEED, numRuns: runs(5_000) },
  );
  fc.assert(
    fc.property(decimal, decimal, (a, b) => {
      if (b.value === 0n) return true;
      return isMultiple(exactNumber(a.text), exactNumber(b.text)) === (a.value % b.value === 0n);
    }),
    { seed: SEED, numRuns: runs(5_000) },
  );
  t.equal(compareNumbers(exactNumber('1e400'), exactNumber('1e401')), -1);
  t.equal(compareNumbers(exactNumber('1e-400'), 0), 1);
  t.equal(compareNumbers(exactNumber('10e399'), exactNumber('1e400')), 0);
  t.type(exactNumber('1.0000000000000000000'), 'number', 'what has a short form is a number');
  t.equal(isMultiple(19.99, 0.01), true);
  t.equal(isMultiple(exactNumber('1e999999999'), 7), false);
  t.equal(isMultiple(exactNumber(`${'1'.repeat(5_000)}`), 7), undefined, 'too long to divide');
});

t.test('JSON keeps its numbers, and strings that look like them', async (t) => {
  const value = fc.letrec<{ text: string }>((tie) => ({
    text: fc.oneof(
      { depthSize: 'small', maxDepth: 4 },
      decimal.map(({ text }) => text),
      fc.string().map((text) => JSON.stringify(text)),
      fc.constantFrom('true', 'null', '"653247040368672769"', '{"__proto__":12345678901234567890}'),
      fc.array(tie('text'), { maxLength: 3 }).map((items) => `[${items.join()}]`),
      fc.array(tie('text'), { maxLength: 3 }).map((items) => `{${items.map((item, i) => `"k${i}":${item}`).join()}}`),
    ),
  })).text;
  fc.assert(
    fc.property(value, (text) => {
      const written = exactJson(parseExact(text));
      // Short numbers are written as JSON.stringify does; long ones as they were sent.
      return exactJson(parseExact(written)) === written && sameNumbers(text, written);
    }),
    { seed: SEED, numRuns: runs(3_000) },
  );
  t.equal(
    exactJson(parseExact('{"a":[1.0,123456789012345678901234567890.50]}')),
    '{"a":[1,123456789012345678901234567890.50]}',
  );
  t.equal(
    JSON.stringify(parseExact('[12345678901234567890]')),
    '[12345678901234567000]',
    'elsewhere the nearest double',
  );
  t.throws(() => parseExact('{"a":1234567890123456789a}'), SyntaxError);
  t.throws(() => parseExact('{12345678901234567890:1}'), SyntaxError, 'a key is a string');
  t.throws(() => parseExact('[01234567890123456789]'), SyntaxError, 'not JSON stays no JSON');
});

function sameNumbers(a: string, b: string): boolean {
  const numbers = (text: string) =>
    (text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '').match(/-?\d[\d.eE+-]*/g) ?? []).map(exactNumber);
  const [left, right] = [numbers(a), numbers(b)];
  return left.length === right.length && left.every((number, i) => compareNumbers(number, right[i]!) === 0);
}

/** A condition on `payload.n` as its JSON. */
function holds(condition: string, number: string): boolean {
  const conditions = parseExact(`{"payload.n":${condition}}`) as object;
  return matches('block_action', conditions, event('custom', `{"n":${number}}`));
}

t.test('conditions compare numbers of any length', async (t) => {
  t.ok(holds('653247040368672769', '653247040368672769'));
  t.notOk(holds('653247040368672769', '653247040368672770'), 'not its neighbour');
  t.ok(holds('{"ne":653247040368672769}', '653247040368672770'));
  t.ok(holds('[1,653247040368672769]', '653247040368672769.0'));
  t.notOk(holds('{"not_in":[1,653247040368672769]}', '6.53247040368672769e17'));
  t.ok(holds('{"gt":1000}', '1000.00000000000000001'));
  t.notOk(holds('{"gt":1000}', '1000.00000000000000000'));
  t.ok(holds('{"lt":1e400}', '9.9e399'));
  fc.assert(
    fc.property(decimal, decimal, (a, b) => {
      const is = (name: string) => holds(`{"${name}":${b.text}}`, a.text);
      const order = a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
      return (
        is('eq') === (order === 0) &&
        is('ne') === (order !== 0) &&
        is('gt') === order > 0 &&
        is('gte') === order >= 0 &&
        is('lt') === order < 0 &&
        is('lte') === order <= 0
      );
    }),
    { seed: SEED, numRuns: runs(2_000) },
  );
});

t.test('what is to be a number and is none counts as met, and says so', async (t) => {
  const detailOf = (value: string) => {
    const view = event('custom', `{"n":${value}}`);
    return decideOn(new RuleSet([policy('block_action', { 'payload.n': { gt: 1000 } })]), view).matches[0]?.detail;
  };
  t.equal(detailOf('"50"'), undefined, 'a text that is a number is one');
  t.same(detailOf('"5000"'), { condition: 'payload.n', operator: 'gt', path: '/n' });
  t.equal(detailOf('" +5.0e1 "'), undefined);
  t.equal(detailOf('null'), undefined);
  t.equal(detailOf('[1, "x"]'), undefined, 'an array with a number is asked for its numbers');
  const met = { condition: 'payload.n', operator: 'gt', path: '/n', reason: 'not_a_number' };
  for (const value of ['"five thousand"', '{"value":5}', 'true', '[]', '["x"]', '[null]', '"5,000"', '""'])
    t.same(detailOf(value), met, value);
  t.same(detailOf('[1, "5000"]'), { condition: 'payload.n', operator: 'gt', path: '/n/1' });
  t.equal(matches('block_action', { 'payload.m': { gt: 1 } }, event('custom', { n: 1 })), false, 'nothing is there');
  const filter = policy('data_filter', { patterns: ['secret'], 'payload.n': { lte: 1 } });
  const found = decideOn(new RuleSet([filter]), event('custom', { n: 'much', s: 'secret' }));
  t.match(found.matches[0]!.detail, { pattern: 0, path: '/s', reason: 'not_a_number' });
  const limit = policy('rate_limit', { threshold: 1, window: '1m', 'payload.n': { lte: 1 } });
  const over = decideOn(new RuleSet([limit]), event('custom', { n: 'much' }), [42]);
  t.match(over.matches[0]!.detail, { threshold: 1, reason: 'not_a_number' });
});

t.test('keys are text for matches', async (t) => {
  const view = event('custom', { headers: { 'X-Secret-Token': 1 }, list: [{ deep: { sk_live_1: true } }] });
  t.ok(matches('block_action', { 'payload.headers': { matches: '(?i)secret' } }, view));
  t.ok(matches('block_action', { payload: { matches: 'sk_live' } }, view));
  t.notOk(matches('block_action', { payload: { matches: 'sk_test' } }, view));
  t.notOk(matches('block_action', { 'payload.headers': { contains: 'Secret' } }, view), 'the others look at values');
});

t.test('expressions compare numbers of any length', async (t) => {
  const says = (expression: string, payload: string) =>
    matches('block_action', { expression }, event('custom', payload));
  const id =
    '{"id":653247040368672769,"ids":[1,653247040368672769],"x":1000.00000000000000001,"big":123456789012345678901234,"n":7}';
  for (const expression of [
    'event.payload.id == 653247040368672769',
    '653247040368672769 == event.payload.id',
    'event.payload.id in [653247040368672769]',
    '653247040368672769 in event.payload.ids',
    'event.payload.ids.exists(id, id == 653247040368672769)',
    'event.payload.id > 653247040368672768',
    'event.payload.x > 1000',
    'event.payload.x > event.payload.n',
    'event.payload.n < event.payload.x',
    '1000.0 < event.payload.x',
    'event.payload.big > event.payload.id',
    'event.payload.big == event.payload.big',
    'event.payload.big > 5u',
    'event.payload.x + 1 > 1000.5 && event.payload.x * 2.0 > 1999.0 && 1 - event.payload.x < 0.0',
    'string(event.payload.x) == "1000.00000000000000001"',
    'double(event.payload.big) > 1e23',
    'event.payload.n == 7',
  ])
    t.ok(says(expression, id), expression);
  for (const expression of [
    'event.payload.id == 653247040368672770',
    'event.payload.id != 653247040368672769',
    'event.payload.x <= 1000',
    'event.payload.x == event.payload.n',
    'event.payload.big == 5',
    'event.payload.id == "653247040368672769"',
  ])
    t.notOk(says(expression, id), expression);
});

t.test('schemas compare numbers of any length', async (t) => {
  const refuses = (schema: string, number: string) =>
    matches(
      'block_action',
      { payload_schema: parseExact(`{"properties":{"n":${schema}}}`) },
      event('custom', `{"n":${number}}`),
    );
  const rows: [schema: string, fits: string[], others: string[]][] = [
    [
      '{"multipleOf":0.01}',
      ['19.99', '0', '-0.07', '1e3', '9007199254740993', '123456789012345678.99'],
      ['1.115', '19.999', '1e-400'],
    ],
    ['{"multipleOf":3}', ['9', '123456789012345678901234567890'], ['10', '123456789012345678901234567891', '4.5']],
    [
      '{"const":653247040368672769}',
      ['653247040368672769', '653247040368672769.0'],
      ['653247040368672770', '"653247040368672769"'],
    ],
    ['{"enum":[1,"a",653247040368672769]}', ['1', '"a"', '653247040368672769'], ['653247040368672770', '2']],
    [
      '{"const":{"a":[653247040368672769]}}',
      ['{"a":[653247040368672769]}'],
      ['{"a":[653247040368672770]}', '{"a":[653247040368672769],"b":1}'],
    ],
    ['{"maximum":1000}', ['1000.00000000000000000', '999.99999999999999999'], ['1000.00000000000000001']],
    ['{"exclusiveMinimum":1000}', ['1000.00000000000000001'], ['1000', '999.99999999999999999']],
    ['{"minimum":12345678901234567890}', ['12345678901234567890'], ['12345678901234567889']],
    ['{"items":{"exclusiveMaximum":9007199254740993}}', ['[9007199254740992]'], ['[1,9007199254740993]']],
    ['{"not":{"anyOf":[{"const":9007199254740993}]}}', ['9007199254740992'], ['9007199254740993']],
    ['{"type":"integer"}', ['12345678901234567890'], ['1.5']],
  ];
  for (const [schema, fits, others] of rows) {
    for (const number of fits) t.notOk(refuses(schema, number), `${schema} takes ${number}`);
    for (const number of others) t.ok(refuses(schema, number), `${schema} refuses ${number}`);
  }
  const found = decideOn(
    new RuleSet([policy('block_action', { payload_schema: { properties: { n: { multipleOf: 0.01 } } } })]),
    event('custom', '{"n":1.115}'),
  );
  t.match(found.matches[0]!.detail, { condition: 'payload_schema', path: '/n', keyword: 'multipleOf' });
});

t.test('counters are distinguished by the number as it is written', async (t) => {
  const rules = new RuleSet([policy('rate_limit', { threshold: 1, window: '1m', per: 'payload.user' })]);
  const counter = (user: string) => judge(rules, event('custom', `{"user":${user}}`)).rateChecks[0]!.counterValue;
  t.not(counter('653247040368672769'), counter('653247040368672770'));
  t.equal(counter('653247040368672769'), counter('653247040368672769.0'), 'one number, one counter');
  t.not(counter('[653247040368672769]'), counter('[653247040368672770]'));
});

t.test('a long number is no object where a policy takes one', async (t) => {
  const refused = (conditions: string) => {
    try {
      checkPolicy({ type: 'block_action', conditions: parseExact(conditions), actions: ['block'] });
      return false;
    } catch {
      return true;
    }
  };
  t.ok(refused('12345678901234567890'));
  t.ok(refused('{"payload_schema":12345678901234567890}'));
  t.ok(refused('{"payload_schema":{"properties":{"a":12345678901234567890}}}'));
  t.ok(refused('{"payload_schema":{"minLength":1.00000000000000000001}}'));
  t.notOk(refused('{"payload.n":12345678901234567890}'));
  t.equal(numberOfText('x'), undefined);
  t.ok(numberOfText('12345678901234567890') instanceof LongNumber);
});
