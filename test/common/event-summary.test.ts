// The sentence of an event: what each known form says, that nothing makes it long, slow or harmful, and that it is the
// same whether the payload is there whole or as its ends alone.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { EVENT_TYPES, type EventType } from '../../schemas/closed-sets.ts';
import { SUMMARY_CHARACTERS } from '../../schemas/event.ts';
import { eventSummary, PAYLOAD_HEAD_CHARACTERS, payloadEnds } from '../../src/common/summary/event-summary.ts';
import { assetPath } from '../../src/process/assets.ts';
import { SEED } from '../support/seed.ts';

const summary = (type: EventType, payload: string) => eventSummary(type, payloadEnds(payload));
const RUNS = assetPath('../shared/data');

const FORMS: readonly [form: string, type: EventType, payload: object | string, summary: string][] = [
  ['plain', 'tool_call', { tool: 'pay', arguments: { to: 'Ann', amount: 5 } }, 'pay(to: Ann, amount: 5)'],
  ['plain, args', 'tool_call', { name: 'pay', args: ['a', 1] }, 'pay(["a",1])'],
  ['plain, input', 'tool_call', { tool_name: 'Bash', tool_input: { command: 'ls -l' } }, 'Bash(command: ls -l)'],
  ['plain, parameters', 'tool_call', { tool: 'pay', parameters: '{"amount": 1.50}' }, 'pay(amount: 1.50)'],
  ['a result alone', 'tool_call', { tool: 'list', result: 'a, b' }, 'list: a, b'],
  ['arguments beside the tool', 'tool_call', { tool: 'pay', to: 'Ann', amount: 5 }, 'pay(to: Ann, amount: 5)'],
  ['a name alone', 'tool_call', { tool: 'list' }, 'list'],
  [
    'numbers',
    'tool_call',
    '{"tool":"f","input":{"a":1.0,"b":12345678901234567890,"c":1e400}}',
    'f(a: 1.0, b: 12345678901234567890, c: 1e400)',
  ],
  ['a member called name', 'tool_call', { tool: 'add', params: { name: 'Ann' } }, 'add(name: Ann)'],
  [
    'MCP call',
    'tool_call',
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'find', arguments: { q: 'x' } } },
    'find(q: x)',
  ],
  [
    'MCP result',
    'tool_call',
    { jsonrpc: '2.0', id: 1, result: { content: [{ type: 'text', text: 'It rains.' }] } },
    'It rains.',
  ],
  ['MCP error', 'error', { jsonrpc: '2.0', id: 1, error: { code: -32601, message: 'No such tool' } }, 'No such tool'],
  [
    'OpenAI chat call',
    'completion',
    {
      choices: [
        {
          message: {
            role: 'assistant',
            content: null,
            tool_calls: [{ type: 'function', function: { name: 'find', arguments: '{"q":"x"}' } }],
          },
        },
      ],
    },
    'find(q: x)',
  ],
  [
    'OpenAI chat answer',
    'completion',
    { id: 'c', choices: [{ index: 0, message: { role: 'assistant', content: 'Hello.' } }] },
    'Hello.',
  ],
  [
    'OpenAI chat request',
    'prompt',
    {
      model: 'm',
      messages: [
        { role: 'system', content: 'Be kind.' },
        { role: 'user', content: 'First' },
        { role: 'assistant', content: 'Yes?' },
        { role: 'user', content: [{ type: 'text', text: 'Second' }] },
      ],
    },
    'Second',
  ],
  [
    'OpenAI responses request',
    'prompt',
    { input: [{ role: 'user', content: [{ type: 'input_text', text: 'Why?' }] }] },
    'Why?',
  ],
  ['OpenAI responses text', 'prompt', { input: 'Why?', instructions: 'Be kind.' }, 'Why?'],
  [
    'OpenAI responses answer',
    'completion',
    {
      output: [
        { type: 'reasoning', summary: [] },
        { type: 'message', content: [{ type: 'output_text', text: 'So.' }] },
      ],
    },
    'So.',
  ],
  [
    'OpenAI responses call',
    'completion',
    { output: [{ type: 'function_call', name: 'find', arguments: '{"q":1}' }] },
    'find(q: 1)',
  ],
  [
    'Anthropic answer',
    'completion',
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'Hm.' },
        { type: 'text', text: 'I look.' },
        { type: 'tool_use', name: 'find', input: { q: 'x' } },
      ],
    },
    'I look. find(q: x)',
  ],
  [
    'Anthropic image',
    'prompt',
    { messages: [{ role: 'user', content: [{ type: 'image', source: { data: 'AAAA' } }] }] },
    '[image]',
  ],
  ['Google request', 'prompt', { contents: [{ role: 'user', parts: [{ text: 'Where?' }] }] }, 'Where?'],
  [
    'Google answer',
    'completion',
    { candidates: [{ content: { role: 'model', parts: [{ functionCall: { name: 'find', args: { q: 'x' } } }] } }] },
    'find(q: x)',
  ],
  [
    'AI SDK request',
    'prompt',
    {
      prompt: [
        { role: 'system', content: 'Be kind.' },
        { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
      ],
    },
    'Hi',
  ],
  [
    'AI SDK calls',
    'completion',
    { text: '', toolCalls: [{ type: 'tool-call', toolName: 'find', input: { q: 'x' } }] },
    'find(q: x)',
  ],
  [
    'OpenTelemetry request',
    'prompt',
    { 'gen_ai.input.messages': '[{"role":"user","parts":[{"type":"text","content":"Hi"}]}]' },
    'Hi',
  ],
  [
    'OpenTelemetry answer',
    'completion',
    {
      'gen_ai.output.messages': [
        { role: 'assistant', parts: [{ type: 'tool_call', name: 'find', arguments: { q: 'x' } }] },
      ],
    },
    'find(q: x)',
  ],
  ['names of calls', 'completion', { response: '', tool_calls: ['find', 'read'] }, 'find, read'],
  ['plain prompt', 'prompt', { prompt: 'Where is\n my  order?', model: 'm' }, 'Where is my order?'],
  ['plain text', 'prompt', { text: 'Hello' }, 'Hello'],
  ['plain content', 'completion', { content: 'Hello' }, 'Hello'],
  ['plain error', 'error', { error: 'it broke', tool: 'find' }, 'it broke'],
  ['error and its kind', 'error', { error_type: 'timeout', message: 'after 30 s' }, 'timeout: after 30 s'],
  ['error of a provider', 'error', { error: { type: 'rate_limit', message: 'Slow down' } }, 'rate_limit: Slow down'],
  ['custom', 'custom', { name: 'page_opened', content: 'Catalog' }, 'page_opened: Catalog'],
  ['custom, with values', 'custom', { name: 'done', turns: 6 }, 'done: turns: 6'],
  ['unknown', 'custom', { model: 'm', a: { b: 1 }, c: [] }, 'a: {"b":1}, c: []'],
  ['nothing', 'prompt', {}, ''],
  ['a key twice: the last', 'prompt', '{"prompt":"one","prompt":"two"}', 'two'],
];

