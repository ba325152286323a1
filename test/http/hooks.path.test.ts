// Hooks, queries and checks as users' tools send them, against the whole service: what is not understood is a no with a
// reason, by command and over HTTP; nothing is judged as if it were not there; every wait ends in the caller's time;
// what is redacted reaches the caller; numbers arrive digit by digit.
import { spawn } from 'node:child_process';
import http from 'node:http';
import PQueue from 'p-queue';
import t, { type Test } from 'tap';
import { freePort } from '../../src/embedded/free-port.ts';
import { assetPath } from '../../src/process/assets.ts';
import { Api } from '../support/api.ts';
import { listening } from '../support/listening.ts';
import { answerOf, dripping, oddServer } from '../support/odd-server.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService(t);
const api = await Api.described(t, service);

const CLAUDE = '/v1/hooks/claude-code';
const OPA = '/v1/data/gatehouse/decision';
const LITELLM = '/beta/litellm_basic_guardrail_api';
const MEAN = 'rm -rf /';
/** Far from what a machine under load needs, and from the 50 s that a hook took. */
const SOON_MS = 30_000;

const POLICIES: [name: string, type: string, conditions: object, actions: string[]][] = [
  ['no rm', 'block_action', { type: 'tool_call', 'payload.arguments.command': { contains: 'rm -rf' } }, ['block']],
  [
    'money',
    'block_action',
    { type: 'tool_call', tool: 'send_money', 'payload.arguments.amount': { gt: 1000 } },
    ['block'],
  ],
  ['no keys', 'data_filter', { detectors: ['api_key'] }, ['block']],
  ['no addresses', 'data_filter', { detectors: ['email'], redact: true }, ['log']],
  ['ask', 'require_approval', { tool: 'refund', timeout: '10m' }, ['alert']],
];
for (const [name, type, conditions, actions] of POLICIES) {
  const { status, text } = await api.post('/v1/policies', { name, type, conditions, actions });
  if (status !== 201) throw new Error(text);
}
await api.until(
  () => api.post(`${OPA}?wait=0`, { input: { agent: 'ready', tool: 'refund', args: {} } }),
  ({ json }) => json.result?.approval_id !== undefined,
);

type Run = { status: number | null; stdout: string; stderr: string; ms: number };
/** The command runs so often at once: each takes a processor for its start, and then waits. */
const running = new PQueue({ concurrency: 3 });
const waiting = new PQueue({ concurrency: 6 });

function hook(
  input: object | string | Buffer,
  args: string[] = [],
  { url = service.url, key = service.key, holdsInput = false } = {},
): Promise<Run> {
  return (url === service.url && args.length === 0 ? running : waiting).add(
    () =>
      new Promise<Run>((resolve) => {
        const began = performance.now();
        const child = spawn(process.execPath, [assetPath('build/service/cli.js'), 'hook', ...args], {
          env: { PATH: process.env.PATH, GATEHOUSE_URL: url, GATEHOUSE_API_KEY: key } as NodeJS.ProcessEnv,
        });
        const said = { stdout: '', stderr: '' };
        for (const name of ['stdout', 'stderr'] as const)
          child[name].on('data', (data: Buffer) => (said[name] += data.toString()));
        child.stdin.on('error', () => undefined);
        child.stdin.write(typeof input === 'string' || Buffer.isBuffer(input) ? input : JSON.stringify(input));
        if (!holdsInput) child.stdin.end();
        child.on('close', (status) => resolve({ status, ...said, ms: performance.now() - began }));
      }),
  ) as Promise<Run>;
}

/** The newest event of an agent, once it can be read. */
async function newestOf(agent: string): Promise<string> {
  const id = (await api.get(`/v1/agents?name=${encodeURIComponent(agent)}`)).json.items[0]?.id as string;
  return (await api.get(`/v1/agents/${id}/events?limit=1`)).text;
}

