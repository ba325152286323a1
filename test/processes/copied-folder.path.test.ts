// A copy of the data folder of a service that runs, started beside it, as a person does who tries a backup: the service
// does not notice, and each of the two speaks to its own engines alone.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import path from 'node:path';
import { createClient } from '@clickhouse/client';
import t from 'tap';
import { eventually } from '../streams/harness.ts';
import { Api } from '../support/api.ts';
import { folderOf } from '../support/folder.ts';
import { hasOwnStores, launchService, runCli, startService } from '../support/service.ts';

t.setTimeout(300_000);
const skip = hasOwnStores() ? false : 'the data folder is of the embedded engines';

/** It ends with 1 where a file goes while it is at it, as the parts of an insert do. */
function copyTo(from: string, to: string): void {
  spawnSync('cp', ['-a', from, to]);
}

t.test('a start on a copy ends no process of the service that it was copied from', { skip }, async (t) => {
  const service = await startService(t, { stores: 'own' });
  const api = new Api(t, { url: service.url, key: service.key });
  const agent = (await api.post('/v1/agents', { name: 'one' })).json.id as string;
  await api.post(`/v1/agents/${agent}/events`, { type: 'prompt', payload: {} });
  t.equal((await api.get('/v1/events')).json.total, 1);
  const children = await service.children();

  const copy = folderOf(t);
  copyTo(`${service.dataDir}/.`, copy);
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

t.test(
  'a copy whose tables are older than its Redis and chains says what it lacks, and is valid',
  { skip },
  async (t) => {
    const service = await startService(t, { stores: 'own' });
    const api = new Api(t, { url: service.url, key: service.key });
    const agent = (await api.post('/v1/agents', { name: 'one' })).json.id as string;
    const submit = async (count: number) => {
      const events = Array.from({ length: count }, (_, n) => ({ type: 'prompt', payload: { n } }));
      t.equal((await api.post(`/v1/agents/${agent}/events/batch`, { events })).status, 200);
      t.equal((await api.get('/v1/events')).json.items.length > 0, true);
    };
    await submit(20);
    t.ok((await api.get('/v1/audit-logs')).json.total > 0, 'what was changed is stored, too');
    const copy = folderOf(t);
    copyTo(`${service.dataDir}/.`, copy);

    // As `cp` has it, which takes `clickhouse` before `redis`, and of the tables one after the other.
    await submit(30);
    const chained = async () => {
      const { clickhouseUrl: url, clickhouseDatabase: database } = await service.addresses();
      const clickhouse = createClient({ url, database });
      const query = "SELECT sum(count) AS n FROM audit_chain FINAL WHERE chain LIKE 'events%'";
      const [row] = await (await clickhouse.query({ query, format: 'JSONEachRow' })).json<{ n: string }>();
      await clickhouse.close();
      return Number(row!.n);
    };
    t.ok(await eventually(async () => (await chained()) >= 50));
    const table = path.join(
      'clickhouse/engine',
      readlinkSync(path.join(copy, 'clickhouse/engine/data/gatehouse/audit_chain')).replace('../../', ''),
    );
    for (const name of [table, 'redis', 'runtime.json', 'lock']) {
      rmSync(path.join(copy, name), { recursive: true, force: true });
      copyTo(path.join(service.dataDir, name), path.join(copy, name));
    }

    const second = await launchService({ dataDir: copy, env: { GATEHOUSE_BOOTSTRAP_KEY: service.key } });
    t.teardown(() => second.stop());
    const other = new Api(t, { url: second.url, key: service.key });
    t.equal((await other.get('/v1/events')).json.total, 20, '30 are gone');
    t.ok(await eventually(async () => !existsSync(path.join(copy, 'copied-while-running.json'))));
    t.match(await second.log(), /copy\.made_while_running/);
    t.match(await second.log(), /"rows":30,.*copy\.rows_missing/);
    const { code, stdout } = await runCli(['audit', 'verify'], { GATEHOUSE_DATA_DIR: copy });
    t.equal(code, 0, stdout);
    t.match(JSON.parse(stdout), {
      valid: true,
      faults: 0,
      restored: 30,
      closed_gaps: [{ by: 'gatehouse start', entries: 30 }],
    });
    await second.stop();
    const again = await launchService({ dataDir: copy, env: { GATEHOUSE_BOOTSTRAP_KEY: service.key } });
    t.teardown(() => again.stop());
    t.notOk(existsSync(path.join(copy, 'copied-while-running.json')), 'the copy is a folder of its own now');

    // A gap of another kind is closed by hand.
    const { clickhouseUrl: url, clickhouseDatabase: database } = await again.addresses();
    const clickhouse = createClient({ url, database });
    await clickhouse.command({ query: 'DELETE FROM events WHERE id IN (SELECT id FROM events ORDER BY id LIMIT 4)' });
    await clickhouse.close();
    const audit = (...args: string[]) => runCli(['audit', ...args], { GATEHOUSE_DATA_DIR: copy });
    t.equal((await audit('verify')).code, 1);
    const range = ['--from', '2026-01-01T00:00:00Z', '--to', new Date().toISOString()];
    const why = ['--by', 'Ada', '--reason', 'removed by mistake'];
    t.match((await audit('close-gap', ...range)).stderr, '--by takes a text');
    t.match(await audit('close-gap', ...range, ...why), {
      code: 0,
      stdout: /^4 rows are missing in events-\d; .*nothing was changed/s,
    });
    t.equal((await audit('verify')).code, 1, 'nothing was changed');
    t.match(await audit('close-gap', ...range, ...why, '--yes'), {
      code: 0,
      stdout: /noted as log_\w+, signed with MCow/,
    });
    const closed = await audit('verify');
    t.match(JSON.parse(closed.stdout), {
      valid: true,
      restored: 34,
      closed_gaps: [{ entries: 30 }, { by: 'Ada', entries: 4 }],
    });
    t.match(await audit('close-gap', ...range, ...why, '--yes'), { code: 1, stderr: /is missing without a note/ });
  },
);
