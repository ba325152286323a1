// `gatehouse budgets check`: are the counters of budgets what the stored events say? Over the API of a service
// (GATEHOUSE_URL, GATEHOUSE_API_KEY).
// Exit status: 0 they are; 1 one differs, or the service cannot be asked.
import type { BudgetState, BudgetStates } from '../../schemas/budget.ts';
import { ask, type Options } from './ask-service.ts';

export async function budgetsCheck(options: Options): Promise<number> {
  const { items } = (await ask(options, 'GET', '/v1/budgets?check=true')).body as BudgetStates;
  const differing = items.filter(({ drift = 0 }) => Number.parseFloat(String(drift)) !== 0);
  for (const item of differing) process.stdout.write(`${lineOf(item)}\n`);
  process.stdout.write(`${items.length} counters, ${differing.length} of them differ from what is stored\n`);
  return differing.length === 0 ? 0 : 1;
}

function lineOf({ policy_id: id, name, scope, spent, stored, drift }: BudgetState): string {
  return `${id} ${JSON.stringify(name)} ${scope ?? '-'}: counted ${spent}, stored ${stored}, drift ${drift}`;
}
