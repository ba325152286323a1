// The command line, as a person calls it: beside a running service, without one, and wrongly.
import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import { assetPath } from '../../src/process/assets.ts';
import { Api } from '../support/api.ts';
import { folderOf } from '../support/folder.ts';
import { launchService, runCli, startService } from '../support/service.ts';

const VERSION = (JSON.parse(readFileSync(assetPath('package.json'), 'utf8')) as { version: string }).version;

t.test('help and version need no settings', async (t) => {
  const help = await runCli(['help'], { GATEHOUSE_PORT: 'nonsense' });
  t.equal(help.code, 0);
  for (const command of [
    'start',
    'front',
    'pipelines',
    'backtests',
    'migrate',
    'account create NAME',
    'account limit NAME',
    'dead retry',
    'registry restore',
  ]) {
    t.match(help.stdout, `  ${command}`);
  }
  t.same(await runCli([], {}), help, 'nothing asked: help');
  t.equal((await runCli(['--version'], {})).stdout, `${VERSION}\n`);
});

t.test('a wrong call is a sentence and status 2', async (t) => {
  const wrong: [string[], RegExp][] = [
    [['fly'], /there is no command "fly"; "gatehouse help" lists them/],
    [['account'], /there is no command "account": account create NAME/],
    [['account', 'create'], /NAME is missing/],
    [['account', 'create', 'a', 'b'], /what is "b" meant to be/],
    [['account', 'limit', 'a', '--burst', '5'], /name both --per-second and --burst, or say --default/],
    [['account', 'limit', 'a', '--per-second', '0', '--burst', '5'], /--per-second takes a whole number from 1/],
    [['key', 'create', '--scope', 'king'], /--scope is one of read, write, admin/],
    [['key', 'create', '--colour', 'red'], /--colour.*usage: gatehouse key create/],
    [['account', 'delete'], /NAME or id is missing/],
    [['key', 'revoke'], /the id of a key is missing/],
    [['doctor', 'me'], /what is "me" meant to be/],
    [['hook', '--agent', 'my', 'repo'], /what is "repo" meant to be/],
    [['policies', 'pull', 'all'], /what is "all" meant to be/],
    [['dead', 'retry'], /name entries, or say --all/],
    [['dead', 'list', '--limit', '0'], /--limit takes a whole number/],
    [['start', '--port', '80'], /--port/],
    [['start', 'here'], /Settings are environment variables/],
  ];
  for (const [args, sentence] of wrong) {
    const { code, stderr, stdout } = await runCli(args, {});
    t.equal(code, 2, args.join(' '));
    t.match(stderr, sentence);
    t.match(stderr, /^gatehouse: [^\n]+\n$/, 'one line');
    t.equal(stdout, '');
  }
  const bad = await runCli(['start'], { GATEHOUSE_PORT: 'http' });
  t.equal(bad.code, 2);
  t.match(bad.stderr, /^gatehouse: GATEHOUSE_PORT: "http"/);
});

t.test('without a service and without addresses the commands say what to do', async (t) => {
  const dataDir = folderOf(t);
  for (const args of [
    ['account', 'create', 'x'],
    ['account', 'list'],
    ['account', 'delete', 'x', '--yes'],
    ['key', 'list'],
    ['dead', 'list'],
    ['migrate'],
    ['front'],
    ['pipelines'],
    ['backtests'],
    ['registry', 'restore'],
  ]) {
    const { code, stderr } = await runCli(args, { GATEHOUSE_DATA_DIR: dataDir });
    t.equal(code, 1, args.join(' '));
    t.match(stderr, `gatehouse: no Gatehouse runs on ${dataDir}. Start one there (npm start)`);
  }
});

