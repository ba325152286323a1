// Reads while the stores are behind what was acknowledged: they answer after 2 s at the latest with what there is,
// say that it is incomplete, and a single thing that may be on its way is not simply denied.
import t from 'tap';
import { pause } from '../support/raw-http.ts';
import { startService } from '../support/service.ts';

const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });

async function get(path: string) {
  const answer = await fetch(`${service.url}${path}`, { headers: { authorization: `Bearer ${service.key}` } });
  const isIncomplete = answer.headers.get('gatehouse-incomplete') === 'true';
  return { status: answer.status, isIncomplete, json: (await answer.json()) as Record<string, unknown> };
}

async function send(path: string, body: unknown) {
  const headers = { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' };
  const answer = await fetch(`${service.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  return { status: answer.status, json: (await answer.json()) as Record<string, unknown> };
}

async function post(path: string, body: unknown) {
  return (await send(path, body)).json as { id: string };
}

t.test('a read that is behind says so, and the same one later has everything', async (t) => {
  const agent = await post('/v1/agents', { name: 'one' });
  const list = `/v1/agents/${agent.id}/events`;
  const stores = (await service.children()).find(({ name }) => name.startsWith('pipelines'))!.pid;
  const conditions = { tool: 'pay' };
  await post('/v1/policies', { name: 'asks', type: 'require_approval', conditions, actions: ['block'] });
  process.kill(stores, 'SIGSTOP');
  let approval: string;
  let event: { id: string };
  try {
    event = await post(list, { type: 'prompt', trace_id: 'trace-1', payload: { prompt: 'Are you there?' } });
    t.match(await get(list), { status: 200, isIncomplete: true, json: { total: 0 } });
    for (const path of [`${list}/${event.id}`, '/v1/traces/trace-1'])
      t.match(await get(path), { status: 404, isIncomplete: true, json: { error: { code: 'not_found' } } }, path);
    approval = `/v1/approvals/${await pendingApproval(list)}`;
    t.match(await get(`${approval}?wait=1`), {
      status: 404,
      isIncomplete: true,
      json: { error: { code: 'not_found' } },
    });
    t.match(
      await send(approval, { decision: 'approve' }),
      { status: 503, json: { error: { code: 'unavailable', recorded: false } } },
      'a decision does not get the answer that there is nothing to decide',
    );
    t.match(await get(approval.replace(/.$/, '')), { status: 404, isIncomplete: false }, 'what is no id is unknown');
  } finally {
    process.kill(stores, 'SIGCONT');
  }
  for (const path of [`${list}/${event.id}`, '/v1/traces/trace-1', list, approval]) {
    let found = await get(path);
    for (const until = performance.now() + 90_000; found.isIncomplete && performance.now() < until; ) {
      await pause(50);
      found = await get(path);
    }
    t.match(found, { status: 200, isIncomplete: false }, path);
    if (path !== approval) t.match(JSON.stringify(found.json), event.id);
  }
  t.match(await send(approval, { decision: 'approve' }), { status: 200, json: { status: 'approved' } });
  t.match(await get('/v1/approvals/apr_01jd5x0f6w3q8z5n7r2k9v4t1m'), { status: 404, isIncomplete: false });
});

/** Sends an event that waits for one, once the policy is in force here. */
async function pendingApproval(list: string): Promise<string> {
  for (const until = performance.now() + 90_000; performance.now() < until; await pause(50)) {
    const { json } = await send(list, { type: 'tool_call', payload: { tool: 'pay' } });
    const { approval_id: id } = json['policy_result'] as { approval_id?: string };
    if (id !== undefined && id !== null) return id;
  }
  throw new Error('no event had to wait');
}
