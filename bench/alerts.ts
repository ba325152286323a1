// Question: how soon is a blocked event notified, what does a killed pipelines process lose, and whom do bad targets
// delay? Method: the whole service, with real receivers on loopback (HTTPS with a certificate of their own authority,
// SMTP).
//   latency   blocked events one after the other; from the moment a request is sent until each channel's receiver has
//             read it.
//   kills     50 alerts to 10 hosts that take a second to answer, 40 events: 2,000 notifications. The pipelines process
//             is killed (SIGKILL) again and again while they are due. Each pair of alert and event must arrive, under
//             one webhook-id. A run in which fewer than 4 of 5 kills hit sends in flight proves nothing and is INVALID.
//   targets   50 alerts to 50 hosts, an event a second; in turns with all of them sound, and with one that hangs and
//             one that answers 500. Compared is the p99 of the 48 others, from the request to the receiver.
// A name behind the line's runs that part alone.
import { setTimeout as sleep } from 'node:timers/promises';
import { authorityFile } from '../test/support/certificate.ts';
import { type Received, type Receiver, startReceiver } from '../test/support/https-receiver.ts';
import { startSmtp } from '../test/support/smtp-server.ts';
import { Teardowns } from './ending.ts';
import { HttpClient } from './http-client.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { type BenchService, startBenchService } from './service.ts';
import { percentile, sorted } from './statistics.ts';

const LATENCY_MS_MAX = 2_000;
const DELAY_MS_MAX = 1_000;
const ALERTS = 50;
const SLOW_HOSTS = 10;
const SLOW_ANSWER_MS = 1_000;
const EVENTS_KILLED = 40;
const KILL_AFTER_MS = 1_500;
const EVENTS_TARGETS = 50;
const EVENT_PAUSE_MS = 1_000;
/** Connections, caches, compiled code. */
const EVENTS_WARM = 5;
const TURNS = 2;
const SETTLE_MS_MAX = 240_000;

/** `part`: latency, kills or targets; undefined: all. */
export type AlertsOptions = { events: number; kills: number; part?: string | undefined };

/** A service under measurement with its client. `end` ends what tests leave to the teardown of the test. */
type Setting = { service: BenchService; client: HttpClient; agent: string; end: () => Promise<void> };

export async function alerts(options: AlertsOptions): Promise<boolean> {
  const machine = beginLine('alerts');
  const parts = { latency: measureLatency, kills: killPipelines, targets: badTargets };
  const rows: Row[] = [];
  let passed = true;
  for (const [name, measure] of Object.entries(parts)) {
    if (options.part !== undefined && options.part !== name) continue;
    const found = await measure(options);
    rows.push(...found.rows);
    passed &&= found.passed;
  }
  const question = 'how soon is a blocked event told, what does a kill lose, and whom do bad targets delay?';
  const command = `npm run bench -- alerts --tries ${options.events} --kills ${options.kills}`;
  hand({ line: 'alerts', question, command, rows }, machine);
  return passed;
}

// -- latency

async function measureLatency({ events }: AlertsOptions): Promise<{ rows: Row[]; passed: boolean }> {
  const teardowns = new Teardowns();
  const [hook, chat] = [await startReceiver(teardowns), await startReceiver(teardowns)];
  const smtp = await startSmtp(teardowns);
  const setting = await begin(teardowns, [hook, chat], { GATEHOUSE_SMTP_URL: smtp.url });
  try {
    await makeAlert(setting, 'webhook', `${hook.url}/h`);
    await makeAlert(setting, 'chat_app', `${chat.url}/c`);
    await makeAlert(setting, 'email', 'oncall@example.com');
    const channels = { webhook: hook.received, chat_app: chat.received, email: smtp.mails };
    const took = new Map<string, number[]>(Object.keys(channels).map((name) => [name, []]));
    for (let i = 0; i < events; i++) {
      const [sentAt] = [Date.now(), await block(setting, i)];
      for (const [name, received] of Object.entries(channels)) {
        await until(() => received.length > i, 30_000);
        took.get(name)!.push(received[i]!.atMs - sentAt);
      }
      if ((i + 1) % 100 === 0) progress(`${i + 1} of ${events} events told by three channels`);
    }
    const rows = [...took].map(([channel, ms]) => latencyRow('latency', channel, ms));
    return { rows, passed: [...took.values()].every((ms) => percentile(sorted(ms), 0.99) < LATENCY_MS_MAX) };
  } finally {
    await setting.end();
  }
}

