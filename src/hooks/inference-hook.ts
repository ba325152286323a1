// Inference hooks: what an assistant that is run elsewhere sends before each prompt and call of a tool, and what it is
// answered (decision-points/inference-judging.ts asks). All that is known of the form is in this file.
// https://platform.claude.com/docs/en/manage-claude/inference-hooks-endpoint (prompt and tool_call; unknown types,
// members and blocks are to be accepted). Not verified: whether a block stands in `content` of a message or is one by
// itself, what a tool's name is called (`tool_name`, `name`), where the calls of a `tool_call` are: each is read.
// Invariant: what is said is in an event, whatever its form; what has no known one is a `custom` event as it came. The
// hash of a message is of what is said in it, not of what stands around that and may differ from request to request.
// Failure: NotUnderstood.
import { createHash } from 'node:crypto';
import type { EventType } from '../../schemas/closed-sets.ts';
import { itemsOf, jsonOf, textAt } from '../common/json-text.ts';
import { ObjectText, objectOfTexts, type Texts } from '../common/object-text.ts';
import { NotUnderstood } from './hook-form.ts';

/** The texts of an event: `said` is what counts for the message's hash, `beside` what else came with it. */
type Said = { type: EventType; said: Texts; beside: Texts };
/** `tools`: names of tools by the ids of their calls, as far as they are known. `left`: what more may be said. */
type Reading = { tools: Map<string, string>; left: number };
/** `digest`: of this message and all before it. */
export type InferenceMessage = { digest: string; said: readonly Said[] };
export type InferenceRequest = {
  /** undefined: it has none. */
  requestId: string | undefined;
  session: string | undefined;
  /** Names of agents. */
  application: string | undefined;
  actor: string | undefined;
  /** In each event. */
  context: Texts;
  messages: readonly InferenceMessage[];
};
type InferenceVerdict = { isAllowed: boolean; reason?: string | undefined; reference?: string | undefined };

/** More than a person and an assistant say to each other; each is hashed, and may be an event. */
const MESSAGES_MAX = 5_000;
/** The blocks and parts of a request at most: of 10 MB that are empty texts it would be three millions. */
const SAID_MAX = 10_000;
/** Each is an event, and those of a message are made into submissions at once. */
const MESSAGE_SAID_MAX = 1_000;
/** It stands in each event. */
const CONTEXT_BYTES_MAX = 16 * 1024;
const REASON_CHARACTERS_MAX = 500;
const REFERENCE_CHARACTERS_MAX = 50;
const DIGEST_CHARACTERS = 22;
const NAME_CHARACTERS_MAX = 200;

const READ = ['type', 'request_id', 'tenant_id', 'actor', 'source', 'session_id', 'model', 'messages', 'metadata'];
const CALLS = /^tool_(call|use)s?$/;
/** The blocks that may stand by themselves, where a message would. */
const BLOCKS: ReadonlySet<string> = new Set(['text', 'tool_use', 'tool_result', 'attachment']);

/** `seed`: what the hashes begin with. Throws NotUnderstood. */
export function readInference(hook: ObjectText, seed: string): InferenceRequest {
  const [actor, source] = [hook.object('actor'), hook.object('source')];
  const context = contextOf(hook, source);
  const reading: Reading = { tools: new Map(), left: SAID_MAX };
  return {
    requestId: hook.string('request_id'),
    session: hook.string('session_id'),
    application: nameIn(source?.string('application')),
    actor: nameIn(actor?.string('email_address') ?? actor?.string('id')),
    context,
    messages: hashed([...messagesOf(hook, reading), ...otherwiseSaid(hook, reading)], seed),
  };
}

function contextOf(hook: ObjectText, source: ObjectText | undefined): Texts {
  const context = {
    model: hook.raw('model'),
    actor: hook.raw('actor'),
    application: source?.raw('application'),
    tenant_id: hook.raw('tenant_id'),
  };
  if (Buffer.byteLength(objectOfTexts(context)) > CONTEXT_BYTES_MAX)
    throw new NotUnderstood(`${Object.keys(context).join(', ')} are together larger than ${CONTEXT_BYTES_MAX} bytes`);
  return context;
}

