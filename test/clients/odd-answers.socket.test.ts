// Both clients against servers that are away, hang, drip, talk nonsense, redirect or die in the middle: a guard never
// runs, fails by the client's own error and in its own time, the key goes nowhere else, and records are counted.
import PQueue from 'p-queue';
import t from 'tap';
import { Gatehouse } from '../../clients/typescript/src/index.ts';
import { answerOf, dripping, oddServer } from '../support/odd-server.ts';
import { runPython } from '../support/python.ts';
import { pause } from '../support/raw-http.ts';

const KEY = 'gth_not-to-be-seen-elsewhere';
const AGENT = 'agt_odd';
const TIMEOUT_MS = 1_000;
/** Asked at once. */
const AT_ONCE = 16;
/** Far from both the time-out and what the servers below would take. */
const SOON_MS = 15_000;

const victim = await oddServer(t, answerOf(200, '{"policy_result":{"outcome":"allowed","matches":[]},"id":"evt_x"}'));
const event = (outcome: unknown) => JSON.stringify({ id: 'evt_x', policy_result: { outcome, matches: [] } });
const asking = (waitText: string) => answerOf(503, '', [`retry-after: ${waitText}`]);
const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n';

/** The odd answers, and what each is to a caller: away, or a mistake that no repetition mends. */
const ODD: Record<string, { answer: Parameters<typeof oddServer>[1]; is: 'away' | 'mistake' }> = {
  hangs: { answer: () => undefined, is: 'away' },
  'drips its head': { answer: dripping(HEAD.repeat(50)), is: 'away' },
  'drips headers without end': { answer: dripping('HTTP/1.1 200 OK\r\nx-a: b\r\n', 20), is: 'away' },
  'drips its body': {
    answer: (socket) => {
      socket.write(`${HEAD}content-length: 5000\r\n\r\n`);
      dripping(' ')(socket);
    },
    is: 'away',
  },
  'drips chunks': {
    answer: (socket) => {
      socket.write(`${HEAD}transfer-encoding: chunked\r\n\r\n`);
      dripping('1\r\n \r\n', 20)(socket);
    },
    is: 'away',
  },
  'drips continues': { answer: dripping('HTTP/1.1 100 Continue\r\n\r\n', 20), is: 'away' },
  'closes at once': { answer: (socket) => socket.destroy(), is: 'away' },
  'dies in its head': { answer: 'HTTP/1.1 200 OK\r\ncontent-', is: 'away' },
  'dies in its body': { answer: answerOf(200, event('allowed').slice(0, 20), [], 1_000), is: 'away' },
  'dies behind a whole event': { answer: answerOf(200, event('allowed'), [], 1_000), is: 'away' },
  'is no HTTP': { answer: 'SSH-2.0-OpenSSH_9.2\r\n', is: 'away' },
  'is a page': { answer: answerOf(200, '<html>sign in</html>'), is: 'away' },
  'is empty': { answer: answerOf(200, ''), is: 'away' },
  'is no UTF-8': { answer: answerOf(200, '{"\ud800"'), is: 'away' },
  'is an object': { answer: answerOf(200, '{}'), is: 'mistake' },
  'is a list': { answer: answerOf(200, '[]'), is: 'mistake' },
  'is null': { answer: answerOf(200, 'null'), is: 'mistake' },
  'is a text': { answer: answerOf(200, '"allowed"'), is: 'mistake' },
  'is a number': { answer: answerOf(200, '7'), is: 'mistake' },
  'is an event without a verdict': { answer: answerOf(201, '{"id":"evt_x"}'), is: 'mistake' },
  'has a verdict that is null': { answer: answerOf(201, '{"id":"evt_x","policy_result":null}'), is: 'mistake' },
  'has an outcome of tomorrow': { answer: answerOf(201, event('quarantined')), is: 'mistake' },
  'has an outcome by the name of a method': { answer: answerOf(201, event('toString')), is: 'mistake' },
  'has an outcome that is true': { answer: answerOf(201, event(true)), is: 'mistake' },
  'has a list as outcome': { answer: answerOf(201, event(['allowed'])), is: 'mistake' },
  'is deep': { answer: answerOf(200, '['.repeat(100_000)), is: 'away' },
  'redirects (301)': { answer: answerOf(301, '', [`location: ${victim.url}/v1/x`]), is: 'mistake' },
  'redirects (302)': { answer: answerOf(302, '', [`location: ${victim.url}/v1/x`]), is: 'mistake' },
  'redirects (307)': { answer: answerOf(307, '', [`location: ${victim.url}/v1/x`]), is: 'mistake' },
  'redirects (308)': { answer: answerOf(308, '', [`location: ${victim.url}/v1/x`]), is: 'mistake' },
  'redirects nowhere': { answer: answerOf(302, ''), is: 'mistake' },
  'is broken': { answer: answerOf(500, '<html>'), is: 'mistake' },
  'knows no such path': { answer: answerOf(404, 'no'), is: 'mistake' },
  'has an error that is a text': { answer: answerOf(400, '{"error":"no"}'), is: 'mistake' },
  'has an error without words': { answer: answerOf(400, '{"error":{"code":7,"details":[]}}'), is: 'mistake' },
  'is behind (503)': { answer: answerOf(503, '{"error":null}'), is: 'away' },
  'is behind (502)': { answer: answerOf(502, '<html>'), is: 'away' },
  'wants a second': { answer: asking('1'), is: 'away' },
  'wants an hour': { answer: asking('3600'), is: 'away' },
  'wants more digits than there are numbers': { answer: asking('9'.repeat(400)), is: 'away' },
  'wants a date': { answer: asking('Fri, 28 Nov 2036 01:34:03 GMT'), is: 'away' },
  'wants a date that is over': { answer: asking('Fri, 28 Nov 2006 01:34:03 GMT'), is: 'away' },
  'wants a date that is none': { answer: asking('Foo, 99 Bar 2026 01:34:03 GMT'), is: 'away' },
  'wants it soon': { answer: asking('soon'), is: 'away' },
  'wants less than nothing': { answer: asking('-1'), is: 'away' },
  'wants no number': { answer: asking('NaN'), is: 'away' },
  'wants infinity': { answer: asking('Infinity'), is: 'away' },
  'wants a half': { answer: asking('0.5'), is: 'away' },
  'wants a digit of others': { answer: asking('\u00b2'), is: 'away' },
  'wants nothing': { answer: asking(''), is: 'away' },
};

