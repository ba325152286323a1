// Declared policies against the whole service: planned and applied over the API and by `gatehouse policies`, in force
// together, refused whole; and the exit statuses by which a pipeline goes.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import t from 'tap';
import type { Policy, PolicyCreate } from '../../schemas/policy.ts';
import type { PolicyPlan } from '../../schemas/policy-plan.ts';
import { DECLARATION_BYTES_MAX } from '../../src/common/limits.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { listening } from '../support/listening.ts';
import { runCli, startService } from '../support/service.ts';

t.setTimeout(600_000);
const service = await startService(t, { env: { GATEHOUSE_FRONTS: '2' } });
const root = await Api.described(t, service);
const folder = t.testdir({});

async function newAccount(name: string): Promise<{ api: Api; key: string }> {
  const key = await keyOfNewAccount(service, name);
  return { api: root.as(key), key };
}

const block = (name: string, more: Partial<PolicyCreate> = {}): PolicyCreate => {
  return { name, type: 'block_action', conditions: { tool: name }, actions: ['block'], ...more };
};
const post = (api: Api, body: object) => api.post('/v1/policies/apply', body);
const planOf = async (api: Api, policies: PolicyCreate[], owner = 'team') => {
  return (await post(api, { owner, policies, dry_run: true })).json as PolicyPlan;
};
const listed = async (api: Api) => (await api.get('/v1/policies?limit=100')).json.items as Policy[];

t.test('a plan, its application, and what is answered to the one who was slower', async (t) => {
  const { api } = await newAccount('plans');
  const policies = [block('a'), block('b')];
  const plan = await planOf(api, policies);
  t.match(plan, { owner: 'team', applied: false, policies: [{ action: 'create', name: 'a' }, { name: 'b' }] });
  t.same(await listed(api), []);
  const applied = await post(api, { owner: 'team', policies, hash: plan.hash });
  t.equal(applied.status, 200);
  t.same(applied.json, { ...plan, applied: true });
  const { id: agent } = (await api.post('/v1/agents', { name: 'agent' })).json;
  const sent = await api.submitUntil('blocked', agent, { type: 'tool_call', payload: { tool: 'b' } });
  const [match] = sent.json.policy_result.matches;
  t.match(match, { name: 'b', revision: 1 });

  const slower = await post(api, { owner: 'team', policies: [block('a')], hash: plan.hash });
  t.match(slower, {
    status: 412,
    json: {
      error: { code: 'revision_conflict', request_id: slower.headers.get('x-request-id') },
      plan: { applied: false, policies: [{ action: 'unchanged' }, { action: 'delete', name: 'b' }] },
    },
  });
  t.equal((await listed(api)).length, 2);
  const { hash } = slower.json.plan;
  t.equal(
    (await post(api, { owner: 'team', policies: [block('a')], hash })).status,
    200,
    'the new plan can be applied',
  );
  const revisions = (await api.get(`/v1/policies/${match.policy_id}/revisions`)).json.items;
  t.match(revisions, [
    { revision: 2, action: 'deleted' },
    { revision: 1, action: 'created' },
  ]);
  const byHand = await api.patch(`/v1/policies/${plan.policies[0]!.policy_id ?? (await listed(api))[0]!.id}`, {
    owner: 'other',
  });
  t.match(byHand.json, { owner: 'other', revision: 2, applied_revision: 1 });
});

t.test('what is wrong is told with its place, and nothing is changed', async (t) => {
  const { api } = await newAccount('mistakes');
  const owner = 'team';
  const rows: [object, string][] = [
    [{ owner, policies: [block('a'), block('a')], dry_run: true }, '/policies/1/name'],
    [{ owner, policies: [{ ...block('a'), colour: 'red' }], dry_run: true }, '/policies/0/colour'],
    [{ owner, policies: [{ ...block('a'), revision: 3 }], dry_run: true }, '/policies/0/revision'],
    [
      { owner, policies: [block('a', { conditions: { a: { gt: 'x' } } })], dry_run: true },
      '/policies/0/conditions/a/gt',
    ],
    [{ owner, policies: [block('a', { agent_id: 'agt_none' })], dry_run: true }, '/policies/0/agent_id'],
    [{ owner, policies: [block('a')] }, '/hash'],
    [{ owner: '', policies: [] }, '/owner'],
    [{ policies: [] }, '/owner'],
    [{ owner, policies: Array.from({ length: 201 }, (_, i) => block(`p${i}`)), dry_run: true }, '/policies'],
  ];
  for (const [body, place] of rows) {
    const refused = await post(api, body);
    t.match(refused, { status: 400, json: { error: { details: [{ path: place }] } } }, place);
  }
  t.same(await listed(api), []);
  const { id: agent } = (await api.post('/v1/agents', { name: 'agent' })).json;
  const bound = (await api.post('/v1/api-keys', { label: 'bound', scope: 'write', agent_id: agent })).json.key;
  t.equal((await post(api.as(bound), { owner, policies: [], dry_run: true })).status, 403);
});

