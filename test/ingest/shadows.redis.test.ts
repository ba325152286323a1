// Shadows that are sequences and budgets, on a real Redis: a shadow says of each event what the same policy says that
// is in force on another account, where its callers follow it. Random policies and events, one by one and in batches;
// of budgets what is settled is what is spent, to the unit.
import t, { type Test } from 'tap';
import { budgetSettling } from '../../pipelines/budgets/settle-budgets.ts';
import { decodeSummaries, type EventSummary } from '../../schemas/entry.ts';
import type { PolicyResult } from '../../schemas/event.ts';
import type { Policy } from '../../schemas/policy.ts';
import { ServiceError } from '../../src/common/errors.ts';
import { mintId } from '../../src/common/ids.ts';
import { STEADY_CLOCK } from '../../src/common/steady-clock.ts';
import { Ingest } from '../../src/ingest/ingest.ts';
import type { IngestParts } from '../../src/ingest/ingest-parts.ts';
import { RateLimitBatcher } from '../../src/ingest/rate-limit-batcher.ts';
import { SequenceBatcher } from '../../src/ingest/sequence-batcher.ts';
import { ShadowCounters } from '../../src/ingest/shadow-counters.ts';
import { SpendBatcher } from '../../src/ingest/spend-batcher.ts';
import { shadowAllowances } from '../../src/policy/allowance.ts';
import type { RuleSet } from '../../src/policy/engine.ts';
import { memoryName } from '../../src/policy/kinds/sequence.ts';
import type { BudgetTerms } from '../../src/policy/kinds/spend-budget.ts';
import { prepareRules } from '../../src/policy/prepare-rules.ts';
import { Counters } from '../../src/policy/quotas/counters.ts';
import { SequenceStore } from '../../src/policy/quotas/sequence-store.ts';
import { SpendStore } from '../../src/policy/quotas/spend-store.ts';
import { spendOf, windowArgument } from '../../src/policy/spends/spend-form.ts';
import { connectCommands } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import type { Append, AppendCaller } from '../../src/streams/append.ts';
import { opened, startRedis, untilConnected } from '../support/redis.ts';
import { randomFrom, runs, SEED } from '../support/seed.ts';
import { agent, agentId, CODECS, policiesOf, submitted } from './support.ts';

const server = await startRedis(t, { single: true });
const keys = new Keys({ prefix: 'shadows-', partitions: 2 });
const redis = await opened(t, untilConnected(connectCommands(server.address)));
const stores = { redis, keys };
const spends = new SpendStore(redis, keys);
const settle = budgetSettling(stores);
const CASES = runs(40);
const EVENTS = 40;
/** The machine may be busy: that is another test's. */
const ANSWER_MS_MAX = 60_000;

type Sent = { type: string; trace_id?: string; payload: Record<string, unknown> };
type Result = { id: string; policy_result: PolicyResult };
/** An account with its front. `refuses`: its appends fail. */
type Side = { account: string; rules: RuleSet; ingest: Ingest; stored: EventSummary[]; refuses: boolean };

/** `policies` as they are in force, or tried, with what they need of Redis. */
async function side(policies: readonly Policy[]): Promise<Side> {
  const account = mintId('account', Date.now());
  const rules = await prepareRules(policies, undefined, { traceKey: 'key' });
  const made: Side = { account, rules, stored: [], refuses: false, ingest: undefined as unknown as Ingest };
  for (const policy of policies) {
    if (policy.type === 'sequence') await redis.hset(keys.sequences(account), memoryName(policy), '1');
    if (policy.type !== 'budget') continue;
    const of = ofBudget(made, policy.id);
    await spends.run(account, [
      { of, operation: { op: 'begin', life: 86_400_000 } },
      { of, operation: { op: 'known' } },
    ]);
  }
  made.ingest = new Ingest(partsOf(made), CODECS);
  return made;
}

function termsOf({ rules }: Side, id: string): BudgetTerms {
  const found = rules.rules.get(id) ?? (rules.shadows as unknown as { rules: RuleSet }).rules.rules.get(id);
  return found!.terms as BudgetTerms;
}

function ofBudget(of: Side, id: string) {
  return spendOf(id, termsOf(of, id));
}

let entries = 0;

