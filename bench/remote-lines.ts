// The lines that measure a service from outside (remote.ts): what a caller can see, and nothing else. The load is that
// of the lines of the same names; processor time, backlog and the echo beside it are missing, so figures of two
// machines cannot be compared by them. Refusals are counted apart: under a request limit a load tool measures the
// limit, and the notes say so.
import type { Chart } from './chart.ts';
import { CallError } from './command-line.ts';
import { measureFresh } from './fresh-reads.ts';
import { HttpClient } from './http-client.ts';
import { type CountedResult, postWithAutocannon } from './load.ts';
import { openLoad, SAMPLES_MAX, type Summary, summarize } from './open-loop.ts';
import type { Remote } from './remote.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { spreadOf, spreadText } from './rounds.ts';
import { median, percentile, sorted } from './statistics.ts';
import { OPEN_CONNECTIONS } from './sustained.ts';
import { bodiesOf, KINDS, type Kind, requestsOf } from './workload.ts';

export type RemoteOptions = { turns: number; seconds: number; tries: number; rate?: number | undefined };

const SHARES = [0.1, 0.5, 0.8];
/** Past this share of refusals the notes say what is being measured. */
const REFUSED_SHARE_MAX = 0.01;
const PAGE = 50;

/** A closed loop of each kind, in turns. */
export async function ingestOf(remote: Remote, options: RemoteOptions): Promise<void> {
  const { turns, seconds } = options;
  const machine = beginLine('ingest');
  const taken = KINDS.map((): Closed[] => []);
  for (let turn = 1; turn <= turns; turn++) {
    for (const [i, kind] of KINDS.entries()) {
      const one = await closedLoop(remote, kind, seconds);
      taken[i]!.push(one);
      progress(`turn ${turn}/${turns} ${kind.kind}: ${Math.round(one.eventsPerSecond)} events/s accepted`);
    }
  }
  const rows = KINDS.map(({ kind, connections }, i): Row => {
    const of = (pick: (one: Closed) => number) => median(taken[i]!.map(pick));
    return {
      load: `${kind}, ${connections} connections`,
      'accepted events/s': of((one) => one.eventsPerSecond),
      'least and most': spreadText(spreadOf(taken[i]!.map((one) => one.eventsPerSecond))),
      'p50 ms': of((one) => one.p50Ms),
      'p99 ms': of((one) => one.p99Ms),
      'events in all': taken[i]!.reduce((sum, one) => sum + one.accepted, 0),
      'refused, %': of((one) => one.refusedShare * 100),
      failed: of((one) => one.failed),
    };
  });
  const groups = KINDS.map(({ kind }, i) => ({
    name: kind,
    bars: taken[i]!.map((one, turn) => ({ name: `turn ${turn + 1}`, value: one.eventsPerSecond })),
  }));
  const charts: Chart[] = [{ kind: 'bars', title: 'Events accepted', unit: 'events/s', groups }];
  const refused = Math.max(...taken.flat().map((one) => one.refusedShare));
  const question = 'how fast are events accepted, seen from outside?';
  handOf(remote, { line: 'ingest', question, rows, charts, refused, options }, machine);
}

/** An open loop at fixed rates: `rate`, or shares of what a closed loop reaches just before. */
export async function latencyOf(remote: Remote, options: RemoteOptions): Promise<void> {
  const machine = beginLine('latency');
  const rows: Row[] = [];
  let refused = 0;
  for (const kind of KINDS) {
    const most = options.rate ?? (await closedLoop(remote, kind, Math.min(options.seconds, 5))).eventsPerSecond;
    const rates = options.rate === undefined ? SHARES.map((share) => share * most) : [options.rate];
    for (const rate of rates) {
      const summary = await atRate(remote, kind, rate, options.seconds);
      const all = summary.answered + summary.refused + summary.failed + summary.unsent;
      refused = Math.max(refused, all === 0 ? 0 : summary.refused / all);
      rows.push(latencyRow(kind, rate, summary));
      progress(`${kind.kind} at ${Math.round(rate)} events/s: p99 ${summary.p99Ms.toFixed(1)} ms`);
    }
  }
  const charts = KINDS.map(({ kind }) => latencyChart(kind, rows));
  const question = 'how long does an answer take at a fixed rate of arrivals, counted from when each request was due?';
  handOf(remote, { line: 'latency', question, rows, charts, refused, options }, machine);
}

