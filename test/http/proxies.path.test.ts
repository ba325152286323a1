// docs/behind-a-proxy.md, done: each of its configurations in the real nginx, haproxy and caddy, before the whole
// service. Beside it the settings of the service for them: the caller's address in the audit log, the public address.
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import t, { type Test } from 'tap';
import { freePort } from '../../src/embedded/free-port.ts';
import { assetPath } from '../../src/process/assets.ts';
import { folderOf } from '../support/folder.ts';
import { programPath, startProgram } from '../support/programs.ts';
import { pause, rawExchange } from '../support/raw-http.ts';
import { hasOwnStores, spawnCli, startService } from '../support/service.ts';

const PUBLIC = 'https://gatehouse.example.com/gatehouse';
/** On a loopback address that no proxy is trusted to have, as a caller from elsewhere. */
const CALLER = '127.0.0.2';
const NAMES = ['nginx', 'haproxy', 'caddy'] as const;
type Name = (typeof NAMES)[number];

const service = await startService(t, {
  stores: 'own',
  env: {
    GATEHOUSE_FRONTS: '2',
    GATEHOUSE_TRUSTED_PROXIES: '127.0.0.1',
    GATEHOUSE_PUBLIC_URL: `${PUBLIC}/`,
  },
});
const folder = folderOf(t);
const page = await readFile(assetPath('docs/behind-a-proxy.md'), 'utf8');

/** Its workers would run as the user `nobody`, who may not read this test's folder. */
const AS_ROOT = process.getuid?.() === 0 ? ' user root;' : '';

type ProxiedRequest = { method?: string; body?: unknown; headers?: Record<string, string>; signal?: AbortSignal };
type Answer = {
  status: number;
  json: Record<string, unknown>;
  text: string;
  incomplete: boolean;
  /** The process that answered: what its request ids begin with. */
  by: string;
};
const agents = new Map<number, http.Agent>();

/** By a kept connection from CALLER. */
function ask(
  port: number,
  target: string,
  { method = 'GET', body, headers, signal }: ProxiedRequest = {},
): Promise<Answer> {
  const agent = agents.get(port) ?? new http.Agent({ keepAlive: true, maxSockets: 8 });
  agents.set(port, agent);
  const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
  return new Promise((resolve, reject) => {
    const request = http.request({
      ...{ host: '127.0.0.1', port, path: target, method, agent, localAddress: CALLER },
      ...(signal === undefined ? {} : { signal }),
      headers: {
        authorization: `Bearer ${service.key}`,
        'user-agent': 'caller/1.0',
        ...(content === undefined ? {} : { 'content-type': 'application/json', 'content-length': content.length }),
        ...headers,
      },
    });
    request.on('error', reject);
    request.on('response', (response) => {
      let text = '';
      // One that is cut off has no end.
      response.on('error', reject);
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk));
      response.on('end', () => {
        const isJson = response.headers['content-type']?.includes('json') === true;
        const incomplete = response.headers['gatehouse-incomplete'] !== undefined;
        const by = String(response.headers['x-request-id']).split('-')[0]!;
        resolve({ status: response.statusCode!, json: isJson ? JSON.parse(text) : {}, text, incomplete, by });
      });
    });
    request.end(content);
  });
}
t.teardown(() => {
  for (const agent of agents.values()) agent.destroy();
});

/** A read that has waited for what was written before, however long that takes on a machine that does other things. */
async function whole(read: () => Promise<Answer>): Promise<Answer> {
  for (const until = performance.now() + 90_000; ; ) {
    const answer = await read();
    if (!answer.incomplete || performance.now() > until) return answer;
  }
}

const direct = Number(new URL(service.url).port);
const { json: agent } = await ask(direct, '/v1/agents', { method: 'POST', body: { name: 'behind' } });
const events = `/v1/agents/${agent['id']}/events`;
const conditions = { tool: 'pay' };
await ask(direct, '/v1/policies', {
  method: 'POST',
  body: { name: 'asks', type: 'require_approval', conditions, actions: ['block'] },
});
const { approval, event } = await pending();

