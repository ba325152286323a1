// The path of an event through a front, written out; read this file first.
//   decode    body -> events, by one of two codecs (codec.ts)               400
//   agent     known? from the cache that Redis invalidates                  404
//   begin     has this Idempotency-Key been answered?                       409, or the first answer again
//   admit     is there room downstream?                                     503
//   judge     every rule of every event, from memory
//   reserve   permits of rate limits, what budgets have left, what was before a sequence: a round trip each 503
//   decide    allowed, blocked or pending; checks outside are asked about what is not blocked (outside-judging.ts)
//   encode    the row that ClickHouse will be given, a summary, the answer
//   aside     what shadows would have said (shadow-judging.ts), what events cost (event-cost.ts), of accounts that ask
//   append    one entry per partition and tick, in Redis's append-only file 503
//   reply     the events with their policy_result
import { createHash } from 'node:crypto';
import type { AgentRecord } from '../../schemas/agent.ts';
import { notRecorded, ServiceError } from '../common/errors.ts';
import { atOnce, type Pause } from '../common/steps.ts';
import { type Allowed, TooLong } from '../policy/allowance.ts';
import { agentInactive } from '../policy/decide.ts';
import type { RuleSet } from '../policy/engine.ts';
import type { Judgement } from '../policy/judgement.ts';
import type { SpendAnswer } from '../policy/quotas/spend-store.ts';
import type { AppendCaller } from '../streams/append.ts';
import type { Begun, OnceKey } from '../streams/append-once.ts';
import type { Generation } from '../streams/submissions-in-hand.ts';
import { Arrivals } from './arrival.ts';
import type { Codec, DecodedBody, Encoded } from './codec.ts';
import { countRecorded } from './count-recorded.ts';
import { costElement } from './event-cost.ts';
import type { Answer, Caller, IngestParts, IngestRequest, WatchedEvent } from './ingest-parts.ts';
import type { JudgingSlices } from './judging-slices.ts';
import { askOutside, decidedByVerdict, watchedOf } from './outside-judging.ts';
import type { QuotaGrant, QuotaWaiter } from './rate-limit-batcher.ts';
import { BudgetsAsked } from './resolve-budgets.ts';
import { type Decided, decideRuns, type Run, requestsOf, returnsOf, runsOf } from './resolve-quotas.ts';
import { matchedSequences, type SequencesAsked, sequencesAsked, toSettle } from './resolve-sequences.ts';
import { ShadowJudging } from './shadow-judging.ts';

// Each step is started by the completion of the one before. These are callbacks, not promises, because most submissions
// wait twice: the promises and async frames of two waits were a third of what a single event allocated and a fifth of
// its cost.
// Invariant: a submission ends in exactly one of allowed, blocked, pending (then it is in the stream before the reply)
// or refused with an error and no trace; only an append whose answer was lost is `recorded: "unknown"`. The caller is
// called exactly once. Knows nothing of HTTP. Whatever fails before the append leaves nothing behind but permits taken
// from rate limits.

export class Ingest {
  readonly #parts: IngestParts;
  readonly #codecs: readonly Codec[];

  /** `codecs`: tried in order; the last one reads every body. */
  constructor(parts: IngestParts, codecs: readonly Codec[]) {
    this.#parts = parts;
    this.#codecs = codecs;
  }

  /** The answer is JSON text: of the Event, or of the results in the order of submission. */
  submit(request: IngestRequest, caller: Caller): void {
    new Submission(this.#parts, this.#codecs, { request, caller }).begin();
  }
}

type Agent = AgentRecord | null;

class Submission implements QuotaWaiter, AppendCaller {
  readonly #parts: IngestParts;
  readonly #codecs: readonly Codec[];
  readonly #request: IngestRequest;
  readonly #caller: Caller;
  readonly #inHand: Generation | undefined;
  #agent!: AgentRecord;
  #rules!: RuleSet;
  /** Epoch ms with a fraction. */
  #readAt = 0;
  #body: DecodedBody | undefined;
  /** The token of the Idempotency-Key, while this request owns it. */
  #token: string | undefined;
  #judgements: (Judgement | null)[] = [];
  #runs: readonly Run[] = [];
  #judged: readonly (Decided | null)[] = [];
  /** undefined: no sequence was asked about. */
  #counted: { asked: SequencesAsked; atMs: number } | undefined;
  #grants: readonly QuotaGrant[] = NO_GRANTS;
  /** As the limits alone decide. */
  #limited: readonly (Decided | null)[] = [];
  /** Where an event needed its id before it was encoded. */
  #arrivals: Arrivals | undefined;
  /** undefined: the account has no shadows, or none is judged. */
  #shadows: ShadowJudging | undefined;
  /** undefined: no budget concerns the events. */
  #budgets: BudgetsAsked | undefined;
  /** The questions to checks once the events are recorded. */
  #watched: readonly WatchedEvent[] = NOT_WATCHED;
  #answer: Answer | undefined;

