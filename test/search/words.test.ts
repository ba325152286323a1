// The tokenizer by itself: what words are, against a second reading of the definition, character by character; that
// every payload whose search text is left empty shows the same words by itself; bounds and time. What a search finds is
// in search.clickhouse.test.ts, against the engine.
import { deepEqual } from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { searchTextOf } from '../../src/common/search/payload-words.ts';
import { BEGINNING, PART, wordsBeside, wordsOf } from '../../src/common/search/words.ts';
import { cpuMsOf } from '../support/own-time.ts';
import { runs, SEED } from '../support/seed.ts';
import { PAIRS } from './pairs.ts';
import { referenceFinds, referenceWords, textsOf } from './reference.ts';

const plain = (word: string) => (word.startsWith(PART) || word.startsWith(BEGINNING) ? word.slice(1) : word);
const kindOf = (word: string) => (word.startsWith(PART) ? 'part' : word.startsWith(BEGINNING) ? 'hangul' : 'other');

/** Texts of pieces that meet at every border there is, and of any characters. */
export const TEXT = fc
  .array(
    fc.oneof(
      fc.constantFrom(...PAIRS.map(([, text]) => text)),
      fc.constantFrom(
        ' ',
        '-',
        '_',
        '+',
        '\n',
        '"',
        '\\',
        '{',
        '[',
        '\u200b',
        '\u0301',
        '\u001b[31m',
        '\u001b[2K',
        'ß',
        'ς',
      ),
      fc.string({ unit: 'binary', maxLength: 6 }),
      fc.string({ unit: 'grapheme', maxLength: 4 }),
      fc.string({ maxLength: 8 }),
    ),
    { maxLength: 8 },
  )
  .map((pieces) => pieces.join(''));

t.test('words are those of a second reading of the definition, one character after the other', async (t) => {
  fc.assert(
    fc.property(TEXT, (text) => {
      const mine = wordsOf(text).map((word) => `${kindOf(word)} ${plain(word)}`);
      const wanted = referenceWords(text).map(
        ({ kind, text: word }) => `${kind === 'part' || kind === 'hangul' ? kind : 'other'} ${word}`,
      );
      deepEqual(mine, wanted);
    }),
    { seed: SEED, numRuns: runs(3_000) },
  );
  t.pass();
});

t.test('each character of Unicode is a word, or ends one, and a word of words is the same word', async (t) => {
  const wrong: string[] = [];
  for (let point = 0; point < 0x110000; point++) {
    if (point >= 0xd800 && point < 0xe000) continue;
    const character = String.fromCodePoint(point);
    const words = wordsOf(character);
    if (/[\p{Cc}\p{Z}\p{Cf}]/u.test(character) && words.length > 0) wrong.push(point.toString(16));
    if (/\p{L}/u.test(character) && !/\p{DI}/u.test(character) && words.length === 0) wrong.push(point.toString(16));
    if (words.some((word) => wordsOf(plain(word)).join() !== word)) wrong.push(point.toString(16));
  }
  t.same(wrong, []);
  fc.assert(
    fc.property(TEXT, (text) => {
      for (const word of [...wordsOf(text), ...wordsBeside(text, [])]) deepEqual(wordsOf(plain(word)), [word]);
    }),
    { seed: SEED, numRuns: runs(500) },
  );
});

t.test('pairs of question and text, in 20 scripts and more, hold in the second reading', async (t) => {
  const counted = { found: 0, not: 0 };
  for (const [script, text, found, not] of PAIRS) {
    const payload = JSON.stringify({ text });
    for (const q of found) t.equal(referenceFinds(payload, q), true, `${script}: ${q}`);
    for (const q of not) t.equal(referenceFinds(payload, q), false, `${script}: not ${q}`);
    counted.found += found.length;
    counted.not += not.length;
  }
  t.ok(counted.found + counted.not >= 200 && counted.not >= 100, JSON.stringify(counted));
});

