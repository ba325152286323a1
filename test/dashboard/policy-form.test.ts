// The form of a policy's conditions, without a browser: what it reads of their JSON text, and that a change touches the
// one member that it is about, over examples of the reference and generated texts.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { POLICY_TYPES, type PolicyType } from '../../schemas/closed-sets.ts';
import { RESERVED_KEYS, SequenceStep } from '../../schemas/policy-conditions.ts';
import { assetPath } from '../../src/process/assets.ts';
import { dashboardModule } from '../support/dashboard-module.ts';

type Test = { field: string; operator: string; member: number; inner: number | undefined; values: string[] };
type Form = { tests: Test[]; others: string[] };
const form = await dashboardModule<{
  formOf(
    text: string,
    reserved?: readonly string[],
    isShown?: (key: string, value: string) => boolean,
  ): Form | undefined;
  withValues(text: string, test: Test, values: readonly string[]): string;
  withOperator(text: string, test: Test, operator: string): string;
  withField(text: string, test: Test, field: string): string;
  withTest(text: string, field: string, value?: string): string;
  withoutTest(text: string, test: Test): string;
  withValue(text: string, key: string, value: string | undefined): string;
  withList(text: string, key: string, values: readonly string[]): string;
  withElement(text: string, key: string, at: number, element: string | undefined): string;
  elementTexts(text: string, key: string): string[];
  shownValue(value: string, isText?: boolean): string;
  writtenValue(written: string, isText?: boolean): string;
}>('policy-form');
type Shapes = Record<string, (value: string) => boolean>;
type Limit = { amount: string; unit: string };
const parts = await dashboardModule<{
  SHAPES: Record<PolicyType, Shapes>;
  OF_STEP: Shapes;
  reservedBy(shapes: Shapes): string[];
  isShown(shapes: Shapes): (key: string, value: string) => boolean;
  limitIn(text: string): Limit | undefined;
  withLimit(text: string, limit: Limit): string;
  withObject(text: string, key: string, object: string): string;
}>('policy-parts');

const read = (text: string) => form.formOf(text, ['timeout', 'payload_schema'], (key) => key === 'timeout')!;
const LARGE =
  '{ "tool" : ["pay",\t"wire"], "amount": {"gt": 1000.00000000000000001, "lt":1e400}, "timeout": "1h",\n "args": {"shell": {"command": "rm"}} }';

t.test('tests are read with the texts of their values, and what has no field is named', async (t) => {
  const { tests, others } = read(LARGE);
  t.same(
    tests.map(({ field, operator, values }) => [field, operator, ...values]),
    [
      ['tool', 'any of', '"pay"', '"wire"'],
      ['amount', 'gt', '1000.00000000000000001'],
      ['amount', 'lt', '1e400'],
    ],
  );
  t.same(others, ['args']);
  t.same(read('{"payload_schema": {}, "a": 1, "a": 2, "b": "x\\ny", "c": {}}').others, ['payload_schema', 'b', 'c']);
  t.same(read('{"timeout": 1, "timeout": 2}').others, ['timeout', 'timeout'], 'a key that is there twice');
  for (const text of ['', '{', '[1]', '"a"', '{"a":}', '{} {}'])
    t.equal(form.formOf(text), undefined, `no form of ${text}`);
});

