// Differences of two JSON values: none exactly where they are the same, and applied to the one they give the other.
import fc from 'fast-check';
import t from 'tap';
import { type Difference, differencesOf } from '../../src/common/differences.ts';
import { exactJson, parseExact } from '../../src/common/exact-json.ts';
import { runs, SEED } from '../support/seed.ts';

type Value = Record<string, unknown>;

/** `value` with each difference carried out. */
function applied(value: unknown, differences: readonly Difference[]): unknown {
  let result = structuredClone(value);
  for (const { path, ...difference } of differences) {
    const steps = path
      .split('/')
      .slice(1)
      .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
    const last = steps.pop();
    if (last === undefined) {
      result = difference.after;
      continue;
    }
    const holder = steps.reduce((inner, step) => inner[step] as Value, result as Value);
    if (!('after' in difference)) delete holder[last];
    else Object.defineProperty(holder, last, { value: difference.after, enumerable: true, configurable: true });
  }
  return result;
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return { members: members.map(([key, item]) => [key, sorted(item)]) };
}

t.test('what differs, and nothing else, with old and new', async (t) => {
  const before = { a: 1, b: { 'c/d': [1, 2], 'e~f': null }, g: 'x' };
  t.same(differencesOf(before, { b: { 'e~f': null, 'c/d': [1, 2] }, g: 'x', a: 1 }), [], 'in whatever order');
  t.same(differencesOf(before, { a: 2, b: { 'c/d': [2, 1], 'e~f': {} } }), [
    { path: '/a', before: 1, after: 2 },
    { path: '/b/c~1d', before: [1, 2], after: [2, 1] },
    { path: '/b/e~0f', before: null, after: {} },
    { path: '/g', before: 'x' },
  ]);
  const long = (digit: number) => parseExact(`{"n": 65324704036867276${digit}}`);
  t.same(differencesOf(long(1), long(1)), []);
  t.equal(
    exactJson(differencesOf(long(1), long(2))),
    '[{"path":"/n","before":653247040368672761,"after":653247040368672762}]',
  );
});

t.test('the differences lead from the one to the other', async (t) => {
  const value = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      fc.constantFrom(null, true, 0, 1, 'x', ''),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('a', 'b', '/', '~', '', 'toString', '~1'), tie('value'), { maxKeys: 4 }),
    ),
  })).value;
  fc.assert(
    fc.property(value, value, (before, after) => {
      const differences = differencesOf(before, after);
      t.same(sorted(applied(before, differences)), sorted(after));
      const isSame = JSON.stringify(sorted(before)) === JSON.stringify(sorted(after));
      return isSame === (differences.length === 0);
    }),
    { seed: SEED, numRuns: runs(2_000) },
  );
});
