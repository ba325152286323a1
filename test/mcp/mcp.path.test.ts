// `gatehouse mcp` between the SDK's client and a server of the SDK, with the whole service: over standard input and
// output, to a server over HTTP, and over HTTP on both sides, in both revisions of the protocol that the SDK speaks.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { Client, StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import t, { type Test } from 'tap';
import { assetPath } from '../../src/process/assets.ts';
import { Api } from '../support/api.ts';
import { folderOf } from '../support/folder.ts';
import { sharedService } from '../support/shared-service.ts';

const CLI = assetPath('build/service/cli.js');
const SERVER = assetPath('build/test/mcp/tool-server.js');
const KEY = 'sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH';

const service = await sharedService(t);
const api = await Api.described(t, service);
const folder = folderOf(t);
const [calls, description] = [path.join(folder, 'calls'), path.join(folder, 'description')];
const serverEnv = { TOOL_SERVER_CALLS: calls, TOOL_SERVER_DESCRIPTION: description };
const proxyEnv = { GATEHOUSE_URL: service.url, GATEHOUSE_API_KEY: service.key, XDG_STATE_HOME: folder };

async function policy(name: string, type: string, conditions: object, actions = ['block', 'alert']): Promise<void> {
  const { status, text } = await api.post('/v1/policies', { name, type, conditions, actions });
  if (status !== 201) throw new Error(text);
}
await policy('small sums', 'block_action', {
  type: 'tool_call',
  tool: 'tools/add',
  'payload.arguments.a': { gt: 1000 },
});
await policy('no orders to the model', 'block_action', {
  type: 'custom',
  'payload.kind': 'mcp_tool',
  'payload.definition.description': { contains: 'previous instructions' },
});
await policy('ask for slow ones', 'require_approval', { tool: 'tools/slow', timeout: '10m' });
await policy('no keys', 'data_filter', { detectors: ['api_key'] });
await policy('no addresses', 'data_filter', { detectors: ['email'], redact: true }, ['log']);

type Way = { name: string; mode: 'legacy' | 'auto'; open(t: Test, agent: string): Promise<Transport> };
const ARGS = ['mcp', '--name', 'tools', '--wait', '3', '--agent'];

function stdio(args: string[], env: Record<string, string> = proxyEnv): StdioClientTransport {
  const all = { PATH: process.env.PATH!, HOME: folder, ...serverEnv, ...env };
  return new StdioClientTransport({ command: process.execPath, args: [CLI, ...args], env: all, stderr: 'pipe' });
}

async function firstLine(stream: Readable, wanted: RegExp): Promise<string> {
  for await (const line of createInterface({ input: stream })) {
    const found = wanted.exec(line);
    if (found !== null) return found[0];
  }
  throw new Error(`it ended without ${wanted}`);
}

/** A process that says its address; ended with the test. */
async function program(
  t: Test,
  args: string[],
  stream: 'stdout' | 'stderr',
): Promise<{ url: URL; child: ChildProcess }> {
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env.PATH!, HOME: folder, ...serverEnv, ...proxyEnv },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(async () => {
    child.kill('SIGTERM');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  });
  const url = new URL(await firstLine(child[stream]!, /http:\/\/127\.0\.0\.1:\d+\/mcp/));
  child.stdout!.resume();
  child.stderr!.resume();
  return { url, child };
}

const WAYS: Way[] = (['legacy', 'auto'] as const).flatMap((mode) => [
  {
    name: `a command, ${mode}`,
    mode,
    open: async (_t: Test, agent: string) => stdio([...ARGS, agent, '--', process.execPath, SERVER]),
  },
  {
    name: `an address, ${mode}`,
    mode,
    open: async (t: Test, agent: string) => {
      const upstream = await program(t, [SERVER, '0'], 'stdout');
      return stdio([...ARGS, agent, '--upstream', upstream.url.href]);
    },
  },
  {
    name: `HTTP on both sides, ${mode}`,
    mode,
    open: async (t: Test, agent: string) => {
      const upstream = await program(t, [SERVER, '0'], 'stdout');
      const listen = ['--upstream', upstream.url.href, '--listen', '0'];
      const proxy = await program(t, [CLI, ...ARGS, agent, ...listen], 'stderr');
      return new StreamableHTTPClientTransport(proxy.url);
    },
  },
]);

