// Agents: register, list, read, change, delete.

import { agentActivity } from '../../../clickhouse/queries/agent-activity.ts';
import { Agent, AgentCreate, AgentPatch, ListedAgent } from '../../../schemas/agent.ts';
import { STATUSES } from '../../../schemas/closed-sets.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import { ErasureReport } from '../../../schemas/erasure.ts';
import { isId } from '../../common/ids.ts';
import { openPage } from '../answers/cursor.ts';
import { ask, found, json, markIncomplete, NO_CONTENT, notFound, page } from '../answers/reply.ts';
import { anyOf, flag, namedFilters, oneOf, paging, RESOURCE_PAGE, text } from '../reading/query.ts';
import { jsonBody, type Reply, type Route, route } from '../route.ts';
import { Decisions } from './decisions.ts';

const STATUS_FILTERS = [...STATUSES, 'down'] as const;
/** Says that a registration changed nothing, although it differs from what is there. */
const UNCHANGED = 'Gatehouse-Unchanged';

const EXAMPLE = {
  name: 'support-bot',
  description: 'Answers customers',
  framework: 'custom',
  metadata: { team: 'support' },
};

export const agentRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/v1/agents',
    needs: 'configure',
    bound: 'refused',
    body: jsonBody(AgentCreate, 'agent'),
    operation: {
      id: 'registerAgent',
      tag: 'Agents',
      summary: 'Register an agent',
      description: 'Idempotent by name: where an agent of that name exists it is answered as it is, with 200.',
      answers: {
        200: {
          description: 'The agent of that name, which existed already',
          schema: Agent,
          headers: { [UNCHANGED]: '`true` where the request says otherwise than the agent is: change it by PATCH' },
        },
        201: { description: 'The new agent', schema: Agent },
      },
      bodyExample: EXAMPLE,
    },
    async handle(call, { registry }) {
      const { agent, created, differs } = await registry.agents.register(call.account, call.body, call.actor);
      const reply: Reply = json(created ? 201 : 200, agent);
      return differs ? { ...reply, headers: { [UNCHANGED]: 'true' } } : reply;
    },
  }),
  route({
    method: 'GET',
    path: '/v1/agents',
    needs: 'read',
    bound: 'handler',
    query: {
      ...paging(RESOURCE_PAGE),
      ...namedFilters('agent', 'agents'),
      name: anyOf(text('Only the agent of this very name')),
      status: anyOf(
        oneOf(
          'Only agents of this status; `down`: an `agent_down` was raised, and the agent has not been heard since',
          STATUS_FILTERS,
        ),
      ),
      activity: flag('With what each agent did in the last 24 hours, hour by hour', false),
    },
    operation: {
      id: 'listAgents',
      tag: 'Agents',
      summary: 'List agents',
      description:
        'Newest first. With `activity=true` it waits for events that were acknowledged before, as lists of events do.',
      answers: { 200: { description: 'Agents, newest first', schema: pageSchema(ListedAgent) } },
      canBeIncomplete: true,
    },
    async handle(call, { barrier, clickhouse, registry }) {
      const { account, query } = call;
      const asked = openPage(call, 'agents');
      const only = call.principal.agentId ?? undefined;
      const { items, ...listed } = await registry.agents.list(account, { ...query, ...asked, only });
      if (!query.activity) return page(asked, { ...listed, items });
      const decisions = new Decisions(barrier, account);
      const complete = await barrier.waitForEvents(account, only ?? null);
      const agents = items.map(({ id }) => id);
      const { settle } = decisions;
      const activity = await ask(() => agentActivity(clickhouse, account, { agents, nowMs: Date.now(), settle }));
      const shown = items.map((agent) => ({ ...agent, activity: activity.get(agent.id) }));
      return markIncomplete(page(asked, { ...listed, items: shown }), complete && decisions.complete);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/agents/{id}',
    needs: 'read',
    bound: 'path',
    operation: {
      id: 'getAgent',
      tag: 'Agents',
      summary: 'Get an agent',
      description: 'With the time at which its last event arrived.',
      answers: { 200: { description: 'The agent', schema: Agent } },
    },
    async handle({ account, params }, { registry }) {
      const id = agentId(params[0]!);
      return json(200, found(await registry.agents.get(account, id), 'agent'));
    },
  }),
  route({
    method: 'PATCH',
    path: '/v1/agents/{id}',
    needs: 'configure',
    bound: 'path',
    body: jsonBody(AgentPatch, 'change'),
    operation: {
      id: 'updateAgent',
      tag: 'Agents',
      summary: 'Change an agent',
      description:
        'With `"status": "inactive"` it is the kill switch: the agent\'s events are recorded, each one blocked.',
      answers: { 200: { description: 'The agent as it is now', schema: Agent } },
      errors: ['name_taken'],
      bodyExample: { status: 'inactive' },
    },
    async handle({ account, params, body, actor }, { registry }) {
      const id = agentId(params[0]!);
      return json(200, found(await registry.agents.patch(account, id, body, actor), 'agent'));
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/agents/{id}',
    needs: 'configure',
    bound: 'refused',
    operation: {
      id: 'deleteAgent',
      tag: 'Agents',
      summary: 'Delete an agent and all that is kept of it',
      description:
        'Irreversible: its events, anomalies, agent-scoped policies and audit records go; the id is never used again. `GET /v1/erasures/{agent_id}` says when each store is clean of it: all within 85 minutes. Not while it is under a legal hold.',
      answers: { 204: { description: 'Deleted' } },
      errors: ['on_hold'],
    },
    async handle({ account, params, actor }, { registry }) {
      if (!(await registry.agents.remove(account, agentId(params[0]!), actor))) throw notFound('agent');
      return NO_CONTENT;
    },
  }),
  route({
    method: 'GET',
    path: '/v1/erasures/{agent_id}',
    needs: 'read',
    bound: 'refused',
    operation: {
      id: 'getErasure',
      tag: 'Agents',
      summary: 'Get how far the erasure of a deleted agent has come',
      description: 'Kept for 90 days after its rows were erased.',
      answers: { 200: { description: 'When each store was clean of it', schema: ErasureReport } },
    },
    async handle({ account, params }, { registry }) {
      const report = await registry.agents.erasure(account, agentId(params[0]!));
      if (report === null) throw notFound('erasure');
      return json(200, report);
    },
  }),
];

/** An id of the wrong form is simply unknown, without a look-up. */
function agentId(text: string): string {
  if (!isId('agent', text)) throw notFound('agent');
  return text;
}
