// The forms in which payloads hold messages, one a row with its source: where in the request, the answer or the record
// of a library they stand. The first form that finds any reads the payload; message-parts.ts reads each message.
// Invariant: a form takes only what it knows by its members' names; what no form knows is shown as the payload that it
// is. Pure; runs in conversation-worker.ts.
import { callsOf, type Message, messageOf, type Part, partsOf, textIn, textOfResult } from './message-parts.ts';
import type { Value } from './payload-values.ts';

/** Says whose words an event's are where no message says so. */
const ROLE_OF_EVENT: Record<string, string> = { prompt: 'user', completion: 'assistant', tool_call: 'tool' };

type Members = Map<string, Value>;
/** `type`: of the event. undefined: it is none of this form. */
type Reader = (all: Members, type: string, root: Value, level: number) => Message[] | undefined;
/** Requests in requests: `{"request": {"input": {"messages": …}}}` has 3. */
const LEVELS_MAX = 6;

type Form = { name: string; source: string; read: Reader };

const FORMS: readonly Form[] = [
  { name: 'MCP', source: 'modelcontextprotocol.io, 2025-06-18: tools/call, prompts/get, sampling', read: ofMcp },
  { name: 'tool call', source: 'docs/hooks.md, docs/joining.md: tool, arguments, result', read: ofTool },
  {
    name: 'OpenTelemetry',
    source: 'semantic conventions of GenAI: input and output messages with parts',
    read: ofGenAi,
  },
  { name: 'Google', source: 'ai.google.dev: generateContent', read: ofGoogleCall },
  { name: 'OpenAI responses', source: 'platform.openai.com: responses', read: ofResponses },
  {
    name: 'answers',
    source: 'chat.completions (choices), Cohere and Ollama (message), LangChain (generations)',
    read: ofAnswer,
  },
  {
    name: 'messages',
    source: 'chat.completions, Anthropic messages, the AI SDK: messages, prompt as a list',
    read: ofMessages,
  },
  {
    name: 'plain',
    source: 'prompt, response, text, content and the like, of whoever sends events by hand',
    read: ofPlain,
  },
];

type Understood = { form: string; messages: Message[] };

/** undefined: no form knows it. */
export function understood(root: Value, type: string, level = 0): Understood | undefined {
  if (level > LEVELS_MAX) return undefined;
  const all = root.members();
  for (const { name, read } of FORMS) {
    const messages = read(all, type, root, level)?.filter(({ parts }) => parts.length > 0);
    if (messages !== undefined && messages.length > 0) return { form: name, messages };
  }
  return undefined;
}

const said = (role: string, parts: Part[]): Message => ({ role, name: '', parts });

function systemIn(all: Members, ...names: string[]): Message[] {
  const held = names.map((name) => all.get(name)).find((one) => one !== undefined && !one.isNothing);
  if (held === undefined) return [];
  const opened = held.opened;
  const message = opened.kind === 'object' ? messageOf(opened, 'system') : undefined;
  return [message ?? said('system', partsOf(opened))];
}

/** A list of messages, or text in which one stands. undefined: it is none. */
function listIn(held: Value | undefined, role?: string, level = 0): Message[] | undefined {
  if (held === undefined || held.isNothing || level > LEVELS_MAX) return undefined;
  const opened = held.opened;
  if (opened.kind === 'object') {
    const one = messageOf(opened, role);
    return one === undefined ? listIn(opened.get('messages'), role, level + 1) : [one];
  }
  // LangChain has lists of lists
  const items = opened.items().flatMap((one) => (one.kind === 'list' ? one.items() : [one]));
  if (items.length === 0) return undefined;
  const read = items.map((one) => messageOf(one, role));
  if (!read.some((one) => one !== undefined)) return undefined;
  return read.map((one, i) => one ?? said(role ?? 'unknown', partsOf(items[i]!)));
}

function withSystem(system: Message[], messages: Message[]): Message[] {
  return messages.some(({ role }) => role === 'system' || role === 'developer') ? messages : [...system, ...messages];
}

