// Tables without a chain of their own whose rows the audit log vouches for, against the whole service: whatever is
// changed, removed or put into them by hands on ClickHouse alone is found, and honest changes are no fault.
import t, { type Test } from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import { mintId } from '../../src/common/ids.ts';
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

/** Verifies until the answer is whole: one that was cut off, or met rows on their way, says nothing. */
const verify = async (own: Api) =>
  (
    await own.until(
      () => own.get('/v1/audit-logs/verify'),
      ({ json }) => !json.truncated && json.unsettled === 0,
    )
  ).json;
const change = (table: string, set: string, where: string) =>
  clickhouse.command(`ALTER TABLE ${table} UPDATE ${set} WHERE ${where}`, {}, { mutations_sync: '2' });
const remove = (table: string, where: string) =>
  clickhouse.command(`DELETE FROM ${table} WHERE ${where}`, {}, { lightweight_deletes_sync: '2' });

/** Rows as they are now, to be put back. */
async function kept(table: string, where: string): Promise<() => Promise<void>> {
  const copy = `kept_${mintId('event', Date.now())}`;
  await clickhouse.command(`CREATE TABLE ${copy} AS ${table} ENGINE = Memory`);
  await clickhouse.command(`INSERT INTO ${copy} SELECT * FROM ${table} FINAL WHERE ${where}`);
  return async () => {
    await remove(table, where);
    await clickhouse.command(`INSERT INTO ${table} SELECT * FROM ${copy}`);
  };
}

type Tamper = [what: string, kind: 'changed' | 'missing' | 'added', tamper: (where: string) => Promise<unknown>];

/** Each is done to a row of its own, all are found, and put back there is nothing to find. `rows`: where each is. */
async function allFound(
  t: Test,
  own: Api,
  { table, rows, added }: { table: string; rows: readonly string[]; added: string },
  tampers: readonly Tamper[],
): Promise<void> {
  const ofAll = tampers.map((_, i) => `(${rows[i]!})`).join(' OR ');
  const putBack = await kept(table, ofAll);
  for (const [i, [, , tamper]] of tampers.entries()) await tamper(rows[i]!);
  const found = await verify(own);
  const counts = new Map<string, number>();
  for (const [, kind] of tampers) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  const told = tampers.map(([what]) => what).join(', ');
  t.match(found, { valid: false, faults: tampers.length, unsettled: 0 }, told);
  t.same(
    new Map(found.faults_by_kind.map(({ kind, count }: { kind: string; count: number }) => [kind, count])),
    counts,
  );
  for (const { kind, first } of found.faults_by_kind)
    t.match(first, { chain: 'registry', position: null, entry_id: kind === 'added' ? null : /^log_/ });
  if (added !== '') await remove(table, added);
  await putBack();
  t.match(await verify(own), { valid: true, faults: 0, unsettled: 0 }, 'put back as it was');
}

