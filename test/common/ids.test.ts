// Identifiers rise in the order in which they are made, whatever the clock does, and none is made twice. The clock is
// played with here; what it means for lists is in test/http/order.path.test.ts.
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { idAt, isId, mintId, momentOfId, timeOfId } from '../../src/common/ids.ts';
import { type Moment, SLOTS, SLOTS_BY_TIME, SteadyClock, steadyNow } from '../../src/common/steady-clock.ts';
import { randomFrom, SEED } from '../support/seed.ts';

const START = Date.UTC(2026, 10, 25, 1, 0, 0);

/** A machine whose clock can be set; `at` and `wall` are ms with a fraction. */
function machine() {
  const time = { monotonic: 5_000, set: 0 };
  const sources = {
    wallMs: () => Math.floor(START + time.monotonic + time.set),
    monotonicMs: () => time.monotonic,
    originMs: START,
  };
  return { time, sources, clock: new SteadyClock(sources) };
}

t.test('a million identifiers rise, whatever the clock does', async (t) => {
  const random = randomFrom(SEED);
  const each: [string, passes: (i: number) => number, set?: () => number][] = [
    ['it runs', () => random() / 100],
    ['it stands', () => 0],
    ['it jumps', (i) => (i % 1000 === 0 ? 40 * random() : 0)],
    ['it is set to and fro', () => random() / 100, () => Math.round((random() - 0.5) * 50_000)],
  ];
  for (const [name, passes, set] of each) {
    const { time, clock } = machine();
    let last = '';
    let falls = 0;
    for (let i = 0; i < 250_000; i++) {
      time.monotonic += passes(i);
      if (i % 10_000 === 0 && set !== undefined) time.set = set();
      const id = idAt('event', clock.take(1));
      if (id <= last) falls++;
      last = id;
    }
    t.equal(falls, 0, name);
    t.ok(isId('event', last));
  }
  let last = '';
  let falls = 0;
  for (let i = 0; i < 1_000_000; i++) {
    // The wall clock may be set back under a test; what an id is given as its time, it keeps.
    const id = mintId('event', steadyNow());
    if (id <= last) falls++;
    last = id;
  }
  t.equal(falls, 0, 'by the clock of this machine');
});

t.test('an identifier says the millisecond, and how much of it had gone', async (t) => {
  const { time, clock } = machine();
  const moments = [0.1, 0.5, 0.9, 1.1].map((fraction) => {
    time.monotonic = 7_000 + fraction;
    return clock.take(1);
  });
  t.same(
    moments.map(({ ms }) => ms - START),
    [7_000, 7_000, 7_000, 7_001],
  );
  t.same(
    moments.map(({ slot }) => Math.round((slot / SLOTS) * 10)),
    [1, 5, 8, 1],
  );
  const id = idAt('event', moments[1]!);
  t.same(momentOfId(id), moments[1]);
  t.equal(timeOfId(id), START + 7_000);
});

t.test('slots of a batch are neighbours in one millisecond', async (t) => {
  const { time, clock } = machine();
  time.monotonic = 7_000.9;
  t.equal(clock.take(100).ms, START + 7_000);
  const all = clock.take(SLOTS);
  t.same(all, { ms: START + 7_001, slot: 0 }, 'what does not fit begins with the next one');
  t.same(clock.take(1), { ms: START + 7_002, slot: 0 });
});

t.test('two processes of one machine agree on the time to some microseconds', async (t) => {
  const { time, sources } = machine();
  // What each knew of its own start is wrong by up to 2 ms: it is corrected by what they see.
  const clocks = [-2, 0.7].map((wrong) => new SteadyClock({ ...sources, originMs: START + wrong }));
  const random = randomFrom(SEED);
  for (let i = 0; i < 20_000; i++) {
    time.monotonic += random() / 5;
    for (const clock of clocks) clock.now();
  }
  const [one, other] = clocks.map((clock) => clock.now()) as [number, number];
  t.ok(Math.abs(one - other) < 0.01, `${Math.abs(one - other)} ms`);
  t.ok(Math.abs(one - START - time.monotonic) < 0.01);
});

t.test('a clock that was set back is waited for, one that was set back by much is followed', async (t) => {
  const { time, clock } = machine();
  const before = clock.now();
  time.set = -10_000;
  t.equal(clock.now(), before);
  time.monotonic += 4_000;
  t.equal(clock.now() - before, 2_000, 'half as fast');
  time.monotonic += 20_000;
  t.equal(clock.now(), START + time.monotonic - 10_000, 'until the time has caught up');
  const moment = clock.take(1);
  time.set = -10_000_000;
  t.equal(clock.take(1).ms, START + time.monotonic - 10_000_000, 'a wrong time is given up');
  t.ok(moment.ms > START);
});

t.test('what one thread has handed out lies before what another one does with the work that followed', async (t) => {
  const [one, other] = [machine(), machine()];
  other.time.set = -3_000;
  const rises = (a: Moment, b: Moment) => t.ok(idAt('event', a) < idAt('event', b));
  for (let i = 0; i < 100; i++) {
    one.time.monotonic += 0.3;
    other.time.monotonic += 0.3;
    const first = one.clock.take(3);
    other.clock.notBefore(one.clock.last);
    const second = other.clock.take(2);
    one.clock.notBefore(other.clock.last);
    rises(first, second);
    rises(second, one.clock.take(1));
  }
});

t.test('what is made late keeps its time, and comes behind what was made in it', async (t) => {
  const at = Date.now();
  const inTime = mintId('auditLog', at);
  while (Date.now() === at);
  const late = Array.from({ length: 50 }, () => mintId('auditLog', at));
  t.same([...late].sort(), late);
  t.ok(late.every((id) => timeOfId(id) === at && id > inTime));
  t.ok(late.every((id) => id < mintId('auditLog', Date.now())));
});

t.test(
  'what is made late comes behind all that was made in its millisecond, also beyond what follows from the time',
  async (t) => {
    const { time, clock } = machine();
    time.monotonic = 7_000.9995;
    const inTime = Array.from({ length: 200 }, () => clock.take(1));
    t.ok(inTime.at(-1)!.slot > SLOTS_BY_TIME, 'more than the time has left');
    time.monotonic = 7_005;
    const late = Array.from({ length: 3 }, () => clock.takeOf(START + 7_000));
    const ids = [...inTime, ...late, clock.take(1)].map((moment) => idAt('event', moment));
    t.same([...ids].sort(), ids);
    t.ok(late.every(({ ms }) => ms === START + 7_000));
  },
);

t.test('threads that make identifiers at the same time make each once', { timeout: 60_000 }, async (t) => {
  const code = `
    const { parentPort } = require('node:worker_threads');
    const modules = ${JSON.stringify(['ids', 'steady-clock'].map((name) => new URL(`../../src/common/${name}.js`, import.meta.url).href))};
    Promise.all(modules.map((module) => import(module))).then(([{ mintId }, { steadyNow }]) =>
      parentPort.postMessage(Array.from({ length: 100_000 }, () => mintId('event', steadyNow()))));`;
  const made = await Promise.all(
    Array.from(
      { length: 4 },
      () =>
        new Promise<string[]>((resolve, reject) => {
          new Worker(code, { eval: true }).once('message', resolve).once('error', reject);
        }),
    ),
  );
  t.equal(new Set(made.flat()).size, 400_000);
  for (const ids of made) t.ok(ids.every((id, i) => i === 0 || id > ids[i - 1]!));
});
