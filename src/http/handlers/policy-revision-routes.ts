// The revisions of policies: list, read, put back. They outlive their policy: what an event was judged by can be read
// as long as the audit log.

import { agentOfPolicy, getPolicyRevision, listPolicyRevisions } from '../../../clickhouse/queries/policy-revisions.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import { Policy, PolicyRevision } from '../../../schemas/policy.ts';
import { openPage } from '../answers/cursor.ts';
import { ask, found, json, markIncomplete, notFound, page, versioned } from '../answers/reply.ts';
import { paging, RESOURCE_PAGE } from '../reading/query.ts';
import { type Call, type Owned, type Parts, type Route, route } from '../route.ts';
import { policyIdOf } from './policy-routes.ts';

const REVISION = /^[1-9][0-9]{0,14}$/;

const ofRevisions: Owned = {
  what: 'policy',
  async agentOf({ account, params }, { clickhouse, registry }) {
    const id = params[0]!;
    const policy = await registry.policies.get(account, id);
    if (policy !== null) return policy.agent_id;
    return found(await ask(() => agentOfPolicy(clickhouse, account, id)), 'policy');
  },
};

export const policyRevisionRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/policies/{id}/revisions',
    needs: 'read',
    bound: ofRevisions,
    query: paging(RESOURCE_PAGE),
    operation: {
      id: 'listPolicyRevisions',
      tag: 'Policies',
      summary: 'List the revisions of a policy',
      description: 'Newest first, also of a policy that was deleted. No call changes a revision.',
      answers: { 200: { description: 'Revisions, newest first', schema: pageSchema(PolicyRevision) } },
      canBeIncomplete: true,
    },
    async handle(call, parts) {
      const { account, params } = call;
      const { barrier, clickhouse, registry } = parts;
      const asked = openPage(call, 'policy-revisions');
      const policyId = policyIdOf(params[0]!);
      const complete = await barrier.waitForJournal(account);
      const of = { policyId, excludeAgents: await registry.agents.erasing(account) };
      const listed = await ask(() => listPolicyRevisions(clickhouse, account, { ...of, ...asked }));
      if (listed.total === 0) found(await registry.policies.get(account, policyId), 'policy', complete);
      return markIncomplete(page(asked, listed), complete);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/policies/{id}/revisions/{revision}',
    needs: 'read',
    bound: ofRevisions,
    operation: {
      id: 'getPolicyRevision',
      tag: 'Policies',
      summary: 'Get a revision of a policy',
      description: 'What the policy said at it, who made it so, and what differs from the one before.',
      answers: { 200: { description: 'The revision', schema: PolicyRevision } },
      canBeIncomplete: true,
    },
    async handle(call, parts) {
      return json(200, await revisionOf(call, parts));
    },
  }),
  route({
    method: 'POST',
    path: '/v1/policies/{id}/revisions/{revision}/restore',
    needs: 'configure',
    bound: ofRevisions,
    conditional: true,
    operation: {
      id: 'restorePolicyRevision',
      tag: 'Policies',
      summary: 'Put an earlier revision of a policy back',
      description:
        'Its text becomes a new revision; where nothing differs there is none. A policy that is switched off stays so. A policy that was deleted is not made again.',
      answers: { 200: { description: 'The policy as it is now', schema: Policy, etag: true } },
      errors: ['name_taken', 'validation_failed'],
      canBeIncomplete: true,
    },
    async handle(call, parts) {
      const { account, actor, revisions } = call;
      const { policies } = parts.registry;
      const id = policyIdOf(call.params[0]!);
      found(await policies.get(account, id), 'policy');
      const { policy: text } = await revisionOf(call, parts);
      if (text === null) throw notFound('policy');
      return versioned(found(await policies.restore(account, id, { text, revisions }, actor), 'policy'));
    },
  }),
];

/** A revision of a policy. A stored one never changes; the journal is waited for only where it is not stored yet. */
async function revisionOf(call: Call, parts: Parts): Promise<PolicyRevision> {
  const { account, params } = call;
  const policyId = policyIdOf(params[0]!);
  if (!REVISION.test(params[1]!)) throw notFound('revision');
  const excludeAgents = await parts.registry.agents.erasing(account);
  const asked = { policyId, revision: Number(params[1]), excludeAgents };
  const read = () => ask(() => getPolicyRevision(parts.clickhouse, account, asked));
  const stored = await read();
  if (stored !== null) return stored;
  const complete = await parts.barrier.waitForJournal(account);
  return found(await read(), 'revision', complete);
}
