// The HTTP server over raw sockets: framing, heads, bodies, pipelining, damage of any kind, clients that idle or drip.
import { spawn } from 'node:child_process';
import tap from 'tap';
import { BodyBudget } from '../../src/http/reading/read-body.ts';
import {
  get,
  KEYS,
  method,
  onEach,
  post,
  refusedAndLast,
  startServer,
  until,
  waiting,
} from '../support/front-server.ts';
import { pause, RawConnection, rawExchange } from '../support/raw-http.ts';
import { randomFrom, SEED } from '../support/seed.ts';

/** Requests with random damage; 100,000 were run once by hand. */
const FUZZED = 2_000;

onEach(
  'framing that can be read in two ways is refused, the connection closed, and nothing behind it executed',
  async (t, on) => {
    const { port } = await startServer(t, { on });
    const smuggled = get('/open');
    const head = `POST /things HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEYS.write}\r\n`;
    const refused: [string, string][] = [
      [
        'two lengths that differ',
        `${head}Content-Length: 2\r\nContent-Length: ${2 + smuggled.length}\r\n\r\n{}${smuggled}`,
      ],
      ['two lengths that agree', `${head}Content-Length: 2\r\ncontent-length: 2\r\n\r\n{}${smuggled}`],
      ['a list of lengths', `${head}Content-Length: 2, 2\r\n\r\n{}${smuggled}`],
      ['a length with a sign', `${head}Content-Length: +2\r\n\r\n{}${smuggled}`],
      ['a negative length', `${head}Content-Length: -2\r\n\r\n{}${smuggled}`],
      ['a hexadecimal length', `${head}Content-Length: 0x2\r\n\r\n{}${smuggled}`],
      ['an empty length', `${head}Content-Length: \r\n\r\n${smuggled}`],
      ['an enormous length', `${head}Content-Length: 99999999999999999999\r\n\r\n{}${smuggled}`],
      ['two hosts', `${head}Host: b\r\nContent-Length: 2\r\n\r\n{}${smuggled}`],
      ['two keys', `${head}Authorization: Bearer ${KEYS.admin}\r\nContent-Length: 2\r\n\r\n{}${smuggled}`],
      [
        'two content types',
        `${head}Content-Type: application/json\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}${smuggled}`,
      ],
      [
        'two idempotency keys',
        `${head}Idempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 2\r\n\r\n{}${smuggled}`,
      ],
      [
        'two lengths on an unknown path',
        `GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 9\r\n\r\n${smuggled}`,
      ],
      [
        'two lengths and a wrong method',
        `PUT /things HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 9\r\n\r\n${smuggled}`,
      ],
      [
        'two lengths on HEAD',
        `HEAD /things HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 9\r\n\r\n${smuggled}`,
      ],
      ['HTTP/1.0', `POST /things HTTP/1.0\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}${smuggled}`],
    ];
    for (const [what, bytes] of refused) {
      const { answers, closed, text } = await rawExchange(port, [bytes], { answers: 2 });
      t.ok(closed, `${what}: closed`);
      // To HEAD nothing but headers may be said, and uWS would continue behind them: its connection is closed without a
      // word.
      const isHead = bytes.startsWith('HEAD');
      t.equal(answers.length, isHead ? 0 : 1, `${what}: one answer at most`);
      // HTTP/1.0 is served by the server of Node.js: this one has no key.
      if (!isHead)
        t.match(String(answers[0]?.status), on === 'node' && what === 'HTTP/1.0' ? '401' : /^(400|505)$/, what);
      t.notMatch(text, '"open"', `${what}: what follows is not executed`);
    }
  },
);

/** The chunked bodies that proxies and servers have read in two ways. Each is one request by the standard, or none. */
const CHUNKED = [
  '0\r\n\r\n',
  '2\r\n{}\r\n0\r\n\r\n',
  // Trailers, the second of them what is executed where they are not read.
  '2\r\n{}\r\n0\r\nA: b\r\n\r\n',
  '0\r\nA:GET /open HTTP/1.1\r\nHost: a\r\n\r\n',
  // Sizes with what is behind 9 in ASCII, with signs, blanks, an extension, too many digits, none.
  ...[':', ';', '<', '=', '>', '?', '@', '0x2', '+2', '-2', ' 2', '2 ', '2\t', '2;a=b', '2;"\r\n"', 'zz', ''].map(
    (size) => `${size}\r\n{}\r\n0\r\n\r\n`,
  ),
  'ffffffffffffffff1\r\n{}\r\n0\r\n\r\n',
  '00000000000000000000002\r\n{}\r\n0\r\n\r\n',
  // Ends of lines that are none.
  '2\n{}\r\n0\r\n\r\n',
  '2\r\n{}0\r\n\r\n',
  '2\r\n{}\n0\n\n',
  '2\r{}\r\n0\r\n\r\n',
];
const ENCODINGS = [
  ...['chunked', 'Chunked', '\tchunked ', 'xchunked', 'identity', 'gzip, chunked', 'chunked, chunked'],
  ...['chunked\r\nTransfer-Encoding: chunked', 'chunked\r\nTransfer-Encoding: identity', 'chunked;a=b', ''],
];