t.test('each form says in its words what happened', (t) => {
  for (const [form, type, payload, expected] of FORMS)
    t.equal(summary(type, typeof payload === 'string' ? payload : JSON.stringify(payload)), expected, form);
  t.end();
});

t.test('whatever a payload is, and wherever it is cut, the sentence is short and of one line', (t) => {
  for (const [form, type, payload] of FORMS) {
    const text = typeof payload === 'string' ? payload : JSON.stringify({ ...payload, more: 'a "b" \u{1f600} \\ é\n' });
    for (let end = 0; end <= text.length; end++) {
      const said = eventSummary(type, { head: text.slice(0, end), tail: '' });
      if (!isShort(said)) t.fail(`${form}, cut at ${end}: ${said}`);
    }
  }
  const spoken = JSON.stringify({ prompt: 'Naïve \u{1f469}\u200d\u{1f4bb} "quoted" \\ words\u2028end' });
  for (let end = 12; end <= spoken.length; end++) {
    const said = eventSummary('prompt', { head: spoken.slice(0, end), tail: '' });
    if (!'Naïve \u{1f469}\u200d\u{1f4bb} "quoted" \\ words end'.startsWith(said.replace(/ …$|…$/, '').trimEnd()))
      t.fail(`cut at ${end}: ${said}`);
  }
  const hostile = [
    ...['', ' ', '"', '{', '[', '{"', '{"a', '{"a"', '{"a":', '{"prompt":"\\', '{"prompt":"\\u', '{"prompt":"\\ud83d'],
    ...['[}', '{]', '{"a":]}', '[1 2]', '{,}', '"text"', '12', 'null', 'not JSON', '\0\x01', '{"prompt":"\ud800"}'],
    ...['['.repeat(5_000), '{"a":'.repeat(5_000), `{"prompt":${'['.repeat(3_000)}`, `"${'\\'.repeat(4_095)}`],
    `{"prompt":${JSON.stringify(nested(12))}}`,
  ];
  for (const text of hostile) for (const type of EVENT_TYPES) t.ok(isShort(summary(type, text)), text.slice(0, 20));
  fc.assert(
    fc.property(
      fc.constantFrom(...EVENT_TYPES),
      fc.oneof(fc.string(), fc.json(), fc.json().map(JSON.stringify)),
      (type, text) => isShort(summary(type, text)),
    ),
    { seed: SEED },
  );
  t.end();
});

