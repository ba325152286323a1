// The path of an event through a front, written out; read this file first.
//
//   read      body -> submissions: one pass, schema, payload marked         400
//   agent     known? from the cache that Redis invalidates                  404
//   once      has this Idempotency-Key been answered?                       409, or the first answer again
//   backlog   is there room downstream?                                     503
//   judge     every rule of every event, from memory
//   count     rate limits of all events of the tick, one round trip         503
//   decide    allowed, blocked or pending
//   encode    the row that ClickHouse will be given, and a summary
//   append    one entry per partition and tick, in Redis's append-only file 503
//   reply     the events with their policy_result
//
// Invariant: a submission ends in exactly one of allowed, blocked, pending (then it is in the stream before the reply) or
// refused with an error and no trace; only an append whose answer was lost is `recorded: "unknown"`.
// Knows nothing of HTTP. Whatever fails before the append leaves nothing behind but places taken in rate counters.

import { createHash } from 'node:crypto';
import type { AgentRecord } from '../../schemas/agent.ts';

import { ServiceError } from '../common/errors.ts';
import { isId, mintId } from '../common/ids.ts';
import { TooLong } from '../policy/allowance.ts';
import { agentInactive, judge, type RuleSet } from '../policy/engine.ts';
import type { Decision, Judgement } from '../policy/judgement.ts';
import type { Append } from '../streams/append.ts';
import { type AcceptedEvent, encodeEvents } from './encode.ts';
import type { FastPath } from './fast-path.ts';
import { type AtHand, backlogFull, callerLeft, type FastParts, FastSubmission } from './fast-submission.ts';
import type { Answer, Caller, IngestParts, IngestRequest } from './ingest-parts.ts';
import type { Shape } from './json.ts';
import { keptVerdicts, readVerdicts } from './kept-verdicts.ts';
import { type Judged, resolveQuotas } from './resolve-quotas.ts';
import { type Element, isRejected, readBatch, readSubmission } from './submission.ts';
import { renderBatch, renderEvent, type Verdict } from './submission-reply.ts';
import { View } from './view.ts';

export class Ingest {
  readonly #parts: IngestParts;
  /** null: every event takes the general path. */
  readonly #way: FastParts | null;

  /** `plain`: null makes every event take the general path. */
  constructor(parts: IngestParts, plain: FastPath | null) {
    this.#parts = parts;
    this.#way =
      plain === null
        ? null
        : {
            ...{ parts, plain, allowances: parts.apart?.allowances },
            count: (request, judged) => this.#count(request, judged),
            setApart: (request, shape, caller) => this.#setApart(request, shape, caller),
          };
  }

  /** One event. The answer is the JSON text of the Event. */
  single(request: IngestRequest, caller: Caller): void {
    this.#submit(request, 'one', caller);
  }

  /** Up to 100 events. The answer is the JSON text of the results, in the order of submission. */
  batch(request: IngestRequest, caller: Caller): void {
    this.#submit(request, 'many', caller);
  }

  #submit(request: IngestRequest, shape: Shape, caller: Caller): void {
    const { apart } = this.#parts;
    const { length } = request.body;
    const atHand = apart !== undefined && length > apart.plainBytesMax ? undefined : this.#readPlain(request, shape);
    if (atHand !== undefined) new FastSubmission(this.#way!, { request, shape, atHand, caller }).begin();
    else if (apart !== undefined && length > apart.parsedBytesMax) this.#setApart(request, shape, caller);
    else this.#tell(request, shape, caller);
  }

  #tell(request: IngestRequest, shape: Shape, caller: Caller): void {
    (shape === 'one' ? this.#acceptOne(request, caller) : this.#acceptMany(request, caller))
      .then((made) => caller.accepted(made))
      .catch((error: unknown) => {
        if (error instanceof TooLong) this.#setApart(request, shape, caller);
        else caller.refused(error);
      });
  }

  /** Nothing of the submission is left: it begins anew in the judging thread. */
  #setApart(request: IngestRequest, shape: Shape, caller: Caller): void {
    caller.setApart();
    this.#judgedBy(request)
      .then((by) => this.#parts.apart!.worker.submit({ request, shape, ...by }, caller))
      .catch((error: unknown) => caller.refused(error));
  }

  async #judgedBy({ account, agentId }: IngestRequest): Promise<{ agent: AgentRecord; rules: RuleSet }> {
    if (this.#parts.backlog.full()) throw backlogFull();
    const agent = await this.#agent(account, agentId);
    return { agent, rules: await this.#parts.cache.rules(account) };
  }

  async #acceptOne(request: IngestRequest, caller: Caller): Promise<Answer> {
    const submission = readSubmission(request.body, Date.now());
    const verdicts = await this.#accept(request, { shape: 'one', elements: [submission], caller });
    return { body: renderEvent(request.agentId, submission, verdicts[0]!) };
  }

  async #acceptMany(request: IngestRequest, caller: Caller): Promise<Answer> {
    const elements = readBatch(request.body, Date.now(), this.#parts.eventBytesMax);
    const verdicts = await this.#accept(request, { shape: 'many', elements, caller });
    return { body: renderBatch(request.agentId, elements, verdicts) };
  }

  /** undefined: the general path must see it. Whatever has to be fetched first or refused is its business, too. */
  #readPlain(request: IngestRequest, shape: Shape): AtHand | undefined {
    const { account, agentId, idempotencyKey } = request;
    if (this.#way === null || idempotencyKey !== undefined) return undefined;
    const agent = this.#parts.cache.agent(account, agentId);
    if (agent === null || agent instanceof Promise || agent.record.status === 'inactive') return undefined;
    const rules = this.#parts.cache.rules(account);
    if (rules instanceof Promise) return undefined;
    const read = this.#way.plain.read(request.body, shape, rules, Date.now(), this.#parts.eventBytesMax);
    return read === undefined ? undefined : { agent: agent.record, rules, read };
  }

