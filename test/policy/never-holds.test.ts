// Conditions that could never hold are refused when a policy is created or changed, and the author reads what was
// meant. Those that were kept before are judged as ever.

import fc from 'fast-check';
import t, { type Test } from 'tap';
import { EVENT_TYPES, type PolicyType } from '../../schemas/closed-sets.ts';
import { checkPolicy } from '../../src/policy/compile.ts';
import { isOneEditAway } from '../../src/policy/conditions/did-you-mean.ts';
import { RuleSet } from '../../src/policy/engine.ts';
import { PolicyError } from '../../src/policy/policy-error.ts';
import { runs, SEED } from '../support/seed.ts';
import { decideOn, event, policy } from './support.ts';

/** The mistakes in a policy, as `path message`; none: it is accepted. */
function mistakes(type: PolicyType, conditions: object): string[] {
  try {
    checkPolicy({ type, conditions, actions: ['block'], agent_id: null });
    return [];
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error;
    return error.details.map(({ path, message }) => `${path} ${message}`);
  }
}

function refuses(t: Test, rows: [PolicyType, object, RegExp][]): void {
  for (const [type, conditions, wanted] of rows) {
    const found = mistakes(type, conditions);
    t.ok(
      found.some((one) => wanted.test(one)),
      `${type} ${JSON.stringify(conditions)}: ${found.join('; ')}`,
    );
  }
}

const LIMIT = { threshold: 3, window: '1m' };
const FILTER = { detectors: ['email'] };

t.test('a bare key one edit away from a reserved one is refused, and the reserved one is named', async (t) => {
  refuses(t, [
    ['require_approval', { timout: '5m' }, /^\/conditions\/timout did you mean `timeout`\?.*payload\.timout$/],
    ['require_approval', { timeuot: '5m' }, /^\/conditions\/timeuot did you mean `timeout`\?/],
    ['require_approval', { ontimeout: 'deny' }, /did you mean `on_timeout`/],
    ['rate_limit', { threshold: 3, windows: '1m' }, /^\/conditions\/windows did you mean `window`/],
    ['rate_limit', { ...LIMIT, Per: 'agent' }, /^\/conditions\/Per did you mean `per`/],
    ['rate_limit', { ...LIMIT, treshold: 4 }, /did you mean `threshold`/],
    ['data_filter', { ...FILTER, pattern: ['x'] }, /did you mean `patterns`/],
    ['data_filter', { ...FILTER, redakt: true }, /did you mean `redact`/],
    ['data_filter', { ...FILTER, field: ['prompt'] }, /did you mean `fields`/],
    ['block_action', { expresion: 'true' }, /did you mean `expression`/],
    ['block_action', { 'payload-schema': {} }, /did you mean `payload_schema`/],
  ]);
  t.same(
    mistakes('rate_limit', { ...LIMIT, 'payload.windows': 3, 'payload.Per': 'x' }),
    [],
    'with its prefix it is a field',
  );
  t.same(mistakes('block_action', { windows: 3, timout: 1 }), [], 'of another type it is a field');
  t.same(mistakes('rate_limit', { ...LIMIT, 'windows.x': 3, wind: 1, peers: 2 }), [], 'two edits are another word');
});

t.test('one edit is an insertion, a deletion, a substitution or a transposition, and nothing else', async (t) => {
  const edits = (word: string): Set<string> => {
    const made = new Set<string>();
    for (let i = 0; i <= word.length; i++) {
      const [head, tail] = [word.slice(0, i), word.slice(i)];
      if (tail !== '') made.add(head + tail.slice(1));
      for (const letter of 'ab') {
        made.add(head + letter + tail);
        if (tail !== '') made.add(head + letter + tail.slice(1));
      }
      if (tail.length > 1) made.add(head + tail[1] + tail[0] + tail.slice(2));
    }
    made.delete(word);
    return made;
  };
  const word = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 6 });
  fc.assert(
    fc.property(word, word, (a, b) => isOneEditAway(a, b) === edits(a).has(b)),
    { seed: SEED, numRuns: runs(5000) },
  );
  t.pass();
});

t.test('type and outcome take the values that they have', async (t) => {
  refuses(t, [
    ['block_action', { type: 'toolcall' }, /^\/conditions\/type must be one of prompt, .*did you mean "tool_call"\?$/],
    ['block_action', { type: 'ToolCall' }, /did you mean "tool_call"/],
    ['block_action', { type: 'tool' }, /did you mean "tool_call"/],
    ['block_action', { type: 'http_request' }, /^\/conditions\/type must be one of [a-z_, ]+, is "http_request"$/],
    ['block_action', { type: ['prompt', 'completions'] }, /^\/conditions\/type\/1 .*did you mean "completion"/],
    ['block_action', { type: { eq: 'eror' } }, /^\/conditions\/type\/eq .*did you mean "error"/],
    ['block_action', { type: { ne: 'promt' } }, /^\/conditions\/type\/ne .*did you mean "prompt"/],
    ['block_action', { type: { in: ['prompt', 'x'] } }, /^\/conditions\/type\/in\/1 /],
    ['block_action', { type: { not_in: [null] } }, /^\/conditions\/type\/not_in\/0 /],
    ['block_action', { type: 5 }, /^\/conditions\/type must be one of/],
    ['block_action', { type: { contains: 'toolcall' } }, /^\/conditions\/type can hold for no event/],
    ['block_action', { type: { matches: '^tools' } }, /^\/conditions\/type can hold for no event/],
    ['block_action', { type: { gt: 5 } }, /^\/conditions\/type\/gt compares numbers/],
    ['block_action', { type: { exists: false } }, /^\/conditions\/type can hold for no event/],
    ['block_action', { type: { eq: 'prompt', ne: 'prompt' } }, /^\/conditions\/type can hold for no event/],
    ['block_action', { outcome: 'blockd' }, /^\/conditions\/outcome .*did you mean "blocked"\?.*payload\.outcome$/],
    ['block_action', { outcome: ['blocked', 'denied'] }, /^\/conditions\/outcome\/1 must be one of allowed, blocked/],
    ['block_action', { trace_id: null }, /^\/conditions\/trace_id .*did you mean \{"exists": false\}/],
    ['block_action', { agent_id: { gt: 5 } }, /^\/conditions\/agent_id\/gt compares numbers/],
    ['block_action', { agent_id: { exists: false } }, /^\/conditions\/agent_id\/exists can hold for no event/],
  ]);
  for (const type of EVENT_TYPES) t.same(mistakes('block_action', { type: [type, 'prompt'] }), []);
  t.same(mistakes('block_action', { type: { starts_with: 'tool' }, outcome: 'blocked' }), []);
  t.same(mistakes('block_action', { 'payload.type': 'toolcall', 'payload.outcome': 'denied' }), [], 'with the prefix');
  t.same(mistakes('block_action', { trace_id: { exists: false }, 'data.type': 'x' }), []);
});

