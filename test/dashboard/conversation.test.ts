// What the dashboard understands of payloads as a conversation, without a browser: forms of many senders, each with
// what is shown of it, token by token as it was sent; Markdown without anything that acts; hostile and huge ones;
// recorded runs, where they are there; and the tree of spans.
import { existsSync } from 'node:fs';
import t from 'tap';
import { readRecorded, recordedRuns } from '../../bench/replay.ts';
import { assetPath } from '../../src/process/assets.ts';
import { dashboardModule } from '../support/dashboard-module.ts';

type Markdown = { tag: string; text?: string; children?: Markdown[] };
type Part = {
  kind: string;
  text: string;
  tool?: string;
  id?: string;
  failed?: boolean;
  whole?: number;
  markdown?: Markdown[];
};
type Conversation = { form: string; earlier: number; messages: { role: string; key: string; parts: Part[] }[] };
type Row = { events: number[]; level: number; name: string; startMs: number; endMs: number };
type Place = { span: string; parent: string; durationMs: number; name: string };

const { conversationOf } = await dashboardModule<{
  conversationOf(payload: string, type: string): Conversation | undefined;
}>('conversation-messages');
const spans = await dashboardModule<{
  spanPlaceOf(payload: string): Place;
  spanRowsOf(events: { atMs: number; type: string; place: Place }[]): Row[];
}>('span-tree');

const RUNS = assetPath('../shared/data');

/** A line a part: `role kind tool#id: text`. */
function shownOf(payload: string, type: string): string[] {
  const read = conversationOf(payload, type);
  return (read?.messages ?? []).flatMap(({ role, parts }) =>
    parts.map(({ kind, tool, id, text, failed }) => {
      const named = tool === undefined ? '' : ` ${tool}${id === '' ? '' : `#${id}`}${failed ? '!' : ''}`;
      return `${role} ${kind}${named}: ${text.replace(/\s+/g, ' ')}`;
    }),
  );
}

type Shape = [sender: string, type: string, payload: string, shown: string[]];

