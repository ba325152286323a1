// The packages: that all of them are made for every Node.js that package.json names, and that what no machine like this
// one can use is not kept (scripts/prune.mjs).
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import semver from 'semver';
import t from 'tap';
import { assetPath } from '../src/process/assets.ts';

type Entry = { engines?: { node?: string }; hasInstallScript?: boolean };

const readJson = (name: string) => JSON.parse(readFileSync(assetPath(name), 'utf8'));

t.test('every package of the lock file is for every Node.js that we are for: npm warns of none', async (t) => {
  const { engines } = readJson('package.json') as { engines: { node: string } };
  const { packages } = readJson('package-lock.json') as { packages: Record<string, Entry> };
  const lowest = engines.node.split('||').map((range) => semver.minVersion(range)!.version);
  t.match(lowest, [/^20\./, /^22\./, /^24\./], `package.json: ${engines.node}`);
  for (const version of [...lowest, '26.0.0', process.versions.node]) {
    const against = Object.entries(packages).flatMap(([folder, { engines: its }]) =>
      its?.node === undefined || semver.satisfies(version, its.node) ? [] : [`${folder} wants ${its.node}`],
    );
    t.same(against, [], `Node.js ${version}`);
  }
});

t.test('no package runs a script of its own at an installation', async (t) => {
  const { packages } = readJson('package-lock.json') as { packages: Record<string, Entry> };
  const { allowScripts } = readJson('package.json') as { allowScripts: Record<string, boolean> };
  const names = Object.entries(packages).flatMap(([folder, { hasInstallScript }]) =>
    hasInstallScript && folder !== ''
      ? [folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length)]
      : [],
  );
  t.ok(names.includes('chdb'), 'there are some that would');
  for (const name of names) t.equal(allowScripts[name], false, name);
});

t.test('what is installed holds nothing for other systems, and no sources that are never compiled', async (t) => {
  const { platform, arch, versions } = process;
  const ours = readdirSync(assetPath('node_modules/uWebSockets.js')).filter((name) => name.endsWith('.node'));
  t.ok(ours.includes(`uws_${platform}_${arch}_${versions.modules}.node`), 'the binary that is running is there');
  t.same(
    ours.filter((name) => !name.startsWith(`uws_${platform}_${arch}_`)),
    [],
    'no binary for another system',
  );
  for (const name of ['uWebSockets.js/docs', 'uWebSockets.js/src', 'binaryen/bin', '@stdlib/math-base-special-ln/src'])
    t.notOk(existsSync(assetPath(`node_modules/${name}`)), name);
  const files = readdirSync(assetPath('node_modules'), { recursive: true }) as string[];
  t.same(
    // tap makes its test class again in there after the installation.
    files.filter((name) => name.endsWith('.js.map') && !name.includes('test-built')),
    [],
    'no source maps',
  );
});