/** A call that nothing forbids, as each tool sends it, with a command in place of it. */
const CALLS: Record<string, (command: string) => object> = {
  'claude-code': (command) => ({ hook_event_name: 'PreToolUse', tool_name: 'Bash', tool_input: { command } }),
  'claude-code permission': (command) => ({
    hook_event_name: 'PermissionRequest',
    tool_name: 'Bash',
    tool_input: { command },
  }),
  'gemini-cli': (command) => ({
    hook_event_name: 'BeforeTool',
    tool_name: 'run_shell_command',
    tool_input: { command },
  }),
  'cursor shell': (command) => ({ hook_event_name: 'beforeShellExecution', command, cwd: '/' }),
  'cursor tool': (command) => ({ hook_event_name: 'preToolUse', tool_name: 'Shell', tool_input: { command } }),
  copilot: (command) => ({ sessionId: 's', toolName: 'bash', toolArgs: JSON.stringify({ command }) }),
  windsurf: (command) => ({ agent_action_name: 'pre_run_command', tool_info: { command_line: command, cwd: '/' } }),
};

t.test('H01, T3: hooks of other tools are judged by `gatehouse hook`', async (t) => {
  await Promise.all(
    Object.entries(CALLS).map(async ([name, call]) => {
      const agent = `judged ${name}`;
      const no = await hook(call(MEAN), ['--agent', agent]);
      t.match(no, { status: 2, stderr: 'Blocked by policy "no rm".\n' }, name);
      t.match(await newestOf(agent), /"outcome":"blocked"/, `${name}: it is recorded`);
      const yes = await hook(call('ls'), ['--agent', agent]);
      const said = name.startsWith('cursor') ? '{"permission":"allow"}' : '';
      t.match(yes, { status: 0, stderr: '', stdout: said }, name);
      t.match(await newestOf(agent), /"outcome":"allowed"/, `${name}: a yes is recorded`);
    }),
  );
  t.equal((await hook({ hook_event_name: 'SessionStart' })).status, 0, 'there is nothing to ask about');
});

t.test('H01, H02, H03, T3: what is not understood is denied, with the reason', async (t) => {
  const call = { hook_event_name: 'PreToolUse', tool_name: 'Bash', tool_input: { command: 'ls' } };
  const cases: [what: string, input: object | string | Buffer, why: RegExp][] = [
    ['an event of tomorrow', { ...call, hook_event_name: 'PreToolUseLater' }, /no hook "PreToolUseLater"/],
    ['in lower case', { ...call, hook_event_name: 'pretooluse' }, /no hook "pretooluse"/],
    ['without a tool', { hook_event_name: 'PreToolUse', tool_input: {} }, /tool_name must say which tool/],
    ['in camelCase', { hook_event_name: 'PreToolUse', toolName: 'Bash', toolInput: {} }, /toolName is not read here/],
    ['by other names', { hook_event_name: 'PreToolUse', tool: 'Bash', args: {} }, /tool is not read here/],
    ['without arguments', { hook_event_name: 'PreToolUse', tool_name: 'Bash' }, /tool_input must hold/],
    ['arguments as text', { ...call, tool_input: 'ls' }, /tool_input must be an object/],
    ['arguments as a list', { ...call, tool_input: ['ls'] }, /tool_input must be an object/],
    ['nothing', '', /400 The body cannot be read as JSON/],
    ['an empty object', {}, /hook_event_name is required/],
    ['cut', '{"hook_event_name":"PreToolUse","to', /400 The body cannot be read/],
    ['not UTF-8', Buffer.from('{"hook_event_name":"PreToolUse","tool_name":"\xe9"}', 'latin1'), /not UTF-8/],
    ['a key twice', '{"hook_event_name":"PreToolUse","tool_name":"a","tool_name":"b","tool_input":{}}', /twice/],
    ['a large call', { ...call, tool_input: { content: 'x'.repeat(1_200_000) } }, /larger than 1048576 bytes/],
    ['an unknown tool', { ...call, hook_event_name: 'BeforeToolUse' }, /no hook/],
  ];
  await Promise.all(
    cases.map(async ([what, input, why]) => {
      const { status, stdout, stderr } = await hook(input);
      t.same([status, stdout], [2, ''], what);
      t.match(stderr, why, what);
    }),
  );
  const marked = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(`${JSON.stringify(call)}\r\n`)]);
  t.equal((await hook(marked)).status, 0, 'a byte-order mark and a line end');
  t.match(await hook(call, [], { key: 'gth_wrong' }), { status: 2, stderr: /401/ });
  t.match(await hook(call, ['--tool', 'windsurf']), { status: 2, stderr: /agent_action_name is required/ });
  for (const args of [['--tool', 'vim'], ['--timeout', 'soon'], ['--later']])
    t.match(await hook(call, args), { status: 2, stdout: '' }, args.join(' '));
});

