// Finds what a span holds of content: what a model was sent and answered, a tool's arguments and result (for the
// dialects). First under the names that are known, then in events of the span, then under any name that says what it is
// by its last word: `gcp.vertex.agent.llm_request`, `mlflow.spanInputs`, `tool_response`.
// Invariant: the first place that says something is taken; nothing is found only where nothing came.
import { remember } from '../../common/maps.ts';
import {
  type Attributes,
  type AttributeValue,
  anyJson,
  isObject,
  jsonOf,
  parsed,
  type SpanEvent,
  type TraceSpan,
} from '../span.ts';
import { isMessage, messageOf, type SpokenContent, saidIn, saysSomething } from './messages.ts';
import { isEmpty, type JsonValues, listUnder, member, textMember } from './values.ts';

type Names = readonly string[];

type Side = {
  role: string;
  /** Attributes of the span, or of an event of it. */
  names: Names;
  /** Prefixes of lists that are written flat. */
  flat: Names;
  /** Where none of these is there. */
  more: Names;
  word: 'sent' | 'given';
};

const SENT: Side = {
  role: 'user',
  names: ['gen_ai.input.messages'],
  flat: ['gen_ai.input.messages.', 'gen_ai.prompt.', 'llm.input_messages.', 'llm.prompts.'],
  more: ['gen_ai.prompt', 'ai.prompt.messages', 'ai.prompt', 'input.value'],
  word: 'sent',
};
const GIVEN: Side = {
  role: 'assistant',
  names: ['gen_ai.output.messages'],
  flat: ['gen_ai.output.messages.', 'gen_ai.completion.', 'llm.output_messages.', 'llm.choices.', 'llm.completions.'],
  more: ['gen_ai.completion', 'output.value'],
  word: 'given',
};

/** The content that a model was sent. `first`: names of the dialect. undefined: nothing came. */
export function sentIn(span: TraceSpan, first: Names = []): SpokenContent | undefined {
  return sideOf(span, SENT, first, sentInEvents);
}

/** The content that a model answered. */
export function givenIn(span: TraceSpan, first: Names = []): SpokenContent | undefined {
  return sideOf(span, GIVEN, first, choicesIn);
}

type InEvents = (events: readonly SpanEvent[]) => AttributeValue[];

function sideOf(span: TraceSpan, side: Side, first: Names, inEvents: InEvents): SpokenContent | undefined {
  const { attributes } = span;
  const { role, names, flat, more, word } = side;
  const under = (wanted: Names, of: Attributes) => firstSaid(wanted.map((name) => () => saidIn(of.get(name), role)));
  const events = eventsOf(span);
  return firstSaid([
    () => under([...first, ...names], attributes),
    () => joined(events.map((event) => under([...names, ...more], event.attributes))),
    () =>
      firstSaid(
        (isNumbered(attributes) ? flat : []).map((prefix) => () => saidIn(listUnder(attributes, prefix), role)),
      ),
    () => ({ messages: inEvents(events) }),
    () => under(more, attributes),
    () => firstSaid(likely(attributes, word).map((value) => () => saidIn(value, role))),
  ]);
}

/** The content of several events, one after the other. */
function joined(of: readonly (SpokenContent | undefined)[]): SpokenContent | undefined {
  const all = of.filter((said) => said !== undefined);
  if (all.length < 2) return all[0];
  const messages = all.flatMap((said) => (said.asCame === undefined ? said.messages : [said.asCame]));
  const details = Object.fromEntries(all.flatMap((said, i) => (said.details ? [[i, said.details]] : [])));
  const system = all.find((said) => said.system !== undefined)?.system;
  return { messages, system, ...(isEmpty(details) ? {} : { details }) };
}

/** Is a list among them that is written flat? */
function isNumbered(attributes: Attributes): boolean {
  for (const name of attributes.keys()) if (NUMBERED.test(name)) return true;
  return false;
}

const NUMBERED = /\.\d/;

function firstSaid(places: readonly (() => SpokenContent | undefined)[]): SpokenContent | undefined {
  for (const place of places) {
    const said = place();
    if (said !== undefined && (saysSomething(said) || said.system !== undefined)) return said;
  }
  return undefined;
}

