// Every query against a plain filter over the same events: items, order, totals and paging agree, and no row of another
// account or of an excluded agent is ever seen. Then what is particular to each: searching, one event, traces, audit
// log, anomalies, erasure, recovery.

import fc from 'fast-check';
import t from 'tap';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { migrate } from '../../clickhouse/migrate.ts';
import { anomalySeries } from '../../clickhouse/queries/anomaly-series.ts';
import { valuesOf } from '../../clickhouse/queries/conditions.ts';
import { COUNTED_BY, type CountedBy, countBy, histogramOf } from '../../clickhouse/queries/count-events.ts';
import { eraseAgent } from '../../clickhouse/queries/erase-agent.ts';
import type { EventFilter } from '../../clickhouse/queries/event-filter.ts';
import { renderEvent } from '../../clickhouse/queries/event-rows.ts';
import { existingIds } from '../../clickhouse/queries/existing-ids.ts';
import { getEvent, getEvents } from '../../clickhouse/queries/get-event.ts';
import { getAnomaly, listAnomalies } from '../../clickhouse/queries/list-anomalies.ts';
import {
  type AuditFilter,
  listAuditLogs,
  positionOfEntry,
  secondEntryId,
} from '../../clickhouse/queries/list-audit-logs.ts';
import { listEvents } from '../../clickhouse/queries/list-events.ts';
import { type RegistryRow, registrySnapshot } from '../../clickhouse/queries/registry-snapshot.ts';
import { SEARCH_TOKENS } from '../../clickhouse/queries/search.ts';
import { bucketsOf } from '../../clickhouse/queries/time-buckets.ts';
import { getTrace, listTraces, TRACE_EVENTS_MAX } from '../../clickhouse/queries/traces.ts';
import type { Anomaly } from '../../schemas/anomaly.ts';
import { EVENT_TYPES, OUTCOMES, SEVERITIES } from '../../schemas/closed-sets.ts';
import type { PageStart, Position } from '../../schemas/paging.ts';

import type { KeptTimes } from '../../schemas/retention.ts';
import { exactTime } from '../../schemas/time.ts';
import { derivedId, isId, mintId } from '../../src/common/ids.ts';
import { referenceFinds } from '../search/reference.ts';
import { encodeStored, plainEvent, startClickHouse, type TestEvent } from '../support/clickhouse.ts';
import { SEED } from '../support/seed.ts';

const BASE = Date.UTC(2026, 10, 20, 12);
const WORDS = [
  'alpha',
  'Beta',
  'gamma',
  'Größe',
  'send_money',
  'x-ray',
  '“quoted”',
  '今天天气',
  'naïve',
  '3.14',
  'ΟΔΟΣ',
];

/** A fixed stream of numbers: a failure is the same failure the next time. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const accounts = [mintId('account', BASE), mintId('account', BASE)];
const agents = Array.from({ length: 5 }, (_, i) => mintId('agent', BASE + i));
const pick = numbers(7);

const POLICIES = [0, 1, 2].map((i) => `pol_${String(i).repeat(26)}`);
const DETECTORS = ['email', 'api_key'];

const MICROS = [0, 1, 456, 0, 999];
/** Epoch us. */
const microsOf = (event: TestEvent) => event.timestamp * 1000 + event.timestamp_micros;

function makeEvent(i: number): TestEvent {
  const received = BASE + Math.floor(i / 7);
  const outcome = OUTCOMES[Math.max(0, pick(6) - 3)]!;
  const words = Array.from({ length: 3 }, () => WORDS[pick(WORDS.length)]!);
  const note = `${words[0]}\n${words[1]} "${words[2]}"`;
  const payload = JSON.stringify({ note, n: i });
  const matches = Array.from({ length: outcome === 'allowed' && pick(3) > 0 ? 0 : 1 + pick(2) }, () => ({
    policy_id: POLICIES[pick(3)]!,
    name: 'severity:"low"',
    severity: [null, ...SEVERITIES][pick(5)]!,
    detail: pick(2) === 0 ? {} : { detector: DETECTORS[pick(2)]!, path: '/note' },
  }));
  return plainEvent({
    account_id: accounts[i % 5 === 0 ? 1 : 0]!,
    agent_id: agents[pick(agents.length)]!,
    id: mintId('event', received),
    type: EVENT_TYPES[pick(5)]!,
    trace_id: pick(3) === 0 ? '' : `trace-${pick(60)}`,
    // Few different times, so that ties are common.
    timestamp: BASE - pick(50) * 1000,
    timestamp_micros: MICROS[Math.floor(i / 3) % MICROS.length]!,
    received_at: received,
    payload,
    outcome,
    reason: outcome === 'blocked' ? (pick(2) === 0 ? 'policy' : 'agent_inactive') : '',
    policy_id: outcome === 'allowed' ? '' : 'pol_00000000000000000000000000',
    approval_id: outcome === 'pending' ? 'apr_00000000000000000000000000' : '',
    policy_result: matches.length === 0 ? '' : JSON.stringify({ outcome, matches }),
    model: ['', 'gpt-4o', 'small'][pick(3)]!,
    tokens_used: pick(2) === 0 ? null : pick(1000),
    request_id: `req-${i}`,
  });
}

const events = Array.from({ length: 1200 }, (_, i) => makeEvent(i));

const DAY_MS = 86_400_000;
/** The retention by which `past` is past, but not deleted yet: only its arrival differs. No query may see it. */
const KEPT: KeptTimes = {
  fromMs: BASE - 30 * DAY_MS,
  byType: [['prompt', BASE - DAY_MS]],
  othersFromMs: BASE - 30 * DAY_MS,
  wholeFromMs: BASE - DAY_MS,
  held: { all: false, agents: [], traces: ["no trace's name '"] },
};
const past = Array.from({ length: 300 }, (_, i): TestEvent => {
  const event = makeEvent(i);
  const received_at = BASE - (event.type === 'prompt' ? 2 : 31) * DAY_MS - i;
  return { ...event, received_at, id: mintId('event', received_at) };
});
const mine = events.filter((event) => event.account_id === accounts[0]);

