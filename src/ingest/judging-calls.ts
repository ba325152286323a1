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
import type { CallMessage, DecidedEvent, SentEntry } from './judging-messages.ts';

/** What is done for the thread, and called with what it accepted. */
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

/** What spans need that the thread does not have. */
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
  /** What is read of a hook; other work has none. */
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

/** Does for the thread what it asks for. */
export async function performCall(message: CallMessage, work: JudgingWork, parts: CalledParts): Promise<unknown> {
  const { rateLimits, sequences, spends, onUnknownBudgets, appender, once, shadow, askOutside } = parts;
  const { account } = work;
  switch (message.name) {
    case 'askShadows':
      return new Promise((answered) => shadow.counters.ask(account, message.args.agent, message.args.asked, answered));
    case 'ask':
      return new Promise((counted, refused) => {
        rateLimits.ask(account, message.args.agent, message.args.requests, { counted, refused });
      });
    case 'releasePermits':
      return rateLimits.releasePermits(account, message.args.agent, message.args.returns);
    case 'askSequences':
      return new Promise((sequencesCounted, refused) =>
        sequences.ask(account, message.args.asked, { sequencesCounted, refused }),
      );
    case 'settleSequences':
      return sequences.settle(account, message.args.ids, message.args.atMs);
    case 'askOutside':
      return askOutside(work, message.args.questions);
    case 'watchOutside':
      return parts.watchOutside(account, message.args.events);
    case 'askSpends':
      return new Promise((spent, refused) => spends.ask(account, message.args.requests, { spent, refused }));
    case 'releaseSpends':
      return spends.release(account, message.args.requests);
    case 'unknownBudgets':
      return onUnknownBudgets(account, message.args.policyIds);
    case 'append': {
      const { lastMoment, entry, ...append } = message.args;
      beginAppend(work, lastMoment);
      return appender.appendPacked({ account, ...append, entry: packedOf(entry) });
    }
    case 'begin':
      return once.begin(message.args);
    case 'hookMessages':
    case 'agents':
    case 'owners':
    case 'claim':
    case 'decided':
      return performed(message, work);
    case 'appendOnce': {
      const { lastMoment, entry, ...append } = message.args;
      beginAppend(work, lastMoment);
      return once.appendPacked({ ...append, entry: entry && packedOf(entry) });
    }
    default:
      return once.release(message.args);
  }
}

type OwnCall = Extract<CallMessage, { name: 'hookMessages' | 'agents' | 'owners' | 'claim' | 'decided' }>;

function performed(message: OwnCall, { spans, hook }: JudgingWork): unknown {
  switch (message.name) {
    case 'hookMessages':
      return void hook!.push(...message.args.messages);
    case 'agents':
      return spans!.resolve(message.args.refs);
    case 'owners':
      return spans!.owners(message.args.notes);
    case 'claim':
      return spans!.claim(message.args);
    default:
      return spans!.decided(message.args.ids);
  }
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
