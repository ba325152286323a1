// Two versions on the same Redis and ClickHouse under load, of which the newer one has a migration more: nothing that
// either acknowledged is lost or there twice, the audit chain is valid, and the older one, started again, is refused in
// a sentence.
import { randomBytes } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { assetPath } from '../../src/process/assets.ts';
import { eventually } from '../streams/harness.ts';
import { Api } from '../support/api.ts';
import { startClickHouse } from '../support/clickhouse.ts';
import { folderOf } from '../support/folder.ts';
import { startRedis } from '../support/redis.ts';
import { launchService, runCli, type TestService } from '../support/service.ts';
import { isStoredOnce, Load } from '../support/steady-load.ts';

t.setTimeout(600_000);
const MORE = 'ALTER TABLE {{database}}.events{{on_cluster}} ADD COLUMN IF NOT EXISTS of_a_newer_one String;\n';

/** This program, and what a release of later might add to the tables. */
function newerInstallation(t: Test): { folder: string; migration: string } {
  const folder = folderOf(t);
  for (const name of readdirSync(assetPath('.')))
    if (!/^(\..*|build|clickhouse)$/.test(name)) symlinkSync(assetPath(name), path.join(folder, name));
  mkdirSync(path.join(folder, 'build'));
  for (const name of ['build/service', 'clickhouse'])
    cpSync(assetPath(name), path.join(folder, name), { recursive: true });
  const files = readdirSync(path.join(folder, 'clickhouse')).filter((name) => /^\d{3}_/.test(name));
  const migration = `${String(files.length + 1).padStart(3, '0')}_more`;
  writeFileSync(path.join(folder, 'clickhouse', `${migration}.sql`), MORE);
  return { folder, migration };
}

t.test('an older and a newer one beside each other', async (t) => {
  const engine = await startClickHouse(t);
  const { address } = await startRedis(t, { single: true });
  const stores = {
    GATEHOUSE_REDIS_URL: address.url,
    GATEHOUSE_CLICKHOUSE_URL: engine.url,
    GATEHOUSE_CLICKHOUSE_DATABASE: `versions_${process.pid}_${randomBytes(4).toString('hex')}`,
  };
  const env = { ...stores, GATEHOUSE_BOOTSTRAP_KEY: `test-${randomBytes(24).toString('base64url')}` };
  const newer = newerInstallation(t);
  const [oldFolder, newFolder] = [folderOf(t), folderOf(t)];
  const start = async (dataDir: string, installation?: string): Promise<TestService> => {
    const service = await launchService({ dataDir, env, ...(installation === undefined ? {} : { installation }) });
    t.teardown(() => service.stop());
    return service;
  };
  const loadOf = async (service: TestService, name: string): Promise<Load> => {
    const api = new Api(t, service);
    const load = new Load(api, (await api.post('/v1/agents', { name })).json.id);
    load.start();
    return load;
  };
  const grows = async (load: Load, what: string) => {
    const before = load.acknowledged.length;
    t.ok(await eventually(() => load.acknowledged.length > before + 2_000), what);
  };

  const old = await start(oldFolder);
  const byOld = await loadOf(old, 'old');
  await grows(byOld, 'the older one works alone');
  const first = await start(newFolder, newer.folder);
  const byNew = await loadOf(first, 'new');
  await grows(byNew, 'the newer one works');
  await grows(byOld, 'and the older one goes on');
  await byOld.stop();
  t.match(await old.stop(), { code: 0 });
  await grows(byNew, 'the newer one works alone');
  const tooOld = await runCli(['start'], { ...env, GATEHOUSE_DATA_DIR: oldFolder, GATEHOUSE_PORT: '0' });
  t.not(tooOld.code, 0);
  t.match(tooOld.stderr, `the database is newer: it has migration ${newer.migration}`);
  t.notMatch(tooOld.stderr, /^ {4}at /m, 'a sentence');
  await grows(byNew, 'the newer one did not notice');
  await byNew.stop();
  t.match(await first.stop(), { code: 0 });

  const again = await start(newFolder, newer.folder);
  const acknowledged = [...byOld.acknowledged, ...byNew.acknowledged];
  await isStoredOnce(t, again, acknowledged);
  const verified = await runCli(['audit', 'verify'], { ...env, GATEHOUSE_DATA_DIR: newFolder });
  t.match(JSON.parse(verified.stdout), { valid: true, faults: 0, unchained: 0 }, verified.stdout);
});