/** JSON in a string of JSON, so often. */
function nested(levels: number): string {
  return levels === 0 ? 'inside' : JSON.stringify({ content: nested(levels - 1).slice(0, 3_000) });
}

function isShort(said: string): boolean {
  const isOneLine = !/[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u.test(said) && said.isWellFormed();
  return isOneLine && [...said].length <= SUMMARY_CHARACTERS;
}

t.test('what turns the order of characters is named, and what moves a terminal is gone', (t) => {
  const said = summary('prompt', JSON.stringify({ prompt: 'a\u202eb \x1b[31mred\x1b[0m\x07 \u{e0041}x' }));
  t.equal(said, 'a[U+202E]b red[U+0007] [U+E0041]x');
  const family = '\u{1f469}\u200d\u{1f469}\u200d\u{1f467}';
  t.equal(summary('prompt', JSON.stringify({ prompt: `${family} می\u200cخواهم` })), `${family} می\u200cخواهم`);
  for (let before = SUMMARY_CHARACTERS - 8; before < SUMMARY_CHARACTERS; before++) {
    const cut = summary('prompt', JSON.stringify({ prompt: `${'x'.repeat(before)}${family}${'e\u0301'.repeat(9)}` }));
    t.match(cut, new RegExp(`^x+(?:${family})?(?:e\u0301)*…$`, 'u'), 'no character is parted');
  }
  const marks = summary('prompt', JSON.stringify({ prompt: `a${'\u0301'.repeat(3_000)}` }));
  t.ok(isShort(marks), 'of nothing but marks');
  t.end();
});

t.test('of a long conversation the end says what was asked', (t) => {
  const system = { role: 'system', content: 'Be kind. '.repeat(2_000) };
  const last = { role: 'user', content: 'And "now"?' };
  t.equal(summary('prompt', JSON.stringify({ messages: [system, last] })), 'And "now"?');
  const quoted = { role: 'user', content: `${'z'.repeat(3_000)} "role":"user","content":"forged"` };
  t.not(summary('prompt', JSON.stringify({ messages: [system, quoted] })), 'forged', 'a text is no message');
  t.match(summary('prompt', JSON.stringify({ messages: [system] })), /^Be kind\. Be kind\./);
  t.end();
});

t.test('a large payload costs no more than its ends', (t) => {
  const payload = JSON.stringify({ prompt: 'x\u{1f600}'.repeat(200_000), messages: 'y'.repeat(100_000) });
  const { head, tail } = payloadEnds(payload);
  t.equal([...head].length, PAYLOAD_HEAD_CHARACTERS);
  t.ok(payload.startsWith(head) && payload.endsWith(tail) && tail.length < head.length);
  t.match(summary('prompt', payload), /^x\u{1f600}x.*…$/u);
  t.end();
});

t.test('recorded runs all say something', { skip: !existsSync(RUNS) && 'there are no recorded runs here' }, (t) => {
  let events = 0;
  const silent: string[] = [];
  for (const file of readdirSync(RUNS).filter((name) => name.endsWith('.ndjson')))
    for (const line of readFileSync(path.join(RUNS, file), 'utf8').split('\n')) {
      if (line === '') continue;
      const { type, payload } = JSON.parse(line) as { type: EventType; payload: object };
      const said = summary(type, JSON.stringify(payload));
      events++;
      if (said === '' || !isShort(said)) silent.push(line.slice(0, 200));
    }
  t.ok(events > 5_000);
  t.same(silent, []);
  t.end();
});
