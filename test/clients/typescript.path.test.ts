// The TypeScript client against the whole service: what a guard lets through and what it stops, what waits for an
// approval, a service that is away, slow, or loses its answers, many records, and programs that end. The package is
// built, and used as it would be installed.
import { AsyncLocalStorage } from 'node:async_hooks';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { context, type Span, trace } from '@opentelemetry/api';
import { NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import t, { type Test } from 'tap';
import { Gatehouse, type GatehouseOptions } from '../../clients/typescript/src/index.ts';
import { assetPath } from '../../src/process/assets.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { guardPolicies } from '../support/block-policies.ts';
import { folderOf } from '../support/folder.ts';
import { pause } from '../support/raw-http.ts';
import { startService } from '../support/service.ts';
import { type Fate, unreliable } from '../support/unreliable.ts';

const service = await startService(t);
const api = new Api(t, service);
const options = (more: Partial<GatehouseOptions> = {}): GatehouseOptions => ({
  ...{ url: service.url, key: service.key, agent: 'client', timeoutMs: 10_000 },
  ...more,
});

await guardPolicies(api);
await api.post('/v1/agents', { name: 'client' });
await api.until(
  async () => {
    const { allowed } = await new Gatehouse(options({ approvals: { waitMs: 0 } })).decide({ tool: 'refund' });
    return { ...(await api.get('/healthz')), json: { allowed } };
  },
  ({ json }) => json.allowed === false,
);
const agentId = async () => (await api.get('/v1/agents?name=client')).json.items[0].id as string;

t.test('a guard calls what is allowed and nothing else', async (t) => {
  const gatehouse = new Gatehouse(options());
  const calls: unknown[] = [];
  const look = gatehouse.guard('look', (args: { at: string }) => calls.push(args));
  const pay = gatehouse.guard('pay', (args: { amount: number }) => calls.push(args));
  t.equal(await look({ at: 'x' }, { traceId: 'guarded' }), 1);
  const error = await pay({ amount: 5 }, { traceId: 'guarded' }).catch((cause: unknown) => cause);
  t.match(error, { name: 'BlockedError', message: 'Blocked by policy "no pay".', eventId: /^evt_/ });
  await api.until(
    async () => ({ ...(await api.get('/healthz')), json: await new Gatehouse(options()).decide({ tool: 'wire' }) }),
    ({ json }) => json.allowed === false,
  );
  await t.rejects(gatehouse.guard('wire', () => 0)({}), { name: 'BlockedError', message: 'Send an invoice instead.' });
  t.same(calls, [{ at: 'x' }]);
  const { json } = await api.get('/v1/traces/guarded');
  t.match(json.events, [
    { payload: { tool: 'look', arguments: { at: 'x' } }, policy_result: { outcome: 'allowed' } },
    { payload: { tool: 'pay', arguments: { amount: 5 } }, policy_result: { outcome: 'blocked' } },
  ]);
  await t.rejects(new Gatehouse(options({ key: 'gth_wrong' })).decide({ tool: 'x' }), {
    name: 'ApiError',
    status: 401,
  });
});

t.test('a call of a model is asked about, and its completion or its error names the prompt', async (t) => {
  const gatehouse = new Gatehouse(options({ timeoutMs: 5_000 }));
  const asked = { payload: { model: 'm-1', prompt: 'hello' }, traceId: 'called' };
  const usage = { prompt_tokens: 3, completion_tokens: 4 };
  const result = await gatehouse.model(
    asked,
    ({ eventId }) => ({ said: 'hi', eventId }),
    ({ said }) => ({ response: said, usage }),
  );
  t.match(result, { said: 'hi', eventId: /^evt_/ });
  const broken = gatehouse.model(
    asked,
    () => Promise.reject(new Error('cut off')),
    () => ({}),
  );
  await t.rejects(broken, { message: 'cut off' });
  await gatehouse.close();
  const { events } = (await api.get('/v1/traces/called')).json;
  t.match(events, [
    { id: result.eventId, type: 'prompt' },
    { type: 'completion', payload: { model: 'm-1', for: result.eventId, response: 'hi', usage } },
    { type: 'prompt' },
    { type: 'error', payload: { model: 'm-1', for: events[2].id, message: 'Error: cut off' } },
  ]);
});

t.test('what needs an approval is waited for', async (t) => {
  const gatehouse = new Gatehouse(options({ approvals: { waitMs: 20_000 } }));
  const refund = gatehouse.guard('refund', (args: { order: number }) => args.order);
  const decideNext = async (decision: 'approve' | 'deny') => {
    const { json } = await api.until(
      () => api.get(`/v1/approvals?status=pending`),
      ({ json }) => json.items.some(({ event_id }: { event_id: string }) => !seen.has(event_id)),
    );
    const next = json.items.find(({ event_id }: { event_id: string }) => !seen.has(event_id));
    seen.add(next.event_id);
    await api.post(`/v1/approvals/${next.id}`, { decision });
  };
  const before = await api.get('/v1/approvals?status=pending');
  const seen = new Set<string>(before.json.items.map(({ event_id }: { event_id: string }) => event_id));
  const approved = refund({ order: 7 });
  await decideNext('approve');
  t.equal(await approved, 7);
  const denied = refund({ order: 8 }).catch((cause: unknown) => cause);
  await decideNext('deny');
  t.match(await denied, { name: 'ApprovalDeniedError', message: /^Approval apr_\w+ was denied\.$/ });
  const impatient = new Gatehouse(options({ approvals: { waitMs: 500 } })).guard('refund', () => t.fail('it ran'));
  t.match(await impatient({}).catch((cause: unknown) => cause), {
    name: 'ApprovalPendingError',
    message: /is pending/,
  });
});

t.test('a service that is away blocks, unless the guard says otherwise', async (t) => {
  for (const fate of ['refused', 'hangs'] as const) {
    const { url } = await unreliable(t, service.url, () => fate);
    const gatehouse = new Gatehouse(options({ url, timeoutMs: 600, agent: await agentId() }));
    const began = performance.now();
    await t.rejects(gatehouse.guard('look', () => t.fail('it ran'))({}), { name: 'UnavailableError' }, fate);
    t.ok(performance.now() - began < 3_000, 'within its deadline');
    t.equal(await gatehouse.guard('look', () => 'ran', { onUnavailable: 'allow' })({}), 'ran');
    t.match(await gatehouse.decide({ tool: 'look' }, 'allow'), { allowed: true, outcome: 'unavailable' });
  }
  const away = new Gatehouse(options({ url: 'http://127.0.0.1:9', timeoutMs: 300 }));
  await t.rejects(away.guard('look', () => t.fail('it ran'))({}), { name: 'UnavailableError' });
});

t.test('a decision whose answer is lost is made once', async (t) => {
  const fates: Fate[] = ['lost', 'refused', 'slow', 'through'];
  const { url, seen } = await unreliable(t, service.url, (request) => fates[request] ?? 'through');
  const gatehouse = new Gatehouse(options({ url, agent: await agentId() }));
  t.match(await gatehouse.decide({ tool: 'look', traceId: 'once' }), { allowed: true });
  t.equal(seen(), 3);
  t.equal((await api.get('/v1/traces/once')).json.event_count, 1);
});

t.test('records come in order, once, through lost answers and refusals', async (t) => {
  const { url } = await unreliable(
    t,
    service.url,
    (request) => (['lost', 'refused', 'through', 'lost'] as const)[request % 4]!,
  );
  const gatehouse = new Gatehouse(options({ url, agent: await agentId() }));
  for (let n = 0; n < 350; n++) gatehouse.record({ type: 'custom', traceId: 'recorded', payload: { n } });
  t.same(await gatehouse.flush(), { sent: 350, failed: 0, dropped: 0 });
  const { json } = await api.get('/v1/traces/recorded?limit=500');
  t.equal(json.event_count, 350);
  gatehouse.record({ type: 'shout' as 'custom', payload: {} });
  gatehouse.record({ type: 'custom', payload: { fine: true } });
  t.same(await gatehouse.close(), { sent: 351, failed: 1, dropped: 0 }, 'one that is refused is counted as failed');
  t.same(await gatehouse.close(), gatehouse.counts, 'it can be closed twice');
  t.equal(gatehouse.record({ type: 'custom', payload: {} }), false);
  t.equal(gatehouse.counts.dropped, 1, 'what comes later is dropped');
});

t.test('100,000 records while the service is away: bounded, counted, and gone at the deadline', async (t) => {
  const { url } = await unreliable(t, service.url, () => 'refused');
  const gatehouse = new Gatehouse(options({ url, agent: await agentId() }));
  const before = process.memoryUsage().heapUsed;
  let taken = 0;
  for (let n = 0; n < 100_000; n++)
    if (gatehouse.record({ type: 'custom', payload: { n, text: 'x'.repeat(1_000) } })) taken++;
  t.equal(taken, 1_000);
  global.gc?.();
  t.ok(process.memoryUsage().heapUsed - before < 64 * 1024 * 1024);
  t.same(await gatehouse.flush({ timeoutMs: 500 }), { sent: 0, failed: 1_000, dropped: 99_000 });
  t.same(await gatehouse.flush({ timeoutMs: 500 }), { sent: 0, failed: 1_000, dropped: 99_000 }, 'nothing is left');
});

t.test(
  'a front that is stopped and one that is killed while records are sent: nothing is lost, nothing twice',
  async (t) => {
    const gatehouse = new Gatehouse(options({ agent: await agentId() }));
    const fronts = async () => (await service.children()).filter(({ name }) => name.startsWith('front'));
    const halted = (await fronts()).map(({ pid }) => pid);
    let taken = 0;
    const recordSome = async (rounds: number) => {
      for (let n = 0; n < rounds; n++) {
        for (let i = 0; i < 50; i++)
          if (gatehouse.record({ type: 'custom', traceId: 'faults', payload: { n, i } })) taken++;
        await pause(20);
      }
    };
    await recordSome(20);
    for (const pid of halted) process.kill(pid, 'SIGSTOP');
    await recordSome(10);
    t.match(await new Gatehouse(options({ timeoutMs: 300 })).decide({ tool: 'look' }), {
      allowed: false,
      outcome: 'unavailable',
    });
    for (const pid of halted) process.kill(pid, 'SIGCONT');
    await recordSome(20);
    for (const pid of halted) process.kill(pid, 'SIGKILL');
    await recordSome(20);
    const { sent, failed, dropped } = await gatehouse.flush({ timeoutMs: 60_000 });
    t.same({ sent, failed }, { sent: taken, failed: 0 });
    t.equal(sent + dropped, 3_500, 'and what had no room is counted');
    const stored = await api.until(
      () => api.get('/v1/traces/faults?limit=1', { mayBeAway: true }),
      ({ json }) => json?.event_count >= taken,
    );
    t.equal(stored.json.event_count, taken);
  },
);

t.test("the trace is OpenTelemetry's, and the span of the very call names the decision", async (t) => {
  const provider = new NodeTracerProvider();
  provider.register();
  t.teardown(() => provider.shutdown());
  const gatehouse = new Gatehouse(options());
  const spanOf = (attributes: Record<string, string>) => provider.getTracer('test').startSpan('work', { attributes });
  const markOf = (span: Span) =>
    (span as unknown as { attributes: object }).attributes['gatehouse.decision.id' as never];
  const asked = (span: Span, tool: string) =>
    context.with(trace.setSpan(context.active(), span), () => gatehouse.decide({ tool }));
  const call = spanOf({ 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'look' });
  const { eventId } = await asked(call, 'look');
  t.equal(markOf(call), eventId);
  await asked(call, 'look');
  t.equal(markOf(call), eventId, 'a second decision does not overwrite it');
  for (const around of [
    { 'gen_ai.operation.name': 'chat' },
    { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'look' },
    { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'task' },
    { 'openinference.span.kind': 'TOOL', 'tool.name': 'task' },
    {},
  ]) {
    const span = spanOf(around as Record<string, string>);
    await asked(span, 'look');
    t.equal(markOf(span), undefined, `what lies around it is judged for itself: ${JSON.stringify(around)}`);
  }
  const { json } = await api.get(`/v1/traces/${call.spanContext().traceId}`);
  t.equal(json.event_count, 2);
});

t.test('the trace is that of the call: given to it, of its context, or of the guard', async (t) => {
  const requests = new AsyncLocalStorage<string>();
  const gatehouse = new Gatehouse(options({ traceId: () => requests.getStore() }));
  const guarded = gatehouse.guard('look', (args: object) => args);
  await Promise.all(['ts-trace-1', 'ts-trace-2'].map((id) => requests.run(id, () => guarded({ id }))));
  await requests.run('ts-trace-1', () => guarded({ id: 'own' }, { traceId: 'ts-trace-3' }));
  requests.run('ts-trace-1', () => gatehouse.record({ type: 'custom', payload: {} }));
  await gatehouse.guard('look', () => 0, { traceId: 'ts-trace-3' })();
  const traces = [() => false as never, () => null as never, () => JSON.parse('{') as string];
  for (const traceId of traces)
    t.match(
      await new Gatehouse(options({ traceId })).decide({ tool: 'look' }),
      { allowed: true },
      'a trace that cannot be had stops nothing',
    );
  await gatehouse.flush();
  const counts = ['1', '2', '3'].map(async (n) => (await api.get(`/v1/traces/ts-trace-${n}`)).json.event_count);
  t.same(await Promise.all(counts), [2, 1, 2]);
});

// The test runner puts its hooks into every child, and the compiler cannot be loaded with them.
const plainNode = ['-u', 'NODE_OPTIONS', process.execPath];
execFileSync('env', [...plainNode, assetPath('scripts/build-client.mjs')], { stdio: 'inherit' });

/** A folder of a program that has the package. */
function installed(t: Test) {
  const folder = folderOf(t);
  mkdirSync(path.join(folder, 'node_modules', '@gatehouse'), { recursive: true });
  symlinkSync(assetPath('clients/typescript'), path.join(folder, 'node_modules', '@gatehouse', 'client'));
  const run = (name: string, text: string, ...args: string[]) => {
    writeFileSync(path.join(folder, name), text);
    const began = performance.now();
    const child = spawnSync('env', [...plainNode, name, ...args], { cwd: folder, encoding: 'utf8', timeout: 60_000 });
    return { status: child.status, stdout: child.stdout, stderr: child.stderr, ms: performance.now() - began };
  };
  /** Compiles the text, and writes `name` as JavaScript; answers the messages of the compiler. */
  const compile = (name: string, text: string) => {
    writeFileSync(path.join(folder, name), text);
    const tsc = assetPath('node_modules/typescript/bin/tsc');
    const flags = '--strict --module nodenext --target es2022 --lib es2022,dom'.split(' ');
    const args = [...plainNode, tsc, ...flags, '--types', '', name];
    return spawnSync('env', args, { cwd: folder, encoding: 'utf8' }).stdout;
  };
  return { folder, run, compile };
}

t.test('the package, as it is installed', async (t) => {
  const { folder, run, compile } = installed(t);
  const core = ['index.js', 'json.js'].map((name) => readFileSync(assetPath(`clients/typescript/dist/esm/${name}`)));
  const size = gzipSync(Buffer.concat(core)).length;
  t.ok(size <= 6_200, `${size} bytes compressed`);

  const program = (body: string) => `
    const client = new Gatehouse({ url: ${JSON.stringify(service.url)}, key: ${JSON.stringify(service.key)}, agent: 'client' });
    for (let n = 0; n < 250; n++) client.record({ type: 'custom', traceId: process.argv[2], payload: { n } });
    ${body}`;
  const esm = "import { Gatehouse } from '@gatehouse/client';\n";
  t.match(run('flushed.mjs', `${esm}${program('await client.flush(); process.exit();')}`, 'esm'), {
    status: 0,
    stderr: '',
  });
  const cjs = "const { Gatehouse } = require('@gatehouse/client');\n";
  const closing = program('client.close().then(() => process.exit());');
  t.match(run('closed.cjs', `${cjs}${closing}`, 'cjs'), { status: 0, stderr: '' });
  for (const name of ['esm', 'cjs']) t.equal((await api.get(`/v1/traces/${name}`)).json.event_count, 250, name);
  const away = `${esm}const client = new Gatehouse({ url: 'http://127.0.0.1:9', key: 'k', agent: 'agt_x' });
    client.record({ type: 'custom', payload: {} });`;
  const left = run('left.mjs', away);
  t.match(left, { status: 0 });
  t.ok(left.ms < 10_000, 'what waits to be sent holds no process');

  const resolved = createRequire(pathToFileURL(path.join(folder, 'x.cjs')));
  for (const adapter of ['ai-sdk', 'openai-agents', 'langchain', 'claude-agent-sdk'])
    t.equal(Object.keys(resolved(`@gatehouse/client/${adapter}`)).length, 1, adapter);
  const text = `import { Gatehouse, BlockedError } from '@gatehouse/client';
     import { aiSdk } from '@gatehouse/client/ai-sdk';
     const gh = new Gatehouse({ url: '', key: '', agent: '' });
     export const refund: (args: { order: number }) => Promise<string> = gh.guard('refund', (args: { order: number }) => \`\${args.order}\`);
     export const name: string | undefined = new BlockedError({ allowed: false, outcome: 'blocked', policies: [] }).decision.policies[0]?.name;
     export const send: (to: string, body: string) => Promise<string> = gh.guard('send', (to: string, body: string) => to + body);
     void [aiSdk(gh).toolApproval, gh.guard('look', () => 1)(), gh.guard('look', (n: number) => n)(1, { traceId: 'x' })];
     // @ts-expect-error an argument is missing
     void gh.guard('send', (to: string, body: string) => to + body)('zoe');`;
  for (const name of ['typed.mts', 'typed.cts', 'typed.ts']) t.equal(compile(name, text), '', name);
  // What looks for no "exports" goes by these.
  const { main, types, typesVersions } = JSON.parse(readFileSync(assetPath('clients/typescript/package.json'), 'utf8'));
  for (const file of [main, types, ...Object.values<string[]>(typesVersions['*']).flat()])
    t.ok(existsSync(assetPath(path.join('clients/typescript', file))), file);
});

t.test('what the page shows runs as it stands', async (t) => {
  const page = readFileSync(assetPath('docs/joining.md'), 'utf8');
  const [, shown] = /```ts\n(.*?)```/s.exec(page)!;
  const { run, compile } = installed(t);
  const [url, key] = [service.url, await keyOfNewAccount(service, 'as the page shows')].map((text) =>
    JSON.stringify(text),
  );
  const program = `import { Gatehouse } from '@gatehouse/client';
    declare const process: { stdout: { write(text: string): void } };
    type Refund = { order: number; amount: number };
    const api = { refund: (args: Refund) => process.stdout.write('refunded ' + args.amount + '\\n') };
    const [url, key, traceId, response, tokens_used] = [${url}, ${key}, 'shown', 'done', 42] as const;
    ${shown}
    process.stdout.write(JSON.stringify({ sent, failed, dropped }));`;
  t.equal(compile('shown.mts', program), '');
  const { stdout, stderr } = run('start.mjs', "import './shown.mjs';");
  t.equal(stdout, 'refunded 20\n{"sent":1,"failed":0,"dropped":0}', stderr);

  const tested = readFileSync(assetPath('test/frameworks/adapters.test.mjs'), 'utf8');
  for (const expression of [
    'toolApproval: aiSdk(gh).toolApproval',
    'inputGuardrails: [openaiAgents(gh).toolInput]',
    'middleware: [langchain(gh).middleware]',
    'hooks: { PreToolUse: [{ hooks: [claude(gh).preToolUse] }] }',
  ]) {
    t.ok(page.includes(expression), `docs/joining.md shows ${expression}`);
    t.ok(tested.includes(expression), `and a framework runs it: ${expression}`);
  }
});
