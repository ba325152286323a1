// Reads one message, and the parts of its content, whichever provider or library wrote it: what was said, which tools
// were called with what, what they answered, what was thought, which media came along. The table of the forms around
// messages is message-forms.ts.
// Invariant: nothing of a content is lost: a part of no known kind is shown as data, number by number as it was sent.
// Pure; runs in conversation-worker.ts.
import type { Value } from './payload-values.ts';

export type Part =
  | { kind: 'text' | 'thought' | 'refusal' | 'media' | 'data'; text: string }
  | { kind: 'call'; tool: string; id: string; text: string }
  | { kind: 'result'; tool: string; id: string; text: string; failed: boolean };

export type Message = { role: string; name: string; parts: Part[] };

/** Content in content: a result of a tool has parts, one of which is a resource. */
const LEVELS_MAX = 6;

/** Who speaks, by the words of others (LangChain and AutoGen say it in `type`, Google and Cohere in words of their own). */
const ROLES: Record<string, string> = {
  ...{ human: 'user', humanmessage: 'user', usermessage: 'user', ai: 'assistant', aimessage: 'assistant' },
  ...{ aimessagechunk: 'assistant', model: 'assistant', chatbot: 'assistant', assistantmessage: 'assistant' },
  ...{ systemmessage: 'system', toolmessage: 'tool', function: 'tool', functionmessage: 'tool' },
};
const SPEAKERS = new Set(['user', 'assistant', 'system', 'developer', 'tool', ...Object.keys(ROLES)]);

function roleOf(word: string): string {
  const known = word.toLowerCase();
  return ROLES[known] ?? (SPEAKERS.has(known) ? known : word);
}

const CONTENT = ['content', 'parts', 'text', 'message'] as const;
const CALLS = ['tool_calls', 'toolCalls', 'function_call', 'functionCall', 'tool_plan'] as const;
const THOUGHTS = ['reasoning_content', 'reasoning', 'thinking'] as const;

/** undefined: it is no message. `role`: of one that names none. */
export function messageOf(value: Value, role?: string, level = 0): Message | undefined {
  const all = value.members();
  const wrapped = all.get('message') ?? all.get('kwargs') ?? (isSpeaker(all.get('type')) ? all.get('data') : undefined);
  if (wrapped?.kind === 'object' && !all.has('content') && level < LEVELS_MAX)
    return messageOf(wrapped, roleIn(all) ?? role, level + 1);
  const own = roleIn(all) ?? role;
  const item = itemOf(value, all);
  if (item !== undefined) return item;
  if (own === undefined || ![...CONTENT, ...CALLS, ...THOUGHTS].some((name) => all.has(name))) return undefined;
  const parts: Part[] = [];
  for (const name of THOUGHTS) parts.push(...thoughtOf(all.get(name)));
  const callId = textIn(all, 'tool_call_id', 'toolCallId', 'tool_use_id');
  const said = CONTENT.map((name) => all.get(name)).find((one) => one !== undefined && !one.isNothing);
  if (callId !== '' || own === 'tool') parts.push(...resultParts(said, callId, textIn(all, 'name', 'tool_name')));
  else if (said !== undefined) parts.push(...partsOf(said));
  const refusal = all.get('refusal')?.text;
  if (refusal !== undefined && refusal !== '') parts.push({ kind: 'refusal', text: refusal });
  for (const name of CALLS) parts.push(...callsOf(all.get(name)));
  return { role: own, name: callId === '' ? textIn(all, 'name') : '', parts: onceEach(parts) };
}

/** The same call may stand among the parts and beside them. */
function onceEach(parts: readonly Part[]): Part[] {
  const ids = new Set<string>();
  return parts.filter((part) => part.kind !== 'call' || part.id === '' || (!ids.has(part.id) && ids.add(part.id)));
}

function isSpeaker(type: Value | undefined): boolean {
  return SPEAKERS.has((type?.text ?? '').toLowerCase());
}

function roleIn(all: Map<string, Value>): string | undefined {
  const named = all.get('role')?.text ?? all.get('author')?.get('role')?.text;
  if (named !== undefined) return roleOf(named);
  const type = all.get('type');
  return isSpeaker(type) ? roleOf(type!.text!) : undefined;
}

/** Items of OpenAI's Responses stand where messages do. */
function itemOf(value: Value, all: Map<string, Value>): Message | undefined {
  const type = all.get('type')?.text ?? '';
  if (type === 'reasoning') return { role: 'assistant', name: '', parts: partOf(value, 0) };
  if (/_call_output$/.test(type)) return { role: 'tool', name: '', parts: partOf(value, 0) };
  if (/_call$/.test(type) && !all.has('content')) return { role: 'assistant', name: '', parts: partOf(value, 0) };
  return undefined;
}

function resultParts(said: Value | undefined, id: string, tool: string): Part[] {
  const held = said?.kind === 'list' ? said.items().flatMap((one) => partOf(one, 1)) : [];
  if (held.some(({ kind }) => kind === 'result')) return held;
  return [{ kind: 'result', tool, id, text: said === undefined ? '' : textOfResult(said), failed: false }];
}

