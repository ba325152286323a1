// Policies of the type external_check without the network: what is to be asked about an event, and what the answers
// make of it.
import fc from 'fast-check';
import t from 'tap';
import { ON_CHECK_FAILURE, type OnCheckFailure } from '../../schemas/closed-sets.ts';
import type { FoundSpan } from '../../schemas/external-check.ts';
import { atOnce } from '../../src/common/steps.ts';
import { loopShares, TooLong } from '../../src/policy/allowance.ts';
import { compileRule } from '../../src/policy/compile.ts';
import { decide } from '../../src/policy/decide.ts';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import { ALLOWED, type EventView } from '../../src/policy/judgement.ts';
import { observed, withoutLimits } from '../../src/policy/observed.ts';
import { isOpenOutside, type OutsideAnswer, outsideOf, withOutside, withVerdict } from '../../src/policy/outside.ts';
import { runs, SEED as seed } from '../support/seed.ts';
import { arbitraryPayload } from './arbitrary-events.ts';
import { event, policy } from './support.ts';

const SAID = { on_timeout: 'match', on_error: 'match', on_overload: 'match' };
const asking = (more: object, actions: Parameters<typeof policy>[2] = ['block']) =>
  policy('external_check', { check: 'guard', ...SAID, ...more }, actions);
const mintApprovalId = () => 'apr_1';

/** The questions that these policies ask, and the decision once they were answered. */
function asked(policies: ReturnType<typeof policy>[], view: EventView) {
  const rules = new RuleSet(policies);
  const judgement = judge(rules, view);
  const decision = decide(judgement, [], mintApprovalId);
  const outside = outsideOf(judgement, decision);
  const decided = (...answers: OutsideAnswer[]) =>
    withOutside(decision, outside!, answers, { entries: rules.entries, mintApprovalId });
  return { outside, decision, decided };
}

const verdict = (
  match: boolean | null,
  score: number | null = null,
  labels: string[] = [],
  spans: FoundSpan[] = [],
): OutsideAnswer => ({ verdict: { match, score, labels, spans }, ms: 7 });
const LET_GO = { outcome: 'allowed', redacted: null } as const;
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
  t.equal(outsideOf(judgement, LET_GO), undefined, 'the reply does not wait');
  t.notOk(isOpenOutside(judgement));
  t.match(outsideOf(judgement, LET_GO, true)!.questions, [{ check: 'slow', texts: ['hello', 'a', 'c'] }]);
  t.equal(outsideOf(judgement, { ...LET_GO, outcome: 'blocked' }, true), undefined);
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
  t.match(outsideOf(both, LET_GO)!.questions, [{ check: 'fast' }]);
  t.throws(() => compileRule(asking({ mode: 'watch', on_error: 'pending' })), /on_error|conditions/);
  t.throws(() => compileRule(asking({ mode: 'later' })));
});

const span = (text: number, start: number, end: number, more: Partial<FoundSpan> = {}): FoundSpan => ({
  ...{ text, start, end, label: null, score: null },
  ...more,
});
const keptOf = ({ redacted }: { redacted: { payloadText: string } | null }) =>
  redacted === null ? null : JSON.parse(redacted.payloadText);

t.test('what a check found is redacted in its place, and nothing else changes', async (t) => {
  const view = event(
    'prompt',
    '{"n": 1.0, "text": "\\u0041da and \\ud83d\\ude00 Bob", "other": ["Ada", "Ada"], "Ada": 7}',
  );
  const policies = [asking({ redact: true }, ['log'])];
  const { outside, decided } = asked(policies, view);
  t.same(outside!.questions[0]!.texts, ['Ada and \u{1f600} Bob', 'Ada', 'Ada']);
  const found = [span(0, 0, 3), span(0, 11, 14), span(0, 10, 12), span(2, 1, 3)];
  const decision = decided(verdict(true, 0.9, [], found));
  t.equal(
    decision.redacted!.payloadText,
    '{"n": 1.0, "text": "[redacted:check] and \\ud83d\\ude00[redacted:check]", "other": ["A[redacted:check]", "A[redacted:check]"], "Ada": 7}',
    'spans that overlap are one; what is equal is found alike; keys were not sent',
  );
  t.match(decision.matches, [{ detail: { check: 'guard', redacted: true } }]);
  t.match(JSON.parse(decision.resultJson).matches, [{ detail: { redacted: true } }]);
  const not = decided(verdict(false, 0.9, [], found));
  t.same([not.matches, not.redacted], [[], null], 'only where the policy matches');
  const without = asked([asking({}, ['log'])], view).decided(verdict(true, 0.9, [], found));
  t.equal(without.redacted, null);
  t.equal('redacted' in without.matches[0]!.detail, false);
});

