// `gatehouse backup s3://…` and `gatehouse restore s3://…` with a Redis and a ClickHouse of one's own, under load, into
// a server of S3's protocol: what was acknowledged before is there after a restore, once, with a valid audit chain;
// what is erased meanwhile stays away; and what was altered, or cannot be done, is refused by name.
import { randomBytes } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { request as ask, createServer } from 'node:http';
import path from 'node:path';
import { createClient } from '@clickhouse/client';
import t, { type Test } from 'tap';
import { S3Storage } from '../../src/backup/s3-storage.ts';
import type { StoredManifest } from '../../src/backup/stored-backup.ts';
import { freePort } from '../../src/embedded/free-port.ts';
import { eventually } from '../streams/harness.ts';
import { Api } from '../support/api.ts';
import { startClickHouse } from '../support/clickhouse.ts';
import { listening } from '../support/listening.ts';
import { startRedis } from '../support/redis.ts';
import { startS3, withoutS3 } from '../support/s3-server.ts';
import { type Environment, launchService, makeDataDir, runCli, type TestService } from '../support/service.ts';
import { hasChanges, isStoredOnce, Load } from '../support/steady-load.ts';

t.setTimeout(600_000);
const skip = withoutS3();
/** Longer than the queries of a busy machine take. */
const QUERY_SECONDS = 3;
const SECRET = "shh/+'%20";

async function emptyStores(t: Test, clickhouseUrl: string, s3Url: string): Promise<Environment> {
  const { address } = await startRedis(t, { single: true });
  const dataDir = await makeDataDir();
  t.teardown(() => rm(dataDir, { recursive: true, force: true }));
  return {
    GATEHOUSE_DATA_DIR: dataDir,
    GATEHOUSE_REDIS_URL: address.url,
    GATEHOUSE_CLICKHOUSE_URL: clickhouseUrl,
    GATEHOUSE_CLICKHOUSE_DATABASE: `stored_${process.pid}_${randomBytes(4).toString('hex')}`,
    GATEHOUSE_BACKUP_S3_URL: s3Url.replace('://', `://KEYID:${encodeURIComponent(SECRET)}@`),
  };
}

/**
 * Leaves ClickHouse as it is between two inserts of the journal: a revision of a policy, the policy at the next one,
 * and a decision, without their entries in the audit log.
 */
async function beyondLog(service: TestService, { policy, approval }: { policy: string; approval: string }) {
  const { clickhouseUrl: url, clickhouseDatabase: database } = await service.addresses();
  const clickhouse = createClient({ url, database });
  const command = (query: string) => clickhouse.command({ query });
  await command(`INSERT INTO policy_revisions SELECT * REPLACE (revision + 1 AS revision, now64(3) AS created_at)
    FROM policy_revisions FINAL WHERE policy_id = '${policy}'`);
  await command(`INSERT INTO registry SELECT * REPLACE (revision + 1000000 AS revision, now64(3) AS at,
    replaceOne(record, '"revision":1', '"revision":3') AS record) FROM registry FINAL WHERE id = '${policy}'`);
  await command(`INSERT INTO approvals SELECT * REPLACE (revision + 1000000 AS revision, now64(3) AS decided_at,
    'denied' AS status, 'blocked' AS outcome, 'system' AS decided_by) FROM approvals FINAL WHERE id = '${approval}'`);
  await clickhouse.close();
}

async function serve(t: Test, env: Environment, key: string) {
  const service = await launchService({
    dataDir: env['GATEHOUSE_DATA_DIR']!,
    env: { ...env, GATEHOUSE_BOOTSTRAP_KEY: key },
  });
  t.teardown(() => service.stop());
  return { service, api: new Api(t, { url: service.url, key }) };
}

