// Question: how long does a person wait for the dashboard over 10 million events, and what do its open pages cost?
// Method: chromium, driven by playwright-core, on the machine of the service, against a month of events (month.ts).
//   first rows   a signed-in profile opens the address, until the first row, and what of it answers of the API took
//   program      the same list, and the overview, asked without a browser
//   filter       the address changes on the open page, until its rows are drawn, and until its histogram is there
//   big payload  an event of just under 1 MiB is opened, until its first line; and the longest task meanwhile
//   live         from an event's acknowledgement until it is a row of the open page that follows
//   followers    processor time of the front with and without open streams, a trickle of events coming in
//   ingest       the whole service under load, alone and with two tails and a page on every screen, in turns
//   export       a tenth of the events as NDJSON: rows against the filter's count, and the front's memory
// Bounds: first rows 300 ms p50 and 600 p99, overview and filter 150 p50, histogram 300; payload 200 ms and no task
// over 50; a follower 2 % of a core; the export exact, and 32 MB. The line fails by counts, not by times.
import { once } from 'node:events';
import http from 'node:http';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { programOnPath } from '../test/support/programs.ts';
import type { TestService } from '../test/support/service.ts';
import { gatehouse } from './contenders.ts';
import { HttpClient } from './http-client.ts';
import { ROOM } from './ingest.ts';
import { MB, watchMemory } from './memory-watch.ts';
import { type MonthOptions, startOnMonth } from './month.ts';
import { cpuByPart } from './processes.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { type Around, type Entrant, runRounds, spreadText } from './rounds.ts';
import { startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import { percentile, sorted } from './statistics.ts';
import { FIVE_POLICIES, KINDS, requestsOf } from './workload.ts';

const COLD_TRIES = 40;
const REST_MS = 500;
const FILTER_TRIES = 60;
const PAYLOAD_TRIES = 20;
const LIVE_TRIES = 60;
/** Under the limit of a body, and of an event. */
const PAYLOAD_BYTES = 1024 * 1024 - 1_024;
const FOLLOWERS = 8;
const FOLLOW_SECONDS = 20;
const TRICKLE_PER_SECOND = 50;
const DAY_MS = 86_400_000;
/** An export covers so many days of a month of 30. */
const EXPORT_DAYS = 3;
const WAIT_MS = 60_000;

type Samples = { what: string; bound: string; ms: number[] };

export async function dashboard(options: MonthOptions): Promise<boolean> {
  const machine = beginLine('dashboard');
  const executablePath = programOnPath('chromium');
  if (executablePath === undefined) throw new Error('there is no chromium on this machine: npm test installs it');
  const { service, clickhouse, history, merged } = await startOnMonth(options);
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  try {
    const opened = await signedIn(browser, service);
    await opened.page.locator('.list-line').first().waitFor();
    const cold = await coldTimes(opened.context, browser, service);
    const list = await timesOf(service, '/v1/events?payload=preview&limit=50', '');
    const overview = await timesOf(service, '/v1/overview?zone=Europe/Berlin', '150');
    const { filter, histogram } = await filterTimes(opened.page, history.agents);
    const payload = await payloadTimes(opened.page, service);
    const live = await liveTimes(opened.page, service);
    await opened.context.close();
    const followers = await followerCost(service);
    const exported = await exportOf(service, history.fromMs);
    const rows: Row[] = [
      ...[...cold, list, overview, filter, histogram, payload.opened, live].map(rowOf),
      { what: 'longest task meanwhile', 'p50 ms': payload.longestMs, bound: '50' },
    ];
    const beside = await ingestBeside(browser);
    const isWhole = exported.rows === exported.total && exported.twice === 0;
    hand(
      {
        line: 'dashboard',
        question: `how long does a person wait for the pages over ${options.events} events, and what do they cost?`,
        command: `npm run bench -- dashboard --events ${options.events}`,
        rows,
        notes: [
          ...beside,
          `A follower costs the front ${(followers * 100).toFixed(2)} % of a core (${FOLLOWERS} of one filter, ${TRICKLE_PER_SECOND} events/s; bound 2 %).`,
          `Export: ${exported.rows} rows of ${exported.total}, ${exported.twice} twice, in ${exported.seconds.toFixed(1)} s; the front took ${exported.moreMb.toFixed(0)} MB more (bound 32).`,
          `Events: ${merged}. Browser, service and stores share the machine's cores.`,
        ],
      },
      machine,
    );
    return isWhole;
  } finally {
    await browser.close();
    await clickhouse.close();
    await service.stop();
  }
}

function rowOf({ what, bound, ms }: Samples): Row {
  const ascending = sorted(ms);
  return {
    what,
    'p50 ms': percentile(ascending, 0.5),
    'p95 ms': percentile(ascending, 0.95),
    'p99 ms': percentile(ascending, 0.99),
    bound,
    tries: ms.length,
  };
}

async function signedIn(browser: Browser, service: TestService): Promise<{ page: Page; context: BrowserContext }> {
  const context = await browser.newContext();
  context.setDefaultTimeout(WAIT_MS);
  const page = await context.newPage();
  await page.goto(`${service.url}/ui/events#key=${service.key}`);
  await page.getByRole('button', { name: /^Sign in to / }).click();
  await page.getByRole('navigation', { name: 'Screens' }).waitFor();
  return { page, context };
}

/** With nothing in its cache; the session is that of `from`. */
async function coldTimes(from: BrowserContext, browser: Browser, service: TestService): Promise<Samples[]> {
  const [ms, answers]: [number[], number[]] = [[], []];
  const storageState = await from.storageState();
  for (let i = 0; i < COLD_TRIES; i++) {
    const page = await browser.newPage({ storageState });
    await page.addInitScript(MARK_FIRST_ROW);
    await page.goto(`${service.url}/ui/events`);
    ms.push(await page.evaluate<number>('window.firstRow'));
    answers.push(await page.evaluate<number>(`(${ANSWERS})(${ms.at(-1)})`));
    await page.waitForFunction(HISTOGRAM_CAME); // the network is never idle: the page follows what waits
    await page.close(); // with what it cached
    await sleep(REST_MS);
  }
  progress('first rows measured');
  const whole = { what: 'cold navigation to the first rows', bound: '300, p99 600', ms };
  return [whole, { what: 'of it, answers of the API', bound: '', ms: answers }];
}

const HISTOGRAM_CAME = `performance.getEntriesByType('resource').some(({ name }) => name.includes('/histogram'))`;

/** How long answers of the API were on their way that came until then; several at a time count once. For the page. */
const ANSWERS = `(firstRow) => performance.getEntriesByType('resource')
  .filter(({ name, responseEnd }) => new URL(name).pathname.startsWith('/v1/') && responseEnd <= firstRow)
  .sort((a, b) => a.requestStart - b.requestStart)
  .reduce(([sum, end], { requestStart, responseEnd }) =>
    [sum + Math.max(0, responseEnd - Math.max(requestStart, end)), Math.max(end, responseEnd)], [0, 0])[0]`;

/** By a program. A part that was not counted took no time. */
async function timesOf(service: TestService, path: string, bound: string): Promise<Samples> {
  const client = new HttpClient({ ...service, connections: 1 });
  const ms: number[] = [];
  for (let i = 0; i < COLD_TRIES; i++) {
    const begun = performance.now();
    const { next_cursor: _, ...parts } = await client.json<Record<string, unknown>>('GET', path);
    ms.push(performance.now() - begun);
    if (Object.values(parts).includes(null)) throw new Error(`${path} lacks a part`);
  }
  client.close();
  return { what: `by a program: ${path}`, bound, ms };
}

/** Resolves with the milliseconds from the navigation to the frame that has a row. Text, since it runs in the page. */
const MARK_FIRST_ROW = `
  window.firstRow = new Promise((resolve) => {
    const look = () => document.querySelector('.list-line') ? resolve(performance.now()) : requestAnimationFrame(look);
    requestAnimationFrame(look);
  });`;

/**
 * Changes the address as a click on a filter does; resolves when the rows are others, with what the histogram's request
 * took.
 */
const CHANGE_FILTER = `async (href) => {
  const first = () => document.querySelector('.list-line')?.getAttribute('href')?.match(/id=(evt_\\w+)/)?.[1];
  const before = first();
  performance.clearResourceTimings();
  const begun = performance.now();
  history.pushState(null, '', href);
  dispatchEvent(new PopStateEvent('popstate'));
  const frame = () => new Promise((done, fail) =>
    performance.now() - begun > 30_000 ? fail(new Error('no rows of ' + href)) : requestAnimationFrame(done));
  while (first() === before || first() === undefined) await frame();
  const rows = performance.now() - begun;
  const asked = () => performance.getEntriesByType('resource').find(({ name }) => name.includes('/histogram'));
  while (asked() === undefined) await frame();
  return { rows, histogram: asked().duration };
}`;

async function filterTimes(page: Page, agents: readonly string[]): Promise<{ filter: Samples; histogram: Samples }> {
  const filter: number[] = [];
  const histogram: number[] = [];
  const types = ['prompt', 'completion'];
  for (let i = 0; i < FILTER_TRIES; i++) {
    // Never twice the same: what was read a moment ago would come from the page's memory.
    const agent = `agent_id=${agents[(i * 37) % agents.length]}`;
    const asked = [`./events?${agent}`, `./events?${agent}&outcome=allowed`, `./events?${agent}&type=${types[i % 2]}`];
    const took = await page.evaluate<{ rows: number; histogram: number }>(
      `(${CHANGE_FILTER})(${JSON.stringify(asked[i % 3])})`,
    );
    filter.push(took.rows);
    histogram.push(took.histogram);
    await sleep(REST_MS);
  }
  progress('filters measured');
  return {
    filter: { what: 'a filter to its rows', bound: '150', ms: filter },
    histogram: { what: 'its histogram', bound: '300', ms: histogram },
  };
}

/**
 * Opens the event that `href` names; resolves when a line of its payload is drawn, with the longest task until then.
 */
const OPEN_PAYLOAD = `async (href) => {
  let longest = 0;
  const tasks = new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) longest = Math.max(longest, duration); });
  tasks.observe({ type: 'longtask' });
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  history.pushState(null, '', './settings');
  dispatchEvent(new PopStateEvent('popstate'));
  while (document.querySelector('.payload') !== null) await frame();
  longest = 0;
  const begun = performance.now();
  history.pushState(null, '', href);
  dispatchEvent(new PopStateEvent('popstate'));
  while (document.querySelector('.payload code') === null) await frame();
  const opened = performance.now() - begun;
  for (let i = 0; i < 5; i++) await frame();
  tasks.disconnect();
  return { opened, longest };
}`;

async function payloadTimes(page: Page, service: TestService): Promise<{ opened: Samples; longestMs: number }> {
  const ms: number[] = [];
  let longestMs = 0;
  const client = new HttpClient({ ...service, connections: 1 });
  try {
    const agent = (await client.json<{ id: string }>('POST', '/v1/agents', { name: `large-${Date.now()}` })).id;
    const rows = Array.from({ length: 8_000 }, (_, i) => ({ n: i, name: `item ${i}`, note: 'x'.repeat(80) }));
    const text = JSON.stringify({ rows });
    const payload = text.length > PAYLOAD_BYTES ? { rows: rows.slice(0, 7_500) } : { rows };
    for (let i = 0; i < PAYLOAD_TRIES; i++) {
      const event = await client.json<{ id: string }>('POST', `/v1/agents/${agent}/events`, {
        type: 'custom',
        payload: { i, ...payload },
      });
      await client.json('GET', `/v1/agents/${agent}/events?limit=1&payload=none`); // waits until it is stored
      const took = await page.evaluate<{ opened: number; longest: number }>(
        `(${OPEN_PAYLOAD})(${JSON.stringify(`./event?agent_id=${agent}&id=${event.id}`)})`,
      );
      ms.push(took.opened);
      longestMs = Math.max(longestMs, took.longest);
    }
  } finally {
    client.close();
  }
  progress('payloads measured');
  return { opened: { what: 'an event of 1 MiB', bound: '200', ms }, longestMs };
}

/** Resolves with the moment, by the clock of the machine, at which the page has a row with these words. */
const SEEN = `(words) => new Promise((resolve) => {
  const look = () => document.querySelector('.rows')?.textContent.includes(words) ? resolve(Date.now()) : requestAnimationFrame(look);
  look();
})`;

async function liveTimes(page: Page, service: TestService): Promise<Samples> {
  const client = new HttpClient({ ...service, connections: 1 });
  const ms: number[] = [];
  try {
    const agent = (await client.json<{ id: string }>('POST', '/v1/agents', { name: `live-${Date.now()}` })).id;
    await page.goto(`${service.url}/ui/events?live=1&agent_id=${agent}`);
    await page.getByRole('heading', { name: 'Events' }).waitFor();
    for (let i = 0; i < LIVE_TRIES; i++) {
      const words = `mark ${i} of ${LIVE_TRIES}`;
      const seen = page.evaluate<number>(`(${SEEN})(${JSON.stringify(words)})`);
      await client.json('POST', `/v1/agents/${agent}/events`, { type: 'prompt', payload: { prompt: words } });
      const acknowledged = Date.now();
      ms.push(Math.max(0, (await seen) - acknowledged));
      await sleep(137 + ((i * 83) % 500));
    }
  } finally {
    client.close();
  }
  progress('live measured');
  return { what: 'acknowledged to on screen', bound: 'p95 1000', ms };
}

/** Share of a core that one follower costs the front. */
async function followerCost(service: TestService): Promise<number> {
  const client = new HttpClient({ ...service, connections: 4 });
  try {
    const agent = (await client.json<{ id: string }>('POST', '/v1/agents', { name: `trickle-${Date.now()}` })).id;
    const front = (await service.children()).filter(({ name }) => name.startsWith('front'));
    const usedDuring = async () => {
      const before = cpuByPart(front).get('front')!;
      const until = performance.now() + FOLLOW_SECONDS * 1_000;
      while (performance.now() < until) {
        await client.send('POST', `/v1/agents/${agent}/events`, '{"type":"custom","payload":{}}');
        await sleep(1_000 / TRICKLE_PER_SECOND);
      }
      return (cpuByPart(front).get('front')! - before) / FOLLOW_SECONDS;
    };
    await usedDuring(); // warms up
    const without = await usedDuring();
    const streams = await Promise.all(Array.from({ length: FOLLOWERS }, () => follow(service)));
    const withThem = await usedDuring();
    for (const stream of streams) stream.destroy();
    progress(
      `front: ${(without * 100).toFixed(2)} % of a core without, ${(withThem * 100).toFixed(2)} % with followers`,
    );
    return (withThem - without) / FOLLOWERS;
  } finally {
    client.close();
  }
}

const SCREENS = [
  'events?live=1',
  'traces',
  'agents',
  'approvals',
  'policies',
  'anomalies',
  'alerts',
  'deliveries',
  'audit',
];
const TURNS = { turns: 3, seconds: 5 };

/** Measures what open pages cost a service that takes in all that it can: a sentence for each kind of load. */
async function ingestBeside(browser: Browser): Promise<string[]> {
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1', ...ROOM });
  try {
    const [agent] = (await makeAgents(service, 1)) as [string];
    await setPolicies(service, FIVE_POLICIES);
    const withPages: Around = async (load) => {
      const contexts = await Promise.all(
        [SCREENS, SCREENS.slice(0, 1)].map((screens) => pagesOn(browser, service, screens)),
      );
      try {
        return await load();
      } finally {
        for (const context of contexts) await context.close();
      }
    };
    const entrants = KINDS.flatMap((kind): Entrant[] => {
      const load = requestsOf([{ agent, key: service.key }], kind);
      return [
        { name: `${kind.kind}: alone`, contender: gatehouse(service), load },
        { name: `${kind.kind}: with pages`, contender: gatehouse(service), load, around: withPages },
      ];
    });
    const results = await runRounds(entrants, { ...TURNS, services: [service] });
    return KINDS.map(({ kind }) => {
      const told = (how: string) => {
        const { eventsPerSecond, spread, cpu } = results.get(`${kind}: ${how}`)!;
        return `${Math.round(eventsPerSecond)} events/s (${spreadText(spread)}), front ${cpu['front']?.toFixed(1)} µs an event`;
      };
      return `Ingest, ${kind}: alone ${told('alone')}; with two tails and ${SCREENS.length} pages ${told('with pages')}.`;
    });
  } finally {
    await service.stop();
  }
}

async function pagesOn(browser: Browser, service: TestService, screens: readonly string[]): Promise<BrowserContext> {
  const { page, context } = await signedIn(browser, service);
  for (const [i, screen] of screens.entries()) {
    const own = i === 0 ? page : await context.newPage();
    await own.goto(`${service.url}/ui/${screen}`);
    await own.getByRole('heading', { level: 1 }).waitFor();
  }
  return context;
}

async function follow({ url, key }: TestService): Promise<http.ClientRequest> {
  const request = http.get(`${url}/v1/stream?topics=events&payload=preview`, {
    headers: { authorization: `Bearer ${key}` },
  });
  request.on('error', () => undefined);
  const [response] = (await once(request, 'response')) as [http.IncomingMessage];
  if (response.statusCode !== 200) throw new Error(`the stream answers ${response.statusCode}`);
  response.on('error', () => undefined);
  response.resume();
  return request;
}

type Exported = { rows: number; total: number; twice: number; seconds: number; moreMb: number };

async function exportOf(service: TestService, fromMs: number): Promise<Exported> {
  const range = `from=${new Date(fromMs).toISOString()}&to=${new Date(fromMs + EXPORT_DAYS * DAY_MS).toISOString()}`;
  const client = new HttpClient({ ...service, connections: 1 });
  const { total } = await client.json<{ total: number }>('GET', `/v1/events?limit=1&payload=none&${range}`);
  client.close();
  const stop = new AbortController();
  const memory = watchMemory(service, stop.signal, { everySeconds: 0.1 });
  await sleep(2_000);
  const started = performance.now();
  const request = http.get(`${service.url}/v1/events/export?format=ndjson&${range}`, {
    headers: { authorization: `Bearer ${service.key}` },
  });
  const [response] = (await once(request, 'response')) as [http.IncomingMessage];
  if (response.statusCode !== 200) throw new Error(`the export answers ${response.statusCode}`);
  const ids = new Set<string>();
  let rows = 0;
  for await (const line of createInterface({ input: response })) {
    rows++;
    ids.add(line.slice(0, 40)); // an event begins with its id
    if (rows % 100_000 === 0) progress(`${rows} rows exported`);
  }
  const seconds = (performance.now() - started) / 1_000;
  stop.abort();
  const readings = await memory;
  const before = Math.max(...readings.filter(({ second }) => second < 1.9).map(({ front }) => front));
  const most = Math.max(...readings.map(({ front }) => front));
  return { rows, total, twice: rows - ids.size, seconds, moreMb: (most - before) / MB };
}
