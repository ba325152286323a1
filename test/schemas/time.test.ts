// What a time means, held against a reading that shares nothing with it: a scanner by hand and the days counted from
// the calendar's rules. Forms are generated, and spoilt; GATEHOUSE_TEST_SEED begins elsewhere.
import fc from 'fast-check';
import t from 'tap';
import { exactIsoTime, exactTime, microsOf, parseExactTime, parseTime } from '../../schemas/time.ts';
import { parseQuery, time } from '../../src/http/reading/query.ts';
import { runs, SEED } from '../support/seed.ts';

/** Days since 1970-01-01, counted year by year and month by month. */
function daysBefore(year: number, month: number, day: number): number {
  const isLeap = (y: number) => y % 4 === 0 && (y % 100 !== 0 || y % 400 === 0);
  const inMonth = (y: number, m: number) => (m === 2 ? (isLeap(y) ? 29 : 28) : [4, 6, 9, 11].includes(m) ? 30 : 31);
  if (month < 1 || month > 12 || day < 1 || day > inMonth(year, month)) return Number.NaN;
  let days = day - 1;
  for (let m = 1; m < month; m++) days += inMonth(year, m);
  // 146,097 days are 400 years.
  const cycles = Math.floor((year - 1970) / 400);
  for (let y = 1970 + 400 * cycles; y < year; y++) days += isLeap(y) ? 366 : 365;
  return days + 146_097 * cycles;
}

class Scanner {
  #at = 0;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  get rest(): string {
    return this.#text.slice(this.#at);
  }

  digits(count: number): number {
    let value = 0;
    for (let i = 0; i < count; i++) {
      const digit = '0123456789'.indexOf(this.#text[this.#at] ?? 'x');
      if (digit < 0) return Number.NaN;
      value = 10 * value + digit;
      this.#at++;
    }
    return value;
  }

  one(of: string): string {
    const next = this.#text[this.#at] ?? '';
    if (next === '' || !of.includes(next)) return '';
    this.#at++;
    return next;
  }
}

const NO_TIME: [number, number] = [Number.NaN, 0];

/** Epoch ms and the microseconds behind it; NaN: it is none. */
function plainly(text: string): [ms: number, micros: number] {
  const scanner = new Scanner(text);
  const year = scanner.digits(4);
  const isExtended = scanner.one('-') !== '';
  const month = scanner.digits(2);
  if (isExtended && scanner.one('-') === '') return NO_TIME;
  const day = scanner.digits(2);
  if (scanner.one('Tt ') === '') return NO_TIME;
  const hour = scanner.digits(2);
  if (isExtended && scanner.one(':') === '') return NO_TIME;
  const minute = scanner.digits(2);
  let [second, micros, isZero] = [0, 0, true];
  if (isExtended ? scanner.one(':') !== '' : /^[0-9]/.test(scanner.rest)) {
    second = scanner.digits(2);
    if (scanner.one('.,') !== '') {
      let weight = 100_000;
      if (!/^[0-9]/.test(scanner.rest)) return NO_TIME;
      while (/^[0-9]/.test(scanner.rest)) {
        const digit = scanner.digits(1);
        if (digit > 0) isZero = false;
        micros += weight * digit;
        weight = weight > 1 ? weight / 10 : 0;
      }
    }
  }
  let offset = 0;
  if (scanner.one('Zz') === '') {
    const sign = scanner.one('+-');
    if (sign === '') return NO_TIME;
    const hours = scanner.digits(2);
    const isWhole = scanner.rest === '';
    scanner.one(':');
    const minutes = isWhole ? 0 : scanner.digits(2);
    if (!(hours <= 23 && minutes <= 59)) return NO_TIME;
    offset = (sign === '-' ? -1 : 1) * (60 * hours + minutes);
  }
  if (scanner.rest !== '') return NO_TIME;
  if (!(minute <= 59 && second <= 60 && (hour <= 23 || (hour === 24 && minute === 0 && second === 0 && isZero))))
    return NO_TIME;
  const seconds = (((daysBefore(year, month, day) * 24 + hour) * 60 + minute - offset) * 60 + second) * 1000;
  return [seconds + Math.floor(micros / 1000), micros % 1000];
}