const SHAPES: Shape[] = [
  [
    'OpenAI chat, request',
    'prompt',
    '{"model":"gpt-4o","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"https://e.test/cat.png"}}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\\"n\\":1.50}"}}]},{"role":"tool","tool_call_id":"c1","content":"a cat"}]}',
    [
      'system text: Be brief.',
      'user text: What is it?',
      'user media: image_url · https://e.test/cat.png',
      'assistant call look#c1: { "n": 1.50 }',
      'tool result #c1: a cat',
    ],
  ],
  [
    'OpenAI chat, answer',
    'completion',
    '{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"A cat.","refusal":null}}]}',
    ['assistant text: A cat.'],
  ],
  [
    'OpenAI chat, a refusal',
    'completion',
    '{"choices":[{"message":{"role":"assistant","content":null,"refusal":"I will not."}}]}',
    ['assistant refusal: I will not.'],
  ],
  [
    'OpenAI chat, the older function_call',
    'completion',
    '{"choices":[{"message":{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}}]}',
    ['assistant call f: {}'],
  ],
  ['OpenAI completions', 'completion', '{"choices":[{"text":"legacy","index":0}]}', ['assistant text: legacy']],
  [
    'OpenAI responses, request',
    'prompt',
    '{"instructions":"Be kind.","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"function_call","call_id":"c9","name":"go","arguments":"{\\"a\\":12345678901234567890}"},{"type":"function_call_output","call_id":"c9","output":"went"}]}',
    [
      'system text: Be kind.',
      'user text: hi',
      'assistant call go#c9: { "a": 12345678901234567890 }',
      'tool result #c9: went',
    ],
  ],
  [
    'OpenAI responses, answer',
    'completion',
    '{"object":"response","output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}]}',
    ['assistant thought: hm', 'assistant text: done'],
  ],
  [
    'Anthropic, request',
    'prompt',
    '{"system":[{"type":"text","text":"sys"}],"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"ok"},{"type":"tool_use","id":"t1","name":"get","input":{"n":1e400}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"no"}]}]}]}',
    [
      'system text: sys',
      'user text: q',
      'assistant thought: hm',
      'assistant text: ok',
      'assistant call get#t1: { "n": 1e400 }',
      'user result #t1!: no',
    ],
  ],
  [
    'Anthropic, answer',
    'completion',
    '{"type":"message","role":"assistant","content":[{"type":"text","text":"hello"},{"type":"tool_use","id":"t2","name":"g","input":{}}]}',
    ['assistant text: hello', 'assistant call g#t2: {}'],
  ],
  [
    'Anthropic, a picture in the payload',
    'prompt',
    '{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}',
    ['user media: image/png · 4 characters'],
  ],
  [
    'Google, request',
    'prompt',
    '{"systemInstruction":{"parts":[{"text":"sys"}]},"contents":[{"role":"user","parts":[{"text":"hi"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]},{"role":"model","parts":[{"functionCall":{"name":"w","args":{"c":"B"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"w","response":{"t":1.0}}}]}]}',
    [
      'system text: sys',
      'user text: hi',
      'user media: image/png · 4 characters',
      'assistant call w: { "c": "B" }',
      'user result w: { "t": 1.0 }',
    ],
  ],
  [
    'Google, answer',
    'completion',
    '{"candidates":[{"content":{"role":"model","parts":[{"text":"why","thought":true},{"text":"because"}]}}]}',
    ['assistant thought: why', 'assistant text: because'],
  ],
  [
    'AI SDK, model messages',
    'prompt',
    '{"prompt":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"tool-call","toolCallId":"k","toolName":"s","input":{"q":1}}]},{"role":"tool","content":[{"type":"tool-result","toolCallId":"k","toolName":"s","output":{"type":"json","value":{"r":2.0}}}]}]}',
    ['user text: hi', 'assistant call s#k: { "q": 1 }', 'tool result s#k: { "r": 2.0 }'],
  ],
  [
    'AI SDK, messages of pages',
    'prompt',
    '{"messages":[{"id":"m","role":"assistant","parts":[{"type":"step-start"},{"type":"tool-weather","toolCallId":"z","state":"output-available","input":{"c":"P"},"output":{"t":20}},{"type":"text","text":"20"}]}]}',
    ['assistant call weather#z: { "c": "P" }', 'assistant result weather#z: { "t": 20 }', 'assistant text: 20'],
  ],
  [
    'AI SDK, answer',
    'completion',
    '{"text":"ok","toolCalls":[{"toolCallId":"a","toolName":"b","input":{}}]}',
    ['assistant text: ok', 'assistant call b#a: {}'],
  ],
  [
    'OpenTelemetry, as text in attributes',
    'prompt',
    '{"gen_ai.input.messages":"[{\\"role\\":\\"user\\",\\"parts\\":[{\\"type\\":\\"text\\",\\"content\\":\\"hi\\"}]},{\\"role\\":\\"assistant\\",\\"parts\\":[{\\"type\\":\\"tool_call\\",\\"id\\":\\"1\\",\\"name\\":\\"n\\",\\"arguments\\":{\\"a\\":1.0}}]},{\\"role\\":\\"tool\\",\\"parts\\":[{\\"type\\":\\"tool_call_response\\",\\"id\\":\\"1\\",\\"response\\":\\"r\\"}]}]","gen_ai.system_instructions":[{"type":"text","content":"sys"}]}',
    ['system text: sys', 'user text: hi', 'assistant call n#1: { "a": 1.0 }', 'tool result #1: r'],
  ],
  [
    'spans, as the service stores them',
    'prompt',
    '{"model":"m","prompt":"again","system":"sys","messages":[{"role":"system","content":"sys"},{"role":"user","content":"again"}],"otel":{"span_id":"1"}}',
    ['system text: sys', 'user text: again'],
  ],
  [
    'MCP, a call',
    'tool_call',
    '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"read","arguments":{"p":"/x"}}}',
    ['assistant call read#3: { "p": "/x" }'],
  ],
  [
    'MCP, an answer',
    'tool_call',
    '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"body"}],"isError":true}}',
    ['tool result #3!: body'],
  ],
  [
    'a tool with its result',
    'tool_call',
    '{"tool":"send_money","arguments":{"amount":5000.10},"result":{"ok":true},"call_id":"q"}',
    ['assistant call send_money#q: { "amount": 5000.10 }', 'tool result send_money#q: { "ok": true }'],
  ],
  [
    'hooks of Claude Code',
    'custom',
    '{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}',
    ['assistant call Bash: { "command": "ls" }'],
  ],
  [
    'LangChain, constructors in lists',
    'prompt',
    '{"messages":[[{"lc":1,"type":"constructor","id":["langchain","schema","messages","HumanMessage"],"kwargs":{"content":"lc","type":"human"}}]]}',
    ['user text: lc'],
  ],
  ['LangChain, data', 'prompt', '{"messages":[{"type":"human","data":{"content":"d"}}]}', ['user text: d']],
  [
    'LangChain, generations',
    'completion',
    '{"generations":[[{"text":"gen","message":{"type":"ai","content":"gen"}}]]}',
    ['assistant text: gen'],
  ],
  ['Ollama', 'completion', '{"message":{"role":"assistant","content":"o"},"done":true}', ['assistant text: o']],
  [
    'Bedrock converse',
    'completion',
    '{"output":{"message":{"role":"assistant","content":[{"text":"b"},{"toolUse":{"toolUseId":"u","name":"n","input":{}}}]}}}',
    ['assistant text: b', 'assistant call n#u: {}'],
  ],
  [
    'Cohere',
    'prompt',
    '{"message":"new","chat_history":[{"role":"USER","message":"old"}]}',
    ['user text: old', 'user text: new'],
  ],
  ['plain', 'prompt', '{"prompt":"p","system":"s","role":"user"}', ['system text: s', 'user text: p']],
  [
    'plain, names of calls',
    'completion',
    '{"response":"r","tool_calls":["get_page"]}',
    ['assistant text: r', 'assistant call get_page: '],
  ],
  ['messages as text', 'prompt', '{"prompt":"[{\\"role\\":\\"user\\",\\"content\\":\\"in\\"}]"}', ['user text: in']],
  ['an error of a tool', 'error', '{"tool":"x","message":"boom"}', ['tool result x!: boom']],
  ['a note', 'custom', '{"name":"thought","content":"c"}', ['thought text: c']],
  ['nothing that was said', 'custom', '{"a":1,"b":[true]}', []],
  ['a list of anything', 'custom', '{"messages":[1,2],"content":{}}', []],
];