function ofMcp(all: Members): Message[] | undefined {
  if (!all.has('jsonrpc')) return undefined;
  const id = all.get('id')?.readable ?? '';
  const params = all.get('params');
  const name = params?.get('name')?.text;
  if (all.get('method')?.text === 'tools/call' && name !== undefined)
    return [said('assistant', [{ kind: 'call', tool: name, id, text: params?.get('arguments')?.readable ?? '' }])];
  const messages = listIn(params?.get('messages')) ?? listIn(all.get('result')?.get('messages'));
  if (messages !== undefined) return messages;
  const result = all.get('result');
  const text = result === undefined ? all.get('error')?.readable : textOfResult(result);
  if (text === undefined) return undefined;
  const failed = result?.get('isError')?.sent === 'true' || all.has('error');
  return [said('tool', [{ kind: 'result', tool: '', id, text, failed }])];
}

const TOOL_NAMES = ['tool', 'tool_name', 'toolName'];
const ARGUMENTS = ['arguments', 'tool_input', 'toolInput', 'input', 'args', 'parameters', 'command'];
const RESULTS = ['result', 'tool_response', 'tool_output', 'output', 'response', 'error'];
const CALL_IDS = ['call_id', 'tool_call_id', 'tool_use_id', 'toolCallId'];

function ofTool(all: Members, type: string): Message[] | undefined {
  const tool = textIn(all, ...TOOL_NAMES) || (type === 'tool_call' ? textIn(all, 'name', 'function') : '');
  if (tool === '' || type === 'prompt' || type === 'completion') return undefined;
  const id = textIn(all, ...CALL_IDS);
  const of = (names: readonly string[]) => names.map((name) => all.get(name)).find((one) => one !== undefined);
  const failed = ['error', 'failed'].includes(textIn(all, 'status')) || all.has('error') || type === 'error';
  const args = of(ARGUMENTS);
  const messages = args === undefined && type === 'error' ? [] : [callOf(tool, id, args)];
  const answer = of(RESULTS) ?? (type === 'error' ? all.get('message') : undefined);
  if (answer !== undefined)
    messages.push(said('tool', [{ kind: 'result', tool, id, text: textOfResult(answer), failed }]));
  return messages;
}

function callOf(tool: string, id: string, args: Value | undefined): Message {
  return said('assistant', [{ kind: 'call', tool, id, text: args?.readable ?? '' }]);
}

/** In a span's attributes, and where a library writes them without their prefix. */
function ofGenAi(all: Members): Message[] | undefined {
  const of = (name: string) =>
    all.get(`gen_ai.${name.replace('_', '.')}`) ?? all.get(`gen_ai.${name}`) ?? all.get(name);
  const input = listIn(of('input_messages'), 'user');
  const output = listIn(of('output_messages'), 'assistant');
  if (input === undefined && output === undefined) return undefined;
  const system = systemIn(all, 'gen_ai.system_instructions', 'system_instructions', 'gen_ai.system.instructions');
  return withSystem(system, [...(input ?? []), ...(output ?? [])]);
}

function ofGoogleCall(all: Members): Message[] | undefined {
  const system = systemIn(all, 'systemInstruction', 'system_instruction');
  const contents = all.get('contents');
  const text = contents?.text;
  const asked = text === undefined ? listIn(contents, 'user') : [said('user', partsOf(contents!))];
  const given = all
    .get('candidates')
    ?.items()
    .flatMap((one) => listIn(one.get('content'), 'assistant') ?? []);
  if (asked === undefined && given === undefined) return undefined;
  return [...system, ...(asked ?? []), ...(given ?? [])];
}

const ITEMS = new Set(['message', 'reasoning', 'function_call', 'custom_tool_call', 'web_search_call', 'mcp_call']);

function ofResponses(all: Members): Message[] | undefined {
  const output = all.get('output');
  const isAnswer =
    all.get('object')?.text === 'response' ||
    output?.items(1).some((one) => ITEMS.has(one.get('type')?.text ?? '')) === true;
  const input = all.get('input');
  const isRequest = all.has('instructions') || (input?.kind === 'list' && listIn(input) !== undefined);
  if (!isAnswer && !isRequest) return undefined;
  const asked = input?.text === undefined ? listIn(input, 'user') : [said('user', partsOf(input))];
  const given = output?.text === undefined ? listIn(output, 'assistant') : [said('assistant', partsOf(output))];
  return withSystem(systemIn(all, 'instructions'), [...(asked ?? []), ...(given ?? [])]);
}

