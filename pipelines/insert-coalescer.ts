// Places for batches that leave together (between the event streams' batches and their insert): what waits when a place becomes free
// gets it as one, with a joint (commit-barrier.ts) on every ticket. An insert costs ClickHouse as much as thousands of rows, whatever is in it,
// so eight streams that insert apart cost it twice what one insert of all their rows does.
//
//   free and quiet     a lone batch goes at once
//   free and busy      not before `lingerMs` after the last company came home, and not before as many wait as left then, or GATHER_MS
//   taken              what comes waits for the next, and grows meanwhile
//   enough for one     a full batch, or more than one insert may hold: goes beside the one that runs, `atOnceMax` at most
//
//   a member is stuck  its company is no longer waited for after STUCK_MS: a shard of Redis that does not answer, or a statement that takes
//                      its time, must not keep the streams of the others here. Each stream has one batch, which bounds them all
//
// Invariant: never more than `atOnceMax` companies are on their way, stuck ones aside; a company has its place until its last ticket is
// given back.
// First come, first served. A batch that must go alone (a retry, a recovery) has a place of its own, as everybody has where
// `mayJoin` says no.
import { CommitBarrier } from './commit-barrier.ts';
import { type Load, Permit, type Permits } from './semaphore.ts';

/** Streams that came home together read their next batches one after the other; a few of them may have nothing to read. */
const GATHER_MS = 50;
/** Many times what a large insert takes beside merges. */
const STUCK_MS = 5_000;

export type InsertCoalescerOptions = {
  concurrentMax: number;
  lingerMs: number;
  /** Of one company. */
  rowsMax: number;
  bytesMax: number;
  mayJoin: () => boolean;
  /** For tests. */
  stuckMs?: number;
};

type Waiting = { ticket: Permit; load: () => Load; since: number };
type Group = { members: number; startedAt: number; barrier?: CommitBarrier<unknown> };

export class InsertCoalescer implements Permits {
  readonly #options: InsertCoalescerOptions;
  #waiting: Waiting[] = [];
  readonly #groupOf = new Map<Permit, Group>();
  readonly #running = new Set<Group>();
  #lastEndedAt = Number.NEGATIVE_INFINITY;
  #lastMembers = 1;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: InsertCoalescerOptions) {
    this.#options = options;
  }

  acquire(load: () => Load): Permit {
    const ticket = new Permit(this.#release);
    this.#waiting.push({ ticket, load, since: performance.now() });
    this.#schedule();
    return ticket;
  }

  readonly #release = (ticket: Permit): void => {
    ticket.barrier?.leave();
    const company = this.#groupOf.get(ticket);
    if (company === undefined) this.#waiting = this.#waiting.filter((one) => one.ticket !== ticket);
    else {
      this.#groupOf.delete(ticket);
      if (--company.members > 0) return;
      this.#running.delete(company);
      this.#lastEndedAt = performance.now();
    }
    this.#schedule();
  };

  #schedule(): void {
    clearTimeout(this.#timer);
    while (this.#waiting.length > 0) {
      const { members, isEnough } = this.#nextGroup();
      const leavesAt = this.#permitAt(isEnough ? this.#options.concurrentMax : 1);
      const leftMs = (isEnough ? leavesAt : Math.max(leavesAt, this.#dueAt())) - performance.now();
      if (leftMs > 0) {
        this.#timer = setTimeout(() => this.#schedule(), leftMs);
        return;
      }
      this.#start(members);
    }
  }

  /** When fewer than `places` companies are away that are not stuck, unless one comes home before; in the past: now. */
  #permitAt(places: number): number {
    const { stuckMs = STUCK_MS } = this.#options;
    // In the order in which they left.
    const stuckAt = [...this.#running].map(({ startedAt: leftAt }) => leftAt + stuckMs);
    return stuckAt[stuckAt.length - places] ?? Number.NEGATIVE_INFINITY;
  }

  /** Those in front that fit into one insert; enough: waiting for more of them has no use. */
  #nextGroup(): { members: Waiting[]; isEnough: boolean } {
    const { rowsMax, bytesMax, mayJoin } = this.#options;
    const members: Waiting[] = [];
    let [rows, bytes, isEnough] = [0, 0, false];
    for (const one of this.#waiting) {
      const load = one.load();
      const goesAlone = load.alone || !mayJoin();
      if (members.length === 0 && goesAlone) return { members: [one], isEnough: true };
      if (goesAlone) continue;
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
    const isBusy = performance.now() - this.#lastEndedAt < 2 * lingerMs;
    const isGathered = !isBusy || this.#waiting.length >= this.#lastMembers;
    return Math.max(this.#lastEndedAt + lingerMs, this.#waiting[0]!.since) + (isGathered ? 0 : GATHER_MS);
  }

  #start(members: readonly Waiting[]): void {
    const company: Group = { members: members.length, startedAt: performance.now() };
    if (members.length > 1) company.barrier = new CommitBarrier(members.length);
    this.#lastMembers = members.length;
    this.#running.add(company);
    const gone = new Set(members);
    this.#waiting = this.#waiting.filter((one) => !gone.has(one));
    for (const { ticket } of members) {
      this.#groupOf.set(ticket, company);
      ticket.grant(company.barrier);
    }
  }
}
