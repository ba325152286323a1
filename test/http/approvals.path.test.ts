// Approvals, end to end and over two fronts: asked for, waited for, decided by people or by time, and what the event is
// then. Every answer is held against the service's own description (support/api.ts).
import t from 'tap';
import { mintId } from '../../src/common/ids.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { type Answer, Api } from '../support/api.ts';
import { pause } from '../support/raw-http.ts';
import { launchService, startService } from '../support/service.ts';

const service = await startService(t, { stores: 'own', env: { GATEHOUSE_FRONTS: '2' } });
const api = await Api.described(t, service);

/** An agent whose payments wait for an approval. Each test has its own, so that their policies do not meet. */
async function payingAgent(conditions: object = {}, from = api): Promise<{ id: string; policy: string }> {
  const { json: agent } = await from.post('/v1/agents', { name: mintId('agent', Date.now()) });
  const { json: policy } = await from.post('/v1/policies', {
    name: `Payments of ${agent.id}`,
    type: 'require_approval',
    conditions: { type: 'tool_call', 'payload.tool': 'pay', ...conditions },
    actions: ['block'],
    agent_id: agent.id,
  });
  return { id: agent.id, policy: policy.id };
}

/** On both fronts, for tests that count an agent's events: what came before would be allowed. */
const inForce = () => pause(1_000);

/** A pending event; the policy may be a moment from being in force. */
async function pay(
  agent: string,
  more: object = {},
  from = api,
): Promise<{ id: string; approval: string; answer: Answer }> {
  for (let i = 0; i < 900; i++) {
    const answer = await from.post(`/v1/agents/${agent}/events`, {
      type: 'tool_call',
      payload: { tool: 'pay', amount: 5 },
      ...more,
    });
    const { approval_id: approval } = answer.json.policy_result;
    if (approval !== undefined) return { id: answer.json.id, approval, answer };
    await pause(100);
  }
  throw new Error('no event waits for an approval');
}

const decide = (id: string, decision: string, comment?: string) =>
  api.post(`/v1/approvals/${id}`, { decision, ...(comment === undefined ? {} : { comment }) });

t.test('approved: found at once, decided once, and the event is allowed wherever it is shown', async (t) => {
  const agent = await payingAgent({ timeout: '10m' });
  await inForce();
  const trace_id = `trace of ${agent.id}`;
  const event = await pay(agent.id, { trace_id });
  t.match(event.answer.json.policy_result, { outcome: 'pending', reason: 'policy', policy_id: agent.policy });
  const pending = await api.get(`/v1/approvals/${event.approval}`);
  t.match(pending, {
    status: 200,
    json: {
      ...{ id: event.approval, agent_id: agent.id, event_id: event.id, policy_id: agent.policy },
      ...{ policy_name: `Payments of ${agent.id}`, status: 'pending', outcome: 'pending', on_timeout: 'deny' },
      ...{ created_at: event.answer.json.received_at, decided_at: null, decided_by: null, comment: null },
    },
  });
  t.equal(Date.parse(pending.json.expires_at) - Date.parse(pending.json.created_at), 600_000);
  t.match((await api.get(`/v1/approvals?agent_id=${agent.id}&status=pending`)).json, {
    items: [pending.json],
    total: 1,
  });
  const before = await outcomesOf(agent.id, event.id, trace_id);
  t.same(before, {
    ...FOUND,
    single: 'pending policy',
    listed: 'pending',
    pending: 1,
    traces: '{"pending":1}',
    trace: '{"pending":1} pending',
  });

  const approved = await decide(event.approval, 'approve', 'as "agreed"');
  t.match(approved, { status: 200, json: { status: 'approved', outcome: 'allowed', comment: 'as "agreed"' } });
  t.match(approved.json.decided_by, /^key:key_/);
  const after = await outcomesOf(agent.id, event.id, trace_id);
  t.same(after, {
    ...FOUND,
    single: 'allowed approval',
    listed: 'allowed',
    allowed: 1,
    traces: '{"allowed":1}',
    trace: '{"allowed":1} allowed',
  });
  const { json } = await api.get(`/v1/agents/${agent.id}/events/${event.id}`);
  const asked = event.answer.json.policy_result;
  t.same(json, { ...event.answer.json, policy_result: { ...asked, outcome: 'allowed', reason: 'approval' } });
  t.match((await api.get(`/v1/approvals?agent_id=${agent.id}`)).json, { items: [approved.json], total: 1 });
  t.same((await api.get(`/v1/approvals?agent_id=${agent.id}&status=pending`)).json.total, 0);

  for (const decision of ['approve', 'deny']) {
    t.match(await decide(event.approval, decision), { status: 409, json: { error: { code: 'already_decided' } } });
  }
  t.same((await api.get(`/v1/approvals/${event.approval}?wait=30`)).json, approved.json, 'at once, and unchanged');
  const { logs } = (await api.get(`/v1/audit-logs?resource_id=${event.approval}`)).json;
  t.match(logs, [
    {
      ...{ action: 'approval.approved', actor: approved.json.decided_by, resource_type: 'approval' },
      details: { event_id: event.id, agent_id: agent.id, policy_id: agent.policy, comment: 'as "agreed"' },
    },
  ]);
  t.equal(logs.length, 1);
  const submitted = (await api.get(`/v1/audit-logs?resource_id=${event.id}`)).json.logs as {
    action: string;
    details: { outcome?: string };
  }[];
  t.same(
    submitted.map(({ action }) => action).sort(),
    ['event.pending', 'event.submitted'],
    'the log is not rewritten',
  );
  t.equal(submitted.find(({ action }) => action === 'event.submitted')!.details.outcome, 'pending');
});

