// What a front and its judging thread say to one another (judging-worker.ts, judging-thread.ts). Plain data alone: the
// structured clone copies all of it but large bodies, which lie in shared memory, and what the thread made, whose
// memory is handed over. What may hold long numbers (policies, trials) goes as text.
import type { AgentRecord } from '../../schemas/agent.ts';
import type { EventType, Outcome, PolicyType } from '../../schemas/closed-sets.ts';
import { type ErrorCode, ServiceError, type ServiceErrorOptions } from '../common/errors.ts';
import type { PriceTableRecord } from '../common/prices/price-list.ts';
import type { Moment } from '../common/steady-clock.ts';
import type { SentSpans, SpanCounts } from '../otlp/span-groups.ts';
import type { AgentRef, ResolvedAgent } from '../otlp/span-owners.ts';
import type { Before } from '../policy/observed.ts';
import type { OutsideAnswer } from '../policy/outside.ts';
import type { SequencesCounted, ToCount } from '../policy/quotas/sequence-store.ts';
import type { SpendAnswer, SpendRequest } from '../policy/quotas/spend-store.ts';
import type { PreviewTrial } from '../policy/replay/preview.ts';
import type { Begun, OnceKey } from '../streams/append-once.ts';
import type { ClaimAnswer, SpansClaim } from '../streams/span-notes.ts';
import type { ReadMessage } from './hook-reading.ts';
import type { AskedOutside, IngestRequest, MatchedPolicy, ShadowSums, WatchedEvent } from './ingest-parts.ts';
import type { QuotaGrant, QuotaRequest, QuotaReturn } from './rate-limit-batcher.ts';
import type { ShadowGrants, ShadowsAsked } from './shadow-counters.ts';

export type ThreadData = { prefix: string; partitions: number; eventBytesMax: number };

/**
 * The last moment that the sender's clock has handed out: what the receiver's clock hands out for this work lies
 * behind it (steady-clock.ts).
 */
type Dated = { lastMoment: Moment };
/**
 * `policies`: JSON of the account's, where they are not those that the thread has; `prices`: beside them, what its
 * tokens cost.
 */
export type SentRules = {
  policies: string | undefined;
  prices: PriceTableRecord | undefined;
  traceKey: string | undefined;
};
export type SubmitMessage = Dated &
  SentRules & {
    kind: 'submit';
    id: number;
    request: Omit<IngestRequest, 'body'>;
    agent: AgentRecord;
    body: Uint8Array;
  };
/** Spans of traces, as they were sent. */
export type SpansMessage = Dated &
  SentRules & {
    kind: 'spans';
    id: number;
    account: string;
    requestId: string;
    boundTo: string | undefined;
    /** It was submitted before: no span waits any more, and its bytes were counted. */
    isAgain: boolean;
  } & SentSpans;
export type ToThread =
  | SubmitMessage
  | SpansMessage
  /** A conversation, as it was sent. */
  | { kind: 'hook'; id: number; seed: string; body: Uint8Array }
  | { kind: 'check'; id: number; type: PolicyType; conditions: string }
  | { kind: 'evaluate'; id: number; trial: string }
  | ({ kind: 'preview'; id: number; policy: string } & Omit<PreviewTrial, 'policy'>)
  | { kind: 'answer'; call: number; value?: unknown; error?: SentError }
  | { kind: 'forget'; account: string }
  /** The client of this work has left: what is not recorded of it is dropped. */
  | { kind: 'left'; id: number };