/** Reads of one caller, each kind `tries` times. */
export async function queryOf(remote: Remote, options: RemoteOptions): Promise<void> {
  const machine = beginLine('query');
  const client = new HttpClient({ url: remote.url, key: remote.key, connections: 1 });
  const rows: Row[] = [];
  try {
    const trace = `bench-${remote.agent}`;
    for (let i = 0; i < PAGE; i++) {
      const event = { type: 'prompt', trace_id: trace, payload: { text: `bench word${i}` } };
      await client.json('POST', `/v1/agents/${remote.agent}/events`, event);
    }
    for (const [name, path] of Object.entries(readsOf(remote.agent, trace))) {
      const ms: number[] = [];
      for (let i = 0; i < options.tries; i++) {
        const started = performance.now();
        const { status, body } = await client.send('GET', path);
        if (status !== 200) throw new Error(`${name}: ${status} ${body.slice(0, 300)}`);
        ms.push(performance.now() - started);
      }
      const ascending = sorted(ms);
      const at = (share: number) => percentile(ascending, share);
      rows.push({ read: name, 'p50 ms': at(0.5), 'p90 ms': at(0.9), 'p99 ms': at(0.99), tries: ms.length });
      progress(`${name}: p50 ${at(0.5).toFixed(1)} ms`);
    }
  } finally {
    client.close();
  }
  const groups = ['p50 ms', 'p99 ms'].map((column) => ({
    name: column,
    bars: rows.map((row) => ({ name: String(row['read']), value: Number(row[column]) })),
  }));
  const charts: Chart[] = [{ kind: 'bars', title: 'Reads', unit: 'ms', groups }];
  const question = 'how long do reads take, over what the account holds?';
  handOf(remote, { line: 'query', question, rows, charts, refused: 0, options }, machine);
}

/** Does a list that starts after a write was acknowledged show that write? */
export async function freshReadsOf(remote: Remote, options: RemoteOptions): Promise<void> {
  const machine = beginLine('fresh-reads');
  const found = await measureFresh(remote, [remote.agent], { tries: options.tries, loaders: 0 });
  const { tries, missing, incomplete, readP50Ms, readP99Ms } = found;
  const row = { tries, missing, 'said to be incomplete': incomplete, 'p50 ms': readP50Ms, 'p99 ms': readP99Ms };
  const question = 'does a list that starts after a write was acknowledged show that write?';
  handOf(remote, { line: 'fresh-reads', question, rows: [row], charts: [], refused: 0, options }, machine);
}

function readsOf(agent: string, trace: string): Record<string, string> {
  const day = new Date(Date.now() - 86_400_000).toISOString();
  return {
    'account timeline': `/v1/events?limit=${PAGE}`,
    'account timeline, no payloads': `/v1/events?limit=${PAGE}&payload=none`,
    'list of an agent': `/v1/agents/${agent}/events?limit=${PAGE}`,
    'blocked events': `/v1/events?limit=${PAGE}&outcome=blocked`,
    'events of a day, one type': `/v1/events?limit=${PAGE}&type=tool_call&from=${day}`,
    'search of a day, a rare word': `/v1/events?limit=${PAGE}&q=word7&from=${day}`,
    trace: `/v1/traces/${trace}`,
    'audit log': `/v1/audit-logs?limit=${PAGE}`,
  };
}

/** `accepted` counts events. */
type Closed = {
  eventsPerSecond: number;
  accepted: number;
  refusedShare: number;
  p50Ms: number;
  p99Ms: number;
  failed: number;
};