t.test('denied: the event is blocked, its neighbours are what they were', async (t) => {
  const agent = await payingAgent();
  await inForce();
  const trace_id = `trace of ${agent.id}`;
  const events = [
    await pay(agent.id, { trace_id }),
    await pay(agent.id, { trace_id }),
    await pay(agent.id, { trace_id }),
  ];
  const allowed = await api.post(`/v1/agents/${agent.id}/events`, { type: 'prompt', payload: {}, trace_id });
  t.match(await decide(events[1]!.approval, 'deny'), {
    status: 200,
    json: { status: 'denied', outcome: 'blocked', comment: null },
  });
  t.match(await decide(events[2]!.approval, 'approve'), { status: 200 });
  const listed = (await api.get(`/v1/agents/${agent.id}/events`)).json;
  t.same(
    listed.items.map((item: { id: string; policy_result: { outcome: string } }) => [
      item.id,
      item.policy_result.outcome,
    ]),
    [
      [allowed.json.id, 'allowed'],
      [events[2]!.id, 'allowed'],
      [events[1]!.id, 'blocked'],
      [events[0]!.id, 'pending'],
    ],
  );
  for (const [outcome, ids] of [
    ['allowed', [allowed.json.id, events[2]!.id]],
    ['blocked', [events[1]!.id]],
    ['pending', [events[0]!.id]],
  ] as const) {
    for (const path of [
      `/v1/agents/${agent.id}/events?outcome=${outcome}`,
      `/v1/events?agent_id=${agent.id}&outcome=${outcome}`,
      `/v1/events?trace_id=${encodeURIComponent(trace_id)}&outcome=${outcome}`,
    ]) {
      const { json } = await api.get(path);
      t.same(
        json.items.map(({ id }: { id: string }) => id),
        ids,
        path,
      );
      t.equal(json.total, ids.length);
      t.ok(json.items.every((item: { policy_result: { outcome: string } }) => item.policy_result.outcome === outcome));
    }
  }
  t.match((await api.get(`/v1/traces/${encodeURIComponent(trace_id)}`)).json, {
    outcomes: { allowed: 2, blocked: 1, pending: 1 },
  });
  t.equal((await api.get(`/v1/anomalies?agent_id=${agent.id}`)).json.total, 0, 'a denial by a person is no anomaly');
});

const FOUND = { allowed: 0, blocked: 0, pending: 0 };

/** The outcome of the event wherever outcomes are shown. */
async function outcomesOf(agent: string, id: string, trace: string) {
  const single = (await api.get(`/v1/agents/${agent}/events/${id}`)).json.policy_result;
  const found: Record<string, unknown> = { single: `${single.outcome} ${single.reason}` };
  const listed = (await api.get(`/v1/agents/${agent}/events`)).json.items;
  found['listed'] = listed[0].policy_result.outcome;
  for (const outcome of ['allowed', 'blocked', 'pending'])
    found[outcome] = (await api.get(`/v1/events?agent_id=${agent}&outcome=${outcome}`)).json.total;
  const traces = (await api.get(`/v1/traces?agent_id=${agent}`)).json.items;
  found['traces'] = JSON.stringify(traces[0].outcomes);
  const one = (await api.get(`/v1/traces/${encodeURIComponent(trace)}`)).json;
  found['trace'] = `${JSON.stringify(one.outcomes)} ${one.events[0].policy_result.outcome}`;
  return found;
}