onEach('a Transfer-Encoding is refused before a chunk is read, and nothing behind it is executed', async (t, on) => {
  const { port } = await startServer(t, { on });
  const smuggled = get('/open');
  const head = `POST /things HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEYS.write}\r\n`;
  const heads = [
    ...ENCODINGS.map((encoding) => `${head}Transfer-Encoding: ${encoding}\r\n\r\n`),
    `${head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n`,
    `${head}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n`,
    `${head}tRANSFER-eNCODING: chunked\r\n\r\n`,
  ];
  const requests = [
    ...heads.map((one) => `${one}0\r\n\r\n${smuggled}`),
    ...CHUNKED.map((body) => `${heads[0]}${body}${smuggled}`),
  ];
  for (const bytes of requests) {
    const what = JSON.stringify(bytes.slice(head.length, -smuggled.length));
    const { answers, closed, text } = await rawExchange(port, [bytes], { answers: 2 });
    t.same([answers.length, closed], [1, true], `${what}: one answer, and closed`);
    // 400 and 501: a library says itself what it cannot read at all.
    t.match(String(answers[0]?.status), /^(411|400|501)$/, what);
    t.notMatch(text, '"open"', `${what}: what follows is not executed`);
    const inPieces = await rawExchange(port, [bytes.slice(0, -smuggled.length), 5, smuggled], { answers: 2 });
    t.notMatch(inPieces.text, '"open"', `${what}: nor in a packet of its own`);
  }
});

onEach('a head that uWebSockets.js cannot read, or that is too long, harms no other', async (t, on) => {
  const { port } = await startServer(t, { on });
  const big = `X-Big: ${'x'.repeat(64 * 1024)}\r\n`;
  const whole = await rawExchange(port, [get('/open', { headers: big }) + get('/open')], { answers: 2 });
  t.same([whole.answers.length, whole.answers[0]?.status, whole.closed], [1, 431, true], '64 KiB in one packet');
  const split = await rawExchange(port, [get('/open', { headers: big }).slice(0, 40_000), 20, big], { answers: 1 });
  t.match([split.answers[0]?.status, split.closed], [431, true], '64 KiB in several');
  t.equal(
    (await rawExchange(port, [get('/open', { headers: `X-Big: ${'x'.repeat(12_000)}\r\n` })])).answers[0]?.status,
    200,
    '12 KB are fine',
  );
  for (const garbage of [
    '\x16\x03\x01\x02\x00',
    '\r\n\r\n\r\n',
    'GARBAGE\r\n\r\n',
    `GET /open HTTP/1.1\r\nHost a\r\n\r\n`,
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'GET /open HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n',
  ]) {
    const connection = await RawConnection.open(port);
    connection.write(garbage);
    await pause(20);
    connection.destroy();
  }
  t.equal((await rawExchange(port, [get('/open')])).answers[0]?.status, 200, 'the server goes on');
});

onEach('no bytes whatsoever end the process, or are answered as a failure of ours', async (t, on) => {
  const { port } = await startServer(t, { on });
  const random = randomFrom(SEED);
  const sound = [
    get('/things?limit=5', { key: KEYS.read, headers: 'Accept: */*\r\nX-Request-Id: a\r\n' }),
    post('/things', '{"name":"a"}', { headers: 'Content-Type: application/json\r\nIdempotency-Key: k\r\n' }),
    `${post('/things/a/echo', '').replace('Content-Length: 0', 'Transfer-Encoding: chunked')}5\r\nabcde\r\n0\r\n\r\n`,
    method('HEAD', '/things', KEYS.read),
    method('DELETE', '/things/a', KEYS.write),
  ];
  const statuses = new Map<number, number>();
  const one = async () => {
    const connection = await RawConnection.open(port);
    connection.write(mutated(sound[Math.floor(random() * sound.length)]!, random));
    await connection.waitForClose(40).catch(() => undefined);
    for (const { status } of connection.answers) statuses.set(status, (statuses.get(status) ?? 0) + 1);
    connection.destroy();
  };
  for (let i = 0; i < FUZZED / 50; i++) await Promise.all(Array.from({ length: 50 }, one));
  t.comment(`seed ${SEED}: ${JSON.stringify([...statuses].sort())}`);
  t.same(
    [...statuses.keys()].filter((status) => status >= 500 && status !== 505),
    [],
    'uWS says 505 to what is no HTTP/1.1',
  );
  t.equal((await rawExchange(port, [get('/open')])).answers[0]?.status, 200);
});

