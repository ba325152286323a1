// Ways around `gatehouse mcp`, tried with raw peers and the whole service: content that comes back or goes in beside
// what is looked at (T12), pages that reach it by a name of their own (T20), tools that were taken out (T21). And that
// one bad tool, an end of input or an odd server costs no more than itself.
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import t, { type Test } from 'tap';
import { Api } from '../support/api.ts';
import { folderOf } from '../support/folder.ts';
import { sharedService } from '../support/shared-service.ts';
import { eventOf, type PeerOptions, RawPeers, TRANSPORTS } from './raw-peers.ts';

const KEY = 'sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH';
const MAIL = 'zoe@example.com';
const service = await sharedService(t);
const api = await Api.described(t, service);

for (const policy of [
  { name: 'no keys', type: 'data_filter', conditions: { detectors: ['api_key'] }, actions: ['block'] },
  { name: 'no mail', type: 'data_filter', conditions: { detectors: ['email'], redact: true }, actions: ['log'] },
  {
    name: 'no evil tools',
    type: 'block_action',
    conditions: { type: 'custom', 'payload.kind': 'mcp_tool', 'payload.definition.description': { contains: 'evil' } },
    actions: ['block'],
  },
]) {
  const { status, text } = await api.post('/v1/policies', policy);
  if (status !== 201) throw new Error(text);
}
const start = (t: Test, options: PeerOptions, folder?: string) => RawPeers.start(t, service, options, folder);
const call = (id: number | string, name = 'odd', more = '') =>
  `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${name}","arguments":{}${more}}}`;
const listing = (id: number | string) => `{"jsonrpc":"2.0","id":${id},"method":"tools/list"}`;
const tool = (name: string, more = '') => `{"name":"${name}","inputSchema":{"type":"object"}${more}}`;
const tools = (...all: string[]) => `{"jsonrpc":"2.0","id":$ID,"result":{"tools":[${all.join(',')}],"nextCursor":"c"}}`;
const task = (method: string, id = 1, more = '') =>
  `{"jsonrpc":"2.0","id":${id},"method":"tasks/${method}","params":{"taskId":"t1"${more}}}`;

// Policies are in force everywhere within a second.
const first = await start(t, { agent: 'first' });
first.answers({ odd: { text: `{"jsonrpc":"2.0","id":$ID,"result":{"x":"${KEY} ${MAIL}"}}` } });
for (let i = 1; !(await first.ask(call(i))).includes('withheld'); i++);
first.answers({ odd: { text: `{"jsonrpc":"2.0","id":$ID,"result":{"x":"${MAIL}"}}` } });
for (let i = 1; !(await first.ask(call(`"${i}"`))).includes('[redacted:email]'); i++);

