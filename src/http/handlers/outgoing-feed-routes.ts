// Outgoing feeds: what is committed, sent to a receiver, as resources (the sending is pipelines/outgoing).

import type { FeedTopic, PayloadMode } from '../../../schemas/closed-sets.ts';
import {
  OutgoingFeed,
  OutgoingFeedCreate,
  OutgoingFeedCreated,
  OutgoingFeedPatch,
} from '../../../schemas/outgoing-feed.ts';
import { ask } from '../answers/reply.ts';
import { jsonBody, type Route, route } from '../route.ts';
import { resourceRoutes } from './resource-routes.ts';

const WHAT = 'outgoing feed';

const feeds = resourceRoutes(
  { one: WHAT, many: 'outgoing feeds', bound: 'refused', besides: 'read', schema: OutgoingFeed },
  (registry) => registry.outgoingFeeds,
);

export const outgoingFeedRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/v1/outgoing-feeds',
    needs: 'configure',
    besides: 'read',
    bound: 'refused',
    body: jsonBody(OutgoingFeedCreate, WHAT),
    idempotency: 'heeded',
    operation: {
      id: 'createOutgoingFeed',
      tag: 'Outgoing feeds',
      summary: 'Create an outgoing feed',
      description:
        'Sends what is committed from now on, in batches: one array of JSON, or lines, signed as webhooks are. The key needs `read` besides. The `secret` is in this answer and nowhere else.',
      answers: { 201: { description: 'The new outgoing feed, with its secret', schema: OutgoingFeedCreated } },
      errors: ['name_taken', 'idempotency_conflict', 'idempotency_in_progress'],
      bodyExample: { name: 'siem', url: 'https://siem.example.com/gatehouse', topics: ['audit_log', 'anomalies'] },
    },
    async handle({ account, body, actor, idempotency }, { registry, feed }) {
      const { topics = ['audit_log'], payload = 'full', submissions = true } = body;
      const question = {
        account,
        topics: topics as FeedTopic[],
        payload: payload as PayloadMode,
        submissions,
        limit: 1,
      };
      const place = await ask(() => feed.begin(question));
      const { answer } = await registry.outgoingFeeds.create(account, { body, place }, actor, idempotency);
      return { status: 201, body: answer };
    },
  }),
  feeds.list({ description: 'Newest first, each with what became of it. Secrets are not shown.' }),
  feeds.get({ description: 'With what became of it: `progress`. Secrets are not shown.' }),
  feeds.change({
    body: OutgoingFeedPatch,
    description:
      'In force with the next batch, which is sent at once, also where a pause between two tries runs. What is left out stays as it is; topics stay in any case.',
    errors: ['name_taken'],
    bodyExample: { status: 'inactive' },
  }),
  feeds.rotateSecret({
    description:
      'For 24 hours batches are signed with the new secret and with the one before, two signatures in one header. The secret is in this answer and nowhere else: if the answer is lost, rotate again.',
    schema: OutgoingFeedCreated,
  }),
  feeds.remove({
    description: 'Nothing is sent from now on, and its place is gone. A batch that is on its way may still arrive.',
  }),
];
