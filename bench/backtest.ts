// Question: how long does a backtest of 100,000 events take, and what do callers notice while one runs?
// Method: a month of events of a thousand agents inside the service's ClickHouse (history.ts). Each kind of policy is
// tried over all of them, one after the other, from when a process has taken it up until it is done; the events that
// are waited for before, and the second between two looks, are not in it. Then an open loop sends single events,
// latency from when each was due, in turns with and without backtests that follow one another, in the same run: the
// ratio of their medians counts. Everything shares the machine. Promise: 100,000 events in 10 s.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Backtest } from '../schemas/backtest.ts';
import { DETECTOR_NAMES } from '../schemas/closed-sets.ts';
import { whenAtRest } from './gauges.ts';
import { type OnMonth, startOnMonth } from './month.ts';
import { openLoad, type Summary, summarize } from './open-loop.ts';
import { cpuByPart } from './processes.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { makeAgents } from './setup.ts';
import { median } from './statistics.ts';
import { bodiesOf } from './workload.ts';

const SECONDS_MAX = 10;
const EVENTS = 100_000;
const RATE = 500;
const CONNECTIONS = 64;
const WARM_SECONDS = 1;

const KINDS: { name: string; policy: { type: string; conditions: object } }[] = [
  { name: 'a tool by its name', policy: { type: 'block_action', conditions: { tool: 'send_money' } } },
  {
    name: 'a pattern in one field',
    policy: { type: 'block_action', conditions: { 'payload.prompt': { matches: '(?i)ignore (?:all )?previous' } } },
  },
  {
    name: 'five patterns everywhere',
    policy: {
      type: 'data_filter',
      conditions: { patterns: ['secret [0-9]+', 'password.{0,20}is', 'drop table', 'rm -rf', '[a-z]{30}'] },
    },
  },
  { name: 'nine detectors', policy: { type: 'data_filter', conditions: { detectors: DETECTOR_NAMES } } },
  {
    name: 'an expression',
    policy: {
      type: 'block_action',
      conditions: { expression: 'has(event.payload.model) && event.payload.model == "x"' },
    },
  },
  { name: 'a rate limit of each agent', policy: { type: 'rate_limit', conditions: { threshold: 100, window: '1h' } } },
  {
    name: 'a rate limit of each model',
    policy: { type: 'rate_limit', conditions: { threshold: 100, window: '1h', per: 'payload.model' } },
  },
];

export async function backtest(options: { events: number; seconds: number; turns: number }): Promise<boolean> {
  const machine = beginLine('backtest');
  const month = await startOnMonth({ events: options.events });
  try {
    const rows: Row[] = [];
    let isKept = true;
    for (const { name, policy } of KINDS) {
      const { seconds, cpu, result } = await timed(month, policy);
      const per100k = (seconds * EVENTS) / options.events;
      isKept &&= per100k <= SECONDS_MAX;
      progress(`${name}: ${seconds.toFixed(1)} s`);
      rows.push({
        policy: name,
        'seconds for 100,000 events': per100k,
        'events/s': options.events / seconds,
        'CPU µs an event': cpu,
        matched: result!.matched,
      });
    }
    rows.push(...(await beside(month, options)));
    const question = 'how long does a backtest take, and what do callers notice?';
    const command = `npm run bench -- backtest --events ${options.events} --seconds ${options.seconds} --turns ${options.turns}`;
    hand({ line: 'backtest', question, command, rows, charts: [] }, machine);
    return isKept;
  } finally {
    await month.clickhouse.close();
    await month.service.stop();
  }
}

async function timed({ service, history }: OnMonth, policy: object) {
  const before = cpuByPart(await service.children());
  const done = await run(service, rangeOf(history), policy);
  const after = cpuByPart(await service.children());
  const of = (part: string) => Math.round((((after.get(part) ?? 0) - (before.get(part) ?? 0)) * 1e6) / history.events);
  const seconds = (Date.parse(done.finished_at!) - Date.parse(done.started_at!)) / 1000;
  return { seconds, cpu: `${of('backtests')}, ClickHouse ${of('clickhouse')}`, result: done.result };
}

function rangeOf({ fromMs, toMs }: OnMonth['history']) {
  return { from: new Date(fromMs - 1).toISOString(), to: new Date(toMs + 1).toISOString() };
}

async function run(service: { url: string; key: string }, range: object, policy: object): Promise<Backtest> {
  const call = async (method: string, path: string, body?: object): Promise<Backtest> => {
    const answer = await fetch(`${service.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${await answer.text()}`);
    return (await answer.json()) as Backtest;
  };
  const { id } = await call('POST', '/v1/backtests', { policy: { actions: ['block'], ...policy }, ...range });
  for (;;) {
    const now = await call('GET', `/v1/backtests/${id}`);
    if (now.status === 'done') return now;
    if (now.status === 'failed') throw new Error(JSON.stringify(now.error));
    await sleep(200);
  }
}

/** Single events with and without backtests beside them, in turns. */
async function beside(month: OnMonth, { seconds, turns }: { seconds: number; turns: number }): Promise<Row[]> {
  const { service } = month;
  const agents = await makeAgents(service, 8, 'beside');
  const taken: Record<'without' | 'with', Summary[]> = { without: [], with: [] };
  for (let turn = 1; turn <= turns; turn++) {
    for (const which of ['without', 'with'] as const) {
      await whenAtRest(service);
      const end = which === 'with' ? beginBacktests(month) : async () => undefined;
      const summary = await load(service, agents, seconds);
      await end();
      taken[which].push(summary);
      progress(`turn ${turn}/${turns} ${which} backtests: p99 ${summary.p99Ms.toFixed(1)} ms`);
    }
  }
  const of = (which: 'without' | 'with', name: 'p50Ms' | 'p99Ms') =>
    median(taken[which].map((summary) => summary[name]));
  return (['without', 'with'] as const).map((which) => ({
    policy: `single events, ${RATE}/s, ${which === 'with' ? 'a backtest beside them' : 'nothing beside them'}`,
    'p50 ms': of(which, 'p50Ms'),
    'p99 ms': of(which, 'p99Ms'),
    'p99 to nothing beside': of(which, 'p99Ms') / of('without', 'p99Ms'),
    'p99 of each turn': taken[which].map(({ p99Ms }) => p99Ms.toFixed(1)).join(', '),
  }));
}

/** One after the other, until it is ended. */
function beginBacktests({ service, history }: OnMonth): () => Promise<void> {
  let isOver = false;
  const running = (async () => {
    for (let i = 0; !isOver; i++) await run(service, rangeOf(history), KINDS[2 + (i % 2)]!.policy);
  })();
  return async () => {
    isOver = true;
    await running;
  };
}

async function load(service: { url: string; key: string }, agents: readonly string[], seconds: number) {
  const bodies = bodiesOf(1);
  const requests = bodies.map((_, body) => ({
    ...{ path: `/v1/agents/${agents[body % agents.length]}/events`, key: service.key, body },
  }));
  const phases = [{ requestsPerSecond: RATE, seconds: seconds + WARM_SECONDS }];
  const samples = await openLoad({ url: service.url, requests, bodies, phases, connections: CONNECTIONS });
  return summarize(samples, WARM_SECONDS * 1000);
}
