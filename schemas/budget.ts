// What is left of budgets, as it is listed (GET /v1/budgets).
import Type from 'typebox';
import { POLICY_MODES } from './closed-sets.ts';
import { ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

/** Scopes of one policy that are listed. */
export const BUDGET_SCOPES_MAX = 1_000;

const Spent = (description: string, example: string | number) =>
  about(Type.Union([Type.String(), Type.Integer()]), description, example);

export const BudgetState = Type.Object({
  policy_id: about(Type.String(), 'The budget.', exampleId('pol')),
  name: about(Type.String(), 'The name of the policy.', 'support, a day'),
  mode: about(
    Type.Enum([...POLICY_MODES]),
    '`shadow`: it stops nothing, and what it would have refused is not spent.',
    'enforce',
  ),
  per: about(Type.String(), 'What has a budget of its own: `agent`, `account`, `trace`, or a path.', 'agent'),
  scope: about(
    Type.Union([Type.String(), Type.Null()]),
    'Whose budget it is: an id, a trace or a value, cut at 100 characters. null: of the account, of events without the value, or one that is not shown since a data filter found a secret in the event.',
    exampleId('agt'),
  ),
  limit: Spent('What may be used up in one window: money with its currency, tokens, or events.', '25.00 USD'),
  spent: Spent('What events that are stored have used.', '3.20 USD'),
  reserved: Spent('What is held for calls that are under way.', '0.40 USD'),
  left: Spent('The limit without both. Below 0: it was passed.', '21.40 USD'),
  resets_at: about(
    Type.Union([ResponseTime, Type.Null()]),
    'When the window ends, or the oldest part of a sliding one. null: nothing is spent in a sliding one.',
  ),
  known: about(Type.Boolean(), 'false: what was used before is still being read; nothing fits until then.', true),
  stored: Type.Optional(
    Spent('With `check=true`: what the stored events say was spent. Left out: it was not asked.', '3.20 USD'),
  ),
  drift: Type.Optional(Spent('With `check=true`: `spent` without `stored`. 0: they agree.', '0.00 USD')),
});
export type BudgetState = Type.Static<typeof BudgetState>;

export const BudgetStates = Type.Object({
  items: about(
    Type.Array(BudgetState),
    `The budgets in force and those that are shadows, the policies in the order in which they were made; of each at most ${BUDGET_SCOPES_MAX} scopes, of those that were used in the window.`,
  ),
});
export type BudgetStates = Type.Static<typeof BudgetStates>;

/** The question to stored rows about a budget. Epoch ms, inclusive. `rollingMs` 0: all rows are of one part, `part`. */
export type SettledQuery = {
  policyId: string;
  unit: string;
  fromMs: number;
  toMs: number;
  rollingMs: number;
  part: number;
  past: PastOfBudget | undefined;
};
/** The calls from before there was the budget that are charged to it. */
export type PastOfBudget = {
  agentId: string | null;
  beforeMs: number;
  per: 'agent' | 'account';
  of: 'money' | 'tokens' | 'events';
  currency: string;
};
export type SettledAmount = { scope: string; shown: string; part: number; amount: number };
