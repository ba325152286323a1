// Which steps of one sequence stored events are (of memory-build.ts): each is judged again by the policy's steps alone.
// Pure but for what is handed in.
// Invariant: what an event was decided to be counts, not what policies of today would say of it: an allowed one has
// occurred, a blocked one only where any outcome counts, a pending one when it was approved.
// Where a filter redacted something its mark is judged, and what was there is not known any more.
import type { WaitState } from '../../clickhouse/queries/decided-approvals.ts';
import type { ReplayRow } from '../../clickhouse/queries/replayed-events.ts';
import type { AgentRecord } from '../../schemas/agent.ts';
import type { Outcome } from '../../schemas/closed-sets.ts';
import type { Policy } from '../../schemas/policy.ts';
import { literalsOfRule } from '../../src/policy/demands.ts';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import type { PastEvent } from '../../src/policy/quotas/sequence-store.ts';
import { replayedEvent } from '../../src/policy/replay/recorded-event.ts';
import { typesOf } from '../../src/policy/rule-index.ts';
import type { Memory, SequenceEvent, SequenceMark } from '../../src/policy/sequences/sequence-answer.ts';
import { laterMarks } from '../../src/policy/sequences/sequence-memory.ts';
import { memoryOf } from '../../src/policy/sequences/sequence-part.ts';

/** Longer than an approval may wait, and what is decided then takes to be written. */
const WAIT_MS_MAX = 32 * 86_400_000;

export class PastSteps {
  readonly memory: Memory;
  readonly #policy: Policy;
  readonly #rules: RuleSet;

  /** Throws PolicyError where the policy does not compile. */
  constructor(policy: Policy, traceKey: string) {
    this.#policy = policy;
    this.#rules = new RuleSet([policy], { traceKey });
    this.memory = memoryOf(this.#rules.rules.get(policy.id)!);
  }

  /** Which payloads have to be looked at. */
  get needs() {
    const { steps } = this.#rules.rules.get(this.#policy.id)!;
    const rules = steps.map((step) => ({ policy: this.#policy, steps: [], ...step }));
    const types = rules.map(typesOf);
    return {
      ...{ agentId: this.#policy.agent_id, policyId: null, payload: true },
      types: types.some((one) => one === null) ? null : [...new Set(types.flatMap((one) => one ?? []))],
      clauses: rules.length === 1 ? literalsOfRule(rules[0]!) : [],
    };
  }

  /** `waits`: of a pending one, where it is known. What it was when it came, and what it became by a decision. */
  of(row: ReplayRow, agent: AgentRecord, waits: WaitState | undefined): PastEvent[] {
    const { marks = [] } = judge(this.#rules, { ...replayedEvent(row).view, agent }).sequences ?? {};
    if (marks.length === 0) return [];
    const event = (outcome: Outcome, of: readonly SequenceMark[], later: readonly SequenceMark[] = []) => {
      const waitMs = later.length === 0 ? 0 : WAIT_MS_MAX;
      return { ...{ id: row.id, agent: row.agentId, outcome, asks: [], marks: of, later, waitMs } } as SequenceEvent;
    };
    const came = { atMs: row.receivedMs, isRecorded: true };
    if (row.outcome !== 'pending') return [{ ...came, event: event(row.outcome, marks) }];
    const later = laterMarks(marks, 'pending');
    if (waits === undefined || waits.decidedMs === null)
      return [{ ...came, isRecorded: false, event: event('pending', marks, later) }];
    const first: PastEvent = { ...came, event: event('blocked', marks) };
    if (waits.outcome !== 'allowed') return [first];
    return [first, { atMs: waits.decidedMs, isRecorded: true, event: event('allowed', later) }];
  }
}
