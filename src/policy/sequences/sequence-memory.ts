// What has occurred, for the sequences of one account, as src/redis/sequences.lua keeps it, but in memory (of
// evaluations and backtests; pure). A scope of a policy has states, one for each value of `same`. Of a state is kept,
// for each step, the way to it that began last: as long as any way lies in the window that one does. So a state stays
// as small as the policy, however much occurs.
//   next    an event, in the order in which they occur: which sequences match, then which steps it is
//   settle  an event that is recorded, and approved if it had to be: now it is what it would have been
// Invariant: it says of events what the script says (test/policy/sequences.redis.test.ts).
// Failure: more values, or more scopes, than are kept: what is not kept counts as having occurred, `budget`.
import type { Outcome } from '../../../schemas/closed-sets.ts';
import { SEQUENCE_SCOPES_MAX, SEQUENCE_VALUES_MAX } from '../../common/limits.ts';
import { getOrMake } from '../../common/maps.ts';
import {
  ANY_VALUE,
  type MarkedPlace,
  type Memory,
  type Occurrence,
  type SequenceAnswers,
  type SequenceAsk,
  type SequenceEvent,
  type SequenceMark,
  type SequenceMatch,
  type SequenceScope,
} from './sequence-answer.ts';
import { type Amount, added, isMore, ZERO } from './summed-amount.ts';

/**
 * `ways`: by the step that each ends with. `starts`: of the last step's latest occurrences, where their ways began.
 * `sums`: their amounts, by the sixtieth of a window in which their ways began.
 */
type State = {
  ways: Occurrence[][];
  starts: number[];
  sums: Map<number, Amount>;
  lastMs: number;
  unless?: Occurrence;
  waits?: Occurrence;
  /** It is not known yet whether it is recorded. */
  unsettled?: Occurrence & { submission: string };
};
type ScopeStates = { states: Map<string, State>; endMs: number; overUntilMs: number };
type Kept = { scopes: Map<string, ScopeStates>; overUntilMs: number };
/** Sixtieths of a window. */
const PARTS = 60;
/** `isKnown`: it is recorded, and approved if it had to be. */
type Occurring = { outcome: Outcome; id: string; atMs: number; isKnown: boolean };
type Limits = { values: number; scopes: number };
/** As it is kept: JSON. */
export type KeptMemory = {
  scopes: readonly (readonly [
    memory: string,
    scope: string,
    endMs: number,
    overUntilMs: number,
    states: readonly (readonly [value: string, state: KeptStateOf])[],
  ])[];
  over: readonly (readonly [memory: string, untilMs: number])[];
  waiting: readonly (readonly [id: string, marks: readonly SequenceMark[]])[];
};
type KeptStateOf = Omit<State, 'sums'> & { sums: readonly (readonly [part: number, amount: Amount])[] };

export class SequenceMemory {
  readonly #limits: Limits;
  readonly #kept = new Map<string, Kept>();
  readonly #waiting = new Map<string, readonly SequenceMark[]>();
  /** That of the event at hand. */
  #submission = '';

  constructor(limits: Limits = { values: SEQUENCE_VALUES_MAX, scopes: SEQUENCE_SCOPES_MAX }, kept?: KeptMemory) {
    this.#limits = limits;
    for (const [memory, overUntilMs] of kept?.over ?? []) this.#kept.set(memory, { scopes: new Map(), overUntilMs });
    for (const [memory, scope, endMs, overUntilMs, states] of kept?.scopes ?? [])
      this.#kept.get(memory)!.scopes.set(scope, { states: new Map(states.map(stateOfKept)), endMs, overUntilMs });
    for (const [id, marks] of kept?.waiting ?? []) this.#waiting.set(id, marks);
  }