async function closedLoop(remote: Remote, kind: Kind, seconds: number): Promise<Closed> {
  const load = loadOf(remote, kind);
  const result = await postWithAutocannon({ url: remote.origin, ...load, seconds });
  const { accepted, refused, other } = countsOf(result);
  const all = accepted + refused + other;
  if (all === 0) throw new Error(`${remote.origin} answered nothing within ${seconds} s`);
  return {
    eventsPerSecond: (accepted * kind.events) / result.seconds,
    accepted: accepted * kind.events,
    refusedShare: refused / all,
    ...{ p50Ms: result.p50Ms, p99Ms: result.p99Ms, failed: other },
  };
}

function countsOf({ statuses, errors }: CountedResult) {
  const counts = { accepted: 0, refused: 0, other: errors };
  for (const [status, count] of Object.entries(statuses)) {
    if (status.startsWith('2')) counts.accepted += count;
    else if (status === '429' || status === '503') counts.refused += count;
    else counts.other += count;
  }
  return counts;
}

function loadOf({ agent, key, pathPrefix }: Remote, { events, connections }: Kind) {
  const load = requestsOf([{ agent, key }], { events, connections }, bodiesOf(events));
  const requests = load.requests.map((one) => ({ ...one, path: pathPrefix + one.path }));
  return { requests, bodies: load.bodies, connections };
}

async function atRate(remote: Remote, kind: Kind, eventsPerSecond: number, seconds: number): Promise<Summary> {
  const requestsPerSecond = eventsPerSecond / kind.events;
  if (requestsPerSecond * seconds > SAMPLES_MAX)
    throw new CallError(
      `${requestsPerSecond} requests a second for ${seconds} s are more than a run may have (${SAMPLES_MAX})`,
    );
  const { requests, bodies } = loadOf(remote, kind);
  const connections = OPEN_CONNECTIONS[kind.kind];
  const phases = [{ requestsPerSecond, seconds }];
  return summarize(await openLoad({ url: remote.origin, requests, bodies, phases, connections }));
}

function latencyRow({ kind }: Kind, rate: number, summary: Summary): Row {
  return {
    load: kind,
    'events/s': rate,
    'p50 ms': summary.p50Ms,
    'p99 ms': summary.p99Ms,
    'p99.9 ms': summary.p999Ms,
    'longest ms': summary.maxMs,
    answered: summary.answered,
    refused: summary.refused,
    'not answered well': summary.failed + summary.unsent,
  };
}

function latencyChart(kind: string, rows: readonly Row[]): Chart {
  const own = rows.filter((row) => row['load'] === kind);
  return {
    kind: 'lines',
    title: `Latency at a fixed rate of arrivals, ${kind}`,
    xTitle: 'events/s',
    yTitle: 'ms from the moment a request was due',
    logY: true,
    series: ['p50 ms', 'p99 ms', 'p99.9 ms'].map((column) => ({
      name: column,
      points: own.map((row) => ({ x: Number(row['events/s']), y: Number(row[column]) })),
    })),
  };
}

type Found = {
  line: string;
  question: string;
  rows: Row[];
  charts: Chart[];
  /** The largest share of requests that were refused for a limit or for load. */
  refused: number;
  options: RemoteOptions;
};

function handOf(remote: Remote, found: Found, machine: ReturnType<typeof beginLine>): void {
  const { line, question, rows, charts, refused, options } = found;
  const { per_second: perSecond, burst } = remote.limit;
  const given = Object.entries(options).flatMap(([name, value]) => (value === undefined ? [] : [`${name} ${value}`]));
  const notes = [
    `Asked of ${remote.url}, Gatehouse ${remote.version}, whose key may make ${perSecond} requests/s (${burst} at once); ${given.join(', ')}.`,
    'The machine named below is the one that asked.',
  ];
  if (refused > REFUSED_SHARE_MAX)
    notes.unshift(
      `Up to ${(refused * 100).toFixed(0)} % of the requests were refused: what is measured is a limit, of the key (${perSecond} requests/s) or of the machine. ` +
        'The operator raises the first: npx gatehouse account limit NAME --per-second 1000000 --burst 1000000.',
    );
  hand(
    { line, question, command: `npm run bench -- ${line} --url ${remote.url} --key …`, rows, charts, notes },
    machine,
  );
}
