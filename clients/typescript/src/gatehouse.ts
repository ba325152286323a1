// The client: asks before something is done (`guard`, `decide`), and records what happened (`record`). A decision is
// never queued, batched or dropped: it is made now, or it is not there, and then `onUnavailable` says what a guard does
// (`block`, unless you say otherwise). Runs wherever there is `fetch` and WebCrypto. Installs no hooks, holds no
// process.
import type { Approval, BatchResult, Submission } from './api.ts';
import { type Decision, decisionOf, unexpected } from './decision.ts';
import {
  ApiError,
  ApprovalDeniedError,
  ApprovalPendingError,
  BlockedError,
  NotJsonError,
  UnavailableError,
} from './errors.ts';
import { judged, recorded } from './json.ts';
import { type Counts, Recorder } from './recorder.ts';
import { activeTraceId, noteDecision } from './telemetry.ts';
import { msOf, pause, Transport } from './transport.ts';

export type OnUnavailable = 'block' | 'allow';
export type GatehouseOptions = {
  /** The service's address, as `http://127.0.0.1:8080`, with a path where a proxy has it under one. */
  url: string;
  key: string;
  /** Id or name; a name that is new is registered. With a key that is bound to an agent: that agent. */
  agent: string;
  /** The behaviour of guards where no decision can be had. Left out: `block`. */
  onUnavailable?: OnUnavailable;
  /** For a decision, with all repetitions. Left out: 2,000. */
  timeoutMs?: number;
  /** How long a pending approval is waited for, beyond `timeoutMs`. Left out: 55,000. */
  approvals?: { waitMs?: number };
  /**
   * Asked at each call for the trace that it belongs to, as `() => requests.getStore()?.id` of an AsyncLocalStorage.
   * Left out, or undefined: that of OpenTelemetry's active span.
   */
  traceId?: () => string | undefined;
  fetch?: typeof fetch;
};
export type DecisionRequest = {
  type?: Submission['type'];
  tool?: string;
  arguments?: unknown;
  /** In place of `tool` and `arguments`. */
  payload?: unknown;
  traceId?: string | undefined;
};
export type Recorded = {
  type: Submission['type'];
  payload: Record<string, unknown>;
  traceId?: string | undefined;
  timestamp?: Date | string;
};
export type GuardOptions = {
  traceId?: string;
  onUnavailable?: OnUnavailable;
  /** The names by which policies know the arguments. Left out: one argument is judged as it is, several as a list. */
  names?: readonly string[];
};
export type CallOptions = { traceId: string | undefined };
/** The parameters of a guarded function: its arguments, and where it has one of them or none, the trace after it. */
type Taken<Args extends unknown[]> = Args extends []
  ? [args?: unknown, call?: CallOptions]
  : Args extends [infer One]
    ? [args: One, call?: CallOptions]
    : Args;

const TIMEOUT_MS = 2_000;
const WAIT_MS = 55_000;
/** A request waits no longer for an approval. */
const WAIT_SECONDS_A_CALL = 30;
/** Between two questions about an approval, whatever answers. */
const ASK_AGAIN_MS = 100;
const FLUSH_MS = 30_000;

export class Gatehouse {
  readonly #options: GatehouseOptions;
  readonly #timeoutMs: number;
  readonly #approvalMs: number;
  readonly #transport: Transport;
  readonly #recorder: Recorder;
  #agent: Promise<string> | undefined;
  #isClosed = false;

