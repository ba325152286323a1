// The settings, before anything starts: addresses with passwords in them, names that are others', secrets that no log
// may hold, and a worker that cannot start, or whose supervisor has gone meanwhile.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { complaintOf, secretsOf } from '../../src/process/addresses.ts';
import { assetPath } from '../../src/process/assets.ts';
import { readConfig, SETTINGS, secretsIn } from '../../src/process/config.ts';
import { parseApiKey } from '../../src/registry/accounts/api-key-text.ts';
import { isAlive } from '../support/alive.ts';
import { folderOf } from '../support/folder.ts';
import { makeDataDir, runCli, startService } from '../support/service.ts';

const OPERATORS = ['alice', 'bob'].map((name) => `${name}:gop_${name.padEnd(44, 'a')}`);
const PROTOCOL = { redis: 'redis', clickhouse: 'http', smtp: 'smtp' } as const;
/** As people paste them: from a console that made the password. */
const PASSWORDS = [
  'pa/ss',
  'pa#ss',
  'pa?ss',
  'pa@/ss',
  '50%off',
  '/ss',
  '#',
  '%',
  'a/b@c',
  'pa ss/',
  '1/2',
  '1?2',
  '1#2',
  '0/',
];

t.test('an address with a password that is not encoded is refused, and one that is encoded is taken', async (t) => {
  for (const [kind, protocol] of Object.entries(PROTOCOL) as [keyof typeof PROTOCOL, string][]) {
    for (const password of PASSWORDS) {
      for (const user of ['user', '']) {
        const complaint = complaintOf(kind, `${protocol}://${user}:${password}@host.example:1234`);
        t.match(complaint, /percent-encoded/, `${kind} ${user} ${password}`);
        const encoded = `${protocol}://${user}:${encodeURIComponent(password)}@host.example:1234`;
        t.equal(complaintOf(kind, encoded), undefined, `${kind} ${user} ${password}, encoded`);
        t.ok(secretsOf(encoded).includes(password), 'and known for what it is, to be masked');
      }
      t.match(
        complaintOf(kind, `${protocol}://${password}@host.example`),
        /percent-encoded|at most|behind its host|names no host/,
        password,
      );
    }
    t.match(complaintOf(kind, `${protocol}://`), /names no host|cannot be read/);
    t.match(complaintOf(kind, `${protocol}://host:99999`), /cannot be read/);
  }
  t.equal(complaintOf('redis', 'redis://a:1/3,redis://b:2'), undefined);
  t.match(complaintOf('redis', 'redis://a:1,redis://b:x'), /cannot be read/, 'each of several');
  t.match(complaintOf('redis', 'redis://a/cache'), /a database by its number/);
  t.equal(complaintOf('redis', 'unix:/run/redis.sock'), undefined);
  t.equal(complaintOf('clickhouse', 'https://user:p@host:8443/behind/a/prefix'), undefined);
});

t.test('origins, proxies, hosts and the public address are checked whole', async (t) => {
  const sound = {
    GATEHOUSE_CORS_ORIGINS: ['*', 'https://app.example.com', 'http://localhost:5173, https://a.example'],
    GATEHOUSE_TRUSTED_PROXIES: ['10.0.0.1', '10.0.0.0/8, ::1, fd00::/8'],
    GATEHOUSE_EGRESS_ALLOWED_HOSTS: ['hooks.corp', 'hooks.corp:9000, localhost,fd00::1,\n10.0.0.7:1,', ' '],
    GATEHOUSE_PUBLIC_URL: ['https://gatehouse.example.com', 'http://10.0.0.1:8080/gatehouse/'],
  };
  const unsound = {
    GATEHOUSE_CORS_ORIGINS: [
      'https://a.example/',
      'a.example',
      'https://a.example/x',
      '*, https://a.example',
      'null',
      ',',
    ],
    GATEHOUSE_TRUSTED_PROXIES: ['proxy.example', '10.0.0.0/33', '10.0.0.0/8/8', '::1/129', '10.0.0.1,', '10.0.0.0/'],
    GATEHOUSE_EGRESS_ALLOWED_HOSTS: [
      'a b',
      'https://a',
      'a/x',
      'a:0',
      'a:65536',
      'a:x',
      '*.corp',
      'a;b',
      '[::1]',
      ':9',
    ],
    GATEHOUSE_PUBLIC_URL: [
      'gatehouse.example',
      'https://',
      'https://a.example/?x=1',
      'https://a.example/#x',
      'https://me:pw@a.example',
    ],
  };
  for (const [env, values] of Object.entries(sound)) {
    for (const value of values) t.doesNotThrow(() => readConfig({ [env]: value }), `${env}=${value}`);
  }
  t.throws(() => readConfig({ GATEHOUSE_EGRESS_ALLOWED_HOSTS: 'one.corp two.corp' }), {
    message: /holds "one\.corp two\.corp", which is no host .*with commas between them/,
  });
  for (const [env, values] of Object.entries(unsound)) {
    for (const value of values)
      t.throws(
        () => readConfig({ [env]: value }),
        { name: 'ConfigError', message: new RegExp(`^${env}: `) },
        `${env}=${value}`,
      );
  }
});