function partsOf(of: Side): IngestParts {
  const batchers = () => ({
    spends: new SpendBatcher(spends),
    sequences: new SequenceBatcher(new SequenceStore(redis, keys)),
    limits: new RateLimitBatcher(new Counters(redis), keys),
  });
  const { limits, ...own } = batchers();
  t.teardown(() => limits.close());
  const nothing = () => undefined;
  return {
    cache: { agent: () => ({ record: agent }), rules: () => of.rules },
    ...{ rateLimits: limits, ...own, onUnknownBudgets: nothing },
    appender: {
      appendFor: ({ summaries }: Append, caller: AppendCaller) => {
        if (of.refuses) {
          caller.refused(new ServiceError('unavailable', 'the append fails', { recorded: false }));
          return;
        }
        const held = decodeSummaries(`[${summaries.map(String).join()}]`);
        of.stored.push(...held);
        // Settled before the next is sent, so that nothing is on its way.
        void settle('stream', [{ id: `${++entries}-0`, held }]).then(() => caller.appended());
      },
      takeBack: () => false,
    },
    backlog: { full: () => false },
    clock: STEADY_CLOCK,
    ...{ onAccepted: nothing, onMatched: nothing, onBytes: nothing, onUnevaluated: nothing },
    shadow: {
      counters: new ShadowCounters(batchers(), ANSWER_MS_MAX),
      allowances: shadowAllowances({ request: 1e9, second: 1e9, burst: 1e9 }),
      onJudged: nothing,
    },
  } as unknown as IngestParts;
}

async function send({ account, ingest }: Side, events: readonly Sent[]): Promise<Result[]> {
  const shape = events.length === 1 ? 'one' : 'many';
  const body = Buffer.from(JSON.stringify(shape === 'one' ? events[0] : { events }));
  const request = { account, agentId, shape, body, requestId: 'r', idempotencyKey: undefined } as const;
  const answer = await submitted(ingest, request);
  const read = JSON.parse(answer.body.toString());
  answer.release?.();
  return shape === 'one' ? [read] : read.results;
}

type Random = () => number;
const oneOf = <T>(random: Random, of: readonly T[]): T => of[Math.floor(random() * of.length)]!;
const OTHERS = [
  { type: 'block_action', actions: ['block'], conditions: { 'payload.bad': true } },
  { type: 'require_approval', actions: ['alert'], conditions: { 'payload.ask': true } },
];

/** The policy that is tried, the same once more, what stands beside it, and where it copies one: what that is. */
function policies(random: Random, tried: object): { inForce: Policy[]; withShadow: Policy[]; id: string } {
  const [block, ask, own, original, again] = policiesOf([
    ...OTHERS,
    tried,
    { ...tried, actions: [oneOf(random, ['block', 'log'])] },
    tried,
  ] as Parameters<typeof policiesOf>[0]) as [Policy, Policy, Policy, Policy, Policy];
  const isCopy = own.type === 'sequence' && random() < 0.5;
  if (isCopy) original.conditions = { ...original.conditions, tool: oneOf(random, ['a', 'b']) };
  const mode = { mode: 'shadow' as const, ...(isCopy ? { shadow_of: original.id } : {}) };
  const withShadow = [block, ask, { ...own, ...mode }, { ...again, ...mode }, ...(isCopy ? [original] : [])];
  return { inForce: [block, ask, own], withShadow, id: own.id };
}

const AGAIN = `pol_${'4'.padStart(26, '0')}`;
const has = ({ policy_result: { matches } }: Result, id: string) => matches.some(({ policy_id: of }) => of === id);

/** The verdicts of the shadow on the events that were stored since. */
const saidSince = ({ stored }: Side, from: number, id: string, isTwice = true) =>
  stored.slice(from).map(({ shadow = [] }) => {
    const would = (id: string) => shadow.find(({ policy_id: of }) => of === id)?.would ?? 'not_matched';
    if (isTwice && would(id) !== would(AGAIN)) throw new Error(`the two differ: ${JSON.stringify(shadow)}`);
    return would(id);
  });

