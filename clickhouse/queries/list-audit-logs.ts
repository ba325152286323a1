// Lists the audit log (GET /v1/audit-logs), newest first, totals exact. Entries of one time come in the order in which
// they arrived: that of their ids, and an event's submission before what was decided of it.
// `q` finds words, as in payloads, in an entry's action, actor, resource id and details.
// Three sources, read as one: every event is an `event.submitted`; a blocked or pending one is a second entry;
// everything else lies in audit_log. The first two are read off the event rows (projection by_arrival, then the page's
// rows by primary key; totals from counts), so they are there exactly when the event is, cost nothing at insert, and go
// with it when its agent is erased.

import type { ClickHouseSettings } from '@clickhouse/client';
import type { AuditLog } from '../../schemas/audit-log.ts';
import { cut, type Listed, type PageStart, type Position } from '../../schemas/paging.ts';
import { parseExact } from '../../src/common/exact-json.ts';
import { derivedId, timeOfId } from '../../src/common/ids.ts';
import type { ClickHouse, QueryParams } from '../client.ts';
import { type AnyOf, type Excluded, isoTime, type Order, QueryConditions, valuesOf } from './conditions.ts';
import { type AuditedRow, auditedByKey } from './event-rows.ts';
import { parseSearch, textCondition } from './search.ts';

/** A filter with several values takes any of them. */
export type AuditFilter = Excluded & {
  action?: AnyOf<string> | undefined;
  actor?: AnyOf<string> | undefined;
  resource_type?: AnyOf<string> | undefined;
  resource_id?: AnyOf<string> | undefined;
  q?: string | undefined;
  /** false: without `event.submitted`, of which there is one for every event. */
  submissions?: boolean | undefined;
  /** Epoch ms, inclusive. */
  from?: number | undefined;
  to?: number | undefined;
  /** Only entries about this agent: those that are erased with it. */
  aboutAgent?: string | undefined;
};
type AuditPage = AuditFilter & PageStart & { order?: 'asc' | 'desc' | undefined };

type EntrySource = 'submitted' | 'decided' | 'recorded';
/** One entry of a page before its details are known. `key` is the event's id, or the entry's own for a recorded one. */
type EntryKey = {
  source: EntrySource;
  created_ms: number;
  arrival: string;
  key: string;
  agent_id: string;
  timestamp_ms: number;
};
export type RecordedRow = {
  id: string;
  action: string;
  actor: string;
  resource_type: string;
  resource_id: string;
  details: string;
  created_ms: number;
};
type Source = { keys: string; from: string };

export const RECORDED_COLUMNS =
  'id, action, actor, resource_type, resource_id, details, toUnixTimestamp64Milli(created_at) AS created_ms';

type EventAction = 'event.submitted' | 'event.blocked' | 'event.pending';
const EVENT_ACTIONS: readonly EventAction[] = ['event.submitted', 'event.blocked', 'event.pending'];

/** The text searched in each source: action, actor, resource id, details. Names of details are searched with them. */
const RECORDED_TEXT = `concatWithSeparator(' ', action, actor, resource_id, replaceRegexpAll(details, '\\\\\\\\["\\\\\\\\/bfnrt]', ' '))`;
const EVENT_TEXT = "'agent', agent_id, id, 'outcome', outcome, 'request_id', request_id";
const SEARCHED: Record<EntrySource, string> = {
  recorded: RECORDED_TEXT,
  submitted: `concatWithSeparator(' ', 'event.submitted type', type, ${EVENT_TEXT})`,
  decided: `concatWithSeparator(' ', concat('event.', outcome), 'policy_id', policy_id, if(outcome = 'pending', 'approval_id', 'reason'), if(outcome = 'pending', approval_id, reason), 'agent', agent_id, id, 'request_id', request_id)`,
};

/**
 * An event's second entry differs from its first in the lowest bit of the last character: its own inverse, and never
 * equal.
 */
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const FLIPPED = '1032547698badcfehgkjnmqpsrvtxwzy';

/** Sorts an entry among those of its time: the id of its row without the prefix, and which of its entries it is. */
const ARRIVALS: Record<EntrySource, string> = {
  recorded: "concat(substring(id, 5), '0')",
  submitted: "concat(substring(id, 5), '0')",
  decided: "concat(substring(id, 5), '1')",
};

/** The same of an entry as it is shown. */
export function positionOfEntry({ id, action, resource_id, created_at }: AuditLog): Position {
  const isOfEvent = (EVENT_ACTIONS as readonly string[]).includes(action);
  const row = isOfEvent ? resource_id : id;
  const which = isOfEvent && action !== 'event.submitted' ? '1' : '0';
  return { at: Date.parse(created_at), id: row.slice(4) + which };
}

