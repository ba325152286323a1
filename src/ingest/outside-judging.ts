// Asks checks outside about the events of a submission (ingest.ts, after the decision and before the shadows), and
// decides them again with what was said. All checks of all its events at once, as far as each check has room; the reply
// waits. Those that watch are asked after the reply (outside-watching.ts): what they are asked is plain data by then.
// Invariant: nothing is appended before the answers are there, so a front that is killed meanwhile has recorded
// nothing. An account without such a policy comes here never.
import type { RuleSet } from '../policy/engine.ts';
import type { Judgement } from '../policy/judgement.ts';
import {
  type OutsideAnswer,
  type OutsideAsked,
  outsideOf,
  type WatchVerdict,
  withOutside,
  withVerdict,
} from '../policy/outside.ts';
import type { AskedOutside, IngestRequest, OutsideChecks, WatchedEvent } from './ingest-parts.ts';
import { type Decided, mintApprovalId } from './resolve-quotas.ts';

type Judged = { judgements: readonly (Judgement | null)[]; judged: readonly (Decided | null)[]; rules: RuleSet };

/** undefined: no check is to be asked. */
export function askOutside(
  { judgements, judged, rules }: Judged,
  checks: OutsideChecks,
  { account }: Pick<IngestRequest, 'account'>,
): Promise<(Decided | null)[]> | undefined {
  const events = judged.map((one, i) => (one === null ? undefined : outsideOf(judgements[i]!, one.decision)));
  const asked = events.flatMap((event) => (event === undefined ? [] : questionsOf(event)));
  if (!events.some((event) => event !== undefined)) return undefined;
  const answered = asked.length === 0 ? Promise.resolve([]) : checks.ask(account, asked);
  return answered.then((answers) => {
    let next = 0;
    return judged.map((one, i) => {
      const event = events[i];
      if (one === null || event === undefined) return one;
      const said = event.questions.map(({ failure }): OutsideAnswer => {
        return failure === undefined ? answers[next++]! : { failure, ms: 0 };
      });
      const decision = withOutside(one.decision, event, said, { entries: rules.entries, mintApprovalId });
      return { ...one, decision };
    });
  });
}

/** The questions that are asked after the reply, as plain data. `ids`: of the elements, by their places. */
export function watchedOf(
  { judgements, judged }: Pick<Judged, 'judgements' | 'judged'>,
  idOf: (element: number) => string,
): WatchedEvent[] {
  return judged.flatMap((one, i) => {
    const event = one === null ? undefined : outsideOf(judgements[i]!, one.decision, true);
    if (event === undefined) return [];
    const asked = questionsOf(event);
    const { type, agent_id: agentId } = event.event;
    return event.questions.map(({ check, fields, entries, texts, failure }) => ({
      ...{ eventId: idOf(i), type, agentId, traceId: event.traceId, check, fields },
      policyIds: entries.map(({ rule }) => rule.policy.id),
      question: texts === undefined ? undefined : asked.shift()!,
      failure,
    }));
  });
}

export function decidedByVerdict(
  judged: readonly (Decided | null)[],
  verdict: WatchVerdict,
  { entries }: RuleSet,
): (Decided | null)[] {
  return judged.map((one) => {
    return one && { ...one, decision: withVerdict(one.decision, verdict, { entries, mintApprovalId }) };
  });
}

function questionsOf({ questions, event, payloadText, traceId }: OutsideAsked): AskedOutside[] {
  const { type, agent_id: agentId, timestamp } = event;
  return questions.flatMap(({ check, entries, texts }) => {
    if (texts === undefined) return [];
    const { policy, terms } = entries[0]!.rule;
    const isWhole = terms.type === 'external_check' && terms.fields === null;
    return {
      check,
      texts,
      policy: { id: policy.id, name: policy.name },
      event: { type, agentId, traceId, timestamp },
      payloadText: isWhole ? payloadText : undefined,
    };
  });
}
