// The files by which others start us (ops): settings, commands and paths in them are those that there are, an image is
// reachable and holds no data, and systemd finds no fault with the units.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { parse, parseAllDocuments } from 'yaml';
import { makeRoutes } from '../src/http/routes.ts';
import { assetPath } from '../src/process/assets.ts';
import { readConfig } from '../src/process/config.ts';
import { folderOf } from './support/folder.ts';
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

t.test('the page that installs without an image says what the image does', (t) => {
  const page = read('docs/deploy.md');
  const [, steps] = /^RUN (npm .+)$/m.exec(containerfile)!;
  t.match(page, `\n\`\`\`\n${steps!.split(' && ').join('\n')}\n\`\`\`\n`);
  const [, entry, program] = /^ENTRYPOINT \["(\w+)", "(\S+)"\]$/m.exec(containerfile)!;
  const shown = [...page.matchAll(/^node (\S+) (\w+)$/gm)].map(([, of, command]) => `${of} ${command}`);
  const commands = COMMANDS.filter((command) => command !== 'start');
  t.same([entry, shown.sort()], ['node', commands.map((command) => `${program} ${command}`).sort()]);
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
  const folder = folderOf(t);
  const [ours, backups] = [
    readdirSync(assetPath('ops/systemd')),
    ['gatehouse-backup.service', 'gatehouse-backup.timer'],
  ];
  t.same(ours.sort(), ['gatehouse.service', 'gatehouse@.service']);
  const texts = [...ours.map((unit) => `systemd/${unit}`), ...backups].map((file) => read(`ops/${file}`));
  // An instance, and below a node that there is: these two alone are looked for on the machine.
  const names = [...ours, ...backups].map((unit) => path.join(folder, unit.replace('@.', '@front.')));
  for (const [i, text] of texts.entries()) {
    writeFileSync(names[i]!, text.replace('/usr/bin/node', process.execPath));
    if (names[i]!.endsWith('.timer')) continue;
    const [, command] = /^ExecStart=\/usr\/bin\/node build\/service\/cli\.js (\S+)/m.exec(text) ?? [];
    t.ok(command === '%i' || [...COMMANDS, 'backup'].includes(command!), `${names[i]}: ${command}`);
    // What backs up has to know the settings of what runs.
    for (const line of ['EnvironmentFile=-/etc/gatehouse/settings', 'User=gatehouse']) t.match(text, `\n${line}\n`);
    if (command !== 'backup') t.match(text, '\nKillMode=mixed\n', 'the supervisor ends its children, in order');
  }
  if (programOnPath('systemd-analyze') === undefined) t.comment('there is no systemd-analyze: not verified');
  else {
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', ...names], { encoding: 'utf8' });
    t.same([status, stderr], [0, '']);
  }
  t.end();
});

type Probe = { httpGet: { path: string; port: string } };
type Pod = {
  terminationGracePeriodSeconds?: number;
  restartPolicy?: string;
  enableServiceLinks: boolean;
  automountServiceAccountToken: boolean;
  securityContext: object;
  volumes: { name: string; persistentVolumeClaim?: { claimName: string }; secret?: { secretName: string } }[];
  containers: {
    image: string;
    args: string[];
    env?: { name: string; value?: string }[];
    envFrom: { configMapRef: { name: string } }[];
    ports?: { name: string; containerPort: number }[];
    securityContext: object;
    volumeMounts: { name: string; mountPath: string }[];
  }[];
};
type Template = { metadata: { labels: Record<string, string> }; spec: Pod };
type Manifest = {
  apiVersion: string;
  kind: string;
  metadata: { name: string };
  data?: Record<string, string>;
  spec?: {
    template?: Template;
    selector?: Record<string, unknown>;
    serviceName?: string;
    ports?: { targetPort: string }[];
  };
};

const manifests = parseAllDocuments(read('ops/kubernetes.yaml')).map((document) => document.toJS() as Manifest);
const ofKind = (kind: string) => manifests.filter((one) => one.kind === kind);
const workloads = manifests.filter(({ spec }) => spec?.template !== undefined);

/** Both volumes, and nothing that could be written to but the one. */
function checkConfined(t: Test, { securityContext, volumes, containers, ...pod }: Pod): void {
  const [{ securityContext: own, volumeMounts }] = containers as [Pod['containers'][0]];
  t.match(pod, { enableServiceLinks: false, automountServiceAccountToken: false });
  t.match(securityContext, { runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000 });
  t.same(own, { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } });
  t.same(volumeMounts.map(({ mountPath }) => mountPath).sort(), ['/data', '/run/gatehouse']);
  t.same(volumeMounts.map(({ name }) => name).sort(), volumes.map(({ name }) => name).sort());
  const claimed = volumes.map(({ persistentVolumeClaim: claim, secret }) => claim?.claimName ?? secret?.secretName);
  t.same(claimed, [ofKind('PersistentVolumeClaim')[0]!.metadata.name, 'gatehouse']);
}

