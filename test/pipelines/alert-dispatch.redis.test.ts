// Signals on their way to deliveries, with a real Redis and a driven clock: throttle timelines (push at, want between),
// what is replayed, what is appended twice, rate limits, changes in force, and a Redis that is full.
import fc from 'fast-check';
import t from 'tap';
import { Dispatcher, type PlacedSignal } from '../../pipelines/alert/dispatch.ts';
import type { Signal } from '../../schemas/signal.ts';
import { mintId } from '../../src/common/ids.ts';
import { Agents } from '../../src/registry/agents.ts';
import { dropDeliveriesOf } from '../../src/registry/alerts/deliveries.ts';
import { actor } from '../registry/harness.ts';
import { startRedis } from '../support/redis.ts';
import { SEED } from '../support/seed.ts';
import { type AlertWorld, makeAlertWorld, makeSignal, sendersOf } from './alert-harness.ts';

const redis = await startRedis(t);
const heldFor = async () => undefined;

/** `[seconds, count]` of every notification that went out, from the clock at the start. */
async function timeline(world: AlertWorld, until: number, pushes: Record<number, number>): Promise<[number, number][]> {
  const start = world.clock.now;
  const seen: [number, number][] = [];
  for (let second = 0; second <= until; second++) {
    world.clock.now = start + second * 1000;
    const signals = Array.from({ length: pushes[second] ?? 0 }, () =>
      makeSignal(world.account, { at: world.clock.now }),
    );
    if (signals.length > 0) await world.dispatch(signals);
    const before = world.targets.got.length;
    await world.settle();
    for (const { notification } of world.targets.got.slice(before)) seen.push([second, notification.count]);
  }
  return seen;
}

t.test('the first signal at once, the others in one summary at the end of the window', async (t) => {
  const world = await makeAlertWorld(t, redis);
  await world.alert({ throttle_seconds: 60 });
  t.same(await timeline(world, 200, { 0: 1, 5: 3, 59: 1, 61: 2, 130: 1, 185: 1 }), [
    [0, 1],
    [60, 4],
    [120, 2],
    [180, 1],
  ]);
  t.same(await timeline(world, 100, {}), [[40, 1]], 'what came after the last summary has its own');
});

t.test('a quiet window closes: the next signal goes at once', async (t) => {
  const world = await makeAlertWorld(t, redis);
  await world.alert({ throttle_seconds: 10 });
  t.same(await timeline(world, 40, { 0: 5, 35: 1 }), [
    [0, 1],
    [10, 4],
    [35, 1],
  ]);
});

t.test('without a throttle every signal is a notification', async (t) => {
  const world = await makeAlertWorld(t, redis);
  await world.alert({ throttle_seconds: 0 });
  t.same(await timeline(world, 3, { 0: 2, 3: 1 }), [
    [0, 1],
    [0, 1],
    [3, 1],
  ]);
});

t.test('windows survive a restart', async (t) => {
  const world = await makeAlertWorld(t, redis);
  await world.alert({ throttle_seconds: 60 });
  await world.dispatch([makeSignal(world.account), makeSignal(world.account), makeSignal(world.account)]);
  await world.settle();
  const after = world.another();
  await new Dispatcher(world).dispatch({ stream: 'stream', remember: false, ensureHeld: heldFor }, [
    { signal: makeSignal(world.account), place: '999999999-0/0' },
  ]);
  world.clock.now += 60_000;
  await after.look();
  await after.idle();
  t.same(
    world.targets.got.map(({ notification }) => notification.count),
    [1, 3],
  );
});

t.test('a summary quotes the newest signal, and nothing of an agent that was deleted', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const { agent } = await new Agents(world).register(world.account, { name: 'a' }, actor);
  await world.alert({ throttle_seconds: 60 });
  const signals = [0, 1, 2].map((i) => makeSignal(world.account, { agent: agent.id, message: `number ${i}` }));
  await world.dispatch(signals);
  await world.settle();
  await world.settleAfter(60_000);
  t.match(world.targets.got[1]!.notification, { count: 2, signal: signals[2] });
  await world.dispatch(signals.map((signal) => ({ ...signal, id: `${signal.id}-again` })));
  await new Agents(world).remove(world.account, agent.id, actor);
  await dropDeliveriesOf(world, world.account, agent.id);
  t.notMatch(JSON.stringify(await world.redis.hvals(world.keys.throttles(world.account))), agent.id, 'nor kept');
  await world.settleAfter(60_000);
  const last = world.targets.got.at(-1)!.notification;
  t.match(last, { count: 3, signal: { agent: null, message: 'Signals of an agent that was deleted since.' } });
  t.notMatch(JSON.stringify(last), agent.id);
});

