// Policies: create, list, read, change, delete.
import { waitStates } from '../../../clickhouse/queries/decided-approvals.ts';
import { deletedByHand } from '../../../clickhouse/queries/deleted-policies.ts';
import { type EventRow, renderListed, withoutPayload } from '../../../clickhouse/queries/event-rows.ts';
import { listEvents } from '../../../clickhouse/queries/list-events.ts';
import { policyActivity } from '../../../clickhouse/queries/policy-activity.ts';
import { POLICY_MODES, POLICY_TYPES, STATUSES } from '../../../schemas/closed-sets.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import { exampleId } from '../../../schemas/described.ts';
import { Policy, PolicyCreate, PolicyPatch } from '../../../schemas/policy.ts';
import { PolicyEvaluated, PolicyEvaluation } from '../../../schemas/policy-evaluation.ts';
import { PolicyDeclaration, PolicyPlan, PolicyPlanConflict } from '../../../schemas/policy-plan.ts';
import { PolicyPreview } from '../../../schemas/policy-preview.ts';
import { ReadyPolicies } from '../../../schemas/ready-policy.ts';
import { ServiceError } from '../../common/errors.ts';
import { exactJson } from '../../common/exact-json.ts';
import { isId } from '../../common/ids.ts';
import { DECLARATION_BYTES_MAX, PREVIEW_EVENTS_MAX } from '../../common/limits.ts';
import { isWithin } from '../../registry/accounts/principal.ts';
import { keepToRevisions } from '../../registry/named-records.ts';
import { openPage } from '../answers/cursor.ts';
import { ask, etagOf, found, json, markIncomplete, NO_CONTENT, notFound, page, versioned } from '../answers/reply.ts';
import { anyOf, flag, namedFilters, oneOf, paging, RESOURCE_PAGE, text } from '../reading/query.ts';
import { jsonBody, type Owned, type Parts, type Route, route } from '../route.ts';
import { Decisions } from './decisions.ts';

export const ofPolicy: Owned = {
  what: 'policy',
  async agentOf({ account, params }, { registry }) {
    return found(await registry.policies.get(account, params[0]!), 'policy').agent_id;
  },
};

