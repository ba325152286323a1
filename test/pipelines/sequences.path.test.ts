// Sequences against the whole service: one that is made or changed knows what occurred before it was, by what is
// stored; what is waited for, blocked or approved; what a preview and a backtest say; how many there may be.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { Policy } from '../../schemas/policy.ts';
import { Api } from '../support/api.ts';
import { startService } from '../support/service.ts';

t.setTimeout(600_000);
const service = await startService(t, { env: { GATEHOUSE_BACKTESTS: '1' } });
const api = await Api.described(t, service);

type Match = {
  policy_id: string;
  detail: { after: { event_id: string; path?: string }[]; reason?: string; waits_for?: string };
};
type Submitted = { id: string; policy_result: { outcome: string; matches: Match[]; approval_id?: string } };

let names = 0;
const newAgent = async (): Promise<string> => (await api.post('/v1/agents', { name: `agent-${++names}` })).json.id;

async function newPolicy(conditions: object, more: object = {}): Promise<Policy> {
  const body = { name: `policy-${++names}`, type: 'sequence', actions: ['block'], conditions, ...more };
  const made = await api.post('/v1/policies', body);
  t.equal(made.status, 201, made.text);
  return made.json as Policy;
}

async function send(agent: string, tool: string, args: object = {}, trace?: string): Promise<Submitted> {
  const payload = { tool, arguments: args };
  const body = { type: 'tool_call', payload, ...(trace === undefined ? {} : { trace_id: trace }) };
  return (await api.post(`/v1/agents/${agent}/events`, body)).json as Submitted;
}

/** A policy is in force within a second. */
const IN_FORCE_MS = 3_000;

/** Until an agent that did nothing hears that what occurred is known. `sink`: its last call. */
async function known(agent: string, sink: string): Promise<void> {
  const begunMs = performance.now();
  const endMs = begunMs + 60_000;
  for (;;) {
    const { policy_result: result } = await send(agent, sink);
    if (result.outcome !== 'allowed' && result.matches.every(({ detail }) => detail.reason !== 'state_unknown')) return;
    if (result.outcome === 'allowed' && performance.now() > begunMs + IN_FORCE_MS) return;
    if (performance.now() > endMs) throw new Error(`not known: ${JSON.stringify(result)}`);
    await sleep(200);
  }
}

const outcomeOf = ({ policy_result: { outcome } }: Submitted) => outcome;

t.test('one that is made, or changed, in mid-trace knows what was before', async (t) => {
  const [agent, idle] = [await newAgent(), await newAgent()];
  const secret = await send(agent, 'read_file', { path: '/app/.env' }, 'one');
  await send(agent, 'read_file', { path: '/app/readme' }, 'two');
  const step = { tool: 'read_file', 'payload.arguments.path': { glob: '*.env' } };
  const policy = await newPolicy({ tool: 'http_post', after: [step], within: '1h', per: 'trace' });
  await known(idle, 'http_post');
  t.equal(outcomeOf(await send(agent, 'http_post', {}, 'two')), 'allowed');
  const blocked = await send(agent, 'http_post', {}, 'one');
  t.equal(outcomeOf(blocked), 'blocked');
  t.match(blocked.policy_result.matches, [{ detail: { after: [{ event_id: secret.id, path: '/arguments/path' }] } }]);

  const other = await newAgent();
  const later = await send(other, 'read_file', { path: '/app/.env' }, 'three');
  t.equal(outcomeOf(await send(other, 'http_post', {}, 'three')), 'blocked', 'and what comes afterwards');
  const changed = { ...policy.conditions, after: [{ tool: 'read_file' }] };
  t.equal((await api.patch(`/v1/policies/${policy.id}`, { conditions: changed })).status, 200);
  await known(idle, 'http_post');
  t.equal(outcomeOf(await send(agent, 'http_post', {}, 'two')), 'blocked', 'the readme is a step now');
  const again = await send(other, 'http_post', {}, 'three');
  t.match(again.policy_result.matches, [{ detail: { after: [{ event_id: later.id }] } }]);
  await api.delete(`/v1/policies/${policy.id}`);
});

