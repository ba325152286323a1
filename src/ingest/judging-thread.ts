// The thread in which a front judges what takes long (judging-worker.ts says what and why): the same submissions as in
// ingest.ts, without an allowance. It has no Redis; counters and appends are the front's, asked for by messages.
// Invariant: nothing is acknowledged here; the front answers once it has appended. Between the rules of an event other
// accounts have their turn, and it is looked whether the client has left: what was not appended is dropped then.
// Failure: what is refused goes back as it is; an unexpected error ends the thread,
// and the front starts another.

import os from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import type { AgentRecord } from '../../schemas/agent.ts';
import type { Outcome, ShadowSkip, ShadowVerdict } from '../../schemas/closed-sets.ts';
import type { Policy } from '../../schemas/policy.ts';
import { parseExact } from '../common/exact-json.ts';
import { STEADY_CLOCK, steadyNow } from '../common/steady-clock.ts';
import { SHADOW_UNITS_APART, shadowAllowances } from '../policy/allowance.ts';
import type { RuleSet } from '../policy/engine.ts';
import { evaluated, mistakesOf, type PolicyTrial } from '../policy/policy-work.ts';
import { prepareRules } from '../policy/prepare-rules.ts';
import { previewed } from '../policy/replay/preview.ts';
import { Keys } from '../redis/keys.ts';
import { entryOf } from '../streams/append-once.ts';
import { inParts, readConversation } from './hook-reading.ts';
import { callerLeft, Ingest } from './ingest.ts';
import type { Answer, Caller, IngestParts, MatchedPolicy, ShadowSums } from './ingest-parts.ts';
import { JsonCodec } from './json-codec.ts';
import { bufferOf } from './judging-calls.ts';
import {
  type CallName,
  type Calls,
  errorOf,
  type FromThread,
  type SentEntry,
  type SentRules,
  type SpansMessage,
  type SubmissionCounts,
  type SubmitMessage,
  type Submitted,
  type SubmittedSpans,
  sentError,
  type ThreadData,
  type ToThread,
} from './judging-messages.ts';
import type { QuotaRequest } from './rate-limit-batcher.ts';
import { nothingOf } from './shadow-counters.ts';
import { SpanJudging } from './span-judging.ts';
import { spendAmounts } from './spend-amounts.ts';
import { WasmCodec } from './wasm-codec.ts';

const { prefix, partitions, eventBytesMax } = workerData as ThreadData;
const port = parentPort!;
const keys = new Keys({ prefix, partitions });
/** Work that others do not wait for. */
const SLICE_MS = 10;
/** The front takes a thread that says nothing for seconds for one that stands still. */
const ALIVE_EVERY_MS = 500;
/** It gives way to the loop that answers. Linux takes 0 for the calling thread, and only for it. */
const NICE = 5;
if (process.platform === 'linux') os.setPriority(0, NICE);

const ofShadows = shadowAllowances(SHADOW_UNITS_APART);
const codecs = [new WasmCodec(), new JsonCodec()];

const waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
const rulesOf = new Map<string, Promise<RuleSet>>();
/** Under way. */
const works = new Map<number, { isLeft: boolean }>();
let calls = 0;
let slicedMs = performance.now();

setInterval(() => {
  if (works.size > 0) say({ kind: 'alive' });
}, ALIVE_EVERY_MS);

port.on('message', (message: ToThread) => {
  if ('lastMoment' in message) STEADY_CLOCK.notBefore(message.lastMoment);
  switch (message.kind) {
    case 'submit':
      void work(
        message.id,
        () => submit(message),
        ({ body }) => [body.buffer as ArrayBuffer],
      );
      break;
    case 'spans':
      void work(message.id, () => submitSpans(message));
      break;
    case 'hook':
      void work(message.id, () => readHook(message));
      break;
    case 'check':
      void work(message.id, async () =>
        mistakesOf({ type: message.type, conditions: parseExact(message.conditions), actions: [] }),
      );
      break;
    case 'evaluate':
      void work(message.id, async () => evaluated(parseExact(message.trial) as unknown as PolicyTrial));
      break;
    case 'preview': {
      const { id, policy: text, agents, events, prices } = message;
      const policy = parseExact(text) as unknown as Policy;
      void work(id, async () => previewed({ policy, agents, events, prices }, pause, spendAmounts));
      break;
    }
    case 'left': {
      const left = works.get(message.id);
      if (left !== undefined) left.isLeft = true;
      break;
    }
    case 'answer':
      answered(message);
      break;
    default:
      rulesOf.delete(message.account);
  }
});

