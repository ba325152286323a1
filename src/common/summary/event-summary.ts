// One sentence of what an event is: the tool and its arguments, the first words of a prompt or an answer, what an error
// says (for rows of lists: clickhouse/queries/event-rows.ts, traces.ts). It is made when a row is read, of the first
// characters of the payload and the last of a longer one: nothing is kept, and taking events in costs nothing.
// Known are the forms of OpenAI (chat and Responses), Anthropic, Google, AI SDK, OpenTelemetry, MCP and the plain ones;
// of any other payload its members are named.
// Invariant: bounded by PAYLOAD_HEAD_CHARACTERS whatever the payload is; one line of at most SUMMARY_CHARACTERS;
// numbers as they were sent; what turns the order of characters is named, what moves a terminal's cursor is gone.
// Never throws.
import type { EventType } from '../../../schemas/closed-sets.ts';
import { SUMMARY_CHARACTERS } from '../../../schemas/event.ts';
import { withoutControls } from '../search/words.ts';
import { type PartialValue, readPartial } from './partial-json.ts';

/** A system prompt of usual length, and the words behind it. A page of 500 events has 2 MB of them at most. */
export const PAYLOAD_HEAD_CHARACTERS = 4_096;
/** The newest message of a long conversation is at its end. */
export const PAYLOAD_TAIL_CHARACTERS = 2_048;

/** `head`: what the payload begins with; `tail`: what it ends with, '' where the head has all of it. In characters. */
export type PayloadEnds = { head: string; tail: string };

/** Cuts a payload that is there whole, as the queries of lists cut it. */
export function payloadEnds(payload: string): PayloadEnds {
  if (Buffer.byteLength(payload) <= PAYLOAD_HEAD_CHARACTERS) return { head: payload, tail: '' };
  // A character is two units at most.
  const last = [...payload.slice(-2 * PAYLOAD_TAIL_CHARACTERS).toWellFormed()].slice(-PAYLOAD_TAIL_CHARACTERS);
  return { head: firstCharacters(payload, PAYLOAD_HEAD_CHARACTERS), tail: last.join('') };
}

/** '' where the payload says nothing that could be shown. */
export function eventSummary(type: EventType, { head, tail }: PayloadEnds): string {
  return oneLine(saidBy(type, readPartial(head), tail));
}

type Members = ReadonlyMap<string, PartialValue>;

function saidBy(type: EventType, payload: PartialValue, tail: string): string {
  const members = membersOf(payload);
  if (members === undefined) return saidIn(payload);
  const ways = WAYS[type].map((way) => () => way(members, tail));
  return firstOf([...ways, () => argumentsIn(payload, UNSAID)]);
}

const WAYS: Record<EventType, readonly ((members: Members, tail: string) => string)[]> = {
  prompt: [asked, answered, called, failed],
  completion: [answered, called, asked, failed],
  tool_call: [called, failed, answered],
  error: [failed, errorIn, called, answered],
  custom: [named, called, failed, answered, asked],
};

function firstOf(ways: readonly (() => string)[]): string {
  for (const way of ways) {
    const said = way();
    if (said.trim() !== '') return said;
  }
  return '';
}

// -- what was asked

const PROMPTS = ['prompt', 'query', 'question', 'instruction', 'user_prompt', 'user_input'];
/** Lists of messages, the newest last. */
const MESSAGES = ['prompt', 'messages', 'input', 'contents', 'input_messages', 'gen_ai.input.messages', 'history'];

function asked(members: Members, tail: string): string {
  return firstOf([
    () =>
      firstOf(PROMPTS.map((name) => () => (listIn(members.get(name)).length === 0 ? saidIn(members.get(name)) : ''))),
    () => lastAsked(members, tail),
    () => saidUnder(members, ['text', 'content', 'input', 'message']),
    // Of nothing but what every conversation begins with.
    () => saidUnder(members, ['system', 'instructions', 'systemInstruction']),
  ]);
}

/** A message of a person, in a text that begins anywhere: inside of a string its quotes would be escaped. */
const FROM_A_PERSON = /"role"\s*:\s*"(?:user|human)"/g;

