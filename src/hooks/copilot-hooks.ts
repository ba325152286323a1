// Hooks of GitHub Copilot: its CLI and its cloud agent, by command (JSON on standard input; status 2 is a no to
// `preToolUse` and `permissionRequest`, and any other failure but a time-out a no to `preToolUse`) and over HTTPS (a
// POST; only a 2xx with a decision in it is a no, anything else lets the tool go on).
// https://docs.github.com/en/copilot/reference/hooks-reference
// A hook has 30 s (`timeoutSec`); one that takes longer lets the tool go on, always. A no to a prompt is a warning.
// By names in camelCase an event is not named: its members say which it is. By names in PascalCase it is, with members
// as those of Claude Code; that answers to these are read in the same form is not verified, so a no has both.
// `modifiedArgs` stands beside `ask`: that it is heeded without a decision is not verified.
// Not verified, so not understood: what `permissionRequest` and `userPromptTransformed` hold.

import { jsonOf } from '../common/json-text.ts';
import { ObjectText, objectOfTexts } from '../common/object-text.ts';
import { TOOL_EVENTS } from './claude-code-hooks.ts';
import {
  argumentsOrTextAt,
  asObject,
  callAt,
  type EventForm,
  type HookTool,
  named,
  nothingToAsk,
  promptAt,
  REDACTED,
  resultAt,
  withText,
} from './hook-form.ts';

const refused = (reason: string) => ({ permissionDecision: 'deny', permissionDecisionReason: reason });
const denied = (reason: string) => ({
  ...refused(reason),
  hookSpecificOutput: { hookEventName: 'PreToolUse', ...refused(reason) },
});
const spoken = (reason: string) => ({ status: 2, stdout: jsonOf(refused(reason)) }) as const;
/** The reason in place of the result, which is the one way to keep it from the model. */
const withheld = (reason: string) => ({ modifiedResult: { resultType: 'success', textResultForLlm: reason } });

const asking = { permissionDecision: 'ask', permissionDecisionReason: REDACTED };
const before: EventForm = {
  denied,
  spoken,
  redacted: { arguments: (text) => asObject(text) && withText(asking, 'modifiedArgs', text) },
};
/** In both forms, as the no is. */
const redactedInBoth = (text: string) =>
  asObject(text) &&
  objectOfTexts({
    ...Object.fromEntries(Object.entries(asking).map(([key, value]) => [key, jsonOf(value)])),
    modifiedArgs: text,
    hookSpecificOutput: withText({ hookEventName: 'PreToolUse', ...asking }, 'updatedInput', text),
  });
const after: EventForm = {
  isAfter: true,
  denied: withheld,
  spoken: (reason) => ({ status: 0, stdout: jsonOf(withheld(reason)) }),
  redacted: {
    result: (text) =>
      ObjectText.of(text)?.string('textResultForLlm') === undefined ? undefined : withText({}, 'modifiedResult', text),
  },
};
const failed: EventForm = { isAfter: true };

const MEMBERS = ['toolName', 'toolArgs'] as const;
const asked = (hook: ObjectText) => callAt(hook, {}, { members: MEMBERS, argumentsOf: argumentsOrTextAt });
const answered = (hook: ObjectText) =>
  resultAt(hook, ['toolResult'], { tool_input: hook.raw('toolArgs'), error: hook.raw('error') }, MEMBERS);

const PASCAL_CASE = named('hook_event_name', {
  PreToolUse: { ...before, redacted: { arguments: redactedInBoth }, read: TOOL_EVENTS.PreToolUse(argumentsOrTextAt) },
  PostToolUse: { ...after, read: TOOL_EVENTS.PostToolUse },
  PostToolUseFailure: { ...failed, read: TOOL_EVENTS.PostToolUse },
  UserPromptSubmit: { read: TOOL_EVENTS.UserPromptSubmit },
  ...nothingToAsk('SessionStart', 'SessionEnd', 'Stop', 'SubagentStop', 'ErrorOccurred', 'PreCompact', 'Notification'),
});

/** The member that marks each event; the first that fits is meant. */
const ASKING: [event: string, has: string, form: EventForm][] = [
  ['postToolUse', 'toolResult', { ...after, read: answered }],
  ['postToolUseFailure', 'error', { ...failed, read: answered }],
  ['preToolUse', '', { ...before, read: asked }],
];
const PROMPT: EventForm = { read: (hook) => promptAt(hook, 'prompt') };
/** About which there is nothing to ask: all that each may say, the first of which it says. */
const NOTHING: [event: string, members: readonly string[]][] = [
  ['errorOccurred', ['errorContext', 'error', 'recoverable']],
  ['agentStop', ['stopReason', 'transcriptPath', 'stop_hook_active']],
  [
    'subagentStop',
    ['agentId', 'transcriptPath', 'agentType', 'agentName', 'agentDisplayName', 'response', 'stopReason'],
  ],
  ['subagentStart', ['agentName', 'transcriptPath', 'agentDisplayName', 'agentDescription']],
  ['preCompact', ['trigger', 'transcriptPath', 'customInstructions']],
  ['sessionStart', ['source', 'initialPrompt']],
  ['sessionEnd', ['reason']],
];
const CONTEXT = ['sessionId', 'timestamp', 'cwd'];

function inCamelCase(hook: ObjectText): { event: string; form: EventForm | undefined } {
  if (hook.has('toolName') || hook.has('toolArgs')) {
    const [event, , form] = ASKING.find(([, has]) => has === '' || hook.has(has))!;
    return { event, form };
  }
  const { keys } = hook;
  const fits = (members: readonly string[]) => keys.every((key) => members.includes(key) || CONTEXT.includes(key));
  if (hook.has('prompt') && fits(['prompt'])) return { event: 'userPromptSubmitted', form: PROMPT };
  const [event] = NOTHING.find(([, members]) => hook.has(members[0]!) && fits(members)) ?? [];
  return event === undefined ? { event: '', form: undefined } : { event, form: {} };
}

export const copilot: HookTool = {
  name: 'copilot',
  title: 'GitHub Copilot',
  trace: ['sessionId', 'session_id'],
  waitSeconds: 25,
  formOf: (hook) => (hook.has('hook_event_name') ? PASCAL_CASE(hook) : inCamelCase(hook)),
  denied,
  spoken,
};