t.test('ten callers over two fronts wait for one approval: all are answered at once', async (t) => {
  const agent = await payingAgent();
  const delays: number[] = [];
  for (let round = 0; round < 5; round++) {
    const { approval } = await pay(agent.id);
    const waits = Array.from({ length: 10 }, async () => {
      // A connection of its own for each, so that the kernel shares them out among the fronts.
      const answer = await api.get(`/v1/approvals/${approval}?wait=60`, { headers: { connection: 'close' } });
      return { answer, at: performance.now() };
    });
    await whileWaiting(10);
    await decide(approval, round % 2 === 0 ? 'approve' : 'deny');
    const decidedAt = performance.now();
    for (const { answer, at } of await Promise.all(waits)) {
      t.match(answer, { status: 200, json: { id: approval, status: round % 2 === 0 ? 'approved' : 'denied' } });
      delays.push(at - decidedAt);
    }
  }
  const sorted = delays.toSorted((a, b) => a - b);
  t.comment(
    `after the decision's answer: p50 ${sorted[25]!.toFixed(1)} ms, max ${sorted.at(-1)!.toFixed(1)} ms of ${sorted.length}`,
  );
  t.ok(sorted.at(-1)! < 30_000, `long before the wait is over: ${sorted.at(-1)!.toFixed(0)} ms`);
});

/** Until so many callers wait, over all fronts. */
async function whileWaiting(count: number): Promise<void> {
  for (let i = 0; i < 900; i++) {
    const { text } = await api.get('/metrics');
    const waiting = [...text.matchAll(/^gatehouse_approval_waits\S* (\d+)$/gm)].reduce(
      (sum, match) => sum + Number(match[1]),
      0,
    );
    if (waiting === count) return;
    await pause(50);
  }
  throw new Error(`there are never ${count} callers that wait`);
}

t.test('who waits in vain gets the pending approval; who leaves is forgotten', async (t) => {
  const agent = await payingAgent();
  const { approval } = await pay(agent.id);
  const started = performance.now();
  t.match(await api.get(`/v1/approvals/${approval}?wait=1`), { status: 200, json: { status: 'pending' } });
  const waitedMs = performance.now() - started;
  t.ok(waitedMs >= 990, `after the wait: ${waitedMs.toFixed(0)} ms`);
  const leaving = new AbortController();
  const left = fetch(`${service.url}/v1/approvals/${approval}?wait=60`, {
    headers: { authorization: `Bearer ${service.key}` },
    signal: leaving.signal,
  });
  await whileWaiting(1);
  leaving.abort();
  await t.rejects(left);
  await whileWaiting(0);
  for (const wait of ['-1', '61', '1.5', 'long'])
    t.equal((await api.get(`/v1/approvals/${approval}?wait=${wait}`)).status, 400, wait);
});

t.test('two deciders at once: one 200, one 409, fifty times', async (t) => {
  const agent = await payingAgent();
  const { json } = await api.post(`/v1/agents/${agent.id}/events/batch`, {
    events: Array.from({ length: 50 }, () => ({ type: 'tool_call', payload: { tool: 'pay' } })),
  });
  const pending = json.results as { id: string; policy_result: { approval_id: string } }[];
  const ids = await Promise.all(
    pending.map(async (event) => event.policy_result.approval_id ?? (await pay(agent.id)).approval),
  );
  const won: Record<string, string> = {};
  await Promise.all(
    ids.map(async (id) => {
      const [yes, no] = await Promise.all([decide(id, 'approve', 'first'), decide(id, 'deny', 'second')]);
      t.same([yes.status, no.status].sort(), [200, 409]);
      won[id] = (yes.status === 200 ? yes : no).json.status;
    }),
  );
  const { items } = (await api.get(`/v1/approvals?agent_id=${agent.id}&limit=500`)).json;
  t.same(Object.fromEntries(items.map(({ id, status }: { id: string; status: string }) => [id, status])), won);
  const { total } = (await api.get(`/v1/audit-logs?resource_type=approval&limit=500`)).json as { total: number };
  const { logs } = (await api.get(`/v1/audit-logs?resource_type=approval&limit=500`)).json as {
    logs: { resource_id: string }[];
    total: number;
  };
  t.equal(logs.filter(({ resource_id }) => resource_id in won).length, 50, `one entry each of ${total}`);
});

