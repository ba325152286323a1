// Following live, against the whole service with two fronts' worth of restarts: every row once, in order, whichever
// front is killed meanwhile.
import http from 'node:http';
import t, { type Test } from 'tap';
import { Api } from '../support/api.ts';
import { pause } from '../support/raw-http.ts';
import { startService, type TestService } from '../support/service.ts';

type Message = { id: string; event: string; data: string };
type Follower = { messages: Message[]; lastId: () => string; ended: Promise<string>; stop: () => void; status: number };

/** A front is killed so often while one follows. test/faults has hundreds. */
const KILLS = 8;

const service = await startService(t, { env: { GATEHOUSE_FRONTS: '2' } });
const api = new Api(t, service);
const agent = (await api.post('/v1/agents', { name: 'live' })).json.id as string;
const other = (await api.post('/v1/agents', { name: 'other' })).json.id as string;
const send = (of: string, n: number, type = 'custom') => api.post(`/v1/agents/${of}/events`, { type, payload: { n } });
const WAIT_MS = 60_000;

t.test('rows of each topic, as the lists have them', async (t) => {
  const all = await follow(t, 'topics=events,approvals,anomalies,deliveries&payload=preview');
  const mine = await follow(t, `topics=events&agent_id=${other}`);
  const holds = { type: 'require_approval', conditions: { tool: 'ask' }, actions: ['block'] };
  await api.post('/v1/policies', { name: 'ask first', ...holds });
  await api.submitUntil('pending', agent, { type: 'tool_call', payload: { tool: 'ask' } });
  await send(other, 1);
  await api.post('/v1/agents/none', {}).catch(() => undefined);
  const approval = await until(() => rowOf(all, 'approvals'));
  t.match(approval, { status: 'pending', agent_id: agent });
  const own = await until(() => rowOf(mine, 'events'));
  t.equal(own['agent_id'], other, 'only what was asked for');
  t.same([own['payload'], own['payload_bytes']], [undefined, 7], 'without the payload');
  const [listed] = (await api.get(`/v1/events?agent_id=${other}&limit=1&payload=preview`)).json.items;
  t.same(await until(() => rowOf(all, 'events', listed.id)), listed, 'as the list has it');
  await api.post(`/v1/approvals/${approval['id']}`, { decision: 'approve' });
  await until(() => all.messages.find(({ data }) => data.includes(`"${approval['id']}"`) && data.includes('approved')));
  for (const one of [all, mine]) one.stop();
});

t.test('nothing is lost or sent twice over kills of a front', async (t) => {
  let follower = await follow(t, `topics=events&agent_id=${agent}`);
  const told: string[] = [];
  const take = (from: Follower) => {
    for (const { event, data } of from.messages.splice(0)) if (event === 'events') told.push(JSON.parse(data).id);
  };
  const acknowledged: string[] = [];
  let isOver = false;
  const sending = (async () => {
    for (let n = 0; !isOver; n++) {
      const sent = await send(agent, n).catch(() => undefined);
      if (sent?.status === 201) acknowledged.push(sent.json.id);
      await pause(20);
    }
  })();
  for (let kills = 0; kills < KILLS; ) {
    await pause(500);
    const fronts = (await service.children()).filter(({ name }) => name.startsWith('front'));
    if (fronts.length > 1) process.kill(fronts[kills++ % fronts.length]!.pid, 'SIGKILL');
    const why = await Promise.race([follower.ended, pause(400)]);
    if (why === undefined) continue;
    const id = follower.lastId();
    take(follower);
    follower = await follow(t, `topics=events&agent_id=${agent}`, id);
  }
  isOver = true;
  await sending;
  await until(() => {
    take(follower);
    return acknowledged.every((id) => told.includes(id)) || undefined;
  });
  follower.stop();
  t.same([...new Set(told)].length, told.length, 'none is sent twice');
  const later = told.filter((id) => acknowledged.includes(id));
  t.same(later, acknowledged, `${later.length} in order`);
});

t.test('a resume after changes by others gets `ready`', async (t) => {
  const mine = await follow(t, `topics=events,approvals&agent_id=${other}`);
  await send(other, 7);
  await until(() => rowOf(mine, 'events'));
  const id = mine.lastId();
  mine.stop();
  // A change of an approval that this reader did not ask for.
  const { json } = await api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload: { tool: 'ask' } });
  await api.post(`/v1/approvals/${json.policy_result.approval_id}`, { decision: 'deny' });
  await api.get('/v1/approvals?status=denied'); // waits until it is stored
  const again = await follow(t, `topics=events,approvals&agent_id=${other}`, id);
  await send(other, 8);
  await until(() => rowOf(again, 'events'));
  t.equal(again.messages.filter(({ event }) => event === 'events').length, 1, 'only what is new');
  again.stop();
});

