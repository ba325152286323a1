// What an account used, by day and by agent: for who bills it. It waits for what was acknowledged before, as lists do.
import { usageByDay } from '../../../clickhouse/queries/usage-by-day.ts';
import { AccountUsage, USAGE_AGENTS_MAX, USAGE_DAYS_MAX } from '../../../schemas/usage.ts';
import { validationFailed } from '../../common/validation.ts';
import { ask, json, markIncomplete } from '../answers/reply.ts';
import { anyOf, text } from '../reading/query.ts';
import { type Route, route } from '../route.ts';

const DAY_MS = 86_400_000;

const query = {
  from: text('First day, UTC: 2026-11-01. Left out: the first of the month of `to`'),
  to: text('Last day, UTC, included. Left out: today'),
  agent_id: anyOf(text('Only of this agent')),
};

export const usageRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/usage',
    needs: 'read',
    bound: 'refused',
    query,
    operation: {
      id: 'getUsage',
      tag: 'Account',
      summary: 'Get what the account used, by day and by agent',
      description: `Recorded events, bytes of their payloads and tokens, counted from what is stored: events that were erased, or are past the retention, are not in it. Days are those of arrival, in UTC; at most ${USAGE_DAYS_MAX} of them.`,
      answers: { 200: { description: 'What was used', schema: AccountUsage } },
      canBeIncomplete: true,
    },
    async handle({ account, query: asked }, { barrier, clickhouse, registry }) {
      const { fromMs, toMs } = daysOf(asked);
      const isComplete = await barrier.waitForEvents(account, null);
      const range = { fromMs, toMs: toMs + DAY_MS - 1, agentId: asked.agent_id, max: USAGE_AGENTS_MAX };
      const excludeAgents = await registry.agents.erasing(account);
      const {
        days: found,
        agents,
        rest,
      } = await ask(() => usageByDay(clickhouse, account, { ...range, excludeAgents }));
      const byDate = new Map(found.map((day) => [day.date, day]));
      const days: AccountUsage['days'] = [];
      for (let ms = fromMs; ms <= toMs; ms += DAY_MS)
        days.push(byDate.get(dateOf(ms)) ?? { date: dateOf(ms), events: 0, bytes: 0, tokens: 0 });
      const sum = (name: 'events' | 'bytes' | 'tokens') => days.reduce((all, day) => all + day[name], 0);
      const total = { events: sum('events'), bytes: sum('bytes'), tokens: sum('tokens') };
      const usage: AccountUsage = { from: dateOf(fromMs), to: dateOf(toMs), total, days, agents, other_agents: rest };
      return markIncomplete(json(200, usage), isComplete);
    },
  }),
];

/** Epoch ms at which the first and the last day begin. */
function daysOf({ from, to }: { from: string | undefined; to: string | undefined }): { fromMs: number; toMs: number } {
  const toMs = to === undefined ? Math.floor(Date.now() / DAY_MS) * DAY_MS : dayOf('to', to);
  const ofMonth = new Date(toMs);
  const fromMs = from === undefined ? Date.UTC(ofMonth.getUTCFullYear(), ofMonth.getUTCMonth()) : dayOf('from', from);
  if (fromMs > toMs) throw unfit('from', 'is behind `to`');
  if ((toMs - fromMs) / DAY_MS >= USAGE_DAYS_MAX)
    throw unfit('from', `is more than ${USAGE_DAYS_MAX} days before \`to\``);
  return { fromMs, toMs };
}

function dayOf(path: 'from' | 'to', given: string): number {
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(given) ? Date.parse(`${given}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(ms) || dateOf(ms) !== given) throw unfit(path, 'must be a day, such as 2026-11-20');
  return ms;
}

function dateOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function unfit(path: string, message: string) {
  return validationFailed('The query string does not fit.', [{ path, message }]);
}
