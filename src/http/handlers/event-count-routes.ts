// Counts of events under the filters of the list: over time, and by value. They wait for what was acknowledged before
// they began, as the list does, and say where that is not all there.
import {
  COUNTED_BY,
  type Counted,
  type CountedBy,
  type CountedCosts,
  type CountFilter,
  costsBy,
  countBy,
  histogramOf,
} from '../../../clickhouse/queries/count-events.ts';
import { costText } from '../../../clickhouse/queries/event-rows.ts';
import { type Facet, Facets, Histogram } from '../../../schemas/event-counts.ts';
import { isoTime } from '../../../schemas/time.ts';
import { FACET_VALUES_MAX, HISTOGRAM_BUCKETS_MAX, HISTOGRAM_VALUES_MAX } from '../../common/limits.ts';
import { validationFailed } from '../../common/validation.ts';
import { ask, json, markIncomplete, onlyOne } from '../answers/reply.ts';
import { flag, integer, oneOf, type QueryOf, timeZone } from '../reading/query.ts';
import { type Call, type Parts, type Route, route } from '../route.ts';
import { Decisions } from './decisions.ts';
import { agentFilter, eventFilters, filterOf } from './event-filters.ts';

const filters = { ...eventFilters, ...agentFilter };
const costs = flag('Also say what the events cost together', false);

export const eventCountRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/events/histogram',
    needs: 'read',
    bound: 'query',
    query: {
      ...filters,
      costs,
      by: { ...oneOf('What the counts are grouped by', COUNTED_BY), absent: 'outcome' as CountedBy },
      buckets: integer('Buckets at most, and one more where the first begins before the range', {
        minimum: 1,
        maximum: HISTOGRAM_BUCKETS_MAX,
        default: 60,
      }),
      zone: timeZone(
        'Time zone (IANA name) by whose clock buckets of 3 hours to 7 days begin, so that a day is one of the zone; shorter and longer ones go by its offset at the beginning. Left out: UTC',
      ),
    },
    operation: {
      id: 'countEventsOverTime',
      tag: 'Events',
      summary: 'Count events over time',
      description: `By \`timestamp\`, under the filters of the list, exactly. The range is that of \`from\` and \`to\`, else from the first to the last event that there is. Buckets have a length that is read off easily, and begin at multiples of it. In a \`zone\` days may last 23 or 25 hours. The ${HISTOGRAM_VALUES_MAX} most frequent values are told apart.`,
      answers: { 200: { description: 'Counts, bucket by bucket', schema: Histogram } },
      canBeIncomplete: true,
    },
    handle: (call, parts) =>
      counted(call, parts, async (filter) => {
        const { by, buckets, zone, costs, from, to } = call.query;
        if (from !== undefined && to !== undefined && from > to)
          throw validationFailed('The query string does not fit.', [{ path: 'from', message: 'must not be after to' }]);
        const found = await histogramOf(parts.clickhouse, call.account, {
          ...{ by, buckets, zone, costs, values: HISTOGRAM_VALUES_MAX, filter },
        });
        if (found === null) return { by, from: null, bucket_ms: 0, values: [], has_other: false, buckets: [] };
        const { bucketMs, values, hasOther, pricedBy } = found;
        const shown = found.buckets.map(({ atMs, total, counts, cost }) => ({
          at: isoTime(atMs),
          total,
          counts: Object.fromEntries([...counts].filter(([, n]) => n > 0)),
          ...(costs ? { cost: costText(cost, pricedBy) ?? null } : {}),
        }));
        return { by, from: shown[0]!.at, bucket_ms: bucketMs, values, has_other: hasOther, buckets: shown };
      }),
  }),
  route({
    method: 'GET',
    path: '/v1/events/facets',
    needs: 'read',
    bound: 'query',
    query: { ...filters, costs },
    operation: {
      id: 'countEventsByValue',
      tag: 'Events',
      summary: 'Count events by their values',
      description:
        'Under the filters of the list, exactly. Each facet leaves its own filter out, so that it shows what else could be chosen: with `outcome=blocked` the outcomes of all events are counted, and the types of the blocked ones.',
      answers: { 200: { description: 'Counts by outcome, type, agent, model and policy', schema: Facets } },
      canBeIncomplete: true,
    },
    handle: (call, parts) => counted(call, parts, (filter) => facetsOf(call, parts, filter, call.query.costs)),
  }),
];

