// What becomes of a span's content: what a model is sent and answers, a tool's arguments and results, under the names
// and in the shapes of the libraries that send them; that nothing of it is lost; and how often tokens count.
import t, { type Test } from 'tap';
import { exactJson } from '../../src/common/exact-json.ts';
import type { AttributeValue, TraceSpan } from '../../src/otlp/span.ts';
import { eventOfSpan, made, span, type Values } from '../support/otlp-spans.ts';

const CARD = '4111 1111 1111 1111';
const json = (value: unknown) => JSON.stringify(value);
const CHAT: Values = { 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'm' };
const TOOL: Values = { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'send_money' };
const ARGUMENTS = '{"amount":5000}';

const SAYS = { model: 'm' };
const asked = (text: string) => [{ type: 'prompt', prompt: text, messages: [{ role: 'user', content: text }] }];
const called = { type: 'tool_call', tool: 'send_money', arguments: { amount: 5000 } };

function check(t: Test, cases: readonly [name: string, of: TraceSpan, right: object[]][]): void {
  for (const [name, of, right] of cases) {
    const events = made(of);
    t.match(events, right, name);
    t.equal(events.length, right.length, `${name}: as many events`);
    for (const { content_captured, ...rest } of events)
      if (content_captured === false) {
        const said = ['prompt', 'messages', 'response', 'arguments', 'result', 'system'].filter((key) => key in rest);
        t.same(said, [], `${name}: what was captured is not called uncaptured`);
      }
  }
}

