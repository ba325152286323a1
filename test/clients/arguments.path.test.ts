// What guards judge, in both clients, against the whole service: arguments of every shape are judged as all that they
// are, or refused by the client's own error, and what runs is what was judged. Numbers arrive digit by digit. A shape
// holds what a policy blocks, so one that runs has been judged as something else.
import { inspect } from 'node:util';
import t from 'tap';
import { aiSdk } from '../../clients/typescript/src/adapters/ai-sdk.ts';
import { claude } from '../../clients/typescript/src/adapters/claude-agent-sdk.ts';
import { openaiAgents } from '../../clients/typescript/src/adapters/openai-agents.ts';
import { Gatehouse, type GatehouseOptions, JsonText } from '../../clients/typescript/src/index.ts';
import { Api } from '../support/api.ts';
import { runPython } from '../support/python.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService(t);
const api = new Api(t, service);
const agent = (await api.post('/v1/agents', { name: 'shapes' })).json.id as string;
for (const [name, conditions] of [
  ['no large payments', { type: 'tool_call', tool: 'send_money', 'payload.arguments.amount': { gt: 1000 } }],
  ['no removal', { type: 'tool_call', tool: 'shell', 'payload.arguments': { contains: 'rm -rf' } }],
] as const)
  await api.post('/v1/policies', { name, type: 'block_action', conditions, actions: ['block'] });
await api.submitUntil('blocked', agent, { type: 'tool_call', payload: { tool: 'shell', arguments: 'rm -rf /' } });
const options = (more: Partial<GatehouseOptions> = {}): GatehouseOptions => ({
  ...{ url: service.url, key: service.key, agent, timeoutMs: 10_000 },
  ...more,
});
const gatehouse = new Gatehouse(options());
const sentIn = async (trace: string) => (await api.get(`/v1/traces/${trace}`)).text;

class Money {
  #amount = 5_000;
  get amount() {
    return this.#amount;
  }
}
class Shell {
  readonly command: string;

  constructor(command: string) {
    this.command = command;
  }
}
const MEAN = 'rm -rf /';
const hidden = (key: string | symbol, value: unknown) => Object.defineProperty({}, key, { value, enumerable: false });
const changing = (...values: unknown[]) =>
  Object.defineProperty({}, 'command', {
    enumerable: true,
    get: () => (values.length > 1 ? values.shift() : values[0]),
  });
const circular: Record<string, unknown> = { command: MEAN };
circular['self'] = circular;

