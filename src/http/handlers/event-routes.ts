// Events: send one or many, list, read one.
// Sending hands the body's bytes to ingest, which does all the rest; lists wait for what was acknowledged before they
// began.

import Type from 'typebox';
import {
  costText,
  durationOf,
  type EventRow,
  renderEvent,
  renderListed,
  summaryOf,
} from '../../../clickhouse/queries/event-rows.ts';
import { getEvent } from '../../../clickhouse/queries/get-event.ts';
import { type EventPage, listEvents } from '../../../clickhouse/queries/list-events.ts';
import { ORDERS } from '../../../schemas/closed-sets.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import {
  BATCH_EVENTS_MAX,
  Batch,
  BatchResult,
  Event,
  ListedEvent,
  type PolicyResult,
  Submission,
} from '../../../schemas/event.ts';
import type { PageStart } from '../../../schemas/paging.ts';
import { exactIsoTime, isoTime } from '../../../schemas/time.ts';
import { isId } from '../../common/ids.ts';
import type { IngestRequest } from '../../ingest/ingest-parts.ts';
import type { Shape } from '../../ingest/json.ts';
import type { Agents } from '../../registry/agents.ts';
import type { Cell } from '../answers/csv.ts';
import { openPage } from '../answers/cursor.ts';
import { EXPORT_ANSWER, exported, exportParameters } from '../answers/export.ts';
import { ask, found, markIncomplete, notFound, onlyOne, textPage } from '../answers/reply.ts';
import { oneOf, paging, payloadMode, type QueryOf, RECORD_PAGE } from '../reading/query.ts';
import { type Call, eventBody, type Parts, type Reply, type Route, route } from '../route.ts';
import { Decisions } from './decisions.ts';
import { agentFilter, eventFilters, filterOf } from './event-filters.ts';

const listFilters = {
  ...paging(RECORD_PAGE),
  ...eventFilters,
  order: oneOf('By `timestamp`: newest first (desc, the default) or oldest first', ORDERS),
  payload: payloadMode(),
};

const EXAMPLE = {
  type: 'prompt',
  trace_id: 'conversation-1',
  payload: { model: 'gpt-4o', prompt: 'Where is my order?' },
};