t.test('content under the names of libraries', (t) => {
  const request = json({ messages: [{ role: 'user', content: 'drop table users' }], model: 'm' });
  const answer = json({ choices: [{ message: { role: 'assistant', content: 'dropped' } }] });
  const both = [...asked('drop table users'), { type: 'completion', response: 'dropped' }];
  const generations = json({ generations: [[{ text: 'dropped', type: 'ChatGeneration' }]] });
  check(t, [
    ['LangSmith', span('ChatOpenAI', { ...CHAT, 'gen_ai.prompt': request, 'gen_ai.completion': generations }), both],
    [
      'OpenInference, values',
      span('llm', {
        'openinference.span.kind': 'LLM',
        'llm.model_name': 'm',
        'input.value': request,
        'output.value': answer,
      }),
      both,
    ],
    [
      'OpenInference, roles alone in the list, the rest in the value',
      span('llm', {
        'openinference.span.kind': 'LLM',
        'llm.input_messages.0.message.role': 'user',
        'input.value': request,
        'output.value': answer,
      }),
      both,
    ],
    [
      'OpenInference, completions',
      span('llm', {
        'openinference.span.kind': 'LLM',
        'llm.prompts.0.prompt.text': 'drop table users',
        'llm.choices.0.completion.text': 'dropped',
      }),
      both,
    ],
    [
      'LangGraph',
      span('llm', {
        'openinference.span.kind': 'LLM',
        'input.value': json({ messages: [{ type: 'human', content: 'drop table users' }] }),
        'output.value': generations,
      }),
      both,
    ],
    [
      'LangChain, constructors',
      span('llm', {
        ...CHAT,
        'input.value': json({
          messages: [
            [
              {
                lc: 1,
                type: 'constructor',
                id: ['langchain', 'schema', 'HumanMessage'],
                kwargs: { content: 'drop table users', type: 'human' },
              },
            ],
          ],
        }),
        'output.value': json({
          generations: [
            [
              {
                text: 'dropped',
                message: {
                  lc: 1,
                  type: 'constructor',
                  id: ['langchain', 'schema', 'AIMessage'],
                  kwargs: { content: 'dropped', type: 'ai' },
                },
              },
            ],
          ],
          llm_output: { model_name: 'm' },
        }),
      }),
      both,
    ],
    [
      'LangChain, dumps',
      span('llm', {
        ...CHAT,
        'gen_ai.prompt': json([{ type: 'human', data: { content: 'drop table users' } }]),
        'gen_ai.completion': json({ type: 'ai', data: { content: 'dropped' } }),
      }),
      both,
    ],
    [
      'Azure AI Inference, events with their content in an attribute',
      span('chat', CHAT, {
        events: [
          eventOfSpan('gen_ai.user.message', {
            'gen_ai.system': 'az.ai.inference',
            'gen_ai.event.content': '{"role":"user","content":"drop table users"}',
          }),
          eventOfSpan('gen_ai.choice', {
            'gen_ai.event.content': '{"message":{"content":"dropped"},"finish_reason":"stop","index":0}',
          }),
        ],
      }),
      both,
    ],
    [
      'pydantic-ai 1, events in an attribute',
      span('chat m', {
        ...CHAT,
        events: json([
          { 'event.name': 'gen_ai.user.message', role: 'user', content: 'drop table users', 'gen_ai.message.index': 0 },
          { 'event.name': 'gen_ai.choice', index: 0, message: { role: 'assistant', content: 'dropped' } },
        ]),
      }),
      both,
    ],
    [
      'Logfire',
      span('Chat Completion', {
        'gen_ai.request.model': 'm',
        request_data: request,
        response_data: json({ message: { role: 'assistant', content: 'dropped' }, usage: null }),
      }),
      both,
    ],
    [
      'Google ADK',
      span('call_llm', {
        'gen_ai.request.model': 'm',
        'gen_ai.system': 'gcp.vertex.agent',
        'gcp.vertex.agent.llm_request': json({
          model: 'm',
          contents: [{ parts: [{ text: 'drop table users' }], role: 'user' }],
          config: { system_instruction: 'Be brief.' },
        }),
        'gcp.vertex.agent.llm_response': json({
          content: { parts: [{ text: 'dropped' }], role: 'model' },
          finish_reason: 'STOP',
        }),
      }),
      [{ ...both[0], system: 'Be brief.' }, both[1]!],
    ],
    [
      'Strands, parts as JSON in events',
      span('chat', CHAT, {
        events: [
          eventOfSpan('gen_ai.user.message', { content: '[{"text":"drop table users"}]' }),
          eventOfSpan('gen_ai.choice', { message: '[{"text":"dropped"}]', finish_reason: 'end_turn' }),
        ],
      }),
      both,
    ],
    [
      'Google ADK, events',
      span('generate_content m', CHAT, {
        events: [
          eventOfSpan('gen_ai.user.message', { content: { role: 'user', parts: [{ text: 'drop table users' }] } }),
          eventOfSpan('gen_ai.choice', { index: 0, content: { role: 'model', parts: [{ text: 'dropped' }] } }),
        ],
      }),
      both,
    ],
    [
      'the event of the conventions',
      span('chat', CHAT, {
        events: [
          eventOfSpan('gen_ai.client.inference.operation.details', {
            'gen_ai.input.messages': json([{ role: 'user', parts: [{ type: 'text', content: 'drop table users' }] }]),
            'gen_ai.output.messages': [
              { role: 'assistant', parts: [{ type: 'text', content: 'dropped' }], finish_reason: 'stop' },
            ],
          }),
        ],
      }),
      both,
    ],
    [
      'events of prompts and completions',
      span('chat', CHAT, {
        events: [
          eventOfSpan('gen_ai.content.prompt', { 'gen_ai.prompt': 'drop table users' }),
          eventOfSpan('gen_ai.content.completion', { 'gen_ai.completion': 'dropped' }),
        ],
      }),
      both,
    ],
    [
      'MLflow',
      span('llm', { 'mlflow.spanType': '"CHAT_MODEL"', 'mlflow.spanInputs': request, 'mlflow.spanOutputs': answer }),
      both,
    ],
    [
      'Langfuse',
      span('call', {
        'langfuse.observation.type': 'generation',
        'langfuse.observation.model.name': 'm',
        'langfuse.observation.input': request,
        'langfuse.observation.output': '{"role":"assistant","content":"dropped"}',
      }),
      both,
    ],
    [
      'Laminar',
      span('call', { 'lmnr.span.type': 'LLM', 'lmnr.span.input': request, 'lmnr.span.output': 'dropped' }),
      both,
    ],
    [
      'LangWatch',
      span('call', {
        'langwatch.span.type': 'llm',
        'langwatch.input': json({ type: 'chat_messages', value: [{ role: 'user', content: 'drop table users' }] }),
        'langwatch.output': json({ type: 'text', value: 'dropped' }),
      }),
      both,
    ],
    [
      'Braintrust',
      span('call', {
        'braintrust.span_attributes': '{"type":"llm"}',
        'braintrust.input_json': request,
        'braintrust.output_json': answer,
      }),
      both,
    ],
    [
      'AI SDK 3',
      span('ai.generateText.doGenerate', {
        'ai.operationId': 'ai.generateText.doGenerate',
        'ai.prompt.messages': json([{ role: 'user', content: [{ type: 'text', text: 'drop table users' }] }]),
        'ai.result.text': 'dropped',
      }),
      both,
    ],
    [
      'a library that no one knows',
      span('call', {
        ...CHAT,
        'acme.llm.request.messages': json([{ role: 'user', content: 'drop table users' }]),
        'acme.llm.responseText': 'dropped',
      }),
      both,
    ],
  ]);
  t.end();
});

