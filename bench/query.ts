// Question: how long do reads take when there are 10 million events of 1,000 agents?
// Method: on a month of events (month.ts) each kind of read is asked a hundred times through the API by one caller, the
// kinds in turns, each time with another agent, trace, word or time: what is timed is what a caller waits, HTTP
// included. Rows read: the service's own query functions run on a client that adds up what ClickHouse says it has read.
// Pages by cursor are read at the beginning, after a tenth and after nine tenths of the events, and beside each the
// same page by offset: how many times the first page each one takes is said in the notes.
// Beside it stands the processor time of the engine for one read. The machine's file cache is warm, as it is in use.
import { COUNTED_BY, countBy, histogramOf } from '../clickhouse/queries/count-events.ts';
import { listAuditLogs } from '../clickhouse/queries/list-audit-logs.ts';
import { type EventPage, listEvents } from '../clickhouse/queries/list-events.ts';
import { getTrace } from '../clickhouse/queries/traces.ts';
import type { Listed, PageStart } from '../schemas/paging.ts';
import type { TestService } from '../test/support/service.ts';
import { type History, random } from './history.ts';
import { HttpClient } from './http-client.ts';
import { MONTH_AGENTS, type MonthOptions, startOnMonth } from './month.ts';
import { cpuByPart } from './processes.ts';
import type { RecordingClickHouse } from './recording-clickhouse.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { percentile, sorted } from './statistics.ts';

const TRIES = 100;
/** A kind that is slow is asked less often. */
const KIND_SECONDS_MAX = 60;
const ROUNDS = 5;
const COUNTED_TRIES = 3;
const PAGE = 50;
const DEEP_OFFSET = 100_000;
const DAY_MS = 86_400_000;

const HISTOGRAM = { buckets: 60, values: 12, filter: {} };

type Chance = () => number;
/** One read: the address that a caller asks, and the same as the service asks ClickHouse. */
type Read = { path: string; ask: (clickhouse: RecordingClickHouse, account: string) => Promise<unknown> };
type Kind = { name: string; read: (history: History, chance: Chance) => Read };

export async function query(options: MonthOptions): Promise<boolean> {
  const machine = beginLine('query');
  const { service, clickhouse, account, history, seconds, merged } = await startOnMonth(options);
  try {
    const whole = KINDS.filter(({ name }) => !name.includes('offset') || options.events > 20 * DEEP_OFFSET);
    const deep = await deepKinds(service, clickhouse, account, options.events);
    const kinds = [...whole, ...deep];
    const times = await askAll(service, history, kinds);
    const rows: Row[] = [];
    for (const kind of kinds) rows.push(await rowOf(kind, times.get(kind.name)!, clickhouse, account, history));
    hand(
      {
        line: 'query',
        question: `how long do reads take over ${options.events} events of ${MONTH_AGENTS} agents?`,
        command: `npm run bench -- query --events ${options.events}`,
        rows,
        charts: [chartOf(rows)],
        notes: [
          ...ratiosOf(rows),
          `Written at ${Math.round(options.events / seconds)} events/s, rows made included; ${merged}. Reads of one caller.`,
        ],
      },
      machine,
    );
    return true;
  } finally {
    await clickhouse.close();
    await service.stop();
  }
}

/** Shares of all events after which a page begins; 0: the first page, to which the others are compared. */
const DEPTHS = [0, 0.1, 0.9];
const FIRST = 'first page';

type DeepList = {
  name: string;
  path: string;
  ask: (clickhouse: RecordingClickHouse, account: string, page: PageStart) => Promise<Listed<unknown>>;
};
const DEEP_LISTS: DeepList[] = [
  { name: 'timeline', path: '/v1/events', ask: listEvents },
  { name: 'audit log', path: '/v1/audit-logs', ask: listAuditLogs },
];

/** Each list at each depth, by cursor and by offset. The cursors are fetched here, once. */
async function deepKinds(
  service: TestService,
  clickhouse: RecordingClickHouse,
  account: string,
  events: number,
): Promise<Kind[]> {
  const client = new HttpClient({ ...service, connections: 1 });
  const kinds: Kind[] = [];
  try {
    for (const { name, path, ask } of DEEP_LISTS) {
      for (const depth of DEPTHS.map((share) => Math.floor(share * events))) {
        const at = depth === 0 ? FIRST : `after ${depth}`;
        const byOffset = {
          path: `${path}?limit=${PAGE}&offset=${depth}`,
          ask: (on: RecordingClickHouse, of: string) => ask(on, of, { limit: PAGE, offset: depth }),
        };
        kinds.push({ name: `${name}, ${at}${depth === 0 ? '' : ', offset'}`, read: () => byOffset });
        if (depth === 0) continue;
        const { status, body } = await client.send('GET', `${path}?limit=1&offset=${depth - 1}`);
        if (status !== 200) throw new Error(`${path} at ${depth}: ${status} ${body.slice(0, 300)}`);
        const { next_cursor: cursor } = JSON.parse(body) as { next_cursor: string };
        const { next: after } = await ask(clickhouse, account, { limit: 1, offset: depth - 1 });
        const byCursor = {
          path: `${path}?limit=${PAGE}&cursor=${cursor}`,
          ask: (on: RecordingClickHouse, of: string) => ask(on, of, { limit: PAGE, offset: 0, after: after! }),
        };
        kinds.push({ name: `${name}, ${at}, cursor`, read: () => byCursor });
      }
    }
  } finally {
    client.close();
  }
  return kinds;
}

