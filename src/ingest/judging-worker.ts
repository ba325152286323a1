// Where a front has done what takes long: events that are over the allowance of the loop that answers
// (policy/allowance.ts), large bodies, checking and trying policies. It is a thread of the front (judging-thread.ts),
// so whatever one account makes it do, the loop continues and answers the others; accounts take turns in it.
// Stands beside the path of a submission (ingest.ts): counters, idempotency and appends are done here, for the thread.
// What is submitted, what governs (a policy that is to be in force, a decision on an approval) and what is tried have a
// line each, so what an account's agents send never keeps its people from stopping them.
// Invariant: an account has one work of each line in the thread and WAITING_MAX waiting, more is refused for that
// account alone (503); what waits for checks outside has left its line, as far as there is room (ACCOUNT_AWAY_MAX). A
// submission gets its outcome once; where its client leaves, what is not recorded is dropped.
// Failure: a thread that says nothing for STILL_MS_MAX, or ends, takes its works with it: they are refused, `recorded:
// 'unknown'` where an append had begun, and the next work makes another thread.
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { ErrorDetail } from '../../schemas/error.ts';
import type { PolicyEvaluated } from '../../schemas/policy-evaluation.ts';
import { notRecorded, ServiceError } from '../common/errors.ts';
import { exactJson } from '../common/exact-json.ts';
import { FairQueue, QueueFull } from '../common/fair-queue.ts';
import { STEADY_CLOCK } from '../common/steady-clock.ts';
import type { PolicyInput } from '../policy/compile.ts';
import type { RuleSet } from '../policy/engine.ts';
import type { OutsideAnswer } from '../policy/outside.ts';
import type { PolicyTrial, PolicyWork } from '../policy/policy-work.ts';
import type { Previewed, PreviewTrial } from '../policy/replay/preview.ts';
import { assetPath } from '../process/assets.ts';
import type { Part } from '../process/lifecycle.ts';
import type { Generation } from '../streams/submissions-in-hand.ts';
import type { ReadConversation, ReadMessage } from './hook-reading.ts';
import { callerLeft } from './ingest.ts';
import type { AskedOutside, Caller, ToJudge } from './ingest-parts.ts';
import {
  bufferOf,
  type CalledParts,
  type JudgingParts,
  type JudgingWork,
  performCall,
  type SpanCalls,
} from './judging-calls.ts';
import {
  errorOf,
  type FromThread,
  type SentRules,
  type SpansMessage,
  type SubmissionCounts,
  type Submitted,
  type SubmittedSpans,
  sentError,
  type ThreadData,
  type ToThread,
} from './judging-messages.ts';

/** Accounts with a work of a line in the thread; it goes from one to the other between events. */
const ACCOUNTS_AT_ONCE = 4;
const WAITING_MAX = 64;
/** Works that wait for checks, and keep no other waiting: up to a whole batch of memory each. */
const ACCOUNT_AWAY_MAX = 8;
const AWAY_MAX = 32;
/** In line. A caller waits no longer for an answer than a multiple of it. */
const WAIT_MS_MAX = 10_000;
/** A work says something between its events, and the worst event takes a tenth of a second. */
const STILL_MS_MAX = 15_000;
const LOOK_MS = 1_000;
/**
 * One account is read at so many bytes a millisecond: what a line of 1 Gbit/s brings. Twice as much took both
 * processors of a small machine, and others waited 100 ms.
 */
const BYTES_A_MS = 125_000;
/** Accounts whose policies the thread keeps compiled: up to 20 MB each. */
const RULE_SETS_MAX = 16;
const HEAP_MB = 1_024;

/** The lines of work that wait for the thread, each by itself. */
type Line = 'submissions' | 'governing' | 'trials';
/** The client of a submission, which may leave. */
type Leaving = Pick<Caller, 'isGone' | 'whenGone'>;
/** The parts that come with a piece of work. `lineOf`: left out, submissions. */
type WorkOptions = {
  lineOf?: Line;
  bytes?: number;
  spans?: SpanCalls;
  hook?: ReadMessage[];
  caller?: Leaving;
  inHand?: Generation | undefined;
};
/** `spans` as they were sent, with what is known of the sender. */
export type SpansToJudge = {
  spans: Omit<SpansMessage, 'kind' | 'id' | keyof SentRules | 'body' | 'lastMoment'> & { body: Buffer };
  rules: RuleSet;
  calls: SpanCalls;
  inHand?: Generation;
};