t.test('H01, H02, T6: the same over HTTP', async (t) => {
  for (const [name, call] of Object.entries(CALLS)) {
    const path = `/v1/hooks/${name.split(' ')[0]}`;
    t.match((await api.post(path, call(MEAN))).text, /deny|block/, name);
    const said = await api.post(`${path}?form=command`, call(MEAN));
    t.match(said.json.command, { status: 2, stderr: 'Blocked by policy "no rm".', event_id: /^evt_/ }, name);
    t.notMatch((await api.post(path, call('ls'))).text, /deny|block/, name);
  }
  const deny = { hookSpecificOutput: { permissionDecision: 'deny' } };
  const call = { hook_event_name: 'PreToolUse', tool_name: 'Bash', tool_input: {} };
  t.match((await api.post(CLAUDE, { ...call, tool_name: undefined })).json, deny);
  t.match((await api.post(CLAUDE, { ...call, tool_input: 'x' })).json, deny);
  t.match((await api.post(CLAUDE, { ...call, args: {} })).json, deny);
  for (const hook_event_name of ['pretooluse', 'BeforeTool', 'beforeShellExecution', 'UserPromptExpansion'])
    t.match((await api.post(CLAUDE, { ...call, hook_event_name })).json, { decision: 'block', reason: /no hook/ });
  t.equal((await api.post(CLAUDE, { tool_name: 'Bash' })).status, 400);
  const failed = { hook_event_name: 'PostToolUseFailure', tool_name: 'Bash', tool_input: {}, error: 'exit 1' };
  t.same((await api.post(`${CLAUDE}?agent=failures`, failed)).json, {});
  t.match(await newestOf('failures'), /"error":"exit 1"/);
  t.equal((await api.get(OPA)).status, 405, 'a decision is recorded: no GET asks for one');
});

t.test('H04: a large result is recorded by its size', async (t) => {
  const after = { hook_event_name: 'PostToolUse', tool_name: 'Read', tool_input: { file_path: '/a.png' } };
  const image = { type: 'image', base64: 'A'.repeat(1_400_000) };
  t.same((await api.post(`${CLAUDE}?agent=large`, { ...after, tool_response: image })).json, {});
  const recorded = /"tool_input":\{"file_path":"\/a.png"\},"content_captured":false,"result_bytes":14000\d\d\}/;
  t.match(await newestOf('large'), recorded);
  t.match(await hook({ ...after, tool_response: image }, ['--agent', 'by command']), { status: 0, stderr: '' });
  t.match(await newestOf('by command'), recorded);
  const huge = { ...after, tool_response: 'A'.repeat(9_000_000) };
  t.match(await hook(huge, ['--agent', 'huge']), { status: 0, stderr: '' });
  t.match(await newestOf('huge'), /"content_captured":false,"result_bytes":9000002/);
  t.match(await hook({ ...after, hook_event_name: 'PreToolUse', tool_input: { x: 'A'.repeat(9_000_000) } }), {
    ...{ status: 2, stderr: /larger than 8388608 bytes/ },
  });
});

t.test('what is too large or too deep for an event is a no in the words of the tool', async (t) => {
  const many = Array.from({ length: 60_000 }, (_, i) => `some text ${i}`);
  const deep = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels));
  for (const [what, x] of Object.entries({ many, 'at the bound': deep(62), above: deep(63), far: deep(300) })) {
    const claude = { hook_event_name: 'PreToolUse', tool_name: 'Edit', tool_input: { x } };
    const said = await api.post(`${CLAUDE}?agent=large`, claude);
    t.match([said.status, said.json], [200, { hookSpecificOutput: { permissionDecision: 'deny' } }], what);
    const other = await api.post('/v1/hooks/copilot?agent=large', {
      sessionId: 's',
      toolName: 'edit',
      toolArgs: { x },
    });
    t.match([other.status, other.json], [200, { permissionDecision: 'deny' }], what);
    t.match(await hook(claude), { status: 2 }, what);
  }
  const after = { hook_event_name: 'PostToolUse', tool_name: 'Grep', tool_input: {}, tool_response: many };
  t.match(await api.post(`${CLAUDE}?agent=many`, after), { status: 200, json: {} });
  t.match(await newestOf('many'), /"content_captured":false,"result_bytes":\d{7}\}/);
});

