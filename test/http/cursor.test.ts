// Cursors without a server: where a page continues, and what is refused as none of this list's.
import fc from 'fast-check';
import t from 'tap';
import { cursorBehind, openPage } from '../../src/http/answers/cursor.ts';
import { cursorPaging, paging, parseQuery } from '../../src/http/reading/query.ts';
import { runs, SEED } from '../support/seed.ts';

const call = (query: Partial<Record<string, unknown>> = {}, more: { account?: string; params?: string[] } = {}) => ({
  account: 'acc_1',
  params: [],
  ...more,
  query: { limit: 20, offset: 0, cursor: undefined, ...query } as { limit: number; offset: number; cursor: undefined },
});
const refused = { code: 'validation_failed', details: [{ path: 'cursor' }] };
/** The cursor behind a first page of such a list. */
const cursorOf = (of = call(), list = 'events') =>
  cursorBehind(openPage(of, list), 3, 40, { at: 1_700_000_000_123, id: 'evt_"ü' }) as unknown as undefined;

t.test('a cursor goes on where the page before ended, with what was counted when the list began', async (t) => {
  const first = openPage(call({ offset: 7 }), 'events');
  t.match(first, { limit: 20, offset: 7, after: undefined, total: undefined, before: 7 });
  const cursor = cursorBehind(first, 20, 40, { at: -5, id: 'x' }) as unknown as undefined;
  const second = openPage(call({ cursor, limit: 3 }), 'events');
  t.match(second, { limit: 3, offset: 0, after: { at: -5, id: 'x' }, total: 40, before: 27, begunAt: first.begunAt });
  const third = openPage(
    call({ cursor: cursorBehind(second, 3, 40, { at: 0, id: 'y' }) as unknown as undefined }),
    'events',
  );
  t.match(third, { after: { at: 0, id: 'y' }, total: 40, before: 30, begunAt: first.begunAt });
});

t.test('how many and how much of them may change from page to page, nothing else', async (t) => {
  const filters = { type: ['a', 'b'], from: 5, order: 'asc', q: undefined };
  const cursor = cursorOf(call(filters));
  for (const same of [{ limit: 500 }, { payload: 'none' }, { type: ['b', 'a'] }, { agent: undefined }])
    t.ok(openPage(call({ ...filters, ...same, cursor }), 'events').after, JSON.stringify(same));
  for (const other of [
    { type: ['a'] },
    { type: undefined },
    { from: 6 },
    { order: 'desc' },
    { q: 'x' },
    { model: ['m'] },
  ])
    t.throws(() => openPage(call({ ...filters, ...other, cursor }), 'events'), refused, JSON.stringify(other));
  t.throws(() => openPage(call({ ...filters, cursor }), 'traces'), refused, 'another list');
  t.throws(() => openPage(call({ ...filters, cursor }, { account: 'acc_2' }), 'events'), refused, 'another account');
  t.throws(() => openPage(call({ ...filters, cursor }, { params: ['agt_1'] }), 'events'), refused, 'of an agent');
});

t.test('what is no cursor is refused, whatever it is', async (t) => {
  const sound = JSON.parse(Buffer.from(String(cursorOf()), 'base64url').toString()) as unknown[];
  const made = (fields: unknown) => Buffer.from(JSON.stringify(fields)).toString('base64url');
  t.ok(openPage(call({ cursor: made(sound) }), 'events').after);
  const changed = (at: number, to: unknown) => made(sound.map((field, i) => (i === at ? to : field)));
  const wrong = [
    'x',
    '=',
    '%',
    'null',
    made(null),
    made({}),
    made([]),
    made(sound.slice(0, -1)),
    made([...sound, 1]),
    changed(0, 1),
    changed(0, 3),
    changed(1, 'other'),
    changed(2, '5'),
    changed(2, null),
    changed(2, 1e300),
    changed(3, 7),
    changed(3, 'x'.repeat(201)),
    changed(4, -1),
    changed(5, null),
    changed(6, -1),
    `${String(cursorOf())}!`,
    `${String(cursorOf())}x`,
    `${String(cursorOf())}xyzw`,
  ];
  for (const cursor of wrong) t.throws(() => openPage(call({ cursor }), 'events'), refused, cursor.slice(0, 60));
  const property = fc.property(
    fc.oneof(
      fc.string(),
      fc.jsonValue().map(made),
      fc.tuple(fc.nat(7), fc.jsonValue()).map(([i, v]) => changed(i, v)),
    ),
    (cursor) => {
      try {
        // Another number of items, or another place, does no harm: it is the bearer's own list.
        return openPage(call({ cursor }), 'events').limit === 20;
      } catch (error) {
        return (error as { code?: string }).code === 'validation_failed';
      }
    },
  );
  const { failed, counterexample, seed } = fc.check(property, { seed: SEED, numRuns: runs(2_000) });
  t.notOk(failed, `seed ${seed}: ${JSON.stringify(counterexample)}`);
});

t.test('a cursor and an offset never stand in one call', async (t) => {
  const known = paging({ default: 20, maximum: 100 });
  for (const raw of ['cursor=abc&offset=0', 'offset=20&limit=5&cursor=abc'])
    t.throws(() => parseQuery(known, raw), refused, raw);
  t.equal(parseQuery(known, 'cursor=abc&limit=5').cursor, 'abc');
  t.throws(() => parseQuery(known, 'cursor='), refused);
  t.throws(() => parseQuery(known, `cursor=${'x'.repeat(2_001)}`), refused);
  const alone = cursorPaging({ default: 5, maximum: 5 });
  t.throws(
    () => parseQuery(alone, 'offset=1'),
    { code: 'validation_failed', details: [{ path: 'offset' }] },
    'there is none',
  );
  const longest = cursorOf(call(), 'trace');
  t.ok(String(longest).length < 2_000);
});