for (const transport of TRANSPORTS)
  t.test(`T12, ${transport}: what comes back is judged wherever it stands`, async (t) => {
    const peers = await start(t, { agent: `T12 back ${transport}`, transport });
    const isHttp = transport !== 'command';
    const back: Record<string, [asked: string, answer: object]> = {
      'the message of an error': [
        call(1),
        { text: `{"jsonrpc":"2.0","id":$ID,"error":{"code":1,"message":"${KEY}"}}` },
      ],
      'the data of an error': [call(2), { text: `{"jsonrpc":"2.0","id":$ID,"error":{"code":1,"data":["${KEY}"]}}` }],
      'another member': [call(3), { text: `{"jsonrpc":"2.0","id":$ID,"result":{},"more":"${KEY}"}` }],
      'a result with a method': [call(4), { text: `{"jsonrpc":"2.0","id":$ID,"method":"x","result":"${KEY}"}` }],
      'result and error': [call(5), { text: `{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"message":"${KEY}"}}` }],
      'tasks/get': [task('get', 6), { text: `{"jsonrpc":"2.0","id":$ID,"result":{"result":"${KEY}"}}` }],
      'tasks/result': [task('result', 7), { text: `{"jsonrpc":"2.0","id":$ID,"result":{"x":"${KEY}"}}` }],
      'tasks/list': [task('list', 8), { text: `{"jsonrpc":"2.0","id":$ID,"result":{"tasks":[{"s":"${KEY}"}]}}` }],
      'tasks/cancel': [task('cancel', 9), { text: `{"jsonrpc":"2.0","id":$ID,"error":{"message":"${KEY}"}}` }],
      'tasks/update': [task('update', 10), { text: `{"jsonrpc":"2.0","id":$ID,"result":{"s":"${KEY}"}}` }],
      ...(isHttp
        ? {
            'text of an error of HTTP': [call(11), { status: 500, type: 'text/plain', text: `no: ${KEY}` }],
            'an error without an id': [
              call(12),
              { status: 400, text: `{"jsonrpc":"2.0","error":{"code":-32600,"message":"${KEY}"}}` },
            ],
            'an error of HTTP with an id': [
              call(13),
              { status: 403, text: `{"jsonrpc":"2.0","id":$ID,"error":{"code":1,"message":"${KEY}"}}` },
            ],
            'JSON that is no message': [call(14), { status: 422, text: `{"detail":["${KEY}"]}` }],
            'a result with the status 500': [
              call(15),
              { status: 500, text: `{"jsonrpc":"2.0","id":$ID,"result":"${KEY}"}` },
            ],
          }
        : {}),
    };
    for (const [name, [asked, answer]] of Object.entries(back)) {
      const method = /"method":"(tasks[^"]*)"/.exec(asked)?.[1];
      peers.answers({ [method ?? 'odd']: answer });
      const got = await peers.ask(asked);
      t.notMatch(got, KEY, name);
      t.match(JSON.parse(got), { id: JSON.parse(asked).id }, `${name}: an answer`);
    }
    peers.answers({ odd: { text: `{"jsonrpc":"2.0","id":$ID,"error":{"code":1.0,"message":"${MAIL}"},"x":-0}` } });
    t.equal(
      await peers.ask(call(20)),
      '{"jsonrpc":"2.0","id":20,"error":{"code":1.0,"message":"[redacted:email]"},"x":-0}',
    );
    if (!isHttp) return;
    peers.answers({ odd: { status: 500, type: 'text/plain', text: `ask ${MAIL}` } });
    t.match(await peers.ask(call(21)), /ask \[redacted:email\]/, 'redacted in an error of HTTP');
    peers.answers({ odd: { status: 503, type: 'text/plain', text: 'come back later' } });
    t.match(await peers.ask(call(22)), /come back later/, 'what says nothing wrong passes');
  });

for (const transport of TRANSPORTS)
  t.test(`T12, ${transport}: all that goes into a call is judged`, async (t) => {
    const peers = await start(t, { agent: `T12 in ${transport}`, transport });
    for (const [name, more] of Object.entries({
      inputResponses: `,"inputResponses":{"q":{"action":"accept","content":{"k":"${KEY}"}}}`,
      requestState: `,"requestState":"${KEY}"`,
      _meta: `,"_meta":{"x":["${KEY}"]}`,
      task: `,"task":{"ttl":1,"note":"${KEY}"}`,
      'a key': `,"_meta":{"${KEY}":1}`,
    })) {
      t.match(JSON.parse(await peers.ask(call(1, 'odd', more))), { id: 1, result: { isError: true } }, name);
      t.match(JSON.parse(await peers.ask(task('update', 2, more))), { id: 2, error: {} }, `tasks/update: ${name}`);
    }
    t.same(peers.reached(), [], 'none of it reached the server');
    const fine = task('update', 3, ',"inputResponses":{"q":1.0}');
    t.match(await peers.ask(fine), /"ok"/);
    t.same(peers.reached(), [fine]);
  });

t.test('T12: no answer comes by another way than that of its request', async (t) => {
  const peers = await start(t, { agent: 'T12 aside', transport: 'http' });
  const result = `{"jsonrpc":"2.0","id":1,"result":{"x":"${KEY}"}}`;
  peers.answers({
    'notifications/initialized': { text: result },
    GET: { events: [eventOf(result), eventOf('{"jsonrpc":"2.0","method":"notifications/x"}')], isLast: true },
  });
  t.notMatch((await peers.post('{"jsonrpc":"2.0","method":"notifications/initialized","id":null}')).text, KEY);
  const opened = await (await fetch(peers.url!)).text();
  t.notMatch(opened, KEY);
  t.match(opened, /notifications\/x/, 'what is no answer passes');
  peers.answers({ GET: { type: 'application/json', text: eventOf(result) } });
  t.notMatch(await (await fetch(peers.url!)).text(), KEY, 'a stream that says that it is none');
  const piped = await start(t, { agent: 'T12 told' });
  const told = '{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t1","statusMessage":"MSG"}}';
  piped.answers({ odd: { before: [told.replace('MSG', KEY), told.replace('MSG', MAIL), `{"result":"${KEY}"}`] } });
  await piped.ask(call(1));
  await piped.got('[redacted:email]');
  t.notMatch(piped.lines.join(), KEY);
});

