// Policies of the type external_check without the network: what is to be asked about an event, and what the answers
// make of it.
import t from 'tap';
import { ON_CHECK_FAILURE, type OnCheckFailure } from '../../schemas/closed-sets.ts';
import { compileRule } from '../../src/policy/compile.ts';
import { decide } from '../../src/policy/decide.ts';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import { ALLOWED, type EventView } from '../../src/policy/judgement.ts';
import { observed, withoutLimits } from '../../src/policy/observed.ts';
import { isOpenOutside, type OutsideAnswer, outsideOf, withOutside, withVerdict } from '../../src/policy/outside.ts';
import { event, policy } from './support.ts';

const SAID = { on_timeout: 'match', on_error: 'match', on_overload: 'match' };
const asking = (more: object, actions: Parameters<typeof policy>[2] = ['block']) =>
  policy('external_check', { check: 'guard', ...SAID, ...more }, actions);
const mintApprovalId = () => 'apr_1';

/** What is asked by these policies, and the decision once that was answered. */
function asked(policies: ReturnType<typeof policy>[], view: EventView) {
  const rules = new RuleSet(policies);
  const judgement = judge(rules, view);
  const decision = decide(judgement, [], mintApprovalId);
  const outside = outsideOf(judgement, decision);
  const decided = (...answers: OutsideAnswer[]) =>
    withOutside(decision, outside!, answers, { entries: rules.entries, mintApprovalId });
  return { outside, decision, decided };
}

const verdict = (match: boolean | null, score: number | null = null, labels: string[] = []): OutsideAnswer => ({
  verdict: { match, score, labels },
  ms: 7,
});
const PROMPT = event('prompt', { text: 'hello', n: 5, list: ['a', { b: 'c' }], blank: '  ' });

t.test('the texts of the fields are asked about, or all of the payload, without names and blanks', async (t) => {
  t.same(asked([asking({})], PROMPT).outside!.questions[0]!.texts, ['hello', 'a', 'c']);
  t.same(asked([asking({ fields: ['payload.list', 'text'] })], PROMPT).outside!.questions[0]!.texts, [
    'a',
    'c',
    'hello',
  ]);
  t.equal(
    asked([asking({ fields: ['payload.none', 'payload.n'] })], PROMPT).outside,
    undefined,
    'no text, no question',
  );
  t.equal(asked([asking({ type: 'error' })], PROMPT).outside, undefined);
  const json = event('prompt', { text: '{"inner": "deep"}', odd: '{"inner": ' });
  t.same(asked([asking({ fields: ['payload.text.inner'] })], json).outside!.questions[0]!.texts, ['deep']);
  t.match(asked([asking({ fields: ['payload.odd.inner'] })], json).outside!.questions, [{ failure: 'error' }]);
  const long = event('prompt', { text: 'x'.repeat(70_000) });
  t.match(asked([asking({})], long).outside!.questions, [{ failure: 'too_large', texts: undefined }]);
});

t.test('what is blocked is not asked about; what is redacted is asked about as it is kept', async (t) => {
  t.equal(asked([asking({}), policy('block_action', {})], PROMPT).outside, undefined);
  const filter = policy('data_filter', { detectors: ['email'], redact: true }, ['log']);
  const view = event('prompt', { text: 'write to jane@example.com' });
  const { outside, decided } = asked([asking({}), filter], view);
  t.same(outside!.questions[0]!.texts, ['write to [redacted:email]']);
  t.notMatch(outside!.payloadText, 'jane');
  const decision = decided(verdict(true));
  t.equal(decision.matches.length, 2);
  t.ok(decision.redacted);
});

t.test('a verdict matches by its word, its score, its labels', async (t) => {
  const cases: [when: object | undefined, OutsideAnswer, 'matched' | 'not' | 'error'][] = [
    [undefined, verdict(true), 'matched'],
    [undefined, verdict(false, 1), 'not'],
    [undefined, verdict(null, 1), 'error'],
    [{ score: { gte: 0.8 } }, verdict(false, 0.8), 'matched'],
    [{ score: { gt: 0.8 } }, verdict(true, 0.8), 'not'],
    [{ score: { gt: 0.2, lt: 0.8 } }, verdict(null, 0.5), 'matched'],
    [{ score: { lte: 0.2 } }, verdict(null, 0.5), 'not'],
    [{ score: { lte: 0.2 } }, verdict(true), 'error'],
    [{ labels: ['S1', 'S2'] }, verdict(true, null, ['S2', 'S9']), 'matched'],
    [{ labels: ['S1'] }, verdict(true, null, ['S9']), 'not'],
    [{ labels: ['S1'], score: { gte: 0.5 } }, verdict(null, 0.4, ['S1']), 'not'],
  ];
  for (const [when, answer, expected] of cases) {
    const { outcome, matches } = asked([asking(when === undefined ? {} : { when })], PROMPT).decided(answer);
    t.equal(outcome, expected === 'not' ? 'allowed' : 'blocked', `${JSON.stringify(when)} ${JSON.stringify(answer)}`);
    t.equal((matches[0]?.detail as { reason?: string })?.reason, expected === 'error' ? 'error' : undefined);
  }
});

