// Paths and names in policies: every notation that is taken leads where it says, and every other one is refused with
// the way to write it.

import t from 'tap';
import type { PolicyType } from '../../schemas/closed-sets.ts';
import { checkPolicy } from '../../src/policy/compile.ts';
import { parsePath, pathText } from '../../src/policy/conditions/path.ts';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import { PolicyError } from '../../src/policy/policy-error.ts';
import { decideOn, event, matches, policy } from './support.ts';

const PAYLOAD = {
  tool: 'mcp__github__create_issue',
  messages: [{ content: 'zoe@example.com', 'a/b~c': 1 }, { content: 'second' }],
  'gen_ai.tool.name': 'send_money',
  'a key': { 'x"y': 5 },
  type: 'inner',
};
const view = event('tool_call', PAYLOAD);

t.test('a path is dotted, has keys in brackets, or is a pointer', async (t) => {
  for (const conditions of [
    { 'payload.messages.content': 'second' },
    { 'payload.messages.1.content': 'second' },
    { '/messages/1/content': 'second' },
    { '/messages/0/a~1b~0c': 1 },
    { 'payload["gen_ai.tool.name"]': 'send_money' },
    { '["gen_ai.tool.name"]': 'send_money' },
    { '["type"]': 'inner' },
    { 'payload["a key"]["x\\"y"]': 5 },
    { '["a key"]["x\\"y"]': 5 },
    { 'payload["messages"].1.content': 'second' },
  ])
    t.ok(matches('block_action', conditions, view), JSON.stringify(conditions));
  for (const conditions of [
    { '/messages/2/content': 'second' },
    { 'payload["gen_ai.tool"]': 'send_money' },
    { '/tool/x': 1 },
  ])
    t.notOk(matches('block_action', conditions, view), JSON.stringify(conditions));
  t.equal(
    pathText(parsePath('/gen_ai.tool.name') as Exclude<ReturnType<typeof parsePath>, string>),
    'payload["gen_ai.tool.name"]',
  );
  t.ok(matches('data_filter', { detectors: ['email'], fields: ['/messages/0/content'] }, view));
  t.notOk(matches('data_filter', { detectors: ['email'], fields: ['/messages/1/content'] }, view));
  const { detail } = decideOn(new RuleSet([policy('data_filter', { detectors: ['email'] })]), view).matches[0]!;
  const { path } = detail as { path: string };
  t.ok(matches('block_action', { [path]: 'zoe@example.com' }, view), 'what a match answers is a path');
});

/** The mistakes in a policy, each with its place. */
function mistakes(type: PolicyType, conditions: object): string[] {
  try {
    checkPolicy({ type, conditions, actions: ['block'] });
    return [];
  } catch (error) {
    if (error instanceof PolicyError) return error.details.map(({ path, message }) => `${path} ${message}`);
    throw error;
  }
}

