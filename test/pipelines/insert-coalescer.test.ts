// Group commit of inserts, and the barrier of a group: who gets a place when, and how a barrier ends for each.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { type BarrierOutcome, CommitBarrier, type GroupPart } from '../../pipelines/commit-barrier.ts';
import { InsertCoalescer, type InsertCoalescerOptions } from '../../pipelines/insert-coalescer.ts';
import type { Load } from '../../pipelines/semaphore.ts';

const LINGER_MS = 120;

function coalescer(options: Partial<InsertCoalescerOptions> = {}): InsertCoalescer {
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
  const permit = coalescer().acquire(load());
  t.ok(permit.isAcquired);
  t.equal(permit.barrier, undefined);
});

t.test('what comes while a group is away leaves together, after it has come home and the linger', async (t) => {
  const coalescing = coalescer();
  const away = coalescing.acquire(load());
  const waiting = [coalescing.acquire(load()), coalescing.acquire(load()), coalescing.acquire(load())];
  await sleep(2 * LINGER_MS);
  t.same(
    waiting.map(({ isAcquired }) => isAcquired),
    [false, false, false],
    'not full: one group at a time',
  );
  away.release();
  const homeAt = performance.now();
  await Promise.all(waiting.map(({ acquired: turn }) => turn));
  t.ok(performance.now() - homeAt >= LINGER_MS - 2);
  const [barrier] = waiting.map((permit) => permit.barrier);
  t.ok(barrier);
  t.ok(waiting.every((permit) => permit.barrier === barrier));
  const next = coalescing.acquire(load());
  for (const permit of waiting.slice(1)) permit.release();
  await sleep(2 * LINGER_MS);
  t.notOk(next.isAcquired, 'the place is free when the last one is home');
  waiting[0]!.release();
  await next.acquired;
  t.equal(next.barrier, undefined);
});

t.test('under load a group waits for as many as left before, but not for long', async (t) => {
  const coalescing = coalescer();
  const first = coalescing.acquire(load());
  const both = [coalescing.acquire(load()), coalescing.acquire(load())];
  first.release();
  await Promise.all(both.map(({ acquired: turn }) => turn));
  for (const permit of both) permit.release();
  const one = coalescing.acquire(load());
  await sleep(LINGER_MS + 20);
  t.notOk(one.isAcquired, 'one of two');
  const other = coalescing.acquire(load());
  await Promise.all([one.acquired, other.acquired]);
  t.equal(one.barrier, other.barrier);
  for (const permit of [one, other]) permit.release();
  const alone = coalescing.acquire(load());
  await alone.acquired;
  t.equal(alone.barrier, undefined, 'the other has nothing to send');
});

t.test('no more leave together than one insert may hold; enough for one goes beside the one that runs', async (t) => {
  for (const big of [load({ rows: 60 }), load({ bytes: 600 })]) {
    const coalescing = coalescer();
    const first = coalescing.acquire(load());
    const waiting = [coalescing.acquire(big), coalescing.acquire(big), coalescing.acquire(load())];
    t.same(
      waiting.map(({ isAcquired }) => isAcquired),
      [true, false, false],
      'the second does not fit in with the first; the third does not overtake it',
    );
    t.equal(waiting[0]!.barrier, undefined);
    waiting[0]!.release();
    first.release();
    await Promise.all(waiting.slice(1).map(({ acquired: turn }) => turn));
    t.equal(waiting[1]!.barrier, waiting[2]!.barrier);
  }
  const coalescing = coalescer();
  const permits = [load(), load({ isFull: true }), load({ isFull: true })].map((one) => coalescing.acquire(one));
  t.same(
    permits.map(({ isAcquired }) => isAcquired),
    [true, true, false],
    'a full one does not wait, but there are two places',
  );
});