function say(message: FromThread, transfer: ArrayBuffer[] = []): void {
  port.postMessage(message, transfer);
}

/** `memory`: what of the value is handed over and not copied. */
async function work<T>(id: number, done: () => Promise<T>, memory: (value: T) => ArrayBuffer[] = NONE): Promise<void> {
  works.set(id, { isLeft: false });
  try {
    const value = await done();
    say({ kind: 'done', id, value }, memory(value));
  } catch (error) {
    say({ kind: 'refused', id, error: sentError(error) });
  } finally {
    works.delete(id);
  }
}

function call<Name extends CallName>(
  id: number,
  name: Name,
  args: Calls[Name]['args'],
): Promise<Calls[Name]['answer']> {
  const number = ++calls;
  return new Promise((resolve, reject) => {
    waiting.set(number, { resolve, reject });
    say({ kind: 'call', id, call: number, name, args } as FromThread, memoryOf(args));
  });
}

const NONE = () => [];

/** The memory that is handed over and not copied. */
function memoryOf(args: Calls[CallName]['args']): ArrayBuffer[] {
  if (!('entry' in args) || args.entry === undefined) return [];
  return [args.entry.summaries.buffer as ArrayBuffer, args.entry.rows.buffer as ArrayBuffer];
}

function answered({ call: number, value, error }: Extract<ToThread, { kind: 'answer' }>): void {
  const { resolve, reject } = waiting.get(number)!;
  waiting.delete(number);
  if (error === undefined) resolve(value as never);
  else reject(errorOf(error));
}

/** Resolves with the answer, and what is to be counted of it. */
async function submit(message: SubmitMessage): Promise<Submitted> {
  const { id, agent } = message;
  const { account } = message.request;
  const sums = new Sums();
  const given = { agent, account, rules: await rulesFor(account, message), sums };
  const ingest = new Ingest(partsOf(id, given), codecs);
  const request = { ...message.request, body: bufferOf(message.body) };
  return new Promise((resolve, refused) => {
    const accepted = (answer: Answer) =>
      resolve({ body: bytesOf(answer), isRepeat: answer.isRepeat === true, counts: sums.total() });
    ingest.submit(request, callerOf(id, accepted, refused));
  });
}

/** Resolves once all events of the spans are recorded. */
async function submitSpans(message: SpansMessage): Promise<SubmittedSpans> {
  const { id, account, body } = message;
  const rules = await rulesFor(account, message);
  const sums = new Sums();
  const judging = new SpanJudging({
    ...{ keys, eventBytesMax },
    call: (name, args) => call(id, name, args),
    submit(request, codec, { agent, token }) {
      const parts = partsOf(id, { agent, account, rules, sums });
      const once = { ...parts.once, begin: async () => ({ state: 'new', token }) as const };
      const ingest = new Ingest({ ...parts, once }, [codec]);
      return new Promise((resolve, refused) => {
        ingest.submit(
          request,
          callerOf(id, () => resolve(), refused),
        );
      });
    },
  });
  const found = await judging.record(message, steadyNow());
  sums.bytes = body.length;
  return { ...found, counts: sums.total() };
}

/** Hands the messages over part by part: the front copies the next one when it has had a turn. */
async function readHook({ id, seed, body }: Extract<ToThread, { kind: 'hook' }>) {
  const { messages, ...head } = readConversation(bufferOf(body), seed, eventBytesMax);
  for (const part of inParts(messages)) await call(id, 'hookMessages', { messages: part });
  return head;
}

