// Hooks of Cursor, by command alone: JSON on standard input; status 2 is a no, and what stands on standard output is
// shown as its reason; with status 0 standard output is read as JSON. https://cursor.com/docs/hooks
// A hook that fails otherwise, or takes longer than its `timeout` (in seconds), lets the tool go on, unless it has
// `"failClosed": true`; then it must say a yes in words, so each event that asks is answered with one.
// A call meets `preToolUse` and the hook of its kind (`beforeShellExecution`, …): one of the two is enough.
// Not verified: that `permission: "allow"` leaves the person's own list of commands in force, and what follows a no to
// what has happened (`postToolUse`, `after…`), which the model is said as far as it is.
// `updated_input` is for `preToolUse`; the other hooks cannot be given back what is redacted.
import type { ObjectText } from '../common/object-text.ts';
import {
  argumentsOrTextAt,
  asObject,
  call,
  callAt,
  content,
  type EventForm,
  type HookTool,
  named,
  nothingToAsk,
  others,
  promptAt,
  result,
  resultAt,
  stringTextAt,
  withText,
} from './hook-form.ts';

const allowed = { permission: 'allow' };
const denied = (reason: string) => ({ permission: 'deny', user_message: reason, agent_message: reason });
const contextOf = (reason: string) => ({ additional_context: reason });
const spoken = (reason: string) => ({ status: 2, stdout: reason }) as const;

/** The members that describe the conversation, in each hook. */
const CONTEXT = new Set([
  ...['conversation_id', 'generation_id', 'session_id', 'hook_event_name', 'transcript_path', 'workspace_roots'],
  ...['model', 'model_id', 'model_params', 'composer_mode', 'cursor_version', 'user_email', 'duration'],
]);

/** The form of a hook that has arguments instead of holding them. `needed` must be a text. */
function before(tool: string, needed: string): EventForm {
  return {
    read: (hook) => {
      stringTextAt(hook, needed);
      return call(`"${tool}"`, others(hook, CONTEXT));
    },
    allowed,
    denied,
  };
}

function after(tool: string, needed: string, results: readonly string[] = []): EventForm {
  const known = new Set([...CONTEXT, ...results]);
  return {
    read: (hook) => {
      stringTextAt(hook, needed);
      return result(`"${tool}"`, hook, results, { tool_input: others(hook, known) });
    },
    isAfter: true,
  };
}

function ofTool(hook: ObjectText, results: readonly string[]) {
  return resultAt(hook, results, {
    ...{ call_id: hook.raw('tool_use_id'), tool_input: hook.raw('tool_input') },
    ...{ error: hook.raw('error_message'), failure_type: hook.raw('failure_type') },
  });
}

const EVENTS: Record<string, EventForm> = {
  preToolUse: {
    read: (hook) => callAt(hook, { call_id: hook.raw('tool_use_id') }),
    allowed,
    denied,
    redacted: { arguments: (text) => asObject(text) && withText(allowed, 'updated_input', text) },
  },
  beforeShellExecution: before('Shell', 'command'),
  beforeMCPExecution: {
    read: (hook) => {
      const server = { server_url: hook.raw('url'), server_command: hook.raw('command') };
      return callAt(hook, server, { argumentsOf: argumentsOrTextAt });
    },
    allowed,
    denied,
  },
  beforeReadFile: before('Read', 'file_path'),
  beforeTabFileRead: before('TabRead', 'file_path'),
  subagentStart: before('Task', 'task'),
  beforeSubmitPrompt: {
    read: (hook) => promptAt(hook, 'prompt', { attachments: hook.raw('attachments') }),
    allowed: { continue: true },
    denied: (reason) => ({ continue: false, user_message: reason }),
  },
  postToolUse: {
    read: (hook) => ofTool(hook, ['tool_output']),
    isAfter: true,
    denied: contextOf,
  },
  postToolUseFailure: { read: (hook) => ofTool(hook, []), isAfter: true },
  afterMCPExecution: { read: (hook) => ofTool(hook, ['result_json']), isAfter: true },
  afterShellExecution: after('Shell', 'command', ['output']),
  afterFileEdit: after('Write', 'file_path'),
  afterTabFileEdit: after('TabWrite', 'file_path'),
  afterAgentResponse: {
    read: (hook) => ({ type: 'completion', payload: content(hook, 'text', 'response') }),
    isAfter: true,
  },
  ...nothingToAsk('sessionStart', 'sessionEnd', 'stop', 'subagentStop', 'preCompact'),
  ...nothingToAsk('afterAgentThought', 'workspaceOpen'),
};

export const cursor: HookTool = {
  name: 'cursor',
  title: 'Cursor',
  event: 'hook_event_name',
  trace: ['conversation_id'],
  formOf: named('hook_event_name', EVENTS),
  denied,
  spoken,
};