t.test('accounts and keys: listed, revoked, deleted with all that is kept', async (t) => {
  const service = await startService(t, { stores: 'own' });
  const cli = (...args: string[]) => runCli(args, { GATEHOUSE_DATA_DIR: service.dataDir });
  const lines = (text: string) =>
    text
      .trim()
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line));
  const made = await cli('account', 'create', 'shop');
  const [, account, key] = /^account (\S+)\nkey (\S+)\n$/.exec(made.stdout) ?? [];
  const other = /^id (\S+)\nkey (\S+)/.exec(
    (await cli('key', 'create', '--account', 'shop', '--scope', 'read')).stdout,
  );
  const shop = new Api(t, { url: service.url, key: key! });
  const agent = (await shop.post('/v1/agents', { name: 'seller' })).json.id;
  const policy = { name: 'p', type: 'block_action', conditions: {}, actions: ['log'] };
  await shop.post('/v1/policies', policy);
  await shop.post('/v1/alerts', { name: 'a', trigger: 'policy_violation', channel: 'email', target: 'a@example.com' });
  const event = (await shop.post(`/v1/agents/${agent}/events`, { type: 'prompt', payload: { prompt: 'hello' } })).json
    .id;
  t.equal((await shop.get(`/v1/agents/${agent}/events/${event}`)).status, 200);

  await t.test('cluster status: who has what, and where it lies', async (t) => {
    const status = lines((await cli('cluster', 'status')).stdout);
    const { redisCluster } = await service.addresses();
    const place = { slot: redisCluster ? Number : null, node: /^127\.0\.0\.1:\d+$/ };
    const [process, ...others] = status.filter((line) => 'process' in line);
    t.match(process, { alive: true, shares: ['alert', 'anomaly', 'journal', 'signal', 'store'] });
    t.same(others, []);
    const streams = status.filter((line) => 'stream' in line);
    t.equal(streams.length, 8 * (3 + 1) + 16, 'each group of 8 event, 8 signal and 16 journal streams');
    for (const line of streams) t.match(line, { owner: process.process, ...place });
    t.match(
      status.filter((line) => 'account' in line),
      [
        { name: 'default', partitions: [], ...place },
        { name: 'shop', account, partitions: [Number], ...place },
      ],
    );
  });

  const accounts = lines((await cli('account', 'list')).stdout);
  t.same(
    accounts.map(({ name }) => name),
    ['default', 'shop'],
  );
  t.match(accounts[1], { id: account, keys: 2, agents: 1, request_limit: null });
  const keys = lines((await cli('key', 'list', '--account', 'shop')).stdout);
  t.same(keys.map(({ scope }) => scope).sort(), ['admin', 'read']);
  t.notMatch(JSON.stringify(keys), key!, 'without the keys themselves');

  const reader = new Api(t, { url: service.url, key: other![2]! });
  t.equal((await reader.get('/v1/agents')).status, 200);
  t.match(await cli('key', 'revoke', other![1]!), { code: 2, stderr: /the account default has no key/ });
  t.match(await cli('key', 'revoke', other![1]!, '--account', 'shop'), { code: 0, stdout: `revoked ${other![1]}\n` });
  await reader.until(
    () => reader.get('/v1/agents'),
    ({ status }) => status === 401,
  );

  const refused = await cli('account', 'delete', 'shop');
  t.match(refused, { code: 2, stderr: /deletes the account shop \(acc_\S+\) with its 1 agents .* add --yes/ });
  t.equal((await shop.get('/v1/agents')).status, 200, 'nothing was deleted');
  t.match(await cli('account', 'delete', 'default', '--yes'), { code: 2, stderr: /made again by every start/ });
  const deleted = await cli('account', 'delete', 'shop', '--yes');
  t.match(deleted, { code: 0, stdout: /"keys":1,"agents":1,"policies":1,"alerts":1/ });
  await shop.until(
    () => shop.get('/v1/agents'),
    ({ status }) => status === 401,
  );
  t.same(
    lines((await cli('account', 'list')).stdout).map(({ name }) => name),
    ['default'],
  );
  t.match(await cli('account', 'delete', 'shop', '--yes'), { code: 2, stderr: /there is no account "shop"/ });
  const again = await cli('account', 'create', 'shop');
  t.equal(again.code, 0, 'the name is free');
  t.notMatch(again.stdout, account!, 'and means another account');

  const { clickhouseUrl, clickhouseDatabase: database } = await service.addresses();
  const clickhouse = new ClickHouse({ url: clickhouseUrl, database, queryTimeoutSeconds: 15 });
  const left = () =>
    clickhouse.query<{ n: number }>('SELECT count() AS n FROM events WHERE account_id = {account:String}', {
      account: account!,
    });
  for (let i = 0; i < 600 && Number((await left())[0]!.n) > 0; i++) await sleep(100);
  t.equal(Number((await left())[0]!.n), 0, 'its events are erased');
  await clickhouse.close();
});