const servers = await Promise.all(
  Object.entries(ODD).map(async ([name, { answer, is }]) => ({ name, is, ...(await oddServer(t, answer)) })),
);
servers.push({ name: 'is away', is: 'away', url: 'http://127.0.0.1:9', heads: [] });
/** One decision is tried so often: pauses double from a tenth of a second. */
const TRIES_MAX = 8;

t.test('TypeScript', async (t) => {
  let ticks = 0;
  const ticking = setInterval(() => ticks++, 20);
  const asking = new PQueue({ concurrency: AT_ONCE });
  await asking.addAll(
    servers.map(({ name, url, is, heads }) => async () => {
      const gatehouse = new Gatehouse({ url: `${url}/prefix/`, key: KEY, agent: AGENT, timeoutMs: TIMEOUT_MS });
      let ran = 0;
      const began = performance.now();
      const error = await gatehouse
        .guard('pay', () => ran++)()
        .catch((cause: unknown) => cause);
      t.match(error, { name: is === 'away' ? 'UnavailableError' : 'ApiError' }, name);
      t.ok(performance.now() - began < SOON_MS, `${name}: in time`);
      t.ok(heads.length <= TRIES_MAX, `${name}: ${heads.length} tries`);
      t.notOk(
        heads.some((head) => !head.startsWith('POST /prefix/v1/agents/agt_odd/events ')),
        `${name}: its prefix`,
      );
      await gatehouse
        .guard('pay', () => ran++, { onUnavailable: 'allow' })()
        .catch(() => undefined);
      t.equal(ran, is === 'away' ? 1 : 0, `${name}: allowed only where it is away`);
      gatehouse.record({ type: 'custom', payload: {} });
      t.same(await gatehouse.flush({ timeoutMs: 300 }), { sent: 0, failed: 1, dropped: 0 }, `${name}: a record`);
      await t.rejects(
        new Gatehouse({ url, key: KEY, agent: 'by name', timeoutMs: TIMEOUT_MS })
          .decide({ tool: 'x' }, 'block')
          .then(({ outcome }) => Promise.reject(new Error(outcome))),
        { message: is === 'away' ? /^unavailable$/ : /./ },
        `${name}: an agent by its name`,
      );
    }),
  );
  clearInterval(ticking);
  t.ok(ticks > 20, 'the program went on meanwhile');
  t.same(victim.heads, [], 'where a redirect leads nothing was sent');
});

t.test('Python', async (t) => {
  for (const { heads } of servers) heads.length = 0;
  const { lines, stderr, status } = await runPython(
    `
def ask(name, url):
    gh = client(url=url + "/prefix/", timeout=${TIMEOUT_MS / 1000})
    ran, began = [], time.monotonic()
    blocked = failure(gh.guard("pay")(lambda: ran.append(1)))
    took = time.monotonic() - began
    failure(gh.guard("pay", on_unavailable="allow")(lambda: ran.append(1)))
    gh.record("custom", {})
    counts = gh.flush(0.3)
    named = failure(lambda: client(url=url, agent="by name", timeout=${TIMEOUT_MS / 1000}).decide("x").outcome)
    results[name] = [blocked[0], took, len(ran), counts, named if isinstance(named, str) else named[0]]
results = {}
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(${AT_ONCE}) as pool: list(pool.map(lambda pair: ask(*pair), json.loads(os.environ["SERVERS"]).items()))
say(results)
`,
    {
      ...{ url: victim.url, key: KEY, agent: AGENT },
      SERVERS: JSON.stringify(Object.fromEntries(servers.map(({ name, url }) => [name, url]))),
    },
  );
  t.same([status, stderr], [0, '']);
  type Result = [string, number, number, object, string];
  const results = (lines[0] ?? {}) as Record<string, Result>;
  for (const { name, is, heads } of servers) {
    const [error, took, ran, counts, named] = results[name] ?? (['none', 0, -1, {}, ''] as Result);
    t.equal(error, is === 'away' ? 'Unavailable' : 'ApiError', name);
    t.ok(took * 1_000 < SOON_MS, `${name}: in time`);
    t.ok(heads.length <= 4 * TRIES_MAX, `${name}: ${heads.length} tries for two decisions, a record and a name`);
    t.equal(ran, is === 'away' ? 1 : 0, `${name}: allowed only where it is away`);
    t.same(counts, { sent: 0, failed: 1, dropped: 0 }, `${name}: a record`);
    t.equal(named, is === 'away' ? 'unavailable' : 'ApiError', `${name}: an agent by its name`);
  }
  t.same(victim.heads, [], 'where a redirect leads nothing was sent');
});