t.test('two hundred policies fit, a megabyte is too much', async (t) => {
  const { api } = await newAccount('many');
  const policies = Array.from({ length: 200 }, (_, i) => block(`policy ${i}`, { description: 'd'.repeat(1_500) }));
  t.ok(JSON.stringify(policies).length > 4 * 64 * 1024);
  const { hash } = await planOf(api, policies);
  const { json } = await post(api, { owner: 'team', policies, hash });
  t.equal(json.policies.filter(({ action }: { action: string }) => action === 'create').length, 200);
  t.equal((await api.get('/v1/policies?limit=1')).json.total, 200);
  const again = await planOf(api, policies);
  t.ok(again.policies.every(({ action }) => action === 'unchanged'));
  const [first] = again.policies;
  const wait = await api.get(`/v1/policies/${first!.policy_id}/revisions/1`);
  t.match(wait.json, { action: 'created', policy: { name: 'policy 0', owner: 'team' } });
  const large = { owner: 'team', policies: [], dry_run: true, padding: 'x'.repeat(DECLARATION_BYTES_MAX) };
  t.equal((await post(api, large)).status, 413);
});

t.test('a policy in a file names its check', async (t) => {
  const { api, key } = await newAccount('checks in files');
  const run = (...args: string[]) =>
    runCli(['policies', ...args, '--owner', 'team'], { GATEHOUSE_URL: service.url, GATEHOUSE_API_KEY: key });
  const file = path.join(folder, 'checked.yaml');
  writeFileSync(
    file,
    `name: injection in what was fetched
type: external_check
actions: [block]
conditions: {type: completion, check: guard, fields: [payload.text], when: {score: {gte: 0.8}},
  on_timeout: match, on_error: pending, on_overload: skip}
`,
  );
  t.match(await run('apply', file), { code: 1, stderr: /checked\.yaml:.*\/conditions\/check.*no such check/ });
  t.same(await listed(api), [], 'nothing is half applied');
  const url = 'https://judge.example.com/';
  const { id } = (await api.post('/v1/checks', { name: 'guard', speaks: 'gatehouse', url })).json;
  t.match(await run('apply', file), { code: 0, stdout: /; applied\n$/ });
  t.match((await api.get('/v1/policies')).json.items, [{ type: 'external_check', conditions: { check: 'guard' } }]);
  t.match(await run('plan', file), { code: 0, stdout: /1 unchanged; plan/ });
  const [{ id: policy }] = (await api.get('/v1/policies')).json.items;
  const kept = await api.get(`/v1/policies/${policy}/revisions/1`);
  t.match(kept.json, { policy: { conditions: { check: 'guard', on_error: 'pending' } } }, 'its revision has the name');
  t.equal((await api.delete(`/v1/checks/${id}`)).status, 409);
  await api.post('/v1/checks', { name: 'other', speaks: 'gatehouse', url });
  const conditions = { check: 'other', on_timeout: 'match', on_error: 'match', on_overload: 'match' };
  t.equal((await api.patch(`/v1/policies/${policy}`, { conditions })).status, 200);
  t.equal((await api.delete(`/v1/checks/${id}`)).status, 204);
  t.match(
    await api.post(`/v1/policies/${policy}/revisions/1/restore`, undefined),
    { status: 400, json: { error: { details: [{ path: '/conditions/check' }] } } },
    'a revision that names a check which is gone does not come back',
  );
});

