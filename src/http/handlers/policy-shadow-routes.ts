// Shadows: what one would have changed, and putting it in force.

import { saysSince, shadowReport } from '../../../clickhouse/queries/shadow-report.ts';
import { Policy } from '../../../schemas/policy.ts';
import { ShadowReport } from '../../../schemas/shadow-report.ts';
import { isoTime } from '../../../schemas/time.ts';
import { SHADOW_KEPT_MS, SHADOW_REPORT_DAYS_MAX } from '../../common/limits.ts';
import { validationFailed } from '../../common/validation.ts';
import { limitWindowMs } from '../../registry/policies/shadow-policies.ts';
import { ask, found, json, markIncomplete, versioned } from '../answers/reply.ts';
import { integer, time } from '../reading/query.ts';
import { type Route, route } from '../route.ts';
import { ofPolicy, policyIdOf } from './policy-routes.ts';

const REVISION = { minimum: 1, maximum: 999_999_999_999_999 };
const DAY_MS = 24 * 60 * 60 * 1000;

export const policyShadowRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/policies/{id}/shadow-report',
    needs: 'read',
    bound: ofPolicy,
    query: {
      from: time('Events that arrived at or after this time. Left out: 14 days before `to`'),
      to: time('Events that arrived at or before this time. Left out: now'),
    },
    operation: {
      id: 'getShadowReport',
      tag: 'Policies',
      summary: 'See what a shadow would have changed',
      description: `The events on which it was judged, against what the policy that it copies made of them; of one that copies none, against nothing. Exact, over at most ${SHADOW_REPORT_DAYS_MAX} days.`,
      answers: { 200: { description: 'What it would have changed', schema: ShadowReport } },
      errors: ['validation_failed'],
      canBeIncomplete: true,
    },
    async handle({ account, params, query, client }, { barrier, clickhouse, registry }) {
      const policy = found(await registry.policies.get(account, policyIdOf(params[0]!)), 'policy');
      const { id: policyId, revision, shadow_of: shadowOf } = policy;
      const { from, to } = rangeOf(query);
      checkShadow(policy);
      const complete = await Promise.all([
        barrier.waitForEvents(account, policy.agent_id),
        barrier.waitForJournal(account),
      ]);
      const excludeAgents = await registry.agents.erasing(account);
      const body = await ask(async (): Promise<ShadowReport> => {
        const says = await saysSince(clickhouse, account, policyId);
        const { revision: since, judgedMs } = says ?? { revision, judgedMs: Date.parse(policy.updated_at) };
        const windowMs = limitWindowMs(policy);
        const counted = windowMs === 0 ? from : Math.min(to, Math.max(from, judgedMs + windowMs));
        const range = { since, from: counted, to };
        const report = await shadowReport(clickhouse, account, {
          ...{ policyId, shadowOf, ...range, excludeAgents, signal: client.signal },
        });
        return {
          ...{ policy_id: policyId, revision, since_revision: since, shadow_of: shadowOf ?? null },
          ...{ from: isoTime(counted), to: isoTime(to) },
          ...report,
        };
      });
      return markIncomplete(json(200, body), complete.every(Boolean));
    },
  }),
  route({
    method: 'POST',
    path: '/v1/policies/{id}/promote',
    needs: 'configure',
    bound: ofPolicy,
    conditional: true,
    query: {
      original_revision: {
        ...integer(
          'The revision that the policy which it copies is at. Needed where that was changed, or switched off, since the shadow was made',
          { ...REVISION, default: 0 },
        ),
        absent: undefined as number | undefined,
        schema: { type: 'integer', ...REVISION },
      },
    },
    operation: {
      id: 'promotePolicy',
      tag: 'Policies',
      summary: 'Put a shadow in force',
      description:
        'The conditions, actions, severity and description of a copy become a new revision of the policy that it copies, and the shadow is deleted: one change, whole or not at all. One that copies none, or whose original was deleted, is in force itself. `If-Match` is of the shadow. Where the policy that it copies was changed since the shadow was made it is 412 `revision_conflict`, unless `original_revision` is the present one of that policy. One that is switched off stays so.',
      answers: { 200: { description: 'The policy that is in force', schema: Policy, etag: true } },
      errors: ['validation_failed'],
    },
    async handle({ account, params, query, revisions, actor }, { registry }) {
      const id = policyIdOf(params[0]!);
      const { original_revision: original } = query;
      return versioned(found(await registry.promotions.promote(account, id, revisions, actor, original), 'policy'));
    },
  }),
];

/** Epoch ms. Throws ServiceError validation_failed. */
function rangeOf({ from, to = Date.now() }: { from?: number | undefined; to?: number | undefined }) {
  const range = { from: Math.ceil(from ?? to - SHADOW_KEPT_MS), to: Math.floor(to) };
  const wrong = (message: string) => validationFailed('The query string does not fit.', [{ path: 'from', message }]);
  if (range.from > range.to) throw wrong('must not be after to');
  if (range.to - range.from > SHADOW_REPORT_DAYS_MAX * DAY_MS)
    throw wrong(`must be at most ${SHADOW_REPORT_DAYS_MAX} days before to`);
  return range;
}

function checkShadow({ mode }: Policy): void {
  if (mode === 'shadow') return;
  throw validationFailed('There is no report of the policy.', [{ path: '/mode', message: 'is not `shadow`' }]);
}
