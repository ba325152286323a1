// A copy of the data folder of a service that runs, started beside it, as a person does who tries a backup: the service
// does not notice, and each of the two speaks to its own engines alone.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import t from 'tap';
import { Api } from '../support/api.ts';
import { hasOwnStores, launchService, makeDataDir, startService } from '../support/service.ts';

t.setTimeout(300_000);
const skip = hasOwnStores() ? false : 'the data folder is of the embedded engines';

t.test('a start on a copy ends no process of the service that it was copied from', { skip }, async (t) => {
  const service = await startService(t, { stores: 'own' });
  const api = new Api(t, { url: service.url, key: service.key });
  const agent = (await api.post('/v1/agents', { name: 'one' })).json.id as string;
  await api.post(`/v1/agents/${agent}/events`, { type: 'prompt', payload: {} });
  t.equal((await api.get('/v1/events')).json.total, 1);
  const children = await service.children();

  const copy = await makeDataDir();
  t.teardown(() => rm(copy, { recursive: true, force: true }));
  execFileSync('cp', ['-a', `${service.dataDir}/.`, copy]);
  const pidIn = (file: string) => Number(/^(?:PID: )?(\d+)/m.exec(readFileSync(path.join(copy, file), 'utf8'))?.[1]);
  const pidOf = (name: string) => children.find((child) => child.name === name)!.pid;
  t.equal(pidIn('clickhouse/engine/status'), pidOf('clickhouse'), 'the copy names the engine of the original');
  t.equal(pidIn('redis/server.pid'), pidOf('redis'));

  const second = await launchService({ dataDir: copy, env: { GATEHOUSE_BOOTSTRAP_KEY: service.key } });
  t.teardown(() => second.stop());
  t.same(await service.children(), children, 'every process of the first lives on');
  t.notMatch(await second.log(), /leftover_found/);
  t.notMatch(await service.log(), /child\.ended/);

  const other = new Api(t, { url: second.url, key: service.key });
  t.equal((await other.post(`/v1/agents/${agent}/events`, { type: 'prompt', payload: {} })).status, 201);
  t.equal((await other.get('/v1/events')).json.total, 2);
  t.equal((await api.get('/v1/events')).json.total, 1, 'what the second takes in is in the second alone');
  const [here, there] = [await service.addresses(), await second.addresses()];
  t.not(
    new URL(here.redisUrl).password,
    new URL(there.redisUrl).password,
    'and neither can meet the other by its port',
  );
  t.not(new URL(here.clickhouseUrl).password, new URL(there.clickhouseUrl).password);
});
