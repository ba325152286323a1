// The thread in which a front judges what takes long (judging-worker.ts says what and why): the same submissions as in
// ingest.ts, without an allowance. It has no Redis; counters and appends are the front's, asked for by messages.
// Invariant: nothing is acknowledged here; the front answers once it has appended. Between the rules of an event other
// accounts have their turn, and it is looked whether the client has left: what was not appended is dropped then.
// Failure: what is refused goes back as it is; an unexpected error ends the thread,
// and the front starts another.

import os from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import type { AgentRecord } from '../../schemas/agent.ts';
import type { EventType, Outcome, ShadowSkip, ShadowVerdict } from '../../schemas/closed-sets.ts';
import type { Policy } from '../../schemas/policy.ts';
import { ServiceError } from '../common/errors.ts';
import { parseExact } from '../common/exact-json.ts';
import { STEADY_CLOCK, steadyNow } from '../common/steady-clock.ts';
import { Undecodable } from '../otlp/span.ts';
import { groupSpans, reject, type SpanGroups, type SpanSubmission } from '../otlp/span-groups.ts';
import { Allowances, SHADOW_UNITS_APART } from '../policy/allowance.ts';
import type { RuleSet } from '../policy/engine.ts';
import type { Before } from '../policy/observed.ts';
import { evaluated, mistakesOf, type PolicyTrial } from '../policy/policy-work.ts';
import { prepareRules } from '../policy/prepare-rules.ts';
import { Keys } from '../redis/keys.ts';
import { entryOf } from '../streams/append-once.ts';
import { callerLeft, Ingest } from './ingest.ts';
import type { Answer, Caller, IngestParts, IngestRequest, MatchedPolicy, ShadowSums } from './ingest-parts.ts';
import { JsonCodec } from './json-codec.ts';
import {
  type CallName,
  type Calls,
  type DecidedEvent,
  errorOf,
  type FromThread,
  type SentEntry,
  type SpansMessage,
  type SubmissionCounts,
  type SubmitMessage,
  type Submitted,
  type SubmittedSpans,
  sentError,
  type ThreadData,
  type ToThread,
} from './judging-messages.ts';
import { observedCodec } from './observed-codec.ts';
import type { QuotaRequest } from './rate-limit-batcher.ts';
import { isTimely } from './submission.ts';
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

const shadowAllowances = new Allowances(SHADOW_UNITS_APART);
const codecs = [new WasmCodec(), new JsonCodec()];
/** Events that the spans of a request may say were decided before; of any more nothing is asked. */
const DECIDED_MAX = 500;

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
    case 'check':
      void work(message.id, async () =>
        mistakesOf({ type: message.type, conditions: parseExact(message.conditions), actions: [] }),
      );
      break;
    case 'evaluate':
      void work(message.id, async () => evaluated(parseExact(message.trial) as unknown as PolicyTrial));
      break;
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

/** What is handed over and not copied. */
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
  const { id, shape, account, agent, body, requestId, idempotencyKey, purpose } = message;
  const sums = new Sums();
  const given = { agent, account, rules: await rulesFor(message), sums };
  const ingest = new Ingest(partsOf(id, given), codecs);
  const request = {
    account,
    agentId: agent.id,
    shape,
    body: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
    requestId,
    idempotencyKey,
    purpose,
  };
  return new Promise((resolve, refused) => {
    const accepted = (answer: Answer) =>
      resolve({ body: bytesOf(answer), isRepeat: answer.isRepeat === true, counts: sums.total() });
    ingest.submit(request, callerOf(id, accepted, refused));
  });
}

/**
 * Resolves once all events of the spans are recorded. Each part has an Idempotency-Key by the bytes of the request and
 * its place in it: exporters send the same again where they got no answer, and what was recorded is not again. By the
 * inflated bytes: gzip writes the time into its head.
 */
async function submitSpans(message: SpansMessage): Promise<SubmittedSpans> {
  const { id, account, keyId, requestId, body, form, boundTo } = message;
  const rules = await rulesFor(message);
  const nowMs = steadyNow();
  const isKeptTime = (occurredAt: number) => isTimely(occurredAt, nowMs);
  const { groups, digest, ...found } = grouped({ body, form }, { eventBytesMax, boundTo, isTimely: isKeptTime });
  const agents = groups.length === 0 ? [] : await call(id, 'agents', { refs: groups.map(({ agent }) => agent) });
  const key = `otlp/${keyId}/${digest.toString('base64url')}`;
  const decided = await decidedEvents(id, groups);
  const sums = new Sums();
  for (const [i, { spans, parts }] of groups.entries()) {
    const agent = agents[i]!;
    if (typeof agent === 'string') {
      reject(found, agent, spans);
      continue;
    }
    for (const [j, part] of parts.entries()) {
      const request = { agentId: agent.id, shape: 'many', requestId, idempotencyKey: `${key}/${i}/${j}` } as const;
      const before = part.map(({ decisionId, type }) => beforeOf(decided.get(decisionId ?? ''), agent, type));
      await submitPart(id, { ...request, account, body: digest }, { part, before }, { agent, account, rules, sums });
    }
  }
  // The bytes of parts are those of their digests.
  sums.bytes = body.length;
  return { ...found, counts: sums.total() };
}

