// Folded texts (src/policy/texts/folded.ts) against the definition, character by character: each with the marks that
// belong to it is folded by itself, and what it becomes has the character's place.
import fc from 'fast-check';
import t from 'tap';
import { folded, foldedText } from '../../src/policy/texts/folded.ts';
import { cpuMsOf } from '../support/own-time.ts';
import { runs, SEED } from '../support/seed.ts';

const CHARACTER =
  /[\u1100-\u115f\ua960-\ua97c][\u1160-\u11ff\ud7b0-\ud7fb]{0,999}[\p{M}\p{Cf}\p{DI}]{0,100000}|.[\p{M}\p{Cf}\p{DI}]{0,100000}/gsu;

type Form = { text: string; places: { starts: Int32Array; ends: Int32Array } };

function plainly(text: string): Form | undefined {
  const places = [...text.matchAll(CHARACTER)].flatMap(({ 0: character, index }) =>
    foldedText(character)
      .split('')
      .map((unit) => ({ unit, start: index, end: index + character.length })),
  );
  const whole = places.map(({ unit }) => unit).join('');
  if (whole === text) return undefined;
  return {
    text: whole,
    places: {
      starts: Int32Array.from(places, ({ start }) => start),
      ends: Int32Array.from(places, ({ end }) => end),
    },
  };
}

function compare(text: string): void {
  const [is, wanted] = [folded(text) as Form | undefined, plainly(text)].map(
    (form) => form && [form.text, form.places.starts.join(), form.places.ends.join()],
  );
  if (JSON.stringify(is) !== JSON.stringify(wanted)) throw new Error(`${JSON.stringify(text)}: ${is} is not ${wanted}`);
}

const PIECES = [
  'a',
  'plain ',
  'é',
  'e\u0301',
  '\u0301',
  '\u0323',
  '价格',
  'ｅ',
  'ﬁ',
  '\ufdfa',
  '\u200b',
  '\u00ad',
  '‑',
  '\u00a0',
].concat(
  ['\u0000', '\t', '\u007f', '\u001b[1m', 'r\u0336m\u0336', '\ufffc', '\u2800'],

  [
    '각',
    '가\u11a8',
    '\u1100\u1161\u11a8',
    '\u1100',
    '\u115f',
    '\u1160',
    '\u3164',
    'नमस्ते',
    '🙂',
    '👩‍👩‍👧',
    '🏴\u{e0067}',
    '\u{1d165}',
    '\u{e0100}',
  ],
  ['\ud83d', '\ude42', '\u{2f800}', '𝐀', '²', '−', '\u2028', '\u{110ba}', 'ệ', '\u0345'],
);

t.test('texts of all kinds', async (t) => {
  const text = fc
    .array(fc.oneof(fc.constantFrom(...PIECES), fc.string({ unit: 'binary', maxLength: 3 })), { maxLength: 30 })
    .map((pieces) => pieces.join(''));
  fc.assert(fc.property(text, compare), { numRuns: runs(5_000), seed: SEED });
  t.pass('the same');
});

t.test('every character of Unicode, alone and before and behind others', async (t) => {
  for (let first = 0; first < 0x110000; first += 0x400) {
    const block = Array.from({ length: 0x400 }, (_, i) => String.fromCodePoint(first + i));
    compare(block.join('a'));
    compare(block.join('\u0301'));
    compare(block.join('\u1100'));
    compare(block.join(''));
  }
  t.pass('the same');
});

t.test('a megabyte takes a fraction of a second, whatever is in it', async (t) => {
  const units = (of: string) => of.repeat(Math.ceil(349_525 / of.length));
  const kinds = ['价', 'я', 'ｅ', 'e\u0301', '👩‍👩‍👧', '\ufdfa', 'a\u200b', '\u1100\u1161\u11a8'].map(units);
  kinds.push(`${'plain words '.repeat(87_000)}é`, '\u0301\u0323'.repeat(175_000));
  for (const kind of kinds) {
    const ms = cpuMsOf(() => folded(kind));
    t.ok(ms < 1_000, `${JSON.stringify(kind.slice(0, 8))}: ${Math.round(ms)} ms`);
  }
});
