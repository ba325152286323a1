// Vercel AI SDK 7: `generateText({…, toolApproval: aiSdk(gh).toolApproval})`. A call that a policy blocks is denied
// with the reason, which the model reads.
import type { Gatehouse } from '../gatehouse.ts';
import { verdictOn } from './verdict.ts';

type ToolCall = { toolName: string; toolCallId?: string; input: unknown };
type Status = { type: 'approved' } | { type: 'denied'; reason: string };

export function aiSdk(gatehouse: Gatehouse): { toolApproval: (args: { toolCall: ToolCall }) => Promise<Status> } {
  return {
    async toolApproval({ toolCall: { toolName: tool, input } }) {
      const verdict = await verdictOn(gatehouse, () => ({ tool, arguments: input }));
      return verdict.allowed ? { type: 'approved' } : { type: 'denied', reason: verdict.reason };
    },
  };
}
