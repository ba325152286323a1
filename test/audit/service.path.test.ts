// The audit chain of the whole service: the endpoint, the commands, checkpoints, an erasure, and hands on the tables.
import { stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import t from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import { packAgent } from '../../src/audit/hash.ts';
import { eventually } from '../streams/harness.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { type Environment, runCli, startService } from '../support/service.ts';

const service = await startService(t);
const api = await Api.described(t, service);
const env: Environment = { GATEHOUSE_DATA_DIR: service.dataDir };
const { clickhouseUrl, clickhouseDatabase } = await service.addresses();
const clickhouse = new ClickHouse({ url: clickhouseUrl, database: clickhouseDatabase, queryTimeoutSeconds: 60 });
t.teardown(() => clickhouse.close());
const file = (name: string) => path.join(service.dataDir, name);

async function newAgent(name: string, events: number): Promise<{ id: string; events: string[] }> {
  const { id } = (await api.post('/v1/agents', { name })).json;
  const made = Array.from({ length: events }, (_, i) => ({ type: 'prompt', payload: { prompt: `${name} ${i}` } }));
  const { results } = (await api.post(`/v1/agents/${id}/events/batch`, { events: made })).json;
  return { id, events: results.map((event: { id: string }) => event.id) };
}

const kept = await newAgent('kept', 20);
const goner = await newAgent('goner', 10);

t.test('GET /v1/audit-logs/verify says that all is well, of the caller’s account alone', async (t) => {
  await api.post('/v1/policies', { name: 'p', type: 'block_action', conditions: { tool: 'x' }, actions: ['block'] });
  const { status, json } = await api.get('/v1/audit-logs/verify');
  t.equal(status, 200);
  t.match(json, {
    valid: true,
    erased: 0,
    unchained: 0,
    unsettled: 0,
    faults: 0,
    first_invalid: null,
    truncated: false,
  });
  t.ok(json.entries >= 33, `${json.entries} entries: 30 events, 2 agents, a policy, a key`);
  t.ok(json.chains.some(({ chain }: { chain: string }) => chain === 'registry'));
  const { json: part } = await api.get(`/v1/audit-logs/verify?from=${new Date(Date.now() + 60_000).toISOString()}`);
  t.match(part, { valid: true });
  t.ok(part.entries < json.entries, 'events from a later time are none');
  const other = await api.as(await keyOfNewAccount(service, 'another')).get('/v1/audit-logs/verify');
  t.match(other.json, { valid: true, entries: 2 }, 'its making, its first key and nothing else');
  t.equal((await api.get('/v1/audit-logs/verify', { key: null })).status, 401);
});

t.test('a decision changed in the list of approvals is found', async (t) => {
  const own = api.as(await keyOfNewAccount(service, 'decisions'));
  const agent = (await own.post('/v1/agents', { name: 'payer' })).json.id as string;
  const policy = { name: 'ask', type: 'require_approval', conditions: { tool: 'pay' }, actions: ['block'] };
  const made = (await own.post('/v1/policies', policy)).json.id as string;
  const { json: event } = await own.submitUntil('pending', agent, { type: 'tool_call', payload: { tool: 'pay' } });
  const { approval_id: approval } = event.policy_result;
  await own.until(
    () => own.post(`/v1/approvals/${approval}`, { decision: 'deny' }),
    ({ status }) => status === 200 || status === 409,
  );
  await own.delete(`/v1/policies/${made}`);
  const list = () => own.get(`/v1/approvals?event_id=${event.id}`);
  t.match(await own.until(list, ({ json }) => json.items[0]?.status === 'denied'), { json: { total: 1 } });
  const stored = async () =>
    (
      await clickhouse.query(
        'SELECT id FROM approvals FINAL WHERE id = {approval:String} AND status = {denied:String}',
        { approval, denied: 'denied' },
      )
    ).length;
  t.ok(await eventually(async () => (await stored()) === 1));
  t.match((await own.get('/v1/audit-logs/verify')).json, { valid: true, faults: 0 });
  await clickhouse.command(
    "INSERT INTO approvals SELECT * REPLACE ('allowed' AS outcome, 'approved' AS status, revision + 1 AS revision) FROM approvals FINAL WHERE id = {approval:String}",
    { approval },
  );
  const { json } = await own.get('/v1/audit-logs/verify');
  t.match(json, { valid: false, faults: 1, first_invalid: { chain: 'registry', kind: 'changed', entry_id: /^log_/ } });
  const { json: told } = await own.get('/v1/audit-logs?action=approval.denied');
  t.equal(told.logs[0].id, json.first_invalid.entry_id, 'it names what was decided');
  await clickhouse.command(
    "INSERT INTO approvals SELECT * REPLACE ('blocked' AS outcome, 'denied' AS status, revision + 1 AS revision) FROM approvals FINAL WHERE id = {approval:String}",
    { approval },
  );
  t.match((await own.get('/v1/audit-logs/verify')).json, { valid: true }, 'and as it was it is valid again');
});

t.test('what it counts adds up, and to the totals of the lists', async (t) => {
  const total = async (where: string): Promise<number> => (await api.get(where)).json.total;
  const { json } = await api.get('/v1/audit-logs/verify');
  t.match(json, { valid: true, unsettled: 0, not_checked: 0, erased: 0, expired: 0 });
  const lengths = json.chains.map(({ entries }: { entries: number }) => entries);
  t.equal(sum(lengths), json.chained, 'the chains');
  t.equal(json.entries + json.markers + json.not_checked, json.chained, 'what they are made of');
  t.equal(json.markers, 0, 'nothing was lost');
  t.equal(json.intact + json.erased + json.expired, json.entries, 'what was found of the entries');
  const logs = await total('/v1/audit-logs?limit=1');
  const ofEvents = await Promise.all(
    ['event.submitted', 'event.blocked'].map((action) => total(`/v1/audit-logs?action=${action}&limit=1`)),
  );
  const events = await total('/v1/events?limit=1');
  t.equal(events, 30);
  t.equal(json.intact, events + logs - sum(ofEvents), 'every event, and every entry of the audit log of anything else');

  const future = new Date(Date.now() + 60_000).toISOString();
  const { json: part } = await api.get(`/v1/audit-logs/verify?from=${future}`);
  t.equal(part.chained, json.chained);
  t.equal(part.not_checked, part.chained - part.entries - part.markers);
  t.ok(part.not_checked >= 30, 'with from the events before it are not checked, and said to be');
  const said = JSON.parse((await runCli(['audit', 'verify'], env)).stdout);
  const counts = ({ chained, markers, entries, intact }: Record<string, number>) => ({
    chained,
    markers,
    entries,
    intact,
  });
  t.same(counts(said), counts(json), 'the command says the same');
});

t.test('a checkpoint is signed with a key of its own, and only a sound one is compared', async (t) => {
  const made = await runCli(['audit', 'checkpoint'], env);
  t.equal(made.code, 0, made.stderr);
  const checkpoint = JSON.parse(made.stdout);
  await writeFile(file('checkpoint.json'), made.stdout);
  t.equal((await stat(file('audit-signing-key.pem'))).mode & 0o777, 0o600);
  const verified = await runCli(['audit', 'verify', '--checkpoint', file('checkpoint.json')], env);
  t.equal(verified.code, 0, verified.stderr);
  t.match(JSON.parse(verified.stdout), { valid: true, name: 'default' });
  const publicKey = ['--public-key', checkpoint.public_key];
  const named = await runCli(['audit', 'verify', '--checkpoint', file('checkpoint.json'), ...publicKey], env);
  t.equal(named.code, 0, named.stderr);

  checkpoint.chains[0].entries--;
  await writeFile(file('forged.json'), JSON.stringify(checkpoint));
  const forged = await runCli(['audit', 'verify', '--checkpoint', file('forged.json')], env);
  t.equal(forged.code, 1);
  t.match(forged.stderr, /signature of the checkpoint is not right/);
  const otherKey = ['--public-key', 'MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE='];
  const untrusted = await runCli(['audit', 'verify', '--checkpoint', file('checkpoint.json'), ...otherKey], env);
  t.match(untrusted, { code: 1, stderr: /another key/ });
  t.match(await runCli(['audit', 'verify', '--account', 'nobody'], env), { code: 2, stderr: /no account/ });

  const taken = await api.get('/v1/audit-logs/checkpoint');
  t.match(taken, { status: 200, json: { version: 1, name: 'default', public_key: checkpoint.public_key } });
  const compare = (given: object, key?: string) =>
    api.post('/v1/audit-logs/compare', { checkpoint: given, ...(key && { public_key: key }) });
  t.match(await compare(taken.json), { status: 200, json: { valid: true } }, 'by HTTP, with the key of the service');
  t.match(await compare(JSON.parse(made.stdout), checkpoint.public_key), { json: { valid: true } }, 'of the command');
  const bad: [object, string | undefined, RegExp][] = [
    [checkpoint, undefined, /signature of the checkpoint is not right/],
    [taken.json, otherKey[1], /another key/],
    [taken.json, 'nonsense', /not an ed25519 key/],
  ];
  for (const [given, key, message] of bad) {
    const { status, json } = await compare(given, key);
    t.match({ status, json }, { status: 400, json: { error: { details: [{ path: '/checkpoint', message }] } } });
  }
  t.equal((await compare({})).status, 400, 'no checkpoint at all');

  const rotated = await runCli(['audit', 'rotate-key'], env);
  t.equal(rotated.code, 0, rotated.stderr);
  const { former, successor } = JSON.parse(rotated.stdout) as Record<string, string>;
  t.equal(former, checkpoint.public_key);
  for (const trusted of [[], publicKey, ['--public-key', successor!]]) {
    const old = await runCli(['audit', 'verify', '--checkpoint', file('checkpoint.json'), ...trusted], env);
    t.equal(old.code, 0, `the old checkpoint verifies: ${old.stderr}`);
  }
  const later = await api.get('/v1/audit-logs/checkpoint');
  t.equal(later.json.public_key, successor, 'a front that runs signs with the new key');
  t.match(await compare(later.json, former), { json: { valid: true } }, 'which an auditor with the old one takes');
  t.match(await compare(taken.json), { json: { valid: true } });
});

t.test('an erased agent leaves a gap that verifies, and not its ids', async (t) => {
  t.equal((await api.delete(`/v1/agents/${goner.id}`)).status, 204);
  // Before, while and after its rows go.
  const invalid: unknown[] = [];
  const erased = await eventually(async () => {
    const { json } = await api.get('/v1/audit-logs/verify');
    if (!json.valid) invalid.push(json);
    return json.erased === 11 ? json : undefined;
  }, 30_000);
  t.same(invalid, []);
  t.equal(erased.intact + erased.erased, erased.entries, 'erased entries are entries');
  t.equal(erased.entries + erased.markers, erased.chained);
  t.match(erased, { valid: true, erased: 11 }, '10 events and its registration');
  const named = async () => {
    const [left] = await clickhouse.query<{ blank: number; named: number }>(
      `SELECT countIf(substring(one.1, 7) = repeat('\\0', 10)) AS blank, count() - blank AS named
       FROM (SELECT arrayJoin(arrayZip(ids, agents)) AS one FROM audit_chain FINAL) WHERE hex(one.2) = {agent:String}`,
      { agent: packAgent(goner.id).toString('hex').toUpperCase() },
    );
    return left;
  };
  t.ok(await eventually(async () => (await named())?.named === 0, 20_000), 'its ids are gone');
  t.same(await named(), { blank: 11, named: 0 });
  const verified = await runCli(['audit', 'verify', '--checkpoint', file('checkpoint.json')], env);
  t.equal(verified.code, 0, `${verified.stderr}${verified.stdout}`);
});

t.test('a changed payload, a removed row and an added one are named by the endpoint and the command', async (t) => {
  const victim = kept.events[7]!;
  const where = `account_id = (SELECT any(account_id) FROM events WHERE id = '${victim}') AND id = '${victim}'`;
  const [before] = await clickhouse.query<{ payload: string }>(`SELECT payload FROM events WHERE id = '${victim}'`);
  const edit = (payload: string) =>
    clickhouse.command(
      `ALTER TABLE events UPDATE payload = {payload:String} WHERE id = {victim:String}`,
      { payload, victim },
      { mutations_sync: '2' },
    );
  await edit('{"prompt":"never said"}');
  const { json } = await api.get('/v1/audit-logs/verify');
  t.match(json, {
    valid: false,
    faults: 1,
    first_invalid: { kind: 'changed', entry_id: victim.replace('evt_', 'log_') },
  });
  const said = await runCli(['audit', 'verify'], env);
  t.match(said, { code: 1, stderr: /changed/ });
  t.match(JSON.parse(said.stdout), { valid: false });
  await edit(before!.payload);
  t.match((await api.get('/v1/audit-logs/verify')).json, { valid: true }, 'put back as it was, it is as it was');

  await clickhouse.command(
    `INSERT INTO events (account_id, agent_id, id, type, timestamp, received_at, payload, outcome) SELECT account_id, agent_id, 'evt_${'0'.repeat(26)}', type, timestamp, received_at, payload, outcome FROM events WHERE ${where}`,
  );
  t.match((await api.get('/v1/audit-logs/verify')).json, {
    valid: false,
    first_invalid: { kind: 'added', position: null },
  });
  await clickhouse.command(
    `DELETE FROM events WHERE id = 'evt_${'0'.repeat(26)}'`,
    {},
    { lightweight_deletes_sync: '2' },
  );
  await clickhouse.command(`DELETE FROM events WHERE id = '${victim}'`, {}, { lightweight_deletes_sync: '2' });
  t.match((await api.get('/v1/audit-logs/verify')).json, {
    valid: false,
    first_invalid: { kind: 'missing', entry_id: victim.replace('evt_', 'log_') },
  });
});

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => all + one, 0);
}
