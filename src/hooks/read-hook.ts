// From a hook to the event that is judged, and from what was decided to the answer: by command, which prints and ends
// with a status, or over HTTP (between src/http/handlers/decision-points/hook-routes.ts and the files of the tools).
// Invariant: what is redacted is given back or is a no; what is not understood is a no in the tool's own words.
import type { EventType } from '../../schemas/closed-sets.ts';
import { jsonOf } from '../common/json-text.ts';
import { ObjectText, objectOfTexts } from '../common/object-text.ts';
import { type EventForm, type HookTool, NotUnderstood } from './hook-form.ts';

export type HookRead = {
  hook: ObjectText;
  form: EventForm;
  /** Text of the payload; undefined: there is nothing to ask about. */
  judged?: { type: EventType; payload: ObjectText };
};
/** `answer`: over HTTP, as text. The rest is what a command does. */
export type HookReply = { answer: string; status: 0 | 2; stdout: string; stderr: string };

/**
 * `bytes`: of the hook as it came, of which what is large was left out (large-members.ts) where it is larger than
 * `bytesMax`, what an event may have. Throws NotUnderstood.
 */
export function readHook(
  tool: HookTool,
  hook: ObjectText,
  bytesMax: number,
  bytes = Buffer.byteLength(hook.text),
): HookRead {
  const { event, form } = tool.formOf(hook);
  if (form === undefined) throw new NotUnderstood(`${tool.title} has no hook ${jsonOf(event)} that is known here`);
  if (form.read === undefined) return { hook, form };
  if (bytes > bytesMax && form.isAfter !== true) throw tooLarge(bytesMax);
  const { type, payload } = form.read(hook);
  const text = objectOfTexts(payload);
  if (Buffer.byteLength(text) > bytesMax) throw tooLarge(bytesMax);
  return { hook, form, judged: { type, payload: ObjectText.of(text)! } };
}

function tooLarge(bytesMax: number): NotUnderstood {
  return new NotUnderstood(`it is larger than ${bytesMax} bytes, which is the most that an event may have`);
}

export function allowed({ allowed: answer = {} }: EventForm): HookReply {
  const text = jsonOf(answer);
  return { answer: text, status: 0, stdout: text === '{}' ? '' : text, stderr: '' };
}

/** `form` undefined: the event is not known. */
export function denied(tool: HookTool, form: EventForm | undefined, reason: string): HookReply {
  const answer = jsonOf((form?.denied ?? tool.denied)(reason));
  const spoken = form?.spoken ?? tool.spoken;
  return { answer, stderr: reason, ...(spoken === undefined ? { status: 2, stdout: '' } : spoken(reason)) };
}

/** The no to a hook that is not understood: `reason` is what NotUnderstood says. */
export function refused(tool: HookTool, hook: ObjectText, reason: string): HookReply {
  const { form } = tool.formOf(hook);
  return denied(tool, form, `This hook is not understood, so this is denied: ${reason}.`);
}

/** The answer to an allowed hook with a redacted payload. `by`: the policies that redact, for people. */
export function redacted(tool: HookTool, { hook, form, judged }: HookRead, left: ObjectText, by: string): HookReply {
  const sent = judged!.payload;
  const changed = sent.keys.filter((key) => sent.raw(key) !== left.raw(key) && !(form.isAfter && key === 'tool_input'));
  if (changed.length === 0) return allowed(form);
  const [key, more] = changed;
  const answer = more === undefined ? form.redacted?.[key!]?.(left.raw(key!) ?? '', hook) : undefined;
  if (answer !== undefined) return { answer, status: 0, stdout: answer, stderr: '' };
  return denied(tool, form, `${by} redacts part of this, and ${tool.title} takes nothing in its place.`);
}
