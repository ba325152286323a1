// Takes the spans of one request (POST /v1/traces, or log records of /v1/logs, as spans; metrics are read and dropped;
// between the HTTP route and the judging thread): asks for room and
// for the account's policies, has them decoded, judged and recorded apart from the loop that answers, and writes the
// answer in the form of the request.
// Invariant: an answer of success is given when every span that it does not call rejected is in Redis's file. What is
// refused may be sent again, as it is: what was recorded of it is found.
import { withTimeout } from '../common/async.ts';
import { ServiceError } from '../common/errors.ts';
import { type SpansOutcome, successBody, typeOf } from '../otlp/answers.ts';
import type { OtlpSignal } from '../otlp/span.ts';
import type { SpanAgents } from '../otlp/span-agents.ts';
import type { RegistryCache } from '../registry/cache.ts';
import type { Actor } from '../registry/principal.ts';
import type { Backlog } from '../streams/backlog.ts';
import type { SpanNotes } from '../streams/span-notes.ts';
import type { Caller } from './ingest-parts.ts';
import type { DecidedEvent } from './judging-messages.ts';
import type { JudgingWorker, SpansToJudge } from './judging-worker.ts';

type Parts = {
  worker: Pick<JudgingWorker, 'submitSpans'>;
  cache: Pick<RegistryCache, 'rules'>;
  backlog: Pick<Backlog, 'full'>;
  agents: Pick<SpanAgents, 'resolve' | 'known'>;
  notes: Pick<SpanNotes, 'owners' | 'claim'>;
  /** Events that were judged before, as far as they are stored. */
  decided: (account: string, ids: readonly string[]) => Promise<DecidedEvent[]>;
  /** Called with what came of the spans of a request. */
  onSpans: (outcome: SpansOutcome, signal: OtlpSignal) => void;
};

/** A sender waits no longer for what was decided; then its spans are judged. Exporters wait for 10 s. */
const DECIDED_MS_MAX = 5_000;

export class SpansIntake {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  submit(spans: SpansToJudge['spans'], actor: Actor, caller: Caller): void {
    caller.offloaded();
    this.#submit(spans, actor, caller).then(
      (outcome) => {
        const { form, signal = 'traces' } = spans;
        caller.accepted({ body: successBody(outcome, form, signal), contentType: typeOf(form) });
      },
      (error: unknown) => caller.refused(error),
    );
  }

  async #submit(spans: SpansToJudge['spans'], actor: Actor, caller: Caller): Promise<SpansOutcome> {
    const { worker, cache, backlog, agents, notes, decided, onSpans } = this.#parts;
    const { account } = spans;
    if (backlog.full())
      throw new ServiceError('unavailable', 'The backlog is full; nothing was recorded.', {
        recorded: false,
        retryAfterSeconds: 1,
      });
    const rules = await cache.rules(account);
    const calls: SpansToJudge['calls'] = {
      resolve: (refs) => agents.resolve(account, actor, refs),
      // One that was deleted since has no spans: their program says whose these spans are.
      owners: async (asked) => agents.known(account, await notes.owners(account, asked)),
      claim: (claim) => notes.claim(account, claim),
      decided: (ids) => withTimeout(decided(account, ids), DECIDED_MS_MAX, () => []).catch(() => []),
    };
    const outcome = await worker.submitSpans({ spans, rules, calls }, caller);
    onSpans(outcome, spans.signal ?? 'traces');
    return outcome;
  }
}