onEach('bodies arrive whole, in any pieces, or not at all', async (t, on) => {
  const { port, server } = await startServer(t, { on });
  const body = JSON.stringify({ text: 'x'.repeat(50_000) });
  const inPieces = post('/things/a/echo', body)
    .match(/[\s\S]{1,7001}/g)!
    .flatMap((piece) => [piece, 3]);
  t.equal((await rawExchange(port, inPieces)).answers[0]?.body, body, 'in pieces');
  t.match(
    (await rawExchange(port, [post('/things', '')])).answers[0],
    { status: 400, body: /malformed_json/ },
    'an empty one is no JSON',
  );

  const cut = await RawConnection.open(port);
  cut.write(post('/things/a/echo', body).slice(0, 20_000));
  await pause(20);
  cut.destroy();
  await until(() => server.connections === 0);
  t.equal((await rawExchange(port, [get('/open')])).answers[0]?.status, 200, 'one that is cut off harms no other');
});

onEach('a body over its limit is refused as soon as that is known, and its client can read that', async (t, on) => {
  const { port } = await startServer(t, { on });
  const early = await rawExchange(port, [post('/things', '', { length: 3_000 })]);
  t.match(early.answers[0], refusedAndLast(413), 'at its Content-Length, before a byte of it');
  const exact = JSON.stringify({ name: 'n'.repeat(2_000 - '{"name":""}'.length) });
  t.equal((await rawExchange(port, [post('/things', exact)])).answers[0]?.status, 201, 'the limit itself fits');
  t.equal((await rawExchange(port, [post('/things', `${exact} `)])).answers[0]?.status, 413, 'one byte more does not');
  t.equal(
    (await rawExchange(port, [post('/things/a/echo', 'x'.repeat(100_000))])).answers[0]?.status,
    200,
    'events have their own limit',
  );
  const unread = await rawExchange(port, [post('/things', 'x'.repeat(5_000), { key: KEYS.read })]);
  t.match(unread.answers[0], refusedAndLast(403), 'an early answer to a large body asks to close, too');
});

onEach('unexpected bodies are dropped, and the next request is read in its place', async (t, on) => {
  const { port } = await startServer(t, { on });
  const withBody = get('/open', { headers: 'Content-Length: 5\r\n' });
  t.same(
    (await rawExchange(port, [`${withBody}abcde${get('/open')}`], { answers: 2 })).answers.map((a) => a.status),
    [200, 200],
  );
  const deleted = method('DELETE', '/things/a', KEYS.write).replace('\r\n\r\n', '\r\nContent-Length: 5\r\n\r\nabcde');
  t.same(
    (await rawExchange(port, [deleted, 20, get('/open')], { answers: 2 })).answers.map((a) => a.status),
    [204, 200],
  );
  const large = get('/things', { key: KEYS.read, headers: 'Content-Length: 5000\r\n' });
  t.match((await rawExchange(port, [large])).answers[0], refusedAndLast(413), 'a large one is refused');
  const missing = post('/nothing', 'x'.repeat(100));
  t.same(
    (await rawExchange(port, [missing, 20, get('/open')], { answers: 2 })).answers.map((a) => a.status),
    [404, 200],
    'on an unknown path as well',
  );
});

tap.test('bytes held for bodies are bounded over the whole process', async (t) => {
  const budget = new BodyBudget(10);
  t.ok(budget.take(6));
  t.notOk(budget.take(5));
  t.ok(budget.take(4));
  budget.give(10);
  t.equal(budget.held, 0);
});

