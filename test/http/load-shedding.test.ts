// Load shedding under a driven clock: when a front turns strict, whom it refuses then, and when it is normal again.
import t from 'tap';
import { FairShares } from '../../src/http/admission/fair-shares.ts';
import {
  type Admitted,
  IN_FLIGHT_MIN,
  LoadShedding,
  type LoadSheddingOptions,
  NORMAL_WORK_MAX,
  OVERDUE_MS,
  RECOVERED_MS,
  STANDING_MS,
  WAIT_MS_MAX,
} from '../../src/http/admission/load-shedding.ts';

/** A front whose event loop is turned by hand. */
class Front {
  nowMs = 10_000;
  full = false;
  readonly admitted: Admitted[] = [];
  readonly changes: boolean[] = [];
  readonly shedding: LoadShedding;
  #tickMs: number | undefined;

  constructor(more: Partial<LoadSheddingOptions> = {}) {
    this.shedding = new LoadShedding({
      backlogFull: () => this.full,
      onOverload: (isOverloaded) => this.changes.push(isOverloaded),
      now: () => this.nowMs,
      scheduler: this,
      ...more,
    });
  }

  /** One submission comes; the reason if it is refused. */
  comes(account = 'a', bytes = 50_000) {
    const reason = this.shedding.refuses(account);
    if (reason === undefined) this.admitted.push(this.shedding.admit(account, bytes));
    return reason;
  }

  tickBeganMs(nowMs: number) {
    this.#tickMs ??= nowMs;
    return this.#tickMs;
  }

  endTurn() {
    this.#tickMs = undefined;
  }

  /** The oldest are answered first. */
  answers(count: number, served = true) {
    for (const taken of this.admitted.splice(0, count)) this.shedding.release(taken, served);
  }
}

/**
 * A server of `perSecond` that is sent `offered`, by ms; how many were let in and refused, and the longest wait of
 * those let in.
 */
function run(
  front: Front,
  { perSecond, offered, seconds, bytes }: { perSecond: number; offered: number; seconds: number; bytes?: number },
) {
  const result = { taken: 0, refused: 0, longestMs: 0 };
  let [come, done] = [0, 0];
  for (const endMs = front.nowMs + seconds * 1000; front.nowMs < endMs; front.nowMs++) {
    for (come += offered / 1000; come >= 1; come--) {
      if (front.comes('a', bytes) === undefined) result.taken++;
      else result.refused++;
    }
    done = Math.min(done + perSecond / 1000, 50);
    for (; done >= 1 && front.admitted.length > 0; done--) {
      result.longestMs = Math.max(result.longestMs, front.nowMs - front.admitted[0]!.sinceMs);
      front.answers(1);
    }
    front.endTurn();
  }
  return result;
}

t.test(
  'three times what can be done: as much as can be done is let in, and waits no longer than the bound',
  async (t) => {
    const front = new Front();
    run(front, { perSecond: 1000, offered: 3000, seconds: 6 });
    t.ok(front.shedding.isOverloaded);
    const { taken, refused, longestMs } = run(front, { perSecond: 1000, offered: 3000, seconds: 10 });
    t.ok(taken > 9_500 && taken < 10_500, `${taken} of 10,000 that could be done`);
    t.equal(taken + refused, 30_000);
    t.ok(longestMs <= WAIT_MS_MAX + 10, `${longestMs} ms`);
    t.same(front.changes, [true], 'and it does not come and go');
  },
);

t.test('once less comes than can be done, nothing is refused, and it is normal again', async (t) => {
  const front = new Front();
  run(front, { perSecond: 1000, offered: 3000, seconds: 5 });
  run(front, { perSecond: 1000, offered: 500, seconds: 1 });
  const after = run(front, { perSecond: 1000, offered: 500, seconds: 4 });
  t.equal(after.refused, 0);
  t.same(front.changes, [true, false]);
  t.notOk(front.shedding.isOverloaded);
});

t.test('a pause is no overload: no request is refused before, in or after it', async (t) => {
  const front = new Front();
  for (let i = 0; i < 20; i++) {
    t.equal(run(front, { perSecond: 1000, offered: 500, seconds: 1 }).refused, 0);
    t.equal(run(front, { perSecond: 0, offered: 500, seconds: 0.3 }).refused, 0, 'nothing is answered for 300 ms');
    front.nowMs += 150; // and now the whole process stands
  }
  t.same(front.changes, []);
});

t.test('when nothing at all is answered, the front takes no more', async (t) => {
  const front = new Front();
  const { taken, refused } = run(front, { perSecond: 0, offered: 1000, seconds: 3, bytes: 500 });
  t.ok(Math.abs(taken - OVERDUE_MS) < 10, `${taken} came before it was overdue`);
  t.equal(taken + refused, 3000);
  t.equal(front.comes(), 'overdue');
});