t.test('on Kubernetes each process has settings and volumes that there are, time to drain, and no rights', (t) => {
  const folder = folderOf(t);
  const secrets = { 'redis-url': 'redis://r', 'clickhouse-url': 'http://c', 'bootstrap-key': 'k'.repeat(40) };
  for (const [name, value] of Object.entries(secrets)) writeFileSync(path.join(folder, name), value);
  const [settings] = ofKind('ConfigMap');
  t.same(workloads.map(({ kind }) => kind).sort(), ['Deployment', 'Job', 'StatefulSet', 'StatefulSet']);
  for (const { kind, spec } of workloads) {
    const { metadata, spec: pod } = spec!.template!;
    const part = metadata.labels['part']!;
    const [{ args, env = [], envFrom }, ...others] = pod.containers as [Pod['containers'][0]];
    t.same([args, others], [[part], []]);
    t.ok(COMMANDS.includes(part), part);
    t.same(envFrom, [{ configMapRef: { name: settings!.metadata.name } }]);
    const given = Object.fromEntries(env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])));
    const own = Object.entries({ ...imageSettings, ...settings!.data, ...given }) as [string, string][];
    const config = readConfig(
      Object.fromEntries(own.map(([name, value]) => [name, value.replace('/run/gatehouse', folder)])),
    );
    t.match(config, { redisUrl: 'redis://r', clickhouseUrl: 'http://c', dataDir: '/data' }, part);
    t.equal(config.bootstrapKey !== undefined, part === 'migrate', 'one process alone has the first key');
    if (kind !== 'Job') t.ok(pod.terminationGracePeriodSeconds! > 25 + config.drainSeconds, 'it has the time to drain');
    checkConfined(t, pod);
  }
  t.end();
});

t.test('on Kubernetes ports, probes and services lead to what there is', (t) => {
  const open = makeRoutes({ metrics: true }).flatMap(({ path, needs }) => (needs === null ? [path] : []));
  const [http, metrics] = [Number(imageSettings['GATEHOUSE_PORT']), Number(imageSettings['GATEHOUSE_METRICS_PORT'])];
  const portsOf: Record<string, object> = { front: { http, metrics }, migrate: {} };
  const lives = { startupProbe: '/healthz', livenessProbe: '/healthz' };
  const probesOf: Record<string, object> = { front: { ...lives, readinessProbe: '/readyz/traffic' }, migrate: {} };
  for (const { kind, spec } of workloads) {
    const { metadata, spec: pod } = spec!.template!;
    const part = metadata.labels['part']!;
    const ports = Object.fromEntries((pod.containers[0]!.ports ?? []).map((one) => [one.name, one.containerPort]));
    t.same(ports, portsOf[part] ?? { metrics }, part);
    const probes = Object.entries(pod.containers[0]!).filter(([name]) => name.endsWith('Probe')) as [string, Probe][];
    t.same(
      Object.fromEntries(probes.map(([name, { httpGet }]) => [name, httpGet.path])),
      probesOf[part] ?? lives,
      part,
    );
    t.ok(probes.every(([, { httpGet }]) => open.includes(httpGet.path) && httpGet.port in ports));
    if (kind !== 'Job') t.same(spec!.selector, { matchLabels: metadata.labels });
    if (kind === 'StatefulSet') t.ok(ofKind('Service').some((service) => service.metadata.name === spec!.serviceName));
  }
  for (const { spec } of ofKind('Service')) {
    const chosen = workloads
      .map((one) => one.spec!.template!)
      .filter(({ metadata: { labels } }) =>
        Object.entries(spec!.selector!).every(([label, value]) => labels[label] === value),
      );
    const names = chosen.flatMap((one) => one.spec.containers[0]!.ports ?? []).map(({ name }) => name);
    for (const { targetPort } of spec!.ports!) t.ok(names.includes(targetPort), targetPort);
  }
  t.end();
});

t.test('the file for Kubernetes has the fields that Kubernetes knows', (t) => {
  const types = assetPath('node_modules/kubernetes-types');
  if (!existsSync(types)) {
    t.comment('there is no kubernetes-types: not compared');
    t.end();
    return;
  }
  const folder = folderOf(t);
  const text = manifests.map(
    ({ apiVersion, kind }, i) =>
      `import type { ${kind} as T${i} } from 'kubernetes-types/${apiVersion === 'v1' ? 'core/v1' : apiVersion}';\n` +
      `export const m${i}: T${i} = ${JSON.stringify(manifests[i])};\n`,
  );
  writeFileSync(path.join(folder, 'manifests.ts'), text.join(''));
  const compilerOptions = {
    ...{ strict: true, noEmit: true, skipLibCheck: true, target: 'es2022', types: [] },
    ...{ module: 'nodenext', moduleResolution: 'nodenext', paths: { 'kubernetes-types/*': [`${types}/*`] } },
  };
  writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['manifests.ts'] }));
  const { status, stdout } = spawnSync(process.execPath, [assetPath('node_modules/typescript/bin/tsc'), '-p', folder], {
    encoding: 'utf8',
  });
  t.equal(status, 0, stdout);
  t.end();
});
