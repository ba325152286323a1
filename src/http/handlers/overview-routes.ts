// The overview: what a window of time had, beside the same time a day and a week before. Made of a few counts
// (clickhouse/queries/overview.ts) and of what the registry holds; it waits for what was acknowledged before, as lists
// do.
// Invariant: every number is that of the list with the same filters.
// Failure: a part whose query fails is null, and the answer says that it is incomplete; where none can be counted it is
// 503.
import { beginningOfDay, daysBefore } from '../../../clickhouse/queries/clock-windows.ts';
import { type AnyOf, valuesOf } from '../../../clickhouse/queries/conditions.ts';
import { countBy } from '../../../clickhouse/queries/count-events.ts';
import { costText } from '../../../clickhouse/queries/event-rows.ts';
import {
  type CountedWindow,
  type OverviewOf,
  overviewAgents,
  overviewAnomalies,
  overviewApprovals,
  overviewCosts,
  overviewDeliveries,
  overviewFigures,
  overviewSums,
  troubledSenders,
} from '../../../clickhouse/queries/overview.ts';
import type { Agent } from '../../../schemas/agent.ts';
import {
  type Compared,
  Overview,
  type OverviewAgents,
  type OverviewAttention,
  type OverviewCost,
  type OverviewPolicies,
  type OverviewTokens,
} from '../../../schemas/overview.ts';
import type { Policy } from '../../../schemas/policy.ts';
import { isoTime } from '../../../schemas/time.ts';
import { ServiceError } from '../../common/errors.ts';
import {
  ALERTS_MAX,
  OVERVIEW_AGENTS_MAX,
  OVERVIEW_IDLE_MAX,
  OVERVIEW_POLICIES_COUNTED_MAX,
  OVERVIEW_VALUES_MAX,
  POLICIES_MAX,
} from '../../common/limits.ts';
import { validationFailed } from '../../common/validation.ts';
import { isInForce } from '../../registry/policies/policy-record.ts';
import { allComplete, ask, json, markIncomplete, onlyOne } from '../answers/reply.ts';
import { anyOf, type QueryOf, text, time, timeZone } from '../reading/query.ts';
import { type Call, type Parts, type Route, route } from '../route.ts';
import { Decisions } from './decisions.ts';

const query = {
  agent_id: anyOf(text('Only what concerns this agent')),
  from: time('Beginning of the window. Left out: the beginning of the day, by the clock of `zone`'),
  to: time('End of the window. Left out: now'),
  zone: timeZone(
    'Time zone (IANA name) by whose clock the day begins, and by which a day and a week before are found. Left out: UTC',
  ),
};
const DAY_MS = 86_400_000;
/** As ops/prometheus-alerts.yaml has it. */
const BACKUP_OLD_MS = 1.5 * DAY_MS;

type OverviewCall = Call<unknown, QueryOf<typeof query>>;
/** The input of every part of the overview. `inForce`: policies of the agents that are asked for. */
type OverviewQuery = { call: OverviewCall; parts: Parts; of: OverviewOf; inForce: readonly Policy[] };

export const overviewRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/overview',
    needs: 'read',
    bound: 'query',
    query,
    operation: {
      id: 'getOverview',
      tag: 'Events',
      summary: 'Get what a day has had so far, beside the day and the week before',
      description:
        'Counts are exact, by `timestamp`. Windows before are those in which the clock of `zone` showed the same, so a day may have 23 or 25 hours. A part that cannot be counted now is null, and the answer says that it is incomplete.',
      answers: { 200: { description: 'The counts', schema: Overview } },
      canBeIncomplete: true,
    },
    async handle(call, parts) {
      const { account } = call;
      const { barrier, registry } = parts;
      const { agent_id: agentId, zone = 'UTC' } = call.query;
      const windows = windowsOf(call.query, Date.now());
      const decisions = new Decisions(barrier, account);
      const one = onlyOne(agentId);
      const complete = await allComplete([
        barrier.waitForEvents(account, one),
        barrier.waitForAnomalies(account, one),
        barrier.waitForApprovals(account, one),
      ]);
      const excludeAgents = await registry.agents.erasing(account);
      const of = { windows, agentId, excludeAgents, settle: decisions.settle, signal: call.client.signal };
      const asked = { call, parts, of, inForce: await inForceFor(call, parts) };
      const [now, day, week] = windows.map(shownWindow) as [ShownWindow, ShownWindow, ShownWindow];
      const [counted, attention, caring] = await Promise.all([countedOf(asked), attentionOf(asked), serviceOf(asked)]);
      const body: Overview = {
        ...{ zone, window: now, day_before: day, week_before: week },
        ...counted,
        attention: { ...attention, ...caring },
      };
      const whole = Object.values(counted).every((part) => part !== null);
      return markIncomplete(json(200, body), complete && decisions.complete && whole);
    },
  }),
];

