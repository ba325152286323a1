// Cells of CSV: what a spreadsheet would run gets an apostrophe, and what it would not stays as it is.
import t from 'tap';
import { csvLine } from '../../src/http/answers/csv.ts';

const one = (text: string) => csvLine([text]).slice(0, -2);

t.test('what begins like a formula does not, however the sign is written and whatever is before it', async (t) => {
  const signs = [
    '=',
    '+',
    '-',
    '@',
    '\uff1d',
    '\uff0b',
    '\uff0d',
    '\uff20',
    '\ufe66',
    '\ufe62',
    '\ufe63',
    '\ufe6b',
    '\u2212',
  ];
  const blanks = [
    '',
    ' ',
    '   ',
    '\u00a0',
    '\u3000',
    '\u2009',
    '\u200b',
    '\ufeff',
    '\u202e',
    '\u00ad',
    ' \u200d ',
    '\u0001',
  ];
  for (const sign of signs)
    for (const blank of blanks)
      t.equal(one(`${blank}${sign}SUM(1)`), `'${blank}${sign}SUM(1)`, JSON.stringify(blank + sign));
  for (const text of ['\t=1', '\t1', '\ta']) t.equal(one(text), `'${text}`);
  for (const text of ['\r=1', '\n=1', ' \n=1']) t.equal(one(text), `"'${text}"`);
  t.equal(one("=cmd|' /C calc'!A0"), "'=cmd|' /C calc'!A0");
  t.equal(one(' =1,2'), '"\' =1,2"');
});

t.test('other text and numbers stay as they are', async (t) => {
  for (const text of ['-1', '-1.5e+7', '12', 'a=1', 'ü請', ' a', '1+1', '[=1]', '', ' ', '(−1)', "'"])
    t.equal(one(text), text);
});