  constructor(
    parts: IngestParts,
    codecs: readonly Codec[],
    { request, caller }: { request: IngestRequest; caller: Caller },
  ) {
    this.#parts = parts;
    this.#codecs = codecs;
    this.#request = request;
    this.#caller = caller;
    this.#inHand = parts.inHand?.begin();
  }

  begin(): void {
    try {
      const { account, agentId } = this.#request;
      const agent = this.#parts.cache.agent(account, agentId);
      const rules = this.#parts.cache.rules(account);
      if (agent instanceof Promise || rules instanceof Promise) this.#whenFetched(Promise.all([agent, rules]));
      else this.#decode(agent?.record ?? null, rules);
    } catch (error) {
      this.refused(error);
    }
  }

  #whenFetched(fetched: Promise<[{ record: AgentRecord } | null, RuleSet]>): void {
    fetched.then(([agent, rules]) => this.#decode(agent?.record ?? null, rules)).catch((error) => this.refused(error));
  }

  #decode(agent: Agent, rules: RuleSet): void {
    this.#rules = rules;
    const isApart = !this.#readBody();
    if (agent === null) throw new ServiceError('not_found', 'No such agent.', { recorded: false });
    this.#agent = agent;
    if (isApart) this.#leave();
    else if (this.#request.idempotencyKey === undefined) this.#admit();
    else this.#beginOnce(this.#request.idempotencyKey);
  }

  /** false: it is too large to be read on the loop that answers. */
  #readBody(): boolean {
    const { offload, clock, eventBytesMax } = this.#parts;
    this.#readAt = clock.now();
    const nowMs = Math.floor(this.#readAt);
    for (const codec of this.#codecs) {
      if (offload !== undefined && this.#request.body.length > offload.bytesMax[codec.name]) continue;
      this.#body = codec.decode(this.#request, { rules: this.#rules, nowMs, eventBytesMax });
      if (this.#body !== undefined) return true;
    }
    return false;
  }

  /** Goes on in a callback: what is thrown there refuses the submission. */
  #attempt(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.refused(error);
    }
  }

  /** Append and kept outcome are one atomic step, so a retry finds both or neither. */
  #beginOnce(key: string): void {
    const { agentId, shape, body, purpose = '' } = this.#request;
    // Agent and path are part of what is compared: the same body elsewhere is another request.
    const place = `${agentId}/${shape}${purpose}\0`;
    const fingerprint = createHash('sha256').update(place).update(body).digest('base64url');
    this.#parts.once
      .begin({ ...this.#onceKey(key), fingerprint })
      .then((begun) => this.#begun(begun))
      .catch((error: unknown) => this.refused(error));
  }

  #begun(begun: Begun): void {
    if (begun.state === 'replay') {
      const answer = this.#body!.repeat!(begun.outcome);
      this.#release();
      this.#ended();
      this.#caller.accepted({ ...answer, isRepeat: true });
      return;
    }
    this.#token = begun.token;
    this.#admit();
  }

  #admit(): void {
    if (this.#parts.backlog.full()) throw backlogFull();
    this.#judge();
  }

  #judge(): void {
    const { offload, pause } = this.#parts;
    if (pause !== undefined) {
      this.#judgeWithPauses(pause).catch((error: unknown) => this.refused(error));
      return;
    }
    const share = this.#rules.size === 0 ? undefined : offload?.shares.begin(this.#request.account, performance.now());
    try {
      while (this.#judgeNext(share));
    } catch (error) {
      if (!(error instanceof TooLong) || share?.isSpent !== true) throw error;
      this.#judgeInSlices(offload!.slices, share.inTurn);
      return;
    }
    this.#allJudged();
  }

  /** false: none is left. */
  #judgeNext(allowed: Allowed | undefined): boolean {
    const body = this.#body!;
    const next = this.#judgements.length;
    if (next === body.elements) return false;
    this.#judgements.push(atOnce(body.judging(next, this.#agent, this.#rules, allowed)));
    return true;
  }

