// The form of a policy's conditions, without a browser: what it reads of their JSON text, and that a change touches the
// one member that it is about, over examples of the reference and generated texts.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { assetPath } from '../../src/process/assets.ts';
import { dashboardModule } from '../support/dashboard-module.ts';

type Test = { field: string; operator: string; member: number; inner: number | undefined; values: string[] };
type Form = { tests: Test[]; others: string[] };
const form = await dashboardModule<{
  formOf(text: string, reserved: readonly string[], shown: readonly string[]): Form | undefined;
  withValues(text: string, test: Test, values: readonly string[]): string;
  withOperator(text: string, test: Test, operator: string): string;
  withField(text: string, test: Test, field: string): string;
  withTest(text: string, field: string, value?: string): string;
  withoutTest(text: string, test: Test): string;
  withValue(text: string, key: string, value: string | undefined): string;
  withList(text: string, key: string, values: readonly string[]): string;
  shownValue(value: string, isText?: boolean): string;
  writtenValue(written: string, isText?: boolean): string;
}>('policy-form');

const read = (text: string) => form.formOf(text, ['timeout', 'payload_schema'], ['timeout'])!;
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
    t.equal(form.formOf(text, [], []), undefined, `no form of ${text}`);
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
    const { tests, others } = form.formOf(text!, [], [])!;
    const named = new Set([...tests.map(({ field }) => field), ...others]);
    t.same([...named].sort(), Object.keys(JSON.parse(text!)).sort(), text!);
    for (const test of tests) t.equal(form.withValues(text!, test, test.values), text);
  }
});