t.test('a batch that must go alone has a place of its own, and so have all where none may join', async (t) => {
  const coalescing = coalescer();
  const first = coalescing.acquire(load());
  const alone = coalescing.acquire(load({ alone: true }));
  t.ok(alone.isAcquired, 'it does not wait');
  const others = [coalescing.acquire(load()), coalescing.acquire(load({ alone: true })), coalescing.acquire(load())];
  alone.release();
  first.release();
  await Promise.all(others.map(({ acquired: turn }) => turn));
  t.equal(others[1]!.barrier, undefined);
  t.equal(others[0]!.barrier, others[2]!.barrier);
  const apart = coalescer({ mayJoin: () => false });
  const permits = Array.from({ length: 3 }, () => apart.acquire(load()));
  t.same(
    permits.map(({ isAcquired }) => isAcquired),
    [true, true, false],
  );
  permits[0]!.release();
  t.ok(permits[2]!.isAcquired, 'without a linger');
  t.equal(permits[2]!.barrier, undefined);
});

t.test('a group with a stuck member is waited for no longer than bearable', async (t) => {
  const coalescing = coalescer({ stuckMs: 200 });
  const stuck = coalescing.acquire(load());
  const full = coalescing.acquire(load({ isFull: true }));
  const leftAt = performance.now();
  const waiting = [coalescing.acquire(load()), coalescing.acquire(load())];
  await sleep(100);
  t.notOk(waiting[0]!.isAcquired);
  await Promise.all(waiting.map(({ acquired: turn }) => turn));
  t.ok(performance.now() - leftAt >= 195, 'both places were taken by then');
  t.equal(waiting[0]!.barrier, waiting[1]!.barrier);
  stuck.release();
  full.release();
  const next = coalescing.acquire(load());
  await sleep(20);
  t.notOk(next.isAcquired, 'the group that left last is still away');
  for (const permit of waiting) permit.release();
  await next.acquired;
});

t.test(
  'a permit that is released before it is acquired frees nothing, and its barrier is broken if it had one',
  async (t) => {
    const coalescing = coalescer({ concurrentMax: 1 });
    const first = coalescing.acquire(load());
    const gone = coalescing.acquire(load());
    const [left, stays] = [coalescing.acquire(load()), coalescing.acquire(load())];
    gone.release();
    t.notOk(left.isAcquired);
    first.release();
    await Promise.all([left.acquired, stays.acquired]);
    const outcome = stays.barrier!.arrive(part(), never(t));
    left.release();
    t.equal(await outcome, 'alone');
  },
);

function part(): GroupPart {
  return { rows: [], ensureHeld: () => Promise.resolve() };
}

function never(t: { fail: (message: string) => unknown }): () => Promise<BarrierOutcome> {
  return async () => {
    t.fail('a broken barrier was carried out');
    return 'done';
  };
}

t.test('a barrier is carried out once, by the last to join, with all parts; all learn how it ended', async (t) => {
  const barrier = new CommitBarrier(3);
  const runs: GroupPart[][] = [];
  const run = async (parts: readonly GroupPart[]): Promise<BarrierOutcome> => {
    runs.push([...parts]);
    await sleep(20);
    return 'unknown';
  };
  const parts = [part(), part(), part()];
  const outcomes = await Promise.all(parts.map((one) => barrier.arrive(one, run)));
  t.same(outcomes, ['unknown', 'unknown', 'unknown']);
  t.equal(runs.length, 1);
  t.ok(parts.every((one, i) => runs[0]![i] === one));
  barrier.leave();
  t.equal(await barrier.outcome, 'unknown', 'to leave afterwards changes nothing');
  t.not(barrier.token, new CommitBarrier(3).token);
});

t.test('who does not come in time, or leaves, lets the others go alone; who comes late goes alone, too', async (t) => {
  const slow = new CommitBarrier(2, 50);
  t.equal(await slow.arrive(part(), never(t)), 'alone');
  t.equal(await slow.arrive(part(), never(t)), 'alone', 'late');
  const left = new CommitBarrier(2);
  left.leave();
  t.equal(await left.arrive(part(), never(t)), 'alone');
});
