// Anomalies: events that were flagged (spec 2.7, decisions 7).
import { listAnomalies } from '../../../clickhouse/queries/list-anomalies.ts';
import { Anomaly } from '../../../schemas/anomaly.ts';
import { ANOMALY_KINDS, page as pageSchema, SEVERITIES } from '../../../schemas/common.ts';
import { openPage } from '../cursor.ts';
import { anyOf, oneOf, paging, RECORD_PAGE, text, time } from '../query.ts';
import { ask, markIncomplete, onlyOne, page } from '../reply.ts';
import { type Route, route } from '../route.ts';

export const anomalyRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/anomalies',
    needs: 'read',
    bound: 'query',
    query: {
      ...paging(RECORD_PAGE),
      agent_id: anyOf(text('Only anomalies of this agent')),
      kind: anyOf(oneOf('Only anomalies of this kind', ANOMALY_KINDS)),
      severity: anyOf(oneOf('Only anomalies of this severity', SEVERITIES)),
      policy_id: anyOf(text('Only anomalies of events that this policy blocked')),
      from: time('Anomalies at or after this time'),
      to: time('Anomalies at or before this time'),
    },
    operation: {
      id: 'listAnomalies',
      tag: 'Anomalies',
      summary: 'List anomalies',
      description: 'Newest first. Nothing has to be configured for them.',
      answers: { 200: { description: 'Anomalies, newest first', schema: pageSchema(Anomaly) } },
      canBeIncomplete: true,
    },
    async handle(call, { barrier, clickhouse, registry }) {
      const { account } = call;
      const { kind, severity, from, to, agent_id: agentId, policy_id: policyId } = call.query;
      const asked = openPage(call, 'anomalies');
      const complete = await barrier.waitForAnomalies(account, onlyOne(agentId));
      const excludeAgents = await registry.agents.erasing(account);
      const listed = await ask(() =>
        listAnomalies(clickhouse, account, {
          agentId,
          kind,
          severity,
          policyId,
          from,
          to,
          ...asked,
          excludeAgents,
        }),
      );
      return markIncomplete(page(asked, listed), complete);
    },
  }),
];