/** The text of the answer. */
export function inferenceAnswer({ isAllowed, reason = '', reference = '' }: InferenceVerdict): string {
  if (isAllowed) return '{"action":"allow"}';
  const id = reference.replace(/[^A-Za-z0-9._:/-]/g, '').slice(0, REFERENCE_CHARACTERS_MAX);
  const text = cutTo(reason.toWellFormed(), REASON_CHARACTERS_MAX);
  return jsonOf({
    action: 'deny',
    deny_reason: text === '' ? 'Denied.' : text,
    ...(id === '' ? {} : { reference_id: id }),
  });
}

/**
 * Texts of payloads: one, or where it is larger than an event its text in pieces, of which each begins with the end of
 * the one before, so that what is looked for is whole in one of them. Throws NotUnderstood.
 */
export function payloadsOf({ type, said, beside }: Said, context: Texts, bytesMax: number): string[] {
  const whole = objectOfTexts({ ...said, ...beside, ...context });
  const bytes = Buffer.byteLength(whole);
  if (bytes <= bytesMax) return [whole];
  const texts = Object.entries(said).filter(([, text]) => text?.startsWith('"')) as [string, string][];
  const [name, text] = texts.sort(([, a], [, b]) => b.length - a.length)[0] ?? ['', ''];
  // A character is three bytes at most, of two that are one together four.
  const room = Math.floor((bytesMax - (bytes - Buffer.byteLength(text)) - PART_BYTES) / 3);
  if (room < 2 * OVERLAP_CHARACTERS) throw new NotUnderstood(`a ${type} is larger than ${bytesMax} bytes`);
  const pieces = piecesOf(text.slice(1, -1), room);
  return pieces.map((piece, i) =>
    objectOfTexts({
      ...{ ...said, ...beside, ...context, [name]: `"${piece}"` },
      ...{ part: `${i + 1}`, parts: `${pieces.length}` },
    }),
  );
}

/** The characters that two pieces share: the finds of detectors and most patterns are shorter. */
const OVERLAP_CHARACTERS = 1_000;
/** `"part":12,"parts":34,` and quotes. */
const PART_BYTES = 60;

/** `text`: between the quotes of a string of JSON. Characters and escapes stay whole. */
function piecesOf(text: string, room: number): string[] {
  const pieces: string[] = [];
  for (let start = 0; ; ) {
    if (text.length - start <= room) return [...pieces, text.slice(start)];
    const end = wholeAt(text, start + room);
    pieces.push(text.slice(start, end));
    start = wholeAt(text, end - OVERLAP_CHARACTERS);
  }
}

/** The place at or before `at` where no escape and no pair of surrogates is cut. */
function wholeAt(text: string, at: number): number {
  const near = Math.max(0, at - ESCAPE_CHARACTERS_MAX + 1);
  const slash = near + text.slice(near, at).lastIndexOf('\\');
  if (slash >= near) {
    let first = slash;
    while (text[first - 1] === '\\') first--;
    // Of a row of them the last one begins an escape where their number is odd.
    const isOpen = (slash - first) % 2 === 0;
    const end = slash + (text[slash + 1] === 'u' ? ESCAPE_CHARACTERS_MAX : 2);
    if (isOpen && end > at) return slash;
  }
  return /[\udc00-\udfff]/.test(text[at] ?? '') ? at - 1 : at;
}

/** `\u0041` */
const ESCAPE_CHARACTERS_MAX = 6;

function nameIn(text: string | undefined): string | undefined {
  const name = cutTo((text ?? '').trim().toWellFormed(), NAME_CHARACTERS_MAX);
  return name === '' ? undefined : name;
}

/** Characters are whole. */
function cutTo(text: string, max: number): string {
  return text.length <= max ? text : text.slice(0, max).replace(/[\ud800-\udbff]$/, '');
}

