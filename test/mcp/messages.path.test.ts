// Messages of MCP pass `gatehouse mcp` as the text that came, whatever carries them: numbers, ids, odd envelopes,
// batches, both ways and into the record. What cannot be read, or does not say what it calls, is answered. Raw peers
// over real pipes and sockets, with the whole service.
import http from 'node:http';
import t, { type Test } from 'tap';
import { Api } from '../support/api.ts';
import { listening } from '../support/listening.ts';
import { sharedService } from '../support/shared-service.ts';
import { RawPeers, TRANSPORTS } from './raw-peers.ts';

const service = await sharedService(t);
const api = await Api.described(t, service);

/** The numbers that a program that parses and prints them would change. */
const NUMBERS = ['9007199254740993', '12345678901234567890', '1.0', '1e400', '-0', '1E5', '0.10', '1e-400', '-1.5e+3'];
const PLACES: Record<string, (number: string) => string> = {
  member: (n) => `{"n":${n}}`,
  list: (n) => `{"n":[1,${n},[${n}]]}`,
  'with blanks': (n) => `{ "n" : ${n} , "s":"\\u00e9\\/\\ud800" }`,
};

/** From the client; the server is to get the same. */
const REQUESTS: Record<string, string> = {
  'params null': '{"jsonrpc":"2.0","id":$ID,"method":"ping","params":null}',
  'params a list': '{"jsonrpc":"2.0","id":$ID,"method":"ping","params":[]}',
  'a member more': '{"jsonrpc":"2.0","id":$ID,"method":"ping","trace":{"x":1}}',
  'no jsonrpc': '{"id":$ID,"method":"ping"}',
  'jsonrpc 1.0': '{"jsonrpc":"1.0","id":$ID,"method":"ping","params":{}}',
  'another order': '{"params":{},"method":"ping","id":$ID,"jsonrpc":"2.0"}',
  'blanks and escapes': '{ "jsonrpc" : "2.0", "id" : $ID, "method" : "ping", "params" : {"s":"\\u00fc\\u2028"} }',
  'result and error null': '{"jsonrpc":"2.0","id":$ID,"method":"ping","result":null,"error":null}',
  'an unknown method': '{"jsonrpc":"2.0","id":$ID,"method":"x/y","params":{"deep":[[[[]]]]}}',
  'arguments null': '{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"plain","arguments":null}}',
  'no arguments': '{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"plain"}}',
};
const IDS = ['7', '"7"', '9007199254740993', '1.5', '1.0', '-0', '1e400', '"\\u0061"', '""', '-1'];

/** The server's answers to a call; the client is to get the same. */
const ANSWERS: Record<string, string> = {
  'error null beside result': '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]},"error":null}',
  'result null beside error': '{"jsonrpc":"2.0","id":$ID,"result":null,"error":{"code":1,"message":"x"}}',
  'a member more': '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]},"timestamp":"2026-01-01","n":1.0}',
  'result null': '{"jsonrpc":"2.0","id":$ID,"result":null}',
  'no jsonrpc': '{"id":$ID,"result":{"content":[]}}',
  'a code that is text': '{"jsonrpc":"2.0","id":$ID,"error":{"code":"E_X","message":"x"}}',
  'an error that is text': '{"jsonrpc":"2.0","id":$ID,"error":"no"}',
  'a result that is text': '{"jsonrpc":"2.0","id":$ID,"result":"yes"}',
  'a result that is a list': '{"jsonrpc":"2.0","id":$ID,"result":[1.0,{"a":-0}]}',
  'method null': '{"jsonrpc":"2.0","id":$ID,"method":null,"params":null,"result":{}}',
  both: '{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":-32000,"message":"and"}}',
  'another order': '{"result":{"content":[]},"id":$ID,"jsonrpc":"2.0"}',
  'blanks and escapes': '{ "jsonrpc":"2.0", "id": $ID , "result" : {"s":"\\u00e9\\/\\ud800 \\u2028"} }',
};

/** The server's answers to a call of which the client is to get an answer with its id. */
const UNREADABLE: Record<string, string> = {
  'cut off': '{"jsonrpc":"2.0","id":$ID,"result":{"content":[',
  'neither result nor error': '{"jsonrpc":"2.0","id":$ID}',
  'letters of another case': '{"jsonrpc":"2.0","id":$ID,"Result":{}}',
  'no number': '{"jsonrpc":"2.0","id":$ID,"result":{"x":NaN}}',
};

