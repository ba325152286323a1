// The files by which others start us (ops): settings, commands and paths in them are those that there are, an image is
// reachable and holds no data, and systemd finds no fault with the units.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { assetPath } from '../src/process/assets.ts';
import { readConfig } from '../src/process/config.ts';
import { programOnPath } from './support/programs.ts';
import { read } from './support/sources.ts';

type Service = {
  image: string;
  command?: string[];
  environment?: Record<string, string>;
  volumes?: string[];
  stop_grace_period?: string;
};

const COMMANDS = ['start', 'front', 'pipelines', 'backtests', 'migrate'];
const containerfile = read('ops/Containerfile');
const imageSettings = Object.fromEntries(
  /^ENV (.+)$/m
    .exec(containerfile)![1]!
    .split(' ')
    .map((pair) => pair.split('=') as [string, string]),
);

t.test('an image is reachable, has its data apart, and a base that gets fixes', (t) => {
  t.match(readConfig(imageSettings), { host: '0.0.0.0', port: 8080, metricsPort: 9464, dataDir: '/data' });
  for (const line of ['USER node', 'VOLUME /data', 'EXPOSE 8080 9464']) t.match(containerfile, `\n${line}\n`);
  const [, major] = /^ARG NODE_IMAGE=node:(\d+)\.\d+-trixie-slim$/m.exec(containerfile) ?? [];
  const { engines } = JSON.parse(read('package.json')) as { engines: { node: string } };
  t.ok(engines.node.includes(`>=${major}`), `Node.js ${major} is one of ${engines.node}`);
  t.equal(containerfile.match(/^FROM \$\{NODE_IMAGE\}/gm)?.length, 2);
  for (const [, from] of containerfile.matchAll(/^COPY --from=build (.+) \S+$/gm))
    for (const file of from!.split(' ').filter((name) => !/\/(build\/\w+|node_modules)$/.test(name)))
      t.ok(existsSync(assetPath(path.relative('/gatehouse', file))), file);
  t.equal(JSON.parse(/ CMD (\[.+\])$/m.exec(containerfile)![1]!)[0], 'node', 'it says whether it lives');
  const ignored = read('.dockerignore').split('\n');
  for (const name of ['data', '.env', '.git', '**/node_modules', 'build']) t.ok(ignored.includes(name), name);
  t.end();
});

t.test('the compose file names settings, commands and volumes that there are', (t) => {
  const text = read('ops/compose.yaml')
    .replaceAll(/\$\{GATEHOUSE_BOOTSTRAP_KEY:\?[^}]*\}/g, 'k'.repeat(40))
    .replaceAll(/\$\{CLICKHOUSE_PASSWORD:\?[^}]*\}/g, 'secret');
  t.notMatch(text, '${', 'nothing else is left to be filled in');
  const { services, volumes } = parse(text, { merge: true }) as {
    services: Record<string, Service>;
    volumes: Record<string, object>;
  };
  const ours = Object.entries(services).filter(([, { image }]) => image === 'gatehouse');
  t.same(ours.map(([name]) => name).sort(), ['backtests', 'front', 'migrate', 'pipelines']);
  for (const [name, { command, environment, stop_grace_period: grace }] of ours) {
    t.same(command, [name]);
    const { clickhouseUrl, redisUrl } = readConfig({ ...imageSettings, ...environment });
    t.same([new URL(clickhouseUrl!).hostname, new URL(redisUrl!).hostname], ['clickhouse', 'redis'], name);
    t.ok(Number.parseInt(grace!, 10) > 25, 'it has the time to drain');
  }
  for (const { volumes: mounted = [] } of Object.values(services))
    for (const mount of mounted) t.ok(mount.split(':')[0]! in volumes, mount);
  t.match(services['redis']!.command, ['redis-server', '--appendonly', 'yes']);
  t.ok(services['redis']!.command!.join(' ').includes('--maxmemory-policy noeviction'));
  t.end();
});

t.test('systemd finds no fault with the units', (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-units-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(assetPath('ops/systemd'), folder, { recursive: true });
  const units = readdirSync(folder);
  t.same(units.sort(), ['gatehouse.service', 'gatehouse@.service']);
  for (const unit of units) {
    const text = readFileSync(path.join(folder, unit), 'utf8');
    const [, command] = /^ExecStart=\/usr\/bin\/node build\/service\/cli\.js (\S+)$/m.exec(text) ?? [];
    t.ok(command === '%i' || COMMANDS.includes(command!), `${unit}: ${command}`);
    t.match(text, '\nKillMode=mixed\n', 'the supervisor ends its children, in order');
    // An instance, and a node that there is: these two alone are looked for on the disk.
    const name = unit.replace('@.', '@front.');
    writeFileSync(path.join(folder, name), text.replace('/usr/bin/node', process.execPath));
    if (programOnPath('systemd-analyze') === undefined) t.comment('there is no systemd-analyze: not verified');
    else
      t.equal(
        execFileSync('systemd-analyze', ['verify', '--man=no', path.join(folder, name)], {
          stdio: ['ignore', 'pipe', 'pipe'],
          encoding: 'utf8',
        }),
        '',
      );
  }
  t.end();
});
