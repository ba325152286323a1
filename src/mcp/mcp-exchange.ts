// Where each message between an MCP client and a server goes, whatever carries it: on, or an answer back. A call of a
// tool is judged before it goes on, its answer before it comes back; tools that are listed are judged (governor.ts).
// Everything else passes: resources, prompts, sampling, notifications.
// Invariant: the server gets a call when its event is recorded and allowed, in the words that were judged; the client
// gets its answer on the same terms. A message goes on as the text that came, but for what is taken out or redacted.
// An answer to nothing that was asked goes no further. What asks for an answer gets one.
// Failure: a denial is a result that says so: models read it, where protocol errors end a run.

import { randomUUID } from 'node:crypto';
import { JsonText } from '../../clients/typescript/src/index.ts';
import { itemsOf, type Member, membersOf, objectOf, spliced, stringAt, textAt } from '../common/json-text.ts';
import type { CalledTool, Governor } from './governor.ts';
import {
  type Fault,
  failureText,
  type Id,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  INVALID_REQUEST,
  type Incoming,
  idOf,
  looseKey,
  type McpMessage,
  METHOD_NOT_FOUND,
  resultText,
} from './message.ts';

/** Neither: it ends here. */
type Routed = { onward?: string; back?: string };
type Waiting = {
  id: Id;
  method: string;
  /** Says whether the revision is one in which a result says that it is whole. */
  isStateless: boolean;
  call: CalledTool | undefined;
  trace: string;
  isAnswered: boolean;
};

const WAITING_MAX = 1_000;
/** Where a message says its revision. */
const PROTOCOL_VERSION = 'io.modelcontextprotocol/protocolVersion';
const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}/;
/** Keys of `params` that some readers take for another in whatever letters. */
const LIKE_PARAMS = /^(?:name|arguments|taskid)$/iu;
const PARAMS = new Set(['name', 'arguments', 'taskId']);
const GOVERNED = /^(?:tools|tasks)\//;
/** A method that a server that is not strict might take for one of these. */
const LIKE_GOVERNED = /^\s*(?:tools|tasks)\s*\//iu;
const TOOL_METHODS = new Set(['tools/list', 'tools/call']);
/** They give a server nothing but the id of a task. */
const TASK_READS = new Set(['tasks/get', 'tasks/result', 'tasks/list', 'tasks/cancel']);

/** All of what came at once, each by `route`; what came as a batch leaves as one. */
export async function routed(
  incoming: Incoming,
  route: (item: McpMessage | Fault) => Promise<Routed>,
): Promise<Routed> {
  const all = await Promise.all(incoming.items.map(route));
  if (!incoming.isBatch) return all[0]!;
  const onward = all.flatMap((one) => one.onward ?? []);
  const back = all.flatMap((one) => one.back ?? []);
  const isAsItCame = all.every(({ onward }, i) => onward !== undefined && onward === textOf(incoming.items[i]!));
  return {
    ...(onward.length === 0 ? {} : { onward: isAsItCame ? incoming.text : `[${onward.join(',')}]` }),
    ...(back.length === 0 ? {} : { back: `[${back.join(',')}]` }),
  };
}

const textOf = (item: McpMessage | Fault) => (item.kind === 'fault' ? undefined : item.text);

/** One stream of requests with ids of their own: a connection, or a request over HTTP. */
export class McpExchange {
  readonly #governor: Governor;
  readonly #trace: string;
  readonly #waiting = new Map<string, Waiting>();

  /** `trace`: of what says none itself. */
  constructor(governor: Governor, trace: string = randomUUID()) {
    this.#governor = governor;
    this.#trace = trace;
  }