t.test('payloads of real senders', async (t) => {
  for (const [sender, type, payload, shown] of SHAPES) t.same(shownOf(payload, type), shown, sender);
});

t.test('what is as before has the same key, whoever sends it', async (t) => {
  const keys = (payload: string, type: string) => conversationOf(payload, type)!.messages.map(({ key }) => key);
  const [first] = keys('{"prompt":"hello"}', 'prompt');
  const [answer] = keys('{"response":"hi"}', 'completion');
  const history =
    '{"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":[{"type":"text","text":"hi"}]},{"role":"user","content":"hello?"}]}';
  const [one, two, three] = keys(history, 'prompt');
  t.same([one, two], [first, answer]);
  t.not(three, first);
});

t.test('Markdown holds nothing that acts', async (t) => {
  const text = [
    '# Head',
    '**b** `c` [click](javascript:alert(1)) ![cat](https://e.test/p.png) <https://e.test>',
    '<script>alert(1)</script>',
    '<svg onload=alert(1)><img src=x onerror=alert(1)>',
    '- [x] done',
    '| a | b |\n|---|---|\n| 1.50 | <b>x</b> |',
    '```html\n<iframe src="https://e.test">\n```',
    '[ref]: javascript:alert(1)',
  ].join('\n\n');
  const [message] = conversationOf(JSON.stringify({ prompt: text }), 'prompt')!.messages;
  const trees = message!.parts[0]!.markdown!;
  const told = textOf(trees);
  for (const said of [
    'click (javascript:alert(1))',
    '[picture] cat (https://e.test/p.png)',
    '<script>alert(1)</script>',
    '<svg onload=alert(1)>',
    '<b>x</b>',
    '<iframe src="https://e.test">',
    '[ref]: javascript:alert(1)',
    '1.50',
  ])
    t.ok(told.includes(said), said);
  const tags = new Set(tagsOf(trees));
  for (const tag of [
    'heading',
    'strong',
    'code',
    'address',
    'list',
    'item',
    'table',
    'row',
    'head',
    'cell',
    'codeblock',
  ])
    t.ok(tags.has(tag), tag);
  t.same(Object.keys(Object.assign({}, ...all(trees))).sort(), ['children', 'tag', 'text'], 'no attributes');
});

function all(trees: readonly Markdown[]): Markdown[] {
  return trees.flatMap((tree) => [tree, ...all(tree.children ?? [])]);
}

function textOf(trees: readonly Markdown[]): string {
  return trees.map(({ text = '', children = [] }) => text + textOf(children)).join('');
}

function tagsOf(trees: readonly Markdown[]): string[] {
  return all(trees).map(({ tag }) => tag);
}

