// What the adapter for LangChain uses of its peer, so that it is compiled without it.
declare module '@langchain/core/messages' {
  export class ToolMessage {
    constructor(fields: { content: string; tool_call_id: string; name: string; status: 'error' });
  }
}