/** By their ids. What is not stored yet is judged as if it had not been asked about. */
async function decidedEvents(id: number, groups: SpanGroups['groups']): Promise<Map<string, DecidedEvent>> {
  const asked = groups.flatMap(({ parts }) => parts.flat().flatMap(({ decisionId }) => decisionId ?? []));
  const ids = [...new Set(asked)].slice(0, DECIDED_MAX);
  const events = ids.length === 0 ? [] : await call(id, 'decided', { ids });
  return new Map(events.map((event) => [event.id, event]));
}

/** Of the same agent and of the same kind: a span cannot take another's word for its own. */
function beforeOf(event: DecidedEvent | undefined, agent: AgentRecord, type: EventType): Before | undefined {
  return event !== undefined && event.agentId === agent.id && event.type === type ? event : undefined;
}

/** Throws ServiceError for what cannot be read. */
function grouped(...args: Parameters<typeof groupSpans>): SpanGroups {
  try {
    return groupSpans(...args);
  } catch (error) {
    if (!(error instanceof Undecodable)) throw error;
    const sentence = `The spans cannot be taken: ${error.message}.`;
    throw new ServiceError(error.tooLarge ? 'payload_too_large' : 'validation_failed', sentence, { recorded: false });
  }
}

type Part = { part: readonly SpanSubmission[]; before: readonly (Before | undefined)[] };

function submitPart(id: number, request: IngestRequest, { part, before }: Part, given: Given): Promise<void> {
  const ingest = new Ingest(partsOf(id, given), [observedCodec(part, before)]);
  return new Promise((resolve, reject) => {
    const refused = (error: unknown) => reject(isInProgress(error) ? stillRunning() : error);
    ingest.submit(
      request,
      callerOf(id, () => resolve(), refused),
    );
  });
}

/** The client is the front's; whether it has left is asked again and again. */
function callerOf(id: number, accepted: Caller['accepted'], refused: Caller['refused']): Caller {
  const nothing = () => undefined;
  return {
    ...{ accepted, refused, setApart: nothing, whenGone: nothing },
    get isGone() {
      return works.get(id)?.isLeft === true;
    },
  };
}

function isInProgress(error: unknown): boolean {
  return error instanceof ServiceError && error.code === 'idempotency_in_progress';
}

/** Exporters try again after 503, and never after 409. */
function stillRunning(): ServiceError {
  const options = { recorded: false, retryAfterSeconds: 1 } as const;
  return new ServiceError('unavailable', 'The same spans are being recorded at this moment.', options);
}

/** What has not changed since the account's last set is not compiled again. */
function rulesFor({ account, policies, traceKey }: SubmitMessage | SpansMessage): Promise<RuleSet> {
  const before = rulesOf.get(account);
  if (policies === undefined) return before!;
  const rules = (before ?? Promise.resolve(undefined)).then(
    (previous) => prepareRules(policiesOf(policies), previous, { traceKey }),
    () => prepareRules(policiesOf(policies), undefined, { traceKey }),
  );
  rulesOf.set(account, rules);
  return rules;
}

function policiesOf(text: string): Policy[] {
  return parseExact(text) as unknown as Policy[];
}

/** What the front's counters get. */
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

type Given = { agent: AgentRecord; account: string; rules: RuleSet; sums: Sums };

function partsOf(id: number, { agent, account, rules, sums }: Given): IngestParts {
  return {
    cache: { agent: () => ({ record: agent, account }), rules: () => rules },
    rateLimits: {
      ask: (_account, agentId, requests, waiter) =>
        void call(id, 'ask', { agent: agentId, requests: requests.map(sentAsk) }).then(
          (counts) => waiter.counted(counts),
          (error) => waiter.refused(error),
        ),
    },
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
    backlog: { full: () => false },
    ...{ keys, eventBytesMax, clock: STEADY_CLOCK },
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
      allowances: shadowAllowances,
      onJudged: (counts) => sums.shadows(counts),
      counters: {
        ask: (_account, agentId, requests, answered) =>
          void call(id, 'askShadows', { agent: agentId, requests: requests.map(sentAsk) }).then(
            (grants) => answered(grants.map((grant) => grant ?? undefined)),
            () => answered(requests.map(() => undefined)),
          ),
      },
    },
  };
}

/** Without the rule, which cannot be sent. */
function sentAsk({ check, permits, run }: QuotaRequest): QuotaRequest {
  const { policyId, counterScope, counterValue, threshold, windowMs, countsWhenOver } = check;
  return { permits, run, check: { policyId, counterScope, counterValue, threshold, windowMs, countsWhenOver } };
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