t.test('T12: headers of MCP say what the message says', async (t) => {
  const peers = await start(t, { agent: 'T12 headers', transport: 'http' });
  const meta = ',"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}';
  const args =
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"odd","arguments":{"region":"eu","n":1.50}}}';
  const last = () => peers.requests().at(-1)!.headers;
  await peers.post(call(1), { 'mcp-name': 'delete_all', 'mcp-method': 'ping', 'mcp-session-id': 's1', 'mcp-x': 'y' });
  t.match(last(), { 'mcp-name': 'odd', 'mcp-method': 'tools/call', 'mcp-session-id': 's1', 'mcp-x': undefined });
  await peers.post(call(1), {});
  t.match(last(), { 'mcp-name': undefined, 'mcp-method': undefined }, 'none is added for a client of before');
  await peers.post(call(1, 'odd', meta), { 'mcp-protocol-version': '2025-03-26' });
  t.match(last(), { 'mcp-name': 'odd', 'mcp-protocol-version': '2026-07-28' });
  await peers.post(call(1, 'caf\u00e9'), { 'mcp-name': 'x' });
  t.match(last(), { 'mcp-name': '=?base64?Y2Fmw6k=?=' });
  await peers.post(args, { 'mcp-param-region': 'eu', 'mcp-param-n': '1.50', 'mcp-param-b': '=?base64?ZXU=?=' });
  t.match(last(), { 'mcp-param-region': 'eu', 'mcp-param-n': '1.50', 'mcp-param-b': '=?base64?ZXU=?=' });
  const before = peers.requests().length;
  const wrong = await peers.post(args, { 'mcp-param-region': 'us' });
  t.match(JSON.parse(wrong.text), { id: 1, error: { code: -32602 } });
  t.equal(peers.requests().length, before, 'it did not reach the server');
});

t.test('T20: a page reaches it by no name of its own, whatever the method', async (t) => {
  const peers = await start(t, { agent: 'T20', transport: 'http', args: ['--header', 'authorization: Bearer k'] });
  const names = await start(t, { agent: 'T20', transport: 'http', args: ['--host-name', 'proxy.internal'] });
  const asked = async (method: string, headers: http.OutgoingHttpHeaders, url = peers.url!) => {
    const request = http.request(url, { method, headers, agent: false });
    request.end(method === 'POST' ? call(1) : undefined);
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    response.resume();
    return response.statusCode;
  };
  const { port } = peers.url!;
  for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS', 'HEAD']) {
    for (const host of [
      `evil.example:${port}`,
      'evil.example',
      `127.0.0.1.evil.example:${port}`,
      'localhost.evil.example',
    ])
      t.equal(await asked(method, { host }), 403, `${method} ${host}`);
    t.equal(await asked(method, { origin: 'https://evil.example' }), 403, `${method} of a page`);
    t.equal(await asked(method, { origin: 'null' }), 403, `${method} of a page without an origin`);
    t.equal(await asked(method, { 'sec-fetch-site': 'cross-site' }), 403, `${method} of an image`);
  }
  t.same(peers.reached(), []);
  for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`, '192.0.2.1'])
    t.equal(await asked('POST', { host }), 200, host);
  t.equal(await asked('POST', { host: `proxy.internal:${names.url!.port}` }, names.url), 200, 'a name that was given');
  t.equal(await asked('POST', { origin: `http://localhost:${port}` }), 200);
});

