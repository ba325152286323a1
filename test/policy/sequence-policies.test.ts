// What a sequence may say, and what is refused of it: every mistake with its path.
import t from 'tap';
import { checkParts } from '../../src/policy/compile.ts';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import type { EventView } from '../../src/policy/judgement.ts';
import { PolicyError } from '../../src/policy/policy-error.ts';
import { evaluated } from '../../src/policy/policy-work.ts';
import { agent, agentId, policiesOf } from '../ingest/support.ts';

const STEP = { type: 'tool_call', tool: 'read_file' };

function mistakes(conditions: unknown): string[] {
  try {
    checkParts('sequence', conditions);
    return [];
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error;
    return error.details.map(({ path, message }) => `${path} ${message}`);
  }
}

t.test('what is taken', async (t) => {
  const whole = {
    tool: 'http_post',
    expression: 'event.payload.amount > 3.0',
    after: [STEP, { patterns: ['(?i)secret'], fields: ['payload.text'], outcome: 'any' }, { detectors: ['email'] }],
    unless: { payload_schema: { type: 'object' } },
    same: { 'payload.arguments.to': 'payload.arguments.account' },
    at_least: 3,
    per: 'payload.customer',
    within: 90,
  };
  for (const conditions of [whole, { after: [{}], within: '1d' }, { unless: STEP, within: '1s', per: 'trace' }])
    t.same(mistakes(conditions), []);
});

t.test('what is refused, and where', async (t) => {
  const after = [STEP];
  const table: [object, RegExp][] = [
    [{ within: '1h' }, /^\/conditions must have `after` or `unless`/],
    [{ after }, /^\/conditions\/within is required/],
    [{ after, within: '2d' }, /^\/conditions\/within must be whole seconds/],
    [{ after: [], within: '1h' }, /^\/conditions\/after must be an array of 1 to 3/],
    [{ after: [STEP, STEP, STEP, STEP], within: '1h' }, /^\/conditions\/after must be an array of 1 to 3/],
    [{ after: STEP, within: '1h' }, /^\/conditions\/after must be an array of 1 to 3/],
    [{ after: ['read_file'], within: '1h' }, /^\/conditions\/after\/0 must be an object of conditions/],
    [{ after: [STEP, { 'payload.n': { gt: 'x' } }], within: '1h' }, /^\/conditions\/after\/1\/payload\.n\/gt /],
    [{ after: [{ patterns: ['('] }], within: '1h' }, /^\/conditions\/after\/0\/patterns\/0 /],
    [
      { after: [{ detectors: ['email'], redact: true }], within: '1h' },
      /^\/conditions\/after\/0\/redact is for data_filter/,
    ],
    [{ after: [{ outcome: 'blocked' }], within: '1h' }, /^\/conditions\/after\/0\/outcome must be "any"/],
    [{ unless: { outcome: 'any' }, within: '1h' }, /^\/conditions\/unless\/outcome is for steps of `after`/],
    [{ unless: { type: 'tool_cal' }, within: '1h' }, /^\/conditions\/unless\/type must be one of/],
    [{ after, within: '1h', per: 3 }, /^\/conditions\/per must be trace, agent, account or a path/],
    [{ after, within: '1h', at_least: 0 }, /^\/conditions\/at_least must be an integer from 1 to 100/],
    [{ unless: STEP, within: '1h', at_least: 2 }, /^\/conditions\/at_least needs `after`/],
    [{ after, within: '1h', sum: { path: 'payload.n', gt: -1 } }, /^\/conditions\/sum\/gt must be a number from 0/],
    [{ after, within: '1h', sum: { path: 'payload.n', gte: 1, gt: 1 } }, /^\/conditions\/sum must be an object of/],
    [{ after, within: '1h', sum: { gt: 1 } }, /^\/conditions\/sum\/path must be a path/],
    [{ unless: STEP, within: '1h', sum: { path: 'payload.n', gt: 1 } }, /^\/conditions\/sum needs `after`/],
    [{ after, at_least: 2, within: '1h', sum: { path: 'payload.n', gt: 1 } }, /^\/conditions\/sum cannot stand beside/],
    [{ after, within: '1h', same: {} }, /^\/conditions\/same must be an object of 1 to 3 paths/],
    [{ after, within: '1h', same: { 'payload.a': '$.a' } }, /^\/conditions\/same\/payload\.a is JSONPath; write a$/],
    [{ after: [{ agent_id: 'pay' }], within: '1h' }, /^\/conditions\/after\/0\/agent_id must be the id of an agent/],
    [{ after, within: '1h', same: { 'payload.a': 3 } }, /^\/conditions\/same\/payload\.a must be a path/],
    [{ after, within: '1h', patterns: ['x'] }, /^\/conditions\/patterns belongs to data_filter/],
    [{ after, within: '1h', atleast: 3 }, /^\/conditions\/atleast did you mean `at_least`/],
  ];
  for (const [conditions, wanted] of table) {
    const [first, ...more] = mistakes(conditions);
    t.match(first, wanted);
    t.same(more, [], `one alone: ${more.join('; ')}`);
  }
});

t.test('its words are free in policies of other types', async (t) => {
  for (const key of ['after', 'unless', 'same', 'at_least', 'within'])
    t.doesNotThrow(() => checkParts('block_action', { [key]: 'x' }), key);
});

t.test('an event is evaluated after others', async (t) => {
  const order = { type: 'sequence', conditions: { tool: 'post', after: [STEP], within: '1m' }, actions: ['block'] };
  const block = { type: 'block_action', conditions: { tool: 'rm' }, actions: ['block'] };
  const policies = policiesOf([order, block]);
  const event = (tool: string, second: number): EventView => ({
    type: 'tool_call',
    ...{ trace_id: undefined, agent_id: agentId, agent, payload: { tool }, payloadText: `{"tool":"${tool}"}` },
    timestamp: `2026-11-20T10:${String(Math.floor(second / 60)).padStart(2, '0')}:${String(second % 60).padStart(2, '0')}Z`,
  });
  const after = (...before: EventView[]) =>
    evaluated({ policies, event: event('post', 90), isAgentOff: false, before });
  const { policy_result: blocked, judged } = after(event('rm', 1), event('read_file', 31));
  t.equal(blocked.outcome, 'blocked');
  t.match(blocked.matches[0]!.detail, { after: [{ event_id: 'before/1', path: '/tool' }] });
  t.same(
    judged.map(({ result }) => result),
    ['matched', 'not_matched'],
  );
  const { policy_result: allowed, judged: none } = after(event('read_file', 30));
  t.equal(allowed.outcome, 'allowed', 'it is a minute ago');
  t.same(none[0], { policy_id: policies[0]!.id, name: 'p0', result: 'not_matched', unmet: [{ condition: 'after' }] });
  t.equal(after().policy_result.outcome, 'allowed');
  const [other, nothing] = [event('other', 1), new RuleSet([])];
  t.equal(judge(new RuleSet(policies), other), judge(nothing, other), 'what is neither step nor sink makes nothing');
});