t.test('a search text holds the words of its payload in their order, numbers and literals as written', async (t) => {
  const of = (payload: string) => searchTextOf(Buffer.from(payload));
  t.equal(of('{"é":[19.90,1e400,true,null,107505301260286111]}'), ' é 19 90 1e400 true null 107505301260286111 ');
  t.equal(of('{"a":"{\\"b\\":\\"c\\\\nd\\"}"}'), ' a b c d ', 'text inside text as its values');
  t.equal(of('{"a":"{\\"b\\":\\"c\\\\nd"}'), ' a b c nd ', 'what does not parse as text');
  t.equal(of('{"k":"™ x"}'), ' k tm x ');
  t.equal(of('{"k":"A™"}'), ' k atm \x03 a \x03 tm ', 'behind a border what is there for itself');
  t.equal(of('{"k":"。"}'), ' k ');
  t.equal(of('"。"'), '  ', 'never empty, which would mean something else');
  for (const payload of ['{"a":"b c"}', '{"a":"\\n\\"x\\" \\\\ /"}', '{"a":"{\\"b\\":1}"}', '[1.0,-2e5]'])
    t.equal(of(payload), '', `${payload} is its own`);
});

t.test('a payload that is its own search text shows the same words', async (t) => {
  // As the engine sees it: escapes are blanks, all that is neither letter nor digit ends a word.
  const seen = (payload: string) =>
    payload
      .replace(/\\["\\/bfnrt]/g, ' ')
      .toLowerCase()
      .match(/[0-9a-z]+|[$+<=>^`|~]/g) ?? [];
  let own = 0;
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 3, stringUnit: 'binary-ascii' }), fc.constantFrom(0, 2), (value, indent) => {
      const inner = indent === 0 ? value : { text: JSON.stringify(value) };
      const payload = JSON.stringify(inner, null, indent);
      const words = textsOf(payload).flatMap((text) => referenceWords(text).map((word) => word.text));
      const text = searchTextOf(Buffer.from(payload));
      if (text === '') own++;
      deepEqual(text === '' ? seen(payload) : text.trim().split(/ +/).filter(Boolean).map(plain), words);
    }),
    { seed: SEED, numRuns: runs(3_000) },
  );
  t.ok(own > 100, `${own} were their own`);
});

t.test('a payload of 1 MiB takes bounded time and room, whatever is in it', async (t) => {
  const MiB = 1024 * 1024;
  const fill = (text: string) => text.repeat(Math.floor((MiB - 16) / Buffer.byteLength(JSON.stringify(text))));
  const payloads = {
    mixed: fill('请查询的价格 iPhone, hello wörld '),
    ligature: fill('ﷺ'),
    symbols: fill('+é'),
    emoji: fill('👨\u200d👩\u200d👧'),
    hangul: fill('가'),
    marks: `a${fill('\u0301\u0316')}`,
    escapes: fill('\u001b['),
    zeros: `é\u001b[${fill('0')}`,
    dressed: fill('½'),
    brackets: `é${fill('[')}${fill(']')}`.slice(0, MiB - 16),
    nested: JSON.stringify({ a: JSON.stringify({ b: JSON.stringify({ c: fill('\n\u00e9').slice(0, MiB / 20) }) }) }),
  };
  for (const [name, text] of Object.entries(payloads)) {
    const payload = Buffer.from(JSON.stringify({ text }));
    let words = '';
    const ms = cpuMsOf(() => {
      words = searchTextOf(payload);
    });
    t.ok(Buffer.byteLength(words) <= 6 * payload.length + 16 * 1024, `${name}: ${Buffer.byteLength(words)} bytes`);
    t.ok(ms < 5_000, `${name}: ${ms} ms`);
  }
});

t.test('a run of millions of characters is one word', async (t) => {
  for (const [unit, count] of [
    ['é', 8_000_000],
    ['请', 5_000_000],
    ['가', 5_000_000],
    ['ก', 5_000_000],
  ] as const) {
    const words = wordsOf(`${unit.repeat(count)} ${unit}`);
    t.equal(words.length, 2, unit);
    t.equal(words[0]!.replace(PART, '').replace(BEGINNING, '').length, count);
  }
  t.equal(wordsOf('€'.repeat(3_000_000)).length, 3_000_000, 'symbols are words of their own');
  t.same(wordsBeside('€'.repeat(5_000_000), []), []);
});