t.test('revisions of policies', async (t) => {
  const own = api.as(await keyOfNewAccount(service, 'revisions'));
  const made = async (more: object) => {
    const { status, json, text } = await own.post('/v1/policies', {
      type: 'block_action',
      actions: ['block'],
      ...more,
    });
    if (status !== 201) throw new Error(text);
    return json as { id: string; name: string };
  };
  const agent = (await own.post('/v1/agents', { name: 'scoped' })).json.id as string;
  const conditions = '{"tool": "wire", "payload.amount": {"gt": 653247040368672769}, "payload.rate": {"lt": 1.0}}';
  const one = (
    await own.call('POST', '/v1/policies', {
      body: `{"name": "ünï \\"quoted\\"\\nline \\ud83d\\ude00", "type": "block_action", "actions": "block", "conditions": ${conditions}}`,
    })
  ).json as { id: string };
  const path = `/v1/policies/${one.id}`;
  await own.patch(path, { severity: 'high', description: 'the second' });
  await own.patch(path, { conditions: { tool: 'wire', 'payload.amount': { gt: 500 } } });
  t.equal((await own.post(`${path}/revisions/1/restore`, {})).status, 200);
  const tried = await made({ name: 'tried', conditions: {}, mode: 'shadow', shadow_of: one.id });
  t.equal((await own.post(`/v1/policies/${tried.id}/promote`, {})).status, 200);
  const scoped = await made({ name: 'of an agent', conditions: {}, agent_id: agent });
  await own.patch(`/v1/policies/${scoped.id}`, { severity: 'low' });
  const goner = await made({ name: 'deleted', conditions: {} });
  await own.delete(`/v1/policies/${goner.id}`);
  for (const severity of ['low', 'high']) {
    const policies = [{ name: 'declared', type: 'block_action', conditions: {}, actions: ['log'], severity }];
    const planned = await own.post('/v1/policies/plan', { owner: 'team', policies });
    await own.post('/v1/policies/apply', { owner: 'team', policies, plan_hash: planned.json.plan_hash });
  }

  const updated = (set: string) => (where: string) => change('policy_revisions', set, where);
  const insert = (replaced: string) => (where: string) =>
    clickhouse.command(
      `INSERT INTO policy_revisions SELECT * REPLACE (${replaced}) FROM (SELECT * FROM policy_revisions FINAL WHERE ${where})`,
    );
  const removed = (where: string) => remove('policy_revisions', where);
  const text = `record = replaceAll(record, 'wire', 'nothing')`;
  const tampers: Tamper[] = [
    ['its text', 'changed', updated(text)],
    ['what differs', 'changed', updated(`differences = '[{}]'`)],
    ['who did it', 'changed', updated(`actor = 'key:other'`)],
    ['when', 'changed', updated('created_at = addHours(created_at, 1)')],
    ['what was done', 'changed', updated(`action = 'updated'`)],
    ['whose it is', 'changed', updated(`agent_id = '${agent}'`)],
    ['where it is from', 'changed', updated('restored_from = 1')],
    ['one put over it', 'changed', insert(`'{}' AS record`)],
    ['a removed one', 'missing', removed],
    ['one that never was', 'added', insert('99 AS revision')],
  ];
  const rows: string[] = [];
  for (const [i] of tampers.entries()) {
    const { id } = await made({ name: `tampered ${i}`, conditions: { tool: 'wire' } });
    rows.push(`policy_id = '${id}' AND revision = 1`);
  }
  tampers.push(['a removed deletion', 'missing', removed]);
  rows.push(`policy_id = '${goner.id}' AND revision = 2`);
  t.match(await verify(own), { valid: true, faults: 0, unsettled: 0 }, 'whatever was done');
  await allFound(t, own, { table: 'policy_revisions', rows, added: 'revision = 99' }, tampers);

  const of = `policy_id = '${one.id}' AND revision = 1`;
  const putBack = await kept('policy_revisions', of);
  await change('policy_revisions', text, of);
  const said = await runCli(['audit', 'verify', '--account', 'revisions'], env);
  t.match(said, { code: 1, stderr: /changed/ }, 'the command finds it, too');
  // An entry of its own that fits, from before the true one and from behind it.
  for (const [hours, id] of [
    [-24, mintId('auditLog', Date.now() - 86_400_000)],
    [0, mintId('auditLog', Date.now())],
  ] as const) {
    await clickhouse.command(
      `INSERT INTO audit_log (account_id, id, action, actor, resource_type, resource_id, details, created_at)
       SELECT account_id, '${id}', action, actor, resource_type, resource_id,
         replaceRegexpOne(details, '"revision_sha256":"[0-9a-f]+"', concat('"revision_sha256":"', (SELECT lower(hex(SHA256(concat(differences, char(10), record)))) FROM policy_revisions FINAL WHERE ${of}), '"')),
         addHours(created_at, ${hours})
       FROM audit_log WHERE resource_id = '${one.id}' AND action = 'policy.created' ORDER BY created_at LIMIT 1`,
    );
    const found = (await verify(own)).faults_by_kind.map(({ kind }: { kind: string }) => kind).sort();
    t.same(found, ['added', 'changed'], 'an entry that fits hides nothing, and is none of the chain');
    await remove('audit_log', `id = '${id}'`);
  }
  await putBack();
  t.match(await verify(own), { valid: true, faults: 0 });

  t.equal((await own.delete(`/v1/agents/${agent}`)).status, 204);
  const invalid: unknown[] = [];
  const isErased = async () => {
    const answer = await verify(own);
    if (answer.valid !== true) invalid.push(answer);
    const [left] = await clickhouse.query<{ n: number }>(
      `SELECT count() AS n FROM policy_revisions WHERE policy_id = '${scoped.id}'`,
    );
    return Number(left!.n) === 0;
  };
  t.ok(await eventually(isErased, 30_000), 'with their agent they go');
  t.match(await verify(own), { valid: true, faults: 0 });
  t.same(invalid, [], 'and before, while and after that nothing is a fault');
});

t.test('the list of approvals', async (t) => {
  const own = api.as(await keyOfNewAccount(service, 'approvals'));
  const agent = (await own.post('/v1/agents', { name: 'payer' })).json.id as string;
  const policy = { name: 'ask', type: 'require_approval', conditions: { tool: 'pay' }, actions: ['block'] };
  await own.post('/v1/policies', policy);
  const decided = async (decision: object): Promise<string> => {
    const { json: event } = await own.submitUntil('pending', agent, { type: 'tool_call', payload: { tool: 'pay' } });
    const { approval_id: id } = event.policy_result;
    await own.until(
      () => own.post(`/v1/approvals/${id}`, decision),
      ({ status }) => status === 200,
    );
    return id;
  };
  await decided({ decision: 'approve' });
  await decided({ decision: 'deny', comment: '\ud800 half a character' });
  const updated = (set: string) => (where: string) => change('approvals', set, where);
  const tampers: Tamper[] = [
    ['what was decided', 'changed', updated(`outcome = 'allowed'`)],
    ['who decided', 'changed', updated(`decided_by = 'key:other'`)],
    ['when', 'changed', updated('decided_at = addHours(decided_at, 1)')],
    ['what was said', 'changed', updated(`comment = 'fine'`)],
    ['what it was about', 'changed', updated(`event_id = 'evt_other'`)],
    ['who asked', 'changed', updated(`policy_id = 'pol_other'`)],
    ['why', 'changed', updated(`reason = 'policy'`)],
    ['that it was decided', 'changed', updated(`status = 'pending'`)],
    ['a removed one', 'missing', (where) => remove('approvals', where)],
  ];
  const rows: string[] = [];
  for (const _ of tampers) rows.push(`id = '${await decided({ decision: 'deny', comment: 'not "this" one\n' })}'`);
  t.match(await verify(own), { valid: true, faults: 0, unsettled: 0 });
  await allFound(t, own, { table: 'approvals', rows, added: '' }, tampers);
});
