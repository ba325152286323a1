// Final outcomes against a plain model: 3,000 events of two accounts, a third of the pending ones decided, each filter
// alone and with others. Lists, totals, single events, traces and their counts agree on what each event has become.

import t, { type Test } from 'tap';
import { migrate } from '../../clickhouse/migrate.ts';
import { valuesOf } from '../../clickhouse/queries/conditions.ts';
import { countBy, histogramOf } from '../../clickhouse/queries/count-events.ts';
import type { EventFilter } from '../../clickhouse/queries/event-filter.ts';
import type { EventRow } from '../../clickhouse/queries/event-rows.ts';
import { getEvent } from '../../clickhouse/queries/get-event.ts';
import {
  decidedApprovals,
  listApprovals,
  pendingApprovals,
  rowRevisions,
} from '../../clickhouse/queries/list-approvals.ts';
import { listEvents } from '../../clickhouse/queries/list-events.ts';
import { getTrace, listTraces } from '../../clickhouse/queries/traces.ts';
import { OUTCOMES, type Outcome } from '../../schemas/closed-sets.ts';

import { derivedId, mintId } from '../../src/common/ids.ts';
import { encodeStored, plainEvent, startClickHouse, type TestEvent } from '../support/clickhouse.ts';

const BASE = Date.UTC(2026, 10, 20, 12);
const TRACES = 40;
const accounts = [mintId('account', BASE), mintId('account', BASE)];
const agents = [0, 1, 2].map((i) => mintId('agent', BASE + i));

/** A fixed stream of numbers: a failure is the same failure the next time. */
let state = 11;
function pick(below: number): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}

type Known = { event: TestEvent; final: Outcome };

function makeEvent(i: number): Known {
  const received = BASE + i;
  const outcome = OUTCOMES[[0, 0, 1, 2, 2][pick(5)]!]!;
  const id = mintId('event', received);
  const approvalId = outcome === 'pending' ? derivedId('approval', id) : '';
  const result = {
    outcome,
    reason: 'policy',
    policy_id: 'pol_1',
    matches: [{ name: 'a "b"' }],
    approval_id: approvalId,
  };
  const event = plainEvent({
    account_id: accounts[pick(4) === 0 ? 1 : 0]!,
    agent_id: agents[pick(3)]!,
    id,
    type: ['prompt', 'tool_call'][pick(2)]!,
    trace_id: `trace-${pick(TRACES)}`,
    timestamp: BASE - pick(50) * 1000,
    received_at: received,
    payload: `{"n":${i},"text":"${['alpha', 'beta'][pick(2)]}"}`,
    outcome,
    reason: outcome === 'allowed' ? '' : 'policy',
    policy_id: outcome === 'allowed' ? '' : 'pol_1',
    approval_id: approvalId,
    policy_result: outcome === 'allowed' ? '' : JSON.stringify(result),
    request_id: 'r',
  });
  return { event, final: outcome === 'pending' && pick(3) === 0 ? OUTCOMES[pick(2)]! : outcome };
}

const all = Array.from({ length: 3_000 }, (_, i) => makeEvent(i));
const server = await startClickHouse(t);
const clickhouse = server.makeDatabase();
await migrate(clickhouse, { retentionDays: 3_650 });
await clickhouse.insertEvents(
  all.map(({ event }) => encodeStored(event)),
  'events',
);

/** As the journal writes them: first all of them pending, then, in a part of its own, what was decided. */
function approvalRow({ event, final }: Known, revision: number, isOpening: boolean) {
  const outcome = isOpening ? 'pending' : final;
  const time = new Date(event.received_at).toISOString();
  return {
    ...{ account_id: event.account_id, id: event.approval_id, agent_id: event.agent_id, event_id: event.id },
    ...{
      policy_id: 'pol_1',
      policy_name: 'p',
      outcome,
      on_timeout: 'deny',
      created_at: time,
      expires_at: time,
      revision,
    },
    status: outcome === 'pending' ? 'pending' : outcome === 'allowed' ? 'approved' : 'denied',
    ...(isOpening ? {} : { decided_at: time, decided_by: 'key:key_1', comment: 'c' }),
  };
}

const asked = all.filter(({ event }) => event.outcome === 'pending');
const decided = asked.filter(({ final }) => final !== 'pending');
const isInTrace = (id: string) => (known: Known) =>
  known.event.account_id === accounts[0] && known.event.trace_id === id;

