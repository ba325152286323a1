// Question: is every acknowledged event in ClickHouse exactly once, whatever is killed under load?
// Method: clients submit single events and batches without pause, each event with a marker of its own; a front, the
// pipelines, the embedded ClickHouse and Redis are killed (SIGKILL) in turn. At the end the backlog drains and every
// marker is counted in ClickHouse. Counted are acknowledged (2xx), stored, missing (acknowledged, not stored), twice
// (any marker more than once), ghosts (stored although refused with `recorded: false`), and kills that hit work in
// flight. A run in which fewer than 4 of 5 kills hit work in flight proves nothing and is INVALID, not passed.
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from '@clickhouse/client';
import { HttpClient } from './http-client.ts';
import { ROOM } from './ingest.ts';
import { type BenchService, startBenchService } from './service.ts';

const CLIENTS = 24;
const BATCH_EVENTS = 20;
const KILL_PAUSE_MS = 3_000;
const DRAIN_MS_MAX = 180_000;
const VICTIMS = ['front', 'pipelines', 'clickhouse', 'redis'] as const;

type Ledger = { acknowledged: Set<string>; refused: Set<string>; unknown: Set<string>; inFlight: number };

export async function durability(options: { kills: number }): Promise<boolean> {
  // Room for a backlog: clients that are refused have nothing in flight to be hit.
  const service = await startBenchService({ GATEHOUSE_FRONTS: '2', ...ROOM });
  const client = new HttpClient({ ...service, connections: CLIENTS });
  try {
    const agents = await Promise.all(Array.from({ length: 12 }, (_, i) => registerAgent(client, `durability-${i}`)));
    const ledger: Ledger = { acknowledged: new Set(), refused: new Set(), unknown: new Set(), inFlight: 0 };
    const stop = new AbortController();
    const clients = Array.from({ length: CLIENTS }, (_, i) =>
      submitUntil(stop.signal, client, agents[i % agents.length]!, i, ledger),
    );
    const hits = await killInTurn(service, ledger, options.kills);
    await sleep(1_000);
    stop.abort();
    await Promise.all(clients);
    return await settle(service, ledger, options.kills, hits);
  } finally {
    client.close();
    await service.stop();
  }
}

async function registerAgent(client: HttpClient, name: string): Promise<string> {
  return (await client.json<{ id: string }>('POST', '/v1/agents', { name })).id;
}

/** One client: a single event or a batch at a time, never sent again, so that every marker has one fate. */
async function submitUntil(
  stop: AbortSignal,
  client: HttpClient,
  agent: string,
  number: number,
  ledger: Ledger,
): Promise<void> {
  for (let round = 0; !stop.aborted; round++) {
    const count = round % 3 === 0 ? 1 : BATCH_EVENTS;
    const markers = Array.from({ length: count }, (_, i) => `m-${number}-${round}-${i}`);
    const events = markers.map((marker) => ({
      type: 'tool_call',
      payload: { marker, tool: 'probe', text: 'x'.repeat(200) },
    }));
    const path = `/v1/agents/${agent}/events${count === 1 ? '' : '/batch'}`;
    ledger.inFlight++;
    const fate = await fateOf(client.send('POST', path, JSON.stringify(count === 1 ? events[0] : events)));
    ledger.inFlight--;
    for (const marker of markers) ledger[fate].add(marker);
    if (fate !== 'acknowledged') await sleep(50);
  }
}

async function fateOf(sent: ReturnType<HttpClient['send']>): Promise<'acknowledged' | 'refused' | 'unknown'> {
  try {
    const { status, body } = await sent;
    if (status === 200 || status === 201) return 'acknowledged';
    return JSON.parse(body)?.error?.recorded === false ? 'refused' : 'unknown';
  } catch (error) {
    // There was no listener, so nothing was sent.
    return (error as NodeJS.ErrnoException).code === 'ECONNREFUSED' ? 'refused' : 'unknown';
  }
}