t.test('stores of one’s own go to S3 and come back, and what is damaged does not', { skip }, async (t) => {
  const engine = await startClickHouse(t);
  const s3 = await startS3(t);
  const place = `s3://${s3.bucket}/gatehouse`;
  const key = `test-${randomBytes(24).toString('base64url')}`;
  const env = await emptyStores(t, engine.url, s3.url);
  const { service, api } = await serve(t, env, key);
  writeFileSync(path.join(service.dataDir, 'audit-signing-key.pem'), 'a key');
  const agent = (await api.post('/v1/agents', { name: 'busy' })).json.id as string;
  const asks = { name: 'asks', type: 'require_approval', conditions: { tool: 'pay' }, actions: ['alert'] };
  const policy = (await api.post('/v1/policies', asks)).json.id as string;
  await api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload: { tool: 'pay' } });
  const opened = await api.until(
    () => api.get('/v1/approvals'),
    ({ json }) => json.items.length === 1,
  );
  const approval = opened.json.items[0].id as string;
  const load = new Load(api, agent);
  load.start();
  const taken: { name: string; before: string[]; changes: number; manifest: StoredManifest }[] = [];
  for (let i = 0; i < 2; i++) {
    t.ok(await eventually(() => load.acknowledged.length > (i + 1) * 1_000 && load.changes > (i + 1) * 5));
    const [before, changes] = [[...load.acknowledged], load.changes];
    if (i === 1) await beyondLog(service, { policy, approval });
    const { code, stdout, stderr } = await runCli(['backup', place], env);
    t.equal(code, 0, stderr);
    t.match(stdout, /everything acknowledged before .*Z: \d+ objects, \d+ bytes/);
    const name = stdout.split('\n')[0]!.slice(place.length + 1);
    const manifest = JSON.parse((await s3.get(`gatehouse/${name}/manifest.json`)).toString()) as StoredManifest;
    taken.push({ name, before, changes, manifest });
  }
  await load.stop();
  const [first, second] = taken as [(typeof taken)[0], (typeof taken)[0]];
  t.equal(first.manifest.base, null);
  t.equal(second.manifest.base, first.name, 'the second holds what is new');
  const texts = await Promise.all((await s3.names()).map((name) => s3.get(name)));
  t.notOk(
    texts.some((text) => text.includes(SECRET) || text.includes(encodeURIComponent(SECRET))),
    'no secret lies there',
  );
  await api.until(
    () => api.get('/metrics'),
    ({ text }) => /gatehouse_backup_timestamp_seconds\{[^}]*\} 1[.\d]*e?\+?\d* *$/m.test(text),
  );

  for (const { name, before, changes, manifest } of [second, first]) {
    const empty = await emptyStores(t, engine.url, s3.url);
    const { code, stdout, stderr } = await runCli(
      ['restore', name === second.name ? place : `${place}/${name}`],
      empty,
    );
    t.equal(code, 0, stderr);
    t.match(stdout, `everything acknowledged before ${manifest.moment} is there`);
    t.ok(existsSync(path.join(empty['GATEHOUSE_DATA_DIR']!, 'audit-signing-key.pem')));
    const { service: restored, api: there } = await serve(t, empty, key);
    await isStoredOnce(t, restored, before);
    await hasChanges(t, there, changes);
    t.equal((await there.post(`/v1/agents/${agent}/events`, { type: 'prompt', payload: {} })).status, 201);
    const verified = async () => JSON.parse((await runCli(['audit', 'verify'], empty)).stdout) as { valid: boolean };
    // The pipelines chain what the backup has and its chain lacks.
    await eventually(async () => (await verified()).valid);
    t.match(await verified(), { valid: true, faults: 0, faults_by_kind: [] });
    // Of the revisions that the log did not know the newest, recorded now.
    await there.until(
      () => there.get(`/v1/policies/${policy}/revisions`),
      ({ json }) =>
        json.items.map((one: { revision: number }) => one.revision).join() === (name === second.name ? '3,1' : '1'),
    );
    const waits = (await there.get('/v1/approvals?status=pending')).json.items as { id: string }[];
    t.same(
      waits.map(({ id }) => id),
      [approval],
      'a decision that it did not know',
    );
    t.match(await runCli(['restore', place], empty), { code: 1, stderr: /holds a registry.*nothing was changed/ });
    await restored.stop();
  }

  const refused = async (words: RegExp | string, args: string[], given: Environment = {}) => {
    const { code, stderr } = await runCli(args, { ...(await emptyStores(t, engine.url, s3.url)), ...given });
    t.not(code, 0, args.join(' '));
    t.match(stderr, words, args.join(' '));
  };
  const database = { GATEHOUSE_CLICKHOUSE_DATABASE: env['GATEHOUSE_CLICKHOUSE_DATABASE'] };
  await refused(/is not empty; nothing was changed/, ['restore', place], database);
  await refused(/GATEHOUSE_PARTITIONS must be/, ['restore', place], { GATEHOUSE_PARTITIONS: '3' });
  await refused(/holds no backup/, ['restore', `s3://${s3.bucket}/other`]);
  const nobody = `127.0.0.1:${await freePort()}`;
  await refused(`cannot reach ${nobody} (ECONNREFUSED)`, ['restore', place], {
    GATEHOUSE_BACKUP_S3_URL: `http://k:s@${nobody}`,
  });
  await refused(/GATEHOUSE_BACKUP_S3_URL is not set/, ['restore', place], { GATEHOUSE_BACKUP_S3_URL: undefined });
  await refused(/is no s3:\/\/BUCKET/, ['restore', 's3://x/../y']);
  await refused(/stores of your own/, ['backup', place], { GATEHOUSE_REDIS_URL: undefined });
  await refused(/out of ClickHouse's reach/, ['backup', path.join(service.dataDir, 'x')]);
  await refused(/--keep is for folders/, ['backup', place, '--keep', '1']);
  await refused(/replicated tables/, ['backup', place], { GATEHOUSE_CLICKHOUSE_CLUSTER: 'c' });

  t.match(await runCli(['restore', place, '--check'], env), { code: 0, stdout: /is whole: \d+ objects/ });
  const of = ({ manifest }: (typeof taken)[0]) =>
    manifest.objects.filter(({ name, size }) => /data\.bin|\.bin$/.test(name) && size > 4).at(-1)!.name;
  for (const name of [of(second), of(first), `${second.name}/manifest.json`]) {
    const whole = await s3.get(`gatehouse/${name}`);
    const altered = Buffer.from(whole);
    altered[altered.length - 3]! ^= 1;
    await s3.put(`gatehouse/${name}`, altered);
    await refused(`${place}/${name} is damaged or was altered`, ['restore', place]);
    await s3.put(`gatehouse/${name}`, whole);
  }
  const gone = of(first);
  const whole = await s3.get(`gatehouse/${gone}`);
  await s3.remove(`gatehouse/${gone}`);
  await refused(`${place}/${gone} is not there`, ['restore', place, '--check']);
  await s3.put(`gatehouse/${gone}`, whole);
  await s3.remove(`gatehouse/${second.name}/manifest.sha256`);
  t.match(
    await runCli(['restore', place, '--check'], env),
    { code: 0, stdout: first.name },
    'one that did not end is none',
  );
});

