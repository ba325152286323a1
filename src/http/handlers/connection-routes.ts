// Connections: products that send inference hooks, as resources (decision-points/inference-route.ts answers them).
// They are of the whole account, so keys that are bound to an agent are refused.
import { page as pageSchema } from '../../../schemas/common.ts';
import { Connection, ConnectionCreate, ConnectionPatch } from '../../../schemas/connection.ts';
import { openPage } from '../answers/cursor.ts';
import { found, json, NO_CONTENT, notFound, page } from '../answers/reply.ts';
import { namedFilters, paging, RESOURCE_PAGE } from '../reading/query.ts';
import { jsonBody, type Route, route } from '../route.ts';

export const connectionRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/v1/connections',
    needs: 'configure',
    bound: 'refused',
    body: jsonBody(ConnectionCreate, 'connection'),
    idempotency: 'heeded',
    operation: {
      id: 'createConnection',
      tag: 'Connections',
      summary: 'Create a connection',
      description:
        'Its address is `/v1/hooks/inference/{id}`. The product makes the secret; it is set here, at once or by a change.',
      answers: { 201: { description: 'The new connection', schema: Connection } },
      errors: ['name_taken', 'idempotency_conflict', 'idempotency_in_progress'],
      bodyExample: { name: 'assistant', on_failure: 'deny', agents_by: 'application' },
    },
    async handle({ account, body, actor, idempotency }, { registry }) {
      const { answer } = await registry.connections.create(account, body, actor, idempotency);
      return { status: 201, body: answer };
    },
  }),
  route({
    method: 'GET',
    path: '/v1/connections',
    needs: 'read',
    bound: 'refused',
    query: { ...paging(RESOURCE_PAGE), ...namedFilters('connection', 'connections') },
    operation: {
      id: 'listConnections',
      tag: 'Connections',
      summary: 'List connections',
      description: 'Newest first. Secrets are not shown.',
      answers: { 200: { description: 'Connections, newest first', schema: pageSchema(Connection) } },
    },
    async handle(call, { registry }) {
      const asked = openPage(call, 'connections');
      return page(asked, await registry.connections.list(call.account, { ...call.query, ...asked }));
    },
  }),
  route({
    method: 'GET',
    path: '/v1/connections/{id}',
    needs: 'read',
    bound: 'refused',
    operation: {
      id: 'getConnection',
      tag: 'Connections',
      summary: 'Get a connection',
      description: 'Secrets are not shown.',
      answers: { 200: { description: 'The connection', schema: Connection } },
    },
    async handle({ account, params }, { registry }) {
      return json(200, found(await registry.connections.get(account, params[0]!), 'connection'));
    },
  }),
  route({
    method: 'PATCH',
    path: '/v1/connections/{id}',
    needs: 'configure',
    bound: 'refused',
    body: jsonBody(ConnectionPatch, 'change'),
    operation: {
      id: 'updateConnection',
      tag: 'Connections',
      summary: 'Change a connection',
      description:
        'In force within a second. What is left out stays as it is. To rotate a secret set both, then the new one alone.',
      answers: { 200: { description: 'The connection as it is now', schema: Connection } },
      errors: ['name_taken'],
      bodyExample: { mode: 'watch' },
    },
    async handle({ account, params, body, actor }, { registry }) {
      return json(200, found(await registry.connections.patch(account, params[0]!, body, actor), 'connection'));
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/connections/{id}',
    needs: 'configure',
    bound: 'refused',
    operation: {
      id: 'deleteConnection',
      tag: 'Connections',
      summary: 'Delete a connection',
      description: 'What is still sent to its address is denied. What was recorded stays.',
      answers: { 204: { description: 'Deleted' } },
    },
    async handle({ account, params, actor }, { registry }) {
      if (!(await registry.connections.remove(account, params[0]!, actor))) throw notFound('connection');
      return NO_CONTENT;
    },
  }),
];
