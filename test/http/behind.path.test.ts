// Reads while the stores are behind what was acknowledged (decisions 1): they answer after 2 s at the latest with what there is,
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

async function post(path: string, body: unknown) {
  const headers = { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' };
  const answer = await fetch(`${service.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  return (await answer.json()) as { id: string };
}

t.test('a read that is behind says so, and the same one later has everything', async (t) => {
  const agent = await post('/v1/agents', { name: 'one' });
  const list = `/v1/agents/${agent.id}/events`;
  const stores = (await service.children()).find(({ name }) => name.startsWith('pipelines'))!.pid;
  process.kill(stores, 'SIGSTOP');
  let event: { id: string };
  try {
    event = await post(list, { type: 'prompt', trace_id: 'trace-1', payload: { prompt: 'Are you there?' } });
    t.match(await get(list), { status: 200, isIncomplete: true, json: { total: 0 } });
    for (const path of [`${list}/${event.id}`, '/v1/traces/trace-1'])
      t.match(await get(path), { status: 404, isIncomplete: true, json: { error: { code: 'not_found' } } }, path);
  } finally {
    process.kill(stores, 'SIGCONT');
  }
  for (const path of [`${list}/${event.id}`, '/v1/traces/trace-1', list]) {
    let found = await get(path);
    for (const until = performance.now() + 90_000; found.isIncomplete && performance.now() < until; ) {
      await pause(50);
      found = await get(path);
    }
    t.match(found, { status: 200, isIncomplete: false }, path);
    t.match(JSON.stringify(found.json), event.id);
  }
});
