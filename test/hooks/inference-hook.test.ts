// What an inference hook says: each block an event, unknown ones as they came; the hash of a message and all before it;
// texts larger than an event in pieces that overlap; the answer within the product's bounds.
import t from 'tap';
import { ObjectText } from '../../src/common/object-text.ts';
import { inferenceAnswer, payloadsOf, readInference } from '../../src/hooks/inference-hook.ts';

const read = (hook: object) => readInference(ObjectText.of(JSON.stringify(hook))!, 'seed');
const events = (hook: object) =>
  read(hook).messages.map(({ said }) =>
    said.map((one) => [one.type, JSON.parse(payloadsOf(one, {}, 1e6)[0]!)] as const),
  );
const user = { role: 'user', content: [{ type: 'text', text: 'hello' }] };
const results = (parts: number) => ({ type: 'tool_result', tool_use_id: 'c-1', content: new Array(parts).fill('') });

t.test('each block is an event', (t) => {
  const messages = [
    { role: 'user', content: 'plain' },
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'I look' },
        { type: 'tool_use', id: 'c-1', tool_name: 'ls', input: { at: '/' } },
      ],
    },
    {
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: 'c-1',
          content: [
            { type: 'text', text: 'a' },
            { type: 'image', data: 'x' },
          ],
        },
      ],
    },
    {
      role: 'user',
      content: [{ type: 'attachment', file_name: 'a.txt', text: 'inside' }, { type: 'hologram', depth: 3 }, 7],
    },
    { type: 'text', text: 'by itself' },
    { role: 'system', content: 'rules' },
    { role: 'user', content: [{ type: 'text', text: 'x', citations: [1] }], name: 'ada' },
    'words',
  ];
  t.same(events({ messages }), [
    [['prompt', { prompt: 'plain' }]],
    [
      ['completion', { response: 'I look' }],
      ['tool_call', { tool: 'ls', arguments: { at: '/' }, call_id: 'c-1' }],
    ],
    [
      ['custom', { kind: 'tool_result', tool_name: 'ls', call_id: 'c-1', result: 'a' }],
      ['custom', { kind: 'tool_result', tool_name: 'ls', call_id: 'c-1', result: { type: 'image', data: 'x' } }],
    ],
    [
      ['custom', { kind: 'attachment', text: 'inside', attachment: { file_name: 'a.txt' } }],
      ['custom', { kind: 'inference_block', block: { type: 'hologram', depth: 3 } }],
      ['custom', { kind: 'inference_block', block: 7 }],
    ],
    [['prompt', { prompt: 'by itself' }]],
    [['custom', { kind: 'message', role: 'system', text: 'rules' }]],
    [['prompt', { prompt: 'x', block: { citations: [1] }, message: { name: 'ada' } }]],
    [['custom', { kind: 'message', block: 'words' }]],
  ]);
  t.end();
});

t.test('calls beside the messages and members of a later version are judged, too', (t) => {
  const calls = [{ id: 'c-2', name: 'rm', input: { at: '/' } }];
  t.same(events({ type: 'tool_call', messages: [user], tool_calls: calls, mood: 'odd' })[1], [
    ['tool_call', { tool: 'rm', arguments: { at: '/' }, call_id: 'c-2' }],
    ['custom', { kind: 'inference_request', hook: 'tool_call', request: { mood: 'odd' } }],
  ]);
  t.same(events({ type: 'later', what: 1 }), [
    [['custom', { kind: 'inference_request', hook: 'later', request: { what: 1 } }]],
  ]);
  for (const [hook, why] of [
    [{ type: 'prompt' }, /no messages/],
    [{ messages: {} }, /must be an array/],
    [{ messages: [{ role: 'assistant', content: [{ type: 'tool_use', input: {} }] }] }, /which tool/],
    [{ messages: [], tool_calls: ['rm'] }, /must be an object/],
    [{ messages: new Array(5_001).fill(user) }, /more than 5000/],
    [{ messages: [{ role: 'user', content: new Array(1_001).fill('x') }] }, /a message has more than 1000 blocks/],
    [{ messages: [{ role: 'user', content: [results(1_001)] }] }, /a message has more than 1000 blocks/],
    [{ messages: [{ role: 'user', content: [results(600), results(600)] }] }, /a message has more than 1000 blocks/],
    [{ messages: new Array(11).fill({ role: 'user', content: new Array(999).fill(0) }) }, /more than 10000 blocks/],
    [{ messages: [], tool_calls: new Array(1_001).fill({ name: 'rm' }) }, /a message has more than 1000 blocks/],
    [{ messages: [user], model: 'm'.repeat(17_000) }, /^model, actor, application, tenant_id are together larger than/],
    [{ messages: [user], source: { application: 'm'.repeat(17_000) } }, /together larger than 16384 bytes/],
  ] as const)
    t.throws(() => read(hook), { name: 'NotUnderstood', message: why });
  const said = read({ messages: new Array(10).fill({ role: 'user', content: new Array(999).fill('x') }) }).messages;
  t.equal(said.flatMap((one) => one.said).length, 9_990, 'so much is taken');
  t.end();
});