function lastAsked(members: Members, tail: string): string {
  const at = [...tail.matchAll(FROM_A_PERSON)].at(-1)?.index;
  const last = at === undefined ? '' : saidIn(readPartial(`{${tail.slice(at)}`));
  if (last !== '') return last;
  for (const name of MESSAGES) {
    const messages = listIn(members.get(name));
    const byPeople = messages.filter((one) => PEOPLE.has(textUnder(one, ['role', 'type'])));
    for (const list of [byPeople, messages]) {
      const said = list.map((one) => saidIn(one)).findLast((text) => text !== '');
      if (said !== undefined) return said;
    }
  }
  return '';
}

const PEOPLE: ReadonlySet<string> = new Set(['user', 'human']);

// -- what was answered

const ANSWERS = ['response', 'output_text', 'completion', 'answer', 'result', 'text', 'content', 'message'];
const LISTS_OF_ANSWERS = ['choices', 'candidates', 'output', 'output_messages', 'gen_ai.output.messages', 'outputs'];

function answered(members: Members): string {
  const lists = LISTS_OF_ANSWERS.map((name) => () => {
    const found = members.get(name);
    const items = shownOf(listIn(found));
    return items.length === 0 ? saidIn(found) : firstOf(items.map((item) => () => saidIn(item)));
  });
  return firstOf([() => saidUnder(members, ANSWERS), ...lists, () => callsIn(members)]);
}

const CALLS = ['tool_calls', 'toolCalls', 'function_call', 'functionCall'];

function callsIn(members: Members): string {
  for (const name of CALLS) {
    const found = members.get(name);
    if (found === undefined) continue;
    const items = found.kind === 'list' ? found.items : [found];
    const calls = items.map((item) => (item.kind === 'text' ? item.text : called(membersOf(item) ?? NOTHING)));
    const said = calls.filter((text) => text !== '').join(', ');
    if (said !== '') return said;
  }
  return '';
}

const NOTHING: Members = new Map();

// -- which tool was called

const TOOLS = ['tool', 'tool_name', 'toolName', 'gen_ai.tool.name', 'name'];
const ARGUMENTS = [
  ...['arguments', 'args', 'input', 'parameters', 'tool_input', 'toolInput', 'params'],
  ...['gen_ai.tool.call.arguments', 'kwargs'],
];

function called(members: Members): string {
  const tool = textIn(members, TOOLS);
  if (tool === '') return calledInside(members);
  const given = ARGUMENTS.map((name) => members.get(name)).find((value) => value !== undefined);
  const said = given === undefined ? '' : argumentsIn(given);
  if (said !== '') return `${tool}(${said})`;
  const result = saidUnder(members, RESULTS);
  if (result !== '') return `${tool}: ${result}`;
  // Arguments may stand beside the tool.
  const beside = given === undefined ? argumentsIn({ kind: 'object', members, raw: '' }, NO_ARGUMENTS) : '';
  return beside === '' ? tool : `${tool}(${beside})`;
}

const RESULTS = ['result', 'output', 'response'];

function calledInside(members: Members): string {
  for (const inner of ['function', 'params', 'functionCall', 'tool_call', 'toolCall', 'tool']) {
    const call = membersOf(members.get(inner));
    if (call?.has('name')) return called(call);
  }
  return '';
}

const ARGUMENT_CHARACTERS_MAX = 80;
/** More than a line has room for. */
const ARGUMENTS_MAX = 12;
const VALUE_CHARACTERS_MAX = 40;

/** `amount: 5000, to: …`, each value as it was sent. */
function argumentsIn(value: PartialValue, unsaid: ReadonlySet<string> = NONE): string {
  const shown = value.kind === 'text' ? innerOf(value.text) : value;
  const members = membersOf(shown);
  if (members === undefined) return shown.kind === 'text' ? shown.text : inShort(shown);
  const said: string[] = [];
  for (const [name, one] of members) {
    if (said.length === ARGUMENTS_MAX) break;
    if (!unsaid.has(name) && one.raw !== '""' && one.raw !== 'null') said.push(`${name}: ${inShort(one)}`);
  }
  return said.join(', ');
}