// -- kills

async function killPipelines({ kills }: AlertsOptions): Promise<{ rows: Row[]; passed: boolean }> {
  const teardowns = new Teardowns();
  const hosts: Receiver[] = [];
  let inFlight = 0;
  const answer = (_request: Received, response: { end(): void }) => {
    inFlight++;
    setTimeout(() => {
      inFlight--;
      response.end();
    }, SLOW_ANSWER_MS);
  };
  for (let i = 0; i < SLOW_HOSTS; i++) hosts.push(await startReceiver(teardowns, { answer }));
  const setting = await begin(teardowns, hosts);
  try {
    const made: string[] = [];
    for (let i = 0; i < ALERTS; i++)
      made.push(await makeAlert(setting, 'webhook', `${hosts[i % SLOW_HOSTS]!.url}/${i}`));
    const events: string[] = [];
    for (let i = 0; i < EVENTS_KILLED; i++) events.push(await block(setting, i));
    const expected = new Set(made.flatMap((alert) => events.map((event) => `${alert} ${event}`)));
    const { hits, late } = await killWhileDue(setting, { kills, hosts, expected, inFlight: () => inFlight });
    await until(() => pairsOf(hosts).size >= expected.size, SETTLE_MS_MAX, 1_000).catch(() => undefined);
    const pairs = pairsOf(hosts);
    const missing = [...expected].filter((pair) => !pairs.has(pair));
    const renamed = [...pairs.values()].filter(({ ids }) => ids.size > 1);
    const requests = [...pairs.values()].reduce((sum, { count }) => sum + count, 0);
    const valid = hits * 5 >= kills * 4 && late === 0;
    const passed = valid && missing.length === 0 && renamed.length === 0 && pairs.size === expected.size;
    const verdict = valid ? (passed ? 'passed' : 'FAILED') : 'INVALID';
    const counts = {
      expected: expected.size,
      arrived: pairs.size,
      missing: missing.length,
      repeats: requests - pairs.size,
    };
    return {
      rows: [{ part: 'kills', what: `${kills} kills, ${hits} hit sends`, ...counts, renamed: renamed.length, verdict }],
      passed,
    };
  } finally {
    await setting.end();
  }
}

/** `late`: kills after everything had arrived. */
async function killWhileDue(
  { service }: Setting,
  run: { kills: number; hosts: Receiver[]; expected: Set<string>; inFlight: () => number },
): Promise<{ hits: number; late: number }> {
  let [hits, late] = [0, 0];
  for (let k = 1; k <= run.kills; k++) {
    const pid = await pidOf(service, 'pipelines');
    const before = received(run.hosts);
    // The process has begun to send, so the kill comes in the middle of it.
    await until(() => received(run.hosts) > before, 60_000).catch(() => undefined);
    await sleep(KILL_AFTER_MS * Math.random());
    if (pairsOf(run.hosts).size >= run.expected.size) late++;
    if (run.inFlight() > 0) hits++;
    const flying = run.inFlight();
    process.kill(pid, 'SIGKILL');
    progress(`kill ${k}/${run.kills}: ${flying} in flight, ${pairsOf(run.hosts).size} of ${run.expected.size} arrived`);
    await until(async () => (await service.children()).every((child) => child.pid !== pid), 30_000, 50);
  }
  return { hits, late };
}

/** By alert and event: the ids under which it came, and how often. */
function pairsOf(hosts: readonly Receiver[]): Map<string, { ids: Set<string>; count: number }> {
  const pairs = new Map<string, { ids: Set<string>; count: number }>();
  for (const { headers, body } of hosts.flatMap((host) => host.received)) {
    const { data } = JSON.parse(body) as { data: { alert: { id: string }; event: { id: string } } };
    const name = `${data.alert.id} ${data.event.id}`;
    const pair = pairs.get(name) ?? { ids: new Set(), count: 0 };
    pairs.set(name, pair);
    pair.ids.add(String(headers['webhook-id']));
    pair.count++;
  }
  return pairs;
}

function received(hosts: readonly Receiver[]): number {
  return hosts.reduce((sum, host) => sum + host.received.length, 0);
}

async function pidOf(service: BenchService, name: string): Promise<number> {
  let pid: number | undefined;
  await until(
    async () => {
      pid = (await service.children()).find((child) => child.name.startsWith(name))?.pid;
      return pid !== undefined;
    },
    60_000,
    50,
  );
  return pid!;
}

// -- targets

