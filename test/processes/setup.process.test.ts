// The set-up (scripts/setup.mjs) in a checkout made for it: what it installs and for whom, and what it says before and
// instead. apt-get itself is not run: `sh` on the PATH records its arguments, and does what the package would
// do.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';
import { assetPath } from '../../src/process/assets.ts';
import { folderOf } from '../support/folder.ts';

const { PROGRAMS } = (await import(pathToFileURL(assetPath('scripts/programs.mjs')).href)) as {
  PROGRAMS: Record<string, { file: string }>;
};
const IS_ROOT = process.getuid?.() === 0;
const NOBODY = 65_534;
const STORES = { GATEHOUSE_REDIS_URL: 'redis://127.0.0.1:1', GATEHOUSE_CLICKHOUSE_URL: 'http://127.0.0.1:1' };

type LockFile = { packages: Record<string, { dev?: boolean; devOptional?: boolean; optional?: boolean }> };
type Given = { args?: string[]; env?: Record<string, string>; asNobody?: boolean };

t.test(
  'as root it says that it installs redis-server, then does; apt-get gets the command to',
  { skip: !IS_ROOT },
  async (t) => {
    const checkout = makeCheckout(t);
    const { code, said } = await checkout.setUp({});
    t.equal(code, 0, said);
    t.match(said, /^setup: redis-server is missing and this runs as root: installing Debian's package.*\nSH RUNS\n$/);
    t.match(checkout.ran(), /apt-get .* install -y --no-install-recommends redis-server/);
    t.same(await checkout.setUp({}), { code: 0, said: '' }, 'once it is there nothing is said or done');
  },
);

t.test('other users get the command to type, and nothing is run', async (t) => {
  const checkout = makeCheckout(t);
  const { code, said } = await checkout.setUp({ asNobody: true });
  t.equal(code, 1);
  t.match(said, /^setup: redis-server is missing, and installing it takes root/);
  t.match(said, 'Type: sudo apt-get install --no-install-recommends redis-server   or set GATEHOUSE_REDIS_URL');
  t.equal(checkout.ran(), '', 'neither apt-get nor sudo');
});

t.test('--no-install refuses and says what is missing', async (t) => {
  const checkout = makeCheckout(t);
  const forms: Given[] = [
    { args: ['--no-install'] },
    { env: { npm_config_install: '' } }, // npm start --no-install
    { env: { npm_config_install: 'false' } },
  ];
  for (const form of forms) {
    const { code, said } = await checkout.setUp(form);
    t.equal(code, 1);
    t.match(said, /^setup: redis-server is missing, and --no-install forbids to install it\. Type: /);
  }
  rmSync(path.join(checkout.folder, 'node_modules'), { recursive: true });
  for (const form of forms) {
    const { code, said } = await checkout.setUp(form);
    t.equal(code, 1);
    t.match(said, /^setup: the packages of package-lock\.json are not installed.*Type: npm ci --include=dev/);
  }
  t.equal(checkout.ran(), '');
  t.notOk(existsSync(path.join(checkout.folder, 'node_modules')));
});

t.test('ended while npm installs, it takes npm along, which needs the signal twice', async (t) => {
  const checkout = makeCheckout(t);
  rmSync(path.join(checkout.folder, 'node_modules'), { recursive: true });
  const pidFile = path.join(checkout.folder, 'bin', 'npm.pid');
  const setUp = spawn(process.execPath, [path.join(checkout.folder, 'scripts', 'setup.mjs')], {
    env: { PATH: path.join(checkout.folder, 'bin') },
    stdio: 'ignore',
  });
  while (!existsSync(pidFile)) await sleep(20);
  setUp.kill('SIGTERM');
  await once(setUp, 'exit');
  t.equal(setUp.exitCode, 128 + os.constants.signals.SIGTERM);
  t.throws(() => process.kill(Number(readFileSync(pidFile, 'utf8')), 0), { code: 'ESRCH' }, 'npm is gone');
});

t.test('an installation for production is whole where it is built and has stores of its own', async (t) => {
  const checkout = makeCheckout(t);
  checkout.keepPackages(({ dev, devOptional, optional }) => !dev && !devOptional && !optional);
  t.same(await checkout.setUp({ env: STORES }), { code: 0, said: '' });
  const missing = /^setup: the packages of package-lock\.json are not installed/;
  const { GATEHOUSE_REDIS_URL } = STORES;
  t.match(
    await checkout.setUp({ args: ['--no-install'], env: { GATEHOUSE_REDIS_URL } }),
    { code: 1, said: missing },
    'not without an engine',
  );
  t.match(
    await checkout.setUp({ args: ['--no-install', '--dev'], env: STORES }),
    { code: 1, said: missing },
    'nor for measurements',
  );
  rmSync(path.join(checkout.folder, 'build'), { recursive: true });
  t.match(await checkout.setUp({ args: ['--no-install'], env: STORES }), { code: 1, said: missing }, 'nor to build');
});

t.test('a changed source where nothing can be written is said in a sentence', async (t) => {
  const checkout = makeCheckout(t);
  writeFileSync(path.join(checkout.bin, 'redis-server'), '', { mode: 0o755 });
  cpSync(assetPath('tsconfig.json'), path.join(checkout.folder, 'tsconfig.json'));
  mkdirSync(path.join(checkout.folder, 'src', 'composition'), { recursive: true });
  writeFileSync(path.join(checkout.folder, 'src', 'composition', 'cli.ts'), '');
  writeFileSync(path.join(checkout.folder, 'build', '.stamp'), 'of other sources');
  chmodSync(path.join(checkout.folder, 'build'), 0o555);
  const { code, said } = await checkout.setUp({ asNobody: true });
  t.equal(code, 1);
  t.match(
    said,
    /^setup: \S+\/build is not made of these sources, and cannot be written \(EACCES\)\. Build where .*\n$/,
  );
});

t.test('for the tests it fetches programs of others, and does without them where it cannot', async (t) => {
  const checkout = makeCheckout(t);
  const { bin } = checkout;
  checkout.beReadyForTests();
  for (const name of ['chromium', 'python3']) writeFileSync(path.join(bin, name), '', { mode: 0o755 });
  const args = ['--tests'];
  t.same(
    await checkout.setUp({ args }),
    {
      code: 0,
      said: `setup: missing, and there is no apt-get to fetch by: ${Object.keys(PROGRAMS).join(', ')}. What tests need them for is left out.\n`,
    },
    'dpkg and timeout are not on the PATH',
  );
  for (const name of ['dpkg', 'timeout']) writeFileSync(path.join(bin, name), '', { mode: 0o755 });
  t.match(await checkout.setUp({ args: [...args, '--no-install'] }), {
    code: 0,
    said: /^setup: missing, and --no-install forbids to fetch: promtool, nginx, .*\n$/,
  });
  t.equal(checkout.ran(), '');
  const { code, said } = await checkout.setUp({ args });
  t.equal(code, 0);
  t.match(said, /^setup: missing for the tests: promtool, .*, which are downloaded and not installed …\nSH RUNS\n$/);
  t.match(checkout.ran(), /timeout \d+ apt-get .* download prometheus nginx haproxy .*;/);
  writeFileSync(path.join(bin, 'sh'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  t.match(
    await checkout.setUp({ args }),
    { code: 0, said: /\nsetup: Not all of these could be fetched\./ },
    'the tests go on',
  );
  checkout.havePrograms();
  t.same(await checkout.setUp({ args }), { code: 0, said: '' }, 'once it is there nothing is said or done');
});

t.test('for the tests in a browser it installs chromium as root, and does without where it cannot', async (t) => {
  const checkout = makeCheckout(t);
  const { bin } = checkout;
  checkout.beReadyForTests();
  checkout.havePrograms();
  writeFileSync(path.join(bin, 'python3'), '', { mode: 0o755 });
  const args = ['--tests'];
  t.match(await checkout.setUp({ args: [...args, '--no-install'] }), {
    code: 0,
    said: /^setup: chromium is missing, and --no-install forbids to install it\. What tests need it for is left out\.\n$/,
  });
  t.match(await checkout.setUp({ args, asNobody: true }), {
    code: 0,
    said: /^setup: chromium is missing\. .* To have it: sudo apt-get install chromium fonts-dejavu-core\n/,
  });
  t.equal(checkout.ran(), '');
  if (!IS_ROOT) return;
  const { code, said } = await checkout.setUp({ args });
  t.equal(code, 0);
  t.match(said, /^setup: chromium is missing for the tests and this runs as root: .*\nSH RUNS\n$/);
  t.match(checkout.ran(), /apt-get .* install -y --no-install-recommends chromium fonts-dejavu-core/);
  writeFileSync(path.join(bin, 'sh'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  t.match(
    await checkout.setUp({ args }),
    { code: 0, said: /\nsetup: apt-get could not install chromium\./ },
    'the tests go on',
  );
  writeFileSync(path.join(bin, 'chromium'), '', { mode: 0o755 });
  t.same(await checkout.setUp({ args }), { code: 0, said: '' }, 'once it is there nothing is said or done');
  rmSync(path.join(bin, 'python3'));
  t.match(
    await checkout.setUp({ args: [...args, '--no-install'] }),
    { code: 0, said: /^setup: python3 is missing, and --no-install forbids to install it\./ },
    'the same with Python, for the test of its client',
  );
});

/** A folder as the set-up inspects it, without redis-server on the PATH: installed by the lock file, and built. */
function makeCheckout(t: Test) {
  const folder = folderOf(t);
  chmodSync(folder, 0o755);
  for (const name of ['scripts', 'package.json', 'package-lock.json'])
    cpSync(assetPath(name), path.join(folder, name), { recursive: true });
  const lock = JSON.parse(readFileSync(assetPath('package-lock.json'), 'utf8')) as LockFile;
  const keepPackages = (isKept: (entry: LockFile['packages'][string]) => unknown) => {
    const packages = Object.fromEntries(Object.entries(lock.packages).filter(([, entry]) => isKept(entry)));
    mkdirSync(path.join(folder, 'node_modules'), { recursive: true });
    writeFileSync(path.join(folder, 'node_modules', '.package-lock.json'), JSON.stringify({ packages }));
  };
  keepPackages(() => true);
  mkdirSync(path.join(folder, 'build', 'service'), { recursive: true });
  writeFileSync(path.join(folder, 'build', 'service', 'cli.js'), '');
  const bin = path.join(folder, 'bin');
  mkdirSync(bin);
  const program = (name: string, text: string) => writeFileSync(path.join(bin, name), text, { mode: 0o755 });
  program('apt-get', '#!/bin/sh\necho apt-get >> "$0.ran"\n');
  program(
    'npm',
    '#!/bin/sh\ntrap \'[ -n "$told" ] && exit 1; told=1\' TERM\necho $$ > "$0.pid.new"; /bin/mv "$0.pid.new" "$0.pid"\nwhile :; do /bin/sleep 0.1; done\n',
  );
  program('sudo', '#!/bin/sh\necho sudo >> "$0.ran"\n');
  program(
    'sh',
    `#!/bin/sh\necho "SH RUNS" >&2\necho "$2" >> ${bin}/sh.ran\n: > ${bin}/redis-server\n/bin/chmod 755 ${bin}/redis-server\n`,
  );
  const ran = () =>
    ['apt-get', 'sudo', 'sh']
      .map((name) => path.join(bin, `${name}.ran`))
      .filter(existsSync)
      .map((file) => readFileSync(file, 'utf8'))
      .join('');
  const setUp = ({ args = [], env = {}, asNobody = false }: Given) =>
    new Promise<{ code: number; said: string }>((resolve) => {
      const as = asNobody && IS_ROOT ? { uid: NOBODY, gid: NOBODY } : {};
      const command = [path.join(folder, 'scripts', 'setup.mjs'), ...args];
      execFile(
        process.execPath,
        command,
        { cwd: folder, env: { PATH: bin, ...env }, ...as },
        (error, _stdout, stderr) => resolve({ code: error === null ? 0 : Number(error.code), said: stderr }),
      );
    });
  const beReadyForTests = () => {
    writeFileSync(path.join(folder, 'node_modules', '.gatehouse-tap'), '');
    writeFileSync(path.join(bin, 'redis-server'), '', { mode: 0o755 });
  };
  const havePrograms = () => {
    for (const { file } of Object.values(PROGRAMS)) {
      const place = path.join(folder, 'node_modules', '.debian', file);
      mkdirSync(path.dirname(place), { recursive: true });
      writeFileSync(place, '');
    }
  };
  return { folder, bin, ran, setUp, keepPackages, beReadyForTests, havePrograms };
}
