// Messages of a conversation, in whatever form they come: one reading for all dialects. Providers and frameworks write
// a message's content as text, as a list of parts or under `parts`, tool calls inside it or beside it, and whole
// requests and answers around the messages.
// Invariant: nothing that came is lost. What a message has beside role, content and calls stays in it, what stands
// beside the messages is `details`, and what has no form that is known is `asCame`, unchanged: JSON that was cut is no
// person's words.
import { entryOf } from '../../common/entry.ts';
import { innerText } from '../../common/inner-json.ts';
import { type AttributeValue, isObject, parsed } from '../span.ts';
import { isEmpty, type JsonValues, member, othersOf, textMember } from './values.ts';

/**
 * With `content`, text where it is nothing but text, and `tool_calls`, each of `id`, `name`, `arguments`. Other members
 * are as they came.
 */
export type ChatMessage = JsonValues & { role: string };

/** The content that was sent to a model, or came from it. */
export type SpokenContent = {
  /** In order; what is no message stands among them as it came. Empty: it is all `asCame`. */
  messages: readonly AttributeValue[];
  asCame?: AttributeValue | undefined;
  system?: AttributeValue | undefined;
  details?: JsonValues | undefined;
};

/** `role`: of messages that name none. undefined: nothing was said. */
export function saidIn(value: AttributeValue | undefined, role: string): SpokenContent | undefined {
  if (value === undefined || isEmpty(value)) return undefined;
  if (typeof value !== 'string') return conversation(value, role, 0) ?? { messages: [], asCame: value };
  if (!/^\s*[[{"]/.test(value)) return { messages: [{ role, content: value }] };
  const inner = innerText(value);
  if (inner === undefined) return { messages: [{ role, content: value }] };
  if (typeof inner.value === 'string') return { messages: [{ role, content: inner.value }] };
  const opened = inner.isExact ? parsed(value) : (inner.value as AttributeValue | undefined);
  if (isEmpty(opened) && inner.isExact) return undefined;
  const read = opened === undefined ? undefined : conversation(opened, role, 0);
  return read ?? { messages: [], asCame: value };
}

/** Is there anything but names and roles? */
export function saysSomething(said: SpokenContent): boolean {
  return said.asCame !== undefined || said.messages.some((one) => !isMessage(one) || hasContent(one));
}

export function isMessage(value: AttributeValue): value is ChatMessage {
  return typeof member(value, 'role') === 'string';
}

/** The members of a message that are no content. */
const NAMES = new Set(['role', 'id', 'index', 'name', 'tool_call_id', 'finish_reason', 'type']);

function hasContent(message: ChatMessage): boolean {
  return Object.keys(message).some((key) => !NAMES.has(key));
}

/** Requests in requests: `{"request": {"input": {"messages": …}}}` has 3. */
const LEVELS_MAX = 6;

/** undefined: it is none. */
function conversation(value: AttributeValue, role: string, level: number): SpokenContent | undefined {
  if (level > LEVELS_MAX) return undefined;
  if (Array.isArray(value)) return ofList(value, role, level);
  if (!isObject(value)) return undefined;
  const message = messageOf(value, role);
  return message === undefined ? inside(value, role, level) : { messages: [message] };
}

function ofList(list: AttributeValue[], role: string, level: number): SpokenContent | undefined {
  if (list.length > 0 && list.every(isPart)) return { messages: [withContent({ role }, list)] };
  let isKnown = false;
  let system: AttributeValue | undefined;
  const details: JsonValues = {};
  const messages = list.flatMap((one, i): readonly AttributeValue[] => {
    const read: SpokenContent | undefined = isText(one)
      ? { messages: [{ role, content: one }] }
      : conversation(one, role, level + 1);
    if (read === undefined) return [one];
    isKnown = true;
    system ??= read.system;
    const [message, second] = read.messages;
    if (read.details === undefined) return read.messages;
    if (second === undefined && isMessage(message!)) return [merged(read.details, message)];
    details[i] = read.details;
    return read.messages;
  });
  return isKnown ? { messages, system, ...(isEmpty(details) ? {} : { details }) } : undefined;
}

/** A message with the members beside it; under `beside` those for which the message has another value. */
function merged<Of extends JsonValues>(beside: JsonValues, message: Of): Of {
  const others = othersOf(beside, (name) => Object.hasOwn(message, name));
  const same = othersOf(beside, (name) => !Object.hasOwn(message, name) || message[name] === beside[name]);
  return { ...others, ...message, ...(isEmpty(same) ? {} : { beside: same }) };
}

function isText(value: AttributeValue): value is string {
  return typeof value === 'string' && value !== '';
}

/** Where the messages are in requests and answers; the first that holds any. */
const HOLDERS = [
  ...['messages', 'contents', 'input_messages', 'output_messages', 'all_messages', 'choices', 'generations'],
  ...['candidates', 'message', 'delta', 'output', 'outputs', 'input', 'inputs', 'prompts', 'prompt', 'completion'],
  ...['completions', 'response', 'request', 'content', 'text', 'generated_text', 'outputText', 'inputText', 'result'],
  ...['value', 'body', 'kwargs'],
];
/** A use of a tool, among the messages of OpenAI's Responses. */
const TOOL_ITEM = /_(call|output|result)$/;
const SYSTEM = ['system', 'system_instruction', 'systemInstruction', 'instructions', 'system_prompt'];
/** Under these, text may be anything. */
const TEXT_ELSEWHERE = new Set(['request', 'body', 'kwargs', 'delta']);

function inside(value: JsonValues, role: string, level: number): SpokenContent | undefined {
  if (TOOL_ITEM.test(textMember(value, 'type') ?? '')) return undefined;
  for (const holder of HOLDERS) {
    const held = member(value, holder);
    if (held === undefined || isEmpty(held)) continue;
    const read = heldIn(held, holder, role, level);
    if (read === undefined || (read.messages.length === 0 && read.asCame === undefined)) continue;
    const details = othersOf(value, (name) => name === holder);
    if (read.details !== undefined) details[holder] = read.details;
    return { ...read, system: read.system ?? systemIn(value), ...(isEmpty(details) ? {} : { details }) };
  }
  return undefined;
}

function heldIn(held: AttributeValue, holder: string, role: string, level: number): SpokenContent | undefined {
  if (typeof held !== 'string') return conversation(held, role, level + 1);
  return TEXT_ELSEWHERE.has(holder) ? undefined : saidIn(held, role);
}

function systemIn(value: JsonValues): AttributeValue | undefined {
  for (const place of [value, member(value, 'config')])
    for (const name of SYSTEM) {
      const found = member(place, name);
      if (found !== undefined && !isEmpty(found)) return plain(found);
    }
  return undefined;
}

/** Text where it is nothing but text. */
export function plain(value: AttributeValue): AttributeValue {
  const held = member(value, 'parts') ?? value;
  const parts = listOf(held);
  return parts === undefined ? (textOfPart(held) ?? value) : (contentOf(parts) ?? value);
}

/** Roles of those who say what they are in `type` (LangChain, AutoGen), or by the name of a class. */
const ROLE_OF_TYPE: Record<string, string> = {
  ...{ human: 'user', user: 'user', ai: 'assistant', assistant: 'assistant', aimessagechunk: 'assistant' },
  ...{ system: 'system', developer: 'system', tool: 'tool', function: 'tool', chat: 'user' },
  ...{ generation: 'assistant', chatgeneration: 'assistant' },
};

function roleOfType(type: AttributeValue | undefined): string | undefined {
  if (typeof type !== 'string') return undefined;
  const name = type.toLowerCase();
  return entryOf(ROLE_OF_TYPE, name) ?? entryOf(ROLE_OF_TYPE, name.replace(/message(chunk)?$/, ''));
}

const CONTENT = ['parts', 'contents', 'content', 'text'];
const CALLS = ['tool_calls', 'toolCalls', 'function_call', 'functionCall'];

/** undefined: the object is none. `role`: of one that names none. */
export function messageOf(value: JsonValues, role: string): ChatMessage | undefined {
  const object = unwrapped(value);
  const own = textMember(object, 'role') ?? textMember(member(object, 'author'), 'role');
  const byType = own === undefined && 'content' in object ? roleOfType(object['type']) : undefined;
  const inContent = CONTENT.find(
    (name) => !isEmpty(object[name]) && (own !== undefined || !holdsMessages(object[name])),
  );
  const held = inContent === undefined ? undefined : heldUnder(object, inContent);
  const isHeld = typeof held === 'string' || Array.isArray(held);
  const calls = CALLS.flatMap((name) => (object[name] === undefined ? [] : callsUnder(object[name])));
  const known = own ?? byType ?? (isHeld || calls.length > 0 ? role : undefined);
  if (known === undefined) return ofCall(object);
  const isType = byType !== undefined || object['type'] === 'message';
  const others = othersOf(
    object,
    (name) =>
      name === 'role' ||
      name === inContent ||
      (isType && name === 'type') ||
      (calls.length > 0 && CALLS.includes(name)),
  );
  const message: ChatMessage = { role: known, ...others };
  return held === undefined ? withCalls(message, calls) : withContent(message, held, calls);
}

function holdsMessages(value: AttributeValue | undefined): boolean {
  return Array.isArray(value) && value.some((one) => isObject(one) && ('role' in one || 'parts' in one));
}

/** With the content beside the parts, where both are there and say different things. */
function heldUnder(object: JsonValues, name: string): AttributeValue {
  const held = parsed(object[name]!);
  const beside = name === 'content' ? undefined : object['content'];
  if (!Array.isArray(held) || beside === undefined || isEmpty(beside)) return object[name]!;
  const isSame = typeof beside === 'string' && contentOf(held) === beside;
  return isSame ? held : [...(Array.isArray(beside) ? beside : [beside]), ...held];
}

/** A call of a tool that stands where a message is due, as OpenAI's Responses have it. */
function ofCall(object: JsonValues): ChatMessage | undefined {
  const call = object['type'] === undefined ? undefined : calledTool(object);
  return call === undefined ? undefined : { role: 'assistant', tool_calls: [call] };
}

/** A message in what some put around it: OpenInference, choices, LangChain's two forms. */
function unwrapped(value: JsonValues): JsonValues {
  const kwargs = member(value, 'kwargs');
  if (value['lc'] === 1 && isObject(kwargs)) {
    const id = member(value, 'id');
    const others = othersOf(value, (name) => ['lc', 'id', 'type', 'kwargs'].includes(name));
    return merged(others, { type: (Array.isArray(id) ? id.at(-1) : undefined) ?? null, ...kwargs });
  }
  const data = member(value, 'data');
  if (roleOfType(value['type']) !== undefined && isObject(data))
    return merged(
      othersOf(value, (name) => name === 'data'),
      { ...data, type: value['type']! },
    );
  for (const name of WRAPPERS) {
    if (value[name] === undefined) continue;
    const inner = parsed(value[name]!);
    const isParts = Array.isArray(inner) && inner.length > 0 && inner.every(isPart);
    if (!isParts && !(isObject(inner) && looksLikeMessage(inner))) continue;
    const others = othersOf(value, (other) => other === name);
    const message = isParts ? { content: inner } : unwrapped(inner as JsonValues);
    // Generations say their text twice.
    if (others['text'] === message['content']) delete others['text'];
    return merged(others, message);
  }
  return value;
}

const WRAPPERS = ['message', 'delta', 'message_content', 'completion', 'prompt'];

function looksLikeMessage(value: JsonValues): boolean {
  return ['role', 'content', 'parts', 'text', 'tool_calls', 'kwargs', 'data'].some((name) =>
    Object.hasOwn(value, name),
  );
}

function withContent(message: ChatMessage, held: AttributeValue, called: readonly JsonValues[] = []): ChatMessage {
  const parts = listOf(held);
  if (parts === undefined || (typeof held === 'string' && !parts.every(isPart)))
    return withCalls({ ...message, content: held }, called);
  const content = contentOf(parts);
  const calls = [...callsIn(parts), ...called];
  return withCalls(content === undefined ? message : { ...message, content }, calls);
}

/** The same call may stand among the parts and beside them. */
function withCalls(message: ChatMessage, calls: readonly JsonValues[]): ChatMessage {
  if (calls.length === 0) return message;
  const ids = new Set<AttributeValue>();
  const once = calls.filter(({ id }) => {
    if (id === undefined || !ids.has(id)) return ids.add(id ?? null);
    return false;
  });
  return { ...message, tool_calls: once };
}

function listOf(value: AttributeValue | undefined): AttributeValue[] | undefined {
  const list = value === undefined ? undefined : parsed(value);
  return Array.isArray(list) ? list : undefined;
}

/** A part of a message's content, which is no message by itself. */
function isPart(value: AttributeValue): boolean {
  if (!isObject(value) || Object.hasOwn(value, 'role') || value['type'] === 'message') return false;
  if (value['lc'] === 1) return false; // LangChain's own form of a message
  if (PART_MEMBERS.some((name) => Object.hasOwn(value, name))) return true;
  return typeof value['type'] === 'string' && !('data' in value && roleOfType(value['type']) !== undefined)
    ? roleOfType(value['type']) === undefined || value['type'] === 'function'
    : typeof value['text'] === 'string' && Object.keys(value).length === 1;
}

const PART_MEMBERS = [
  ...['tool_call', 'functionCall', 'functionResponse', 'function_call', 'function_response', 'toolUse', 'toolResult'],
  ...['inlineData', 'inline_data', 'fileData', 'file_data', 'message_content'],
];

/** Text where all parts but calls of tools are nothing but text; else the parts as they are. */
function contentOf(parts: readonly AttributeValue[]): AttributeValue | undefined {
  const rest = parts.filter((part) => calledTool(part) === undefined);
  if (rest.length === 0) return undefined;
  return rest.every(isPlainText) ? rest.map(textOfPart).join('\n') : rest;
}

const TEXT_TYPES = new Set(['text', 'input_text', 'output_text']);
const TEXT_MEMBERS = new Set(['type', 'text', 'content', 'message_content', 'thought']);

function isPlainText(part: AttributeValue): boolean {
  if (textOfPart(part) === undefined) return false;
  const inner = member(part, 'message_content') ?? part;
  if (isObject(inner) && !isEmpty(inner['text']) && !isEmpty(inner['content'])) return false;
  return !isObject(inner) || isEmpty(othersOf(inner, (name) => TEXT_MEMBERS.has(name)));
}

function textOfPart(part: AttributeValue): string | undefined {
  if (typeof part === 'string') return part;
  const inner = member(part, 'message_content') ?? part;
  const type = member(inner, 'type');
  if (type !== undefined && !(typeof type === 'string' && TEXT_TYPES.has(type))) return undefined;
  const text = member(inner, 'text') ?? member(inner, 'content');
  const found = isObject(text) ? member(text, 'value') : text;
  return typeof found === 'string' ? found : undefined;
}

function callsIn(parts: readonly AttributeValue[]): JsonValues[] {
  return parts.map(calledTool).filter((call) => call !== undefined);
}

function callsUnder(value: AttributeValue | undefined): JsonValues[] {
  const read = value === undefined ? undefined : parsed(value);
  if (Array.isArray(read)) return callsIn(read);
  return isObject(read) ? callsIn([read]) : [];
}

/** Providers' wrappings of a call. */
const WRAPPINGS = ['tool_call', 'functionCall', 'function_call', 'toolUse'];
const CALL_TYPES = new Set([
  ...['tool_call', 'tool-call', 'toolcall', 'tool_use', 'function', 'function_call', 'server_tool_use'],
  ...['custom_tool_call', 'mcp_call', 'functioncall', 'server_tool_call'],
]);
const CALL_MEMBERS = new Set([
  ...['type', 'function', 'name', 'toolName', 'tool_name', 'index'],
  ...['id', 'toolCallId', 'tool_call_id', 'toolUseId', 'call_id', ...WRAPPINGS],
]);
const ARGUMENTS = ['arguments', 'args', 'input', 'parameters'];

/** A call of a tool in one of its forms, or undefined. */
function calledTool(part: AttributeValue): JsonValues | undefined {
  const wrapping = WRAPPINGS.find((name) => isObject(member(part, name)));
  const call = wrapping === undefined ? part : member(part, wrapping)!;
  const type = member(call, 'type');
  if (type !== undefined && !(typeof type === 'string' && CALL_TYPES.has(type.toLowerCase()))) return undefined;
  const of = isObject(member(call, 'function')) ? member(call, 'function')! : call;
  const name = textMember(of, 'name', 'toolName', 'tool_name');
  if (name === undefined) return undefined;
  const under = ARGUMENTS.find((one) => member(of, one) !== undefined);
  const given = under === undefined ? undefined : member(of, under);
  // What has a name and nothing else may be anything.
  if (type === undefined && wrapping === undefined && of === call && given === undefined) return undefined;
  const id = [call, part].map((one) => textMember(one, 'id', 'toolCallId', 'tool_call_id', 'toolUseId', 'call_id'));
  const others = Object.assign({}, ...[part, call, of].map((one) => besideCall(one, under))) as JsonValues;
  return {
    ...((id[0] ?? id[1]) === undefined ? {} : { id: (id[0] ?? id[1])! }),
    name,
    ...(given === undefined ? {} : { arguments: parsed(given) }),
    ...others,
  };
}

/** `under`: where its arguments are. */
function besideCall(value: AttributeValue, under: string | undefined): JsonValues {
  return isObject(value) ? othersOf(value, (name) => name === under || CALL_MEMBERS.has(name)) : {};
}

const PERSONS = new Set(['user', 'human']);

/** The last thing that a person said; undefined: none did. What a tool gave back in a user's message is none. */
export function lastUserText({ messages }: Pick<SpokenContent, 'messages'>): string | undefined {
  for (const one of messages.toReversed()) {
    if (!isMessage(one) || !PERSONS.has(one.role.toLowerCase()) || one['tool_call_id'] !== undefined) continue;
    const text = textOfMessage(one);
    if (text !== undefined && text !== '') return text;
  }
  return undefined;
}

export function textOfMessage(message: ChatMessage): string | undefined {
  const content = message['content'];
  if (typeof content === 'string') return content;
  if (isObject(content))
    return member(content, 'parts') === undefined ? textOfPart(content) : textsOf(content['parts']!);
  return content === undefined ? undefined : textsOf(content);
}

function textsOf(parts: AttributeValue): string | undefined {
  const texts = Array.isArray(parts) ? parts.map(textOfPart).filter((text) => text !== undefined) : [];
  return texts.length === 0 ? undefined : texts.join('\n');
}