for (const name of NAMES) {
  for (const prefix of ['', '/gatehouse']) {
    const skip = programPath(name) === undefined ? `there is no ${name} on this machine` : false;
    t.test(`${name}${prefix && ' under a prefix'}`, { skip }, async (t) => {
      const port = await freePort();
      await startProgram(t, name, { args: await argumentsOf(name, prefix, port), port, env: { HOME: folder } });
      const through = (target: string, asked?: ProxiedRequest) => ask(port, `${prefix}${target}`, asked);

      const payload = { text: 'x'.repeat(60_000) };
      const batch = { events: Array.from({ length: 100 }, () => ({ type: 'prompt', payload })) };
      const taken = await through(`${events}/batch`, { method: 'POST', body: batch });
      t.equal(taken.status, 200, `a batch of 6 MB: ${taken.text.slice(0, 200)}`);

      const trace = `${name}/7`;
      await through(events, { method: 'POST', body: { type: 'prompt', trace_id: trace, payload: {} } });
      const found = await whole(() => through(`/v1/traces/${encodeURIComponent(trace)}?limit=5`));
      t.equal(found.status, 200, 'a trace id with a slash');

      t.equal((await through('/metrics')).status, 404, 'no metrics');
      t.equal((await through('/readyz/traffic')).status, 200);
      const mistake = await through(`${events}?limit=x`);
      t.match(mistake.json, { error: { code: 'validation_failed', details: [{ path: 'limit' }] } }, 'errors are ours');

      // A trailer that a careless reader takes for the next request. Whether the proxy refuses it, sends a length in
      // its place, or hands it on and it is refused here: nothing but the one request is answered.
      const head = `Host: 127.0.0.1:${port}\r\nAuthorization: Bearer ${service.key}\r\n`;
      const body = '{"type":"prompt","payload":{}}';
      const chunked =
        `POST ${prefix}${events} HTTP/1.1\r\n${head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n` +
        `${body.length.toString(16)}\r\n${body}\r\n0\r\nA:GET /v1/account HTTP/1.1\r\n${head}\r\n`;
      const { answers, text } = await rawExchange(port, [chunked], { settleMs: 300 });
      t.match(answers[0]?.status, /^(201|400|411|501|502)$/, `a chunked body with a trailer: ${answers[0]?.status}`);
      t.notMatch(text, /agent_down_seconds/, 'the words of the trailer are not answered');

      const waited = await through(`/v1/approvals/${approval}?wait=1`);
      t.match(waited, { status: 200, json: { status: 'pending' } }, 'a wait is answered');
      const leaving = new AbortController();
      const left = through(`/v1/approvals/${approval}?wait=40`, { signal: leaving.signal }).catch(() => 'left');
      await untilWaits(1);
      leaving.abort();
      t.equal(await left, 'left');
      await untilWaits(0);

      const made = await through('/v1/agents', {
        method: 'POST',
        body: { name: `${name}${prefix}` },
        headers: { 'x-forwarded-for': '6.6.6.6' },
      });
      t.equal(made.status, 201);
      const { json } = await whole(() => through(`/v1/audit-logs?resource_id=${made.json['id']}`));
      const [entry] = json['logs'] as { details: object }[];
      t.match(entry!.details, { ip: CALLER, user_agent: 'caller/1.0' }, 'who called, not who handed it on');
    });
  }
}

t.test(
  'a front that restarts behind a proxy costs no call',
  { skip: programPath('nginx') === undefined },
  async (t) => {
    const port = await freePort();
    await startProgram(t, 'nginx', { args: await argumentsOf('nginx', '', port), port, env: {} });
    const front = (await service.children()).find(({ name }) => name === 'front-1')!.pid;
    const statuses = new Map<number, number>();
    let isOver = false;
    const senders = Array.from({ length: 4 }, async () => {
      while (!isOver) {
        const { status } = await ask(port, events, { method: 'POST', body: { type: 'prompt', payload: {} } });
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }
    });
    await pause(300);
    process.kill(front, 'SIGTERM');
    for (const until = performance.now() + 60_000; performance.now() < until; await pause(100)) {
      const now = (await service.children()).find(({ name }) => name === 'front-1')?.pid;
      if (now !== undefined && now !== front) break;
    }
    await pause(300);
    isOver = true;
    await Promise.all(senders);
    t.same([...statuses.keys()], [201], JSON.stringify([...statuses]));
  },
);