async function badTargets(): Promise<{ rows: Row[]; passed: boolean }> {
  const teardowns = new Teardowns();
  const hosts: Receiver[] = [];
  for (let i = 0; i < ALERTS; i++) hosts.push(await startReceiver(teardowns));
  const setting = await begin(teardowns, hosts);
  try {
    for (const [i, host] of hosts.entries()) await makeAlert(setting, 'webhook', `${host.url}/${i}`);
    const [hanging, failing, ...sound] = hosts;
    await othersLatency(setting, sound, EVENTS_WARM);
    const [without, withBad]: number[][] = [[], []];
    for (let turn = 1; turn <= TURNS; turn++) {
      hanging!.answer = failing!.answer = (_request, response) => void response.end();
      without!.push(...(await othersLatency(setting, sound, EVENTS_TARGETS)));
      hanging!.answer = () => undefined;
      failing!.answer = (_request, response) => void response.writeHead(500).end();
      withBad!.push(...(await othersLatency(setting, sound, EVENTS_TARGETS)));
    }
    const rows = [
      latencyRow('targets', '48 of 50 sound', without!),
      latencyRow('targets', '48, one hangs, one fails', withBad!),
    ];
    const grown = percentile(sorted(withBad!), 0.99) - percentile(sorted(without!), 0.99);
    const complete = [without, withBad].every((ms) => ms!.length === sound.length * EVENTS_TARGETS * TURNS);
    return { rows, passed: complete && grown < DELAY_MS_MAX };
  } finally {
    await setting.end();
  }
}

async function othersLatency(setting: Setting, sound: readonly Receiver[], events: number): Promise<number[]> {
  const sentAt = new Map<string, number>();
  for (const host of sound) host.received.length = 0;
  for (let i = 0; i < events; i++) {
    const at = Date.now();
    sentAt.set(await block(setting, i), at);
    await sleep(Math.max(0, EVENT_PAUSE_MS - (Date.now() - at)));
  }
  await until(() => received(sound) >= sound.length * events, 60_000).catch(() => undefined);
  progress(`${received(sound)} notifications at ${sound.length} hosts`);
  return sound.flatMap((host) =>
    host.received.map(({ body, atMs }) => {
      const { data } = JSON.parse(body) as { data: { event: { id: string } } };
      return atMs - sentAt.get(data.event.id)!;
    }),
  );
}

// -- what the parts share

/** The service, an agent, and a policy that blocks. */
async function begin(
  teardowns: Teardowns,
  hosts: readonly Receiver[],
  env: Record<string, string> = {},
): Promise<Setting> {
  const service = await startBenchService({
    GATEHOUSE_EGRESS_ALLOWED_HOSTS: hosts.map(({ port }) => `localhost:${port}`).join(','),
    NODE_EXTRA_CA_CERTS: await authorityFile(teardowns),
    ...env,
  });
  const client = new HttpClient({ ...service, connections: 8 });
  const end = async () => {
    client.close();
    await service.stop();
    await teardowns.run();
  };
  const { id: agent } = await client.json<{ id: string }>('POST', '/v1/agents', { name: 'told-of' });
  const policy = { name: 'no payments', type: 'block_action', conditions: { tool: 'pay' }, actions: ['block'] };
  await client.json('POST', '/v1/policies', policy);
  await sleep(1_000); // in force
  return { service, client, agent, end };
}

async function makeAlert({ client }: Setting, channel: string, target: string): Promise<string> {
  const name = `${channel} ${target}`;
  const body = { name, trigger: 'policy_violation', channel, target, throttle_seconds: 0 };
  return (await client.json<{ id: string }>('POST', '/v1/alerts', body)).id;
}

/** A blocked event; its id. */
async function block({ client, agent }: Setting, number: number): Promise<string> {
  const event = { type: 'tool_call', payload: { tool: 'pay', number } };
  return (await client.json<{ id: string }>('POST', `/v1/agents/${agent}/events`, event)).id;
}

function latencyRow(part: string, what: string, ms: readonly number[]): Row {
  const all = sorted(ms);
  return {
    part,
    what,
    notifications: ms.length,
    p50Ms: percentile(all, 0.5),
    p99Ms: percentile(all, 0.99),
    maxMs: all.at(-1),
  };
}

async function until(holds: () => boolean | Promise<boolean>, ms: number, pollMs = 5): Promise<void> {
  const end = performance.now() + ms;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`did not come true within ${ms} ms`);
    await sleep(pollMs);
  }
}
