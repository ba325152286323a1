// The pure parts of alerts: which signals an event raises, which alerts a signal is for, throttle windows, retries,
// breakers.

import fc from 'fast-check';
import t from 'tap';
import { matches } from '../../pipelines/alert/alert-filter.ts';
import type { AttemptResult } from '../../pipelines/alert/channel.ts';
import {
  BREAKER_FAILURES,
  BREAKER_OPEN_MS,
  Breakers,
  nextAttemptAt,
  RETRY_MS,
} from '../../pipelines/alert/schedule.ts';
import { raisesSignals, signalsOf } from '../../pipelines/alert/signals-of.ts';
import { close, SATURATED_WINDOW_MS, take, type Window } from '../../pipelines/alert/throttle.ts';
import type { AlertRecord } from '../../schemas/alert.ts';
import { SEVERITIES } from '../../schemas/closed-sets.ts';

import type { EventSummary, MatchSummary } from '../../schemas/entry.ts';
import { hashedId, isId, mintId, momentOfId, timeOfId } from '../../src/common/ids.ts';
import { laneOf } from '../../src/registry/alerts/deliveries.ts';
import { SEED } from '../support/seed.ts';
import { makeSignal } from './alert-harness.ts';

const ACCOUNT = mintId('account', 1_763_640_000_000);
const AGENT = mintId('agent', 1_763_640_000_000);

function event(matches: MatchSummary[], part: Partial<EventSummary> = {}): EventSummary {
  return {
    account: ACCOUNT,
    agent: AGENT,
    id: mintId('event', 1_763_640_000_000),
    type: 'tool_call',
    occurredAt: 1_763_640_000_000,
    receivedAt: 1_763_640_001_000,
    outcome: 'blocked',
    matches,
    rowBytes: 1,
    ...part,
  };
}

function match(part: Partial<MatchSummary> = {}): MatchSummary {
  return { policy_id: 'pol_1', name: 'no payments', type: 'block_action', actions: ['block'], severity: null, ...part };
}

t.test('one policy_violation per event, of the highest severity among the matches that interrupt', async (t) => {
  const one = (matches: MatchSummary[]) => signalsOf(event(matches)).map(({ signal }) => signal);
  t.same(one([]), []);
  t.same(one([match({ actions: ['log'] })]), [], 'a match that only logs is a dry run');
  t.equal(one([match()])[0]!.severity, 'high', 'block without a severity');
  t.equal(one([match({ actions: ['alert'] })])[0]!.severity, 'medium', 'alert without a severity');
  t.equal(one([match({ actions: ['alert', 'log'], severity: 'low' })])[0]!.severity, 'low', "the policy's own");
  const several = one([
    match({ severity: 'low' }),
    match({ policy_id: 'pol_2', severity: 'critical', actions: ['alert'] }),
    match({ policy_id: 'pol_3', actions: ['log'], severity: 'critical' }),
  ]);
  t.equal(several.length, 1);
  t.match(several[0], {
    severity: 'critical',
    policies: [{ id: 'pol_1' }, { id: 'pol_2' }],
    trigger: 'policy_violation',
  });
  t.equal(several[0]!.policies!.length, 2, 'the dry run is left out');
  const many = one(Array.from({ length: 200 }, (_, i) => match({ policy_id: `pol_${i}`, name: 'é'.repeat(200) })));
  t.match(many[0]!.message, /and 199 others/);
  t.ok(Buffer.byteLength(JSON.stringify(many)) < 12_000, 'a delivery that waits holds it');
});

t.test('what was reported after the fact is said not to be prevented', async (t) => {
  const messageOf = (part: Partial<EventSummary>) => signalsOf(event([match()], part))[0]!.signal.message;
  t.match(messageOf({}), /blocked an event/);
  t.match(messageOf({ observed: true }), /matched an event that it could not prevent/);
});

t.test('a signal follows from its event alone', async (t) => {
  const one = event([match({ type: 'rate_limit', limit: { counter: 'c', windowMs: 60_000 } })], { traceId: 'tr-1' });
  t.same(signalsOf(one), signalsOf(structuredClone(one)));
  const [violation, limit] = signalsOf(one);
  t.match(violation!.signal, {
    id: `policy_violation/${one.id}`,
    account: ACCOUNT,
    agent: AGENT,
    at: one.receivedAt,
    event: { id: one.id, type: 'tool_call', occurredAt: one.occurredAt, traceId: 'tr-1' },
  });
  t.match(limit, {
    signal: { trigger: 'rate_limit_exceeded', severity: 'medium', id: `rate_limit_exceeded/${one.id}/pol_1` },
    limit: { counter: 'c', windowMs: 60_000 },
  });
  t.equal(raisesSignals(one), true);
  t.equal(raisesSignals(event([match({ actions: ['log'] })])), false);
});