async function connect(t: Test, transport: Transport, mode: Way['mode'] = 'legacy'): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } });
  t.teardown(() => client.close());
  await client.connect(transport);
  return client;
}

type Result = { content: { text: string }[]; isError?: boolean };
const called = async (client: Client, name: string, args: Record<string, unknown>) =>
  (await client.callTool({ name, arguments: args })) as Result;
const reached = () => readFileSync(calls, 'utf8').split('\n').filter(Boolean);

for (const { name, mode, open } of WAYS)
  t.test(`calls through ${name}`, async (t) => {
    writeFileSync(calls, '');
    writeFileSync(description, 'Adds two numbers');
    const agentName = `mcp by ${name}`;
    const client = await connect(t, await open(t, agentName), mode);
    t.equal(client.getNegotiatedProtocolVersion()! >= '2026', mode === 'auto', client.getNegotiatedProtocolVersion()!);

    const { tools } = await client.listTools();
    t.same(tools.map((tool) => tool.name).sort(), ['add', 'echo', 'slow'], 'what a policy blocks is not listed');
    t.match(await called(client, 'add', { a: 1, b: 2 }), { content: [{ text: '3' }], isError: undefined });
    t.match(await called(client, 'add', { a: 2000, b: 2 }), {
      isError: true,
      content: [{ text: 'Blocked by policy "small sums".' }],
    });
    t.match(await called(client, 'delete_all', {}), {
      isError: true,
      content: [{ text: /not to be used.*no orders/ }],
    });
    t.match(await called(client, 'echo', { text: KEY }), { isError: true, content: [{ text: /no keys/ }] });
    t.match(await called(client, 'echo', { text: 'mail a@example.com' }), {
      content: [{ text: 'mail [redacted:email]' }],
    });
    t.same(reached(), ['add', 'echo'], 'what is denied never reached the server');
    const resource = await client.readResource({ uri: 'note://one' });
    t.match(resource, { contents: [{ text: 'a note' }] }, 'all else passes');
    await t.rejects(client.callTool({ name: 'no such tool' }), 'errors of the server are its own');

    const [agent] = (await api.get(`/v1/agents?name=${encodeURIComponent(agentName)}`)).json.items;
    const { json } = await api.until(
      () => api.get(`/v1/agents/${agent.id}/events?limit=100&order=asc`),
      ({ json }) => json.total >= 13,
    );
    const said = json.items.map(({ type, payload, policy_result }: Record<string, Record<string, unknown>>) =>
      [type, payload!['kind'] ?? '', payload!['tool'] ?? payload!['tool_name'], policy_result!['outcome']].join(' '),
    );
    t.same(said.filter((line: string) => line.startsWith('tool_call')).sort(), [
      'tool_call  tools/add allowed',
      'tool_call  tools/add blocked',
      'tool_call  tools/echo allowed',
      'tool_call  tools/echo blocked',
      'tool_call  tools/no such tool allowed',
    ]);
    t.same(
      said.filter((line: string) => line.includes('tool_result')).sort(),
      ['add', 'echo', 'no such tool'].map((tool) => `custom tool_result tools/${tool} allowed`),
    );
    t.equal(said.filter((line: string) => line.startsWith('custom mcp_tool ')).length, 4, 'each tool of a list');
    t.ok(said.includes('custom mcp_removed_tool_called tools/delete_all allowed'));
    const traces = new Set(json.items.map(({ trace_id }: { trace_id: string }) => trace_id));
    t.equal(traces.size, name.startsWith('HTTP') ? traces.size : 1, 'a connection is a trace');
  });

t.test('a result that a policy blocks is withheld, and so is an error', async (t) => {
  writeFileSync(calls, '');
  await policy('secret word', 'block_action', {
    type: 'custom',
    'payload.kind': 'tool_result',
    'payload.result.content': { contains: 'xyzzy' },
  });
  const client = await connect(t, stdio([...ARGS, 'results', '--', process.execPath, SERVER]));
  const withheld = await api.until(
    () => called(client, 'echo', { text: 'xyzzy' }),
    ({ isError }) => isError === true,
  );
  t.match(withheld.content[0]!.text, /The result of the call is withheld\. Blocked by policy "secret word"/);
  t.ok(reached().length >= 1);
});

