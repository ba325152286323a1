// Anomalies: events that were flagged.

import { anomalySeries } from '../../../clickhouse/queries/anomaly-series.ts';
import { getAnomaly, listAnomalies } from '../../../clickhouse/queries/list-anomalies.ts';
import { Anomaly, AnomalySeries, ListedAnomaly } from '../../../schemas/anomaly.ts';
import { ANOMALY_KINDS, SEVERITIES } from '../../../schemas/closed-sets.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import type { PageStart } from '../../../schemas/paging.ts';
import { isId } from '../../common/ids.ts';
import { openPage } from '../answers/cursor.ts';
import { EXPORT_ANSWER, exported, exportParameters } from '../answers/export.ts';
import { ask, found, json, markIncomplete, notFound, onlyOne, page } from '../answers/reply.ts';
import { anyOf, oneOf, paging, type QueryOf, RECORD_PAGE, text, time } from '../reading/query.ts';
import { type Call, type Owned, type Parts, type Route, route } from '../route.ts';
import { expandSummary, withSummaries } from './expand-summary.ts';

/** Events in a window of ten seconds, of which fewer are no spike (docs/anomalies.md). */
const VOLUME_LEAST = 50;

const ofAnomaly: Owned = {
  what: 'anomaly',
  agentOf: async ({ account, params }, parts) => (await known(parts, account, params[0]!)).agent_id,
};

const anomalyFilters = {
  agent_id: anyOf(text('Only anomalies of this agent')),
  kind: anyOf(oneOf('Only anomalies of this kind', ANOMALY_KINDS)),
  severity: anyOf(oneOf('Only anomalies of this severity', SEVERITIES)),
  policy_id: anyOf(text('Only anomalies of events that this policy blocked')),
  from: time('Anomalies at or after this time'),
  to: time('Anomalies at or before this time'),
};

const eventOf = ({ event_id: id }: Anomaly) => id;

export const anomalyRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/anomalies',
    needs: 'read',
    bound: 'query',
    query: { ...paging(RECORD_PAGE), ...anomalyFilters, expand: expandSummary },
    operation: {
      id: 'listAnomalies',
      tag: 'Anomalies',
      summary: 'List anomalies',
      description: 'Newest first. Nothing has to be configured for them.',
      answers: { 200: { description: 'Anomalies, newest first', schema: pageSchema(ListedAnomaly) } },
      canBeIncomplete: true,
    },
    async handle(call, parts) {
      const asked = openPage(call, 'anomalies');
      const { complete, read } = await anomaliesOf(call, parts);
      const { items, ...listed } = await ask(() => read(asked));
      const shown = call.query.expand === undefined ? items : await withSummaries(call, parts, items, eventOf);
      return markIncomplete(page(asked, { ...listed, items: shown }), await complete);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/anomalies/export',
    needs: 'read',
    bound: 'query',
    query: { ...anomalyFilters, ...exportParameters },
    operation: {
      id: 'exportAnomalies',
      tag: 'Anomalies',
      summary: 'Export anomalies',
      description: 'Every anomaly of the filters, as the list has them, as one file.',
      answers: EXPORT_ANSWER,
      canBeIncomplete: true,
    },
    async handle(call, parts) {
      return exported<Anomaly>(call, parts, {
        ...{ list: 'anomalies', name: 'anomalies', text: JSON.stringify, columns: ANOMALY_COLUMNS },
        ...(await anomaliesOf(call, parts)),
        positionOf: ({ timestamp, id }) => ({ at: Date.parse(timestamp), id }),
        cells: (anomaly) => ANOMALY_COLUMNS.map((name) => anomaly[name]),
      });
    },
  }),
  route({
    method: 'GET',
    path: '/v1/anomalies/{id}',
    needs: 'read',
    bound: ofAnomaly,
    operation: {
      id: 'getAnomaly',
      tag: 'Anomalies',
      summary: 'Get an anomaly',
      description: 'As it stands in the list.',
      answers: { 200: { description: 'The anomaly', schema: Anomaly } },
      canBeIncomplete: true,
    },
    async handle({ account, params }, parts) {
      return json(200, await known(parts, account, params[0]!));
    },
  }),
  route({
    method: 'GET',
    path: '/v1/anomalies/{id}/series',
    needs: 'read',
    bound: ofAnomaly,
    operation: {
      id: 'getAnomalySeries',
      tag: 'Anomalies',
      summary: 'Get what was seen around an anomaly',
      description:
        'To draw it: the tokens of the completions before and behind it, the share of errors by the minute for an hour before and half an hour after, or the events in ten seconds for ten minutes before and five after. Recomputed from the events that are still kept.',
      answers: { 200: { description: 'The points, with what was usual', schema: AnomalySeries } },
      canBeIncomplete: true,
    },
    async handle({ account, params }, parts) {
      const { barrier, clickhouse } = parts;
      const anomaly = await known(parts, account, params[0]!);
      const complete = await barrier.waitForEvents(account, anomaly.agent_id);
      const { bucketMs, points } = await ask(() => anomalySeries(clickhouse, account, anomaly));
      const { baseline, kind } = anomaly;
      const least = kind === 'volume_spike' ? VOLUME_LEAST : 0;
      const threshold = baseline === null ? null : Math.max(2 * baseline, least);
      return markIncomplete(json(200, { anomaly, bucket_ms: bucketMs, baseline, threshold, points }), complete);
    },
  }),
];

/** Throws ServiceError not_found. */
async function known({ barrier, clickhouse, registry }: Parts, account: string, id: string): Promise<Anomaly> {
  if (!isId('anomaly', id)) throw notFound('anomaly');
  const complete = await barrier.waitForAnomalies(account, null);
  const excludeAgents = await registry.agents.erasing(account);
  return found(await ask(() => getAnomaly(clickhouse, account, id, { excludeAgents })), 'anomaly', complete);
}

const ANOMALY_COLUMNS = [
  ...(['id', 'timestamp', 'created_at', 'agent_id', 'event_id', 'policy_id', 'kind', 'severity'] as const),
  ...(['observed', 'baseline', 'score', 'message'] as const),
];

/** Every read waits for the anomalies of what was acknowledged before. */
async function anomaliesOf(
  { account, query }: Call<unknown, QueryOf<typeof anomalyFilters>>,
  { barrier, clickhouse, registry }: Parts,
) {
  const { kind, severity, from, to, agent_id: agentId, policy_id: policyId } = query;
  const complete = barrier.waitForAnomalies(account, onlyOne(agentId));
  await complete;
  const filter = { agentId, kind, severity, policyId, from, to };
  const read = async (start: PageStart) => {
    const excludeAgents = await registry.agents.erasing(account);
    return listAnomalies(clickhouse, account, { ...filter, excludeAgents, ...start });
  };
  return { complete, read };
}