t.test('H05, H08, T3: every wait ends in time, and only the service says yes', async (t) => {
  const call = CALLS['claude-code']!('ls');
  const silent = await oddServer(t, () => undefined);
  const port = await freePort();
  const refund = { hook_event_name: 'PreToolUse', tool_name: 'refund', tool_input: {} };
  const away = { url: `http://127.0.0.1:${port}` };
  const cases: [what: string, run: Promise<Run>, why: RegExp][] = [
    ['away', hook(call, [], away), /ECONNREFUSED/],
    ['away, --timeout 1', hook(call, ['--timeout', '1'], away), /ECONNREFUSED|in time/],
    ['away, --wait 40', hook(call, ['--wait', '40'], away), /ECONNREFUSED/],
    ['a forbidden port', hook(call, [], { url: 'http://127.0.0.1:9' }), /bad port/],
    ['silent', hook(call, ['--timeout', '2'], { url: silent.url }), /in time/],
    ['silent by default', hook(call, [], { url: silent.url }), /no answer in time/],
    ['an approval', hook(refund), /^Approval apr_\w+ is pending/],
    ['an approval, --timeout 6', hook(refund, ['--timeout', '6']), /^Approval apr_\w+ is pending|in time/],
    ['an approval, --wait 1', hook(refund, ['--wait', '1']), /^Approval apr_\w+ is pending|in time/],
    ['an approval, both', hook(refund, ['--wait', '40', '--timeout', '5']), /pending|in time/],
    ['open input', hook('{', ['--timeout', '1'], { holdsInput: true }), /in time/],
  ];
  const answers: [what: string, answer: Parameters<typeof oddServer>[1]][] = [
    ...['{}', '{"status":"ok"}', '[]', 'null', '"allow"', '{"error":{"code":"x"}}', '{"decision":"block"}'].map(
      (body) => [body, answerOf(200, body)] as [string, string],
    ),
    ...['{"decision":"allow"}', '{"command":{"status":0}}', '{"command":{"status":0,"stdout":"","stderr":""}}'].map(
      (body) => [body, answerOf(200, body)] as [string, string],
    ),
    ['a page', answerOf(200, '<html>')],
    ['a redirect', answerOf(302, '', [`location: ${service.url}${CLAUDE}`])],
    ['a busy one', answerOf(503, '', ['retry-after: 60'])],
    ['one that limits', answerOf(429, '', ['retry-after: 60'])],
    ['one that drips', dripping('HTTP/1.1 200 OK\r\nx: y\r\n')],
  ];
  for (const [what, answer] of answers) {
    const { url } = await oddServer(t, answer);
    cases.push([what, hook(call, ['--timeout', '1.5'], { url }), /could not be asked, so this is denied/]);
  }
  for (const [what, run, why] of cases) {
    const { status, stdout, stderr, ms } = await run;
    t.same([status, stdout], [2, ''], what);
    t.match(stderr, why, what);
    t.ok(ms < SOON_MS, `${what}: ${Math.round(ms)} ms`);
  }
});

