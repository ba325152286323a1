// Decision points against the whole service: hooks of Claude Code, queries of OPA clients, LiteLLM's guardrail. What is
// denied is denied in the form that the tool acts on; what waits is waited for and then denied; what is redacted comes
// back to be used.
import { spawnSync } from 'node:child_process';
import t from 'tap';
import { assetPath } from '../../src/process/assets.ts';
import { type Answer, Api } from '../support/api.ts';
import { pause } from '../support/raw-http.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService(t);
const api = await Api.described(t, service);

const CLAUDE = '/v1/hooks/claude-code';
const OPA = '/v1/data/gatehouse/decision';
const AUTHZEN = '/access/v1/evaluation';
const LITELLM = '/beta/litellm_basic_guardrail_api';

async function policy(name: string, type: string, conditions: object): Promise<void> {
  const actions = name === 'no addresses' ? ['log'] : ['block', 'alert'];
  const { status, text } = await api.post('/v1/policies', { name, type, conditions, actions });
  if (status !== 201) throw new Error(text);
}
await policy('no rm', 'block_action', {
  type: 'tool_call',
  tool: 'Bash',
  'payload.arguments.command': { contains: 'rm -rf' },
});
await policy('ask for refunds', 'require_approval', { tool: 'refund', timeout: '10m' });
await policy('no keys', 'data_filter', { detectors: ['api_key'] });
await policy('no addresses', 'data_filter', { detectors: ['email'], redact: true });
await api.until(
  () => api.post(LITELLM, { texts: ['to a@example.com'] }),
  ({ json }) => json.action === 'GUARDRAIL_INTERVENED',
);
const INSTEAD = 'Deleted rows cannot be had again: call archive_rows instead.';
for (const [name, conditions] of [
  ['no drops', { tool: 'drop_rows' }],
  ['no talk of drops', { 'payload.prompt': 'drop_rows' }],
] as const) {
  const told = { type: 'block_action', actions: ['block'], description: INSTEAD };
  if ((await api.post('/v1/policies', { name, conditions, ...told })).status !== 201) throw new Error(name);
}
const KEY = 'sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH';

t.test('hooks of Claude Code', async (t) => {
  const hook = (body: object) =>
    api.post(CLAUDE, { session_id: 's-1', cwd: '/work', permission_mode: 'default', ...body });
  const call = { hook_event_name: 'PreToolUse', tool_name: 'Bash', tool_use_id: 'toolu_1' };
  t.same((await hook({ ...call, tool_input: { command: 'ls' } })).json, {}, 'the own rules of the tool still hold');
  t.same((await hook({ ...call, tool_input: { command: 'rm -rf /' } })).json, {
    hookSpecificOutput: {
      hookEventName: 'PreToolUse',
      permissionDecision: 'deny',
      permissionDecisionReason: 'Blocked by policy "no rm".',
    },
  });
  const after = { ...call, hook_event_name: 'PostToolUse', tool_input: { command: 'cat' } };
  t.same((await hook({ ...after, tool_response: { stdout: 'hello' } })).json, {});
  t.same((await hook({ ...after, tool_response: { stdout: KEY } })).json, {
    decision: 'block',
    reason: 'Blocked by policy "no keys".',
  });
  const refunded = { ...after, tool_name: 'refund', tool_input: {}, tool_response: { ok: true } };
  t.same((await hook(refunded)).json, {}, 'the result of a call that was approved needs no approval of its own');
  t.same((await hook({ hook_event_name: 'UserPromptSubmit', prompt: `use ${KEY}` })).json.decision, 'block');
  t.same((await hook({ hook_event_name: 'SessionStart' })).json, {}, 'there is nothing to ask about');
  const { json } = await api.get('/v1/traces/s-1');
  t.match(json, {
    event_count: 6,
    counts: { tool_call: 2, custom: 3, prompt: 1 },
    outcomes: { blocked: 3, allowed: 3 },
  });
  t.match((await api.get('/v1/agents?name=claude-code')).json.items, [{ metadata: { registered_by: CLAUDE } }]);
  t.equal((await api.post(CLAUDE, { tool_name: 'Bash' })).status, 400);
});