t.test('a call that does not fit into a budget exhausts it, one whose cost is unknown does not', async (t) => {
  const limit = { counter: 'c', windowMs: 60_000 };
  const [, exhausted] = signalsOf(event([match({ type: 'budget', limit })]));
  t.match(exhausted, { signal: { trigger: 'budget_exhausted', message: /does not fit into budget/ }, limit });
  t.equal(signalsOf(event([match({ type: 'budget' })])).length, 1);
});

t.test('which alerts a signal is for', async (t) => {
  const base = { status: 'active', trigger: 'policy_violation', agent_id: null, conditions: {} } as AlertRecord;
  const signal = makeSignal(ACCOUNT, { agent: AGENT, severity: 'medium' });
  const other = mintId('agent', 0);
  const table: [string, Partial<AlertRecord>, boolean][] = [
    ['no conditions', {}, true],
    ['inactive', { status: 'inactive' }, false],
    ['another trigger', { trigger: 'agent_down' }, false],
    ['scoped to the agent', { agent_id: AGENT, conditions: { agent_id: AGENT } }, true],
    ['scoped to another', { agent_id: other, conditions: { agent_id: other } }, false],
    ['severity below', { conditions: { severity: 'low' } }, true],
    ['severity equal', { conditions: { severity: 'medium' } }, true],
    ['severity above', { conditions: { severity: 'high' } }, false],
    ['scoped and too low', { agent_id: AGENT, conditions: { agent_id: AGENT, severity: 'critical' } }, false],
  ];
  for (const [name, part, expected] of table) t.equal(matches({ ...base, ...part }, signal), expected, name);
  const ofNobody = makeSignal(ACCOUNT, { agent: null });
  t.equal(matches({ ...base, agent_id: AGENT }, ofNobody), false, 'a signal about no agent is not about this one');
  for (const [i, wanted] of SEVERITIES.entries()) {
    for (const [j, severity] of SEVERITIES.entries()) {
      t.equal(matches({ ...base, conditions: { severity: wanted } }, makeSignal(ACCOUNT, { severity })), j >= i);
    }
  }
});

t.test('every signal is notified at once or in exactly one summary, whatever comes when', async (t) => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('signal' as const), isSaturated: fc.boolean() }),
    fc.record({
      kind: fc.constant('wait' as const),
      ms: fc.integer({ min: 0, max: 200_000 }),
      isSaturated: fc.boolean(),
    }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.constantFrom(0, 30_000, 90_000), (steps, windowMs) => {
      let now = 1_000_000;
      let window: Window | undefined;
      let [notified, came, lastNotifiedMs] = [0, 0, Number.NEGATIVE_INFINITY];
      const notify = (count: number, spaced: boolean) => {
        if (spaced && now - lastNotifiedMs < windowMs) throw new Error('notified twice inside one window');
        notified += count;
        lastNotifiedMs = now;
      };
      const flush = (isSaturated: boolean) => {
        if (window === undefined || window.count === 0 || window.until > now) return;
        const closed = close(window, { windowMs, isSaturated, now });
        window = closed.window;
        if (closed.summary !== undefined) notify(closed.summary.count, true);
      };
      for (const one of steps) {
        if (one.kind === 'wait') {
          now += one.ms;
          flush(one.isSaturated);
          continue;
        }
        came++;
        const taken = take(window, makeSignal(ACCOUNT), { windowMs, isSaturated: one.isSaturated, now });
        window = taken.window;
        if (taken.isNotified) notify(1, true);
      }
      now += 10 * SATURATED_WINDOW_MS;
      flush(false);
      return notified === came;
    }),
    { seed: SEED, verbose: true },
  );
  t.pass('seen in random runs');
});