t.test('what is replayed is neither notified nor counted again, wherever it was cut off', async (t) => {
  const world = await makeAlertWorld(t, redis);
  await world.alert({ throttle_seconds: 0 });
  await world.alert({ throttle_seconds: 60 });
  const signals = Array.from({ length: 450 }, () => makeSignal(world.account));
  const placed = signals.map((signal, i): PlacedSignal => ({ signal, place: `7-${Math.floor(i / 10)}/${i % 10}` }));
  let commits = 0;
  const dying = async () => {
    if (++commits === 3) throw new Error('killed');
  };
  await t.rejects(world.dispatcher.dispatch({ stream: 's', remember: false, ensureHeld: dying }, placed), /killed/);
  const made = await world.redis.hlen(world.keys.deliveries(world.account));
  t.ok(made > 0 && made < 450, `${made} before the kill`);
  for (let i = 0; i < 3; i++)
    await world.dispatcher.dispatch({ stream: 's', remember: false, ensureHeld: heldFor }, placed);
  await world.settle();
  await world.settleAfter(60_000);
  const counts = world.targets.got.map(({ notification }) => notification.count).sort((a, b) => a - b);
  t.equal(counts.length, 452);
  t.equal(counts.at(-1), 449);
});

t.test('a signal that was appended twice is notified once', async (t) => {
  const world = await makeAlertWorld(t, redis);
  await world.alert({});
  const signal = makeSignal(world.account);
  await world.dispatch([signal, signal], { remember: true });
  await world.settle();
  await world.dispatch([signal], { remember: true });
  await world.settle();
  t.equal(world.targets.got.length, 1);
  t.ok((await world.redis.pttl(world.keys.dispatchedSignals(world.account))) > 0, 'and forgotten after a while');
});

t.test('a rate limit is notified once per window and counter, and a replay of that very event passes', async (t) => {
  const world = await makeAlertWorld(t, redis);
  await world.alert({ trigger: 'rate_limit_exceeded' });
  const WINDOW_MS = 600_000;
  const raise = (counter: string, entry: string, stream = 's'): [PlacedSignal[], { stream: string }] => [
    [
      {
        signal: makeSignal(world.account, {
          trigger: 'rate_limit_exceeded',
          id: `rate_limit_exceeded/${entry}/${counter}`,
        }),
        limit: { counter, windowMs: WINDOW_MS },
        place: `${entry}/0`,
      },
    ],
    { stream },
  ];
  const tell = ([placed, { stream }]: [PlacedSignal[], { stream: string }]) =>
    world.dispatcher.dispatch({ stream, remember: false, ensureHeld: heldFor }, placed);
  t.equal(await tell(raise('a', '1-0')), 1);
  t.equal(await tell(raise('a', '2-0')), 0, 'inside the window');
  t.equal(await tell(raise('b', '3-0')), 1, 'another counter');
  const marker = world.keys.rateLimitSignalled(world.account, 'a');
  const life = await world.redis.pttl(marker);
  t.ok(life > 0 && life <= WINDOW_MS, `its marker lives for the window: ${life} ms`);
  await world.redis.del(marker);
  t.equal(await tell(raise('a', '4-0')), 1, 'the next window');
  // Killed after the marker was set and before the commit: the mark does not know of it.
  const [placed] = raise('c', '5-0');
  const dies = async () => Promise.reject(new Error('killed'));
  await t.rejects(world.dispatcher.dispatch({ stream: 's', remember: false, ensureHeld: dies }, placed));
  t.equal(await world.dispatcher.dispatch({ stream: 's', remember: false, ensureHeld: heldFor }, placed), 1);
});

t.test('two owners of a stream at once notify nothing twice', async (t) => {
  const world = await makeAlertWorld(t, redis);
  await world.alert({});
  await world.alert({ throttle_seconds: 60 });
  const placed = Array.from(
    { length: 300 },
    (_, i): PlacedSignal => ({ signal: makeSignal(world.account), place: `${i + 1}-0/0` }),
  );
  const from = { stream: 's', remember: false, ensureHeld: heldFor };
  await Promise.all([1, 2, 3].map(() => new Dispatcher(world).dispatch(from, placed)));
  await world.settle();
  await world.settleAfter(60_000);
  const counts = world.targets.got.map(({ notification }) => notification.count);
  t.equal(
    counts.reduce((a, b) => a + b, 0),
    600,
  );
  t.equal(counts.length, 302);
});

