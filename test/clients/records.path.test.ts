// What is recorded, in both clients, against the whole service: a record is what it was when it was made, what cannot
// be written or is refused is counted alone, and nothing of it stops, delays or holds the program. And how Python's
// waits go along with threads, forks, asyncio and the end of a program.
import t from 'tap';
import { Gatehouse, type GatehouseOptions } from '../../clients/typescript/src/index.ts';
import { Api } from '../support/api.ts';
import { runPython } from '../support/python.ts';
import { pause } from '../support/raw-http.ts';
import { sharedService } from '../support/shared-service.ts';
import { unreliable } from '../support/unreliable.ts';

const service = await sharedService(t);
const api = new Api(t, service);
const agent = (await api.post('/v1/agents', { name: 'records' })).json.id as string;
await api.post('/v1/policies', {
  ...{ name: 'ask for refunds', type: 'require_approval', conditions: { tool: 'refund' }, actions: ['block'] },
});
await api.submitUntil('pending', agent, { type: 'tool_call', payload: { tool: 'refund' } });
const options = (more: Partial<GatehouseOptions> = {}): GatehouseOptions => ({
  ...{ url: service.url, key: service.key, agent, timeoutMs: 10_000 },
  ...more,
});
const python = (program: string, url = service.url) => runPython(program, { url, key: service.key, agent });
const payloadsOf = async (trace: string) =>
  (await api.get(`/v1/traces/${trace}`)).json.events.map(({ payload }: { payload: object }) => payload);
const deep = (depth: number): object => (depth === 0 ? {} : { a: deep(depth - 1) });

t.test('TypeScript: a record is what it was, and one that cannot be written hurts no other', async (t) => {
  let ticks = 0;
  const ticking = setInterval(() => ticks++, 10);
  t.teardown(() => clearInterval(ticking));
  const gatehouse = new Gatehouse(options());
  const messages: { content: string }[] = [{ content: 'first' }];
  const state: Record<string, unknown> = { cost: 1 };
  gatehouse.record({ type: 'prompt', traceId: 'ts-then', payload: { messages } });
  gatehouse.record({ type: 'custom', traceId: 'ts-then', payload: state });
  messages[0]!.content = 'changed';
  messages.push({ content: 'SECRET added later' });
  state['self'] = state;
  const throws = {
    get cost() {
      throw new Error('no');
    },
  };
  const unwritable = [
    ...[{ payload: state }, { payload: throws }, { payload: { toJSON: () => BigInt('x') } }],
    ...[{ payload: {}, timestamp: new Date('x') }, { payload: { text: 'x'.repeat(5_000_000) } }],
  ].map((one) => () => gatehouse.record({ type: 'custom', ...one }));
  for (const record of [...unwritable, () => gatehouse.record(undefined as never)]) t.equal(record(), false);
  const written = {
    n: 5n,
    error: new TypeError('what it says'),
    at: new Date(0),
    m: new Map([['a', 1]]),
    s: new Set([1]),
  };
  t.ok(gatehouse.record({ type: 'custom', traceId: 'ts-then', payload: { ...written, f: () => 1, nan: Number.NaN } }));
  await pause(1_500);
  t.same(await gatehouse.flush(), { sent: 3, failed: 0, dropped: 6 });
  t.ok(ticks > 20, 'timers of the program fire');
  t.same(await payloadsOf('ts-then'), [
    { messages: [{ content: 'first' }] },
    { cost: 1 },
    {
      ...{ n: 5, error: { name: 'TypeError', message: 'what it says' }, at: '1970-01-01T00:00:00.000Z' },
      ...{ m: { a: 1 }, s: [1], nan: 'NaN' },
    },
  ]);
});