t.test('a front that was asked to end gets no more calls, and none is lost, with each proxy', async (t) => {
  const stays = await startFront(t);
  const event = { method: 'POST', body: { type: 'prompt', payload: {} } };
  for (const name of NAMES) {
    if (programPath(name) === undefined) {
      t.comment(`there is no ${name} on this machine`);
      continue;
    }
    const leaves = await startFront(t);
    const port = await freePort();
    const args = await argumentsOf(name, '', port, [leaves.port, stays.port]);
    await startProgram(t, name, { args, port, env: { HOME: folder } });
    const seen = new Set<string>();
    while (seen.size < 2) seen.add((await ask(port, events, event)).by);
    const ended = once(leaves.child, 'exit') as Promise<[number | null]>;
    leaves.child.kill('SIGTERM');
    while ((await ask(leaves.port, '/readyz/traffic')).status === 200) await pause(20);
    t.equal((await ask(leaves.port, '/readyz/traffic')).status, 503, `${name}: no traffic for one that leaves`);
    t.equal((await ask(leaves.port, '/healthz')).status, 200, 'which lives');
    t.equal((await ask(leaves.port, events, event)).status, 201, 'and still serves');
    const statuses = new Set<number>();
    let inTurnByOther = 0;
    let mostWhileItServed = 0;
    for (let isThere = true, after = 0; after < 20; isThere ? undefined : after++) {
      const answer = await ask(port, events, event);
      statuses.add(answer.status);
      inTurnByOther = answer.by === stays.by ? inTurnByOther + 1 : 0;
      isThere = leaves.child.exitCode === null;
      if (isThere) mostWhileItServed = Math.max(mostWhileItServed, inTurnByOther);
      await pause(20);
    }
    t.same(await ended, [0, null]);
    t.same([...statuses], [201], `${name}: every call is answered`);
    // nginx asks no probe, so it learns by the connections that close.
    if (name !== 'nginx') t.ok(mostWhileItServed > 30, `${name}: ${mostWhileItServed} in turn went to the other front`);
  }
});

t.test('without ClickHouse a front may have traffic, and takes events through a proxy', async (t) => {
  const engine = (await service.children()).find(({ name }) => name === 'clickhouse');
  const name = NAMES.find((one) => one !== 'nginx' && programPath(one) !== undefined);
  if (!hasOwnStores() || engine === undefined || name === undefined) {
    t.comment('no ClickHouse of our own, or no proxy that asks a probe: not tried');
    return;
  }
  const port = await freePort();
  await startProgram(t, name, { args: await argumentsOf(name, '', port), port, env: { HOME: folder } });
  process.kill(engine.pid, 'SIGSTOP');
  try {
    while ((await ask(direct, '/readyz')).status === 200) await pause(100);
    // Longer than the proxy takes to let go of a front.
    for (let second = 0; second < 5; second++, await pause(1_000)) {
      t.equal((await ask(direct, '/readyz/traffic')).status, 200);
      t.equal((await ask(direct, '/readyz')).status, 503, 'which is told to people');
      const taken = await ask(port, events, { method: 'POST', body: { type: 'prompt', payload: {} } });
      t.equal(taken.status, 201, `an event by ${name}`);
    }
  } finally {
    process.kill(engine.pid, 'SIGCONT');
  }
  while ((await ask(direct, '/readyz')).status !== 200) await pause(100);
});

t.test('what is said without a proxy, and by the public address', async (t) => {
  const forged = { 'x-forwarded-for': '6.6.6.6' };
  const made = await ask(direct, '/v1/agents', { method: 'POST', body: { name: 'forged' }, headers: forged });
  t.match(await firstEntryOf(made.json['id']), { details: { ip: CALLER } }, 'no trusted proxy gave the header');
  const { json: described } = await ask(direct, '/v1/openapi.json');
  t.same(
    (described['servers'] as { url: string }[]).map(({ url }) => url),
    [PUBLIC],
  );
  const { json: logs } = await ask(direct, `/v1/audit-logs?resource_id=${event}`);
  t.notMatch(JSON.stringify(logs['logs']), /"ip"/, 'an event is an agent’s, and known by its request id');
});

/** Reads the first entry of the audit log; a busy machine stores it later than a list waits for it. */
async function firstEntryOf(resource: unknown): Promise<object | undefined> {
  for (let tries = 0; tries < 100; tries++) {
    const { json } = await ask(direct, `/v1/audit-logs?resource_id=${resource}`);
    const [entry] = json['logs'] as object[];
    if (entry !== undefined) return entry;
    await pause(200);
  }
  return undefined;
}

