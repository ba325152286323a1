// Windows of budgets: both days of a change of the clock, weeks, months, and zones whose midnight is missing.
import t from 'tap';
import { longestMs, partOfWindow, windowStarts, zoneOf } from '../../src/policy/spends/budget-window.ts';

const HOUR_MS = 3_600_000;
const at = (text: string) => Date.parse(text);
const iso = (ms: number) => new Date(ms).toISOString();

t.test('a day has 23 hours in spring and 25 in autumn', async (t) => {
  const window = { calendar: 'day', zone: 'Europe/Berlin' } as const;
  const [, spring, after] = windowStarts(window, at('2026-03-29T10:00:00Z'));
  t.same([iso(spring!), iso(after!)], ['2026-03-28T23:00:00.000Z', '2026-03-29T22:00:00.000Z']);
  t.equal((after! - spring!) / HOUR_MS, 23);
  const [before, autumn, next] = windowStarts(window, at('2026-10-25T00:30:00Z'));
  t.equal((next! - autumn!) / HOUR_MS, 25);
  t.equal((autumn! - before!) / HOUR_MS, 24);
  for (let ms = autumn!; ms < next!; ms += 600_000) t.equal(partOfWindow(window, ms), autumn, iso(ms));
  t.equal(partOfWindow(window, next! - 1), autumn);
  t.equal(partOfWindow(window, next!), next);
});

t.test('weeks begin on Monday, months on the first, each in its zone', async (t) => {
  const week = windowStarts({ calendar: 'week', zone: 'America/New_York' }, at('2026-11-01T12:00:00Z'));
  t.same(week.slice(1, 3).map(iso), ['2026-10-26T04:00:00.000Z', '2026-11-02T05:00:00.000Z']);
  const month = windowStarts({ calendar: 'month', zone: 'Asia/Kolkata' }, at('2026-12-31T20:00:00Z'));
  t.same(month.slice(0, 3).map(iso), [
    '2026-11-30T18:30:00.000Z',
    '2026-12-31T18:30:00.000Z',
    '2027-01-31T18:30:00.000Z',
  ]);
  const utc = windowStarts({ calendar: 'month', zone: 'UTC' }, at('2028-02-29T23:59:59Z'));
  t.same(utc.slice(1, 3).map(iso), ['2028-02-01T00:00:00.000Z', '2028-03-01T00:00:00.000Z']);
});

t.test('a day whose midnight is missing begins with its first moment', async (t) => {
  // In Beirut the clock goes from 0:00 to 1:00.
  const [, from, until] = windowStarts({ calendar: 'day', zone: 'Asia/Beirut' }, at('2026-03-29T12:00:00Z'));
  t.same([iso(from!), (until! - from!) / HOUR_MS], ['2026-03-28T22:00:00.000Z', 23]);
});

t.test('windows follow one another without a gap, whatever is asked first', async (t) => {
  for (const zone of ['Europe/Berlin', 'America/St_Johns', 'Pacific/Apia', 'Asia/Kathmandu'])
    for (const calendar of ['day', 'week', 'month'] as const)
      for (let ms = at('2026-01-01T00:00:00Z'); ms < at('2027-01-02T00:00:00Z'); ms += 37 * HOUR_MS) {
        const [before, from, until, after] = windowStarts({ calendar, zone }, ms);
        const follows = before! < from! && from! <= ms && ms < until! && until! < after!;
        const isNext = windowStarts({ calendar, zone }, until!)[1] === until;
        if (!follows || !isNext) t.fail(`${zone} ${calendar} ${iso(ms)}`);
        if (until! - from! > longestMs({ calendar, zone })) t.fail('it is kept for too short a time');
      }
  t.pass();
});

t.test('sliding windows have sixtieths; zones are those of the database', async (t) => {
  t.equal(partOfWindow({ ms: 60_000 }, 61_000), 61);
  t.same(['Europe/Berlin', 'UTC'].map(zoneOf), ['Europe/Berlin', 'UTC']);
  t.same(['Mars/Base', '+01:00', ''].map(zoneOf), [undefined, undefined, undefined]);
});
