// The input of a submission, its callbacks, and the parts of ingestion (types alone; between ingest.ts, its
// codecs and the judging thread).

import type { AgentRecord } from '../../schemas/agent.ts';
import type { CheckFailure, EventType, Outcome, ShadowSkip, ShadowVerdict } from '../../schemas/closed-sets.ts';
import type { PolicyMatch } from '../../schemas/event.ts';
import type { NamedQuestion } from '../checks/account-checks.ts';
import type { SteadyClock } from '../common/steady-clock.ts';
import type { Pause } from '../common/steps.ts';
import type { JudgedEvent } from '../otlp/gateway-trace.ts';
import type { Allowance, Allowances, Allowed } from '../policy/allowance.ts';
import type { RuleSet } from '../policy/engine.ts';
import type { OutsideAnswer, WatchVerdict } from '../policy/outside.ts';
import type { Keys } from '../redis/keys.ts';
import type { RegistryCache } from '../registry/cache/cache.ts';
import type { Appender } from '../streams/append.ts';
import type { AppendOnce } from '../streams/append-once.ts';
import type { Backlog } from '../streams/backlog.ts';
import type { Generation, SubmissionsInHand } from '../streams/submissions-in-hand.ts';
import type { Shape } from './json.ts';
import type { JudgingSlices } from './judging-slices.ts';
import type { RateLimitBatcher } from './rate-limit-batcher.ts';
import type { SequenceBatcher } from './sequence-batcher.ts';
import type { ShadowCounters } from './shadow-counters.ts';
import type { SpendBatcher } from './spend-batcher.ts';

export type IngestRequest = {
  account: string;
  agentId: string;
  shape: Shape;
  body: Buffer;
  requestId: string;
  idempotencyKey: string | undefined;
  /** For what it is sent: for another purpose the same body is another request. Left out: to be recorded. */
  purpose?: string | undefined;
  /** The event says what a check said after the reply: its policies match it, and no check is asked about it. */
  verdict?: WatchVerdict | undefined;
};
/**
 * JSON text, unless `contentType` says otherwise. `release`: to be called when the body is no longer read; left out
 * where garbage collection is enough. `isRepeat`: it was given before, under this Idempotency-Key.
 */
export type Answer = {
  body: string | Buffer;
  contentType?: string;
  release?: (() => void) | undefined;
  isRepeat?: boolean;
  /** Not as ingestion has made it: in the form of a decision point. */
  isOwnForm?: true;
};
/** Who waits for a submission. One of the two is called, once, perhaps before the submission's call returns. */
export type Caller = {
  accepted(answer: Answer): void;
  refused(error: unknown): void;
  /** Called with the verdict of the policies on an event whose answer has a form of its own. */
  judged?(event: JudgedEvent): void;
  /** Called where the submission leaves the loop that answers: it is no measure of how far that is behind. */
  offloaded(): void;
  /** Has the client left? Then nothing is recorded that has not been sent to Redis. */
  readonly isGone: boolean;
  /** Called once the append waits, with the callback for a client that leaves. */
  whenGone(waiting: { callerLeft(): void }): void;
};
export type MatchedPolicy = Pick<PolicyMatch, 'policy_id' | 'name' | 'type'>;
/** A question to the check of this name, as plain data. */
export type AskedOutside = NamedQuestion;
export type OutsideChecks = {
  ask(
    account: string,
    questions: readonly AskedOutside[],
    how?: { isWatched: boolean },
  ): Promise<readonly OutsideAnswer[]>;
};
/** The question to a check after the reply. `question` undefined: nothing is sent, and `failure` is the answer. */
export type WatchedEvent = {
  eventId: string;
  type: EventType;
  agentId: string;
  traceId: string | undefined;
  check: string;
  fields: readonly string[] | null;
  policyIds: readonly string[];
  question: AskedOutside | undefined;
  failure: CheckFailure | undefined;
};
export type IngestParts = {
  cache: Pick<RegistryCache, 'agent' | 'rules'>;
  rateLimits: Pick<RateLimitBatcher, 'ask' | 'releasePermits'>;
  sequences: Pick<SequenceBatcher, 'ask' | 'settle'>;
  spends: Pick<SpendBatcher, 'ask' | 'release'>;
  /** Called where is not known yet what was spent of budgets before. Of accounts that have some. */
  onUnknownBudgets: (account: string, policyIds: readonly string[]) => void;
  appender: Pick<Appender, 'appendFor' | 'takeBack'>;
  once: Pick<AppendOnce, 'begin' | 'append' | 'release'>;
  backlog: Pick<Backlog, 'full'>;
  /** Left out: who hands submissions over has them in hand. */
  inHand?: Pick<SubmissionsInHand, 'begin' | 'end'>;
  /** The answers in the order of the questions. */
  checks: OutsideChecks;
  /** Called after the append of events that checks watch. */
  watchOutside: (account: string, events: readonly WatchedEvent[]) => void;
  keys: Keys;
  /** The clock by which events are dated when they are received. */
  clock: Pick<SteadyClock, 'now' | 'take'>;
  /** Bytes of one event, wherever it comes. */
  eventBytesMax: number;
  /** Called after their append, for so many neighbours of a request at once. */
  onAccepted: (account: string, outcome: Outcome, events: number) => void;
  /** Called for each policy that matched them. */
  onMatched: (account: string, match: MatchedPolicy, of: { outcome: Outcome; events: number }) => void;
  /** Called once an accepted submission. */
  onBytes: (account: string, bytes: number) => void;
  /**
   * Called for a rule that could not be evaluated and so counted as a match (fail closed): `error`, `expression_error`,
   * `budget`.
   */
  onUnevaluated: (reason: string, times: number) => void;
  /** By what shadows are judged; of accounts that have some. */
  shadow: ShadowParts;
  /** Where what takes long is judged, and how much is not long. Left out: everything is judged here, to its end. */
  offload?: Offload;
  /**
   * Called while events are judged, after every few milliseconds of work. Left out: they are judged without a pause.
   */
  pause?: Pause;
};
/** By what shadows are judged (shadow-judging.ts). */
export type ShadowParts = {
  counters: Pick<ShadowCounters, 'ask'>;
  allowances: Pick<Allowances<Allowance>, 'begin'>;
  /** Called after the append of a submission of which they said something. */
  onJudged: (sums: ShadowSums) => void;
};
/** The sums over shadows and events: how often each verdict was given, and why some were not. */
export type ShadowSums = { said: [ShadowVerdict, number][]; skipped: [ShadowSkip, number][] };
type Offload = {
  worker: { submit(submission: ToJudge, caller: Caller): Promise<void> };
  /** `inTurn`: what an event may take where the account waits for its turns. */
  shares: { begin(account: string, nowMs: number): Allowed & { readonly inTurn: Allowed } };
  /** Where accounts that are over their share take turns. */
  slices: Pick<JudgingSlices, 'judge'>;
  /** A codec reads larger bodies there alone. */
  bytesMax: { wasm: number; json: number };
};
export type ToJudge = { request: IngestRequest; agent: AgentRecord; rules: RuleSet; inHand?: Generation | undefined };
