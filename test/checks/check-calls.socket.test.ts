// Checks are asked: real servers by https, each written from the public description of its format, and servers that
// behave badly in every way. Bounds are wide for slow machines; what only a deadline can end is cut off by it.
import { type AddressInfo, createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import type { Speaks } from '../../schemas/closed-sets.ts';
import type { CheckRecord } from '../../schemas/external-check.ts';
import { type CheckAnswer, CheckCalls } from '../../src/checks/check-calls.ts';
import type { CheckQuestion } from '../../src/checks/formats/format.ts';
import { GuardedHttps } from '../../src/egress/guarded-https.ts';
import { createLog } from '../../src/process/log.ts';
import type { Receiver } from '../support/https-receiver.ts';
import { BAD_JUDGES, startJudges } from '../support/judge-servers.ts';
import { OwnTime } from '../support/own-time.ts';
import { pause } from '../support/raw-http.ts';

const LOCALHOST = new Set(['localhost']);
const MARGIN_MS = 2_000;

function question(texts: readonly string[], more: Partial<CheckQuestion> = {}): CheckQuestion {
  return {
    texts,
    policy: { id: 'pol_1', name: 'no evil' },
    event: { type: 'prompt', agentId: 'agt_1', traceId: 'run', timestamp: '2026-11-20T17:28:00.000Z' },
    payloadText: undefined,
    ...more,
  };
}

function checkOf(url: string, more: Partial<CheckRecord> = {}): CheckRecord {
  return {
    ...{ id: 'chk_1', name: 'guard', agent_id: null, speaks: 'gatehouse' as Speaks, url, secret: null },
    ...{ timeout_ms: 5_000, at_once: 32, created_at: '', updated_at: '' },
    ...more,
  };
}

function callsTo(receiver: Receiver, parts: Partial<ConstructorParameters<typeof CheckCalls>[0]> = {}) {
  const counted: string[] = [];
  const breakers: [account: string, id: string, isOpen: boolean][] = [];
  const calls = new CheckCalls({
    https: new GuardedHttps({ allowedHosts: LOCALHOST, ca: receiver.ca }),
    log: createLog({ level: 'silent', processName: 'test' }),
    onCall: (_check, result) => counted.push(result),
    onBreaker: ({ account, id }, isOpen) => breakers.push([account, id, isOpen]),
    ...parts,
  });
  return { calls, counted, breakers };
}

const FORMATS: [Speaks, path: string, more: Partial<CheckRecord>, found: object, clean: object][] = [
  ['gatehouse', 'own', {}, { match: true, score: 1, labels: ['evil'] }, { match: false, score: 0, labels: [] }],
  [
    'presidio',
    'presidio/analyze',
    { language: 'en' },
    { match: true, score: 0.85, labels: ['EVIL'] },
    { match: false },
  ],
  ['litellm_guardrail', 'litellm/beta', {}, { match: true, score: null, labels: ['blocked'] }, { match: false }],
  ['openai_moderation', 'moderation/v1', {}, { match: true, score: 0.97, labels: ['violence'] }, { score: 0.02 }],
  ['openai_chat', 'chat/v1', { model: 'm', secret: 'hush' }, { match: true, labels: ['S1', 'S9'] }, { match: false }],
  [
    'openai_chat',
    'chat/v1',
    { model: 'm', prompt: 'Judge.', secret: 'hush' },
    { match: true, score: 0.9 },
    { score: 0.1 },
  ],
];

t.test('each format, by a server that was written from its description', async (t) => {
  const judges = await startJudges(t);
  const { calls, counted } = callsTo(judges);
  for (const [speaks, path, more, found, clean] of FORMATS) {
    const check = checkOf(`${judges.url}/${path}`, { speaks, ...more });
    const [evil, good, two] = [
      ...(await calls.ask('acc', check, [question(['an evil plan'])])),
      ...(await calls.ask('acc', check, [question(['a good plan'])])),
      ...(await calls.ask('acc', check, [question(['a good plan', 'and an evil "one"\n\u{1f600}'])])),
    ];
    t.match(evil, { verdict: found }, `${speaks} finds`);
    t.match(good, { verdict: clean }, `${speaks} finds nothing`);
    t.match(two, { verdict: found }, `${speaks} with two texts`);
  }
  t.same(new Set(counted), new Set(['answered']));
  const secrets = judges.received.map(({ headers, path }) => [path.split('/')[1], headers.authorization]);
  t.same(new Set(secrets.filter(([path]) => path !== 'chat').map(([, secret]) => secret)), new Set([undefined]));
});

t.test('what our own form sends, token by token', async (t) => {
  const judges = await startJudges(t);
  const { calls } = callsTo(judges);
  const payloadText = '{"n": 1.0, "big": 12345678901234567890}';
  await calls.ask('acc', checkOf(`${judges.url}/own`), [question(['x'], { payloadText })]);
  t.equal(
    judges.received[0]!.body,
    `{"event":{"type":"prompt","agent_id":"agt_1","trace_id":"run","timestamp":"2026-11-20T17:28:00.000Z","payload":${payloadText}},"policy":{"id":"pol_1","name":"no evil"},"texts":["x"]}`,
  );
});

t.test('places of what was found are in our texts, whatever the characters before them', async (t) => {
  const judges = await startJudges(t);
  const { calls } = callsTo(judges);
  const texts = ['a good plan', '\u{1f600}é an evil plan'];
  for (const [speaks, path, label, score] of [
    ['gatehouse', 'own', 'evil', null],
    ['presidio', 'presidio/analyze', 'EVIL', 0.85],
  ] as const) {
    const [answer] = await calls.ask('acc', checkOf(`${judges.url}/${path}`, { speaks }), [question(texts)]);
    t.match(answer, { verdict: { spans: [{ text: 1, start: 7, end: 11, label, score }] } }, speaks);
  }
});

t.test('places that do not fit make an answer an error', async (t) => {
  let said: unknown;
  const judges = await startJudges(t, { said: (_request, response) => void response.end(JSON.stringify(said)) });
  const { calls } = callsTo(judges);
  const texts = ['\u{1f600}b', 'c'];
  let asked = 0;
  const answerTo = async (speaks: Speaks, answer: unknown, of = texts) => {
    said = answer;
    // Each has a breaker of its own.
    const check = checkOf(`${judges.url}/said`, { id: `chk_${asked++}`, speaks });
    const [one] = await calls.ask('acc', check, [question(of)]);
    return 'verdict' in one! ? one.verdict.spans.map(({ text, start, end }) => [text, start, end]) : one!.failure;
  };
  const own = (...spans: unknown[]) => answerTo('gatehouse', { match: true, spans });
  t.same(await own(), []);
  t.same(await own({ text: 0, start: 0, end: 2 }, { text: 0, start: 1, end: 2 }, { text: 1, start: 0, end: 1 }), [
    ...[
      [0, 0, 3],
      [0, 2, 3],
      [1, 0, 1],
    ],
  ]);
  t.same(
    await answerTo('gatehouse', { match: true, spans: [{ start: 0, end: 1 }] }, ['c']),
    [[0, 0, 1]],
    'of one text',
  );
  for (const span of [
    { text: 0, start: 0, end: 3 }, // what UTF-16 counts
    { text: 0, start: 4, end: 5 }, // what bytes are
    { text: 0, start: 1, end: 1 },
    { text: 0, start: 2, end: 1 },
    { text: 0, start: -1, end: 1 },
    { text: 0, start: 0.5, end: 1 },
    { text: 0, start: '0', end: 1 },
    { text: 0, start: 0 },
    { text: 2, start: 0, end: 1 },
    { start: 0, end: 1 }, // of which text?
    { text: 1, start: 0, end: 1, label: 7 },
    { text: 1, start: 0, end: 1, score: 2 },
    'b',
  ])
    t.equal(await own(span), 'error', JSON.stringify(span));
  t.equal(await answerTo('gatehouse', { match: true, spans: {} }), 'error');
  const presidio = (...places: object[]) =>
    answerTo(
      'presidio',
      places.map((place) => ({ entity_type: 'X', score: 0.5, ...place })),
    );
  const both = [
    [0, 2, 3],
    [1, 0, 1],
  ];
  t.same(await presidio({ start: 1, end: 5 }), both, 'what is found over several texts is in each');
  t.same(await presidio({ start: 2, end: 4 }), [], 'between them is nothing');
  t.same(await presidio({}), [], 'nor where it does not say where');
  for (const place of [{ start: 0, end: 6 }, { start: 3 }, { start: 5, end: 6 }])
    t.equal(await presidio(place), 'error', JSON.stringify(place));
  t.same(await answerTo('openai_chat', { choices: [{ message: { content: '{"match":true,"spans":[7]}' } }] }), []);
});

t.test('what LiteLLM would change is a match, and what a moderation leaves out is an error', async (t) => {
  const judges = await startJudges(t, { short: (_request, response) => void response.end('{"results":[]}') });
  const { calls } = callsTo(judges);
  const [changed] = await calls.ask('acc', checkOf(`${judges.url}/litellm`, { speaks: 'litellm_guardrail' }), [
    question(['change']),
  ]);
  t.match(changed, { verdict: { match: true, labels: ['intervened'] } });
  const [short] = await calls.ask('acc', checkOf(`${judges.url}/short`, { speaks: 'openai_moderation' }), [
    question(['x']),
  ]);
  t.match(short, { failure: 'error' });
});

const timed = async (ask: Promise<CheckAnswer[]>): Promise<[CheckAnswer, number]> => {
  const startMs = performance.now();
  const [answer] = await ask;
  return [answer!, performance.now() - startMs];
};

t.test('whatever a service does, an answer comes and is no verdict', async (t) => {
  const judges = await startJudges(t, BAD_JUDGES);
  const { calls, counted } = callsTo(judges);
  for (const name of Object.keys(BAD_JUDGES)) {
    const isLate = name === 'silent' || name === 'drips';
    for (const speaks of ['gatehouse', 'presidio'] as const) {
      const more = { id: `chk_${name}`, speaks, timeout_ms: isLate ? 300 : 5_000 };
      const [answer] = await calls.ask('acc', checkOf(`${judges.url}/${name}`, more), [question(['x'])]);
      t.match(answer, { failure: isLate ? 'timeout' : 'error' }, name);
    }
  }
  t.equal(counted.length, 2 * Object.keys(BAD_JUDGES).length, 'each once');
  t.equal(judges.received.length, counted.length, 'and asked once: no second try, no redirect followed');
});

const LIMIT_MS = 60;
const OVER_MS_MAX = 20;
const EVENTS = 20;

/** Takes connections, and says nothing: not even TLS begins. */
async function mutePort(t: Test): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => void sockets.add(socket.on('error', () => undefined)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

t.test(`each of ${EVENTS} answers comes at most ${OVER_MS_MAX} ms behind the limit, whatever fails`, async (t) => {
  const judges = await startJudges(t, BAD_JUDGES);
  const hanging = () => new Promise<string[]>(() => undefined);
  const usual = callsTo(judges).calls;
  const nameless = callsTo(judges, { https: new GuardedHttps({ allowedHosts: new Set(), resolve: hanging }) }).calls;
  const ways: (readonly [name: string, calls: CheckCalls, url: string])[] = [
    ...Object.keys(BAD_JUDGES).map((name) => [name, usual, `${judges.url}/${name}`] as const),
    ['no TLS', usual, `https://localhost:${await mutePort(t)}/`],
    ['no name', nameless, 'https://slow.example.com/'],
  ];
  for (const [name, calls, url] of ways) {
    const latest: number[] = [];
    for (let i = 0; i < EVENTS; i++) {
      const own = new OwnTime();
      // Each has a breaker of its own.
      const check = checkOf(url, { id: `chk_${name}_${i}`, timeout_ms: LIMIT_MS });
      t.ok('failure' in (await calls.ask('acc', check, [question(['x'])]))[0]!, name);
      latest.push(own.stop());
    }
    const lastMs = Math.max(...latest);
    t.ok(lastMs <= LIMIT_MS + OVER_MS_MAX, `${name}: ${lastMs} ms at most`);
  }
});

t.test('a name server that says nothing is within the same deadline; a private address is not asked', async (t) => {
  const judges = await startJudges(t);
  const hanging = () => new Promise<string[]>(() => undefined);
  const { calls } = callsTo(judges, { https: new GuardedHttps({ allowedHosts: new Set(), resolve: hanging }) });
  const [answer, ms] = await timed(
    calls.ask('acc', checkOf('https://slow.example.com/', { timeout_ms: 100 }), [question(['x'])]),
  );
  t.match(answer, { failure: 'timeout' });
  t.ok(ms < 100 + MARGIN_MS, `${Math.round(ms)} ms`);
  const inside = async () => ['169.254.169.254'];
  const guarded = callsTo(judges, { https: new GuardedHttps({ allowedHosts: new Set(), resolve: inside }) });
  const [refused] = await guarded.calls.ask('acc', checkOf('https://rebound.example.com/'), [question(['x'])]);
  t.match(refused, { failure: 'error' });
});

const CALLED_AGAIN_MS = 20;
const IDLE_MS_MAX = 5_000;

t.test('calls of a check share a connection, and after idleness it is closed', async (t) => {
  let asked = 0;
  let ended = 0;
  const seen = new Set<object>();
  const closed = () => void ended++;
  const judges = await startJudges(t, {
    counted(_request, response, { socket }) {
      if (!seen.has(socket)) socket.on('close', closed);
      seen.add(socket);
      asked++;
      response.end('{"match":false}');
    },
  });
  const { calls } = callsTo(judges);
  const check = checkOf(`${judges.url}/counted`);
  for (let i = 0; i < 10; i++)
    t.match(await calls.ask('acc', check, [question(['x'])]), [{ verdict: { match: false } }]);
  t.same([asked, judges.connections()], [10, 1]);
  await Promise.all(Array.from({ length: 6 }, () => calls.ask('acc', check, [question(['x'])])));
  t.ok(judges.connections() <= 6, `${judges.connections()} for six at once`);
  const others = checkOf(`${judges.url}/own`, { id: 'chk_other' });
  const before = judges.connections();
  await calls.ask('acc', others, [question(['x'])]);
  t.equal(judges.connections(), before + 1, 'another check has its own');
  const startMs = performance.now();
  while (ended < judges.connections() - 1 && performance.now() - startMs < IDLE_MS_MAX) await pause(CALLED_AGAIN_MS);
  t.equal(ended, judges.connections() - 1, 'all are closed');
});

t.test('a connection that the service ends, or sends on unasked, is not asked on again', async (t) => {
  const judges = await startJudges(t, {
    leaves: (_request, response, { socket }) => void response.end('{"match":false}', () => socket.end()),
    chatters(_request, response, { socket }) {
      const late = 'HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{"match":false}';
      response.end('{"match":true}', () => setTimeout(() => socket.write(late), CALLED_AGAIN_MS));
    },
  });
  const { calls } = callsTo(judges);
  for (const [path, match] of [
    ['leaves', false],
    ['chatters', true],
  ] as const) {
    const before = judges.connections();
    const check = checkOf(`${judges.url}/${path}`, { id: `chk_${path}` });
    for (let i = 0; i < 3; i++) {
      t.match(await calls.ask('acc', check, [question(['x'])]), [{ verdict: { match } }], path);
      await pause(10 * CALLED_AGAIN_MS);
    }
    t.equal(judges.connections(), before + 3, path);
  }
});

t.test('each new connection is held to the rules anew', async (t) => {
  const judges = await startJudges(t);
  const { calls } = callsTo(judges, {
    https: new GuardedHttps({ allowedHosts: new Set([`localhost:${judges.port}`]), ca: judges.ca }),
  });
  const check = checkOf(`${judges.url}/own`);
  t.match(await calls.ask('acc', check, [question(['x'])]), [{ verdict: { match: false } }]);
  const private_ = { ...check, url: `https://127.0.0.1:${judges.port}/own` };
  t.match(
    await calls.ask('acc', private_, [question(['x'])]),
    [{ failure: 'error' }],
    'the kept one is of another address',
  );
  t.equal(judges.connections(), 1);
});

/** Answers when the test lets it. */
async function heldJudges(t: Test) {
  const held: (() => void)[] = [];
  const judges = await startJudges(t, {
    held: (_request, response) => void held.push(() => response.end('{"match":false}')),
  });
  const until = async (count: number) => {
    while (held.length < count) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  return { judges, held, until };
}

t.test('what finds no room is answered at once, and nothing waits', async (t) => {
  const { judges, held, until } = await heldJudges(t);
  const { calls } = callsTo(judges);
  const check = checkOf(`${judges.url}/held`, { at_once: 2, timeout_ms: 5_000 });
  const first = [calls.ask('acc', check, [question(['a'])]), calls.ask('acc', check, [question(['b'])])];
  await until(2);
  const [answer, ms] = await timed(calls.ask('acc', check, [question(['c'])]));
  t.match(answer, { failure: 'overload' });
  t.ok(ms < 500, `${Math.round(ms)} ms`);
  for (const answered of held) answered();
  t.match(await Promise.all(first), [[{ verdict: { match: false } }], [{ verdict: { match: false } }]]);
  const again = calls.ask('acc', check, [question(['d'])]);
  await until(3);
  held[2]!();
  t.match(await again, [{ verdict: { match: false } }], 'the room is free again');
});

t.test('what is asked after the reply leaves room to what a reply waits for', async (t) => {
  const { judges, held, until } = await heldJudges(t);
  const { calls } = callsTo(judges);
  const check = checkOf(`${judges.url}/held`, { at_once: 4, timeout_ms: 5_000 });
  const watched = Array.from({ length: 4 }, () => calls.ask('acc', check, [question(['w'])], { isWatched: true }));
  await until(2);
  const waitedFor = [calls.ask('acc', check, [question(['a'])]), calls.ask('acc', check, [question(['b'])])];
  await until(4);
  for (const answered of held) answered();
  t.equal((await Promise.all(watched)).filter(([answer]) => 'failure' in answer!).length, 2);
  t.match(await Promise.all(waitedFor), [[{ verdict: { match: false } }], [{ verdict: { match: false } }]]);
});

t.test('a batch asks for all, at most half of the room at a time', async (t) => {
  let now = 0;
  let most = 0;
  const judges = await startJudges(t, {
    slow: (_request, response) => {
      now++;
      most = Math.max(most, now);
      setTimeout(() => {
        now--;
        response.end('{"match":true}');
      }, 20);
    },
  });
  const { calls } = callsTo(judges);
  const questions = Array.from({ length: 20 }, (_, i) => question([`${i}`]));
  const answers = await calls.ask('acc', checkOf(`${judges.url}/slow`, { at_once: 8, timeout_ms: 5_000 }), questions);
  t.ok(answers.every((answer) => 'verdict' in answer));
  t.equal(judges.received.length, 20);
  t.equal(most, 4);
});

t.test('calls that could not end within 7 s do not begin', async (t) => {
  const clock = { ms: 0 };
  const judges = await startJudges(t, {
    late: (_request, response) => {
      clock.ms += 1_500;
      response.end('{"match":true}');
    },
  });
  const { calls } = callsTo(judges, { now: () => clock.ms });
  const questions = Array.from({ length: 5 }, (_, i) => question([`${i}`]));
  const answers = await calls.ask('acc', checkOf(`${judges.url}/late`, { at_once: 2, timeout_ms: 5_000 }), questions);
  t.same(
    answers.map((answer) => ('failure' in answer ? answer.failure : 'answered')),
    ['answered', 'answered', 'overload', 'overload', 'overload'],
  );
});

t.test('more than 64 KiB is not sent, and not cut', async (t) => {
  const judges = await startJudges(t);
  const { calls } = callsTo(judges);
  const [answer] = await calls.ask('acc', checkOf(`${judges.url}/own`), [question(['x'.repeat(70_000)])]);
  t.match(answer, { failure: 'too_large' });
  t.equal(judges.received.length, 0);
});

t.test('a dead service is soon asked no more, and another is not concerned', async (t) => {
  const judges = await startJudges(t, BAD_JUDGES);
  const { calls, breakers, counted } = callsTo(judges);
  const dead = checkOf(`${judges.url}/failing`, { id: 'chk_dead' });
  for (let i = 0; i < 20; i++) await calls.ask('acc', dead, [question(['x'])]);
  t.same(breakers, [['acc', 'chk_dead', true]]);
  const asked = judges.received.length;
  for (let i = 0; i < 50; i++) t.match(await calls.ask('acc', dead, [question(['x'])]), [{ failure: 'overload' }]);
  t.equal(judges.received.length, asked);
  t.match(await calls.ask('acc', checkOf(`${judges.url}/own`), [question(['x'])]), [{ verdict: { match: false } }]);
  t.equal(counted.filter((result) => result === 'overload').length, 50);
});
