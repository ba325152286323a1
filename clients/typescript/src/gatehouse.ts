// The client: asks before something is done (`guard`, `decide`), and records what happened (`record`). A decision is
// never queued, batched or dropped: it is made now, or it is not there, and then `onUnavailable` says what a guard does
// (`block`, unless you say otherwise). Runs wherever there is `fetch` and WebCrypto. Installs no hooks, holds no
// process.
import type { Approval, BatchResult, Event, Submission } from './api.ts';
import { type Decision, decisionOf } from './decision.ts';
import {
  ApiError,
  ApprovalDeniedError,
  ApprovalPendingError,
  BlockedError,
  GatehouseError,
  UnavailableError,
} from './errors.ts';
import { type Counts, Recorder } from './recorder.ts';
import { activeTraceId, noteDecision } from './telemetry.ts';
import { type Call, call, type Transport } from './transport.ts';

export type OnUnavailable = 'block' | 'allow';
export type GatehouseOptions = {
  /** Of the service, as `http://127.0.0.1:8080`. */
  url: string;
  key: string;
  /** Id or name; a name that is new is registered. With a key that is bound to an agent: that agent. */
  agent: string;
  /** What guards do where no decision can be had. Left out: `block`. */
  onUnavailable?: OnUnavailable;
  /** For a decision, with all repetitions. Left out: 2,000. */
  timeoutMs?: number;
  /** How long a pending approval is waited for, beyond `timeoutMs`. Left out: 55,000. */
  approvals?: { waitMs?: number };
  fetch?: typeof fetch;
};
export type Asked = {
  type?: Submission['type'];
  tool?: string;
  arguments?: unknown;
  /** In place of `tool` and `arguments`. */
  payload?: Record<string, unknown>;
  traceId?: string | undefined;
};
export type Recorded = {
  type: Submission['type'];
  payload: Record<string, unknown>;
  traceId?: string;
  timestamp?: Date | string;
};
export type GuardOptions = { traceId?: string; onUnavailable?: OnUnavailable };

const TIMEOUT_MS = 2_000;
const WAIT_MS = 55_000;
/** A request waits no longer for an approval. */
const WAIT_SECONDS_A_CALL = 30;
const BATCH_TIMEOUT_MS = 10_000;
const FLUSH_MS = 30_000;

export class Gatehouse {
  readonly #options: GatehouseOptions;
  readonly #transport: Transport;
  readonly #recorder: Recorder;
  #agent: Promise<string> | undefined;
  #isClosed = false;

  constructor(options: GatehouseOptions) {
    this.#options = options;
    const { url, key, fetch: given = fetch } = options;
    this.#transport = { url: url.replace(/\/+$/, ''), key, fetch: (...args) => given(...args) };
    this.#recorder = new Recorder((events, how) => this.#sendBatch(events, how), BATCH_TIMEOUT_MS);
  }

  /**
   * The same function, asked about before each call. Throws BlockedError, ApprovalPendingError, ApprovalDeniedError or
   * UnavailableError, and then has not called it.
   */
  guard<Args, Result>(
    tool: string,
    run: (args: Args) => Result | Promise<Result>,
    options: GuardOptions = {},
  ): (args: Args, more?: GuardOptions) => Promise<Result> {
    return async (args, more = {}) => {
      const { traceId, onUnavailable } = { ...options, ...more };
      await this.enforce({ tool, arguments: args, traceId }, onUnavailable);
      return run(args);
    };
  }

  /** Resolves where it may be done; throws as `guard`. */
  async enforce(asked: Asked, onUnavailable?: OnUnavailable): Promise<Decision> {
    const decision = await this.decide(asked, onUnavailable);
    if (decision.allowed) return decision;
    if (decision.outcome === 'unavailable') throw new UnavailableError(decision.reason!);
    if (decision.outcome === 'pending') throw new ApprovalPendingError(decision);
    throw decision.approvalId === undefined ? new BlockedError(decision) : new ApprovalDeniedError(decision);
  }

