// Replaying a policy over stored events says, event by event, what the engine would have said of the event as it was
// sent, with all policies of the account: for the policy that was in force, for one that takes its place, and for one
// beside all others. Where something was redacted it says the same or that it is not known; and of a policy that was in
// force all the while it always knows.
import fc from 'fast-check';
import t from 'tap';
import type { PolicyAction } from '../../schemas/closed-sets.ts';
import type { JsonObject } from '../../schemas/common.ts';
import type { PolicyResult } from '../../schemas/event.ts';
import type { Policy } from '../../schemas/policy.ts';
import { parseExact } from '../../src/common/exact-json.ts';
import { agentInactive, decide } from '../../src/policy/decide.ts';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import { ALLOWED, type Decision, type EventView } from '../../src/policy/judgement.ts';
import { decidedBefore, observed } from '../../src/policy/observed.ts';
import { PolicyReplay, type ReplayedEvent } from '../../src/policy/replay/policy-replay.ts';
import { areAllRun, runs, SEED as seed } from '../support/seed.ts';
import { arbitraryPayload } from './arbitrary-events.ts';
import { AGENT, event, policy } from './support.ts';

/** type, conditions */
const TEXTS: [Parameters<typeof policy>[0], object][] = [
  ['block_action', { type: 'tool_call', tool: ['a', 'b'] }],
  ['block_action', { 'payload.arguments.amount': { gt: 10 } }],
  ['block_action', { text: { contains: 'previous' } }],
  ['block_action', { text: { exists: false } }],
  ['block_action', { a: { ne: 17 } }],
  ['block_action', { a: { matches: '(?i)secret$' }, text: { exists: true } }],
  ['block_action', { trace_id: { contains: 'zoe' } }],
  ['block_action', { expression: 'has(event.payload.a) && event.payload.a != 17' }],
  ['block_action', { payload_schema: { properties: { text: { type: 'string', maxLength: 20 } } } }],
  ['block_action', {}],
  ['require_approval', { type: 'tool_call' }],
  ['require_approval', { arguments: { contains: '4111' } }],
  ['data_filter', { detectors: ['email', 'credit_card', 'phone'], redact: true }],
  ['data_filter', { detectors: ['private_key', 'api_key', 'ssn', 'iban', 'ip_address'], redact: true }],
  ['data_filter', { patterns: ['(?i)password.{0,50}secret', '(?i)ignore (?:all )?previous'], redact: true }],
  ['data_filter', { patterns: ['[0-9]{4}', '^zoe'], fields: ['payload.text', 'payload.arguments'] }],
  ['data_filter', { detectors: ['email'] }],
  ['data_filter', { detectors: ['email'], text: { exists: true } }],
];
const ACTIONS: PolicyAction[][] = [['block'], ['block', 'alert'], ['alert'], ['log']];
const anyPolicy = fc
  .tuple(fc.constantFrom(...TEXTS), fc.constantFrom(...ACTIONS))
  .map(([[type, conditions], actions]) => policy(type, conditions, actions));
const anyEvent = fc
  .tuple(
    fc.constantFrom('tool_call' as const, 'prompt' as const),
    arbitraryPayload,
    fc.constantFrom(undefined, 'trace-1', 'of zoe@example.com'),
  )
  .map(([type, payload, trace_id]) => event(type, payload, { trace_id }));
/** How it came: to be judged; of an agent that is off; after the fact; as a report on an earlier one. */
const anyWay = fc.constantFrom('judged', 'judged', 'judged', 'judged', 'inactive', 'observed', 'reported');
type Way = 'judged' | 'inactive' | 'observed' | 'reported';

const BEFORE = { id: 'evt_01jd00000000000000000000aa', outcome: 'allowed', reason: null, policyId: null } as const;

function decisionOn(policies: readonly Policy[], view: EventView, way: Way): Decision {
  const judgement = judge(new RuleSet(policies), view);
  if (way === 'inactive') return agentInactive(judgement);
  const decision = decide(judgement, [], () => 'apr_01jd00000000000000000000aa');
  if (way === 'observed') return observed(decision);
  // Without a result, of which alone something would be said again.
  return way === 'reported' ? decidedBefore(BEFORE, { ...ALLOWED, redacted: decision.redacted }) : decision;
}