t.test('other notations are refused with the way to write them', async (t) => {
  const rows: [PolicyType, object, RegExp][] = [
    ['block_action', { 'payload.messages[0].content': 'x' }, /index in brackets; write payload\.messages\.0\.content$/],
    ['block_action', { 'payload.messages[*].content': 'x' }, /without `\*`.*\(payload\.messages\.content\)$/],
    ['block_action', { 'payload.messages.*.content': 'x' }, /without `\*`.*\(payload\.messages\.content\)$/],
    ['block_action', { '$.payload.x': 'y' }, /JSONPath; write payload\.x$/],
    ['block_action', { 'event.payload.x': 'y' }, /without `event\.`: payload\.x$/],
    ['block_action', { 'Payload.x': 'y' }, /did you mean payload\.x\?$/],
    ['block_action', { 'payload.x ': 'y' }, /blank at an end/],
    ['block_action', { ' payload.x': 'y' }, /blank at an end/],
    ['block_action', { 'payload..x': 'y' }, /empty segments/],
    ['block_action', { "payload['x']": 'y' }, /key in brackets is written/],
    ['block_action', { 'payload["x': 'y' }, /JSON strings|key in brackets/],
    ['block_action', { '/x~2': 'y' }, /~0 and `\/` as ~1/],
    ['data_filter', { detectors: ['email'], fields: ['$.x'] }, /^\/conditions\/fields\/0 is JSONPath; write x$/],
    [
      'rate_limit',
      { threshold: 1, window: '1m', per: '$.payload.user_id' },
      /^\/conditions\/per is JSONPath; write payload\.user_id$/,
    ],
    [
      'block_action',
      { tool: 'mcp__github__*' },
      /did you mean \{"glob": "mcp__github__\*"\}\? .*\{"eq": "mcp__github__\*"\}$/,
    ],
    ['block_action', { tool: ['a', 'Bash(rm:*)'] }, /^\/conditions\/tool\/1 did you mean "Bash", with a condition/],
    ['block_action', { tool: '/^mcp__/' }, /did you mean \{"matches": "\^mcp__"\}/],
    ['block_action', { agent_id: 'my-agent' }, /must be the id of an agent/],
    ['block_action', { agent_id: { in: ['agt_x'] } }, /must be the id of an agent/],
    ['data_filter', { patterns: ['ok', '/secret/i'] }, /^\/conditions\/patterns\/1 .*write \(\?i\)secret$/],
    ['block_action', { text: { matches: '/secret/gi' } }, /^\/conditions\/text\/matches .*write \(\?i\)secret$/],
    ['block_action', { tool: { glob: '' } }, /must be a string that is not empty/],
  ];
  for (const [type, conditions, wanted] of rows) {
    const found = mistakes(type, conditions);
    t.ok(
      found.some((one) => wanted.test(one)),
      `${JSON.stringify(conditions)}: ${found.join('; ')}`,
    );
  }
  for (const [type, conditions] of [
    ['block_action', { tool: { eq: 'mcp__github__*' } }],
    ['block_action', { tool: { in: ['Bash(rm:*)', '/x/'] } }],
    ['block_action', { path: '/etc/passwd', 'payload.event': 'x', url: { contains: '*' } }],
    ['block_action', { 'payload["a[0].*"]': 'x', '["$.x "]': 1 }],
    ['data_filter', { patterns: ['/etc/passwd', '^/(a|b)/$'] }],
  ] as [PolicyType, object][])
    t.same(mistakes(type, conditions), [], JSON.stringify(conditions));
});

t.test('glob is the whole text', async (t) => {
  const holds = (glob: string, text: unknown) =>
    matches('block_action', { 'payload.t': { glob } }, event('custom', { t: text }));
  for (const [glob, text] of [
    ['mcp__github__*', 'mcp__github__create_issue'],
    ['*', ''],
    ['a?c', 'a😀c'],
    ['*.env', '/srv/app/.env'],
    ['a*b*c', 'a\nb\nc'],
    ['rm -rf (x|y) [z] {1} \\ ^$.+', 'rm -rf (x|y) [z] {1} \\ ^$.+'],
    ['secret*', ['none', 'secret one']],
    ['secret*', { deep: ['secret two'] }],
  ] as [string, unknown][])
    t.ok(holds(glob, text), `${glob} ${JSON.stringify(text)}`);
  for (const [glob, text] of [
    ['mcp__github__*', 'mcp__gitlab__create_issue'],
    ['a?c', 'ac'],
    ['a*', 'ba'],
    ['a', 'ab'],
    ['5', 5],
  ] as [string, unknown][])
    t.notOk(holds(glob, text), `${glob} ${JSON.stringify(text)}`);
});

t.test('events without the field of `per` are counted together, and the match says null', async (t) => {
  const rules = new RuleSet([policy('rate_limit', { threshold: 1, window: '1m', per: '/user' })]);
  const none = judge(rules, event('custom', {})).rateChecks[0]!;
  t.equal(none.counterValue, judge(rules, event('custom', { other: 1 })).rateChecks[0]!.counterValue);
  const { detail } = decideOn(rules, event('custom', {}), [42]).matches[0]!;
  t.match(detail, { per: 'payload.user', value: null });
});

t.test('a rule that names a tool is asked however the key of the tool is written', (t) => {
  for (const key of ['tool', 'to\u200bol', '\uff54ool', 'tool\u0000']) {
    const payload = { [key]: 'send_money' };
    t.ok(matches('block_action', { tool: 'send_money' }, event('tool_call', payload)), JSON.stringify(key));
    t.ok(matches('block_action', { tool: ['x', 'send_money'], type: 'tool_call' }, event('tool_call', payload)));
    t.notOk(matches('block_action', { tool: 'other' }, event('tool_call', payload)));
  }
  t.ok(matches('block_action', { tool: 'a' }, event('custom', { tool: 'b', 'to\u00adol': 'a' })), 'beside another');
  t.end();
});
