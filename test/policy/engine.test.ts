// Judging and deciding: conditions, outcomes, details, expressions, schemas, and what is refused when a policy is
// created.

import fc from 'fast-check';
import t from 'tap';
import type { PolicyAction, PolicyType } from '../../schemas/closed-sets.ts';
import { checkPolicy } from '../../src/policy/compile.ts';
import { agentInactive, decide } from '../../src/policy/decide.ts';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import { ALLOWED } from '../../src/policy/judgement.ts';
import { PolicyError } from '../../src/policy/policy-error.ts';
import { prepareRules } from '../../src/policy/prepare-rules.ts';
import { fieldHolds } from '../reference/judge.ts';
import { runs, SEED } from '../support/seed.ts';
import { AGENT, cpuMs, decideOn, event, matches, policy } from './support.ts';

const SEND = event('tool_call', {
  tool: 'send_money',
  arguments: { recipient: 'US133000000121212121212', amount: 250.5, tags: ['urgent', 'abroad'] },
  attempts: [
    { status: 'error', code: 500 },
    { status: 'ok', code: 200 },
  ],
  nothing: null,
  empty: [],
});

t.test('a condition holds as section 6.1 says', async (t) => {
  const cases: [object, boolean][] = [
    [{}, true],
    [{ type: 'tool_call' }, true],
    [{ type: ['prompt', 'completion'] }, false],
    [{ tool: 'send_money' }, true],
    [{ 'payload.tool': 'send_money' }, true],
    [{ tool: 'SEND_MONEY' }, false],
    [{ tool: ['x', 'send_money'] }, true],
    [{ agent_id: AGENT.id }, true],
    [{ trace_id: 'x' }, false],
    [{ trace_id: { exists: false } }, true],
    [{ 'arguments.amount': 250.5 }, true],
    [{ 'arguments.amount': '250.5' }, false],
    [{ 'arguments.amount': { gt: 250, lte: 250.5 } }, true],
    [{ 'arguments.amount': { gt: 250.5 } }, false],
    [{ 'arguments.recipient': { gt: 1 } }, true],
    [{ 'payload.arguments.recipient': { starts_with: 'US', ends_with: '1212', contains: '3000' } }, true],
    [{ 'payload.arguments.recipient': { matches: '^US[0-9]+$' } }, true],
    [{ 'arguments.tags': 'abroad' }, true],
    [{ 'arguments.tags': { ne: 'abroad' } }, true],
    [{ 'arguments.tags': { not_in: ['urgent', 'abroad'] } }, false],
    [{ 'attempts.status': 'ok' }, true],
    [{ 'attempts.0.status': 'ok' }, false],
    [{ 'attempts.1.status': 'ok' }, true],
    [{ 'attempts.2.status': { exists: true } }, false],
    [{ 'attempts.code': { gt: 300, lt: 400 } }, false],
    [{ 'attempts.code': { gt: 300, lt: 600 } }, true],
    [{ attempts: { contains: 'erro' } }, true],
    [{ payload: { contains: 'abroad' } }, true],
    [{ payload: { contains: 'recipient' } }, false],
    [{ nothing: null }, true],
    [{ nothing: { exists: true } }, true],
    [{ missing: null }, false],
    [{ missing: { exists: false } }, true],
    [{ missing: { ne: 'x' } }, true],
    [{ missing: { not_in: ['x'] } }, true],
    [{ missing: { exists: true, ne: 'x' } }, false],
    [{ missing: { ne: 'x', contains: 'y' } }, false],
    [{ empty: { exists: true } }, true],
    [{ empty: 'x' }, false],
    [{ tool: 'send_money', 'arguments.amount': { lt: 10 } }, false],
    [{ 'payload.toString': { exists: true } }, false],
    [{ 'payload.__proto__': { exists: true } }, false],
    [{ 'payload.constructor.name': { exists: true } }, false],
  ];
  for (const [conditions, expected] of cases) {
    t.equal(matches('block_action', conditions, SEND), expected, JSON.stringify(conditions));
  }
});

t.test('keys that are no plain words are data like any other', async (t) => {
  const view = event(
    'custom',
    '{"__proto__": {"admin": true}, "constructor": {"name": "x"}, "toString": 1, "\\u0074ool": "rm"}',
  );
  t.ok(matches('block_action', { 'payload.__proto__.admin': true }, view));
  t.ok(matches('block_action', { 'payload.constructor.name': 'x' }, view));
  t.ok(matches('block_action', { toString: 1 }, view));
  t.ok(matches('block_action', { tool: 'rm' }, view), 'escapes in keys are decoded');
  t.ok(matches('block_action', { expression: 'event.payload.constructor.name == "x"' }, view));
});

t.test('a tool that hides in an array is still the tool', async (t) => {
  t.ok(matches('block_action', { tool: 'rm' }, event('tool_call', { tool: ['ls', 'rm'] })));
  t.notOk(matches('block_action', { tool: 'rm' }, event('tool_call', { tool: { name: 'rm' } })));
});

// -- against a slow and plain reference

type Value = null | boolean | number | string | Value[] | { [key: string]: Value };