t.test('queries of OPA clients', async (t) => {
  const ask = (input: object, query = '') => api.post(`${OPA}${query}`, { input });
  const { json: agent } = await api.post('/v1/agents', { name: 'opa' });
  const sdk = { tool: { name: 'Bash' }, args: { command: 'rm -rf /' }, messages: [], runtimeContext: {} };
  t.match((await ask(sdk, '?agent=opa')).json, {
    result: {
      decision: 'deny',
      allow: false,
      reason: 'Blocked by policy "no rm".',
      event_id: /^evt_/,
      policy_id: /^pol_/,
    },
  });
  t.match((await ask({ agent: agent.id, tool: 'Bash', arguments: { command: 'ls' } })).json, {
    result: { decision: 'allow', allow: true },
  });
  const said = { agent: 'opa', type: 'prompt', payload: { prompt: 'mail a@example.com' }, trace_id: 't-1' };
  t.match((await ask(said)).json.result, { decision: 'allow', redacted: { prompt: 'mail [redacted:email]' } });
  t.equal((await ask({ tool: 'Bash' })).status, 400, 'whose it is has to be said');
  t.equal((await ask({ agent: 'opa' })).status, 400, 'and what');
  t.equal((await ask({ agent: 'opa', type: 'shout', payload: {} })).status, 400);
  t.equal((await ask({ agent: 'agt_01m8epeshh5avk9g9agbaf6fvd', tool: 'x' })).status, 404);
  t.equal((await api.get(`/v1/agents/${agent.id}/events`)).json.total, 3);
});

t.test('access evaluations of AuthZEN', async (t) => {
  const subject = { type: 'agent', id: 'authzen' };
  const resource = { type: 'host', id: 'web-1', properties: { zone: 'eu' } };
  const asked = (command: string) => ({
    ...{ subject, resource, context: { trace_id: 't-zen', at: 1.0 } },
    action: { name: 'Bash', properties: { command } },
  });
  await api.post('/v1/agents', { name: 'authzen' });
  const allowed = await api.post(AUTHZEN, asked('ls'), { headers: { 'x-request-id': 'zen-1' } });
  t.match(allowed.json, { decision: true, context: { event_id: /^evt_/ } });
  t.equal(allowed.headers.get('x-request-id'), 'zen-1', 'as the standard has it');
  t.match((await api.post(AUTHZEN, asked('rm -rf /'))).json, {
    decision: false,
    context: { reason: 'Blocked by policy "no rm".', policy_id: /^pol_/ },
  });
  t.match((await api.post(AUTHZEN, asked('mail a@example.com'))).json, {
    decision: false,
    context: { reason: /^Policy "no addresses" redacts part of this/ },
  });
  const { json } = await api.get('/v1/traces/t-zen');
  t.match(json, { event_count: 3, outcomes: { allowed: 2, blocked: 1 } });
  t.match(json.events[0].payload, { tool: 'Bash', arguments: { command: 'ls' }, subject, resource });
  const user = { ...asked('ls'), subject: { type: 'user', id: 'alice' } };
  t.equal((await api.post(AUTHZEN, user)).status, 400, 'whose it is has to be said');
  t.equal((await api.post(`${AUTHZEN}?agent=authzen`, user)).json.decision, true);
  for (const [body, path] of [
    [{ ...asked('ls'), resource: undefined }, '/resource'],
    [{ ...asked('ls'), action: { name: '' } }, '/action/name'],
    [{ ...asked('ls'), subject: { type: 'agent' } }, '/subject/id'],
    [{ ...asked('ls'), evaluations: [] }, '/evaluations'],
    [{ ...asked('ls'), action: { name: 'Bash', arguments: {} } }, '/action/arguments'],
    [{ ...asked('ls'), context: 'now' }, '/context'],
  ] as const) {
    const { status, json } = await api.post(AUTHZEN, body);
    t.match({ status, path: json.error.details[0].path }, { status: 400, path });
  }
  t.equal((await api.get('/v1/traces/t-zen')).json.event_count, 4, 'what is refused is not recorded');
});

t.test('what needs an approval is waited for, and then denied', async (t) => {
  const ask = (wait: number) =>
    api.post(`${OPA}?wait=${wait}`, { input: { agent: 'opa', tool: 'refund', args: { order: 7 } } });
  const waiting = ask(30);
  const pending = await api.until(
    () => api.get('/v1/approvals?status=pending'),
    ({ json }) => json.total > 0,
  );
  await api.post(`/v1/approvals/${pending.json.items[0].id}`, { decision: 'approve' });
  t.match((await waiting).json.result, { decision: 'allow', approval_id: pending.json.items[0].id });

  const began = performance.now();
  const denied = (await ask(1)).json.result;
  t.ok(performance.now() - began > 900);
  t.match(denied, { decision: 'deny', reason: /^Approval apr_\w+ is pending/ });
  const refusing = ask(30);
  const next = await api.until(
    () => api.get('/v1/approvals?status=pending'),
    ({ json }) => json.total > 1,
  );
  const other = next.json.items.find(({ id }: { id: string }) => id !== denied.approval_id);
  await api.post(`/v1/approvals/${other.id}`, { decision: 'deny' });
  t.match((await refusing).json.result, { decision: 'deny', reason: `Approval ${other.id} was denied.` });
});

