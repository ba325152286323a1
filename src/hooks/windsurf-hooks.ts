// Hooks of Windsurf (Cascade), by command alone: JSON on standard input; status 2 of a hook that begins with `pre_` is
// a no, with its reason on standard error; any other status lets the action go on.
// https://docs.windsurf.com/windsurf/cascade/hooks
// No time-out is documented. What is redacted cannot be given back, and what has happened cannot be stopped.
// `command_line` is recorded as `command`, the name by which policies of other tools know it. A tool of an MCP server
// is `server/tool`, as for `gatehouse mcp`.
import { jsonOf } from '../common/json-text.ts';
import type { ObjectText } from '../common/object-text.ts';
import {
  argumentsAt,
  call,
  content,
  type EventForm,
  type HookTool,
  nameAt,
  named,
  nothingToAsk,
  objectAt,
  others,
  promptAt,
  refuseLikes,
  result,
  stringTextAt,
} from './hook-form.ts';

const NAMES = { command_line: 'command' };
const NONE: ReadonlySet<string> = new Set();

function info(hook: ObjectText): ObjectText {
  refuseLikes(hook, ['tool_info']);
  return objectAt(hook, 'tool_info');
}

/** `needed` must be a text. */
function before(tool: string, needed: string): EventForm {
  return {
    read: (hook) => {
      const said = info(hook);
      stringTextAt(said, needed);
      return call(`"${tool}"`, others(said, NONE, NAMES));
    },
  };
}

function after(tool: string, needed: string): EventForm {
  return {
    read: (hook) => {
      const said = info(hook);
      stringTextAt(said, needed);
      return result(`"${tool}"`, said, [], { tool_input: others(said, NONE, NAMES) });
    },
    isAfter: true,
  };
}

function toolOf(said: ObjectText): string {
  nameAt(said, 'mcp_server_name');
  nameAt(said, 'mcp_tool_name');
  return jsonOf(`${said.string('mcp_server_name')}/${said.string('mcp_tool_name')}`);
}

const EVENTS: Record<string, EventForm> = {
  pre_run_command: before('run_command', 'command_line'),
  pre_write_code: before('write_code', 'file_path'),
  pre_read_code: before('read_code', 'file_path'),
  pre_mcp_tool_use: {
    read: (hook) => {
      const said = info(hook);
      refuseLikes(said, ['mcp_server_name', 'mcp_tool_name', 'mcp_tool_arguments']);
      return call(toolOf(said), argumentsAt(said, 'mcp_tool_arguments'));
    },
  },
  pre_user_prompt: {
    read: (hook) => promptAt(info(hook), 'user_prompt'),
  },
  post_run_command: after('run_command', 'command_line'),
  post_write_code: after('write_code', 'file_path'),
  post_read_code: after('read_code', 'file_path'),
  post_mcp_tool_use: {
    read: (hook) => {
      const said = info(hook);
      const more = { tool_input: said.raw('mcp_tool_arguments') };
      return result(toolOf(said), said, ['mcp_result'], more);
    },
    isAfter: true,
  },
  post_cascade_response: {
    read: (hook) => ({ type: 'completion', payload: content(info(hook), 'response', 'response') }),
    isAfter: true,
  },
  ...nothingToAsk('post_cascade_response_with_transcript', 'post_setup_worktree'),
};

export const windsurf: HookTool = {
  name: 'windsurf',
  title: 'Windsurf',
  event: 'agent_action_name',
  trace: ['trajectory_id'],
  inner: 'tool_info',
  formOf: named('agent_action_name', EVENTS),
  denied: (message) => ({ decision: 'deny', message }),
};
