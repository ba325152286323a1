// Places for batches that leave together, and the joint they leave with: who gets a place when, and how a joint ends for each.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { type BarrierOutcome, CommitBarrier } from '../../pipelines/commit-barrier.ts';
import { InsertCoalescer, type InsertCoalescerOptions } from '../../pipelines/insert-coalescer.ts';
import type { Load } from '../../pipelines/semaphore.ts';

const LINGER_MS = 120;

function departures(options: Partial<InsertCoalescerOptions> = {}): InsertCoalescer {
  return new InsertCoalescer({
    concurrentMax: 2,
    lingerMs: LINGER_MS,
    rowsMax: 100,
    bytesMax: 1_000,
    mayJoin: () => true,
    ...options,
  });
}

function load(more: Partial<Load> = {}): () => Load {
  return () => ({ rows: 10, bytes: 10, isFull: false, alone: false, ...more });
}

t.test('a lone batch goes at once, and alone', async (t) => {
  const ticket = departures().acquire(load());
  t.ok(ticket.isAcquired);
  t.equal(ticket.barrier, undefined);
});

t.test('what comes while a company is away leaves together, after it has come home and the linger', async (t) => {
  const places = departures();
  const away = places.acquire(load());
  const waiting = [places.acquire(load()), places.acquire(load()), places.acquire(load())];
  await sleep(2 * LINGER_MS);
  t.same(
    waiting.map(({ isAcquired: granted }) => granted),
    [false, false, false],
    'not full: one company at a time',
  );
  away.release();
  const homeAt = performance.now();
  await Promise.all(waiting.map(({ acquired: turn }) => turn));
  t.ok(performance.now() - homeAt >= LINGER_MS - 2);
  const [joint] = waiting.map((ticket) => ticket.barrier);
  t.ok(joint);
  t.ok(waiting.every((ticket) => ticket.barrier === joint));
  const next = places.acquire(load());
  for (const ticket of waiting.slice(1)) ticket.release();
  await sleep(2 * LINGER_MS);
  t.notOk(next.isAcquired, 'the place is free when the last one is home');
  waiting[0]!.release();
  await next.acquired;
  t.equal(next.barrier, undefined);
});

t.test('under load a company waits for as many as left before, but not for long', async (t) => {
  const places = departures();
  const first = places.acquire(load());
  const both = [places.acquire(load()), places.acquire(load())];
  first.release();
  await Promise.all(both.map(({ acquired: turn }) => turn));
  for (const ticket of both) ticket.release();
  const one = places.acquire(load());
  await sleep(LINGER_MS + 20);
  t.notOk(one.isAcquired, 'one of two');
  const other = places.acquire(load());
  await Promise.all([one.acquired, other.acquired]);
  t.equal(one.barrier, other.barrier);
  for (const ticket of [one, other]) ticket.release();
  const alone = places.acquire(load());
  await alone.acquired;
  t.equal(alone.barrier, undefined, 'the other has nothing to send');
});

t.test('no more leave together than one insert may hold; enough for one goes beside the one that runs', async (t) => {
  for (const big of [load({ rows: 60 }), load({ bytes: 600 })]) {
    const places = departures();
    const first = places.acquire(load());
    const waiting = [places.acquire(big), places.acquire(big), places.acquire(load())];
    t.same(
      waiting.map(({ isAcquired: granted }) => granted),
      [true, false, false],
      'the second does not fit in with the first; the third does not overtake it',
    );
    t.equal(waiting[0]!.barrier, undefined);
    waiting[0]!.release();
    first.release();
    await Promise.all(waiting.slice(1).map(({ acquired: turn }) => turn));
    t.equal(waiting[1]!.barrier, waiting[2]!.barrier);
  }
  const places = departures();
  const tickets = [load(), load({ isFull: true }), load({ isFull: true })].map((one) => places.acquire(one));
  t.same(
    tickets.map(({ isAcquired: granted }) => granted),
    [true, true, false],
    'a full one does not wait, but there are two places',
  );
});

