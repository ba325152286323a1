// Question: how fast are events taken in, judged and made durable, against a bare uWebSockets.js server that only echoes?
// Method: one front, real Redis (append-only file, everysec) and ClickHouse behind it, events of about 500 bytes, five
// policies an event; single events over 64 connections, batches of 100 over 32. Gatehouse and both echoes take turns in
// one run; medians over the turns. CPU per event from /proc, by process, since it is steadier than time on shared machines.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { assetPath } from '../src/assets.ts';
import { HttpClient } from './http-client.ts';
import { type LoadResult, post } from './load.ts';
import { type BenchService, startBenchService } from './service.ts';

const BATCH_EVENTS = 100;
const CLOCK_TICKS_PER_SECOND = 100; // USER_HZ of Linux

const KINDS = [
  { kind: 'single', connections: 64, events: 1 },
  { kind: 'batch', connections: 32, events: BATCH_EVENTS },
] as const;
const TARGETS = ['echo bytes', 'echo json', 'gatehouse'] as const;

type Turn = LoadResult & { eventsPerSecond: number; cpuMicroseconds: Record<string, number> };

export async function ingest(options: { turns: number; seconds: number }): Promise<boolean> {
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1' });
  const echo = await startEcho();
  try {
    const agent = await prepare(service);
    const turns = new Map<string, Turn[]>();
    for (let turn = 0; turn < options.turns; turn++) {
      for (const kind of KINDS) {
        for (const target of TARGETS) {
          const result = await oneTurn({ service, echo, agent, target, kind, seconds: options.seconds });
          const name = `${kind.kind} ${target}`;
          turns.set(name, [...(turns.get(name) ?? []), result]);
          process.stdout.write(`turn ${turn + 1} ${name}: ${Math.round(result.eventsPerSecond)} events/s\n`);
        }
      }
    }
    report(turns);
    return true;
  } finally {
    echo.child.kill('SIGTERM');
    await service.stop();
  }
}

/** An agent and five policies: a block list of tools, five patterns, a shared rate counter, two that do not match. */
async function prepare(service: BenchService): Promise<string> {
  const client = new HttpClient({ ...service, connections: 4 });
  const { id } = await client.json<{ id: string }>('POST', '/v1/agents', { name: 'bench' });
  const policies = [
    {
      name: 'tools',
      type: 'block_action',
      conditions: { type: 'tool_call', tool: ['drop_table', 'send_money', 'rm'] },
      actions: ['block'],
    },
    {
      name: 'patterns',
      type: 'data_filter',
      conditions: {
        patterns: [
          '<INFORMATION>',
          'BEGIN PRIVATE KEY',
          'password=[a-z0-9]+',
          'sk-[A-Za-z0-9]{20}',
          'AKIA[0-9A-Z]{16}',
        ],
      },
      actions: ['block'],
    },
    {
      name: 'rate',
      type: 'rate_limit',
      conditions: { threshold: 1_000_000_000, window: '1m', per: 'account' },
      actions: ['block'],
    },
    {
      name: 'amount',
      type: 'block_action',
      conditions: { type: 'tool_call', 'payload.arguments.amount': { gt: 1_000_000 } },
      actions: ['block', 'alert'],
    },
    {
      name: 'model',
      type: 'block_action',
      conditions: { type: 'completion', model: 'forbidden-model' },
      actions: ['block'],
    },
  ];
  for (const policy of policies) await client.json('POST', '/v1/policies', policy);
  client.close();
  return id;
}

/** About 500 bytes, as a tool call of a support agent is. */
function sampleEvent(i: number): object {
  return {
    type: 'tool_call',
    trace_id: `0b7c1c1e-0000-4000-8000-${String(i).padStart(12, '0')}`,
    payload: {
      tool: 'get_reservation_details',
      arguments: { reservation_id: `ZFA04${i % 10}`, user: 'sofia_kim_7287' },
      result: `Flight HAT${i} from MCO to CLT on 2024-05-22, cabin economy, one passenger, two bags, insurance not taken. The passenger asks whether the fare can be refunded after the change of schedule; the agent looks up the terms of the fare.`,
      status: 'ok',
      tokens_used: 420 + i,
    },
  };
}

async function oneTurn(run: {
  service: BenchService;
  echo: Echo;
  agent: string;
  target: (typeof TARGETS)[number];
  kind: (typeof KINDS)[number];
  seconds: number;
}): Promise<Turn> {
  const { service, echo, agent, target, kind, seconds } = run;
  const body = JSON.stringify(
    kind.events === 1 ? sampleEvent(0) : { events: Array.from({ length: kind.events }, (_, i) => sampleEvent(i)) },
  );
  const path = `/v1/agents/${agent}/events${kind.events === 1 ? '' : '/batch'}`;
  const url =
    target === 'gatehouse'
      ? `${service.url}${path}`
      : `http://127.0.0.1:${echo.port}/${target === 'echo json' ? 'json' : 'bytes'}`;
  const processes = target === 'gatehouse' ? await service.children() : [{ name: 'echo', pid: echo.child.pid! }];
  const before = processes.map(({ pid }) => cpuSeconds(pid));
  const headers = { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' };
  const result = await post({ url, body, headers, connections: kind.connections, seconds });
  if (result.failed > 0) process.stdout.write(`  ${result.failed} requests failed\n`);
  const events = result.requestsPerSecond * seconds * kind.events;
  const cpuMicroseconds = Object.fromEntries(
    processes.map(({ name, pid }, i) => [name, ((cpuSeconds(pid) - before[i]!) * 1e6) / events]),
  );
  return { ...result, eventsPerSecond: result.requestsPerSecond * kind.events, cpuMicroseconds };
}

function cpuSeconds(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
    return (Number(fields[11]) + Number(fields[12])) / CLOCK_TICKS_PER_SECOND;
  } catch {
    return 0;
  }
}

type Echo = { child: ChildProcess; port: number };

async function startEcho(): Promise<Echo> {
  const child = spawn(process.execPath, [assetPath('build/bench/echo-server.js')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(child.stdout!, 'data')) as [Buffer];
  return { child, port: Number(line.toString()) };
}

function report(turns: Map<string, Turn[]>): void {
  const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1]!;
  const of = (name: string, pick: (turn: Turn) => number) => median(turns.get(name)!.map(pick));
  for (const { kind } of KINDS) {
    const echoJson = of(`${kind} echo json`, (t) => t.eventsPerSecond);
    const echoBytes = of(`${kind} echo bytes`, (t) => t.eventsPerSecond);
    for (const target of TARGETS) {
      const name = `${kind} ${target}`;
      const eventsPerSecond = of(name, (t) => t.eventsPerSecond);
      const cpu = Object.keys(turns.get(name)![0]!.cpuMicroseconds);
      const line = {
        line: 'ingest',
        kind,
        target,
        eventsPerSecond: Math.round(eventsPerSecond),
        toJsonEcho: Number((eventsPerSecond / echoJson).toFixed(2)),
        toBytesEcho: Number((eventsPerSecond / echoBytes).toFixed(2)),
        p50Ms: of(name, (t) => t.p50Ms),
        p99Ms: of(name, (t) => t.p99Ms),
        failed: of(name, (t) => t.failed),
        cpuMicrosecondsPerEvent: Object.fromEntries(
          cpu.map((process) => [process, Number(of(name, (t) => t.cpuMicroseconds[process] ?? 0).toFixed(2))]),
        ),
      };
      process.stdout.write(`${JSON.stringify(line)}\n`);
    }
  }
}