  /** Throws GatehouseError where an option cannot be meant. */
  constructor(options: GatehouseOptions) {
    this.#options = options;
    this.#timeoutMs = msOf('timeoutMs', options.timeoutMs ?? TIMEOUT_MS);
    this.#approvalMs = msOf('approvals.waitMs', options.approvals?.waitMs ?? WAIT_MS);
    this.#transport = new Transport(options.url, options.key, options.fetch ?? fetch);
    this.#recorder = new Recorder(async (texts, how) => {
      const path = `/v1/agents/${await this.#agentId(how.timeoutMs, how.isBackground)}/events/batch`;
      const body = `{"events":[${texts.join()}]}`;
      return refusedOf(await this.#transport.call({ method: 'POST', path, body, ...how }), texts.length);
    });
  }

  /**
   * The same function, asked about before each call. It gets a copy of its arguments as they were when it was called,
   * which is what was judged. Throws BlockedError, ApprovalPendingError, ApprovalDeniedError, UnavailableError,
   * ApiError or NotJsonError, and then has not called it.
   */
  guard<Args extends unknown[], Result>(
    tool: string,
    run: (...args: Args) => Result | Promise<Result>,
    options: GuardOptions = {},
  ): (...args: Taken<Args>) => Promise<Result> {
    const enforce = (text: string, traceId: string | undefined) =>
      this.#enforce(this.#submission('tool_call', payloadOf(tool, text), traceId), tool, options.onUnavailable);
    return async function (this: unknown, ...given: unknown[]) {
      const more = run.length < 2 && given.length === 2 && isCallOptions(given[1]) ? given.pop() : undefined;
      const { text, copies } = argumentsOf(given, options.names);
      await enforce(text, (more as CallOptions | undefined)?.traceId ?? options.traceId);
      return run.apply(this, copies as Args);
    };
  }

  /** Resolves where it may be done; throws as `guard`. */
  async enforce(asked: DecisionRequest, onUnavailable?: OnUnavailable): Promise<Decision> {
    const { text, tool } = this.#textOf(asked);
    return this.#enforce(text, tool, onUnavailable);
  }

  /**
   * Does not throw for a service that is away: then `outcome` is `unavailable`. Throws ApiError for a mistake, and
   * NotJsonError for what JSON has no form for.
   */
  async decide(asked: DecisionRequest, onUnavailable?: OnUnavailable): Promise<Decision> {
    const { text, tool } = this.#textOf(asked);
    return this.#decide(text, tool, onUnavailable);
  }

  /**
   * Asks about a call of a model, makes it, and records what came of it. Its completion, or its error, names the
   * prompt, so a budget settles just what it had reserved for this call. `used`: of the completion's payload, e.g.
   * `usage` as the provider answers. Throws as `enforce`, and then has not called; and what `run` throws.
   */
  async model<Result>(
    { payload, traceId = this.#traceId() }: { payload: Record<string, unknown>; traceId?: string | undefined },
    run: (decision: Decision) => Result | Promise<Result>,
    used: (result: Result) => Record<string, unknown>,
    onUnavailable?: OnUnavailable,
  ): Promise<Result> {
    const decision = await this.enforce({ type: 'prompt', payload, traceId }, onUnavailable);
    const note = (type: 'completion' | 'error', more: object) =>
      this.record({ type, payload: { model: payload['model'], for: decision.eventId, ...more }, traceId });
    const result = await Promise.resolve(decision)
      .then(run)
      .catch((error: unknown) => {
        note('error', { message: String(error) });
        throw error;
      });
    // What was paid for is recorded and given back also where `used` cannot read it: it counts as what was reserved.
    let said = {};
    try {
      said = used(result);
    } catch (error) {
      said = { usage_unread: String(error) };
    }
    note('completion', said);
    return result;
  }

  /** As it is now: what becomes of the payload later changes nothing. Never throws; false: it was dropped. */
  record(event: Recorded): boolean {
    let text: string | undefined;
    try {
      const { type, payload, traceId, timestamp: at = new Date() } = event;
      const timestamp = at instanceof Date ? at.toISOString() : at;
      if (!this.#isClosed) text = recorded({ type, payload, trace_id: traceId ?? this.#traceId(), timestamp });
    } catch {
      // no event, or no time
    }
    return this.#recorder.add(text);
  }

  /** Resolves when all that was recorded is sent, or has failed after `timeoutMs`. */
  async flush({ timeoutMs = FLUSH_MS }: { timeoutMs?: number } = {}): Promise<Counts> {
    return this.#recorder.flush(msOf('timeoutMs', timeoutMs));
  }

  get counts(): Counts {
    return { ...this.#recorder.counts };
  }

  /** The same; what is recorded later is dropped. Can be called twice. */
  async close(options?: { timeoutMs?: number }): Promise<Counts> {
    this.#isClosed = true;
    return this.flush(options);
  }

  async #enforce(text: string, tool: unknown, onUnavailable: OnUnavailable | undefined): Promise<Decision> {
    const decision = await this.#decide(text, tool, onUnavailable);
    if (decision.allowed) return decision;
    if (decision.outcome === 'unavailable') throw new UnavailableError(decision.reason!);
    if (decision.outcome === 'pending') throw new ApprovalPendingError(decision);
    throw decision.approvalId === undefined ? new BlockedError(decision) : new ApprovalDeniedError(decision);
  }

  async #decide(
    body: string,
    tool: unknown,
    onUnavailable: OnUnavailable = this.#options.onUnavailable ?? 'block',
  ): Promise<Decision> {
    const deadline = performance.now() + this.#timeoutMs;
    try {
      const path = `/v1/agents/${await this.#agentId(this.#timeoutMs)}/events`;
      const timeoutMs = deadline - performance.now();
      const decision = decisionOf(await this.#transport.call({ method: 'POST', path, body, timeoutMs }));
      noteDecision(decision.eventId!, tool);
      return decision.outcome === 'pending' ? await this.#decided(decision) : decision;
    } catch (error) {
      if (!(error instanceof UnavailableError)) throw error;
      return { allowed: onUnavailable === 'allow', outcome: 'unavailable', reason: error.message, policies: [] };
    }
  }

  /** The approval's last word within the time for it. */
  async #decided(pending: Decision): Promise<Decision> {
    const until = performance.now() + this.#approvalMs;
    for (;;) {
      const leftMs = until - performance.now();
      if (leftMs <= 0 || pending.approvalId === undefined) return pending;
      const approval = await this.#approval(pending.approvalId, leftMs);
      if (approval === undefined) return pending;
      if (approval.outcome === 'allowed' || approval.outcome === 'blocked') return decidedBy(approval, pending);
      await pause(Math.min(ASK_AGAIN_MS, leftMs), false);
    }
  }

  /** As it is after a while. undefined: it cannot be had. */
  async #approval(id: string, leftMs: number): Promise<Partial<Approval> | undefined> {
    const wait = Math.min(WAIT_SECONDS_A_CALL, Math.max(1, Math.ceil(leftMs / 1000)));
    const path = `/v1/approvals/${encodeURIComponent(id)}?wait=${wait}`;
    try {
      return ((await this.#transport.call({ method: 'GET', path, timeoutMs: leftMs })) ?? {}) as Partial<Approval>;
    } catch (error) {
      // Its opening is on its way; or the key may not read approvals.
      return error instanceof ApiError && error.status === 404 ? {} : undefined;
    }
  }

  /** Once for a client; asked again after a failure. Each caller waits for its own time. */
  async #agentId(timeoutMs: number, isBackground = false): Promise<string> {
    const { agent } = this.#options;
    if (agent.startsWith('agt_')) return encodeURIComponent(agent);
    const until = performance.now() + timeoutMs;
    for (let leftMs = timeoutMs; ; leftMs = until - performance.now()) {
      const isOwn = this.#agent === undefined;
      this.#agent ??= this.#findAgent(agent, leftMs, isBackground).catch((error: unknown) => {
        this.#agent = undefined;
        throw error;
      });
      const over = new AbortController();
      const late = pause(leftMs, isBackground, over.signal).then(() => undefined);
      try {
        const id = await Promise.race([this.#agent, late]);
        if (id !== undefined) return id;
        throw new UnavailableError('Gatehouse is not available: no answer in time');
      } catch (error) {
        // Another caller's time may have been shorter.
        if (isOwn || !(error instanceof UnavailableError) || performance.now() >= until) throw error;
      } finally {
        over.abort();
      }
    }
  }

  async #findAgent(name: string, timeoutMs: number, isBackground: boolean): Promise<string> {
    const how = { timeoutMs, isBackground };
    const registration = { method: 'POST', path: '/v1/agents', body: JSON.stringify({ name }), ...how } as const;
    let answer: unknown;
    try {
      answer = ((await this.#transport.call(registration)) as { id?: unknown } | null)?.id;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 403) throw error;
      // A key that is bound to an agent registers none.
      const session = await this.#transport.call({ method: 'GET', path: '/v1/session', ...how });
      answer = (session as { agent_id?: unknown } | null)?.agent_id;
      if (answer === null) throw error;
    }
    if (typeof answer !== 'string') throw unexpected('no agent with its id');
    return encodeURIComponent(answer);
  }

  #textOf({ type = 'tool_call', tool, arguments: args, payload, traceId }: DecisionRequest): {
    text: string;
    tool: unknown;
  } {
    if (payload === undefined) {
      const { text } = args === undefined ? { text: undefined } : judged(args, 'arguments');
      return { text: this.#submission(type, payloadOf(tool, text), traceId), tool };
    }
    const named = (payload as { tool?: unknown } | null)?.tool;
    return { text: this.#submission(type, judged(payload, 'payload').text, traceId), tool: named };
  }

  #submission(type: string, payload: string | undefined, traceId: string | undefined = this.#traceId()): string {
    const trace = traceId === undefined ? '' : `,"trace_id":${JSON.stringify(traceId)}`;
    return `{"type":${JSON.stringify(type)},"payload":${payload ?? 'null'}${trace}}`;
  }

  #traceId(): string | undefined {
    try {
      const id: unknown = this.#options.traceId?.();
      return typeof id === 'string' ? id : activeTraceId();
    } catch {
      return undefined; // a trace that cannot be had is no reason to stop
    }
  }
}

