// The revisions of policies, against the whole service: each change leaves one, which outlives the policy, can be put
// back, belongs to whom the policy belonged, and goes with its agent. And the revision that a match names is the one by
// whose text the event was judged, on two fronts, while the text changes ten times a second.
import { createClient } from '@clickhouse/client';
import t from 'tap';
import type { JsonObject } from '../../schemas/common.ts';
import type { Policy, PolicyRevision } from '../../schemas/policy.ts';
import { exactJson } from '../../src/common/exact-json.ts';
import { evaluated } from '../../src/policy/policy-work.ts';
import { AGENT } from '../policy/support.ts';
import { Api } from '../support/api.ts';
import { ifMatch, newBlock } from '../support/block-policies.ts';
import { pause } from '../support/raw-http.ts';
import { randomFrom, SEED } from '../support/seed.ts';
import { startService } from '../support/service.ts';

t.setTimeout(600_000);
const service = await startService(t, { env: { GATEHOUSE_FRONTS: '2' } });
const api = await Api.described(t, service);
const made = async (more?: object) => (await api.post('/v1/policies', newBlock(more))).json as Policy;
const revisionsOf = async (id: string, caller = api) =>
  (await caller.get(`/v1/policies/${id}/revisions`)).json.items as PolicyRevision[];

t.test('every change leaves a revision: who, when, what differs, and the whole text', async (t) => {
  const first = await made({ conditions: { tool: 'wire', 'payload.amount': { gt: 1000, lte: 9000 } } });
  const path = `/v1/policies/${first.id}`;
  await api.patch(path, { conditions: { tool: 'wire', 'payload.amount': { gt: 500 } } });
  const exact = `{"conditions": {"tool": "wire", "payload.amount": {"gt": 653247040368672769}}, "severity": "high"}`;
  const last = (await api.call('PATCH', path, { body: exact })).text;
  await api.patch(path, { severity: 'high' });
  t.equal((await api.delete(path)).status, 204);

  const revisions = await revisionsOf(first.id);
  const keyId = (await api.get('/v1/api-keys')).json.items[0].id;
  t.same(
    revisions.map(({ revision, action, restored_from }) => [revision, action, restored_from]),
    [
      [4, 'deleted', null],
      [3, 'updated', null],
      [2, 'updated', null],
      [1, 'created', null],
    ],
    'what changes nothing leaves none',
  );
  t.ok(revisions.every(({ actor, policy_id }) => actor === `key:${keyId}` && policy_id === first.id));
  t.same(revisions[3]!.policy, first, 'the text of the first');
  t.same(revisions[0]!.policy, null);
  t.same(revisions[2]!.differences, [
    { path: '/conditions/payload.amount/gt', before: 1000, after: 500 },
    { path: '/conditions/payload.amount/lte', before: 9000 },
  ]);
  t.same(
    revisions[1]!.differences.map(({ path }) => path),
    ['/conditions/payload.amount/gt', '/severity'],
  );
  const third = (await api.get(`${path}/revisions/3`)).text;
  t.ok(third.endsWith(`"policy":${last}}`), 'numbers as they were sent');
  t.match(third, '"after":653247040368672769}');
  for (const unknown of ['0', '5', '01', 'x', '-1', '1e0', '99999999999999999999'])
    t.equal((await api.get(`${path}/revisions/${unknown}`)).status, 404, unknown);
  for (const unknown of ['pol_01jd3fq5w0c8m2v7x4k9n6t1rz', 'x'])
    t.equal((await api.get(`/v1/policies/${unknown}/revisions`)).status, 404, unknown);
});

t.test('the list is read page by page', async (t) => {
  const { id } = await made();
  for (let i = 0; i < 24; i++) await api.patch(`/v1/policies/${id}`, { description: `text ${i}` });
  const seen: number[] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const query = cursor === '' ? '' : `&cursor=${cursor}`;
    const { json } = await api.get(`/v1/policies/${id}/revisions?limit=10${query}`);
    t.equal(json.total, 25);
    t.equal(json.offset, seen.length);
    seen.push(...json.items.map(({ revision }: PolicyRevision) => revision));
    cursor = json.next_cursor;
  }
  t.same(
    seen,
    Array.from({ length: 25 }, (_, i) => 25 - i),
  );
  const page = await api.get(`/v1/policies/${id}/revisions?limit=2&offset=20`);
  t.match(page.json, { items: [{ revision: 5 }, { revision: 4 }], total: 25, offset: 20 });
  const other = await made();
  const { next_cursor: ofOther } = (await api.get(`/v1/policies/${id}/revisions?limit=1`)).json;
  t.equal((await api.get(`/v1/policies/${other.id}/revisions?cursor=${ofOther}`)).status, 400, 'of another list');
});

