// What must hold on every Node.js that is supported, with whatever HTTP server loads there (scripts/test-nodes.mjs runs
// it on each): the service starts, takes events one by one and in batches, is killed at once with all its processes,
// and has every event afterwards.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { folderOf } from '../support/folder.ts';
import { TRANSPORTS } from '../support/front-server.ts';
import { hasOwnStores, launchService, type TestService } from '../support/service.ts';

const SINGLE = 200;
const BATCHES = 18;
const EVENTS = SINGLE + BATCHES * 100;

for (const server of TRANSPORTS) {
  t.test(`2,000 events are found after everything was killed (${server}, Node.js ${process.version})`, async (t) => {
    const dataDir = folderOf(t);
    const env = { GATEHOUSE_HTTP_SERVER: server, GATEHOUSE_BOOTSTRAP_KEY: 'any-node-'.padEnd(40, 'k') };
    const first = await launchService({ dataDir, env });
    const { json: agent } = await call(first, 'POST', '/v1/agents', { name: 'any' });
    const event = (n: number) => ({ type: 'prompt', payload: { model: 'm', prompt: `event ${n} of many` } });
    for (let n = 0; n < SINGLE; n++) {
      const { status } = await call(first, 'POST', `/v1/agents/${agent.id}/events`, event(n));
      if (status !== 201) t.equal(status, 201, `event ${n}`);
    }
    for (let batch = 0; batch < BATCHES; batch++) {
      const events = Array.from({ length: 100 }, (_, n) => event(SINGLE + batch * 100 + n));
      const { status, json } = await call(first, 'POST', `/v1/agents/${agent.id}/events/batch`, { events });
      t.same([status, json.total], [200, 100], `batch ${batch}`);
    }
    await killAll(first, hasOwnStores());
    const second = await launchService({ dataDir, env });
    t.teardown(() => second.stop());
    const { json: page } = await call(second, 'GET', `/v1/agents/${agent.id}/events?limit=1`);
    t.equal(page.total, EVENTS, 'all of them');
    const { json: found } = await call(second, 'GET', '/v1/events?q=%22event%201999%20of%22&limit=1');
    t.equal(found.items[0]?.payload.prompt, 'event 1999 of many', 'and each as it was');
    t.same(await second.stop(), { code: 0, signal: null }, 'after SIGTERM it drains');
  });
}

/** The supervisor first, so that it starts nothing again. */
async function killAll(service: TestService, withStores: boolean): Promise<void> {
  const children = await service.children();
  process.kill(service.pid, 'SIGKILL');
  for (const { pid, name } of children) if (withStores || !/redis|clickhouse/.test(name)) process.kill(pid, 'SIGKILL');
  for (let tries = 0; (await service.children()).length > 0 && tries < 200; tries++) await sleep(50);
}

// biome-ignore lint/suspicious/noExplicitAny: a test looks into an answer as it likes
type Answer = { status: number; json: any };

/** Asks again while a list says that it may be incomplete, or nothing was recorded: the machine may be slow. */
async function call(service: TestService, method: string, path: string, body?: unknown): Promise<Answer> {
  for (let tries = 0; ; tries++) {
    const response = await fetch(service.url + path, {
      method,
      headers: { Authorization: `Bearer ${service.key}`, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const json = (await response.json()) as Answer['json'];
    const again = response.headers.get('gatehouse-incomplete') === 'true' || json.error?.recorded === false;
    if (!again || tries === 100) return { status: response.status, json };
    await sleep(100);
  }
}