type ShownWindow = Overview['window'];

function shownWindow({ fromMs, toMs }: CountedWindow): ShownWindow {
  return { from: isoTime(fromMs), to: isoTime(toMs) };
}

/** Whole milliseconds: that is what windows are compared by. */
function windowsOf(
  { from, to, zone = 'UTC' }: Pick<QueryOf<typeof query>, 'from' | 'to' | 'zone'>,
  nowMs: number,
): [CountedWindow, CountedWindow, CountedWindow] {
  const toMs = Math.floor(to ?? nowMs);
  const fromMs = from === undefined ? beginningOfDay(zone, toMs) : Math.ceil(from);
  if (fromMs > toMs)
    throw validationFailed('The query string does not fit.', [{ path: 'from', message: 'must not be after to' }]);
  const before = (days: number) => ({
    fromMs: daysBefore(zone, fromMs, days),
    toMs: daysBefore(zone, toMs, days),
  });
  return [{ fromMs, toMs }, before(1), before(7)];
}

type OverviewCounts = Pick<
  Overview,
  'figures' | 'anomalies' | 'tokens' | 'cost' | 'approvals' | 'agents' | 'policies' | 'deliveries'
>;

/** The large counts first, then the others, so that an account does not ask for all at once. */
async function countedOf(asked: OverviewQuery): Promise<OverviewCounts> {
  const { parts, of, call } = asked;
  const { clickhouse } = parts;
  const { account } = call;
  const [figures, tokens, agents, policies] = await Promise.allSettled([
    ask(() => overviewFigures(clickhouse, account, of)),
    tokensOf(asked),
    agentsOf(asked),
    policiesOf(asked),
  ]);
  const [costs, anomalies, approvals, deliveries] = await Promise.allSettled([
    costsOf(asked),
    ask(() => overviewAnomalies(clickhouse, account, of)),
    ask(() => overviewApprovals(clickhouse, account, of)),
    ask(() => overviewDeliveries(clickhouse, account, of)),
  ]);
  const all = [figures, tokens, agents, policies, costs, anomalies, approvals, deliveries];
  const failed = all.filter(({ status }) => status === 'rejected') as PromiseRejectedResult[];
  const isOver = failed.length === all.length || failed.some(({ reason }) => !(reason instanceof ServiceError));
  if (isOver) throw failed.find(({ reason }) => !(reason instanceof ServiceError))?.reason ?? failed[0]!.reason;
  const counts = countedOrNull(figures);
  const flagged = countedOrNull(anomalies);
  return {
    figures: counts && {
      events: compared(counts.events),
      blocked: compared(counts.blocked),
      errors: compared(counts.errors),
    },
    anomalies: flagged && compared(flagged),
    ...{ tokens: countedOrNull(tokens), approvals: countedOrNull(approvals), agents: countedOrNull(agents) },
    ...(costs.status === 'fulfilled' && costs.value === undefined ? {} : { cost: countedOrNull(costs) ?? null }),
    ...{ policies: countedOrNull(policies), deliveries: countedOrNull(deliveries) },
  };
}

function countedOrNull<T>(settled: PromiseSettledResult<T>): T | null {
  return settled.status === 'fulfilled' ? settled.value : null;
}