t.test('an earlier revision is put back as a new one', async (t) => {
  const first = await made({ severity: 'low' });
  const path = `/v1/policies/${first.id}`;
  const changed = { description: 'strict', severity: null, actions: ['log'], status: 'inactive', name: 'renamed' };
  await api.patch(path, changed);
  const restore = (revision: number | string, options = {}) =>
    api.post(`${path}/revisions/${revision}/restore`, undefined, options);
  t.match(await restore(1, ifMatch('"1"')), { status: 412, json: { error: { code: 'revision_conflict' } } });
  const restored = await restore(1, ifMatch('"2"'));
  t.equal(restored.status, 200);
  t.equal(restored.headers.get('etag'), '"3"');
  const { revision: _r, updated_at: _u, ...text } = restored.json;
  const { revision: _1, updated_at: _2, ...wanted } = first;
  const switchedOff = { ...wanted, status: 'inactive' };
  t.same(text, switchedOff, 'the text of the first, without the description that it did not have; not switched on');
  t.match((await revisionsOf(first.id))[0], {
    ...{ revision: 3, action: 'updated', restored_from: 1 },
    differences: [{ path: '/name' }, { path: '/actions', before: ['log'], after: ['block'] }, {}, {}],
  });
  const audit = await api.get(`/v1/audit-logs?resource_id=${first.id}&limit=1`);
  t.match(audit.json.logs[0], {
    action: 'policy.updated',
    details: {
      revision: 3,
      restored_from: 1,
      before: { name: 'renamed', actions: ['log'] },
      after: { name: first.name },
    },
  });
  t.match((await restore(3)).json, { revision: 3 }, 'what is in force already is no change');
  t.equal((await restore(9)).status, 404);
  t.equal((await restore('x')).status, 404);
  await made({ name: 'renamed' });
  t.match(await restore(2), { status: 409, json: { error: { code: 'name_taken' } } });
  t.match((await api.get(path)).json, { revision: 3, name: first.name }, 'and nothing has changed');
  await api.delete(path);
  t.equal((await restore(1)).status, 404, 'a policy that was deleted is not made again');
  t.equal((await revisionsOf(first.id)).length, 4);
});

t.test('a key that is bound to an agent sees the revisions of its own policies alone', async (t) => {
  const [own, other] = await Promise.all(
    ['own', 'other'].map(async (name) => (await api.post('/v1/agents', { name })).json.id as string),
  );
  const { key } = (await api.post('/v1/api-keys', { label: 'bound', scope: 'write', agent_id: own })).json;
  const bound = api.as(key);
  const [mine, theirs, shared] = [await made({ agent_id: own }), await made({ agent_id: other }), await made()];
  for (const policy of [mine, theirs, shared]) await api.patch(`/v1/policies/${policy.id}`, { severity: 'low' });
  t.equal((await revisionsOf(mine.id, bound)).length, 2);
  for (const { id } of [theirs, shared]) {
    t.equal((await bound.get(`/v1/policies/${id}/revisions`)).status, 404);
    t.equal((await bound.get(`/v1/policies/${id}/revisions/1`)).status, 404);
    t.equal((await bound.post(`/v1/policies/${id}/revisions/1/restore`, undefined)).status, 404);
  }
  for (const { id } of [mine, theirs, shared]) await api.delete(`/v1/policies/${id}`);
  t.equal((await revisionsOf(mine.id, bound)).length, 3, 'also once it is deleted');
  t.equal((await bound.get(`/v1/policies/${theirs.id}/revisions`)).status, 404);
});

