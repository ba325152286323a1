// Shadows can change nothing: whatever policies, shadows and bodies are generated, both codecs answer, store and pass
// on to the pipelines the same bytes with shadows and without, and what the shadows say is what each would have done in
// force. GATEHOUSE_TEST_EVENTS=100000 sets how many events are compared (default 800), GATEHOUSE_TEST_SEED repeats a
// run.
import fc from 'fast-check';
import t from 'tap';
import { decodeSummaries, type EventSummary } from '../../schemas/entry.ts';
import type { Policy } from '../../schemas/policy.ts';
import { ServiceError } from '../../src/common/errors.ts';
import type { ShadowSums } from '../../src/ingest/ingest-parts.ts';
import { observedCodec } from '../../src/ingest/observed-codec.ts';
import { shadowAllowances } from '../../src/policy/allowance.ts';
import type { RuleSet } from '../../src/policy/engine.ts';
import { PolicyError } from '../../src/policy/policy-error.ts';
import { prepareRules } from '../../src/policy/prepare-rules.ts';
import { body, orders } from '../reference/generate.ts';
import { runs, SEED } from '../support/seed.ts';
import { agentId, blotted, CODECS, JSON_CODEC, NOW, type PolicyOrder, policiesOf, type Seen, take } from './support.ts';

const EVENTS = Number(process.env['GATEHOUSE_TEST_EVENTS'] ?? 800);
const EVENTS_PER_BODY = 6.5;

const clock = Date.now;
t.before(() => {
  Date.now = () => NOW;
});
t.after(() => {
  Date.now = clock;
});

/** A shadow of its own, or a copy of the policy at that place with another's conditions if they are of one type. */
const shadows = orders(agentId).chain((own) =>
  fc.tuple(fc.constant(own), fc.array(fc.option(fc.nat(5)), { minLength: own.length, maxLength: own.length })),
);

function shadowsOf(
  [own, copied]: readonly [readonly PolicyOrder[], readonly (number | null)[]],
  inForce: Policy[],
): Policy[] {
  return policiesOf(own).map((policy, i) => {
    const original = copied[i] === null ? undefined : inForce[copied[i]! % inForce.length];
    const shadow = { ...policy, id: `pol_s${String(i).padStart(25, '0')}`, mode: 'shadow' as const };
    if (original === undefined || original.type !== policy.type) return shadow;
    return { ...shadow, agent_id: original.agent_id, shadow_of: original.id };
  });
}

t.test(
  'with shadows the same is answered and recorded, by both codecs, and each says what it would have done',
  async (t) => {
    const counts = { bodies: 0, events: 0, said: 0, not_matched: 0, blocked: 0, pending: 0, matched: 0 };
    const property = fc.asyncProperty(
      orders(agentId),
      shadows,
      body,
      async (given, tried, { bytes, shape, events }) => {
        const inForce = policiesOf(given);
        const trying = shadowsOf(tried, inForce);
        const [rules, both] = [await prepared(inForce), await prepared([...inForce, ...trying])];
        if (rules === null || both === null) return;
        if (both.shadows !== undefined && both.shadows.policies.length < trying.length) return; // one does not compile
        const [general, fast] = [await take(rules, bytes, shape, JSON_CODEC), await take(rules, bytes, shape, CODECS)];
        const [generalTried, fastTried] = [
          await take(both, bytes, shape, JSON_CODEC),
          await take(both, bytes, shape, CODECS),
        ];
        same('json', general, generalTried);
        same('wasm', fast, fastTried);
        const said = saidOf(fastTried);
        if (JSON.stringify(said) !== JSON.stringify(saidOf(generalTried)))
          throw new Error('the codecs differ in shadows');
        if (!(general.answer instanceof ServiceError))
          for (const shadow of trying) await asInForce(shadow, { inForce, said, bytes, shape, plain: general });
        counts.bodies++;
        counts.events += events;
        for (const { would } of said.flat()) {
          counts.said++;
          if (would !== 'skipped') counts[would as 'blocked']++;
        }
      },
    );
    await fc.assert(property, { numRuns: Math.max(60, runs(Math.ceil(EVENTS / EVENTS_PER_BODY))), seed: SEED });
    t.comment(JSON.stringify(counts));
    for (const verdict of ['not_matched', 'blocked', 'pending', 'matched'] as const)
      t.ok(counts[verdict] > 0, `${verdict} occurs`);
  },
);

