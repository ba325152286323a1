// One agent's silence, judged without Redis: every silence that is too long is notified once and in time, and no other
// is, whatever an agent does; a lazy look misses nothing.
import fc from 'fast-check';
import t from 'tap';
import { heartbeatOf, judgeSilence } from '../../pipelines/watch/silence.ts';
import { WATCH_LOOK_MS_MAX } from '../../src/common/limits.ts';
import { runs, SEED } from '../support/seed.ts';

t.test('heartbeat_seconds counts where it is a whole number within bounds', (t) => {
  const of = (value: string | undefined, account: number | null = null) =>
    heartbeatOf({ metadata: value === undefined ? {} : { heartbeat_seconds: value } }, account);
  for (const [value, seconds] of [
    ['5', 5],
    ['0060', 60],
    ['604800', 604_800],
    ['0', 0],
    ['00', 0],
  ] as const) {
    t.equal(of(value, 77), seconds, value);
  }
  for (const bad of [undefined, '', '4', '-0', '-5', '604801', '5.5', '1e3', ' 60', '60s', '١٢', '9'.repeat(400)]) {
    t.equal(of(bad), 300, `${bad}: the default`);
    t.equal(of(bad, 77), 77, `${bad}: the account's`);
  }
  t.equal(heartbeatOf({ metadata: Object.create({ heartbeat_seconds: '60' }) }, null), 300, 'its own alone');
  t.end();
});

t.test('a watch that is off notifies of nothing, and gives a full period when it is on again', (t) => {
  const look = { watchedSince: 0, seen: 1_000, isActive: true };
  for (const note of ['', 'i', 'f500', 't1000/60000'] as const) {
    const { isDown, note: after, nextAt } = judgeSilence({ ...look, now: 9e6, note, heartbeatSeconds: 0 });
    t.notOk(isDown);
    t.equal(after, 'i');
    t.ok(nextAt > 9e6 && nextAt <= 9e6 + WATCH_LOOK_MS_MAX, 'it is looked at again');
  }
  const on = judgeSilence({ ...look, now: 9_000_000, note: 'i', heartbeatSeconds: 10 });
  t.notOk(on.isDown);
  t.notOk(judgeSilence({ ...look, now: 9_009_000, note: on.note, heartbeatSeconds: 10 }).isDown);
  t.ok(judgeSilence({ ...look, now: 9_011_000, note: on.note, heartbeatSeconds: 10 }).isDown);
  t.end();
});

/** A change of an agent, so many ms after the one before. */
type Step = { afterMs: number; does: 'speak' | 'off' | 'on' };

/**
 * Inspects the agent when it is due, at whole seconds, as the watcher does. Returns the silences that were notified.
 */
function watch(steps: readonly Step[], heartbeatSeconds: number, endMs: number, watchedSince = 0) {
  const told: { since: number; at: number }[] = [];
  const timeline: { at: number; does: Step['does'] }[] = [];
  for (const { afterMs, does } of steps) timeline.push({ at: (timeline.at(-1)?.at ?? 0) + afterMs, does });
  let state = { seen: 0, isActive: true, note: '', nextAt: 0 };
  let next = 0;
  for (let now = 0; now <= endMs; now += 1_000) {
    for (; next < timeline.length && timeline[next]!.at <= now; next++) {
      const { at, does } = timeline[next]!;
      state = does === 'speak' ? { ...state, seen: at } : { ...state, isActive: does === 'on' };
    }
    if (now < state.nextAt) continue;
    const { isDown, note, nextAt } = judgeSilence({ ...state, now, watchedSince, heartbeatSeconds });
    if (isDown) told.push({ since: state.seen, at: now });
    if (nextAt <= now || nextAt > now + WATCH_LOOK_MS_MAX) throw new Error(`next look at ${nextAt}, it is ${now}`);
    state = { ...state, note, nextAt };
  }
  return { told, timeline };
}

const steps = (does: Step['does'][]) =>
  fc.array(fc.record({ afterMs: fc.integer({ min: 1, max: 400_000 }), does: fc.constantFrom(...does) }), {
    maxLength: 12,
  });

