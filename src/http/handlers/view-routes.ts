// Saved views: save, list, delete. They are of the whole account, so keys that are bound to an agent are refused.
import { page as pageSchema } from '../../../schemas/common.ts';
import { SavedView, ViewCreate } from '../../../schemas/view.ts';
import { openPage } from '../answers/cursor.ts';
import { NO_CONTENT, notFound, page } from '../answers/reply.ts';
import { paging, RESOURCE_PAGE } from '../reading/query.ts';
import { jsonBody, type Route, route } from '../route.ts';

export const viewRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/v1/views',
    needs: 'configure',
    bound: 'refused',
    body: jsonBody(ViewCreate, 'view'),
    idempotency: 'heeded',
    operation: {
      id: 'createView',
      tag: 'Views',
      summary: 'Save a view',
      description: 'A list of the dashboard with its filters under a name. An account has at most 100.',
      answers: { 201: { description: 'The new view', schema: SavedView } },
      errors: ['name_taken', 'idempotency_conflict', 'idempotency_in_progress'],
      bodyExample: { name: 'blocked today', screen: 'events', query: 'outcome=blocked&range=24h' },
    },
    async handle({ account, body, actor, idempotency }, { registry }) {
      const { answer } = await registry.views.create(account, body, actor, idempotency);
      return { status: 201, body: answer };
    },
  }),
  route({
    method: 'GET',
    path: '/v1/views',
    needs: 'read',
    bound: 'refused',
    query: paging(RESOURCE_PAGE),
    operation: {
      id: 'listViews',
      tag: 'Views',
      summary: 'List saved views',
      description: 'Newest first.',
      answers: { 200: { description: 'Views, newest first', schema: pageSchema(SavedView) } },
    },
    async handle(call, { registry }) {
      const asked = openPage(call, 'views');
      return page(asked, await registry.views.list(call.account, asked));
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/views/{id}',
    needs: 'configure',
    bound: 'refused',
    operation: {
      id: 'deleteView',
      tag: 'Views',
      summary: 'Delete a view',
      description: 'Of the name alone: what it showed stays.',
      answers: { 204: { description: 'Deleted' } },
    },
    async handle({ account, params, actor }, { registry }) {
      if (!(await registry.views.remove(account, params[0]!, actor))) throw notFound('view');
      return NO_CONTENT;
    },
  }),
];