const shown = ({ timestamp, timestamp_micros: micros }: TestEvent) =>
  new Date(timestamp).toISOString().replace('Z', micros === 0 ? 'Z' : `${String(micros).padStart(3, '0')}Z`);
const iso = (ms: number) => new Date(ms).toISOString();

function groupBy<T>(items: T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}

const newestFirst = (a: TestEvent, b: TestEvent) => microsOf(b) - microsOf(a) || (a.id < b.id ? 1 : -1);

const isAnyOf = (filter: string | readonly string[] | undefined, ...has: (string | null | undefined)[]) =>
  filter === undefined || has.some((value) => typeof value === 'string' && valuesOf(filter).includes(value));

function expected(filter: EventFilter): TestEvent[] {
  return mine.filter((event) => {
    const { matches } = (event.policy_result === '' ? { matches: [] } : JSON.parse(event.policy_result)) as {
      matches: { policy_id: string; severity: string | null; detail: { detector?: string } }[];
    };
    return (
      isAnyOf(filter.agentId, event.agent_id) &&
      !filter.excludeAgents?.includes(event.agent_id) &&
      isAnyOf(filter.type, event.type) &&
      (filter.from === undefined || microsOf(event) >= Math.round(filter.from * 1000)) &&
      (filter.to === undefined || microsOf(event) <= Math.round(filter.to * 1000)) &&
      isAnyOf(filter.traceId, event.trace_id) &&
      isAnyOf(filter.outcome, event.outcome) &&
      isAnyOf(filter.reason, event.reason) &&
      isAnyOf(filter.model, event.model) &&
      isAnyOf(filter.policyId, ...matches.map((match) => match.policy_id)) &&
      isAnyOf(filter.severity, ...matches.map((match) => match.severity)) &&
      isAnyOf(filter.detector, ...matches.map((match) => match.detail.detector)) &&
      (filter.q === undefined || referenceFinds(event.payload, filter.q) === true)
    );
  });
}

/** How many events have each value, the most frequent first, equal ones by name. */
function countsOf(events: readonly TestEvent[], by: CountedBy): [value: string, count: number][] {
  const counts = new Map<string, number>();
  for (const event of events) {
    const policies =
      event.policy_result === '' ? [] : (JSON.parse(event.policy_result).matches as { policy_id: string }[]);
    const values = by === 'policy_id' ? new Set(policies.map((match) => match.policy_id)) : [event[by]];
    for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  return [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
}

/** Does an entry of the audit log hold the words of a search? */
function holds(entry: { action: string; actor: string; resource_id: string; details: object }, q: string): boolean {
  const details = JSON.stringify(entry.details).replaceAll('\\n', ' ');
  const text = [entry.action, entry.actor, entry.resource_id, details].join(' ');
  return referenceFinds(JSON.stringify({ text }), q) === true;
}

/** A filter as a list takes it: left out, one value, or several of which any will do. */
const sometimes = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 2 });
const someOf = <T extends string>(values: readonly T[]) =>
  fc.option(fc.oneof(fc.constantFrom(...values), fc.subarray([...values], { minLength: 1 })), {
    nil: undefined,
    freq: 2,
  });
/** The moments of some events, and just beside them. */
const moment = fc
  .tuple(fc.integer({ min: 0, max: 50 }), fc.constantFrom(0, 0, 1, 2, 455, 456, 998, 999))
  .map(([seconds, micros]) => exactTime(BASE - seconds * 1000, micros));
/** The filters of a list, but not where its pages begin. */
const FILTERS = {
  agentId: someOf(agents),
  excludeAgents: fc.subarray(agents, { maxLength: 2 }),
  type: someOf(EVENT_TYPES),
  from: sometimes(moment),
  to: sometimes(moment),
  traceId: someOf(['trace-1', 'trace-2', 'trace-60', 'trace-30']),
  outcome: someOf(OUTCOMES),
  reason: someOf(['policy', 'agent_inactive'] as const),
  model: someOf(['gpt-4o', 'small', 'none']),
  policyId: someOf([...POLICIES, 'none']),
  severity: someOf(SEVERITIES),
  detector: someOf([...DETECTORS, 'none']),
  q: sometimes(fc.constantFrom(...WORDS, 'ALPHA beta', '"alpha beta"', 'quoted', 'money', 'größe', 'note', 'οδος')),
  order: fc.constantFrom('asc' as const, 'desc' as const),
};
/** Few filters at a time, or nothing would be left to list. */
const listing = fc
  .tuple(fc.subarray(Object.keys(FILTERS) as (keyof typeof FILTERS)[], { maxLength: 4 }), fc.record(FILTERS))
  .map(([names, all]) => Object.fromEntries(names.map((name) => [name, all[name]])) as Partial<typeof all>);

