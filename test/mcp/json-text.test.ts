// The places of values in the text of JSON (src/common/json-text.ts), with random texts against JSON.parse; and the
// reader of messages of MCP.
import t from 'tap';
import {
  itemsOf,
  membersOf,
  scalarIn,
  scalarsOf,
  spliced,
  stringAt,
  textAt,
  withoutRepeatedKeys,
} from '../../src/common/json-text.ts';
import { idOf, looseKey, readMessages, tooLarge } from '../../src/mcp/message.ts';
import { areAllRun, randomFrom, runs, SEED } from '../support/seed.ts';

/** Makes a random value: its text, and the text without what an object says twice. */
function randomJson(random: () => number, depth = 0): { text: string; once: string } {
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)]!;
  const blank = () => pick(['', '', ' ', '\n', '\t ', '\r\n']);
  const kind = random();
  if (depth > 4 || kind < 0.5) {
    const text = pick([
      '1',
      '1.0',
      '-0',
      '1e400',
      '9007199254740993',
      'true',
      'null',
      '""',
      '"a,b:{}[]"',
      '"\\"\\\\"',
      '"\\u00e9"',
    ]);
    return { text, once: text };
  }
  const items = Array.from({ length: Math.floor(random() * 4) }, () => randomJson(random, depth + 1));
  if (kind < 0.7) {
    const of = (key: 'text' | 'once') => `[${items.map((item) => item[key]).join(',')}]`;
    return { text: of('text'), once: of('once') };
  }
  const members = items.map((item) => ({
    key: pick(['"a"', '"\\u0061"', '"b"', '"__proto__"', '"{"']),
    item,
    a: blank(),
    b: blank(),
  }));
  const keyOf = (key: string) => JSON.parse(key) as string;
  const left = members.filter(({ key }, i) => !members.slice(i + 1).some((later) => keyOf(later.key) === keyOf(key)));
  const of = (some: typeof members, which: 'text' | 'once') =>
    `{${some.map(({ key, item, a, b }) => `${a}${key}${b}:${a}${item[which]}${b}`).join(',')}}`;
  return { text: of(members, 'text'), once: of(left, 'once') };
}

t.test('a key that stands twice is left once, and nothing else is changed', (t) => {
  const random = randomFrom(SEED);
  let cut = 0;
  for (let i = 0; i < runs(20_000); i++) {
    const { text, once } = randomJson(random);
    const left = withoutRepeatedKeys(text);
    const blankless = (json: string) => json.replace(/\s/g, '');
    if (blankless(left) !== blankless(once)) t.equal(left, once, text);
    if (text === once && left !== text) t.equal(left, text);
    if (text !== once) cut++;
  }
  t.ok(cut > 100 || !areAllRun, `${cut} texts had one`);
  t.throws(() => withoutRepeatedKeys('{"a":1,}'), SyntaxError);
  const deep = `${'{"a":'.repeat(200_000)}1${'}'.repeat(200_000)}`;
  t.equal(withoutRepeatedKeys(deep), deep, 'a depth costs no stack');
  t.equal(membersOf(deep)!.get('a')!.end, deep.length - 1);
  t.end();
});

t.test('members, items and scalars are found where JSON.parse finds them', (t) => {
  const random = randomFrom(SEED + 1);
  for (let i = 0; i < runs(5_000); i++) {
    const text = withoutRepeatedKeys(randomJson(random).text);
    const value = JSON.parse(text);
    const [members, items] = [membersOf(text), itemsOf(text)];
    const isList = Array.isArray(value);
    const isObject = typeof value === 'object' && value !== null && !isList;
    const found = isObject
      ? [...members!].map(([key, at]) => [key, JSON.parse(textAt(text, at))])
      : items?.map((at) => JSON.parse(textAt(text, at)));
    const wanted = isObject ? Object.entries(value) : isList ? value : undefined;
    if (JSON.stringify(found) !== JSON.stringify(wanted)) t.same(found, wanted, text);
  }
  t.same(
    [...scalarsOf('{"a":[1.50,{"b":"x\\u0020y"}],"c":true, "d" : null}')],
    ['a', '1.50', 'b', 'x y', 'c', 'true', 'd', 'null'],
  );
  const two = ' {"a" : [1, 2 ] , "b":"x"} ';
  const { a, b } = Object.fromEntries(membersOf(two)!);
  t.equal(
    spliced(two, [
      { ...b!, text: '3' },
      { ...a!, text: '[]' },
    ]),
    ' {"a" : [] , "b":3} ',
  );
  t.equal(stringAt(two, b), 'x');
  t.equal(stringAt(two, a), undefined);
  t.end();
});

t.test('the id of what cannot be read', (t) => {
  for (const [text, id] of [
    ['{"jsonrpc":"2.0","id":7,"method":"x","params":{', '7'],
    ['{"id" : "a\\"b" ,', '"a\\"b"'],
    ['{"params":{"id":1},"id":9007199254740993,"x', '9007199254740993'],
    ['{"params":{"id":1', undefined],
    ['{"x":"\\"id\\":3","id":4}x', '4'],
    ['{"id":1', undefined],
    ['{"id":{"id":5},', undefined],
    ['id: 7', undefined],
    ['{"id":"a\\n\tb",', undefined],
  ] as const)
    t.equal(scalarIn(text, 'id'), id, text);
  const large = tooLarge('{"jsonrpc":"2.0","result":{"id":3,"x":"', 'xxx"},"jsonrpc":"2.0","id":"z"}');
  t.match(large.items, [{ kind: 'fault', id: '"z"' }]);
  t.end();
});

t.test('what both sides say of a message that is no message, and which ids are alike', (t) => {
  const kinds = (text: string, from: 'client' | 'server') => readMessages(text, from).items.map(({ kind }) => kind);
  t.same(kinds('{"method":"x","id":1,"result":{}}', 'client'), ['request'], 'a server may take it for one');
  t.same(kinds('{"method":"x","id":1,"result":{}}', 'server'), ['answer'], 'a client may take it for one');
  t.same(kinds('{"method":"x","id":1,"result":null,"error":null}', 'server'), ['request']);
  t.same(kinds('[{"method":"x"},{"id":1},7]', 'client'), ['notification', 'fault', 'fault']);
  t.same(kinds(`[${'{"method":"x"},'.repeat(1_000)}{"method":"x"}]`, 'client'), ['fault'], 'a batch has a bound');
  t.match(readMessages('{"level":"info","id":1}', 'server').items, [{ kind: 'fault', id: 'null' }], 'a log line');
  t.match(readMessages('{"jsonrpc":"2.0","id":1}', 'server').items, [{ kind: 'fault', id: '1' }], 'an answer to 1');
  for (const [a, b] of [
    ['1', '"1"'],
    ['1', '1.0'],
    ['9007199254740993', '9007199254740992'],
    ['"\\u0061"', '"a"'],
  ] as const)
    t.equal(looseKey(idOf(a)), looseKey(idOf(b)), `${a} and ${b}`);
  t.not(looseKey(idOf('1')), looseKey(idOf('"01"')));
  t.end();
});