t.test('watched all the time, each silence over the heartbeat is notified once, within two seconds', (t) => {
  const property = fc.property(steps(['speak']), fc.integer({ min: 5, max: 200 }), (all, heartbeatSeconds) => {
    const heartbeatMs = heartbeatSeconds * 1_000;
    const endMs = all.reduce((sum, { afterMs }) => sum + afterMs, 0) + heartbeatMs + 3_000;
    const { told, timeline } = watch(all, heartbeatSeconds, endMs);
    const spoken = [0, ...timeline.map(({ at }) => at)];
    return spoken.every((since, i) => {
      const silentMs = (spoken[i + 1] ?? endMs) - since;
      const found = told.filter((one) => one.since === since);
      if (silentMs > heartbeatMs + 2_000 && found.length !== 1) return false;
      if (silentMs <= heartbeatMs && found.length !== 0) return false;
      return found.every(({ at }) => at > since + heartbeatMs && at <= since + heartbeatMs + 2_000);
    });
  });
  const { failed, counterexample, seed } = fc.check(property, { seed: SEED, numRuns: runs(500) });
  t.notOk(failed, `seed ${seed}: ${JSON.stringify(counterexample)}`);
  t.end();
});

/** When it was off, as intervals. */
function offTimes(timeline: readonly { at: number; does: Step['does'] }[]): { from: number; to: number }[] {
  const times: { from: number; to: number }[] = [];
  for (const { at, does } of timeline) {
    const open = times.at(-1)?.to === Number.POSITIVE_INFINITY ? times.at(-1)! : undefined;
    if (does === 'off' && open === undefined) times.push({ from: at, to: Number.POSITIVE_INFINITY });
    if (does === 'on' && open !== undefined) open.to = at;
  }
  return times;
}

t.test('switched off and on, it is never down while off, nor before a period after it is on, nor twice', (t) => {
  const property = fc.property(
    steps(['speak', 'off', 'on']),
    fc.integer({ min: 5, max: 200 }),
    (all, heartbeatSeconds) => {
      const { told, timeline } = watch(all, heartbeatSeconds, 6_000_000);
      const heartbeatMs = heartbeatSeconds * 1_000;
      const spoken = [0, ...timeline.filter(({ does }) => does === 'speak').map(({ at }) => at)];
      if (new Set(told.map(({ since }) => since)).size < told.length) return false;
      return told.every(({ at, since }) => {
        if (at <= since + heartbeatMs) return false;
        return offTimes(timeline).every(({ from, to }) => {
          if (at >= from && at < to) return false;
          // An off that no look fell into is not known of; and one that begins in a silence which has been notified is
          // not inspected, so what counts after it is the last event.
          const last = spoken.findLast((ms) => ms <= from);
          const isTold = told.some((earlier) => earlier.since === last && earlier.at <= from);
          const isKnown = !isTold && to - from > Math.min(heartbeatMs, WATCH_LOOK_MS_MAX) + 2_000;
          return !isKnown || at < from || at > to + heartbeatMs;
        });
      });
    },
  );
  const { failed, counterexample, seed } = fc.check(property, { seed: SEED, numRuns: runs(500) });
  t.notOk(failed, `seed ${seed}: ${JSON.stringify(counterexample)}`);
  const off: Step[] = [
    { afterMs: 10_000, does: 'off' },
    { afterMs: 3_600_000, does: 'on' },
  ];
  const { told } = watch(off, 300, 5_000_000);
  t.equal(told.length, 1);
  t.ok(told[0]!.at > 3_610_000 + 300_000, 'an hour off is no silence');
  t.end();
});

t.test('no agent is down before a full period was watched', (t) => {
  const { told } = watch([], 60, 1_000_000, 500_000);
  t.same(told, [{ since: 0, at: 561_000 }]);
  t.same(
    judgeSilence({ now: 1e9, watchedSince: null, seen: 0, note: '', isActive: true, heartbeatSeconds: 60 }),
    { isDown: false, note: '', nextAt: 1e9 + 60_000 },
    'and none while nothing can be heard',
  );
  t.end();
});
