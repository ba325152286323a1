// Question: does a list that starts after a write was acknowledged show that write, every time, under load?
// Method: background clients submit batches without pause; probing clients submit one event and at once list the
// agent's events over another connection, `tries` times in all. A try fails if the event is not on the first page or is
// there twice. An answer that says it is incomplete (the store was not done within 2 s) has kept its word; those are
// counted apart.
import { setTimeout as sleep } from 'node:timers/promises';
import { HttpClient } from './http-client.ts';
import { startBenchService } from './service.ts';
import { makeAgents } from './setup.ts';

/** Two of them under load, two probed: few, so that the probes share inserts and the run is over within minutes. */
const AGENTS = 4;
const PROBES = 16;
const LOADERS = 2;
/**
 * Keeps the load at some hundreds of events a second: asked is whether reads are fresh, not how much the machine can
 * do.
 */
const LOAD_PAUSE_MS = 100;
const LOAD_BATCH = 50;
/** The other probes' events of the meantime are on the page as well. */
const PAGE = 100;

class Tally {
  left: number;
  missing = 0;
  incomplete = 0;
  loaded = 0;
  readonly readMs: number[] = [];

  constructor(tries: number) {
    this.left = tries;
  }

  summary() {
    const sorted = this.readMs.toSorted((a, b) => a - b);
    const at = (share: number) => Math.round(sorted[Math.floor((sorted.length - 1) * share)]!);
    const { missing, incomplete, loaded: loadEvents } = this;
    return { tries: sorted.length, missing, incomplete, loadEvents, readP50Ms: at(0.5), readP99Ms: at(0.99) };
  }
}

export async function freshReads(options: { tries: number }): Promise<boolean> {
  const service = await startBenchService({ GATEHOUSE_FRONTS: '2' });
  try {
    const agents = await makeAgents(service, AGENTS, 'fresh');
    const found = await measureFresh(service, agents, { ...options, loaders: LOADERS });
    process.stdout.write(`${JSON.stringify({ line: 'fresh-reads', ...found })}\n`);
    return found.missing === 0;
  } finally {
    await service.stop();
  }
}

/** `loaders`: how many of the agents are under load; the others are probed. */
export async function measureFresh(
  service: { url: string; key: string },
  agents: readonly string[],
  { tries, loaders }: { tries: number; loaders: number },
): Promise<ReturnType<Tally['summary']>> {
  const client = new HttpClient({ ...service, connections: PROBES + LOADERS });
  const stop = new AbortController();
  const tally = new Tally(tries);
  try {
    const load = agents.slice(0, loaders).map((agent) => loadUntil(stop.signal, client, agent, tally));
    const probed = agents.slice(loaders);
    await Promise.all(Array.from({ length: PROBES }, (_, i) => probe(client, probed[i % probed.length]!, tally)));
    stop.abort();
    await Promise.all(load);
  } finally {
    stop.abort();
    client.close();
  }
  return tally.summary();
}

async function loadUntil(stop: AbortSignal, client: HttpClient, agent: string, tally: Tally): Promise<void> {
  const event = { type: 'custom', payload: { text: 'y'.repeat(300) } };
  const batch = JSON.stringify(Array.from({ length: LOAD_BATCH }, () => event));
  while (!stop.aborted) {
    await client.send('POST', `/v1/agents/${agent}/events/batch`, batch);
    tally.loaded += LOAD_BATCH;
    await sleep(LOAD_PAUSE_MS);
  }
}

async function probe(client: HttpClient, agent: string, tally: Tally): Promise<void> {
  const path = `/v1/agents/${agent}/events`;
  while (tally.left-- > 0) {
    const { id } = await client.json<{ id: string }>('POST', path, { type: 'prompt', payload: { left: tally.left } });
    const started = performance.now();
    const { status, body, headers } = await client.send('GET', `${path}?limit=${PAGE}`);
    tally.readMs.push(performance.now() - started);
    const found = status === 200 ? body.split(`"id":"${id}"`).length - 1 : 0;
    if (headers['gatehouse-incomplete'] !== undefined) tally.incomplete++;
    else if (found !== 1) tally.missing++;
    if (tally.readMs.length % 500 === 0) process.stdout.write(`${JSON.stringify(tally.summary())}\n`);
  }
}
