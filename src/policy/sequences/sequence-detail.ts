// What a match of a sequence says: which steps occurred, and when (for the decision; decide.ts).
import type { SequenceDetail } from '../../../schemas/match-detail.ts';
import { Budget, EXPLAIN_UNITS } from '../budget.ts';
import { conditionsHeld } from '../explain.ts';
import type { Detail, RuleMatch, SequencePart, SequenceSink } from '../judgement.ts';
import type { SequenceAnswers, SequenceMatch } from './sequence-answer.ts';

export function sequenceMatches({ sinks, isSecret }: SequencePart, answers: SequenceAnswers): RuleMatch[] {
  return sinks.flatMap((sink, i) => {
    const match = answers[i] ?? null;
    return match === null ? [] : [{ entry: sink.entry, detail: detailOf(sink, match, isSecret) }];
  });
}

function detailOf(
  { entry, event, held: told, unevaluated }: SequenceSink,
  match: SequenceMatch,
  isSecret: boolean,
): Detail {
  const detail: SequenceDetail = {
    after: match.after.map(({ id, atMs, path }) => ({
      // Nothing is said of an agent that was erased.
      ...(id === '' ? {} : { event_id: id }),
      at: new Date(atMs).toISOString(),
      ...(path === '' ? {} : { path }),
    })),
  };
  const held = told ?? conditionsHeld(entry.rule, event, { budget: new Budget(EXPLAIN_UNITS), isSecret });
  if (held.length > 0) detail.conditions = [...held];
  if (match.waitsFor !== undefined) Object.assign(detail, { reason: 'not_finished', waits_for: match.waitsFor });
  if (match.reason !== undefined) detail.reason = match.reason;
  return Object.assign(detail, unevaluated);
}