t.test('TypeScript: batches are cut by bytes, and halved where the service refuses one', async (t) => {
  const han = new Gatehouse(options());
  for (let n = 0; n < 100; n++) han.record({ type: 'custom', payload: { text: '語'.repeat(30_000) } });
  t.same(await han.flush(), { sent: 100, failed: 0, dropped: 0 });
  const bad: [string, object][] = [
    ['too deep for a body', { payload: deep(70) }],
    ['too large for an event', { payload: { text: 'x'.repeat(1_200_000) } }],
    ['a trace of 300 characters', { payload: {}, traceId: 'x'.repeat(300) }],
    ['a type that is none', { type: 'shout', payload: {} }],
    ['no payload', {}],
  ];
  for (const [name, one] of bad) {
    const gatehouse = new Gatehouse(options());
    for (let n = 0; n < 50; n++) {
      gatehouse.record({ type: 'custom', traceId: `ts ${name}`, payload: { n } });
      if (n === 20) gatehouse.record({ type: 'custom', ...one } as never);
    }
    t.same(await gatehouse.flush(), { sent: 50, failed: 1, dropped: 0 }, name);
    t.same(
      await payloadsOf(`ts ${name}`),
      Array.from({ length: 50 }, (_, n) => ({ n })),
      `${name}: in order`,
    );
  }
});

t.test('TypeScript: a flush waits for what came before it, not for what is recorded meanwhile', async (t) => {
  const { url } = await unreliable(t, service.url, () => 'through');
  const gatehouse = new Gatehouse(options({ url }));
  let n = 0;
  const recording = setInterval(() => gatehouse.record({ type: 'custom', payload: { n: n++ } }), 2);
  t.teardown(() => clearInterval(recording));
  await pause(100);
  const { failed, dropped } = await gatehouse.flush({ timeoutMs: 60_000 });
  t.same({ failed, dropped }, { failed: 0, dropped: 0 });
  clearInterval(recording);
  t.same(await gatehouse.close(), { sent: n, failed: 0, dropped: 0 });
});

t.test('Python: a record is what it was, and one that cannot be written hurts no other', async (t) => {
  const { status, lines, stderr } = await python(`
import datetime
gh = client()
messages, state = [{"content": "first"}], {"cost": 1}
with gh.trace("py-then"):
    gh.record("prompt", {"messages": messages}); gh.record("custom", state)
messages[0]["content"] = "changed"; messages.append({"content": "SECRET added later"}); state["self"] = state
class Raises:
    def model_dump(self): raise RuntimeError("no")
say([gh.record("custom", one) for one in (state, object(), Raises(), {"x": 1j}, {"text": "x" * 5_000_000}, {("a",): 1})])
say([gh.record("custom", {}, timestamp=at) for at in (5, 5.0, [], datetime.date(2026, 1, 1))])
say([gh.record("custom", {"at": datetime.datetime(2026, 1, 1)}), gh.record("custom", {"n": float("nan")}, timestamp=datetime.datetime.now())])
say(gh.flush())
def sent(bad, n=50):
    gh = client()
    for i in range(n):
        gh.record("custom", {"n": i}, trace_id="py " + bad[0])
        if i == 20: gh.record(*bad[1], **bad[2])
    return gh.flush()
deep = {}
for _ in range(70): deep = {"a": deep}
for bad in (("deep", ["custom", deep], {}), ("large", ["custom", {"text": "x" * 1_200_000}], {}), ("trace", ["custom", {}], {"trace_id": "x" * 300}), ("type", ["shout", {}], {}), ("none", ["custom", None], {})):
    say(sent(bad))
han = client()
for n in range(100): han.record("custom", {"text": "語" * 30000})
say(han.flush())
`);
  t.same([status, stderr], [0, '']);
  const [unwritable, times, written, counts, ...rest] = lines;
  t.same(unwritable, Array(6).fill(false));
  t.same(times, Array(4).fill(false));
  t.same(written, [true, true]);
  t.same(counts, { sent: 4, failed: 0, dropped: 10 });
  t.same(rest, [...Array(5).fill({ sent: 50, failed: 1, dropped: 0 }), { sent: 100, failed: 0, dropped: 0 }]);
  t.same(await payloadsOf('py-then'), [{ messages: [{ content: 'first' }] }, { cost: 1 }]);
  t.same(
    await payloadsOf('py deep'),
    Array.from({ length: 50 }, (_, n) => ({ n })),
    'in order',
  );
});

