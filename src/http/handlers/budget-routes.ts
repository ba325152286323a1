// Budgets: what is left of each, and beginning one again. They are of the whole account, so keys that are bound to an
// agent are refused the list.
import { BudgetStates } from '../../../schemas/budget.ts';
import { Policy } from '../../../schemas/policy.ts';
import { found, json, versioned } from '../answers/reply.ts';
import { flag, text } from '../reading/query.ts';
import { type Route, route } from '../route.ts';
import { ofPolicy, policyIdOf } from './policy-routes.ts';

export const budgetRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/budgets',
    needs: 'read',
    bound: 'refused',
    query: {
      policy_id: text('Only this budget; left out: all'),
      check: flag('With what the stored events say was spent, and how far the counter is from it', false),
    },
    operation: {
      id: 'listBudgets',
      tag: 'Budgets',
      summary: 'List what is left of budgets',
      description:
        'Of each policy of the type `budget` in force and each scope that was used in its window. With `check=true` it waits for events that were acknowledged before.',
      answers: { 200: { description: 'The budgets', schema: BudgetStates } },
    },
    async handle({ account, query: { policy_id: policyId, check } }, { registry }) {
      return json(200, { items: await registry.budgets.list(account, { policyId, check }) });
    },
  }),
  route({
    method: 'POST',
    path: '/v1/policies/{id}/reset',
    needs: 'configure',
    bound: ofPolicy,
    conditional: true,
    operation: {
      id: 'resetBudget',
      tag: 'Budgets',
      summary: 'Begin the window of a budget again',
      description:
        'Nothing is spent or held from then on; what is under way counts when it is settled. In force within a second. The audit log says who did it.',
      answers: { 200: { description: 'The policy as it is now', schema: Policy, etag: true } },
      errors: ['validation_failed'],
    },
    async handle({ account, params, revisions, actor }, { registry }) {
      const policy = found(
        await registry.policies.reset(account, policyIdOf(params[0]!), { revisions }, actor),
        'policy',
      );
      registry.budgets.know(account, [policy.id]);
      return versioned(policy);
    },
  }),
];