export const policyRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/v1/policies',
    needs: 'configure',
    bound: 'handler',
    body: jsonBody(PolicyCreate, 'policy', { exact: true }),
    idempotency: 'heeded',
    operation: {
      id: 'createPolicy',
      tag: 'Policies',
      summary: 'Create a policy',
      description:
        'In force on every process within a second of the answer; with `mode: shadow` only tried beside those in force.',
      answers: { 201: { description: 'The new policy', schema: Policy, etag: true } },
      errors: ['name_taken', 'idempotency_conflict', 'idempotency_in_progress'],
      bodyExample: {
        name: 'no large payments',
        type: 'block_action',
        severity: 'high',
        actions: ['block', 'alert'],
        conditions: { type: 'tool_call', tool: ['send_money', 'pay'], 'payload.arguments.amount': { gt: 1000 } },
      },
    },
    async handle({ account, body, actor, idempotency }, { registry }) {
      const { answer } = await registry.policies.create(account, body, actor, idempotency);
      if (body.type === 'budget') registry.budgets.made(account);
      return { status: 201, body: answer, headers: { ETag: etagOf(1) } };
    },
  }),
  route({
    method: 'GET',
    path: '/v1/policies',
    needs: 'read',
    bound: 'query',
    query: {
      ...paging(RESOURCE_PAGE),
      agent_id: anyOf(text('Only policies scoped to this agent; left out: global and scoped ones')),
      type: anyOf(oneOf('Only policies of this type', POLICY_TYPES)),
      status: anyOf(oneOf('Only policies of this status', STATUSES)),
      mode: anyOf(oneOf('Only policies of this mode', POLICY_MODES)),
      ...namedFilters('policy', 'policies'),
      activity: flag('With how many events of the last 24 hours each policy matched', false),
    },
    operation: {
      id: 'listPolicies',
      tag: 'Policies',
      summary: 'List policies',
      description:
        'Newest first. With `activity=true` it waits for events that were acknowledged before, as lists of events do.',
      answers: { 200: { description: 'Policies, newest first', schema: pageSchema(Policy) } },
      canBeIncomplete: true,
    },
    async handle(call, { barrier, clickhouse, registry }) {
      const { account, query, principal } = call;
      const asked = openPage(call, 'policies');
      const { items, ...listed } = await registry.policies.list(account, { ...query, ...asked });
      if (!query.activity) return page(asked, { ...listed, items });
      const complete = await barrier.waitForEvents(account, principal.agentId);
      const excludeAgents = await registry.agents.erasing(account);
      const policies = items.map(({ id }) => id);
      const counts = await ask(() =>
        policyActivity(clickhouse, account, { policies, nowMs: Date.now(), excludeAgents }),
      );
      const shown = items.map((policy) => ({ ...policy, activity: { events_24h: counts.get(policy.id) ?? 0 } }));
      return markIncomplete(page(asked, { ...listed, items: shown }), complete);
    },
  }),
  route({
    method: 'POST',
    path: '/v1/policies/evaluate',
    needs: 'configure',
    bound: 'handler',
    body: jsonBody(PolicyEvaluation, 'evaluation', { exact: true }),
    idempotency: 'refused',
    operation: {
      id: 'evaluatePolicies',
      tag: 'Policies',
      summary: 'Judge an event without recording it',
      description:
        'By the policies in force, or by some that need not exist. Nothing is recorded and no counter moves: a rate limit says `counted`.',
      answers: { 200: { description: 'What the policies say', schema: PolicyEvaluated } },
      errors: ['not_found'],
      bodyExample: {
        event: {
          agent_id: exampleId('agt'),
          type: 'tool_call',
          payload: { tool: 'send_money', arguments: { amount: 5000 } },
        },
        policies: [
          {
            type: 'block_action',
            conditions: { type: 'tool_call', 'payload.arguments.amount': { gt: 1000 } },
            actions: ['block'],
          },
        ],
      },
    },
    async handle({ account, body, actor }, { registry }) {
      if (!isWithin(actor, body.event.agent_id)) throw notFound('agent');
      const answer = await registry.evaluations.evaluate(account, body);
      if (answer === 'no_agent') throw notFound('agent');
      if (answer === 'no_event') throw notFound('event');
      return json(200, answer);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/policies/ready',
    needs: 'read',
    bound: 'handler',
    operation: {
      id: 'listReadyPolicies',
      tag: 'Policies',
      summary: 'List the ready policies',
      description: 'Those that come with the service, to begin with. None is in force before it is created.',
      answers: { 200: { description: 'Each with the body that creates it', schema: ReadyPolicies } },
    },
    async handle(_call, { registry }) {
      return json(200, { items: await registry.readyPolicies.list() });
    },
  }),
  route({
    method: 'POST',
    path: '/v1/policies/preview',
    needs: 'configure',
    bound: 'handler',
    body: jsonBody(PolicyCreate, 'policy', { exact: true }),
    idempotency: 'refused',
    operation: {
      id: 'previewPolicy',
      tag: 'Policies',
      summary: 'Say what a policy would have matched',
      description:
        'A policy as it would be created, judged on the newest events: those of its agent, else of all agents. Nothing is recorded and no counter moves; the name may be taken. For more events there are backtests, which judge in the same way.',
      answers: {
        200: { description: 'How many of the newest events match, and the first of them', schema: PolicyPreview },
      },
      bodyExample: {
        name: 'no large payments',
        type: 'block_action',
        actions: ['log'],
        conditions: { type: 'tool_call', 'payload.arguments.amount': { gt: 1000 } },
      },
    },
    async handle({ account, body, actor, client }, { registry, barrier, clickhouse }) {
      const policy = await registry.previews.draft(account, body, actor);
      const isStored = await barrier.waitForEvents(account, policy.agent_id);
      const { settle } = new Decisions(barrier, account);
      const page = {
        ...(policy.agent_id === null ? {} : { agentId: [policy.agent_id] }),
        ...{ excludeAgents: await registry.agents.erasing(account), settle, signal: client.signal },
        ...{ limit: PREVIEW_EVENTS_MAX, offset: 0 },
      };
      const { items, isShort, total } = await ask(() => listEvents(clickhouse, account, page));
      const approved = policy.type === 'sequence' ? await approvedAmong(clickhouse, account, items) : undefined;
      const events = items.map((row) => ({ ...previewedEvent(row, policy), approvedMs: approved?.get(row.id) }));
      const found = await registry.previews.judge(account, { policy, events }, actor);
      const rows = new Map(items.map((row) => [row.id, row]));
      const first = found.first.map((id) => renderListed(withoutPayload(rows.get(id)!)));
      const complete = isStored && found.isWhole && isShort !== true;
      const isOfBefore = OF_BEFORE.includes(policy.type);
      const approximate = isOfBefore && (total === null || total > items.length);
      const { events: judged, matched, unknown } = found;
      const fields = exactJson({ events: judged, matched, unknown, complete, approximate });
      return { status: 200, body: `${fields.slice(0, -1)},"first":[${first.join(',')}]}` };
    },
  }),
  route({
    method: 'POST',
    path: '/v1/policies/apply',
    needs: 'configure',
    bound: 'refused',
    body: jsonBody(PolicyDeclaration, 'declaration', { exact: true, bytesMax: DECLARATION_BYTES_MAX }),
    operation: {
      id: 'applyPolicies',
      tag: 'Policies',
      summary: 'Declare the policies of an owner',
      description:
        'With `dry_run` the plan and its hash, and nothing is changed. With the hash of the present plan that plan is carried out, all of it or nothing. Any other hash is 412, with the present plan.',
      answers: {
        200: { description: 'The plan; `applied` says whether it was carried out', schema: PolicyPlan },
        412: {
          description: '`revision_conflict`: the plan is another one now. Nothing was changed',
          schema: PolicyPlanConflict,
        },
      },
      errors: ['name_taken'],
      canBeIncomplete: true,
      bodyExample: {
        owner: 'platform',
        dry_run: true,
        policies: [
          {
            name: 'no large payments',
            type: 'block_action',
            actions: ['block', 'alert'],
            conditions: { type: 'tool_call', 'payload.arguments.amount': { gt: 1000 } },
          },
        ],
      },
    },
    async handle({ account, body, actor, requestId }, parts) {
      const { plan, isStale } = await parts.registry.declarations.apply(account, body, actor);
      if (plan.applied) return json(200, plan);
      const complete = await hintAtDeletions(account, plan, parts);
      if (!isStale) return markIncomplete(json(200, plan), complete);
      const message =
        'The policies were changed since this plan was made: here is the present one. Nothing was changed.';
      const error = { code: 'revision_conflict', message, request_id: requestId };
      return markIncomplete(json(412, { error, plan }), complete);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/policies/{id}',
    needs: 'read',
    bound: ofPolicy,
    conditional: true,
    operation: {
      id: 'getPolicy',
      tag: 'Policies',
      summary: 'Get a policy',
      description: 'As it is in force.',
      answers: { 200: { description: 'The policy', schema: Policy, etag: true } },
    },
    async handle({ account, params, revisions }, { registry }) {
      const policy = found(await registry.policies.get(account, policyIdOf(params[0]!)), 'policy');
      keepToRevisions(revisions, policy);
      return versioned(policy);
    },
  }),
  route({
    method: 'PATCH',
    path: '/v1/policies/{id}',
    needs: 'configure',
    bound: ofPolicy,
    conditional: true,
    body: jsonBody(PolicyPatch, 'change', { exact: true }),
    operation: {
      id: 'updatePolicy',
      tag: 'Policies',
      summary: 'Change a policy',
      description:
        '`type` and `agent_id` are fixed: another type or scope is another policy. A change raises `revision`; one that changes nothing does not.',
      answers: { 200: { description: 'The policy as it is now', schema: Policy, etag: true } },
      errors: ['name_taken'],
      bodyExample: { actions: ['log'] },
    },
    async handle({ account, params, body, revisions, actor }, { registry }) {
      const id = policyIdOf(params[0]!);
      const policy = found(await registry.policies.patch(account, id, { body, revisions }, actor), 'policy');
      if (policy.type === 'budget') registry.budgets.made(account);
      return versioned(policy);
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/policies/{id}',
    needs: 'configure',
    bound: ofPolicy,
    conditional: true,
    operation: {
      id: 'deletePolicy',
      tag: 'Policies',
      summary: 'Delete a policy',
      description: 'In force on every process within a second. Approvals that it asked for can still be decided.',
      answers: { 204: { description: 'Deleted; events are not judged by it any more' } },
    },
    async handle({ account, params, revisions, actor }, { registry }) {
      const id = policyIdOf(params[0]!);
      if (!(await registry.policies.remove(account, id, actor, revisions))) throw notFound('policy');
      return NO_CONTENT;
    },
  }),
];

/** When those that waited were approved. */
async function approvedAmong(
  clickhouse: Parts['clickhouse'],
  account: string,
  rows: readonly EventRow[],
): Promise<ReadonlyMap<string, number>> {
  const waited = rows.filter(({ policy_result: result }) => result.includes('"approval_id":')).map(({ id }) => id);
  const waits = await ask(() => waitStates(clickhouse, account, waited));
  return new Map(
    [...waits].flatMap(([id, { outcome, decidedMs }]) =>
      outcome === 'allowed' && decidedMs !== null ? [[id, decidedMs] as const] : [],
    ),
  );
}

/** Types that judge an event by what was before it. */
const OF_BEFORE: readonly Policy['type'][] = ['rate_limit', 'sequence', 'budget'];

/** As a preview judges it. What it cost is looked at where the limit is of that currency. */
function previewedEvent(row: EventRow, { conditions: { limit } }: Policy) {
  const { id, type, outcome, payload, priced_by: by = '' } = row;
  const isPriced = typeof limit === 'string' && by !== '' && limit.trim().endsWith(by.split(' ')[0]!);
  return {
    ...{ id, type, outcome, payload, agentId: row.agent_id, traceId: row.trace_id },
    ...{ occurredMs: row.timestamp_ms, receivedMs: row.received_at_ms, policyResult: row.policy_result },
    cost: isPriced ? (row.cost ?? -1) : -1,
  };
}

/**
 * Says of what is to be made that it was there, and was deleted by hand. false: it is not known of all of them, since
 * the store of events, which a plan does not need, does not answer or is behind.
 */
async function hintAtDeletions(
  account: string,
  { owner, policies }: PolicyPlan,
  { barrier, clickhouse }: Parts,
): Promise<boolean> {
  const created = policies.filter(({ action }) => action === 'create');
  if (created.length === 0) return true;
  let complete = await barrier.waitForJournal(account);
  const names = created.map(({ name }) => name);
  const deleted = await ask(() => deletedByHand(clickhouse, account, { owner, names })).catch((error: unknown) => {
    if (!(error instanceof ServiceError)) throw error;
    complete = false;
    return new Map<string, never>();
  });
  for (const one of created) {
    const { at, actor } = deleted.get(one.name) ?? {};
    if (at !== undefined) one.hints.push(`it was there, and was deleted by hand at ${at} by ${actor}`);
  }
  return complete;
}

export function policyIdOf(text: string): string {
  if (!isId('policy', text)) throw notFound('policy');
  return text;
}