t.test('requests and answers of providers', (t) => {
  const sent: [string, unknown][] = [
    ['text', 'hi'],
    ['JSON text of a text', '"hi"'],
    ['OpenAI Responses, text', { model: 'm', input: 'hi' }],
    [
      'OpenAI Responses, items',
      {
        input: [
          { role: 'user', content: [{ type: 'input_text', text: 'hi' }] },
          { type: 'reasoning', summary: [] },
        ],
      },
    ],
    ['completions', { prompt: 'hi', max_tokens: 3 }],
    [
      'Anthropic',
      {
        system: 'Be brief.',
        messages: [{ role: 'user', content: [{ type: 'text', text: 'hi', cache_control: { type: 'ephemeral' } }] }],
      },
    ],
    [
      'Gemini',
      { contents: [{ role: 'user', parts: [{ text: 'hi' }] }], systemInstruction: { parts: [{ text: 'Be brief.' }] } },
    ],
    [
      'Bedrock',
      { modelId: 'm', messages: [{ role: 'user', content: [{ text: 'hi' }] }], system: [{ text: 'Be brief.' }] },
    ],
    ['in a request', { request: { body: { messages: [{ role: 'user', content: 'hi' }] } } }],
    ['in inputs', { inputs: { messages: [{ role: 'human', content: 'hi' }] }, tags: ['a'] }],
    ['one message', { role: 'user', content: 'hi' }],
    ['content without a role', { content: 'hi' }],
    ['AutoGen', [{ source: 'user', type: 'UserMessage', content: 'hi' }]],
    ['several texts', ['before', 'hi']],
    [
      'parts',
      [
        { type: 'text', text: 'hi' },
        { type: 'image_url', image_url: { url: 'data:' } },
      ],
    ],
    ['parts of the conventions', { role: 'user', parts: [{ type: 'text', content: 'hi' }] }],
    ['in quotes of Python', "[{'role': 'user', 'content': 'hi'}]"],
  ];
  for (const [name, value] of sent) {
    for (const form of typeof value === 'string' ? [value] : [json(value), value as AttributeValue]) {
      const [prompt] = made(span('chat', { ...CHAT, 'gen_ai.prompt': form }));
      t.equal(prompt!['prompt'], 'hi', `${name}: ${typeof form}`);
      t.notOk('content_captured' in prompt!);
      if (json(value).includes('Be brief.')) t.equal(prompt!['system'], 'Be brief.', `${name}: system`);
    }
  }
  const given: [string, unknown][] = [
    ['OpenAI', { choices: [{ index: 0, message: { role: 'assistant', content: 'ho' } }] }],
    ['OpenAI completions', { choices: [{ index: 0, text: 'ho' }] }],
    [
      'OpenAI Responses',
      {
        output: [
          { type: 'reasoning' },
          { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'ho', annotations: [] }] },
        ],
      },
    ],
    [
      'Anthropic',
      { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'ho' }], stop_reason: 'end_turn' },
    ],
    ['Gemini', { candidates: [{ content: { role: 'model', parts: [{ text: 'ho' }] }, finishReason: 'STOP' }] }],
    ['Bedrock', { output: { message: { role: 'assistant', content: [{ text: 'ho' }] } }, stopReason: 'end_turn' }],
    ['Ollama', { model: 'm', message: { role: 'assistant', content: 'ho' }, done: true }],
    ['Cohere', { text: 'ho', generation_id: 'x' }],
    [
      'all of a graph',
      {
        messages: [
          { type: 'human', content: 'hi' },
          { type: 'ai', content: 'ho' },
        ],
      },
    ],
    ['a list of one', [{ role: 'assistant', content: 'ho' }]],
    ['text', 'ho'],
  ];
  for (const [name, value] of given) {
    const [, completion] = made(
      span('chat', { ...CHAT, 'gen_ai.completion': typeof value === 'string' ? value : json(value) }),
    );
    t.equal(completion!['response'], 'ho', name);
    t.notOk('content_captured' in completion!);
  }
  t.end();
});

t.test('calls of tools in answers, in the forms of providers', (t) => {
  const forms: [string, unknown][] = [
    [
      'OpenAI',
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'pay', arguments: ARGUMENTS } }],
      },
    ],
    [
      'OpenAI, the old form',
      { role: 'assistant', content: null, function_call: { name: 'pay', arguments: ARGUMENTS } },
    ],
    ['OpenAI Responses', { output: [{ type: 'function_call', call_id: 'c', name: 'pay', arguments: ARGUMENTS }] }],
    [
      'Anthropic',
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'pay', input: { amount: 5000 } }] },
    ],
    ['Gemini', { content: { role: 'model', parts: [{ functionCall: { name: 'pay', args: { amount: 5000 } } }] } }],
    [
      'Gemini in Python',
      { content: { role: 'model', parts: [{ function_call: { name: 'pay', args: { amount: 5000 } } }] } },
    ],
    [
      'Bedrock',
      {
        output: {
          message: {
            role: 'assistant',
            content: [{ toolUse: { toolUseId: 'c', name: 'pay', input: { amount: 5000 } } }],
          },
        },
      },
    ],
    [
      'LangChain',
      { type: 'ai', content: '', tool_calls: [{ name: 'pay', args: { amount: 5000 }, id: 'c', type: 'tool_call' }] },
    ],
    [
      'AI SDK',
      {
        role: 'assistant',
        content: [{ type: 'tool-call', toolCallId: 'c', toolName: 'pay', input: { amount: 5000 } }],
      },
    ],
    [
      'the conventions',
      { role: 'assistant', parts: [{ type: 'tool_call', id: 'c', name: 'pay', arguments: { amount: 5000 } }] },
    ],
  ];
  for (const [name, value] of forms) {
    const [, completion] = made(span('chat', { ...CHAT, 'gen_ai.completion': json(value) }));
    t.match(completion!['tool_calls'], [{ name: 'pay', arguments: { amount: 5000 } }], name);
    t.notOk('content_captured' in completion!, name);
  }
  t.end();
});

