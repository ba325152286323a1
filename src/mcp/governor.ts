// What `gatehouse mcp` does with each message between an MCP client and a server, whatever carries them. A call of a
// tool is judged before it goes on, its result before it comes back; tools that are listed are judged and compared
// with what they were. Everything else passes: resources, prompts, sampling, notifications.
// Invariant: the server gets a call when its event is recorded and allowed, in the words that were judged; the client
// gets a result on the same terms. An answer to nothing that was asked goes no further: clients take "1" for 1.
// Failure: where Gatehouse cannot be asked in time, or refuses, a call is denied (unless `onUnavailable` says
// otherwise) and a list is an error. A denial is a result that says so: models read it, where protocol errors end a
// run.
import { randomUUID } from 'node:crypto';
import {
  INTERNAL_ERROR,
  INVALID_REQUEST,
  type JSONRPCMessage,
  type JSONRPCRequest,
  PROTOCOL_VERSION_META_KEY,
  type RequestId,
  TRACEPARENT_META_KEY,
} from '@modelcontextprotocol/client';
import PQueue from 'p-queue';
import type { Asked, Decision, Gatehouse } from '../../clients/typescript/src/index.ts';
import type { McpTool, Standing, ToolPins } from './pins.ts';

type GovernorOptions = {
  gatehouse: Pick<Gatehouse, 'decide' | 'record'>;
  /** Of the server, in front of the names of its tools. */
  server: string;
  pins: ToolPins;
  /** For a person: what changed, what was taken out. */
  report: (text: string) => void;
};
/** Where a message goes from here: on, or an answer back to whom it came from. Neither: it ends here. */
type Routed = { onward?: JSONRPCMessage; back?: JSONRPCMessage };

type Response = Extract<JSONRPCMessage, { id?: RequestId | undefined } & ({ result: unknown } | { error: unknown })>;
type ToolCall = { tool: string; callId: string };
type Waiting = { request: JSONRPCRequest; call?: ToolCall; trace: string; isAnswered: boolean };

/** Of a page; a model that reads as many has no room for anything else. */
const TOOLS_MAX = 1_000;
const WAITING_MAX = 1_000;
const TASKS_MAX = 1_000;
/** Tools of a list that are asked about at once. */
const AT_ONCE = 8;
const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}/;

export class Governor {
  readonly options: GovernorOptions;
  /** Taken out of the last list. */
  readonly #removed = new Map<string, string>();
  /** Calls whose result is fetched later, by the id of their task. */
  readonly #tasks = new Map<string, ToolCall>();
  readonly #asking = new PQueue({ concurrency: AT_ONCE });

  constructor(options: GovernorOptions) {
    this.options = options;
  }

  nameOf(tool: unknown): string {
    return `${this.options.server}/${String(tool)}`;
  }

  /** Why the tool is in no list. */
  removed(tool: string): string | undefined {
    return this.#removed.get(tool);
  }

