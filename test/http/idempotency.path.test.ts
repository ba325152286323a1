// Idempotency-Keys against the whole service: a Redis of 10 MB takes keyed requests without end, and a key is one
// request's.
import t from 'tap';
import { Api } from '../support/api.ts';
import { startService } from '../support/service.ts';

const service = await startService(t, {
  env: {
    GATEHOUSE_FRONTS: '1',
    GATEHOUSE_REDIS_MAXMEMORY: '10mb',
    GATEHOUSE_REQUESTS_PER_SECOND: '100000',
    GATEHOUSE_REQUESTS_BURST: '100000',
  },
});
const api = new Api(t, service);
const keyed = (key: string) => ({ headers: { 'idempotency-key': key }, mayBeAway: true });
const newAgent = async (name: string) => (await api.post('/v1/agents', { name })).json.id as string;

t.test('a key is one request of the account, whatever agent, path or resource it is of', async (t) => {
  const [one, other] = [await newAgent('one'), await newAgent('other')];
  const event = { type: 'prompt', payload: { a: 1 } };
  const policy = { name: 'p', type: 'block_action', conditions: { tool: 'rm' }, actions: ['block'] };
  const first = await api.post(`/v1/agents/${one}/events`, event, keyed('k'));
  t.equal(first.status, 201);
  for (const [path, body] of [
    [`/v1/agents/${one}/events`, { ...event, payload: { a: 2 } }],
    [`/v1/agents/${one}/events/batch`, event],
    [`/v1/agents/${one}/events/batch`, [event]],
    [`/v1/agents/${other}/events`, event],
    [`/v1/agents/${other}/events/batch`, [event]],
    ['/v1/policies', policy],
  ] as const) {
    const { status, json } = await api.post(path, body, keyed('k'));
    const expected = path.endsWith('batch') && !Array.isArray(body) ? [400, 409] : [409];
    t.ok(expected.includes(status), `${path}: ${status}`);
    if (status === 409) t.equal(json.error.code, 'idempotency_conflict');
  }
  t.equal((await api.post(`/v1/agents/${one}/events`, event, keyed('k'))).text, first.text, 'and the first again');
  t.equal((await api.post('/v1/policies', policy, keyed('p'))).status, 201);
  t.match(await api.post(`/v1/agents/${one}/events`, event, keyed('p')), { status: 409 });
  t.equal((await api.get('/v1/events')).json.total, 1);
});

t.test('keyed requests do not close the service, however many come', async (t) => {
  const agents = await Promise.all(Array.from({ length: 8 }, (_, i) => newAgent(`many-${i}`)));
  const COUNT = 6_400;
  let next = 0;
  const statuses = new Map<number, number>();
  const worker = async () => {
    while (next < COUNT) {
      const i = next++;
      const path = `/v1/agents/${agents[i % 8]}/events`;
      const { status } = await api.post(path, { type: 'prompt', payload: { i } }, keyed(`key ${i}`));
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: 24 }, worker));
  t.same([...statuses], [[201, COUNT]]); // 503 from half of them on before they had a bound of their own
  const metrics = await (await fetch(`${service.url}/metrics`)).text();
  const of = (name: string) => Number(new RegExp(`^${name}\\{[^}]*\\} (\\S+)$`, 'm').exec(metrics)?.[1]);
  t.ok(of('gatehouse_idempotency_evicted_total') > 0, 'the oldest was evicted, and that is counted');
  t.ok(of('gatehouse_idempotency_bytes') <= of('gatehouse_idempotency_limit_bytes') * 1.05);
  const last = `/v1/agents/${agents[(COUNT - 1) % 8]}/events`;
  const again = await api.post(last, { type: 'prompt', payload: { i: COUNT - 1 } }, keyed(`key ${COUNT - 1}`));
  t.equal(again.status, 201);
  t.equal((await api.get(`${last}?limit=1`)).json.total, COUNT / 8, 'the newest is known: nothing is there twice');
});