t.test('the command line: pull, plan, apply, and their exit statuses', async (t) => {
  const { api, key } = await newAccount('command line');
  const run = (...args: string[]) => {
    return runCli(['policies', ...args], { GATEHOUSE_URL: service.url, GATEHOUSE_API_KEY: key });
  };
  const file = path.join(folder, 'policies.yaml');
  const write = (text: string) => writeFileSync(file, text);
  write(`name: no large payments
type: block_action
actions: [block, alert]
severity: high
conditions: {tool: pay, payload.amount: {gt: 653247040368672769}}
---
name: secrets
type: data_filter
actions: [log]
conditions: {detectors: [api_key, jwt]}
`);
  const planned = await run('plan', file, '--owner', 'team');
  t.match(planned, {
    code: 3,
    stderr: '',
    stdout: /^\+ create "no large payments"\n(.*\n)* {4}\/conditions: .*653247040368672769/,
  });
  t.match(planned.stdout, /\nowner "team": 2 create, 0 update, 0 replace, 0 delete, 0 unchanged; plan [\w-]{43}\n$/);
  t.same(await listed(api), []);
  const { hash } = JSON.parse((await run('plan', file, '--owner', 'team', '--json')).stdout) as PolicyPlan;
  t.match(await run('apply', file, '--owner', 'team', '--hash', hash), { code: 0, stdout: /; applied\n$/ });
  t.match(await run('plan', file, '--owner', 'team'), { code: 0, stdout: /2 unchanged; plan/ }, 'nothing to do');
  t.match(await run('apply', file, '--owner', 'team'), { code: 0 });
  t.match(await run('apply', file, '--owner', 'team', '--hash', hash), { code: 0 }, 'done already: nothing to do');

  write(`# the same, written by somebody else
- conditions: {"detectors": [api_key, "jwt"]}
  actions: [log]
  type: 'data_filter'
  name: "secrets"
- conditions:
    payload.amount: {gt: 653247040368672769} # a large sum
    "tool": pay
  severity: high
  actions:
    - block
    - alert
  type: block_action
  name: no large payments
`);
  t.match(
    await run('plan', file, '--owner', 'team'),
    { code: 0, stdout: /0 create, 0 update, 0 replace, 0 delete, 2 unchanged; plan/ },
    'the order of keys, comments and quotes change nothing',
  );
  write(
    '[{"actions": ["log"], "name": "secrets", "conditions": {"detectors": ["jwt", "api_key"]}, "type": "data_filter"}]',
  );
  t.match(
    await run('plan', file, '--owner', 'team'),
    { code: 3, stdout: /1 update, 0 replace, 1 delete, 0 unchanged; plan/ },
    'the order of a list is something else',
  );

  const pulled = await run('pull', '--owner', 'team');
  t.equal(pulled.code, 0);
  t.match(pulled.stdout, /gt: 653247040368672769\n/);
  write(pulled.stdout);
  t.match(await run('plan', file, '--owner', 'team'), { code: 0 }, 'what is pulled is what is there');
  t.equal((await run('pull', '--owner', 'nobody')).stdout, '');

  const [policy] = await listed(api);
  await api.patch(`/v1/policies/${policy!.id}`, { severity: 'low' });
  const drift = await run('plan', file, '--owner', 'team');
  t.match(drift, {
    code: 3,
    stdout: /^~ update "[^"]+", now at revision 2, changed by hand since it was applied\n {4}\/severity: "low" -> /,
  });
  t.match(await run('apply', file, '--owner', 'team', '--hash', hash), {
    ...{ code: 4, stdout: /1 update, .*; plan/ },
    stderr: /^gatehouse: the policies were changed since the plan; this is the plan now, and nothing was changed\n$/,
  });
  t.match(await run('apply', file, '--owner', 'team'), { code: 0, stdout: /1 update, .*; applied\n$/ });

  write('name: a\ntype: block_action\nactions: [block]\nconditions: {x: {gt: many}}\n---\nname: b\ncolour: red\n');
  const wrong = await run('plan', file, '--owner', 'team');
  t.match(wrong, { code: 1, stdout: '' });
  t.ok(wrong.stderr.includes(`${file}:6: "b" /colour: unknown field`), wrong.stderr);
  write('name: secrets\ntype: block_action\nactions: [block]\nconditions: {}\n');
  const foreign = await run('apply', file, '--owner', 'others');
  t.match(foreign, {
    code: 1,
    stderr: /policies.yaml:1: "secrets" \/name: is the name of a policy of the owner "team"/,
  });
  write('name: a\nname: b\n');
  t.match(await run('apply', file, '--owner', 'team'), {
    code: 1,
    stderr: /policies.yaml:2:1: Map keys must be unique/,
  });
  t.equal((await listed(api)).length, 2, 'nothing was applied');

  for (const [args, sentence] of [
    [['plan', file], /--owner is missing/],
    [['plan', '--owner', 'x'], /FILE is missing/],
    [['apply', '--owner', 'x', '--colour'], /--colour/],
    [['pull', 'x'], /what is "x" meant to be/],
  ] as const)
    t.match(await run(...args), { code: 2, stderr: sentence });
  const nowhere = { GATEHOUSE_URL: 'http://127.0.0.1:1', GATEHOUSE_API_KEY: key };
  t.match(await runCli(['policies', 'pull'], nowhere), { code: 1, stderr: /gives no answer/ });
  t.match(await runCli(['policies', 'pull'], { GATEHOUSE_URL: service.url, GATEHOUSE_API_KEY: 'x' }), { code: 1 });
  t.ok(existsSync(file) && readFileSync(file, 'utf8') !== '');
});

