// Order, through the whole service with two fronts: whatever was sent comes back as it was sent, in traces, lists both
// ways, cursors, exports and the audit log. Batches come over many connections at once, which the kernel shares out
// among the fronts; then fronts are killed while they come. GATEHOUSE_TEST_SHARE takes a part of the batches.
import { Agent, request } from 'node:http';
import t, { type Test } from 'tap';
import { isAlive } from '../support/alive.ts';
import { Api } from '../support/api.ts';
import { pause } from '../support/raw-http.ts';
import { runs } from '../support/seed.ts';
import { startService } from '../support/service.ts';

const BATCHES = runs(1_000);
const BATCHES_BETWEEN_KILLS = 20;
const KILLS = 3;
const EVENTS = 8;
const CALLERS = 16;
const READERS = 8;

const service = await startService(t, { env: { GATEHOUSE_FRONTS: '2' } });
const api = new Api(t, service);
const newAgent = async (name: string) => (await api.post('/v1/agents', { name })).json.id as string;
const agent = await newAgent('ordered');
for (const policy of [
  { name: 'no transfers', type: 'block_action', conditions: { tool: 'transfer' }, actions: ['block'] },
  {
    name: 'far',
    type: 'rate_limit',
    conditions: { threshold: 900_000, window: '1m', tool: 'search' },
    actions: ['block'],
  },
])
  if ((await api.post('/v1/policies', policy)).status !== 201) throw new Error(`no policy ${policy.name}`);
await api.submitUntil('blocked', agent, { type: 'tool_call', payload: { tool: 'transfer' } });

type Sent = { id: string; trace_id?: string; payload: { n: number }; timestamp: string; received_at: string };
type Entry = { action: string; resource_id: string };

/** Over a connection of its own, at whichever front takes it. undefined: the front went away. */
function post(path: string, body: unknown, more: { agent?: Agent; key?: string } = {}): Promise<string | undefined> {
  const bytes = JSON.stringify(body);
  const headers = {
    ...{ authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
    ...(more.key === undefined ? {} : { 'idempotency-key': more.key }),
  };
  return new Promise((resolve) => {
    const sent = request(
      `${service.url}${path}`,
      { method: 'POST', headers, agent: more.agent ?? false },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk;
        });
        const isTaken = response.statusCode === 200 || response.statusCode === 201;
        response.once('end', () => resolve(isTaken ? text : undefined)).once('error', () => resolve(undefined));
      },
    );
    sent.once('error', () => resolve(undefined));
    sent.end(bytes);
  });
}

/** Limited and blocked ones among them; every other batch says one time for all of its events. */
function batch(run: string, i: number) {
  const time = i % 2 === 0 ? {} : { timestamp: new Date().toISOString() };
  return Array.from({ length: EVENTS }, (_, n) => {
    const tool = ['search', 'transfer', 'read'][(i + n) % 3]!;
    const type = n % 4 === 0 ? 'prompt' : 'tool_call';
    return { type, trace_id: `${run}-${i}`, payload: type === 'prompt' ? { n, text: 'go on' } : { n, tool }, ...time };
  });
}

/** As they were sent. */
type Run = { agent: string; run: string; sent: Map<string, readonly Sent[]> };

