// Lists deliveries and gets one (GET /v1/deliveries, /v1/deliveries/{id}), newest first by id; totals exact.
// FINAL: of a delivery's rows the one of the highest revision stands.

import type { Channel, DeliveryStatus } from '../../schemas/closed-sets.ts';
import type { Delivery } from '../../schemas/delivery.ts';
import type { Listed, PageStart } from '../../schemas/paging.ts';
import type { Signal } from '../../schemas/signal.ts';
import type { ClickHouse } from '../client.ts';
import { type AnyOf, type Excluded, isoTime, QueryConditions, valuesOf } from './conditions.ts';
import { pageOf } from './page-of.ts';

type DeliveryPage = PageStart &
  Excluded & {
    alertId?: AnyOf<string> | undefined;
    agentId?: AnyOf<string> | undefined;
    /** Any of the policies that the delivery is about. */
    policyId?: AnyOf<string> | undefined;
    status?: AnyOf<DeliveryStatus> | undefined;
    channel?: AnyOf<Channel> | undefined;
    /** When it last changed: epoch ms, inclusive. */
    from?: number | undefined;
    to?: number | undefined;
  };

type TimeColumn = 'next_attempt_at' | 'created_at' | 'updated_at';
export type DeliveryRow = Omit<Delivery, TimeColumn | 'attempts'> & {
  attempts: string;
  next_ms: number | null;
  created_ms: number;
  updated_ms: number;
};

const PAGE_ROWS = 5_000;
export const DELIVERY_COLUMNS = `id, alert_id, alert_name, agent_id, event_id, trigger, severity, channel, target, status, count, test, attempts,
  transport, toUnixTimestamp64Milli(next_attempt_at) AS next_ms, toUnixTimestamp64Milli(created_at) AS created_ms,
  toUnixTimestamp64Milli(updated_at) AS updated_ms`;

export async function listDeliveries(
  clickhouse: ClickHouse,
  account: string,
  page: DeliveryPage,
): Promise<Listed<Delivery>> {
  const where = deliveriesLike(account, page);
  const listed = await pageOf<DeliveryRow>(clickhouse, {
    ...{ table: 'deliveries', columns: DELIVERY_COLUMNS, where, page },
    positionOf: (row) => ({ at: 0, id: row.id }),
  });
  return { ...listed, items: listed.items.map(deliveryOf) };
}

/** The conditions for deliveries of these filters: a list has these, and the overview counts them. */
export function deliveriesLike(account: string, of: Omit<DeliveryPage, keyof PageStart>): QueryConditions {
  const where = new QueryConditions(account)
    .equal('alert_id', of.alertId)
    .equal('agent_id', of.agentId)
    .equal('status', of.status)
    .equal('channel', of.channel)
    .between('updated_at', of.from, of.to);
  if (of.policyId !== undefined)
    where.and('hasAny(policy_ids, {policy_ids:Array(String)})', { policy_ids: valuesOf(of.policyId) });
  notOf(where, of.excludeAgents);
  return where;
}

/** With its signal, by which it can be sent again. null: there is none. */
export async function getDelivery(
  clickhouse: ClickHouse,
  account: string,
  id: string,
  excludeAgents: readonly string[],
): Promise<{ delivery: Delivery; signal: Signal } | null> {
  const where = new QueryConditions(account).equal('id', id);
  notOf(where, excludeAgents);
  const [row] = await clickhouse.query<DeliveryRow & { signal: string }>(
    `SELECT ${DELIVERY_COLUMNS}, signal FROM deliveries FINAL WHERE ${where.sql}`,
    where.params,
  );
  if (row === undefined) return null;
  const { signal, ...rest } = row;
  return { delivery: deliveryOf(rest), signal: JSON.parse(signal) as Signal };
}

/** Ids of what was written to an outbox about an agent. */
export async function outboxDeliveriesOf(clickhouse: ClickHouse, account: string, agent: string): Promise<string[]> {
  const where = new QueryConditions(account).equal('agent_id', agent).and("transport = 'outbox'");
  const rows = await clickhouse.query<{ id: string }>(
    `SELECT id FROM deliveries FINAL WHERE ${where.sql}`,
    where.params,
  );
  return rows.map(({ id }) => id);
}

/** Deliveries of all accounts that waited when the queue was lost, with signals, for `gatehouse registry restore`. */
export async function* pendingDeliveries(
  clickhouse: ClickHouse,
): AsyncGenerator<{ account: string; delivery: Delivery; signal: Signal }> {
  let after = { account: '', id: '' };
  for (;;) {
    const rows = await clickhouse.query<DeliveryRow & { account: string; signal: string }>(
      `SELECT account_id AS account, ${DELIVERY_COLUMNS}, signal FROM deliveries FINAL
       WHERE (account_id, id) > ({account:String}, {id:String}) AND status = 'pending' ORDER BY account_id, id LIMIT ${PAGE_ROWS}`,
      after,
    );
    for (const { account, signal, ...row } of rows)
      yield { account, delivery: deliveryOf(row), signal: JSON.parse(signal) as Signal };
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE_ROWS) return;
    after = { account: last.account, id: last.id };
  }
}

/** A delivery without an agent belongs to the account: NOT IN alone would drop it. */
function notOf(where: QueryConditions, agents: readonly string[] | undefined): void {
  if (agents === undefined || agents.length === 0) return;
  where.and("ifNull(agent_id, '') NOT IN {excluded:Array(String)}", { excluded: agents });
}

export function deliveryOf({ next_ms, created_ms, updated_ms, attempts, ...row }: DeliveryRow): Delivery {
  return {
    ...row,
    attempts: JSON.parse(attempts) as Delivery['attempts'],
    next_attempt_at: next_ms === null ? null : isoTime(next_ms),
    created_at: isoTime(created_ms),
    updated_at: isoTime(updated_ms),
  };
}
