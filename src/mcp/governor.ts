// What `gatehouse mcp` asks the service about the tools of one server: a call, what answers it, a tool in a list. The
// messages themselves are mcp-exchange.ts's.
// Invariant: what is asked about is the text that goes on. A tool that was taken out is not called until a list has it
// again. Of a list only the tools that were judged are left in: one that cannot be judged is left out and reported.
// Failure: where Gatehouse cannot be asked in time, or refuses, the verdict is a reason against (unless the client
// was made with `onUnavailable: 'allow'`, and then for a service that is away alone).
import PQueue from 'p-queue';
import { ApiError, type Gatehouse, JsonText } from '../../clients/typescript/src/index.ts';
import { membersOf, stringAt } from '../common/json-text.ts';
import { hashOfTool, type Standing, type ToolPins } from './pins.ts';

type GovernorOptions = {
  /** Made with exactFetch. */
  gatehouse: Pick<Gatehouse, 'decide' | 'record'>;
  /** The server's name, in front of the names of its tools. */
  server: string;
  pins: ToolPins;
  /** For a person: what changed, what was taken out. */
  report: (text: string) => void;
};
export type CalledTool = { tool: string; callId: string };
/** `redacted`: texts by the names of the payload's members, where a policy redacts something in it. */
type ToolVerdict = {
  /** undefined: it is allowed. */
  reason: string | undefined;
  /** The service refused it as it is: its size, its form. Otherwise it could not be asked, or a policy says so. */
  isUnfit: boolean;
  isUnavailable: boolean;
  redacted: Readonly<Record<string, string>>;
};
type GuardedEvent = { type: 'tool_call' | 'custom'; payload: Record<string, unknown>; trace: string };

/** A page has so many tools at most; a model that reads as many has no room for anything else. */
const TOOLS_MAX = 1_000;
const TASKS_MAX = 1_000;
/** Tools of a list that are asked about at once. */
const AT_ONCE = 8;
/** The statuses by which the service refuses an event that it will never take as it is. */
const UNFIT = new Set([400, 413, 422]);

export class Governor {
  readonly options: GovernorOptions;
  /** Calls whose result is fetched later, by the id of their task. */
  readonly #tasks = new Map<string, CalledTool>();
  readonly #asking = new PQueue({ concurrency: AT_ONCE });

  constructor(options: GovernorOptions) {
    this.options = options;
  }

  nameOf(tool: string): string {
    return `${this.options.server}/${tool}`;
  }

  /** Why the tool is in no list. */
  removed(tool: string): string | undefined {
    return this.options.pins.removed(tool);
  }

  noteTask(id: string, call: CalledTool): void {
    this.#tasks.set(id, call);
    if (this.#tasks.size > TASKS_MAX) this.#tasks.delete(this.#tasks.keys().next().value!);
  }

  callOfTask(id: string): CalledTool {
    return this.#tasks.get(id) ?? { tool: this.nameOf('a task'), callId: id };
  }

  async judge({ type, payload, trace }: GuardedEvent): Promise<ToolVerdict> {
    try {
      const decision = await this.options.gatehouse.decide({ type, payload, traceId: trace });
      const { allowed, outcome, reason, redacted = {} } = decision;
      return {
        reason: allowed ? undefined : reason!,
        isUnfit: false,
        isUnavailable: outcome === 'unavailable',
        redacted: redacted as Record<string, string>,
      };
    } catch (error) {
      const isUnfit = error instanceof ApiError && UNFIT.has(error.status);
      const reason = `Gatehouse refused to record it: ${(error as Error).message}`;
      return { reason, isUnfit, isUnavailable: !isUnfit, redacted: {} };
    }
  }

  /**
   * For each tool of a list, each its text: what is listed for it; undefined: it is left out. Throws where the service
   * cannot be asked.
   */
  async listed(tools: readonly string[], trace: string): Promise<(string | undefined)[]> {
    const { pins, report } = this.options;
    if (tools.length > TOOLS_MAX)
      report(`of ${tools.length} tools in a list those behind the first ${TOOLS_MAX} are left out`);
    pins.refresh();
    let failed: unknown;
    const judged = await Promise.all(
      tools.slice(0, TOOLS_MAX).map((tool) =>
        this.#asking.add(async () => {
          // Each would wait for its whole time.
          if (failed !== undefined) throw failed;
          return this.#judgeTool(tool, trace).catch((error: unknown) => {
            failed = error;
            throw error;
          });
        }),
      ),
    );
    const out = new Map(judged.flatMap(({ name, reason }) => (reason === undefined ? [] : [[name, reason] as const])));
    for (const { name, keep } of judged) if (!out.has(name)) keep?.();
    for (const [name, reason] of out) {
      report(`${name === '' ? 'a tool without a name' : this.nameOf(name)} is taken out of the list: ${reason}`);
      if (name !== '') pins.remove(name, reason);
    }
    await pins.save();
    return tools.map((_tool, i) => (judged[i] === undefined || out.has(judged[i].name) ? undefined : judged[i].text));
  }

  async #judgeTool(tool: string, trace: string): Promise<JudgedTool> {
    const members = membersOf(tool);
    const name = stringAt(tool, members?.get('name')) ?? '';
    const isNamed = name !== '' && ![...members!.keys()].some((key) => key !== 'name' && /^name$/iu.test(key));
    if (!isNamed) return { name, reason: 'it must have one name, a text', text: tool };
    let standing: Standing;
    try {
      standing = this.options.pins.standing(name, hashOfTool(tool));
    } catch (error) {
      return { name, reason: `it cannot be read: ${(error as Error).message}`, text: tool };
    }
    const payload = toolPayload(this.nameOf(name), tool, standing);
    const { reason, isUnfit, isUnavailable, redacted } = await this.judge({ type: 'custom', payload, trace });
    if (reason !== undefined && isUnavailable && !isUnfit) throw new Error(reason);
    if (standing.status === 'changed')
      this.options.report(`the description of ${this.nameOf(name)} is not what it was`);
    const text = redacted['definition'] ?? tool;
    if (reason === undefined && stringAt(text, membersOf(text)?.get('name')) !== name)
      return { name, reason: 'a policy redacts its name', text: tool };
    // What no policy has seen is not trusted.
    if (reason !== undefined || isUnavailable) return { name, reason, text };
    const description = stringAt(tool, members?.get('description')) ?? '';
    return { name, reason, text, keep: () => this.options.pins.keep(name, description, standing) };
  }
}

/** `name` is empty where it has none. `keep`: what its being let through comes to. */
type JudgedTool = { name: string; reason: string | undefined; text: string; keep?: () => void };

/** `tool` is the key of calls alone: a policy that asks for approval of them does not mean their lists and results. */
function toolPayload(name: string, tool: string, { hash, status, previous }: Standing): Record<string, unknown> {
  return {
    kind: 'mcp_tool',
    tool_name: name,
    status,
    hash,
    ...(previous === undefined ? {} : { previous }),
    definition: new JsonText(tool),
  };
}