/** From the client: the code of what it gets back; the server gets nothing. `$ID`: 5, where it can be found. */
const REFUSED: Record<string, [text: string, code: number, id: string]> = {
  'cut JSON': ['{"jsonrpc":"2.0","id":$ID,"method":"ping","params":{', -32700, '5'],
  'no JSON': ['hello', -32700, 'null'],
  'an empty batch': ['[]', -32600, 'null'],
  'a number': ['7', -32600, 'null'],
  'no method': ['{"jsonrpc":"2.0","id":$ID}', -32600, '5'],
  'a method that is a number': ['{"jsonrpc":"2.0","id":$ID,"method":7}', -32600, '5'],
  'an id that is an object': ['{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, 'null'],
  'a key in other letters': ['{"jsonrpc":"2.0","id":$ID,"method":"ping","Method":"tools/call"}', -32600, '5'],
  'a key that folds': ['{"jsonrpc":"2.0","id":$ID,"method":"tools/call","param\\u017f":{"name":"x"}}', -32600, '5'],
  'no params': ['{"jsonrpc":"2.0","id":$ID,"method":"tools/call"}', -32602, '5'],
  'params null': ['{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":null}', -32602, '5'],
  'params a list': ['{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":["plain",{}]}', -32602, '5'],
  'no name': ['{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"arguments":{}}}', -32602, '5'],
  'a name that is a number': ['{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":7}}', -32602, '5'],
  'a name that is a list': ['{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":["a"]}}', -32602, '5'],
  'an empty name': ['{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":""}}', -32602, '5'],
  'two names': ['{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"a","Name":"b"}}', -32602, '5'],
  'arguments as text': [
    '{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"a","arguments":"{\\"x\\":1}"}}',
    -32602,
    '5',
  ],
  'arguments as a list': [
    '{"jsonrpc":"2.0","id":$ID,"method":"tools/call","params":{"name":"a","arguments":[1]}}',
    -32602,
    '5',
  ],
  'a method with a blank': ['{"jsonrpc":"2.0","id":$ID,"method":"tools/call ","params":{"name":"a"}}', -32601, '5'],
  'a method in capitals': ['{"jsonrpc":"2.0","id":$ID,"method":"Tools/Call","params":{"name":"a"}}', -32601, '5'],
  'an unknown method of tools': ['{"jsonrpc":"2.0","id":$ID,"method":"tools/run","params":{"name":"a"}}', -32601, '5'],
};

let nextId = 100;
const filled = (template: string, id: string | number) => template.replaceAll('$ID', () => String(id));
const call = (id: string | number, name = 'odd', args = '{}') =>
  `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${name}","arguments":${args}}}`;

for (const transport of TRANSPORTS)
  t.test(`${transport}: what passes is the text that came`, async (t) => {
    const peers = await RawPeers.start(t, service, { agent: `texts ${transport}`, transport });
    const answersTo = async (answer: string, id: string | number) => {
      peers.answers({ odd: { text: answer } });
      return peers.ask(call(id));
    };

    for (const [name, template] of Object.entries(REQUESTS)) {
      const sent = filled(template, nextId++);
      const from = peers.reached().length;
      t.match(await peers.ask(sent), /"ok"/, name);
      t.same(peers.reached().slice(from), [sent], `to the server: ${name}`);
    }
    for (const id of IDS) {
      const sent = call(id, 'plain');
      const from = peers.reached().length;
      const got = await peers.ask(sent);
      t.equal(got, `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"ok"}]}}`);
      t.same(peers.reached().slice(from), [sent], `the id ${id}`);
    }
    for (const [name, template] of Object.entries(ANSWERS)) {
      const id = nextId++;
      t.equal(await answersTo(template, id), filled(template, id), `to the client: ${name}`);
    }
    for (const [asked, answered] of [
      ['51', '"51"'],
      ['"52"', '52'],
      ['53', '53.0'],
      ['9007199254740993', '9007199254740992'],
    ] as const)
      t.match(
        await answersTo(`{"jsonrpc":"2.0","id":${answered},"result":{"x":1.0}}`, asked),
        `{"jsonrpc":"2.0","id":${asked},"result":{"x":1.0}}`,
        `${answered} for ${asked} is its answer`,
      );
    for (const [name, template] of Object.entries(UNREADABLE)) {
      const id = nextId++;
      const got = JSON.parse(await answersTo(template, id));
      t.match(got, { id, error: { code: -32603 } }, `an error for ${name}`);
    }
    const reached = peers.reached().length;
    for (const [name, [template, code, id]] of Object.entries(REFUSED)) {
      const got = JSON.parse(await peers.ask(filled(template, 5)));
      t.match(got, { id: JSON.parse(id), error: { code } }, `refused: ${name}`);
    }
    t.equal(peers.reached().length, reached, 'none of it reached the server');
  });

for (const transport of ['command', 'http'] as const)
  t.test(`${transport}: numbers keep their digits at every place, in the record as well`, async (t) => {
    const peers = await RawPeers.start(t, service, { agent: `numbers ${transport}`, transport });
    const payloads: string[] = [];
    for (const [place, at] of Object.entries(PLACES))
      for (const number of NUMBERS) {
        const id = nextId++;
        const value = at(number);
        const answer = `{"jsonrpc":"2.0","id":${id},"result":{"content":[],"structuredContent":${value}}}`;
        const sent = `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"odd","arguments":${value},"_meta":${value}}}`;
        peers.answers({ odd: { text: answer } });
        const from = peers.reached().length;
        t.equal(await peers.ask(sent), answer, `${place} ${number}`);
        t.same(peers.reached().slice(from), [sent], `to the server: ${place} ${number}`);
        payloads.push(value);
      }
    const [agent] = (await api.get(`/v1/agents?name=${encodeURIComponent(peers.agent)}`)).json.items;
    const { text } = await api.until(
      () => api.get(`/v1/agents/${agent.id}/events?limit=200`),
      ({ json }) => json.total >= 2 * payloads.length,
    );
    const plain = text.replace(/\s/g, '');
    for (const value of payloads.map((payload) => payload.replace(/\s/g, ''))) {
      t.ok(plain.includes(`"arguments":${value}`), `recorded: ${value}`);
      t.ok(plain.includes(`"_meta":${value}`), `recorded in params: ${value}`);
      t.ok(plain.includes(`"structuredContent":${value}`), `recorded in results: ${value}`);
    }
  });

t.test(
  'what the server says without being asked, and what the client answers to that, pass as they came',
  async (t) => {
    const peers = await RawPeers.start(t, service, { agent: 'unasked' });
    const before = [
      '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1.0,"total":9007199254740993}}',
      '{"method":"notifications/tools/list_changed"}',
      '{"jsonrpc":"2.0","id":9007199254740993,"method":"sampling/createMessage","params":{"maxTokens":1e2}}',
      '[{"jsonrpc":"2.0","method":"notifications/message","params":{"n":-0}}]',
    ];
    peers.answers({ odd: { before } });
    peers.send(call(1));
    await peers.got('"ok"');
    t.same(peers.lines.slice(0, before.length), before);
    for (const answer of [
      '{"jsonrpc":"2.0","id":9007199254740993,"result":{"n":1.0}}',
      '{"id":"s1","error":{"code":1e0,"message":"x"}}',
      '{"jsonrpc":"2.0","method":"notifications/initialized","params":null}',
      '{"jsonrpc":"2.0","method":"initialized"}',
    ]) {
      peers.send(answer);
      await peers.until(() => peers.reached().find((line) => line === answer), answer);
    }
  },
);

for (const transport of TRANSPORTS)
  t.test(`${transport}: a batch passes as one, without what is denied in it`, async (t) => {
    const peers = await RawPeers.start(t, service, { agent: `batches ${transport}`, transport });
    const both = '[{"jsonrpc":"2.0","id":1,"result":{"n":1.0}},{"jsonrpc":"2.0","id":2,"result":{"content":[]}}]';
    peers.answers({ ping: { text: both } });
    const sent = `[ {"jsonrpc":"2.0","id":1,"method":"ping"}, ${call(2)} ]`;
    t.equal(await peers.ask(sent), both);
    t.same(peers.reached(), [sent]);
    peers.answers({ ping: { text: '[{"jsonrpc":"2.0","id":3,"result":{}}]' } });
    const from = peers.lines.length;
    peers.send('[{"jsonrpc":"2.0","id":3,"method":"ping"},{"jsonrpc":"2.0","id":4,"method":"tools/call"}]');
    await peers.got('"id":3', from);
    await peers.got('"id":4', from);
    t.match(peers.lines.slice(from).join(), /"id":4,"error":\{"code":-32602/);
    t.equal(peers.reached().at(-1), '[{"jsonrpc":"2.0","id":3,"method":"ping"}]');
  });

t.test('of a key that stands twice the last is judged, recorded and passed on, and no other', async (t) => {
  const peers = await RawPeers.start(t, service, { agent: 'twice' });
  const answer = '{"jsonrpc":"2.0","id":1,"result":{"a":1},"result":{"content":[],"x":{"b":1,"b":2.0,"\\u0062":3.0}}}';
  peers.answers({ odd: { text: answer } });
  const got = await peers.ask(
    '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"safe","arguments":{"a":1},"name":"odd","arguments":{"a":2.0}}}',
  );
  t.equal(got, '{"jsonrpc":"2.0","id":1,"result":{"content":[],"x":{"\\u0062":3.0}}}');
  t.same(peers.reached(), [
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"odd","arguments":{"a":2.0}}}',
  ]);
});