t.test('T21: a tool that was taken out stays out when the program starts again, until it is allowed', async (t) => {
  const folder = folderOf(t);
  const first = await start(t, { agent: 'T21' }, folder);
  first.answers({ 'tools/list': { text: tools(tool('good'), tool('bad', ',"description":"evil"'), tool('good')) } });
  t.equal(await first.ask(listing(1)), tools(tool('good'), tool('good')).replace('$ID', '1'));
  t.match(await first.ask(call(2, 'bad')), /not to be used/);
  await first.end();
  const second = await start(t, { agent: 'T21' }, folder);
  t.match(await second.ask(call(1, 'bad')), /not to be used.*no evil tools/);
  t.same(second.reached(), []);
  second.answers({ 'tools/list': { text: tools(tool('bad', ',"description":"fine"')) } });
  t.match(await second.ask(listing(2)), /"fine"/);
  t.match(await second.ask(call(3, 'bad')), /"ok"/, 'until it is allowed');
  await second.end();
  const third = await start(t, { agent: 'T21' }, folder);
  t.match(await third.ask(call(1, 'bad')), /"ok"/);
});

t.test('T21: tools that are no list are refused, a redaction in a description is applied', async (t) => {
  const peers = await start(t, { agent: 'T21 lists' });
  let id = 1;
  for (const bad of ['{"tools":{"0":{"name":"a"}}}', '{"tools":"a"}', '{"tools":null}', '{}', '"tools"', '[]']) {
    peers.answers({ 'tools/list': { text: `{"jsonrpc":"2.0","id":$ID,"result":${bad}}` } });
    t.match(JSON.parse(await peers.ask(listing(++id))), { id, error: { message: /could not be judged/ } }, bad);
  }
  const two = '{"Tools":[{"name":"a"}],"tools":[]}';
  peers.answers({ 'tools/list': { text: `{"jsonrpc":"2.0","id":$ID,"result":${two}}` } });
  t.match(JSON.parse(await peers.ask(listing(++id))), { error: {} }, two);
  const mailed = tool('a', `,"description":"Mails ${MAIL}","annotations":{"n":1.0,"big":1e400}`);
  peers.answers({ 'tools/list': { text: tools(mailed, tool('b', ',"x":-0')) } });
  t.equal(
    await peers.ask(listing(99)),
    tools(mailed.replace(MAIL, '[redacted:email]'), tool('b', ',"x":-0')).replace('$ID', '99'),
  );
  peers.answers({ 'tools/list': { text: tools(tool(MAIL), tool('b')) } });
  t.equal(await peers.ask(listing(100)), tools(tool('b')).replace('$ID', '100'), 'a name that is redacted');
});

t.test('one tool that cannot be judged costs that one', async (t) => {
  const peers = await start(t, { agent: 'bad tools' });
  const nested = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;
  const [good, other] = [tool('good', ',"n":1.0'), tool('other')];
  let id = 1;
  for (const [name, bad] of Object.entries({
    'a deep schema': tool('bad', `,"x":${nested(70)}`),
    'a very deep schema': tool('bad', `,"outputSchema":${nested(20_000)}`),
    'a large schema': tool('bad', `,"description":"${'x'.repeat(1_200_000)}"`),
    null: 'null',
    'a number': '7',
    'a list': '[]',
    'no name': '{"inputSchema":{}}',
    'a name that is a number': '{"name":7}',
    'an empty name': '{"name":""}',
    'two names': '{"name":"safe","Name":"evil"}',
    'a policy': tool('bad', ',"description":"evil"'),
  })) {
    peers.answers({ 'tools/list': { text: tools(good, bad, other) } });
    t.equal(await peers.ask(listing(++id)), tools(good, other).replace('$ID', String(id)), name);
    t.match(peers.said, /is taken out of the list/, name);
    if (bad.includes('"bad"')) t.match(await peers.ask(call(++id, 'bad')), /not to be used/, `${name}: not callable`);
    peers.said = '';
  }
});