function compared([now, day_before, week_before]: readonly [number, number, number]): Compared {
  return { now, day_before, week_before };
}

async function tokensOf({
  call: { account },
  parts: { clickhouse, registry },
  of,
}: OverviewQuery): Promise<OverviewTokens> {
  const { total, model, agent } = await ask(() =>
    overviewSums(clickhouse, account, { ...of, max: OVERVIEW_VALUES_MAX, column: 'tokens_used' }),
  );
  const named = await namedAgents(account, registry, agent.values);
  return {
    total: compared(total),
    model: { values: model.values.map(([value, tokens]) => ({ value, tokens })), other: model.other },
    agent_id: { values: named.map(({ sum, ...of }) => ({ ...of, tokens: sum })), other: agent.other },
  };
}

/** undefined: the account has no prices. */
async function costsOf({
  call: { account },
  parts: { clickhouse, registry },
  of,
}: OverviewQuery): Promise<OverviewCost | undefined> {
  // A currency is for good.
  if ((await registry.prices.get(account)).currency === null) return undefined;
  const costs = await ask(() => overviewCosts(clickhouse, account, { ...of, max: OVERVIEW_VALUES_MAX }));
  if (costs === null) return undefined;
  const { total, priced, unpriced, model, agent } = costs;
  const text = (sum: number) => costText(sum, costs.by)!;
  const known = (i: 0 | 1 | 2) => (priced[i] === 0 ? null : text(total[i]));
  const named = await namedAgents(account, registry, agent.values);
  return {
    total: { now: known(0), day_before: known(1), week_before: known(2) },
    unpriced_events: compared(unpriced),
    model: { values: model.values.map(([value, sum]) => ({ value, cost: text(sum) })), other: text(model.other) },
    agent_id: { values: named.map(({ sum, ...who }) => ({ ...who, cost: text(sum) })), other: text(agent.other) },
  };
}

function namedAgents(account: string, { agents }: Parts['registry'], sums: readonly [value: string, sum: number][]) {
  return Promise.all(
    sums.map(async ([value, sum]) => {
      const name = (await agents.get(account, value))?.name;
      return { value, ...(name === undefined ? {} : { name }), sum };
    }),
  );
}

async function agentsOf(asked: OverviewQuery): Promise<OverviewAgents> {
  const { call, parts, of } = asked;
  const { total, agents } = await shownAgents(asked);
  const ids = agents.map(({ id }) => id);
  const counts = await ask(() => overviewAgents(parts.clickhouse, call.account, { ...of, agents: ids }));
  const items = agents
    .map(({ id, name, status, last_seen_at }) => ({ id, name, status, last_seen_at, ...counts.get(id)! }))
    .sort(
      (a, b) =>
        troubles(b) - troubles(a) || descending(a.last_seen_at ?? '', b.last_seen_at ?? '') || descending(a.id, b.id),
    );
  return { total, items };
}

function troubles({ blocked, errors, anomalies }: OverviewAgents['items'][number]): number {
  return blocked + errors + anomalies;
}

function descending(a: string, b: string): number {
  return a === b ? 0 : a < b ? 1 : -1;
}

/** All of them; of more, those of the window with most troubles, and where these are fewer the newest others. */
async function shownAgents({ call, parts, of }: OverviewQuery): Promise<{ total: number; agents: Agent[] }> {
  const { account } = call;
  const { registry, clickhouse } = parts;
  const first = { limit: OVERVIEW_AGENTS_MAX, offset: 0 };
  const { items, total } = await registry.agents.list(account, { id: call.query.agent_id, ...first });
  if ((total ?? 0) <= OVERVIEW_AGENTS_MAX) return { total: total ?? 0, agents: items };
  const senders = await ask(() => troubledSenders(clickhouse, account, { ...of, max: OVERVIEW_AGENTS_MAX }));
  const sending = await Promise.all(senders.map((id) => registry.agents.get(account, id)));
  const known = sending.filter((agent) => agent !== null);
  const others = items.filter(({ id }) => !senders.includes(id));
  return { total: total ?? 0, agents: [...known, ...others].slice(0, OVERVIEW_AGENTS_MAX) };
}

