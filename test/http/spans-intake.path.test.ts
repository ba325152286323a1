// How spans come in, against the whole service: whose a span is however a trace was split into requests, a span that
// comes twice, marks of decisions, bad spans beside sound ones, numbers, spans that are too large, and new agents.
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { Api } from '../support/api.ts';
import { sharedService } from '../support/shared-service.ts';
import {
  type Attributes,
  bodyOf,
  JSON_FORM,
  nextId,
  resourceSpansOf,
  sendSpans,
  spanOf,
  tool,
} from '../support/span-requests.ts';

const service = await sharedService(t);
const api = new Api(t, service);
const sendText = (body: string, key = service.key) => sendSpans(service.url, key, { body, headers: JSON_FORM });
const send = (spans: object[], name?: string, key?: string) => sendText(bodyOf(spans, name), key);

type Event = {
  id: string;
  agent_id: string;
  type: string;
  payload: Record<string, unknown>;
  policy_result: Result;
};
type Result = { outcome: string; decision_id?: string; matches: object[] };

async function eventsOf(traceId: string): Promise<Event[]> {
  const { status, json } = await api.get(`/v1/traces/${traceId}`);
  return status === 404 ? [] : json.events;
}

/** Spans wait for the ones around them. */
async function eventsOfAll(of: readonly { traceId: string }[], isThere: (events: Event[]) => boolean = () => true) {
  return api.until(
    () => Promise.all(of.map(({ traceId }) => eventsOf(traceId))),
    (all) => all.every(isThere),
  );
}

const agentIds = new Map<string, string>();
async function agentId(name: string): Promise<string> {
  const known = agentIds.get(name) ?? ((await api.post('/v1/agents', { name })).json.id as string);
  agentIds.set(name, known);
  return known;
}

async function policy(body: object): Promise<void> {
  const { status, text } = await api.post('/v1/policies', { actions: ['block'], ...body });
  if (status !== 201) throw new Error(text);
}

const planner = await agentId('planner');
const helper = await agentId('helper');
const program = await agentId('program');
await policy({ name: 'no rm', type: 'block_action', agent_id: planner, conditions: { tool: 'rm' } });
await policy({ name: 'money', type: 'block_action', conditions: { 'payload.arguments.amount': { gt: 1000 } } });
await policy({ name: 'words', type: 'block_action', conditions: { 'payload.result': { contains: 'needle' } } });
await policy({
  ...{ name: 'addresses', type: 'data_filter', actions: ['log'] },
  conditions: { tool: 'mail', detectors: ['email'], redact: true },
});
const probe = await agentId('probe');
await api.until(
  () => api.post(`/v1/agents/${probe}/events`, { type: 'tool_call', payload: { tool: 'mail', to: 'a@example.com' } }),
  ({ json }) => json.redacted_payload !== undefined,
);

