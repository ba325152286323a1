// Judges events one after the other, each after what was before it: by policies of which some are sequences, with what
// occurred kept in memory (of an evaluation; pure). No counter of a limit is asked.
import { decide } from '../decide.ts';
import { judge, type RuleSet } from '../engine.ts';
import type { Decision, EventView, Judgement } from '../judgement.ts';
import type { SequenceAnswers } from './sequence-answer.ts';
import { laterMarks, SequenceMemory } from './sequence-memory.ts';

/** `answers`: of each of the judgement's sequences, which decide nothing of an event that is blocked without them. */
type JudgedInOrder = { judgement: Judgement; answers: SequenceAnswers; decision: Decision };

export class JudgingInOrder {
  readonly #rules: RuleSet;
  readonly #memory = new SequenceMemory();
  #lastMs = 0;

  constructor(rules: RuleSet) {
    this.#rules = rules;
  }

  /** `id`: by which a match names it. What is dated before the one in front of it occurred with that. */
  next(event: EventView, id: string): JudgedInOrder {
    const judgement = judge(this.#rules, event);
    const alone = decide(judgement, [], noApproval);
    const { sequences } = judgement;
    if (sequences === null) return { judgement, answers: [], decision: alone };
    this.#lastMs = Math.max(this.#lastMs, Date.parse(event.timestamp));
    const { outcome } = alone;
    const asks = sequences.sinks.map(({ ask }) => ask);
    const later = outcome === 'allowed' ? laterMarks(sequences.marks, outcome) : [];
    const asked = { id, agent: event.agent_id, outcome, asks, marks: sequences.marks, later, waitMs: 0 };
    const { answers } = this.#memory.next(asked, this.#lastMs, id);
    this.#memory.settle(id, this.#lastMs);
    const decision = outcome === 'blocked' ? alone : decide(judgement, [], noApproval, { sequences: answers });
    return { judgement, answers, decision };
  }
}

function noApproval(): string {
  return '';
}