export async function listAuditLogs(
  clickhouse: ClickHouse,
  account: string,
  page: AuditPage,
): Promise<Listed<AuditLog>> {
  const { sources, params } = sourcesOf(account, page);
  // The projections have nothing that could be searched.
  const byArrival: ClickHouseSettings =
    page.q === undefined ? { preferred_optimize_projection_name: 'by_arrival' } : { optimize_use_projections: 0 };
  const isKept = [page.from, page.to, page.resource_id, page.q].every((filter) => filter === undefined);
  const { order = 'desc' } = page;
  const bounded = sources.map(({ keys }) => `SELECT * FROM (${keys} LIMIT {reach:UInt64})`).join(' UNION ALL ');
  const count = `SELECT sum(n) AS total FROM (${sources.map(({ from }) => `SELECT count() AS n ${from}`).join(' UNION ALL ')})`;
  const { limit, offset, after } = page;
  const [keys, counted] = await Promise.all([
    clickhouse.query<EntryKey>(
      `SELECT * FROM (${bounded}) ORDER BY created_ms ${order}, arrival ${order} LIMIT {limit:UInt64} OFFSET {offset:UInt64}`,
      { ...params, reach: limit + 1 + offset, limit: limit + 1, offset },
      { settings: byArrival },
    ),
    after === undefined
      ? clickhouse.query<{ total: number }>(count, params, {
          settings: isKept ? { preferred_optimize_projection_name: 'counts' } : byArrival,
        })
      : undefined,
  ]);
  const { rows, next } = cut(keys, limit, (key) => ({ at: key.created_ms, id: key.arrival }));
  const total = counted === undefined ? null : (counted[0]?.total ?? 0);
  const items = await fillIn(clickhouse, account, rows);
  return { items, positions: items.map(positionOfEntry), total, next };
}

/** By its id, which must be well formed (isId) and says when it was made. null: it is not there, or not yet. */
export async function getAuditLog(
  clickhouse: ClickHouse,
  account: string,
  id: string,
  about: Pick<AuditFilter, 'aboutAgent' | 'excludeAgents'>,
): Promise<AuditLog | null> {
  const at = timeOfId(id);
  const { sources, params } = sourcesOf(account, { ...about, from: at, to: at, limit: 1, offset: 0 }, id);
  const keys = await clickhouse.query<EntryKey>(sources.map(({ keys }) => `(${keys})`).join(' UNION ALL '), params, {
    settings: { preferred_optimize_projection_name: 'by_arrival' },
  });
  return (await fillIn(clickhouse, account, keys))[0] ?? null;
}

/** Names the row that an entry is about, were it of this source. */
const ROW_OF_ENTRY: Record<EntrySource, (id: string) => string> = {
  recorded: (id) => id,
  submitted: (id) => derivedId('event', id),
  decided: (id) => derivedId('event', flipped(id)),
};

/** The id of the entry `event.blocked` or `event.pending` of an event. */
export function secondEntryId(eventId: string): string {
  return flipped(derivedId('auditLog', eventId));
}

function flipped(id: string): string {
  return id.slice(0, -1) + FLIPPED[ALPHABET.indexOf(id.at(-1)!)];
}

/** `id`: of the one entry that is asked for. */
function sourcesOf(account: string, filter: AuditPage, id?: string): { sources: Source[]; params: QueryParams } {
  const { order = 'desc', after } = filter;
  const params: QueryParams = {};
  const sources: Source[] = [];
  const add = (source: EntrySource, where: QueryConditions | null) => {
    if (where === null) return;
    if (id !== undefined) where.and(`id = {${source}_id:String}`, { [`${source}_id`]: ROW_OF_ENTRY[source](id) });
    const table = source === 'recorded' ? 'audit_log FINAL' : 'events';
    const from = `FROM ${table} WHERE ${searched(where, filter, source).sql}`;
    where.after(after, { time: source === 'recorded' ? 'created_at' : 'received_at', id: ARRIVALS[source], order });
    sources.push({ from, keys: keysOf(source, `FROM ${table} WHERE ${where.sql}`, order) });
    Object.assign(params, where.params);
  };
  add('recorded', recordedConditions(account, filter));
  for (const source of ['submitted', 'decided'] as const) add(source, eventConditions(account, filter, source));
  return { sources, params };
}

function searched(where: QueryConditions, { q }: AuditFilter, source: EntrySource): QueryConditions {
  if (q === undefined) return where;
  const { sql, params } = textCondition(parseSearch(q), SEARCHED[source]);
  return where.and(sql, params);
}

function recordedConditions(account: string, filter: AuditFilter): QueryConditions {
  const where = new QueryConditions(account)
    .equal('action', filter.action)
    .equal('actor', filter.actor)
    .equal('resource_type', filter.resource_type)
    .equal('resource_id', filter.resource_id)
    .between('created_at', filter.from, filter.to);
  // An `agent.deleted` is the account's, not the agent's.
  if (filter.aboutAgent !== undefined) where.equal('about_agent', filter.aboutAgent).and("action != 'agent.deleted'");
  const { excludeAgents } = filter;
  if (excludeAgents === undefined || excludeAgents.length === 0) return where;
  return where.and("(action = 'agent.deleted' OR about_agent NOT IN {excluded:Array(String)})", {
    excluded: excludeAgents,
  });
}