t.test('a redirect is named by both', async (t) => {
  const { url } = servers.find(({ name }) => name === 'redirects (301)')!;
  const said = new RegExp(`/v1/agents/agt_odd/events redirects to ${victim.url}/v1/x\\.`);
  await t.rejects(new Gatehouse({ url, key: KEY, agent: AGENT }).decide({ tool: 'x' }), { message: said, status: 301 });
  const { lines } = await runPython('say(failure(client().decide, "x"))', { url, key: KEY, agent: AGENT });
  t.match(lines, [['ApiError', said]]);
});

t.test('what cannot be an address, a key or a time is said when the client is made', async (t) => {
  const sound = { url: victim.url, key: KEY, agent: AGENT };
  const wrong = [
    ...['', '127.0.0.1:8080', 'ftp://x', 'http://', 'http://u:p@x', 'http://x/?a=b', 'http://x/#a'].map((url) => ({
      url,
    })),
    ...['', ' ', 'a b', 'ü', 'a\nb'].map((key) => ({ key })),
  ];
  for (const one of wrong)
    t.throws(() => new Gatehouse({ ...sound, ...one }), { name: 'GatehouseError' }, JSON.stringify(one));
  for (const timeoutMs of [Number.NaN, -1])
    t.throws(() => new Gatehouse({ ...sound, timeoutMs }), { name: 'GatehouseError' }, `${timeoutMs}`);
  t.ok(new Gatehouse({ ...sound, timeoutMs: Number.POSITIVE_INFINITY, key: `${KEY}\n` }), 'a key as it is in a file');
  const { lines } = await runPython(
    `
def made(one):
    try: client(**one)
    except ValueError: return "ValueError"
say([made(one) for one in json.loads(os.environ["WRONG"])])
say([made({"timeout": value}) for value in (float("nan"), -1, "5", None, True)])
say([made({"timeout": float("inf")}), made({"key": os.environ["KEY"] + "\\n"})])
`,
    { ...sound, WRONG: JSON.stringify(wrong) },
  );
  t.same(lines, [wrong.map(() => 'ValueError'), Array(5).fill('ValueError'), [null, null]]);
});

t.test('what `fetch` does ends in time: it never settles, throws at once, or answers nothing', async (t) => {
  const odd: Record<string, typeof fetch> = {
    'never settles': () => new Promise(() => undefined),
    throws: () => {
      throw new Error('no');
    },
    'throws nothing': () => Promise.reject(undefined),
    'answers nothing': () => Promise.resolve(undefined as unknown as Response),
  };
  for (const [name, given] of Object.entries(odd)) {
    const gatehouse = new Gatehouse({ url: victim.url, key: KEY, agent: AGENT, timeoutMs: 200, fetch: given });
    t.match(await gatehouse.decide({ tool: 'x' }), { allowed: false, outcome: 'unavailable' }, name);
    gatehouse.record({ type: 'custom', payload: {} });
    t.same(await gatehouse.flush({ timeoutMs: 200 }), { sent: 0, failed: 1, dropped: 0 }, name);
  }
});

t.test('callers have their own time, also where the agent is looked up once for all', async (t) => {
  const slow = await oddServer(t, () => undefined);
  const gatehouse = new Gatehouse({ url: slow.url, key: KEY, agent: 'by name', timeoutMs: 300 });
  gatehouse.record({ type: 'custom', payload: {} });
  const flushed = gatehouse.flush({ timeoutMs: 4_000 });
  await pause(50);
  const began = performance.now();
  t.match(await gatehouse.decide({ tool: 'x' }), { outcome: 'unavailable' });
  t.ok(performance.now() - began < 5_000);
  t.same(
    await gatehouse.flush({ timeoutMs: 100 }),
    { sent: 0, failed: 0, dropped: 0 },
    'a shorter flush fails nothing',
  );
  t.equal(gatehouse.counts.failed, 0);
  await gatehouse.close({ timeoutMs: 100 });
  t.same(await flushed, { sent: 0, failed: 1, dropped: 0 });
});