/** Each is blocked, or refused. */
const MEAN_SHAPES: Record<string, () => unknown> = {
  'a text': () => MEAN,
  'an object': () => ({ command: MEAN }),
  'a list': () => [MEAN],
  nested: () => ({ a: [{ b: [MEAN] }] }),
  'a null object': () => Object.assign(Object.create(null), { command: MEAN }),
  'a Map': () => new Map([['command', MEAN]]),
  'a Map in a list': () => [new Map([['a', new Map([['b', MEAN]])]])],
  'a Map by numbers': () => new Map([[1, MEAN]]),
  'a Map by objects': () => new Map([[{ command: MEAN }, 1]]),
  'a Map with a property': () => Object.assign(new Map(), { command: MEAN }),
  'a Set': () => new Set([MEAN]),
  'a Set in an object': () => ({ all: new Set(['ls', MEAN]) }),
  'a WeakMap': () => new WeakMap([[{}, MEAN]]),
  bytes: () => new TextEncoder().encode(MEAN),
  'a Buffer': () => Buffer.from(MEAN),
  'a view': () => new DataView(new TextEncoder().encode(MEAN).buffer),
  'a buffer': () => new TextEncoder().encode(MEAN).buffer,
  'wide letters': () => Uint16Array.from(MEAN, (letter) => letter.charCodeAt(0)),
  toJSON: () => ({ command: MEAN, toJSON: () => ({}) }),
  'an inherited toJSON': () => Object.assign(Object.create({ toJSON: () => ({}) }), { command: MEAN }),
  'a toJSON that throws': () => ({
    command: MEAN,
    toJSON: () => {
      throw new Error('no');
    },
  }),
  'toJSON of a list': () => Object.assign([MEAN], { toJSON: () => [] }),
  'a getter that changes': () => changing('ls', MEAN),
  'a getter that changes back': () => changing(MEAN, 'ls'),
  'a getter that throws': () => ({
    get command() {
      throw new Error('no');
    },
  }),
  inherited: () => Object.create({ command: MEAN }),
  'inherited from a null object': () => Object.create(Object.assign(Object.create(null), { command: MEAN })),
  'by a symbol': () => ({ [Symbol('command')]: MEAN }),
  hidden: () => hidden('command', MEAN),
  'hidden by a symbol': () => hidden(Symbol.for('command'), MEAN),
  'a list with a name': () => Object.assign([], { command: MEAN }),
  'a list with holes': () => Object.assign(new Array(2), { 1: MEAN }),
  'a list of a class': () => class extends Array<string> {}.from([MEAN]),
  'a class': () => new Shell(MEAN),
  'a class with a getter': () =>
    new (class {
      get command() {
        return MEAN;
      }
    })(),
  'an Error': () => new Error(MEAN),
  'an Error with a cause': () => new Error('', { cause: MEAN }),
  URLSearchParams: () => new URLSearchParams({ command: MEAN }),
  'URLSearchParams in an object': () => ({
    query: new URLSearchParams([
      ['a', 'ls'],
      ['a', MEAN],
    ]),
  }),
  'a URL': () => new URL(`data:,${MEAN}`),
  'a Headers': () => new Headers({ command: MEAN }),
  'a FormData': () => {
    const form = new FormData();
    form.set('command', MEAN);
    return form;
  },
  'a Blob': () => new Blob([MEAN]),
  'a boxed text': () => Object(MEAN),
  'a RegExp': () => /rm -rf/,
  'a function': () => () => MEAN,
  'a function in an object': () => ({ command: () => MEAN }),
  'a symbol': () => Symbol(MEAN),
  'a Promise': () => Promise.resolve(MEAN),
  'a generator': () =>
    (function* () {
      yield MEAN;
    })(),
  'an iterable': () => ({ [Symbol.iterator]: () => [MEAN][Symbol.iterator]() }),
  'a Proxy': () => new Proxy({ command: 'ls' }, { get: () => MEAN }),
  'a Proxy that hides': () =>
    new Proxy({ command: MEAN }, { ownKeys: () => [], getOwnPropertyDescriptor: () => undefined }),
  circular: () => circular,
  'not a number': () => ({ command: MEAN, n: Number.NaN }),
  infinite: () => ({ command: MEAN, n: Number.POSITIVE_INFINITY }),
  __proto__: () => JSON.parse(`{"__proto__":{"command":"${MEAN}"}}`),
  'a key': () => ({ a: { b: MEAN }, c: undefined }),
  'JSON as it was written': () => new JsonText(`{ "command" : "rm \\u002drf" }`),
  'too much': () => ({ command: MEAN, all: Array(1_500_000).fill('x') }),
  'parts that are shared over and over': () => {
    let value: unknown = MEAN;
    for (let i = 0; i < 40; i++) value = [value, value];
    return value;
  },
  deep: () => {
    let value: unknown = MEAN;
    for (let i = 0; i < 20_000; i++) value = [value];
    return value;
  },
};