  #judgeInSlices(slices: Pick<JudgingSlices, 'judge'>, allowed: Allowed): void {
    // What waits for its own is no measure of how far this front is behind.
    this.#caller.offloaded();
    slices
      .judge(this.#request.account, this.#caller, () => this.#judgeNext(allowed))
      .then(() => this.#allJudged())
      .catch((error: unknown) => this.refused(error));
  }

  #allJudged(): void {
    this.#shadows = this.#shadowsToJudge();
    this.#shadows?.judge();
    this.#reserve();
  }

  async #judgeWithPauses(pause: Pause): Promise<void> {
    const body = this.#body!;
    for (let i = 0; i < body.elements; i++) {
      const work = body.judging(i, this.#agent, this.#rules);
      this.#judgements.push(await this.#rules.turns.do(work, pause));
      await pause();
    }
    this.#shadows = this.#shadowsToJudge();
    await this.#shadows?.judgeWithPauses(pause);
    this.#reserve();
  }

  /** No policy says anything of events of an agent that is switched off. */
  #shadowsToJudge(): ShadowJudging | undefined {
    const { shadows } = this.#rules;
    if (shadows === undefined || this.#agent.status === 'inactive') return undefined;
    const [parts, request, rules, body, agent] = [this.#parts, this.#request, this.#rules, this.#body!, this.#agent];
    return new ShadowJudging({ parts, request, rules, shadows, body, agent, nowMs: this.#readAt });
  }

  #reserve(): void {
    // Nothing is counted of what no client waits for.
    if (this.#caller.isGone) throw callerLeft();
    if (this.#agent.status === 'inactive') {
      const judged = this.#judgements.map(blockedWhole);
      // What its calls have used is charged all the same.
      if (this.#isOfBudgets) this.#askBudgets(judged);
      else this.#append(judged);
      return;
    }
    this.#runs = runsOf(this.#judgements);
    const requests = requestsOf(this.#runs);
    if (requests.length === 0) this.#granted(NO_GRANTS);
    else this.#parts.rateLimits.ask(this.#request.account, this.#request.agentId, requests, this);
  }

  counted(grants: readonly QuotaGrant[]): void {
    try {
      this.#granted(grants);
    } catch (error) {
      this.refused(error);
    }
  }

  #granted(grants: readonly QuotaGrant[]): void {
    const judged = decideRuns(this.#runs, grants);
    this.#grants = grants;
    this.#limited = judged;
    if (this.#isOfBudgets) this.#askBudgets(judged);
    else this.#budgeted(judged);
  }

  get #isOfBudgets(): boolean {
    return this.#rules.hasBudgets && this.#judgements.some(isOfBudgets);
  }

  #askBudgets(judged: readonly (Decided | null)[]): void {
    const [agent, body, nowMs] = [this.#agent, this.#body!, this.#readAt];
    const of = { agent, body, judgements: this.#judgements, judged, arrivals: this.#arrivalsOf(judged), nowMs };
    const budgets = new BudgetsAsked({ ...of, prices: this.#rules.prices });
    this.#budgets = budgets;
    const { account } = this.#request;
    const spent = (answers: readonly SpendAnswer[]) => {
      budgets.answered(answers);
      if (budgets.unknown.size > 0) this.#parts.onUnknownBudgets(account, [...budgets.unknown]);
      if (this.#agent.status === 'inactive') this.#settled(judged);
      else this.#budgeted(decideRuns(this.#runs, this.#grants, { budgets: budgets.matches }));
    };
    if (budgets.requests.length === 0) spent([]);
    else
      this.#parts.spends.ask(account, budgets.requests, {
        spent: (answers) => this.#attempt(() => spent(answers)),
        refused: (error) => this.refused(error),
      });
  }

  #budgeted(judged: readonly (Decided | null)[]): void {
    if (this.#rules.hasSequences && this.#judgements.some(isOfSequences)) this.#askSequences(judged);
    else this.#decided(judged);
  }

  #askSequences(judged: readonly (Decided | null)[], isSpread = false): void {
    const arrivals = this.#arrivalsOf(judged);
    const asked = sequencesAsked(this.#judgements, judged, { agent: this.#agent.id, arrivals, isSpread });
    if (asked === undefined) {
      this.#decided(judged);
      return;
    }
    const toCount = { events: asked.events, submission: asked.events[0]!.id };
    this.#parts.sequences.ask(this.#request.account, toCount, {
      sequencesCounted: ({ answers, atMs, isUnasked }) =>
        this.#attempt(() => {
          if (isUnasked) return this.#askSequences(judged, true);
          this.#counted = { asked, atMs };
          const sequences = matchedSequences(asked, answers);
          const later = { sequences, budgets: this.#budgets?.matches };
          this.#decided(sequences === undefined ? judged : decideRuns(this.#runs, this.#grants, later));
        }),
      refused: (error) => this.refused(error),
    });
  }

  #decided(judged: readonly (Decided | null)[]): void {
    const { checks } = this.#parts;
    const { verdict } = this.#request;
    if (verdict !== undefined) {
      this.#settled(decidedByVerdict(judged, verdict, this.#rules));
      return;
    }
    const judgements = this.#judgements;
    const asked =
      this.#rules.outside.asks && askOutside({ judgements, judged, rules: this.#rules }, checks, this.#request);
    if (!asked) {
      this.#settled(judged);
      return;
    }
    // What waits for others is no measure of how far this front is behind.
    this.#caller.offloaded();
    asked.then((all) => this.#settled(all)).catch((error: unknown) => this.refused(error));
  }

  /** An event that is blocked by what was asked behind the limits takes no permit, and holds nothing of a budget. */
  #settled(judged: readonly (Decided | null)[]): void {
    const [limited, budgets] = [this.#limited, this.#budgets];
    if (judged !== limited) {
      const isReturned = (i: number) => isPassed(limited[i]) && !isPassed(judged[i]);
      const { account, agentId } = this.#request;
      this.#parts.rateLimits.releasePermits(account, agentId, returnsOf(this.#runs, this.#grants, isReturned));
    }
    if (budgets === undefined) {
      this.#withShadows(judged);
      return;
    }
    this.#parts.spends.release(this.#request.account, budgets.releases(judged));
    this.#withShadows(budgets.told(judged));
  }

  #withShadows(judged: readonly (Decided | null)[]): void {
    if (this.#shadows === undefined) {
      this.#append(judged);
      return;
    }
    const append = () => this.#attempt(() => this.#append(judged));
    this.#shadows.decide(judged, () => this.#arrivalsOf(judged), append);
  }

  #arrivalsOf(judged: readonly (Decided | null)[]): Arrivals {
    this.#arrivals ??= Arrivals.of(this.#parts.clock, judged, this.#readAt);
    return this.#arrivals;
  }

  #append(judged: readonly (Decided | null)[]): void {
    // The caller may have left while counters were asked.
    if (this.#caller.isGone) throw callerLeft();
    this.#inHand?.refuseLate();
    this.#judged = judged;
    const arrivals = this.#arrivalsOf(judged);
    if (this.#rules.outside.watches && this.#request.verdict === undefined)
      this.#watched = watchedOf({ judgements: this.#judgements, judged }, (i) => arrivals.fix(i));
    const encoded = this.#withAside(this.#body!.encode(this.#agent, judged, arrivals), judged);
    this.#answer = encoded.answer;
    if (this.#token !== undefined) {
      this.#appendOnce(this.#token, encoded);
      return;
    }
    const { account, agentId: agent } = this.#request;
    const { summaries, events, rows } = encoded;
    this.#parts.appender.appendFor({ account, agent, summaries, events, rows }, this);
    this.#caller.whenGone(this);
  }

  /** With what is said beside the rows: by shadows, and what the events cost. */
  #withAside(encoded: Encoded, judged: readonly (Decided | null)[]): Encoded {
    const { prices } = this.#rules;
    const costs = prices === undefined ? undefined : costElement(prices, this.#body!, judged);
    const charged = this.#budgets?.element(judged);
    const aside = [...(this.#shadows?.elements(judged) ?? []), costs, charged].filter((one) => one !== undefined);
    return aside.length === 0 ? encoded : { ...encoded, summaries: [...encoded.summaries, ...aside] };
  }

  #appendOnce(token: string, { summaries, rows, outcome }: Encoded): void {
    const { idempotencyKey, agentId: agent } = this.#request;
    this.#parts.once
      .append({ ...this.#onceKey(idempotencyKey!), token, agent, summaries, rows, outcome: outcome! })
      .then(() => this.appended())
      .catch((error: unknown) => this.refused(error));
  }

  /** As where a second request comes on the connection before the first is answered, and the transport closes it. */
  callerLeft(): void {
    const { account, agentId: agent } = this.#request;
    if (this.#parts.appender.takeBack({ account, agent }, this)) this.refused(callerLeft());
  }

  appended(): void {
    const counted = this.#counted;
    const ids = counted === undefined ? NO_IDS : toSettle(counted.asked, this.#judged);
    this.#shadows?.recorded();
    if (ids.length === 0) this.#recorded();
    else void this.#parts.sequences.settle(this.#request.account, ids, counted!.atMs).then(() => this.#recorded());
  }

  #recorded(): void {
    this.#ended();
    try {
      this.#release();
      this.#shadows?.count();
      countRecorded(this.#parts, this.#request, this.#judged);
      this.#caller.accepted(this.#answer!);
      if (this.#watched.length > 0) this.#parts.watchOutside(this.#request.account, this.#watched);
    } catch (error) {
      this.#caller.refused(error);
    }
  }

  refused(error: unknown): void {
    this.#release();
    this.#answer?.release?.();
    // After a lost answer what is held ends by itself: the append may have landed.
    const isUnknown = error instanceof ServiceError && error.recorded === 'unknown';
    if (!isUnknown) {
      if (this.#budgets !== undefined) this.#parts.spends.release(this.#request.account, this.#budgets.releases());
      this.#shadows?.release();
    }
    const token = this.#token;
    // After a lost answer the record stays until it expires: the append may have landed, and its outcome with it.
    if (token === undefined || isUnknown) {
      this.#end(error);
      return;
    }
    const end = () => this.#end(error);
    this.#parts.once.release({ ...this.#onceKey(this.#request.idempotencyKey!), token }).then(end, end);
  }

  #end(error: unknown): void {
    if (error instanceof TooLong) this.#leave();
    else this.#refuse(error);
  }

  #refuse(error: unknown): void {
    this.#ended();
    this.#caller.refused(error);
  }

  #ended(): void {
    if (this.#inHand !== undefined) this.#parts.inHand!.end(this.#inHand);
  }

  /** Nothing of the submission is left: it begins again in the judging thread. */
  #leave(): void {
    const { offload, backlog } = this.#parts;
    this.#caller.offloaded();
    if (backlog.full()) {
      this.#refuse(backlogFull());
      return;
    }
    const toJudge = { request: this.#request, agent: this.#agent, rules: this.#rules, inHand: this.#inHand };
    void offload!.worker.submit(toJudge, this.#caller).finally(() => this.#ended());
  }

  #onceKey(key: string): OnceKey {
    const { account, agentId } = this.#request;
    return { partition: this.#parts.keys.partitionOf(account, agentId), account, key };
  }

  #release(): void {
    this.#body?.release();
    this.#body = undefined;
  }
}

const NO_GRANTS: readonly QuotaGrant[] = [];
const NO_IDS: readonly string[] = [];
const NOT_WATCHED: readonly WatchedEvent[] = [];

function isOfSequences(judgement: Judgement | null): boolean {
  return judgement !== null && judgement.sequences !== null;
}

function isPassed(judged: Decided | null | undefined): boolean {
  return judged !== null && judged !== undefined && judged.decision.outcome !== 'blocked';
}

/** The judgement of an agent that is switched off: no counter is asked. */
function blockedWhole(judgement: Judgement | null): Decided | null {
  return judgement === null ? null : { decision: agentInactive(judgement), countedAt: undefined };
}

function isOfBudgets(judgement: Judgement | null): boolean {
  return judgement?.spends !== undefined;
}

export function backlogFull(): ServiceError {
  return notRecorded('The backlog is full');
}

/** It is never read: the caller has left. */
export function callerLeft(): ServiceError {
  return new ServiceError('unavailable', 'The caller has left; nothing was recorded.', { recorded: false });
}
