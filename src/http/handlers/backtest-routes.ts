// Backtests: order one, list, look how far it is, stop and remove it. They run elsewhere (pipelines/backtest).
import { Backtest, BacktestCreate, BacktestPage } from '../../../schemas/backtest.ts';
import { exampleId } from '../../../schemas/described.ts';
import { openPage } from '../answers/cursor.ts';
import { ask, found, json, NO_CONTENT, notFound, page } from '../answers/reply.ts';
import { anyOf, paging, RESOURCE_PAGE, text } from '../reading/query.ts';
import { jsonBody, type Owned, type Route, route } from '../route.ts';

const ofBacktest: Owned = {
  what: 'backtest',
  async agentOf({ account, params }, { registry }) {
    return found(await registry.backtests.get(account, params[0]!), 'backtest').agent_id;
  },
};

export const backtestRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/v1/backtests',
    needs: 'configure',
    bound: 'handler',
    body: jsonBody(BacktestCreate, 'backtest', { exact: true }),
    idempotency: 'refused',
    operation: {
      id: 'createBacktest',
      tag: 'Backtests',
      summary: 'Replay a policy over recorded events',
      description:
        'What would have become of the events that arrived in a range of time with this policy: one that is there, an earlier revision, or a draft. It runs in the background, one of an account at a time, and changes nothing.',
      answers: { 202: { description: 'The backtest, as it waits to be run', schema: Backtest } },
      errors: ['not_found', 'backtest_running'],
      bodyExample: { policy_id: exampleId('pol'), revision: 3, from: '2026-11-01T00:00:00Z' },
    },
    async handle({ account, body, actor }, { registry }) {
      const made = await ask(() => registry.backtests.create(account, body, actor));
      if (made === 'no_agent') throw notFound('agent');
      if (made === 'no_policy') throw notFound('policy');
      if (made === 'no_revision') throw notFound('revision');
      return json(202, made);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/backtests',
    needs: 'read',
    bound: 'query',
    query: {
      ...paging(RESOURCE_PAGE),
      agent_id: anyOf(text('Only backtests over the events of this agent; left out: of all')),
    },
    operation: {
      id: 'listBacktests',
      tag: 'Backtests',
      summary: 'List backtests',
      description: 'Newest first, without their results. Finished ones are kept for 30 days, at most 20.',
      answers: { 200: { description: 'Backtests, newest first', schema: BacktestPage } },
    },
    async handle(call, { registry }) {
      const asked = openPage(call, 'backtests');
      return page(asked, await registry.backtests.list(call.account, { ...call.query, ...asked }));
    },
  }),
  route({
    method: 'GET',
    path: '/v1/backtests/{id}',
    needs: 'read',
    bound: ofBacktest,
    operation: {
      id: 'getBacktest',
      tag: 'Backtests',
      summary: 'Get a backtest with its result',
      description: 'While it runs `progress` says how far it is.',
      answers: { 200: { description: 'The backtest', schema: Backtest } },
    },
    async handle({ account, params }, { registry }) {
      return json(200, found(await registry.backtests.get(account, params[0]!), 'backtest'));
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/backtests/{id}',
    needs: 'configure',
    bound: ofBacktest,
    operation: {
      id: 'deleteBacktest',
      tag: 'Backtests',
      summary: 'Stop and remove a backtest',
      description: 'One that runs is stopped within seconds. Nothing of it is kept.',
      answers: { 204: { description: 'Removed' } },
    },
    async handle({ account, params, actor }, { registry }) {
      if (!(await registry.backtests.remove(account, params[0]!, actor))) throw notFound('backtest');
      return NO_CONTENT;
    },
  }),
];