t.test('files that declare nothing delete all of an owner only where that is said', async (t) => {
  const { api, key } = await newAccount('empty');
  const run = (...args: string[]) =>
    runCli(['policies', ...args], { GATEHOUSE_URL: service.url, GATEHOUSE_API_KEY: key });
  const file = path.join(folder, 'empty.yaml');
  const two = JSON.stringify([block('a'), block('b')]);
  writeFileSync(file, two);
  t.match(await run('apply', file, '--owner', 'team'), { code: 0 });
  await api.post('/v1/policies', block('by hand'));
  for (const nothing of ['', '# a template that failed\n', '[]', '---\n---\n', '\n']) {
    writeFileSync(file, nothing);
    const planned = await run('plan', file, '--owner', 'team');
    t.match(planned, { code: 3, stdout: /2 delete, 0 unchanged; plan/ });
    const hash = /plan (\S+)\n$/.exec(planned.stdout)![1]!;
    for (const more of nothing === '' ? [[], ['--hash', hash], ['--hash', 'x'], ['--hash', '-x'], ['--json']] : [[]])
      t.match(
        await run('apply', file, '--owner', 'team', ...more),
        { code: 1, stderr: /all of the owner would be deleted: --allow-empty allows it/ },
        JSON.stringify([nothing, more]),
      );
  }
  t.equal((await listed(api)).length, 3);
  t.match(await run('apply', file, '--owner', 'nobody'), { code: 0 }, 'an owner without policies');
  writeFileSync(file, JSON.stringify([block('c')]));
  t.match(await run('apply', file, '--owner', 'team'), { code: 0, stdout: /1 create, .* 2 delete/ }, 'others instead');
  writeFileSync(file, '[]');
  t.match(await run('apply', file, '--owner', 'team', '--allow-empty'), { code: 0, stdout: /1 delete, .*; applied/ });
  t.same(
    (await listed(api)).map(({ name }) => name),
    ['by hand'],
  );
});

t.test('a plan says what was deleted by hand, and what is lost with a policy', async (t) => {
  const { api, key } = await newAccount('hints');
  const run = (...args: string[]) =>
    runCli(['policies', ...args], { GATEHOUSE_URL: service.url, GATEHOUSE_API_KEY: key });
  const file = path.join(folder, 'hints.yaml');
  const limit = { ...block('limit'), type: 'rate_limit', conditions: { threshold: 2, window: '1h' } };
  const ask = { ...block('ask'), type: 'require_approval', actions: ['alert'] };
  const write = (...policies: object[]) => writeFileSync(file, JSON.stringify(policies));
  write(block('a'), limit, ask);
  t.match(await run('apply', file, '--owner', 'team'), { code: 0 });
  const idOf = async (name: string) => (await listed(api)).find((policy) => policy.name === name)!.id;
  await api.delete(`/v1/policies/${await idOf('a')}`);
  const hinted = await planOf(api, [block('a')]);
  t.match(hinted.policies[0], { hints: [/^it was there, and was deleted by hand at 20/] });
  const again = await run('plan', file, '--owner', 'team');
  t.match(again, {
    code: 3,
    stdout: /^\+ create "a"\n {4}note: it was there, and was deleted by hand at 20\S+Z by key:key_/,
  });
  t.match((await planOf(api, [block('a')], 'other')).policies[0], { hints: [] }, 'it was of another owner');

  write(block('a'), { ...limit, name: 'limit 2', conditions: { threshold: 3, window: '1h' } });
  const { stdout } = await run('plan', file, '--owner', 'team');
  t.match(stdout, /create "limit 2"\n {4}note: a new policy: if it is "limit" under another name/);
  t.match(stdout, /delete "limit", now at revision 1\n {4}note: what it has counted is forgotten\n/);
  t.match(stdout, /delete "ask", now at revision 1\n {4}note: what waits for its approval can still be decided/);
  t.match(await run('apply', file, '--owner', 'team'), { code: 0 });
  write(block('a'), limit);
  t.notMatch((await run('plan', file, '--owner', 'team')).stdout, /by hand/, 'what a plan deleted was not by hand');
});