t.test('nothing that came is lost, whatever its shape', (t) => {
  const shapes: unknown[] = [
    { question: CARD },
    { a: { b: { c: [CARD] } } },
    [{ foo: CARD }],
    [1, [CARD]],
    { messages: [{ role: 'user', content: 'hi' }], metadata: { note: CARD } },
    { messages: [{ role: 'user', content: 'hi', refusal: CARD }] },
    { messages: [{ role: 'user' }, { strange: CARD }] },
    { messages: [{ role: 'user', content: [{ type: 'document', source: { data: CARD } }] }] },
    { messages: [{ role: 'user', content: { nested: { text: CARD } } }] },
    { messages: [{ role: 'assistant', tool_calls: [{ function: { name: 'x', arguments: `not JSON ${CARD}` } }] }] },
    { messages: [{ role: 'assistant', tool_calls: [{ strange: CARD }] }] },
    { messages: [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content: CARD }] }] },
    { messages: [{ role: 'user', parts: [{ functionResponse: { name: 'x', response: { card: CARD } } }] }] },
    { messages: [{ role: 'user', content: [{ type: 'text', text: 'hi', annotations: [CARD] }] }] },
    { choices: [{ message: { role: 'assistant', content: 'ho' }, logprobs: [CARD] }] },
    { choices: [{ message: { role: 'assistant', reasoning_content: CARD } }] },
    { output: [{ type: 'reasoning', summary: [{ type: 'summary_text', text: CARD }] }] },
    { candidates: [{ content: { parts: [{ text: 'a' }] } }, { content: { parts: [{ text: CARD }] } }] },
    {
      candidates: [
        { content: { parts: [{ text: 'a' }] }, groundingMetadata: CARD },
        { content: { parts: [{ text: 'b' }] }, safety: 1 },
      ],
    },
    { generations: [[{ text: 'a', generation_info: { x: CARD } }]] },
    { choices: [{ content: CARD, message: { role: 'assistant', content: 'ho' } }] },
    { messages: [{ type: 'human', data: { content: 'hi' }, note: CARD }] },
    { messages: [{ lc: 1, id: ['HumanMessage'], kwargs: { content: 'hi' }, note: CARD }] },
    { messages: [{ role: 'user', content: [{ type: 'text', text: 'hi', content: CARD }] }] },
    { messages: [{ role: 'assistant', tool_calls: [{ name: 'x', arguments: {}, input: CARD }] }] },
    { candidates: [{ content: { message: { role: 'model', content: 'ho' }, note: CARD } }] },
    { chat_history: [CARD], input: 'hi' },
    { role: 'user', parts: [{ type: 'text', content: 'hi' }], content: CARD },
    `{"messages":[{"role":"user","content":"${CARD}`,
    `{"a":1,"a":"${CARD}"}`,
    `{'question': '${CARD}'}`,
    `<xml>${CARD}</xml>`,
    `[INST] ${CARD}`,
    `\`\`\`json\n{"card":"${CARD}"}\n\`\`\``,
    `${'['.repeat(90)}"${CARD}"${']'.repeat(90)}`,
  ];
  const places: [name: string, attributes: (value: AttributeValue) => Values][] = [
    ['gen_ai.prompt', (value) => ({ ...CHAT, 'gen_ai.prompt': value })],
    ['gen_ai.completion', (value) => ({ ...CHAT, 'gen_ai.completion': value })],
    ['gen_ai.input.messages', (value) => ({ ...CHAT, 'gen_ai.input.messages': value })],
    ['gen_ai.output.messages', (value) => ({ ...CHAT, 'gen_ai.output.messages': value })],
    ['input.value', (value) => ({ 'openinference.span.kind': 'LLM', 'input.value': value })],
    ['llm_response', (value) => ({ 'gen_ai.request.model': 'm', 'gcp.vertex.agent.llm_response': value })],
    ['tool_arguments', (value) => ({ ...TOOL, tool_arguments: value })],
    ['tool_response', (value) => ({ ...TOOL, tool_response: value })],
  ];
  for (const [place, attributes] of places)
    for (const shape of shapes)
      for (const value of typeof shape === 'string' ? [shape] : [json(shape), shape as AttributeValue]) {
        const events = made(span('call', attributes(value)));
        const text = exactJson(events);
        if (!text.includes(CARD)) t.fail(`${place} ${typeof value} ${json(shape)}: lost in ${text}`);
        const here = events.find((event) => exactJson(event).includes(CARD));
        if (here !== undefined && 'content_captured' in here) t.fail(`${place} ${json(shape)}: called uncaptured`);
      }
  t.pass('all of them are there');
  const odd = '{"question": "what",  "n": 1.0}';
  const [prompt, completion] = made(span('chat', { ...CHAT, 'gen_ai.prompt': odd, 'gen_ai.completion': odd }));
  t.same(
    [prompt!['messages'], prompt!['prompt']],
    [odd, undefined],
    'an object that is no message stays the text that it was',
  );
  t.equal(completion!['response'], odd);
  for (const empty of ['', '[]', '{}', '{"messages":[]}', null] as const) {
    const [one] = made(span('chat', { ...CHAT, 'gen_ai.prompt': empty }));
    if (empty !== '{"messages":[]}') t.equal(one!['content_captured'], false, `${empty}: nothing came`);
  }
  t.end();
});

t.test('several events that each hold a part', (t) => {
  const part = (content: string) =>
    eventOfSpan('gen_ai.content.prompt', { 'gen_ai.prompt': json([{ role: 'user', content }]) });
  const [prompt] = made(span('chat', CHAT, { events: [part('a'), part('b'), part('{"cut": ')] }));
  t.match(prompt, { prompt: '{"cut": ', messages: [{ content: 'a' }, { content: 'b' }, { content: '{"cut": ' }] });
  t.end();
});