t.test('a call is a call wherever it stands, and nothing beside an empty message is lost', (t) => {
  const call = { id: 'c-1', tool_name: 'rm', input: { path: '/' } };
  const called = ['tool_call', { tool: 'rm', arguments: { path: '/' }, call_id: 'c-1' }];
  const all = (message: object) => events({ messages: [message] })[0];
  t.same(all({ role: 'assistant', content: '', tool_calls: [call] }), [['completion', { response: '' }], called]);
  t.same(all({ role: 'assistant', tool_calls: [call] }), [called]);
  t.match(all({ type: 'tool_use', ...call, content: 'hello' }), [
    ['tool_call', { tool: 'rm', arguments: { path: '/' }, block: { content: 'hello' } }],
  ]);
  t.same(all({ type: 'attachment', content: 'inside' }), [['custom', { kind: 'attachment', text: 'inside' }]]);
  const silent = { role: 'user', content: [], note: 'words' };
  t.same(all(silent), [['custom', { kind: 'message', block: silent }]]);
  t.same(all({ role: 'user', content: [] }), []);
  const unknown = { role: 'assistant', tool_calls: [{ id: 'c-1', function: { name: 'rm', arguments: '{}' } }] };
  t.throws(() => all(unknown), /does not say which tool/, 'a form that is not known is not passed over');
  t.end();
});

t.test('a hash is of what is said, up to there', (t) => {
  const digests = (...messages: object[]) => read({ messages }).messages.map(({ digest }) => digest);
  const [one, two] = digests(user, { role: 'assistant', content: 'hi' });
  t.same(digests(user), [one]);
  t.equal(digests({ ...user, sent_at: 7 })[0], one, 'whatever stands around it');
  t.not(digests({ ...user, role: 'assistant' })[0], one);
  t.not(digests({ role: 'assistant', content: 'hi' })[0], two, 'and of what was before');
  const other = readInference(ObjectText.of(JSON.stringify({ messages: [user] }))!, 'other');
  t.not(other.messages[0]!.digest, one, 'of its connection');
  t.end();
});

t.test('a text that is larger than an event comes in pieces that overlap, whole in its characters', (t) => {
  const parts = ['\\', '"', '\u0007', '😀', 'é', 'a', '\\\\u0041', '\n'];
  for (let seed = 0; seed < 40; seed++) {
    const char = (i: number) => parts[(i * 7 + seed * 3 + (i % 5)) % parts.length]!;
    // Nothing in it is there twice.
    const long = Array.from({ length: 4_000 }, (_, i) => char(i) + (i % 3 === 0 ? i.toString(36) : char(i + 1))).join(
      '',
    );
    const said = read({ messages: [{ role: 'user', content: long }] }).messages[0]!.said[0]!;
    const payloads = payloadsOf(said, { model: '"m"' }, 9_000);
    t.ok(payloads.length > 2 && payloads.every((one) => Buffer.byteLength(one) <= 9_000));
    const pieces = payloads.map((one) => JSON.parse(one) as { prompt: string; part: number; parts: number });
    t.same(
      pieces.map(({ part, parts: all }) => [part, all]),
      pieces.map((_, i) => [i + 1, pieces.length]),
    );
    let whole = pieces[0]!.prompt;
    for (const { prompt } of pieces.slice(1)) {
      let shared = Math.min(prompt.length, 1_100);
      while (!whole.endsWith(prompt.slice(0, shared))) shared--;
      if (shared < 100) t.fail(`an overlap of ${shared}`);
      whole += prompt.slice(shared);
    }
    t.equal(whole === long, true, `seed ${seed}`);
  }
  const call = { type: 'tool_use', tool_name: 'x', input: { text: 'y'.repeat(9_000) } };
  const said = read({ messages: [{ role: 'assistant', content: [call] }] }).messages[0]!.said[0]!;
  t.throws(() => payloadsOf(said, {}, 9_000), { name: 'NotUnderstood', message: /larger than 9000 bytes/ });
  t.end();
});

t.test('an answer keeps to the bounds of the product', (t) => {
  t.equal(inferenceAnswer({ isAllowed: true, reason: 'x' }), '{"action":"allow"}');
  const long = JSON.parse(
    inferenceAnswer({ isAllowed: false, reason: `${'x'.repeat(499)}😀`, reference: 'evt_1 é\n' }),
  );
  t.same(long, { action: 'deny', deny_reason: 'x'.repeat(499), reference_id: 'evt_1' });
  t.equal(JSON.parse(inferenceAnswer({ isAllowed: false, reference: 'r'.repeat(60) })).reference_id.length, 50);
  t.end();
});