t.test('TypeScript: what holds what a policy blocks never runs, whatever its shape and place', async (t) => {
  for (const [name, make] of Object.entries(MEAN_SHAPES)) {
    const ran: unknown[] = [];
    const shell = gatehouse.guard('shell', (...args: unknown[]) => ran.push(...args), { onUnavailable: 'allow' });
    for (const args of [[make()], ['ls', make()], [{ inside: make() }]]) {
      const error = await shell(...args).catch((cause: unknown) => cause);
      // What said "ls" when it was judged says so where it runs.
      if (ran.length > 0) t.notMatch(inspect(ran.splice(0), { depth: 9 }), /rm -rf/, name);
      else t.match(error, { name: /^(BlockedError|NotJsonError|ApiError)$/ }, name);
    }
  }
});

t.test("TypeScript: README's money policy meets the amount in any shape that is judged", async (t) => {
  const sends = gatehouse.guard('send_money', (..._args: unknown[]) => t.fail('it ran'));
  const shapes = [
    ...[{ amount: 5000 }, { amount: 5000n }, { amount: '5000' }, { amount: 'five thousand' }, new Money()],
    ...[new Map([['amount', 5000]]), new URLSearchParams({ amount: '5000' }), { amount: new Set([5000]) }],
    ...[
      Object.create({ amount: 5000 }),
      new JsonText('{"amount":5000}'),
      [{ amount: 5000 }],
      new Map([['amount', 10n ** 30n]]),
    ],
  ];
  for (const shape of shapes)
    t.match(await sends(shape).catch((error: unknown) => error), { name: /^(BlockedError|NotJsonError)$/ });
  t.match(await sends({ amount: 5000 }, { to: 'zoe' }).catch((error: unknown) => error), { name: 'BlockedError' });
  const named = gatehouse.guard('send_money', (..._args: unknown[]) => t.fail('it ran'), { names: ['to', 'amount'] });
  t.match(await named('zoe', 5000).catch((error: unknown) => error), { name: 'BlockedError' });
  t.match(await named('zoe', 5, 5000).catch((error: unknown) => error), { name: 'NotJsonError' });
});

t.test('TypeScript: what is allowed runs with all of it, as it was when it was called', async (t) => {
  const date = new Date('2026-11-28T06:00:00.000Z');
  const harmless: unknown[][] = [
    [{ to: 'zoe', n: [1, null, true], o: { p: undefined } }],
    ['zoe', 'hello'],
    ['zoe', { body: 'hello' }, 3],
    [
      new Map<string, unknown>([
        ['a', 1],
        ['b', new Set([1, 2])],
      ]),
    ],
    [new URLSearchParams('a=1&a=2&b=3')],
    [{ at: date, address: new URL('http://example.com/x') }],
    [12345678901234567890n],
    [],
    [JSON.parse('{"__proto__":{"a":1}}')],
    [Object.assign(Object.create(null), { a: 1 })],
    ['zoe', { traceId: 'as an argument' }],
  ];
  for (const args of harmless) {
    const got: unknown[][] = [];
    // With as many parameters as it is called with.
    const run =
      args.length > 1
        ? (a: unknown, b: unknown, ...c: unknown[]) => got.push([a, b, ...c])
        : (...all: unknown[]) => got.push(all);
    await (gatehouse.guard('send', run) as (...all: unknown[]) => Promise<unknown>)(...args);
    t.strictSame(got, [args]);
  }
  const later = { amount: 5, list: [1] };
  const guarded = gatehouse.guard('send_money', (args: typeof later) => structuredClone(args));
  const running = guarded(later);
  later.amount = 5_000;
  later.list.push(2);
  t.same(await running, { amount: 5, list: [1] }, 'a copy of the moment of the call');

  const send = gatehouse.guard('send', async (to: string, body: string) => ({ to, body }));
  t.same(await send('zoe', 'hello'), { to: 'zoe', body: 'hello' });
  class Post {
    readonly sender = 'me';
    send = gatehouse.guard('send', function (this: Post, to: string) {
      return `${this.sender} to ${to}`;
    });
  }
  t.equal(await new Post().send('zoe'), 'me to zoe', 'a method');
  const count = gatehouse.guard('send', async function* (n: number) {
    for (let i = 0; i < n; i++) yield i;
  });
  const counted: number[] = [];
  for await (const i of await count(3)) counted.push(i);
  t.same(counted, [0, 1, 2], 'an asynchronous generator');
});