t.test('H09: an address with a path, for the command and its siblings', async (t) => {
  const seen: string[] = [];
  const front = http.createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`);
    if (!request.url!.startsWith('/gatehouse/')) return void response.writeHead(404).end('not here');
    const to = new URL(request.url!.slice('/gatehouse'.length), service.url);
    const { method, headers } = request;
    request.pipe(
      http.request(to, { method: method!, headers }, (answer) => {
        response.writeHead(answer.statusCode!, answer.headers);
        answer.pipe(response);
      }),
    );
  });
  const url = `http://127.0.0.1:${await listening(t, front)}/gatehouse`;
  t.match(await hook(CALLS['claude-code']!('ls'), [], { url }), { status: 0, stderr: '' });
  t.match(await hook(CALLS['cursor shell']!(MEAN), ['--url', `${url}/`]), { status: 2, stderr: /no rm/ });
  const pulled = await policies(t, ['pull'], url);
  t.match(pulled, { status: 0, stdout: /no addresses/ });
  t.same(
    seen.map((line) => line.split('?')[0]),
    ['POST /gatehouse/v1/hooks/claude-code', 'POST /gatehouse/v1/hooks/cursor', 'GET /gatehouse/v1/policies'],
  );
});

function policies(_t: Test, args: string[], url: string): Promise<{ status: number | null; stdout: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [assetPath('build/service/cli.js'), 'policies', ...args], {
      env: { PATH: process.env.PATH, GATEHOUSE_URL: url, GATEHOUSE_API_KEY: service.key } as NodeJS.ProcessEnv,
    });
    let stdout = '';
    child.stdout.on('data', (data: Buffer) => (stdout += data.toString()));
    child.on('close', (status) => resolve({ status, stdout }));
  });
}

t.test('P01: the parameters of OPA’s clients', async (t) => {
  const input = { agent: 'opa', tool: { name: 'ls' }, args: {} };
  const ask = (query: string) => api.post(`${OPA}?${query}`, { input });
  for (const query of ['pretty', 'pretty=true', 'provenance=true', 'strict-builtin-errors=true', 'explain=notes'])
    t.match(await ask(query), { status: 200, json: { result: { decision: 'allow', allow: true } } }, query);
  for (const query of ['metrics', 'instrument=true', 'metrics=true&instrument=true&pretty=false'])
    t.ok((await ask(query)).json.metrics.timer_server_handler_ns > 0, query);
  t.notOk('metrics' in (await ask('metrics=false')).json);
  for (const query of ['pretty=maybe', 'explain=why', 'later=true']) t.equal((await ask(query)).status, 400, query);
  t.equal((await api.post(OPA, {})).status, 400, 'no input: never {}, which some clients take for a yes');
  t.equal((await api.post(OPA, { input: null })).status, 400);
});

t.test('P02, T6: OPA: arguments where nobody reads them are refused, with the place', async (t) => {
  const ask = (input: object, more: object = {}) => api.post(OPA, { input: { agent: 'opa', ...input }, ...more });
  const mean = { amount: 5000 };
  t.match((await ask({ tool: { name: 'send_money' }, args: mean })).json.result, { decision: 'deny' });
  t.match((await ask({ tool: 'send_money', arguments: mean })).json.result, { decision: 'deny' });
  t.match((await ask({ tool: 'send_money', args: JSON.stringify(mean) })).json.result, { decision: 'deny' });
  const names = [
    'input',
    'parameters',
    'params',
    'kwargs',
    'tool_input',
    'toolArgs',
    'Args',
    'ARGUMENTS',
    'body',
    'data',
  ];
  const refused: [input: object, path: string][] = [
    ...names.map((name): [object, string] => [{ tool: 'send_money', [name]: mean }, `/input/${name}`]),
    ...[...names, 'arguments', 'args', 'function'].map((name): [object, string] => [
      { tool: { name: 'send_money', [name]: mean } },
      `/input/tool/${name}`,
    ]),
    [{ tool: 'send_money', args: {}, arguments: mean }, '/input/arguments'],
    [{ tool: 'Bash', arguments: {}, args: { command: MEAN } }, '/input/arguments'],
    [{ type: 'custom', payload: {}, tool: 'Bash', args: { command: MEAN } }, '/input/tool'],
    [{ type: 'custom', payload: {}, arguments: mean }, '/input/arguments'],
    [{ type: 'tool_call', payload: 'x' }, '/input/payload'],
    [{ type: 'tool_call' }, '/input/payload'],
    [{ type: 'shout', payload: {} }, '/input/type'],
    [{ type: 7, payload: {} }, '/input/type'],
    [{ payload: { tool: 'send_money', arguments: mean } }, '/input/payload'],
    [{ tool: '' }, '/input/tool'],
    [{ tool: 7 }, '/input/tool'],
    [{ tool: ['send_money'] }, '/input/tool'],
    [{ tool: { name: '' } }, '/input/tool/name'],
    [{ tool: {} }, '/input/tool/name'],
    [{ tool: 'ls', trace_id: 7 }, '/input/trace_id'],
    [{ tool: 'ls', agent: ['opa'] }, '/input/agent'],
  ];
  for (const [input, path] of refused) {
    const { status, json } = await ask(input);
    t.match([status, json.error?.details?.[0]?.path], [400, path], JSON.stringify(input));
  }
  t.equal((await ask({ tool: 'ls', args: {} }, { args: mean })).status, 400, 'beside the input');
  t.match(
    (await ask({ tool: 'ls', args: null, arguments: null })).json.result,
    { decision: 'allow' },
    'null is nothing',
  );
});