t.test('a range that no number is in is refused, wherever conditions stand', async (t) => {
  const none = (place: string) => new RegExp(`^/conditions/${place} can hold for no number: none is .* and .*; swap`);
  const after = (amount: object) => ({ tool: 'pay', after: [{ tool: 'read' }, { amount }], within: '1h' });
  const unless = { tool: 'pay', unless: { 'payload.amount': { gte: 5, lt: 5 } }, within: '1h' };
  refuses(t, [
    ['block_action', { amount: { gt: 5, lt: 3 } }, none('amount')],
    ['block_action', { amount: { lt: 5, gt: 5, exists: true } }, none('amount')],
    ['block_action', { amount: { gt: 5, lte: 5 } }, none('amount')],
    ['block_action', { amount: { gte: 1e9, lt: 1e9 } }, none('amount')],
    ['block_action', { amount: { gt: 1, gte: 9, lt: 8, lte: 20 } }, none('amount')],
    ['rate_limit', { ...LIMIT, amount: { gt: -1, lt: -2 } }, none('amount')],
    ['sequence', { ...after({ gt: 5 }), amount: { gt: 5, lt: 3 } }, none('amount')],
    ['sequence', after({ gt: 5, lt: 3 }), none('after/1/amount')],
    ['sequence', unless, none('unless/payload.amount')],
  ]);
  t.same(mistakes('block_action', { amount: { gte: 5, lte: 5 } }), [], 'one number is in it');
  t.same(mistakes('block_action', { amount: { gt: 5, lt: 5.000001 } }), []);
  t.same(mistakes('sequence', after({ gt: 3, lt: 5 })), []);
});

t.test('an operator that is none, or whose operand cannot hold, is refused with what was meant', async (t) => {
  refuses(t, [
    ['block_action', { tool: { equals: 'x' } }, /^\/conditions\/tool\/equals unknown operator.*did you mean `eq`\?$/],
    ['block_action', { tool: { startsWith: 'x' } }, /did you mean `starts_with`/],
    ['block_action', { tool: { $regex: 'x' } }, /did you mean `matches`/],
    ['block_action', { tool: { contians: 'x' } }, /did you mean `contains`/],
    ['block_action', { amount: { '>=': 5 } }, /did you mean `gte`/],
    ['block_action', { tool: { 'not in': ['x'] } }, /did you mean `not_in`/],
    ['block_action', { arguments: { amount: { gt: 5 } } }, /did you mean the path `arguments\.amount`/],
    ['block_action', { tool: { constructor: 'x' } }, /unknown operator/],
    ['block_action', { amount: { gt: '5' } }, /^\/conditions\/amount\/gt must be a finite number; did you mean 5\?$/],
    [
      'block_action',
      { level: { gte: 'high' } },
      /^\/conditions\/level\/gte must be a finite number, is the text "high"/,
    ],
    ['block_action', { amount: { lt: '' } }, /must be a finite number/],
    ['block_action', { tool: { in: [] } }, /^\/conditions\/tool\/in must be an array of at least one value$/],
    ['block_action', { tool: [] }, /^\/conditions\/tool must be an array of at least one value$/],
    ['block_action', { tool: { in: 'x' } }, /did you mean \["x"\]/],
    ['block_action', { tool: { eq: ['x'] } }, /did you mean `in`/],
    ['block_action', { tool: { matches: 5 } }, /^\/conditions\/tool\/matches must be a string.*did you mean "5"\?$/],
    ['block_action', { tool: { contains: true } }, /did you mean "true"/],
    ['block_action', { tool: { exists: 'true' } }, /^\/conditions\/tool\/exists .*did you mean true\?$/],
  ]);
  t.same(mistakes('block_action', { amount: { gt: 1000, lte: 5000 }, tool: { exists: true, ne: 'x' } }), []);
});

t.test('a policy that was kept before is judged as ever', async (t) => {
  const kept = [policy('require_approval', { timout: 5, tool: 'x' }), policy('block_action', { type: ['toolcall'] })];
  const { outcome } = decideOn(new RuleSet(kept), event('tool_call', { tool: 'x', timout: 5 }));
  t.equal(outcome, 'pending', 'its account goes on');
});