t.test('each failure does what its own word says', async (t) => {
  const OUTCOME: Record<OnCheckFailure, string> = { match: 'blocked', skip: 'allowed', pending: 'pending' };
  for (const failure of ['timeout', 'error', 'overload'] as const)
    for (const word of ON_CHECK_FAILURE) {
      const { decided } = asked([asking({ [`on_${failure}`]: word })], PROMPT);
      const decision = decided({ failure, ms: 3 });
      t.equal(decision.outcome, OUTCOME[word], `${failure} ${word}`);
      t.equal('approvalId' in decision, word === 'pending');
      t.match(JSON.parse(decision.resultJson).checks, [{ check: 'guard', reason: failure, ms: 3 }]);
      if (word === 'pending') t.match(decision.approval, { timeoutSeconds: 3_600, onTimeout: 'deny' });
    }
  t.equal(asked([asking({ on_error: 'skip' })], PROMPT).decided({ failure: 'too_large', ms: 0 }).outcome, 'allowed');
  const dry = asked([asking({ on_error: 'pending' }, ['log'])], PROMPT).decided({ failure: 'error', ms: 1 });
  t.match(dry, { outcome: 'allowed', matches: [{ detail: { reason: 'error' } }] }, 'log alone never interrupts');
});

t.test('policies share a question, and a fourth question finds no room', async (t) => {
  const policies = ['one', 'two', 'three', 'four'].flatMap((check) => [asking({ check }), asking({ check })]);
  const { outside } = asked(policies, PROMPT);
  t.same(
    outside!.questions.map(({ check, entries, failure }) => [check, entries.length, failure]),
    [
      ['one', 2, undefined],
      ['two', 2, undefined],
      ['three', 2, undefined],
      ['four', 2, 'overload'],
    ],
  );
});

t.test('what watches is asked apart, blocks nothing, and its verdict is matched by its policies', async (t) => {
  const watching = asking({ mode: 'watch', check: 'slow' });
  const rules = new RuleSet([watching]);
  t.same(rules.outside, { asks: false, watches: true });
  const judgement = judge(rules, PROMPT);
  t.equal(outsideOf(judgement, { outcome: 'allowed' }), undefined, 'the reply does not wait');
  t.notOk(isOpenOutside(judgement));
  t.match(outsideOf(judgement, { outcome: 'allowed' }, true)!.questions, [
    { check: 'slow', texts: ['hello', 'a', 'c'] },
  ]);
  t.equal(outsideOf(judgement, { outcome: 'blocked' }, true), undefined);
  const verdictEvent = event('custom', { kind: 'check_verdict' });
  const decided = (answer: OutsideAnswer, policyIds = [watching.id]) =>
    withVerdict(
      decide(judge(rules, verdictEvent), [], mintApprovalId),
      { check: 'slow', fields: null, policyIds, answer },
      { entries: rules.entries, mintApprovalId },
    );
  t.match(decided(verdict(true, 0.9)), {
    ...{ outcome: 'allowed', policyId: null, checks: [{ check: 'slow', match: true }] },
    matches: [{ policy_id: watching.id, detail: { check: 'slow', score: 0.9, ms: 7, reason: undefined } }],
  });
  t.match(decided(verdict(false)), { matches: [], checks: [{ check: 'slow', match: false }] });
  t.match(decided({ failure: 'timeout', ms: 3 }), { outcome: 'allowed', matches: [{ detail: { reason: 'timeout' } }] });
  t.match(decided(verdict(true), ['pol_gone']), { matches: [], checks: [{ match: true }] });
  const both = judge(new RuleSet([watching, asking({ check: 'fast' })]), PROMPT);
  t.ok(isOpenOutside(both));
  t.match(outsideOf(both, { outcome: 'allowed' })!.questions, [{ check: 'fast' }]);
  t.throws(() => compileRule(asking({ mode: 'watch', on_error: 'pending' })), /on_error|conditions/);
  t.throws(() => compileRule(asking({ mode: 'later' })));
});

t.test('without such a policy nothing is different, and a set knows whether it has one', async (t) => {
  t.notOk(new RuleSet([policy('block_action', { type: 'error' })]).outside.asks);
  t.ok(new RuleSet([asking({})]).outside.asks);
  const { outside, decision } = asked([asking({ type: 'error' })], PROMPT);
  t.equal(outside, undefined);
  t.equal(decision, ALLOWED);
});

t.test('what is reported after the fact is not asked about', async (t) => {
  const judgement = withoutLimits(judge(new RuleSet([asking({})]), PROMPT));
  t.equal(judgement.outside, undefined);
  t.equal(observed(decide(judgement, [], mintApprovalId)).outcome, 'allowed');
});

t.test('a policy that was kept before a word was reserved means what it did', async (t) => {
  const kept = policy('block_action', { when: 'night', check: { gt: 5 } });
  t.doesNotThrow(() => compileRule(kept));
  t.equal(judge(new RuleSet([kept]), event('prompt', { when: 'night', check: 6 })).found.length, 1);
});