t.test('P03: plain events mean what they say', async (t) => {
  const { json: agent } = await api.post('/v1/agents', { name: 'plain' });
  const send = (payload: object) => api.post(`/v1/agents/${agent.id}/events`, { type: 'tool_call', payload });
  const outcomes: string[] = [];
  for (const name of ['arguments', 'args', 'input', 'parameters'])
    outcomes.push((await send({ tool: 'send_money', [name]: { amount: 5000 } })).json.policy_result.outcome);
  t.same(outcomes, ['blocked', 'allowed', 'allowed', 'allowed']);
});

t.test('L01, L02, T6: LiteLLM: what is redacted is given back, or blocked', async (t) => {
  const ask = async (body: object) => (await api.post(LITELLM, { model: 'm', ...body })).json;
  const mail = 'zoe@example.com';
  const hidden = '[redacted:email]';
  t.same(await ask({ texts: [mail] }), { action: 'GUARDRAIL_INTERVENED', texts: [hidden] });
  t.same(await ask({ texts: [`use ${mail}`, 'x', mail] }), {
    action: 'GUARDRAIL_INTERVENED',
    texts: [`use ${hidden}`, 'x', hidden],
  });
  const args = JSON.stringify({ to: mail });
  const calls = [{ function: { name: 'mail', arguments: args } }];
  const lost: [what: string, body: object, where: string][] = [
    ['tool_calls', { input_type: 'response', texts: [], tool_calls: calls }, 'tool_calls'],
    ['tool_calls beside texts', { input_type: 'response', texts: [mail], tool_calls: calls }, 'tool_calls'],
    ['structured_messages alone', { structured_messages: [{ role: 'user', content: mail }] }, 'structured_messages'],
    [
      'of another text',
      { texts: ['x'], structured_messages: [{ role: 'user', content: mail }] },
      'structured_messages',
    ],
    [
      'elsewhere in a message',
      { texts: [mail], structured_messages: [{ role: 'user', content: mail, name: mail }] },
      'structured_messages',
    ],
    [
      'a call in a message',
      { texts: [args], structured_messages: [{ role: 'assistant', tool_calls: [{ function: { arguments: args } }] }] },
      'structured_messages',
    ],
    ['tools', { texts: ['x'], tools: [{ function: { name: 'a', description: mail } }] }, 'tools'],
    ['images', { texts: ['x'], images: [`https://example.com/?to=${mail}`] }, 'images'],
    ['model', { texts: ['x'], model: mail }, 'model'],
    ['what is new', { texts: ['x'], documents: [mail] }, 'documents'],
  ];
  for (const [what, body, where] of lost)
    t.match(await ask(body), { action: 'BLOCKED', blocked_reason: new RegExp(`redacts part of ${where},`) }, what);
  const parts = [{ type: 'text', text: mail }, { type: 'image_url' }];
  for (const content of [mail, parts])
    t.same(
      await ask({ texts: [mail], structured_messages: [{ role: 'user', content }] }),
      { action: 'GUARDRAIL_INTERVENED', texts: [hidden] },
      'messages are made of the texts',
    );
  const key = 'sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH';
  for (const place of ['tools', 'images', 'structured_messages', 'tool_calls', 'documents'])
    t.match(await ask({ texts: [], [place]: [{ a: key }] }), { action: 'BLOCKED', blocked_reason: /no keys/ }, place);
  t.same(await ask({ texts: ['x'], request_data: { user_api_key_user_email: mail } }), { action: 'NONE' });
  const nulls = {
    texts: null,
    tool_calls: null,
    model: null,
    litellm_trace_id: null,
    request_data: null,
    images: null,
  };
  t.same((await api.post(LITELLM, nulls)).json, { action: 'NONE' });
  t.same(await ask({ texts: [], tool_calls: [] }), { action: 'NONE' });
  t.equal((await api.post(LITELLM, { texts: [null] })).status, 400);
  t.equal((await api.post(LITELLM, { texts: ['x'], prompt: 'y' })).status, 400);
});

