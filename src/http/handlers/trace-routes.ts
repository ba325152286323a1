// Traces: events that share a trace_id, over all agents of the account. To a key that is bound to an agent a trace is
// what this agent did in it: its counts, times and events are of this agent alone.

import { renderListed } from '../../../clickhouse/queries/event-rows.ts';
import { SEARCHED_TRACES_MAX } from '../../../clickhouse/queries/trace-search.ts';
import { getTrace, listTraces, TRACE_EVENTS_MAX } from '../../../clickhouse/queries/traces.ts';
import { ORDERS, TRACE_SORTS } from '../../../schemas/closed-sets.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import { Trace, TraceWithEvents } from '../../../schemas/event.ts';
import { cursorBehind, openPage } from '../answers/cursor.ts';
import { ask, found, markIncomplete, markShort, notFound, page } from '../answers/reply.ts';
import { anyOf, cursorPaging, oneOf, paging, payloadMode, RECORD_PAGE, search, text, time } from '../reading/query.ts';
import { type Route, route } from '../route.ts';
import { Decisions } from './decisions.ts';

/** The characters that an event's `trace_id` may have (schemas/event.ts): a longer one names nothing. */
const TRACE_ID_CHARACTERS_MAX = 200;

export const traceRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/traces',
    needs: 'read',
    bound: 'query',
    query: {
      ...paging(RECORD_PAGE),
      agent_id: anyOf(text('Only traces in which this agent took part')),
      from: time('Traces that began at or after this time'),
      to: time('Traces that began at or before this time'),
      q: search(
        `Words, or a quoted phrase, in the payload of any event of the trace. Refused where they are in more than ${SEARCHED_TRACES_MAX.toLocaleString('en')} traces`,
      ),
      sort: oneOf(
        'What they are listed by: `started_at` (the default), `duration`, `tokens` and `cost` (unknown ones behind zero), `events`, `blocked` (events that are blocked by now), `errors`. Equal ones by when they began',
        TRACE_SORTS,
      ),
      order: oneOf('The latest, longest or most first (desc, the default), or the other way round', ORDERS),
    },
    operation: {
      id: 'listTraces',
      tag: 'Traces',
      summary: 'List traces',
      description:
        'By the time of their first event, the latest first, unless `sort` and `order` say otherwise. By another value, or with `q`, it is of the events that had arrived when the list began, page by page.',
      answers: { 200: { description: 'Traces, the latest to begin first', schema: pageSchema(Trace) } },
      canBeIncomplete: true,
    },
    async handle(call, { barrier, clickhouse, registry }) {
      const { account } = call;
      const { from, to, q, sort, order, agent_id: agentId } = call.query;
      const asked = openPage(call, 'traces');
      // A trace is of many agents: all of them must be there for its counts to be right.
      const complete = await barrier.waitForEvents(account, null);
      const excludeAgents = await registry.agents.erasing(account);
      const decisions = new Decisions(barrier, account);
      const { settle } = decisions;
      const onlyAgent = call.principal.agentId ?? undefined;
      const listed = await ask(() =>
        listTraces(clickhouse, account, {
          ...asked,
          from,
          to,
          q,
          sort,
          order,
          agentId,
          onlyAgent,
          excludeAgents,
          settle,
        }),
      );
      return markIncomplete(page(asked, listed), complete && decisions.complete);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/traces/{trace_id}',
    needs: 'read',
    bound: 'handler',
    query: {
      ...cursorPaging({ default: TRACE_EVENTS_MAX, maximum: TRACE_EVENTS_MAX }),
      payload: payloadMode(),
    },
    operation: {
      id: 'getTrace',
      tag: 'Traces',
      summary: 'Get a trace with its events',
      description: `Events in time order, at most ${TRACE_EVENTS_MAX} in one answer; \`event_count\` says how many there are, \`next_cursor\` goes on.`,
      answers: { 200: { description: 'The trace', schema: TraceWithEvents } },
      canBeIncomplete: true,
    },
    async handle(call, { barrier, clickhouse, registry }) {
      const { account } = call;
      const traceId = call.params[0]!;
      if (traceId.length > TRACE_ID_CHARACTERS_MAX) throw notFound('trace');
      const asked = openPage(call, 'trace');
      const { limit, after } = asked;
      const { payload } = call.query;
      const complete = await barrier.waitForEvents(account, null);
      const excludeAgents = await registry.agents.erasing(account);
      const decisions = new Decisions(barrier, account);
      const { settle } = decisions;
      const onlyAgent = call.principal.agentId ?? undefined;
      const { trace, events, next, isShort } = found(
        await ask(() =>
          getTrace(clickhouse, account, traceId, { limit, after, payload, onlyAgent, excludeAgents, settle }),
        ),
        'trace',
        complete,
      );
      const cursor = next === null ? null : cursorBehind(asked, events.length, trace.event_count, next);
      const rows = events.map(renderListed).join(',');
      const body = `${JSON.stringify(trace).slice(0, -1)},"events":[${rows}],"next_cursor":${JSON.stringify(cursor)}}`;
      return markIncomplete(markShort({ status: 200, body }, isShort), complete && decisions.complete);
    },
  }),
];
