// What sequences say of events, the plain way (for test/policy/sequences.*): everything that occurred is kept in a
// list, and all of it is gone through for each event. Shares no code with src.
// An event says by itself which steps it is, so this is about time, order, scopes and values alone.

export type PlainPolicy = {
  steps: number;
  hasUnless: boolean;
  atLeast: number;
  windowMs: number;
  per: 'trace' | 'agent' | 'account';
  hasSame: boolean;
  blocks: boolean;
  /** The sum that the amounts may come to; null: they are not added up. */
  most: number | null;
};
/**
 * The part of one policy in an event; amounts are whole. `value` null: it has none. `places`: which steps it is; 0:
 * `unless`. `any`: of these the ones that count if it is blocked.
 */
export type PlainPart = { places: number[]; any: number[]; isSink: boolean; value: string | null; amount: number };
export type PlainEvent = {
  id: string;
  agent: string;
  trace: string | null;
  outcome: 'allowed' | 'blocked' | 'pending';
  parts: PlainPart[];
  atMs: number;
  /** Events of one are recorded together, or not at all. */
  submission: string;
};
type StepSeen = { id: string; places: number[]; atMs: number; amount: number };
/** `isKnown`: it is recorded, and approved if it had to be. */
type Occurred = { event: PlainEvent; atMs: number; waits: boolean; isKnown: boolean };
type Fits = (event: PlainEvent) => boolean;

export class PlainSequences {
  readonly #policies: readonly PlainPolicy[];
  readonly #occurred: Occurred[] = [];

  constructor(policies: readonly PlainPolicy[]) {
    this.#policies = policies;
  }

  /** For each policy: does it match? With the ids of the steps where it does; null: it does not, or was not asked. */
  next(event: PlainEvent): ({ after: string[]; waitsFor: string | null } | null)[] {
    const answers = this.#policies.map((_, i) =>
      event.outcome !== 'blocked' && event.parts[i]!.isSink ? this.#matches(i, event) : null,
    );
    const isBlocked = answers.some((answer, i) => answer !== null && this.#policies[i]!.blocks);
    const outcome = isBlocked ? 'blocked' : event.outcome;
    const occurred = { event: { ...event, outcome }, atMs: event.atMs, waits: outcome === 'pending', isKnown: false };
    this.#occurred.push(occurred);
    return answers;
  }

  /** It occurs once more, as what it would have been; what it was at once stays. */
  approve(id: string, atMs: number): void {
    const waiting = this.#occurred.find(({ event, waits }) => event.id === id && waits);
    if (waiting === undefined) return;
    waiting.waits = false;
    const parts = waiting.event.parts.map((part) => ({
      ...part,
      places: part.places.filter((place) => !part.any.includes(place)),
    }));
    const event = { ...waiting.event, outcome: 'allowed' as const, parts };
    this.#occurred.push({ event, atMs, waits: false, isKnown: true });
  }

  recorded(id: string): void {
    for (const one of this.#occurred) if (one.event.id === id && one.event.outcome === 'allowed') one.isKnown = true;
  }

  #matches(i: number, event: PlainEvent): { after: string[]; waitsFor: string | null } | null {
    const policy = this.#policies[i]!;
    const ofAgent: Fits = ({ agent }) => agent === event.agent;
    const open: Fits = (other) => ofAgent(other) && other.trace === null;
    const own: Fits =
      policy.per === 'account'
        ? () => true
        : policy.per === 'agent'
          ? ofAgent
          : event.trace === null
            ? ofAgent
            : (other) => other.trace === event.trace;
    let after: string[] | null = [];
    if (policy.steps > 0) {
      after = this.#way(i, event, own);
      // An agent that left its trace out of a step is judged by all that it did.
      const isOpen = policy.per === 'trace' && event.trace !== null && this.#anyStep(i, event, open);
      if (after === null && isOpen) after = this.#way(i, event, ofAgent);
      if (after === null) return null;
    }
    if (!policy.hasUnless) return { after, waitsFor: null };
    if (event.parts[i]!.value === null && policy.hasSame) return { after, waitsFor: null };
    const isThere: Fits = policy.per === 'trace' && event.trace === null ? open : own;
    const fits = (other: Occurred) =>
      isThere(other.event) &&
      other.atMs > event.atMs - policy.windowMs &&
      other.event.parts[i]!.places.includes(0) &&
      (!policy.hasSame || other.event.parts[i]!.value === event.parts[i]!.value);
    const allowed = this.#occurred.filter((other) => fits(other) && other.event.outcome === 'allowed');
    if (allowed.some(({ isKnown, event: { submission } }) => isKnown || submission === event.submission)) return null;
    const waiting = this.#occurred.filter((other) => fits(other) && other.event.outcome === 'pending');
    return { after, waitsFor: (allowed.at(-1) ?? waiting.at(-1))?.event.id ?? null };
  }

