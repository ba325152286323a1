// Takes the spans of one request (POST /v1/traces, or log records of /v1/logs, as spans; metrics are read and dropped;
// between the HTTP route and the judging thread): asks for room and for the account's policies, has them decoded,
// judged and recorded apart from the loop that answers, and writes the answer in the form of the request.
// Spans whose owner may be known soon are held with their request, and recorded when it is, or when they were held long
// enough (streams/held-spans.ts). Log records are not: their spans say as much, and come besides.
// Invariant: an answer of success is given when every span that it does not call rejected is in Redis's file, recorded
// or held. What is refused may be sent again, as it is: what was recorded of it is found.
import { withTimeout } from '../common/async.ts';
import { ServiceError } from '../common/errors.ts';
import { type SpansForm, type SpansOutcome, successBody, typeOf } from '../otlp/answers.ts';
import type { OtlpSignal } from '../otlp/span.ts';
import type { SpanAgents } from '../otlp/span-agents.ts';
import type { Log } from '../process/log.ts';
import type { Actor } from '../registry/accounts/principal.ts';
import type { RegistryCache } from '../registry/cache/cache.ts';
import type { Backlog } from '../streams/backlog.ts';
import type { HeldRequest, HeldSpans } from '../streams/held-spans.ts';
import type { SpanNotes } from '../streams/span-notes.ts';
import type { SubmissionsInHand } from '../streams/submissions-in-hand.ts';
import { backlogFull } from './ingest.ts';
import type { Caller } from './ingest-parts.ts';
import type { DecidedEvent, SubmittedSpans } from './judging-messages.ts';
import type { JudgingWorker, SpansToJudge } from './judging-worker.ts';

type Parts = {
  worker: Pick<JudgingWorker, 'submitSpans'>;
  cache: Pick<RegistryCache, 'rules' | 'account'>;
  backlog: Pick<Backlog, 'full'>;
  agents: Pick<SpanAgents, 'resolve' | 'known'>;
  notes: Pick<SpanNotes, 'owners' | 'claim'>;
  held: Pick<HeldSpans, 'hold' | 'oldest' | 'take' | 'end'>;
  inHand: Pick<SubmissionsInHand, 'begin' | 'end'>;
  log: Log;
  /** Events that were judged before, as far as they are stored. */
  decided: (account: string, ids: readonly string[]) => Promise<DecidedEvent[]>;
  /** Called with what came of the spans of a request. */
  onSpans: (outcome: SpansOutcome, signal: OtlpSignal) => void;
};

/** `awaited`: for each span that waits, the notes by which its owner would be known. */
type HeldHead = {
  requestId: string;
  form: SpansForm;
  signal: OtlpSignal;
  actor: Actor;
  awaited: readonly (readonly string[])[];
};
type SentRequest = Omit<SpansToJudge['spans'], 'isAgain'>;
type Leaving = Parameters<JudgingWorker['submitSpans']>[1];

const NEVER_LEAVES: Leaving = { isGone: false, whenGone: () => undefined };
/** Batch processors send every 5 s: the span around those of one batch is in the next. */
const HELD_MS = 6_000;
/** The age up to which a request is tried again: one that is refused by then will be, e.g. for want of a quota. */
const TRIED_MS_MAX = 600_000;
/** A request that awaits more is held for the whole time. */
const AWAITED_MAX = 64;
/** A sender waits no longer for what was decided; then its spans are judged. Exporters wait for 10 s. */
const DECIDED_MS_MAX = 5_000;

export class SpansIntake {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  submit(spans: SentRequest, actor: Actor, caller: Caller): void {
    caller.offloaded();
    this.#submit(spans, actor, caller).then(
      (outcome) => {
        const { form, signal = 'traces' } = spans;
        caller.accepted({ body: successBody(outcome, form, signal), contentType: typeOf(form) });
      },
      (error: unknown) => caller.refused(error),
    );
  }

  async #submit(sent: SentRequest, actor: Actor, caller: Caller): Promise<SpansOutcome> {
    const { held, onSpans } = this.#parts;
    const { account, requestId, form, signal = 'traces', body } = sent;
    let outcome = await this.#record({ ...sent, isAgain: false }, actor, caller);
    const { awaited } = outcome;
    const head: HeldHead = { requestId, form, signal, actor, awaited: awaited.slice(0, AWAITED_MAX) };
    if (awaited.length > 0 && !(await held.hold(account, JSON.stringify(head), body)))
      outcome = await this.#record({ ...sent, isAgain: true }, actor, caller);
    onSpans(outcome, signal);
    return outcome;
  }

  /**
   * Records what was held long enough, or whose owners are known by now. What fails is tried again. Does not reject.
   */
  async recordHeld(): Promise<void> {
    const { held, log } = this.#parts;
    // Redis is away: asked again.
    for (const one of await held.oldest().catch(() => [])) {
      await this.#recordOne(one).catch((error: unknown) => log.warn({ err: error }, 'spans.held_later'));
    }
  }

  async #recordOne(one: HeldRequest): Promise<void> {
    const head: HeldHead = JSON.parse(one.head);
    if (one.ageMs < HELD_MS && !(await this.#areKnown(one.account, head))) return;
    const body = await this.#parts.held.take(one);
    if (body !== undefined) await this.#recordHeld(one, head, body);
  }

  async #areKnown(account: string, { awaited }: HeldHead): Promise<boolean> {
    const owners = await this.#parts.notes.owners(account, awaited.flat());
    const known = new Set(awaited.flat().filter((_, i) => owners[i] !== null));
    return awaited.length < AWAITED_MAX && awaited.every((notes) => notes.some((note) => known.has(note)));
  }

  /** Its sender hears no more of what cannot be recorded. */
  async #recordHeld(one: HeldRequest, head: HeldHead, body: Buffer): Promise<void> {
    const { held, log, cache } = this.#parts;
    const { account, ageMs } = one;
    const { requestId, form, signal, actor } = head;
    const sent = { account, requestId, form, signal, body, boundTo: undefined, isAgain: true };
    try {
      // Nothing is made of an account that was removed.
      if ((await cache.account(account)) !== null) {
        const { rejected, reasons } = await this.#record(sent, actor, NEVER_LEAVES);
        if (rejected > 0) log.warn({ account, requestId, rejected, reasons }, 'spans.held_rejected');
      }
    } catch (error) {
      if (!(error instanceof ServiceError) || error.status >= 500 || ageMs < TRIED_MS_MAX) throw error;
      log.warn({ err: error, account, requestId }, 'spans.held_refused');
    }
    await held.end(one);
  }

  async #record(spans: SpansToJudge['spans'], actor: Actor, caller: Leaving): Promise<SubmittedSpans> {
    const { worker, cache, backlog, agents, notes, decided, inHand } = this.#parts;
    const { account } = spans;
    if (backlog.full()) throw backlogFull();
    const calls: SpansToJudge['calls'] = {
      resolve: (refs) => agents.resolve(account, actor, refs),
      // One that was deleted since has no spans: their program says whose these spans are.
      owners: async (asked) => agents.known(account, await notes.owners(account, asked)),
      claim: (claim) => notes.claim(account, claim),
      decided: (ids) => withTimeout(decided(account, ids), DECIDED_MS_MAX, () => []).catch(() => []),
    };
    const generation = inHand.begin();
    try {
      const rules = await cache.rules(account);
      return await worker.submitSpans({ spans, rules, calls, inHand: generation }, caller);
    } finally {
      inHand.end(generation);
    }
  }
}