const two = (max: number) => fc.integer({ min: 0, max }).map((n) => String(n).padStart(2, '0'));
const form = fc
  .record({
    year: fc.oneof(fc.integer({ min: 1990, max: 2040 }), fc.integer({ min: 0, max: 9999 })),
    month: two(13),
    day: two(32),
    between: fc.constantFrom('T', 't', ' ', 'T', '', '  ', '_'),
    hour: two(25),
    minute: two(61),
    second: fc.oneof(fc.constant(undefined), two(62)),
    point: fc.constantFrom('.', ',', '', ':'),
    fraction: fc.oneof(fc.constant(''), fc.stringMatching(/^[0-9]{1,30}$/), fc.stringMatching(/^0{1,12}$/)),
    zone: fc.oneof(
      fc.constantFrom('Z', 'Z', 'z', '', 'UTC', '+', '+1', '-0'),
      fc
        .tuple(fc.constantFrom('+', '-', ' +'), two(24), fc.constantFrom(':', '', '.'), two(60))
        .map((all) => all.join('')),
      fc.tuple(fc.constantFrom('+', '-'), two(24)).map((all) => all.join('')),
    ),
    isExtended: fc.boolean(),
    isMidnight: fc.integer({ min: 0, max: 20 }),
    spoilt: fc.oneof(
      { weight: 6, arbitrary: fc.constant(null) },
      { weight: 1, arbitrary: fc.tuple(fc.nat(30), fc.constantFrom('0', '9', ' ', '-', ':', '.', 'T', 'Z', '+', 'x')) },
    ),
  })
  .map(({ year, between, hour, point, fraction, zone, isExtended, isMidnight, spoilt, ...rest }) => {
    const { month, day, minute, second } = rest;
    const [dash, colon] = isExtended ? ['-', ':'] : ['', ''];
    const date = [String(year).padStart(4, '0'), month, day].join(dash);
    const parts =
      isMidnight === 0 ? ['24', '00', '00'] : second === undefined ? [hour, minute] : [hour, minute, second];
    const text = `${date}${between}${parts.join(colon)}${fraction === '' ? '' : point + fraction}${zone}`;
    return spoilt === null ? text : text.slice(0, spoilt[0]) + spoilt[1] + text.slice(spoilt[0]);
  });

t.test('every form means what a plain reading of it means', async (t) => {
  const counts = { read: 0, refused: 0, basic: 0, midnight: 0, leap: 0 };
  fc.assert(
    fc.property(form, (text) => {
      const [ms, micros] = plainly(text);
      const is = parseTime(text);
      const exact = parseExactTime(text);
      const isRight = is === null ? exact === null && Number.isNaN(ms) : is === ms;
      if (!isRight) throw new Error(`${text}: ${is}, not ${ms}`);
      if (exact !== null && Math.abs(exact) < 2 ** 43) {
        // 1e-6 of a second are all that is kept, and come out as they went in.
        const isExact =
          Math.floor(exact) === ms && microsOf(exact) === micros && parseExactTime(exactIsoTime(exact)) === exact;
        const digits = exactIsoTime(exact).length - '2026-11-25T01:00:00.Z'.length;
        const isYear = exact >= Date.UTC(0) && exact < Date.UTC(10_000);
        if (isYear && !(isExact && digits === (micros === 0 ? 3 : 6))) throw new Error(`${text}: ${exact}`);
      }
      if (is === null) counts.refused++;
      else counts.read++;
      if (is !== null && /^\d{8}/.test(text)) counts.basic++;
      if (is !== null && /[Tt ]24/.test(text)) counts.midnight++;
      if (is !== null && /[Tt ]\d\d:?\d\d:?60/.test(text)) counts.leap++;
    }),
    { numRuns: runs(200_000), seed: SEED },
  );
  t.comment(JSON.stringify(counts));
  t.ok(
    Object.values(counts).every((n) => n > 0),
    'every kind occurs',
  );
});