  async #accept(
    request: IngestRequest,
    { shape, elements, caller }: { shape: Shape; elements: Element[]; caller: Caller },
  ): Promise<Verdict[]> {
    const { account, agentId, idempotencyKey } = request;
    const agent = await this.#agent(account, agentId);
    if (idempotencyKey === undefined) {
      const { events, verdicts } = await this.#decide(request, agent, elements);
      const { summaries, rows } = encodeEvents(events);
      await this.#append({ account, agent: agentId, summaries, rows }, caller);
      this.#count(request, events);
      return verdicts;
    }
    return this.#acceptOnce(request, { agent, elements, shape }, idempotencyKey);
  }

  /** Rejects where the caller left before Redis was sent anything. */
  #append(append: Append, caller: Caller): Promise<void> {
    if (caller.isGone) return Promise.reject(callerLeft());
    const { appender } = this.#parts;
    return new Promise((appended, refused) => {
      const waiting = { appended, refused };
      appender.appendFor(append, waiting);
      caller.whenGone({
        callerLeft: () => {
          if (appender.takeBack(append, waiting)) refused(callerLeft());
        },
      });
    });
  }

  /** The append and the kept outcome are one atomic step, so a retry finds both or neither. */
  async #acceptOnce(
    request: IngestRequest,
    { agent, elements, shape }: { agent: AgentRecord; elements: Element[]; shape: Shape },
    key: string,
  ): Promise<Verdict[]> {
    const { account, agentId } = request;
    const partition = this.#parts.keys.partitionOf(account, agentId);
    // Agent and path are part of what is compared: the same body elsewhere is another request.
    const fingerprint = createHash('sha256').update(`${agentId}/${shape}\0`).update(request.body).digest('base64url');
    const started = await this.#parts.once.begin({ partition, account, key, fingerprint });
    if (started.state === 'replay') return readVerdicts(started.outcome);
    const { token } = started;
    try {
      const { events, verdicts } = await this.#decide(request, agent, elements);
      const { summaries, rows } = encodeEvents(events);
      await this.#parts.once.append({
        partition,
        account,
        agent: agentId,
        key,
        token,
        summaries,
        rows,
        outcome: keptVerdicts(verdicts),
      });
      this.#count(request, events);
      return verdicts;
    } catch (error) {
      // After a lost answer the record stays until it expires: the append may have landed, and its outcome with it.
      if (!(error instanceof ServiceError && error.recorded === 'unknown')) {
        await this.#parts.once.release({ partition, account, key, token });
      }
      throw error;
    }
  }

  async #agent(account: string, agentId: string): Promise<AgentRecord> {
    const cached = isId('agent', agentId) ? this.#parts.cache.agent(account, agentId) : null;
    const agent = cached instanceof Promise ? await cached : cached;
    if (agent === null) throw new ServiceError('not_found', 'No such agent.', { recorded: false });
    return agent.record;
  }

  async #decide(
    request: IngestRequest,
    agent: AgentRecord,
    elements: Element[],
  ): Promise<{ events: AcceptedEvent[]; verdicts: Verdict[] }> {
    if (this.#parts.backlog.full()) throw backlogFull();
    const { account, requestId } = request;
    const judged = await this.#judge(account, agent, elements);
    const now = Date.now();
    const events: AcceptedEvent[] = [];
    const verdicts = elements.map((element, i): Verdict => {
      if (isRejected(element)) return element;
      const { decision, countedAt } = judged[i]!;
      // What a rate limit counted arrived when it was counted: so the events that are kept show that the limit held.
      const receivedAt = countedAt ?? now;
      const id = mintId('event', receivedAt); // recovery looks for an id at its own time
      events.push({ account, agent, id, submission: element, receivedAt, decision, requestId });
      return { id, occurredAt: element.occurredAt, receivedAt, result: decision.resultJson };
    });
    return { events, verdicts };
  }

  /** A decision for each sound element; rejected ones have a hole. */
  async #judge(account: string, agent: AgentRecord, elements: Element[]): Promise<Judged[]> {
    const cached = this.#parts.cache.rules(account);
    const rules: RuleSet = cached instanceof Promise ? await cached : cached;
    const allowance = this.#parts.apart?.allowances.begin(account, performance.now());
    const judgements: (Judgement | null)[] = [];
    for (const element of elements) {
      judgements.push(isRejected(element) ? null : judge(rules, new View(element, agent), allowance));
      const others = this.#parts.pause?.();
      if (others !== undefined) await others;
    }
    if (agent.status === 'inactive') return judgements.map(blockedWhole);
    return resolveQuotas(this.#parts.rateLimits, account, agent.id, judgements);
  }

  #count({ account, body }: IngestRequest, judged: readonly { decision: Decision }[]): void {
    this.#parts.onBytes(account, body.length);
    let from = 0;
    for (let i = 1; i <= judged.length; i++) {
      const { decision } = judged[from]!;
      if (i < judged.length && judged[i]!.decision === decision) continue;
      this.#parts.onAccepted(account, decision.outcome, i - from);
      for (const match of decision.matches) {
        this.#parts.onMatched(account, match, { outcome: decision.outcome, events: i - from });
        if (match.detail.reason !== undefined) this.#parts.onUnevaluated(match.detail.reason, 1);
      }
      from = i;
    }
  }
}

/** Of an agent that is switched off: no counter is asked. */
function blockedWhole(judgement: Judgement | null): Judged {
  return judgement === null ? (undefined as never) : { decision: agentInactive(judgement), countedAt: undefined };
}
