// Question: what grows with what: throughput and cost against fronts, partitions, agents and accounts?
// Method: one thing changed at a time, the others as in `ingest` (one front, eight partitions); single events and
// batches of 100 over a closed loop, medians over the turns. Fronts and partitions are settings of a start, so each of
// their turns has a service of its own; agents and accounts are taken in turn by the load, request by request, on one
// service that has them all. Each has sent an event before its first turn, so that what the front remembers is there.
// The accounts share a thousand agents out among them; each has the five policies.
import { gatehouse } from './contenders.ts';
import { whenDrained } from './gauges.ts';
import { HttpClient } from './http-client.ts';
import { MB } from './memory-watch.ts';
import { rssByPart } from './processes.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { oneRound, type Round, turnCells } from './rounds.ts';
import { type BenchService, startBenchService } from './service.ts';
import { inParallel, makeAccounts, makeAgents, setPolicies } from './setup.ts';
import { median } from './statistics.ts';
import { eventsPath, FIVE_POLICIES, KINDS, requestsOf, type Sender, sampleEvent } from './workload.ts';

const STARTS = [
  { about: 'fronts', x: 1, fronts: 1, partitions: 8 },
  { about: 'fronts', x: 2, fronts: 2, partitions: 8 },
  { about: 'partitions', x: 1, fronts: 1, partitions: 1 },
  { about: 'partitions', x: 4, fronts: 1, partitions: 4 },
  { about: 'partitions', x: 16, fronts: 1, partitions: 16 },
];
const AGENT_COUNTS = [10, 1_000, 100_000];
const ACCOUNT_COUNTS = [1, 100, 1_000];
const AGENTS = 1_000;

type Outcome = { turn: Round; frontMb: number };
type Results = Map<string, Outcome[]>;

export async function scale(options: { turns: number; seconds: number; agents: number }): Promise<boolean> {
  const machine = beginLine('scale');
  const results: Results = new Map();
  for (let turn = 1; turn <= options.turns; turn++) {
    for (const { about, x, fronts, partitions } of STARTS) {
      progress(`turn ${turn}/${options.turns}: ${x} ${about}`);
      await withService({ fronts, partitions }, async (service) => {
        const senders = (await makeAgents(service, AGENTS)).map((agent) => ({ agent, key: service.key }));
        await setPolicies(service, FIVE_POLICIES);
        await warm(service, senders);
        await measure(results, service, `${about} ${x}`, senders, options.seconds);
      });
    }
  }
  await withService({ fronts: 1, partitions: 8 }, (service) => populations(results, service, options));
  const rows = KINDS.flatMap(({ kind }) => [...results].filter(([name]) => name.startsWith(kind)).map(rowOf));
  const question = 'what grows with what: fronts, partitions, agents, accounts?';
  const command = `npm run bench -- scale --turns ${options.turns} --seconds ${options.seconds}`;
  hand({ line: 'scale', question, command, rows, charts: [chartOf(rows)] }, machine);
  return true;
}

async function withService(
  { fronts, partitions }: { fronts: number; partitions: number },
  use: (service: BenchService) => Promise<void>,
): Promise<void> {
  const service = await startBenchService({
    GATEHOUSE_FRONTS: String(fronts),
    GATEHOUSE_PARTITIONS: String(partitions),
  });
  try {
    await use(service);
  } finally {
    await service.stop();
  }
}