function ratiosOf(rows: readonly Row[]): string[] {
  const median = (name: string) => Number(rows.find((row) => row['read'] === name)?.['p50 ms']);
  return rows.flatMap((row) => {
    const [, list, how] = /^(.+?), (after \d+, (?:cursor|offset))$/.exec(String(row['read'])) ?? [];
    if (list === undefined) return [];
    const ratio = Number(row['p50 ms']) / median(`${list}, ${FIRST}`);
    return [`A page of the ${list}, ${how}: ${ratio.toFixed(2)} times the first page (p50).`];
  });
}

const one = <T>(of: readonly T[], chance: Chance): T => of[Math.floor(chance() * of.length)]!;
const iso = (ms: number) => new Date(ms).toISOString();

function agentList(agent: string, more: Partial<EventPage>, parameters: string): Read {
  return {
    path: `/v1/agents/${agent}/events?limit=${PAGE}${parameters}`,
    ask: (clickhouse, account) => listEvents(clickhouse, account, { agentId: agent, limit: PAGE, offset: 0, ...more }),
  };
}

function timeline(more: Partial<EventPage>, parameters: string): Read {
  return {
    path: `/v1/events?limit=${PAGE}${parameters}`,
    ask: (clickhouse, account) => listEvents(clickhouse, account, { limit: PAGE, offset: 0, ...more }),
  };
}

/** A search in a week of the month. */
function search({ fromMs }: History, q: string, chance: Chance): Read {
  const from = Math.floor(fromMs + chance() * 23 * DAY_MS);
  const to = from + 7 * DAY_MS;
  return timeline({ q, from, to }, `&q=${encodeURIComponent(q)}&from=${iso(from)}&to=${iso(to)}`);
}

function searchOf(q: string): Read {
  return timeline({ q }, `&q=${encodeURIComponent(q)}`);
}