/** A front beside those of the service. */
async function startFront(t: Test) {
  const port = await freePort();
  const { redisUrl, redisCluster, clickhouseUrl, clickhouseDatabase } = await service.addresses();
  const child = spawnCli(['front'], {
    GATEHOUSE_PORT: String(port),
    GATEHOUSE_DRAIN_SECONDS: '8',
    GATEHOUSE_REDIS_URL: redisUrl,
    GATEHOUSE_REDIS_CLUSTER: String(redisCluster),
    GATEHOUSE_CLICKHOUSE_URL: clickhouseUrl,
    GATEHOUSE_CLICKHOUSE_DATABASE: clickhouseDatabase,
  });
  child.stderr!.resume();
  t.teardown(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  for (let tries = 0; tries < 600; tries++) {
    const ready = await ask(port, '/readyz').catch(() => undefined);
    if (ready?.status === 200) return { child, port, by: ready.by };
    await pause(100);
  }
  throw new Error('the front does not get ready');
}

/** The page's configuration, with ports of this test in it; `to`: of the fronts. */
async function argumentsOf(name: Name, prefix: string, port: number, to = [direct]): Promise<string[]> {
  const block = (kind: string) => new RegExp(`\n\`\`\`${kind}\n([\\s\\S]*?)\`\`\``).exec(page)![1]!;
  const ported = (text: string) =>
    text
      .replace(/^.*127\.0\.0\.1:8080.*$/gm, (line) => frontsIn(line, name, to))
      .replace('listen 80', `listen 127.0.0.1:${port}`)
      .replace('bind :80', `bind 127.0.0.1:${port}`)
      .replaceAll(/^:80 /gm, `http://127.0.0.1:${port} `);
  const file = path.join(folder, `${name}-${port}`);
  const whole = ported(configurationOf(block, name, prefix));
  if (name === 'nginx') {
    const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((one) => `${one}_temp_path ${file}.${one};`);
    await writeFile(file, `events {}\nhttp { access_log off; ${paths.join(' ')}\n${whole}\n}`);
    return ['-e', 'stderr', '-c', file, '-g', `daemon off; pid ${file}.pid; error_log stderr;${AS_ROOT}`];
  }
  // The name that the page gives for the version of Debian 12.
  const named = whole.replaceAll(/request_buffers .*/g, 'buffer_requests');
  await writeFile(file, name === 'caddy' ? `{\n  admin off\n}\n${named}` : whole);
  return name === 'caddy' ? ['run', '--adapter', 'caddyfile', '--config', file] : ['-db', '-f', file];
}

/** As the page says of further fronts. */
function frontsIn(line: string, name: Name, ports: readonly number[]): string {
  if (name === 'caddy') return line.replace('127.0.0.1:8080', ports.map((port) => `127.0.0.1:${port}`).join(' '));
  return ports.map((port, n) => line.replace('8080', String(port)).replace('server one', `server s${n}`)).join('\n');
}

function configurationOf(block: (kind: string) => string, name: Name, prefix: string): string {
  if (prefix === '') return block(name);
  const changed = block(`${name} prefix`);
  if (name === 'caddy') return changed;
  if (name === 'haproxy') return `${block(name)}${changed}`;
  const [head] = block(name).split('  location = /metrics');
  return `${head}${changed}}`;
}

/** Until so many callers wait for a decision, in both fronts together. */
async function untilWaits(count: number): Promise<void> {
  for (const until = performance.now() + 20_000; performance.now() < until; await pause(50)) {
    const { text } = await ask(direct, '/metrics');
    const waits = [...text.matchAll(/^gatehouse_approval_waits\{[^}]*\} (\d+)/gm)].map(([, n]) => Number(n));
    if (waits.reduce((sum, n) => sum + n, 0) === count) return;
  }
  throw new Error(`not ${count} waits`);
}

/** An approval that waits, once the policy is in force. */
async function pending(): Promise<{ approval: string; event: string }> {
  for (const until = performance.now() + 60_000; performance.now() < until; await pause(50)) {
    const { json } = await ask(direct, events, {
      method: 'POST',
      body: { type: 'tool_call', payload: { tool: 'pay' } },
    });
    const { approval_id: approval } = json['policy_result'] as { approval_id: string | null };
    if (approval) return { approval, event: json['id'] as string };
  }
  throw new Error('no event had to wait');
}
