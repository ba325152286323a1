// What is to be done at moments: once, not before, whatever the clock is set to, and without a timer where nothing is.
import t from 'tap';
import type { Clock } from '../../src/common/clock.ts';
import { Upcoming } from '../../src/registry/cache/upcoming.ts';
import { ManualClock } from '../support/manual-clock.ts';

/** A clock on the wall, which can be set, above timers that go by another one. */
class SetClock implements Clock {
  readonly timers = new ManualClock();
  waiting = 0;
  #aheadMs = 0;

  now(): number {
    return this.timers.now() + this.#aheadMs;
  }

  after(ms: number, work: () => void): () => void {
    this.waiting++;
    const cancel = this.timers.after(ms, () => {
      this.waiting--;
      work();
    });
    return () => {
      this.waiting--;
      cancel();
    };
  }

  set(aheadMs: number): void {
    this.#aheadMs = aheadMs;
  }
}

function begin(needed: (name: string) => boolean = () => true, max = 100) {
  const clock = new SetClock();
  const done: [name: string, atMs: number][] = [];
  const startMs = clock.now();
  const upcoming: Upcoming = new Upcoming({
    ...{ max, clock, isNeeded: needed },
    onDue: (name) => done.push([name, clock.now() - startMs]),
  });
  return { clock, done, upcoming, at: (ms: number) => startMs + ms };
}

t.test('each is done at the earliest moment that was said of it, once', async (t) => {
  const { clock, done, upcoming, at } = begin();
  upcoming.add('late', at(60_000));
  upcoming.add('early', at(1_234));
  upcoming.add('moved', at(100));
  upcoming.add('moved', at(2_000));
  upcoming.add('gone', at(50));
  upcoming.add('gone', undefined);
  await clock.timers.advance(100_000);
  t.same(done, [
    ['gone', 50],
    ['moved', 100],
    ['early', 1_234],
    ['late', 60_000],
  ]);
  t.equal(clock.waiting, 0, 'then nothing is waited for');
});

t.test('a clock that is set on is followed within half a second, one that is set back is waited for', async (t) => {
  const { clock, done, upcoming, at } = begin();
  upcoming.add('a', at(3_600_000));
  await clock.timers.advance(10_000);
  clock.set(3_600_000);
  await clock.timers.advance(500);
  t.equal(done.length, 1);
  upcoming.add('b', clock.now() + 1_000);
  clock.set(0);
  await clock.timers.advance(5_000);
  t.equal(done.length, 1, 'it is not time yet');
});

t.test('what nobody needs is forgotten over the bound, and what is needed never', async (t) => {
  const { clock, done, upcoming, at } = begin((name) => name.startsWith('needed'), 10);
  for (let i = 0; i < 8; i++) upcoming.add(`needed ${i}`, at(1_000 + i));
  for (let i = 0; i < 1_000; i++) upcoming.add(`other ${i}`, at(5_000));
  await clock.timers.advance(10_000);
  t.equal(done.filter(([name]) => name.startsWith('needed')).length, 8);
  t.ok(done.length <= 11, `${done.length} were kept`);
  upcoming.add('x', clock.now() + 5);
  upcoming.close();
  t.equal(clock.waiting, 0);
});
