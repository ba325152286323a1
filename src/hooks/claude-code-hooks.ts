// Hooks of Claude Code, by command (standard input; status 2 is a no, its reason on standard error) and over HTTP
// (a POST; JSON is read of a 2xx alone). https://code.claude.com/docs/en/hooks
// A hook that fails otherwise (another status, a 4xx or 5xx, no answer in time) lets the tool go on, unless the hook
// has `"onFailure": "block"`, which is heeded since 2.1.295 (2026-10-08, by the public changelog). A hook has 600 s, of
// a prompt 30 s; `timeout` sets it, in seconds.
// `updatedInput` stands beside `ask`: that the tool's own rules decide about what was changed is not verified without.
// Not verified, so not understood: what UserPromptExpansion, PostToolBatch, ConfigChange, Elicitation,
// ElicitationResult and WorktreeCreate hold. Copilot's hooks by these names have `tool_result`.
import type { ObjectText } from '../common/object-text.ts';
import {
  argumentsAt,
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

const blocked = (reason: string) => ({ decision: 'block', reason });

/** `argumentsOf`: how they may be given. */
const asking = (argumentsOf: typeof argumentsAt) => (hook: ObjectText) =>
  callAt(hook, { call_id: hook.raw('tool_use_id') }, { argumentsOf });
const answered = (hook: ObjectText) => {
  const more = { call_id: hook.raw('tool_use_id'), tool_input: hook.raw('tool_input'), error: hook.raw('error') };
  return resultAt(hook, ['tool_response', 'tool_result'], more);
};

/** By PascalCase, which is how Copilot names them as well. */
export const TOOL_EVENTS = {
  PreToolUse: asking,
  PostToolUse: answered,
  UserPromptSubmit: (hook: ObjectText) => promptAt(hook, 'prompt'),
};

const EVENTS: Record<string, EventForm> = {
  PreToolUse: {
    read: asking(argumentsAt),
    denied: (reason) => ({
      hookSpecificOutput: {
        hookEventName: 'PreToolUse',
        permissionDecision: 'deny',
        permissionDecisionReason: reason,
      },
    }),
    redacted: {
      arguments: (text) =>
        asObject(text) &&
        withText(
          {},
          'hookSpecificOutput',
          withText(
            { hookEventName: 'PreToolUse', permissionDecision: 'ask', permissionDecisionReason: REDACTED },
            'updatedInput',
            text,
          ),
        ),
    },
  },
  PermissionRequest: {
    read: asking(argumentsAt),
    denied: (message) => ({
      hookSpecificOutput: { hookEventName: 'PermissionRequest', decision: { behavior: 'deny', message } },
    }),
  },
  PostToolUse: {
    read: TOOL_EVENTS.PostToolUse,
    isAfter: true,
    denied: blocked,
    redacted: {
      result: (text) => {
        const output = withText({ hookEventName: 'PostToolUse' }, 'updatedToolOutput', text);
        return withText(blocked(REDACTED), 'hookSpecificOutput', output);
      },
    },
  },
  PostToolUseFailure: { read: TOOL_EVENTS.PostToolUse, isAfter: true, denied: blocked },
  UserPromptSubmit: { read: TOOL_EVENTS.UserPromptSubmit, denied: blocked },
  ...nothingToAsk('SessionStart', 'SessionEnd', 'Setup', 'InstructionsLoaded', 'Notification', 'MessageDisplay'),
  ...nothingToAsk('Stop', 'StopFailure', 'SubagentStart', 'SubagentStop', 'PreCompact', 'PostCompact'),
  ...nothingToAsk('PermissionDenied', 'TeammateIdle', 'TaskCreated', 'TaskCompleted'),
  ...nothingToAsk('CwdChanged', 'FileChanged', 'WorktreeRemove'),
};

export const claudeCode: HookTool = {
  name: 'claude-code',
  title: 'Claude Code',
  event: 'hook_event_name',
  trace: ['session_id'],
  formOf: named('hook_event_name', EVENTS),
  denied: blocked,
};
