// The pure parts of the bench suite: percentiles, the schedule of an open loop, charts and tables.
import fc from 'fast-check';
import t from 'tap';
import { axis, draw, readable } from '../../bench/chart.ts';
import { Schedule, summarize } from '../../bench/open-loop.ts';
import { partOf } from '../../bench/processes.ts';
import { table } from '../../bench/report.ts';
import { median, percentile, rounded, slope, sorted } from '../../bench/statistics.ts';
import { SEED } from '../support/seed.ts';

t.test('a percentile is a sample that the given share of all samples does not exceed', async (t) => {
  const hundred = sorted(Array.from({ length: 100 }, (_, i) => 100 - i));
  t.equal(percentile(hundred, 0.5), 50);
  t.equal(percentile(hundred, 0.99), 99);
  t.equal(percentile(hundred, 0.999), 100);
  t.equal(percentile(hundred, 0), 1);
  t.ok(Number.isNaN(percentile([], 0.5)));
  const samples = fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 1 });
  fc.assert(
    fc.property(samples, fc.double({ min: 0, max: 1, noNaN: true }), (values, share) => {
      const value = percentile(sorted(values), share);
      const notOver = values.filter((other) => other <= value).length;
      const below = values.filter((other) => other < value).length;
      return (
        values.includes(value) && notOver >= share * values.length && (below === 0 || below < share * values.length)
      );
    }),
    { seed: SEED },
  );
});

t.test('medians and slopes are those of the textbook', async (t) => {
  t.equal(median([3, 1, 2]), 2);
  t.equal(median([4, 1, 2, 3]), 2.5);
  t.ok(Number.isNaN(median([])));
  t.equal(slope([[0, 1], [1, 3], [2, 5]]), 2); // biome-ignore format: points read best on one line
  t.equal(slope([[1, 7], [1, 9]]), 0); // biome-ignore format: points read best on one line
  t.equal(rounded(123_456), 123_000);
});

t.test('requests of an open loop are due at their rate, whatever the server does', async (t) => {
  const schedule = new Schedule([{ requestsPerSecond: 100, seconds: 1 }], 1_000);
  t.equal(schedule.count, 100);
  t.equal(schedule.take(999), undefined, 'nothing before the start');
  t.equal(schedule.take(1_000), 1_000);
  t.equal(schedule.take(1_005), undefined, 'one every 10 ms');
  const late = Array.from({ length: 5 }, () => schedule.take(1_050));
  t.same(late, [1_010, 1_020, 1_030, 1_040, 1_050], 'after a stall each carries the time at which it was due');
  t.equal(schedule.take(1_050), undefined);
  while (schedule.take(9_999) !== undefined);
  t.equal(schedule.taken, 100);
  t.equal(schedule.nextMs, undefined);
});

t.test('a schedule of several phases changes its rate where one ends', async (t) => {
  const phases = [
    { requestsPerSecond: 10, seconds: 1 },
    { requestsPerSecond: 1_000, seconds: 0.5 },
    { requestsPerSecond: 2, seconds: 2 },
  ];
  const schedule = new Schedule(phases, 0);
  const due: number[] = [];
  for (let at = schedule.take(1e9); at !== undefined; at = schedule.take(1e9)) due.push(at);
  t.equal(due.length, 10 + 500 + 4);
  t.same(due.slice(8, 12), [800, 900, 1_000, 1_001]);
  t.same(due.slice(-4), [1_500, 2_000, 2_500, 3_000]);
  t.equal(schedule.endMs, 3_500);
});

t.test('a summary takes latency from what succeeded, and counts the rest', async (t) => {
  const samples = {
    dueMs: Float64Array.of(0, 10, 20, 30, 2_000),
    latencyMs: Float64Array.of(1, 2, 3, 4, 500),
    status: Uint16Array.of(200, 201, 503, 0, 200),
    unsent: 7,
    cpuSeconds: 1,
  };
  const first = summarize(samples, 0, 1_000);
  t.match(first, { answered: 2, refused: 1, failed: 1, unsent: 7, p50Ms: 1, p99Ms: 2, maxMs: 2, refusedP99Ms: 3 });
  t.equal(summarize(samples).maxMs, 500);
});

t.test('an axis has round ticks inside its bounds', async (t) => {
  const numbers = fc.array(fc.double({ min: 0.001, max: 1e9, noNaN: true }), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(numbers, fc.boolean(), (values, log) => {
      const { place, ticks } = axis(values, { log, fromZero: true });
      const inside = (value: number) => place(value) >= -1e-6 && place(value) <= 1 + 1e-6;
      return values.every(inside) && ticks.every(inside) && ticks.length <= 14;
    }),
    { seed: SEED },
  );
  t.same(axis([0, 9], { log: false, fromZero: true }).ticks, [0, 2, 4, 6, 8, 10]);
  t.same(axis([10, 100_000], { log: true, fromZero: false }).ticks, [10, 100, 1_000, 10_000, 100_000]);
});

t.test('charts hold every name and value, escaped', async (t) => {
  const bars = draw({
    kind: 'bars',
    title: 'speed <of> "it"',
    unit: 'events/s',
    groups: [{ name: 'single & batch', bars: [{ name: 'echo', value: 69_600 }, { name: 'none', value: Number.NaN }] }], // biome-ignore format: short
  });
  t.match(bars, /speed &lt;of&gt; &quot;it&quot;/);
  t.match(bars, />single &amp; batch</);
  t.match(bars, />69,600</);
  t.notMatch(bars, /NaN|undefined|Infinity/);
  const lines = draw({
    kind: 'lines',
    title: 'cost',
    xTitle: 'policies',
    yTitle: 'us',
    series: [{ name: 'front', points: [{ x: 0, y: 1 }, { x: 5, y: 2.345 }, { x: 200, y: 9 }] }], // biome-ignore format: short
  });
  t.match(lines, />front</);
  t.match(lines, />2\.35</, 'values stand at their points, to three digits');
  t.notMatch(lines, /NaN|undefined|Infinity/);
});

t.test('a table has a column for whatever a row brings', async (t) => {
  t.same(
    table([
      { a: 1, b: 'x|y' },
      { a: 1234.5, c: 0.00123 },
    ]).split('\n'),
    ['| a | b | c |', '|---|---|---|', '| 1 | x\\|y |  |', '| 1,230 |  | 0.00123 |'],
  );
  t.equal(readable(1_234_567), '1,230,000');
  t.equal(partOf('front-12'), 'front');
});
