// The tools whose hooks are understood, and which of them a hook is from (between `gatehouse hook`, which has
// nothing else to go by, and the service, which has a path for each).
// Invariant: a hook of none of them is asked about as one of Claude Code, whose closed list of events refuses it.
import type { ObjectText } from '../common/object-text.ts';
import { claudeCode } from './claude-code-hooks.ts';
import { copilot } from './copilot-hooks.ts';
import { cursor } from './cursor-hooks.ts';
import { geminiCli } from './gemini-cli-hooks.ts';
import type { HookTool } from './hook-form.ts';
import { windsurf } from './windsurf-hooks.ts';

export const HOOK_TOOLS: readonly HookTool[] = [claudeCode, geminiCli, cursor, copilot, windsurf];

/** `text`: JSON; undefined: it is none. */
export function toolOf(hook: ObjectText | undefined): HookTool {
  if (hook === undefined) return claudeCode;
  if (hook.has('agent_action_name')) return windsurf;
  // By this member Copilot's hooks in PascalCase are Claude Code's as well, but for results.
  if (!hook.has('hook_event_name')) return hook.has('sessionId') || hook.has('toolName') ? copilot : claudeCode;
  // Of a result Claude Code says `tool_response`, and takes no `modifiedResult`.
  if (hook.has('tool_result') && copilot.formOf(hook).form !== undefined) return copilot;
  return [claudeCode, geminiCli, cursor].find((tool) => tool.formOf(hook).form !== undefined) ?? claudeCode;
}