t.test('what happened meanwhile counts: an agent switched off, a policy made since', async (t) => {
  const off = await payingAgent({ timeout: 10, on_timeout: 'approve' });
  const [decided, timedOut] = [await pay(off.id), await pay(off.id)];
  await api.patch(`/v1/agents/${off.id}`, { status: 'inactive' });
  t.match(await decide(decided.approval, 'approve'), { status: 409, json: { error: { code: 'agent_inactive' } } });
  const { json: ended } = await api.get(`/v1/approvals/${timedOut.approval}?wait=60`);
  t.match(ended, { status: 'expired', outcome: 'blocked', reason: 'agent_inactive' });
  const shown = await api.get(`/v1/agents/${off.id}/events/${timedOut.id}`);
  t.match(shown.json.policy_result, { outcome: 'blocked', reason: 'agent_inactive' });

  const since = await payingAgent({ timeout: 15, on_timeout: 'approve' });
  const [byPerson, byTime] = [await pay(since.id), await pay(since.id)];
  const { json: block } = await api.post('/v1/policies', {
    ...{ name: `Block of ${since.id}`, type: 'block_action', actions: ['block'], agent_id: since.id },
    conditions: { 'payload.amount': 5 },
  });
  const approved = await decide(byPerson.approval, 'approve');
  t.match(approved, {
    status: 200,
    json: { status: 'approved', outcome: 'blocked', reason: 'policy', blocked_by: block.id },
  });
  const { json: late } = await api.get(`/v1/approvals/${byTime.approval}?wait=60`);
  t.match(late, { status: 'expired', outcome: 'blocked', reason: 'policy', blocked_by: block.id });
  for (const { id } of [byPerson, byTime]) {
    const event = await api.get(`/v1/agents/${since.id}/events/${id}`);
    t.match(event.json.policy_result, { outcome: 'blocked', reason: 'policy', policy_id: block.id });
  }
  const listed = (await api.get(`/v1/events?agent_id=${since.id}&outcome=blocked`)).json;
  t.same(
    listed.items.map((item: { policy_result: { policy_id: string } }) => item.policy_result.policy_id),
    [block.id, block.id],
    'in lists, too',
  );
});

t.test('without a decision the timeout decides, as the policy says', async (t) => {
  const [strict, lenient] = [
    await payingAgent({ timeout: 2 }),
    await payingAgent({ timeout: 2, on_timeout: 'approve' }),
  ];
  const [denied, approved] = [await pay(strict.id), await pay(lenient.id)];
  const waits = [denied, approved].map(({ approval }) => api.get(`/v1/approvals/${approval}?wait=60`));
  const [first, second] = await Promise.all(waits);
  t.match(first!.json, {
    status: 'expired',
    outcome: 'blocked',
    on_timeout: 'deny',
    decided_by: 'system',
    comment: null,
  });
  t.match(second!.json, { status: 'expired', outcome: 'allowed', on_timeout: 'approve', decided_by: 'system' });
  for (const { json } of [first!, second!]) t.ok(json.decided_at >= json.expires_at, 'not a millisecond early');
  t.match(await decide(denied.approval, 'approve'), { status: 409, json: { error: { code: 'already_decided' } } });
  t.equal((await api.get(`/v1/events?agent_id=${strict.id}&outcome=blocked`)).json.total, 1);
  t.equal(
    (await api.get(`/v1/events?agent_id=${lenient.id}&outcome=allowed`)).json.items.at(-1).policy_result.reason !==
      'policy',
    true,
  );
  const { logs } = (await api.get(`/v1/audit-logs?resource_id=${denied.approval}`)).json;
  t.match(logs, [{ action: 'approval.expired', actor: 'system', details: { event_id: denied.id } }]);
});

t.test('who asks for what is not there, or not theirs, learns nothing', async (t) => {
  const agent = await payingAgent();
  const { approval } = await pay(agent.id);
  for (const id of ['apr_x', agent.id, mintId('approval', Date.now())]) {
    t.equal((await api.get(`/v1/approvals/${id}`)).status, 404);
    t.equal((await decide(id, 'approve')).status, 404);
  }
  for (const body of [{}, { decision: 'maybe' }, { decision: 'approve', comment: 7 }, { decision: 'deny', why: '' }]) {
    t.match(await api.post(`/v1/approvals/${approval}`, body), {
      status: 400,
      json: { error: { code: 'validation_failed' } },
    });
  }
  const reader = (await api.post('/v1/api-keys', { label: 'reader', scope: 'read' })).json.key as string;
  t.equal((await api.get(`/v1/approvals/${approval}`, { key: reader })).status, 200);
  t.equal((await api.post(`/v1/approvals/${approval}`, { decision: 'approve' }, { key: reader })).status, 403);
  t.equal((await api.get('/v1/approvals?status=open')).status, 400);
  t.match((await api.get(`/v1/approvals?agent_id=${mintId('agent', Date.now())}`)).json, { items: [], total: 0 });
});

