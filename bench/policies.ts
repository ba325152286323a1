// Question: what does an event cost against the number of policies, of patterns, and against the size of its payload?
// Method: batches over a closed loop, one thing changed at a time, all settings in turns, medians over the turns. What
// counts is the processor time of the front per event, and beside it what judging costs by itself (policies-inside.ts),
// since the front's is mostly its sockets'. Few connections, so that large bodies are not measured by the memory that
// waits with them. Policies beyond the five of every line name other tools, types, models, codes and words than the
// events have, in eight forms (conditions, expressions, patterns), as most policies of an account concern most events
// not at all. Patterns are all run over every string. A policy that asks a check outside is of an event that never
// comes: who has none, or is not asked, must not notice that there are any. Beside these, on a load of their own,
// policies that look at what was before (policies-over-time.ts).
import { gatehouse } from './contenders.ts';
import { HttpClient } from './http-client.ts';
import { costsInside, type Inside } from './policies-inside.ts';
import { loadOverTime, OVER_TIME, untilKnown } from './policies-over-time.ts';
import { beginLine, hand, type Row } from './report.ts';
import { type Entrant, type Round, runRounds, turnCells } from './rounds.ts';
import { type BenchService, startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import {
  BATCH_EVENTS,
  bodiesOf,
  FIVE_POLICIES,
  PATTERNS,
  type PolicyOrder,
  type Requests,
  requestsOf,
  sampleEvent,
} from './workload.ts';

const POLICY_COUNTS = [0, 5, 50, 200, 1_000];
const PATTERN_COUNTS = [0, 5, 50];
/** Policies that ask a check, beside the five. */
const CHECK_COUNTS = [0, 1];
const PAYLOAD_KB = [0.5, 4, 64];
/** Small enough for 64 KB events; the same for all sizes, so that only the size differs. */
const SIZED_BATCH = 16;
const CONNECTIONS = 8;
const KB = 1024;

type Setting = {
  about: 'policies' | 'patterns' | 'payload KB' | 'checks';
  x: number;
  policies: PolicyOrder[];
  load: Requests;
};

export async function policies(options: { turns: number; seconds: number }): Promise<boolean> {
  const machine = beginLine('policies');
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1' });
  try {
    const [agent] = (await makeAgents(service, 1)) as [string];
    await makeCheck(service);
    const settings = settingsFor(agent, service.key);
    const entrants: Entrant[] = settings.map((setting) => ({
      name: nameOf(setting),
      contender: gatehouse(service),
      load: setting.load,
      before: () => setPolicies(service, setting.policies),
    }));
    const inside = costsInside(
      settings.map(({ policies, load }) => ({ policies, body: load.bodies[0]!, events: load.eventsPerRequest })),
    );
    const overTime = entrantsOverTime(service, agent);
    const results = await runRounds([...entrants, ...overTime], { ...options, services: [service] });
    const front = (setting: Setting) => results.get(nameOf(setting))!.cpu['front']!;
    const rows = settings.map((setting, i) => {
      const five = fiveOf(settings, setting);
      const own = { inside: inside[i]!, five: inside[settings.indexOf(five)]! };
      return rowOf(setting, results.get(nameOf(setting))!, front(five), own);
    });
    rows.push(...overTime.map(({ name }) => rowOverTime(name, results)));
    const charts = (['policies', 'patterns', 'payload KB'] as const).map((about) => {
      const own = settings.filter((setting) => setting.about === about);
      return costChart(
        about,
        own.map((setting) => ({ x: setting.x, y: front(setting) })),
      );
    });
    const question = 'what does an event cost against policies, patterns and payload?';
    const command = `npm run bench -- policies --turns ${options.turns} --seconds ${options.seconds}`;
    hand({ line: 'policies', question, command, rows, charts }, machine);
    return true;
  } finally {
    await service.stop();
  }
}

function entrantsOverTime(service: BenchService, agent: string): Entrant[] {
  const load = loadOverTime(agent, service.key, CONNECTIONS);
  return Object.entries(OVER_TIME).map(([name, policies]) => ({
    ...{ name, contender: gatehouse(service), load },
    before: async () => {
      await setPolicies(service, policies);
      await untilKnown(service, load, agent);
    },
  }));
}

function rowOverTime(name: string, results: ReadonlyMap<string, Round>): Row {
  const [turn, none] = [results.get(name)!, results.get(Object.keys(OVER_TIME)[0]!)!];
  return { '': name, ...turnCells(turn), 'front to none': turn.cpu['front']! / none.cpu['front']! };
}

function settingsFor(agent: string, key: string): Setting[] {
  const batch = loadOf(agent, key, BATCH_EVENTS, (i) => sampleEvent(i));
  return [
    ...POLICY_COUNTS.map((x): Setting => ({ about: 'policies', x, policies: policiesOf(x), load: batch })),
    ...PATTERN_COUNTS.map((x): Setting => ({ about: 'patterns', x, policies: filterOf(x), load: batch })),
    ...PAYLOAD_KB.map((x): Setting => {
      const load = loadOf(agent, key, SIZED_BATCH, (i) => eventOfSize(i, x * KB));
      return { about: 'payload KB', x, policies: FIVE_POLICIES, load };
    }),
    ...CHECK_COUNTS.map((x): Setting => {
      return { about: 'checks', x, policies: [...FIVE_POLICIES, ...Array<PolicyOrder>(x).fill(ASKING)], load: batch };
    }),
  ];
}

function loadOf(agent: string, key: string, count: number, make: (i: number) => object): Requests {
  return requestsOf([{ agent, key }], { events: count, connections: CONNECTIONS }, bodiesOf(count, make));
}

const CHECK = { name: 'guard', speaks: 'gatehouse', url: 'https://guard.example.com/judge' };
const ASKING: PolicyOrder = {
  ...{ name: 'asks', type: 'external_check', actions: ['block'] },
  conditions: { type: 'error', check: CHECK.name, on_timeout: 'skip', on_error: 'skip', on_overload: 'skip' },
};

async function makeCheck(service: { url: string; key: string }): Promise<void> {
  const client = new HttpClient({ ...service, connections: 1 });
  await client.json('POST', '/v1/checks', CHECK).finally(() => client.close());
}

/** The five of every line, then such as concern other events. */
export function policiesOf(count: number): PolicyOrder[] {
  const others = Array.from({ length: Math.max(0, count - FIVE_POLICIES.length) }, (_, i): PolicyOrder => {
    const conditions = [
      { type: 'tool_call', tool: [`tool-${i}`, `tool-${i}-beta`] },
      { type: 'completion', model: `model-${i}` },
      { type: 'tool_call', tool: `transfer-${i}`, 'payload.arguments.amount': { gt: i } },
      { type: 'prompt', 'payload.prompt': { contains: `word-${i}` } },
      { expression: `event.type == "tool_call" && has(event.payload.code) && event.payload.code == "code-${i}"` },
      { patterns: [`ticket ${i}-[a-z0-9]{4,}`] },
      { expression: `has(event.payload.result) && event.payload.result.contains("order-${i}")` },
      { 'payload.arguments.user': { matches: `(?i)^clerk${i}-[A-Z]{2}[0-9]{3,8}$` } },
    ][i % 8]!;
    return {
      ...{ name: `other-${i}`, conditions, actions: ['block'] },
      type: 'patterns' in conditions ? 'data_filter' : 'block_action',
    };
  });
  return [...FIVE_POLICIES, ...others].slice(0, count);
}

/** One filter with so many patterns, of the kinds that people write. */
function filterOf(count: number): PolicyOrder[] {
  const more = Array.from({ length: 45 }, (_, i) => {
    return [`secret-${i}-[a-z0-9]{8}`, `ticket ${i}[0-9]{4}`, `[a-z]+@host${i}\\.example`, `(?i)project orion ${i}`][
      i % 4
    ]!;
  });
  const patterns = [...PATTERNS, ...more].slice(0, count);
  if (count === 0) return [];
  return [{ name: 'filter', type: 'data_filter', conditions: { patterns }, actions: ['block'] }];
}

/** The event of every line with a longer result. */
function eventOfSize(i: number, bytes: number): object {
  const without = JSON.stringify(sampleEvent(i, 0)).length;
  return sampleEvent(i, bytes - without);
}

function nameOf({ about, x }: Setting): string {
  return `${about} ${x}`;
}

const BASES: Partial<Record<Setting['about'], number>> = { 'payload KB': PAYLOAD_KB[0]!, checks: 0 };

/** The setting with which a setting's cost is compared: five of its kind, the smallest payload, or no checks. */
function fiveOf(settings: readonly Setting[], { about }: Setting): Setting {
  return settings.find((setting) => setting.about === about && setting.x === (BASES[about] ?? 5))!;
}

function rowOf(
  { about, x }: Setting,
  turn: Round,
  five: number,
  { inside, five: fiveInside }: { inside: Inside; five: Inside },
): Row {
  const { 'front, CPU µs an event': front, ...cells } = turnCells(turn);
  const against =
    about === 'payload KB'
      ? { 'front to 0.5 KB': turn.cpu['front']! / five }
      : { 'front to five': turn.cpu['front']! / five };
  return {
    '': `${x} ${about === 'payload KB' ? 'KB of payload' : about}`,
    'front, CPU µs an event': front,
    ...against,
    'read and judge, ns an event': inside.plainNs,
    [`that to ${about === 'payload KB' ? '0.5 KB' : 'five'}`]: inside.plainNs / fiveInside.plainNs,
    'judge parsed values, ns an event': inside.valuesNs,
    ...cells,
  };
}

function costChart(about: string, points: { x: number; y: number }[]) {
  return {
    kind: 'lines' as const,
    title: `Cost of an event against ${about}`,
    xTitle: about,
    yTitle: 'CPU µs of the front an event',
    series: [{ name: 'front', points }],
  };
}