function ofAnswer(all: Members, type: string): Message[] | undefined {
  const choices = all.get('choices') ?? all.get('generations');
  if (choices?.kind === 'list') {
    const each = choices.items().flatMap((one) => (one.kind === 'list' ? one.items() : [one]));
    return each.flatMap((one) => listIn(one.get('message') ?? one.get('delta') ?? one, 'assistant') ?? []);
  }
  const message = all.get('message')?.opened;
  if (message?.kind === 'object') return listIn(message, ROLE_OF_EVENT[type] ?? 'assistant');
  // Bedrock's converse
  const inner = all.get('output')?.get('message');
  return inner === undefined ? undefined : listIn(inner, 'assistant');
}

function ofMessages(all: Members, type: string, root: Value, level: number): Message[] | undefined {
  const role = ROLE_OF_EVENT[type];
  const system = systemIn(all, 'system', 'system_prompt');
  for (const name of ['messages', 'history', 'conversation', 'chat_history', 'prompt', 'input', 'body', 'request']) {
    const held = all.get(name);
    const inside =
      held?.kind === 'object'
        ? (understood(held, type, level + 1)?.messages ?? listIn(held, role))
        : listIn(held, role);
    if (inside === undefined || inside.length === 0) continue;
    return withSystem(system, [...inside, ...beside(all, name, type)]);
  }
  const own = all.has('role') || all.has('author') ? messageOf(root, role) : undefined;
  if (own === undefined || own.parts.length === 0) return undefined;
  return [...system, own];
}

/** The messages beside those that were sent: the answer, or in a chat history the user's new message. */
function beside(all: Members, name: string, type: string): Message[] {
  if (name === 'chat_history' && typeof all.get('message')?.text === 'string')
    return [said('user', partsOf(all.get('message')!))];
  const answer = all.get('response') ?? all.get('completion') ?? all.get('output');
  if (type === 'prompt' || name === 'prompt' || answer === undefined || answer.isNothing) return [];
  return listIn(answer, 'assistant') ?? [said('assistant', partsOf(answer))];
}

const ASKED = ['prompt', 'query', 'question', 'user_message', 'input', 'user_input', 'instruction', 'task'];
const ANSWERED = ['response', 'completion', 'answer', 'output', 'output_text', 'generated_text', 'outputText'];
const SAID = ['text', 'content', 'message', 'body', 'thought', 'msg', 'summary', 'explanation'];
const ERRORS = ['message', 'error_message', 'error', 'detail', 'error_type'];

function ofPlain(all: Members, type: string): Message[] | undefined {
  const messages = systemIn(all, 'system', 'system_prompt');
  const of = (names: readonly string[]) =>
    names.map((name) => all.get(name)).find((one) => one !== undefined && !one.isNothing && one.kind !== 'number');
  if (type === 'error') {
    const error = of(ERRORS);
    return error === undefined ? undefined : [said('error', partsOf(error))];
  }
  const own = textIn(all, 'role', 'speaker', 'from');
  const asked = of(ASKED);
  if (asked !== undefined) messages.push(said(type === 'custom' ? 'input' : own === '' ? 'user' : own, partsOf(asked)));
  const answer = of(ANSWERED) ?? (type === 'completion' ? of(SAID) : undefined);
  messages.push(...answeredIn(all, answer, type));
  if (asked === undefined && messages.every(({ role }) => role === 'system')) {
    const text = of(SAID);
    const role = own || (ROLE_OF_EVENT[type] ?? (textIn(all, 'name', 'kind') || 'note'));
    if (text !== undefined) messages.push(said(role, partsOf(text)));
  }
  return messages;
}

function answeredIn(all: Members, answer: Value | undefined, type: string): Message[] {
  const calls = callsOf(all.get('tool_calls') ?? all.get('toolCalls'));
  const listed = answer === undefined ? undefined : listIn(answer, 'assistant');
  const thoughts = callsOf(all.get('reasoning') ?? all.get('thinking'));
  const spoken = answer === undefined || listed !== undefined ? [] : partsOf(answer);
  const parts = [...thoughts, ...spoken, ...calls];
  const role = type === 'custom' ? 'output' : 'assistant';
  return [...(listed ?? []), ...(parts.length === 0 ? [] : [said(role, parts)])];
}