t.test('Python: after a fork the child has a thread and a queue of its own', async (t) => {
  const { status, lines, stderr } = await python(`
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
def child(work):
    pid = os.fork()
    if pid == 0:
        try: work()
        finally: os._exit(0)
    return os.waitpid(pid, 0)[1]
gh = client()
gh.record("custom", {"of": "parent"}, trace_id="py-fork"); gh.flush()
gh.record("custom", {"of": "parent, waiting"}, trace_id="py-fork")
def work():
    say(gh.record("custom", {"of": "child"}, trace_id="py-fork")); say(gh.close(10)); say(failure(gh.decide, "look").__class__.__name__)
say(child(work))
def grandchild(): child(lambda: (gh.record("custom", {"of": "grandchild"}, trace_id="py-fork"), gh.flush(10)))
child(grandchild)
say(gh.close(10))
away = client(url="http://127.0.0.1:9")
away.record("custom", {})
def bounded(): began = time.monotonic(); away.record("custom", {}); say(away.close(0.5)); say(time.monotonic() - began < 5)
child(bounded)
say(away.close(0.1))
stop, held = [], client()
threads = [threading.Thread(target=lambda: [held.record("custom", {}) for _ in iter(lambda: bool(stop), True)]) for _ in range(4)]
for thread in threads: thread.start()
for _ in range(10): child(lambda: (held.record("custom", {}), held.close(0.2)))
stop.append(1)
say("no lock was held by who is not there")
held.close(0.1)
`);
  t.same([status, stderr], [0, '']);
  const one = { sent: 1, failed: 0, dropped: 0 };
  const failed = { sent: 0, failed: 1, dropped: 0 };
  t.same(lines, [
    true,
    one,
    'Decision',
    0,
    { ...one, sent: 2 },
    failed,
    true,
    failed,
    'no lock was held by who is not there',
  ]);
  const payloads = (await payloadsOf('py-fork')).map(({ of }: { of: string }) => of);
  t.same(payloads.sort(), ['child', 'grandchild', 'parent', 'parent, waiting'], 'each once');
});

t.test('Python: sixty threads, and the end of a program', async (t) => {
  const many = await python(`
gh = client()
threads = [threading.Thread(target=lambda: [gh.record("custom", {}) for _ in range(15)]) for _ in range(60)]
for thread in threads: thread.start()
for thread in threads: thread.join()
say(gh.flush())
`);
  t.match(many, { status: 0, stderr: '', lines: [{ sent: 900, failed: 0, dropped: 0 }] });
  const ends = await python('client().record("custom", {}, trace_id="py-exit")');
  t.match(ends, { status: 0, stderr: '' });
  t.equal((await api.get('/v1/traces/py-exit')).json.event_count, 1, 'what was recorded is sent when the program ends');
  const raises = await python('client().record("custom", {}, trace_id="py-exit")\nraise SystemExit(3)');
  t.match(raises, { status: 3, stderr: '' });
  t.equal((await api.get('/v1/traces/py-exit')).json.event_count, 2, 'also with a status');
  const { url } = await unreliable(t, service.url, () => 'hangs');
  for (const seconds of [0.5, 0]) {
    const held = await python(`client(exit_timeout=${seconds}).record("custom", {})`, url);
    t.match(held, { status: 0, stderr: '' });
    t.ok(held.ms < 15_000, 'a service that hangs does not hold it');
  }
});