t.test('TypeScript: numbers arrive digit by digit, and what has no JSON is said', async (t) => {
  await gatehouse.decide({ tool: 'look', arguments: { n: 9007199254740993n, m: 10n ** 40n }, traceId: 'ts-digits' });
  await gatehouse.decide({
    payload: { tool: 'look', arguments: new JsonText('{"id":9007199254740993,"one":1.0,"big":1e400, "z":-0}') },
    traceId: 'ts-digits',
  });
  gatehouse.record({ type: 'custom', payload: { n: 9007199254740993n }, traceId: 'ts-digits' });
  t.match(await gatehouse.flush(), { failed: 0, dropped: 0 });
  const text = await sentIn('ts-digits');
  for (const part of [
    '{"n":9007199254740993,"m":10000000000000000000000000000000000000000}',
    '{"id":9007199254740993,"one":1.0,"big":1e400, "z":-0}',
    '"payload":{"n":9007199254740993}',
  ])
    t.ok(text.includes(part), part);
  t.throws(() => new JsonText('{"a":NaN}'), { name: 'NotJsonError' });
  await t.rejects(gatehouse.decide({ tool: 'look', arguments: { a: [new Shell('ls')] } }, 'allow'), {
    name: 'NotJsonError',
    message: 'arguments.a[0] is a Shell: JSON has no form for it, so it cannot be judged.',
  });
});

t.test('adapters: a call that cannot be asked about is a denial that the model reads, in all of them', async (t) => {
  const revoked = new Gatehouse(options({ key: 'gth_revoked' }));
  const away = new Gatehouse(options({ url: 'http://127.0.0.1:9', timeoutMs: 200 }));
  const throwing = {
    toJSON: () => {
      throw new Error('no');
    },
  };
  const cases: [Gatehouse, string, unknown, RegExp][] = [
    [gatehouse, 'shell', { command: MEAN }, /^Blocked by policy "no removal"\.$/],
    [gatehouse, 'look', { text: 'x'.repeat(1_200_000) }, /^Gatehouse could not be asked: The body is larger/],
    [gatehouse, 'look', { text: 'x'.repeat(5_000_000) }, /^Gatehouse could not be asked: arguments.text is larger/],
    [revoked, 'look', {}, /^Gatehouse could not be asked: The API key is/],
    [away, 'look', {}, /^Gatehouse is not available: /],
    [gatehouse, 'look', circular, /^Gatehouse could not be asked: .*holds itself/],
    [gatehouse, 'look', { run: throwing }, /^Gatehouse could not be asked: /],
    [gatehouse, 'look', new Shell('ls'), /^Gatehouse could not be asked: arguments is a Shell/],
  ];
  for (const [asked, tool, input, why] of cases) {
    const approval = await aiSdk(asked).toolApproval({ toolCall: { toolName: tool, input } });
    t.match(approval, { type: 'denied', reason: why });
    const hook = await claude(asked).preToolUse({ hook_event_name: 'PreToolUse', tool_name: tool, tool_input: input });
    t.match(hook, { hookSpecificOutput: { permissionDecision: 'deny', permissionDecisionReason: why } });
    if (
      typeof input === 'object' &&
      input !== null &&
      input.constructor === Object &&
      !('self' in input || 'run' in input)
    ) {
      const data = { toolCall: { name: tool, arguments: JSON.stringify(input) } };
      const { behavior } = await openaiAgents(asked).toolInput.run(data);
      const said = /arguments.text is larger/.test(why.source) ? /^Gatehouse could not be asked: The body/ : why;
      t.match(behavior, { type: 'rejectContent', message: said });
    }
  }
  t.match(await claude(gatehouse).preToolUse({ hook_event_name: 'PreToolUse' }), {
    hookSpecificOutput: { permissionDecision: 'deny' },
  });
  const big = await aiSdk(gatehouse).toolApproval({ toolCall: { toolName: 'send_money', input: { amount: 5000n } } });
  t.match(big, { type: 'denied', reason: /no large payments/ });
  for (const [text, type] of [
    ['{"amount":1000.00000000000000001}', 'rejectContent'],
    ['{"amount":1000.0}', 'allow'],
    ['{"amount":5000', 'rejectContent'],
  ])
    t.match(await openaiAgents(gatehouse).toolInput.run({ toolCall: { name: 'send_money', arguments: text! } }), {
      behavior: { type },
    });
});

