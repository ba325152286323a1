// What one account makes the service do is no wait for another: against the whole service, by the order of answers and
// not by the clock. How long another waits in milliseconds is what `npm run bench -- neighbour` measures.
import t from 'tap';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { startService } from '../support/service.ts';

const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
const api = new Api(t, service);
const own = (await api.post('/v1/agents', { name: 'costly' })).json.id as string;
const neighbour = api.as(await keyOfNewAccount(service, 'neighbour'));
const other = (await neighbour.post('/v1/agents', { name: 'light' })).json.id as string;

const light = () => neighbour.post(`/v1/agents/${other}/events`, { type: 'prompt', payload: { a: 1 } });
const metric = async (labels: string) => {
  const text = await (await fetch(`${service.url}/metrics`)).text();
  return Number(new RegExp(`gatehouse_judging_thread_works_total\\{${labels}[^}]*\\} (\\d+)`).exec(text)?.[1] ?? 0);
};

t.test('a batch that takes long under many policies is judged whole, and meanwhile others are answered', async (t) => {
  for (let i = 0; i < 30; i++) {
    const patterns = Array.from({ length: 20 }, (_, j) => `[a-z]+${i}[a-z ]{1,20}${j}x`);
    const policy = {
      name: `rich-${i}`,
      type: 'data_filter',
      conditions: { patterns, detectors: ['email'] },
      actions: ['alert'],
    };
    t.equal((await api.post('/v1/policies', policy)).status, 201);
  }
  const text = 'the quick brown fox jumps over the lazy dog and writes to a@example.com now '.repeat(1_000);
  const batch = { events: Array.from({ length: 80 }, (_, i) => ({ type: 'prompt', payload: { text, i } })) };
  let isAnswered = false;
  const long = api.post(`/v1/agents/${own}/events/batch`, batch).then((answer) => {
    isAnswered = true;
    return answer;
  });
  let before = 0;
  for (let i = 0; i < 20; i++) {
    t.equal((await light()).status, 201);
    if (!isAnswered) before++;
  }
  t.equal(before, 20, 'all of them before the batch');
  const { status, json } = await long;
  t.equal(status, 200);
  const results = json.results as { policy_result: { matches: unknown[] } }[];
  t.equal(results.length, 80);
  t.ok(
    results.every(({ policy_result: result }) => result.matches.length === 30),
    'each was judged by every policy',
  );
  t.equal(await metric('kind="events",result="done"'), 1);
  t.equal((await api.get(`/v1/agents/${own}/events?limit=1`)).json.total, 80, 'and each is recorded once');
});

t.test('policies are compiled apart from the loop that answers', async (t) => {
  const checked = await metric('kind="policy",result="done"');
  const costly = (i: number) => ({
    name: `costly-${i}`,
    type: 'data_filter',
    conditions: { patterns: Array.from({ length: 17 }, (_, j) => `\\p{L}{300}${i}_${j}`) },
    actions: ['alert'],
    status: 'inactive',
  });
  const made = await Promise.all(Array.from({ length: 24 }, (_, i) => api.post('/v1/policies', costly(i))));
  t.same(
    made.map(({ status }) => status),
    Array(24).fill(201),
  );
  t.equal((await metric('kind="policy",result="done"')) - checked, 24);
  const tooLarge = { ...costly(99), conditions: { patterns: Array.from({ length: 40 }, (_, j) => `\\p{L}{300}${j}`) } };
  t.match(await api.post('/v1/policies', tooLarge), {
    status: 400,
    json: { error: { details: [{ path: /^\/conditions\/patterns\/\d+$/, message: /large together/ }] } },
  });
});

t.test('past what may wait of it, an account is refused, and says so; others are not', async (t) => {
  const costly = { type: 'prompt', payload: { c: Array.from({ length: 700 }, (_, i) => `item ${i}`) } };
  const expression = 'event.payload.c.exists(a, event.payload.c.exists(b, a == b + "x"))';
  await api.post('/v1/policies', {
    name: 'pairs',
    type: 'block_action',
    conditions: { expression },
    actions: ['block'],
  });
  await new Promise((resolve) => setTimeout(resolve, 1_100)); // in force
  const sent = Array.from({ length: 90 }, () =>
    api.post(`/v1/agents/${own}/events/batch`, { events: Array(20).fill(costly) }, { mayBeAway: true }),
  );
  const lights = await Promise.all([light(), light(), light()]);
  t.same(
    lights.map(({ status }) => status),
    [201, 201, 201],
  );
  const answers = await Promise.all(sent);
  const refused = answers.filter(({ status }) => status === 503);
  const full = refused.filter(({ text }) => text.includes('Too much of this account takes long to judge: 64'));
  t.ok(full.length > 0 && full.length <= 25, `${full.length} of 90 found the line full`);
  t.match(full[0]!.json, { error: { code: 'unavailable', recorded: false } });
  // On a slow machine the last in line wait longer than they may.
  const late = refused.filter(({ text }) => text.includes('has waited too long'));
  t.equal(full.length + late.length, refused.length);
  t.ok(answers.every(({ status }) => status === 503 || status === 200));
});
