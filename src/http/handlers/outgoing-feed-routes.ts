// Outgoing feeds: what is committed, sent to a receiver, as resources (the sending is pipelines/outgoing). They are of
// the whole account, so keys that are bound to an agent are refused.

import type { FeedTopic, PayloadMode } from '../../../schemas/closed-sets.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import {
  OutgoingFeed,
  OutgoingFeedCreate,
  OutgoingFeedCreated,
  OutgoingFeedPatch,
} from '../../../schemas/outgoing-feed.ts';
import { openPage } from '../answers/cursor.ts';
import { ask, found, json, NO_CONTENT, notFound, page } from '../answers/reply.ts';
import { namedFilters, paging, RESOURCE_PAGE } from '../reading/query.ts';
import { jsonBody, type Route, route } from '../route.ts';

const WHAT = 'outgoing feed';

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
  route({
    method: 'GET',
    path: '/v1/outgoing-feeds',
    needs: 'read',
    bound: 'refused',
    query: { ...paging(RESOURCE_PAGE), ...namedFilters(WHAT, 'outgoing feeds') },
    operation: {
      id: 'listOutgoingFeeds',
      tag: 'Outgoing feeds',
      summary: 'List outgoing feeds',
      description: 'Newest first, each with what became of it. Secrets are not shown.',
      answers: { 200: { description: 'Outgoing feeds, newest first', schema: pageSchema(OutgoingFeed) } },
    },
    async handle(call, { registry }) {
      const asked = openPage(call, 'outgoing-feeds');
      return page(asked, await registry.outgoingFeeds.list(call.account, { ...call.query, ...asked }));
    },
  }),
  route({
    method: 'GET',
    path: '/v1/outgoing-feeds/{id}',
    needs: 'read',
    bound: 'refused',
    operation: {
      id: 'getOutgoingFeed',
      tag: 'Outgoing feeds',
      summary: 'Get an outgoing feed',
      description: 'With what became of it: `progress`. Secrets are not shown.',
      answers: { 200: { description: 'The outgoing feed', schema: OutgoingFeed } },
    },
    async handle({ account, params }, { registry }) {
      return json(200, found(await registry.outgoingFeeds.get(account, params[0]!), WHAT));
    },
  }),
  route({
    method: 'PATCH',
    path: '/v1/outgoing-feeds/{id}',
    needs: 'configure',
    besides: 'read',
    bound: 'refused',
    body: jsonBody(OutgoingFeedPatch, 'change'),
    operation: {
      id: 'updateOutgoingFeed',
      tag: 'Outgoing feeds',
      summary: 'Change an outgoing feed',
      description:
        'In force with the next batch, which is sent at once, also where a pause between two tries runs. What is left out stays as it is; topics stay in any case.',
      answers: { 200: { description: 'The outgoing feed as it is now', schema: OutgoingFeed } },
      errors: ['name_taken'],
      bodyExample: { status: 'inactive' },
    },
    async handle({ account, params, body, actor }, { registry }) {
      return json(200, found(await registry.outgoingFeeds.patch(account, params[0]!, body, actor), WHAT));
    },
  }),
  route({
    method: 'POST',
    path: '/v1/outgoing-feeds/{id}/rotate-secret',
    needs: 'configure',
    bound: 'refused',
    idempotency: 'refused',
    operation: {
      id: 'rotateOutgoingFeedSecret',
      tag: 'Outgoing feeds',
      summary: 'Make a new signing secret for an outgoing feed',
      description:
        'For 24 hours batches are signed with the new secret and with the one before, two signatures in one header. The secret is in this answer and nowhere else: if the answer is lost, rotate again.',
      answers: { 200: { description: 'The outgoing feed, with its new secret', schema: OutgoingFeedCreated } },
    },
    async handle({ account, params, actor }, { registry }) {
      return json(200, found(await registry.outgoingFeeds.rotateSecret(account, params[0]!, actor), WHAT));
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/outgoing-feeds/{id}',
    needs: 'configure',
    bound: 'refused',
    operation: {
      id: 'deleteOutgoingFeed',
      tag: 'Outgoing feeds',
      summary: 'Delete an outgoing feed',
      description: 'Nothing is sent from now on, and its place is gone. A batch that is on its way may still arrive.',
      answers: { 204: { description: 'Deleted' } },
    },
    async handle({ account, params, actor }, { registry }) {
      if (!(await registry.outgoingFeeds.remove(account, params[0]!, actor))) throw notFound(WHAT);
      return NO_CONTENT;
    },
  }),
];