/** The client is the front's; whether it has left is asked again and again. */
function callerOf(id: number, accepted: Caller['accepted'], refused: Caller['refused']): Caller {
  const nothing = () => undefined;
  return {
    ...{ accepted, refused, offloaded: nothing, whenGone: nothing },
    get isGone() {
      return works.get(id)?.isLeft === true;
    },
  };
}

/** The compiled rules of an account. A policy that has not changed since its last set is not compiled again. */
function rulesFor(account: string, { policies, prices, traceKey }: SentRules): Promise<RuleSet> {
  const before = rulesOf.get(account);
  if (policies === undefined) return before!;
  const rules = (before ?? Promise.resolve(undefined)).then(
    (previous) => prepareRules(policiesOf(policies), previous, { traceKey, prices }),
    () => prepareRules(policiesOf(policies), undefined, { traceKey, prices }),
  );
  rulesOf.set(account, rules);
  return rules;
}

function policiesOf(text: string): Policy[] {
  return parseExact(text) as unknown as Policy[];
}

/** The sums for the front's counters. */
class Sums {
  readonly #accepted = new Map<Outcome, number>();
  readonly #matched = new Map<string, SubmissionCounts['matched'][number]>();
  readonly #unevaluated = new Map<string, number>();
  readonly #said = new Map<ShadowVerdict, number>();
  readonly #skipped = new Map<ShadowSkip, number>();
  bytes = 0;

  accepted(outcome: Outcome, events: number): void {
    this.#accepted.set(outcome, (this.#accepted.get(outcome) ?? 0) + events);
  }

  matched({ policy_id, name, type }: MatchedPolicy, { outcome, events }: { outcome: Outcome; events: number }): void {
    const key = `${policy_id}/${outcome}`;
    const known = this.#matched.get(key);
    if (known !== undefined) known.events += events;
    else this.#matched.set(key, { match: { policy_id, name, type }, outcome, events });
  }

  unevaluated(reason: string, times: number): void {
    this.#unevaluated.set(reason, (this.#unevaluated.get(reason) ?? 0) + times);
  }

  shadows({ said, skipped }: ShadowSums): void {
    for (const [would, events] of said) this.#said.set(would, (this.#said.get(would) ?? 0) + events);
    for (const [reason, events] of skipped) this.#skipped.set(reason, (this.#skipped.get(reason) ?? 0) + events);
  }

