// Replaying a sequence over stored events says, event by event, what the engine would have said with the sequence in
// force from the beginning: random sequences beside other policies, gone on with from what was kept at any moment. And
// what is said of events that waited for an approval, or of which something was redacted.
import fc from 'fast-check';
import t from 'tap';
import type { PolicyAction } from '../../schemas/closed-sets.ts';
import type { JsonObject } from '../../schemas/common.ts';
import type { PolicyResult } from '../../schemas/event.ts';
import type { Policy } from '../../schemas/policy.ts';
import { parseExact } from '../../src/common/exact-json.ts';
import { RuleSet } from '../../src/policy/engine.ts';
import type { Decision, EventView } from '../../src/policy/judgement.ts';
import { PolicyReplay, type Replayed, type ReplayedEvent } from '../../src/policy/replay/policy-replay.ts';
import { JudgingInOrder } from '../../src/policy/sequences/judged-in-order.ts';
import { runs, SEED as seed } from '../support/seed.ts';
import { AGENT, event, policy } from './support.ts';

const BEGIN = Date.UTC(2026, 10, 20);
const [READ, CARD, PAY] = [
  { tool: 'read' },
  { detectors: ['credit_card' as const] },
  { 'payload.arguments.amount': { gt: 50 } },
];

const anyStep = fc.constantFrom(READ, CARD, PAY, { tool: 'pay', outcome: 'any' }, { tool: ['send', 'read'] });
const anySequence = fc
  .record({
    tool: fc.constantFrom('pay', 'send', ['pay', 'read']),
    after: fc.option(fc.array(anyStep, { minLength: 1, maxLength: 3 }), { nil: undefined }),
    unless: fc.option(fc.constantFrom(READ, { tool: 'send' }), { nil: undefined, freq: 2 }),
    within: fc.constantFrom('20s', '1m', '1h'),
    per: fc.constantFrom('trace', 'agent', 'account', 'payload.arguments.to'),
    same: fc.option(fc.constant({ 'payload.arguments.to': 'payload.arguments.to' }), { nil: undefined }),
    at_least: fc.option(fc.constantFrom(2, 3), { nil: undefined, freq: 4 }),
  })
  .filter(({ after, unless, at_least: atLeast }) => (after ?? unless) !== undefined && (after ?? !atLeast) !== false)
  .map((conditions) => JSON.parse(JSON.stringify(conditions)) as object);
const anyActions = fc.constantFrom<PolicyAction[]>(['block'], ['log'], ['alert', 'block']);
const OTHERS = [
  policy('block_action', { tool: 'pay', 'payload.arguments.amount': { gt: 90 } }, ['block']),
  policy('require_approval', { tool: 'send', 'payload.arguments.amount': { gt: 70 } }, ['block']),
];
const anyEvents = fc.array(
  fc
    .record({
      tool: fc.constantFrom('read', 'pay', 'send'),
      amount: fc.integer({ min: 0, max: 99 }),
      to: fc.constantFrom('a', 'b', undefined),
      text: fc.constantFrom('nothing', 'card 4111 1111 1111 1111'),
      trace: fc.constantFrom('t1', 't2', undefined),
      step: fc.constantFrom(0, 1_000, 15_000, 61_000),
    })
    .map(({ tool, amount, to, text, trace, step }) => ({
      view: event(
        'tool_call',
        { tool, arguments: to === undefined ? { amount } : { amount, to }, text },
        { trace_id: trace },
      ),
      step,
    })),
  { minLength: 1, maxLength: 25 },
);

/** As it is stored without the sequence. */
function storedOf(view: EventView, at: { id: string; ms: number }, { outcome, resultJson }: Decision): ReplayedEvent {
  const { agent, ...seen } = view;
  const result = JSON.parse(resultJson) as PolicyResult;
  return {
    ...{ id: at.id, agentId: view.agent_id, requestId: at.id, receivedMs: at.ms, outcome, reason: result.reason ?? '' },
    ...{ result, view: seen },
  };
}

type Came = { stored: ReplayedEvent; with: Decision };

/** The events as stored without the sequence, each with the decision that it would have got with it. */
function came(tried: Policy, events: readonly { view: EventView; step: number }[]): Came[] {
  const [without, withIt] = [OTHERS, [...OTHERS, tried]].map((policies) => new JudgingInOrder(new RuleSet(policies)));
  let ms = BEGIN;
  return events.map(({ view, step }, i) => {
    ms += step;
    const at = { id: `evt_${i}`, ms };
    const dated = { ...view, timestamp: new Date(ms).toISOString() };
    return {
      stored: storedOf(dated, at, without!.next(dated, at.id).decision),
      with: withIt!.next(dated, at.id).decision,
    };
  });
}

t.test('as the engine with the sequence in force, whenever it goes on from what was kept', (t) => {
  const seen: Record<string, number> = {};
  fc.assert(
    fc.property(anySequence, anyActions, anyEvents, fc.nat(25), (conditions, actions, events, cut) => {
      const tried = policy('sequence', conditions, actions);
      const of = { tried, replaces: null, inForce: null };
      let replay = new PolicyReplay(of);
      return came(tried, events).every(({ stored, with: decision }, i) => {
        if (i === cut) replay = new PolicyReplay(of, JSON.parse(JSON.stringify(replay.kept())));
        const { now, matched, detail } = replay.next(stored, AGENT);
        seen[`${now} ${matched}`] = (seen[`${now} ${matched}`] ?? 0) + 1;
        const match = decision.matches.find(({ policy_id: id }) => id === tried.id);
        return (
          now === decision.outcome &&
          matched === (match !== undefined) &&
          JSON.stringify(detail) === JSON.stringify(match?.detail)
        );
      });
    }),
    { seed, numRuns: runs(1_500) },
  );
  t.comment(seen);
  for (const kind of ['allowed false', 'allowed true', 'blocked true', 'pending false'])
    t.ok((seen[kind] ?? 0) > 0, kind);
  t.end();
});