t.test('of what was found only what the policy asks for is redacted; what has no place, whole', async (t) => {
  const view = event('prompt', { text: 'Ada of Rome', n: 5, list: ['a', ' ', { b: 'c' }] });
  const kept = (more: object, answer: OutsideAnswer) =>
    keptOf(asked([asking({ redact: true, ...more })], view).decided(answer));
  const of = (text: string, list: unknown = ['a', ' ', { b: 'c' }]) => ({ text, n: 5, list });
  const mark = '[redacted:check]';
  const all = of(mark, [mark, ' ', { b: mark }]);
  const [person, place] = [
    span(0, 0, 3, { label: 'PERSON', score: 0.9 }),
    span(0, 7, 11, { label: 'PLACE', score: 0.5 }),
  ];
  const said = verdict(true, 0.9, ['PERSON', 'PLACE'], [person, place]);
  t.same(kept({}, said), of(`${mark} of ${mark}`));
  t.same(kept({ when: { labels: ['PERSON'] } }, said), of(`${mark} of Rome`));
  t.same(kept({ when: { score: { gte: 0.8 } } }, said), of(`${mark} of Rome`));
  const both = { when: { labels: ['PLACE'], score: { gte: 0.8 } } };
  t.same(kept(both, said), of(`${mark} of ${mark}`), 'it holds for the answer, and for no place by itself');
  t.same(kept({ when: { labels: ['PERSON'] } }, verdict(true, 1, ['PERSON'], [span(0, 0, 3)])), of(`${mark} of Rome`));
  t.same(kept({}, verdict(true)), all, 'a check that gives no places');
  t.same(
    kept({ fields: ['payload.list.b', 'payload.none'] }, verdict(true)),
    of('Ada of Rome', ['a', ' ', { b: mark }]),
  );
  for (const failure of ['timeout', 'error', 'overload', 'too_large'] as const)
    t.same(kept({}, { failure, ms: 1 }), all, failure);
  t.same(kept({ when: { score: { gt: 0.5 } } }, verdict(true, null, [], [person])), all, 'a verdict without a score');
  t.equal(kept({ on_error: 'skip' }, { failure: 'error', ms: 1 }), null, 'by its own word');
  const four = ['one', 'two', 'three', 'four'].map((check) => asking({ check, redact: true }, ['log']));
  const fourth = asked(four, view).decided(...Array.from({ length: 3 }, () => verdict(false)), {
    ...{ failure: 'overload', ms: 0 },
  });
  t.same(keptOf(fourth), all, 'one for which there was no room');
});

