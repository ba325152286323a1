// The detail of a match: which condition held, at which place of the payload, with which operator, and never the
// text that was matched. (That places are right on any payload: test/ingest/reference.test.ts, against a plain judge.)

import t from 'tap';
import { Value } from 'typebox/value';
import type { PolicyAction, PolicyType } from '../../schemas/closed-sets.ts';

import { CONDITIONS_OF_EVENT_MAX, CONDITIONS_SHOWN_MAX, MatchDetail } from '../../schemas/match-detail.ts';
import type { Policy } from '../../schemas/policy.ts';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import type { EventView } from '../../src/policy/judgement.ts';
import { evaluated } from '../../src/policy/policy-work.ts';
import { cpuMs, decideOn, event, policy } from './support.ts';

const CALL = event('tool_call', {
  tool: 'send_money',
  arguments: { amount: 2500, note: 'rent for May', tags: ['urgent', 'abroad'], to: [{ iban: 'X1' }, { iban: 'X2' }] },
  log: { 'curl x': 'rm -rf /', deep: [{ command: 'ls' }, { command: 'rm -rf /' }] },
});

function detailOf(
  type: PolicyType,
  conditions: object,
  view: EventView = CALL,
  others: Policy[] = [],
): object | undefined {
  const one = policy(type, conditions);
  const { matches } = decideOn(new RuleSet([one, ...others]), view, [42]);
  const detail = matches.find(({ policy_id }) => policy_id === one.id)?.detail;
  if (detail !== undefined && !Value.Check(MatchDetail, detail))
    throw new Error(`no detail: ${JSON.stringify(detail)}`);
  return detail;
}

t.test('a match names the condition, the operator and the place', async (t) => {
  const rows: [object, object][] = [
    [{ tool: 'send_money' }, { condition: 'tool', operator: 'eq', path: '/tool' }],
    [{ 'payload.tool': ['x', 'send_money'] }, { condition: 'payload.tool', operator: 'in', path: '/tool' }],
    [
      { 'arguments.amount': { gt: 1000 } },
      { condition: 'arguments.amount', operator: 'gt', path: '/arguments/amount' },
    ],
    [{ 'arguments.tags': 'abroad' }, { condition: 'arguments.tags', operator: 'eq', path: '/arguments/tags/1' }],
    [{ 'arguments.to.iban': 'X2' }, { condition: 'arguments.to.iban', operator: 'eq', path: '/arguments/to/1/iban' }],
    [
      { 'arguments.to.0.iban': { ne: 'Y' } },
      { condition: 'arguments.to.0.iban', operator: 'ne', path: '/arguments/to/0/iban' },
    ],
    [{ arguments: { contains: 'rent' } }, { condition: 'arguments', operator: 'contains', path: '/arguments/note' }],
    [{ payload: { matches: 'rm -rf' } }, { condition: 'payload', operator: 'matches', path: '/log/curl x' }],
    [{ 'log.deep': { contains: 'rm' } }, { condition: 'log.deep', operator: 'contains', path: '/log/deep/1/command' }],
    [{ 'log.deep': { exists: true } }, { condition: 'log.deep', operator: 'exists', path: '/log/deep' }],
    [{ missing: { exists: false } }, { condition: 'missing', operator: 'exists', path: '/missing', absent: true }],
    [{ 'a.b/c': { not_in: ['x'] } }, { condition: 'a.b/c', operator: 'not_in', path: '/a/b~1c', absent: true }],
    [{ type: 'tool_call' }, { condition: 'type', operator: 'eq' }],
    [{ trace_id: { ne: 'x' } }, { condition: 'trace_id', operator: 'ne', absent: true }],
    [{}, { every_event: true }],
    [{ expression: 'event.payload.tool == "send_money"' }, { condition: 'expression' }],
    [
      { payload_schema: { properties: { arguments: { properties: { amount: { maximum: 1000 } } } } } },
      { condition: 'payload_schema', path: '/arguments/amount', keyword: 'maximum' },
    ],
    [{ payload_schema: { required: ['reason'] } }, { condition: 'payload_schema', path: '', keyword: 'required' }],
  ];
  for (const [conditions, detail] of rows) {
    t.strictSame(detailOf('block_action', conditions), detail, JSON.stringify(conditions));
    t.strictSame(detailOf('require_approval', { ...conditions, timeout: '5m' }), detail, 'the approver gets the same');
  }
});