function expected(account: string, filter: EventFilter): Known[] {
  return all
    .filter(({ event, final }) => {
      const { agentId, type, traceId, outcome, reason, q, excludeAgents = [] } = filter;
      const known = { event, final };
      return (
        event.account_id === account &&
        (agentId === undefined || event.agent_id === agentId) &&
        (type === undefined || (valuesOf(type) as readonly string[]).includes(event.type)) &&
        (traceId === undefined || event.trace_id === traceId) &&
        (outcome === undefined || valuesOf(outcome).includes(final)) &&
        (reason === undefined || (valuesOf(reason) as readonly string[]).includes(reasonOf(known))) &&
        (q === undefined || event.payload.includes(q)) &&
        !excludeAgents.includes(event.agent_id)
      );
    })
    .sort((a, b) => b.event.timestamp - a.event.timestamp || (a.event.id < b.event.id ? 1 : -1));
}

const answered = (result: string) => (result === '' ? '' : (JSON.parse(result) as { reason: string }).reason);
const shown = (row: EventRow) => [row.id, row.outcome, answered(row.policy_result)];
const reasonOf = ({ event, final }: Known) => (final === event.outcome ? event.reason : 'approval');

const FILTERS: EventFilter[] = [
  {},
  { agentId: agents[0]! },
  { type: 'prompt' },
  { traceId: 'trace-3' },
  { q: 'alpha' },
  { agentId: agents[1]!, q: 'beta', type: 'tool_call' },
  { excludeAgents: [agents[2]!] },
  { reason: 'approval' },
  { reason: ['policy', 'agent_inactive'], agentId: agents[1]! },
  { reason: ['policy', 'approval'], type: ['prompt', 'tool_call'] },
];

async function compare(t: Test, name: string, filters = FILTERS): Promise<void> {
  for (const account of accounts) {
    for (const base of filters) {
      for (const outcome of [
        undefined,
        ...OUTCOMES,
        ['pending', 'blocked'] as const,
        ['allowed', 'blocked'] as const,
      ]) {
        const filter = { ...base, outcome };
        const wanted = expected(account, filter);
        const { items, total } = await listEvents(clickhouse, account, { ...filter, limit: 60, offset: 3 });
        const page = wanted.slice(3, 63).map((known) => [known.event.id, known.final, reasonOf(known)]);
        t.equal(total, wanted.length, `${name} ${JSON.stringify(filter)}`);
        t.same(items.map(shown), page);
      }
    }
  }
}

t.test('before anything is decided everything is as it was stored', async (t) => {
  const finals = all.map(({ final }) => final);
  for (const known of all) known.final = known.event.outcome;
  await compare(t, 'undecided', [FILTERS[0]!, ...FILTERS.slice(-3)]);
  await clickhouse.insertRows(
    'approvals',
    asked.map((known, i) => approvalRow(known, i + 1, true)),
  );
  await compare(t, 'asked', FILTERS.slice(0, 1));
  for (const [i, known] of all.entries()) known.final = finals[i]!;
});

t.test('decided: lists, filters and totals agree with the model', async (t) => {
  // Some of them twice, as a replay of the journal would.
  const rows = decided.map((known, i) => approvalRow(known, asked.length + i + 1, false));
  await clickhouse.insertRows('approvals', rows);
  await clickhouse.insertRows('approvals', rows.slice(0, 50));
  await compare(t, 'decided');
});

t.test('decided: counts by outcome and over time agree with the model', async (t) => {
  for (const base of FILTERS) {
    for (const outcome of [undefined, 'pending', ['allowed', 'blocked']] as EventFilter['outcome'][]) {
      const filter = { ...base, outcome };
      const wanted = expected(accounts[0]!, filter);
      const countOf = (some: Known[]) =>
        Object.fromEntries(
          OUTCOMES.map((one) => [one, some.filter(({ final }) => final === one).length] as const).filter(
            ([, n]) => n > 0,
          ),
        );
      const label = JSON.stringify(filter);
      const { values } = await countBy(clickhouse, accounts[0]!, { by: 'outcome', max: 5, filter });
      t.same(Object.fromEntries(values), countOf(wanted), label);
      const found = await histogramOf(clickhouse, accounts[0]!, { by: 'outcome', buckets: 9, values: 5, filter });
      t.equal(found === null, wanted.length === 0, label);
      for (const [i, { atMs, counts }] of found?.buckets.entries() ?? []) {
        const inside = wanted.filter(({ event: { timestamp: at } }) => at >= atMs && at < atMs + found!.bucketMs);
        t.same(Object.fromEntries([...counts].filter(([, n]) => n > 0)), countOf(inside), `${label}, bucket ${i}`);
      }
    }
  }
});