t.test('the erasure of an agent removes the revisions of its policies, also of those deleted before', async (t) => {
  const { clickhouseUrl, clickhouseDatabase } = await service.addresses();
  const clickhouse = createClient({ url: clickhouseUrl, database: clickhouseDatabase });
  t.teardown(() => clickhouse.close());
  const { id: agent } = (await api.post('/v1/agents', { name: 'erased' })).json;
  const policies = [await made({ agent_id: agent }), await made({ agent_id: agent })];
  const stays = await made();
  for (const { id } of [...policies, stays])
    await api.patch(`/v1/policies/${id}`, { description: 'named in the text' });
  await api.delete(`/v1/policies/${policies[0]!.id}`);
  t.equal((await revisionsOf(policies[0]!.id)).length, 3);
  t.equal((await api.delete(`/v1/agents/${agent}`)).status, 204);
  for (const { id } of policies) t.equal((await api.get(`/v1/policies/${id}/revisions`)).status, 404, 'at once');
  await api.until(
    () => api.get(`/v1/erasures/${agent}`),
    ({ json }) => json.rows_erased_at !== null,
  );
  const rows = async (table: string, column: string) => {
    const query = `SELECT count() AS n FROM ${table} WHERE ${column} IN {ids:Array(String)} AND record != ''`;
    const ids = policies.map(({ id }) => id);
    const answer = await clickhouse.query({ query, query_params: { ids }, format: 'JSONEachRow' });
    return Number((await answer.json<{ n: string }>())[0]!.n);
  };
  t.equal(await rows('policy_revisions', 'policy_id'), 0);
  t.equal(await rows('registry', 'id'), 0, 'nor is a text of theirs left that was replaced');
  t.equal((await revisionsOf(stays.id)).length, 2, 'a policy of the account stays');
});

t.test('a match names the revision whose text gives it, while texts change ten times a second', async (t) => {
  const SECONDS = 8;
  const random = randomFrom(SEED);
  const pick = <T>(items: readonly T[]) => items[Math.floor(random() * items.length)]!;
  const FIELDS = ['a', 'b', 'c', 'd'];
  const conditions = () => ({
    tool: 'judged',
    [`payload.${pick(FIELDS)}`]: { gte: Math.floor(random() * 6), lt: 6 + Math.floor(random() * 6) },
    [`payload.list.${pick(FIELDS)}`]: { ne: Math.floor(random() * 10) },
  });
  const { id: agent } = (await api.post('/v1/agents', { name: 'judged' })).json;
  const policies = await Promise.all(
    Array.from({ length: 5 }, (_, i) => made({ conditions: conditions(), actions: [i === 0 ? 'block' : 'log'] })),
  );
  const ids = new Set(policies.map(({ id }) => id));
  const from = performance.now();
  const changes = SECONDS * 10;
  const change = async (_: unknown, i: number) => {
    await pause(i * 100);
    await api.patch(`/v1/policies/${pick(policies).id}`, { conditions: conditions() });
  };
  const value = () => Math.floor(random() * 12);
  const event = () => {
    const list = Array.from({ length: 3 }, () => Object.fromEntries(FIELDS.map((field) => [field, value()])));
    const fields = Object.fromEntries(FIELDS.map((field) => [field, value()]));
    return { type: 'tool_call', payload: { tool: 'judged', ...fields, list } };
  };
  const submit = async () => {
    while (performance.now() - from < SECONDS * 1000)
      await api.post(`/v1/agents/${agent}/events/batch`, { events: Array.from({ length: 20 }, event) });
  };
  await Promise.all([...Array.from({ length: changes }, change), ...Array.from({ length: 6 }, submit)]);

  const texts = new Map<string, Policy>();
  for (const id of ids) {
    for (let cursor: string | null = ''; cursor !== null; ) {
      const { json } = await api.get(
        `/v1/policies/${id}/revisions?limit=100${cursor === '' ? '' : `&cursor=${cursor}`}`,
      );
      for (const one of json.items as PolicyRevision[]) texts.set(`${id}/${one.revision}`, one.policy!);
      cursor = json.next_cursor;
    }
  }
  let matches = 0;
  let events = 0;
  const named = new Set<string>();
  const wrong: unknown[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query = cursor === '' ? '' : `&cursor=${cursor}`;
    const { json } = await api.get(`/v1/agents/${agent}/events?limit=200${query}`);
    for (const { payload, policy_result: result, timestamp } of json.items) {
      events++;
      for (const match of result.matches.filter(({ policy_id }: { policy_id: string }) => ids.has(policy_id))) {
        matches++;
        named.add(`${match.policy_id}/${match.revision}`);
        const text = texts.get(`${match.policy_id}/${match.revision}`);
        const view = {
          ...{ type: 'tool_call' as const, trace_id: undefined, agent_id: agent, timestamp },
          ...{ payload: payload as JsonObject, payloadText: JSON.stringify(payload), agent: AGENT },
        };
        const again = text && evaluated({ policies: [text], event: view, isAgentOff: false }).policy_result.matches[0];
        if (again === undefined || exactJson(again) !== exactJson(match)) wrong.push({ match, again, text });
      }
    }
    cursor = json.next_cursor;
  }
  t.same(wrong, []);
  t.comment({ changes, events, matches, revisionsNamed: named.size });
  t.ok(matches > 500 && named.size > changes / 2, 'there was something to see');
});