  /** The state that a later run goes on from, without the scopes of which nothing lies in the window. */
  kept(atMs: number): KeptMemory {
    const all = [...this.#kept];
    return {
      over: all.map(([memory, { overUntilMs }]) => [memory, overUntilMs]),
      scopes: all.flatMap(([memory, { scopes }]) =>
        [...scopes]
          .filter(([, { endMs }]) => endMs > atMs)
          .map(([name, { endMs, overUntilMs, states }]) => {
            const kept = [...states].map(([value, state]) => [value, { ...state, sums: [...state.sums] }] as const);
            return [memory, name, endMs, overUntilMs, kept] as const;
          }),
      ),
      waiting: [...this.#waiting],
    };
  }

  /** `atMs` must not fall. `outcome`: with the sequences that match. */
  next(event: SequenceEvent, atMs: number, submission: string): { answers: SequenceAnswers; outcome: Outcome } {
    this.#submission = submission;
    const answers = event.asks.map((ask) => this.#answer(ask, atMs));
    const isBlocked = event.asks.some(({ effect }, i) => answers[i] !== null && effect === 'blocked');
    const outcome = isBlocked ? 'blocked' : event.outcome;
    for (const mark of event.marks) this.#mark(mark, { outcome, id: event.id, atMs, isKnown: false });
    if (outcome !== 'blocked' && event.later.length > 0) this.#waiting.set(event.id, event.later);
    return { answers, outcome };
  }

  settle(id: string, atMs: number): void {
    for (const mark of this.#waiting.get(id) ?? []) this.#mark(mark, { outcome: 'allowed', id, atMs, isKnown: true });
    this.#waiting.delete(id);
  }

  #answer(ask: SequenceAsk, atMs: number): SequenceMatch | null {
    const { memory, scope, value } = ask;
    const { own, agent } = scope;
    const [mine, theirs] = own === null ? [allOf(agent!), openOf(agent!)] : [own, own];
    const found: SequenceMatch = { after: [] };
    if (memory.steps > 0) {
      let way = this.#way(ask, mine, atMs);
      const isOpen = own !== null && agent !== null && this.#isTouched(memory, openOf(agent), value, atMs);
      if (way === undefined && isOpen) way = this.#way(ask, allOf(agent!), atMs);
      if (way !== undefined) found.after = way;
      else if (!this.#isOver(memory, mine, value, atMs)) return null;
      else found.reason = 'budget';
    }
    if (!memory.hasUnless) return found;
    const state = value === ANY_VALUE ? undefined : this.#scope(memory, theirs, atMs)?.states.get(value);
    if (isFresh(state?.unless, memory, atMs)) return null;
    const unsettled = isFresh(state?.unsettled, memory, atMs) ? state?.unsettled : undefined;
    if (unsettled?.submission === this.#submission) return null;
    const waits = unsettled ?? (isFresh(state?.waits, memory, atMs) ? state?.waits : undefined);
    return waits === undefined ? found : { ...found, waitsFor: waits.id };
  }

  #way({ memory, value, amount }: SequenceAsk, scope: string, atMs: number): readonly Occurrence[] | undefined {
    const states = this.#states(memory, scope, value, atMs);
    return (states.length === 0 ? [copied(undefined)] : states)
      .map((state) => (memory.most === null ? wayOf(state, memory, atMs) : wayOfSum(state, { memory, amount }, atMs)))
      .find((way) => way !== undefined);
  }

  /** Did any step occur there? */
  #isTouched(memory: Memory, scope: string, value: string, atMs: number): boolean {
    return this.#states(memory, scope, value, atMs).some(({ lastMs }) => lastMs > atMs - memory.windowMs);
  }

  /** A value that was not seen alone is what had none. */
  #states(memory: Memory, scope: string, value: string, atMs: number): State[] {
    const states = this.#scope(memory, scope, atMs)?.states;
    if (states === undefined) return [];
    if (value === ANY_VALUE) return [...states.values()];
    const state = states.get(value) ?? states.get(ANY_VALUE);
    return state === undefined ? [] : [state];
  }

  #isOver(memory: Memory, name: string, value: string, atMs: number): boolean {
    const scope = this.#scope(memory, name, atMs);
    if (scope === undefined) return (this.#kept.get(memory.name)?.overUntilMs ?? 0) > atMs;
    return scope.overUntilMs > atMs && !scope.states.has(value);
  }

  #scope(memory: Memory, name: string, atMs: number): ScopeStates | undefined {
    const scope = this.#kept.get(memory.name)?.scopes.get(name);
    return scope !== undefined && scope.endMs > atMs ? scope : undefined;
  }

  #mark(mark: SequenceMark, { outcome, id, atMs, isKnown }: Occurring): void {
    const { memory, scope, value } = mark;
    const waiting = ({ place }: MarkedPlace) => place === 0 && outcome !== 'blocked' && !isKnown;
    const waits = mark.places.some(waiting);
    const places = mark.places.filter((place) => !waiting(place) && (outcome === 'allowed' || place.isOfAnyOutcome));
    if (places.length === 0 && !waits) return;
    for (const name of scopesOf(scope)) {
      const states = this.#admit(memory, name, atMs);
      if (states === undefined) continue;
      for (const state of this.#toMark(memory, states, value, atMs)) {
        if (waits && value !== ANY_VALUE) wait(state, { id, atMs, path: '' }, outcome, this.#submission);
        for (const place of places) take(state, mark, place, { id, atMs });
      }
    }
  }

  /** undefined: there are as many as are kept. */
  #admit(memory: Memory, name: string, atMs: number): ScopeStates | undefined {
    const endMs = atMs + memory.windowMs;
    const kept = getOrMake(this.#kept, memory.name, () => ({ scopes: new Map(), overUntilMs: 0 }));
    let scope = this.#scope(memory, name, atMs);
    if (scope === undefined) {
      for (const [other, { endMs: end }] of kept.scopes) if (end <= atMs) kept.scopes.delete(other);
      if (kept.scopes.size >= this.#limits.scopes) {
        kept.overUntilMs = Math.max(kept.overUntilMs, endMs);
        return undefined;
      }
      scope = { states: new Map(), endMs, overUntilMs: 0 };
      kept.scopes.set(name, scope);
    }
    scope.endMs = Math.max(scope.endMs, endMs);
    return scope;
  }

  /** Without a value: all. */
  #toMark(memory: Memory, scope: ScopeStates, value: string, atMs: number): State[] {
    const { states } = scope;
    const isNew = !states.has(value);
    if (isNew && states.size >= this.#limits.values) {
      for (const [other, state] of states) if (isOver(state, memory, atMs)) states.delete(other);
      if (states.size >= this.#limits.values) {
        scope.overUntilMs = Math.max(scope.overUntilMs, atMs + memory.windowMs);
        return value === ANY_VALUE ? [...states.values()] : [];
      }
    }
    if (isNew) states.set(value, copied(states.get(ANY_VALUE)));
    return value === ANY_VALUE ? [...states.values()] : [states.get(value)!];
  }
}