t.test('a shadow with conditions on commands or SQL says by both codecs what it would have done', async (t) => {
  const block = (conditions: object) => ({ type: 'block_action', conditions, actions: ['block'] });
  const trying = shadowsOf(
    [
      [
        block({ arguments: { shell: { command: 'rm', flags: ['r', 'f'] } } }),
        block({ arguments: { sql: { statement: 'drop' } } }),
      ],
      [null, null],
    ],
    [],
  );
  const rules = (await prepared(trying))!;
  for (const [text, ...expected] of [
    ['cd / && sudo r""m -r -f x', 'blocked', 'not_matched'],
    ['DROP/**/TABLE users', 'not_matched', 'blocked'],
    ['echo rm -rf x, and how to drop a table', 'not_matched', 'not_matched'],
  ] as const) {
    const bytes = Buffer.from(JSON.stringify({ type: 'tool_call', payload: { tool: 'x', arguments: { text } } }));
    for (const codecs of [JSON_CODEC, CODECS]) {
      const seen = await take(rules, bytes, 'one', codecs);
      const would = (id: string) => saidOf(seen)[0]!.find(({ policy_id }) => policy_id === id)?.would ?? 'not_matched';
      t.same(
        trying.map(({ id }) => would(id)),
        expected,
        text,
      );
      t.match(seen.answer, /"outcome":"allowed"/);
    }
  }
});

type Body = { bytes: Buffer; shape: 'one' | 'many' };

/** A shadow matches where the same policy does that is in force, with the one that it copies taken out. */
async function asInForce(
  shadow: Policy,
  { inForce, said, bytes, shape, plain }: Body & { inForce: Policy[]; said: Said[][]; plain: Seen },
): Promise<void> {
  const others = inForce.filter(({ id }) => id !== shadow.shadow_of);
  // Which of several limits counts an event that another one blocks is not the same afterwards and at once.
  if (shadow.type === 'rate_limit' && others.some(({ type }) => type === 'rate_limit')) return;
  const rules = await prepared([...others, { ...shadow, mode: 'enforce' }]);
  const matched = matchesOf(await take(rules!, bytes, shape, JSON_CODEC), shadow.id);
  const original = matchesOf(plain, shadow.shadow_of ?? '');
  for (const [i, isMatched] of matched.entries()) {
    const would = said[i]!.find(({ policy_id: id }) => id === shadow.id)?.would;
    const expected = isMatched ? verdictOf(shadow) : original[i] ? 'not_matched' : undefined;
    if (would === expected) continue;
    // A limit that is not asked, since another policy blocks, says nothing.
    throw new Error(`event ${i}: ${JSON.stringify(shadow)} said ${would}, in force it is ${expected}`);
  }
}

function verdictOf({ type, actions }: Policy): string {
  if (actions.every((action) => action === 'log')) return 'matched';
  if (type === 'require_approval') return 'pending';
  return actions.includes('block') ? 'blocked' : 'matched';
}

async function prepared(policies: readonly Policy[]): Promise<RuleSet | null> {
  try {
    return await prepareRules(policies);
  } catch (error) {
    if (error instanceof PolicyError) return null;
    throw error;
  }
}

function summariesOf({ summaries }: Seen): EventSummary[] {
  return decodeSummaries(`[${summaries}]`);
}

function matchesOf(seen: Seen, policyId: string): boolean[] {
  return summariesOf(seen).map(({ matches = [] }) => matches.some(({ policy_id: id }) => id === policyId));
}

type Said = { policy_id: string; revision: number; would: string };

function saidOf(seen: Seen): Said[][] {
  return summariesOf(seen).map(({ shadow = [] }) => [...shadow]);
}