t.test('hostile and huge payloads are bounded', async (t) => {
  const lists = (text: string) => JSON.stringify({ prompt: text });
  const deep = 100_000;
  const hostile: Record<string, string> = {
    'nested lists': `{"messages":${'['.repeat(deep)}${']'.repeat(deep)}}`,
    'nested messages': `{"messages":${'[{"role":"user","content":'.repeat(20_000)}1${'}]'.repeat(20_000)}}`,
    'nested requests': `${'{"request":'.repeat(20_000)}1${'}'.repeat(20_000)}`,
    'wrapped messages': `{"role":"user","message":${'{"message":'.repeat(20_000)}1${'}'.repeat(20_000)}}`,
    'many messages': `{"messages":[${Array(30_000).fill('{"role":"user","content":"x"}').join()}]}`,
    'many parts': `{"messages":[{"role":"user","content":[${Array(30_000).fill('{"type":"text","text":"x"}').join()}]}]}`,
    'one long text': lists('x'.repeat(1_000_000)),
    'a huge table': lists(`${'|a'.repeat(50)}|\n${'|-'.repeat(50)}|\n${`${'|x'.repeat(50)}|\n`.repeat(190)}`),
    quotes: lists('> '.repeat(9_000)),
    brackets: lists('['.repeat(20_000)),
    'nested list items': lists(Array.from({ length: 190 }, (_, i) => `${' '.repeat(i)}- x`).join('\n')),
    'many calls': JSON.stringify({ tool_calls: Array(30_000).fill('a') }),
    'keys of prototypes':
      '{"__proto__":{"role":"user"},"messages":[{"role":"constructor","content":[{"type":"toString"}]}]}',
  };
  for (const [name, payload] of Object.entries(hostile)) {
    const read = conversationOf(payload, 'prompt');
    const messages = read?.messages ?? [];
    const characters = messages.flatMap(({ parts }) => parts).reduce((sum, { text }) => sum + text.length, 0);
    t.ok(messages.length <= 200 && characters <= 500_000, `${name}: ${messages.length} messages`);
    const nodes = messages.flatMap(({ parts }) => all(parts.flatMap(({ markdown = [] }) => markdown)));
    t.ok(nodes.length <= 10_000, `${name}: ${nodes.length} elements`);
  }
  const many = conversationOf(hostile['many messages']!, 'prompt')!;
  t.equal(many.earlier, 30_000 - many.messages.length, 'what is left out is counted');
  const long = conversationOf(hostile['one long text']!, 'prompt')!.messages[0]!.parts[0]!;
  t.same([long.text.length, long.whole], [100_000, 1_000_000]);
  t.equal(shownOf('{"prompt":"\\u202etxt.exe"}', 'prompt')[0], 'user text: \u202etxt.exe', 'named when it is drawn');
});

t.test('recorded runs are understood', { skip: !existsSync(RUNS) && 'the recorded runs are not there' }, async (t) => {
  const events = (await Promise.all(recordedRuns().map(readRecorded))).flat();
  const read = events.filter(({ payloadText, type }) => conversationOf(payloadText, type) !== undefined).length;
  t.comment(`${read} of ${events.length} events`);
  t.ok(events.length > 0 && read / events.length > 0.99, `${read} of ${events.length} events`);
});

t.test('spans are a tree with times', async (t) => {
  const place = (span: string, parent = '', durationMs = 0, name = span) => ({ span, parent, durationMs, name });
  const payload =
    '{"tool":"pay","text":"}\\"{","duration_ms":250,"otel":{"span_id":"a1","parent_span_id":"r","deep":[[{}]]}}';
  t.same(spans.spanPlaceOf(payload), { span: 'a1', parent: 'r', durationMs: 250, name: 'pay' });
  t.same(spans.spanPlaceOf('{}'), { span: '', parent: '', durationMs: 0, name: '' });
  t.same(spans.spanPlaceOf('{"otel":7,"duration_ms":"x"}'), { span: '', parent: '', durationMs: 0, name: '' });
  const rows = spans.spanRowsOf([
    { atMs: 100, type: 'custom', place: place('r', '', 900, 'run') },
    { atMs: 200, type: 'prompt', place: place('m', 'r', 0, 'gpt') },
    { atMs: 250, type: 'custom', place: place('', '', 0, 'note') },
    { atMs: 400, type: 'completion', place: place('m', 'r') },
    { atMs: 500, type: 'tool_call', place: place('t', 'm', 100, 'pay') },
    { atMs: 600, type: 'custom', place: place('x', 'y') },
    { atMs: 600, type: 'custom', place: place('y', 'x') },
  ]);
  t.same(
    rows.map(({ level, name, startMs, endMs, events }) => [level, name, startMs, endMs, events]),
    [
      [0, 'run', 100, 1_000, [0]],
      [1, 'gpt', 200, 400, [1, 3]],
      [2, 'pay', 500, 600, [4]],
      [0, 'note', 250, 250, [2]],
      [0, 'x', 600, 600, [5]],
      [0, 'y', 600, 600, [6]],
    ],
    'a prompt and its completion are one; a circle is two roots',
  );
  const chain = Array.from({ length: 5_000 }, (_, i) => ({
    atMs: i,
    type: 'custom',
    place: place(`${i}`, `${i - 1}`),
  }));
  t.equal(spans.spanRowsOf(chain).length, 5_000, 'however long a chain is');
});
