// Every cell of the table in docs/fail-closed.md that is ours, tried: against the whole service, and against servers
// that are away, hang, are full or refuse. What was not allowed is not done in any of them.
import { randomBytes } from 'node:crypto';
import PQueue from 'p-queue';
import t from 'tap';
import { Gatehouse } from '../../clients/typescript/src/index.ts';
import { RawPeers } from '../mcp/raw-peers.ts';
import { Api } from '../support/api.ts';
import { InferenceSender, promptOf, text } from '../support/inference-sender.ts';
import { answerOf, oddServer } from '../support/odd-server.ts';
import { runPython } from '../support/python.ts';
import { runCli, startService } from '../support/service.ts';
import { SITUATIONS, type Situation, WAYS } from './table.ts';

const service = await startService(t);
const api = await Api.described(t, service);
const all = Object.keys(SITUATIONS) as Situation[];

const agent = (await api.post('/v1/agents', { name: 'asks' })).json.id as string;
const asked = {
  name: 'ask',
  type: 'require_approval',
  conditions: { timeout: '10m' },
  actions: ['alert'],
  agent_id: agent,
};
if ((await api.post('/v1/policies', asked)).status !== 201) throw new Error('no policy');
const { json: made } = await api.post('/v1/api-keys', { label: 'gone', scope: 'write' });
await api.delete(`/v1/api-keys/${made.id}`);
const { stdout: account } = await runCli(['account', 'create', 'busy'], { GATEHOUSE_DATA_DIR: service.dataDir });
const busyKey = /^key (\S+)$/m.exec(account)![1]!;
const limit = ['account', 'limit', 'busy', '--per-second', '1', '--burst', '2'];
await runCli(limit, { GATEHOUSE_DATA_DIR: service.dataDir });
await api.submitUntil('pending', agent, { type: 'custom', payload: {} });
await api.until(
  () => api.as(made.key).get('/v1/agents'),
  ({ status }) => status === 401,
);

/** Where a client asks, in each situation. Port 1 is one that nothing listens at. */
const refusal = '{"error":{"code":"insufficient_scope","message":"no"}}';
const TARGETS: Record<Situation, { url: string; key: string }> = {
  away: { url: 'http://127.0.0.1:2', key: service.key },
  hangs: { url: (await oddServer(t, () => undefined)).url, key: service.key },
  full: { url: (await oddServer(t, answerOf(503, '{}', ['retry-after: 60']))).url, key: service.key },
  refuses: { url: (await oddServer(t, answerOf(403, refusal))).url, key: service.key },
  unclear: { url: service.url, key: service.key },
  revoked: { url: service.url, key: made.key },
  approval: { url: service.url, key: service.key },
};

type HttpWay = {
  path: string;
  sound: object;
  unclear: object;
  /** The characters of a body that is refused as it is. */
  large: number;
  isDenied?: (json: { [name: string]: unknown }) => boolean;
  type?: string;
};
const hookWay = (tool: string, sound: object, unclear: object): HttpWay => ({
  ...{ path: `/v1/hooks/${tool}?agent=asks&wait=0`, sound, unclear, large: 8.5e6 },
  isDenied: (json) => /"deny"|"block"/.test(JSON.stringify(json)),
});
const span = {
  ...{ traceId: '5b8efff798038103d269b633813fc60c', spanId: 'eee19b7ec3c1b174', name: 'execute_tool ls' },
  ...{ startTimeUnixNano: `${Date.now()}000000`, endTimeUnixNano: `${Date.now()}000000` },
  attributes: Object.entries({ 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'ls' }).map(
    ([key, value]) => ({ key, value: { stringValue: value } }),
  ),
};
const resource = { attributes: [{ key: 'service.name', value: { stringValue: 'asks' } }] };
const HTTP: Record<string, HttpWay> = {
  events: {
    ...{ path: `/v1/agents/${agent}/events`, sound: { type: 'custom', payload: {} }, large: 1.1e6 },
    unclear: { type: 'shout', payload: {} },
  },
  claude: hookWay(
    'claude-code',
    { hook_event_name: 'PreToolUse', tool_name: 'ls', tool_input: {} },
    { hook_event_name: 'PreToolUse', tool_name: 'ls', args: {} },
  ),
  copilot: hookWay('copilot', { toolName: 'ls', toolArgs: {} }, { toolName: 'ls', args: {} }),
  opa: {
    ...{
      path: '/v1/data/gatehouse/decision?agent=asks&wait=0',
      sound: { input: { tool: 'ls', args: {} } },
      large: 1.1e6,
    },
    ...{
      unclear: { input: { tool: { name: 'ls', args: {} } } },
      isDenied: ({ result }) => /"deny"/.test(JSON.stringify(result)),
    },
  },
  authzen: {
    ...{ path: '/access/v1/evaluation?wait=0', large: 1.1e6, isDenied: ({ decision }) => decision === false },
    sound: { subject: { type: 'agent', id: 'asks' }, action: { name: 'ls' }, resource: { type: 'file', id: 'x' } },
    unclear: { subject: { type: 'agent', id: 'asks' }, action: { name: 'ls' } },
  },
  litellm: {
    ...{ path: '/beta/litellm_basic_guardrail_api?agent=asks&wait=0', sound: { texts: ['x'] }, large: 1.1e6 },
    ...{ unclear: { texts: [7] }, isDenied: ({ action }) => action === 'BLOCKED' },
  },
  otlp: {
    ...{ path: '/v1/traces', sound: { resourceSpans: [{ resource, scopeSpans: [{ spans: [span] }] }] }, large: 10 },
    ...{ unclear: { resourceSpans: 'none' }, type: 'text/plain' },
  },
};

