// Turns under a driven clock: what a turn meets is begun in its first slice or waits, in order, a slice a turn.
import t from 'tap';
import { OVERLOADED_SLICE_MS, SLICE_MS, SubmissionScheduler } from '../../src/http/admission/submission-scheduler.ts';

/** A loop that is turned by hand; each work takes `workMs`. */
class Loop {
  nowMs = 1_000;
  readonly done: number[] = [];
  readonly turns: SubmissionScheduler;
  #ends: (() => void)[] = [];

  constructor() {
    this.turns = new SubmissionScheduler({ now: () => this.nowMs, afterTick: (callback) => this.#ends.push(callback) });
  }

  /** As admission does it. */
  comes(i: number, workMs: number, account = 'a') {
    const work = () => {
      this.done.push(i);
      this.nowMs += workMs;
    };
    if (this.turns.isFree) work();
    else this.turns.put(account, work);
  }

  /** Answers whether the loop would continue without anything coming. */
  endTurn(): boolean {
    for (const end of this.#ends.splice(0)) end();
    return this.#ends.length > 0;
  }
}

t.test('an ordinary turn does everything at once', async (t) => {
  const loop = new Loop();
  for (let turn = 0; turn < 10; turn++) {
    for (let i = 0; i < 10; i++) loop.comes(10 * turn + i, SLICE_MS / 11);
    t.equal(loop.done.length, 10 * (turn + 1));
    t.equal(loop.turns.waiting, 0);
    t.notOk(loop.endTurn(), 'and the loop may sleep');
  }
});

t.test('a turn that meets more than a slice does that; the rest follows in order, a slice a turn', async (t) => {
  const loop = new Loop();
  for (let i = 0; i < 60; i++) loop.comes(i, 1);
  t.equal(loop.done.length, SLICE_MS, 'the first slice');
  t.equal(loop.turns.waiting, 60 - SLICE_MS);
  t.ok(loop.endTurn());
  t.equal(loop.done.length, SLICE_MS, 'and no more in this turn');
  for (let i = 60; i < 63; i++) loop.comes(i, 1);
  t.equal(loop.done.length, SLICE_MS, 'who comes later is not served before');
  let turns = 1;
  while (loop.endTurn()) turns++;
  t.equal(turns, Math.ceil((63 - SLICE_MS) / SLICE_MS));
  t.same(
    loop.done,
    Array.from({ length: 63 }, (_, i) => i),
    'each once, in order',
  );
  t.equal(loop.turns.waiting, 0);
  loop.comes(63, 1);
  t.equal(loop.done.length, 64, 'and then at once again');
});

t.test('while many wait slices are short, so that those behind it are heard soon', async (t) => {
  const loop = new Loop();
  for (let i = 0; i < 1_000; i++) loop.comes(i, 1);
  loop.endTurn();
  const lengths: number[] = [];
  for (let before = loop.done.length; loop.turns.waiting > 0; before = loop.done.length) {
    loop.endTurn();
    lengths.push(loop.done.length - before);
  }
  t.equal(loop.done.length, 1_000);
  const short = lengths.filter((length) => length === OVERLOADED_SLICE_MS).length;
  t.ok(short > 180, `${short} short slices`);
  t.same(lengths.slice(0, short), new Array(short).fill(OVERLOADED_SLICE_MS), 'and longer ones when it has gone');
  t.equal(lengths[short], SLICE_MS);
});

t.test('a work that is longer than a slice does not stop the others', async (t) => {
  const loop = new Loop();
  for (let i = 0; i < 4; i++) loop.comes(i, 10 * SLICE_MS);
  t.same(loop.done, [0]);
  loop.endTurn();
  for (let i = 1; i < 4; i++) {
    t.equal(loop.endTurn(), i < 3);
    t.equal(loop.done.length, i + 1);
  }
});

t.test('a turn begins with the first account in the queue', async (t) => {
  const loop = new Loop();
  t.equal(loop.turns.tickBeganMs(loop.nowMs), 1_000);
  loop.nowMs += 3;
  t.equal(loop.turns.tickBeganMs(loop.nowMs), 1_000);
  loop.endTurn();
  t.equal(loop.turns.tickBeganMs(loop.nowMs), 1_003);
});

t.test('accounts take turns, each in its own order', async (t) => {
  const loop = new Loop();
  for (let i = 0; i < 5; i++) loop.comes(i, SLICE_MS / 2); // two are done where they are met
  for (let i = 0; i < 40; i++) loop.comes(100 + i, 1, 'b');
  loop.comes(1_000, 1, 'c');
  while (loop.endTurn());
  t.equal(loop.done.length, 46);
  t.same(loop.done.slice(0, 7), [0, 1, 2, 100, 1_000, 3, 101], 'the one of c waits for one of each other');
  for (const range of [loop.done.filter((i) => i < 100), loop.done.filter((i) => i >= 100 && i < 1_000)])
    t.same(
      range,
      [...range].sort((a, b) => a - b),
    );
});

t.test('a line that never empties keeps nothing of what was done', async (t) => {
  const loop = new Loop();
  for (let i = 0; i < 5_000; i++) {
    loop.comes(i, SLICE_MS);
    if (i % 2 === 1) loop.endTurn();
  }
  while (loop.endTurn());
  t.same(
    loop.done,
    Array.from({ length: 5_000 }, (_, i) => i),
  );
});