t.test('JSON that was cut is not what a person said', (t) => {
  const whole = json([
    { role: 'system', content: 'You are S. '.repeat(200) },
    { role: 'user', content: 'hi' },
  ]);
  for (const [name, of] of [
    ['AI SDK', { 'ai.operationId': 'ai.streamText.doStream', 'ai.prompt.messages': whole.slice(0, 1_024) }],
    ['conventions', { ...CHAT, 'gen_ai.input.messages': whole.slice(0, 1_024) }],
    ['OpenInference', { 'openinference.span.kind': 'LLM', 'input.value': `{"messages":${whole}`.slice(0, 900) }],
    ['LangSmith', { ...CHAT, 'gen_ai.prompt': `${whole.slice(0, 500)}...` }],
  ] as const) {
    const [prompt] = made(span('call', of as Values));
    t.notOk('prompt' in prompt!, name);
    t.match(prompt!['messages'], /You are S\./, `${name}: it is kept`);
    t.notOk('content_captured' in prompt!);
  }
  t.match(
    made(span('chat', { ...CHAT, 'gen_ai.prompt': '[INST] hi [/INST]' })),
    asked('[INST] hi [/INST]').concat([{}] as never),
  );
  t.end();
});

t.test('calls of tools: names, arguments and results', (t) => {
  const named: [name: string, attributes: Values][] = [
    ['the conventions', { 'gen_ai.tool.call.arguments': ARGUMENTS }],
    ['the conventions, an object', { 'gen_ai.tool.call.arguments': { amount: 5000 } }],
    ['older conventions', { 'gen_ai.tool.arguments': ARGUMENTS }],
    ['pydantic-ai', { tool_arguments: ARGUMENTS, tool_response: 'done' }],
    ['Google ADK', { 'gcp.vertex.agent.tool_call_args': ARGUMENTS, 'gcp.vertex.agent.llm_request': '{}' }],
    ['Spring AI', { 'spring.ai.tool.call.arguments': ARGUMENTS }],
    ['LangSmith', { 'gen_ai.prompt': ARGUMENTS, 'gen_ai.completion': 'done' }],
    ['OpenInference', { 'input.value': ARGUMENTS, 'tool.parameters': '{"type":"object"}' }],
    ['MLflow', { 'mlflow.spanInputs': ARGUMENTS }],
    ['Langfuse', { 'langfuse.observation.input': ARGUMENTS }],
    ['MCP', { 'mcp.request.argument': ARGUMENTS }],
    ['tool.arguments', { 'tool.arguments': ARGUMENTS }],
    ['toolInput', { 'acme.toolInput': ARGUMENTS }],
    ['params', { 'call.params': ARGUMENTS }],
  ];
  check(
    t,
    named.map(([name, attributes]) => [name, span('running tool', { ...TOOL, ...attributes }), [called]]),
  );
  for (const [name, attributes] of [
    ['the conventions', { 'gen_ai.tool.call.result': '{"ok":true}' }],
    ['pydantic-ai', { tool_response: '{"ok":true}' }],
    ['Google ADK', { 'gcp.vertex.agent.tool_response': '{"ok":true}' }],
    ['Spring AI', { 'spring.ai.tool.call.result': '{"ok":true}' }],
    ['OpenInference', { 'output.value': '{"ok":true}' }],
    ['LangSmith', { 'gen_ai.completion': '{"ok":true}' }],
    ['MCP', { 'mcp.response.value': '{"ok":true}' }],
    ['tool.output', { 'tool.output': '{"ok":true}' }],
  ] as [string, Values][])
    t.match(made(span('x', { ...TOOL, ...attributes })), [{ result: { ok: true } }], `${name}: result`);
  const operation = (name: string) =>
    span('x', { ...TOOL, 'gen_ai.operation.name': name, 'gen_ai.tool.call.arguments': ARGUMENTS });
  check(
    t,
    [
      'execute_tool',
      'Execute_Tool',
      'EXECUTE TOOL',
      'execute-tool',
      'tool_call',
      'call_tool',
      'running tool',
      'tools/call',
      'invoke_agent',
      'x',
    ].map((name) => [name, operation(name), [called]]),
  );
  check(t, [
    [
      'no operation',
      span('running tool', {
        'gen_ai.tool.name': 'send_money',
        'gen_ai.tool.call.id': 'c',
        tool_arguments: ARGUMENTS,
        tool_response: 'done',
      }),
      [{ ...called, call_id: 'c', result: 'done' }],
    ],
    [
      'LangSmith, its name in the span',
      span('send_money', { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.prompt': ARGUMENTS }),
      [called],
    ],
    [
      'OpenInference',
      span('x', {
        'openinference.span.kind': 'Tool',
        'tool.name': 'send_money',
        'tool_call.function.arguments': ARGUMENTS,
      }),
      [called],
    ],
    [
      'OpenInference, no kind that is known',
      span('x', { 'openinference.span.kind': 'UNKNOWN', 'tool.name': 'send_money', 'input.value': ARGUMENTS }),
      [called],
    ],
    [
      'Traceloop, a frame',
      span('x', {
        'traceloop.span.kind': 'Tool',
        'traceloop.entity.name': 'send_money',
        'traceloop.entity.input': json({ args: [], kwargs: { amount: 5000 } }),
      }),
      [called],
    ],
    [
      'AI SDK',
      span('ai.toolCall', {
        'ai.operationId': 'ai.toolCall',
        'ai.toolCall.name': 'send_money',
        'ai.toolCall.args': ARGUMENTS,
      }),
      [called],
    ],
    ['LangSmith, a mark', span('send_money', { 'langsmith.span.kind': 'tool', 'gen_ai.prompt': ARGUMENTS }), [called]],
    ['MLflow', span('send_money', { 'mlflow.spanType': '"TOOL"', 'mlflow.spanInputs': ARGUMENTS }), [called]],
    [
      'Langfuse',
      span('send_money', { 'langfuse.observation.type': 'tool', 'langfuse.observation.input': ARGUMENTS }),
      [called],
    ],
    ['Laminar', span('send_money', { 'lmnr.span.type': 'TOOL', 'lmnr.span.input': ARGUMENTS }), [called]],
    ['LangWatch', span('send_money', { 'langwatch.span.type': 'tool', 'langwatch.input': ARGUMENTS }), [called]],
    [
      'Google ADK, no operation',
      span('execute_tool send_money', { 'gcp.vertex.agent.tool_call_args': ARGUMENTS }),
      [called],
    ],
    [
      'Strands',
      span('execute_tool send_money', TOOL, {
        events: [
          eventOfSpan('gen_ai.tool.message', { role: 'tool', content: ARGUMENTS, id: 'c' }),
          eventOfSpan('gen_ai.choice', { message: '[{"text":"done"}]', id: 'c' }),
        ],
      }),
      [{ ...called, result: 'done' }],
    ],
    [
      'Strands, messages',
      span('execute_tool send_money', TOOL, {
        events: [
          eventOfSpan('gen_ai.client.inference.operation.details', {
            'gen_ai.input.messages': json([
              {
                role: 'tool',
                parts: [{ type: 'tool_call', name: 'send_money', id: 'c', arguments: { amount: 5000 } }],
              },
            ]),
            'gen_ai.output.messages': json([
              { role: 'tool', parts: [{ type: 'tool_call_response', id: 'c', response: 'done' }] },
            ]),
          }),
        ],
      }),
      [{ ...called, result: 'done' }],
    ],
    ['nothing came', span('x', TOOL), [{ type: 'tool_call', content_captured: false }]],
  ]);
  const long = '{"account":12345678901234567890,"to":9007199254740993,"x":1e400,"__proto__":{"a":1}}';
  for (const name of [
    'gen_ai.tool.call.arguments',
    'tool_arguments',
    'gcp.vertex.agent.tool_call_args',
    'gen_ai.prompt',
  ])
    t.match(exactJson(made(span('x', { ...TOOL, [name]: long }))), long, `${name}: every digit`);
  for (const text of ['not json {', '{"a":1,"a":2}', `${'['.repeat(90)}${']'.repeat(90)}`])
    t.same(
      made(span('x', { ...TOOL, tool_arguments: text }))[0]!['arguments'],
      text,
      `${text.slice(0, 20)}: stays text`,
    );
  t.same(made(span('x', { ...TOOL, tool_arguments: 'null' }))[0]!['arguments'], null);
  t.end();
});

t.test('calls of models, whatever the operation is called', (t) => {
  const evidence: [string, Values][] = [
    [
      'a model and messages',
      { 'gen_ai.request.model': 'm', 'gen_ai.input.messages': json([{ role: 'user', content: 'hi' }]) },
    ],
    [
      'a model and tokens',
      { 'gen_ai.request.model': 'm', 'gen_ai.usage.input_tokens': 3, 'gen_ai.usage.output_tokens': 4 },
    ],
  ];
  for (const operation of [
    'responses',
    'CHAT',
    'message',
    'messages.create',
    'Chat',
    'TEXT_COMPLETION',
    'generate',
    'stream',
  ])
    for (const [what, attributes] of evidence)
      t.match(
        made(span('x', { ...attributes, 'gen_ai.operation.name': operation })),
        [
          { type: 'prompt', ...SAYS },
          { type: 'completion', ...SAYS },
        ],
        `${operation}, ${what}`,
      );
  check(t, [
    [
      'openinference in lower case',
      span('x', { 'openinference.span.kind': 'llm', 'llm.model_name': 'm' }),
      [SAYS, SAYS],
    ],
    [
      'openinference, no kind that is known',
      span('x', { 'openinference.span.kind': 'UNKNOWN', 'llm.model_name': 'm', 'input.value': 'hi' }),
      [...asked('hi'), SAYS],
    ],
    ['traceloop in upper case', span('x', { 'llm.request.type': 'CHAT', 'gen_ai.request.model': 'm' }), [SAYS, SAYS]],
    [
      'traceloop, unknown',
      span('x', { 'llm.request.type': 'unknown', 'gen_ai.request.model': 'm', 'gen_ai.prompt.0.content': 'hi' }),
      [...asked('hi'), SAYS],
    ],
    [
      'an agent of pydantic-ai',
      span('agent run', { model_name: 'm', 'gen_ai.usage.input_tokens': 3, final_result: 'ho' }),
      [{ type: 'custom', kind: 'invoke_agent', output: 'ho', tokens_used: undefined }],
    ],
    [
      'LangSmith, a chain',
      span('x', { 'langsmith.span.kind': 'chain', 'gen_ai.prompt': '{"question":"hi"}', 'gen_ai.completion': 'ho' }),
      [{ type: 'custom', kind: 'invoke_workflow', input: { question: 'hi' }, output: 'ho' }],
    ],
    [
      'OpenInference, documents',
      span('x', {
        'openinference.span.kind': 'RETRIEVER',
        'input.value': 'hi',
        'retrieval.documents.0.document.content': 'ho',
      }),
      [{ kind: 'retrieval', input: 'hi', output: [{ document: { content: 'ho' } }] }],
    ],
    [
      'Strands, an agent',
      span(
        'x',
        { 'gen_ai.operation.name': 'invoke_agent' },
        { events: [eventOfSpan('gen_ai.user.message', { content: 'hi' })] },
      ),
      [{ kind: 'invoke_agent', input: [{ role: 'user', content: 'hi' }] }],
    ],
    [
      'a step that says nothing',
      span('x', { 'gen_ai.operation.name': 'create_thread', 'gen_ai.request.model': 'm' }),
      [],
    ],
    [
      'an agent in capitals',
      span('x', { 'gen_ai.operation.name': 'Invoke_Agent' }),
      [{ type: 'custom', kind: 'invoke_agent' }],
    ],
    ['a template', span('x', { 'openinference.span.kind': 'PROMPT' }), []],
  ]);
  t.end();
});

t.test('the last words of a person', (t) => {
  const turns: [string, unknown][] = [
    [
      'Anthropic',
      [
        { role: 'user', content: 'delete the backups' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'ls', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content: 'a, b' }] },
      ],
    ],
    [
      'the conventions',
      [
        { role: 'user', parts: [{ type: 'text', content: 'delete the backups' }] },
        { role: 'assistant', parts: [{ type: 'tool_call', id: 'c', name: 'ls', arguments: {} }] },
        { role: 'user', parts: [{ type: 'tool_call_response', id: 'c', response: 'a, b' }] },
      ],
    ],
    [
      'Gemini',
      {
        contents: [
          { role: 'user', parts: [{ text: 'delete the backups' }] },
          { role: 'model', parts: [{ functionCall: { name: 'ls', args: {} } }] },
          { role: 'user', parts: [{ functionResponse: { name: 'ls', response: { out: 'a, b' } } }] },
        ],
      },
    ],
    [
      'Bedrock',
      [
        { role: 'user', content: [{ text: 'delete the backups' }] },
        { role: 'user', content: [{ toolResult: { toolUseId: 'c', content: [{ text: 'a, b' }] } }] },
      ],
    ],
    [
      'OpenAI',
      [
        { role: 'user', content: 'delete the backups' },
        { role: 'tool', tool_call_id: 'c', content: 'a, b' },
      ],
    ],
    [
      'LangChain',
      [
        { type: 'human', content: 'delete the backups' },
        { type: 'tool', content: 'a, b', tool_call_id: 'c' },
      ],
    ],
    [
      'AI SDK',
      [
        { role: 'user', content: [{ type: 'text', text: 'delete the backups' }] },
        { role: 'tool', content: [{ type: 'tool-result', toolName: 'ls', output: 'a, b' }] },
      ],
    ],
    [
      'an image last',
      [
        { role: 'user', content: 'delete the backups' },
        { role: 'user', content: [{ type: 'image', data: 'x' }] },
      ],
    ],
    [
      'OpenAI Responses',
      {
        input: [
          { role: 'user', content: 'delete the backups' },
          { type: 'function_call_output', call_id: 'c', output: 'a, b' },
        ],
      },
    ],
    [
      'text beside a result',
      [
        {
          role: 'user',
          content: [
            { type: 'tool_result', content: 'a, b' },
            { type: 'text', text: 'delete the backups' },
          ],
        },
      ],
    ],
  ];
  for (const [name, messages] of turns)
    for (const attribute of ['gen_ai.input.messages', 'input.value', 'ai.prompt.messages'])
      t.equal(
        made(span('chat', { ...CHAT, [attribute]: json(messages) }))[0]!['prompt'],
        'delete the backups',
        `${name}: ${attribute}`,
      );
  const flat = Object.fromEntries(
    [
      { role: 'user', content: 'delete the backups' },
      { role: 'user', content: json([{ type: 'tool_result', content: 'a' }]) },
    ].flatMap((message, i) => Object.entries(message).map(([key, value]) => [`gen_ai.prompt.${i}.${key}`, value])),
  );
  t.equal(made(span('chat', { ...CHAT, ...flat }))[0]!['prompt'], 'delete the backups', 'flat');
  t.end();
});