function stateOfKept([value, { sums, ...state }]: readonly [string, KeptStateOf]): [string, State] {
  const ways = state.ways.map((way) => way ?? undefined) as Occurrence[][];
  return [value, { ...state, ways, sums: new Map(sums) }];
}

export function allOf(agent: string): string {
  return `agent ${agent}`;
}

export function openOf(agent: string): string {
  return `open ${agent}`;
}

/** Where a step is kept. An agent's own scope has all that it did; `open`: what came without a trace or a value. */
export function scopesOf({ own, agent }: SequenceScope): string[] {
  if (agent === null) return [own!];
  return [own ?? openOf(agent), allOf(agent)];
}

function take(
  state: State,
  { memory, value, amount }: SequenceMark,
  { place, path }: MarkedPlace,
  { id, atMs }: { id: string; atMs: number },
): void {
  const mark = { id, atMs, path };
  if (place === 0) {
    if (value !== ANY_VALUE && (state.unless?.atMs ?? 0) <= atMs) state.unless = mark;
    return;
  }
  state.lastMs = atMs;
  const before = state.ways[place - 1];
  if (place > 1 && !isFresh(before?.[0], memory, atMs)) return;
  const way = place > 1 ? [...before!, mark] : [mark];
  state.ways[place] = way;
  if (place !== memory.steps) return;
  state.starts = [way[0]!.atMs, ...state.starts].slice(0, memory.atLeast);
  if (memory.most !== null) addTo(state.sums, way[0]!.atMs, amount, memory, atMs);
}

/** A step of `unless` that waits: for an approval, or for being recorded. */
function wait(state: State, mark: Occurrence, outcome: Outcome, submission: string): void {
  if (outcome === 'allowed') state.unsettled = { ...mark, submission };
  else state.waits = mark;
}

function addTo(sums: Map<number, Amount>, atMs: number, amount: Amount, { windowMs }: Memory, nowMs: number): void {
  const part = Math.floor((atMs * PARTS) / windowMs);
  sums.set(part, added(sums.get(part) ?? ZERO, amount));
  for (const other of sums.keys()) if (!isLive(other, windowMs, nowMs)) sums.delete(other);
}

/** The oldest counts whole until it lies outside whole. */
function isLive(part: number, windowMs: number, nowMs: number): boolean {
  return ((part + 1) * windowMs) / PARTS > nowMs - windowMs;
}

/** The last step need not have occurred: the event at hand may be too much by itself. */
function wayOfSum(
  { ways, sums }: State,
  { memory, amount }: Pick<SequenceAsk, 'memory' | 'amount'>,
  atMs: number,
): readonly Occurrence[] | undefined {
  const { steps, windowMs, most } = memory;
  const before = steps > 1 ? ways[steps - 1] : undefined;
  if (steps > 1 && !isFresh(before?.[0], memory, atMs)) return undefined;
  let sum = amount;
  for (const [part, some] of sums) if (isLive(part, windowMs, atMs)) sum = added(sum, some);
  if (!isMore(sum, most!)) return undefined;
  const last = ways[steps];
  return isFresh(last?.[0], memory, atMs) ? last : (before ?? []);
}

function wayOf({ ways, starts }: State, memory: Memory, atMs: number): readonly Occurrence[] | undefined {
  const start = starts[memory.atLeast - 1];
  return start !== undefined && start > atMs - memory.windowMs ? ways[memory.steps] : undefined;
}

function isFresh(mark: Occurrence | undefined, { windowMs }: Memory, atMs: number): boolean {
  return mark !== undefined && mark.atMs > atMs - windowMs;
}

function isOver({ lastMs, unless, waits, unsettled }: State, { windowMs }: Memory, atMs: number): boolean {
  return Math.max(lastMs, ...[unless, waits, unsettled].map((mark) => mark?.atMs ?? 0)) <= atMs - windowMs;
}

function copied(state: State | undefined): State {
  return state === undefined
    ? { ways: [], starts: [], sums: new Map(), lastMs: 0 }
    : { ways: [...state.ways], starts: [...state.starts], sums: new Map(state.sums), lastMs: state.lastMs };
}

/** The marks that are still to come once the event is recorded (`allowed`), or approved (`pending`). */
export function laterMarks(marks: readonly SequenceMark[], outcome: Outcome): SequenceMark[] {
  if (outcome === 'blocked') return [];
  return marks.flatMap((mark) => {
    const places = mark.places.filter(({ place, isOfAnyOutcome }) =>
      outcome === 'pending' ? !isOfAnyOutcome : place === 0,
    );
    return places.length === 0 ? [] : [{ ...mark, places }];
  });
}