  /** Does not throw for a service that is away: then `outcome` is `unavailable`. Throws ApiError for a mistake. */
  async decide(asked: Asked, onUnavailable: OnUnavailable = this.#options.onUnavailable ?? 'block'): Promise<Decision> {
    const { timeoutMs = TIMEOUT_MS } = this.#options;
    const deadline = Date.now() + timeoutMs;
    try {
      const agent = await this.#agentId(timeoutMs);
      const event = await this.#call<Event>({
        ...{ method: 'POST', path: `/v1/agents/${agent}/events`, body: submissionOf(asked) },
        timeoutMs: Math.max(1, deadline - Date.now()),
      });
      noteDecision(event.id);
      const decision = decisionOf(event);
      return decision.outcome === 'pending' ? await this.#decided(decision) : decision;
    } catch (error) {
      if (!(error instanceof UnavailableError)) throw error;
      return { allowed: onUnavailable === 'allow', outcome: 'unavailable', reason: error.message, policies: [] };
    }
  }

  /** false: it was dropped, since too much waits already. */
  record({ type, payload, traceId = activeTraceId(), timestamp }: Recorded): boolean {
    if (this.#isClosed) throw new GatehouseError('The client is closed.');
    const at = timestamp instanceof Date ? timestamp.toISOString() : (timestamp ?? new Date().toISOString());
    return this.#recorder.add({
      type,
      payload,
      ...(traceId === undefined ? {} : { trace_id: traceId }),
      timestamp: at,
    } as Submission);
  }

  /** Resolves when all that was recorded is sent, or has failed after `timeoutMs`. */
  flush({ timeoutMs = FLUSH_MS }: { timeoutMs?: number } = {}): Promise<Counts> {
    return this.#recorder.flush(timeoutMs);
  }

  get counts(): Counts {
    return { ...this.#recorder.counts };
  }

  async close(options?: { timeoutMs?: number }): Promise<Counts> {
    this.#isClosed = true;
    return this.flush(options);
  }

  /** The approval's last word within the time for it. */
  async #decided(pending: Decision): Promise<Decision> {
    const until = Date.now() + (this.#options.approvals?.waitMs ?? WAIT_MS);
    const id = pending.approvalId!;
    for (;;) {
      const leftMs = until - Date.now();
      if (leftMs <= 0) return pending;
      const wait = Math.min(WAIT_SECONDS_A_CALL, Math.max(1, Math.ceil(leftMs / 1000)));
      try {
        const path = `/v1/approvals/${id}?wait=${wait}`;
        const approval = await this.#call<Approval>({ method: 'GET', path, timeoutMs: leftMs });
        if (approval.outcome === 'pending') continue;
        const allowed = approval.outcome === 'allowed';
        const { reason: _reason, ...rest } = pending;
        const said = approval.status === 'denied' ? 'was denied' : 'was not given in time';
        return {
          ...rest,
          allowed,
          outcome: approval.outcome,
          ...(allowed ? {} : { reason: `Approval ${id} ${said}.` }),
        };
      } catch (error) {
        if (error instanceof UnavailableError) return pending;
        // Its opening is on its way, or the key may not read approvals.
        if (!(error instanceof ApiError) || error.status !== 404) return pending;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }

  async #sendBatch(
    events: readonly Submission[],
    how: Pick<Call, 'timeoutMs' | 'idempotencyKey' | 'isBackground'>,
  ): Promise<number> {
    const agent = await this.#agentId(how.timeoutMs);
    const path = `/v1/agents/${agent}/events/batch`;
    const { results, total } = await this.#call<BatchResult>({ method: 'POST', path, body: { events }, ...how });
    return results.length - total;
  }

  /** Once for a client; asked again after a failure. */
  #agentId(timeoutMs: number): Promise<string> {
    const { agent } = this.#options;
    if (agent.startsWith('agt_')) return Promise.resolve(agent);
    this.#agent ??= this.#findAgent(agent, timeoutMs).catch((error: unknown) => {
      this.#agent = undefined;
      throw error;
    });
    return this.#agent;
  }

  async #findAgent(name: string, timeoutMs: number): Promise<string> {
    try {
      const registration = { method: 'POST', path: '/v1/agents', body: { name }, timeoutMs } as const;
      return (await this.#call<{ id: string }>(registration)).id;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 403) throw error;
      // A key that is bound to an agent registers none.
      const { agent_id: id } = await this.#call<{ agent_id: string | null }>({
        method: 'GET',
        path: '/v1/session',
        timeoutMs,
      });
      if (id === null) throw error;
      return id;
    }
  }

  #call<T>(what: Call): Promise<T> {
    return call<T>(this.#transport, what);
  }
}

function submissionOf({
  type = 'tool_call',
  tool,
  arguments: args,
  payload,
  traceId = activeTraceId(),
}: Asked): Submission {
  const body = payload ?? { tool, arguments: args };
  return { type, payload: body, ...(traceId === undefined ? {} : { trace_id: traceId }) } as Submission;
}
