// API keys: create, list, revoke. All three need `admin`. The key itself is in the first answer alone.
import { ApiKey, ApiKeyCreate, ApiKeyCreated } from '../../../schemas/api-key.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import { isId } from '../../common/ids.ts';
import { openPage } from '../answers/cursor.ts';
import { json, NO_CONTENT, notFound, page } from '../answers/reply.ts';
import { paging, RESOURCE_PAGE } from '../reading/query.ts';
import { jsonBody, type Route, route } from '../route.ts';

export const apiKeyRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/v1/api-keys',
    needs: 'admin',
    bound: 'refused',
    body: jsonBody(ApiKeyCreate, 'API key'),
    idempotency: 'refused',
    operation: {
      id: 'createApiKey',
      tag: 'API keys',
      summary: 'Create an API key',
      description:
        'The full key is in this answer and nowhere else. `Idempotency-Key` is refused here: an answer that holds a key is not kept.',
      answers: { 201: { description: 'The new key', schema: ApiKeyCreated } },
      bodyExample: { label: 'analyst', scope: 'read' },
    },
    async handle({ account, body, actor }, { registry }) {
      return json(201, await registry.apiKeys.create(account, body, actor));
    },
  }),
  route({
    method: 'GET',
    path: '/v1/api-keys',
    needs: 'admin',
    bound: 'refused',
    query: paging(RESOURCE_PAGE),
    operation: {
      id: 'listApiKeys',
      tag: 'API keys',
      summary: 'List API keys',
      description: 'Newest first, by label and last four characters. The keys themselves are nowhere kept.',
      answers: {
        200: { description: 'Keys, newest first, by label and last four characters', schema: pageSchema(ApiKey) },
      },
    },
    async handle(call, { registry }) {
      const asked = openPage(call, 'api-keys');
      return page(asked, await registry.apiKeys.list(call.account, asked));
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/api-keys/{id}',
    needs: 'admin',
    bound: 'refused',
    operation: {
      id: 'revokeApiKey',
      tag: 'API keys',
      summary: 'Revoke an API key',
      description:
        'Refused on every process within a second. It cannot be taken back. The last admin key of an account stays.',
      answers: { 204: { description: 'Revoked; refused on every process within a second' } },
      errors: ['last_admin_key'],
    },
    async handle({ account, params, actor }, { registry }) {
      const id = params[0]!;
      if (!isId('apiKey', id) || !(await registry.apiKeys.revoke(account, id, actor))) throw notFound('API key');
      return NO_CONTENT;
    },
  }),
];