/** Reads the parts of a content: a text, a list of parts, one part. */
export function partsOf(content: Value, level = 0): Part[] {
  const text = content.text;
  if (text !== undefined) return text === '' ? [] : [{ kind: 'text', text }];
  if (content.isNothing) return [];
  if (content.kind === 'list' && level <= LEVELS_MAX) return content.items().flatMap((one) => partOf(one, level + 1));
  return content.kind === 'object' ? partOf(content, level + 1) : [{ kind: 'data', text: content.readable }];
}

type Reader = (all: Map<string, Value>, value: Value, level: number) => Part[];

const callPart = (tool: string, id: string, args: Value | undefined): Part[] => [
  { kind: 'call', tool, id, text: args === undefined ? '' : args.readable },
];

const readText: Reader = (all) => {
  const text = all.get('text') ?? all.get('content');
  return text === undefined || text.isNothing ? [] : [{ kind: 'text', text: text.text ?? text.readable }];
};
const readThought: Reader = (all) => [
  ...thoughtOf(all.get('thinking') ?? all.get('text') ?? all.get('reasoning')),
  ...thoughtOf(all.get('summary') ?? all.get('content')),
];
const readCall: Reader = (all) =>
  callPart(
    textIn(all, 'name', 'toolName', 'tool_name'),
    textIn(all, 'call_id', 'toolCallId', 'tool_call_id', 'id'),
    all.get('input') ?? all.get('arguments') ?? all.get('args') ?? all.get('action'),
  );
const readResult: Reader = (all) => {
  const answer = ['output', 'result', 'response', 'content']
    .map((name) => all.get(name))
    .find((one) => one !== undefined);
  return [
    {
      kind: 'result',
      tool: textIn(all, 'toolName', 'tool_name', 'name'),
      id: textIn(all, 'tool_use_id', 'toolCallId', 'call_id', 'tool_call_id', 'id'),
      text: answer === undefined ? '' : textOfResult(answer),
      failed: all.get('is_error')?.sent === 'true' || all.get('isError')?.sent === 'true',
    },
  ];
};
const readMedia: Reader = (all, value) => [{ kind: 'media', text: mediaText(all, value) }];

/** Kinds of parts by their `type`: OpenAI's, Anthropic's, the AI SDK's, OpenTelemetry's. */
const BY_TYPE: Record<string, Reader> = {
  ...{ text: readText, input_text: readText, output_text: readText, summary_text: readText },
  ...{ thinking: readThought, reasoning: readThought, redacted_thinking: readMedia },
  ...{ tool_use: readCall, server_tool_use: readCall, mcp_tool_use: readCall, 'tool-call': readCall },
  ...{ tool_call: readCall, function_call: readCall, custom_tool_call: readCall, function: readFunction },
  ...{ tool_result: readResult, mcp_tool_result: readResult, 'tool-result': readResult },
  ...{ tool_call_response: readResult, function_call_output: readResult, custom_tool_call_output: readResult },
  refusal: (all) => [{ kind: 'refusal', text: textIn(all, 'refusal') }],
  ...{ image_url: readMedia, image: readMedia, input_image: readMedia, input_audio: readMedia, audio: readMedia },
  ...{ file: readMedia, input_file: readMedia, document: readMedia, blob: readMedia, uri: readMedia, video: readMedia },
  'step-start': () => [],
  ...{ resource_link: readMedia, resource: readResource, media: readMedia },
};

function partOf(value: Value, level: number): Part[] {
  if (value.kind !== 'object') return partsOf(value, level);
  if (level > LEVELS_MAX) return [{ kind: 'data', text: value.readable }];
  const all = value.members();
  const type = all.get('type')?.text ?? all.get('part_kind')?.text ?? '';
  const known = Object.hasOwn(BY_TYPE, type) ? BY_TYPE[type] : undefined;
  if (known !== undefined) return known(all, value, level);
  if (/^(tool-|dynamic-tool)/.test(type)) return ofToolPart(type, all);
  if (/_tool_result$|_call_output$/.test(type)) return readResult(all, value, level);
  const google = ofGoogle(all);
  if (google !== undefined) return google;
  const answer = ofMcpContent(all, level);
  if (answer !== undefined) return answer;
  return [{ kind: 'data', text: value.readable }];
}

/** The AI SDK's messages of pages have a call and its result in one part. */
function ofToolPart(type: string, all: Map<string, Value>): Part[] {
  const tool = textIn(all, 'toolName') || type.replace(/^tool-/, '');
  const id = textIn(all, 'toolCallId');
  const answer = all.get('output') ?? all.get('errorText');
  const call = callPart(tool, id, all.get('input') ?? all.get('args'));
  if (answer === undefined) return call;
  return [...call, { kind: 'result', tool, id, text: textOfResult(answer), failed: all.has('errorText') }];
}