const NONE: ReadonlySet<string> = new Set();
/** They say where an event comes from, not what it is. */
const UNSAID: ReadonlySet<string> = new Set(['model', 'provider', 'role', 'otel', 'usage', 'id', 'type', 'jsonrpc']);

const NO_ARGUMENTS: ReadonlySet<string> = new Set([
  ...[...UNSAID, ...TOOLS, ...RESULTS, 'status', 'error', 'tool_call_id', 'call_id', 'tool_use_id', 'toolCallId'],
  ...['duration_ms', 'server', 'session_id', 'content_captured', 'token_count', 'tokens_used'],
]);

function inShort(value: PartialValue): string {
  if (value.kind === 'text') return shortened(value.text, ARGUMENT_CHARACTERS_MAX);
  if (value.raw.length <= VALUE_CHARACTERS_MAX || value.kind === 'other')
    return shortened(value.raw, ARGUMENT_CHARACTERS_MAX);
  return value.kind === 'list' ? '[…]' : '{…}';
}

// -- what went wrong

const ERRORS = ['error', 'exception', 'err'];
const KINDS_OF_ERRORS = ['error_type', 'type', 'code', 'name', 'status'];
const WORDS_OF_ERRORS = ['message', 'error_message', 'detail', 'reason', 'description', 'stderr', 'text'];

function failed(members: Members): string {
  for (const name of ERRORS) {
    const error = members.get(name);
    const inner = membersOf(error);
    const said = inner === undefined ? saidIn(error) : errorIn(inner);
    if (said !== '' && said !== 'null' && said !== 'false') return said;
  }
  return '';
}

function errorIn(members: Members): string {
  const words = saidUnder(members, WORDS_OF_ERRORS);
  const kind = textIn(members, KINDS_OF_ERRORS);
  if (words === '') return kind;
  return kind === '' || words.includes(kind) ? words : `${kind}: ${words}`;
}

// -- what else happened

function named(members: Members): string {
  const name = textIn(members, ['name', 'event', 'title', 'kind', 'action']);
  if (name === '') return '';
  const rest = firstOf([
    () => saidUnder(members, ['content', 'text', 'message', 'description', 'output', 'result', 'input', 'data']),
    () => argumentsIn({ kind: 'object', members, raw: '' }, new Set([...UNSAID, 'name', 'event', 'title', 'kind'])),
  ]);
  return rest === '' ? name : `${name}: ${rest}`;
}

// -- reading

/** The text of a message, of a part of one, or of text; of messages in a list all of it, until a line is full. */
function saidIn(value: PartialValue | undefined): string {
  if (value === undefined) return '';
  switch (value.kind) {
    case 'text': {
      const inner = innerOf(value.text);
      return inner.kind === 'text' ? value.text : saidIn(inner) || value.text;
    }
    case 'other':
      return value.raw === 'null' ? '' : value.raw;
    case 'list': {
      let said = '';
      for (const item of shownOf(value.items)) {
        if (said.length > 2 * SUMMARY_CHARACTERS) break;
        const more = saidIn(item);
        said += said === '' || more === '' ? more : ` ${more}`;
      }
      return said;
    }
    case 'object':
      return saidByPart(value.members);
  }
}

const PARTS = [
  'text',
  'content',
  'parts',
  'message',
  'output_text',
  'thinking',
  'reasoning',
  'summary',
  'value',
  'delta',
];

function saidByPart(members: Members): string {
  const type = textIn(members, ['type']);
  if (/(?:tool|function)[-_]?(?:use|call)$/.test(type)) return called(members) || type;
  return firstOf([
    () => saidUnder(members, PARTS),
    () => callsIn(members),
    () => saidUnder(members, ['output', 'choices', 'candidates', 'result', 'functionResponse', 'response']),
    () => (type === '' || type === 'text' || type === 'message' ? '' : `[${type}]`),
    () => (members.has('inlineData') || members.has('inline_data') ? '[data]' : ''),
    () => argumentsIn({ kind: 'object', members, raw: '' }, UNSAID),
  ]);
}