for (const [name, way] of Object.entries(HTTP))
  t.test(`${WAYS[name]!.name}`, async (t) => {
    const send = async (key: string, body: object | string, type = 'application/json') => {
      const path = key === busyKey ? way.path.replace(agent, 'agt_01m8epeshh5avk9g9agbaf6fvd') : way.path;
      const headers = { authorization: `Bearer ${key}`, 'content-type': type };
      const text = typeof body === 'string' ? body : JSON.stringify(body);
      const response = await fetch(`${service.url}${path}`, { method: 'POST', headers, body: text });
      const json = await response.json();
      const isDenied = response.status === 200 && way.isDenied?.(json as never) === true;
      return { code: isDenied ? 'denied' : `${response.status}`, retryAfter: response.headers.get('retry-after') };
    };
    const tries: Record<string, () => Promise<{ code: string }>> = {
      full: async () => {
        for (let i = 0; i < 50; i++) {
          const answer = await send(busyKey, way.sound);
          if (answer.code === '429') {
            t.ok(Number(answer.retryAfter) > 0, 'it says when to come back');
            return answer;
          }
        }
        return { code: 'never full' };
      },
      refuses: () => send(service.key, `"${'x'.repeat(way.large)}"`, way.type),
      unclear: () => send(service.key, way.unclear),
      revoked: () => send(made.key, way.sound),
      approval: () => send(service.key, way.sound),
    };
    for (const situation of all) {
      const { code, words } = WAYS[name]!.cells[situation];
      if (code === undefined) t.ok(words, `${situation}: what the other side does is said`);
      else t.equal((await tries[situation]!()).code, code, situation);
    }
  });

t.test(WAYS['inference']!.name, async (t) => {
  const [secret, old] = [1, 2].map(() => `whsec_${randomBytes(32).toString('base64')}`) as [string, string];
  const connect = async (key: string, agent_id: string | null) =>
    (await api.as(key).post('/v1/connections', { name: 'asks', secrets: [secret], agent_id })).json.id as string;
  const sender = new InferenceSender(service, await connect(service.key, agent), secret);
  const hook = (n = 0) => promptOf(`s-${n}`, [text('hello')]);
  const tries: Record<string, () => Promise<{ verdict: { action: string } }>> = {
    full: async () => {
      const limited = await api.until(
        () => api.as(busyKey).post('/v1/connections', { name: `busy ${Math.random()}`, secrets: [secret] }),
        ({ status }) => status === 201,
      );
      const busy = new InferenceSender(service, limited.json.id, secret);
      const all = await Promise.all(Array.from({ length: 50 }, (_, i) => busy.send(hook(i))));
      return all.find(({ verdict }) => /request limit/.test(verdict.deny_reason ?? '')) ?? all[0]!;
    },
    refuses: () => sender.send(promptOf('s', [text('x'.repeat(11e6))])),
    unclear: () => sender.send('{"messages": 7}'),
    revoked: () => sender.send(hook(), { secret: old }),
    approval: () => sender.send(hook()),
  };
  for (const situation of all) {
    const { code, words } = WAYS['inference']!.cells[situation];
    if (code === undefined) t.ok(words, `${situation}: what the other side does is said`);
    else t.equal((await tries[situation]!()).verdict.action, code, situation);
  }
});

t.test('an approval that a span would have needed is missing in its record', async (t) => {
  const { json } = await api.get(`/v1/traces/${span.traceId}`);
  t.match(json.events[0].policy_result, { outcome: 'blocked', reason: 'approval_missing', enforced: false });
});

/** Commands take a processor each to start. */
const commands = new PQueue({ concurrency: 3 });

