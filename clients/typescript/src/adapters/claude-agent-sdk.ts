// Claude Agent SDK: `query({…, options: {hooks: {PreToolUse: [{hooks: [claude(gh).preToolUse]}]}}})`. What is allowed
// is left to the SDK's own rules; a call that a policy blocks is denied with the reason, which the model reads.
import type { Gatehouse } from '../gatehouse.ts';

type Input = { hook_event_name: string; session_id?: string; tool_name?: string; tool_input?: unknown };
type Output = {
  hookSpecificOutput?: { hookEventName: 'PreToolUse'; permissionDecision: 'deny'; permissionDecisionReason: string };
};

export function claude(gatehouse: Gatehouse): { preToolUse: (input: Input) => Promise<Output> } {
  return {
    async preToolUse({ session_id, tool_name: tool, tool_input }) {
      if (tool === undefined) return {};
      const decision = await gatehouse
        .decide({ tool, arguments: tool_input, traceId: session_id })
        .catch((error: Error) => ({
          // The SDK goes on where a hook throws.
          ...{ allowed: false, reason: `Gatehouse could not be asked: ${error.message}` },
        }));
      if (decision.allowed) return {};
      const denial = { permissionDecision: 'deny', permissionDecisionReason: decision.reason ?? 'Blocked.' } as const;
      return { hookSpecificOutput: { hookEventName: 'PreToolUse', ...denial } };
    },
  };
}