t.test('doctor: a yes or a cure each', async (t) => {
  const dataDir = folderOf(t);
  const alone = await runCli(['doctor'], { GATEHOUSE_DATA_DIR: path.join(dataDir, 'none') });
  t.equal(alone.code, 1);
  t.match(alone.stdout, /^yes {2}settings +given: GATEHOUSE_DATA_DIR/m);
  t.match(alone.stdout, /^yes {2}disk +[0-9.]+ of [0-9.]+ GiB free/m);
  t.match(alone.stdout, /^NO {3}Redis +no address is given, and no Gatehouse runs.*\n +npm start/m);

  const service = await startService(t, { stores: 'own' });
  const env = { GATEHOUSE_DATA_DIR: service.dataDir };
  const well = await runCli(['doctor', '--json'], env);
  const { ok, findings } = JSON.parse(well.stdout);
  t.match({ ok, code: well.code }, { ok: true, code: 0 }, well.stdout);
  t.same(
    findings.map(({ what }: { what: string }) => what),
    [
      'settings',
      'versions',
      'programs',
      'data folder',
      'disk',
      'Redis',
      'registry',
      'clock of Redis',
      'ClickHouse',
      'clock of ClickHouse',
    ],
  );
  const redis = (await service.children()).find(({ name }) => name === 'redis')!;
  process.kill(redis.pid, 'SIGSTOP');
  try {
    const hangs = await runCli(['doctor'], env);
    t.equal(hangs.code, 1);
    t.match(hangs.stdout, /^NO {3}Redis +.*(answer|ready)/m);
    t.match(hangs.stdout, /^yes {2}ClickHouse/m);
  } finally {
    process.kill(redis.pid, 'SIGCONT');
  }
});

t.test('beside a running service they find it by its data folder', async (t) => {
  const service = await startService(t, { stores: 'own' });
  const cli = (...args: string[]) => runCli(args, { GATEHOUSE_DATA_DIR: service.dataDir });
  const ask = (key: string, method: string, where: string, body?: object) =>
    fetch(service.url + where, {
      method,
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });

  const made = await cli('account', 'create', 'acme');
  t.equal(made.code, 0, made.stderr);
  const key = /^key (gth_[A-Za-z0-9]{40})$/m.exec(made.stdout)?.[1] ?? '';
  t.match(made.stdout, /^account acc_[0-9a-z]{26}$/m);
  t.equal((await ask(key, 'POST', '/v1/agents', { name: 'first' })).status, 201, 'its key works');
  const others = (await (await ask(service.key, 'GET', '/v1/agents')).json()) as { total: number };
  t.equal(others.total, 0, 'and in its own account alone');
  const again = await cli('account', 'create', 'acme');
  t.equal(again.code, 1);
  t.match(again.stderr, /^gatehouse: .*name/);

  const reader = await cli('key', 'create', '--account', 'acme', '--scope', 'read', '--label', 'looks only');
  const readKey = /^key (gth_[A-Za-z0-9]{40})$/m.exec(reader.stdout)?.[1] ?? '';
  t.equal((await ask(readKey, 'GET', '/v1/agents')).status, 200);
  t.equal((await ask(readKey, 'POST', '/v1/agents', { name: 'second' })).status, 403);
  const stranger = await cli('key', 'create', '--account', 'nobody');
  t.equal(stranger.code, 2);
  t.match(stranger.stderr, /there is no account "nobody"/);

  const limited = await cli('account', 'limit', 'acme', '--per-second', '7', '--burst', '70');
  t.match(limited, { code: 0, stdout: '7 a second, burst 70\n' }, limited.stderr);
  const account = await (await ask(readKey, 'GET', '/v1/account')).json();
  t.match(account, { name: 'acme', requests_per_second: 7, requests_burst: 70 });
  t.match(await cli('account', 'limit', 'acme', '--default'), { code: 0, stdout: 'by the settings\n' });
  t.match(await (await ask(readKey, 'GET', '/v1/account')).json(), { requests_per_second: null });
  t.match(await cli('account', 'limit', 'nobody', '--default'), { code: 2, stderr: /there is no account "nobody"/ });

  t.match(await cli('migrate'), { code: 0, stdout: 'the tables are up to date\n' });
  t.match(await cli('dead', 'list'), { code: 0, stdout: '' });
  t.match(await cli('dead', 'retry', '--all'), { code: 0, stdout: 'put back 0 of 0\n' });
});