const SAME = Date.UTC(2026, 10, 25, 1, 0, 0);
const KINDS: [string, number][] = [
  ['2026-11-25T01:00:00Z', SAME],
  ['2026-11-25 01:00:00+00:00', SAME],
  ['2026-11-25t01:00:00z', SAME],
  ['20261125T010000Z', SAME],
  ['20261125T010000.25Z', SAME + 250],
  ['20261125 0100+0000', SAME],
  ['2026-11-25T02:30:00+01:30', SAME],
  ['2026-11-24T17:00-08', SAME],
  ['2026-11-25T01:00:00.000000000000000000000000000001Z', SAME],
  ['2026-11-25T01:00:00,5Z', SAME + 500],
  ['2026-11-24T24:00:00Z', SAME - 3_600_000],
  ['2026-11-24T24:00:00.000+00:00', SAME - 3_600_000],
  ['2016-12-31T23:59:60Z', Date.UTC(2017, 0, 1)],
  ['2016-12-31T23:59:60.5Z', Date.UTC(2017, 0, 1) + 500],
];
const NONE = [
  ...['', '2026-11-25', '2026-11-25T01:00:00', '2026-11-25 01:00:00', '20261125T010000', '20261125 010000'],
  ...['2026-11-25T24:00:01Z', '2026-11-25T24:01Z', '2026-11-25T24:00:00.001Z', '2026-11-25T25:00:00Z'],
  ...['2026-11-25T01:60:00Z', '2026-11-25T01:00:61Z', '2026-02-29T01:00:00Z', '2026-11-25T01:00:00.Z', '1764032400'],
  ...['2026-1125T01:00:00Z', '20261125T01:00:00Z', '2026-11-25T010000Z', '2026-11-25  01:00:00Z'],
];

t.test('the forms by hand', async (t) => {
  for (const [text, ms] of KINDS) {
    t.equal(parseTime(text), ms, text);
    t.same(plainly(text), [ms, 0], `${text}, plainly`);
  }
  for (const text of NONE) t.equal(parseTime(text), null, text);
});

t.test('in a query a plus sign that was not escaped is a blank, and a blank may stand for the T', async (t) => {
  const read = (raw: string) => parseQuery({ from: time('') }, `from=${raw}`).from;
  for (const [text, ms] of KINDS) {
    t.equal(read(encodeURIComponent(text)), ms, text);
    t.equal(read(text.replaceAll(' ', '%20')), ms, `${text} with its plus sign`);
    t.equal(read(text.replaceAll(' ', '+')), ms, `${text} with every blank as one`);
  }
  for (const text of NONE) t.throws(() => read(text.replaceAll(' ', '+')), { code: 'validation_failed' }, text);
});

t.test('microseconds are kept, shown where there are any, and compare', async (t) => {
  for (const [text, shown, micros] of [
    ['2026-11-25T01:00:00.123456Z', '2026-11-25T01:00:00.123456Z', 456],
    ['2026-11-25T01:00:00.1234569Z', '2026-11-25T01:00:00.123456Z', 456],
    ['2026-11-25T01:00:00.1Z', '2026-11-25T01:00:00.100Z', 0],
    ['2026-11-25T01:00:00.00000099Z', '2026-11-25T01:00:00.000Z', 0],
    ['20261125T010000.000001Z', '2026-11-25T01:00:00.000001Z', 1],
    ['2016-12-31T23:59:60.999999Z', '2017-01-01T00:00:00.999999Z', 999],
  ] as const) {
    const at = parseExactTime(text)!;
    t.equal(exactIsoTime(at), shown);
    t.equal(microsOf(at), micros);
  }
  const all = Array.from({ length: 3_000 }, (_, i) => exactTime(SAME + Math.floor(i / 1000), i % 1000));
  t.ok(all.every((at, i) => i === 0 || at > all[i - 1]!));
  t.ok(all.every((at, i) => microsOf(at) === i % 1000 && Number(String(at)) === at));
});