/** Reads what is said in each message. */
function messagesOf(hook: ObjectText, reading: Reading): Said[][] {
  const text = hook.raw('messages');
  if (text === undefined) return [];
  const items = itemsOf(text);
  if (items === undefined) throw new NotUnderstood('messages must be an array');
  if (items.length > MESSAGES_MAX) throw new NotUnderstood(`there are more than ${MESSAGES_MAX} messages`);
  return items.map((item) => saidIn(textAt(text, item), reading));
}

/** Throws NotUnderstood where there are too many, before anything is made of them. */
function keepFew(count: number, reading: Reading): void {
  reading.left -= count;
  if (count > MESSAGE_SAID_MAX) throw tooMuchSaid();
  if (reading.left < 0) throw new NotUnderstood(`the messages have more than ${SAID_MAX} blocks and parts together`);
}

function tooMuchSaid(): NotUnderstood {
  return new NotUnderstood(`a message has more than ${MESSAGE_SAID_MAX} blocks and parts`);
}

function saidIn(text: string, reading: Reading): Said[] {
  const message = ObjectText.of(text);
  if (message === undefined) return [asItCame(text, 'message')];
  const role = message.string('role') ?? 'user';
  const content = message.raw('content');
  const callKeys = message.keys.filter((key) => CALLS.test(key));
  const isBlock = message.has('tool_use_id') || BLOCKS.has(message.string('type') ?? '');
  if (isBlock || (content === undefined && callKeys.length === 0))
    return message.has('type') ? blockOf(message, role, reading) : [asItCame(text, 'message')];
  const said = content === undefined ? [] : contentOf(content, role, reading);
  for (const key of callKeys) said.push(...callsIn(message.raw(key)!, reading));
  const beside = message.without(['role', 'content', 'type', ...callKeys]);
  if (beside === undefined) return said;
  const [first, ...rest] = said;
  if (first === undefined) return [asItCame(text, 'message')];
  return [{ ...first, beside: { ...first.beside, message: beside } }, ...rest];
}

function contentOf(content: string, role: string, reading: Reading): Said[] {
  const blocks = itemsOf(content);
  keepFew(blocks?.length ?? 1, reading);
  if (blocks === undefined) return [content.startsWith('"') ? textOf(content, role, {}) : asItCame(content, 'message')];
  return blocks.flatMap((block) => anyBlock(textAt(content, block), role, reading));
}

function anyBlock(text: string, role: string, reading: Reading): Said[] {
  const block = ObjectText.of(text);
  if (block !== undefined) return blockOf(block, role, reading);
  return [text.startsWith('"') ? textOf(text, role, {}) : asItCame(text, 'inference_block')];
}

function blockOf(block: ObjectText, role: string, reading: Reading): Said[] {
  switch (block.string('type')) {
    case 'text':
      if (block.string('text') === undefined) return [asItCame(block.text, 'inference_block')];
      return [textOf(block.raw('text')!, role, { block: block.without(['type', 'text', 'role']) })];
    case 'tool_use':
      return [callOf(block, reading)];
    case 'tool_result':
      return resultsOf(block, reading);
    case 'attachment': {
      const text = ['text', 'content', 'extracted_text'].find((key) => block.string(key) !== undefined);
      const rest = block.without(['type', 'role', text ?? '']);
      const said = { kind: '"attachment"', text: text === undefined ? undefined : block.raw(text), attachment: rest };
      return [{ type: 'custom', said, beside: {} }];
    }
    default:
      return [asItCame(block.text, 'inference_block')];
  }
}