t.test('a change leaves every other character as it was written', async (t) => {
  const [tool, more, less] = read(LARGE).tests as [Test, Test, Test];
  const expected = (from: string, to: string) => LARGE.replace(from, to);
  t.equal(form.withValues(LARGE, more, ['7.50']), expected('1000.00000000000000001', '7.50'));
  t.equal(form.withOperator(LARGE, less, 'lte'), expected('"lt":1e400', '"lte": 1e400'));
  t.equal(form.withoutTest(LARGE, less), expected(', "lt":1e400', ''));
  t.equal(form.withoutTest(LARGE, more), expected('"gt": 1000.00000000000000001, ', ''));
  t.equal(form.withoutTest(LARGE, tool), expected('"tool" : ["pay",\t"wire"], ', ''));
  t.equal(form.withValues(LARGE, tool, ['"wire"']), expected('"pay",\t', ''));
  t.equal(form.withValues(LARGE, tool, ['"pay"', '"wire"', '5']), expected('"wire"', '"wire",\t5'));
  t.equal(form.withOperator(LARGE, tool, 'not_in'), expected('["pay",\t"wire"]', '{ "not_in": ["pay", "wire"] }'));
  t.equal(form.withOperator(LARGE, tool, 'contains'), expected('["pay",\t"wire"]', '{ "contains": "pay" }'));
  t.equal(form.withOperator(LARGE, more, 'is'), LARGE, 'a short form cannot stand beside another operator');
  t.equal(form.withField(LARGE, tool, 'a "b"'), expected('"tool"', '"a \\"b\\""'));
  t.equal(form.withValue(LARGE, 'timeout', '30'), expected('"1h"', '30'));
  t.equal(form.withValue(LARGE, 'timeout', undefined), expected(' "timeout": "1h",', ''));
  t.equal(form.withList('{ "patterns": ["a"] }', 'patterns', []), '{  }');
  t.equal(form.withTest('{}', 'x', '1'), '{\n  "x": 1\n}');
  t.equal(form.withTest('{\n  "a": 1\n}', 'x', '2'), '{\n  "a": 1,\n  "x": 2\n}');
});

t.test('every key that a type reserves has a control, but for payload_schema', async (t) => {
  const known = (keys: readonly string[]) => keys.filter((key) => key !== 'payload_schema').sort();
  for (const type of POLICY_TYPES) t.same(Object.keys(parts.SHAPES[type]).sort(), known(RESERVED_KEYS[type]), type);
  const { properties } = SequenceStep as unknown as { properties: object };
  t.same(Object.keys(parts.OF_STEP).sort(), known(Object.keys(properties)), 'a step');
});

t.test('what a control could not show is named, and a word of another type is a field', async (t) => {
  const othersOf = (type: PolicyType, text: string) => {
    const shapes = parts.SHAPES[type];
    return form.formOf(text, parts.reservedBy(shapes), parts.isShown(shapes))!.others;
  };
  const whole =
    '{"tool": "pay", "within": 60, "after": [{"tool": "a"}, {}], "unless": {}, "per": "trace", "same": {"payload.a": "payload.b"}, "at_least": 2, "sum": {"path": "payload.n", "gt": 1.0}, "expression": "true"}';
  t.same(othersOf('sequence', whole), []);
  const odd =
    '{"after": ["a"], "unless": [], "same": {"a": 1}, "sum": {"path": "a", "of": 1}, "expression": "a\\nb", "within": {}}';
  t.same(othersOf('sequence', odd), ['after', 'unless', 'same', 'sum', 'expression', 'within']);
  for (const limit of ['"25.00 USD"', '{"tokens": 5}', '{"events": "x"}'])
    t.same(othersOf('budget', `{"limit": ${limit}, "warn_at": [0.8]}`), [], limit);
  for (const limit of ['5', '{}', '{"tokens": 5, "events": 5}', '{"tokens": [5]}'])
    t.same(othersOf('budget', `{"limit": ${limit}, "warn_at": 0.8}`), ['limit', 'warn_at'], limit);
  t.same(othersOf('external_check', '{"when": {"score": {"gte": 0.8}, "labels": ["a"]}}'), []);
  t.same(othersOf('external_check', '{"when": {"score": 1}}'), ['when']);
  t.same(othersOf('data_filter', '{"detectors": "email"}'), ['detectors']);
  t.same(othersOf('block_action', '{"check": "a", "unless": "b", "threshold": 1}'), ['threshold']);
});

