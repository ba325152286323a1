// The audit log: who did what, registry changes and submissions alike.

import { getAuditLog, listAuditLogs, positionOfEntry } from '../../../clickhouse/queries/list-audit-logs.ts';
import { AuditLog, AuditLogPage } from '../../../schemas/audit-log.ts';
import { AuditCheckpoint, AuditComparison, AuditVerification } from '../../../schemas/audit-verification.ts';
import { AUDIT_ACTIONS, ORDERS, RESOURCE_TYPES } from '../../../schemas/closed-sets.ts';
import { exampleId } from '../../../schemas/described.ts';
import type { PageStart } from '../../../schemas/paging.ts';
import type { VerifyOptions } from '../../audit/verifier.ts';
import { exactJson } from '../../common/exact-json.ts';
import { isId } from '../../common/ids.ts';
import { openPage } from '../answers/cursor.ts';
import { EXPORT_ANSWER, exported, exportParameters } from '../answers/export.ts';
import { ask, found, json, markIncomplete, notFound, page } from '../answers/reply.ts';
import {
  anyOf,
  flag,
  oneOf,
  paging,
  type QueryOf,
  RECORD_PAGE,
  search,
  sessionParameter,
  text,
  time,
} from '../reading/query.ts';
import { type Call, jsonBody, type Parts, type Reply, type Route, route } from '../route.ts';
import { expandSummary, withSummaries } from './expand-summary.ts';

/** An answer that takes longer looks like none. */
const VERIFY_MS_MAX = 8_000;
/** Waiting for the chains to be stored is what a checkpoint does. */
const CHECKPOINT_WAIT_MS = 60_000;

const auditFilters = {
  action: anyOf(oneOf('Only entries of this action', AUDIT_ACTIONS)),
  actor: anyOf(text('Only entries of this actor: `agent:<agent_id>`, `key:<key_id>` or `system`')),
  resource_type: anyOf(oneOf('Only entries about this kind of resource', RESOURCE_TYPES)),
  resource_id: anyOf(text('Only entries about this resource')),
  submissions: flag('`false` leaves out `event.submitted`, of which there is one for every event', true),
  q: search("Words, or a quoted phrase, in an entry's action, actor, resource id or details"),
  from: time('Entries at or after this time'),
  to: time('Entries at or before this time'),
  order: oneOf('By `created_at`: newest first (desc, the default) or oldest first', ORDERS),
};

const eventOf = ({ resource_type: kind, resource_id: id }: AuditLog) => (kind === 'event' ? id : null);