t.test('a new name keeps what was counted and what waits', async (t) => {
  const { api, key } = await newAccount('names');
  const run = (...args: string[]) =>
    runCli(['policies', ...args], { GATEHOUSE_URL: service.url, GATEHOUSE_API_KEY: key });
  const file = path.join(folder, 'names.yaml');
  const declared = (suffix: string) => [
    {
      name: `limit${suffix}`,
      type: 'rate_limit',
      actions: ['block'],
      conditions: { type: 'tool_call', threshold: 2, window: '1h' },
    },
    {
      ...{ name: `ask${suffix}`, type: 'require_approval', actions: ['alert'] },
      conditions: { type: 'prompt', timeout: '10s', on_timeout: 'approve' },
    },
  ];
  writeFileSync(file, JSON.stringify(declared('')));
  t.match(await run('apply', file, '--owner', 'team'), { code: 0 });
  const { id: agent } = (await api.post('/v1/agents', { name: 'agent' })).json;
  const send = async (type: string) =>
    (await api.post(`/v1/agents/${agent}/events`, { type, payload: { n: 1 } })).json as {
      id: string;
      policy_result: { outcome: string; approval_id?: string };
    };
  const waiting = await api.submitUntil('pending', agent, { type: 'prompt', payload: {} });
  const outcomes: string[] = [];
  for (let n = 0; n < 3; n++) outcomes.push((await send('tool_call')).policy_result.outcome);
  t.same(outcomes, ['allowed', 'allowed', 'blocked']);
  const ids = (await listed(api)).map(({ id }) => id);

  writeFileSync(file, JSON.stringify(declared(' of this team')));
  const planned = await run('plan', file, '--owner', 'team');
  t.match(
    planned.stdout,
    /^~ update "limit of this team", now at revision 1\n {4}note: renamed from "limit": what it has counted/,
  );
  t.match(planned.stdout, /0 create, 2 update, 0 replace, 0 delete/);
  t.match(await run('apply', file, '--owner', 'team'), { code: 0 });
  t.same(
    (await listed(api)).map(({ id, name }) => [id, name]),
    ids.map((id, i) => [id, ['ask of this team', 'limit of this team'][i]]),
  );
  for (let n = 0; n < 3; n++) t.equal((await send('tool_call')).policy_result.outcome, 'blocked');
  const path_ = `/v1/approvals/${waiting.json.policy_result.approval_id}`;
  const decided = await api.until(
    () => api.get(path_),
    ({ json }) => json.status !== 'pending',
  );
  t.match(decided.json, { status: 'expired', outcome: 'allowed' });
});