function payloadOf(tool: string | undefined, args: string | undefined): string {
  const fields = [
    tool === undefined ? [] : `"tool":${JSON.stringify(tool)}`,
    args === undefined ? [] : `"arguments":${args}`,
  ];
  return `{${fields.flat().join()}}`;
}

/** By name where they have names, else the one that there is, or the list. */
function argumentsOf(given: unknown[], names: readonly string[] | undefined): { text: string; copies: unknown[] } {
  if (names !== undefined) {
    if (given.length > names.length) throw new NotJsonError('There are more arguments than names.');
    const { text, copy } = judged(Object.fromEntries(given.map((value, i) => [names[i]!, value])), 'arguments');
    return { text: text!, copies: given.map((_value, i) => (copy as Record<string, unknown>)[names[i]!]) };
  }
  const { text, copy } = judged(given, 'arguments');
  if (given.length > 1) return { text: text!, copies: copy as unknown[] };
  // Of a list of one or none, the inside.
  const only = given[0] === undefined ? '{}' : text!.slice(1, -1);
  return { text: only, copies: copy as unknown[] };
}

/** Are these call options: the trace and nothing else? All else is an argument, which a model could put there. */
function isCallOptions(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const [first, ...others] = Reflect.ownKeys(value);
  return first === 'traceId' && others.length === 0;
}

function decidedBy({ outcome, status }: Partial<Approval>, pending: Decision): Decision {
  const { reason: _reason, ...rest } = pending;
  if (outcome === 'allowed') return { ...rest, allowed: true, outcome };
  const said = status === 'denied' ? 'was denied' : 'was not given in time';
  return { ...rest, allowed: false, outcome: 'blocked', reason: `Approval ${pending.approvalId} ${said}.` };
}

/** How many of a batch were refused, one by one. */
function refusedOf(answer: unknown, count: number): number {
  const { results, total } = (answer ?? {}) as Partial<BatchResult>;
  if (!Array.isArray(results) || results.length !== count || !Number.isInteger(total) || total! < 0 || total! > count)
    throw unexpected('not one result for each event');
  return count - total!;
}