/** Sends both the same; answers what each said. */
async function both(t: Test, [followed, tried]: readonly [Side, Side], events: [Sent[], Sent[]], id: string) {
  const from = tried.stored.length;
  const [there, here] = [await send(followed, events[0]), await send(tried, events[1])];
  t.ok(
    here.every((one) => !has(one, id)),
    'in no answer',
  );
  const matched = there.map((one) => (has(one, id) ? 'matched' : 'not_matched'));
  const said = saidSince(tried, from, id).map((would) => (would === 'blocked' ? 'matched' : would));
  return { there, here, matched, said };
}

const TOOLS = ['a', 'b', 'c', 'd'];

function sequence(random: Random): object {
  const step = () => ({
    tool: oneOf(random, ['a', 'b', ['a', 'c']]),
    ...(random() < 0.2 ? { outcome: 'any' } : {}),
  });
  const after = random() < 0.75 ? { after: Array.from({ length: 1 + Math.floor(random() * 2) }, step) } : {};
  const unless = 'after' in after && random() < 0.5 ? {} : { unless: { tool: oneOf(random, TOOLS) } };
  const more = 'after' in after && random() < 0.3 ? { at_least: 2 } : {};
  const same = random() < 0.3 ? { same: { 'payload.of': 'payload.of' } } : {};
  const conditions = {
    ...{ tool: oneOf(random, [['b', 'c'], 'd', ['c', 'd']]), within: '20h' },
    ...{ per: oneOf(random, ['agent', 'trace', 'account']), ...after, ...unless, ...more, ...same },
  };
  return { type: 'sequence', actions: [oneOf(random, ['block', 'block', 'log'])], conditions };
}

function call(random: Random): Sent {
  const flags = random() < 0.1 ? { bad: true } : random() < 0.1 ? { ask: true } : {};
  const trace = oneOf(random, [undefined, 'one', 'one', 'two']);
  return {
    type: 'tool_call',
    ...(trace === undefined ? {} : { trace_id: trace }),
    payload: { tool: oneOf(random, TOOLS), ...(random() < 0.7 ? { of: oneOf(random, ['x', 'y']) } : {}), ...flags },
  };
}

t.test('a sequence that is tried says what it says in force, whatever the policy that it copies blocks', async (t) => {
  const random = randomFrom(SEED);
  let matches = 0;
  for (let i = 0; i < CASES; i++) {
    const { inForce, withShadow, id } = policies(random, sequence(random));
    const sides = [await side(inForce), await side(withShadow)] as const;
    for (let events = 0; events < EVENTS; ) {
      const sent = Array.from({ length: oneOf(random, [1, 1, 2, 5]) }, () => call(random));
      events += sent.length;
      const { matched, said } = await both(t, sides, [sent, sent], id);
      if (matched.join() !== said.join())
        throw new Error(`${i}: ${JSON.stringify([withShadow, sent])}: in force ${matched}, tried ${said}`);
      matches += matched.filter((one) => one === 'matched').length;
    }
  }
  t.comment(`${matches} matches`);
  t.ok(matches > CASES);
});

function budget(random: Random): object {
  const limit = oneOf(random, [{ events: 3 }, { tokens: 100 }, { tokens: 400 }]);
  const conditions = { limit, window: '1d', estimate: 'worst', per: oneOf(random, ['agent', 'account', 'trace']) };
  return { type: 'budget', actions: ['block'], conditions };
}

async function spentBy(of: Side, id: string): Promise<string[]> {
  const { window } = termsOf(of, id);
  const operation = { op: 'read', most: 100, ...windowArgument(window, Date.now()) } as const;
  const [[known, ...rest]] = (await spends.run(of.account, [{ of: ofBudget(of, id), operation }])) as [string[]];
  t.equal(known, '1');
  const scopes: string[] = [];
  for (let at = 0; at < rest.length; at += 5) scopes.push(rest.slice(at, at + 4).join(' '));
  return scopes.sort();
}

/** The amounts that a budget was charged by the entries of an account, by scope. */
function settledBy({ stored }: Side, id: string): Map<string, number> {
  const sums = new Map<string, number>();
  for (const { settled = [] } of stored)
    for (const { by, scope, amount } of settled) if (by.policy === id) sums.set(scope, (sums.get(scope) ?? 0) + amount);
  return sums;
}