/** Packed in the thread: that takes 20 ms for a large batch. */
export type SentEntry = { version: number; summaries: Uint8Array; rows: Uint8Array };
/** The calls that are performed for the thread, since it has no Redis. */
export type Calls = {
  ask: { args: { agent: string; requests: QuotaRequest[] }; answer: readonly QuotaGrant[] };
  releasePermits: { args: { agent: string; returns: QuotaReturn[] }; answer: undefined };
  askSequences: { args: { asked: ToCount }; answer: SequencesCounted };
  settleSequences: { args: { ids: readonly string[]; atMs: number }; answer: undefined };
  askSpends: { args: { requests: readonly SpendRequest[] }; answer: readonly SpendAnswer[] };
  /** Not waited for. */
  releaseSpends: { args: { requests: readonly SpendRequest[] }; answer: undefined };
  unknownBudgets: { args: { policyIds: readonly string[] }; answer: undefined };
  askShadows: { args: { agent: string; asked: ShadowsAsked }; answer: ShadowGrants };
  /** The answers of checks outside. */
  askOutside: { args: { questions: readonly AskedOutside[] }; answer: readonly OutsideAnswer[] };
  /** Not waited for. */
  watchOutside: { args: { events: readonly WatchedEvent[] }; answer: undefined };
  append: { args: Dated & { agent: string; events: number; entry: SentEntry }; answer: undefined };
  begin: { args: OnceKey & { fingerprint: string }; answer: Begun };
  appendOnce: {
    args: Dated & OnceKey & { agent: string; entry: SentEntry | undefined; token: string; outcome: string };
    answer: undefined;
  };
  release: { args: OnceKey & { token: string }; answer: undefined };
  /** Those of the events that are stored. */
  decided: { args: { ids: string[] }; answer: readonly DecidedEvent[] };
  /** Whose the spans are, and their traces, as far as earlier requests said: span-notes.ts. */
  owners: { args: { notes: string[] }; answer: readonly (string | null)[] };
  claim: { args: SpansClaim; answer: ClaimAnswer };
  /** A part of the conversation that is read, in its order. */
  hookMessages: { args: { messages: ReadMessage[] }; answer: undefined };
  /** Those that are not there are registered; text: why one cannot be had. */
  agents: { args: { refs: AgentRef[] }; answer: readonly (ResolvedAgent | string)[] };
};
export type CallName = keyof Calls;
/** The result of a submission. */
export type Submitted = { body: Uint8Array; isRepeat: boolean; counts: SubmissionCounts };
/** An event that was judged before something was done, for the span that says so. */
export type DecidedEvent = Before & { agentId: string; type: EventType; payloadText: string };
/** The result of spans. `awaited`: of each span that was left out, the notes by which its owner would be known. */
export type SubmittedSpans = SpanCounts & { counts: SubmissionCounts; awaited: string[][] };
export type CallMessage = {
  [Name in CallName]: { kind: 'call'; id: number; call: number; name: Name; args: Calls[Name]['args'] };
}[CallName];

/** The counts of an accepted submission for `IngestParts`, in sums: a batch of 100 may have 19,000 matches. */
export type SubmissionCounts = {
  bytes: number;
  accepted: [Outcome, events: number][];
  matched: { match: MatchedPolicy; outcome: Outcome; events: number }[];
  unevaluated: [reason: string, times: number][];
  shadows: ShadowSums;
};
export type FromThread =
  | CallMessage
  | { kind: 'refused'; id: number; error: SentError }
  | { kind: 'done'; id: number; value: unknown }
  | { kind: 'alive' };

/** `code` null: no ServiceError, a bug. */
type SentError = { code: ErrorCode | null; message: string; options: ServiceErrorOptions };

export function sentError(error: unknown): SentError {
  if (!(error instanceof ServiceError)) {
    return {
      code: null,
      message: error instanceof Error ? (error.stack ?? error.message) : String(error),
      options: {},
    };
  }
  const { code, message, details, recorded, retryAfterSeconds, internal } = error;
  return {
    code,
    message,
    options: {
      ...(details && { details }),
      ...(recorded !== undefined && { recorded }),
      ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
      ...(internal !== undefined && { internal }),
    },
  };
}

export function errorOf({ code, message, options }: SentError): Error {
  return code === null ? new Error(message) : new ServiceError(code, message, options);
}