export class JudgingWorker implements Part, PolicyWork {
  readonly name = 'judging thread';
  readonly #parts: JudgingParts;
  readonly #calls: CalledParts;
  readonly #lines = { submissions: line(), governing: line(), trials: line() };
  readonly #works = new Map<number, JudgingWork>();
  /** The rules that the thread knows, by account; the one that was asked for longest ago first. */
  #known = new Map<string, RuleSet>();
  #thread: Worker | undefined;
  #ids = 0;
  #heardMs = 0;
  #looking: NodeJS.Timeout | undefined;

  constructor(parts: JudgingParts) {
    this.#parts = parts;
    this.#calls = { ...parts, askOutside: (work, questions) => this.#askOutside(work, questions) };
  }

  start(): void {
    this.#looking = setInterval(() => this.#look(), LOOK_MS);
    this.#looking.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#looking);
    const thread = this.#thread;
    this.#thread = undefined;
    await thread?.terminate();
  }

  /** As this, in a line of its own: what is tried keeps nothing waiting that is to be in force. */
  readonly trials: PolicyWork = {
    check: (account, policy) => this.check(account, policy, 'trials'),
    evaluate: (account, trial) => this.evaluate(account, trial, 'trials'),
    preview: (account, trial) => this.preview(account, trial),
  };

  /** The caller gets the outcome in any case. */
  async submit({ request, agent, rules, inHand }: ToJudge, caller: Caller): Promise<void> {
    const { body, ...sent } = request;
    const { account } = sent;
    try {
      const submitted = await this.#run<Submitted>(
        'events',
        account,
        (id) => {
          const message = { kind: 'submit', id, request: sent, agent, body: sharedOrCopied(body) } as const;
          return { ...message, lastMoment: STEADY_CLOCK.last, ...this.#rulesFor(account, rules) };
        },
        { bytes: body.length, caller, inHand },
      );
      this.#count(account, submitted.counts);
      caller.accepted({ body: bufferOf(submitted.body), isRepeat: submitted.isRepeat });
    } catch (error) {
      caller.refused(error);
    }
  }

  /** Rejects with what the caller is answered. */
  async submitSpans({ spans, rules, calls, inHand }: SpansToJudge, caller: Leaving): Promise<SubmittedSpans> {
    const { account, body } = spans;
    const submitted = await this.#run<SubmittedSpans>(
      'spans',
      account,
      (id) => {
        const { last: lastMoment } = STEADY_CLOCK;
        const message = { kind: 'spans', id, ...spans, body: sharedOrCopied(body), lastMoment } as const;
        return { ...message, ...this.#rulesFor(account, rules) };
      },
      { bytes: body.length, spans: calls, caller, inHand },
    );
    const { counts } = submitted;
    this.#count(account, spans.isAgain ? { ...counts, bytes: 0 } : counts);
    return submitted;
  }