/** With those that pydantic-ai writes into an attribute. */
function eventsOf({ attributes, events, startMs }: TraceSpan): readonly SpanEvent[] {
  const written = jsonOf(attributes, 'events');
  if (!Array.isArray(written)) return events;
  const more = written.filter(isObject).map((event) => ({
    ...{ name: textMember(event, 'event.name') ?? '', timeMs: startMs, attributes: new Map(Object.entries(event)) },
  }));
  return [...events, ...more];
}

/** Events that stood for messages before messages were attributes. */
const MESSAGE_EVENT = /^gen_ai\.([a-z]+)\.message$/;

export function isMessageEvent(name: string): boolean {
  return MESSAGE_EVENT.test(name);
}

function sentInEvents(events: readonly SpanEvent[]): AttributeValue[] {
  return events.flatMap((event) => {
    const role = MESSAGE_EVENT.exec(event.name)?.[1];
    return role === undefined ? [] : messagesOfEvent(event, role);
  });
}

function choicesIn(events: readonly SpanEvent[]): AttributeValue[] {
  return events.filter(({ name }) => name === 'gen_ai.choice').flatMap((event) => messagesOfEvent(event, 'assistant'));
}

/** The names that are about the event or its library, and about no message. */
const ABOUT_EVENT = /^(gen_ai|event|logfire|otel)\./;

function messagesOfEvent({ attributes }: SpanEvent, role: string): readonly AttributeValue[] {
  const content = attributes.get('gen_ai.event.content') ?? attributes.get('event.content');
  if (content !== undefined && !isEmpty(content)) {
    const said = saidIn(content, role);
    return said === undefined ? [] : said.asCame === undefined ? said.messages : [{ role, body: said.asCame }];
  }
  const written = [...attributes].filter(([name, value]) => !ABOUT_EVENT.test(name) && !isEmpty(value));
  if (written.length === 0) return [];
  const object = Object.fromEntries(written.map(([name, value]) => [name, name === 'content' ? value : parsed(value)]));
  const inner = isObject(object['content']) ? saidIn(object['content'], role)?.messages : undefined;
  // Google's content is a message of its own.
  if (inner?.length === 1 && isMessage(inner[0]!)) return [{ ...without(object, 'content'), ...inner[0] }];
  const { message } = object;
  const opened = typeof message === 'string' ? { ...without(object, 'message'), content: message } : object;
  return [messageOf(opened, role) ?? { role, ...opened }];
}

function without(object: JsonValues, name: string): JsonValues {
  return Object.fromEntries(Object.entries(object).filter(([one]) => one !== name));
}

const ARGUMENTS: Names = [
  ...['gen_ai.tool.call.arguments', 'gen_ai.tool.arguments', 'tool_call.function.arguments', 'tool_arguments'],
  ...['gcp.vertex.agent.tool_call_args', 'ai.toolCall.args', 'ai.toolCall.input', 'input.value'],
];
const RESULTS: Names = [
  ...['gen_ai.tool.call.result', 'gen_ai.tool.result', 'tool_response', 'gcp.vertex.agent.tool_response'],
  ...['ai.toolCall.result', 'ai.toolCall.output', 'output.value'],
];

/** The arguments of a tool's call; JSON text as the value that it stands for. undefined: nothing came. */
export function argumentsIn(span: TraceSpan, first: Names = []): AttributeValue | undefined {
  const { attributes } = span;
  const known = valueUnder(attributes, [...first, ...ARGUMENTS]) ?? likely(attributes, 'sent', 'arguments')[0];
  if (known !== undefined) return anyJson(known);
  const said = inToolEvents(span, 'gen_ai.tool.message', 'gen_ai.input.messages');
  const call = said?.messages.flatMap((one) => member(one, 'tool_calls') ?? []).find(isObject);
  return call === undefined ? contentIn(said) : call['arguments'];
}

/** The result of a tool's call. */
export function resultIn(span: TraceSpan, first: Names = []): AttributeValue | undefined {
  const { attributes } = span;
  const known = valueUnder(attributes, [...first, ...RESULTS]) ?? likely(attributes, 'given')[0];
  return known === undefined
    ? contentIn(inToolEvents(span, 'gen_ai.choice', 'gen_ai.output.messages'))
    : anyJson(known);
}

/** Nothing but a text of blanks is no value; an empty object is one: the tool was called with nothing. */
function valueUnder(attributes: Attributes, names: Names): AttributeValue | undefined {
  return names.map((name) => attributes.get(name)).find((value) => value !== undefined && value !== '');
}