/** As it is stored. */
function storedOf(view: EventView, { outcome, reason, redacted, resultJson, matches }: Decision): ReplayedEvent {
  const payloadText = redacted?.payloadText ?? view.payloadText;
  const result = JSON.parse(resultJson) as PolicyResult;
  const { agent, ...seen } = view;
  return {
    ...{ id: 'evt_1', agentId: view.agent_id, requestId: 'r', receivedMs: 1_000, outcome, reason: reason ?? '' },
    result: outcome === 'allowed' && matches.length === 0 && result.source === undefined ? null : result,
    view: {
      ...seen,
      payloadText,
      payload: parseExact(payloadText) as JsonObject,
      trace_id: redacted === null ? view.trace_id : redacted.traceId,
    },
  };
}

const RUNS = 1_500;
/** All cases, and not a share of them: then each kind of case is among them often enough to mean something. */

const ALWAYS = { fromMs: 0, untilMs: 2_000 };

t.test('of a policy that was in force all the while: then is now, for every event', async (t) => {
  const seen: Record<string, number> = {};
  const generated: Record<string, number> = {};
  await fc.assert(
    fc.property(fc.array(anyPolicy, { minLength: 1, maxLength: 5 }), anyEvent, anyWay, (policies, view, way) => {
      const decision = decisionOn(policies, view, way);
      const stored = storedOf(view, decision);
      generated[decision.outcome] = (generated[decision.outcome] ?? 0) + policies.length;
      return policies.every((tried) => {
        const replay = new PolicyReplay({ tried, replaces: tried.id, inForce: ALWAYS });
        const { was, now, matched } = replay.next(stored, AGENT);
        seen[now] = (seen[now] ?? 0) + 1;
        const isRecorded = decision.matches.some(({ policy_id }) => policy_id === tried.id);
        return was === decision.outcome && now === was && (way === 'inactive' || matched === isRecorded);
      });
    }),
    { seed, numRuns: runs(RUNS) },
  );
  t.equal(seen['unknown'], undefined);
  t.same(seen, generated, 'every outcome that was generated');
  for (const outcome of ['allowed', 'blocked', 'pending'])
    t.ok(!areAllRun || seen[outcome]! > 50, `${outcome} ${seen[outcome]}`);
});

t.test('of another text in its place, and of one beside all: what the engine says, or not known', async (t) => {
  const seen = { changed: 0, unknown: 0, known: 0, knownOfRedacted: 0 };
  /** How many cases had nothing redacted, and how many something. */
  const generated = { changed: 0, redacted: 0 };
  const check = (expected: string, stored: ReplayedEvent, replay: PolicyReplay, isRedacted: boolean) => {
    const { was, now, why } = replay.next(stored, AGENT);
    if (isRedacted) generated.redacted++;
    else if (expected !== stored.outcome) generated.changed++;
    if (now === 'unknown') {
      seen.unknown++;
      return isRedacted && why !== undefined;
    }
    seen.known++;
    if (isRedacted) seen.knownOfRedacted++;
    if (was !== now) seen.changed++;
    return now === expected;
  };
  await fc.assert(
    fc.property(
      fc.array(anyPolicy, { minLength: 1, maxLength: 4 }),
      anyPolicy,
      anyEvent,
      fc.constantFrom<Way>('judged', 'judged', 'inactive', 'observed'),
      (policies, other, view, way) => {
        const decision = decisionOn(policies, view, way);
        const stored = storedOf(view, decision);
        const isRedacted = decision.redacted !== null;
        const beside = new PolicyReplay({ tried: other, replaces: null, inForce: null });
        const withIt = decisionOn([...policies, other], view, way).outcome;
        if (!check(withIt, stored, beside, isRedacted)) return false;
        return policies.every(({ id }) => {
          const tried = { ...other, id, revision: 2 };
          const changed = policies.map((one) => (one.id === id ? tried : one));
          const replay = new PolicyReplay({ tried, replaces: id, inForce: null });
          return check(decisionOn(changed, view, way).outcome, stored, replay, isRedacted);
        });
      },
    ),
    { seed, numRuns: runs(RUNS) },
  );
  t.ok(seen.changed >= generated.changed, `each change that was generated: ${JSON.stringify({ seen, generated })}`);
  t.equal(seen.unknown + seen.knownOfRedacted, generated.redacted, 'not known is of what was redacted alone');
  t.ok(!areAllRun || (seen.changed > 200 && seen.unknown > 20 && seen.knownOfRedacted > 50), JSON.stringify(seen));
});

