// What moments the events of a submission get: in its order, and of what a rate limit counted at the time of counting.
import t from 'tap';
import { SteadyClock } from '../../src/common/steady-clock.ts';
import { Arrivals } from '../../src/ingest/arrival.ts';
import type { Decided } from '../../src/ingest/resolve-quotas.ts';
import { ALLOWED } from '../../src/policy/judgement.ts';
import { randomFrom, SEED } from '../support/seed.ts';

const START = Date.UTC(2026, 10, 25);
/** The arrival of each element. */
const arrivalsOf = (clock: SteadyClock, all: (Decided | null)[], readAt: number) => {
  const arrivals = Arrivals.of(clock, all, readAt);
  return all.map((_, i) => arrivals.of(i));
};
const judged = (...times: (number | null | undefined)[]): (Decided | null)[] =>
  times.map((at) => (at === null ? null : { decision: ALLOWED, countedAt: at === undefined ? at : START + at }));

function clockAt(ms: number) {
  return new SteadyClock({ wallMs: () => START + Math.floor(ms), monotonicMs: () => ms, originMs: START });
}

t.test('of a submission that no limit counted all arrive when they are encoded, each behind the other', async (t) => {
  const arrivals = arrivalsOf(clockAt(20.5), judged(undefined, null, undefined), START + 3);
  t.ok(arrivals.every(({ ms }) => ms === START + 20));
  t.same(
    arrivals.map(({ slot }) => slot - arrivals[0]!.slot),
    [0, 1, 2],
  );
});

t.test('what was counted arrived then, and the others in their places', async (t) => {
  const times = (...counted: (number | null | undefined)[]) =>
    arrivalsOf(clockAt(20.5), judged(...counted), START + 3).map(({ ms }) => ms - START);
  t.same(times(7, 7, 7), [7, 7, 7]);
  t.same(times(undefined, 7, undefined, 9, undefined), [7, 7, 9, 9, 20]);
  t.same(times(9, 7), [9, 9], 'of two counters the later');
  t.same(times(25, undefined), [25, 25], 'counters whose clock is ahead');
});

t.test('a lease that dates back does not put an event before what was answered earlier', async (t) => {
  const read = START + 50.25;
  const [leased] = arrivalsOf(clockAt(50.75), judged(48), read);
  t.equal(leased!.ms, START + 50);
  const before = arrivalsOf(clockAt(50.2), judged(undefined), START + 50)[0]!;
  t.ok(before.slot < leased!.slot, 'which had its slot by the time of then');
  const [elsewhere] = arrivalsOf(clockAt(5_050), judged(48), START + 5_000);
  t.equal(elsewhere!.ms, START + 48, 'where clocks differ by more, the counter is right');
});

t.test('moments of any submission rise', async (t) => {
  const random = randomFrom(SEED);
  for (let i = 0; i < 5_000; i++) {
    const now = 1_000 * random();
    const read = now * random();
    const counted = Array.from({ length: 1 + Math.floor(100 * random()) }, () =>
      random() < 0.1 ? null : random() < 0.4 ? undefined : Math.floor(random() < 0.5 ? now * random() : read),
    );
    const arrivals = arrivalsOf(clockAt(now), judged(...counted), START + read);
    const rise = arrivals.every(
      ({ ms, slot }, k) =>
        k === 0 || ms > arrivals[k - 1]!.ms || (ms === arrivals[k - 1]!.ms && slot > arrivals[k - 1]!.slot),
    );
    if (!rise) t.fail(JSON.stringify({ now, read, counted, arrivals }));
  }
});
