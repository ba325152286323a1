// Approvals: list, wait for one, decide.
// Redis is asked first: it holds what is pending and what was decided within the hour. An approval that it does not
// know may be of an event that was answered a moment ago, so the openings are waited for; then ClickHouse is asked for
// older decisions. An id that stays unknown is 404. If the openings are behind, it is not known yet that there is no
// such approval: then the 404 of a read says that it may be incomplete, and a decision is refused with 503, since
// it must not look void.

import { renderListed } from '../../../clickhouse/queries/event-rows.ts';
import { getEvents } from '../../../clickhouse/queries/get-event.ts';
import { listApprovals } from '../../../clickhouse/queries/list-approvals.ts';
import { Approval, ApprovalDecision, ListedApproval } from '../../../schemas/approval.ts';
import { APPROVAL_STATUSES } from '../../../schemas/closed-sets.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import { shortened } from '../../../schemas/paging.ts';
import { ServiceError } from '../../common/errors.ts';
import { APPROVAL_ANSWERED_SECONDS, APPROVAL_WAIT_SECONDS_MAX } from '../../common/limits.ts';
import { ownRequest } from '../../registry/accounts/principal.ts';
import { alreadyDecided } from '../../registry/approvals/approvals.ts';
import { openPage } from '../answers/cursor.ts';
import { ask, found, json, markIncomplete, onlyOne, page, textPage } from '../answers/reply.ts';
import { anyOf, integer, oneOf, paging, payloadMode, RECORD_PAGE, text } from '../reading/query.ts';
import { jsonBody, type Owned, type Route, route } from '../route.ts';
import { Decisions } from './decisions.ts';
import { knownApproval } from './known-approval.ts';

const ofApproval: Owned = {
  what: 'approval',
  async agentOf({ account, params }, parts) {
    const { known, complete } = await knownApproval(parts, account, params[0]!);
    return found(known, 'approval', complete).agent_id;
  },
};

export const approvalRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/approvals',
    needs: 'read',
    bound: 'query',
    query: {
      ...paging(RECORD_PAGE),
      status: anyOf(oneOf('Only approvals in this state', APPROVAL_STATUSES)),
      agent_id: anyOf(text('Only approvals of events of this agent')),
      event_id: anyOf(text('Only approvals of this event')),
      policy_id: anyOf(text('Only approvals that this policy asked for')),
      expand: oneOf('`event`: each approval with the event that it is about', ['event']),
      payload: payloadMode(),
    },
    operation: {
      id: 'listApprovals',
      tag: 'Approvals',
      summary: 'List approvals',
      description:
        'Newest first, pending ones and decided ones. With `expand=event` what is to be decided stands beside the decision; `payload` says how much of it.',
      answers: { 200: { description: 'Approvals, newest first', schema: pageSchema(ListedApproval) } },
      canBeIncomplete: true,
    },
    async handle(call, { barrier, clickhouse, registry }) {
      const { account } = call;
      const { status, agent_id: agentId, event_id: eventId, policy_id: policyId } = call.query;
      const asked = openPage(call, 'approvals');
      const complete = await barrier.waitForApprovals(account, onlyOne(agentId));
      const excludeAgents = await registry.agents.erasing(account);
      const listed = await ask(() =>
        listApprovals(clickhouse, account, { ...asked, status, agentId, eventId, policyId, excludeAgents }),
      );
      if (call.query.expand === undefined) return markIncomplete(page(asked, listed), complete);
      const stored = await barrier.waitForEvents(account, onlyOne(agentId));
      const decisions = new Decisions(barrier, account);
      const ids = listed.items.map(({ event_id: id }) => id);
      const how = { payload: call.query.payload, settle: decisions.settle, signal: call.client.signal };
      const { events, ids: count } = await ask(() => getEvents(clickhouse, account, ids, how));
      const texts = new Map(events.map((event) => [event.id, renderListed(event)]));
      const { items, ...shown } = shortened(listed, count);
      const whole = items.map(
        (approval) => `${JSON.stringify(approval).slice(0, -1)},"event":${texts.get(approval.event_id) ?? 'null'}}`,
      );
      return markIncomplete(textPage(asked, { ...shown, items: whole }), complete && stored && decisions.complete);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/approvals/{id}',
    needs: 'read',
    bound: ofApproval,
    query: {
      wait: integer('Seconds to wait for the decision, if there is none yet', {
        minimum: 0,
        maximum: APPROVAL_WAIT_SECONDS_MAX,
        default: 0,
      }),
    },
    operation: {
      id: 'getApproval',
      tag: 'Approvals',
      summary: 'Get an approval, or wait for its decision',
      description:
        'With `wait` the answer comes as soon as the approval is decided, at the latest after so many seconds, or 45 where it is more, below the time-outs of proxies; then with `status` `pending`: ask again. A front that is told to leave answers so at once.',
      answers: { 200: { description: 'The approval', schema: Approval } },
      errors: ['unavailable'],
      canBeIncomplete: true,
    },
    async handle({ account, params, query, client }, parts) {
      const { known, complete } = await knownApproval(parts, account, params[0]!);
      const approval = found(known, 'approval', complete);
      if (approval.status !== 'pending' || query.wait === 0) return json(200, approval);
      const waitMs = Math.min(query.wait, APPROVAL_ANSWERED_SECONDS) * 1000;
      client.longPollMs = waitMs;
      return json(200, found(await parts.approvalWaits.wait(account, approval, waitMs, client.signal), 'approval'));
    },
  }),
  route({
    method: 'POST',
    path: '/v1/approvals/{id}',
    needs: 'decide',
    bound: ofApproval,
    body: jsonBody(ApprovalDecision, 'decision'),
    operation: {
      id: 'decideApproval',
      tag: 'Approvals',
      summary: 'Approve or deny',
      description:
        'Requests that wait are answered, and the event has its final outcome, which may be `blocked` by a policy made since (`blocked_by`). An approval is decided once. A key that is bound to an agent decides none.',
      answers: { 200: { description: 'The approval as it is now', schema: Approval } },
      errors: ['own_request', 'agent_inactive', 'already_decided', 'unavailable'],
      bodyExample: { decision: 'approve', comment: 'checked with the customer' },
    },
    async handle(call, parts) {
      const { account, principal, params, body, actor } = call;
      // Of its own agent (`bound`), and no others are known to it.
      if (principal.agentId !== null) throw ownRequest();
      const { approvals } = parts.registry;
      const decided = await approvals.decide(account, params[0]!, body, actor);
      if (decided !== null) return json(200, decided);
      const { known, complete } = await knownApproval(parts, account, params[0]!);
      if (!complete && known === null) throw notKnownYet();
      const { id, status } = found(known, 'approval');
      if (status !== 'pending') throw alreadyDecided();
      await call.keepAllowed();
      return json(200, found(await approvals.decide(account, id, body, actor), 'approval'));
    },
  }),
];

function notKnownYet(): ServiceError {
  return new ServiceError('unavailable', 'Whether there is such an approval is not known yet.', {
    recorded: false,
    retryAfterSeconds: 1,
  });
}