t.test('Python: what holds what a policy blocks never runs, whatever its shape', async (t) => {
  const { status, lines, stderr } = await runPython(
    `
import asyncio, collections, dataclasses, datetime, decimal, enum, functools, pathlib, types, typing, uuid
gh, MEAN = client(), "rm -rf /"
@dataclasses.dataclass
class D: command: str
class Hides(D):
    def __init__(self): self.secret = MEAN; super().__init__("ls")
class Model:
    def model_dump(self): return {"command": MEAN}
class Shy:
    model_fields = {"command": 1}
    def model_dump(self): return {}
class Bare:
    def __init__(self): self.command = MEAN
class Slots:
    __slots__ = ("command",)
    def __init__(self): self.command = MEAN
class E(enum.Enum): A = MEAN
class Text(str): pass
class Other(dict):
    def __getitem__(self, key): return MEAN
    def get(self, key, default=None): return MEAN
class Empty(dict):
    def items(self): return []
class Lists(list):
    def __iter__(self): return iter([])
class Raises:
    def model_dump(self): raise RuntimeError("no")
circular = [MEAN]; circular.append(circular)
deep = MEAN
for _ in range(20000): deep = [deep]
shared = MEAN
for _ in range(40): shared = [shared, shared]
N = collections.namedtuple("N", "command")
class T(typing.TypedDict): command: str
shapes = dict(
    text=MEAN, dict={"command": MEAN}, list=[MEAN], tuple=(MEAN,), set={MEAN}, frozenset=frozenset([MEAN]), bytes=MEAN.encode(),
    broken_bytes=b"\\xff" + MEAN.encode() + b"\\xff", bytearray=bytearray(MEAN.encode()), view=memoryview(MEAN.encode()), path=pathlib.Path("rm -rf"),
    dataclass=D(MEAN), hides=Hides(), model=Model(), shy=Shy(), bare=Bare(), slots=Slots(), enum=E.A, sub_text=Text(MEAN),
    other=Other(command="ls"), empty=Empty(command=MEAN), lists=Lists([MEAN]), raises=Raises(), circular=circular, deep=deep, shared=shared, named=N(MEAN),
    typed=T(command=MEAN), default=collections.defaultdict(list, command=MEAN), ordered=collections.OrderedDict(command=MEAN), chain=collections.ChainMap({"command": MEAN}),
    deque=collections.deque([MEAN]), proxy=types.MappingProxyType({"command": MEAN}), space=types.SimpleNamespace(command=MEAN), generator=(x for x in [MEAN]), iterator=iter([MEAN]),
    function=lambda: MEAN, type=Bare, partial=functools.partial(print, MEAN), error=ValueError(MEAN), lock=threading.Lock(), nan=[MEAN, float("nan")], infinite=[MEAN, decimal.Decimal("Infinity")],
    complex=[MEAN, 1j], key={MEAN: 1, 2: [MEAN]}, tuple_key={("a",): MEAN}, two_keys={1: "ls", "1": MEAN}, json=JsonText('{"command": "rm \\\\u002drf"}'), large=[MEAN, "x" * 5_000_000],
    module=types, range=[MEAN, range(3)], nested=[{"a": ({"b": {MEAN}},)}], file=sys.stdin,
)
ran = []
class Calls:
    def __call__(self, value): ran.append(value)
class Waits:
    async def __call__(self, value): ran.append(value)
class Methods:
    @gh.guard("shell")
    def method(self, value): ran.append(value)
    @gh.guard("shell")
    @classmethod
    def of_class(cls, value): ran.append(value)
    @staticmethod
    @gh.guard("shell")
    def static(value): ran.append(value)
async def coroutine(value): ran.append(value)
async def waits(value):
    ran.append(value)
    yield 1
def yields(value):
    ran.append(value)
    yield 1
async def every(generator): return [item async for item in generator]
shell = gh.guard("shell", on_unavailable="allow")
places = dict(
    positional=gh.guard("shell")(lambda value: ran.append(value)), keyword=lambda v: gh.guard("shell")(lambda value: ran.append(value))(value=v),
    spread=lambda v: shell(lambda **given: ran.append(given))(anything=v), several=lambda v: shell(lambda *given, **more: ran.append(given))("ls", v, x=1),
    called=shell(Calls()), partial=lambda v: shell(functools.partial(lambda a, value: ran.append(value), "ls"))(v), method=Methods().method, of_class=Methods.of_class, static=Methods.static,
    coroutine=lambda v: asyncio.run(shell(coroutine)(v)), awaited=lambda v: asyncio.run(shell(Waits())(v)), generator=lambda v: list(shell(yields)(v)),
    async_generator=lambda v: asyncio.run(every(shell(waits)(v))),
)
outcomes = {}
for shape, value in shapes.items():
    for place, call in places.items():
        if place in ("positional", "coroutine", "spread") or shape in ("dict", "bare", "nan", "dataclass", "bytes", "named"):
            outcomes[shape + " by " + place] = (failure(call, value) or ["RAN"])[0]
say({name: outcome for name, outcome in outcomes.items() if outcome not in ("Blocked", "NotJson")})
say([len(ran), len(outcomes) > 200])
say([sorted({name.split(" ")[0] for name, outcome in outcomes.items() if outcome == "Blocked"})])
`,
    { url: service.url, key: service.key, agent },
  );
  t.same([status, stderr], [0, '']);
  t.same(lines.slice(0, 2), [{}, [0, true]]);
  const judged =
    'bytearray bytes broken_bytes dataclass default deque dict enum frozenset json key list model named nested';
  const also = 'ordered path set sub_text text tuple typed';
  t.match(lines[2], [[...`${judged} ${also}`.split(' ').sort()]], 'what has a form is judged');
});