t.test('what happened while it was switched off counts', async (t) => {
  const [agent, idle] = [await newAgent(), await newAgent()];
  const { id } = await newPolicy({ tool: 'pay', after: [{ tool: 'fail' }], within: '1h', at_least: 3 });
  await known(idle, 'pay');
  await send(agent, 'fail');
  await api.patch(`/v1/policies/${id}`, { status: 'inactive' });
  await sleep(1_500);
  await send(agent, 'fail');
  t.equal(outcomeOf(await send(agent, 'pay')), 'allowed');
  await api.patch(`/v1/policies/${id}`, { status: 'active' });
  await known(idle, 'pay');
  t.equal(outcomeOf(await send(agent, 'pay')), 'allowed', 'two, each counted once');
  await send(agent, 'fail');
  t.equal(outcomeOf(await send(agent, 'pay')), 'blocked', 'three');
  await api.delete(`/v1/policies/${id}`);
});

t.test('what comes while the past is read is counted once', async (t) => {
  const [agent, idle] = [await newAgent(), await newAgent()];
  for (let i = 0; i < 10; i++) await send(agent, 'tick');
  const { id } = await newPolicy({ tool: 'tock', after: [{ tool: 'tick' }], within: '1h', at_least: 51 });
  const sending = Promise.all(
    Array.from({ length: 4 }, async () => {
      for (let i = 0; i < 10; i++) {
        await send(agent, 'tick');
        await sleep(500);
      }
    }),
  );
  await known(idle, 'tock');
  await sending;
  t.equal(outcomeOf(await send(agent, 'tock')), 'allowed', '50');
  await send(agent, 'tick');
  t.equal(outcomeOf(await send(agent, 'tock')), 'blocked', '51');
  await api.delete(`/v1/policies/${id}`);
});

t.test('who reads the past may be killed at it', async (t) => {
  const [agent, idle] = [await newAgent(), await newAgent()];
  for (let i = 0; i < 3; i++) await send(agent, 'knock');
  const { id } = await newPolicy({ tool: 'enter', after: [{ tool: 'knock' }], within: '1h', at_least: 5 });
  for (let kills = 0; kills < 2; kills++) {
    await sleep(2_000);
    const reader = (await service.children()).find(({ name }) => name.startsWith('pipelines'))!;
    process.kill(reader.pid, 'SIGKILL');
  }
  await known(idle, 'enter');
  t.equal(outcomeOf(await send(agent, 'enter')), 'allowed', 'three');
  await send(agent, 'knock');
  t.equal(outcomeOf(await send(agent, 'enter')), 'allowed', 'four');
  await send(agent, 'knock');
  t.equal(outcomeOf(await send(agent, 'enter')), 'blocked', 'five');
  await api.delete(`/v1/policies/${id}`);
});

t.test('a payment without an approval, and with one that came before the policy or after', async (t) => {
  const agents = [await newAgent(), await newAgent(), await newAgent()] as const;
  const idle = await newAgent();
  const approval = { type: 'require_approval', conditions: { tool: 'approve' } };
  const asks = await newPolicy({}, approval);
  const early = await send(agents[0], 'approve');
  const late = await send(agents[1], 'approve');
  t.equal(outcomeOf(early), 'pending');
  await decide(early);
  const { id } = await newPolicy({ tool: 'pay', unless: { tool: 'approve' }, within: '1h' });
  await sleep(6_000);
  await known(idle, 'pay');
  t.equal(outcomeOf(await send(agents[0], 'pay')), 'allowed', 'approved before');
  const waits = await send(agents[1], 'pay');
  t.match(waits.policy_result.matches, [{ detail: { reason: 'not_finished', waits_for: late.id } }]);
  await decide(late);
  t.equal(outcomeOf(await send(agents[1], 'pay')), 'allowed', 'approved since');
  t.equal(outcomeOf(await send(agents[2], 'pay')), 'blocked');
  for (const one of [asks.id, id]) await api.delete(`/v1/policies/${one}`);
});

async function decide({ policy_result: { approval_id: id } }: Submitted): Promise<void> {
  for (;;) {
    const { status, text } = await api.post(`/v1/approvals/${id}`, { decision: 'approve' });
    if (status === 200) return;
    if (status !== 404) throw new Error(text);
    await sleep(50);
  }
}

t.test('what is refused, with its place and what to do instead', async (t) => {
  const conditions = { tool: 'pay', after: [{ tool: 'read' }], within: '1h' };
  const body = { name: 'wrong', type: 'sequence', actions: ['block'], conditions };
  const wrong: [string, object, string, RegExp][] = [
    ['/v1/policies', { ...body, conditions: { tool: 'pay', within: '1h' } }, '/conditions', /`after` or `unless`/],
    [
      '/v1/policies',
      { ...body, conditions: { ...conditions, after: [{ agent_id: 'payments' }] } },
      '/conditions/after/0/agent_id',
      /./,
    ],
    [
      '/v1/policies',
      { ...body, conditions: { ...conditions, same: { 'payload.to': '$.from' } } },
      '/conditions/same/payload.to',
      /./,
    ],
  ];
  for (const [path, sent, place, message] of wrong) {
    const { status, json } = await api.post(path, sent);
    t.equal(status, 400, `${path} ${place}`);
    t.match(json.error.details, [{ path: place, message }]);
  }
});