t.test('lines of other kinds between the messages, ends of lines of another kind', async (t) => {
  const peers = await RawPeers.start(t, service, { agent: 'noise' });
  const before = ['started', '', '{"level":"info","id":1}', '{"level":"info","id":1', '  ', '42', '[]', '"1"'];
  peers.answers({
    odd: { before, text: '{"jsonrpc":"2.0","id":$ID,"result":{"s":"\u00fc\u20ac\ud83d\ude42\u2028"}}\r' },
  });
  t.equal(await peers.ask(`${call(1)}\r`), '{"jsonrpc":"2.0","id":1,"result":{"s":"\u00fc\u20ac\ud83d\ude42\u2028"}}');
  t.equal(peers.lines.length, 1);
  for (const part of `\n \n${call(2)}\n`) peers.child.stdin!.write(part);
  t.match(await peers.got('"id":2'), 'result');
});

t.test('a line that is too large is answered with its id, and what follows passes', async (t) => {
  const peers = await RawPeers.start(t, service, { agent: 'too large' });
  const large = 'x'.repeat(33 * 1024 * 1024);
  t.match(JSON.parse(await peers.ask(call(1, 'odd', `{"x":"${large}"}`))), { id: 1, error: { code: -32600 } });
  t.match(JSON.parse(await peers.ask(`{"params":{"x":"${large}"},"method":"x","id":"z"}`)), { id: 'z', error: {} });
  t.same(peers.reached(), []);
  t.match(await peers.ask(call(2)), /"ok"/);
});