export const auditLogRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/audit-logs',
    needs: 'read',
    bound: 'handler',
    query: { ...paging(RECORD_PAGE), ...auditFilters, expand: expandSummary },
    operation: {
      id: 'listAuditLogs',
      tag: 'Audit log',
      summary: 'List the audit log',
      description: 'Registry changes and submissions of events alike. No call changes an entry.',
      answers: { 200: { description: 'Entries, newest first unless asked otherwise', schema: AuditLogPage } },
      canBeIncomplete: true,
    },
    async handle(call, parts) {
      const asked = openPage(call, 'audit-logs');
      const { complete, read } = await entriesOf(call, parts);
      const { items, ...listed } = await ask(() => read(asked));
      const shown = call.query.expand === undefined ? items : await withSummaries(call, parts, items, eventOf);
      return markIncomplete(page(asked, { ...listed, items: shown }, 'logs'), await complete);
    },
  }),
  route({
    method: 'GET',
    path: '/v1/audit-logs/export',
    needs: 'read',
    bound: 'handler',
    query: { ...auditFilters, ...exportParameters },
    operation: {
      id: 'exportAuditLogs',
      tag: 'Audit log',
      summary: 'Export the audit log',
      description: 'Every entry of the filters, as the list has them, as one file.',
      answers: EXPORT_ANSWER,
      canBeIncomplete: true,
    },
    async handle(call, parts) {
      return exported<AuditLog>(call, parts, {
        ...{ list: 'audit-logs', name: 'audit-log', text: exactJson, columns: AUDIT_COLUMNS },
        ...(await entriesOf(call, parts)),
        positionOf: positionOfEntry,
        cells: (entry) => AUDIT_COLUMNS.map((name) => (name === 'details' ? exactJson(entry.details) : entry[name])),
      });
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
    async handle({ account, query }, parts) {
      // Events arrive at whole milliseconds.
      const fromMs = query.from && Math.ceil(query.from);
      const toMs = query.to && Math.floor(query.to);
      return verified(account, parts, { fromMs, toMs });
    },
  }),
  route({
    method: 'GET',
    path: '/v1/audit-logs/checkpoint',
    needs: 'read',
    bound: 'refused',
    query: { session: sessionParameter() },
    operation: {
      id: 'takeAuditCheckpoint',
      tag: 'Audit log',
      summary: 'Take a checkpoint of the audit chain',
      description:
        'Where the chains stand, signed with the key of this service: keep it, and once the public key, where the operators of the service cannot change them. It waits until everything acknowledged is stored, some seconds.',
      answers: { 200: { description: 'The checkpoint', schema: AuditCheckpoint } },
      errors: ['unavailable'],
    },
    async handle({ account, client }, { barrier, checkpoints, registry }) {
      client.longPollMs = CHECKPOINT_WAIT_MS;
      const { name } = found(await registry.accounts.get(account), 'account');
      return json(
        200,
        await ask(() => checkpoints.take({ id: account, name }, () => barrier.waitForAuditLog(account))),
      );
    },
  }),
  route({
    method: 'GET',
    path: '/v1/audit-logs/{id}',
    needs: 'read',
    bound: 'handler',
    operation: {
      id: 'getAuditLog',
      tag: 'Audit log',
      summary: 'Get an entry of the audit log',
      description: 'However old it is.',
      answers: { 200: { description: 'The entry', schema: AuditLog } },
      canBeIncomplete: true,
    },
    async handle({ account, params, principal }, parts) {
      const id = params[0]!;
      if (!isId('auditLog', id)) throw notFound('entry');
      const aboutAgent = principal.agentId ?? undefined;
      const excludeAgents = await parts.registry.agents.erasing(account);
      const read = () => ask(() => getAuditLog(parts.clickhouse, account, id, { aboutAgent, excludeAgents }));
      // What is stored is as it always will be; only for what is not, yet, it is waited.
      const stored = await read();
      if (stored !== null) return json(200, stored);
      const complete = await parts.barrier.waitForAuditLog(account);
      return json(200, found(await read(), 'entry', complete));
    },
  }),
  route({
    method: 'POST',
    path: '/v1/audit-logs/compare',
    needs: 'read',
    bound: 'refused',
    body: jsonBody(AuditComparison, 'comparison'),
    operation: {
      id: 'compareAuditCheckpoint',
      tag: 'Audit log',
      summary: 'Verify the audit chain against a checkpoint',
      description:
        'As verifying, and a history that was rewritten since the checkpoint is found as well. Changes nothing. A checkpoint that was altered, is of another account or was signed with another key than the one that is trusted is refused.',
      answers: { 200: { description: 'What was found; `valid` says whether all is well', schema: AuditVerification } },
      canBeIncomplete: true,
      bodyExample: {
        checkpoint: {
          ...{ version: 1, account: exampleId('acc'), name: 'default', at: '2026-11-20T17:28:00.000Z' },
          chains: [{ chain: 'registry', entries: 42, head: '00'.repeat(32) }],
          ...{ public_key: 'MCowBQYDK2VwAyEA…', signature: 'K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN…' },
        },
      },
    },
    async handle({ account, body }, parts) {
      const checkpoint = parts.checkpoints.read(account, body.checkpoint, body.public_key);
      return verified(account, parts, { checkpoint });
    },
  }),
];

type Verified = Pick<VerifyOptions, 'fromMs' | 'toMs' | 'checkpoint'>;

async function verified(account: string, { audit, barrier }: Parts, options: Verified): Promise<Reply> {
  const settle = () => barrier.waitForAuditLog(account);
  const complete = await settle();
  const result = await ask(() => audit.verify(account, { ...options, settle, budgetMs: VERIFY_MS_MAX }));
  return markIncomplete(json(200, result), complete && result.unsettled === 0);
}

const AUDIT_COLUMNS = ['id', 'created_at', 'action', 'actor', 'resource_type', 'resource_id', 'details'] as const;

async function entriesOf(
  { account, principal, query }: Call<unknown, QueryOf<typeof auditFilters>>,
  { barrier, clickhouse, registry }: Parts,
) {
  const complete = barrier.waitForAuditLog(account);
  await complete;
  const filter = { ...query, aboutAgent: principal.agentId ?? undefined };
  // Asked for each page: an agent may be deleted while its account is exported.
  const read = async (start: PageStart) => {
    const excludeAgents = await registry.agents.erasing(account);
    return listAuditLogs(clickhouse, account, { ...filter, excludeAgents, ...start });
  };
  return { complete, read };
}