t.test('what was redacted counts as a hit of the same detector, and as unknown for what would have to see it', (t) => {
  const redacts = policy('data_filter', { detectors: ['email'], redact: true }, ['log']);
  const view = event('prompt', { prompt: 'write to zoe@example.com', note: 'nothing here', n: 5 });
  const stored = storedOf(view, decisionOn([redacts], view, 'judged'));
  const says = (tried: Policy) => {
    const { now, matched, why, detail } = new PolicyReplay({ tried, replaces: null, inForce: null }).next(
      stored,
      AGENT,
    );
    return [now, matched, why, detail];
  };
  const detector = (name: string, more = {}) => policy('data_filter', { detectors: [name], ...more });
  t.same(says(detector('email')), ['blocked', true, undefined, { detector: 'email', path: '/prompt' }]);
  t.same(says(detector('phone')), ['unknown', null, 'redacted_text', undefined]);
  t.same(says(detector('phone', { fields: ['payload.note'] })), ['allowed', false, undefined, undefined]);
  t.same(says(policy('data_filter', { patterns: ['nothing'] })), [
    ...['blocked', true, undefined],
    { pattern: 0, path: '/note' },
  ]);
  t.same(
    says(policy('data_filter', { patterns: ['redacted'] })),
    ['unknown', null, 'redacted_text', undefined],
    'a mark is no text',
  );
  t.same(says(policy('block_action', { prompt: { contains: 'zoe' } })), [
    'unknown',
    null,
    'redacted_condition',
    undefined,
  ]);
  t.same(says(policy('block_action', { prompt: { contains: 'zoe' }, n: { gt: 9 } })), [
    'allowed',
    false,
    undefined,
    undefined,
  ]);
  t.same(says(policy('block_action', { n: { gt: 1 } })).slice(0, 2), ['blocked', true]);
  t.same(
    says(policy('data_filter', { patterns: ['x'] }, ['alert'])),
    ['allowed', null, 'redacted_text', undefined],
    'known: it changes no outcome',
  );
  t.end();
});

t.test('a rate limit takes no place for what others block, and none for what was reported after the fact', (t) => {
  const limit = policy('rate_limit', { threshold: 2, window: '1m', per: 'payload.tool' });
  const blocks = policy('block_action', { text: 'bad' });
  const replay = new PolicyReplay({ tried: limit, replaces: null, inForce: null });
  const next = (payload: object, atMs: number, way: Way = 'judged') => {
    const view = event('tool_call', payload);
    return replay.next({ ...storedOf(view, decisionOn([blocks], view, way)), receivedMs: atMs }, AGENT).now;
  };
  t.equal(next({ tool: 'x', text: 'bad' }, 1_000), 'blocked');
  t.equal(next({ tool: 'x' }, 1_001, 'observed'), 'allowed');
  t.equal(next({ tool: 'x' }, 1_001, 'inactive'), 'blocked');
  t.equal(next({ tool: 'x' }, 1_002), 'allowed');
  t.equal(next({ tool: 'y' }, 1_003), 'allowed', 'another counter');
  t.equal(next({ tool: 'x' }, 1_004), 'allowed');
  t.equal(next({ tool: 'x' }, 1_005), 'blocked', 'the third');
  t.equal(next({ tool: 'x' }, 61_999), 'blocked', 'a sixtieth of the window late');
  t.equal(next({ tool: 'x' }, 62_000), 'allowed');
  t.end();
});

t.test('conditions on commands and SQL say of what is stored what they say of what comes', async (t) => {
  const shell = policy('block_action', { arguments: { shell: { command: 'rm', flags: ['r', 'f'] } } });
  const sql = policy('require_approval', { arguments: { sql: { statement: 'delete', where: 'none' } } });
  const email = policy('data_filter', { detectors: ['email'], redact: true }, ['log']);
  const next = (tried: Policy, text: string) => {
    const view = event('tool_call', { arguments: { text } });
    const { now, matched, why } = new PolicyReplay({ tried, replaces: null, inForce: null }).next(
      storedOf(view, decisionOn([email], view, 'judged')),
      AGENT,
    );
    t.ok(now === 'unknown' || now === decisionOn([email, tried], view, 'judged').outcome, text);
    return [now, matched, why];
  };
  t.same(next(shell, 'cd / && sudo r""m -r -f x'), ['blocked', true, undefined]);
  t.same(next(shell, 'echo rm -rf x'), ['allowed', false, undefined]);
  t.same(next(sql, 'DELETE/**/FROM users'), ['pending', true, undefined]);
  t.same(next(sql, 'DELETE FROM users WHERE id = 7'), ['allowed', false, undefined]);
  t.same(next(shell, 'mail zoe@example.com; rm -rf x'), ['unknown', null, 'redacted_condition']);
});