  /** `body` is copied: an answer in time is given before it is read. Rejects with what the caller is answered. */
  async readHook(
    { account, seed, body }: { account: string; seed: string; body: Buffer },
    caller: Leaving,
  ): Promise<ReadConversation> {
    const messages: ReadMessage[] = [];
    const message = (id: number) => ({ kind: 'hook', id, seed, body: sharedCopy(body) }) as const;
    const head = await this.#run<Omit<ReadConversation, 'messages'>>('hook', account, message, {
      ...{ bytes: body.length, hook: messages, caller },
    });
    return { ...head, messages };
  }

  #count(account: string, { bytes, accepted, matched, unevaluated, shadows }: SubmissionCounts): void {
    const { onBytes, onAccepted, onMatched, onUnevaluated, shadow } = this.#parts;
    shadow.onJudged(shadows);
    onBytes(account, bytes);
    for (const [outcome, events] of accepted) onAccepted(account, outcome, events);
    for (const { match, outcome, events } of matched) onMatched(account, match, { outcome, events });
    for (const [reason, times] of unevaluated) onUnevaluated(reason, times);
  }

  check(account: string, { type, conditions }: PolicyInput, lineOf: Line = 'governing'): Promise<ErrorDetail[]> {
    const message = (id: number) => ({ kind: 'check', id, type, conditions: exactJson(conditions) }) as const;
    return this.#run('policy', account, message, { lineOf });
  }

  evaluate(account: string, trial: PolicyTrial, lineOf: Line = 'governing'): Promise<PolicyEvaluated> {
    return this.#run('policy', account, (id) => ({ kind: 'evaluate', id, trial: exactJson(trial) }), { lineOf });
  }

  /** Always in the line of what is tried. */
  preview(account: string, { policy, ...trial }: PreviewTrial): Promise<Previewed> {
    const text = exactJson(policy);
    const message = (id: number) => ({ kind: 'preview', id, policy: text, ...trial }) as const;
    return this.#run('policy', account, message, { lineOf: 'trials' });
  }

  /** `message`: made when its turn has come. */
  async #run<T>(
    kind: JudgingWork['kind'],
    account: string,
    message: (id: number) => ToThread,
    given: WorkOptions,
  ): Promise<T> {
    try {
      const value = await this.#inTurn(account, given, (begun) =>
        this.#send<T>(
          { kind, account, leave: begun.leave, spans: given.spans, hook: given.hook, inHand: given.inHand },
          message,
          begun.as,
        ),
      );
      this.#parts.onWork(kind, 'done');
      return value;
    } catch (error) {
      this.#parts.onWork(kind, 'refused');
      if (error instanceof QueueFull)
        throw notRecorded(`Too much of this account takes long to judge: ${error.message}`);
      throw error;
    }
  }

  /** The caller has what came of it at once; the account's next begins when these bytes have had their time. */
  #inTurn<T>(
    account: string,
    { lineOf = 'submissions', bytes = 0, caller }: WorkOptions,
    work: (begun: { as: (id: number) => void; leave: () => void }) => Promise<T>,
  ): Promise<T> {
    if (caller?.isGone === true) return Promise.reject(callerLeft());
    const waiting = new AbortController();
    let begunId: number | undefined;
    caller?.whenGone({
      callerLeft: () => {
        waiting.abort(callerLeft());
        if (begunId !== undefined) this.#thread?.postMessage({ kind: 'left', id: begunId } satisfies ToThread);
      },
    });
    const late = setTimeout(() => waiting.abort(waitedTooLong()), WAIT_MS_MAX);
    return new Promise((resolve, reject) => {
      const turn = this.#lines[lineOf].run(account, waiting.signal, async () => {
        clearTimeout(late);
        const begunMs = performance.now();
        const as = (id: number) => {
          begunId = id;
        };
        await new Promise<void>((leave, failed) => {
          const done = work({ as, leave });
          done.then(resolve, reject);
          done.then(() => leave(), failed);
        });
        const restMs = begunMs + bytes / BYTES_A_MS - performance.now();
        if (restMs > 1) await sleep(restMs);
      });
      turn.catch((error: unknown) => {
        clearTimeout(late);
        reject(error);
      });
    });
  }

  #send<T>(
    of: Pick<JudgingWork, 'kind' | 'account' | 'spans' | 'hook' | 'inHand' | 'leave'>,
    make: (id: number) => ToThread,
    begun: (id: number) => void,
  ): Promise<T> {
    const thread = this.#running();
    const id = ++this.#ids;
    const made = make(id);
    begun(id);
    if (this.#works.size === 0) {
      this.#heardMs = performance.now();
      thread.ref();
    }
    return new Promise<T>((resolve, reject) => {
      this.#works.set(id, {
        ...{ ...of, isAppending: false, isAway: false },
        done: resolve as (value: unknown) => void,
        failed: reject,
      });
      thread.postMessage(made);
    });
  }

  #running(): Worker {
    if (this.#thread !== undefined) return this.#thread;
    const { keys, eventBytesMax } = this.#parts;
    const workerData: ThreadData = { prefix: keys.prefix, partitions: keys.partitions, eventBytesMax };
    const thread = new Worker(assetPath('build/service/judging-thread.js'), {
      workerData,
      // Nothing that the process was started with is for the thread.
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: this.#parts.heapMb ?? HEAP_MB },
    });
    thread.on('message', (message: FromThread) => this.#heard(message, thread));
    thread.on('error', (err) => this.#parts.log.error({ err }, 'judging_thread.failed'));
    thread.on('exit', () => this.#gone(thread));
    thread.unref();
    this.#thread = thread;
    this.#known = new Map();
    return thread;
  }

  #heard(message: FromThread, thread: Worker): void {
    this.#heardMs = performance.now();
    if (message.kind === 'alive') return;
    const work = this.#works.get(message.id);
    if (work === undefined) return;
    if (message.kind === 'call') {
      void performCall(message, work, this.#calls).then(
        (value) => thread.postMessage({ kind: 'answer', call: message.call, value } satisfies ToThread),
        (error: unknown) =>
          thread.postMessage({ kind: 'answer', call: message.call, error: sentError(error) } satisfies ToThread),
      );
      return;
    }
    this.#works.delete(message.id);
    if (this.#works.size === 0) thread.unref();
    if (message.kind === 'done') work.done(message.value);
    else work.failed(errorOf(message.error));
  }

  /** A check may take seconds, in which the thread has nothing to do for this work. */
  #askOutside(work: JudgingWork, questions: readonly AskedOutside[]): Promise<readonly OutsideAnswer[]> {
    const away = [...this.#works.values()].filter(({ isAway }) => isAway);
    const ofAccount = away.filter(({ account }) => account === work.account);
    if (away.length < AWAY_MAX && ofAccount.length < ACCOUNT_AWAY_MAX) {
      work.isAway = true;
      work.leave();
    }
    return this.#parts.checks.ask(work.account, questions);
  }

  /** The account's policies and prices, where the thread does not have them. */
  #rulesFor(account: string, rules: RuleSet): SentRules {
    const known = this.#known.get(account);
    this.#known.delete(account);
    this.#known.set(account, rules);
    const { traceKey, prices } = rules;
    if (known === rules) return { policies: undefined, prices: undefined, traceKey };
    const [oldest] = this.#known.keys();
    if (this.#known.size > RULE_SETS_MAX) {
      this.#known.delete(oldest!);
      this.#thread!.postMessage({ kind: 'forget', account: oldest! } satisfies ToThread);
    }
    const policies = exactJson([...rules.policies, ...(rules.shadows?.policies ?? [])]);
    return { policies, prices: prices?.record, traceKey };
  }

  #look(): void {
    if (this.#works.size === 0 || performance.now() - this.#heardMs < STILL_MS_MAX) return;
    const accounts = [...this.#works.values()].map(({ account }) => account);
    this.#parts.log.error({ accounts, stillMs: STILL_MS_MAX }, 'judging_thread.stands_still');
    void this.#thread?.terminate();
  }

  #gone(thread: Worker): void {
    if (this.#thread !== thread) return;
    this.#thread = undefined;
    const works = [...this.#works.values()];
    this.#works.clear();
    for (const work of works) work.failed(lost(work));
  }
}

function line(): FairQueue {
  return new FairQueue({ max: ACCOUNTS_AT_ONCE, accountMax: 1, waitingMax: WAITING_MAX });
}

function waitedTooLong(): ServiceError {
  return notRecorded('What of this account takes long to judge has waited too long');
}

function lost({ isAppending }: JudgingWork): ServiceError {
  if (!isAppending) return notRecorded('Judging this was broken off');
  return new ServiceError('unavailable', 'Judging this was broken off; whether anything was recorded is unknown.', {
    recorded: 'unknown',
    retryAfterSeconds: 1,
  });
}

/** Copied once: what is not shared is copied a second time on its way into the thread. */
function sharedCopy(body: Buffer): Uint8Array {
  const copy = new Uint8Array(new SharedArrayBuffer(body.length));
  copy.set(body);
  return copy;
}

/** A large body lies in memory that the thread sees; it is there until the caller has the outcome. */
function sharedOrCopied(body: Buffer): Uint8Array {
  const { buffer, byteOffset, byteLength } = body;
  return buffer instanceof SharedArrayBuffer ? new Uint8Array(buffer, byteOffset, byteLength) : sharedCopy(body);
}