t.test('a Redis that has lost everything is noticed, and its registry made again from ClickHouse', async (t) => {
  if (process.env.GATEHOUSE_TEST_CLICKHOUSE_URL !== undefined) return void t.pass('with the embedded engines alone');
  const dataDir = folderOf(t);
  const first = await launchService({ dataDir });
  const authorization = { Authorization: `Bearer ${first.key}`, 'Content-Type': 'application/json' };
  const body = JSON.stringify({ name: 'kept' });
  const made = await fetch(`${first.url}/v1/agents`, { method: 'POST', headers: authorization, body });
  const { id } = (await made.json()) as { id: string };
  const approval = await waitingEvent(first, id);
  await whole(`${first.url}/v1/approvals`, authorization); // the journal is stored
  await first.stop();

  await rm(path.join(dataDir, 'redis'), { recursive: true });
  const env = { GATEHOUSE_DATA_DIR: dataDir, GATEHOUSE_PORT: '0', GATEHOUSE_LOG_LEVEL: 'error' };
  const refused = await runCli(['start'], env);
  t.equal(refused.code, 1);
  t.match(refused.stderr, /^gatehouse: Redis holds no registry, but ClickHouse does.*registry restore/);
  const restored = await runCli(['registry', 'restore'], env);
  t.match(restored, { code: 0, stdout: /^restored .*"agent":1.*"account":1.*"approval":1/ }, restored.stderr);
  const again = await runCli(['registry', 'restore'], env);
  t.match(again, { code: 1, stderr: /^gatehouse: this Redis holds a registry/ }, 'not twice');

  const second = await launchService({ dataDir, env: { GATEHOUSE_BOOTSTRAP_KEY: undefined } });
  t.teardown(() => second.stop());
  const found = await fetch(`${second.url}/v1/agents/${id}`, { headers: authorization });
  t.equal(found.status, 200, 'the agent is there, and the key works');
  const decide = { method: 'POST', headers: authorization, body: JSON.stringify({ decision: 'approve' }) };
  const decided = await fetch(`${second.url}/v1/approvals/${approval}`, decide);
  t.equal(decided.status, 200, 'what was pending can be decided');
  t.match(
    await whole(`${second.url}/v1/approvals?status=approved`, authorization),
    { items: [{ id: approval }], total: 1 },
    'and the decision replaces what was stored before',
  );
});

/** A list that is not behind. */
async function whole(url: string, headers: Record<string, string>): Promise<unknown> {
  for (;;) {
    const answer = await fetch(url, { headers });
    const body = await answer.json();
    if (answer.ok && !answer.headers.has('gatehouse-incomplete')) return body;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The approval of an event that waits for one. */
async function waitingEvent({ url, key }: { url: string; key: string }, agent: string): Promise<string> {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const send = async (path: string, body: object) =>
    (await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })).json();
  const rule = { type: 'require_approval', conditions: {}, actions: ['block'] };
  await send('/v1/policies', { name: 'ask first', ...rule });
  for (;;) {
    const event = (await send(`/v1/agents/${agent}/events`, { type: 'prompt', payload: {} })) as {
      policy_result: { approval_id?: string };
    };
    if (event.policy_result.approval_id !== undefined) return event.policy_result.approval_id;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