t.test('a check redacts what filters have left, and no other match shows what it found', async (t) => {
  const filter = policy('data_filter', { detectors: ['email'], redact: true }, ['log']);
  const limit = policy('rate_limit', { threshold: 1, window: '1m', per: 'payload.by' }, ['log']);
  const view = event('prompt', { text: 'Ada, ada@example.com', by: 'Ada' });
  const rules = new RuleSet([filter, limit, asking({ redact: true }, ['log'])]);
  const judgement = judge(rules, view);
  const decision = decide(judgement, [3], mintApprovalId);
  t.match(decision.matches[1], { type: 'rate_limit', detail: { value: undefined } }, 'a filter found something');
  const outside = outsideOf(judgement, decision)!;
  t.same(outside.questions[0]!.texts, ['Ada, [redacted:email]', 'Ada']);
  const answers = [verdict(true, null, [], [span(0, 0, 3), span(1, 0, 3)])];
  const after = withOutside(decision, outside, answers, { entries: rules.entries, mintApprovalId });
  t.same(keptOf(after), { text: '[redacted:check], [redacted:email]', by: '[redacted:check]' });
  t.equal(outsideOf(judgement, after, true), undefined);
  const alone = new RuleSet([limit, asking({ redact: true }, ['log']), asking({ mode: 'watch', check: 'slow' })]);
  const judged = judge(alone, view);
  const limited = decide(judged, [3], mintApprovalId);
  t.match(limited.matches, [{ detail: { value: 'Ada' } }]);
  const told = withOutside(limited, outsideOf(judged, limited)!, answers, { entries: alone.entries, mintApprovalId });
  t.same(Object.keys(told.matches[0]!.detail).includes('value'), false);
  t.match(outsideOf(judged, told, true)!.questions, [
    { check: 'slow', texts: ['[redacted:check], ada@example.com', '[redacted:check]'] },
  ]);
});

t.test('where a condition cannot be evaluated no one is asked, and all that would be is redacted', async (t) => {
  const failing = asking({ redact: true, expression: 'event.payload.n > "x"', fields: ['payload.text'] }, ['log']);
  const { outside, decision } = asked([failing], PROMPT);
  t.equal(outside, undefined);
  t.match(decision.matches, [{ detail: { reason: 'expression_error', redacted: true } }]);
  t.match(keptOf(decision), { text: '[redacted:check]', list: ['a', { b: 'c' }] });
});

t.test('what it may take to redact a large event is more than the loop that answers does', async (t) => {
  const view = event('prompt', { texts: Array.from({ length: 5_000 }, (_, i) => `${i}`) });
  const allowance = () => loopShares().begin('acc', 0);
  t.throws(() => atOnce(new RuleSet([asking({ redact: true })]).judging(view, allowance())), TooLong);
  t.doesNotThrow(() => atOnce(new RuleSet([asking({})]).judging(view, allowance())));
});

t.test('redact is for what is asked before the reply, and waits for no one', async (t) => {
  t.throws(() => compileRule(asking({ redact: 'yes' })));
  t.throws(() => compileRule(asking({ redact: true, mode: 'watch' })));
  for (const word of ['on_timeout', 'on_error', 'on_overload'])
    t.throws(() => compileRule(asking({ redact: true, [word]: 'pending' })), word);
  t.doesNotThrow(() => compileRule(asking({ redact: false, mode: 'watch' })));
});

t.test('whatever the payload is, all that was asked about can be redacted, and the copy is read alike', async () => {
  const paths = [
    undefined,
    ['payload.text'],
    ['payload.a', 'payload.arguments.a'],
    ['payload.arguments', 'payload.a.a.a'],
  ];
  const cases = fc.tuple(arbitraryPayload, fc.constantFrom(...paths), fc.boolean());
  fc.assert(
    fc.property(cases, ([payload, fields, isPlaced]) => {
      const view = event('prompt', payload);
      const { outside, decided } = asked([asking({ redact: true, ...(fields && { fields }) })], view);
      const texts = outside?.questions[0]?.texts;
      if (outside === undefined || (isPlaced && texts === undefined)) return;
      const spans = isPlaced ? texts!.map((text, i) => span(i, 0, text.length)) : [];
      const { redacted } = decided(verdict(true, null, [], spans));
      const left = asked([asking({ ...(fields && { fields }) })], event('prompt', redacted!.payloadText));
      for (const text of left.outside?.questions[0]?.texts ?? [])
        if (/[^{}[\]:,"\\\s]/.test(text.replaceAll(/\[redacted:[a-z_]+\](~\d+)?/g, ''))) throw new Error(text);
    }),
    { seed, numRuns: runs(2_000) },
  );
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