async function counted(
  call: Call<unknown, QueryOf<typeof filters>>,
  parts: Parts,
  count: (filter: CountFilter) => Promise<object>,
) {
  const { account, query, client } = call;
  const { barrier, registry } = parts;
  const decisions = new Decisions(barrier, account);
  const stored = barrier.waitForEvents(account, onlyOne(query.agent_id));
  const excludeAgents = await registry.agents.erasing(account);
  const complete = await stored;
  const { settle } = decisions;
  const filter = { ...filterOf(query), agentId: query.agent_id, excludeAgents, settle, signal: client.signal };
  const body = await ask(() => count(filter));
  return markIncomplete(json(200, body), complete && decisions.complete);
}

/** Without the facet's own filter; a key that is bound to an agent keeps to it. */
const WITHOUT: Record<CountedBy, (filter: CountFilter) => CountFilter> = {
  outcome: (filter) => ({ ...filter, outcome: undefined }),
  type: (filter) => ({ ...filter, type: undefined }),
  agent_id: (filter) => ({ ...filter, agentId: undefined }),
  model: (filter) => ({ ...filter, model: undefined }),
  policy_id: (filter) => ({ ...filter, policyId: undefined }),
};

type WithCosts = Counted & { costs?: CountedCosts };

async function facetsOf(
  call: Call,
  { clickhouse, registry }: Parts,
  filter: CountFilter,
  isPriced: boolean,
): Promise<Facets> {
  const { account, principal } = call;
  const facet = async (by: CountedBy): Promise<WithCosts> => {
    const keeps = by === 'agent_id' && principal.agentId !== null;
    const under = keeps ? filter : WITHOUT[by](filter);
    const found = await countBy(clickhouse, account, { by, max: FACET_VALUES_MAX, filter: under });
    if (!isPriced || by === 'outcome') return found;
    const values = found.values.map(([value]) => value);
    return { ...found, costs: await costsBy(clickhouse, account, { by, values, filter: under }) };
  };
  const [outcome, type, agents, model, policies, all] = (await Promise.all([
    ...COUNTED_BY.map(facet),
    countBy(clickhouse, account, { by: 'outcome', max: FACET_VALUES_MAX, filter }),
  ] as Promise<WithCosts>[])) as [WithCosts, WithCosts, WithCosts, WithCosts, WithCosts, Counted];
  const [agentNames, policyNames] = await Promise.all([
    namesOf(agents, (id) => registry.agents.get(account, id)),
    namesOf(policies, (id) => registry.policies.get(account, id)),
  ]);
  return {
    ...{ outcome: shown(outcome), type: shown(type), model: shown(model) },
    ...{ agent_id: shown(agents, agentNames), policy_id: shown(policies, policyNames) },
    total: all.values.reduce((sum, [, n]) => sum + n, all.other),
  };
}

async function namesOf(
  { values }: Counted,
  get: (id: string) => Promise<{ name: string } | null>,
): Promise<Map<string, string>> {
  const found = await Promise.all(values.map(async ([id]) => [id, (await get(id))?.name] as const));
  return new Map(found.flatMap(([id, name]) => (name === undefined ? [] : [[id, name] as const])));
}

function shown({ values, other, costs }: WithCosts, names = new Map<string, string>()): Facet {
  return {
    values: values.map(([value, count]) => {
      const name = names.get(value);
      const cost = costs && { cost: costText(costs.sums.get(value) ?? null, costs.by) ?? null };
      return { value, ...(name === undefined ? {} : { name }), count, ...cost };
    }),
    other,
  };
}
