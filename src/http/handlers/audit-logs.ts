// The audit log (spec 4.14, decisions 8): who did what, registry changes and submissions alike.
import { listAuditLogs } from '../../../clickhouse/queries/list-audit-logs.ts';
import { AUDIT_ACTIONS, AuditLogPage, RESOURCE_TYPES } from '../../../schemas/audit-log.ts';
import { AuditVerification } from '../../../schemas/audit-verification.ts';
import { ORDERS } from '../../../schemas/common.ts';
import { openPage } from '../cursor.ts';
import { anyOf, flag, oneOf, paging, RECORD_PAGE, text, time } from '../query.ts';
import { allComplete, ask, json, markIncomplete, page } from '../reply.ts';
import { type Route, route } from '../route.ts';

const SEARCH_CHARACTERS_MAX = 500;
/** An answer that takes longer looks like none. */
const VERIFY_MS_MAX = 8_000;

export const auditLogRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/audit-logs',
    needs: 'read',
    bound: 'handler',
    query: {
      ...paging(RECORD_PAGE),
      action: anyOf(oneOf('Only entries of this action', AUDIT_ACTIONS)),
      actor: anyOf(text('Only entries of this actor: `agent:<agent_id>`, `key:<key_id>` or `system`')),
      resource_type: anyOf(oneOf('Only entries about this kind of resource', RESOURCE_TYPES)),
      resource_id: anyOf(text('Only entries about this resource')),
      submissions: flag('`false` leaves out `event.submitted`, of which there is one for every event', true),
      q: text("Words, or a quoted phrase, in an entry's action, actor, resource id or details", SEARCH_CHARACTERS_MAX),
      from: time('Entries at or after this time'),
      to: time('Entries at or before this time'),
      order: oneOf('By `created_at`: newest first (desc, the default) or oldest first', ORDERS),
    },
    operation: {
      id: 'listAuditLogs',
      tag: 'Audit log',
      summary: 'List the audit log',
      description: 'Registry changes and submissions of events alike. No call changes an entry.',
      answers: { 200: { description: 'Entries, newest first unless asked otherwise', schema: AuditLogPage } },
      canBeIncomplete: true,
    },
    async handle(call, { barrier, clickhouse, registry }) {
      const { account, principal, query } = call;
      const asked = openPage(call, 'audit-logs');
      const complete = await allComplete([barrier.waitForEvents(account, null), barrier.waitForJournal(account)]);
      const excludeAgents = await registry.agents.erasing(account);
      const aboutAgent = principal.agentId ?? undefined;
      const listed = await ask(() =>
        listAuditLogs(clickhouse, account, { ...query, ...asked, aboutAgent, excludeAgents }),
      );
      return markIncomplete(page(asked, listed, 'logs'), complete);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/audit-logs/verify',
    needs: 'read',
    bound: 'refused',
    query: {
      from: time('Events that arrived at or after this time; registry changes are always verified whole'),
      to: time('Events that arrived at or before this time'),
    },
    operation: {
      id: 'verifyAuditLogs',
      tag: 'Audit log',
      summary: 'Verify the audit chain',
      description:
        'Recomputes the hash chains of the account from what is stored, and names the earliest entry that was changed, moved, ' +
        'added or removed. What takes longer than 8 s is cut off: go on from `continue_from`.',
      answers: { 200: { description: 'What was found; `valid` says whether all is well', schema: AuditVerification } },
      canBeIncomplete: true,
    },
    async handle({ account, query }, { barrier, audit }) {
      const settle = () => allComplete([barrier.waitForEvents(account, null), barrier.waitForJournal(account)]);
      const complete = await settle();
      const { from: fromMs, to: toMs } = query;
      const found = await ask(() => audit.verify(account, { fromMs, toMs, settle, budgetMs: VERIFY_MS_MAX }));
      return markIncomplete(json(200, found), complete && found.unsettled === 0);
    },
  }),
];
