// OpenAI Agents SDK: `tool({…, inputGuardrails: [openaiAgents(gh).toolInput]})`. A call that a policy blocks is
// answered to the model with the reason, and the tool does not run.
import type { Gatehouse } from '../gatehouse.ts';

type Behavior = { type: 'allow' } | { type: 'rejectContent'; message: string };
type Guardrail = {
  type: 'tool_input';
  name: string;
  run(data: { toolCall: { name: string; arguments: string } }): Promise<{ behavior: Behavior; outputInfo?: unknown }>;
};

export function openaiAgents(gatehouse: Gatehouse): { toolInput: Guardrail } {
  const toolInput: Guardrail = {
    type: 'tool_input',
    name: 'gatehouse',
    async run({ toolCall: { name: tool, arguments: text } }) {
      const { allowed, reason, eventId } = await gatehouse.decide({ tool, arguments: parsed(text) });
      const behavior: Behavior = allowed ? { type: 'allow' } : { type: 'rejectContent', message: reason ?? 'Blocked.' };
      return { behavior, outputInfo: { eventId } };
    },
  };
  return { toolInput };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