t.test('of several conditions all are named; the last that has a place stands on top', async (t) => {
  const conditions = { 'arguments.amount': { gt: 1000, lte: 5000 }, tool: ['pay', 'send_money'], type: 'tool_call' };
  t.strictSame(detailOf('block_action', conditions), {
    condition: 'tool',
    operator: 'in',
    path: '/tool',
    conditions: [
      { condition: 'arguments.amount', operator: 'gt', path: '/arguments/amount' },
      { condition: 'arguments.amount', operator: 'lte', path: '/arguments/amount' },
      { condition: 'tool', operator: 'in', path: '/tool' },
      { condition: 'type', operator: 'eq' },
    ],
  });
  const many = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`missing${i}`, { ne: 'x' }]));
  const detail = detailOf('block_action', many) as { conditions: object[] };
  t.equal(detail.conditions.length, CONDITIONS_SHOWN_MAX, 'so many and no more');
});

t.test('a filter and a limit name their other conditions beside what decided', async (t) => {
  t.strictSame(detailOf('data_filter', { tool: 'send_money', patterns: ['rent'] }), {
    pattern: 0,
    path: '/arguments/note',
    conditions: [{ condition: 'tool', operator: 'eq', path: '/tool' }],
  });
  const limit = { threshold: 3, window: '1m' };
  const counter = { threshold: 3, window_seconds: 60, per: 'agent', retry_after_seconds: 42 };
  t.strictSame(detailOf('rate_limit', limit), counter);
  t.strictSame(detailOf('rate_limit', { ...limit, type: 'tool_call' }), {
    ...counter,
    conditions: [{ condition: 'type', operator: 'eq' }],
  });
  t.strictSame(detailOf('rate_limit', { ...limit, arguments: { contains: 'rent' } }), {
    ...counter,
    conditions: [{ condition: 'arguments', operator: 'contains', path: '/arguments/note' }],
  });
});

t.test('a path never shows what is searched, nor what a filter found', async (t) => {
  const view = event('custom', { notes: { 'secret 1': 'a secret', other: { 'me@example.com': ['rm -rf'] } } });
  t.strictSame(detailOf('block_action', { payload: { contains: 'secret' } }, view), {
    condition: 'payload',
    operator: 'contains',
    path: '/notes/[redacted]',
  });
  const conditions = { payload: { contains: 'rm -rf' } };
  t.match(
    detailOf('block_action', conditions, view),
    { path: '/notes/other/me@example.com/0' },
    'a key like any other',
  );
  const filter = policy('data_filter', { detectors: ['email'] }, ['log']);
  t.match(detailOf('block_action', conditions, view, [filter]), { path: '' }, 'it is a secret where a filter says so');
  const schema = { additionalProperties: { additionalProperties: false } };
  t.strictSame(detailOf('block_action', { payload_schema: schema }, view, [filter]), {
    condition: 'payload_schema',
    keyword: 'additionalProperties',
  });
});

t.test('a place is bounded, and left out where finding it is too much work', async (t) => {
  const long = event('custom', { a: { ['k'.repeat(5_000)]: { '\ud800': 'x'.repeat(2_000) } } });
  const { path } = detailOf('block_action', { a: { contains: 'xx' } }, long) as { path: string };
  t.equal(path, `/a/${'k'.repeat(100)}/\ufffd`);
  const list = Array.from({ length: 120_000 }, (_, i) => ({ n: i }));
  const large = event('custom', { list });
  const rules = new RuleSet([policy('block_action', { 'list.n': { gt: 119_998 } })]);
  const decide = () => decideOn(rules, large).matches[0]!.detail;
  t.strictSame(decide(), { condition: 'list.n', operator: 'gt' }, 'it matches all the same');
  const ms = cpuMs(2, decide);
  t.ok(ms < 50, `${ms.toFixed(1)} ms`);
});

t.test('what matches nothing is not explained', async (t) => {
  const actions: PolicyAction[] = ['block'];
  const rules = new RuleSet([
    policy('block_action', { arguments: { contains: 'not there' } }, actions),
    policy('rate_limit', { threshold: 5, window: '1m', tool: 'send_money' }, actions),
  ]);
  const { found, rateChecks } = judge(rules, CALL);
  t.equal(found.length, 0);
  t.equal(rateChecks.length, 1);
  t.notOk('conditions' in rateChecks[0]!, 'a limit that is not over has no detail');
});