  /** Requests of the client that have no answer yet. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** The ids of those. */
  get ids(): Id[] {
    return [...this.#waiting.values()].map(({ id }) => id);
  }

  isWaiting(id: Id): boolean {
    return this.#waiting.get(id.key)?.isAnswered === false;
  }

  /** Does a tool or a task wait for its answer? */
  get isCalling(): boolean {
    return [...this.#waiting.values()].some(({ call }) => call !== undefined);
  }

  async fromClient(message: McpMessage | Fault): Promise<Routed> {
    if (message.kind === 'fault') return { back: failureText(message.id, message.code, message.why) };
    if (message.kind === 'answer') return { onward: message.text };
    if (message.kind === 'notification') return this.#notified(message);
    const { method } = message;
    const id = message.id!;
    if (
      LIKE_GOVERNED.test(method) &&
      !(GOVERNED.test(method) && (TOOL_METHODS.has(method) || method.startsWith('tasks/')))
    )
      return { back: failureText(id.text, METHOD_NOT_FOUND, 'Gatehouse knows no such method of tools') };
    if (this.#waiting.has(id.key)) return { back: failureText(id.text, INVALID_REQUEST, 'this id is in use') };
    if (this.#waiting.size >= WAITING_MAX)
      return { back: failureText(id.text, INTERNAL_ERROR, `${WAITING_MAX} requests are waiting already`) };
    const wrong = GOVERNED.test(method) ? whatIsWrong(message) : undefined;
    if (wrong !== undefined) return { back: failureText(id.text, INVALID_PARAMS, wrong) };
    const waiting = this.#waitingOf(message, id);
    this.#waiting.set(id.key, waiting);
    const denied = await this.#denied(message, waiting);
    // Cancelled meanwhile: the answer is not waited for, and nothing is to be done.
    if (this.#waiting.get(id.key) !== waiting) return {};
    if (denied === undefined) return { onward: message.text };
    this.#waiting.delete(id.key);
    return { back: denied };
  }

  /** `isAlone`: what it came with answers one request, so one without an id is to that. */
  async fromServer(message: McpMessage | Fault, isAlone = false): Promise<Routed> {
    const { report } = this.#governor.options;
    if (message.kind === 'fault') {
      report(`what the server sent cannot be read: ${message.why}`);
      const id = message.id !== 'null' ? idOf(message.id) : isAlone ? this.#only?.id : undefined;
      const onward = id && this.failed(id, `the server's answer cannot be read: ${message.why}`);
      return onward === undefined ? {} : { onward };
    }
    if (message.kind !== 'answer') return this.#fromServer(message);
    const waiting = this.#waitingFor(message.id, isAlone);
    if (waiting === undefined && (message.id === undefined || message.id.key === 'null')) {
      const call = { tool: this.#governor.nameOf('an unknown call'), callId: '' };
      return this.#judgedLoose(message, call);
    }
    if (waiting === undefined || waiting.isAnswered) {
      report(`an answer to nothing that was asked was dropped (id ${message.id?.text})`);
      return {};
    }
    waiting.isAnswered = true;
    const onward = await this.#answered(message, waiting);
    if (this.#waiting.get(waiting.id.key) !== waiting) return {};
    this.#waiting.delete(waiting.id.key);
    return { onward };
  }

  /** The answer to a request that the server will not answer; undefined: it is not waited for, or is there already. */
  failed(id: Id, message: string): string | undefined {
    const waiting = this.#waitingFor(id, false);
    if (waiting?.isAnswered !== false) return undefined;
    this.#waiting.delete(waiting.id.key);
    return failureText(waiting.id.text, INTERNAL_ERROR, message);
  }

  /** The same for all that wait. */
  allFailed(message: string): string[] {
    return [...this.#waiting.values()].flatMap(({ id }) => this.failed(id, message) ?? []);
  }

  get #only(): Waiting | undefined {
    return this.#waiting.size === 1 ? this.#waiting.values().next().value : undefined;
  }

  #waitingFor(id: Id | undefined, isAlone: boolean): Waiting | undefined {
    const exact = this.#waiting.get(id?.key ?? '');
    if (exact !== undefined) return exact;
    if (id === undefined || id.key === 'null') return isAlone ? this.#only : undefined;
    const loose = looseKey(id);
    return [...this.#waiting.values()].find((waiting) => looseKey(waiting.id) === loose);
  }

  #notified(message: McpMessage): Routed {
    const { method, text, params } = message;
    const at = params.get('requestId');
    if (method === 'notifications/cancelled' && at !== undefined) {
      const cancelled = this.#waitingFor(idOf(textAt(text, at)), false);
      if (cancelled !== undefined) this.#waiting.delete(cancelled.id.key);
    }
    if (!LIKE_GOVERNED.test(method)) return { onward: text };
    // A call without an id asks for no answer, and some servers might still make it.
    this.#governor.options.report(`${method} without an id was dropped`);
    return {};
  }

  #waitingOf(message: McpMessage, id: Id): Waiting {
    const { method, text, params } = message;
    const traceparent = TRACEPARENT.exec(stringAt(text, metaOf(message)?.get('traceparent')) ?? '');
    const trace = traceparent?.[1] ?? this.#trace;
    const callId = id.key.replace(/^"/, '');
    const name = stringAt(text, params.get('name'));
    const task = stringAt(text, params.get('taskId')) ?? callId;
    const call =
      method === 'tools/call'
        ? { tool: this.#governor.nameOf(name!), callId }
        : method.startsWith('tasks/')
          ? this.#governor.callOfTask(task)
          : undefined;
    return { id, method, isStateless: versionOf(message) !== undefined, call, trace, isAnswered: false };
  }

  /** The answer to what must not go on; undefined: it may. */
  async #denied(message: McpMessage, waiting: Waiting): Promise<string | undefined> {
    const { call, trace, id } = waiting;
    if (message.method === 'tools/call') {
      const reason = await this.#whyNot(message, call!, trace);
      return reason === undefined ? undefined : denial(waiting, reason);
    }
    if (call === undefined || TASK_READS.has(message.method)) return undefined;
    const { tool: tool_name, callId: call_id } = call;
    const params = new JsonText(objectOf(message.text, message.params.values()));
    const payload = { kind: 'task_input', method: message.method, tool_name, call_id, params };
    const { reason } = await this.#governor.judge({ type: 'custom', payload, trace });
    return reason === undefined ? undefined : failureText(id.text, INTERNAL_ERROR, reason);
  }

  /** undefined: the call may be made. */
  async #whyNot({ text, params }: McpMessage, call: CalledTool, trace: string): Promise<string | undefined> {
    const given = params.get('arguments');
    const args = given === undefined ? {} : new JsonText(textAt(text, given));
    const removed = this.#governor.removed(stringAt(text, params.get('name'))!);
    if (removed !== undefined) {
      this.#governor.options.gatehouse.record({
        type: 'custom',
        payload: { kind: 'mcp_removed_tool_called', tool_name: call.tool, arguments: args },
        traceId: trace,
      });
      return `This tool is not to be used. ${removed}`;
    }
    const others = [...params.values()].filter(({ key }) => key !== 'name' && key !== 'arguments');
    const rest = others.length === 0 ? {} : { params: new JsonText(objectOf(text, others)) };
    const payload = { tool: call.tool, arguments: args, call_id: call.callId, ...rest };
    return (await this.#governor.judge({ type: 'tool_call', payload, trace })).reason;
  }

  async #answered(message: McpMessage, waiting: Waiting): Promise<string> {
    const { call, trace } = waiting;
    if (call === undefined)
      return waiting.method === 'tools/list' && isThere(message, 'result')
        ? this.#listed(message, waiting)
        : spliced(message.text, idEdit(message, waiting));
    this.#noteTask(message, call);
    const { edits, reason } = await this.#judgedAnswer(message, call, trace);
    if (reason !== undefined) return denial(waiting, reason);
    return spliced(message.text, [...edits, ...idEdit(message, waiting)]);
  }

  #noteTask({ text, members }: McpMessage, call: CalledTool): void {
    const result = membersOf(text, members.get('result')?.start ?? text.length);
    const inner = result?.get('task');
    const task = inner === undefined ? result : membersOf(text, inner.start);
    const id = stringAt(text, task?.get('taskId'));
    if (id !== undefined) this.#governor.noteTask(id, call);
  }

  async #listed(message: McpMessage, waiting: Waiting): Promise<string> {
    const { text, members } = message;
    const result = membersOf(text, members.get('result')!.start);
    const isAmbiguous = [...(result?.keys() ?? [])].some((key) => key !== 'tools' && /^tools$/iu.test(key));
    const at = isAmbiguous ? undefined : result?.get('tools');
    const tools = at === undefined ? undefined : itemsOf(text, at.start);
    if (tools === undefined)
      return failureText(waiting.id.text, INTERNAL_ERROR, 'The tools could not be judged: they are not one list');
    try {
      const texts = tools.map((tool) => textAt(text, tool));
      const listed = await this.#governor.listed(texts, waiting.trace);
      const isWhole = listed.every((tool, i) => tool === texts[i]);
      const left = `[${listed.filter((tool) => tool !== undefined).join(',')}]`;
      return spliced(text, [...(isWhole ? [] : [{ ...at!, text: left }]), ...idEdit(message, waiting)]);
    } catch (error) {
      const why = `The tools could not be judged: ${(error as Error).message}`;
      return failureText(waiting.id.text, INTERNAL_ERROR, why);
    }
  }

  /**
   * Judges a message about tasks that the server sends without being asked as an answer to their calls; all else
   * passes.
   */
  async #fromServer(message: McpMessage): Promise<Routed> {
    if (!message.method.startsWith('notifications/tasks')) return { onward: message.text };
    const task = stringAt(message.text, message.params.get('taskId')) ?? '';
    return this.#judgedLoose(message, this.#governor.callOfTask(task));
  }