t.test('a call that needs an approval waits for it, and then is denied', async (t) => {
  writeFileSync(calls, '');
  const waits = (seconds: string) =>
    stdio(['mcp', '--name', 'tools', '--wait', seconds, '--agent', 'patient', '--', process.execPath, SERVER]);
  const client = await connect(t, waits('50'));
  const approvals = () =>
    api.until(
      () => api.get('/v1/approvals?status=pending'),
      ({ json }) => json.total > 0,
    );
  const waiting = called(client, 'slow', { text: 'one' });
  await api.post(`/v1/approvals/${(await approvals()).json.items[0].id}`, { decision: 'approve' });
  t.match(await waiting, { content: [{ text: 'done' }] });
  const refused = called(client, 'slow', { text: 'two' });
  await api.post(`/v1/approvals/${(await approvals()).json.items[0].id}`, { decision: 'deny' });
  t.match(await refused, { isError: true, content: [{ text: /^Approval apr_\w+ was denied/ }] });
  const hasty = await connect(t, waits('1'));
  t.match(await called(hasty, 'slow', { text: 'three' }), { isError: true, content: [{ text: /is pending/ }] });
  t.same(reached(), ['slow']);
});

t.test('a request that is cancelled while it waits for an approval is not made when it comes', async (t) => {
  writeFileSync(calls, '');
  const before = (await api.get('/v1/approvals?status=pending')).json.total;
  const client = await connect(
    t,
    stdio(['mcp', '--name', 'tools', '--wait', '30', '--agent', 'hasty', '--', process.execPath, SERVER]),
  );
  const controller = new AbortController();
  const call = client.callTool({ name: 'slow', arguments: { text: 'x' } }, { signal: controller.signal });
  const ended = t.rejects(call);
  const { json } = await api.until(
    () => api.get('/v1/approvals?status=pending'),
    ({ json }) => json.total > before,
  );
  controller.abort();
  await ended;
  await api.post(`/v1/approvals/${json.items[0].id}`, { decision: 'approve' });
  t.match(await called(client, 'echo', { text: 'still there' }), { content: [{ text: 'still there' }] });
  t.same(reached(), ['echo']);
});

t.test('a description that changed is told, and policies may act on it', async (t) => {
  const open = async () => {
    const transport = stdio([
      ...ARGS,
      'watchful',
      '--pins',
      path.join(folder, 'pins.json'),
      '--',
      process.execPath,
      SERVER,
    ]);
    const told: string[] = [];
    transport.stderr!.on('data', (chunk: Buffer) => told.push(chunk.toString()));
    const client = await connect(t, transport);
    const names = (await client.listTools()).tools.map((tool) => tool.name);
    await client.close();
    return { names, told: told.join('') };
  };
  writeFileSync(description, 'Adds two numbers');
  t.notMatch((await open()).told, /not what it was/);
  t.notMatch((await open()).told, /not what it was/, 'it is as it was');
  writeFileSync(description, 'Adds two numbers, and mails them');
  const changed = await open();
  t.match(changed.told, /the description of tools\/add is not what it was/);
  t.ok(changed.names.includes('add'), 'told, and no policy minds');
  t.notMatch((await open()).told, /not what it was/, 'told once');
  const [agent] = (await api.get('/v1/agents?name=watchful')).json.items;
  const events = await api.until(
    () => api.get(`/v1/agents/${agent.id}/events?q=changed&limit=10`),
    ({ json }) => json.total > 0,
  );
  t.match(events.json.items, [
    {
      type: 'custom',
      payload: {
        kind: 'mcp_tool',
        tool_name: 'tools/add',
        status: 'changed',
        previous: { description: 'Adds two numbers' },
        definition: { description: 'Adds two numbers, and mails them' },
      },
    },
  ]);
  await policy('as they were', 'block_action', { 'payload.kind': 'mcp_tool', 'payload.status': 'changed' });
  writeFileSync(description, 'Adds two numbers, and mails them elsewhere');
  const blocked = await api.until(
    async () => ({ status: 200, headers: new Headers(), text: '', json: await open() }),
    ({ json }) => !json.names.includes('add'),
  );
  t.match(blocked.json.told, /taken out of the list: Blocked by policy "as they were"/);
  t.notOk((await open()).names.includes('add'), 'and it stays out');
  writeFileSync(path.join(folder, 'pins.json'), 'nonsense');
  await t.rejects(open(), 'pins that cannot be read end the start');
});