/** Some write a tool's call as messages in events of its span. */
function inToolEvents({ events }: TraceSpan, name: string, attribute: string): SpokenContent | undefined {
  return firstSaid([
    () => ({ messages: events.filter((one) => one.name === name).flatMap((one) => messagesOfEvent(one, 'tool')) }),
    () =>
      firstSaid(
        events.map(
          ({ attributes }) =>
            () =>
              saidIn(attributes.get(attribute), 'tool'),
        ),
      ),
  ]);
}

/** The input of a step that is neither a model's nor a tool's, as it came. */
export function inputOf(span: TraceSpan, first: Names = []): AttributeValue | undefined {
  return asItCame(span, [...first, ...SENT.names, 'input.value'], SENT, sentInEvents);
}

export function outputOf(span: TraceSpan, first: Names = []): AttributeValue | undefined {
  const documents = ['retrieval.documents.', 'reranker.output_documents.'];
  return asItCame(span, [...first, ...GIVEN.names, 'output.value'], { ...GIVEN, flat: documents }, choicesIn);
}

function asItCame(span: TraceSpan, names: Names, side: Side, inEvents: InEvents): AttributeValue | undefined {
  const { attributes } = span;
  const known = valueUnder(attributes, names) ?? likely(attributes, side.word)[0];
  if (known !== undefined) return parsed(known);
  const flat = isNumbered(attributes) ? side.flat.map((prefix) => listUnder(attributes, prefix)) : [];
  const messages = inEvents(eventsOf(span));
  return flat.find((list) => list !== undefined) ?? (messages.length === 0 ? undefined : messages);
}

function contentIn(said: SpokenContent | undefined): AttributeValue | undefined {
  const [message] = said?.messages ?? [];
  if (message === undefined) return said?.asCame;
  if (!isMessage(message)) return message;
  const content = message['content'];
  const response = Array.isArray(content) && content.length === 1 ? member(content[0], 'response') : undefined;
  return response ?? (content === undefined ? message : anyJson(content));
}

type Word = 'sent' | 'given' | 'arguments';

/** The direction that a word in the name of an attribute says: to a model or a tool, from one, or to a tool. */
const WORDS = new Map<string, Word>([
  ...['prompt', 'prompts', 'input', 'inputs', 'request', 'question', 'query', 'messages'].map(saying('sent')),
  ...[
    'completion',
    'completions',
    'output',
    'outputs',
    'response',
    'answer',
    'reply',
    'result',
    'results',
    'return',
  ].map(saying('given')),
  ...['arguments', 'argument', 'args', 'parameters', 'params', 'kwargs'].map(saying('arguments')),
]);

function saying(word: Word): (name: string) => [string, Word] {
  return (name) => [name, word];
}

/** Behind the word that says what it is. */
const FORMS = new Set(['value', 'json', 'text', 'data', 'raw', 'str', 'string', 'content', 'body', 'messages', 'dump']);
/** Conventions for other things than models. */
const ABOUT_ELSE = /^(http|url|db|net|network|server|client|rpc|code|exception|error|thread|process|messaging)\./;

/** The values of attributes whose name says that they are content, in the order in which they came. */
function likely(attributes: Attributes, ...words: readonly Word[]): AttributeValue[] {
  const found: AttributeValue[] = [];
  for (const [name, value] of attributes) {
    if (typeof value !== 'string' && typeof value !== 'object') continue;
    const word = wordOf(name);
    if (word !== undefined && words.includes(word) && !isEmpty(parsed(value))) found.push(value);
  }
  return found;
}

/** The names that were seen: senders have few, and write them into every span. */
const SEEN = new Map<string, Word | undefined>();
const SEEN_MAX = 2_000;
const SEEN_CHARACTERS_MAX = 100;

function wordOf(name: string): Word | undefined {
  if (SEEN.has(name)) return SEEN.get(name);
  const word = ABOUT_ELSE.test(name) ? undefined : wordIn(name);
  if (name.length > SEEN_CHARACTERS_MAX) return word;
  return remember(SEEN, name, word, SEEN_MAX);
}

/** By the last word but those of forms: `output` of `gen_ai.output.messages`. */
function wordIn(name: string): Word | undefined {
  const steps = name
    .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split(/[._-]/);
  let last = steps.length - 1;
  while (last > 0 && FORMS.has(steps[last]!) && (FORMS.has(steps[last - 1]!) || WORDS.has(steps[last - 1]!))) last--;
  return WORDS.get(steps[last]!);
}