/** Null where no entry of this source can match. */
function eventConditions(
  account: string,
  filter: AuditFilter,
  source: 'submitted' | 'decided',
): QueryConditions | null {
  const { action, actor, resource_type: type, resource_id, submissions, aboutAgent } = filter;
  const wanted = EVENT_ACTIONS.filter((one) => action === undefined || valuesOf(action).includes(one));
  const actors =
    actor && valuesOf(actor).flatMap((one) => (one.startsWith('agent:') ? [one.slice('agent:'.length)] : []));
  const agents = aboutAgent === undefined ? actors : [aboutAgent].filter((agent) => actors?.includes(agent) ?? true);
  if (agents?.length === 0) return null;
  if (type !== undefined && !valuesOf(type).includes('event')) return null;
  const where = new QueryConditions(account)
    .equal('agent_id', agents)
    .equal('id', resource_id)
    .between('received_at', filter.from, filter.to)
    .exclude('agent_id', filter.excludeAgents);
  if (source === 'submitted') return wanted.includes('event.submitted') && submissions !== false ? where : null;
  const outcomes = wanted
    .filter((one) => one !== 'event.submitted')
    .map((one) => `outcome = '${one.slice('event.'.length)}'`);
  if (outcomes.length === 0) return null;
  return where.and(outcomes.length === 2 ? "outcome != 'allowed'" : outcomes[0]!);
}

function keysOf(source: EntrySource, from: string, order: Order): string {
  const ofEvent =
    source === 'recorded'
      ? "'' AS agent_id, toInt64(0) AS timestamp_ms"
      : 'agent_id, toUnixTimestamp64Milli(timestamp) AS timestamp_ms';
  const time = source === 'recorded' ? 'created_at' : 'received_at';
  return `SELECT '${source}' AS source, toUnixTimestamp64Milli(${time}) AS created_ms, ${ARRIVALS[source]} AS arrival,
    id AS key, ${ofEvent} ${from} ORDER BY ${time} ${order}, id ${order}`;
}

async function fillIn(clickhouse: ClickHouse, account: string, keys: EntryKey[]): Promise<AuditLog[]> {
  const eventKeysOf = new Map(
    keys.filter((key) => key.source !== 'recorded').map((key) => [key.key, { ...key, id: key.key }]),
  );
  const recordedIds = keys.filter((key) => key.source === 'recorded');
  const [events, recorded] = await Promise.all([
    auditedByKey(clickhouse, account, [...eventKeysOf.values()]),
    fetchRecorded(clickhouse, account, recordedIds),
  ]);
  const eventById = new Map(events.map((row) => [row.id, row]));
  const recordedById = new Map(recorded.map((row) => [row.id, row]));
  return keys.flatMap((key) => {
    if (key.source === 'recorded') return recordedById.has(key.key) ? [recordedEntry(recordedById.get(key.key)!)] : [];
    const row = eventById.get(key.key);
    return row === undefined ? [] : [key.source === 'submitted' ? submittedEntry(row) : decidedEntry(row)];
  });
}

async function fetchRecorded(clickhouse: ClickHouse, account: string, keys: EntryKey[]): Promise<RecordedRow[]> {
  if (keys.length === 0) return [];
  const times = keys.map((key) => key.created_ms);
  const where = new QueryConditions(account)
    .between('created_at', Math.min(...times), Math.max(...times))
    .and('id IN {ids:Array(String)}', { ids: keys.map((key) => key.key) });
  return clickhouse.query<RecordedRow>(
    `SELECT ${RECORDED_COLUMNS} FROM audit_log FINAL WHERE ${where.sql}`,
    where.params,
  );
}

export function recordedEntry(row: RecordedRow): AuditLog {
  return {
    id: row.id,
    action: row.action as AuditLog['action'],
    actor: row.actor,
    resource_type: row.resource_type as AuditLog['resource_type'],
    resource_id: row.resource_id,
    details: parseExact(row.details) as Record<string, unknown>,
    created_at: isoTime(row.created_ms),
  };
}

export function submittedEntry(row: AuditedRow): AuditLog {
  const details = { type: row.type, outcome: row.outcome, request_id: row.request_id };
  return eventEntry(row, { id: derivedId('auditLog', row.id), action: 'event.submitted', details });
}

export function decidedEntry(row: AuditedRow): AuditLog {
  const id = secondEntryId(row.id);
  const policy_id = row.policy_id === '' ? null : row.policy_id;
  const { approval_id, reason, request_id } = row;
  return row.outcome === 'pending'
    ? eventEntry(row, { id, action: 'event.pending', details: { policy_id, approval_id, request_id } })
    : eventEntry(row, { id, action: 'event.blocked', details: { policy_id, reason, request_id } });
}

function eventEntry(row: AuditedRow, { id, action, details }: Pick<AuditLog, 'id' | 'action' | 'details'>): AuditLog {
  return {
    id,
    action,
    actor: `agent:${row.agent_id}`,
    resource_type: 'event',
    resource_id: row.id,
    details,
    created_at: isoTime(row.received_at_ms),
  };
}