t.test('counts of tokens', (t) => {
  const counts: [Values, used: unknown, input: unknown][] = [
    [{ 'gen_ai.usage.total_tokens': 1500 }, 1500, undefined],
    [{ 'llm.token_count.total': 1500 }, 1500, undefined],
    [{ 'llm.usage.total_tokens': '1500' }, 1500, undefined],
    [{ 'ai.usage.totalTokens': 1500 }, 1500, undefined],
    [{ 'langfuse.observation.usage_details': '{"input":1000,"output":500,"total":1500}' }, 1500, 1000],
    [{ 'langfuse.observation.usage_details': '{"total":1500}' }, 1500, undefined],
    [{ 'mlflow.chat.tokenUsage': '{"input_tokens":1000,"output_tokens":500}' }, 1500, 1000],
    [
      {
        'gen_ai.completion':
          '{"choices":[{"message":{"content":"ho"}}],"usage":{"prompt_tokens":1000,"completion_tokens":500}}',
      },
      1500,
      1000,
    ],
    [{ 'gen_ai.usage.input_tokens': '1000', 'gen_ai.usage.output_tokens': '500' }, 1500, 1000],
    [{ 'gen_ai.usage.input_tokens': 1000, 'gen_ai.usage.total_tokens': 1500 }, 1500, 1000],
    [{ 'gen_ai.usage.total_tokens': 10, 'gen_ai.usage.completion_tokens': 50 }, 50, undefined],
    [{ 'gen_ai.usage.total_tokens': 10, 'gen_ai.usage.prompt_tokens': 50 }, 50, 50],
    [{ 'gen_ai.usage.total_tokens': -5 }, undefined, undefined],
    [{ 'gen_ai.usage.input_tokens': -5, 'gen_ai.usage.output_tokens': 7 }, 7, undefined],
    [{ 'gen_ai.usage.input_tokens': 5, 'gen_ai.usage.output_tokens': 7, 'gen_ai.usage.total_tokens': 1 }, 12, 5],
    [{}, undefined, undefined],
  ];
  for (const [attributes, used, input] of counts)
    for (const kind of [
      CHAT,
      { 'openinference.span.kind': 'LLM' },
      { 'llm.request.type': 'chat' },
      { 'ai.operationId': 'ai.generateText.doGenerate' },
    ]) {
      const completion = made(span('x', { ...(kind as Values), ...attributes }))[1]!;
      t.same([completion['tokens_used'], completion['token_count']], [used, input], json([kind, attributes]));
    }
  t.end();
});