/** Kills the parts in turn; answers how many kills met requests in flight. */
async function killInTurn(service: BenchService, ledger: Ledger, kills: number): Promise<number> {
  let hits = 0;
  for (let k = 0; k < kills; k++) {
    await sleep(KILL_PAUSE_MS);
    const victim = VICTIMS[k % VICTIMS.length]!;
    const pid = await pidOf(service, victim);
    const { inFlight } = ledger;
    process.kill(pid, 'SIGKILL');
    if (inFlight > 0) hits++;
    process.stdout.write(
      `kill ${k + 1}/${kills}: ${victim}, ${inFlight} requests in flight, ${ledger.acknowledged.size} acknowledged, ` +
        `${ledger.refused.size} refused, ${ledger.unknown.size} unknown\n`,
    );
  }
  return hits;
}

/** The part may still be coming back from an earlier kill. */
async function pidOf(service: BenchService, name: (typeof VICTIMS)[number]): Promise<number> {
  for (let i = 0; i < 300; i++) {
    const child = (await service.children()).find((c) => c.name.startsWith(name));
    if (child !== undefined) return child.pid;
    await sleep(100);
  }
  throw new Error(`no process ${name} to kill`);
}

async function settle(service: BenchService, ledger: Ledger, kills: number, hits: number): Promise<boolean> {
  const counts = await storedCounts(service, ledger);
  const missing = [...ledger.acknowledged].filter((marker) => !counts.has(marker));
  const twice = [...counts].filter(([, count]) => count > 1);
  const ghosts = [...ledger.refused].filter((marker) => counts.has(marker));
  const valid = hits * 5 >= kills * 4;
  const passed = valid && missing.length === 0 && twice.length === 0 && ghosts.length === 0;
  const result = {
    line: 'durability',
    kills,
    killsInFlight: hits,
    acknowledged: ledger.acknowledged.size,
    stored: counts.size,
    missing: missing.length,
    twice: twice.length,
    ghosts: ghosts.length,
    unknown: ledger.unknown.size,
    unknownStored: [...ledger.unknown].filter((marker) => counts.has(marker)).length,
    verdict: valid ? (passed ? 'passed' : 'FAILED') : 'INVALID',
  };
  process.stdout.write(`${JSON.stringify(result)}\n`);
  if (missing.length > 0) process.stdout.write(`missing, first ten: ${missing.slice(0, 10).join(' ')}\n`);
  if (twice.length > 0) process.stdout.write(`twice, first ten: ${twice.slice(0, 10).join(' ')}\n`);
  return passed;
}

/** Marker -> rows, once every acknowledged marker is there or time is up, and the number no longer grows. */
async function storedCounts(service: BenchService, ledger: Ledger): Promise<Map<string, number>> {
  const { clickhouseUrl, clickhouseDatabase } = await service.addresses();
  const clickhouse = createClient({ url: clickhouseUrl, database: clickhouseDatabase, request_timeout: 60_000 });
  const query = `SELECT JSONExtractString(payload, 'marker') AS marker, toUInt32(count()) AS n FROM events WHERE startsWith(marker, 'm-') GROUP BY marker`;
  let counts = new Map<string, number>();
  let before = -1;
  try {
    for (const until = Date.now() + DRAIN_MS_MAX; Date.now() < until; await sleep(3_000)) {
      try {
        const rows = await (await clickhouse.query({ query, format: 'JSONEachRow' })).json<{
          marker: string;
          n: number;
        }>();
        counts = new Map(rows.map(({ marker, n }) => [marker, Number(n)]));
      } catch {
        continue; // the engine may still be on its way back
      }
      const complete = [...ledger.acknowledged].every((marker) => counts.has(marker));
      if (complete && counts.size === before) break;
      before = counts.size;
    }
  } finally {
    await clickhouse.close();
  }
  return counts;
}
