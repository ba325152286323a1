// Asks checks (behind the judgement of an event, and behind POST /v1/checks/{id}/try): one POST a question, under one
// deadline from the name to the last byte of the answer; no second try, no redirect. Of each check a process has
// `at_once` calls under way; what finds no room is answered `overload` at once, as all is while its breaker is open.
// Invariant: every question gets its answer within the check's timeout; those of a batch, which take at most half of
// the room and wait for one another alone, end within REQUEST_MS_MAX. Nothing rejects: what fails is an answer.
import type { CheckFailure } from '../../schemas/closed-sets.ts';
import type { CheckRecord } from '../../schemas/external-check.ts';
import type { GuardedHttps } from '../egress/guarded-https.ts';
import { EgressError } from '../egress/guarded-tls.ts';
import { KeptConnections } from '../egress/kept-connections.ts';
import type { Log } from '../process/log.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import type { CheckQuestion, CheckVerdict } from './formats/format.ts';
import { FORMATS } from './formats/formats.ts';

/** The bytes sent at most: a judge of texts takes no more, and an event of 1 MiB must not be sent three times. */
const SENT_BYTES_MAX = 64 * 1024;
/** The bytes that are read of an answer at most: Presidio's findings in 64 KiB of names come near. */
const ANSWER_BYTES_MAX = 256 * 1024;
/** All calls of a request end within it: its Idempotency-Key is held for 10 s, the append included. */
const REQUEST_MS_MAX = 7_000;
/** Idle connections of a check; those of a burst beyond it end with their calls. */
const KEPT_MAX = 32;
/** Checks whose state is kept; one that is left out begins again with its next call. */
const STATES_MAX = 1_000;

/** `ms`: how long it took. */
export type CheckAnswer = ({ verdict: CheckVerdict } | { failure: CheckFailure }) & { ms: number };

type State = { account: string; underWay: number; breaker: CircuitBreaker; kept: KeptConnections };
type CheckCallsParts = {
  https: Pick<GuardedHttps, 'post'>;
  log: Log;
  onCall: (check: string, result: 'answered' | CheckFailure, seconds: number) => void;
  onBreaker: (check: { id: string; name: string; account: string }, isOpen: boolean) => void;
  /** Ms of a clock that only rises. */
  now?: () => number;
};

export class CheckCalls {
  readonly #parts: CheckCallsParts;
  readonly #now: () => number;
  readonly #states = new Map<string, State>();
  readonly #stopping = new AbortController();

  constructor(parts: CheckCallsParts) {
    this.#parts = parts;
    this.#now = parts.now ?? (() => performance.now());
  }

  /** The answers in the order of the questions, which are of one request. Does not reject. */
  async ask(
    account: string,
    check: CheckRecord,
    questions: readonly CheckQuestion[],
    { isWatched = false } = {},
  ): Promise<CheckAnswer[]> {
    const state = this.#stateOf(account, check);
    // What is asked after the reply leaves room to what a reply waits for.
    const kept = isWatched ? Math.floor(check.at_once / 2) : 0;
    const room = Math.max(0, check.at_once - kept - state.underWay);
    const most = questions.length > 1 ? Math.ceil(check.at_once / 2) : 1;
    const lanes = Math.min(room, most, questions.length);
    const answers: CheckAnswer[] = questions.map(() => ({ failure: 'overload', ms: 0 }));
    const endMs = this.#now() + REQUEST_MS_MAX - check.timeout_ms;
    let next = 0;
    const lane = async () => {
      while (next < questions.length && this.#now() < endMs) {
        const i = next++;
        answers[i] = await this.#one(check, state, questions[i]!);
      }
    };
    state.underWay += lanes;
    try {
      await Promise.all(Array.from({ length: lanes }, async () => lane().finally(() => state.underWay--)));
    } finally {
      for (const answer of answers) this.#count(check, answer);
    }
    return answers;
  }

  /** Ends the calls that are under way as errors. */
  stop(): void {
    this.#stopping.abort('aborted');
    for (const { kept } of this.#states.values()) kept.destroy();
  }

  #count({ id }: CheckRecord, answer: CheckAnswer): void {
    this.#parts.onCall(id, 'failure' in answer ? answer.failure : 'answered', answer.ms / 1000);
  }

  async #one(check: CheckRecord, { breaker, kept }: State, question: CheckQuestion): Promise<CheckAnswer> {
    const startMs = this.#now();
    const msSince = () => Math.round(this.#now() - startMs);
    const format = FORMATS[check.speaks];
    const body = Buffer.from(format.request(check, question));
    if (body.length > SENT_BYTES_MAX) return { failure: 'too_large', ms: msSince() };
    const ended = breaker.begin(startMs);
    if (ended === undefined) return { failure: 'overload', ms: msSince() };
    try {
      const verdict = format.verdict(await this.#posted(check, body, kept), question.texts);
      ended(false, this.#now());
      return { verdict, ms: msSince() };
    } catch (error) {
      ended(true, this.#now());
      const failure = error instanceof EgressError && error.reason === 'timeout' ? 'timeout' : 'error';
      this.#parts.log.debug({ check: check.id, failure, err: error }, 'check.failed');
      return { failure, ms: msSince() };
    }
  }

  /** The JSON of the answer. Throws what went wrong. */
  async #posted(
    { url, secret, timeout_ms: timeoutMs }: CheckRecord,
    body: Buffer,
    kept: KeptConnections,
  ): Promise<unknown> {
    const { status, text } = await this.#parts.https.post(url, {
      headers: {
        'content-type': 'application/json',
        accept: 'application/json',
        ...(secret === null ? {} : { authorization: `Bearer ${secret}` }),
      },
      body,
      timeoutMs,
      signal: this.#stopping.signal,
      wholeBytesMax: ANSWER_BYTES_MAX,
      kept,
    });
    if (status !== 200) throw new Error(`status ${status}`);
    return parsedAnswer(text);
  }

  #stateOf(account: string, { id, name }: CheckRecord): State {
    let state = this.#states.get(id);
    if (state === undefined) {
      const breaker = new CircuitBreaker((isOpen) => {
        this.#parts.log.warn({ check: id, name }, isOpen ? 'check.breaker_open' : 'check.breaker_closed');
        this.#parts.onBreaker({ id, name, account }, isOpen);
      });
      state = { account, underWay: 0, breaker, kept: new KeptConnections(KEPT_MAX) };
    } else this.#states.delete(id);
    this.#states.set(id, state);
    if (this.#states.size > STATES_MAX) this.#forgetOldest();
    return state;
  }

  #forgetOldest(): void {
    const [oldest] = this.#states;
    this.#states.delete(oldest![0]);
    const [id, { breaker, account }] = oldest!;
    if (breaker.isOpen) this.#parts.onBreaker({ id, name: '', account }, false);
  }
}

/** The other side's text is not for the log, and V8 quotes it. */
function parsedAnswer(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('the answer is no JSON');
  }
}
