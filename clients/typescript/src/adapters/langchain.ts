// LangChain 1: `createAgent({…, middleware: [langchain(gh).middleware]})`. A call that a policy blocks is answered to
// the model with the reason, and the tool does not run.
import type { Gatehouse } from '../gatehouse.ts';
import { verdictOn } from './verdict.ts';

type Request = { toolCall: { id?: string; name: string; args: unknown } };
type Middleware = {
  name: string;
  wrapToolCall(request: Request, handler: (request: Request) => unknown): Promise<unknown>;
};

/** As createMiddleware marks what it makes. */
const BRAND = Symbol.for('AgentMiddleware');

export function langchain(gatehouse: Gatehouse): { middleware: Middleware } {
  const middleware: Middleware = {
    name: 'gatehouse',
    async wrapToolCall(request, handler) {
      const { id = '', name: tool, args } = request.toolCall;
      const verdict = await verdictOn(gatehouse, () => ({ tool, arguments: args }));
      if (verdict.allowed) return handler(request);
      // Its own class: what only looks like one is not taken.
      const { ToolMessage } = await import('@langchain/core/messages');
      return new ToolMessage({ content: verdict.reason, tool_call_id: id, name: tool, status: 'error' });
    },
  };
  return { middleware: Object.assign({ [BRAND]: true }, middleware) };
}
