// Models that are stubs, in the forms of two providers: each calls the tool that it is offered once, and then says what
// comes back of it.
import http from 'node:http';

const NAME = 'stub';

function serve(answer) {
  const server = http.createServer((req, res) => {
    let body = '';
    req.on('data', (data) => (body += data));
    req.on('end', () => answer(req, res, body === '' ? {} : JSON.parse(body)));
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () =>
      resolve({
        url: `http://127.0.0.1:${server.address().port}`,
        close: () => server.close(() => undefined).closeAllConnections(),
      }),
    );
  });
}

/** OpenAI's chat completions. `asked` has what was sent. */
export async function openAiModel(tool, args) {
  const asked = [];
  const model = await serve((_req, res, body) => {
    asked.push(body);
    const told = body.messages?.findLast(({ role }) => role === 'tool')?.content;
    const call = {
      id: `call_${asked.length}`,
      type: 'function',
      function: { name: tool, arguments: JSON.stringify(args) },
    };
    const message =
      told === undefined
        ? { role: 'assistant', content: null, tool_calls: [call] }
        : { role: 'assistant', content: `told: ${typeof told === 'string' ? told : JSON.stringify(told)}` };
    const choice = { index: 0, message, finish_reason: told === undefined ? 'tool_calls' : 'stop' };
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: NAME, choices: [choice], usage }));
  });
  return { ...model, asked };
}

/** Anthropic's messages, as a stream. */
export async function anthropicModel(tool, args) {
  const asked = [];
  const model = await serve((req, res, body) => {
    if (!req.url.startsWith('/v1/messages') || req.url.includes('count_tokens')) {
      res.writeHead(404).end('{}');
      return;
    }
    asked.push(body);
    const isCalled = JSON.stringify(body.messages).includes('tool_result');
    const offers = body.tools?.some(({ name }) => name === tool) === true && !isCalled;
    res.setHeader('content-type', 'text/event-stream');
    const say = (type, more) => res.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`);
    const usage = { input_tokens: 1, output_tokens: 1 };
    const message = {
      id: 'm',
      type: 'message',
      role: 'assistant',
      model: body.model,
      content: [],
      stop_reason: null,
      usage,
    };
    say('message_start', { message });
    const block = offers ? { type: 'tool_use', id: 'toolu_1', name: tool, input: {} } : { type: 'text', text: '' };
    say('content_block_start', { index: 0, content_block: block });
    const delta = offers
      ? { type: 'input_json_delta', partial_json: JSON.stringify(args) }
      : { type: 'text_delta', text: 'done' };
    say('content_block_delta', { index: 0, delta });
    say('content_block_stop', { index: 0 });
    say('message_delta', { delta: { stop_reason: offers ? 'tool_use' : 'end_turn' }, usage: { output_tokens: 1 } });
    say('message_stop', {});
    res.end();
  });
  return { ...model, asked };
}
