// More than a front can do, on a service that rules make slow: a refused request is answered soon and nothing of it is
// kept, who is let in is recorded, reads are served meanwhile, and afterwards all is as before.
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Api } from '../support/api.ts';
import { startService } from '../support/service.ts';

const CALLERS = 300;
const EVENTS = 100;
const FLOOD_MS = 4_000;

const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
const api = await Api.described(t, service);

type Answer = { status: number; retryAfter: string | undefined; body: string };

function post(agent: Agent, path: string, body: string): Promise<Answer> {
  const headers = {
    Authorization: `Bearer ${service.key}`,
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
  };
  return new Promise((resolve, reject) => {
    const sent = request(`${service.url}${path}`, { method: 'POST', agent, headers }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('end', () => {
        const retryAfter = answer.headers['retry-after'];
        resolve({ status: answer.statusCode!, retryAfter, body: Buffer.concat(chunks).toString() });
      });
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

async function gauge(name: string): Promise<number> {
  const text = await (await fetch(`${service.url}/metrics`)).text();
  return Number(new RegExp(`^${name}\\{[^}]*process="front-1"[^}]*\\} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN);
}

t.test('what is too much is refused and leaves no trace; the rest is recorded; then it is over', async (t) => {
  const { id } = (await api.post('/v1/agents', { name: 'flooded' })).json as { id: string };
  for (let i = 0; i < 60; i++) {
    const expression = `event.payload.text.contains('nothing-${i}') && size(event.payload.text) > ${i}`;
    await api.post('/v1/policies', {
      name: `slow-${i}`,
      type: 'block_action',
      conditions: { expression },
      actions: ['block'],
    });
  }
  await sleep(1_000); // until they are in force
  const events = Array.from({ length: EVENTS }, (_, i) => ({
    type: 'custom',
    payload: { text: `event ${i} `.repeat(40) },
  }));
  const body = JSON.stringify({ events });
  const agent = new Agent({ keepAlive: true, maxSockets: CALLERS });
  t.teardown(() => agent.destroy());
  const answers: Answer[] = [];
  const until = performance.now() + FLOOD_MS;
  const caller = async () => {
    // Whatever the answer, the next one follows at once: no client follows Retry-After.
    do answers.push(await post(agent, `/v1/agents/${id}/events/batch`, body));
    while (performance.now() < until || !answers.some(({ status }) => status === 503));
  };
  const flood = Promise.all(Array.from({ length: CALLERS }, caller));
  let over = false;
  const reading = (async () => {
    for (; !over; await sleep(100)) t.equal((await api.get(`/v1/agents/${id}`)).status, 200, 'a read is served');
  })();
  await flood;
  over = true;
  await reading;
  const refused = answers.filter(({ status }) => status === 503);
  const taken = answers.filter(({ status }) => status === 200);
  t.equal(taken.length + refused.length, answers.length, 'there are no other answers');
  t.ok(taken.length > 0 && refused.length > 0, `${taken.length} taken, ${refused.length} refused`);
  // A Redis that was given no time for three seconds leaves an append unknown; its sender may find it there.
  let unknown = 0;
  for (const { retryAfter, body } of refused) {
    const { error } = JSON.parse(body) as { error: { code: string; recorded: unknown } };
    if (
      !/^[1-9]\d*$/.test(retryAfter ?? '') ||
      error.code !== 'unavailable' ||
      ![false, 'unknown'].includes(error.recorded as never)
    )
      t.fail(`a refusal with Retry-After ${retryAfter}: ${body}`);
    if (error.recorded === 'unknown') unknown++;
  }
  let total = 0;
  for (const giveUp = performance.now() + 120_000; performance.now() < giveUp; await sleep(200)) {
    total = (await api.get(`/v1/agents/${id}/events?limit=1`)).json.total as number;
    if (total >= taken.length * EVENTS) break;
  }
  const [least, most] = [taken.length * EVENTS, (taken.length + unknown) * EVENTS];
  t.ok(total >= least && total <= most, `${total} are there, ${least} were acknowledged, ${unknown} answers unknown`);
  t.equal(await gauge('gatehouse_submissions_in_flight'), 0);
  for (const giveUp = performance.now() + 60_000; (await gauge('gatehouse_overloaded')) !== 0; await sleep(200)) {
    if (performance.now() > giveUp) return t.fail('it is overloaded for ever');
    await api.post(`/v1/agents/${id}/events`, { type: 'custom', payload: { text: 'one' } });
  }
  const after = await api.post(`/v1/agents/${id}/events`, { type: 'custom', payload: { text: 'one' } });
  t.equal(after.status, 201, 'and all is as before');
});
