// Traces: events that share a trace_id, over all agents of the account (decisions 5).

import { renderEvent } from '../../../clickhouse/queries/event-rows.ts';
import { getTrace, listTraces, TRACE_EVENTS_MAX } from '../../../clickhouse/queries/traces.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import { Trace, TraceWithEvents } from '../../../schemas/event.ts';
import { anyOf, paging, RECORD_PAGE, text, time } from '../query.ts';
import { ask, found, markIncomplete, notFound, page } from '../reply.ts';
import { type Route, route } from '../route.ts';
import { Decisions } from './decisions.ts';

/** What an event's `trace_id` may be (schemas/event.ts): a longer one names nothing. */
const TRACE_ID_CHARACTERS_MAX = 200;

export const traceRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/traces',
    scope: 'read',
    query: {
      ...paging(RECORD_PAGE),
      agent_id: anyOf(text('Only traces in which this agent took part')),
      from: time('Traces that began at or after this time'),
      to: time('Traces that began at or before this time'),
    },
    operation: {
      id: 'listTraces',
      tag: 'Traces',
      summary: 'List traces',
      description: 'By the time of their first event, the latest first.',
      answers: { 200: { description: 'Traces, the latest to begin first', schema: pageSchema(Trace) } },
      canBeIncomplete: true,
    },
    async handle({ account, query }, { barrier, clickhouse, registry }) {
      const { limit, offset, from, to, agent_id: agentId } = query;
      // A trace is of many agents: all of them must be there for its counts to be right.
      const complete = await barrier.waitForEvents(account, null);
      const excludeAgents = await registry.agents.erasing(account);
      const decisions = new Decisions(barrier, account);
      const { settle } = decisions;
      const { items, total } = await ask(() =>
        listTraces(clickhouse, account, { limit, offset, from, to, agentId, excludeAgents, settle }),
      );
      return markIncomplete(page(items, total, query), complete && decisions.complete);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/traces/{trace_id}',
    scope: 'read',
    operation: {
      id: 'getTrace',
      tag: 'Traces',
      summary: 'Get a trace with its events',
      description: `Events in time order, at most ${TRACE_EVENTS_MAX}; \`event_count\` says how many there are.`,
      answers: { 200: { description: 'The trace', schema: TraceWithEvents } },
      canBeIncomplete: true,
    },
    async handle({ account, params }, { barrier, clickhouse, registry }) {
      const traceId = params[0]!;
      if (traceId.length > TRACE_ID_CHARACTERS_MAX) throw notFound('trace');
      const complete = await barrier.waitForEvents(account, null);
      const excludeAgents = await registry.agents.erasing(account);
      const decisions = new Decisions(barrier, account);
      const { settle } = decisions;
      const { trace, events } = found(
        await ask(() => getTrace(clickhouse, account, traceId, { excludeAgents, settle })),
        'trace',
        complete,
      );
      const body = `${JSON.stringify(trace).slice(0, -1)},"events":[${events.map(renderEvent).join(',')}]}`;
      return markIncomplete({ status: 200, body }, complete && decisions.complete);
    },
  }),
];