t.test('a flood is noticed at once, by the work that is in hand', async (t) => {
  const front = new Front();
  const bytes = 50_000;
  let first: string | undefined;
  for (; first === undefined && front.admitted.length < 1_000; front.nowMs += 0.1) first = front.comes('a', bytes);
  t.equal(first, 'wait');
  const work = front.admitted.length * bytes;
  t.ok(work > 0.9 * NORMAL_WORK_MAX && work <= NORMAL_WORK_MAX, `${work} bytes were let in`);
  t.same(front.changes, [true]);

  const singles = new Front();
  for (let i = 0; i < 3_000; i++) singles.comes('a', 500);
  t.equal(singles.admitted.length, 3_000, 'as many single events are no flood');

  const few = new Front();
  for (let i = 0; i < IN_FLIGHT_MIN + 10; i++) few.comes('a', 1_000_000);
  t.equal(few.admitted.length, IN_FLIGHT_MIN, 'a few callers are let in, whatever they bring');
});

t.test('a front that has lately done more may have more in hand', async (t) => {
  const front = new Front();
  const bytes = 100_000;
  run(front, { perSecond: 2_000, offered: 2_000, seconds: 2, bytes });
  t.same(front.changes, []);
  while (front.comes('a', bytes) === undefined && front.admitted.length < 1_000);
  const work = front.admitted.length * bytes;
  const ofWait = 2 * WAIT_MS_MAX * bytes;
  t.ok(work > 0.9 * ofWait && work < 1.2 * ofWait, `${work} bytes, and ${ofWait} are done in ${WAIT_MS_MAX} ms`);
});

t.test('a few are taken whatever the clock says', async (t) => {
  const front = new Front();
  run(front, { perSecond: 100, offered: 1000, seconds: 3 });
  t.ok(front.shedding.isOverloaded);
  front.answers(front.admitted.length);
  const { taken } = run(front, { perSecond: 0, offered: 1000, seconds: 0.3 });
  t.ok(taken >= IN_FLIGHT_MIN, `${taken} by a front that answers nothing`);
});

t.test('the backlog and the count are hard bounds, at normal load, too', async (t) => {
  const front = new Front({ inFlightMax: 3 });
  front.full = true;
  t.equal(front.comes(), 'backlog');
  front.full = false;
  t.same([front.comes(), front.comes(), front.comes(), front.comes()], [undefined, undefined, undefined, 'count']);
  front.answers(1);
  t.equal(front.comes(), undefined);
  t.equal(front.shedding.inFlight, 3);
  t.same(front.changes, []);
});

t.test('refusals and failures of others say nothing of the queue', async (t) => {
  const front = new Front();
  for (let ms = 0; ms < 20 * STANDING_MS; ms += 10, front.nowMs += 10) {
    front.comes();
    if (front.admitted.length > 80) {
      front.answers(1); // after 0.8 seconds
      front.comes();
      const failed = front.admitted.pop()!; // at once
      front.shedding.release(failed, false);
    }
    front.endTurn();
  }
  t.ok(front.shedding.isOverloaded);
});

t.test('a refusal is reported once', async (t) => {
  const front = new Front();
  front.comes();
  front.endTurn();
  front.nowMs += 70;
  t.equal(front.shedding.longestWaitMs(), 0, 'still in hand');
  front.answers(1);
  t.equal(front.shedding.longestWaitMs(), 70, 'answered');
  front.nowMs += RECOVERED_MS;
  t.equal(front.shedding.longestWaitMs(), 70, 'reading does not empty it');
});

t.test('a flood of one account leaves the others what they ask for', async (t) => {
  const front = new Front();
  run(front, { perSecond: 1000, offered: 3000, seconds: 6 });
  const counts = { flood: [0, 0], small: [0, 0], tiny: [0, 0] };
  let done = 0;
  const comes = (account: keyof typeof counts) => {
    counts[account][front.comes(account) === undefined ? 0 : 1]!++;
  };
  for (const endMs = front.nowMs + 10_000; front.nowMs < endMs; front.nowMs++) {
    for (let i = 0; i < 5; i++) comes('flood');
    if (front.nowMs % 4 === 0) comes('small');
    if (front.nowMs % 100 === 0) comes('tiny');
    for (done += 1; done >= 1 && front.admitted.length > 0; done--) front.answers(1);
    front.endTurn();
  }
  t.ok(counts.small[1]! < 60, `${counts.small[1]} of 2,500 refused to an account that asks for a quarter`);
  t.ok(counts.tiny[1]! <= 3, `${counts.tiny[1]} of 100 refused to one that asks for little`);
  t.ok(counts.flood[0]! > 6_500, `the flood has the rest: ${counts.flood[0]}`);
});

t.test('shares are even among those who ask, and bounded in memory', async (t) => {
  const shares = new FairShares();
  t.notOk(shares.isOwed('a', 0), 'nothing is known yet');
  shares.note('a', 10_000);
  t.notOk(shares.isOwed('b', 0));
  t.ok(shares.isOwed('b', 300), 'of the last window half was for b');
  shares.note('b', 10_000);
  t.notOk(shares.isOwed('b', 300), 'which it has had now');
  for (let i = 0; i < 20_000; i++) shares.isOwed(`many-${i}`, 301);
  t.notOk(shares.isOwed('one more', 302), 'past the bound there are no shares');
});