t.test(
  'a result that is too large, or too deep, is recorded without it, and the model knows that the tool ran',
  async (t) => {
    const peers = await start(t, { agent: 'large' });
    const deep = `${'['.repeat(70)}${']'.repeat(70)}`;
    let id = 0;
    for (const result of [`{"content":[{"type":"image","data":"${'A'.repeat(1_500_000)}"}]}`, `{"x":${deep}}`]) {
      peers.answers({ odd: { text: `{"jsonrpc":"2.0","id":$ID,"result":${result}}` } });
      const { result: got } = JSON.parse(await peers.ask(call(++id)));
      t.match(got, { isError: true, content: [{ text: /did run; do not call it again/ }] });
      t.match(got.content[0].text, /withheld because of its size/);
    }
    const [agent] = (await api.get('/v1/agents?name=large')).json.items;
    const { json } = await api.until(
      () => api.get(`/v1/agents/${agent.id}/events?type=custom`),
      ({ json }) => json.total >= 2,
    );
    for (const { payload } of json.items)
      t.match(payload, { kind: 'tool_result', tool_name: 'raw/odd', content_captured: false, result_bytes: Number });
  },
);

t.test('the end of input: what was read is answered', async (t) => {
  for (const transport of ['command', 'address'] as const) {
    const peers = await start(t, { agent: `end ${transport}`, transport });
    peers.answers({ slow: { delayMs: 1_000 } });
    peers.child.stdin!.end(`{"jsonrpc":"2.0","id":1,"method":"initialize"}\n${call(2, 'slow')}\n${call(3)}`);
    await once(peers.child, 'exit');
    t.equal(peers.child.exitCode, 0);
    t.same(peers.lines.map((line) => JSON.parse(line).id).sort(), [1, 2, 3], transport);
  }
  const hasty = await start(t, { agent: 'end hasty', args: ['--drain', '1'] });
  hasty.answers({ slow: { delayMs: 60_000 } });
  hasty.child.stdin!.end(`${call(1, 'slow')}\n`);
  await once(hasty.child, 'exit');
  t.match(
    hasty.lines.map((line) => JSON.parse(line)),
    [{ id: 1, error: { message: /has ended/ } }],
    'within a bound',
  );
  const last = await start(t, { agent: 'end of the server' });
  last.answers({ last: { isLast: true }, slow: { delayMs: 60_000 } });
  last.send(call(1, 'slow'));
  await last.until(() => last.reached()[0], 'the first');
  last.send(call(2, 'last'));
  await once(last.child, 'exit');
  t.equal(last.child.exitCode, 1);
  t.match(
    last.lines.map((line) => JSON.parse(line)).sort((a, b) => b.id - a.id),
    [
      { id: 2, result: {} },
      { id: 1, error: { message: /the server has ended/ } },
    ],
  );
});

t.test('SIGHUP, SIGTERM and SIGINT end a server that ignores the end of its input', async (t) => {
  for (const signal of ['SIGHUP', 'SIGTERM', 'SIGINT'] as const) {
    const peers = await start(t, { agent: 'signals', serverEnv: { RAW_STAYS: '1' } });
    peers.answers({ pid: { text: '{"jsonrpc":"2.0","id":$ID,"result":{}}' } });
    await peers.ask(call(1));
    const children = readFileSync(`/proc/${peers.child.pid}/task/${peers.child.pid}/children`, 'utf8').trim();
    t.match(children, /^\d+$/);
    peers.child.kill(signal);
    await once(peers.child, 'exit');
    t.throws(() => process.kill(Number(children), 0), `${signal}: it is gone`);
  }
});

t.test('a tool may take longer than a decision, and what keeps a stream open comes at once', async (t) => {
  const peers = await start(t, { agent: 'slow', transport: 'http', args: ['--timeout', '3'] });
  peers.answers({ slow: { delayMs: 5_000 } });
  t.match((await peers.post(call(1, 'slow'))).text, /"ok"/);
  peers.answers({
    GET: { events: [': keepalive\n\n', 'retry: 500\n\n', ': again\n\n', 'id: 1\ndata:\n\n'], isLast: false },
  });
  const response = await fetch(peers.url!);
  let text = '';
  for await (const chunk of response.body!.pipeThrough(
    new TextDecoderStream() as never,
  ) as unknown as AsyncIterable<string>) {
    text += chunk;
    if (/again\n\n: /.test(text)) break;
  }
  t.match(text, /^: ?keepalive\n\nretry: 500\n\n: ?again\n\n: \n\n/);
});