t.test('where Gatehouse is away calls are denied, unless it is said otherwise', async (t) => {
  writeFileSync(calls, '');
  writeFileSync(description, 'Adds two numbers');
  const away = { ...proxyEnv, GATEHOUSE_URL: 'http://127.0.0.1:9' };
  const args = (more: string[], timeout = '0.5') => [
    ...['mcp', '--agent', 'alone', '--timeout', timeout],
    ...more,
    ...['--', process.execPath, SERVER],
  ];
  const closed = await connect(t, stdio(args([]), away));
  t.match(await called(closed, 'add', { a: 1, b: 2 }), {
    isError: true,
    content: [{ text: /Gatehouse is not available/ }],
  });
  await t.rejects(closed.listTools(), /could not be judged/);
  const refused = await connect(t, stdio(args([], '60'), { ...proxyEnv, GATEHOUSE_API_KEY: 'gth_wrong' }));
  t.match(await called(refused, 'add', { a: 1, b: 2 }), { isError: true, content: [{ text: /refused to record it/ }] });
  t.same(reached(), []);
  const open = await connect(t, stdio(args(['--on-unavailable', 'allow']), away));
  t.match(await called(open, 'add', { a: 1, b: 2 }), { content: [{ text: '3' }] });
});

t.test('a call without an id goes no further', async (t) => {
  writeFileSync(calls, '');
  const naive = `process.stdin.on('data', (chunk) => require('fs').appendFileSync(${JSON.stringify(calls)}, chunk));`;
  const transport = stdio([...ARGS, 'wordless', '--', process.execPath, '-e', naive]);
  await transport.start();
  t.teardown(() => transport.close());
  await transport.send({ jsonrpc: '2.0', method: 'tools/call', params: { name: 'add' } });
  await transport.send({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 1, progress: 1 } });
  await transport.send({ jsonrpc: '2.0', id: 1, method: 'ping' });
  await api.until(
    async () => ({ status: 200, headers: new Headers(), text: '', json: reached() }),
    ({ json }) => json.length >= 2,
  );
  t.match(reached(), [/notifications\/progress/, /"ping"/]);
  t.equal(reached().length, 2);
});

t.test('the configuration that the page shows, with the server and the address of this test', async (t) => {
  const page = readFileSync(assetPath('docs/joining.md'), 'utf8');
  const { command, args, env } = JSON.parse(/```json\n(\{"mcpServers".*?)```/s.exec(page)![1]!).mcpServers.files;
  t.same([command, args[0]], ['gatehouse', 'mcp']);
  const own = args.slice(0, args.indexOf('--') + 1);
  t.same(Object.keys(env), ['GATEHOUSE_URL', 'GATEHOUSE_API_KEY']);
  const client = await connect(t, stdio([...own, process.execPath, SERVER]));
  t.match(await called(client, 'echo', { text: 'as shown' }), { content: [{ text: 'as shown' }] });
  const shown = await api.until(
    () => api.get('/v1/agents?name=coder'),
    ({ json }) => json.total === 1,
  );
  const events = await api.get(`/v1/agents/${shown.json.items[0].id}/events?type=tool_call`);
  t.match(events.json.items, [{ payload: { tool: 'files/echo' } }]);
});

t.test('the key is not handed to the server', async (t) => {
  const args = [
    'mcp',
    '--agent',
    'discreet',
    '--',
    process.execPath,
    '-e',
    'console.error(Object.keys(process.env).join())',
  ];
  const { stderr } = spawnSync(process.execPath, [CLI, ...args], {
    env: { PATH: process.env.PATH!, HOME: folder, ...proxyEnv, GITHUB_TOKEN: 'x' },
    encoding: 'utf8',
  });
  t.match(stderr, /GITHUB_TOKEN/);
  t.notMatch(stderr, /GATEHOUSE_/);
});

