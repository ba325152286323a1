// Hooks of Gemini CLI, by command alone: JSON on standard input; status 2 is a no, with its reason on standard error,
// and any other status but 0 a warning: the tool goes on. https://geminicli.com/docs/hooks/reference
// A hook has 60 s; `timeout` sets it, in milliseconds. One that takes longer is ended, and the tool goes on.
// `hookSpecificOutput.tool_input` is laid over the arguments, so one whose keys a policy redacts cannot be given back.
// AfterModel is sent for each part of an answer. BeforeToolSelection knows no decision.
import { jsonOf } from '../common/json-text.ts';
import { ObjectText } from '../common/object-text.ts';
import {
  callAt,
  content,
  type EventForm,
  type HookTool,
  NotUnderstood,
  named,
  nothingToAsk,
  objectAt,
  promptAt,
  resultAt,
  withText,
} from './hook-form.ts';

const denied = (reason: string) => ({ decision: 'deny', reason });

const EVENTS: Record<string, EventForm> = {
  BeforeTool: {
    read: (hook) => callAt(hook, { mcp_context: hook.raw('mcp_context') }),
    denied,
    redacted: {
      arguments: (text, hook) => {
        const keys = jsonOf(ObjectText.of(text)?.keys);
        if (keys !== jsonOf(hook.object('tool_input')?.keys)) return undefined;
        return withText({}, 'hookSpecificOutput', withText({ hookEventName: 'BeforeTool' }, 'tool_input', text));
      },
    },
  },
  AfterTool: {
    read: (hook) => {
      const more = { tool_input: hook.raw('tool_input'), mcp_context: hook.raw('mcp_context') };
      return resultAt(hook, ['tool_response'], more);
    },
    isAfter: true,
    denied,
  },
  BeforeAgent: { read: (hook) => promptAt(hook, 'prompt'), denied },
  AfterAgent: {
    read: (hook) => ({ type: 'completion', payload: content(hook, 'prompt_response', 'response') }),
    isAfter: true,
    denied,
  },
  BeforeModel: {
    read: (hook) => {
      const { model, messages, ...more } = textsOf(objectAt(hook, 'llm_request'));
      if (messages === undefined) throw new NotUnderstood('llm_request.messages must be there');
      return { type: 'prompt', payload: { model, messages, ...more } };
    },
    denied,
  },
  AfterModel: {
    read: (hook) => ({
      type: 'completion',
      payload: { model: hook.object('llm_request')?.raw('model'), ...content(hook, 'llm_response', 'response') },
    }),
    isAfter: true,
    denied,
  },
  ...nothingToAsk('SessionStart', 'SessionEnd', 'Notification', 'PreCompress', 'BeforeToolSelection'),
};

function textsOf(object: ObjectText): Record<string, string | undefined> {
  return Object.fromEntries(object.keys.map((key) => [key, object.raw(key)]));
}

export const geminiCli: HookTool = {
  name: 'gemini-cli',
  title: 'Gemini CLI',
  event: 'hook_event_name',
  trace: ['session_id'],
  formOf: named('hook_event_name', EVENTS),
  denied,
};