  /** All steps of the policy in the window, in their order, of this scope and value. */
  #stepsOf(i: number, event: PlainEvent, isThere: Fits, windowMs = this.#policies[i]!.windowMs): StepSeen[] {
    const { hasSame } = this.#policies[i]!;
    const { value } = event.parts[i]!;
    return this.#occurred
      .filter(({ event: other, atMs }) => isThere(other) && atMs > event.atMs - windowMs)
      .filter(({ event: other }) => {
        const theirs = other.parts[i]!.value;
        return !hasSame || value === null || theirs === null || theirs === value;
      })
      .map(({ event: other, atMs }) => {
        const { places, any, amount } = other.parts[i]!;
        const counts = (place: number) => place > 0 && (other.outcome === 'allowed' || any.includes(place));
        return { id: other.id, places: places.filter(counts), atMs, amount };
      })
      .filter(({ places }) => places.length > 0);
  }

  #anyStep(i: number, event: PlainEvent, isThere: Fits): boolean {
    return this.#stepsOf(i, event, isThere).length > 0;
  }

  /** One of each step, the last `atLeast` times; null: there is no such way. */
  #way(i: number, event: PlainEvent, isThere: Fits): string[] | null {
    const { steps, atLeast, hasSame, most } = this.#policies[i]!;
    const values = new Set(
      this.#occurred.map(({ event: other }) => other.parts[i]!.value).filter((value) => value !== null),
    );
    // Without a value the event is equal to every one, but the steps must be equal to one another.
    const wanted = hasSame && event.parts[i]!.value === null ? [...values, 'none of them'] : [event.parts[i]!.value];
    for (const value of wanted) {
      const parts = event.parts.map((part, at) => (at === i ? { ...part, value } : part));
      const asked = { ...event, parts };
      const all = this.#stepsOf(i, asked, isThere);
      const way = most === null ? wayThrough(all, steps, atLeast) : this.#wayOfSum(i, asked, isThere);
      if (way !== null) return way;
    }
    return null;
  }

  /** An amount counts by when the way to it began, in sixtieths of a window of which the oldest counts whole. */
  #wayOfSum(i: number, event: PlainEvent, isThere: Fits): string[] | null {
    const { steps, windowMs, most } = this.#policies[i]!;
    const all = this.#stepsOf(i, event, isThere, Number.POSITIVE_INFINITY);
    const recent = this.#stepsOf(i, event, isThere);
    const before = steps === 1 ? [] : wayThrough(recent, steps - 1, 1);
    if (before === null) return null;
    let sum = event.parts[i]!.amount;
    for (const [at, { places, atMs, amount }] of all.entries()) {
      const start = places.includes(steps) ? startOf(all, at, steps) : null;
      if (start === null || start <= atMs - windowMs) continue;
      const end = ((Math.floor((start * 60) / windowMs) + 1) * windowMs) / 60;
      if (end > event.atMs - windowMs) sum += amount;
    }
    return sum > most! ? (wayThrough(recent, steps, 1) ?? before) : null;
  }
}

/** When the way began that leads to this event as the step `place`, and began last; null: there is none. */
function startOf(all: readonly StepSeen[], at: number, place: number): number | null {
  if (place === 1) return all[at]!.atMs;
  const before = all.findLastIndex(({ places }, i) => i < at && places.includes(place - 1));
  return before < 0 ? null : startOf(all, before, place - 1);
}

/** Takes the earliest event that is each step; then how often the last one follows. */
function wayThrough(all: readonly StepSeen[], steps: number, atLeast: number): string[] | null {
  const way: string[] = [];
  let at = 0;
  for (let place = 1; place < steps; place++) {
    while (at < all.length && !all[at]!.places.includes(place)) at++;
    if (at === all.length) return null;
    way.push(all[at]!.id);
    at++;
  }
  const last = all.slice(at).filter(({ places }) => places.includes(steps));
  return last.length >= atLeast ? [...way, last.at(-1)!.id] : null;
}
