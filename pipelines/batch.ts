// A batch between its manifest and its acknowledgement (made by drain.ts, given to a pipeline's work): what is to be
// written, and what is known of earlier tries. Invariant: that knowledge only becomes less certain.
import type { CommitBarrier } from './commit-barrier.ts';

/**
 * The knowledge of earlier tries to write a batch. `first`: there was none. `repeated`: one may have been carried out,
 * and ClickHouse would know its token. `untracked`: part of the batch may have been written, and no token can be
 * trusted to know. It only moves to the right.
 */
const TRIES = ['first', 'repeated', 'untracked'] as const;
type Try = (typeof TRIES)[number];

export type Batch<T, Plan> = {
  readonly stream: string;
  /** Ids of its first and last entry. */
  readonly first: string;
  readonly last: string;
  readonly values: readonly T[];
  readonly plan: Plan;
  readonly try: Try;
  /** At the first try: the others that got their permit with it. */
  readonly barrier: CommitBarrier | undefined;
  /** Keeps another plan in the manifest. To be called before an effect that depends on it. */
  replan(plan: Plan): Promise<void>;
  /** Throws LeaseLost. To be called right before each effect. */
  ensureHeld(): Promise<void>;
};

type BatchParts<T, Plan> = Omit<Batch<T, Plan>, 'replan' | 'try'> & {
  /** Monotonic ms of the first try. */
  startedAt: number;
  keepPlan: (plan: Plan) => Promise<void>;
};

/** A batch between its manifest and its acknowledgement. */
export class OpenBatch<T, Plan> implements Batch<T, Plan> {
  readonly #parts: BatchParts<T, Plan>;
  #plan: Plan;
  #try: Try = 'first';

  constructor(parts: BatchParts<T, Plan>) {
    this.#parts = parts;
    this.#plan = parts.plan;
  }

  get stream(): string {
    return this.#parts.stream;
  }

  get first(): string {
    return this.#parts.first;
  }

  get last(): string {
    return this.#parts.last;
  }

  get values(): readonly T[] {
    return this.#parts.values;
  }

  get startedAt(): number {
    return this.#parts.startedAt;
  }

  get plan(): Plan {
    return this.#plan;
  }

  get try(): Try {
    return this.#try;
  }

  get barrier(): CommitBarrier | undefined {
    return this.#try === 'first' ? this.#parts.barrier : undefined;
  }

  moveOn(to: Try): void {
    if (TRIES.indexOf(to) > TRIES.indexOf(this.#try)) this.#try = to;
  }

  async replan(plan: Plan): Promise<void> {
    await this.#parts.keepPlan(plan);
    this.#plan = plan;
  }

  ensureHeld(): Promise<void> {
    return this.#parts.ensureHeld();
  }
}
