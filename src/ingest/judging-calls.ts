// What the judging thread asks its front to do (of judging-worker.ts): counters, idempotency, appends and what is known
// of spans stay with the front, which has the connections. A call belongs to one work, and acts for its account alone.
// Failure: a call that rejects is answered with its error, and the work goes on by it.
import { type Moment, STEADY_CLOCK } from '../common/steady-clock.ts';
import type { AgentRef, ResolvedAgent } from '../otlp/span-owners.ts';
import type { OutsideAnswer } from '../policy/outside.ts';
import type { Log } from '../process/log.ts';
import type { Appender } from '../streams/append.ts';
import type { AppendOnce } from '../streams/append-once.ts';
import type { PackedEntry } from '../streams/packing.ts';
import type { ClaimAnswer, SpansClaim } from '../streams/span-notes.ts';
import type { Generation } from '../streams/submissions-in-hand.ts';
import type { ReadMessage } from './hook-reading.ts';
import type { AskedOutside, IngestParts, ShadowParts } from './ingest-parts.ts';
import type { CallMessage, CallName, Calls, DecidedEvent, SentEntry } from './judging-messages.ts';

/** The parts that are called for the thread, and those that are called with what it accepted. */
export type JudgingParts = Pick<
  IngestParts,
  | 'rateLimits'
  | 'sequences'
  | 'checks'
  | 'watchOutside'
  | 'spends'
  | 'onUnknownBudgets'
  | 'keys'
  | 'eventBytesMax'
  | 'onAccepted'
  | 'onMatched'
  | 'onBytes'
  | 'onUnevaluated'
> & {
  shadow: Pick<ShadowParts, 'counters' | 'onJudged'>;
  appender: Pick<Appender, 'appendPacked'>;
  once: Pick<AppendOnce, 'begin' | 'appendPacked' | 'release'>;
  log: Log;
  /** Left out: HEAP_MB. */
  heapMb?: number;
  onWork: (kind: JudgingWork['kind'], result: 'done' | 'refused') => void;
};

/** The calls for spans that need what the thread does not have. */
export type SpanCalls = {
  resolve: (refs: readonly AgentRef[]) => Promise<(ResolvedAgent | string)[]>;
  owners: (notes: readonly string[]) => Promise<readonly (string | null)[]>;
  claim: (claim: SpansClaim) => Promise<ClaimAnswer>;
  /** Finds those of the events that are stored. Does not reject. */
  decided: (ids: readonly string[]) => Promise<DecidedEvent[]>;
};

/** In the thread. */
export type JudgingWork = {
  kind: 'events' | 'spans' | 'policy' | 'hook';
  account: string;
  isAppending: boolean;
  /** Its place in the line is another's. */
  isAway: boolean;
  /** Gives its place up. */
  leave: () => void;
  /** The messages that are read of a hook; other work has none. */
  hook: ReadMessage[] | undefined;
  /** The calls of spans; other work has none. */
  spans: SpanCalls | undefined;
  /** As what it was submitted; other work is not. */
  inHand: Generation | undefined;
  done: (value: unknown) => void;
  failed: (error: unknown) => void;
};

/** With how checks are asked for a work, which may give its place in the line up. */
export type CalledParts = JudgingParts & {
  askOutside: (work: JudgingWork, questions: readonly AskedOutside[]) => Promise<readonly OutsideAnswer[]>;
};

type Perform<Name extends CallName> = (args: Calls[Name]['args'], work: JudgingWork, parts: CalledParts) => unknown;

/** The calls that are performed for the thread, by the name under which it asks. */
const PERFORMED: { [Name in CallName]: Perform<Name> } = {
  ask: ({ agent, requests }, { account }, { rateLimits }) =>
    new Promise((counted, refused) => rateLimits.ask(account, agent, requests, { counted, refused })),
  releasePermits: ({ agent, returns }, { account }, { rateLimits }) =>
    rateLimits.releasePermits(account, agent, returns),
  askSequences: ({ asked }, { account }, { sequences }) =>
    new Promise((sequencesCounted, refused) => sequences.ask(account, asked, { sequencesCounted, refused })),
  settleSequences: ({ ids, atMs }, { account }, { sequences }) => sequences.settle(account, ids, atMs),
  askSpends: ({ requests }, { account }, { spends }) =>
    new Promise((spent, refused) => spends.ask(account, requests, { spent, refused })),
  releaseSpends: ({ requests }, { account }, { spends }) => spends.release(account, requests),
  unknownBudgets: ({ policyIds }, { account }, { onUnknownBudgets }) => onUnknownBudgets(account, policyIds),
  askShadows: ({ agent, asked }, { account }, { shadow }) =>
    new Promise((answered) => shadow.counters.ask(account, agent, asked, answered)),
  askOutside: ({ questions }, work, { askOutside }) => askOutside(work, questions),
  watchOutside: ({ events }, { account }, { watchOutside }) => watchOutside(account, events),
  append: ({ lastMoment, entry, ...append }, work, { appender }) => {
    beginAppend(work, lastMoment);
    return appender.appendPacked({ account: work.account, ...append, entry: packedOf(entry) });
  },
  begin: (key, _work, { once }) => once.begin(key),
  appendOnce: ({ lastMoment, entry, ...append }, work, { once }) => {
    beginAppend(work, lastMoment);
    return once.appendPacked({ ...append, entry: entry && packedOf(entry) });
  },
  release: (key, _work, { once }) => once.release(key),
  decided: ({ ids }, { spans }) => spans!.decided(ids),
  owners: ({ notes }, { spans }) => spans!.owners(notes),
  claim: (claim, { spans }) => spans!.claim(claim),
  hookMessages: ({ messages }, { hook }) => void hook!.push(...messages),
  agents: ({ refs }, { spans }) => spans!.resolve(refs),
};

/** Does for the thread what it asks for. */
export async function performCall(
  { name, args }: CallMessage,
  work: JudgingWork,
  parts: CalledParts,
): Promise<unknown> {
  return (PERFORMED[name] as Perform<typeof name>)(args as never, work, parts);
}

function packedOf({ version, summaries, rows }: SentEntry): PackedEntry {
  return { version, summaries: bufferOf(summaries), rows: bufferOf(rows) };
}

/** The clone of a Buffer is a Uint8Array. */
export function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function beginAppend(work: JudgingWork, lastMoment: Moment): void {
  work.inHand?.refuseLate();
  work.isAppending = true;
  STEADY_CLOCK.notBefore(lastMoment);
}