/** A key that is bound to an agent sees the policies of that agent, as in their list. */
async function inForceFor({ account, query, principal }: OverviewCall, { registry }: Parts): Promise<Policy[]> {
  const agents: AnyOf<string> | undefined = query.agent_id;
  const { items } = await registry.policies.list(account, { status: ['active'], limit: POLICIES_MAX, offset: 0 });
  const nowMs = Date.now();
  return items.filter(
    (policy) =>
      isInForce(policy, nowMs) &&
      (agents === undefined ||
        (policy.agent_id === null ? principal.agentId === null : valuesOf(agents).includes(policy.agent_id))),
  );
}

async function policiesOf({ call, parts, of, inForce }: OverviewQuery): Promise<OverviewPolicies> {
  const { account } = call;
  const { agentId, excludeAgents, settle, signal, windows } = of;
  const { fromMs: from, toMs: to } = windows[0];
  const filter = { agentId, excludeAgents, settle, signal, from, to };
  const { values } = await ask(() =>
    countBy(parts.clickhouse, account, { by: 'policy_id', max: OVERVIEW_POLICIES_COUNTED_MAX, filter }),
  );
  const matched = await Promise.all(
    values.slice(0, OVERVIEW_VALUES_MAX).map(async ([id, events]) => {
      const name = (await parts.registry.policies.get(account, id))?.name;
      return { id, ...(name === undefined ? {} : { name }), events };
    }),
  );
  const ids = new Set(values.map(([id]) => id));
  const idle = inForce.filter(({ id }) => !ids.has(id));
  const items = idle.slice(0, OVERVIEW_IDLE_MAX).map(({ id, name }) => ({ id, name }));
  return { in_force: inForce.length, matched, never_matched: { total: idle.length, items } };
}

/** The faults of the service, for those who look after it. Never rejects. */
async function serviceOf({
  call: { account, principal },
  parts: { care, health, registry },
}: OverviewQuery): Promise<Pick<OverviewAttention, 'service'>> {
  if (principal.scope !== 'admin' || principal.agentId !== null) return {};
  try {
    const [{ lastBackupMs, isOwn, invalid, ...rest }, { faults, degraded }, record] = await Promise.all([
      care(),
      health(),
      registry.accounts.get(account),
    ]);
    const ageMs = record === null ? 0 : Date.now() - Date.parse(record.created_at);
    // Stores of the operator's own are backed up by other means.
    const isNever = lastBackupMs === 0 && isOwn && ageMs > DAY_MS;
    const isOld = lastBackupMs > 0 && Date.now() - lastBackupMs > BACKUP_OLD_MS;
    return {
      service: {
        faults: [
          ...faults.map(({ path, message }) => `${path}: ${message}`),
          ...(degraded === undefined ? [] : [`redis: ${degraded}`]),
        ],
        ...rest,
        backup: isNever ? 'never' : isOld ? 'old' : null,
        last_backup_at: lastBackupMs === 0 ? null : isoTime(lastBackupMs),
        is_audit_invalid: invalid.includes(account),
      },
    };
  } catch {
    return { service: null };
  }
}

async function attentionOf({ call, parts: { registry }, inForce }: OverviewQuery): Promise<OverviewAttention> {
  const { account, principal } = call;
  const { total } = await registry.agents.list(account, {
    ...{ status: ['down'], id: call.query.agent_id, limit: 1, offset: 0 },
  });
  const attention = { agents_down: total ?? 0, untold_policies: 0 };
  const telling = inForce.filter(({ actions }) => actions.includes('alert'));
  // Alerts of the account are not for a key that is bound to an agent.
  if (principal.agentId !== null || telling.length === 0) return attention;
  const alerts = await registry.alerts.list(account, { limit: ALERTS_MAX, offset: 0 });
  const isNotified = alerts.items.some(({ trigger, status }) => trigger === 'policy_violation' && status === 'active');
  return { ...attention, untold_policies: isNotified ? 0 : telling.length };
}