t.test("a deleted agent's approvals are unknown at once, can no longer be decided, and gone", async (t) => {
  const agent = await payingAgent({ timeout: 10 });
  const decided = await pay(agent.id);
  await decide(decided.approval, 'approve');
  const pending = await pay(agent.id);
  const deadline = Date.now() + 10_000;
  const waiting = api.get(`/v1/approvals/${pending.approval}?wait=60`);
  await whileWaiting(1);
  t.equal((await api.delete(`/v1/agents/${agent.id}`)).status, 204);
  const deletedAt = performance.now();
  for (const { approval } of [decided, pending]) {
    t.equal((await api.get(`/v1/approvals/${approval}`)).status, 404);
    t.equal((await decide(approval, 'approve')).status, 404);
  }
  t.equal((await api.get(`/v1/approvals?agent_id=${agent.id}`)).json.total, 0);
  t.equal((await waiting).status, 404);
  t.comment(`who waited was told ${(performance.now() - deletedAt).toFixed(0)} ms after the deletion, or earlier`);
  t.ok(performance.now() - deletedAt < 50_000, 'long before the wait is over');
  await pause(Math.max(0, deadline - Date.now()) + 1_500); // it would have expired, and been inspected
  t.equal((await api.get(`/v1/approvals?agent_id=${agent.id}`)).json.total, 0, 'nothing has expired');
  const { logs } = (await api.get('/v1/audit-logs?resource_type=approval&limit=500')).json as {
    logs: { details: { agent_id: string } }[];
  };
  t.notOk(logs.some(({ details }) => details.agent_id === agent.id));
});

t.test("another account's approvals are unknown", async (t) => {
  const others = api.as(await keyOfNewAccount(service, 'others'));
  const agent = await payingAgent();
  const { approval } = await pay(agent.id);
  t.equal((await others.get(`/v1/approvals/${approval}`)).status, 404);
  t.equal((await others.get(`/v1/approvals/${approval}?wait=60`)).status, 404, 'and not waited for');
  t.equal((await others.post(`/v1/approvals/${approval}`, { decision: 'approve' })).status, 404);
  t.match((await others.get('/v1/approvals')).json, { items: [], total: 0 });
  const theirs = await payingAgent({}, others);
  const event = await pay(theirs.id, {}, others);
  t.match((await others.get('/v1/approvals')).json, { items: [{ id: event.approval }], total: 1 });
  t.equal((await decide(event.approval, 'deny')).status, 404);
  t.match((await api.get(`/v1/approvals/${approval}`)).json, { status: 'pending' });
});

t.test('a restart: who waits is answered, what is pending stays pending and is decided after', async (t) => {
  const isOurs = process.env.GATEHOUSE_TEST_REDIS_CLUSTER === undefined;
  if (!isOurs || process.env.GATEHOUSE_TEST_CLICKHOUSE_URL !== undefined)
    return void t.pass('with our own engines alone');
  const agent = await payingAgent({ timeout: '1h' });
  const [one, two] = [await pay(agent.id), await pay(agent.id)];
  const waiting = api.get(`/v1/approvals/${one.approval}?wait=60`);
  t.equal((await decide(two.approval, 'deny')).status, 200);
  await whileWaiting(1);
  const left = service.stop();
  t.match(
    await waiting,
    { status: 200, json: { id: one.approval, status: 'pending' } },
    'long before the wait is over',
  );
  t.match(await left, { code: 0 });
  const { dataDir, key } = service;
  const second = await launchService({ dataDir, env: { GATEHOUSE_BOOTSTRAP_KEY: key } });
  t.teardown(() => second.stop());
  const after = new Api(t, second);
  t.match((await after.get(`/v1/approvals/${two.approval}?wait=60`)).json, { status: 'denied' });
  t.match(await after.post(`/v1/approvals/${one.approval}`, { decision: 'approve' }), { status: 200 });
  const { items } = (await after.get(`/v1/agents/${agent.id}/events`)).json;
  const outcomes = Object.fromEntries(
    items.map((item: { id: string; policy_result: { outcome: string } }) => [item.id, item.policy_result.outcome]),
  );
  t.match(outcomes, { [one.id]: 'allowed', [two.id]: 'blocked' });
});