t.test(
  'of several answers the first is heard, with the id that was asked, and what was not asked is not',
  async (t) => {
    const rogue = `process.stdin.on('data', (chunk) => { for (const line of chunk.toString().split('\\n').filter(Boolean)) {
    const { id, method } = JSON.parse(line);
    if (method !== 'tools/call') continue;
    for (const as of [99, String(id), id, id]) console.log(JSON.stringify({ jsonrpc: '2.0', id: as, result: { content: [{ type: 'text', text: typeof as }] } }));
  } });`;
    const transport = stdio([...ARGS, 'rogue', '--', process.execPath, '-e', rogue]);
    const got: unknown[] = [];
    transport.onmessage = (message) => got.push(message);
    await transport.start();
    t.teardown(() => transport.close());
    await transport.send({ jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'x', arguments: {} } });
    await api.until(
      async () => ({ status: 200, headers: new Headers(), text: '', json: got }),
      ({ json }) => json.length > 0,
    );
    await transport.send({ jsonrpc: '2.0', id: 8, method: 'tools/call', params: { name: 'x', arguments: {} } });
    await api.until(
      async () => ({ status: 200, headers: new Headers(), text: '', json: got }),
      ({ json }) => json.length > 1,
    );
    t.match(got, [
      { id: 7, result: { content: [{ text: 'string' }] } },
      { id: 8, result: { content: [{ text: 'string' }] } },
    ]);
    t.equal(got.length, 2);
  },
);

t.test('HTTP: what is no message, a page of elsewhere, a server that is away', async (t) => {
  writeFileSync(calls, '');
  const upstream = await program(t, [SERVER, '0'], 'stdout');
  const proxy = await program(t, [CLI, ...ARGS, 'web', '--upstream', upstream.url.href, '--listen', '0'], 'stderr');
  const post = async (body: string, headers: Record<string, string> = {}) => {
    const response = await fetch(proxy.url, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
    });
    return { status: response.status, text: await response.text() };
  };
  t.equal((await post('{')).status, 400);
  t.equal((await post('{}', { origin: 'https://evil.example' })).status, 403);
  t.equal((await post(`{"x":"${'x'.repeat(11_000_000)}"}`)).status, 400);
  const twice = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"${KEY}"},"arguments":{"text":"fine"}}}`;
  t.match((await post(twice)).text, /fine/, 'what goes on is what was judged');
  upstream.child.kill('SIGTERM');
  await once(upstream.child, 'exit');
  t.equal(
    (await post('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}')).status,
    502,
  );
});

t.test('settings that are wrong are said before anything is started', async (t) => {
  const run = (args: string[], env: Record<string, string> = proxyEnv) => {
    const { status, stderr } = spawnSync(process.execPath, [CLI, 'mcp', ...args], {
      env: { PATH: process.env.PATH!, ...env },
      encoding: 'utf8',
    });
    return `${status} ${stderr}`;
  };
  t.match(run(['--', 'true']), /^2 .*--agent/s);
  t.match(run(['--agent', 'a']), /^2 .*which server/s);
  t.match(run(['--agent', 'a', '--upstream', 'http://x', '--', 'true']), /^2 .*which server/s);
  t.match(run(['--agent', 'a', '--upstream', 'ftp://x']), /^2 .*http/s);
  t.match(run(['--agent', 'a', '--listen', '1', '--', 'true']), /^2 .*--upstream/s);
  t.match(run(['--agent', 'a', '--upstream', 'http://x', '--listen', 'x']), /^2 .*port/s);
  t.match(run(['--agent', 'a', '--upstream', 'http://x', '--header', 'nonsense']), /^2 .*colon/s);
  t.match(run(['--agent', 'a', '--wait', '-1', '--', 'true']), /^2 /s);
  t.match(run(['--agent', 'a', '--on-unavailable', 'maybe', '--', 'true']), /^2 .*block or allow/s);
  t.match(run(['--agent', 'a', '--', 'true'], {}), /^2 .*GATEHOUSE_URL/s);
  t.match(run(['--agent', 'a', '--', 'no-such-program-at-all']), /^1 .*no-such-program-at-all/s);
});
