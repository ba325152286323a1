// What users of others suffer from budgets and from rules over what was before, each complaint a case, by the number of
// its issue where it has one (LiteLLM's budgets), against the whole service.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Api } from '../support/api.ts';
import { ofEachMaster } from '../support/redis.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService(t);
const api = await Api.described(t, service);
const model = 'm-1';
await api.post('/v1/prices', { prices: [{ model, input: '1 USD', output: '10 USD', max_output: 100_000 }] });

let names = 0;
const newAgent = async (): Promise<string> => (await api.post('/v1/agents', { name: `complains ${++names}` })).json.id;
const post = async (agent: string, type: string, payload: object, more: object = {}) =>
  (await api.post(`/v1/agents/${agent}/events`, { type, payload, ...more })).json;
const outcomeOf = ({ policy_result: { outcome } }: { policy_result: { outcome: string } }) => outcome;

/** In force, and its past is known. */
async function newPolicy(type: string, agent: string, conditions: object): Promise<string> {
  const made = await api.post('/v1/policies', {
    ...{ name: `complaint ${++names}`, type, agent_id: agent, actions: ['block'], conditions },
  });
  t.equal(made.status, 201, made.text);
  return made.json.id;
}

async function budget(agent: string, conditions: object): Promise<string> {
  const id = await newPolicy('budget', agent, conditions);
  await api.until(
    () => api.get(`/v1/budgets?policy_id=${id}`),
    ({ json }) => json.items.every(({ known }: { known: boolean }) => known),
  );
  await api.until(
    () => post(agent, 'prompt', { model, token_count: 0, max_tokens: 1 }),
    (sent) => {
      const { budgets = [] } = sent.policy_result as { budgets?: { policy_id: string }[] };
      if (sent.policy_result.outcome === 'allowed') void post(agent, 'error', { for: sent.id });
      return budgets.some(({ policy_id: of }) => of === id);
    },
  );
  await api.until(
    () => api.get(`/v1/budgets?policy_id=${id}`),
    ({ json }) =>
      json.items.every(({ reserved }: { reserved: string | number }) => Number.parseFloat(`${reserved}`) === 0),
  );
  return id;
}

const stateOf = async (id: string) => (await api.get(`/v1/budgets?policy_id=${id}`)).json.items[0];

t.test('#34732, #40095: of calls at once no more pass than the limit has', async (t) => {
  const agent = await newAgent();
  await budget(agent, { limit: { events: 10 }, window: '1h', estimate: 'worst' });
  const sent = await Promise.all(Array.from({ length: 40 }, () => post(agent, 'prompt', { model, max_tokens: 5 })));
  t.equal(sent.filter((one) => outcomeOf(one) === 'allowed').length, 10);
});

t.test(
  '#35524, #27509: a call that says no bound reserves a guess, or is refused; neither nothing nor the rest',
  async (t) => {
    const [usual, worst] = [await newAgent(), await newAgent()];
    await budget(usual, { limit: { tokens: 100_000 }, window: '1h' });
    await budget(worst, { limit: { tokens: 100_000 }, window: '1h', estimate: 'worst' });
    const guessed = await post(usual, 'prompt', { model: 'unheard of', token_count: 100 });
    t.match(guessed.policy_result, { outcome: 'allowed', budgets: [{ reserved: 1_100, left: 98_900 }] });
    const refused = await post(worst, 'prompt', { model: 'unheard of', token_count: 100 });
    t.match(refused.policy_result, { outcome: 'blocked', matches: [{ detail: { unknown: 'no_ceiling' } }] });
  },
);

t.test('#33923: where what is left cannot be asked for, the call is refused; it is not let through', async (t) => {
  const agent = await newAgent();
  const id = await budget(agent, { limit: '1 USD', window: '1h', estimate: 'worst' });
  const before = (await api.get(`/v1/agents/${agent}/events`)).json.total;
  let refused: object | undefined;
  await ofEachMaster((await service.addresses()).redisUrl, async (redis) => {
    const [known] = await redis.keys(`*budget:${id}:*:k`);
    if (known === undefined) return;
    const kept = await redis.hgetall(known);
    // Whatever is asked of these counters fails from now on.
    await redis.set(known, 'no hash');
    const prompt = { type: 'prompt', payload: { model, max_tokens: 5 } };
    refused = await api.post(`/v1/agents/${agent}/events`, prompt, { mayBeAway: true });
    await redis.del(known);
    await redis.hset(known, kept);
  });
  t.match(refused, { status: 503, json: { error: { code: 'unavailable', recorded: false } } });
  t.equal((await api.get(`/v1/agents/${agent}/events`)).json.total, before, 'nothing is recorded');
  t.match((await post(agent, 'prompt', { model, max_tokens: 5 })).policy_result, { outcome: 'allowed' });
});