t.test('an evaluation judges an event after others', async (t) => {
  const agent = await newAgent();
  const policies = [
    { type: 'sequence', actions: ['block'], conditions: { tool: 'pay', after: [{ tool: 'read' }], within: '1h' } },
  ];
  const event = { agent_id: agent, type: 'tool_call', payload: { tool: 'pay' } };
  const before = [{ type: 'tool_call', payload: { tool: 'read' } }];
  const alone = await api.post('/v1/policies/evaluate', { event, policies });
  t.equal(alone.json.policy_result.outcome, 'allowed', alone.text);
  const after = await api.post('/v1/policies/evaluate', { event, before, policies });
  t.match(after.json.policy_result, {
    outcome: 'blocked',
    matches: [{ detail: { after: [{ event_id: 'before/0' }] } }],
  });
});

t.test('a preview and a backtest judge what was recorded, each event after those before it', async (t) => {
  const agent = await newAgent();
  const asks = await newPolicy({ tool: 'allow' }, { type: 'require_approval', agent_id: agent });
  await sleep(1_100);
  const from = new Date().toISOString();
  const sent: Submitted[] = [];
  for (const tool of ['pay', 'allow', 'pay', 'read', 'pay']) {
    const one = await send(agent, tool);
    if (tool === 'allow') await decide(one);
    sent.push(one);
  }
  const names = (ids: readonly string[]) => ids.map((id) => sent.findIndex((one) => one.id === id));
  const draft = (conditions: object) => ({ type: 'sequence', actions: ['block'], agent_id: agent, conditions });
  for (const [conditions, matched] of [
    [{ tool: 'pay', after: [{ tool: 'read' }], within: '1h' }, [4]],
    [{ tool: 'pay', unless: { tool: 'allow' }, within: '1h' }, [0]],
    [{ tool: 'pay', after: [{ tool: 'pay' }], at_least: 2, within: '1h' }, [4]],
  ] as const) {
    const body = draft(conditions);
    const preview = await api.post('/v1/policies/preview', { name: 'tried', ...body });
    t.match(preview.json, { events: 5, matched: matched.length, unknown: 0, complete: true, approximate: false });
    t.same(names(preview.json.first.map(({ id }: Submitted) => id)), matched, JSON.stringify(conditions));
    const made = await api.post('/v1/backtests', { policy: body, from });
    t.equal(made.status, 202, made.text);
    const { json } = await api.until(
      () => api.get(`/v1/backtests/${made.json.id}`),
      ({ json: { status } }) => status === 'done' || status === 'failed',
    );
    t.match(json.result, { events: 5, matched: matched.length, changed: matched.length, unknown: [] });
    const samples = json.result.samples as { event_id: string; detail: { after: { event_id: string }[] } }[];
    t.same(names(samples.map(({ event_id: id }) => id)), matched);
  }
  await api.delete(`/v1/policies/${asks.id}`);
});

t.test('20 may be active, by whatever way', async (t) => {
  const conditions = { tool: 'pay', after: [{ tool: 'never' }], within: '1s' };
  const ids: string[] = [];
  for (let i = 0; i < 20; i++) ids.push((await newPolicy(conditions)).id);
  const body = { name: 'one more', type: 'sequence', actions: ['block'], conditions };
  const refused = await api.post('/v1/policies', body);
  t.match(refused.json.error?.details, [{ path: '/status', message: /at most 20 active sequences/ }]);
  const spare = await newPolicy(conditions, { status: 'inactive' });
  t.equal((await api.patch(`/v1/policies/${spare.id}`, { status: 'active' })).status, 400);
  const declared = { owner: 'files', policies: [body], dry_run: true };
  t.equal((await api.post('/v1/policies/apply', declared)).status, 400);
  await api.delete(`/v1/policies/${ids[0]}`);
  t.equal((await api.patch(`/v1/policies/${spare.id}`, { status: 'active' })).status, 200);
  for (const id of [...ids.slice(1), spare.id]) await api.delete(`/v1/policies/${id}`);
});