t.test('streams that dispatch to the same alert at the same time lose nothing', async (t) => {
  const world = await makeAlertWorld(t, redis);
  await world.alert({ throttle_seconds: 60 });
  const streams = Array.from({ length: 8 }, (_, i) => `s${i}`);
  await Promise.all(
    streams.map(async (stream) => {
      for (let i = 1; i <= 10; i++) await world.dispatch([makeSignal(world.account)], { stream, entry: `${i}-0` });
    }),
  );
  await world.settle();
  await world.settleAfter(60_000);
  t.same(
    world.targets.got.map(({ notification }) => notification.count),
    [1, 79],
  );
});

t.test('it works while Redis is full', async (t) => {
  const world = await makeAlertWorld(t, await startRedis(t, { single: true }));
  await world.alert({ throttle_seconds: 60 });
  await world.redis.config('SET', 'maxmemory', '1');
  await t.rejects(world.redis.set('x', '1'), /OOM/);
  await world.dispatch([makeSignal(world.account), makeSignal(world.account)]);
  await world.settle();
  await world.settleAfter(60_000);
  t.same(
    world.targets.got.map(({ notification }) => notification.count),
    [1, 1],
  );
  t.equal(await world.redis.hlen(world.keys.deliveries(world.account)), 0);
});

t.test('random signals, throttles, replays and deaths: every matching signal is in exactly one count', async (t) => {
  const step = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        kind: fc.constant('signals' as const),
        count: fc.integer({ min: 1, max: 30 }),
        dies: fc.boolean(),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1_000, max: 90_000 }) }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('send' as const), dies: fc.boolean() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('replay' as const) }) },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 3, maxLength: 25 }),
      fc.array(fc.constantFrom(0, 20, 60), { minLength: 1, maxLength: 3 }),
      async (steps, throttles) => {
        const world = await makeAlertWorld(t, redis);
        for (const throttle_seconds of throttles) await world.alert({ throttle_seconds });
        const all: PlacedSignal[] = [];
        const severities = ['low', 'high'] as const;
        await world.alert({ conditions: { severity: 'high' }, throttle_seconds: 20 });
        for (const one of steps) await play(world, one, all, severities);
        // Whatever died is replayed, and all windows end.
        await world.dispatcher.dispatch({ stream: 's', remember: false, ensureHeld: heldFor }, all);
        for (let i = 0; i < 4; i++) {
          await world.settleAfter(61_000);
        }
        const counts = new Map<string, Map<string, number>>();
        for (const { notification } of world.targets.got) {
          const ofAlert = counts.get(notification.alert.id) ?? new Map<string, number>();
          counts.set(notification.alert.id, ofAlert.set(notification.id, notification.count));
        }
        const sums = [...counts.values()].map((ofAlert) => [...ofAlert.values()].reduce((a, b) => a + b, 0)).sort();
        const high = all.filter(({ signal }) => signal.severity === 'high').length;
        const wanted = [...throttles.map(() => all.length), high].filter((n) => n > 0).sort();
        t.same(sums, wanted);
      },
    ),
    { numRuns: 15, seed: SEED, verbose: true, endOnFailure: true },
  );
});

type Step =
  | { kind: 'signals'; count: number; dies: boolean }
  | { kind: 'wait'; ms: number }
  | { kind: 'send'; dies: boolean }
  | { kind: 'replay' };

async function play(world: AlertWorld, step: Step, all: PlacedSignal[], severities: readonly Signal['severity'][]) {
  const from = { stream: 's', remember: false, ensureHeld: heldFor };
  if (step.kind === 'wait') world.clock.now += step.ms;
  else if (step.kind === 'replay') await world.dispatcher.dispatch(from, all);
  else if (step.kind === 'send') {
    if (!step.dies) return world.settle();
    // Dies after sending and before the result is written: its claims run out.
    const dying = world.another({
      senders: killing(world),
    });
    await dying.look();
    await dying.stop();
    world.clock.now += 30_000;
  } else {
    const entry = `${all.length + 1}-0`;
    const fresh = Array.from({ length: step.count }, (_, i): PlacedSignal => {
      const severity = severities[i % severities.length]!;
      return { signal: makeSignal(world.account, { severity, agent: mintId('agent', i) }), place: `${entry}/${i}` };
    });
    all.push(...fresh);
    const dies = async () => {
      if (step.dies) throw new Error('killed');
    };
    await world.dispatcher.dispatch({ ...from, ensureHeld: dies }, fresh.slice(0, 20)).catch(() => undefined);
    await world.dispatcher.dispatch(from, all);
  }
}

/** Senders that hand over and never come back. */
function killing(world: AlertWorld) {
  const sender = {
    transport: 'https' as const,
    send: async (...args: Parameters<typeof world.targets.send>) => {
      await world.targets.send(...args);
      return new Promise<never>(() => undefined);
    },
  };
  return sendersOf(sender);
}