t.test('a batch that must go alone has a place of its own, and so have all where none may join', async (t) => {
  const places = departures();
  const first = places.acquire(load());
  const alone = places.acquire(load({ alone: true }));
  t.ok(alone.isAcquired, 'it waits for nobody');
  const others = [places.acquire(load()), places.acquire(load({ alone: true })), places.acquire(load())];
  alone.release();
  first.release();
  await Promise.all(others.map(({ acquired: turn }) => turn));
  t.equal(others[1]!.barrier, undefined);
  t.equal(others[0]!.barrier, others[2]!.barrier);
  const apart = departures({ mayJoin: () => false });
  const tickets = Array.from({ length: 3 }, () => apart.acquire(load()));
  t.same(
    tickets.map(({ isAcquired: granted }) => granted),
    [true, true, false],
  );
  tickets[0]!.release();
  t.ok(tickets[2]!.isAcquired, 'without a linger');
  t.equal(tickets[2]!.barrier, undefined);
});

t.test('a company with a stuck member is waited for no longer than bearable', async (t) => {
  const places = departures({ stuckMs: 200 });
  const stuck = places.acquire(load());
  const full = places.acquire(load({ isFull: true }));
  const leftAt = performance.now();
  const waiting = [places.acquire(load()), places.acquire(load())];
  await sleep(100);
  t.notOk(waiting[0]!.isAcquired);
  await Promise.all(waiting.map(({ acquired: turn }) => turn));
  t.ok(performance.now() - leftAt >= 195, 'both places were taken by then');
  t.equal(waiting[0]!.barrier, waiting[1]!.barrier);
  stuck.release();
  full.release();
  const next = places.acquire(load());
  await sleep(20);
  t.notOk(next.isAcquired, 'the company that left last is still away');
  for (const ticket of waiting) ticket.release();
  await next.acquired;
});

t.test(
  'a ticket that is given back before its turn frees nothing, and its joint is broken if it had one',
  async (t) => {
    const places = departures({ concurrentMax: 1 });
    const first = places.acquire(load());
    const gone = places.acquire(load());
    const [left, stays] = [places.acquire(load()), places.acquire(load())];
    gone.release();
    t.notOk(left.isAcquired);
    first.release();
    await Promise.all([left.acquired, stays.acquired]);
    const outcome = stays.barrier!.arrive('part', never(t));
    left.release();
    t.equal(await outcome, 'alone');
  },
);

function never(t: { fail: (message: string) => unknown }): () => Promise<BarrierOutcome> {
  return async () => {
    t.fail('a broken joint was carried out');
    return 'done';
  };
}

t.test('a joint is carried out once, by the last to join, with all parts; all learn how it ended', async (t) => {
  const joint = new CommitBarrier<string>(3);
  const runs: string[][] = [];
  const run = async (parts: readonly string[]): Promise<BarrierOutcome> => {
    runs.push([...parts]);
    await sleep(20);
    return 'unknown';
  };
  const outcomes = await Promise.all(['a', 'b', 'c'].map((part) => joint.arrive(part, run)));
  t.same(outcomes, ['unknown', 'unknown', 'unknown']);
  t.same(runs, [['a', 'b', 'c']]);
  joint.leave();
  t.equal(await joint.outcome, 'unknown', 'to leave afterwards changes nothing');
  t.not(joint.token, new CommitBarrier(3).token);
});

t.test('who does not come in time, or leaves, lets the others go alone; who comes late goes alone, too', async (t) => {
  const slow = new CommitBarrier<string>(2, 50);
  t.equal(await slow.arrive('a', never(t)), 'alone');
  t.equal(await slow.arrive('b', never(t)), 'alone', 'late');
  const left = new CommitBarrier<string>(2);
  left.leave();
  t.equal(await left.arrive('a', never(t)), 'alone');
});