  /** Judges an answer to no request that waits: it passes, or is dropped and reported. */
  async #judgedLoose(message: McpMessage, call: CalledTool): Promise<Routed> {
    const { edits, reason } = await this.#judgedAnswer(message, call, this.#trace);
    if (reason === undefined) return { onward: spliced(message.text, edits) };
    this.#governor.options.report(`what the server said of ${call.tool} is withheld: ${reason}`);
    return {};
  }

  /** `edits`: what a policy redacts. All that the message says is judged. */
  async #judgedAnswer(
    message: McpMessage,
    call: CalledTool,
    trace: string,
  ): Promise<{ edits: Edit[]; reason?: string }> {
    const { text } = message;
    const said = [...message.members.values()].filter(
      (member) => member.key !== 'id' && !(member.key === 'jsonrpc' && textAt(text, member) === '"2.0"'),
    );
    const others = said.filter(({ key }) => !CONTENT.has(key));
    const content = said.filter(({ key }) => CONTENT.has(key));
    const about = { kind: 'tool_result', tool_name: call.tool, call_id: call.callId };
    const payload = {
      ...about,
      ...Object.fromEntries(content.map((member) => [member.key, new JsonText(textAt(text, member))])),
      ...(others.length === 0 ? {} : { members: new JsonText(objectOf(text, others)) }),
    };
    const { reason, isUnfit, redacted } = await this.#governor.judge({ type: 'custom', payload, trace });
    if (isUnfit) return { edits: [], reason: await this.#recordedWithout(about, text, trace, reason!) };
    if (reason !== undefined) return { edits: [], reason: `The result of the call is withheld. ${reason}` };
    const left = membersOf(redacted['members'] ?? '');
    const edits = said.flatMap((member) => {
      const { start, end, key } = member;
      const at = left?.get(key);
      const now = CONTENT.has(key) ? redacted[key] : at && textAt(redacted['members']!, at);
      return now === undefined ? [] : [{ start, end, text: now }];
    });
    if (Object.keys(redacted).length > 0 && edits.length < said.length)
      return { edits: [], reason: 'The result of the call is withheld. A policy redacts a key of the message.' };
    return { edits };
  }

  /** Records that there was a result which the service does not take; what the model is to know. */
  async #recordedWithout(about: object, text: string, trace: string, why: string): Promise<string> {
    const bytes = Buffer.byteLength(text);
    const payload = { ...about, content_captured: false, result_bytes: bytes, reason: why };
    const { reason } = await this.#governor.judge({ type: 'custom', payload, trace });
    return [
      'The tool did run; do not call it again for the same.',
      `The result of the call is withheld because of its size or form (${bytes} bytes). ${reason ?? why}`,
      'Ask for less of it at once, or for another form.',
    ].join(' ');
  }
}