t.test('#27639, #28283, #36926, #40050: what nobody completes is given back by itself, to the unit', async (t) => {
  const agent = await newAgent();
  const id = await budget(agent, { limit: '1 USD', window: '1h', estimate: 'worst', hold: '10s' });
  for (let i = 0; i < 5; i++) await post(agent, 'prompt', { model, token_count: 1_000, max_tokens: 500 });
  t.match(await stateOf(id), { reserved: '0.03 USD', left: '0.97 USD' });
  await sleep(10_500);
  t.match(await stateOf(id), { spent: '0.00 USD', reserved: '0.00 USD', left: '1.00 USD' });
});

t.test('#38647: what calls may use at the worst does not fill what they use as a rule', async (t) => {
  const agent = await newAgent();
  await budget(agent, { limit: { tokens: 10_000 }, window: '1h', estimate: 'expected' });
  const asked = { model, token_count: 10, max_tokens: 90_000 };
  for (let i = 0; i < 20; i++) {
    const prompt = await post(agent, 'prompt', { ...asked, max_tokens: 20 });
    const usage = { prompt_tokens: 10, completion_tokens: 20 };
    await post(agent, 'completion', { model, usage, for: prompt.id });
  }
  const [held] = (await post(agent, 'prompt', asked)).policy_result.budgets;
  t.ok(held.reserved < 50, `${held.reserved} are reserved of a call that allows 90,000`);
});

t.test('a prompt that waits for an approval is held meanwhile, and no longer if it is not given', async (t) => {
  const agent = await newAgent();
  const limit = { limit: { tokens: 10_000 }, window: '1h', estimate: 'worst' };
  const [short, long] = [await budget(agent, { ...limit, hold: '10s' }), await budget(agent, { ...limit, hold: '1h' })];
  const conditions = { type: 'prompt', 'payload.kind': 'risky', timeout: '20s' };
  const asks = await newPolicy('require_approval', agent, conditions);
  const wait = () =>
    api.until(
      async () => {
        const one = await post(agent, 'prompt', { model, token_count: 10, max_tokens: 20, kind: 'risky' });
        if (outcomeOf(one) === 'allowed') await post(agent, 'error', { for: one.id });
        return one;
      },
      (one) => outcomeOf(one) === 'pending',
    );
  const decide = async ({ policy_result: result }: Awaited<ReturnType<typeof wait>>, decision: string) =>
    t.equal((await api.post(`/v1/approvals/${result.approval_id}`, { decision })).status, 200);
  const waiting = await wait();
  await sleep(10_500);
  t.match(await stateOf(short), { reserved: 30 }, 'however short its hold is');
  await decide(waiting, 'approve');
  await post(agent, 'completion', { model, usage: { total_tokens: 25 }, for: waiting.id });
  const isLeft = ({ spent, reserved }: { spent: number; reserved: number }) => spent === 25 && reserved === 0;
  await api.until(() => stateOf(long), isLeft);
  await decide(await wait(), 'deny');
  t.match(await stateOf(long), { spent: 25, reserved: 0, left: 9_975 }, 'denied');
  await wait();
  t.match(await stateOf(long), { reserved: 30 });
  t.match(await api.until(() => stateOf(long), isLeft), { spent: 25, reserved: 0 }, 'not decided in time');
  await api.delete(`/v1/policies/${asks}`);
});