t.test('Claude Code: what is redacted is given back, or blocked', async (t) => {
  const ask = async (body: object) => (await api.post(CLAUDE, { session_id: 's', ...body })).json;
  const call = { hook_event_name: 'PreToolUse', tool_name: 'mail', tool_input: { to: 'zoe@example.com', n: 1 } };
  t.match((await ask(call)).hookSpecificOutput, {
    permissionDecision: 'ask',
    updatedInput: { to: '[redacted:email]', n: 1 },
  });
  t.match(await ask({ hook_event_name: 'UserPromptSubmit', prompt: 'zoe@example.com' }), {
    decision: 'block',
    reason: /^Policy "no addresses" redacts part of this/,
  });
  t.match(await ask({ ...call, hook_event_name: 'PostToolUse', tool_response: { to: 'zoe@example.com' } }), {
    decision: 'block',
    hookSpecificOutput: { updatedToolOutput: { to: '[redacted:email]' } },
  });
  const given = await hook(call);
  t.match(given, { status: 0, stderr: '' });
  t.match(JSON.parse(given.stdout).hookSpecificOutput.updatedInput, { to: '[redacted:email]' });
});

t.test('numbers, escapes and order of keys arrive token by token, by every way', async (t) => {
  const numbers = '{"id":9007199254740993,"acct":12345678901234567890,"one":1.0,"big":1e400,"zero":-0,"e":"\\u00e9"}';
  const WAYS: [path: string, body: string][] = [
    [CLAUDE, `{"hook_event_name":"PreToolUse","tool_name":"exact","tool_input":${numbers}}`],
    [CLAUDE, `{"hook_event_name":"PostToolUse","tool_name":"exact","tool_input":{},"tool_response":${numbers}}`],
    ['/v1/hooks/gemini-cli', `{"hook_event_name":"BeforeTool","tool_name":"exact","tool_input":${numbers}}`],
    ['/v1/hooks/cursor', `{"hook_event_name":"preToolUse","tool_name":"exact","tool_input":${numbers}}`],
    ['/v1/hooks/copilot', `{"toolName":"exact","toolArgs":${numbers}}`],
    [
      '/v1/hooks/windsurf',
      `{"agent_action_name":"pre_mcp_tool_use","tool_info":{"mcp_server_name":"a","mcp_tool_name":"b","mcp_tool_arguments":${numbers}}}`,
    ],
    [OPA, `{"input":{"tool":"exact","args":${numbers}}}`],
    [OPA, `{"input":{"type":"custom","payload":{"a":${numbers}}}}`],
    [LITELLM, `{"texts":["x"],"tool_calls":[{"arguments":${numbers}}],"tools":[${numbers}]}`],
  ];
  await Promise.all(
    WAYS.map(async ([path, body], i) => {
      const agent = `exact-${i}`;
      t.equal((await api.post(`${path}?agent=${agent}`, Buffer.from(body))).status, 200, path);
      t.ok((await newestOf(agent)).includes(numbers), `${path} ${body.slice(0, 60)}`);
    }),
  );
  const { text } = await api.post(
    `${OPA}?agent=exact`,
    Buffer.from(`{"input":{"type":"custom","payload":{"m":"a@example.com","n":1.0}}}`),
  );
  t.ok(text.includes('"redacted":{"m":"[redacted:email]","n":1.0}'), text);
});
