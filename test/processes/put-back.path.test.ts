// Stores that went back, against the whole service: Redis with the append-only file of yesterday, and ClickHouse's
// folder gone. What was revoked, deleted and decided since is in force, and the start says so.
import { cpSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { Api } from '../support/api.ts';
import { folderOf } from '../support/folder.ts';
import { hasOwnStores, launchService, type TestService } from '../support/service.ts';

t.setTimeout(600_000);
const env = { GATEHOUSE_LOG_LEVEL: 'info', GATEHOUSE_FRONTS: '2', GATEHOUSE_BOOTSTRAP_KEY: undefined };

/** With the admin key that it made itself at its first start. */
async function start(t: Test, dataDir: string): Promise<{ service: TestService; api: Api }> {
  const service = await launchService({ dataDir, env });
  t.teardown(() => service.stop());
  return { service, api: new Api(t, { url: service.url, key: keyIn(dataDir) }) };
}

function keyIn(dataDir: string): string {
  return readFileSync(path.join(dataDir, 'admin-key'), 'utf8').trim();
}

const skip = hasOwnStores() ? false : 'the data folder is of the embedded engines';

t.test('a Redis with the file of yesterday is brought forward before any request is served', { skip }, async (t) => {
  const dataDir = folderOf(t);
  const first = await start(t, dataDir);
  const newKey = async (label: string) => (await first.api.post('/v1/api-keys', { label, scope: 'write' })).json;
  const stolen = await newKey('stolen');
  const goes = (await first.api.post('/v1/agents', { name: 'goes' })).json.id as string;
  const stays = (await first.api.post('/v1/agents', { name: 'stays' })).json.id as string;
  await first.api.post(`/v1/agents/${stays}/events`, { type: 'prompt', payload: { n: 1 } });
  t.equal((await first.api.get('/v1/events')).json.total, 1);
  await first.service.stop();
  const yesterday = path.join(dataDir, 'yesterday');
  cpSync(path.join(dataDir, 'redis', 'appendonlydir'), yesterday, { recursive: true });

  const second = await start(t, dataDir);
  t.equal((await second.api.delete(`/v1/api-keys/${stolen.id}`)).status, 204);
  t.equal((await second.api.delete(`/v1/agents/${goes}`)).status, 204);
  const policy = { name: 'no rm', type: 'block_action', conditions: { tool: 'rm' }, actions: ['block'] };
  t.equal((await second.api.post('/v1/policies', policy)).status, 201);
  await second.api.until(
    () => second.api.get('/v1/audit-logs?action=policy.created'),
    ({ json }) => json.total === 1,
  );
  await second.service.stop();

  rmSync(path.join(dataDir, 'redis', 'appendonlydir'), { recursive: true });
  cpSync(yesterday, path.join(dataDir, 'redis', 'appendonlydir'), { recursive: true });
  const { service, api } = await start(t, dataDir);
  const event = { type: 'tool_call', payload: { tool: 'rm' } };
  t.match(await api.post(`/v1/agents/${stays}/events`, event), {
    status: 201,
    json: { policy_result: { outcome: 'blocked' } },
  });
  t.equal((await api.as(stolen.key as string).get('/v1/agents')).status, 401, 'a revoked key stays revoked');
  t.equal((await api.get(`/v1/agents/${goes}`)).status, 404, 'a deleted agent stays deleted');
  t.equal((await api.post(`/v1/agents/${goes}/events`, event)).status, 404);
  const told = await api.until(
    () => api.get('/v1/audit-logs?action=registry.recovered'),
    ({ json }) => json.total >= 2,
  );
  // What is said of the deleted agent is erased with it.
  t.same(told.json.logs.map((entry: { resource_type: string }) => entry.resource_type).sort(), ['api_key', 'policy']);
  t.match(await service.log(), /registry\.behind/);
  t.equal((await api.get('/readyz')).status, 200);
});

t.test('a ClickHouse that was emptied is said to be, and is given the registry again', { skip }, async (t) => {
  const dataDir = folderOf(t);
  const first = await start(t, dataDir);
  const agent = (await first.api.post('/v1/agents', { name: 'one' })).json.id as string;
  const policy = { name: 'no rm', type: 'block_action', conditions: { tool: 'rm' }, actions: ['block'] };
  await first.api.post('/v1/policies', policy);
  await first.api.post(`/v1/agents/${agent}/events`, { type: 'prompt', payload: { n: 1 } });
  t.equal((await first.api.get('/v1/events')).json.total, 1);
  const key = keyIn(dataDir);
  await first.service.stop();
  rmSync(path.join(dataDir, 'clickhouse'), { recursive: true });

  const second = await start(t, dataDir);
  t.match(await second.service.log(), /history_missing|history\.missing/, 'the start says so');
  const ready = await second.api.until(
    () => second.api.get('/readyz'),
    ({ json }) => json?.degraded !== undefined,
  );
  t.match(ready, { status: 200, json: { status: 'ready', degraded: 'history_missing' } });
  t.equal((await second.api.post(`/v1/agents/${agent}/events`, { type: 'prompt', payload: { n: 2 } })).status, 201);
  await second.api.until(
    () => second.api.get('/v1/audit-logs?action=registry.recovered'),
    ({ json }) => json.total >= 1,
  );
  await second.service.stop();

  // Now Redis is lost, too: what was written again is what it is made from.
  rmSync(path.join(dataDir, 'redis', 'appendonlydir'), { recursive: true });
  await t.rejects(launchService({ dataDir, env }), /registry restore/, 'no new account is made over it');
  t.equal(keyIn(dataDir), key, 'and its key file stays');
});