t.test('retries come with jitter, never after the end, and not more than ten attempts', async (t) => {
  const now = 1_000_000;
  const far = { now, endsAt: Number.MAX_SAFE_INTEGER };
  for (const [i, wait] of RETRY_MS.entries()) {
    t.equal(nextAttemptAt(i + 1, far, () => 0)! - now, wait * 0.9);
    t.equal(nextAttemptAt(i + 1, far, () => 1)! - now, Math.round(wait * 1.1));
  }
  t.equal(
    nextAttemptAt(10, far, () => 0.5),
    null,
  );
  t.equal(
    nextAttemptAt(1, { now, endsAt: now + 4_000 }, () => 0.5),
    null,
  );
  t.equal(nextAttemptAt(1, { ...far, retryAfterMs: 90_000 }, () => 0.5)! - now, 90_000);
  t.equal(nextAttemptAt(2, { ...far, retryAfterMs: 90_000 }, () => 0.5)! - now, RETRY_MS[1]);
});

t.test(
  'a breaker opens, asks, and closes: of a target for what it does, of a host where none can connect',
  async (t) => {
    const breakers = new Breakers();
    const free = Number.POSITIVE_INFINITY;
    const name = (target: string, account = 'acc') =>
      `${account}/${laneOf('webhook', `https://hooks.example/${target}`)}`;
    const [a, b, c] = [name('a'), name('b'), name('c', 'other')];
    const answered = (statusCode: number): AttemptResult => ({ outcome: 'retry', statusCode, error: 'status' });
    const hangs: AttemptResult = { outcome: 'retry', statusCode: null, error: 'timeout' };
    const away: AttemptResult = { outcome: 'retry', statusCode: null, error: 'refused', reached: false };

    for (const fails of [answered(400), answered(404), answered(429), answered(302), answered(503), hangs]) {
      for (let i = 0; i < BREAKER_FAILURES - 1; i++) breakers.note(a, fails, 0);
      t.equal(breakers.places(a, 0), free);
      t.ok(breakers.isFailing(a));
      breakers.note(a, fails, 0);
      t.equal(breakers.places(a, BREAKER_OPEN_MS - 1), 0);
      t.equal(breakers.openUntil(a, 0), BREAKER_OPEN_MS);
      t.same([breakers.places(b, 0), breakers.places(c, 0)], [free, free], 'another target of the host');
      t.notOk(breakers.isFailing(b));
      t.equal(breakers.places(a, BREAKER_OPEN_MS), 1);
      t.notOk(breakers.isHostProbed(a, BREAKER_OPEN_MS));
      breakers.note(a, fails, BREAKER_OPEN_MS);
      t.equal(breakers.places(a, BREAKER_OPEN_MS), 0, 'open again');
      breakers.note(a, { outcome: 'delivered', statusCode: 204, error: null }, 0);
      t.equal(breakers.places(a, 0), free, 'taken');
    }

    for (let i = 0; i < BREAKER_FAILURES; i++) breakers.note(i % 2 === 0 ? a : b, away, 0);
    t.same([breakers.places(a, 0), breakers.places(b, 0), breakers.places(c, 0)], [0, 0, 0], 'none gets through');
    t.equal(breakers.openUntil(c, 0), BREAKER_OPEN_MS);
    t.ok(breakers.isHostProbed(c, BREAKER_OPEN_MS));
    breakers.note(a, answered(500), BREAKER_OPEN_MS);
    t.equal(breakers.places(c, BREAKER_OPEN_MS), free, 'any answer shows that it lives');

    const mail = (box: string) => `acc/${laneOf('email', box)}`;
    for (let i = 0; i < 10; i++) breakers.note(mail('full@example.com'), answered(452), 0);
    t.equal(
      breakers.places(mail('other@example.com'), 0),
      free,
      'a mail server that answers is alive, whatever it says of one box',
    );
    for (let i = 0; i < 5; i++) breakers.note(mail(`${i}@example.com`), away, 0);
    t.equal(breakers.places(mail('other@example.com'), 0), 0);
  },
);

t.test('a derived id is well formed, sorts by its time, and is the same again', async (t) => {
  const moment = { ms: 1_763_640_000_000, slot: 12_345 };
  const id = hashedId('delivery', moment, 'alr_1/evt_1');
  t.ok(isId('delivery', id));
  t.same(momentOfId(id), moment);
  t.equal(timeOfId(id), moment.ms);
  t.equal(id, hashedId('delivery', moment, 'alr_1/evt_1'));
  t.not(id, hashedId('delivery', moment, 'alr_1/evt_2'));
  t.ok(id < hashedId('delivery', { ...moment, slot: 12_346 }, 'alr_1/evt_1'));
});