tap.test('large bodies of one account leave room for those of others', async (t) => {
  const budget = new BodyBudget(100);
  for (let i = 0; i < 5; i++) t.ok(budget.take(10, 'a'), 'the first half is for any account');
  t.notOk(budget.take(10, 'a'), 'an account alone has a half of it');
  t.ok(budget.take(20, 'b'), 'another has room');
  t.notOk(budget.take(10, 'b'), 'up to its share among two');
  t.ok(budget.take(10, 'c'));
  t.ok(budget.take(15), 'small bodies take what is there');
  t.notOk(budget.take(15), 'and no more');
  budget.give(15);
  budget.give(50, 'a');
  t.ok(budget.take(10, 'b'), 'what is given back is free for others');
  budget.give(30, 'b');
  budget.give(10, 'c');
  t.equal(budget.held, 0);
  t.ok(budget.take(50, 'd') && !budget.take(1, 'd'), 'nothing is left of those that have gone');
});

onEach('a content type is JSON or refused', async (t, on) => {
  const { port } = await startServer(t, { on });
  const status = async (type: string) =>
    (await rawExchange(port, [post('/things', '{"name":"a"}', { headers: type })])).answers[0]?.status;
  for (const type of [
    '',
    'application/json',
    'Application/JSON',
    'application/json; charset=utf-8',
    'application/json;charset=ISO-8859-1',
    'application/json ; x="y"',
  ]) {
    t.equal(await status(type === '' ? '' : `Content-Type: ${type}\r\n`), 201, type);
  }
  for (const type of [
    'text/plain',
    'application/jsonx',
    'application/x-www-form-urlencoded',
    'application/json, text/plain',
    'json',
  ]) {
    t.equal(await status(`Content-Type: ${type}\r\n`), 415, type);
  }
  t.equal(await status('Content-Encoding: identity\r\n'), 201);
  for (const encoding of ['gzip', 'identity, gzip', 'br', 'identity\r\nContent-Encoding: gzip', 'x']) {
    t.equal(await status(`Content-Encoding: ${encoding}\r\n`), 415, `a body in ${encoding} is not taken for JSON`);
  }
});

onEach('an answer never goes to another request', async (t, on) => {
  const { port } = await startServer(t, { on });
  const three = [1, 2, 3].map((n) => get('/open', { headers: `X-Request-Id: r${n}\r\n` })).join('');
  const inOrder = await rawExchange(port, [three], { answers: 3 });
  t.same(
    inOrder.answers.map((answer) => answer.headers.get('x-request-id')),
    ['r1', 'r2', 'r3'],
    'answered at once: in order',
  );

  const mixed = [1, 2, 3].map((n) =>
    post('/fail/x', `{"how":"pipelined-${n}"}`, { headers: `X-Request-Id: r${n}\r\n` }),
  );
  const connection = await RawConnection.open(port);
  connection.write(mixed.join(''));
  if (on === 'uws') {
    await connection.waitForClose();
    t.equal(
      connection.answers.length,
      0,
      'must be waited for: the connection of a client that does not wait is closed',
    );
    t.notOk(waiting.has('pipelined-2'), 'and what came behind it is not executed');
    waiting.get('pipelined-1')?.resolve('{}');
  } else {
    await until(() => waiting.has('pipelined-3'));
    for (const n of [3, 2, 1]) waiting.get(`pipelined-${n}`)!.resolve(`{"n":${n}}`);
    const answers = await connection.waitForAnswers(3);
    const seen = answers.map(({ headers, body }) => `${headers.get('x-request-id')} ${body}`);
    t.same(seen, ['r1 {"n":1}', 'r2 {"n":2}', 'r3 {"n":3}'], 'must be waited for: in the order of the requests');
    connection.destroy();
  }
  waiting.clear();

  const slow = await RawConnection.open(port);
  for (let n = 1; n <= 50; n++) {
    slow.write(post('/things', `{"name":"n${n}"}`, { headers: `X-Request-Id: r${n}\r\n` }));
    await slow.waitForAnswers(n);
  }
  t.ok(
    slow.answers.every(
      (answer, i) => answer.body.includes(`"n${i + 1}"`) && answer.headers.get('x-request-id') === `r${i + 1}`,
    ),
    'one after another: each its own',
  );
  slow.destroy();
});

