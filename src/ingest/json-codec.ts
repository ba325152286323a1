// The codec that reads every body, by making JavaScript values of it (codec.ts says what a codec does; ingest.ts calls
// it). submission.ts checks the elements, encode.ts writes rows and summaries, submission-reply.ts renders the answer.
// Invariant: an element that is refused has its error in its place in the answer, and leaves nothing in the stream.
import type { AgentRecord } from '../../schemas/agent.ts';
import type { Stepped } from '../common/steps.ts';
import type { Allowed } from '../policy/allowance.ts';
import type { RuleSet } from '../policy/engine.ts';
import type { Judgement, ShadowJudgement } from '../policy/judgement.ts';
import type { Arrivals } from './arrival.ts';
import type { ByShadows, Codec, DecodedBody, DecodeOptions, Encoded, Spending } from './codec.ts';
import { type AcceptedEvent, encodeEvents } from './encode.ts';
import type { Answer, IngestRequest } from './ingest-parts.ts';
import { keptVerdicts, readVerdicts } from './kept-verdicts.ts';
import type { Decided } from './resolve-quotas.ts';
import { type Element, isRejected, readBatch, readSubmission } from './submission.ts';
import { renderBatch, renderEvent, type Verdict, verdictOf } from './submission-reply.ts';
import { View } from './view.ts';

export class JsonCodec implements Codec {
  readonly name = 'json';

  decode(request: IngestRequest, { nowMs, eventBytesMax }: DecodeOptions): DecodedBody {
    const { body, shape } = request;
    const elements = shape === 'one' ? [readSubmission(body, nowMs)] : readBatch(body, nowMs, eventBytesMax);
    return new JsonBody(request, elements);
  }
}

class JsonBody implements DecodedBody {
  readonly #request: IngestRequest;
  readonly #elements: readonly Element[];

  constructor(request: IngestRequest, elements: readonly Element[]) {
    this.#request = request;
    this.#elements = elements;
  }

  get elements(): number {
    return this.#elements.length;
  }

  judging(index: number, agent: AgentRecord, rules: RuleSet, allowance?: Allowed): Stepped<Judgement | null> {
    const element = this.#elements[index]!;
    return isRejected(element) ? null : rules.judging(new View(element, agent), allowance);
  }

  judgingShadows(index: number, agent: AgentRecord, { shadows, allowance }: ByShadows): Stepped<ShadowJudgement> {
    const element = this.#elements[index]!;
    return isRejected(element) ? null : shadows.judging(new View(element, agent), allowance);
  }

  spending(index: number): Spending | undefined {
    const element = this.#elements[index]!;
    return isRejected(element) ? undefined : { ...element, isObserved: false };
  }

  encode(agent: AgentRecord, judged: readonly (Decided | null)[], arrivals: Arrivals): Encoded {
    const { account, requestId, idempotencyKey } = this.#request;
    const events: AcceptedEvent[] = [];
    const verdicts = this.#elements.map((element, i): Verdict => {
      if (isRejected(element)) return element;
      const { decision } = judged[i]!;
      const receivedAt = arrivals.msOf(i);
      const id = arrivals.idOf(i); // recovery searches for an id at its own time
      events.push({ account, agent, id, submission: element, receivedAt, decision, requestId });
      return verdictOf(decision, { id, occurredAt: element.occurredAt, receivedAt });
    });
    const outcome = idempotencyKey === undefined ? undefined : keptVerdicts(verdicts);
    return { ...encodeEvents(events), events: events.length, answer: this.#answer(verdicts), outcome };
  }

  repeat(outcome: string): Answer {
    return this.#answer(readVerdicts(outcome));
  }

  release(): void {}

  #answer(verdicts: readonly Verdict[]): Answer {
    const { shape, agentId } = this.#request;
    const [first] = this.#elements;
    // A single event that is refused is refused by `decode`.
    const isOne = shape === 'one' && first !== undefined && !isRejected(first);
    return { body: isOne ? renderEvent(agentId, first, verdicts[0]!) : renderBatch(agentId, this.#elements, verdicts) };
  }
}