t.test('each of them ends the start at once, by the name of the setting and never by its value', async (t) => {
  const withAddress = Object.values(SETTINGS).flatMap((setting) =>
    'address' in setting && 'secret' in setting ? [setting] : [],
  );
  t.equal(withAddress.length, 4);
  const dataDir = folderOf(t);
  for (const { env, address } of withAddress) {
    const value = (password: string) => `${PROTOCOL[address]}://user:${password}@127.0.0.1:9`;
    for (const password of ['Zauberwort/1', 'Zauberwort#', '50%Zauberwort']) {
      t.throws(() => readConfig({ [env]: value(password) }), {
        name: 'ConfigError',
        message: new RegExp(`^${env}: its value `),
      });
    }
    for (const command of ['start', address === 'smtp' ? 'pipelines' : 'front']) {
      const { code, stdout, stderr } = await runCli([command], {
        [env]: value('Zauberwort/1'),
        GATEHOUSE_DATA_DIR: dataDir,
      });
      t.equal(code, 2, `${command} with ${env}`);
      t.match(stderr, new RegExp(`^gatehouse: ${env}: its value [^\n]+\n$`));
      t.notMatch(stderr + stdout, /Zauberwort/);
    }
  }
});

t.test('no secret setting reaches a log', async (t) => {
  const password = 'Sesam-öffne-dich';
  const service = await startService(t, {
    stores: 'own',
    env: {
      GATEHOUSE_SMTP_URL: `smtp://user:${encodeURIComponent(password)}@127.0.0.1:9`,
      GATEHOUSE_LOG_LEVEL: 'debug',
    },
  });
  const runtime = await service.addresses();
  await service.stop();
  const said = `${await service.log()}${service.printed()}`;
  t.match(said, /GATEHOUSE_SMTP_URL/, 'the log says what is set');
  t.notMatch(said, /Sesam|%C3%B6ffne/);
  t.notMatch(said, new URL(runtime.redisUrl).password, 'nor what was made up for the embedded engines');

  const values = {
    redisUrl: 'redis://:Zauberwort1@h',
    backupS3Url: 'https://id:Zauberwort2@h',
    bootstrapKey: 'k'.repeat(40),
    operatorKeys: OPERATORS.join(),
  };
  const config = readConfig({
    ...{ GATEHOUSE_REDIS_URL: values.redisUrl, GATEHOUSE_BOOTSTRAP_KEY: values.bootstrapKey },
    ...{ GATEHOUSE_OPERATOR_KEYS: values.operatorKeys, GATEHOUSE_BACKUP_S3_URL: values.backupS3Url },
  });
  const secret = Object.values(SETTINGS).filter((setting) => 'secret' in setting);
  t.equal(secret.length, 6, 'a new secret setting: is it masked?');
  const keys = OPERATORS.map((one) => one.slice(one.indexOf(':') + 1));
  const passwords = ['Zauberwort1', 'Zauberwort1', 'Zauberwort2', 'Zauberwort2'];
  t.same(secretsIn(config).sort(), [...Object.values(values), ...keys, ...passwords].sort());

  const script = `
    const { createLog } = await import(${JSON.stringify(assetPath('build/src/process/log.js'))});
    const log = createLog({ level: 'info', processName: 'p', secrets: ['redis://:a"b\\\\c@h', 'Zauberwort1', 'abc'] });
    log.child({ part: 'x' }).error({ err: new TypeError('Invalid URL redis://:a"b\\\\c@h'), deep: { er: ['Zauberwort1'] } }, 'abc');
    try { new URL('Zauberwort1/nothing'); } catch (err) { log.error({ err }, 'url'); }`;
  const lines = await printedBy(script);
  t.notMatch(lines, /a\\"b|Zauberwort/);
  t.equal(
    lines.match(/\[masked\]/g)?.length,
    4,
    'message and stack of an error, what is deep in a field, what an error holds',
  );
  for (const line of lines.trim().split('\n')) t.ok(JSON.parse(line), 'still a line of JSON');
  t.match(lines, /"msg":"abc"/, 'what is too short to differ from a word stays');
});

t.test('a secret comes by its value or by a file, not by both and not by an empty one', async (t) => {
  const folder = folderOf(t);
  const file = path.join(folder, 'secret');
  const secrets = Object.values(SETTINGS).filter((setting) => 'secret' in setting);
  const values: Record<string, string> = {
    GATEHOUSE_BOOTSTRAP_KEY: 'k'.repeat(40),
    GATEHOUSE_REDIS_URL: 'redis://:Zauberwort1@h',
    GATEHOUSE_CLICKHOUSE_URL: 'http://u:Zauberwort1@h',
    GATEHOUSE_SMTP_URL: 'smtp://u:Zauberwort1@h',
    GATEHOUSE_BACKUP_S3_URL: 'https://id:Zauberwort1@h',
    GATEHOUSE_OPERATOR_KEYS: OPERATORS.join('\n'),
  };
  t.same(secrets.map(({ env }) => env).sort(), Object.keys(values).sort(), 'every secret is tried');
  for (const [name, value] of Object.entries(values)) {
    writeFileSync(file, `${value}\n`);
    const byFile = { [`${name}_FILE`]: file };
    t.ok(secretsIn(readConfig(byFile)).includes(value), name);
    t.ok(secretsIn(readConfig({ ...byFile, [name]: '' })).includes(value), `${name}: an empty one is none`);
    t.throws(() => readConfig({ ...byFile, [name]: value }), {
      name: 'ConfigError',
      message: `${name} and ${name}_FILE: set one of the two, not both`,
    });
    writeFileSync(file, '\n');
    t.throws(() => readConfig(byFile), { message: new RegExp(`^${name}_FILE: ".*secret" is empty$`) });
  }
  writeFileSync(file, 'gth_of_a_file\n');
  const asked = { GATEHOUSE_URL: 'http://127.0.0.1:1', GATEHOUSE_API_KEY_FILE: file };
  t.match(await runCli(['policies', 'pull'], asked), { code: 1, stderr: /127\.0\.0\.1:1/ }, 'commands that ask, too');
  t.match(await runCli(['policies', 'pull'], { ...asked, GATEHOUSE_API_KEY: 'gth_x' }), {
    code: 2,
    stderr: 'gatehouse: GATEHOUSE_API_KEY and GATEHOUSE_API_KEY_FILE: set one of the two, not both\n',
  });
});

t.test('keys of operators are of their own kind, and each is one operator', async (t) => {
  const [ALICE, BOB] = OPERATORS as [string, string];
  const read = (text: string) => readConfig({ GATEHOUSE_OPERATOR_KEYS: text }).operatorKeys;
  for (const text of [ALICE, OPERATORS.join(','), OPERATORS.join('\n'), OPERATORS.join(', ')])
    t.equal(read(text), text);
  const key = ALICE.slice('alice:'.length);
  const unsound = [
    key,
    'alice:',
    `alice:gop_${'a'.repeat(39)}`,
    `alice:gth_${'a'.repeat(40)}`,
    `${ALICE},`,
    `a b:${key}`,
  ];
  for (const text of [...unsound, `${ALICE},alice:${BOB.slice(4)}`, `${ALICE},bob:${key}`])
    t.throws(() => read(text), { name: 'ConfigError', message: /^(?!.*aaa)GATEHOUSE_OPERATOR_KEYS: / }, text);
  t.equal(parseApiKey(key), null, 'no key of an account is like it');
  t.throws(() => readConfig({ GATEHOUSE_BOOTSTRAP_KEY: key }), { message: /^GATEHOUSE_BOOTSTRAP_KEY: its value/ });
});

t.test('names that a container platform or a client adds are not settings', async (t) => {
  const added = {
    ...{ GATEHOUSE_SERVICE_HOST: '10.0.0.1', GATEHOUSE_SERVICE_PORT: '8080', GATEHOUSE_SERVICE_PORT_HTTP: '8080' },
    ...{ GATEHOUSE_PORT: 'tcp://10.0.0.1:8080', GATEHOUSE_PORT_8080_TCP: 'tcp://10.0.0.1:8080' },
    ...{
      GATEHOUSE_PORT_8080_TCP_PROTO: 'tcp',
      GATEHOUSE_PORT_8080_TCP_PORT: '8080',
      GATEHOUSE_PORT_8080_TCP_ADDR: '10.0.0.1',
    },
    ...{ GATEHOUSE_METRICS_PORT: 'tcp://10.0.0.2:9090', GATEHOUSE_METRICS_SERVICE_HOST: '10.0.0.2' },
    ...{
      GATEHOUSE_REDIS_PORT: 'tcp://10.0.0.3:6379',
      GATEHOUSE_REDIS_SERVICE_PORT: '6379',
      GATEHOUSE_REDIS_PORT_6379_TCP_ADDR: '10.0.0.3',
    },
    ...{ GATEHOUSE_URL: 'http://gatehouse', GATEHOUSE_KEY: 'gh_x', GATEHOUSE_API_KEY: 'gh_y' },
  };
  t.match(readConfig(added), { port: 8080, metricsPort: undefined });
  t.equal(readConfig({ ...added, GATEHOUSE_PORT: '9000' }).port, 9000, 'a setting stays one');
  for (const [name, value] of [
    ['GATEHOUSE_PORT', 'http'],
    ['GATEHOUSE_PORTS', 'tcp://1.2.3.4:5'],
    ['GATEHOUSE_REDIS_PORT', '6379'],
    ['GATEHOUSE_SERVICE', 'x'],
  ] as const) {
    t.throws(() => readConfig({ [name]: value }), { name: 'ConfigError', message: new RegExp(`^${name}: `) });
  }
});

t.test('a worker that cannot start ends, also when its supervisor has gone', async (t) => {
  const cli = assetPath('build/service/cli.js');
  const env = {
    ...process.env,
    GATEHOUSE_REDIS_URL: 'redis://127.0.0.1:9',
    GATEHOUSE_CLICKHOUSE_URL: 'http://127.0.0.1:9',
  };
  for (const command of ['front', 'pipelines']) {
    const dataDir = folderOf(t);
    mkdirSync(dataDir, { recursive: true });
    // Gone before the worker can have listened, and while it waits for its stores.
    for (const afterMs of [0, 1_500]) {
      const child = fork(cli, [command, '--supervised'], {
        env: { ...env, GATEHOUSE_DATA_DIR: dataDir, GATEHOUSE_PORT: '0' },
        stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      });
      t.teardown(() => child.kill('SIGKILL'));
      const exit = once(child, 'exit');
      await sleep(afterMs);
      if (child.connected) child.disconnect(); // else it has ended by itself before
      await Promise.race([exit, sleep(20_000)]);
      t.notOk(isAlive(child.pid!), `${command}: gone ${afterMs} ms after its start`);
    }
  }
});

/** The text that a module prints to standard error. */
async function printedBy(script: string): Promise<string> {
  const dataDir = await makeDataDir();
  const file = path.join(dataDir, 'said');
  mkdirSync(dataDir, { recursive: true });
  const { execFileSync } = await import('node:child_process');
  execFileSync('sh', ['-c', '"$1" --input-type=module -e "$2" 2> "$3"', 'sh', process.execPath, script, file]);
  const said = await readFile(file, 'utf8');
  await rm(dataDir, { recursive: true, force: true });
  return said;
}