t.test('single events and traces', async (t) => {
  for (const { event, final } of decided.slice(0, 20)) {
    const row = (await getEvent(clickhouse, event.account_id, event.agent_id, event.id))!;
    t.same(JSON.parse(row.policy_result), { ...JSON.parse(event.policy_result), outcome: final, reason: 'approval' });
    t.ok(row.policy_result.startsWith(`{"outcome":"${final}","reason":"approval","policy_id"`), 'in the order of keys');
  }
  const { items } = await listTraces(clickhouse, accounts[0]!, { limit: 500, offset: 0 });
  t.equal(items.length, TRACES);
  for (const { trace_id, outcomes } of items) {
    const counts: Record<string, number> = {};
    for (const { final } of all.filter(isInTrace(trace_id))) counts[final] = (counts[final] ?? 0) + 1;
    t.same(outcomes, counts, trace_id);
  }
  const one = (await getTrace(clickhouse, accounts[0]!, 'trace-7'))!;
  const finals = new Map(all.map(({ event, final }) => [event.id, final]));
  t.ok(one.events.every((row) => row.outcome === finals.get(row.id)));
  const without = (await getTrace(clickhouse, accounts[0]!, 'trace-7', { excludeAgents: [agents[0]!] }))!;
  const rest = all.filter(isInTrace('trace-7')).filter(({ event }) => event.agent_id !== agents[0]);
  t.equal(without.trace.outcomes['allowed'], rest.filter(({ final }) => final === 'allowed').length);
});

t.test('who reads waits for decisions only where they could matter, and then once before it reads', async (t) => {
  let waits = 0;
  const settle = async () => void waits++;
  const quiet = all.find(({ event }) => event.outcome === 'allowed')!.event;
  await getEvent(clickhouse, quiet.account_id, quiet.agent_id, quiet.id, { settle });
  await listEvents(clickhouse, accounts[0]!, { q: 'nothing like it', limit: 10, offset: 0, settle });
  t.equal(waits, 0);
  const { event } = asked[0]!;
  await getEvent(clickhouse, event.account_id, event.agent_id, event.id, { settle });
  t.equal(waits, 1);
  await listEvents(clickhouse, accounts[0]!, { outcome: 'allowed', limit: 10, offset: 0, settle });
  t.equal(waits, 2);
});

t.test('approvals: newest first, each at its newest, of one account', async (t) => {
  const own = asked.filter(({ event }) => event.account_id === accounts[0]);
  const ids = own.map(({ event }) => event.approval_id).toReversed();
  const { items, total } = await listApprovals(clickhouse, accounts[0]!, { limit: 20, offset: 5 });
  t.equal(total, own.length);
  t.same(
    items.map(({ id }) => id),
    ids.slice(5, 25),
  );
  for (const status of ['pending', 'approved', 'denied', 'expired'] as const) {
    const outcome = { pending: 'pending', approved: 'allowed', denied: 'blocked', expired: 'none' }[status];
    const page = { status, agentId: agents[1]!, limit: 500, offset: 0 };
    const of = own.filter(({ event, final }) => final === outcome && event.agent_id === agents[1]);
    t.same((await listApprovals(clickhouse, accounts[0]!, page)).total, of.length, status);
  }
  const some = await decidedApprovals(clickhouse, accounts[0]!, { ids });
  t.equal(some.length, own.filter(({ final }) => final !== 'pending').length);
  t.match(some[0], { decided_by: 'key:key_1', comment: 'c' });
  t.same(await decidedApprovals(clickhouse, accounts[1]!, { ids }), []);
  let pending = 0;
  for await (const { approval } of pendingApprovals(clickhouse)) pending += approval.status === 'pending' ? 1 : 0;
  t.equal(pending, asked.length - decided.length);
  const revisions = await rowRevisions(clickhouse);
  t.equal(Math.max(...revisions.map(({ revision }) => Number(revision))), asked.length + decided.length);
});
