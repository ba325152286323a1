// More than a front can do, beside inference hooks of the same account: each has its verdict with 200 and in time, the
// word of its connection where it is refused, and the right one again when it is over.
import { randomBytes } from 'node:crypto';
import { Agent, request } from 'node:http';
import t from 'tap';
import { Api } from '../support/api.ts';
import { InferenceSender, promptOf, text } from '../support/inference-sender.ts';
import { startService } from '../support/service.ts';

/** Together more than may be in flight at any time. */
const CALLERS = 300;
const EVENTS = 100;
const FLOOD_MS_MAX = 60_000;
const HOOK_MS = 2_000;
/** The machine is shared. */
const MARGIN_MS = 3_000;

const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
const api = await Api.described(t, service);

/** Whatever it is answered. */
function post(agent: Agent, path: string, body: string): Promise<void> {
  const headers = { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' };
  return new Promise((resolve) => {
    const sent = request(`${service.url}${path}`, { method: 'POST', agent, headers }, (answer) => {
      answer.resume().on('end', resolve);
    });
    sent.on('error', () => resolve());
    sent.end(body);
  });
}

t.test('an inference hook has the word of its connection, with 200 and in time', async (t) => {
  const { id } = (await api.post('/v1/agents', { name: 'floods beside hooks' })).json as { id: string };
  const connect = async (on_failure: 'allow' | 'deny') => {
    const secret = `whsec_${randomBytes(32).toString('base64')}`;
    const { json } = await api.post('/v1/connections', {
      ...{ name: `says ${on_failure}`, secrets: [secret], on_failure, timeout_ms: HOOK_MS },
    });
    return new InferenceSender(service, json.id, secret);
  };
  const senders = { allow: await connect('allow'), deny: await connect('deny') };
  const blocked = { name: 'no launch', type: 'block_action', actions: ['block'] };
  await api.post('/v1/policies', { ...blocked, conditions: { 'payload.prompt': { contains: 'launch code' } } });
  let asked = 0;
  // One that policies allow, and one that they block: the word is no judgement.
  const ask = (word: 'allow' | 'deny', said: string) =>
    senders[word].send(promptOf(`beside a flood ${asked++}`, [text(said)]));
  await api.until(
    () => ask('allow', 'the launch code'),
    ({ verdict }) => verdict.action === 'deny',
  );
  await ask('deny', 'hello');
  const events = Array.from({ length: EVENTS }, (_, i) => ({ type: 'custom', payload: { text: `${i} `.repeat(300) } }));
  const agent = new Agent({ keepAlive: true, maxSockets: CALLERS });
  t.teardown(() => agent.destroy());
  const words = { allow: 0, deny: 0 };
  let isOver = false;
  const body = JSON.stringify({ events });
  const caller = async () => {
    while (!isOver) await post(agent, `/v1/agents/${id}/events/batch`, body);
  };
  const flood = Promise.all(Array.from({ length: CALLERS }, caller));
  for (const giveUp = performance.now() + FLOOD_MS_MAX; performance.now() < giveUp && !(words.allow && words.deny); )
    for (const [word, said] of [
      ['allow', 'the launch code'],
      ['deny', 'hello'],
    ] as const) {
      const { status, verdict, ms } = await ask(word, said);
      if (status !== 200 || ms > HOOK_MS + MARGIN_MS) t.fail(`${status} after ${ms.toFixed()} ms`);
      if (verdict.action === word) words[word]++;
      if (verdict.action === 'deny' && !/no launch|could not be judged/.test(verdict.deny_reason!))
        t.fail(verdict.deny_reason!);
    }
  isOver = true;
  await flood;
  t.ok(words.allow > 0 && words.deny > 0, JSON.stringify(words));
  const judged = async () => (await ask('allow', 'the launch code')).verdict.action;
  t.equal(await api.until(judged, (action) => action === 'deny'), 'deny', 'and it is judged again');
});