  noteTask(id: string, call: ToolCall): void {
    this.#tasks.set(id, call);
    if (this.#tasks.size > TASKS_MAX) this.#tasks.delete(this.#tasks.keys().next().value!);
  }

  callOfTask(id: unknown): ToolCall {
    return this.#tasks.get(String(id)) ?? { tool: this.nameOf('a task'), callId: String(id) };
  }

  /** The tools that policies leave in. Throws where they cannot be asked. */
  async listed(tools: readonly McpTool[], trace: string): Promise<McpTool[]> {
    if (tools.length > TOOLS_MAX)
      throw new Error(`the server lists more than ${TOOLS_MAX} tools at once: ${tools.length}`);
    const verdicts = await Promise.all(tools.map((tool) => this.#asking.add(() => this.#judgeTool(tool, trace))));
    this.options.pins.save();
    return tools.filter((_tool, i) => verdicts[i]);
  }

  async #judgeTool(tool: McpTool, trace: string): Promise<boolean> {
    const { gatehouse, pins, report } = this.options;
    const standing = pins.standing(tool);
    const name = this.nameOf(tool.name);
    const decision = await gatehouse.decide({
      type: 'custom',
      payload: toolPayload(name, tool, standing),
      traceId: trace,
    });
    if (decision.outcome === 'unavailable' && !decision.allowed) throw new Error(decision.reason);
    if (standing.status === 'changed') report(`the description of ${name} is not what it was`);
    if (decision.allowed) {
      this.#removed.delete(tool.name);
      pins.keep(tool, standing);
    } else {
      this.#removed.set(tool.name, decision.reason!);
      report(`${name} is taken out of the list: ${decision.reason}`);
    }
    return decision.allowed;
  }
}

/** One stream of requests with ids of their own: a connection, or a request over HTTP. */
export class McpExchange {
  readonly #governor: Governor;
  readonly #trace: string;
  readonly #waiting = new Map<RequestId, Waiting>();

  /** `trace`: of what says none itself. */
  constructor(governor: Governor, trace: string = randomUUID()) {
    this.#governor = governor;
    this.#trace = trace;
  }

  async fromClient(message: JSONRPCMessage): Promise<Routed> {
    if (!('method' in message)) return { onward: message };
    if (!('id' in message)) {
      const cancelled = (message.params as { requestId?: RequestId } | undefined)?.requestId;
      if (message.method === 'notifications/cancelled' && cancelled !== undefined) this.#waiting.delete(cancelled);
      // A call without an id asks for no answer, and some servers might still make it.
      return message.method.startsWith('notifications/') ? { onward: message } : {};
    }
    if (this.#waiting.has(message.id)) return { back: failure(message.id, INVALID_REQUEST, 'this id is in use') };
    if (this.#waiting.size >= WAITING_MAX)
      return { back: failure(message.id, INTERNAL_ERROR, `${WAITING_MAX} requests are waiting already`) };
    const waiting = this.#waitingOf(message);
    this.#waiting.set(message.id, waiting);
    if (message.method !== 'tools/call') return { onward: message };
    const reason = await this.#whyNot(waiting);
    // Cancelled meanwhile: the answer is not waited for, and nothing is to be done.
    if (this.#waiting.get(message.id) !== waiting) return {};
    if (reason === undefined) return { onward: message };
    this.#waiting.delete(message.id);
    return { back: denial(message, reason) };
  }

  async fromServer(message: JSONRPCMessage): Promise<Routed> {
    if ('method' in message) return { onward: message };
    const waiting = message.id === undefined ? undefined : this.#waiting.get(message.id);
    if (waiting === undefined || waiting.isAnswered) {
      this.#governor.options.report(
        `an answer to nothing that was asked was dropped (id ${JSON.stringify(message.id)})`,
      );
      return {};
    }
    waiting.isAnswered = true;
    const onward = await this.#judgedAnswer(message, waiting);
    if (this.#waiting.get(waiting.request.id) !== waiting) return {};
    this.#waiting.delete(waiting.request.id);
    return { onward };
  }

  /** The answer to a request that the server will not answer; undefined: it is not waited for, or is there already. */
  failed(id: RequestId, message: string): JSONRPCMessage | undefined {
    if (this.#waiting.get(id)?.isAnswered !== false) return undefined;
    this.#waiting.delete(id);
    return failure(id, INTERNAL_ERROR, message);
  }

  #waitingOf(request: JSONRPCRequest): Waiting {
    const { method, params = {}, id } = request;
    const traceparent = TRACEPARENT.exec(String(params._meta?.[TRACEPARENT_META_KEY]));
    const waiting = { request, trace: traceparent?.[1] ?? this.#trace, isAnswered: false };
    if (method === 'tools/call')
      return { ...waiting, call: { tool: this.#governor.nameOf(params['name']), callId: String(id) } };
    if (method === 'tasks/result') return { ...waiting, call: this.#governor.callOfTask(params['taskId']) };
    return waiting;
  }

  /** undefined: the call may be made. */
  async #whyNot({ request, call, trace }: Waiting): Promise<string | undefined> {
    const { name, arguments: args = {} } = request.params as { name?: unknown; arguments?: unknown };
    const { gatehouse } = this.#governor.options;
    const payload = { tool: call!.tool, arguments: args, call_id: call!.callId };
    const removed = this.#governor.removed(String(name));
    if (removed !== undefined) {
      gatehouse.record({
        type: 'custom',
        payload: { kind: 'mcp_removed_tool_called', tool_name: call!.tool, arguments: args },
        traceId: trace,
      });
      return `This tool is not to be used. ${removed}`;
    }
    return reasonAgainst(await decided(gatehouse, { type: 'tool_call', payload, traceId: trace }));
  }

  async #judgedAnswer(message: Response, waiting: Waiting): Promise<JSONRPCMessage> {
    const { request, call } = waiting;
    if (call !== undefined) return this.#judgedResult(message, waiting, call);
    if (request.method !== 'tools/list' || !('result' in message)) return message;
    const tools = message.result['tools'];
    if (!Array.isArray(tools)) return message;
    try {
      const left = await this.#governor.listed(tools as McpTool[], waiting.trace);
      return { ...message, result: { ...message.result, tools: left } };
    } catch (error) {
      return failure(request.id, INTERNAL_ERROR, `The tools could not be judged: ${(error as Error).message}`);
    }
  }

  async #judgedResult(message: Response, { request, trace }: Waiting, call: ToolCall): Promise<JSONRPCMessage> {
    const task = 'result' in message ? (message.result['task'] as { taskId?: unknown } | undefined) : undefined;
    if (typeof task?.taskId === 'string') this.#governor.noteTask(task.taskId, call);
    const came = 'result' in message ? { result: message.result } : { error: message.error };
    const payload = { kind: 'tool_result', tool_name: call.tool, call_id: call.callId, ...came };
    const decision = await decided(this.#governor.options.gatehouse, { type: 'custom', payload, traceId: trace });
    const reason = reasonAgainst(decision);
    if (reason !== undefined) return denial(request, `The result of the call is withheld. ${reason}`);
    const { result, error } = (decision as Decision).redacted ?? {};
    return {
      ...message,
      ...(result === undefined ? {} : { result }),
      ...(error === undefined ? {} : { error }),
    } as Response;
  }
}

/** The error where the service refuses: what it cannot record it cannot allow. */
async function decided(gatehouse: GovernorOptions['gatehouse'], asked: Asked): Promise<Decision | Error> {
  try {
    return await gatehouse.decide(asked);
  } catch (error) {
    return error as Error;
  }
}

function reasonAgainst(decision: Decision | Error): string | undefined {
  if (decision instanceof Error) return `Gatehouse refused to record it: ${decision.message}`;
  return decision.allowed ? undefined : decision.reason!;
}

function denial({ id, params }: JSONRPCRequest, reason: string): JSONRPCMessage {
  const said = { content: [{ type: 'text', text: reason }], isError: true };
  // Since 2026-07-28 a result says that it is whole.
  const isModern = params?._meta?.[PROTOCOL_VERSION_META_KEY] !== undefined;
  return { jsonrpc: '2.0', id, result: isModern ? { resultType: 'complete', ...said } : said };
}

function failure(id: RequestId, code: number, message: string): JSONRPCMessage {
  return { jsonrpc: '2.0', id, error: { code, message } };
}

/** `tool` is the key of calls alone: a policy that asks for approval of them does not mean their lists and results. */
function toolPayload(name: string, tool: McpTool, { hash, status, previous }: Standing): Record<string, unknown> {
  const { name: _name, ...definition } = tool;
  return {
    kind: 'mcp_tool',
    tool_name: name,
    status,
    hash,
    ...(previous === undefined ? {} : { previous }),
    definition,
  };
}
