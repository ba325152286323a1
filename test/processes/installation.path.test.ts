// An installation keeps the settings that it began with: a process with another number of partitions, prefix or
// database would accept what no other stores, or serve a registry without its history. It refuses to start, and says
// why.
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import t from 'tap';
import { folderOf } from '../support/folder.ts';
import { type Environment, launchService, runCli, startService } from '../support/service.ts';

t.test('a process whose settings differ from its installation refuses to start', async (t) => {
  const service = await startService(t, { stores: 'own' });
  const { redisUrl, redisCluster, clickhouseUrl, clickhouseDatabase } = await service.addresses();
  const ours = {
    ...{ GATEHOUSE_REDIS_URL: redisUrl, GATEHOUSE_REDIS_CLUSTER: redisCluster ? '1' : '0' },
    ...{ GATEHOUSE_CLICKHOUSE_URL: clickhouseUrl, GATEHOUSE_CLICKHOUSE_DATABASE: clickhouseDatabase },
  };
  const refused = async (given: Environment, sentence: RegExp) => {
    for (const command of ['front', 'pipelines']) {
      const { code, stderr } = await runCli([command], { ...ours, GATEHOUSE_PORT: '0', ...given });
      t.equal(code, 1, command);
      t.match(stderr, sentence);
    }
  };
  await refused({ GATEHOUSE_PARTITIONS: '16' }, /gatehouse: GATEHOUSE_PARTITIONS is 16, but this installation has 8/);
  await refused(
    { GATEHOUSE_REDIS_PREFIX: 'mine' },
    /gatehouse: GATEHOUSE_REDIS_PREFIX is mine, but the database \w+ belongs to an installation with \w+/,
  );
  const other = { ...ours, GATEHOUSE_CLICKHOUSE_DATABASE: 'other' };
  t.match(await runCli(['migrate'], { ...other, GATEHOUSE_REDIS_URL: undefined }), { code: 0 });
  await refused(other, /gatehouse: Redis belongs to the installation ins_\S+, but the database other .* to ins_/);
  t.match(
    await runCli(['migrate'], { ...ours, GATEHOUSE_PARTITIONS: '16' }),
    { code: 1, stderr: /has 8/ },
    'migrate says it, too',
  );
});

t.test('so does a start, and the data folder serves again with the settings that it began with', async (t) => {
  const dataDir = folderOf(t);
  const first = await launchService({ dataDir, env: { GATEHOUSE_PARTITIONS: '2' } });
  await first.stop();
  await t.rejects(launchService({ dataDir }), /GATEHOUSE_PARTITIONS is 8, but this installation has 2/);
  const again = await launchService({ dataDir, env: { GATEHOUSE_PARTITIONS: '2' } });
  t.equal((await fetch(`${again.url}/readyz`)).status, 200);
  await again.stop();
});

t.test('migrate makes the account default once, with its key', async (t) => {
  const service = await startService(t, { stores: 'own' });
  const { redisUrl, redisCluster, clickhouseUrl } = await service.addresses();
  const dataDir = folderOf(t);
  const fresh = {
    GATEHOUSE_DATA_DIR: path.join(dataDir, 'not-there-yet'),
    ...{ GATEHOUSE_REDIS_URL: redisUrl, GATEHOUSE_REDIS_CLUSTER: redisCluster ? '1' : '0' },
    ...{ GATEHOUSE_CLICKHOUSE_URL: clickhouseUrl, GATEHOUSE_CLICKHOUSE_DATABASE: 'fresh' },
    GATEHOUSE_REDIS_PREFIX: 'fresh',
  };
  const made = await runCli(['migrate'], fresh);
  t.match(made, {
    code: 0,
    stdout: /made the account default; its admin key is kept in \S+\/not-there-yet\/admin-key\n$/,
  });
  t.notMatch(made.stdout + made.stderr, /gth_/, 'no key where a job may log it');
  const file = path.join(fresh.GATEHOUSE_DATA_DIR, 'admin-key');
  t.match(await readFile(file, 'utf8'), /^gth_\w+\n$/);
  t.equal((await stat(file)).mode & 0o777, 0o600);
  t.match(await runCli(['migrate'], fresh), { code: 0, stdout: 'the tables are up to date\n' });

  const other = { ...fresh, GATEHOUSE_CLICKHOUSE_DATABASE: 'other_fresh' };
  t.match(await runCli(['migrate'], { ...other, GATEHOUSE_PARTITIONS: '16' }), { code: 1, stderr: /has 8/ });
  t.match(
    await runCli(['migrate'], other),
    { code: 0, stdout: /^applied / },
    'the refused number was not written down',
  );
});