t.test("Python: README's money policy meets the amount, however it is given", async (t) => {
  const { status, lines, stderr } = await runPython(
    `
import dataclasses, datetime, decimal, inspect, uuid
gh = client()
money = gh.guard("send_money")
@dataclasses.dataclass
class Money: amount: object
class Shop:
    @money
    def send(self, amount): return "sent"
    @money
    def send_all(self, **arguments): return "sent"
def f(amount): return "sent"
def kw(**arguments): return "sent"
def both(*args, **kwargs): return "sent"
def one(args): return "sent"
def only(amount, /, **more): return "sent"
def default(amount=5000, log=object()): return "sent"
D = decimal.Decimal
say([failure(call)[0] for call in (
    lambda: money(f)(5000), lambda: money(f)(amount=5000), lambda: money(kw)(amount=5000), lambda: money(both)(amount=5000), lambda: money(one)({"amount": 5000}),
    lambda: money(one)(args={"amount": 5000}), lambda: money(both)({"amount": 5000}), lambda: money(both)({"x": 1}, {"amount": 5000}), lambda: money(one)(Money(5000)),
    lambda: money(only)(1, amount=5000), lambda: money(only)(5000, amount=1), lambda: money(default)(), lambda: Shop().send(5000), lambda: Shop().send_all(amount=5000),
    lambda: money(f)(D("5000.00")), lambda: money(f)(D("1E+400")), lambda: money(f)(D("1000.00000000000000001")), lambda: money(f)(10 ** 5000), lambda: money(f)("5000"), lambda: money(f)(b"5000"),
    lambda: money(f)(datetime.date(2026, 1, 1)), lambda: money(f)(uuid.UUID(int=5)), lambda: money(f)([1, 5000]), lambda: money(f)(1e300),
    lambda: gh.enforce("send_money", {"amount": 5000}), lambda: gh.enforce("send_money", JsonText('{"amount":5000}')),
)])
say([money(f)(D("1000.00")), money(kw)(amount=5), money(both)(5), money(one)({"amount": 5}), Shop().send(5), Shop().send_all(amount=5), money(lambda: "sent")()])
say(failure(client(on_unavailable="allow").guard("x")(f), object()))
try: money(f)(1, 2, 3)
except TypeError as error: say(str(error))
say([inspect.iscoroutinefunction(money(f)), str(inspect.signature(money(f))), money(f).__name__])
later = {"amount": 5, "list": [1]}
seen = []
def late(args): seen.append(args)
def change(): later["amount"] = 5000; later["list"].append(2)
guarded = gh.guard("look")(late)
threading.Timer(0.0, change).start()
guarded(later)
say(seen[0] in ({"amount": 5, "list": [1]}, {"amount": 5000, "list": [1, 2]}) and seen[0] is not later)
`,
    { url: service.url, key: service.key, agent },
  );
  t.same([status, stderr], [0, '']);
  const [blocked, sent, refused, mistake, ...rest] = lines as [string[], ...unknown[]];
  t.same(blocked, Array(26).fill('Blocked'));
  t.same(sent, Array(7).fill('sent'));
  t.match(refused, ['NotJson', 'amount is a object: JSON has no form for it, so it cannot be judged.']);
  t.match(mistake, /too many positional arguments/);
  t.same(rest, [[false, '(amount)', 'f'], true]);
});