/** JSON that stands in a string; the string itself where there is none. */
function innerOf(text: string): PartialValue {
  const whole: PartialValue = { kind: 'text', text, raw: '' };
  if (!OPENS.test(text)) return whole;
  const inner = readPartial(text);
  return membersOf(inner)?.size || itemsIn(inner).some((item) => item.kind === 'object') ? inner : whole;
}

const OPENS = /^\s*(?:\{\s*"|\[\s*\{)/;

function saidUnder(members: Members, names: readonly string[]): string {
  return firstOf(names.map((name) => () => saidIn(members.get(name))));
}

function membersOf(value: PartialValue | undefined): Members | undefined {
  return value?.kind === 'object' ? value.members : undefined;
}

function itemsIn(value: PartialValue | undefined): readonly PartialValue[] {
  return value?.kind === 'list' ? value.items : [];
}

/** The items of a list, or of one that stands in a string. */
function listIn(value: PartialValue | undefined): readonly PartialValue[] {
  return itemsIn(value?.kind === 'text' ? innerOf(value.text) : value);
}

/** The parts that are shown. The thoughts of a model are shown where it said nothing else. */
function shownOf(parts: readonly PartialValue[]): readonly PartialValue[] {
  const said = parts.filter((part) => !/^(?:redacted_)?(?:thinking|reasoning)/.test(textUnder(part, ['type'])));
  return said.length === 0 ? parts : said;
}

/** The first of them that is text. */
function textIn(members: Members, names: readonly string[]): string {
  for (const name of names) {
    const value = members.get(name);
    if (value?.kind === 'text' && value.text.trim() !== '') return value.text;
  }
  return '';
}

function textUnder(value: PartialValue | undefined, names: readonly string[]): string {
  return textIn(membersOf(value) ?? NOTHING, names);
}

// -- one line

/** Nothing is seen of them but that what stands around them is moved, or not to be seen. */
const TURNS_OR_HIDES = /[\p{Bidi_Control}\p{Cc}\p{Cs}\p{Co}\p{Cn}\u{e0000}-\u{e007f}\u200b\u2060\ufeff]/gu;
const BLANKS = /[\s\p{Z}\u0085]+/gu;
/**
 * A code point that continues the character before it and must not be parted from it: marks, joiners, variation
 * selectors, tones of skin.
 */
const GOES_ON = /^(?:\p{M}|\p{Emoji_Modifier}|\u200c|\u200d)/u;
/** A character of a language has fewer marks. */
const MARKS_MAX = 16;

function oneLine(text: string): string {
  // More than is shown, since some of it goes; so that a long text is not gone through.
  const begun = firstCharacters(text, 4 * SUMMARY_CHARACTERS);
  const plain = withoutControls(begun.toWellFormed()).replace(BLANKS, ' ').trim().replace(TURNS_OR_HIDES, nameOf);
  return shortened(plain, SUMMARY_CHARACTERS);
}

function nameOf(character: string): string {
  return `[U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}]`;
}

/** At most so many code points, the last of which is `…` where there are more; no character is parted. */
function shortened(text: string, max: number): string {
  if (text.length <= max) return text;
  const points = [...firstCharacters(text, max + 1)];
  if (points.length <= max) return text;
  let end = max - 1;
  for (let marks = 0; marks < MARKS_MAX && end > 1 && isParted(points, end); marks++) end--;
  return `${points.slice(0, end).join('').trimEnd()}…`;
}

function isParted(points: readonly string[], at: number): boolean {
  return GOES_ON.test(points[at]!) || points[at - 1] === '\u200d';
}

/** Code points. */
function firstCharacters(text: string, count: number): string {
  const begun = text.slice(0, count);
  if (!SURROGATE.test(begun)) return begun;
  return [...text.slice(0, 2 * count)].slice(0, count).join('');
}

const SURROGATE = /[\ud800-\udfff]/;