t.test('more rows than are sent one by one are sent as a number', async (t) => {
  const follower = await follow(t, `topics=events&agent_id=${other}`);
  const batch = Array.from({ length: 100 }, (_, n) => ({ type: 'custom', payload: { n } }));
  await Promise.all(Array.from({ length: 12 }, () => api.post(`/v1/agents/${other}/events/batch`, batch)));
  const counted = () =>
    follower.messages.reduce(
      (sum, { event, data }) => sum + (event === 'events' ? 1 : event === 'skipped' ? JSON.parse(data).count : 0),
      0,
    );
  await until(() => counted() >= 1_200 || undefined);
  t.equal(counted(), 1_200, 'rows and skipped ones together');
  t.ok(follower.messages.some(({ event }) => event === 'skipped'));
  follower.stop();
});

t.test('it ends with the key, and at a drain; a late resume gets `reset`', async (t) => {
  const { json } = await api.post('/v1/api-keys', { label: 'short', scope: 'read' });
  const follower = await follow(t, 'topics=events', undefined, json.key);
  await api.delete(`/v1/api-keys/${json.id}`);
  const revoked = performance.now();
  t.equal(await follower.ended, 'end', 'a sound end');
  t.comment(`${(performance.now() - revoked).toFixed(0)} ms after the key was revoked`);
  const live = await follow(t, 'topics=events');
  const fields = JSON.parse(Buffer.from(live.lastId(), 'base64url').toString());
  live.stop();
  fields[2] -= 11 * 60_000;
  const late = await follow(t, 'topics=events', Buffer.from(JSON.stringify(fields)).toString('base64url'));
  t.ok(late.messages.some(({ event }) => event === 'reset'));
  for (const [query = '', path] of [
    ['', 'topics'],
    ['?topics=weather', 'topics'],
    ['?topics=events&type=x', 'type'],
    ['?topics=events&payload=full', 'payload'],
    ['?topics=events&cursor=abc', 'cursor'],
    [`?topics=approvals&cursor=${late.lastId()}`, 'cursor'],
  ]) {
    const { status, json } = await api.get(`/v1/stream${query}`);
    t.match({ status, json }, { status: 400, json: { error: { details: [{ path }] } } }, query);
  }
  const stopping = performance.now();
  const stopped = service.stop();
  t.equal(await late.ended, 'end', 'at once, soundly');
  t.ok(performance.now() - stopping < 5_000);
  await stopped;
});

function rowOf({ messages }: Follower, topic: string, id?: string): Record<string, unknown> | undefined {
  const found = messages.find(
    ({ event, data }) => event === topic && (id === undefined || data.includes(`"id":"${id}"`)),
  );
  return found && JSON.parse(found.data);
}

async function until<T>(look: () => T | undefined): Promise<T> {
  for (const deadline = performance.now() + WAIT_MS; performance.now() < deadline; await pause(20)) {
    const found = look();
    if (found !== undefined) return found;
  }
  throw new Error('it did not come');
}

/** From `lastId` on; connects again while no front takes the connection. Resolves at `ready`. */
async function follow(t: Test, query: string, lastId?: string, key = service.key): Promise<Follower> {
  for (const deadline = performance.now() + WAIT_MS; ; await pause(50)) {
    const follower = await connect(service, { query, lastId, key }).catch(() => undefined);
    if (follower !== undefined) {
      t.teardown(follower.stop);
      const ready = () => follower.messages.find(({ event }) => event === 'ready');
      const isReady = await Promise.race([until(ready).then(() => true), follower.ended.then(() => false)]);
      if (isReady) return follower;
    }
    if (performance.now() > deadline) throw new Error('no front takes the stream');
  }
}

type StreamRequest = { query: string; lastId: string | undefined; key: string };

function connect({ url }: TestService, { query, lastId, key }: StreamRequest): Promise<Follower> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}`, ...(lastId === undefined ? {} : { 'last-event-id': lastId }) };
    const request = http.get(`${url}/v1/stream?${query}`, { headers, agent: false });
    request.on('error', reject).on('response', (response) => {
      const messages: Message[] = [];
      let id = lastId ?? '';
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        const blocks = (text + chunk).split('\n\n');
        text = blocks.pop()!;
        for (const block of blocks) {
          const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1] ?? '';
          if (field('id') !== '') id = field('id');
          if (field('event') !== '') messages.push({ id, event: field('event'), data: field('data') });
        }
      });
      const ended = new Promise<string>((end) => {
        response.on('end', () => end('end')).on('error', () => end('cut'));
      });
      const stop = () => void response.destroy();
      resolve({ messages, lastId: () => id, ended, stop, status: response.statusCode! });
    });
  });
}
