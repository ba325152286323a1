// OpenAI Agents SDK: `tool({…, inputGuardrails: [openaiAgents(gh).toolInput]})`. A call that a policy blocks is
// answered to the model with the reason, and the tool does not run.
import type { Gatehouse } from '../gatehouse.ts';
import { JsonText } from '../json.ts';
import { verdictOn } from './verdict.ts';

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
      const verdict = await verdictOn(gatehouse, () => ({ tool, arguments: asWritten(text) }));
      const behavior: Behavior = verdict.allowed
        ? { type: 'allow' }
        : { type: 'rejectContent', message: verdict.reason };
      return { behavior, outputInfo: { eventId: verdict.eventId } };
    },
  };
  return { toolInput };
}

/** Digit by digit; what is no JSON is judged as text. */
function asWritten(text: string): unknown {
  try {
    return new JsonText(text);
  } catch {
    return text;
  }
}