t.test('a stream that the server ends goes on behind its last event', async (t) => {
  for (const transport of ['stream', 'http stream'] as const) {
    const peers = await start(t, { agent: `again ${transport}`, transport });
    peers.answers({
      odd: { events: ['id: e1\nretry: 10\ndata:\n\n'] },
      GET: { events: ['id: e2\ndata: {"jsonrpc":"2.0","id":7,"result":{"n":1.0}}\n\n'], isLast: true },
    });
    t.equal(await peers.ask(call(7)), '{"jsonrpc":"2.0","id":7,"result":{"n":1.0}}', transport);
    t.match(peers.requests().at(-1), { method: 'GET', headers: { 'last-event-id': 'e1' } });
    peers.answers({ odd: { events: [': nothing\n\n'] } });
    t.match(JSON.parse(await peers.ask(call(8))), { id: 8, error: { message: /did not answer/ } });
  }
});

t.test('over HTTP: other paths, calls without an id, answers that are none', async (t) => {
  const peers = await start(t, { agent: 'forms', transport: 'http' });
  for (const [method, at] of [
    ['GET', '/.well-known/oauth-protected-resource'],
    ['GET', '/.well-known/oauth-protected-resource/mcp'],
    ['POST', '/other'],
    ['POST', '/mcp/../other'],
    ['GET', '/'],
    ['GET', '//evil.example/mcp'],
  ] as const)
    t.equal((await fetch(new URL(at.replace(/^\/\//, '/%2f'), peers.url), { method })).status, 404, `${method} ${at}`);
  t.equal((await peers.post(call(1).replace('"id":1,', ''))).status, 202, 'nothing goes on');
  t.same(peers.reached(), []);
  const forms: Record<string, [answer: object, expected: RegExp]> = {
    'a byte order mark': [{ text: '\ufeff{"jsonrpc":"2.0","id":$ID,"result":{"n":1.0}}' }, /^\{.*"n":1\.0/],
    'an empty body': [{ text: ' ', status: 200 }, /"id":1,"error"/],
    'no content': [{ text: '', status: 202 }, /"id":1,"error"/],
    HTML: [{ text: '<html>', type: 'text/html' }, /"id":1,"error"/],
    'another id': [{ text: '{"jsonrpc":"2.0","id":99,"result":{}}' }, /"id":1,"error"/],
    'an event of another kind': [{ events: ['event: x\ndata: y\n\n'] }, /"id":1,"error"/],
    'lines of data': [{ events: ['data: {"jsonrpc":"2.0",\r\ndata: "id":1,"result":{}}\r\n\r\n'] }, /"result"/],
    gone: [{ status: 404, text: 'no session', type: 'text/plain' }, /^no session$/],
  };
  for (const [name, [answer, expected]] of Object.entries(forms)) {
    peers.answers({ odd: answer });
    t.match((await peers.post(call(1))).text, expected, name);
  }
  peers.upstream!.kill('SIGTERM');
  await once(peers.upstream!, 'exit');
  const away = await peers.post(call(1));
  t.match([away.status, JSON.parse(away.text)], [502, { id: 1, error: { code: -32603 } }], 'a server that is away');
});

t.test('two servers of one name keep their pins apart, in one file', async (t) => {
  const folder = folderOf(t);
  const args = ['--pins', path.join(folder, 'pins.json')];
  const open = (name: string, command: string[]) =>
    RawPeers.start(t, service, { agent: `pins ${name}`, args, command }, mkdtempSync(path.join(folder, `${name}-`)));
  const [a, b] = await Promise.all([open('a', ['--of', 'a']), open('b', ['--of', 'b'])]);
  a.answers({ 'tools/list': { text: tools(tool('pay'), tool('look')) } });
  b.answers({ 'tools/list': { text: tools(tool('look', ',"description":"of b"')) } });
  await Promise.all([a.ask(listing(1)), b.ask(listing(1))]);
  t.notMatch(a.said + b.said, /not what it was/);
  await Promise.all([a.end(), b.end()]);
  t.same(
    readdirSync(folder).filter((name) => name.startsWith('pins')),
    ['pins.json'],
    'no lock, no other file',
  );
  const again = await open('a', ['--of', 'a']);
  again.answers({ 'tools/list': { text: tools(tool('pay', ',"description":"and mails it"'), tool('look')) } });
  await again.ask(listing(1));
  t.match(again.said, /the description of raw\/pay is not what it was/);
  t.notMatch(again.said, /raw\/look/);
});
