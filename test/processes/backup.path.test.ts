// `gatehouse backup` and `gatehouse restore` against the whole service under load: each backup is one moment of Redis
// and ClickHouse. What was acknowledged before it began is in it, once, and its audit chain is valid.
import { appendFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import type { BackupManifest } from '../../src/backup/backup-manifest.ts';
import { eventually } from '../streams/harness.ts';
import { Api } from '../support/api.ts';
import { folderOf } from '../support/folder.ts';
import { hasOwnStores, launchService, runCli, startService } from '../support/service.ts';
import { hasChanges, isStoredOnce, Load } from '../support/steady-load.ts';

t.setTimeout(600_000);
const skip = hasOwnStores() ? false : 'the data folder is of the embedded engines';

function manifestOf(backup: string): BackupManifest {
  return JSON.parse(readFileSync(path.join(backup, 'manifest.json'), 'utf8')) as BackupManifest;
}

t.test('backups under load hold all that was acknowledged before, once, with a valid chain', { skip }, async (t) => {
  const service = await startService(t, { stores: 'own' });
  const api = new Api(t, { url: service.url, key: service.key });
  const agent = (await api.post('/v1/agents', { name: 'busy' })).json.id as string;
  const load = new Load(api, agent);
  load.start();
  const backups = folderOf(t);
  const taken: { folder: string; before: string[]; changes: number }[] = [];
  for (let i = 0; i < 3; i++) {
    const isBusy = () => load.acknowledged.length > (i + 1) * 1_000 && load.changes > (i + 1) * 5;
    t.ok(await eventually(isBusy), 'there is a load');
    const [before, changes] = [[...load.acknowledged], load.changes];
    const { code, stdout, stderr } = await runCli(['backup', backups], { GATEHOUSE_DATA_DIR: service.dataDir });
    t.equal(code, 0, stderr);
    t.match(stdout, /everything acknowledged before .*Z: \d+ files, \d+ bytes/);
    taken.push({ folder: stdout.split('\n')[0]!, before, changes });
  }
  await load.stop();
  t.ok(manifestOf(taken[2]!.folder).reused_bytes > 0, 'what has not changed is shared');
  t.notOk(
    readdirSync(path.join(service.dataDir, 'clickhouse', 'engine', 'shadow')).some((name) => /backup/.test(name)),
  );
  await api.until(
    () => api.get('/metrics'),
    ({ text }) => /gatehouse_backup_timestamp_seconds\{[^}]*\} 1[.\d]*e?\+?\d* *$/m.test(text),
  );

  for (const { folder: backup, before, changes } of taken) {
    const dataDir = folderOf(t);
    const { code, stdout, stderr } = await runCli(['restore', backup], { GATEHOUSE_DATA_DIR: dataDir });
    t.equal(code, 0, stderr);
    t.match(stdout, `everything acknowledged before ${manifestOf(backup).moment} is there`);
    const restored = await launchService({ dataDir, env: { GATEHOUSE_BOOTSTRAP_KEY: service.key } });
    t.teardown(() => restored.stop());
    const there = new Api(t, { url: restored.url, key: service.key });
    const { total } = (await there.get('/v1/events')).json;
    t.equal(await isStoredOnce(t, restored, before), total);
    await hasChanges(t, there, changes);
    const { code: verified, stdout: found } = await runCli(['audit', 'verify'], { GATEHOUSE_DATA_DIR: dataDir });
    t.equal(verified, 0, found);
    t.match(JSON.parse(found), { valid: true, faults: 0, unchained: 0, restored: 0 });
    t.notMatch(await restored.log(), /redis\.file_was_cut|damaged/);
    await restored.stop();
  }
});

t.test('a backup that is damaged, and a folder that is not empty, are refused by name', { skip }, async (t) => {
  const service = await startService(t, { stores: 'own' });
  const api = new Api(t, { url: service.url, key: service.key });
  const agent = (await api.post('/v1/agents', { name: 'one' })).json.id as string;
  await api.post(`/v1/agents/${agent}/events`, { type: 'prompt', payload: {} });
  await api.get('/v1/events');
  const backups = folderOf(t);
  const here = { GATEHOUSE_DATA_DIR: service.dataDir };
  const first = (await runCli(['backup', backups], here)).stdout.split('\n')[0]!;
  const again = await runCli(['backup', backups, '--keep', '1'], here);
  t.equal(again.code, 0, again.stderr);
  const backup = again.stdout.split('\n')[0]!;
  t.notOk(existsSync(first), 'the older one is removed');
  t.equal((await runCli(['restore', backups, '--check'], {})).code, 0, 'and the newer one is whole without it');
  t.match((await runCli(['backup', path.join(service.dataDir, 'x')], here)).stderr, /is in the data folder/);

  const refusedWith = async (words: RegExp | string, dataDir: string) => {
    const { code, stderr } = await runCli(['restore', backups], { GATEHOUSE_DATA_DIR: dataDir });
    t.equal(code, 1);
    t.match(stderr, words);
  };
  await refusedWith(/in use by the Gatehouse/, service.dataDir);
  const other = folderOf(t);
  appendFileSync(path.join(other, 'mine'), 'x');
  await refusedWith(/is not empty \(mine\); nothing was changed/, other);

  const empty = folderOf(t);
  const keptWhole = folderOf(t);
  cpSync(backup, keptWhole, { recursive: true });
  const { files } = manifestOf(backup);
  const aof = files.find(({ path: name, size }) => name.endsWith('.incr.aof') && size > 0)!;
  const part = files.find(({ path: name, size }) => /store.*\.bin$/.test(name) && size > 0)!;
  for (const name of [...[aof, part].map((file) => `data/${file.path}`), 'manifest.json']) {
    const file = path.join(backup, name);
    const bytes = readFileSync(file);
    bytes[bytes.length - 3]! ^= 1;
    rmSync(file);
    appendFileSync(file, bytes);
    await refusedWith(`${file} is damaged or was altered`, empty);
    t.same(
      readdirSync(empty).filter((one) => one !== 'lock'),
      [],
      'nothing stays of it',
    );
    rmSync(file);
    cpSync(path.join(keptWhole, name), file);
  }
  rmSync(path.join(backup, 'data', part.path));
  await refusedWith(/cannot copy .*\(ENOENT\)/, empty);
  cpSync(path.join(keptWhole, 'data', part.path), path.join(backup, 'data', part.path));
  mkdirSync(path.join(empty, 'lost+found'));
  t.equal((await runCli(['restore', backups], { GATEHOUSE_DATA_DIR: empty })).code, 0, 'a new disk is empty');
  t.equal(statSync(path.join(empty, 'redis')).mode & 0o077, 0, 'for its owner alone');
});