t.test('Python: the usual types arrive as text, numbers digit by digit', async (t) => {
  const { lines, stderr } = await runPython(
    `
import dataclasses, datetime, decimal, enum, pathlib, uuid
gh = client()
@dataclasses.dataclass
class P: x: int
class C(enum.IntEnum): RED = 3
value = {
    "d": decimal.Decimal("12345678901234567890.1200"), "i": 2 ** 80, "at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc), "day": datetime.date(2026, 1, 2),
    "id": uuid.UUID(int=1), "b": "grüße".encode(), "s": {1}, "t": (1, "a"), "p": P(1), "c": C.RED, "path": pathlib.PurePosixPath("/a/b"), "half": "\\ud800", "f": 1.0, "n": None, "raw": JsonText("[1.0, 1e400]"), 7: True,
}
with gh.trace("py-digits"):
    gh.decide("look", value)
    say(gh.record("custom", value))
say(gh.flush())
`,
    { url: service.url, key: service.key, agent },
  );
  t.same(stderr, '');
  t.same(lines, [true, { sent: 1, failed: 0, dropped: 0 }]);
  const text = await sentIn('py-digits');
  const all =
    '{"d":12345678901234567890.1200,"i":1208925819614629174706176,"at":"2026-01-02T03:04:05+00:00","day":"2026-01-02",' +
    '"id":"00000000-0000-0000-0000-000000000001","b":"gr\\u00fc\\u00dfe","s":[1],"t":[1,"a"],"p":{"x":1},"c":3,' +
    '"path":"/a/b","half":"\\ud800","f":1.0,"n":null,"raw":[1.0, 1e400],"7":true}';
  t.ok(text.includes(`"arguments":${all}`), 'of a decision');
  t.ok(text.includes(`"payload":${all}`), 'of a record');
});