t.test('many at once: 60 calls, and a list of 300 tools', async (t) => {
  const peers = await RawPeers.start(t, service, { agent: 'many', args: ['--timeout', '60'] });
  const list = Array.from({ length: 300 }, (_, i) => `{"name":"t${i}","inputSchema":{"type":"object"}}`);
  peers.answers({ 'tools/list': { text: `{"jsonrpc":"2.0","id":$ID,"result":{"tools":[${list.join(',')}]}}` } });
  for (let i = 0; i < 60; i++) peers.send(call(i, 'plain'));
  await peers.until(() => (peers.lines.length === 60 ? true : undefined), '60 answers');
  t.equal(new Set(peers.lines.map((line) => JSON.parse(line).id)).size, 60);
  t.equal(JSON.parse(await peers.ask('{"id":"l","method":"tools/list"}')).result.tools.length, 300);
});

/** HTTP+SSE, of the revision 2024-11-05: a stream names where to post, and carries the answers. */
async function olderServer(t: Test): Promise<{ url: string; got: string[] }> {
  const got: string[] = [];
  let stream: http.ServerResponse | undefined;
  const server = http.createServer(async (request, response) => {
    if (request.method === 'GET' && request.url === '/sse') {
      stream = response;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('event: endpoint\ndata: /messages?session=s1\n\n');
      return;
    }
    if (request.method !== 'POST' || request.url !== '/messages?session=s1') return response.writeHead(405).end();
    let text = '';
    for await (const chunk of request.setEncoding('utf8')) text += chunk;
    got.push(text);
    response.writeHead(202).end('Accepted');
    const id = /"id":([^,]*)/.exec(text)?.[1];
    const result = text.includes('tools/list') ? '{"tools":[null,{"name":"a","n":1.0}]}' : '{"n":9007199254740993}';
    if (id !== undefined) stream!.write(`event: message\ndata: {"jsonrpc":"2.0","id":${id},"result":${result}}\n\n`);
  });
  return { url: `http://127.0.0.1:${await listening(t, server)}/sse`, got };
}

const INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}';

t.test('a server of 2024-11-05, for a client on standard input and output', async (t) => {
  const { url, got } = await olderServer(t);
  const peers = await RawPeers.start(t, service, { agent: 'older', transport: 'address', upstream: url });
  t.match(await peers.ask(INITIALIZE), /"n":9007199254740993/);
  const initialized = '{"jsonrpc":"2.0","method":"notifications/initialized"}';
  peers.send(initialized);
  t.equal(
    await peers.ask('{"jsonrpc":"2.0","id":2,"method":"tools/list"}'),
    '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a","n":1.0}]}}',
  );
  t.match(await peers.ask(call('"x"')), /^\{"jsonrpc":"2.0","id":"x","result":\{"n":9007199254740993\}\}$/);
  t.match(await peers.ask('{"jsonrpc":"2.0","id":3,"method":"tools/call"}'), /-32602/);
  t.same(got, [INITIALIZE, initialized, '{"jsonrpc":"2.0","id":2,"method":"tools/list"}', call('"x"')]);
});

t.test('a server of 2024-11-05, for a client that speaks HTTP+SSE', async (t) => {
  const { url, got } = await olderServer(t);
  const peers = await RawPeers.start(t, service, { agent: 'older http', transport: 'http', upstream: url });
  const at = new URL('/sse', peers.url);
  const events: string[] = [];
  const response = await fetch(at);
  void (async () => {
    const texts = response.body!.pipeThrough(new TextDecoderStream() as never) as unknown as AsyncIterable<string>;
    for await (const text of texts) events.push(text);
  })().catch(() => undefined);
  const come = (part: string) => peers.until(() => (events.join('').includes(part) ? true : undefined), part);
  await come('event: endpoint\ndata: /messages?session=s1\n\n');
  const post = async (body: string, path = '/messages?session=s1') =>
    (await fetch(new URL(path, at), { method: 'POST', body })).status;
  t.equal(await post(INITIALIZE), 202);
  await come('data: {"jsonrpc":"2.0","id":1,"result":{"n":9007199254740993}}\n\n');
  t.equal(await post('{"jsonrpc":"2.0","id":2,"method":"tools/list"}'), 202);
  await come('data: {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a","n":1.0}]}}\n\n');
  t.equal(await post('{"jsonrpc":"2.0","id":3,"method":"tools/call"}'), 202);
  await come('"id":3,"error":{"code":-32602');
  t.equal(await post(call(4), '/messages?session=s2'), 404, 'an address that no stream has named');
  t.same(got.length, 2, 'what is denied did not reach the server');
});

t.test('a server at an address that is neither says so', async (t) => {
  const peers = await RawPeers.start(t, service, { agent: 'neither', transport: 'address' });
  peers.answers({ initialize: { status: 405, text: 'Method Not Allowed', type: 'text/plain' } });
  t.match(JSON.parse(await peers.ask(INITIALIZE)), { id: 1, error: { message: /405.*Method Not Allowed/ } });
  peers.answers({
    initialize: { status: 404, text: '', type: 'text/plain' },
    GET: { events: ['event: endpoint\ndata: http://127.0.0.1:9/elsewhere\n\n'] },
  });
  t.match(
    JSON.parse(await peers.ask(INITIALIZE)),
    { id: 1, error: { message: /404/ } },
    'nor one that leads elsewhere',
  );
});