const tool = (name: string, more: object = {}) => event('tool_call', { tool: name, ...more });
const replayed = (conditions: object) =>
  new PolicyReplay({ tried: policy('sequence', conditions, ['block']), replaces: null, inForce: null });
const told = ({ now, matched, why }: Replayed) => [now, matched, ...(why === undefined ? [] : [why])];

/** `seconds` from the beginning. */
function at(seconds: number, view: EventView, more: Partial<ReplayedEvent> = {}): ReplayedEvent {
  const { agent, ...seen } = view;
  const result = { outcome: more.outcome ?? 'allowed', reason: null, policy_id: null, matches: [] };
  const id = `evt_${seconds}`;
  const of = { id, agentId: view.agent_id, requestId: id, receivedMs: BEGIN + 1_000 * seconds };
  return { ...of, outcome: 'allowed', reason: '', result, view: seen, ...more };
}

t.test('what waited for an approval has occurred when it was approved', (t) => {
  const asks = policy('require_approval', { tool: 'approve' }, ['block']);
  const { id, revision, name, type, actions, severity } = asks;
  const matches = [{ ...{ policy_id: id, revision, name, type, actions, severity }, detail: {} }];
  const result = { outcome: 'pending', reason: 'policy', policy_id: id, matches } as unknown as PolicyResult;
  const asked = (more: object) => at(0, tool('approve'), { outcome: 'pending', result, ...more });
  const conditions = { tool: 'pay', unless: { tool: 'approve' }, within: '1m' };
  for (const [approvedMs, outcomes] of [
    [undefined, ['blocked', 'blocked', 'blocked']],
    [BEGIN + 20_000, ['blocked', 'allowed', 'blocked']],
  ] as const) {
    const replay = replayed(conditions);
    t.equal(replay.next(asked({ approvedMs }), AGENT).now, 'pending');
    const said = [10, 30, 90].map((seconds) => replay.next(at(seconds, tool('pay')), AGENT));
    t.same(
      said.map(({ now }) => now),
      outcomes,
    );
    t.match(said[0]!.detail, { reason: 'not_finished', waits_for: 'evt_0' });
  }
  t.end();
});

t.test('where something that was redacted may be a step, it is not known for a window', (t) => {
  const filter = policy('data_filter', { detectors: ['credit_card'], redact: true }, ['log']);
  const { id, revision, name, type, actions, severity } = filter;
  const matches = [{ ...{ policy_id: id, revision, name, type, actions, severity }, detail: {} }];
  const result = { outcome: 'allowed', reason: null, policy_id: null, matches } as unknown as PolicyResult;
  const redacted = (seconds: number, view: EventView) => at(seconds, view, { result });
  const secret = { text: 'card [redacted:credit_card]' };
  const conditions = { tool: 'send', after: [{ text: { contains: '4111' } }], within: '1m' };
  const replay = replayed(conditions);
  t.same(told(replay.next(at(0, tool('send')), AGENT)), ['allowed', false]);
  t.same(told(replay.next(redacted(1, tool('read', secret)), AGENT)), ['allowed', false], 'no sink by itself');
  t.same(told(replay.next(at(2, tool('send')), AGENT)), ['unknown', null, 'redacted_condition']);
  t.same(told(replay.next(at(3, tool('look')), AGENT)), ['allowed', false]);
  t.same(told(replay.next(at(70, tool('send')), AGENT)), ['allowed', false], 'the window is over');

  const kept = replayed({ tool: 'send', after: [{ tool: 'read' }], within: '1m' });
  kept.next(redacted(0, tool('read', secret)), AGENT);
  t.same(told(kept.next(at(1, tool('send')), AGENT)), ['blocked', true], 'it was redacted where nothing is asked');
  t.same(told(kept.next(redacted(2, tool('send', secret)), AGENT)), ['blocked', true]);
  t.end();
});

const seenOf = (payload: object) => parseExact(JSON.stringify(payload)) as JsonObject;
t.test('more of it than a backtest keeps ends it', (t) => {
  const tried = policy('sequence', { tool: 'pay', after: [{}], within: '1d', per: 'payload.to' }, ['log']);
  const replay = new PolicyReplay({ tried, replaces: null, inForce: null });
  for (let i = 0; i < 12_000; i++) {
    const view = tool('x');
    replay.next(at(i / 1_000, { ...view, payload: seenOf({ tool: 'x', to: String(i) }) }), AGENT);
  }
  const last = replay.next(at(20, tool('pay', { to: 'one more' })), AGENT);
  t.match(last.detail, { reason: 'budget' }, 'as live: scopes beyond the bound count as having occurred');
  t.ok(JSON.stringify(replay.kept()).length < 16 * 1024 * 1024);
  t.end();
});