t.test('Python: waits of asyncio hold neither its threads, nor the loop, nor the end', async (t) => {
  const { status, lines, stderr } = await python(`
import asyncio
gh = client(approval_wait=30.0)
refund, look = gh.guard("refund"), gh.guard("look")
@refund
async def pay(n): return n
@refund
async def stream(n): yield n
@look
async def see(n): return n
@look
async def numbers(n):
    for i in range(n):
        try: got = yield i
        except KeyError: yield "caught"
        else: say(["got", got]) if got else None
async def beat(beats):
    while True:
        beats.append(time.monotonic()); await asyncio.sleep(0.02)
async def main():
    beats = []; beating = asyncio.create_task(beat(beats))
    waiting = [asyncio.create_task(pay(n)) for n in range(100)] + [asyncio.create_task(stream(1).__anext__())]
    await asyncio.sleep(1.5)
    began = time.monotonic()
    say([await see(1), await asyncio.to_thread(lambda: 2), [n async for n in numbers(3)]])
    agen = numbers(5)
    say([await agen.asend(None), await agen.asend("x"), await agen.athrow(KeyError())]); await agen.aclose()
    say([time.monotonic() - began < 12, threading.active_count() < 110, any(task.done() for task in waiting)])
    for task in waiting: task.cancel()
    say([type(one).__name__ for one in set(map(type, await asyncio.gather(*waiting, return_exceptions=True)))] and all(task.cancelled() for task in waiting))
    try: await asyncio.wait_for(pay(1), 1)
    except asyncio.TimeoutError: say("gave up")
    gaps = [b - a for a, b in zip(beats, beats[1:])]
    say(max(gaps) < 3); beating.cancel()
    await asyncio.sleep(0.5)
    say(sum(thread.name == "gatehouse" for thread in threading.enumerate()) < 10)
began = time.monotonic(); asyncio.run(main()); ended = time.monotonic()
say(ended - began < 27)
say(asyncio.run(asyncio.wait_for(client(timeout=1.0, url="http://127.0.0.1:9").decide_async("look"), 20)).outcome)
`);
  t.same([status, stderr], [0, '']);
  t.same(lines, [
    [1, 2, [0, 1, 2]],
    ...[['got', 'x'], [0, 1, 'caught'], [true, true, false], true, 'gave up', true, true, true, 'unavailable'],
  ]);
});

t.test('Python: the trace is that of the call', async (t) => {
  const { status, lines, stderr } = await python(`
import asyncio
gh = client()
@gh.guard("look")
def look(n): return n
@gh.guard("look")
async def look_async(n): return n
made = gh.guard("look", trace_id="py-trace-3")(lambda: 1)
requests = []
of_request = gh.guard("look", trace_id=lambda: requests[-1])(lambda: 1)
async def request(n):
    with gh.trace("py-trace-%d" % n):
        await asyncio.sleep(0.05); await look_async(n)
async def both(): await asyncio.gather(request(1), request(2))
asyncio.run(both())
with gh.trace("py-trace-1"):
    look(1); gh.record("custom", {}); made()
made(); requests.append("py-trace-2"); of_request(); requests.clear(); of_request()
say(gh.flush())
# OpenTelemetry as its API has it; the package may not be here.
import types
class Span:
    def __init__(self, **attributes): self.attributes = attributes
    def get_span_context(self): return types.SimpleNamespace(trace_id=int("ab" * 16, 16))
    def set_attribute(self, name, value): self.attributes[name] = value
sys.modules["opentelemetry.trace"] = api = types.ModuleType("opentelemetry.trace")
def marked(**attributes):
    span = Span(**{name.replace("_", "."): value for name, value in attributes.items()})
    api.get_current_span = lambda: span
    decisions = [gh.decide("look").event_id for _ in range(2)]
    return span.attributes.get("gatehouse.decision.id") == decisions[0]
say([marked(tool_name="look"), marked(tool_name="task"), marked(), marked(agent_name="look")])
api.get_current_span = lambda: None
say(gh.decide("look").allowed)
`);
  const marked = [true, false, false, false];
  t.same([status, stderr, lines], [0, '', [{ sent: 1, failed: 0, dropped: 0 }, marked, true]]);
  t.equal((await api.get(`/v1/traces/${'ab'.repeat(16)}`)).json.event_count, 8);
  const counts = ['1', '2', '3'].map(async (n) => (await api.get(`/v1/traces/py-trace-${n}`)).json.event_count);
  t.same(await Promise.all(counts), [4, 2, 1]);
});