t.test('a budget that is tried refuses, reserves and spends what it does in force', async (t) => {
  const random = randomFrom(SEED + 1);
  let refused = 0;
  for (let i = 0; i < CASES; i++) {
    const { inForce, withShadow, id } = policies(random, budget(random));
    const sides = [await side(inForce), await side(withShadow)] as const;
    const [followed, tried] = sides;
    for (let calls = 0; calls < EVENTS / 2; calls++) {
      const trace = `call ${calls}`;
      const most = random() < 0.9 ? { max_tokens: oneOf(random, [5, 20, 60]) } : {};
      const flags = random() < 0.1 ? { bad: true } : {};
      const payload = { model: 'm', token_count: oneOf(random, [1, 10, 30]), ...most, ...flags };
      const prompt = { type: 'prompt', trace_id: trace, payload };
      const { there, here, matched, said } = await both(t, sides, [[prompt], [prompt]], id);
      if (matched.join() !== said.join())
        throw new Error(`${i}: ${JSON.stringify([withShadow, prompt])}: in force ${matched}, tried ${said}`);
      const isRefused = there[0]!.policy_result.outcome === 'blocked';
      if (matched[0] === 'matched') refused++;
      const how = random();
      if (how < 0.2 || 'bad' in payload) continue;
      const usage = { usage: { prompt_tokens: 10, completion_tokens: oneOf(random, [1, 20, 50]) } };
      const done = (id: string): Sent => ({
        type: how < 0.35 ? 'error' : 'completion',
        trace_id: trace,
        payload: { model: 'm', ...(how < 0.7 ? { for: id } : {}), ...(how < 0.35 ? {} : usage) },
      });
      // Who is refused does not call; who is not refused does, also where the shadow would have.
      if (!isRefused) await send(followed, [done(there[0]!.id)]);
      await send(tried, [done(here[0]!.id)]);
    }
    t.same(await spentBy(tried, id), await spentBy(followed, id), `${i}`);
    t.same(settledBy(tried, id), settledBy(followed, id));
    const counted = (await spentBy(tried, id)).map((line) => line.split(' ').at(-2));
    const sums = (await spentBy(tried, id)).map((line) => settledBy(tried, id).get(line.split(' ')[0]!) ?? 0);
    t.same(counted, sums.map(String), 'settlements are what is spent');
  }
  t.comment(`${refused} refused`);
  t.ok(refused > CASES);
});

t.test(
  'what is not recorded holds nothing of a budget that is tried, and a second completion charges nothing',
  async (t) => {
    const [shadow] = policiesOf([
      {
        type: 'budget',
        actions: ['block', 'alert'],
        conditions: { limit: { tokens: 100 }, window: 'day', estimate: 'worst', warn_at: [0.1] },
      },
    ]) as [Policy];
    const tried = await side([{ ...shadow, mode: 'shadow' }]);
    const prompt = (tokens: number): Sent => ({
      type: 'prompt',
      payload: { model: 'm', token_count: 0, max_tokens: tokens },
    });
    const state = async () => (await spentBy(tried, shadow.id))[0]?.split(' ').slice(-2).join(' ');
    tried.refuses = true;
    await t.rejects(send(tried, [prompt(60)]));
    tried.refuses = false;
    const [first] = (await send(tried, [prompt(70)])) as [Result];
    t.same(first.policy_result, { outcome: 'allowed', reason: null, policy_id: null, matches: [] }, 'nothing is told');
    t.equal(await state(), '0 70', 'the one that was not recorded is released');
    const [second] = (await send(tried, [prompt(40)])) as [Result];
    t.same(saidSince(tried, 1, shadow.id, false), ['blocked']);
    const done = (id: string, tokens: number): Sent => ({
      type: 'completion',
      payload: { model: 'm', for: id, usage: { prompt_tokens: 0, completion_tokens: tokens } },
    });
    await send(tried, [done(second.id, 40)]);
    t.equal(await state(), '0 70', 'it would not have been called');
    for (const _ of [1, 2]) await send(tried, [done(first.id, 50)]);
    t.equal(await state(), '50 0');
    t.same(
      tried.stored.map(({ settled = [] }) => settled.map(({ by, amount }) => [by.warn, amount])),
      [[], [], [], [[[], 50]], []],
      'charged once, and a share that is reached raises nothing',
    );
  },
);
