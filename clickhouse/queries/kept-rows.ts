// Which rows of an account are kept, as a condition of each table whose rows expire. The one place that says so: reads
// show what it holds for (kept-reads.ts), and no other row is ever deleted by age (expired-rows.ts).
// Values are written into the text, since neither a setting nor a mutation takes parameters. All are our own numbers,
// identifiers of a known form, and bytes as hexadecimal digits.
import type { KeptTimes } from '../../schemas/retention.ts';
import { ID_PREFIXES, idTime, isId } from '../../src/common/ids.ts';

export const EXPIRING_TABLES = ['events', 'anomalies', 'approvals', 'deliveries'] as const;
export type ExpiringTable = (typeof EXPIRING_TABLES)[number];

/** 'true': all of them. */
export function keptRows(table: ExpiringTable, kept: KeptTimes): string {
  const { held } = kept;
  if (held.all) return 'true';
  return table === 'events' ? keptEvents(kept) : keptOthers(kept);
}

/**
 * By the id, which begins with the millisecond of arrival: the projections have it, and not all have `received_at`.
 */
function keptEvents({ fromMs, byType, held }: KeptTimes): string {
  const since = (ms: number) => `id >= '${ID_PREFIXES.event}${idTime(Math.max(0, ms))}'`;
  const named = byType.map(([type]) => `'${type}'`).join(', ');
  const parts =
    byType.length === 0
      ? [since(fromMs)]
      : [
          ...byType.map(([type, ms]) => `type = '${type}' AND ${since(ms)}`),
          `type NOT IN (${named}) AND ${since(fromMs)}`,
        ];
  if (held.agents.length > 0) parts.push(`agent_id IN (${held.agents.map(agentLiteral).join(', ')})`);
  if (held.traces.length > 0) parts.push(`trace_id IN (${held.traces.map(textLiteral).join(', ')})`);
  return parts.map((part) => `(${part})`).join(' OR ');
}

/** They name no trace: while one is held all of the account are kept. */
function keptOthers({ othersFromMs, held }: KeptTimes): string {
  if (held.traces.length > 0) return 'true';
  const since = `created_at >= ${instantLiteral(othersFromMs)}`;
  if (held.agents.length === 0) return since;
  return `(${since}) OR ifNull(agent_id, '') IN (${held.agents.map(agentLiteral).join(', ')})`;
}

export function instantLiteral(ms: number): string {
  return `fromUnixTimestamp64Milli(toInt64(${Math.trunc(Math.max(0, ms))}), 'UTC')`;
}

export function accountLiteral(id: string): string {
  if (!isId('account', id)) throw new Error(`${id} is no id of an account`);
  return `'${id}'`;
}

function agentLiteral(id: string): string {
  if (!isId('agent', id)) throw new Error(`${id} is no id of an agent`);
  return `'${id}'`;
}

function textLiteral(text: string): string {
  return `unhex('${Buffer.from(text).toString('hex')}')`;
}