t.test('conditions agree with a plain reading of the rules on any payload', async (t) => {
  const keys = fc.constantFrom('a', 'b', '0', '1', '__proto__', 'constructor', 'tool');
  const scalar = fc.constantFrom<Value>(null, true, 0, 1, 2, 'x', 'xy', '');
  const value = fc.letrec<{ value: Value }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small', maxDepth: 4 },
      scalar,
      fc.array(tie('value'), { maxLength: 3 }),
      fc.array(fc.tuple(keys, tie('value')), { maxLength: 3 }).map((pairs) => JSON.parse(objectText(pairs)) as Value),
    ),
  })).value;
  const operators = fc.oneof(
    fc.record({ eq: scalar }),
    fc.record({ ne: scalar }),
    fc.record({ in: fc.array(scalar, { minLength: 1, maxLength: 3 }) }),
    fc.record({ not_in: fc.array(scalar, { minLength: 1, maxLength: 3 }) }),
    fc.record({ gt: fc.constantFrom(0, 1), lte: fc.constantFrom(1, 2) }),
    fc.record({ contains: fc.constantFrom('x', 'y') }),
    fc.record({ starts_with: fc.constantFrom('x', 'y'), ne: scalar }),
    fc.record({ exists: fc.boolean() }),
    fc.record({ exists: fc.constant(true), ne: scalar }),
  );
  const path = fc.array(keys, { minLength: 1, maxLength: 3 });
  fc.assert(
    fc.property(fc.array(fc.tuple(keys, value), { maxLength: 4 }), path, operators, (pairs, segments, wanted) => {
      const view = event('custom', objectText(pairs));
      const key = `payload.${segments.join('.')}`;
      return matches('block_action', { [key]: wanted }, view) === fieldHolds(key, wanted, view);
    }),
    { seed: SEED, numRuns: runs(4000) },
  );
  t.pass();
});

/** JSON text of an object whose keys may be `__proto__`. The last of two equal keys stays. */
function objectText(pairs: [string, Value][]): string {
  return `{${[...new Map(pairs)].map(([key, value]) => `${JSON.stringify(key)}:${jsonText(value)}`).join()}}`;
}

