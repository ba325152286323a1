// Group commit of inserts (between the event streams' batches and their insert): batches that wait when a permit
// becomes free get it as one group, and share a barrier (commit-barrier.ts). An insert costs ClickHouse as much as
// thousands of rows, whatever is in it, so eight streams that insert apart cost it twice what one insert of all their
// rows costs.
// Invariant: at most `concurrentMax` groups run, stuck ones aside; a group runs until its last permit is released.
// Order: first come, first served. A batch that must be alone (a retry, a recovery) gets a permit of its own, and so
// does every batch where `mayJoin` says no.
import { type Clock, MONOTONIC_CLOCK } from '../src/common/clock.ts';
import { CommitBarrier } from './commit-barrier.ts';
import { type Load, Permit, type Permits } from './semaphore.ts';

//   free and quiet   a single batch starts at once
//   free and busy    starts `lingerMs` after the last group ended at the earliest, and waits GATHER_MS more while fewer
//                    batches wait than the last group had
//   taken            batches wait for the next group, and grow meanwhile
//   enough           a full batch, or more than one insert may hold, starts beside the running groups, up to
//                    `concurrentMax`
//   stuck            a group that runs longer than STUCK_MS no longer holds others up: a shard of Redis that does not
//                    answer, or a slow statement, must not stop the other streams. Each stream has one batch, which
//                    bounds them all

/** The streams of a group read their next batches one after the other; some of them may have nothing to read. */
export const GATHER_MS = 50;
/** Many times what a large insert takes beside merges. */
export const STUCK_MS = 5_000;

export type InsertCoalescerOptions = {
  concurrentMax: number;
  lingerMs: number;
  /** Bounds of one group. */
  rowsMax: number;
  bytesMax: number;
  mayJoin: () => boolean;
  clock?: Clock;
};

type Waiting = { permit: Permit; load: () => Load; since: number };
type Group = { members: number; startedAt: number; barrier?: CommitBarrier };

export class InsertCoalescer implements Permits {
  readonly #options: InsertCoalescerOptions;
  #waiting: Waiting[] = [];
  readonly #groupOf = new Map<Permit, Group>();
  readonly #running = new Set<Group>();
  #lastEndedAt = Number.NEGATIVE_INFINITY;
  #lastMembers = 1;
  readonly #clock: Clock;
  #cancel: (() => void) | undefined;

  constructor(options: InsertCoalescerOptions) {
    this.#options = options;
    this.#clock = options.clock ?? MONOTONIC_CLOCK;
  }

  acquire(load: () => Load): Permit {
    const permit = new Permit(this.#release);
    this.#waiting.push({ permit, load, since: this.#clock.now() });
    this.#schedule();
    return permit;
  }

  readonly #release = (permit: Permit): void => {
    permit.barrier?.leave();
    const group = this.#groupOf.get(permit);
    if (group === undefined) this.#waiting = this.#waiting.filter((one) => one.permit !== permit);
    else {
      this.#groupOf.delete(permit);
      if (--group.members > 0) return;
      this.#running.delete(group);
      this.#lastEndedAt = this.#clock.now();
    }
    this.#schedule();
  };

  #schedule(): void {
    this.#cancel?.();
    while (this.#waiting.length > 0) {
      const { members, isEnough } = this.#nextGroup();
      const startsAt = this.#permitAt(isEnough ? this.#options.concurrentMax : 1);
      const leftMs = (isEnough ? startsAt : Math.max(startsAt, this.#dueAt())) - this.#clock.now();
      if (leftMs > 0) {
        this.#cancel = this.#clock.after(leftMs, () => this.#schedule());
        return;
      }
      this.#start(members);
    }
  }

  /** When fewer than `running` groups run that are not stuck, at the latest; a time in the past: now. */
  #permitAt(running: number): number {
    // In the order in which they started.
    const stuckAt = [...this.#running].map(({ startedAt }) => startedAt + STUCK_MS);
    return stuckAt[stuckAt.length - running] ?? Number.NEGATIVE_INFINITY;
  }

  /** The first waiting batches that fit into one insert. `isEnough`: waiting for more of them has no use. */
  #nextGroup(): { members: Waiting[]; isEnough: boolean } {
    const { rowsMax, bytesMax, mayJoin } = this.#options;
    const members: Waiting[] = [];
    let [rows, bytes, isEnough] = [0, 0, false];
    for (const one of this.#waiting) {
      const load = one.load();
      const isAlone = load.alone || !mayJoin();
      if (members.length === 0 && isAlone) return { members: [one], isEnough: true };
      if (isAlone) continue;
      rows += load.rows;
      bytes += load.bytes;
      if (members.length > 0 && (rows > rowsMax || bytes > bytesMax)) return { members, isEnough: true };
      members.push(one);
      isEnough ||= load.isFull;
    }
    return { members, isEnough };
  }

  #dueAt(): number {
    const { lingerMs } = this.#options;
    const isBusy = this.#clock.now() - this.#lastEndedAt < 2 * lingerMs;
    const isGathered = !isBusy || this.#waiting.length >= this.#lastMembers;
    return Math.max(this.#lastEndedAt + lingerMs, this.#waiting[0]!.since) + (isGathered ? 0 : GATHER_MS);
  }

  #start(members: readonly Waiting[]): void {
    const group: Group = { members: members.length, startedAt: this.#clock.now() };
    if (members.length > 1) group.barrier = new CommitBarrier(members.length, this.#clock);
    this.#lastMembers = members.length;
    this.#running.add(group);
    const started = new Set(members);
    this.#waiting = this.#waiting.filter((one) => !started.has(one));
    for (const { permit } of members) {
      this.#groupOf.set(permit, group);
      permit.grant(group.barrier);
    }
  }
}
