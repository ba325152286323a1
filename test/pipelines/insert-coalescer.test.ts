// Group commit of inserts, and the barrier of a group: which batches start together and when, and how a barrier ends
// for each. The tests move the time.
import t, { type Test } from 'tap';
import { ARRIVAL_MS_MAX, type BarrierOutcome, CommitBarrier, type GroupPart } from '../../pipelines/commit-barrier.ts';
import { GATHER_MS, InsertCoalescer, type InsertCoalescerOptions, STUCK_MS } from '../../pipelines/insert-coalescer.ts';
import type { Load, Permit } from '../../pipelines/semaphore.ts';
import { ManualClock } from '../support/manual-clock.ts';

const LINGER_MS = 120;

/** The time is passed, so that one more ms cannot matter. */
function world(options: Partial<InsertCoalescerOptions> = {}) {
  const clock = new ManualClock();
  const coalescer = new InsertCoalescer({
    concurrentMax: 2,
    lingerMs: LINGER_MS,
    rowsMax: 100,
    bytesMax: 1_000,
    mayJoin: () => true,
    clock,
    ...options,
  });
  const acquire = (load: Partial<Load> = {}) =>
    coalescer.acquire(() => ({ rows: 10, bytes: 10, isFull: false, alone: false, ...load }));
  return { clock, acquire };
}

const started = (...permits: Permit[]) => permits.map(({ isAcquired }) => isAcquired);

t.test('an insert coalescer', async (t) => {
  t.test('starts a single batch at once, without a barrier', async (t) => {
    const permit = world().acquire();
    t.ok(permit.isAcquired);
    t.equal(permit.barrier, undefined);
  });

  t.test('starts the batches that waited as one group, a linger after the group before', async (t) => {
    const { clock, acquire } = world();
    const before = acquire();
    const waiting = [acquire(), acquire(), acquire()];
    await clock.advance(10 * LINGER_MS);
    t.same(started(...waiting), [false, false, false], 'one group at a time while none is full');
    before.release();
    await clock.advance(LINGER_MS - 1);
    t.same(started(...waiting), [false, false, false], 'the linger');
    await clock.advance(1);
    t.same(started(...waiting), [true, true, true]);
    t.ok(waiting[0]!.barrier);
    t.ok(
      waiting.every(({ barrier }) => barrier === waiting[0]!.barrier),
      'they share a barrier',
    );
  });

  t.test('holds a group until its last member releases', async (t) => {
    const { clock, acquire } = world();
    const first = acquire();
    const [left, right] = [acquire(), acquire()];
    first.release();
    await clock.advance(LINGER_MS);
    const next = acquire();
    right.release();
    await clock.advance(10 * LINGER_MS);
    t.notOk(next.isAcquired);
    left.release();
    await clock.advance(LINGER_MS);
    await clock.advance(GATHER_MS);
    t.ok(next.isAcquired, 'after the last release');
    t.equal(next.barrier, undefined);
  });

  t.test('waits under load for as many batches as the group before had, and no longer than GATHER_MS', async (t) => {
    const { clock, acquire } = world();
    const first = acquire();
    const both = [acquire(), acquire()];
    first.release();
    await clock.advance(LINGER_MS);
    for (const permit of both) permit.release();
    const one = acquire();
    await clock.advance(LINGER_MS + GATHER_MS - 1);
    t.notOk(one.isAcquired, 'one of two');
    const other = acquire();
    await clock.advance(1);
    t.same(started(one, other), [true, true]);
    t.equal(one.barrier, other.barrier);
    for (const permit of [one, other]) permit.release();
    const alone = acquire();
    await clock.advance(LINGER_MS + GATHER_MS);
    t.ok(alone.isAcquired, 'the other has nothing to send');
    t.equal(alone.barrier, undefined);
  });

  for (const [bound, big] of [
    ['rowsMax', { rows: 60 }],
    ['bytesMax', { bytes: 600 }],
  ] as const) {
    t.test(
      `starts no more together than ${bound} allows, and enough for one insert beside the running one`,
      async (t) => {
        const { clock, acquire } = world();
        const first = acquire();
        const waiting = [acquire(big), acquire(big), acquire()];
        t.same(started(...waiting), [true, false, false], 'the second does not fit; the third does not overtake it');
        t.equal(waiting[0]!.barrier, undefined);
        waiting[0]!.release();
        first.release();
        await clock.advance(LINGER_MS + GATHER_MS);
        t.same(started(...waiting.slice(1)), [true, true]);
        t.equal(waiting[1]!.barrier, waiting[2]!.barrier);
      },
    );
  }

  t.test('starts a full batch beside the running ones, up to concurrentMax', async (t) => {
    const { acquire } = world();
    t.same(started(acquire(), acquire({ isFull: true }), acquire({ isFull: true })), [true, true, false]);
  });

  t.test('gives a batch that must be alone a permit of its own', async (t) => {
    const { clock, acquire } = world();
    const first = acquire();
    const alone = acquire({ alone: true });
    t.ok(alone.isAcquired, 'without waiting');
    const others = [acquire(), acquire({ alone: true }), acquire()];
    alone.release();
    first.release();
    await clock.advance(LINGER_MS + GATHER_MS);
    t.same(started(...others), [true, true, true]);
    t.equal(others[1]!.barrier, undefined);
    t.equal(others[0]!.barrier, others[2]!.barrier);
  });

  t.test('groups nothing where mayJoin says no', async (t) => {
    const { acquire } = world({ mayJoin: () => false });
    const permits = [acquire(), acquire(), acquire()];
    t.same(started(...permits), [true, true, false]);
    permits[0]!.release();
    t.ok(permits[2]!.isAcquired, 'without a linger');
    t.equal(permits[2]!.barrier, undefined);
  });

  t.test('does not wait for a group longer than STUCK_MS', async (t) => {
    const { clock, acquire } = world();
    const [stuck, full] = [acquire(), acquire({ isFull: true })];
    const waiting = [acquire(), acquire()];
    await clock.advance(STUCK_MS - 1);
    t.same(started(...waiting), [false, false]);
    await clock.advance(1);
    t.same(started(...waiting), [true, true]);
    t.equal(waiting[0]!.barrier, waiting[1]!.barrier);
    stuck.release();
    full.release();
    const next = acquire();
    await clock.advance(LINGER_MS + GATHER_MS);
    t.notOk(next.isAcquired, 'the newest group still runs');
    for (const permit of waiting) permit.release();
    await clock.advance(LINGER_MS + GATHER_MS);
    t.ok(next.isAcquired);
  });

  t.test('frees nothing by a permit that is released before it is acquired', async (t) => {
    const { clock, acquire } = world({ concurrentMax: 1 });
    const first = acquire();
    const [gone, stays] = [acquire(), acquire()];
    gone.release();
    await clock.advance(10 * LINGER_MS);
    t.notOk(stays.isAcquired);
    first.release();
    await clock.advance(LINGER_MS);
    t.ok(stays.isAcquired);
  });

  t.test('breaks the barrier of a group whose member is released without arriving', async (t) => {
    const { clock, acquire } = world();
    const first = acquire();
    const [left, stays] = [acquire(), acquire()];
    first.release();
    await clock.advance(LINGER_MS);
    const outcome = stays.barrier!.arrive(part(), never(t));
    left.release();
    t.equal(await outcome, 'alone');
  });
});