function jsonText(value: Value): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(jsonText).join()}]`;
  return objectText(Object.entries(value));
}

t.test('an index by agent, type and tool changes no judgement', async (t) => {
  const agents = [AGENT.id, 'agt_01jd00000000000000000000bb'];
  const tool = fc.constantFrom('ls', 'rm', 'cat');
  const type = fc.constantFrom('prompt', 'tool_call');
  const conditions = fc.record(
    {
      type: fc.oneof(type, fc.array(type, { minLength: 1, maxLength: 2 })),
      tool: fc.oneof(tool, fc.record({ in: fc.array(tool, { minLength: 1, maxLength: 2 }) }), fc.record({ ne: tool })),
    },
    { requiredKeys: [] },
  );
  const made = fc.record({ conditions, agent_id: fc.constantFrom(null, ...agents) });
  fc.assert(
    fc.property(
      fc.array(made, { maxLength: 12 }),
      type,
      fc.oneof(tool, fc.array(tool, { maxLength: 2 }), fc.constant(7)),
      fc.constantFrom(...agents),
      (all, eventType, tools, agent) => {
        const policies = all.map(({ conditions: given, agent_id }) =>
          policy('block_action', given, ['alert'], { agent_id }),
        );
        const view = event(eventType as 'prompt', { tool: tools }, { agent_id: agent });
        const together = decideOn(new RuleSet(policies), view).matches.map((match) => match.policy_id);
        const alone = policies
          .filter(({ agent_id }) => agent_id === null || agent_id === agent)
          .filter((one) => decideOn(new RuleSet([{ ...one, agent_id: null }]), view).matches.length > 0)
          .map(({ id }) => id);
        return JSON.stringify(together) === JSON.stringify(alone);
      },
    ),
    { seed: SEED, numRuns: runs(1000) },
  );
  t.pass();
});

// -- outcomes

t.test('an outcome follows from type and actions alone', async (t) => {
  const always: Record<Exclude<PolicyType, 'sequence' | 'external_check' | 'budget'>, object> = {
    block_action: {},
    require_approval: {},
    data_filter: { patterns: ['send'] },
    rate_limit: { threshold: 1, window: '1m' },
  };
  const rows: [PolicyAction[], string, string][] = [
    [['block'], 'blocked', 'pending'],
    [['block', 'alert'], 'blocked', 'pending'],
    [['block', 'log'], 'blocked', 'pending'],
    [['alert'], 'allowed', 'pending'],
    [['alert', 'log'], 'allowed', 'pending'],
    [['log'], 'allowed', 'allowed'],
  ];
  for (const type of Object.keys(always) as (keyof typeof always)[]) {
    for (const [actions, outcome, ofApproval] of rows) {
      const one = policy(type, always[type], actions);
      const decision = decideOn(new RuleSet([one]), SEND, [42]);
      const expected = type === 'require_approval' ? ofApproval : outcome;
      t.equal(decision.outcome, expected, `${type} ${actions}`);
      t.equal(decision.reason, expected === 'allowed' ? null : 'policy');
      t.equal(decision.policyId, expected === 'allowed' ? null : one.id);
      t.equal('approvalId' in decision, expected === 'pending');
      t.equal(decision.matches.length, 1, 'a match is listed, whatever it did');
      t.strictSame(JSON.parse(decision.resultJson), {
        outcome: decision.outcome,
        reason: decision.reason,
        policy_id: decision.policyId,
        matches: decision.matches,
        ...(decision.approvalId === undefined ? {} : { approval_id: decision.approvalId }),
      });
    }
  }
});

t.test(
  'blocked beats pending beats allowed; the first that decides is named, matches stand in order of creation',
  async (t) => {
    const ask = policy('require_approval', {});
    const tell = policy('block_action', {}, ['alert'], { severity: 'low' });
    const first = policy('data_filter', { patterns: ['send'] }, ['block'], { severity: 'high', name: 'say "no"' });
    const second = policy('block_action', { tool: 'send_money' });
    const limit = policy('rate_limit', { threshold: 3, window: 60, per: 'payload.tool' });
    const rules = new RuleSet([limit, second, first, tell, ask]);
    t.equal(rules.size, 5);
    const decision = decideOn(rules, SEND, [42]);
    t.equal(decision.outcome, 'blocked');
    t.equal(decision.policyId, first.id);
    t.equal(decision.approvalId, undefined, 'a blocked event asks for no approval');
    t.strictSame(
      decision.matches.map(({ policy_id }) => policy_id),
      [ask.id, tell.id, first.id, second.id],
      'a blocked event takes no permit',
    );
    t.strictSame(decision.matches[2], {
      policy_id: first.id,
      revision: 1,
      name: 'say "no"',
      type: 'data_filter',
      actions: ['block'],
      severity: 'high',
      detail: { pattern: 0, path: '/tool' },
    });
    t.equal(decideOn(new RuleSet([tell, ask]), SEND).outcome, 'pending');
  },
);

t.test('a pending event waits on the terms of the policy that decided, the first of several', async (t) => {
  const first = policy('require_approval', { timeout: '5m', on_timeout: 'approve' });
  const second = policy('require_approval', { timeout: '1d' });
  const plain = policy('require_approval', {});
  const decision = decideOn(new RuleSet([second, first]), SEND);
  t.equal(decision.policyId, first.id);
  t.match(decision.approval, { timeoutSeconds: 300, onTimeout: 'approve' });
  t.match(decideOn(new RuleSet([plain]), SEND).approval, { timeoutSeconds: 3_600, onTimeout: 'deny' });
  t.equal(decideOn(new RuleSet([first, policy('block_action', {})]), SEND).approval, undefined);
});

t.test('where nothing matches nothing is made', async (t) => {
  const rules = new RuleSet([
    policy('block_action', { tool: 'rm' }),
    policy('data_filter', { patterns: ['zzz'] }),
    policy('block_action', { type: 'prompt' }),
  ]);
  const judgement = judge(rules, SEND);
  t.equal(judgement, judge(rules, event('error', {})), 'one judgement for all');
  t.equal(decide(judgement, [], String), ALLOWED);
  t.equal(decide(judge(new RuleSet([]), SEND), [], String), ALLOWED);
  t.strictSame(JSON.parse(ALLOWED.resultJson), { outcome: 'allowed', reason: null, policy_id: null, matches: [] });
});

t.test('an inactive agent is blocked without a policy', async (t) => {
  const { outcome, reason, policyId, matches: none, resultJson } = agentInactive(judge(new RuleSet([]), SEND));
  t.strictSame(
    { outcome, reason, policyId, none },
    { outcome: 'blocked', reason: 'agent_inactive', policyId: null, none: [] },
  );
  t.strictSame(JSON.parse(resultJson), { outcome, reason, policy_id: null, matches: [] });
});

t.test('a rate limit asks for a place at the counter that its `per` names', async (t) => {
  const ask = (conditions: object, actions: PolicyAction[] = ['block'], view = SEND) => {
    const [check] = judge(
      new RuleSet([policy('rate_limit', { threshold: 5, window: '5m', ...conditions }, actions)]),
      view,
    ).rateChecks;
    return (
      check && {
        scope: check.counterScope,
        value: check.counterValue,
        over: check.countsWhenOver,
        windowMs: check.windowMs,
      }
    );
  };
  t.strictSame(ask({}), { scope: 'agent', value: '', over: false, windowMs: 300_000 });
  t.strictSame(ask({ per: 'account' }, ['alert']), { scope: 'account', value: '', over: true, windowMs: 300_000 });
  t.strictSame(ask({ per: 'payload.tool' }, ['block', 'alert']), {
    scope: 'value',
    value: '"send_money"',
    over: false,
    windowMs: 300_000,
  });
  t.strictSame(ask({ per: 'arguments.tags' })?.value, '', 'several are not one');
  t.strictSame(ask({ per: 'payload.tool' }, ['block'], event('custom', {}))?.value, '', 'none');
  t.strictSame(
    ask({ per: 'payload.tool' }, ['block'], event('custom', { tool: '' }))?.value,
    '""',
    'none and empty are two counters',
  );
  const counterOf = (user: unknown) => ask({ per: 'payload.user' }, ['block'], event('custom', { user }))?.value;
  for (const [one, spellings] of [
    ['u1', ['u1 ', '\tu1\n', 'ｕ1', 'u1\u200b', 'u\u00001', ['u1'], '["u1"]', [['u1', 'u1 ']]]],
    [1, ['1', ' 1', 1.0, [1], '[1]', '１']],
  ] as const)
    for (const other of spellings) t.equal(counterOf(other), counterOf(one), `${JSON.stringify(other)} is ${one}`);
  const absent = counterOf(undefined);
  for (const odd of [{ a: 'u1' }, '{"a":"u1"}', ['u1', 'u2'], [], [{}], '["u1","u2"]'])
    t.equal(counterOf(odd), absent, `${JSON.stringify(odd)} has no counter of its own`);
  t.not(counterOf('U1'), counterOf('u1'));
  t.not(counterOf('01'), counterOf(1));
  t.not(counterOf(''), absent);
  t.equal(ask({ tool: 'rm' }), undefined, 'an event that the fields leave out takes no place');
});

t.test('a rate limit shows its detail, shortened, and never beside a secret', async (t) => {
  const limit = policy('rate_limit', { threshold: 5, window: '1h', per: 'payload.key' }, ['block']);
  const view = event('custom', { key: 'k'.repeat(300) });
  t.strictSame(decideOn(new RuleSet([limit]), view, [42]).matches[0]!.detail, {
    threshold: 5,
    window_seconds: 3600,
    per: 'payload.key',
    retry_after_seconds: 42,
    value: `${'k'.repeat(100)}…`,
  });
  t.equal(decideOn(new RuleSet([limit]), view, [0]), ALLOWED);
  const filter = policy('data_filter', { patterns: ['k+'] }, ['alert']);
  const both = decideOn(new RuleSet([limit, filter]), view, [42]);
  t.notOk(both.resultJson.includes('kkk'), 'the filter found it: the limit does not repeat it');
});

t.test('a data filter says where, never what', async (t) => {
  const where = (payload: object | string, conditions: object = { detectors: ['email'] }) =>
    decideOn(new RuleSet([policy('data_filter', conditions)]), event('custom', payload)).matches[0]?.detail;
  t.strictSame(where({ a: { 'b/c': ['x', 'me@example.com'] } }), { detector: 'email', path: '/a/b~1c/1' });
  t.strictSame(where({ a: { 'me@example.com': 1 } }), { detector: 'email', path: '/a', key: true });
  t.strictSame(where({ 'me@example.com': { x: 'secret7' } }, { patterns: ['secret\\d', '@example'] }), {
    pattern: 0,
    path: '/[redacted]/x',
  });
  const twoEndTogether = ['secret\\d', 'a[mn]ple', '[mn]ple'];
  t.strictSame(where({ 'an example': { x: 'secret7' } }, { patterns: twoEndTogether }), {
    pattern: 0,
    path: '/[redacted]/x',
  });
  t.strictSame(where('{"a":"me\\u0040example.com"}'), { detector: 'email', path: '/a' });
  t.strictSame(where({ a: [{ b: 'x1' }, { b: 'x2' }] }, { patterns: ['x2'], fields: ['a.b'] }), {
    pattern: 0,
    path: '/a/1/b',
  });
  t.equal(where({ a: 'x', b: 'me@example.com' }, { detectors: ['email'], fields: ['payload.a'] }), undefined);
});

// -- expressions and schemas

t.test('an expression sees the event and its agent', async (t) => {
  const yes = [
    'event.type == "tool_call" && event.payload.tool == "send_money"',
    'event.payload.arguments.amount > 250',
    'event.payload.arguments.amount + 1 > 251.4 && event.payload.arguments.amount * 2 == 501.0',
    'event.payload.attempts.exists(a, a.status == "error" && a.code == 500)',
    'has(event.payload.tool) && !has(event.payload.missing)',
    'agent.metadata.team == "red" && agent.name.startsWith("ass")',
    'event.payload.arguments.recipient.matches("^US[0-9]+$")',
    'event.payload.arguments.tags.all(x, x.matches("[a-z]+"))',
    'event.timestamp.startsWith("2026")',
    '!has(event.trace_id)',
    'size(event.payload.arguments.tags) == 2',
  ];
  for (const expression of yes) {
    t.strictSame(
      decideOn(new RuleSet([policy('block_action', { expression })]), SEND).matches[0]?.detail,
      { condition: 'expression' },
      expression,
    );
  }
  t.notOk(matches('block_action', { expression: 'event.payload.tool == "x"' }, SEND));
  t.notOk(matches('block_action', { tool: 'rm', expression: 'event.payload.missing == 1' }, SEND), 'fields come first');
});

t.test('an expression that errors on an event counts as a match and says so', async (t) => {
  for (const expression of [
    'event.payload.missing == 1',
    'event.payload.tool > 3',
    'event.payload.arguments.tags[9] == "x"',
    'event.payload.tool.all(x, x == 1)',
  ]) {
    t.strictSame(
      decideOn(new RuleSet([policy('block_action', { expression })]), SEND).matches[0]?.detail,
      { reason: 'expression_error', condition: 'expression' },
      expression,
    );
  }
});

function randomText(length: number): string {
  let state = 7;
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return (state >> 16) % 2 === 0 ? 'a' : 'b';
  }).join('');
}

t.test('an expression over a large payload is ended, and counts as a match', async (t) => {
  const list = Array.from({ length: 60_000 }, (_, i) => `v${i}`);
  const view = event('custom', {
    list,
    object: Object.fromEntries(list.map((name) => [name, 1])),
    text: randomText(400_000),
    other: [...list],
    narrow: 'a'.repeat(40_000),
    wide: '\u0100'.repeat(40_000),
  });
  const hostile = [
    'event.payload.list.all(a, event.payload.list.exists(b, b == a + "x"))',
    'event.payload.list.map(a, event.payload.list) == event.payload.list.map(a, event.payload.other)',
    'event.payload.list.exists(a, event.payload.object.exists(b, false))',
    'event.payload.list.exists(a, event.payload.text.contains(a))',
    'event.payload.list.filter(a, a in event.payload.other).size() == 0',
    'cel.bind(a, event.payload.text + event.payload.text, cel.bind(b, a + a, cel.bind(c, b + b, c + c == "")))',
    'event.payload.text.matches("(?:a|b)*a(?:a|b){20}c")',
    'false || event.payload.list.exists(a, event.payload.list.exists(b, b == a + "x")) || false',
    'event.payload.text.split("").size() == 1 && event.payload.text.split("").map(x, event.payload.text.split("")).size() == 1',
    'event.payload.list.exists(a, timestamp("2026-01-01T00:00:00Z").getHours("Europe/Paris") == 77)',
    // What is made is more than what is read: 60,000 times a separator of 40,000 characters, in one byte each and in
    // two.
    ...['narrow', 'wide'].map((by) => {
      const joined = `event.payload.list.join(event.payload.${by})`;
      return `[${Array.from({ length: 8 }, () => joined).join()}].size() > 100000`;
    }),
    'event.payload.text.split("").join(event.payload.narrow).size() > 1',
    'event.payload.list.all(a, bytes(event.payload.wide).hex().size() > 1)',
    'event.payload.list.all(a, event.payload.wide.upperAscii().size() > 1)',
  ];
  for (const expression of hostile) {
    const rules = new RuleSet([policy('block_action', { expression })]);
    let detail: unknown;
    const ms = cpuMs(2, () => {
      detail = decideOn(rules, view).matches[0]?.detail;
    });
    t.strictSame(detail, { reason: 'budget', condition: 'expression' }, expression);
    t.ok(ms < 50, `${ms.toFixed(1)} ms`);
  }
  const slow = new RuleSet([policy('block_action', { expression: 'duration(event.payload.text) == duration("1s")' })]);
  t.strictSame(decideOn(slow, view).matches[0]?.detail, {
    reason: 'expression_error',
    condition: 'expression',
  });
});

t.test('an expression has the functions whose work is known, and no others', async (t) => {
  const taken = [
    'event.payload.a.join("-") == "x"',
    '"a".upperAscii() == "A"',
    'bytes("a").hex() == "61"',
    'has(event.payload.b)',
  ];
  for (const expression of taken)
    t.doesNotThrow(
      () => checkPolicy({ type: 'block_action', conditions: { expression }, actions: ['log'] }),
      expression,
    );
  for (const expression of ['"a".lastIndexOf("a") == 0', 'bytes("{}").json() == {}'])
    t.throws(
      () => checkPolicy({ type: 'block_action', conditions: { expression }, actions: ['log'] }),
      /is not offered/,
      expression,
    );
});

t.test('a schema matches the payload that does not satisfy it', async (t) => {
  const schema = {
    type: 'object',
    required: ['tool'],
    properties: {
      tool: { enum: ['send_money', 'ls'] },
      arguments: { properties: { recipient: { pattern: '^US' }, amount: { maximum: 1000 } } },
    },
  };
  const conditions = { payload_schema: schema };
  t.notOk(matches('block_action', conditions, SEND));
  t.ok(matches('block_action', conditions, event('tool_call', { tool: 'rm' })));
  t.ok(matches('block_action', conditions, event('tool_call', {})));
  t.ok(matches('block_action', conditions, event('tool_call', { tool: 'ls', arguments: { amount: 1001 } })));
  t.ok(
    matches(
      'block_action',
      { payload_schema: { properties: { ['__proto__x']: false } } },
      event('custom', { __proto__x: 1 }),
    ),
  );
  t.notOk(matches('block_action', { payload_schema: { required: ['toString'] } }, event('custom', '{"toString": 1}')));
  t.ok(
    matches('block_action', { payload_schema: { required: ['toString'] } }, event('custom', {})),
    'inherited names are not there',
  );
});

t.test('each pattern of a schema is its own', async (t) => {
  const schemas = [
    { properties: { a: { pattern: '^x' }, b: { pattern: '^y' } } },
    { properties: { b: { pattern: '^x' }, a: { pattern: '^y' } } },
    { patternProperties: { '^a$': { pattern: '^x' }, '^b$': { pattern: '^y' } } },
    { patternProperties: { '^b$': { maximum: 1 } }, properties: { a: { not: { pattern: '^z' } } } },
  ];
  for (const a of ['x', 'y', 'z'])
    for (const b of ['x', 'y', 5])
      schemas.forEach((payload_schema, i) => {
        const isFirst = { 0: a === 'x', 1: a === 'y', 2: a === 'x', 3: a !== 'z' }[i]!;
        const isSecond = { 0: b !== 'x', 1: b !== 'y', 2: b !== 'x', 3: b !== 5 }[i]!;
        const isMet = matches('block_action', { payload_schema }, event('custom', { a, b }));
        t.equal(isMet, !(isFirst && isSecond), `${i}: ${a} ${b}`);
      });
});

t.test('a schema whose cost could be large is not run, and counts as a match', async (t) => {
  const branch = { anyOf: Array.from({ length: 120 }, (_, i) => ({ const: `never ${i}` })) };
  const hostile = [
    { additionalProperties: { items: branch } },
    { properties: { text: { allOf: Array.from({ length: 200 }, () => ({ maxLength: 400_000 })) } } },
    {
      properties: { text: { allOf: Array.from({ length: 40 }, (_, i) => ({ pattern: `(?:a|b)*a(?:a|b){18}c${i}` })) } },
    },
  ];
  const view = event('custom', { list: Array.from({ length: 100_000 }, (_, i) => i), text: 'ab'.repeat(150_000) });
  for (const payload_schema of hostile) {
    const rules = new RuleSet([policy('block_action', { payload_schema })]);
    let detail: unknown;
    const ms = cpuMs(2, () => {
      detail = decideOn(rules, view).matches[0]?.detail;
    });
    t.strictSame(detail, { reason: 'budget', condition: 'payload_schema' });
    t.ok(ms < 50, `${ms.toFixed(1)} ms`);
  }
  t.notOk(
    matches('block_action', { payload_schema: { properties: { text: { type: 'string' } } } }, view),
    'a simple one is',
  );
});

t.test('conditions read a large payload to its end, whatever other policies do', async (t) => {
  const view = event('custom', {
    list: Array.from({ length: 100_000 }, (_, i) => ({ a: [i] })),
    text: 'aaaaab'.repeat(30_000),
  });
  const conditions = (i: number) => ({ 'payload.list.a': { gt: 99_990 + i }, text: { contains: `${'a'.repeat(5)}b` } });
  const alone = new RuleSet([policy('block_action', conditions(0))]);
  let decision = decideOn(alone, view);
  const ms = cpuMs(2, () => {
    decision = decideOn(alone, view);
  });
  t.ok(ms < 50, `${ms.toFixed(1)} ms`);
  const policies = Array.from({ length: 20 }, (_, i) => policy('block_action', conditions(i)));
  const beside = decideOn(new RuleSet(policies), view);
  t.strictSame(beside.matches[0]!.detail, decision.matches[0]!.detail);
  t.equal(beside.matches.length, 9, 'the rest asks for more than there is');
  t.ok(beside.matches.every(({ detail }) => detail.reason === undefined));
});

t.test('conditions whose work grows faster than the payload are over their budget each time', async (t) => {
  const view = event('custom', { text: Array.from({ length: 20 }, () => randomText(2_000)) });
  const explodes = policy('block_action', { text: { matches: '(?:a|b)*a(?:a|b){18}c' } });
  const others = Array.from({ length: 20 }, (_, i) => policy('block_action', { text: { contains: `b${i}` } }));
  for (const rules of [new RuleSet([explodes]), new RuleSet([...others, explodes])])
    for (let time = 1; time <= 3; time++)
      t.strictSame(
        decideOn(rules, view).matches.map(({ detail }) => detail),
        [{ reason: 'budget', condition: 'text' }],
        `time ${time}`,
      );
});

t.test('a rule that fails as it should not counts as a match and is reported', async (t) => {
  const told: unknown[] = [];
  const one = policy('block_action', { tool: { contains: 'x' } });
  const rules = new RuleSet([one], { onRuleError: (id, error) => told.push(id, error) });
  const broken = event('custom', {});
  Object.defineProperty(broken.payload, 'tool', {
    enumerable: true,
    get: () => {
      throw new RangeError('deep inside');
    },
  });
  const decision = decideOn(rules, broken);
  t.equal(decision.outcome, 'blocked');
  t.strictSame(decision.matches[0]!.detail, { reason: 'error', condition: 'tool' });
  t.equal(told[0], one.id);
});

// -- what is refused when a policy is created

t.test('every mistake of a policy is named with its path', async (t) => {
  const refused: [PolicyType, unknown, string, RegExp][] = [
    ['block_action', [], '/conditions', /object/],
    ['block_action', { 'payload.amount': { gt: '5' } }, '/conditions/payload.amount/gt', /number/],
    ['block_action', { amount: { gt: 1 / 0 } }, '/conditions/amount/gt', /finite/],
    ['block_action', { tool: { equals: 'x' } }, '/conditions/tool/equals', /unknown operator/],
    ['block_action', { tool: {} }, '/conditions/tool', /at least one operator/],
    ['block_action', { tool: [] }, '/conditions/tool', /at least one/],
    ['block_action', { tool: [['x']] }, '/conditions/tool', /strings/],
    ['block_action', { tool: { eq: { a: 1 } } }, '/conditions/tool/eq', /must be/],
    ['block_action', { tool: { in: 'x' } }, '/conditions/tool/in', /array/],
    ['block_action', { tool: { matches: '(?=a)' } }, '/conditions/tool/matches', /look-ahead/],
    ['block_action', { tool: { contains: '' } }, '/conditions/tool/contains', /empty/],
    ['block_action', { tool: { exists: 1 } }, '/conditions/tool/exists', /true or false/],
    ['block_action', { tool: { exists: false, eq: 'x' } }, '/conditions/tool/exists', /alone/],
    ['block_action', { 'payload..x': 1 }, '/conditions/payload..x', /empty segments/],
    ['block_action', { 'type.x': 1 }, '/conditions/type.x', /payload\.type\.x/],
    ['block_action', { patterns: ['x'] }, '/conditions/patterns', /belongs to data_filter/],
    ['data_filter', { detectors: ['email'], threshold: 3 }, '/conditions/threshold', /payload\.threshold/],
    ['block_action', { a: 'x'.repeat(17_000) }, '/conditions', /16384 bytes/],
    ['rate_limit', {}, '/conditions/threshold', /required/],
    ['rate_limit', { threshold: 1 }, '/conditions/window', /required/],
    ['rate_limit', { threshold: 0, window: 1 }, '/conditions/threshold', /integer/],
    ['rate_limit', { threshold: 1.5, window: 1 }, '/conditions/threshold', /integer/],
    ['rate_limit', { threshold: 1, window: '2d' }, '/conditions/window', /at most 1 day/],
    ['rate_limit', { threshold: 1, window: '1w' }, '/conditions/window', /duration/],
    ['rate_limit', { threshold: 1, window: 0 }, '/conditions/window', /duration/],
    ['rate_limit', { threshold: 1, window: 1, per: 7 }, '/conditions/per', /path/],
    ['rate_limit', { threshold: 1, window: 1, per: 'payload..a' }, '/conditions/per', /segments/],
    ['require_approval', { timeout: 'soon' }, '/conditions/timeout', /duration/],
    ['require_approval', { on_timeout: 'wait' }, '/conditions/on_timeout', /deny or approve/],
    ['data_filter', {}, '/conditions', /patterns/],
    ['data_filter', { patterns: [] }, '/conditions/patterns', /at least one/],
    ['data_filter', { patterns: 'x' }, '/conditions/patterns', /array/],
    ['data_filter', { patterns: ['ok', '('] }, '/conditions/patterns/1', /RE2/],
    ['data_filter', { patterns: Array(51).fill('x') }, '/conditions/patterns', /at most 50/],
    [
      'data_filter',
      { patterns: Array.from({ length: 10 }, (_, i) => `(?:[a-z]{40}x){20}${i}`) },
      '/conditions/patterns/7',
      /large together/,
    ],
    ['block_action', fieldsWith(20, (i) => `\\p{L}{300}${i}`), '/conditions/f17/matches', /large together/],
    [
      'block_action',
      { expression: Array.from({ length: 40 }, (_, i) => `event.payload.a.matches("\\\\pL{300}${i}")`).join('||') },
      '/conditions/expression',
      /large together/,
    ],
    ['data_filter', { detectors: ['passport'] }, '/conditions/detectors/0', /one of email/],
    ['data_filter', { detectors: ['email'], fields: ['type'] }, '/conditions/fields/0', /payload/],
    ['data_filter', { detectors: ['email'], redact: 'yes' }, '/conditions/redact', /true or false/],
    ['block_action', { expression: '1 + 1' }, '/conditions/expression', /type bool/],
    ['block_action', { expression: 'event.payload' }, '/conditions/expression', /type bool/],
    ['block_action', { expression: 'nothing == 1' }, '/conditions/expression', /CEL/],
    ['block_action', { expression: 'event.type ==' }, '/conditions/expression', /CEL/],
    ['block_action', { expression: '' }, '/conditions/expression', /CEL/],
    ['block_action', { expression: 'event.type.matches(event.payload.p)' }, '/conditions/expression', /quotes/],
    ['block_action', { expression: 'event.type.matches("(?=a)")' }, '/conditions/expression', /look-ahead/],
    ['block_action', { expression: `${'('.repeat(100)}true${')'.repeat(100)}` }, '/conditions/expression', /maxDepth/],
    ['block_action', { payload_schema: { $ref: '#' } }, '/conditions/payload_schema/$ref', /references/],
    ['block_action', { payload_schema: { uniqueItems: true } }, '/conditions/payload_schema/uniqueItems', /square/],
    ['block_action', { payload_schema: { format: 'email' } }, '/conditions/payload_schema/format', /pattern/],
    [
      'block_action',
      { payload_schema: { properties: { a: { requierd: [] } } } },
      '/conditions/payload_schema/properties/a/requierd',
      /unknown keyword/,
    ],
    [
      'block_action',
      { payload_schema: { pattern: '(a)\\1' } },
      '/conditions/payload_schema/pattern',
      /back-references/,
    ],
    [
      'block_action',
      { payload_schema: { patternProperties: { '(?=a)': true } } },
      '/conditions/payload_schema/patternProperties/(?=a)',
      /look-ahead/,
    ],
    ['block_action', { payload_schema: { type: 'objekt' } }, '/conditions/payload_schema/type', /./],
    ['block_action', { payload_schema: { maximum: { $data: '1/a' } } }, '/conditions/payload_schema/maximum', /\$data/],
    ['block_action', { payload_schema: { enum: Array(600).fill(1) } }, '/conditions/payload_schema', /500 nodes/],
    [
      'block_action',
      { payload_schema: nested(11) },
      `/conditions/payload_schema${'/items'.repeat(10)}`,
      /deeper than 10/,
    ],
    ['block_action', { payload_schema: 'x' }, '/conditions/payload_schema', /schema/],
  ];
  for (const [type, conditions, path, sentence] of refused) {
    try {
      checkPolicy({ type, conditions, actions: ['block'], agent_id: null });
      t.fail(`accepted ${JSON.stringify(conditions)}`);
    } catch (error) {
      if (!(error instanceof PolicyError)) throw error;
      const detail = error.details.find((one) => one.path === path);
      t.match(detail?.message, sentence, `${path}: ${JSON.stringify(error.details)}`);
    }
  }
});

function fieldsWith(fields: number, pattern: (field: number) => string): object {
  return Object.fromEntries(Array.from({ length: fields }, (_, i) => [`f${i}`, { matches: pattern(i) }]));
}

t.test('no policy takes long to compile, nor to be laid out', async (t) => {
  const classes = Array.from({ length: 50 }, (_, i) => `(?i)${'[\\p{L}\\p{N}]'.repeat(22)}${i}`);
  const costly: [PolicyType, object][] = [
    ['block_action', fieldsWith(450, () => '\\p{L}{300}')],
    ['block_action', fieldsWith(400, (i) => `\\p{L}{300}${i}`)],
    ['data_filter', { patterns: classes }],
    ['data_filter', { patterns: Array.from({ length: 50 }, (_, i) => `\\p{L}{100}${i}`) }],
  ];
  for (const [type, conditions] of costly) {
    const compiled = cpuMs(1, () => {
      try {
        checkPolicy({ type, conditions, actions: ['block'], agent_id: null });
      } catch (error) {
        if (!(error instanceof PolicyError)) throw error;
      }
    });
    t.ok(compiled < 1_000, `${JSON.stringify(conditions).slice(0, 60)} took ${compiled} ms`); // seconds before there was a bound
  }
  // A tenth of what an account may have: compiling the whole takes a minute here.
  const policies = Array.from({ length: runs(10) }, (_, i) =>
    policy('data_filter', { patterns: Array.from({ length: 50 }, (_, j) => `\\p{L}{${20 + j}}${i}`) }),
  );
  const laidOut = cpuMs(1, () => judge(new RuleSet(policies), event('prompt', { a: 'x'.repeat(1_000) })));
  const bound = 50 * policies.length;
  t.ok(laidOut < bound, `laying out 50 patterns of ${policies.length} policies took ${laidOut} ms`); // 180 each before
});

function nested(depth: number): object {
  return depth === 1 ? {} : { items: nested(depth - 1) };
}

t.test('sound policies of every type are accepted', async (t) => {
  const sound: [PolicyType, object][] = [
    ['block_action', {}],
    ['block_action', { 'payload.threshold': 5, 'payload.patterns': ['x'] }],
    ['require_approval', { timeout: '30s', on_timeout: 'approve', tool: 'x' }],
    ['rate_limit', { threshold: 500, window: '1d', per: 'arguments.recipient' }],
    [
      'data_filter',
      {
        patterns: Array(50).fill('[0-9]{1,20}x'),
        detectors: ['email', 'iban'],
        fields: ['prompt', 'payload.result'],
        redact: true,
      },
    ],
    ['block_action', { payload_schema: nested(10) }],
    ['block_action', { payload_schema: true, expression: 'true' }],
  ];
  for (const [type, conditions] of sound)
    t.doesNotThrow(() => checkPolicy({ type, conditions, actions: 'log' }), JSON.stringify(conditions));
});

t.test('a set is made again from what has changed only', async (t) => {
  const policies = [policy('data_filter', { patterns: ['a+'] }), policy('block_action', { tool: 'x' })];
  const before = await prepareRules(policies);
  const changed = [policies[0]!, { ...policies[1]!, name: 'other', conditions: { tool: 'send_money' } }];
  const after = await prepareRules(changed, before);
  t.equal(after.rules.get(policies[0]!.id)!.terms, before.rules.get(policies[0]!.id)!.terms);
  t.equal(decideOn(after, SEND).matches.at(-1)!.name, 'other');
  t.rejects(prepareRules([policy('block_action', { tool: {} })]), PolicyError);
});
