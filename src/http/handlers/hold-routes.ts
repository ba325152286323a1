// Legal holds: make, list, release. They are an admin's: what stops deletion, and what lets it go on, is no matter of
// agents.
import { page as pageSchema } from '../../../schemas/common.ts';
import { Hold, HoldCreate } from '../../../schemas/hold.ts';
import { openPage } from '../answers/cursor.ts';
import { found, json, NO_CONTENT, notFound, page } from '../answers/reply.ts';
import { paging, RESOURCE_PAGE } from '../reading/query.ts';
import { jsonBody, type Route, route } from '../route.ts';

export const holdRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/v1/holds',
    needs: 'admin',
    bound: 'refused',
    body: jsonBody(HoldCreate, 'hold'),
    idempotency: 'refused',
    operation: {
      id: 'createHold',
      tag: 'Account',
      summary: 'Hold what is stored',
      description:
        'Keeps the whole account, one agent or one trace whatever its age, until the hold is released: a legal hold. What can be read when it is made can be read from then on. What is held cannot be deleted either. An account has at most 100.',
      answers: { 201: { description: 'The new hold', schema: Hold } },
      bodyExample: { reason: 'case 2026-118', agent_id: 'agt_01jd3fq5w0c8m2v7x4k9n6t1rz' },
    },
    async handle({ account, body, actor }, { registry }) {
      return json(201, found(await registry.holds.create(account, body, actor), 'account'));
    },
  }),
  route({
    method: 'GET',
    path: '/v1/holds',
    needs: 'read',
    bound: 'refused',
    query: paging(RESOURCE_PAGE),
    operation: {
      id: 'listHolds',
      tag: 'Account',
      summary: 'List holds',
      description: 'Newest first.',
      answers: { 200: { description: 'Holds, newest first', schema: pageSchema(Hold) } },
    },
    async handle(call, { registry }) {
      const asked = openPage(call, 'holds');
      return page(asked, await registry.holds.list(call.account, asked));
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/holds/{id}',
    needs: 'admin',
    bound: 'refused',
    operation: {
      id: 'releaseHold',
      tag: 'Account',
      summary: 'Release a hold',
      description: 'What is past the retention by then is read no more, and deleted within a day.',
      answers: { 204: { description: 'Released' } },
    },
    async handle({ account, params, actor }, { registry }) {
      if (!(await registry.holds.release(account, params[0]!, actor))) throw notFound('hold');
      return NO_CONTENT;
    },
  }),
];
