// What a hook of a tool is: the call of a program or an address before or after the tool does something, in the tool's
// own words. One file for each tool has its events, as a closed list; here is what they share (src/http/handlers/
// decision-points/hook-routes.ts asks, `gatehouse hook` prints).
// Invariant: an event is judged, or it stands in the list of those about which there is nothing to ask; anything else
// is NotUnderstood, which is a no. What is asked about is in the text that came, and a call without its arguments, or
// with something like them in another place, is not understood.
import type { EventType } from '../../schemas/closed-sets.ts';
import { entryOf } from '../common/entry.ts';
import { jsonOf, withoutRepeatedKeys } from '../common/json-text.ts';
import { ObjectText, objectOfPairs, objectOfTexts, type Texts } from '../common/object-text.ts';
import { LEFT_OUT } from './large-members.ts';

/** The event that is judged: `payload` holds texts of JSON. */
type HookEvent = { type: EventType; payload: Texts };

export type EventForm = {
  /** Left out: there is nothing to ask about. Throws NotUnderstood. */
  read?: (hook: ObjectText) => HookEvent;
  /** It is about what has happened: recorded without what is too large, and its input is given back to no one. */
  isAfter?: true;
  /** The tool's own yes; left out: `{}`, which leaves its own rules in force. */
  allowed?: object;
  /** The tool's own no. Left out: it has none, and the status of a command is all there is. */
  denied?: (reason: string) => object;
  /**
   * By members of the payload: the answer, as text, that gives one back with what a policy redacts; undefined: this
   * cannot be given back. A member that is not here cannot.
   */
  redacted?: Readonly<Record<string, (text: string, hook: ObjectText) => string | undefined>>;
  /** How a command says no, where that is not by status 2 with nothing on standard output. */
  spoken?: (reason: string) => { status: 0 | 2; stdout: string };
};

export type HookTool = {
  /** The tool's name in its path, and in `--tool`. An agent that names itself with nothing else is registered by it. */
  name: string;
  /** For people. */
  title: string;
  /** The member that every hook of the tool names its event in; left out: there is none. */
  event?: string;
  /** The members that say which conversation it is, the first that is there; it becomes the trace. */
  trace: readonly string[];
  /** The member that holds what a hook is about, where that is not the hook itself. */
  inner?: string;
  /** The form of the event that the hook names; undefined: it is none of the tool's. */
  formOf(hook: ObjectText): { event: string; form: EventForm | undefined };
  /** Over HTTP a person is waited for no longer, unless it is asked for: below the time of a hook. Left out: 45 s. */
  waitSeconds?: number;
  /** The no to what is not understood at all. */
  denied(reason: string): object;
  spoken?: EventForm['spoken'];
};

export class NotUnderstood extends Error {
  override name = 'NotUnderstood';
}

/** Names under which other tools, or a later version, may give the arguments of a call or its tool. */
const LIKE_ARGUMENTS = /^(tool[_-]?)?(input|args?|arguments?|param(eter)?s?|kwargs|info)$/i;
const LIKE_TOOL = /^tool([_-]?name)?$/i;

/** Refuses what stands beside the members that are read and may be meant for one of them. */
export function refuseLikes(hook: ObjectText, read: readonly string[]): void {
  const other = hook.keys.find((key) => !read.includes(key) && (LIKE_ARGUMENTS.test(key) || LIKE_TOOL.test(key)));
  if (other !== undefined) throw new NotUnderstood(`${other} is not read here; what is read is ${read.join(', ')}`);
}

/** The text of a name. */
export function nameAt(hook: ObjectText, key: string): string {
  const name = hook.string(key);
  if (name === undefined || name.trim() === '') throw new NotUnderstood(`${key} must say which tool`);
  return hook.raw(key)!;
}

export function stringTextAt(hook: ObjectText, key: string): string {
  if (hook.string(key) === undefined) throw new NotUnderstood(`${key} must be a text`);
  return hook.raw(key)!;
}

/** An object. A tool that takes nothing is called with `{}`: where it is left out, it stands where nothing reads it. */
export function argumentsAt(hook: ObjectText, key: string): string {
  const given = hook.raw(key);
  if (given === undefined) throw new NotUnderstood(`${key} must hold the arguments, {} where there are none`);
  if (!given.startsWith('{')) throw new NotUnderstood(`${key} must be an object`);
  return given;
}