/** An event for each part of the result: what came of a call is often larger than anything that is said. */
function resultsOf(block: ObjectText, reading: Reading): Said[] {
  const id = block.string('tool_use_id') ?? block.string('id');
  const content = ['content', 'result', 'output'].find((key) => block.has(key));
  const said = {
    kind: '"tool_result"',
    tool_name: block.raw('tool_name') ?? (id === undefined ? undefined : reading.tools.get(id)),
    call_id: block.raw('tool_use_id') ?? block.raw('id'),
    is_error: block.raw('is_error'),
  };
  const beside = block.without(['type', 'role', 'tool_name', 'tool_use_id', 'id', 'is_error', content ?? '']);
  const text = content === undefined ? undefined : block.raw(content)!;
  const items = text === undefined ? undefined : itemsOf(text);
  keepFew(items?.length ?? 1, reading);
  const parts = items?.map((part) => partOf(textAt(text!, part)));
  const results: (string | undefined)[] = parts === undefined || parts.length === 0 ? [text] : parts;
  return results.map((result, i) => ({
    ...{ type: 'custom', said: { ...said, result }, beside: i === 0 ? { block: beside } : {} },
  }));
}

/** The text of a block that is nothing else. */
function partOf(text: string): string {
  const block = ObjectText.of(text);
  const isText = block?.string('type') === 'text' && block.string('text') !== undefined;
  return isText && block.without(['type', 'text']) === undefined ? block.raw('text')! : text;
}

function callOf(block: ObjectText, { tools }: Pick<Reading, 'tools'>): Said {
  const name = ['tool_name', 'name'].find((key) => (block.string(key) ?? '').trim() !== '');
  if (name === undefined) throw new NotUnderstood('the call of a tool does not say which tool');
  const input = ['input', 'arguments'].find((key) => block.has(key));
  const id = block.string('id');
  if (id !== undefined) tools.set(id, block.raw(name)!);
  const said = {
    tool: block.raw(name),
    arguments: input === undefined ? '{}' : block.raw(input),
    call_id: block.raw('id'),
  };
  return {
    type: 'tool_call',
    said,
    beside: { block: block.without(['type', 'role', 'id', name, input ?? '']) },
  };
}

/** `text`: a string of JSON. */
function textOf(text: string, role: string, beside: Texts): Said {
  if (role === 'user') return { type: 'prompt', said: { prompt: text }, beside };
  if (role === 'assistant') return { type: 'completion', said: { response: text }, beside };
  return { type: 'custom', said: { kind: '"message"', role: jsonOf(role), text }, beside };
}

function asItCame(text: string, kind: string): Said {
  return { type: 'custom', said: { kind: jsonOf(kind), block: text }, beside: {} };
}

/** Calls that stand beside the messages, and members that a later version has: one message, the last. */
function otherwiseSaid(hook: ObjectText, { left }: Reading): Said[][] {
  const reading: Reading = { tools: new Map(), left };
  const callKeys = hook.keys.filter((key) => CALLS.test(key));
  const calls = callKeys.flatMap((key) => callsIn(hook.raw(key)!, reading));
  const request = hook.without([...READ, ...callKeys]);
  const isSilent = !hook.has('messages') && calls.length === 0;
  if (request === undefined && isSilent) throw new NotUnderstood('it has no messages');
  const said: Said = {
    type: 'custom',
    said: { kind: '"inference_request"', hook: hook.raw('type'), request },
    beside: {},
  };
  const all = request === undefined ? calls : [...calls, said];
  return all.length === 0 ? [] : [all];
}

function callsIn(text: string, reading: Reading): Said[] {
  const items = itemsOf(text)?.map((item) => textAt(text, item)) ?? [text];
  keepFew(items.length, reading);
  return items.map((item) => {
    const call = ObjectText.of(item);
    if (call === undefined) throw new NotUnderstood('the call of a tool must be an object');
    return callOf(call, reading);
  });
}

function hashed(messages: readonly Said[][], seed: string): InferenceMessage[] {
  let before = seed;
  return messages.map((said) => {
    if (said.length > MESSAGE_SAID_MAX) throw tooMuchSaid();
    const hash = createHash('sha256').update(before);
    for (const one of said) hash.update(`\0${one.type}\0${objectOfTexts(one.said)}`);
    before = hash.digest('base64url').slice(0, DIGEST_CHARACTERS);
    return { digest: before, said };
  });
}