t.test('every command goes to the service under the path of its address', async (t) => {
  const { api, key } = await newAccount('prefix');
  await api.post('/v1/policies', {
    ...block('no rm'),
    conditions: { tool: 'Bash', 'payload.tool_input.command': 'rm' },
  });
  const asked: string[] = [];
  const proxy = http.createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    if (request.url?.startsWith('/moved/') === true)
      return void response.writeHead(302, { location: service.url }).end();
    if (request.url?.startsWith('/gatehouse/') !== true) return void response.writeHead(404).end('no such path');
    const { host: _, ...headers } = request.headers;
    const onward = http.request(
      `${service.url}${request.url.slice('/gatehouse'.length)}`,
      { method: request.method!, headers },
      (answer) => void answer.pipe(response.writeHead(answer.statusCode!, answer.headers)),
    );
    request.pipe(onward);
  });
  const base = `http://127.0.0.1:${await listening(t, proxy)}`;
  const file = path.join(folder, 'prefix.yaml');
  writeFileSync(file, JSON.stringify([block('a')]));
  const hook = JSON.stringify({
    ...{ hook_event_name: 'PreToolUse', session_id: 's', cwd: '/', tool_name: 'Bash', tool_input: { command: 'ls' } },
  });
  for (const url of [`${base}/gatehouse`, `${base}/gatehouse/`]) {
    const env = { GATEHOUSE_URL: url, GATEHOUSE_API_KEY: key };
    t.match(await runCli(['policies', 'pull'], env), { code: 0, stdout: /no rm/ });
    t.match(await runCli(['policies', 'plan', file, '--owner', 'team'], env), { code: url.endsWith('/') ? 0 : 3 });
    t.match(await runCli(['policies', 'apply', file, '--owner', 'team'], env), { code: 0 });
    t.match(await runCli(['hook'], env, hook), { code: 0 });
  }
  t.ok(asked.length > 6 && asked.every((line) => / \/gatehouse\/v1\//.test(line)), JSON.stringify(asked));
  t.match(await runCli(['policies', 'pull'], { GATEHOUSE_URL: base, GATEHOUSE_API_KEY: key }), {
    ...{
      code: 1,
      stderr: /what answers there is not Gatehouse, or the path of the address is another one: status 404/,
    },
  });
  const moved = await runCli(['policies', 'pull'], { GATEHOUSE_URL: `${base}/moved`, GATEHOUSE_API_KEY: key });
  t.match(moved, { code: 1, stderr: `redirects to ${service.url}` });
  t.match(await runCli(['policies', 'pull'], { GATEHOUSE_URL: `${base}/gatehouse?x`, GATEHOUSE_API_KEY: key }), {
    ...{ code: 2, stderr: /GATEHOUSE_URL must be as http/ },
  });
});

t.test('files name agents, whose ids differ from account to account', async (t) => {
  const file = path.join(folder, 'agents.yaml');
  const names = ['support bot', ...Array.from({ length: 11 }, (_, i) => `${'ü'.repeat(198)}${i + 10}`)];
  const declare = (name: string) =>
    `name: ${JSON.stringify(`of ${name.slice(-10)}`)}\ntype: block_action\nagent: ${name}\nactions: [log]\nconditions: {}\n`;
  writeFileSync(file, names.map(declare).join('---\n'));
  const pulled: string[] = [];
  for (const stage of ['staging', 'production']) {
    const { api, key } = await newAccount(stage);
    const run = (...args: string[]) =>
      runCli(['policies', ...args], { GATEHOUSE_URL: service.url, GATEHOUSE_API_KEY: key });
    const missing = await run('plan', file, '--owner', 'team');
    t.match(missing, { code: 1, stdout: '' });
    t.match(missing.stderr, `${file}:1: no agent is called "support bot"\n${file}:7: no agent is called`);
    const ids: string[] = [];
    for (const name of names) ids.push((await api.post('/v1/agents', { name })).json.id);
    t.match(await run('apply', file, '--owner', 'team'), { code: 0, stdout: /12 create, .*; applied\n$/ });
    t.same(new Set((await listed(api)).map((policy) => policy.agent_id)), new Set(ids));
    pulled.push((await run('pull', '--owner', 'team')).stdout);
    t.match(await run('plan', file, '--owner', 'team'), { code: 0 });
  }
  t.equal(pulled[0], pulled[1]);
  t.match(pulled[0], /^agent: support bot$/m);
  t.notMatch(pulled[0], /agt_/);

  const { key } = await newAccount('wrong');
  writeFileSync(file, 'name: a\nagent: 7\n---\nname: b\nagent: x\nagent_id: y\n');
  t.match(
    await runCli(['policies', 'plan', file, '--owner', 'x'], { GATEHOUSE_URL: service.url, GATEHOUSE_API_KEY: key }),
    {
      code: 1,
      stderr: `${file}:1: \`agent\` must be the name of an agent\n${file}:4: \`agent\` and \`agent_id\` say the same: leave one out`,
    },
  );
});