/** An object, or the text of one, which is left as it is: policies look into it. */
export function argumentsOrTextAt(hook: ObjectText, key: string): string {
  const text = hook.string(key);
  if (text === undefined) return argumentsAt(hook, key);
  if (!isOneObject(text))
    throw new NotUnderstood(`${key} must be an object, or JSON of one in which no key stands twice`);
  return hook.raw(key)!;
}

function isOneObject(text: string): boolean {
  try {
    return withoutRepeatedKeys(text) === text && text.trimStart().startsWith('{');
  } catch {
    return false;
  }
}

/** The object at a member. */
export function objectAt(hook: ObjectText, key: string): ObjectText {
  const held = hook.object(key);
  if (held === undefined) throw new NotUnderstood(`${key} must be an object`);
  return held;
}

/** The members that say which tool and hold its arguments. */
const NAME_AND_INPUT = ['tool_name', 'tool_input'] as const;

/** The call that these two members say. */
export function callAt(
  hook: ObjectText,
  more: Texts = {},
  { members = NAME_AND_INPUT, argumentsOf = argumentsAt }: Partial<CallMembers> = {},
): HookEvent {
  refuseLikes(hook, members);
  const [tool, input] = members;
  return call(nameAt(hook, tool), argumentsOf(hook, input), more);
}

/** The result of a call, from the first of `from` that is there. */
export function resultAt(
  hook: ObjectText,
  from: readonly string[],
  more: Texts,
  members: CallMembers['members'] = NAME_AND_INPUT,
): HookEvent {
  refuseLikes(hook, members);
  return result(nameAt(hook, members[0]), hook, from, more);
}

type CallMembers = { members: readonly [tool: string, input: string]; argumentsOf: typeof argumentsAt };

/** The event for what a person said. */
export function promptAt(hook: ObjectText, key: string, more: Texts = {}): HookEvent {
  return { type: 'prompt', payload: { prompt: stringTextAt(hook, key), ...more } };
}

/** The call of a tool. */
export function call(tool: string, args: string, more: Texts = {}): HookEvent {
  return { type: 'tool_call', payload: { tool, arguments: args, ...more } };
}

/** The event of a call's result; `tool_name` and not `tool`, so that policies about calls do not mean their results. */
export function result(tool: string, hook: ObjectText, from: readonly string[], more: Texts): HookEvent {
  const key = from.find((one) => hook.has(one));
  const members = key === undefined ? {} : content(hook, key, 'result');
  return { type: 'custom', payload: { kind: '"tool_result"', tool_name: tool, ...more, ...members } };
}

/** A large member, by the name that policies know it by; its size where `withoutLargeMembers` left it out. */
export function content(hook: ObjectText, key: string, name: string): Texts {
  const given = hook.raw(key);
  if (given === undefined) throw new NotUnderstood(`${key} must be there`);
  const [all, bytes] = [...given.matchAll(LEFT_OUT)][0] ?? [];
  return all === given ? { content_captured: 'false', [`${name}_bytes`]: bytes } : { [name]: given };
}

/** The reason that a person reads who is asked about redacted text. */
export const REDACTED = 'A policy redacts part of it. This is what is left.';

/** All members but some, as arguments: nothing that a hook says of a call is dropped. */
export function others(hook: ObjectText, context: ReadonlySet<string>, names: Readonly<Record<string, string>> = {}) {
  const keys = hook.keys.filter((key) => !context.has(key));
  const twice = keys.find((key) => names[key] !== undefined && keys.includes(names[key]));
  if (twice !== undefined) throw new NotUnderstood(`${twice} and ${names[twice]} would have one name`);
  return objectOfPairs(keys.map((key) => [names[key] ?? key, hook.raw(key)!]));
}

/** An object whose last member is a text of JSON. */
export function withText(object: Readonly<Record<string, unknown>>, member: string, text: string): string {
  return objectOfTexts({
    ...Object.fromEntries(Object.entries(object).map(([key, value]) => [key, jsonOf(value)])),
    [member]: text,
  });
}

/** Forms by the name of their event, in the member that holds it. Names are as the tool writes them. */
export function named(key: string, forms: Readonly<Record<string, EventForm>>) {
  return (hook: ObjectText): { event: string; form: EventForm | undefined } => {
    const event = hook.string(key) ?? '';
    return { event, form: entryOf(forms, event) };
  };
}

/** `{}` for each event about which there is nothing to ask. */
export function nothingToAsk(...events: readonly string[]): Record<string, EventForm> {
  return Object.fromEntries(events.map((event) => [event, {}]));
}

/** Arguments that policies redacted, as an object; undefined: they are none. */
export function asObject(text: string): string | undefined {
  return ObjectText.of(text)?.text;
}
