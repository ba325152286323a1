// Query strings, read strictly: what is not there has its default, and whatever does not fit is refused and named.

import t from 'tap';
import { STATUSES } from '../../schemas/closed-sets.ts';

import type { ServiceError } from '../../src/common/errors.ts';
import { FILTER_VALUES_MAX } from '../../src/common/limits.ts';
import { anyOf, flag, oneOf, paging, parseQuery, search, text, time } from '../../src/http/reading/query.ts';

const parameters = {
  ...paging({ default: 20, maximum: 100 }),
  status: oneOf('', STATUSES),
  from: time(''),
  q: text('', 10),
};

t.test('what is not there has its default', async (t) => {
  const absent = { limit: 20, offset: 0, cursor: undefined, status: undefined, from: undefined, q: undefined };
  t.same(parseQuery(parameters, ''), absent);
  t.same(parseQuery(parameters, '&&'), absent);
});

t.test('values are read as what they are', async (t) => {
  const read = parseQuery(
    parameters,
    'limit=100&offset=7&status=active&from=2026-11-20T12:00:00%2B01:00&q=a+b%20%C3%A9',
  );
  t.same(read, {
    limit: 100,
    offset: 7,
    cursor: undefined,
    status: 'active',
    from: Date.UTC(2026, 10, 20, 11),
    q: 'a b é',
  });
  t.equal(
    parseQuery(parameters, 'from=2026-11-20T12:00:00+01:00').from,
    Date.UTC(2026, 10, 20, 11),
    'an offset whose + is not escaped',
  );
  t.equal(parseQuery(parameters, 'q=%22a%3Db%26%22').q, '"a=b&"');
  t.equal(parseQuery(parameters, 'q=a=b').q, 'a=b');
});

t.test('whatever does not fit is refused, and named', async (t) => {
  const refused: [string, string][] = [
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['limit=-1', 'limit'],
    ['limit=1.5', 'limit'],
    ['limit=1e1', 'limit'],
    ['limit=0x10', 'limit'],
    ['limit= 5', 'limit'],
    ['limit=٣', 'limit'],
    ['limit=', 'limit'],
    ['limit', 'limit'],
    ['limit=99999999999999999999', 'limit'],
    ['offset=-1', 'offset'],
    ['offset=1000000001', 'offset'],
    ['limit=5&limit=5', 'limit'],
    ['status=ACTIVE', 'status'],
    ['status=', 'status'],
    ['from=yesterday', 'from'],
    ['from=2026-11-20', 'from'],
    ['from=2026-11-20T12:00:00', 'from'],
    ['from=2026-02-30T12:00:00Z', 'from'],
    ['q=', 'q'],
    [`q=${'x'.repeat(11)}`, 'q'],
    ['q=%zz', 'q'],
    ['q=%C3', 'q'],
    ['q=%ED%A0%80', 'q'],
    ['q=100%', 'q'],
    ['%zz=1', '%zz'],
    ['limt=5', 'limt'],
    ['LIMIT=5', 'LIMIT'],
    ['limit[]=5', 'limit[]'],
    ['__proto__=1', '__proto__'],
    ['constructor=1', 'constructor'],
    ['=1', ''],
  ];
  for (const [raw, path] of refused) {
    t.throws(() => parseQuery(parameters, raw), { code: 'validation_failed', details: [{ path }] }, raw);
  }
  try {
    parseQuery(parameters, 'limit=0&offset=x&nope=1');
    t.fail('must be refused');
  } catch (error) {
    t.same(
      (error as ServiceError).details?.map(({ path }) => path),
      ['limit', 'offset', 'nope'],
      'all at once',
    );
  }
  t.throws(
    () => parseQuery({}, 'x=1'),
    { code: 'validation_failed', details: [{ path: 'x' }] },
    'where nothing is known',
  );
});

t.test('a filter that may be repeated gathers its values, each once, and not without end', async (t) => {
  const some = {
    type: anyOf(oneOf('', STATUSES)),
    name: anyOf(text('', 10)),
    on: flag('', true),
    limit: parameters.limit,
  };
  t.same(parseQuery(some, ''), { type: undefined, name: undefined, on: true, limit: 20 });
  t.same(parseQuery(some, 'type=active&name=a%26b&limit=3&type=inactive&type=active&on=false'), {
    type: ['active', 'inactive'],
    name: ['a&b'],
    on: false,
    limit: 3,
  });
  const names = (count: number) => Array.from({ length: count }, (_, i) => `name=${i}`).join('&');
  t.equal(parseQuery(some, `${names(FILTER_VALUES_MAX)}&name=0`).name!.length, FILTER_VALUES_MAX);
  for (const [raw, path] of [
    [names(FILTER_VALUES_MAX + 1), 'name'],
    ['type=active&type=other', 'type'],
    ['name=a&name=', 'name'],
    ['limit=1&limit=2', 'limit'],
    ['on=1', 'on'],
    ['on=true&on=true', 'on'],
  ] as const) {
    t.throws(() => parseQuery(some, raw), { code: 'validation_failed', details: [{ path }] }, raw.slice(0, 40));
  }
});

t.test('a question with nothing to look for is refused', async (t) => {
  const asked = { q: search('') };
  for (const q of ['...', '%22%22', '%22', '-', '%E2%80%8B', '%C2%AB%C2%BB', '%5C', '_ .', '%E3%80%82', '%00'])
    t.throws(() => parseQuery(asked, `q=${q}`), { code: 'validation_failed', details: [{ path: 'q' }] }, q);
  for (const q of ['a', '%2B', '%F0%9F%99%82', '%E4%BB%B7', '... 1'])
    t.equal(parseQuery(asked, `q=${q}`).q, decodeURIComponent(q), q);
});