export const eventRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/v1/agents/{id}/events',
    needs: 'submit',
    bound: 'path',
    body: eventBody('event', Submission),
    idempotency: 'heeded',
    operation: {
      id: 'sendEvent',
      tag: 'Events',
      summary: 'Send an event',
      description:
        'Judged against the policies before the answer. A blocked event is recorded like any other; its caller must not carry the action out.',
      answers: { 201: { description: 'The event, with what the policies made of it', schema: Event } },
      errors: ['idempotency_conflict', 'idempotency_in_progress', 'unavailable'],
      bodyExample: EXAMPLE,
    },
    submit: (call, { ingest }, caller) => ingest.submit(requestOf(call, 'one'), caller),
  }),
  route({
    method: 'POST',
    path: '/v1/agents/{id}/events/batch',
    needs: 'submit',
    bound: 'path',
    body: eventBody('batch', Type.Union([Batch, Type.Array(Submission, { minItems: 1, maxItems: BATCH_EVENTS_MAX })])),
    idempotency: 'heeded',
    operation: {
      id: 'sendEvents',
      tag: 'Events',
      summary: 'Send up to 100 events',
      description:
        'A bare array of events is taken as well. Judged in the order of submission. An element that does not fit takes an `error` in its place and the others stand; a batch without a sound element is refused.',
      answers: {
        200: {
          description: 'The events in the order of submission; `total` counts the recorded ones',
          schema: BatchResult,
        },
      },
      errors: ['idempotency_conflict', 'idempotency_in_progress', 'unavailable'],
      bodyExample: { events: [EXAMPLE] },
    },
    submit: (call, { ingest }, caller) => ingest.submit(requestOf(call, 'many'), caller),
  }),
  route({
    method: 'GET',
    path: '/v1/agents/{id}/events',
    needs: 'read',
    bound: 'path',
    query: listFilters,
    operation: {
      id: 'listAgentEvents',
      tag: 'Events',
      summary: "List an agent's events",
      description: 'By `timestamp`, newest first unless `order` says otherwise.',
      answers: { 200: { description: 'Events, newest first', schema: pageSchema(ListedEvent) } },
      canBeIncomplete: true,
    },
    async handle(call, parts) {
      const agentId = call.params[0]!;
      await knownAgent(parts.registry.agents, call.account, agentId);
      const stored = parts.barrier.waitForEvents(call.account, agentId);
      return answerList(parts, call, { ...pageOf(call.query), agentId }, stored);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/agents/{id}/events/{event_id}',
    needs: 'read',
    bound: 'path',
    operation: {
      id: 'getEvent',
      tag: 'Events',
      summary: 'Get an event',
      description: 'With its final outcome, where an approval was decided.',
      answers: { 200: { description: 'The event', schema: Event } },
      canBeIncomplete: true,
    },
    async handle({ account, params }, { registry, barrier, clickhouse }) {
      const [agentId, eventId] = [params[0]!, params[1]!];
      await knownAgent(registry.agents, account, agentId);
      if (!isId('event', eventId)) throw notFound('event');
      const complete = await barrier.waitForEvents(account, agentId);
      const decisions = new Decisions(barrier, account);
      const row = await ask(() => getEvent(clickhouse, account, agentId, eventId, decisions));
      return markIncomplete(
        { status: 200, body: renderEvent(found(row, 'event', complete)) },
        complete && decisions.complete,
      );
    },
  }),
  route({
    method: 'GET',
    path: '/v1/events',
    needs: 'read',
    bound: 'query',
    query: { ...listFilters, ...agentFilter },
    operation: {
      id: 'listEvents',
      tag: 'Events',
      summary: "List the account's events",
      description: 'Events of all agents by `timestamp`, newest first unless `order` says otherwise.',
      answers: { 200: { description: 'Events of all agents, newest first', schema: pageSchema(ListedEvent) } },
      canBeIncomplete: true,
    },
    async handle(call, parts) {
      const agentId = call.query.agent_id;
      const stored = parts.barrier.waitForEvents(call.account, onlyOne(agentId));
      const excludeAgents = await parts.registry.agents.erasing(call.account);
      return answerList(parts, call, { ...pageOf(call.query), agentId, excludeAgents }, stored);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/events/export',
    needs: 'read',
    bound: 'query',
    query: { ...eventFilters, ...agentFilter, ...exportParameters, order: listFilters.order, payload: payloadMode() },
    operation: {
      id: 'exportEvents',
      tag: 'Events',
      summary: "Export the account's events",
      description: 'Every event of the filters, as the list has them, as one file.',
      answers: EXPORT_ANSWER,
      canBeIncomplete: true,
    },
    async handle(call, parts) {
      const { account, query } = call;
      const { barrier, clickhouse, registry } = parts;
      const { settle } = new Decisions(barrier, account);
      const { order, payload, agent_id: agentId } = query;
      const page = { ...filterOf(query), order, payload, agentId, settle };
      return exported<EventRow>(call, parts, {
        ...{ list: 'events', name: 'events', text: renderListed, columns: EVENT_COLUMNS, cells: cellsOfEvent },
        complete: barrier.waitForEvents(account, onlyOne(agentId)),
        // Asked for each page: an agent may be deleted while its account is exported.
        read: async (start, signal) => {
          const excludeAgents = await registry.agents.erasing(account);
          return listEvents(clickhouse, account, { ...page, excludeAgents, ...start, signal });
        },
        positionOf: ({ timestamp_ms, id }) => ({ at: timestamp_ms, id }),
      });
    },
  }),
];

const EVENT_COLUMNS = [
  ...['id', 'agent_id', 'type', 'timestamp', 'received_at', 'trace_id', 'outcome', 'reason', 'policy_id'],
  ...['approval_id', 'matches', 'payload', 'payload_bytes', 'summary', 'tokens_used', 'cost', 'currency'],
  ...['model', 'duration_ms'],
];

function cellsOfEvent(row: EventRow): Cell[] {
  const result = row.policy_result === '' ? undefined : (JSON.parse(row.policy_result) as PolicyResult);
  return [
    ...[row.id, row.agent_id, row.type, exactIsoTime(row.timestamp_ms), isoTime(row.received_at_ms), row.trace_id],
    ...[result?.outcome ?? 'allowed', result?.reason, result?.policy_id, result?.approval_id],
    result === undefined || result.matches.length === 0 ? '' : JSON.stringify(result.matches),
    row.payload_preview ?? row.payload,
    row.payload_bytes,
    summaryOf(row),
    row.tokens_used,
    ...(costText(row.cost ?? null, row.priced_by ?? '')?.split(' ') ?? ['', '']),
    row.model,
    durationOf(row),
  ];
}

function pageOf({ order, payload, ...filters }: QueryOf<typeof listFilters>) {
  return { ...filterOf(filters), order, payload };
}

function requestOf(call: Call<Buffer>, shape: Shape): IngestRequest {
  const { account, params, body, requestId, idempotencyKey } = call;
  return { account, agentId: params[0]!, shape, body, requestId, idempotencyKey };
}

async function answerList(
  parts: Parts,
  call: Call<unknown, QueryOf<typeof listFilters>>,
  page: Omit<EventPage, keyof PageStart>,
  stored: Promise<boolean>,
): Promise<Reply> {
  const asked = openPage(call, call.params.length > 0 ? 'agent-events' : 'events');
  const decisions = new Decisions(parts.barrier, call.account);
  // Filters by outcome and reason are going to ask for them: both waits at once.
  if (page.outcome !== undefined || page.reason !== undefined) void decisions.settle();
  const complete = await stored;
  const { settle } = decisions;
  const { signal } = call.client;
  const { items, ...listed } = await ask(() =>
    listEvents(parts.clickhouse, call.account, { ...page, ...asked, settle, signal }),
  );
  const reply = textPage(asked, { ...listed, items: items.map(renderListed) });
  return markIncomplete(reply, complete && decisions.complete);
}

/**
 * 404 where it is none of the account's; asked of Redis itself and not of a front's cache: from the answer of a
 * deletion on its agent is unknown. An agent of another account, a deleted one and one that never was are the same.
 */
async function knownAgent(agents: Pick<Agents, 'get'>, account: string, agentId: string): Promise<void> {
  if (!isId('agent', agentId) || (await agents.get(account, agentId)) === null) throw notFound('agent');
}
