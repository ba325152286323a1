// A submission on the fast path: the steps of ingest.ts from `judge` to `reply`, each started by the completion of the one before.
// Written with callbacks, not promises, because most submissions wait twice: the promises and async frames of two waits were a third of what a single event
// allocated and a fifth of its cost.
// Invariant: the caller is told exactly once, accepted or refused, whatever throws; the memory of the submission is released then.
// Failure: what is refused before the append leaves nothing behind but permits counted in rate limits.
import type { AgentRecord } from '../../schemas/agent.ts';
import { ServiceError } from '../common/errors.ts';
import { type Allowances, TooLong } from '../policy/allowance.ts';
import type { RuleSet } from '../policy/engine.ts';
import type { AppendCaller } from '../streams/append.ts';
import type { FastPath, FastRead } from './fast-path.ts';
import type { Answer, Caller, IngestParts, IngestRequest } from './ingest-parts.ts';
import type { Shape } from './json.ts';
import type { QuotaGrant, QuotaWaiter } from './rate-limit-batcher.ts';
import { decideRuns, type Judged, type Run, requestsOf, runsOf } from './resolve-quotas.ts';

/** A plain body, with what it is judged by. */
export type AtHand = { agent: AgentRecord; rules: RuleSet; read: FastRead };

/** What all submissions of a front share. `count`: called with what was accepted. */
export type FastParts = {
  parts: Pick<IngestParts, 'rateLimits' | 'appender' | 'backlog'>;
  plain: FastPath;
  allowances: Pick<Allowances, 'begin'> | undefined;
  count: (request: IngestRequest, judged: readonly Judged[]) => void;
  /** What takes too long here is judged elsewhere, from its beginning. */
  setApart: (request: IngestRequest, shape: Shape, caller: Caller) => void;
};

const NO_COUNTS: readonly QuotaGrant[] = [];

export class FastSubmission implements QuotaWaiter, AppendCaller {
  readonly #way: FastParts;
  readonly #request: IngestRequest;
  readonly #shape: Shape;
  readonly #atHand: AtHand;
  readonly #caller: Caller;
  #runs: readonly Run[] = [];
  #judged: readonly Judged[] = [];
  #answer: Answer | undefined;

  constructor(
    way: FastParts,
    { request, shape, atHand, caller }: { request: IngestRequest; shape: Shape; atHand: AtHand; caller: Caller },
  ) {
    this.#way = way;
    this.#request = request;
    this.#shape = shape;
    this.#atHand = atHand;
    this.#caller = caller;
  }

  begin(): void {
    try {
      const { parts, plain } = this.#way;
      const { read, agent, rules } = this.#atHand;
      if (parts.backlog.full()) throw backlogFull();
      const allowance =
        rules.size === 0 ? undefined : this.#way.allowances?.begin(this.#request.account, performance.now());
      this.#runs = runsOf(plain.judge(read, agent, rules, allowance));
      const asks = requestsOf(this.#runs);
      if (asks.length > 0) parts.rateLimits.ask(this.#request.account, this.#request.agentId, asks, this);
      else this.counted(NO_COUNTS);
    } catch (error) {
      this.refused(error);
    }
  }

  counted(counts: readonly QuotaGrant[]): void {
    try {
      // In the judging thread and behind counters a caller may have left meanwhile.
      if (this.#caller.isGone) throw callerLeft();
      const { parts, plain } = this.#way;
      const { account, agentId } = this.#request;
      const { read, agent } = this.#atHand;
      const judged = decideRuns(this.#runs, counts);
      this.#judged = judged;
      const written = plain.write(this.#request, this.#shape, { agent, read, judged, now: Date.now() });
      this.#answer = written.answer;
      const { rows, summaries } = written;
      parts.appender.appendFor({ account, agent: agentId, summaries: [summaries], events: judged.length, rows }, this);
      this.#caller.whenGone(this);
    } catch (error) {
      this.refused(error);
    }
  }

  /** As where a second request comes on the connection before the first is answered, and the transport closes it. */
  callerLeft(): void {
    const { account, agentId: agent } = this.#request;
    if (this.#way.parts.appender.takeBack({ account, agent }, this)) this.refused(callerLeft());
  }

  appended(): void {
    try {
      this.#way.plain.release(this.#atHand.read);
      this.#way.count(this.#request, this.#judged);
      this.#caller.accepted(this.#answer!);
    } catch (error) {
      this.#caller.refused(error);
    }
  }

  refused(error: unknown): void {
    this.#way.plain.release(this.#atHand.read);
    if (error instanceof TooLong) {
      this.#way.setApart(this.#request, this.#shape, this.#caller);
      return;
    }
    this.#answer?.release?.();
    this.#caller.refused(error);
  }
}

export function backlogFull(): ServiceError {
  return new ServiceError('unavailable', 'The backlog is full; nothing was recorded.', {
    recorded: false,
    retryAfterSeconds: 1,
  });
}

/** Heard by nobody: the caller has left. */
export function callerLeft(): ServiceError {
  return new ServiceError('unavailable', 'The caller has left; nothing was recorded.', { recorded: false });
}
