// Asks checks after the reply (ingest.ts, behind the append of an event whose policies watch): what a check says is
// recorded as an event of its own, a `custom` one of the same agent and trace, which those policies match. So a slow
// judge keeps no one waiting, what it finds raises alerts, and a sequence can have it as a step.
// Invariant: nothing waits for it, and nothing is stopped by it. A check has AT_ONCE of these calls at a time and
// WAITING_MAX that wait, of WAITING_BYTES_MAX in all; what finds no room is not asked, and counted.
// Failure: what was not asked, or not recorded, when the process ends or Redis is away is left out.
import type { AskedCheck } from '../../schemas/match-detail.ts';
import { FairQueue, QueueFull } from '../common/fair-queue.ts';
import { askedCheck, type OutsideAnswer } from '../policy/outside.ts';
import type { Log } from '../process/log.ts';
import type { Answer, Caller, IngestRequest, OutsideChecks, WatchedEvent } from './ingest-parts.ts';

/** Calls of one check: what is decided before a reply must find room beside them. */
const AT_ONCE = 4;
const ALL_AT_ONCE = 64;
const WAITING_MAX = 200;
const WAITING_BYTES_MAX = 32 * 1024 * 1024;
/** No account takes the room of all. */
const ACCOUNT_BYTES_MAX = WAITING_BYTES_MAX / 4;

type Submits = { submit(request: IngestRequest, caller: Caller): void };
type Parts = {
  checks: OutsideChecks;
  log: Log;
  /** Called for each that finds no room. */
  onDropped: () => void;
};

export class OutsideWatching {
  readonly #parts: Parts;
  readonly #queue = new FairQueue({ max: ALL_AT_ONCE, accountMax: AT_ONCE, waitingMax: WAITING_MAX });
  readonly #stopping = new AbortController();
  #bytes = 0;
  readonly #bytesOf = new Map<string, number>();
  #ingest: Submits | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Verdicts are recorded by it from now on. */
  recordingBy<T extends Submits>(ingest: T): T {
    this.#ingest = ingest;
    return ingest;
  }

  stop(): void {
    this.#stopping.abort();
  }

  readonly watchOutside = (account: string, events: readonly WatchedEvent[]): void => {
    for (const event of events) void this.#one(account, event);
  };

  /** Does not reject. */
  async #one(account: string, event: WatchedEvent): Promise<void> {
    const bytes = bytesOf(event);
    const ofAccount = this.#bytesOf.get(account) ?? 0;
    const isFull = this.#bytes + bytes > WAITING_BYTES_MAX || (ofAccount > 0 && ofAccount + bytes > ACCOUNT_BYTES_MAX);
    if (this.#stopping.signal.aborted || isFull) return this.#parts.onDropped();
    this.#count(account, bytes);
    try {
      const ask = () => this.#answerOf(account, event);
      const answer = await this.#queue.run(`${account}/${event.check}`, this.#stopping.signal, ask);
      // It was not asked: the metric of its calls says so.
      if ('failure' in answer && answer.failure === 'overload') return;
      await this.#record(account, event, answer);
    } catch (error) {
      if (error instanceof QueueFull) this.#parts.onDropped();
      else if (!this.#stopping.signal.aborted) this.#parts.log.warn({ err: error, account }, 'check.verdict_lost');
    } finally {
      this.#count(account, -bytes);
    }
  }

  #count(account: string, bytes: number): void {
    this.#bytes += bytes;
    const ofAccount = (this.#bytesOf.get(account) ?? 0) + bytes;
    if (ofAccount === 0) this.#bytesOf.delete(account);
    else this.#bytesOf.set(account, ofAccount);
  }

  async #answerOf(account: string, { question, failure }: WatchedEvent): Promise<OutsideAnswer> {
    if (question === undefined) return { failure: failure!, ms: 0 };
    const [answer] = await this.#parts.checks.ask(account, [question], { isWatched: true });
    return answer!;
  }

  /** Rejects with what the submission is refused with. */
  #record(account: string, event: WatchedEvent, answer: OutsideAnswer): Promise<void> {
    const { agentId, eventId, check, fields, policyIds } = event;
    const verdict = { check, fields, policyIds, answer };
    const body = Buffer.from(JSON.stringify(verdictEvent(event, askedCheck(event, answer))));
    return new Promise((resolve, refused) => {
      const accepted = ({ release }: Answer) => {
        release?.();
        resolve();
      };
      const of = { account, agentId, shape: 'one', body, requestId: eventId, idempotencyKey: undefined } as const;
      const nothing = () => undefined;
      const caller = { accepted, refused, offloaded: nothing, whenGone: nothing, isGone: false };
      this.#ingest?.submit({ ...of, verdict }, caller);
    });
  }
}

function verdictEvent({ eventId, type, traceId, policyIds }: WatchedEvent, said: AskedCheck) {
  const payload = { kind: 'check_verdict', event_id: eventId, event_type: type, policy_ids: policyIds, ...said };
  return { type: 'custom', payload, ...(traceId === undefined ? {} : { trace_id: traceId }) };
}

/** Two for a character, and what is around them. */
function bytesOf({ question }: WatchedEvent): number {
  const texts = question?.texts.reduce((sum, text) => sum + text.length, 0) ?? 0;
  return 1_024 + 2 * (texts + (question?.payloadText?.length ?? 0));
}
