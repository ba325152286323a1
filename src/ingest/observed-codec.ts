// The codec of events that were read out of something else, as spans are (in the judging thread; codec.ts says what a
// codec does). They come as values, after the fact: policy/observed.ts.
// Invariant: what is kept under an Idempotency-Key is a count: a request that comes again is answered that it is there.
import type { AgentRecord } from '../../schemas/agent.ts';
import type { JsonObject } from '../../schemas/common.ts';
import { exactJson, parseExact } from '../common/exact-json.ts';
import { type Steps, steps } from '../common/steps.ts';
import type { RuleSet } from '../policy/engine.ts';
import type { Decision, Judgement, ShadowJudgement } from '../policy/judgement.ts';
import { type Before, decidedBefore, observed, withoutLimits } from '../policy/observed.ts';
import type { Arrivals } from './arrival.ts';
import type { ByShadows, Codec, DecodedBody, Encoded, Spending } from './codec.ts';
import { isSameCall, readPayload } from './decided-calls.ts';
import { encodeEvents } from './encode.ts';
import type { Answer, IngestRequest } from './ingest-parts.ts';
import type { Decided } from './resolve-quotas.ts';
import type { ParsedSubmission } from './submission.ts';
import { View } from './view.ts';

/** `call`: its payload as it is stored, where that is not the span's: then it may be the span's redacted copy. */
export type AskedBefore = { before: Before; call: JsonObject | undefined };

/** `whole`: as it was sent, where that is too large to be kept. It is judged; what is left of it is kept. */
type ObservedSubmission = ParsedSubmission & { whole?: ParsedSubmission };

/**
 * The codec of one submission: whatever its body is, these are its events. `before`: what was decided of each, if
 * anything.
 */
export function observedCodec(
  submissions: readonly ObservedSubmission[],
  before: readonly (AskedBefore | undefined)[],
): Codec {
  return { name: 'json', decode: (request) => new ObservedBody(request, submissions, before) };
}

class ObservedBody implements DecodedBody {
  readonly #request: IngestRequest;
  readonly #submissions: readonly ObservedSubmission[];
  readonly #before: readonly (AskedBefore | undefined)[];
  /** The events whose call was asked about before: for sequences they have occurred already. */
  readonly #occurred = new Set<number>();

  constructor(
    request: IngestRequest,
    submissions: readonly ObservedSubmission[],
    before: readonly (AskedBefore | undefined)[],
  ) {
    this.#request = request;
    this.#submissions = submissions;
    this.#before = before;
  }

  get elements(): number {
    return this.#submissions.length;
  }

  *judging(index: number, agent: AgentRecord, rules: RuleSet): Steps<Judgement> {
    let judgement = withoutLimits(yield* steps(rules.judging(this.#view(index, agent))));
    if (this.#isCut(index, judgement)) {
      const { redacted } = yield* steps(rules.judging(new View(this.#submissions[index]!, agent)));
      judgement = { ...judgement, redacted };
    }
    // It has occurred already.
    if (this.#isDecided(index, judgement.redacted)) {
      this.#occurred.add(index);
      judgement = { ...judgement, sequences: null };
    }
    const call = this.#asked(index, agent, judgement);
    return call === undefined ? judgement : without(yield* steps(rules.judging(call)), judgement);
  }

  *judgingShadows(index: number, agent: AgentRecord, { shadows, allowance }: ByShadows): Steps<ShadowJudgement> {
    if (this.#isAsked(index)) return null;
    const judgement = uncounted(yield* steps(shadows.judging(this.#view(index, agent), allowance)));
    if (judgement === null || 'skipped' in judgement || !this.#occurred.has(index)) return judgement;
    return { ...judgement, sequences: null };
  }

  /** The call that was asked about before it was done, of an event that matches something; undefined: none. */
  #asked(index: number, agent: AgentRecord, { found, redacted }: Judgement): View | undefined {
    if (found.length === 0 || !this.#isDecided(index, redacted)) return undefined;
    const submission = this.#submissions[index]!;
    const { result: _, error: __, ...payload } = parseExact((submission.whole ?? submission).payloadText) as JsonObject;
    return new View({ ...submission, payload, payloadText: exactJson(payload) }, agent);
  }

  #view(index: number, agent: AgentRecord): View {
    const submission = this.#submissions[index]!;
    return new View(submission.whole ?? submission, agent);
  }

  /** Was something redacted of which a part alone is kept? */
  #isCut(index: number, { redacted }: Judgement): boolean {
    return redacted !== null && this.#submissions[index]!.whole !== undefined;
  }

  spending(index: number): Spending {
    return { ...this.#submissions[index]!, isObserved: true };
  }

  encode(agent: AgentRecord, judged: readonly (Decided | null)[], arrivals: Arrivals): Encoded {
    const { account, requestId } = this.#request;
    const events = this.#submissions.map((submission, i) => ({
      ...{ account, agent, submission, requestId, id: arrivals.idOf(i), receivedAt: arrivals.msOf(i) },
      decision: this.#decided(i, judged[i]!.decision),
    }));
    return { ...encodeEvents(events), events: events.length, answer: NOTHING, outcome: String(events.length) };
  }

  #decided(index: number, decision: Decision): Decision {
    return this.#isDecided(index, decision.redacted)
      ? decidedBefore(this.#before[index]!.before, decision)
      : observed(decision);
  }

  #isDecided(index: number, redacted: Decision['redacted']): boolean {
    return this.#isAsked(index) || isRedactedCall(this.#before[index]?.call, redacted);
  }

  #isAsked(index: number): boolean {
    const before = this.#before[index];
    return before !== undefined && before.call === undefined;
  }

  repeat(): Answer {
    return NOTHING;
  }

  release(): void {}
}

function isRedactedCall(call: JsonObject | undefined, redacted: Decision['redacted']): boolean {
  const copy = call === undefined || redacted === null ? undefined : readPayload(redacted.payloadText);
  return copy !== undefined && isSameCall(call!, copy);
}

/** The judgement without the matches that were found already. */
function without(before: Judgement, judgement: Judgement): Judgement {
  const matched = new Set(before.found.map(({ entry }) => entry));
  return { ...judgement, sequences: null, found: judgement.found.filter(({ entry }) => !matched.has(entry)) };
}

function uncounted(judgement: ShadowJudgement): ShadowJudgement {
  return judgement === null || 'skipped' in judgement ? judgement : withoutLimits(judgement);
}

const NOTHING: Answer = { body: '' };