t.test('gatehouse hook', async (t) => {
  const call = JSON.stringify({ hook_event_name: 'PreToolUse', tool_name: 'ls', tool_input: {} });
  await commands.addAll(
    all.map((situation) => async () => {
      const { url, key } = TARGETS[situation];
      const child = runCliWith(situation === 'unclear' ? '{"hook_event_name":"Later"}' : call, url, key);
      t.equal(`status ${await child}`, WAYS['hook']!.cells[situation].code, situation);
    }),
  );
});

async function runCliWith(input: string, url: string, key: string): Promise<number | null> {
  const { spawn } = await import('node:child_process');
  const { assetPath } = await import('../../src/process/assets.ts');
  const args = [assetPath('build/service/cli.js'), 'hook', '--timeout', '2', '--agent', 'asks'];
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env.PATH, GATEHOUSE_URL: url, GATEHOUSE_API_KEY: key } as NodeJS.ProcessEnv,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  child.stdin.end(input);
  return new Promise((resolve) => child.on('close', resolve));
}

for (const [name, transport] of [
  ['mcp', 'command'],
  ['listen', 'http'],
] as const)
  t.test(WAYS[name]!.name, async (t) => {
    await commands.addAll(
      all.map((situation) => async () => {
        const args = ['--timeout', '1', '--wait', '1'];
        const peers = await RawPeers.start(t, TARGETS[situation], { agent, transport, args });
        const params = `{"name":"pay","arguments":${situation === 'unclear' ? '"x"' : '{}'}}`;
        const answer = await peers.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`);
        const { result, error } = JSON.parse(answer);
        const code = result?.isError === true ? 'isError' : error === undefined ? 'done' : 'error';
        t.equal(code, WAYS[name]!.cells[situation].code, `${situation}: ${answer.slice(0, 200)}`);
        t.same(peers.reached(), [], 'the server never gets it');
        await (transport === 'command' ? peers.end() : undefined);
      }),
    );
  });

t.test('TypeScript', async (t) => {
  const circular: Record<string, unknown> = {};
  circular['self'] = circular;
  await Promise.all(
    all.map(async (situation) => {
      const options = { ...TARGETS[situation], agent, timeoutMs: 1_000, approvals: { waitMs: 500 } };
      const gatehouse = new Gatehouse(options);
      const argument = situation === 'unclear' ? circular : { n: 1 };
      let ran = 0;
      const error = await gatehouse
        .guard(
          'pay',
          () => ran++,
        )(argument as never)
        .catch((cause: Error) => cause);
      t.match(error, { name: WAYS['guard']!.cells[situation].code }, `guard, ${situation}`);
      t.equal(ran, 0, 'it did not run');
      const decided = await gatehouse
        .decide({ tool: 'pay', arguments: argument as never })
        .then(({ outcome, allowed }) => (allowed ? 'allowed' : outcome))
        .catch((cause: Error) => cause.name);
      t.equal(decided, WAYS['decide']!.cells[situation].code, `decide, ${situation}`);
      gatehouse.record({ type: 'custom', payload: argument });
      const counts = await gatehouse.flush({ timeoutMs: situation === 'approval' ? 10_000 : 1_000 });
      t.match(counts, { [WAYS['record']!.cells[situation].code!]: 1 }, `record, ${situation}`);
    }),
  );
});

t.test('Python', async (t) => {
  const { lines, stderr, status } = await runPython(
    `
def ask(situation, target):
    argument = object() if situation == "unclear" else {"n": 1}
    ran = []
    gh = client(url=target["url"], key=target["key"], timeout=1.0, approval_wait=0.5)
    guarded = failure(gh.guard("pay")(lambda argument: ran.append(1)), argument)
    decided = failure(lambda: gh.decide("pay", argument).outcome)
    gh.record("custom", {"a": argument})
    counts = gh.flush(10.0 if situation == "approval" else 1.0)
    results[situation] = [guarded[0], len(ran), decided if isinstance(decided, str) else decided[0], counts]
results = {}
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool: list(pool.map(lambda pair: ask(*pair), json.loads(os.environ["TARGETS"]).items()))
say(results)
`,
    { url: service.url, key: service.key, agent, TARGETS: JSON.stringify(TARGETS) },
  );
  t.same([status, stderr], [0, '']);
  const results = (lines[0] ?? {}) as Record<Situation, [string, number, string, Record<string, number>]>;
  for (const situation of all) {
    const [guarded, ran, decided, counts] = results[situation];
    t.equal(guarded, WAYS['pyGuard']!.cells[situation].code, `guard, ${situation}`);
    t.equal(ran, 0, 'it did not run');
    t.equal(decided, WAYS['pyDecide']!.cells[situation].code, `decide, ${situation}`);
    t.match(counts, { [WAYS['pyRecord']!.cells[situation].code!]: 1 }, `record, ${situation}`);
  }
});
