// Claude Agent SDK: `query({…, options: {hooks: {PreToolUse: [{hooks: [claude(gh).preToolUse]}]}}})`. What is allowed
// is left to the SDK's own rules; a call that a policy blocks is denied with the reason, which the model reads.
import type { Gatehouse } from '../gatehouse.ts';
import { verdictOn } from './verdict.ts';

type Input = { hook_event_name: string; session_id?: string; tool_name?: string; tool_input?: unknown };
type Output = {
  hookSpecificOutput?: { hookEventName: 'PreToolUse'; permissionDecision: 'deny'; permissionDecisionReason: string };
};

export function claude(gatehouse: Gatehouse): { preToolUse: (input: Input) => Promise<Output> } {
  return {
    async preToolUse({ session_id, tool_name: tool, tool_input }) {
      const verdict = await verdictOn(gatehouse, () => {
        if (tool === undefined) throw new Error('the hook names no tool.');
        return { tool, arguments: tool_input, traceId: session_id };
      });
      if (verdict.allowed) return {};
      const denial = { permissionDecision: 'deny', permissionDecisionReason: verdict.reason } as const;
      return { hookSpecificOutput: { hookEventName: 'PreToolUse', ...denial } };
    },
  };
}
