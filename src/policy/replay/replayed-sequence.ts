// A sequence, replayed over events in the order in which they arrived (of a backtest; pure). What occurred is kept in
// memory, as Redis keeps it (sequences/sequence-memory.ts).
// A step is what was recorded and is not blocked with the policy in force; one that waited for an approval is one from
// when it was approved. What a filter redacted is judged as it is stored: where that may hide a step, nothing that it
// may decide is said of its scope for a window.
// Invariant: what is kept goes on exactly where it stood. Failure: more of it than is kept throws TooManyCounters.
import type { Outcome } from '../../../schemas/closed-sets.ts';
import { BACKTEST_COUNTERS_MAX } from '../../common/limits.ts';
import type { Rule } from '../compile.ts';
import type { Detail, EventView, SequencePart } from '../judgement.ts';
import type { SequenceTerms } from '../kinds/sequence.ts';
import { sequenceMatches } from '../sequences/sequence-detail.ts';
import { type KeptMemory, laterMarks, SequenceMemory } from '../sequences/sequence-memory.ts';
import { scopeOf } from '../sequences/sequence-part.ts';
import { tooMany } from './replayed-counters.ts';

type Approved = [id: string, atMs: number];
/** As it is kept: JSON. `hidden`: scopes, with the end of the window in which a step may have been hidden. */
export type KeptSequence = {
  memory: KeptMemory;
  approved: readonly Approved[];
  hidden: readonly (readonly [string, number])[];
  lastMs: number;
};

type ToReplay = {
  /** `approvedMs`: where it waited for that. */
  event: { id: string; agentId: string; receivedMs: number; approvedMs?: number | undefined };
  view: EventView;
  /** Its part in the sequence; null: none. */
  part: SequencePart | null;
  /** The outcome of the event by all other policies. */
  outcome: Outcome;
  /** It may be a step, for all that is known of it. */
  isHidden: boolean;
};

export class ReplayedSequence {
  readonly #terms: SequenceTerms;
  readonly #memory: SequenceMemory;
  /** In the order of their decisions. */
  readonly #approved: Approved[];
  readonly #hidden: Map<string, number>;
  #lastMs: number;

  constructor({ terms }: Rule, kept?: KeptSequence) {
    this.#terms = terms as SequenceTerms;
    this.#memory = new SequenceMemory(undefined, kept?.memory);
    this.#approved = [...(kept?.approved ?? [])];
    this.#hidden = new Map(kept?.hidden);
    this.#lastMs = kept?.lastMs ?? 0;
  }

  /** Throws TooManyCounters. */
  kept(): KeptSequence {
    for (const [scope, endMs] of this.#hidden) if (endMs <= this.#lastMs) this.#hidden.delete(scope);
    const memory = this.#memory.kept(this.#lastMs);
    const states = memory.scopes.reduce((sum, [, , , , of]) => sum + of.length, this.#hidden.size);
    if (states > BACKTEST_COUNTERS_MAX) throw tooMany();
    return { memory, approved: [...this.#approved], hidden: [...this.#hidden], lastMs: this.#lastMs };
  }

  /** The detail of its match; false: it does not match; null: not known. */
  next({ event, view, part, outcome, isHidden }: ToReplay): Detail | false | null {
    this.#lastMs = Math.max(this.#lastMs, event.receivedMs);
    const atMs = this.#lastMs;
    while (this.#approved.length > 0 && this.#approved[0]![1] <= atMs) this.#memory.settle(...this.#approved.shift()!);
    const isUnknown = (this.#hiddenUntil(view) ?? 0) > atMs;
    const match = part === null ? undefined : this.#asked(part, { event, outcome, atMs });
    if (isHidden && outcome !== 'blocked') this.#hide(view, atMs + this.#terms.windowMs);
    if (part === null || part.sinks.length === 0 || outcome === 'blocked') return false;
    // What is hidden can only add a match where nothing excludes one.
    if (isUnknown && (match === undefined || this.#terms.hasUnless)) return null;
    return match ?? false;
  }

  #asked(
    part: SequencePart,
    { event, outcome, atMs }: Pick<ToReplay, 'event' | 'outcome'> & { atMs: number },
  ): Detail | undefined {
    const { id, agentId: agent, approvedMs } = event;
    const asks = outcome === 'blocked' ? [] : part.sinks.map(({ ask }) => ask);
    // What is never decided has nothing to come.
    const isAwaited = outcome === 'allowed' || approvedMs !== undefined;
    const later = isAwaited ? laterMarks(part.marks, outcome) : [];
    const asked = { id, agent, outcome, asks, marks: part.marks, later, waitMs: 0 };
    const { answers, outcome: made } = this.#memory.next(asked, atMs, id);
    if (made === 'allowed') this.#memory.settle(id, atMs);
    else if (made === 'pending' && later.length > 0) this.#await([id, approvedMs!]);
    return sequenceMatches(part, answers)[0]?.detail;
  }

  #await(approved: Approved): void {
    const behind = this.#approved.findIndex(([, atMs]) => atMs > approved[1]);
    this.#approved.splice(behind < 0 ? this.#approved.length : behind, 0, approved);
  }

  #hide(view: EventView, endMs: number): void {
    const scope = this.#scopeOf(view);
    this.#hidden.set(scope, Math.max(this.#hidden.get(scope) ?? 0, endMs));
  }

  #hiddenUntil(view: EventView): number | undefined {
    if (this.#hidden.size === 0) return undefined;
    const [own, all] = [this.#hidden.get(this.#scopeOf(view)), this.#hidden.get('')];
    return own === undefined ? all : Math.max(own, all ?? 0);
  }

  /** '': any, since it has not one of its own. */
  #scopeOf(view: EventView): string {
    return scopeOf(this.#terms.per, view).own ?? '';
  }
}
