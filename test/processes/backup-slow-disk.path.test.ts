// `gatehouse backup` at 3,000 events a second on a disk that others keep busy, and each backup restored at once beside
// the service that goes on: what was acknowledged before is there, once, and the audit chain is valid.
// GATEHOUSE_TEST_BACKUPS says how many; a release is tried with 20.
import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { Api } from '../support/api.ts';
import { folderOf } from '../support/folder.ts';
import { hasOwnStores, launchService, makeDataDir, runCli, startService } from '../support/service.ts';
import { slowDisk } from '../support/slow-disk.ts';
import { hasChanges, isStoredOnce, Load } from '../support/steady-load.ts';

t.setTimeout(3_600_000);
const skip = hasOwnStores() ? false : 'the data folder is of the embedded engines';
const BACKUPS = Number(process.env['GATEHOUSE_TEST_BACKUPS'] ?? 3);
const PER_SECOND = 3_000;
const BETWEEN_MS = 1_500;

type Taken = { backup: string; key: string; before: string[]; changes: number };

async function restoreBeside(t: Test, { backup, key, before, changes }: Taken): Promise<void> {
  const dataDir = await makeDataDir();
  const here = { GATEHOUSE_DATA_DIR: dataDir };
  const { code, stderr } = await runCli(['restore', backup], here);
  t.equal(code, 0, stderr);
  const restored = await launchService({ dataDir, env: { GATEHOUSE_BOOTSTRAP_KEY: key } });
  t.teardown(() => restored.stop());
  const there = new Api(t, { url: restored.url, key });
  await isStoredOnce(t, restored, before);
  await hasChanges(t, there, changes);
  const verified = await runCli(['audit', 'verify'], here);
  t.match(JSON.parse(verified.stdout), { valid: true, faults: 0, unchained: 0, restored: 0 }, verified.stdout);
  await restored.stop();
  await rm(dataDir, { recursive: true, force: true });
}

t.test(`${BACKUPS} backups of a busy service on a slow disk`, { skip }, async (t) => {
  const service = await startService(t, { stores: 'own' });
  const api = new Api(t, service);
  const agent = (await api.post('/v1/agents', { name: 'busy' })).json.id as string;
  const load = new Load(api, agent, PER_SECOND);
  const disk = await slowDisk(t);
  t.comment(`an fsync took ${disk.quietMs.toFixed(2)} ms, and takes ${disk.slowedMs.toFixed(2)} ms`);
  load.start();
  t.teardown(() => load.stop());
  const begunMs = performance.now();
  const backups = folderOf(t);
  for (let i = 0; i < BACKUPS; i++) {
    await sleep(BETWEEN_MS);
    const [before, changes] = [[...load.acknowledged], load.changes];
    const [tookMs, fsyncs] = [performance.now(), disk.fsyncs()];
    const { code, stdout, stderr } = await runCli(['backup', backups, '--keep', '2'], {
      GATEHOUSE_DATA_DIR: service.dataDir,
    });
    if (code !== 0) return t.fail(stderr);
    t.ok(disk.fsyncs() > fsyncs, 'others wrote meanwhile');
    const duringEvents = load.acknowledged.length - before.length;
    const seconds = (performance.now() - tookMs) / 1000;
    t.comment(`backup ${i + 1}: ${seconds.toFixed(1)} s, ${Math.round(duringEvents / seconds)} events/s meanwhile`);
    await restoreBeside(t, { backup: stdout.split('\n')[0]!, key: service.key, before, changes });
  }
  const rate = (1000 * load.acknowledged.length) / (performance.now() - begunMs);
  await load.stop();
  t.comment(`${load.acknowledged.length} events, ${Math.round(rate)} a second`);
  t.ok(rate > PER_SECOND / 10, 'there was a load');
});