/** Answer, rows and summaries, but for what shadows said, which stands behind the summaries. */
function same(who: string, without: Seen, withThem: Seen): void {
  const told = ({ answer, rows }: Seen) =>
    blotted(
      (answer instanceof ServiceError ? `${answer.code} ${JSON.stringify(answer.details)}` : answer) +
        rows.toString('latin1'),
    );
  if (told(without) !== told(withThem)) throw new Error(`${who}: answers or rows differ`);
  const before = blotted(without.summaries);
  const after = blotted(withThem.summaries.replace(/,\{"shadows":.*$/, ''));
  if (before !== after) throw new Error(`${who}: summaries differ\n${before}\n${after}`);
}

t.test('a shadow that is over its allowance is skipped and counted, and its event is not', async (t) => {
  const [filter] = policiesOf([
    {
      type: 'data_filter',
      conditions: { patterns: ['(?i)pass ?word', 'sec[a-z]*t'], redact: true },
      actions: ['block'],
    },
  ]);
  const shadow: Policy = { ...filter!, id: `pol_s${'0'.repeat(25)}`, mode: 'shadow', shadow_of: filter!.id };
  const rules = (await prepared([filter!, shadow]))!;
  const bytes = Buffer.from(
    JSON.stringify({ events: [{ type: 'prompt', payload: { text: `my password ${'is long '.repeat(2_000)}` } }] }),
  );
  for (const codecs of [JSON_CODEC, CODECS]) {
    const counted: unknown[] = [];
    const nothing = {
      begin: (account: string) => shadowAllowances({ request: 0, second: 0, burst: 0 }).begin(account, 0),
    };
    const seen = await take(rules, bytes, 'many', codecs, {
      allowances: nothing,
      onJudged: (counts) => void counted.push(counts),
    });
    const result = (JSON.parse(seen.answer as string) as { results: { policy_result: { outcome: string } }[] })
      .results[0]!;
    t.equal(result.policy_result.outcome, 'blocked', 'the policy in force has judged it');
    t.same(saidOf(seen), [[{ policy_id: shadow.id, revision: 1, would: 'skipped' }]]);
    t.same(counted, [{ said: [['skipped', 1]], skipped: [['budget', 1]] }]);
    t.notMatch(seen.summaries, /password/);
  }
});

t.test(
  'T26: shadows that take more time than their units say are skipped, counted, and judged again later',
  async (t) => {
    const conditions = { detectors: ['email', 'api_key', 'credit_card'], patterns: ['zz[0-9]+'] };
    const one = { type: 'data_filter', conditions, actions: ['log'] } as const;
    const shadows = policiesOf(Array(20).fill(one)).map(
      (policy): Policy => ({ ...policy, id: `pol_s${policy.id.slice(5)}`, mode: 'shadow' }),
    );
    const rules = (await prepared(shadows))!;
    const payload = { text: 'mail a@example.com and 4111 '.repeat(70) };
    const bytes = Buffer.from(JSON.stringify({ type: 'prompt', payload }));
    const units = { request: 1e9, second: 1e9, burst: 1e9 };
    for (const codecs of [JSON_CODEC, CODECS]) {
      const allowances = shadowAllowances({ ...units, time: { second: 50, burst: 20 } });
      let nowMs = 0;
      const clocked = { begin: (account: string) => allowances.begin(account, nowMs) };
      const said = async () => {
        const counted: ShadowSums[] = [];
        const onJudged = (sums: ShadowSums) => void counted.push(sums);
        await take(rules, bytes, 'one', codecs, { allowances: clocked, onJudged });
        return counted;
      };
      const judged = [{ said: [['matched', 20]], skipped: [] }];
      t.same(await said(), judged);
      let events = 1;
      let last = await said();
      while (last[0]!.skipped.length === 0 && events++ < 10_000) last = await said();
      t.same(last, [{ said: [['skipped', 20]], skipped: [['budget', 20]] }], `after ${events} events of no time`);
      nowMs += 1_000;
      t.same(await said(), judged, 'a second brings them their share again');
    }
  },
);

t.test('of one event no more time is counted than it can take: a pause of the machine is not theirs', async (t) => {
  const allowances = shadowAllowances({ request: 1, second: 0, burst: 1e9, time: { second: 0, burst: 20 } });
  const allowance = allowances.begin('acc', 0);
  allowance.spendTime(1_000, 1);
  t.notOk(allowance.isSpent);
  allowance.spendTime(1_000, 10);
  t.ok(allowance.isSpent);
});

t.test('a shadow that has expired says nothing from that moment on', async (t) => {
  const [block] = policiesOf([{ type: 'block_action', conditions: {}, actions: ['block'] }]);
  const shadow = (expiresMs: number): Policy => ({
    ...block!,
    ...{ id: `pol_s${'0'.repeat(25)}`, mode: 'shadow', expires_at: new Date(expiresMs).toISOString() },
  });
  const bytes = Buffer.from(JSON.stringify({ type: 'prompt', payload: {} }));
  const said = async (expiresMs: number) =>
    saidOf(await take((await prepared([shadow(expiresMs)]))!, bytes, 'one', CODECS))[0]!.length;
  t.equal(await said(NOW + 1), 1);
  t.equal(await said(NOW), 0);
});

t.test(
  'of what is reported after the fact it says the same, but of what was decided before, and no limit counts',
  async (t) => {
    const [block, limit] = policiesOf([
      { type: 'block_action', conditions: {}, actions: ['block'] },
      { type: 'rate_limit', conditions: { threshold: 1, window: '1h' }, actions: ['block'] },
    ]);
    const shadows = [block!, limit!].map((policy, i): Policy => {
      return { ...policy, id: `pol_s${String(i).padStart(25, '0')}`, mode: 'shadow' };
    });
    const submission = {
      type: 'tool_call' as const,
      payload: {},
      payloadText: '{}',
      traceId: undefined,
      occurredAt: NOW,
    };
    const decided = { id: 'evt_1', outcome: 'allowed' as const, reason: null, policyId: null };
    const before = { before: decided, call: undefined };
    const codec = observedCodec([submission, submission, submission], [undefined, before, undefined]);
    const seen = await take((await prepared(shadows))!, Buffer.alloc(0), 'many', [codec]);
    const said = [{ policy_id: shadows[0]!.id, revision: 1, would: 'blocked' }];
    t.same(saidOf(seen), [said, [], said]);
  },
);