/** Members of a message that are members of the event. */
const CONTENT = new Set(['result', 'error', 'params']);

type Edit = Parameters<typeof spliced>[1][number];

/** The edit that makes the answer one to the request's id, where the server wrote it in another way. */
function idEdit({ members, id }: McpMessage, { id: asked }: Waiting): Edit[] {
  const at = members.get('id');
  return at === undefined || id?.text === asked.text ? [] : [{ start: at.start, end: at.end, text: asked.text }];
}

function isThere({ text, members }: McpMessage, key: string): boolean {
  const at = members.get(key);
  return at !== undefined && textAt(text, at) !== 'null';
}

function metaOf({ text, params }: McpMessage): Map<string, Member> | undefined {
  const at = params.get('_meta');
  return at === undefined ? undefined : membersOf(text, at.start);
}

/** The revision that is said with each message, since 2026-07-28. */
export function versionOf(message: McpMessage): string | undefined {
  return stringAt(message.text, metaOf(message)?.get(PROTOCOL_VERSION));
}

/** Says of a message about tools why no one could say what is called; undefined: it is right. */
function whatIsWrong({ method, text, members, params }: McpMessage): string | undefined {
  for (const key of params.keys())
    if (LIKE_PARAMS.test(key) && !PARAMS.has(key)) return `params: a key is not one of MCP in its letters: ${key}`;
  if (method !== 'tools/call') return undefined;
  const at = members.get('params');
  if (at === undefined || membersOf(text, at.start) === undefined)
    return 'params must be an object with the name of a tool';
  if ((stringAt(text, params.get('name')) ?? '') === '') return 'params.name must be the name of a tool';
  const args = params.get('arguments');
  if (args !== undefined && membersOf(text, args.start) === undefined && textAt(text, args) !== 'null')
    return 'params.arguments must be an object';
  return undefined;
}

function denial({ method, id, isStateless }: Waiting, reason: string): string {
  if (method !== 'tools/call' && method !== 'tasks/result') return failureText(id.text, INTERNAL_ERROR, reason);
  const said = { content: [{ type: 'text', text: reason }], isError: true };
  return resultText(id.text, isStateless ? { resultType: 'complete', ...said } : said);
}
