// The codec of events that were read out of something else, as spans are (in the judging thread; codec.ts says what a
// codec does). They come as values, after the fact: policy/observed.ts.
// Invariant: what is kept under an Idempotency-Key is a count: a request that comes again is answered that it is there.
import type { AgentRecord } from '../../schemas/agent.ts';
import { idAt } from '../common/ids.ts';
import { judge, type RuleSet } from '../policy/engine.ts';
import type { Decision, Judgement, ShadowJudgement } from '../policy/judgement.ts';
import { type Before, decidedBefore, observed, withoutLimits } from '../policy/observed.ts';
import type { Arrivals } from './arrival.ts';
import type { ByShadows, Codec, DecodedBody, Encoded } from './codec.ts';
import { encodeEvents } from './encode.ts';
import type { Answer, IngestRequest, Pause } from './ingest-parts.ts';
import type { Judged } from './resolve-quotas.ts';
import type { ParsedSubmission } from './submission.ts';
import { View } from './view.ts';

/** Of one submission: whatever its body is, these are its events. `before`: what was decided of each, if anything. */
export function observedCodec(
  submissions: readonly ParsedSubmission[],
  before: readonly (Before | undefined)[],
): Codec {
  return { name: 'json', decode: (request) => new ObservedBody(request, submissions, before) };
}

class ObservedBody implements DecodedBody {
  readonly #request: IngestRequest;
  readonly #submissions: readonly ParsedSubmission[];
  readonly #before: readonly (Before | undefined)[];

  constructor(
    request: IngestRequest,
    submissions: readonly ParsedSubmission[],
    before: readonly (Before | undefined)[],
  ) {
    this.#request = request;
    this.#submissions = submissions;
    this.#before = before;
  }

  get elements(): number {
    return this.#submissions.length;
  }

  judge(index: number, agent: AgentRecord, rules: RuleSet): Judgement {
    return withoutLimits(judge(rules, new View(this.#submissions[index]!, agent), undefined));
  }

  async judgeWithPauses(index: number, agent: AgentRecord, rules: RuleSet, pause: Pause): Promise<Judgement> {
    return withoutLimits(await rules.judgeWithPauses(new View(this.#submissions[index]!, agent), pause));
  }

  judgeShadows(index: number, agent: AgentRecord, { shadows, allowance }: ByShadows): ShadowJudgement {
    if (this.#before[index] !== undefined) return null;
    return uncounted(shadows.judge(new View(this.#submissions[index]!, agent), allowance));
  }

  async judgeShadowsWithPauses(
    index: number,
    agent: AgentRecord,
    { shadows, allowance, pause }: ByShadows & { pause: Pause },
  ): Promise<ShadowJudgement> {
    if (this.#before[index] !== undefined) return null;
    return uncounted(await shadows.judgeWithPauses(new View(this.#submissions[index]!, agent), allowance, pause));
  }

  encode(agent: AgentRecord, judged: readonly (Judged | null)[], arrivals: Arrivals): Encoded {
    const { account, requestId } = this.#request;
    const events = this.#submissions.map((submission, i) => ({
      ...{ account, agent, submission, requestId, id: idAt('event', arrivals.of(i)), receivedAt: arrivals.msOf(i) },
      decision: this.#decided(i, judged[i]!.decision),
    }));
    return { ...encodeEvents(events), events: events.length, answer: NOTHING, outcome: String(events.length) };
  }

  #decided(index: number, decision: Decision): Decision {
    const before = this.#before[index];
    return before === undefined ? observed(decision) : decidedBefore(before, decision);
  }

  repeat(): Answer {
    return NOTHING;
  }

  release(): void {}
}

function uncounted(judgement: ShadowJudgement): ShadowJudgement {
  return judgement === null || 'skipped' in judgement ? judgement : withoutLimits(judgement);
}

const NOTHING: Answer = { body: '' };