const agent = (name: string, more: object = {}) =>
  spanOf({ 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': name }, { name, ...more });

/** All ways to send some spans in one or more requests, one behind the other. */
function splits<T>(all: readonly T[]): T[][][] {
  if (all.length === 0) return [[]];
  const [first, ...rest] = all as [T, ...T[]];
  return splits(rest).flatMap((requests) => [
    ...requests.map((_, i) => requests.map((request, j) => (i === j ? [...request, first] : request))),
    ...Array.from({ length: requests.length + 1 }, (_, i) => [...requests.slice(0, i), [first], ...requests.slice(i)]),
  ]);
}

t.test('whose a span is does not depend on the requests that a trace is split into', async (t) => {
  const all = splits(['agent', 'chat', 'rm'] as const);
  t.equal(all.length, 13);
  const sent = all.map((requests) => {
    const traceId = nextId(32);
    const [root, middle, leaf] = [nextId(16), nextId(16), nextId(16)];
    const spans = {
      agent: agent('planner', { traceId, spanId: root }),
      chat: spanOf({ 'gen_ai.operation.name': 'chat' }, { traceId, spanId: middle, parentSpanId: root }),
      rm: tool('rm', {}, { traceId, spanId: leaf, parentSpanId: middle }),
    };
    return { traceId, requests, bodies: requests.map((request) => request.map((name) => spans[name])) };
  });
  for (let turn = 0; turn < 3; turn++) {
    for (const { bodies } of sent) if (turn < bodies.length) t.equal((await send(bodies[turn]!, 'program')).text, '{}');
  }
  const found = await eventsOfAll(sent, (events) => events.length === 4);
  for (const [i, { requests }] of sent.entries()) {
    const events = found[i]!;
    for (const [name, type] of [
      ['agent', 'custom'],
      ['chat', 'prompt'],
      ['chat', 'completion'],
      ['rm', 'tool_call'],
    ] as const) {
      const [event, ...others] = events.filter((event) => event.type === type);
      const what = `${name} of ${JSON.stringify(requests)}`;
      t.same([event?.agent_id, others.length], [planner, 0], what);
      if (type === 'tool_call') t.equal(event?.policy_result.outcome, 'blocked', what);
    }
  }
});

t.test('whose a span is: other ways', async (t) => {
  const cases: { requests: object[][]; traceId: string; expected: string; what: string }[] = [];
  const ids = () => ({ traceId: nextId(32), root: nextId(16), inner: nextId(16), leaf: nextId(16) });
  const resource = { 'service.name': 'program' };
  const add = (traceId: string, what: string, expected: string, ...requests: object[][]) =>
    cases.push({ traceId, what, expected, requests: requests.map((spans) => [resourceSpansOf(spans, resource)]) });
  {
    const { traceId, root, inner, leaf } = ids();
    const outer = agent('planner', { traceId, spanId: root });
    const within = agent('helper', { traceId, spanId: inner, parentSpanId: root });
    const call = tool('ls', {}, { traceId, spanId: leaf, parentSpanId: inner });
    add(traceId, 'the nearest of two agents', 'helper', [outer], [within], [call]);
  }
  {
    const { traceId, root, inner, leaf } = ids();
    const both = [agent('planner', { traceId, spanId: root }), agent('helper', { traceId, spanId: inner })];
    const call = tool('ls', {}, { traceId, spanId: leaf, parentSpanId: nextId(16) });
    add(traceId, 'a trace of two agents says nothing of what is between', 'program', both, [call]);
  }
  {
    const { traceId, root, inner, leaf } = ids();
    const call = tool('ls', {}, { traceId, spanId: leaf, parentSpanId: nextId(16) });
    const [one, other] = [agent('planner', { traceId, spanId: root }), agent('helper', { traceId, spanId: inner })];
    add(traceId, 'nor where they came one by one', 'program', [one], [other], [call]);
  }
  {
    const { traceId, root, leaf } = ids();
    const first = agent('planner', { traceId, spanId: root });
    add(traceId, 'a root is within none', 'program', [first], [tool('ls', {}, { traceId, spanId: leaf })]);
  }
  {
    const { traceId, root, leaf } = ids();
    const call = tool('ls', {}, { traceId, spanId: leaf, parentSpanId: root });
    add(traceId, 'a span id of another trace', 'program', [agent('planner', { spanId: root })], [call]);
  }
  {
    const { traceId, root, inner, leaf } = ids();
    const pending = { 'logfire.span_type': 'pending_span', 'logfire.pending_parent_id': '0'.repeat(16) };
    const named = { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'planner', ...pending };
    const begun = spanOf(named, { traceId, spanId: inner, parentSpanId: root });
    const call = tool('ls', {}, { traceId, spanId: leaf, parentSpanId: root });
    add(traceId, 'a pending span names the one that it stands for', 'planner', [begun, call]);
  }
  {
    const { traceId, leaf } = ids();
    const call = tool('ls', {}, { traceId, spanId: leaf, parentSpanId: nextId(16) });
    const requests = [[resourceSpansOf([call], { ...resource, 'gatehouse.agent.id': helper })]];
    cases.push({ traceId, what: 'gatehouse.agent.id of the resource', expected: 'helper', requests });
  }
  for (const resourceSpans of cases.flatMap(({ requests }) => requests))
    t.equal((await sendText(JSON.stringify({ resourceSpans }))).text, '{}');
  const found = await eventsOfAll(cases, (events) => events.some(({ type }) => type === 'tool_call'));
  for (const [i, { expected, what }] of cases.entries()) {
    const calls = found[i]!.filter(({ type }) => type === 'tool_call');
    t.same(
      calls.map(({ agent_id }) => agent_id),
      [agentIds.get(expected)],
      what,
    );
  }
});

t.test('a span that comes twice is recorded once, whatever comes with it', async (t) => {
  const id = () => ({ traceId: nextId(32), spanId: nextId(16) });
  const [other, later, atOnce, bound, pending] = [id(), id(), id(), id(), id()];
  const [a, b, c] = [tool('ls', {}, other), tool('ls'), tool('ls') as { traceId: string }];
  await send([a, b], 'program');
  await send([c, a], 'program');
  await send([a, a, tool('ls', { more: 'x' }, other)], 'program');

  const root = agent('planner', { traceId: later.traceId }) as { spanId: string };
  const call = tool('ls', {}, { ...later, parentSpanId: root.spanId });
  await send([call], 'program');
  await send([root, call], 'program');

  const chat = spanOf({ 'gen_ai.operation.name': 'chat', 'gen_ai.usage.input_tokens': 7 }, atOnce);
  const statuses = new Set<number>();
  const sendWith = async (others: number) => {
    const request = [chat, ...Array.from({ length: others }, () => tool('ls'))];
    for (let status = 503; status === 503; statuses.add(status)) status = (await send(request, 'program')).status;
  };
  await Promise.all(Array.from({ length: 12 }, (_, i) => sendWith(i)));

  const key = { label: 'bound', scope: 'write', agent_id: helper, permissions: ['submit'] };
  await send([tool('forged', {}, bound)], 'program', (await api.post('/v1/api-keys', key)).json.key);
  await send([tool('real', {}, bound)], 'program');

  const half = { traceId: pending.traceId, parentSpanId: pending.spanId };
  await send([tool('ls', { 'logfire.span_type': 'pending_span' }, half)], 'program');
  await send([tool('ls', { 'logfire.span_type': 'span' }, pending)], 'program');

  t.equal((await eventsOf(other.traceId)).length, 1, 'with other spans, changed, and twice in a request');
  t.equal((await eventsOf(c.traceId)).length, 1, 'what came with it is there');
  const calls = (await eventsOf(later.traceId)).filter(({ type }) => type === 'tool_call');
  const owners = calls.map(({ agent_id }) => agent_id);
  t.same(owners, [planner], 'also where it waited for its agent');
  t.notOk([...statuses].some((status) => status !== 200 && status !== 503));
  t.same((await eventsOf(atOnce.traceId)).map(({ type }) => type).sort(), ['completion', 'prompt'], 'sent at once');
  const forged = (await eventsOf(bound.traceId)).map(({ agent_id, payload }) => [agent_id, payload['tool']]);
  t.same(
    new Map(forged as [string, string][]),
    new Map([
      [helper, 'forged'],
      [program, 'real'],
    ]),
    "a bound key takes no place of another agent's span",
  );
  t.equal((await eventsOf(pending.traceId)).length, 1, 'a pending span and the finished one');
});

async function asked(payload: object): Promise<string> {
  return (await api.post(`/v1/agents/${program}/events`, { type: 'tool_call', payload })).json.id;
}

/** Decisions are looked for in what is stored. */
async function untilStored(ids: readonly string[]): Promise<void> {
  for (const id of ids) while ((await api.get(`/v1/agents/${program}/events/${id}`)).status === 404) await sleep(100);
}

t.test('a decision is taken where tool and arguments are its own, once', async (t) => {
  const sent = '{"amount":5,"to":["a","b"],"deep":{"x":1,"y":null}}';
  type Case = [decided: object, sent: Attributes, isTaken: boolean, tool?: string];
  const args = (text: string): Attributes => ({ 'gen_ai.tool.call.arguments': text });
  const written = (payload: string): Attributes => ({
    'gatehouse.event.type': 'tool_call',
    'gatehouse.event.payload': payload,
  });
  const decided = JSON.parse(sent);
  const cases: Case[] = [
    [decided, args(sent), true],
    [decided, args('{"deep":{"y":null,"x":1.0},"to":["a","b"],"amount":5e0}'), true],
    [decided, args(` {\n"to": ["a", "b"], "amount": 5, "deep": {"x": 1, "y": null}}`), true],
    [
      { text: 'a', n: 1 },
      {
        'gen_ai.tool.call.arguments': {
          kvlistValue: {
            values: [
              { key: 'n', value: { intValue: '1' } },
              { key: 'text', value: { stringValue: 'a' } },
            ],
          },
        },
      },
      true,
    ],
    [sent as unknown as object, args(sent), true],
    [decided, args(sent.replace('5', '5000')), false],
    [decided, args(sent.replace('5', '"5"')), false],
    [decided, args(sent.replace('"a","b"', '"b","a"')), false],
    [decided, args(sent.replace('"y":null', '"z":null')), false],
    [decided, args(sent.replace(',"y":null', '')), false],
    [decided, args(sent.replace('}}', '},"more":1}')), false],
    [decided, args('{}'), false],
    [decided, args('5'), false],
    [{ id: 1 }, args('{"id":1,"id":1}'), false],
    [{ id: 9007199254740992 }, args('{"id":9007199254740993}'), false],
    [decided, args(sent), false, 'send'],
    [decided, written(`{"tool":"pay","arguments":${sent}}`), true],
    [decided, written(`{"tool":"pay","arguments":${sent},"command":"rm -rf /"}`), false],
    [decided, written('{"tool":"pay","content_captured":false,"command":"rm -rf /"}'), false],
    [decided, written('{"tool":"pay","content_captured":false,"result":"rm -rf /"}'), false],
    [{ amount: 5000 }, { ...args('{"amount":5000}'), 'gen_ai.tool.call.result': 'sent' }, false],
    [{ '[redacted:email]': 1, x: '[redacted:email]' }, args('{"x":"rm -rf /"}'), false],
    [{ x: '[redacted:email]' }, args('{"x":"rm -rf /"}'), false],
  ];
  const spans: object[] = [];
  const expected: [traceId: string, decision: string, isTaken: boolean, what: string][] = [];
  const decisions = await Promise.all(cases.map(([before]) => asked({ tool: 'pay', arguments: before })));
  for (const [i, [before, attributes, isTaken, name = 'pay']] of cases.entries()) {
    const decision = decisions[i]!;
    const traceId = nextId(32);
    spans.push(tool(name, { ...attributes, 'gatehouse.decision.id': decision }, { traceId }));
    expected.push([traceId, decision, isTaken, JSON.stringify([before, attributes, name])]);
  }
  const mail = await asked({ tool: 'mail', arguments: { to: 'a@example.com' } });
  const look = await asked({ tool: 'look', arguments: { a: 1 } });
  const [mailTrace, otherMail] = [nextId(32), nextId(32)];
  const mailing = (to: string, traceId: string, decision: string) =>
    tool('mail', { ...args(`{"to":"${to}"}`), 'gatehouse.decision.id': decision }, { traceId });
  const spoiled = await asked({ tool: 'mail', arguments: { to: 'a@example.com' } });
  spans.push(mailing('a@example.com or else', otherMail, spoiled));
  await untilStored([...decisions, mail, look, spoiled]);
  t.equal((await send(spans, 'program')).text, '{}');
  t.equal((await send([mailing('a@example.com', mailTrace, mail)], 'program')).text, '{}');
  const found = await eventsOfAll(expected.map(([traceId]) => ({ traceId })));
  for (const [i, [, decision, isTaken, what]] of expected.entries()) {
    const [event] = found[i]!;
    t.equal(event?.policy_result.decision_id, isTaken ? decision : undefined, what);
    if (what.includes('5000')) t.equal(event?.policy_result.outcome, 'blocked', 'it is judged');
  }
  t.equal((await eventsOf(otherMail))[0]?.policy_result.decision_id, undefined, 'around what is redacted');
  const [first] = found[0]!;
  const again = nextId(32);
  t.equal(
    (await send([tool('pay', { ...args(sent), 'gatehouse.decision.id': first!.id }, { traceId: again })])).text,
    '{}',
  );
  t.equal((await eventsOf(again))[0]?.policy_result.decision_id, undefined, 'a span decides nothing');
  const [redacted] = await eventsOf(mailTrace);
  t.equal(redacted?.policy_result.decision_id, mail, 'its record was redacted, as the span is');
  t.match(redacted?.payload, { arguments: { to: '[redacted:email]' } });
  const marked = (more: Attributes) => tool('look', { ...more, 'gatehouse.decision.id': look });
  const twice = [marked({}), marked({}), marked({})] as { traceId: string }[];
  await send(twice.slice(0, 2), 'program');
  await send(twice, 'program');
  const taken = await Promise.all(
    twice.map(async ({ traceId }) => (await eventsOf(traceId))[0]?.policy_result.decision_id),
  );
  t.same(taken.filter((one) => one === look).length, 1, 'a decision is of one call');
  const silently = await asked({ tool: 'look', arguments: { a: 2 } });
  const silent = spanOf({
    ...{ 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'look' },
    'gatehouse.decision.id': silently,
  }) as { traceId: string };
  await untilStored([silently]);
  await send([silent], 'program');
  const [unsaid] = await eventsOf(silent.traceId);
  t.match(unsaid, { payload: { content_captured: false }, policy_result: { decision_id: /^evt_/ } }, 'without content');
});

t.test('the result of a call that was decided before is judged, and the call not again', async (t) => {
  const cases: [name: string, args: string, result: string, outcome: string, matches: number, what: string][] = [
    ['look', '{"a":3}', 'hay', 'allowed', 0, 'nothing matches'],
    ['look', '{"a":4}', 'a needle', 'blocked', 1, 'the result does'],
    ['mail', '{"to":"b@example.com"}', 'hay', 'allowed', 0, 'the call does'],
    ['mail', '{"to":"c@example.com"}', 'a needle', 'blocked', 1, 'each does by a policy of its own'],
    ['mail', '{"a":5}', 'to d@example.com', 'allowed', 1, 'the result does, and is redacted'],
  ];
  for (const [name, args, result, outcome, matches, what] of cases) {
    const decision = await asked({ tool: name, arguments: JSON.parse(args) });
    await untilStored([decision]);
    const span = tool(name, {
      ...{ 'gen_ai.tool.call.arguments': args, 'gen_ai.tool.call.result': result },
      'gatehouse.decision.id': decision,
    }) as { traceId: string };
    t.equal((await send([span], 'program')).text, '{}');
    const [event] = await eventsOf(span.traceId);
    const { decision_id, outcome: is, matches: found } = event!.policy_result;
    t.same([decision_id, is, found.length], [decision, outcome, matches], what);
    t.notMatch(JSON.stringify(event!.payload), /@example/, what);
  }
});

t.test('a bad span beside sound ones; requests that are none', async (t) => {
  const sound = Array.from({ length: 9 }, () => tool('ls'));
  const bad = tool('ls', { score: { doubleValue: 'much' } });
  const { status, json } = await send([...sound, bad], 'program');
  t.equal(status, 200);
  t.match(json, {
    partialSuccess: {
      rejectedSpans: '1',
      errorMessage: '/resourceSpans/0/scopeSpans/0/spans/9/attributes/3/value/doubleValue is no number',
    },
  });
  t.equal((await eventsOf((sound[8] as { traceId: string }).traceId)).length, 1);
  const base64 = await send([tool('ls', {}, { traceId: 'W47/94gDgQPSabYzgT/GDA==' })]);
  t.match(base64.json, { code: 3, message: /spans\/0: a trace id is not 16 bytes .*hex/ });
  for (const body of ['{"resourceLogs":[]}', '{"data":{"resourceSpans":[]}}', '{"resourceSpans":[{"spans":[]}]}'])
    t.match((await sendText(body)).json, { code: 3, message: /which is not known/ }, body);
  const span = tool('ls') as { traceId: string };
  const snake = bodyOf([span], 'program').replaceAll(/"\w+":/g, (name) =>
    name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
  );
  t.equal((await sendText(snake)).text, '{}');
  t.equal((await eventsOf(span.traceId)).length, 1, "protobuf's own names");
});

t.test('numbers keep their digits, in text and in values', async (t) => {
  const text = '{"account": 12345678901234567890, "to": 9007199254740993, "big": 1e400, "one": 1.0}';
  const span = tool('pay', {
    'gen_ai.tool.call.arguments': text,
    'gen_ai.tool.call.result': { kvlistValue: { values: [{ key: 'id', value: { intValue: '9007199254740993' } }] } },
  }) as { traceId: string };
  const chat = spanOf({
    'gen_ai.operation.name': 'chat',
    'gen_ai.output.messages': `[{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"pay","arguments":${text}}]}]`,
  }) as { traceId: string };
  await send([span, chat], 'program');
  const called = (await api.get(`/v1/traces/${span.traceId}`)).text;
  t.ok(called.includes(`"arguments":${text}`), called);
  t.ok(called.includes('"result":{"id":9007199254740993}'), called);
  const replied = (await api.get(`/v1/traces/${chat.traceId}`)).text;
  t.ok(replied.includes('"account":12345678901234567890,"to":9007199254740993,"big":1e400'), replied);
});

t.test('a span that is too large keeps what is small of it, and says what was left out', async (t) => {
  const long = 'word '.repeat(240_000);
  const messages = JSON.stringify([{ role: 'user', content: long }]);
  const ids = () => ({ traceId: nextId(32) });
  const [chat, call, flat] = [ids(), ids(), ids()];
  const usage = { 'gen_ai.usage.input_tokens': 300_000, 'gen_ai.usage.output_tokens': 10 };
  const reply = '[{"role":"assistant","parts":[{"type":"text","content":"short"}]}]';
  const many = Object.fromEntries(Array.from({ length: 2_100 }, (_, i) => [`gen_ai.prompt.${i}.content`, 'x']));
  const { text } = await send(
    [
      spanOf(
        {
          'gen_ai.operation.name': 'chat',
          'gen_ai.request.model': 'm',
          'gen_ai.input.messages': messages,
          'gen_ai.output.messages': reply,
          ...usage,
        },
        chat,
      ),
      tool('read', { 'gen_ai.tool.call.result': `${long}needle` }, call),
      tool('read', many, flat),
    ],
    'program',
  );
  t.equal(text, '{}');
  const [prompt, completion] = await eventsOf(chat.traceId);
  t.match(prompt?.payload, { model: 'm', left_out: { messages: /^12\d{5}$/, prompt: /^12\d{5}$/ }, otel: {} });
  t.equal(prompt?.payload['messages'], undefined);
  t.match(completion?.payload, { model: 'm', response: 'short', token_count: 300_000, tokens_used: 300_010 });
  const [read] = await eventsOf(call.traceId);
  t.match(read?.payload, { tool: 'read', arguments: { a: 1 }, left_out: { result: 1_200_008 } });
  t.match(read?.policy_result, { outcome: 'blocked', matches: [{ name: 'words' }] }, 'what is left out is judged');
  t.match((await eventsOf(flat.traceId))[0]?.payload, {
    tool: 'read',
    arguments: { a: 1 },
    left_out: { attributes: 2_100 },
  });
});

t.test('no span is lost because its agent is new', async (t: Test) => {
  const spans = Array.from({ length: 24 }, () => tool('ls'));
  const resources = spans.map((span, i) => resourceSpansOf([span], { 'service.name': `collected ${i}` }));
  const body = JSON.stringify({ resourceSpans: resources });
  t.equal((await sendText(body)).text, '{}');
  t.equal((await sendText(body)).text, '{}');
  const { json } = await api.get('/v1/agents?name=otlp-others');
  const { items } = (await api.get(`/v1/agents/${json.items[0].id}/events`)).json;
  t.same(
    items.map(({ payload }: Event) => (payload['otel'] as { agent?: string }).agent).sort(),
    Array.from({ length: 8 }, (_, i) => `collected ${i + 16}`).sort(),
  );
  const { json: key } = await api.post('/v1/api-keys', {
    ...{ label: 'kept', scope: 'write', permissions: ['submit'], registers_agents: false },
  });
  const { json: answer } = await send(
    [tool('ls'), tool('ls', { 'gen_ai.agent.name': 'planner' })],
    'not there',
    key.key,
  );
  t.match(answer, { partialSuccess: { rejectedSpans: '1' } }, 'a key that registers none');
});