onEach('10,000 idle connections cost little and delay no other', async (t, on) => {
  const { port, server } = await startServer(t, { on });
  // A process of its own, since each end of a connection is a file descriptor.
  const script = `const net=require('node:net');let open=0,next=0;const go=()=>{if(next>=10000)return;next++;
    const s=net.connect(${port},'127.0.0.1',()=>{open++;go();if(open===10000)console.log('open')});s.on('error',()=>go())};
    for(let i=0;i<200;i++)go();process.stdin.resume();process.stdin.on('end',()=>process.exit(0))`;
  const before = process.memoryUsage().rss;
  const clients = spawn(process.execPath, ['-e', script], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.teardown(() => clients.stdin.end());
  // Who says nothing is released after ten seconds: so many are reached at once only by a machine that can open them in
  // that time.
  let reached = 0;
  const look = () => {
    reached = Math.max(reached, server.connections);
    return reached >= 10_000;
  };
  await until(look, 9_000).catch(() => undefined);
  t.comment(`${reached} connections, ${Math.round((process.memoryUsage().rss - before) / 1024 / 1024)} MiB`);
  t.ok(reached >= 1_000, `as many as file descriptors and the machine allow: ${reached}`);
  const used = process.cpuUsage();
  t.equal((await rawExchange(port, [get('/things', { key: KEYS.read })])).answers[0]?.status, 200);
  const { user, system } = process.cpuUsage(used);
  t.ok(user + system < 1_000_000, `served at once: ${(user + system) / 1_000} ms of CPU`);
});

onEach('a client that sends a byte a second is let go, and so is one that says nothing', async (t, on) => {
  const { port } = await startServer(t, { on });
  const dripping = await RawConnection.open(port);
  dripping.write(post('/things', '', { length: 1_000 }));
  const silent = await RawConnection.open(port);
  const deaf = await RawConnection.open(port);
  deaf.write(post('/things', '', { length: 1_000_000_000 }));
  const timer = setInterval(() => {
    dripping.write(' ');
    deaf.write(' '.repeat(30_000));
  }, 1_000);
  t.teardown(() => clearInterval(timer));
  await Promise.all([dripping, silent, deaf].map((connection) => connection.waitForClose()));
  t.match(deaf.answers, [{ status: 413 }], 'and one that goes on sending what was refused');
  t.equal(dripping.answers.length, 0);
  t.equal((await rawExchange(port, [get('/open')])).answers[0]?.status, 200);
});

/** One to six changes: bytes flipped, cut out, doubled, or words of the protocol put in. */
function mutated(text: string, random: () => number): string {
  const words = [
    '\r\n',
    '\r',
    '\n',
    ':',
    ' ',
    '\0',
    '\xff',
    '%',
    '0',
    '\r\nContent-Length: 3',
    '\r\nTransfer-Encoding: chunked',
    '\r\n\r\n',
    'HTTP/1.1',
    '9'.repeat(20),
    'x'.repeat(3_000),
  ];
  for (let changes = 1 + Math.floor(random() * 6); changes > 0; changes--) {
    const at = Math.floor(random() * text.length);
    const end = at + Math.floor(random() * 20);
    const kind = Math.floor(random() * 4);
    if (kind === 0) text = text.slice(0, at) + String.fromCharCode(Math.floor(random() * 256)) + text.slice(at + 1);
    else if (kind === 1) text = text.slice(0, at) + text.slice(end);
    else if (kind === 2) text = text.slice(0, end) + text.slice(at);
    else text = text.slice(0, at) + words[Math.floor(random() * words.length)]! + text.slice(at);
  }
  return text;
}

onEach('who says Connection: close and still sends a body reads why it is refused', async (t, on) => {
  const { port } = await startServer(t, { on });
  const asked: [path: string, key: string, status: number][] = [];
  for (let i = 0; i < 5; i++)
    asked.push(['/things', KEYS.write, 413], ['/nothing', KEYS.write, 404], ['/things', 'x'.repeat(40), 401]);
  // In a process of its own: where both ends take turns in one loop, all is sent before the server closes.
  const script = `const http=require('http');const body=Buffer.alloc(12e6,'x');const ask=(path,key)=>new Promise((done)=>{
    const headers={authorization:'Bearer '+key,'content-type':'application/json','content-length':body.length};
    http.request({port:${port},path,method:'POST',agent:false,headers},(answer)=>answer.resume().on('end',()=>
      done(answer.statusCode))).on('error',({code})=>done(code)).end(body)});
    (async()=>{const got=[];for(const [path,key] of ${JSON.stringify(asked)})got.push(await ask(path,key));
    console.log(JSON.stringify(got))})()`;
  const client = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  const answers = JSON.parse(Buffer.concat(await client.stdout.toArray()).toString());
  const expected = asked.map(([, , status]) => status);
  t.same(answers, expected);
});

onEach('who says Connection: close and stops sending is answered, and let go', async (t, on) => {
  const { port } = await startServer(t, { on });
  const connection = await RawConnection.open(port);
  connection.write(post('/nothing', 'x', { headers: 'Connection: close\r\n', length: 1_000 }));
  t.match(await connection.waitForAnswers(1), [{ status: 404 }]);
  await connection.waitForClose();
});