t.test('a rule that does not match says which conditions did not hold', async (t) => {
  const rows: [PolicyType, object, object[]][] = [
    ['block_action', { tool: 'pay' }, [{ condition: 'tool', operator: 'eq' }]],
    [
      'block_action',
      { tool: 'send_money', 'arguments.amount': { gt: 5000 }, 'arguments.reason': { exists: true } },
      [
        { condition: 'arguments.amount', operator: 'gt' },
        { condition: 'arguments.reason', operator: 'exists', absent: true },
      ],
    ],
    [
      'block_action',
      { missing: { gt: 5, exists: true } },
      [
        { condition: 'missing', operator: 'gt', absent: true },
        { condition: 'missing', operator: 'exists', absent: true },
      ],
    ],
    [
      'block_action',
      { 'arguments.tags': { ne: 'x', contains: 'y' } },
      [{ condition: 'arguments.tags', operator: 'contains' }],
    ],
    [
      'block_action',
      { 'arguments.to.iban': { starts_with: 'X', ends_with: '1', ne: 'X1' } },
      [{ condition: 'arguments.to.iban' }],
    ],
    ['block_action', { 'arguments.tags': { exists: false } }, [{ condition: 'arguments.tags', operator: 'exists' }]],
    ['block_action', { arguments: { matches: '^bill' } }, [{ condition: 'arguments', operator: 'matches' }]],
    ['block_action', { type: 'prompt' }, [{ condition: 'type', operator: 'eq' }]],
    ['block_action', { trace_id: 'x' }, [{ condition: 'trace_id', operator: 'eq', absent: true }]],
    ['block_action', { expression: 'event.payload.tool == "pay"' }, [{ condition: 'expression' }]],
    [
      'block_action',
      { expression: 'event.payload.tool == "pay"', tool: 'pay' },
      [{ condition: 'tool', operator: 'eq' }, { condition: 'expression' }],
    ],
    ['require_approval', { payload_schema: { required: ['tool'] } }, [{ condition: 'payload_schema' }]],
    ['rate_limit', { threshold: 1, window: 60, tool: 'pay' }, [{ condition: 'tool', operator: 'eq' }]],
    ['data_filter', { patterns: ['xyz'] }, [{ condition: 'patterns' }]],
    ['data_filter', { patterns: ['xyz'], detectors: ['jwt'] }, [{ condition: 'patterns' }, { condition: 'detectors' }]],
    ['data_filter', { detectors: ['jwt'], tool: 'pay' }, [{ condition: 'tool', operator: 'eq' }]],
  ];
  for (const [type, conditions, unmet] of rows) {
    const { judged } = evaluated({ policies: [policy(type, conditions)], event: CALL, isAgentOff: false });
    t.match(judged, [{ result: 'not_matched' }], JSON.stringify(conditions));
    t.same(judged[0]!.unmet, unmet, JSON.stringify(conditions));
  }
  const held = [policy('block_action', {}), policy('rate_limit', { threshold: 1, window: 60 })];
  const { judged } = evaluated({ policies: held, event: CALL, isAgentOff: false });
  t.same(
    judged.map(({ result, unmet }) => [result, unmet]),
    [
      ['matched', undefined],
      ['counted', undefined],
    ],
  );
  const many = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`payload.f${i}`, 'x']));
  const {
    judged: [longest],
  } = evaluated({ policies: [policy('block_action', many)], event: CALL, isAgentOff: false });
  t.equal(longest!.unmet!.length, CONDITIONS_SHOWN_MAX);
});

t.test('the conditions that all matches of an event name are bounded, and each still says what decided', async (t) => {
  const conditions = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`m${i}`, { exists: true }]));
  const members = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`m${i}`, i]));
  const rules = new RuleSet(Array.from({ length: 250 }, () => policy('block_action', conditions)));
  const { found } = judge(rules, event('custom', members));
  t.equal(found.length, 250);
  const listed = found.filter(({ detail }) => 'conditions' in detail);
  t.equal(listed.length, CONDITIONS_OF_EVENT_MAX / CONDITIONS_SHOWN_MAX);
  t.ok(found.every(({ detail }) => (detail as { path?: string }).path === '/m19'));
});