/** Google's parts say what they are by their one member, in two spellings. */
function ofGoogle(all: Map<string, Value>): Part[] | undefined {
  const called = all.get('functionCall') ?? all.get('function_call') ?? all.get('toolUse');
  if (called?.kind === 'object') {
    const of = called.members();
    return callPart(textIn(of, 'name'), textIn(of, 'id', 'toolUseId'), of.get('args') ?? of.get('input'));
  }
  const answered = all.get('functionResponse') ?? all.get('function_response') ?? all.get('toolResult');
  if (answered?.kind === 'object') {
    const of = answered.members();
    const answer = of.get('response') ?? of.get('content');
    const failed = of.get('status')?.text === 'error';
    const text = answer === undefined ? '' : textOfResult(answer);
    return [{ kind: 'result', tool: textIn(of, 'name'), id: textIn(of, 'id', 'toolUseId'), text, failed }];
  }
  const media = all.get('inlineData') ?? all.get('inline_data') ?? all.get('fileData') ?? all.get('file_data');
  if (media?.kind === 'object') return [{ kind: 'media', text: mediaText(media.members(), media) }];
  const text = all.get('text')?.text;
  if (text !== undefined) return [{ kind: all.get('thought')?.sent === 'true' ? 'thought' : 'text', text }];
  return undefined;
}

function ofMcpContent(all: Map<string, Value>, level: number): Part[] | undefined {
  const content = all.get('content');
  return content?.kind === 'list' && all.size <= 4 ? partsOf(content, level + 1) : undefined;
}

function readResource(all: Map<string, Value>, value: Value): Part[] {
  const text = all.get('resource')?.get('text')?.text;
  const at = all.get('resource')?.get('uri')?.text ?? '';
  return text === undefined
    ? readMedia(all, value, 0)
    : [{ kind: 'text', text: at === '' ? text : `${at}\n\n${text}` }];
}

function readFunction(all: Map<string, Value>): Part[] {
  const of = all.get('function')?.members() ?? all;
  return callPart(textIn(of, 'name'), textIn(all, 'id', 'call_id'), of.get('arguments') ?? of.get('parameters'));
}

/** Calls beside the content: a list, one, or nothing but their names. */
export function callsOf(calls: Value | undefined): Part[] {
  if (calls === undefined || calls.isNothing) return [];
  const opened = calls.opened;
  if (opened.kind === 'text') return [{ kind: 'thought', text: opened.text! }];
  const list = opened.kind === 'list' ? opened.items() : [opened];
  return list.flatMap((one): Part[] => {
    const name = one.text;
    if (name !== undefined) return callPart(name, '', undefined);
    const all = one.members();
    if (all.has('function')) return readFunction(all);
    return one.kind === 'object' && textIn(all, 'name', 'toolName') !== ''
      ? readCall(all, one, 0)
      : [{ kind: 'data', text: one.readable }];
  });
}

function thoughtOf(value: Value | undefined): Part[] {
  if (value === undefined || value.isNothing) return [];
  if (value.kind === 'list') return value.items().flatMap((one) => thoughtOf(one.get('text') ?? one));
  return [{ kind: 'thought', text: value.text ?? value.readable }];
}

/** Text where the answer is a text, or parts that are nothing but texts; else as data. */
export function textOfResult(answer: Value): string {
  const held = answer.kind === 'object' && answer.get('content')?.kind === 'list' ? answer.get('content')! : answer;
  if (held.kind === 'list' && !held.isNothing) {
    const parts = held.items().every((one) => one.kind === 'object') ? partsOf(held, 2) : [];
    if (parts.length > 0 && parts.every(({ kind }) => kind === 'text' || kind === 'media'))
      return parts.map(({ text }) => text).join('\n');
  }
  const wrapped = answer.kind === 'object' && /^(text|json)$/.test(answer.get('type')?.text ?? '');
  return (wrapped ? (answer.get('value') ?? answer) : answer).readable;
}

const ADDRESS_CHARACTERS = 400;

/** The type, name and address of a media part as text, never the thing itself; of data in the payload the length. */
function mediaText(all: Map<string, Value>, value: Value): string {
  const inner = ['source', 'image_url', 'input_audio', 'file', 'resource', 'image']
    .map((name) => all.get(name))
    .find((one) => one?.kind === 'object')
    ?.members();
  const of = inner ?? all;
  const what =
    textIn(of, 'media_type', 'mimeType', 'mime_type', 'mediaType', 'format') || textIn(all, 'type') || 'file';
  const name = textIn(of, 'filename', 'name', 'title');
  const at =
    textIn(of, 'url', 'uri', 'fileUri', 'file_uri', 'file_id', 'image_url') || textIn(all, 'image_url', 'url', 'image');
  const data = textIn(of, 'data', 'file_data', 'content', 'bytes', 'blob');
  const address = at.length > ADDRESS_CHARACTERS ? `${at.slice(0, ADDRESS_CHARACTERS)} …` : at;
  const size = data === '' ? '' : `${data.length} characters`;
  return [what, name, address, size].filter((one) => one !== '').join(' · ') || value.readable;
}

/** The first of the names that has a text. */
export function textIn(all: Map<string, Value>, ...names: string[]): string {
  for (const name of names) {
    const text = all.get(name)?.text;
    if (text !== undefined && text !== '') return text;
  }
  return '';
}