const KINDS: Kind[] = [
  { name: 'list of an agent', read: ({ agents }, chance) => agentList(one(agents.slice(1), chance), {}, '') },
  { name: 'list of the heavy agent', read: ({ agents }) => agentList(agents[0]!, {}, '') },
  {
    name: `list of the heavy agent, offset ${DEEP_OFFSET}`,
    read: ({ agents }) => agentList(agents[0]!, { offset: DEEP_OFFSET }, `&offset=${DEEP_OFFSET}`),
  },
  {
    name: 'list of an agent, one day',
    read({ agents, fromMs }, chance) {
      const from = Math.floor(fromMs + chance() * 29 * DAY_MS);
      const to = from + DAY_MS;
      return agentList(one(agents, chance), { from, to }, `&from=${iso(from)}&to=${iso(to)}`);
    },
  },
  {
    name: 'list of an agent, one type',
    read: ({ agents }, chance) => agentList(one(agents, chance), { type: 'completion' }, '&type=completion'),
  },
  { name: 'account timeline', read: () => timeline({}, '') },
  {
    name: `account timeline, offset ${DEEP_OFFSET}`,
    read: () => timeline({ offset: DEEP_OFFSET }, `&offset=${DEEP_OFFSET}`),
  },
  {
    name: 'trace',
    read({ traces }, chance) {
      const trace = one(traces, chance);
      return { path: `/v1/traces/${trace}`, ask: (clickhouse, account) => getTrace(clickhouse, account, trace) };
    },
  },
  {
    name: 'search of a week, a rare word',
    read: (history, chance) => search(history, one(history.words.slice(-5_000), chance), chance),
  },
  {
    name: 'search of a week, a common word',
    read: (history, chance) => search(history, one(history.words.slice(0, 20), chance), chance),
  },
  {
    name: 'search of a week, a Chinese word',
    read: (history, chance) => search(history, one(history.chinese, chance), chance),
  },
  {
    name: 'search of the month, a rare word',
    read: (history, chance) => searchOf(one(history.words.slice(-5_000), chance)),
  },
  {
    name: 'search of the month, a common word',
    read: (history, chance) => searchOf(one(history.words.slice(0, 20), chance)),
  },
  {
    name: 'search of a week, two words',
    read(history, chance) {
      const q = `${one(history.words.slice(0, 500), chance)} ${one(history.words.slice(500, 5_000), chance)}`;
      return search(history, q, chance);
    },
  },
  {
    name: 'histogram by outcome',
    read: () => ({
      path: '/v1/events/histogram',
      ask: (clickhouse, account) => histogramOf(clickhouse, account, { ...HISTOGRAM, by: 'outcome' }),
    }),
  },
  {
    name: 'histogram by agent',
    read: () => ({
      path: '/v1/events/histogram?by=agent_id',
      ask: (clickhouse, account) => histogramOf(clickhouse, account, { ...HISTOGRAM, by: 'agent_id' }),
    }),
  },
  {
    name: 'histogram of a day',
    read({ fromMs }, chance) {
      const from = Math.floor(fromMs + chance() * 29 * DAY_MS);
      const filter = { from, to: from + DAY_MS };
      return {
        path: `/v1/events/histogram?from=${iso(from)}&to=${iso(from + DAY_MS)}`,
        ask: (clickhouse, account) => histogramOf(clickhouse, account, { ...HISTOGRAM, by: 'outcome', filter }),
      };
    },
  },
  {
    name: 'facets',
    read: () => ({
      path: '/v1/events/facets',
      ask: (clickhouse, account) =>
        Promise.all(COUNTED_BY.map((by) => countBy(clickhouse, account, { by, max: 50, filter: {} }))),
    }),
  },
  {
    name: 'audit log',
    read: () => ({
      path: `/v1/audit-logs?limit=${PAGE}`,
      ask: (clickhouse, account) => listAuditLogs(clickhouse, account, { limit: PAGE, offset: 0 }),
    }),
  },
  {
    name: 'audit log of blocked events',
    read: () => ({
      path: `/v1/audit-logs?limit=${PAGE}&action=event.blocked`,
      ask: (clickhouse, account) =>
        listAuditLogs(clickhouse, account, { limit: PAGE, offset: 0, action: 'event.blocked' }),
    }),
  },
];

type Times = { ms: number[]; cpuMs: number };

/** The kinds in turns, a share of the tries in each round. */
async function askAll(service: TestService, history: History, kinds: readonly Kind[]): Promise<Map<string, Times>> {
  const client = new HttpClient({ ...service, connections: 1 });
  const chance = random(7);
  const engine = (await service.children()).filter(({ name }) => name === 'clickhouse');
  const cpu = () => (cpuByPart(engine).get('clickhouse') ?? 0) * 1000;
  const times = new Map<string, Times>(kinds.map(({ name }) => [name, { ms: [], cpuMs: 0 }]));
  try {
    for (let round = 1; round <= ROUNDS; round++) {
      for (const { name, read } of kinds) {
        const own = times.get(name)!;
        const cpuBefore = cpu();
        const until = performance.now() + (KIND_SECONDS_MAX * 1000) / ROUNDS;
        for (let i = 0; i < TRIES / ROUNDS && performance.now() < until; i++) {
          const started = performance.now();
          const { status, body } = await client.send('GET', read(history, chance).path);
          own.ms.push(performance.now() - started);
          if (status !== 200) throw new Error(`${name}: ${status} ${body.slice(0, 300)}`);
        }
        own.cpuMs += cpu() - cpuBefore;
      }
      progress(`round ${round} of ${ROUNDS} asked`);
    }
  } finally {
    client.close();
  }
  return times;
}

async function rowOf(
  { name, read }: Kind,
  { ms, cpuMs }: Times,
  clickhouse: RecordingClickHouse,
  account: string,
  history: History,
): Promise<Row> {
  const chance = random(11);
  clickhouse.rowsRead = 0;
  for (let i = 0; i < COUNTED_TRIES; i++) await read(history, chance).ask(clickhouse, account);
  const ascending = sorted(ms);
  return {
    read: name,
    'p50 ms': percentile(ascending, 0.5),
    'p99 ms': percentile(ascending, 0.99),
    'engine, CPU ms': cpuMs / ms.length,
    'rows read': clickhouse.rowsRead / COUNTED_TRIES,
    tries: ms.length,
  };
}

function chartOf(rows: readonly Row[]) {
  const groups = (['p50 ms', 'p99 ms'] as const).map((column) => ({
    name: column,
    bars: rows.map((row) => ({
      name: String(row['read']).replace('search of a week', 'search'),
      value: Number(row[column]),
    })),
  }));
  return { kind: 'bars' as const, title: 'Reads', unit: 'ms', groups };
}