/** Agents of one account, then accounts. */
async function populations(
  results: Results,
  service: BenchService,
  options: { turns: number; seconds: number; agents: number },
): Promise<void> {
  await setPolicies(service, FIVE_POLICIES);
  const counts = [...new Set(AGENT_COUNTS.map((count) => Math.min(count, options.agents)))];
  progress(`registering ${counts.at(-1)} agents`);
  const agents = (await makeAgents(service, counts.at(-1)!)).map((agent) => ({ agent, key: service.key }));
  progress(`making ${ACCOUNT_COUNTS.at(-1)} accounts`);
  const keys = await makeAccounts(service, ACCOUNT_COUNTS.at(-1)!);
  const ofAccounts = new Map<number, Sender[]>();
  for (const count of ACCOUNT_COUNTS) ofAccounts.set(count, await spread(service, keys.slice(0, count)));
  for (const senders of [agents, ...ofAccounts.values()]) await warm(service, senders);
  for (let turn = 1; turn <= options.turns; turn++) {
    for (const count of counts) {
      progress(`turn ${turn}/${options.turns}: ${count} agents`);
      await measure(results, service, `agents ${count}`, agents.slice(0, count), options.seconds);
    }
    for (const [count, senders] of ofAccounts) {
      progress(`turn ${turn}/${options.turns}: ${count} accounts`);
      await measure(results, service, `accounts ${count}`, senders, options.seconds);
    }
  }
}

/** The agents shared out among the accounts, an account's turn after another's. */
async function spread(service: BenchService, keys: readonly string[]): Promise<Sender[]> {
  const each = AGENTS / keys.length;
  const perKey = await inParallel(keys.length, async (i) => {
    const account = { url: service.url, key: keys[i]! };
    await setPolicies(account, FIVE_POLICIES);
    return makeAgents(account, each, `of-${keys.length}`);
  });
  return Array.from({ length: AGENTS }, (_, i) => {
    const account = i % keys.length;
    return { agent: perKey[account]![Math.floor(i / keys.length)]!, key: keys[account]! };
  });
}

/**
 * One event of each: a front reads a key, an agent and an account's policies when it first meets them, and a turn of
 * seconds would else measure just that. Says what the first meetings took.
 */
async function warm(service: BenchService, senders: readonly Sender[]): Promise<void> {
  const clients = new Map<string, HttpClient>();
  const started = performance.now();
  await inParallel(senders.length, async (i) => {
    const { agent, key } = senders[i]!;
    const client = clients.get(key) ?? new HttpClient({ url: service.url, key, connections: 32 });
    clients.set(key, client);
    await client.send('POST', eventsPath(agent, 1), JSON.stringify(sampleEvent(i)));
  });
  for (const client of clients.values()) client.close();
  const perSecond = (senders.length / (performance.now() - started)) * 1000;
  progress(`first events of ${senders.length} agents of ${clients.size} accounts: ${Math.round(perSecond)} a second`);
  await whenDrained(service);
}

async function measure(
  results: Results,
  service: BenchService,
  name: string,
  senders: readonly Sender[],
  seconds: number,
): Promise<void> {
  for (const kind of KINDS) {
    const turn = await oneRound(gatehouse(service), requestsOf(senders, kind), seconds);
    await whenDrained(service);
    const frontMb = (rssByPart(await service.children()).get('front') ?? 0) / MB;
    const full = `${kind.kind}: ${name}`;
    results.set(full, [...(results.get(full) ?? []), { turn, frontMb }]);
    progress(`${full}: ${Math.round(turn.eventsPerSecond)} events/s`);
  }
}

function rowOf([name, outcomes]: [string, readonly Outcome[]]): Row {
  // The turn whose speed is the median, with all that was measured in it.
  const middle = outcomes.toSorted((a, b) => a.turn.eventsPerSecond - b.turn.eventsPerSecond)[outcomes.length >> 1]!;
  return {
    '': name,
    ...turnCells(middle.turn),
    'fronts, MB': median(outcomes.map(({ frontMb }) => frontMb)),
  };
}

function chartOf(rows: readonly Row[]) {
  const groups = KINDS.map(({ kind }) => ({
    name: kind,
    bars: rows
      .filter((row) => String(row['']).startsWith(kind))
      .map((row) => ({ name: String(row['']).slice(kind.length + 2), value: Number(row['events/s']) })),
  }));
  return { kind: 'bars' as const, title: 'What grows with what', unit: 'events/s', groups };
}