t.test('tokens of one call are counted once, however many spans describe it', (t) => {
  const at = (spanId: string, parentSpanId: string) => ({ spanId, parentSpanId });
  const usage = (input: number, output: number): Values => ({
    'gen_ai.usage.input_tokens': input,
    'gen_ai.usage.output_tokens': output,
  });
  const model = (id: string, parent: string, ...[input, output]: [number, number]) =>
    span('chat', { ...CHAT, ...usage(input, output) }, at(id, parent));
  const other = (id: string, parent: string, attributes: Values = {}) => span('x', attributes, at(id, parent));
  const sum = (...spans: TraceSpan[]) =>
    made(...spans).reduce((all, event) => all + Number(event['tokens_used'] ?? 0), 0);
  const cases: [string, number, TraceSpan[]][] = [
    ['Traceloop: LangChain around OpenAI', 110, [model('a', '', 100, 10), model('b', 'a', 100, 10)]],
    ['the inner one first', 110, [model('b', 'a', 100, 10), model('a', '', 100, 10)]],
    [
      'ADK: call_llm around generate_content',
      110,
      [
        span(
          'call_llm',
          { 'gen_ai.request.model': 'm', 'gcp.vertex.agent.llm_request': '{}', ...usage(100, 10) },
          at('a', ''),
        ),
        span(
          'generate_content m',
          { ...CHAT, 'gen_ai.operation.name': 'generate_content', ...usage(100, 10) },
          at('b', 'a'),
        ),
      ],
    ],
    ['three of them', 110, [model('a', '', 100, 10), model('b', 'a', 100, 10), model('c', 'b', 100, 10)]],
    [
      'HTTP between them',
      110,
      [model('a', '', 100, 10), other('h', 'a', { 'http.method': 'POST' }), model('b', 'h', 100, 10)],
    ],
    ['a retry within', 220, [model('a', '', 100, 10), model('b', 'a', 100, 10), model('c', 'a', 100, 10)]],
    ['the inner one says nothing', 110, [model('a', '', 100, 10), span('chat', CHAT, at('b', 'a'))]],
    ['the inner one says less', 110, [model('a', '', 100, 10), model('b', 'a', 60, 10)]],
    ['the outer one says less', 110, [model('a', '', 60, 10), model('b', 'a', 100, 10)]],
    ['side by side', 220, [other('r', ''), model('a', 'r', 100, 10), model('b', 'r', 100, 10)]],
    [
      'a model within a tool within a model',
      220,
      [model('a', '', 100, 10), other('t', 'a', TOOL), model('b', 't', 100, 10)],
    ],
    [
      'an agent around',
      110,
      [other('r', '', { 'gen_ai.operation.name': 'invoke_agent', ...usage(100, 10) }), model('a', 'r', 100, 10)],
    ],
    ['parents in a circle', 220, [model('a', 'b', 100, 10), model('b', 'a', 100, 10)]],
    ['its own parent', 110, [model('a', 'a', 100, 10)]],
    [
      'totals alone',
      110,
      [span('chat', { ...CHAT, 'gen_ai.usage.total_tokens': 110 }, at('a', '')), model('b', 'a', 100, 10)],
    ],
  ];
  for (const [name, right, spans] of cases) t.equal(sum(...spans), right, name);
  const [, outer, , inner] = made(model('a', '', 100, 10), model('b', 'a', 100, 10));
  t.match(outer, {
    type: 'completion',
    tokens_used: undefined,
    token_count: undefined,
    usage: { input_tokens: 100, output_tokens: 10 },
  });
  t.match(inner, { type: 'completion', tokens_used: 110, token_count: 100, usage: undefined });
  const elsewhere = span('chat', { ...CHAT, ...usage(100, 10) }, { ...at('b', 'a'), traceId: 'c'.repeat(32) });
  t.equal(sum(model('a', '', 100, 10), elsewhere), 220, 'of another trace');
  t.end();
});