t.test('a commit barrier', async (t) => {
  t.test('runs once, by the last to arrive, with all parts; all members get its outcome', async (t) => {
    const barrier = new CommitBarrier(3, new ManualClock());
    const runs: GroupPart[][] = [];
    const run = async (parts: readonly GroupPart[]): Promise<BarrierOutcome> => {
      runs.push([...parts]);
      return 'unknown';
    };
    const parts = [part(), part(), part()];
    t.same(await Promise.all(parts.map((one) => barrier.arrive(one, run))), ['unknown', 'unknown', 'unknown']);
    t.equal(runs.length, 1);
    t.ok(parts.every((one, i) => runs[0]![i] === one));
    barrier.leave();
    t.equal(await barrier.outcome, 'unknown', 'to leave afterwards changes nothing');
  });

  t.test('has a token of its own', async (t) => {
    t.not(new CommitBarrier(3, new ManualClock()).token, new CommitBarrier(3, new ManualClock()).token);
  });

  t.test('lets all go alone after ARRIVAL_MS_MAX, and one that arrives later as well', async (t) => {
    const clock = new ManualClock();
    const barrier = new CommitBarrier(2, clock);
    const outcome = barrier.arrive(part(), never(t));
    await clock.advance(ARRIVAL_MS_MAX);
    t.equal(await outcome, 'alone');
    t.equal(await barrier.arrive(part(), never(t)), 'alone');
  });

  t.test('lets all go alone when a member leaves', async (t) => {
    const barrier = new CommitBarrier(2, new ManualClock());
    barrier.leave();
    t.equal(await barrier.arrive(part(), never(t)), 'alone');
  });
});

function part(): GroupPart {
  return { rows: [], ensureHeld: () => Promise.resolve() };
}

function never(t: Test): () => Promise<BarrierOutcome> {
  return async () => {
    t.fail('a broken barrier was carried out');
    return 'done';
  };
}
