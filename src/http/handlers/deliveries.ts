// Deliveries: what became of each notification, and sending a failed one again (decisions 7).

import { getDelivery, listDeliveries } from '../../../clickhouse/queries/list-deliveries.ts';
import { CHANNELS, DELIVERY_STATUSES } from '../../../schemas/closed-sets.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import { Delivery } from '../../../schemas/delivery.ts';
import { ServiceError } from '../../errors.ts';
import { isId } from '../../ids.ts';
import { openPage } from '../cursor.ts';
import { anyOf, oneOf, paging, RECORD_PAGE, text } from '../query.ts';
import { ask, found, json, markIncomplete, notFound, page } from '../reply.ts';
import { type Owned, type Parts, type Route, route } from '../route.ts';

const ofDelivery: Owned = {
  what: 'delivery',
  async agentOf({ account, params }, parts) {
    return (await keptDelivery(account, params[0]!, parts)).kept.delivery.agent_id;
  },
};

export const deliveryRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/deliveries',
    needs: 'read',
    bound: 'query',
    query: {
      ...paging(RECORD_PAGE),
      alert_id: anyOf(text('Only deliveries of this alert')),
      agent_id: anyOf(text('Only deliveries about this agent')),
      policy_id: anyOf(text('Only deliveries that tell of this policy')),
      status: anyOf(oneOf('Only deliveries of this status', DELIVERY_STATUSES)),
      channel: anyOf(oneOf('Only deliveries by this channel', CHANNELS)),
    },
    operation: {
      id: 'listDeliveries',
      tag: 'Alerts',
      summary: 'List deliveries of notifications',
      description: 'Newest first, with their attempts.',
      answers: { 200: { description: 'Deliveries with their attempts, newest first', schema: pageSchema(Delivery) } },
      canBeIncomplete: true,
    },
    async handle(call, { barrier, clickhouse, registry }) {
      const { account } = call;
      const { status, channel, alert_id: alertId, agent_id: agentId, policy_id: policyId } = call.query;
      const asked = openPage(call, 'deliveries');
      const complete = await barrier.waitForJournal(account);
      const excludeAgents = await registry.agents.erasing(account);
      const listed = await ask(() =>
        listDeliveries(clickhouse, account, {
          alertId,
          agentId,
          policyId,
          status,
          channel,
          ...asked,
          excludeAgents,
        }),
      );
      const items = await registry.deliveries.upToDate(account, listed.items);
      return markIncomplete(page(asked, { ...listed, items }), complete);
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
        "Under the same id, which is the `webhook-id`, to the alert's current target. Its attempts begin anew, beside the old ones.",
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
  // An id of the wrong form is simply unknown (decisions 1), without a look-up.
  if (!isId('delivery', id)) throw notFound('delivery');
  const complete = await barrier.waitForJournal(account);
  const excludeAgents = await registry.agents.erasing(account);
  const kept = await ask(() => getDelivery(clickhouse, account, id, excludeAgents));
  return { kept: found(kept, 'delivery', complete), complete };
}