  total(): SubmissionCounts {
    return {
      bytes: this.bytes,
      accepted: [...this.#accepted],
      matched: [...this.#matched.values()],
      unevaluated: [...this.#unevaluated],
      shadows: { said: [...this.#said], skipped: [...this.#skipped] },
    };
  }
}

type JudgingContext = { agent: AgentRecord; account: string; rules: RuleSet; sums: Sums };

function partsOf(id: number, { agent, account, rules, sums }: JudgingContext): IngestParts {
  return {
    cache: { agent: () => ({ record: agent, account }), rules: () => rules },
    ...countersOf(id),
    appender: {
      takeBack: () => false,
      appendFor: ({ agent: of, summaries, rows, events }, waiter) =>
        void call(id, 'append', {
          ...{ agent: of, events: events ?? summaries.length, entry: packed(summaries, rows) },
          lastMoment: STEADY_CLOCK.last,
        }).then(
          () => waiter.appended(),
          (error) => waiter.refused(error),
        ),
    },
    once: {
      begin: (request) => call(id, 'begin', request),
      append: ({ summaries, rows, ...request }) =>
        call(id, 'appendOnce', {
          ...{ ...request, entry: summaries.length === 0 ? undefined : packed(summaries, rows) },
          lastMoment: STEADY_CLOCK.last,
        }),
      release: (request) => call(id, 'release', request),
    },
    checks: { ask: (_account, questions) => call(id, 'askOutside', { questions }) },
    watchOutside: (_account, events) => void call(id, 'watchOutside', { events }).catch(() => undefined),
    ...{ keys, eventBytesMax, clock: STEADY_CLOCK, backlog: { full: () => false } },
    ...spendParts(id),
    pause: () => {
      if (works.get(id)?.isLeft === true) throw callerLeft();
      return pause();
    },
    onAccepted: (_account, outcome, events) => sums.accepted(outcome, events),
    onMatched: (_account, match, of) => sums.matched(match, of),
    onBytes: (_account, bytes) => {
      sums.bytes += bytes;
    },
    onUnevaluated: (reason, times) => sums.unevaluated(reason, times),
    shadow: {
      allowances: ofShadows,
      onJudged: (counts) => sums.shadows(counts),
      counters: {
        ask: (_account, agentId, asked, answered) =>
          void call(id, 'askShadows', { agent: agentId, asked: { ...asked, limits: asked.limits.map(sentAsk) } }).then(
            answered,
            () => answered(nothingOf(asked)),
          ),
      },
    },
  };
}

/** The counters that the front asks Redis for: permits, and what occurred. */
function countersOf(id: number): Pick<IngestParts, 'rateLimits' | 'sequences'> {
  return {
    rateLimits: {
      ask: (_account, agentId, requests, waiter) =>
        void call(id, 'ask', { agent: agentId, requests: requests.map(sentAsk) }).then(
          (counts) => waiter.counted(counts),
          (error) => waiter.refused(error),
        ),
      releasePermits: (_account, agentId, returns) => {
        const sent = returns.map((one) => ({ ...one, check: sentCheck(one.check) }));
        call(id, 'releasePermits', { agent: agentId, returns: sent }).catch(() => undefined);
      },
    },
    sequences: {
      ask: (_account, asked, waiter) =>
        void call(id, 'askSequences', { asked }).then(
          (counted) => waiter.sequencesCounted(counted),
          (error) => waiter.refused(error),
        ),
      settle: (_account, ids, atMs) => call(id, 'settleSequences', { ids, atMs }).catch(() => undefined),
    },
  };
}

function spendParts(id: number): Pick<IngestParts, 'spends' | 'onUnknownBudgets'> {
  return {
    spends: {
      ask: (_account, requests, waiter) =>
        void call(id, 'askSpends', { requests }).then(
          (answers) => waiter.spent(answers),
          (error) => waiter.refused(error),
        ),
      release: (_account, requests) => {
        if (requests.length > 0) void call(id, 'releaseSpends', { requests }).catch(() => undefined);
      },
    },
    onUnknownBudgets: (_account, policyIds) => void call(id, 'unknownBudgets', { policyIds }).catch(() => undefined),
  };
}

/** Without the rule, which cannot be sent. */
function sentAsk({ check, permits, run }: QuotaRequest): QuotaRequest {
  return { permits, run, check: sentCheck(check) };
}

function sentCheck(check: QuotaRequest['check']): QuotaRequest['check'] {
  const { policyId, counterScope, counterValue, threshold, windowMs, countsWhenOver } = check;
  return { policyId, counterScope, counterValue, threshold, windowMs, countsWhenOver };
}

/** Each in memory of its own: a part of a larger one would be sent with all of it. */
function packed(summaries: readonly (string | Buffer)[], rows: Buffer): SentEntry {
  const entry = entryOf(summaries, rows);
  return { version: entry.version, summaries: new Uint8Array(entry.summaries), rows: new Uint8Array(entry.rows) };
}

/** In memory of its own, which is handed over. What the codec wrote lies in pooled memory. */
function bytesOf({ body, release }: Answer): Uint8Array {
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : new Uint8Array(body);
  release?.();
  return bytes;
}

function pause(): Promise<void> | undefined {
  if (performance.now() - slicedMs < SLICE_MS) return undefined;
  return new Promise((resolve) =>
    setImmediate(() => {
      slicedMs = performance.now();
      resolve();
    }),
  );
}