/** A proxy before S3: the first that writes an object whose name ends so waits until `meanwhile` is done. */
async function proxyTo(t: Test, s3Url: string, meanwhile: Readonly<Record<string, () => Promise<unknown>>>) {
  const begun = new Map<string, Promise<unknown>>();
  const proxy = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const end = Object.keys(meanwhile).find((one) => request.method === 'PUT' && request.url!.endsWith(one));
    if (end !== undefined && !begun.has(end)) begun.set(end, meanwhile[end]!());
    if (end !== undefined) await begun.get(end);
    const passed = ask(`${s3Url}${request.url}`, { method: request.method!, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    passed.end(Buffer.concat(chunks));
  });
  return { url: `http://127.0.0.1:${await listening(t, proxy)}`, begun };
}

t.test('an agent that is erased while a backup is taken stays away, and the chain is valid', { skip }, async (t) => {
  const engine = await startClickHouse(t);
  const s3 = await startS3(t);
  const key = `test-${randomBytes(24).toString('base64url')}`;
  const env = await emptyStores(t, engine.url, s3.url);
  const { api } = await serve(t, env, key);
  await api.post('/v1/policies', {
    ...{ name: 'asks', type: 'require_approval', conditions: { tool: 'pay' }, actions: ['alert'] },
  });
  const agents = new Map<string, string>();
  for (const name of ['before', 'while the tables wait', 'while the registry waits', 'at the end', 'kept']) {
    const id = (await api.post('/v1/agents', { name })).json.id as string;
    agents.set(name, id);
    const policy = { type: 'block_action', conditions: { tool: 'rm' }, actions: ['block'], agent_id: id };
    await api.post('/v1/policies', { name: `of ${name}`, ...policy });
    for (let i = 0; i < 5; i++) await api.post(`/v1/agents/${id}/events`, { type: 'tool_call', payload: { i } });
    await api.post(`/v1/agents/${id}/events`, { type: 'tool_call', payload: { tool: 'pay' } });
  }
  const { items } = (
    await api.until(
      () => api.get('/v1/approvals'),
      ({ json }) => json.items.length === 5,
    )
  ).json as { items: { id: string }[] };
  for (const { id } of items) await api.post(`/v1/approvals/${id}`, { decision: 'approve' });
  const erase = async (name: string) => {
    const id = agents.get(name)!;
    t.equal((await api.delete(`/v1/agents/${id}`)).status, 204);
    await api.until(
      () => api.get(`/v1/erasures/${id}`),
      ({ json }) => json.rows_erased_at !== null,
    );
  };
  const clickhouse = createClient({ url: engine.url, database: 'default' });
  t.teardown(() => clickhouse.close());
  const numberOf = async (select: string) => {
    const rows = await (await clickhouse.query({ query: select, format: 'JSONEachRow' })).json<{ value: string }>();
    return Number(rows[0]!.value);
  };
  const runsSeconds = () =>
    numberOf("SELECT max(now64() - start_time) AS value FROM system.backups WHERE status = 'CREATING_BACKUP'");
  const proxy = await proxyTo(t, s3.url, {
    '/tables/.lock': async () => {
      await erase('while the tables wait');
      t.ok(await eventually(async () => (await runsSeconds()) > QUERY_SECONDS + 1), 'it takes longer than a query may');
    },
    '/registry/.lock': () => erase('while the registry waits'),
    '/manifest.json': () => erase('at the end'),
  });
  await api.delete(`/v1/agents/${agents.get('before')}`);
  const place = `s3://${s3.bucket}/erased`;
  const { code, stderr } = await runCli(['backup', place], {
    ...env,
    GATEHOUSE_BACKUP_S3_URL: proxy.url.replace('://', '://KEYID:s@'),
    GATEHOUSE_QUERY_TIMEOUT_SECONDS: String(QUERY_SECONDS),
  });
  t.equal(code, 0, stderr);
  t.equal(proxy.begun.size, 3, 'each was erased where it should be');

  const empty = await emptyStores(t, engine.url, s3.url);
  t.match(await runCli(['restore', place], empty), { code: 0 });
  const { api: there } = await serve(t, empty, key);
  const livingAre = ['at the end', 'kept'];
  for (const [name, id] of agents) {
    const isLiving = livingAre.includes(name);
    t.equal((await there.get(`/v1/agents/${id}`)).status, isLiving ? 200 : 404, name);
    await there.until(
      () => there.get(`/v1/events?agent_id=${id}`),
      ({ json }) => json.total === (isLiving ? 6 : 0),
    );
  }
  const tables = ['events', 'approvals', 'policy_revisions'];
  const rowsOf = (id: string) => {
    const counts = tables.map(
      (table) => `(SELECT count() FROM ${empty['GATEHOUSE_CLICKHOUSE_DATABASE']}.${table} WHERE agent_id = '${id}')`,
    );
    return numberOf(`SELECT ${counts.join(' + ')} AS value`);
  };
  for (const [name, id] of agents)
    if (livingAre.includes(name)) t.ok((await rowsOf(id)) > 0, name);
    else t.ok(await eventually(async () => (await rowsOf(id)) === 0), `nothing is stored of ${name}`);
  const verified = async () => JSON.parse((await runCli(['audit', 'verify'], empty)).stdout) as { valid: boolean };
  await eventually(async () => (await verified()).valid);
  t.match(await verified(), { valid: true, faults: 0, faults_by_kind: [] });
  const { logs } = (await there.get('/v1/audit-logs?action=agent.deleted')).json as { logs: { resource_id: string }[] };
  t.same(
    new Set(logs.map(({ resource_id: id }) => id)),
    new Set([...agents].flatMap(([name, id]) => (livingAre.includes(name) ? [] : [id]))),
    'each deletion is on record',
  );
});

t.test('a list of many pages, and of names that XML escapes, is whole', { skip }, async (t) => {
  const s3 = await startS3(t);
  const storage = new S3Storage(`s3://${s3.bucket}/pages`, s3.url.replace('://', '://k:s@'));
  const names = Array.from({ length: 1_010 }, (_, n) => `one/${String(n).padStart(4, '0')}.bin`);
  for (let i = 0; i < names.length; i += 50)
    await Promise.all(names.slice(i, i + 50).map((name) => s3.put(`pages/${name}`, name)));
  await s3.put('pages/two/a&%3Cb%3E%2E%27.bin', 'x');
  const found = await storage.objects('one/');
  t.same(
    found.map(({ name }) => name),
    names,
  );
  t.same(new Set(found.map(({ size }) => size)), new Set([12]));
  t.equal(new Set(found.map(({ etag }) => etag)).size, names.length, 'each has an ETag of its own');
  t.same(
    (await storage.objects('two/')).map(({ name }) => name),
    ["two/a&<b>.'.bin"],
  );
  t.same(await storage.folders(), ['one', 'two']);
});