t.test('what a policy says of itself is told in place of its name', async (t) => {
  const isTold = async (path: string, body: object, told: (json: Answer['json']) => unknown) => {
    const { json } = await api.until(
      () => api.post(path, body),
      (answer) => told(answer.json) !== undefined,
    );
    t.equal(told(json), INSTEAD, path);
  };
  const input = { agent: 'opa', tool: 'drop_rows', args: {} };
  await isTold(OPA, { input }, ({ result }) => result.reason);
  const hook = { hook_event_name: 'PreToolUse', tool_name: 'drop_rows', tool_input: {} };
  await isTold(CLAUDE, hook, ({ hookSpecificOutput: said }) => said?.permissionDecisionReason);
  await isTold(LITELLM, { texts: ['drop_rows'] }, (json) => json.blocked_reason);
  const action = { name: 'drop_rows' };
  const evaluation = { subject: { type: 'agent', id: 'opa' }, action, resource: { type: 'table', id: 'orders' } };
  await isTold(AUTHZEN, evaluation, ({ context }) => context.reason);
  const { id } = (await api.get('/v1/agents?name=opa')).json.items[0];
  const event = { type: 'tool_call', payload: { tool: 'drop_rows' } };
  await isTold(`/v1/agents/${id}/events`, event, ({ policy_result: { matches } }) => matches[0]?.description);
  const { json } = await api.get(`/v1/agents/${id}/events?limit=1`);
  t.equal(json.items[0].policy_result.matches[0].description, INSTEAD, 'and it is kept what was told');
});

t.test("LiteLLM's guardrail", async (t) => {
  const ask = (body: object) => api.post(LITELLM, { model: 'gpt-4o', litellm_trace_id: 't-2', ...body });
  t.same((await ask({ texts: ['Where is my order?'], input_type: 'request' })).json, { action: 'NONE' });
  t.same((await ask({ texts: ['first', `use ${KEY}`], input_type: 'request' })).json, {
    action: 'BLOCKED',
    blocked_reason: 'Blocked by policy "no keys".',
  });
  t.same((await ask({ texts: ['to a@example.com', 'and no other'], input_type: 'response' })).json, {
    action: 'GUARDRAIL_INTERVENED',
    texts: ['to [redacted:email]', 'and no other'],
  });
  t.match((await api.get('/v1/traces/t-2')).json.counts, { prompt: 2, completion: 1 });
});

t.test('the answer to an event has what is kept of it, also to a retry', async (t) => {
  const { json: agent } = await api.post('/v1/agents', { name: 'redacted' });
  const event = { type: 'prompt', payload: { prompt: 'a@example.com', n: 1 } };
  const send = () => api.post(`/v1/agents/${agent.id}/events`, event, { headers: { 'idempotency-key': 'once' } });
  const first = await send();
  t.match(first.json, { payload: event.payload, redacted_payload: { prompt: '[redacted:email]', n: 1 } });
  t.equal((await send()).text, first.text);
  const batch = await api.post(`/v1/agents/${agent.id}/events/batch`, [event, { type: 'prompt', payload: { n: 2 } }]);
  t.match(batch.json.results, [{ redacted_payload: { n: 1 } }, { redacted_payload: undefined }]);
  await pause(1);
  const read = await api.get(`/v1/agents/${agent.id}/events/${first.json.id}`);
  t.match(read.json, { payload: { prompt: '[redacted:email]' }, redacted_payload: undefined });
});

t.test('the command for tools with command hooks denies where it is denied, and where it cannot ask', async (t) => {
  const run = (input: object | string, env: Record<string, string | undefined>, args: string[] = []) => {
    const child = spawnSync(process.execPath, [assetPath('build/service/cli.js'), 'hook', ...args], {
      input: typeof input === 'string' ? input : JSON.stringify(input),
      env: { PATH: process.env.PATH, ...env } as NodeJS.ProcessEnv,
      encoding: 'utf8',
    });
    return { status: child.status, stdout: child.stdout, stderr: child.stderr };
  };
  const env = { GATEHOUSE_URL: service.url, GATEHOUSE_API_KEY: service.key };
  const call = { hook_event_name: 'PreToolUse', tool_name: 'Bash', tool_input: { command: 'ls' } };
  t.same(run(call, env), { status: 0, stdout: '', stderr: '' });
  const denied = run({ ...call, tool_input: { command: 'rm -rf /' } }, env, ['--agent', 'from a command']);
  t.same(denied, { status: 2, stdout: '', stderr: 'Blocked by policy "no rm".\n' });
  t.equal((await api.get('/v1/agents?name=from%20a%20command')).json.total, 1);
  t.match(run(call, { ...env, GATEHOUSE_API_KEY: 'gth_wrong' }), { status: 2, stderr: /401/ });
  t.match(run('no JSON', env), { status: 2, stderr: /could not be asked, so this is denied: 400/ });
  t.match(run(call, {}), { status: 2, stderr: /GATEHOUSE_URL is not set/ });
  t.match(run(call, { ...env, GATEHOUSE_URL: 'nonsense' }), { status: 2 });
});