async function sendBatches(own: string, run: string, count: number, isKeyed = false): Promise<Run> {
  const sent = new Map<string, readonly Sent[]>();
  let next = 0;
  const caller = async () => {
    const connection = new Agent({ keepAlive: true, maxSockets: 1 });
    for (let i = next++; i < count; i = next++) {
      const body = batch(run, i);
      const key = isKeyed ? { key: `${run}-${i}` } : { agent: connection };
      for (let tries = 0; !sent.has(`${run}-${i}`); tries++) {
        const text = await post(`/v1/agents/${own}/events/batch`, body, key);
        if (text !== undefined) sent.set(`${run}-${i}`, (JSON.parse(text) as { results: Sent[] }).results);
        else if (tries > 200) throw new Error(`batch ${i} was not taken`);
        else await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
    connection.destroy();
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  return { agent: own, run, sent };
}

/** All that a list has, page by page. */
async function walked<T>(path: string, items: string, limit = 500): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | null = null;
  do {
    const next = cursor === null ? '' : `&cursor=${cursor}`;
    const { json } = await api.get(`${path}&limit=${limit}${next}`);
    all.push(...(json[items] as T[]));
    cursor = json.next_cursor as string | null;
  } while (cursor !== null);
  return all;
}

function byTrace(events: readonly Sent[], run: string): Map<string, string[]> {
  const traces = new Map<string, string[]>();
  for (const { id, trace_id: trace } of events)
    if (trace?.startsWith(`${run}-`)) traces.set(trace, [...(traces.get(trace) ?? []), id]);
  return traces;
}

/** Every way in which events are read shows those of a batch as they were sent. */
async function checkBatches(t: Test, { agent: own, run, sent }: Run): Promise<void> {
  const ids = new Map([...sent].map(([trace, events]) => [trace, events.map(({ id }) => id)]));
  const reversed = new Map([...ids].map(([trace, some]) => [trace, [...some].reverse()]));
  const wrong = (seen: ReadonlyMap<string, string[]>, wanted: ReadonlyMap<string, string[]>) =>
    [...wanted].filter(([trace, some]) => seen.get(trace)?.join() !== some.join()).map(([trace]) => trace);
  t.same(
    [...sent].filter(([, events]) => events.some(({ payload }, n) => payload.n !== n)),
    [],
    'answered in order',
  );
  for (const of of [`/v1/events?agent_id=${own}&`, `/v1/agents/${own}/events?`]) {
    const list = async (order: string, limit?: number) =>
      byTrace(await walked<Sent>(`${of}order=${order}`, 'items', limit), run);
    t.same(wrong(await list('asc'), ids), [], `${of} oldest first`);
    t.same(wrong(await list('desc', 487), reversed), [], `${of} newest first`);
  }
  const exported = (await api.get(`/v1/events/export?agent_id=${own}&order=asc`)).text.trim().split('\n');
  t.same(
    wrong(
      byTrace(
        exported.map((line) => JSON.parse(line) as Sent),
        run,
      ),
      ids,
    ),
    [],
    'exported',
  );
  const traces = new Map<string, string[]>();
  const names = [...ids.keys()];
  const reader = async () => {
    for (let trace = names.pop(); trace !== undefined; trace = names.pop()) {
      const { json } = await api.get(`/v1/traces/${trace}?payload=none`);
      traces.set(
        trace,
        (json.events as Sent[]).map(({ id }) => id),
      );
    }
  };
  await Promise.all(Array.from({ length: READERS }, reader));
  t.same(wrong(traces, ids), [], 'each trace');

  const traceOf = new Map(
    [...sent].flatMap(([trace, events]) => events.map(({ id }): [string, string] => [id, trace])),
  );
  const wanted = new Map(
    [...sent].map(([trace, events]) => [
      trace,
      events.flatMap(({ id, payload }) => {
        const isBlocked = (payload as { tool?: string }).tool === 'transfer';
        return [`event.submitted ${id}`, ...(isBlocked ? [`event.blocked ${id}`] : [])];
      }),
    ]),
  );
  for (const order of ['asc', 'desc']) {
    const entries = await walked<Entry>(`/v1/audit-logs?actor=agent:${own}&order=${order}`, 'logs');
    if (order === 'desc') entries.reverse();
    const seen = new Map<string, string[]>();
    for (const { action, resource_id: id } of entries) {
      const trace = traceOf.get(id);
      if (trace !== undefined) seen.set(trace, [...(seen.get(trace) ?? []), `${action} ${id}`]);
    }
    t.same(wrong(seen, wanted), [], `audit log, ${order}`);
  }
}

async function acceptedByFront(): Promise<number[]> {
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  return ['front-1', 'front-2'].map((front) =>
    Number(new RegExp(`^gatehouse_accepted_events_total\\{process="${front}"\\} (\\S+)$`, 'm').exec(metrics)?.[1] ?? 0),
  );
}

t.test(`${BATCHES} batches through two fronts at once come back as they were sent`, async (t) => {
  const run = await sendBatches(agent, 'run', BATCHES);
  t.equal(run.sent.size, BATCHES);
  const accepted = await acceptedByFront();
  t.ok(
    accepted.every((events) => events > 0),
    `both fronts took some: ${accepted}`,
  );
  await checkBatches(t, run);
});

t.test('events that each wait for the answer before are never inverted, at whichever front', async (t) => {
  const clients = Array.from({ length: 4 }, async (_, c) => {
    // In turns over two connections, at two fronts or at one.
    const connections = [0, 1].map(() => new Agent({ keepAlive: true, maxSockets: 1 }));
    const sent: Sent[] = [];
    for (let n = 0; n < 200; n++) {
      const payload = { n, tool: n % 3 === 0 ? 'search' : 'read' };
      const event = { type: n % 2 === 0 ? 'tool_call' : 'custom', trace_id: `client-${c}`, payload };
      sent.push(JSON.parse((await post(`/v1/agents/${agent}/events`, event, { agent: connections[n % 2]! }))!) as Sent);
    }
    for (const connection of connections) connection.destroy();
    return sent;
  });
  const all = await Promise.all(clients);
  const near = all.flatMap((sent) => sent.filter(({ received_at: at }, i) => at === sent[i - 1]?.received_at));
  t.comment(`${near.length} of ${4 * 200} arrived in the millisecond of the one before`);
  const listed = await walked<Sent>('/v1/events?order=asc', 'items');
  for (const [c, sent] of all.entries()) {
    const ids = sent.map(({ id }) => id);
    t.same([...ids].sort(), ids, 'their ids rise');
    const seen = listed.filter(({ trace_id: trace }) => trace === `client-${c}`).map(({ id }) => id);
    t.same(seen, ids, 'and so the list has them');
  }
});

t.test('what a front judges in a thread of its own keeps its place among the rest', async (t) => {
  const connection = new Agent({ keepAlive: true, maxSockets: 1 });
  const sent: Sent[] = [];
  for (let n = 0; n < 20; n++) {
    const event = (text: string) => ({ type: 'custom', trace_id: 'apart', payload: { n, text } });
    // Past 256 KiB a body leaves the loop that answers.
    const large = Array.from({ length: EVENTS }, () => event('x'.repeat(40_000)));
    const more = { agent: connection };
    const { results } = JSON.parse((await post(`/v1/agents/${agent}/events/batch`, large, more))!) as {
      results: Sent[];
    };
    sent.push(...results, JSON.parse((await post(`/v1/agents/${agent}/events`, event('small'), more))!) as Sent);
  }
  connection.destroy();
  const ids = sent.map(({ id }) => id);
  t.same([...ids].sort(), ids, 'ids rise from one to the other and back');
  const { json } = await api.get('/v1/traces/apart?payload=none');
  t.same(
    (json.events as Sent[]).map(({ id }) => id),
    ids,
  );
});

t.test('fronts that are killed meanwhile put nothing out of order', async (t) => {
  for (let kill = 0; kill < KILLS; kill++) {
    const run = `killed-${kill}`;
    const sending = sendBatches(await newAgent(run), run, BATCHES_BETWEEN_KILLS, true);
    await new Promise((resolve) => setTimeout(resolve, 30));
    const front = (await service.children()).find(({ name }) => name === `front-${1 + (kill % 2)}`);
    if (front !== undefined) process.kill(front.pid, 'SIGKILL');
    const found = await sending;
    t.equal(found.sent.size, BATCHES_BETWEEN_KILLS);
    // A kept connection to it would be taken for one to read by until its end has come.
    while (front !== undefined && isAlive(front.pid)) await pause(20);
    await pause(200);
    await checkBatches(t, found);
  }
});

t.test('microseconds are kept, shown, compared, and walked over the borders of pages', async (t) => {
  const own = await newAgent('exact');
  const second = '2026-11-25T01:00:00';
  const micros = Array.from({ length: 90 }, (_, i) => 122_900 + ((i * 37) % 90) * 5);
  const events = micros.map((us) => ({
    ...{ type: 'custom', trace_id: 'exact', payload: { us } },
    timestamp: `${second}.${us}${us % 2 === 0 ? '' : '987'}Z`,
  }));
  const answered = (await api.post(`/v1/agents/${own}/events/batch`, events)).json.results as Sent[];
  const shown = (us: number) => `${second}.${us % 1000 === 0 ? us / 1000 : us}Z`;
  t.same(
    answered.map(({ timestamp }) => timestamp),
    micros.map(shown),
  );
  const inOrder = [...micros].sort((a, b) => a - b).map(shown);
  for (const of of [`/v1/agents/${own}/events?`, `/v1/events?agent_id=${own}&`, '/v1/events?trace_id=exact&']) {
    const times = async (more: string, limit = 7) =>
      (await walked<Sent>(`${of}${more}`, 'items', limit)).map(({ timestamp }) => timestamp);
    t.same(await times('order=asc'), inOrder, of);
    t.same(await times('order=desc', 11), [...inOrder].reverse());
    t.same(
      await times(`order=asc&from=${inOrder[20]}&to=${inOrder[30]!.replace('Z', '%2B00:00')}`),
      inOrder.slice(20, 31),
    );
    t.same(await times(`order=asc&to=${second}.123Z`), inOrder.slice(0, 1 + inOrder.indexOf(`${second}.123Z`)));
  }
  const { json: trace } = await api.get('/v1/traces/exact');
  t.same(
    (trace.events as Sent[]).map(({ timestamp }) => timestamp),
    inOrder,
  );
  t.match(trace, { started_at: inOrder[0], ended_at: inOrder.at(-1), duration_ms: 0 });
  const csv = (await api.get(`/v1/events/export?agent_id=${own}&order=asc&format=csv`)).text.trim().split('\r\n');
  t.same(
    csv.slice(1).map((line) => line.split(',')[3]),
    inOrder,
  );
  const one = answered[3]!;
  t.equal((await api.get(`/v1/agents/${own}/events/${one.id}`)).json.timestamp, one.timestamp);
  const counted = await api.get(`/v1/events/histogram?agent_id=${own}&from=${inOrder[5]}&to=${inOrder[9]}`);
  t.equal(
    (counted.json.buckets as { total: number }[]).reduce((sum, { total }) => sum + total, 0),
    5,
  );
  t.match((await api.get('/v1/audit-logs/verify')).json, { valid: true });
});

t.test('times are taken in every form, alone and in a batch, and one without an offset is not', async (t) => {
  const second = '2026-11-25T01:00:00.000Z';
  const forms: [string, string][] = [
    ['2026-11-25 01:00:00+00:00', second],
    ['20261125T010000Z', second],
    ['20261125T010000.5+0000', '2026-11-25T01:00:00.500Z'],
    ['2026-11-24T24:00:00Z', '2026-11-25T00:00:00.000Z'],
    ['2026-11-25T00:59:60Z', second],
    ['2026-11-25T01:00:00.1234567890123456789012345678901234567890Z', '2026-11-25T01:00:00.123456Z'],
  ];
  const of = (timestamp: string) => ({ type: 'custom', payload: {}, timestamp });
  for (const [sent, shown] of forms) {
    t.match(await api.post(`/v1/agents/${agent}/events`, of(sent)), { status: 201, json: { timestamp: shown } }, sent);
    const total = await api.get(`/v1/events?from=${encodeURIComponent(sent)}&to=${sent.replaceAll(' ', '+')}`);
    t.equal(total.status, 200, `a filter by ${sent}`);
  }
  const { json } = await api.post(`/v1/agents/${agent}/events/batch`, [
    ...forms.map(([sent]) => of(sent)),
    of('2026-11-25T01:00:00'),
  ]);
  t.same(
    (json.results as Sent[]).map(({ timestamp }) => timestamp),
    [...forms.map(([, shown]) => shown), undefined],
  );
  t.match(json.results.at(-1), {
    error: { code: 'validation_failed', details: [{ path: `/${forms.length}/timestamp` }] },
  });
  t.equal((await api.post(`/v1/agents/${agent}/events`, of('2026-11-25 01:00:00'))).status, 400);
});
