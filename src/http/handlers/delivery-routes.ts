// Deliveries: what became of each notification, and sending a failed one again.

import { getDelivery, listDeliveries } from '../../../clickhouse/queries/list-deliveries.ts';
import { CHANNELS, DELIVERY_STATUSES } from '../../../schemas/closed-sets.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import { Delivery } from '../../../schemas/delivery.ts';
import type { PageStart } from '../../../schemas/paging.ts';
import { ServiceError } from '../../common/errors.ts';
import { isId } from '../../common/ids.ts';
import { openPage } from '../answers/cursor.ts';
import { EXPORT_ANSWER, exported, exportParameters } from '../answers/export.ts';
import { ask, found, json, markIncomplete, notFound, page } from '../answers/reply.ts';
import { anyOf, oneOf, paging, type QueryOf, RECORD_PAGE, text, time } from '../reading/query.ts';
import { type Call, type Owned, type Parts, type Route, route } from '../route.ts';

const ofDelivery: Owned = {
  what: 'delivery',
  async agentOf({ account, params }, parts) {
    return (await keptDelivery(account, params[0]!, parts)).kept.delivery.agent_id;
  },
};

const deliveryFilters = {
  alert_id: anyOf(text('Only deliveries of this alert')),
  agent_id: anyOf(text('Only deliveries about this agent')),
  policy_id: anyOf(text('Only deliveries that tell of this policy')),
  status: anyOf(oneOf('Only deliveries of this status', DELIVERY_STATUSES)),
  channel: anyOf(oneOf('Only deliveries by this channel', CHANNELS)),
  from: time('Deliveries that last changed at or after this time'),
  to: time('Deliveries that last changed at or before this time'),
};

export const deliveryRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/deliveries',
    needs: 'read',
    bound: 'query',
    query: { ...paging(RECORD_PAGE), ...deliveryFilters },
    operation: {
      id: 'listDeliveries',
      tag: 'Alerts',
      summary: 'List deliveries of notifications',
      description: 'Newest first, with their attempts.',
      answers: { 200: { description: 'Deliveries with their attempts, newest first', schema: pageSchema(Delivery) } },
      canBeIncomplete: true,
    },
    async handle(call, parts) {
      const asked = openPage(call, 'deliveries');
      const { complete, read } = await deliveriesOf(call, parts);
      const listed = await ask(() => read(asked));
      return markIncomplete(page(asked, listed), await complete);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/deliveries/export',
    needs: 'read',
    bound: 'query',
    query: { ...deliveryFilters, ...exportParameters },
    operation: {
      id: 'exportDeliveries',
      tag: 'Alerts',
      summary: 'Export deliveries of notifications',
      description: 'Every delivery of the filters, as the list has them, as one file.',
      answers: EXPORT_ANSWER,
      canBeIncomplete: true,
    },
    async handle(call, parts) {
      return exported<Delivery>(call, parts, {
        ...{ list: 'deliveries', name: 'deliveries', text: JSON.stringify, columns: DELIVERY_COLUMNS },
        ...(await deliveriesOf(call, parts)),
        positionOf: ({ id }) => ({ at: 0, id }),
        cells: (delivery) =>
          DELIVERY_COLUMNS.map((name) => (name === 'attempts' ? JSON.stringify(delivery.attempts) : delivery[name])),
      });
    },
  }),
  route({
    method: 'GET',
    path: '/v1/deliveries/{id}',
    needs: 'read',
    bound: ofDelivery,
    operation: {
      id: 'getDelivery',
      tag: 'Alerts',
      summary: 'Get a delivery',
      description: 'With its attempts, and when it is tried next.',
      answers: { 200: { description: 'The delivery with its attempts', schema: Delivery } },
      canBeIncomplete: true,
    },
    async handle({ account, params }, parts) {
      const { kept, complete } = await keptDelivery(account, params[0]!, parts);
      const [delivery] = await parts.registry.deliveries.upToDate(account, [kept.delivery]);
      return markIncomplete(json(200, delivery), complete);
    },
  }),
  route({
    method: 'POST',
    path: '/v1/deliveries/{id}/redeliver',
    needs: 'configure',
    bound: ofDelivery,
    operation: {
      id: 'redeliver',
      tag: 'Alerts',
      summary: 'Send a failed or cancelled delivery again',
      description:
        "Under the same id, which is the `webhook-id`, to the alert's current target. Its attempts begin again, beside the old ones.",
      answers: { 200: { description: 'The delivery, pending again', schema: Delivery } },
      errors: ['not_redeliverable'],
      canBeIncomplete: true,
    },
    async handle({ account, params }, parts) {
      const { kept, complete } = await keptDelivery(account, params[0]!, parts);
      // What it was may be past: it may have been ordered and delivered since.
      if (!complete) {
        throw new ServiceError('unavailable', 'What has become of the delivery is not known yet.', {
          recorded: false,
          retryAfterSeconds: 1,
        });
      }
      return json(200, await parts.registry.deliveries.redeliver(account, kept));
    },
  }),
];

async function keptDelivery(
  account: string,
  id: string,
  { barrier, clickhouse, registry }: Pick<Parts, 'barrier' | 'clickhouse' | 'registry'>,
) {
  // An id of the wrong form is simply unknown, without a look-up.
  if (!isId('delivery', id)) throw notFound('delivery');
  const complete = await barrier.waitForJournal(account);
  const excludeAgents = await registry.agents.erasing(account);
  const kept = await ask(() => getDelivery(clickhouse, account, id, excludeAgents));
  return { kept: found(kept, 'delivery', complete), complete };
}

const DELIVERY_COLUMNS = [
  ...([
    'id',
    'created_at',
    'updated_at',
    'alert_id',
    'alert_name',
    'agent_id',
    'event_id',
    'trigger',
    'severity',
  ] as const),
  ...(['channel', 'transport', 'target', 'status', 'count', 'test', 'next_attempt_at', 'attempts'] as const),
];

async function deliveriesOf(
  { account, query }: Call<unknown, QueryOf<typeof deliveryFilters>>,
  { barrier, clickhouse, registry }: Parts,
) {
  const { status, channel, from, to, alert_id: alertId, agent_id: agentId, policy_id: policyId } = query;
  const complete = barrier.waitForJournal(account);
  await complete;
  const filter = { alertId, agentId, policyId, status, channel, from, to };
  const read = async (start: PageStart) => {
    const excludeAgents = await registry.agents.erasing(account);
    const listed = await listDeliveries(clickhouse, account, { ...filter, excludeAgents, ...start });
    return { ...listed, items: await registry.deliveries.upToDate(account, listed.items) };
  };
  return { complete, read };
}