t.test('queries', async (t) => {
  const { makeDatabase } = await startClickHouse(t);
  const clickhouse = makeDatabase({ keptOf: () => KEPT });
  await migrate(clickhouse, { retentionDays: 36_500 });
  for (const month of groupBy(past, ({ received_at: at }) => iso(at).slice(0, 7)).values())
    await clickhouse.insertEvents(month.map(encodeStored), `past-${month[0]!.id}`);
  for (let i = 0; i < events.length; i += 200) {
    await clickhouse.insertEvents(events.slice(i, i + 200).map(encodeStored), `fill-${i}`);
    // Half of the rows get their text indexes by a merge, the other half has none: the answers must not differ.
    if (i === 600) await clickhouse.command('OPTIMIZE TABLE events FINAL');
  }
  const account = accounts[0]!;

  t.test('counts by value and over time are those of the list, whatever the filter', async (t) => {
    const asked = fc.record({
      filter: listing,
      by: fc.constantFrom(...COUNTED_BY),
      buckets: fc.constantFrom(1, 7, 60, 500),
      zone: fc.constantFrom(undefined, 'America/New_York', 'Asia/Kathmandu', 'Australia/Lord_Howe'),
      max: fc.constantFrom(1, 2, 50),
    });
    await fc.assert(
      fc.asyncProperty(asked, async ({ filter, by, buckets, zone, max }) => {
        const matching = expected(filter);
        const wanted = countsOf(matching, by);
        const counted = await countBy(clickhouse, account, { by, max, filter });
        t.same(counted.values, wanted.slice(0, max), `${by} ${JSON.stringify(filter)}`);
        t.equal(
          counted.other,
          wanted.slice(max).reduce((sum, [, n]) => sum + n, 0),
        );
        const found = await histogramOf(clickhouse, account, { by, buckets, zone, values: max, filter });
        const hasRange = filter.from !== undefined && filter.to !== undefined && filter.from <= filter.to;
        if (found === null) return t.ok(matching.length === 0 && !hasRange, 'nothing to count');
        t.ok(found.buckets.length <= buckets + 1);
        t.same(
          found.values,
          wanted.slice(0, max).map(([value]) => value),
        );
        for (const [i, { total, counts }] of found.buckets.entries()) {
          const begin = found.buckets[i]!.atMs;
          const end = found.buckets[i + 1]?.atMs ?? Number.POSITIVE_INFINITY;
          const inside = matching.filter(({ timestamp: at }) => at >= begin && at < end);
          t.equal(total, inside.length);
          const each = countsOf(inside, by).filter(([value]) => found.values.includes(value));
          t.same(Object.fromEntries(counts), Object.fromEntries(each));
        }
        t.equal(
          found.buckets.reduce((sum, { total }) => sum + total, 0),
          matching.length,
          'none is left out',
        );
      }),
      { seed: SEED, numRuns: 35 },
    );
  });

  t.test('buckets have lengths that are read off easily, and begin at multiples of them', async (t) => {
    const of = (fromMs: number, toMs: number, buckets: number) => {
      const { starts, bucketMs } = bucketsOf({ fromMs, toMs }, buckets);
      return [starts[0], bucketMs, starts.length] as const;
    };
    t.same(of(0, 0, 60), [0, 1, 1], 'one moment');
    t.same(of(BASE, BASE + 3_600_000 - 1, 60), [BASE, 60_000, 60]);
    t.same(of(BASE + 1, BASE + 3_600_000, 60), [BASE, 60_000, 61], 'one more where the first begins earlier');
    t.same(of(BASE, BASE + 61 * 60_000, 60), [BASE, 300_000, 13]);
    const ages = of(0, 100 * 365 * 86_400_000, 10);
    t.ok(ages[1] % (30 * 86_400_000) === 0 && ages[2] <= 11, 'a century');
    t.same(of(-5_000, 5_000, 20), [-5_000, 1_000, 11], 'before 1970');
  });

  t.test('in a zone a day is one of its clock, also where that is set', async (t) => {
    const startsOf = (zone: string, from: string, to: string, buckets: number) =>
      bucketsOf({ fromMs: Date.parse(from), toMs: Date.parse(to) }, buckets, zone).starts.map((at) =>
        new Date(at).toISOString().slice(0, 16),
      );
    t.same(
      startsOf('America/New_York', '2026-10-31T12:00:00Z', '2026-11-02T12:00:00Z', 5),
      ['2026-10-31T04:00', '2026-10-31T16:00', '2026-11-01T04:00', '2026-11-01T17:00', '2026-11-02T05:00'],
      'set back',
    );
    t.same(
      startsOf('Europe/Berlin', '2026-03-28T00:00:00Z', '2026-03-30T12:00:00Z', 3),
      ['2026-03-27T23:00', '2026-03-28T23:00', '2026-03-29T22:00'],
      'set ahead',
    );
    t.same(startsOf('Asia/Kathmandu', '2026-05-01T00:00:00Z', '2026-05-01T02:00:00Z', 3), [
      ...['2026-04-30T23:15', '2026-05-01T00:15', '2026-05-01T01:15'],
    ]);
  });

  t.test('a list holds exactly what matches, newest first, whatever the filter, order and page', async (t) => {
    const page = fc
      .tuple(listing, fc.record({ limit: fc.integer({ min: 1, max: 60 }), offset: fc.constantFrom(0, 0, 3, 200) }))
      .map(([filter, place]) => ({ ...filter, ...place }));
    const check = async (given: typeof page extends fc.Arbitrary<infer P> ? P : never) => {
      const all = expected(given).sort(newestFirst);
      if (given.order === 'asc') all.reverse();
      const { items, total } = await listEvents(clickhouse, account, given);
      const ids = all.slice(given.offset, given.offset + given.limit).map((event) => event.id);
      return total === all.length && items.map((row) => row.id).join() === ids.join();
    };
    await fc.assert(fc.asyncProperty(page, check), { numRuns: 100, seed: 11 });
    t.pass('100 lists');
  });

  t.test('pages put together are the whole list, each event once', async (t) => {
    const seen: string[] = [];
    for (let offset = 0; ; offset += 97) {
      const { items, total } = await listEvents(clickhouse, account, { limit: 97, offset });
      t.equal(total, mine.length);
      seen.push(...items.map((row) => row.id));
      if (items.length === 0) break;
    }
    t.same(
      seen,
      [...mine].sort(newestFirst).map((event) => event.id),
    );
  });

  t.test('a search finds words whatever their case, script and escapes, and phrases only in order', async (t) => {
    const agent = mintId('agent', BASE);
    const texts = {
      escaped: '{"a":"x\\nHello\\tthere \\"World\\""}',
      unicode: '{"a":"\\u0048ello w\\u00f6rld"}',
      phrase: '{"a":"one, two — three"}',
      mail: '{"a":"user@example.com"}',
      chinese: '{"a":"今天天气很好。Hello"}',
      greek: '{"a":"ΟΔΌΣ οδός"}',
      key: '{"tool_name":"send_money"}',
      regex: '{"a":"a.b|c (d) [e] 100%"}',
    };
    const rows = Object.values(texts).map((payload, i) => ({
      ...makeEvent(1),
      agent_id: agent,
      id: mintId('event', BASE + i),
      received_at: BASE + i,
      payload,
    }));
    const other = mintId('account', BASE);
    await clickhouse.insertEvents(
      rows.map((row) => encodeStored({ ...row, account_id: other })),
      'search',
    );
    const find = async (q: string) => {
      const { items } = await listEvents(clickhouse, other, { q, limit: 50, offset: 0, order: 'asc' });
      const names = Object.keys(texts);
      return items.map((row) => names[rows.findIndex((given) => given.id === row.id)]!).sort();
    };
    const promises: [string, string[]][] = [
      ['hello', ['chinese', 'escaped', 'unicode']],
      ['HELLO world', ['escaped']],
      ['wörld', ['unicode']],
      ['WÖRLD', ['unicode']],
      ['nHello', []],
      ['ello', []],
      ['"one two"', ['phrase']],
      ['"two three"', ['phrase']],
      ['"two one"', []],
      ['two one', ['phrase']],
      ['"one two', ['phrase']],
      ['user@example.com', ['mail']],
      ['example', ['mail']],
      ['com.example', []],
      ['天气', ['chinese']],
      ['"今天天气很好 hello"', ['chinese']],
      ['οδός', ['greek']],
      ['money', ['key']],
      ['send_money', ['key']],
      ['tool_name', ['key']],
      ['a.b', ['regex']],
      ['a.* .', ['chinese', 'escaped', 'greek', 'mail', 'phrase', 'regex', 'unicode']],
      ["it's' OR 1=1 --", []],
      ['\\', []],
      ['"', []],
    ];
    for (const [q, names] of promises) t.same(await find(q), names, q);
    await clickhouse.command('OPTIMIZE TABLE events FINAL');
    for (const [q, names] of promises) t.same(await find(q), names, `${q}, from the index`);
    const explained = await clickhouse.query<{ explain: string }>(
      `EXPLAIN indexes = 1 SELECT id FROM events WHERE account_id = 'x' AND hasAllTokens(${SEARCH_TOKENS}, ['hello'])`,
    );
    t.match(explained.map((row) => row.explain).join('\n'), /search_words/, 'the index is used');
  });

  t.test('each common key of a payload is a column with an index that serves it', async (t) => {
    for (const [condition, index] of [
      ["hasToken(lowerUTF8(prompt), 'alpha')", 'prompt_words'],
      ["hasToken(lowerUTF8(response), 'alpha')", 'response_words'],
      ["model = 'gpt-4o'", 'model_set'],
      ['token_count > 10', 'ranges'],
      ['tokens_used > 10', 'ranges'],
    ] as const) {
      const explained = await clickhouse.query<{ explain: string }>(
        `EXPLAIN indexes = 1 SELECT id FROM events WHERE account_id = {account:String} AND ${condition}`,
        { account },
        { settings: { optimize_use_projections: 0 } },
      );
      t.match(explained.map((row) => row.explain).join('\n'), new RegExp(`Name: ${index}`), condition);
    }
  });

  t.test('one event comes back as it was stored, and no other account can get it', async (t) => {
    const event = mine[17]!;
    const row = await getEvent(clickhouse, account, event.agent_id, event.id);
    t.equal(row?.payload, event.payload);
    const rendered = JSON.parse(renderEvent(row!)) as Record<string, unknown>;
    t.same(
      Object.keys(rendered).filter((key) => key !== 'trace_id'),
      ['id', 'agent_id', 'type', 'payload', 'timestamp', 'received_at', 'policy_result'],
    );
    t.equal(rendered.timestamp, shown(event));
    t.equal(await getEvent(clickhouse, accounts[1]!, event.agent_id, event.id), null, 'another account');
    t.equal(
      await getEvent(clickhouse, account, agents.find((agent) => agent !== event.agent_id)!, event.id),
      null,
      'another agent',
    );
    t.equal(await getEvent(clickhouse, account, event.agent_id, mintId('event', BASE)), null, 'an unknown id');
    const text = '{"n":1e400,"big":12345678901234567890,"f":1.0,"k":"\\u0041\\/"}';
    t.match(renderEvent({ ...row!, payload: text }), text, 'the payload is spliced in as text');
  });

  t.test('traces: newest first by their beginning, counts exact, events in time order', async (t) => {
    for (const filter of [
      {},
      { agentId: agents[2]! },
      { excludeAgents: [agents[1]!] },
      { from: BASE - 48_000, to: BASE - 45_000 },
    ]) {
      const groups = groupBy(
        expected({ excludeAgents: 'excludeAgents' in filter ? filter.excludeAgents! : [] }).filter(
          (event) => event.trace_id !== '',
        ),
        (event) => event.trace_id,
      );
      const began = (id: string) => Math.min(...groups.get(id)!.map(microsOf));
      const firstOf = (id: string) => groups.get(id)!.sort(newestFirst).at(-1)!.id;
      const ids = [...groups.keys()]
        .filter((id) => !('agentId' in filter) || groups.get(id)!.some((event) => event.agent_id === filter.agentId))
        .filter((id) => !('from' in filter) || (began(id) >= filter.from! * 1000 && began(id) <= filter.to! * 1000))
        .sort((a, b) => began(b) - began(a) || (firstOf(a) < firstOf(b) ? 1 : -1));
      const { items, total } = await listTraces(clickhouse, account, { ...filter, limit: 20, offset: 5 });
      t.equal(total, ids.length);
      t.same(
        items.map((trace) => trace.trace_id),
        ids.slice(5, 25),
      );
      for (const trace of items) {
        const own = groups.get(trace.trace_id)!;
        t.equal(trace.event_count, own.length);
        t.equal(
          trace.tokens_used,
          own.every((event) => event.tokens_used === null)
            ? null
            : own.reduce((sum, event) => sum + (event.tokens_used ?? 0), 0),
        );
        t.same(trace.agents, [...new Set(own.map((event) => event.agent_id))].sort());
        t.equal(
          Object.values(trace.counts).reduce((a, b) => a + b, 0),
          own.length,
        );
        t.equal(trace.outcomes.blocked ?? 0, own.filter((event) => event.outcome === 'blocked').length);
      }
    }
    const one = await getTrace(clickhouse, account, 'trace-1');
    const own = expected({ traceId: 'trace-1' }).sort(newestFirst).reverse();
    t.same(
      one?.events.map((row) => row.id),
      own.map((event) => event.id),
    );
    t.equal(one?.trace.duration_ms, Math.round((microsOf(own.at(-1)!) - microsOf(own[0]!)) / 1000));
    t.equal(one?.trace.started_at, shown(own[0]!));
    t.equal(one?.trace.ended_at, shown(own.at(-1)!));
    t.equal(await getTrace(clickhouse, account, 'no-such-trace'), null);
    t.equal(await getTrace(clickhouse, mintId('account', BASE), 'trace-1'), null);

    const long = Array.from({ length: TRACE_EVENTS_MAX + 5 }, (_, i) => ({
      ...makeEvent(1),
      account_id: accounts[1]!,
      id: mintId('event', BASE),
      received_at: BASE,
      trace_id: 'long',
      timestamp: BASE + i,
    }));
    await clickhouse.insertEvents(long.map(encodeStored), 'long');
    const bounded = await getTrace(clickhouse, accounts[1]!, 'long');
    t.equal(bounded?.events.length, TRACE_EVENTS_MAX);
    t.equal(bounded?.trace.event_count, TRACE_EVENTS_MAX + 5);
  });

  t.test('the audit log holds every event, and of every registry change', async (t) => {
    const recorded = Array.from({ length: 30 }, (_, i) => ({
      account_id: account,
      id: mintId('auditLog', BASE + i * 5),
      action: i % 3 === 0 ? 'agent.updated' : 'policy.created',
      actor: `key:${i % 2}`,
      resource_type: i % 3 === 0 ? 'agent' : 'policy',
      resource_id: i % 3 === 0 ? agents[i % 5]! : `pol_${i}`,
      details: JSON.stringify({ n: i, name: `The “Großes” plan\n#${i % 4} of pol_${i}` }),
      created_at: BASE + i * 5,
    }));
    const rows = recorded.map((row) => ({ ...row, created_at: iso(row.created_at) }));
    for (let i = 0; i < 2; i++) await clickhouse.insertRows('audit_log', rows);
    type Entry = {
      id: string;
      action: string;
      actor: string;
      resource_type: string;
      resource_id: string;
      at: number;
      about: string;
      details: object;
    };
    const ofEvents = mine.flatMap((event): Entry[] => {
      const common = {
        actor: `agent:${event.agent_id}`,
        resource_type: 'event',
        resource_id: event.id,
        at: event.received_at,
        about: event.agent_id,
      };
      const { type, outcome, request_id, policy_id, reason, approval_id } = event;
      const first = {
        ...common,
        id: derivedId('auditLog', event.id),
        action: 'event.submitted',
        details: { type, outcome, request_id },
      };
      if (outcome === 'allowed') return [first];
      const details = { policy_id, ...(outcome === 'pending' ? { approval_id } : { reason }), request_id };
      return [first, { ...common, id: secondEntryId(event.id), action: `event.${outcome}`, details }];
    });
    const ofRegistry = recorded.map(
      (row): Entry => ({
        ...row,
        at: row.created_at,
        about: row.resource_type === 'agent' ? row.resource_id : '',
        details: JSON.parse(row.details) as object,
      }),
    );
    // As they came: by the id of the event or of the entry, and what was decided behind what was submitted.
    const arrival = ({ id, action, resource_id }: Entry) =>
      `${(action.startsWith('event.') ? resource_id : id).slice(4)}${action === 'event.submitted' ? 1 : 2}`;
    const all = [...ofEvents, ...ofRegistry].sort((a, b) => b.at - a.at || (arrival(a) < arrival(b) ? 1 : -1));
    t.equal(new Set(all.map((entry) => entry.id)).size, all.length, 'every entry has an id of its own');
    t.ok(all.every((entry) => isId('auditLog', entry.id)));
    const filters: AuditFilter[] = [
      {},
      { action: ['event.submitted', 'agent.updated'] },
      { action: ['event.blocked', 'event.pending', 'policy.created'] },
      { actor: ['key:1', `agent:${agents[3]}`, `agent:${agents[1]}`, 'system'] },
      { resource_type: ['event', 'policy'], resource_id: [mine[40]!.id, mine[41]!.id, 'pol_4'] },
      { submissions: false },
      { submissions: false, action: 'event.submitted' },
      { submissions: false, actor: `agent:${agents[2]}` },
      { q: 'req-40' },
      { q: '"large plan"' },
      { q: '#1 GROSSES' },
      { q: '"plan 1"' },
      { q: 'großes' },
      { q: 'policy_id agent_inactive' },
      { q: 'event.pending' },
      { q: 'submitted pending completion' },
      { q: agents[2]! },
      { q: 'key:0 policy' },
      { q: '!!!' },
      { q: 'blocked', submissions: false },
      { action: 'event.submitted' },
      { action: 'event.blocked' },
      { action: 'event.pending' },
      { action: 'policy.created' },
      { actor: `agent:${agents[3]}` },
      { actor: 'key:1' },
      { resource_type: 'event', from: BASE + 20, to: BASE + 60 },
      { resource_type: 'agent' },
      { resource_id: mine[40]!.id },
      { resource_id: "x' OR 1=1" },
      { from: BASE + 100 },
      { excludeAgents: [agents[0]!, agents[4]!] },
      { action: 'event.blocked', actor: 'system' },
    ];
    for (const filter of filters) {
      const wanted = all.filter((entry) =>
        Object.entries(filter).every(([key, value]) => {
          if (key === 'from') return entry.at >= Number(value);
          if (key === 'to') return entry.at <= Number(value);
          if (key === 'excludeAgents') return !(value as string[]).includes(entry.about);
          if (key === 'submissions') return entry.action !== 'event.submitted';
          if (key === 'q') return holds(entry, String(value));
          return isAnyOf(value as string, entry[key as 'action']);
        }),
      );
      for (const [offset, order] of [
        [0, 'desc'],
        [37, 'desc'],
        [5, 'asc'],
      ] as const) {
        if (order === 'asc') wanted.reverse();
        const { items: logs, total } = await listAuditLogs(clickhouse, account, {
          ...filter,
          limit: 50,
          offset,
          order,
        });
        t.equal(total, wanted.length, JSON.stringify(filter));
        t.same(
          logs.map((log) => `${log.id} ${log.action}`),
          wanted.slice(offset, offset + 50).map((entry) => `${entry.id} ${entry.action}`),
        );
        const [middle] = logs.slice(20);
        if (middle === undefined) continue;
        const page = { ...filter, limit: 5, offset: 0, order, after: positionOfEntry(middle) };
        t.same(
          (await listAuditLogs(clickhouse, account, page)).items.map(({ id }) => id),
          wanted.slice(offset + 21, offset + 26).map(({ id }) => id),
          'and on from any of them',
        );
      }
    }
    const blocked = mine.find((event) => event.outcome === 'blocked')!;
    const { items: logs } = await listAuditLogs(clickhouse, account, { resource_id: blocked.id, limit: 50, offset: 0 });
    t.same(logs.find((log) => log.action === 'event.blocked')?.details, {
      policy_id: blocked.policy_id,
      reason: blocked.reason,
      request_id: blocked.request_id,
    });
    t.same(logs.find((log) => log.action === 'event.submitted')?.details, {
      type: blocked.type,
      outcome: 'blocked',
      request_id: blocked.request_id,
    });
    t.equal(
      (await listAuditLogs(clickhouse, mintId('account', BASE), { limit: 50, offset: 0 })).total,
      0,
      'no other account sees it',
    );
  });

  t.test('anomalies: filtered, newest first, once each', async (t) => {
    const rows = Array.from({ length: 40 }, (_, i) => ({
      account_id: account,
      id: mintId('anomaly', BASE + i),
      agent_id: agents[i % 5]!,
      event_id: i % 4 === 0 ? null : mintId('event', BASE + i),
      policy_id: i % 4 === 0 ? null : POLICIES[i % 3]!,
      kind: i % 4 === 0 ? 'error_rate' : 'blocked_event',
      severity: ['low', 'medium', 'high', 'critical'][i % 4]!,
      observed: i % 4 === 0 ? 0.5 : null,
      baseline: null,
      score: i / 3,
      message: `it's ${i}`,
      timestamp: iso(BASE - (i % 7) * 1000),
      created_at: iso(BASE + i),
    }));
    await clickhouse.insertRows('anomalies', rows, 'a');
    await clickhouse.insertRows('anomalies', rows.slice(5, 25), 'b');
    const sorted = [...rows].sort((a, b) =>
      a.timestamp < b.timestamp ? 1 : a.timestamp > b.timestamp ? -1 : a.id < b.id ? 1 : -1,
    );
    for (const [filter, keep] of [
      [{}, () => true],
      [{ agentId: agents[1] }, (row) => row.agent_id === agents[1]],
      [
        { kind: 'error_rate' as const, excludeAgents: [agents[0]!] },
        (row) => row.kind === 'error_rate' && row.agent_id !== agents[0],
      ],
      [{ severity: 'critical' as const }, (row) => row.severity === 'critical'],
      [{ severity: ['critical', 'low'] as const }, (row) => ['critical', 'low'].includes(row.severity)],
      [{ policyId: POLICIES[1] }, (row) => row.policy_id === POLICIES[1]],
      [
        { policyId: POLICIES.slice(1), agentId: agents.slice(2) },
        (row) => row.policy_id !== null && row.policy_id !== POLICIES[0] && agents.indexOf(row.agent_id) >= 2,
      ],
      [
        { from: BASE - 3000, to: BASE - 1000 },
        (row) => row.timestamp >= iso(BASE - 3000) && row.timestamp <= iso(BASE - 1000),
      ],
    ] as [Omit<Parameters<typeof listAnomalies>[2], 'limit' | 'offset'>, (row: (typeof rows)[number]) => boolean][]) {
      const wanted = sorted.filter(keep);
      const { items, total } = await listAnomalies(clickhouse, account, { ...filter, limit: 10, offset: 2 });
      t.equal(total, wanted.length);
      t.same(
        items.map((item) => item.id),
        wanted.slice(2, 12).map((row) => row.id),
      );
    }
    const { items } = await listAnomalies(clickhouse, account, { limit: 1, offset: 0 });
    const { account_id, ...first } = sorted[0]!;
    t.equal(account_id, account);
    t.same(items[0], first);
    const { id, agent_id: of } = first;
    t.same(await getAnomaly(clickhouse, account, id), first, 'one by its id');
    t.equal(await getAnomaly(clickhouse, accounts[1]!, id), null, "not another account's");
    t.equal(
      await getAnomaly(clickhouse, account, id, { excludeAgents: [of] }),
      null,
      'nor of an agent that is being erased',
    );
  });

  t.test('a page with more bytes than an answer may hold ends early, and goes on behind', async (t) => {
    const owner = mintId('account', BASE);
    const large = events.slice(0, 66).map((event, i) => ({
      ...event,
      account_id: owner,
      agent_id: agents[0]!,
      id: mintId('event', BASE),
      received_at: BASE,
      trace_id: 'large',
      payload: JSON.stringify({ text: (i === 40 ? '\u20ac' : 'x').repeat(i === 40 ? 5 * 1024 * 1024 : 1_000_000) }),
    }));
    for (let i = 0; i < large.length; i += 11) {
      await clickhouse.insertEvents(large.slice(i, i + 11).map(encodeStored), `large-${i}`);
    }
    // Small ones are newer.
    const small = events.slice(0, 130).map((event) => ({
      ...{ ...event, account_id: owner, agent_id: agents[0]!, id: mintId('event', BASE), trace_id: '', payload: '{}' },
      timestamp: BASE + 86_400_000,
    }));
    await clickhouse.insertEvents(small.map(encodeStored), 'small');
    const lists: [string, limit: number, (page: PageStart) => ReturnType<typeof listEvents>][] = [
      ['timeline', 100, (page) => listEvents(clickhouse, owner, page)],
      ['an agent, in one step', 500, (page) => listEvents(clickhouse, owner, { ...page, agentId: agents[0] })],
      ['oldest first', 500, (page) => listEvents(clickhouse, owner, { ...page, order: 'asc' })],
    ];
    for (const [name, limit, list] of lists) {
      const pages: Awaited<ReturnType<typeof list>>[] = [];
      for (let after: Position | null | undefined; after !== null; after = pages.at(-1)!.next)
        pages.push(await list({ limit, offset: 0, after }));
      for (const { items, next, isShort } of pages) {
        const bytes = items.reduce((sum, row) => sum + Buffer.byteLength(renderEvent(row)), 0);
        t.ok(bytes <= 16 * 1024 * 1024, `${name}: ${items.length} of ${limit}, ${bytes} bytes`);
        if (!isShort) continue;
        t.ok(next !== null && items.length < limit && items.length > 0);
        if (items.every(({ payload }) => payload.length === large[0]!.payload.length)) t.equal(items.length, 16);
      }
      const seen = pages.flatMap(({ items }) => items.map(({ id }) => id));
      t.equal(new Set(seen).size, 196, `${name}: each once, in ${pages.length} pages`);
      t.equal(seen.length, 196);
      const short = pages.filter(({ isShort }) => isShort);
      t.ok(short.length >= 4, `${short.length} of them short`);
      if (name !== 'oldest first') continue;
      const [first] = pages;
      t.ok(first!.isShort);
      const behind = await list({ limit, offset: first!.items.length });
      t.notOk(
        behind.items.some(({ id }) => first!.items.some((item) => item.id === id)),
        'by offset: behind what was shown',
      );
    }
    for (const mode of ['preview', 'none'] as const) {
      const { items, isShort } = await listEvents(clickhouse, owner, { limit: 500, offset: 0, payload: mode });
      t.equal(items.length, 196, mode);
      t.notOk(isShort);
    }
    const ids: string[] = [];
    for (let after: Position | undefined; ; ) {
      const { trace, events: some, next, isShort } = (await getTrace(clickhouse, owner, 'large', { after }))!;
      ids.push(...some.map(({ id }) => id));
      t.equal(trace.event_count, 66);
      t.equal(isShort, next !== null);
      if (next === null) break;
      after = next;
    }
    t.equal(new Set(ids).size, 66, 'a trace, too');
    const asked = large.map(({ id }) => id);
    const { events: first, ids: count } = await getEvents(clickhouse, owner, asked);
    t.same(
      first.map(({ id }) => id),
      asked.slice(0, count),
    );
    t.equal(count, 16);
    await clickhouse.command(`DELETE FROM events WHERE account_id = '${owner}'`);
  });

  t.test('recovery learns which events are stored', async (t) => {
    const unknown = Array.from({ length: 50 }, () => mintId('event', BASE));
    const found = await existingIds(clickhouse, [...unknown, ...events.map((event) => event.id)]);
    t.same([...found].sort(), events.map((event) => event.id).sort());
    t.same(await existingIds(clickhouse, []), new Set());
  });

  t.test('restore reads every resource at its newest revision', async (t) => {
    const row = (id: string, revision: number, record: object | null) => ({
      account_id: account,
      kind: 'policy',
      id,
      revision,
      at: iso(BASE + revision),
      record: record === null ? '' : JSON.stringify(record),
    });
    await clickhouse.insertRows('registry', [row('pol_1', 1, { v: 1 }), row('pol_2', 2, { v: 2 })]);
    await clickhouse.insertRows('registry', [row('pol_1', 5, { v: 5 }), row('pol_2', 6, null)]);
    await clickhouse.insertRows('registry', [row('pol_1', 3, { v: 3 })]);
    const rows: RegistryRow[] = [];
    for await (const row of registrySnapshot(clickhouse)) rows.push(row);
    t.same(rows, [
      { account, kind: 'policy', id: 'pol_1', revision: 5, at: BASE + 5, record: { v: 5 } },
      { account, kind: 'policy', id: 'pol_2', revision: 6, at: BASE + 6, record: null },
    ]);
  });

  t.test(
    'an erased agent is gone from every list, others are untouched, and erasing again changes nothing',
    async (t) => {
      const agent = agents[2]!;
      const deleted = {
        account_id: account,
        id: mintId('auditLog', BASE),
        action: 'agent.deleted',
        actor: 'system',
        resource_type: 'agent',
        resource_id: agent,
        details: '{}',
        created_at: iso(BASE),
      };
      await clickhouse.insertRows('audit_log', [deleted]);
      const of = async (clickhouse: ClickHouse) => ({
        events: (await listEvents(clickhouse, account, { limit: 1, offset: 0 })).total,
        timelineOfAgent: (await listEvents(clickhouse, account, { agentId: agent, limit: 1, offset: 0 })).total,
        anomalies: (await listAnomalies(clickhouse, account, { limit: 1, offset: 0, agentId: agent })).total,
        audit: (await listAuditLogs(clickhouse, account, { limit: 1, offset: 0, actor: `agent:${agent}` })).total,
        auditOfAgent: (await listAuditLogs(clickhouse, account, { limit: 9, offset: 0, resource_id: agent })).items.map(
          (log) => log.action,
        ),
        traces: (await listTraces(clickhouse, account, { limit: 1, offset: 0, agentId: agent })).total,
        otherAgent: (await listEvents(clickhouse, account, { agentId: agents[3]!, limit: 1, offset: 0 })).total,
      });
      const before = await of(clickhouse);
      t.ok([before.timelineOfAgent, before.anomalies, before.audit, before.traces].every((total) => total! > 0));
      const hidden = await listEvents(clickhouse, account, { limit: 1, offset: 0, excludeAgents: [agent] });
      for (let i = 0; i < 2; i++) {
        await eraseAgent(clickhouse, account, agent);
        t.same(await of(clickhouse), {
          events: hidden.total,
          timelineOfAgent: 0,
          anomalies: 0,
          audit: 0,
          auditOfAgent: ['agent.deleted'],
          traces: 0,
          otherAgent: before.otherAgent,
        });
      }
      t.equal(await getEvent(clickhouse, account, agent, mine.find((event) => event.agent_id === agent)!.id), null);
      await clickhouse.insertEvents(events.slice(0, 200).map(encodeStored), 'fill-0');
      t.equal(
        (await listEvents(clickhouse, account, { agentId: agent, limit: 1, offset: 0 })).total,
        0,
        'a batch sent again with its token brings nothing back',
      );
    },
  );

  t.test('what was seen around an anomaly is what its detector counted', async (t) => {
    const [account, agent] = [mintId('account', BASE), mintId('agent', BASE)];
    const seen = BASE + 3_600_000;
    const made = Array.from({ length: 400 }, (_, i) =>
      plainEvent({
        ...{ account_id: account, agent_id: i % 9 === 0 ? agents[0]! : agent, received_at: seen - (395 - i) * 7_000 },
        type: (['completion', 'error', 'prompt'] as const)[i % 3]!,
        // Its own word for when it happened does not count.
        timestamp: BASE - i,
        tokens_used: i % 4 === 0 ? null : 1_000 + i,
      }),
    );
    await clickhouse.insertEvents(made.map(encodeStored), 'around');
    const own = made.filter((event) => event.agent_id === agent);
    const time = { timestamp: new Date(seen).toISOString(), created_at: new Date(seen).toISOString() };
    const of = (kind: Anomaly['kind']) =>
      anomalySeries(clickhouse, account, {
        ...{ id: mintId('anomaly', seen), agent_id: agent, event_id: null, policy_id: null, kind, severity: 'low' },
        ...{ observed: 9, baseline: 1, score: 1, message: '', ...time },
      });

    const completions = own.filter((event) => event.type === 'completion' && event.tokens_used !== null);
    const before = completions.filter((event) => event.received_at <= seen).slice(-101);
    const after = completions.filter((event) => event.received_at > seen).slice(0, 20);
    t.ok(before.length > 50 && after.length > 0);
    const tokens = [...before, ...after].map(({ id, received_at: at, tokens_used: value }) => ({
      ...{ at: new Date(at).toISOString(), value, event_id: id },
    }));
    t.same(await of('token_spike'), { bucketMs: null, points: tokens });

    for (const [kind, width, length] of [
      ['error_rate', 60_000, 90],
      ['volume_spike', 10_000, 90],
    ] as const) {
      const { bucketMs, points } = await of(kind);
      t.same([bucketMs, points.length], [width, length], kind);
      t.ok(
        points.some(({ at }) => Date.parse(at) + width - 1 === seen),
        'a window ends where it was seen',
      );
      for (const { at, value } of points) {
        const from = Date.parse(at);
        const inside = own.filter((event) => event.received_at >= from && event.received_at < from + width);
        const errors = inside.filter((event) => event.type === 'error').length;
        const share = inside.length === 0 ? null : errors / inside.length;
        t.equal(value, kind === 'volume_spike' ? inside.length : share, `${kind} ${at}`);
      }
    }
    t.same(await of('blocked_event'), { bucketMs: null, points: [] });
  });
});