t.test('steps, objects and limits are changed where they stand', async (t) => {
  const text = '{ "after": [{"tool": "a"},  {"tool" : 1.0}], "per": "agent" }';
  t.same(form.elementTexts(text, 'after'), ['{"tool": "a"}', '{"tool" : 1.0}']);
  t.equal(form.withElement(text, 'after', 1, '{}'), text.replace('{"tool" : 1.0}', '{}'));
  t.equal(form.withElement(text, 'after', 2, '{}'), text.replace('1.0}', '1.0},  {}'));
  const less = form.withElement(text, 'after', 0, undefined);
  t.equal(less, '{ "after": [{"tool" : 1.0}], "per": "agent" }');
  t.equal(form.withElement(less, 'after', 0, undefined), '{ "per": "agent" }', 'the last one takes its list along');
  t.equal(form.withElement('{}', 'after', 0, '{}'), '{\n  "after": [{}]\n}');
  t.equal(parts.withObject('{ "a": 1, "sum": {"gt": 1} }', 'sum', '{}'), '{ "a": 1 }');

  const limit = '{ "limit": {"tokens" : 200000}, "window": "day" }';
  t.same(parts.limitIn(limit), { amount: '200000', unit: 'tokens' });
  t.equal(parts.withLimit(limit, { amount: '2e5', unit: 'tokens' }), limit.replace('200000', '2e5'));
  const money = parts.withLimit(limit, { amount: '25.00', unit: 'USD' });
  t.equal(money, '{ "limit": "25.00 USD", "window": "day" }');
  for (const amount of ['25.00', '25', '', '1,000', 'USD'])
    for (const unit of ['USD', 'tokens', 'events'])
      t.same(parts.limitIn(parts.withLimit(money, { amount, unit })), { amount, unit }, `${amount} in ${unit}`);
  t.same(parts.limitIn('{"limit": "25"}'), { amount: '25', unit: '' });
});

t.test('a value is shown as it would be written, and read back as it was', async (t) => {
  for (const value of [
    '"pay"',
    '"5"',
    '5',
    '1e400',
    '0.10',
    'true',
    '"true"',
    'null',
    '""',
    '"\\"a"',
    '"\\"a\\""',
    '"t"',
    '"a "',
  ])
    t.equal(form.writtenValue(form.shownValue(value)), value);
  t.equal(form.writtenValue('5', true), '"5"');
  t.equal(form.shownValue('"5"', true), '5');
  t.equal(form.writtenValue('[1]'), '"[1]"', 'a list is no value of one field');
});

/** Seeded, so that a failure comes again. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

t.test('generated conditions come back whole, whatever is changed and changed back', async (t) => {
  const below = numbers(7);
  const pick = (of: readonly string[]) => of[below(of.length)]!;
  const gap = () => pick(['', ' ', '\n  ', '\t']);
  const scalar = () => pick(['"a"', '"\\u0041,]}"', '12345678901234567890', '-0.10', '1E5', 'null', 'true', '"\\\\"']);
  const list = () => `[${gap()}${Array.from({ length: 1 + below(3) }, scalar).join(`,${gap()}`)}${gap()}]`;
  const operand = () =>
    pick([
      scalar(),
      list(),
      `{"gt":${gap()}1.0, "lt": 2e3}`,
      `{"in"${gap()}: ${list()}}`,
      '{"sql": {"statement": "drop"}}',
    ]);
  let changes = 0;
  for (let round = 0; round < 500; round++) {
    const keys = ['tool', 'payload.a', 'x y', 'timeout', 'payload_schema'].slice(0, below(6));
    const text = `{${gap()}${keys.map((key) => `"${key}"${gap()}:${gap()}${operand()}`).join(`,${gap()}`)}${gap()}}`;
    const { tests, others } = read(text);
    const named = new Set([...tests.map(({ field }) => field), ...others, 'timeout']);
    if (keys.some((key) => !named.has(key))) t.fail(`not all of ${text} is named`);
    for (const test of tests) {
      const longer = form.withValues(text, test, [...test.values.slice(0, -1), '"other"']);
      const back = form.withValues(longer, test, test.values);
      if (back !== text) t.fail(`${text} became ${back}`);
      const without = form.withoutTest(text, test);
      const left = read(without);
      if (left.tests.length !== tests.length - 1 || left.others.join() !== others.join())
        t.fail(`${text} without ${test.field} became ${without}`);
      changes++;
    }
  }
  t.ok(changes > 500, `${changes} changes`);
});

t.test('of every example of the reference all keys are in the form, or named', async (t) => {
  const reference = readFileSync(assetPath('docs/policy-reference.md'), 'utf8');
  const examples = [...reference.matchAll(/(?:block_action|rate_limit|data_filter|require_approval) '(\{.*\})'/g)];
  t.ok(examples.length > 10, `${examples.length} examples`);
  for (const [, text] of examples) {
    const { tests, others } = form.formOf(text!)!;
    const named = new Set([...tests.map(({ field }) => field), ...others]);
    t.same([...named].sort(), Object.keys(JSON.parse(text!)).sort(), text!);
    for (const test of tests) t.equal(form.withValues(text!, test, test.values), text);
  }
});