t.test('of two calls of a trace each settles its own, by the id that LiteLLM sends with both', async (t) => {
  const agent = await newAgent();
  const id = await budget(agent, { limit: { tokens: 10_000 }, window: '1h', estimate: 'worst' });
  await post(agent, 'prompt', { model, token_count: 10, max_tokens: 20, call_id: 'a' });
  await post(agent, 'prompt', { model, token_count: 100, max_tokens: 200, call_id: 'b' });
  t.match(await stateOf(id), { reserved: 330 });
  await post(agent, 'completion', { model, usage: { total_tokens: 50 }, call_id: 'b' });
  const state = await api.until(
    () => stateOf(id),
    ({ spent }) => spent === 50,
  );
  t.match(state, { spent: 50, reserved: 30 }, 'the first is still open');
});

t.test('a completion of an agent that was switched off since is blocked, and charged', async (t) => {
  const agent = await newAgent();
  const id = await budget(agent, { limit: '1 USD', window: '1h', estimate: 'worst' });
  const asked = await post(agent, 'prompt', { model, token_count: 1_000, max_tokens: 500 });
  t.match(asked.policy_result, { outcome: 'allowed', budgets: [{ reserved: '0.006 USD' }] });
  t.equal((await api.patch(`/v1/agents/${agent}`, { status: 'inactive' })).status, 200);
  await api.until(
    () => post(agent, 'custom', {}),
    ({ policy_result: { reason } }) => reason === 'agent_inactive',
  );
  const refused = await post(agent, 'prompt', { model, token_count: 1, max_tokens: 1 });
  t.match(refused.policy_result, { outcome: 'blocked', reason: 'agent_inactive', matches: [] });
  t.equal(refused.policy_result.budgets, undefined, 'and holds nothing');
  const usage = { prompt_tokens: 900, completion_tokens: 100 };
  const done = await post(agent, 'completion', { model, usage, for: asked.id });
  t.match(done.policy_result, { outcome: 'blocked', reason: 'agent_inactive' });
  const { json } = await api.until(
    () => api.get(`/v1/budgets?policy_id=${id}&check=true`),
    (answer) => answer.json.items[0].stored === '0.0019 USD' && answer.json.items[0].drift === '0.00 USD',
  );
  t.match(json.items, [{ spent: '0.0019 USD', reserved: '0.00 USD' }]);
});

const call = (agent: string, tool: string, trace?: string) =>
  post(agent, 'tool_call', { tool }, trace === undefined ? {} : { trace_id: trace });

/** In force; its past is known when a call is not blocked for want of that. */
async function sequence(agent: string, conditions: object): Promise<void> {
  await newPolicy('sequence', agent, { within: '1h', ...conditions });
  await sleep(1_500);
}

t.test('a new trace, or none, does not empty the history', async (t) => {
  const agent = await newAgent();
  await sequence(agent, { tool: 'send', after: [{ tool: 'read' }] });
  await api.until(
    () => call(agent, 'send', 'first'),
    (one) => outcomeOf(one) === 'allowed',
  );
  await call(agent, 'read', 'first');
  for (const trace of ['first', 'second', undefined]) t.equal(outcomeOf(await call(agent, 'send', trace)), 'blocked');
});

t.test('one of a batch knows those before it, and not those behind', async (t) => {
  const agent = await newAgent();
  await sequence(agent, { tool: 'pay', unless: { tool: 'approve' } });
  const batch = ['pay', 'approve', 'pay'].map((tool) => ({ type: 'tool_call', payload: { tool } }));
  await api.until(
    () => call(agent, 'pay'),
    ({ policy_result: { matches } }) => matches.length === 1 && matches[0].detail.reason === undefined,
  );
  const { results } = (await api.post(`/v1/agents/${agent}/events/batch`, { events: batch })).json;
  t.same(results.map(outcomeOf), ['blocked', 'allowed', 'allowed']);
});

t.test('what was denied uses up no count; several tools are one step', async (t) => {
  const agent = await newAgent();
  await sequence(agent, { tool: ['pay', 'wire'], after: [{ tool: ['pay', 'wire'] }], at_least: 2 });
  await api.until(
    () => call(agent, 'wire'),
    (one) => outcomeOf(one) === 'allowed',
  );
  const said = [];
  for (const tool of ['pay', 'wire', 'pay', 'pay']) said.push(outcomeOf(await call(agent, tool)));
  t.same(said, ['allowed', 'blocked', 'blocked', 'blocked']);
});
