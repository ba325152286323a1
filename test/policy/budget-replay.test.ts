// Replaying a budget over stored events against the plain reference of budgets: random prompts, completions and errors,
// while windows and holds pass, gone on with from what was kept at any moment.
import fc from 'fast-check';
import t from 'tap';
import { spendAmounts } from '../../src/ingest/spend-amounts.ts';
import { PolicyReplay, type ReplayedEvent } from '../../src/policy/replay/policy-replay.ts';
import { ReferenceBudget } from '../reference/budgets.ts';
import { runs, SEED as seed } from '../support/seed.ts';
import { AGENT, event, policy } from './support.ts';

const BEGIN = Date.UTC(2026, 10, 20);
const [LIMIT, WINDOW_MS, HOLD_MS] = [1_000, 600_000, 300_000];

type Step = { kind: 'prompt' | 'completion' | 'error'; of: number; named: boolean; tokens: number; waitMs: number };
const anySteps = fc.array(
  fc.record({
    kind: fc.constantFrom<Step['kind']>('prompt', 'prompt', 'prompt', 'completion', 'completion', 'error'),
    // Which of the prompts before is named, and by how many tokens it is known.
    of: fc.nat(5),
    named: fc.boolean(),
    tokens: fc.integer({ min: 1, max: 500 }),
    waitMs: fc.constantFrom(0, 1_000, 20_000, 60_000, 130_000),
  }),
  { minLength: 1, maxLength: 12 },
);

function eventOf({ kind, named, tokens }: Step, at: { id: string; ms: number }, target: string): ReplayedEvent {
  const about = { model: 'm-1', ...(named && kind !== 'prompt' ? { for: target } : {}) };
  const said = {
    prompt: { token_count: tokens, max_tokens: 100 },
    completion: { usage: { total_tokens: tokens } },
    error: {},
  }[kind];
  const { agent, ...view } = event(kind, { ...about, ...said });
  const of = { id: at.id, agentId: view.agent_id, requestId: at.id, receivedMs: at.ms };
  return { ...of, outcome: 'allowed', reason: '', result: null, view };
}

for (const actions of [['block'], ['log']] as const)
  t.test(`as the reference, with the action ${actions[0]}`, (t) => {
    const seen: Record<string, number> = {};
    fc.assert(
      fc.property(anySteps, fc.nat(12), (steps, cut) => {
        const conditions = { limit: { tokens: LIMIT }, window: '10m', estimate: 'worst', hold: '5m' };
        const tried = policy('budget', conditions, [...actions]);
        const of = { tried, replaces: null, inForce: null, amounts: spendAmounts(undefined) };
        const isCounted = actions[0] === 'log';
        const reference = new ReferenceBudget({ limit: LIMIT, windowMs: WINDOW_MS, holdMs: HOLD_MS, isCounted });
        let replay = new PolicyReplay(of);
        let ms = BEGIN;
        const prompts: string[] = [];
        return steps.every((step, i) => {
          ms += step.waitMs;
          if (i === cut) replay = new PolicyReplay(of, JSON.parse(JSON.stringify(replay.kept())));
          const id = `evt_${i}`;
          const target = step.named ? (prompts.at(-1 - step.of) ?? 'evt_of_none') : '';
          const { matched } = replay.next(eventOf(step, { id, ms }, target), AGENT);
          const about = { agent: AGENT.id, who: 'one', target };
          let isOver = false;
          if (step.kind === 'prompt') {
            isOver = !reference.reserve(id, { ...about, amount: step.tokens + 100 }, ms);
            prompts.push(id);
          } else if (step.kind === 'error') reference.release(about, ms);
          else {
            const used = reference.use(id, { ...about, amount: step.tokens }, ms);
            if (used.word !== 'twice') reference.settle(id, used, ms);
          }
          seen[`${step.kind} ${matched}`] = (seen[`${step.kind} ${matched}`] ?? 0) + 1;
          return matched === isOver;
        });
      }),
      { seed, numRuns: runs(3_000) },
    );
    t.ok((seen['prompt true'] ?? 0) > 0 && (seen['prompt false'] ?? 0) > 0, JSON.stringify(seen));
    t.end();
  });

t.test('a day begins again in its zone, and what is unpriced is said to be', (t) => {
  const conditions = { limit: { events: 1 }, window: 'day', zone: 'Europe/Berlin' };
  const amounts = spendAmounts(undefined);
  const replay = new PolicyReplay({
    tried: policy('budget', conditions, ['block']),
    ...{ replaces: null, inForce: null, amounts },
  });
  const step = { kind: 'prompt', of: 0, named: false, tokens: 1, waitMs: 0 } as const;
  const at = (id: string, time: string, kind: Step['kind'] = 'prompt') =>
    replay.next(eventOf({ ...step, kind }, { id, ms: Date.parse(time) }, ''), AGENT);
  t.equal(at('1', '2026-11-20T10:00:00Z').now, 'allowed');
  t.equal(at('2', '2026-11-20T10:01:00Z', 'completion').matched, false);
  const over = at('3', '2026-11-20T22:59:59Z');
  t.match(over, { now: 'blocked', detail: { needed: 1, left: 0, resets_at: '2026-11-20T23:00:00.000Z' } });
  t.equal(at('4', '2026-11-20T23:00:00Z').now, 'allowed', 'midnight in Berlin');
  const money = policy('budget', { limit: '1 USD', window: 'day' }, ['block']);
  const unpriced = new PolicyReplay({ tried: money, replaces: null, inForce: null, amounts });
  const told = unpriced.next(eventOf(step, { id: '1', ms: BEGIN }, ''), AGENT);
  t.match(told, { now: 'blocked', detail: { unknown: 'unpriced' } });
  t.end();
});
