// Places for batches that leave together (between the event streams' batches and their insert): what waits when a place becomes free
// gets it as one, with a joint (joint.ts) on every ticket. An insert costs ClickHouse as much as thousands of rows, whatever is in it,
// so eight streams that insert apart cost it twice what one insert of all their rows does.
//
//   free and quiet     a lone batch goes at once
//   free and busy      not before `lingerMs` after the last company came home, and not before as many wait as left then, or GATHER_MS
//   taken              what comes waits for the next, and grows meanwhile
//   enough for one     a full batch, or more than one insert may hold: goes beside the one that runs, `atOnceMax` at most
//
// Invariant: never more than `atOnceMax` companies are on their way; a company has its place until its last ticket is given back.
// First come, first served. A batch that must go alone (a retry, a recovery) has a place of its own, as everybody has where
// `mayJoin` says no.
import { Joint } from './joint.ts';
import { type Load, type Places, Ticket } from './slots.ts';

/** Streams that came home together read their next batches one after the other; a few of them may have nothing to read. */
const GATHER_MS = 50;

export type DeparturesOptions = {
  atOnceMax: number;
  lingerMs: number;
  /** Of one company. */
  rowsMax: number;
  bytesMax: number;
  mayJoin: () => boolean;
};

type Waiting = { ticket: Ticket; load: Load; since: number };
type Company = { members: number; joint?: Joint<unknown> };

export class Departures implements Places {
  readonly #options: DeparturesOptions;
  #waiting: Waiting[] = [];
  readonly #companies = new Map<Ticket, Company>();
  #running = 0;
  #cameHomeAt = Number.NEGATIVE_INFINITY;
  #lastMembers = 1;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: DeparturesOptions) {
    this.#options = options;
  }

  queue(load: Load): Ticket {
    const ticket = new Ticket(this.#giveBack);
    this.#waiting.push({ ticket, load, since: performance.now() });
    this.#look();
    return ticket;
  }

  readonly #giveBack = (ticket: Ticket): void => {
    ticket.joint?.leave();
    const company = this.#companies.get(ticket);
    if (company === undefined) this.#waiting = this.#waiting.filter((one) => one.ticket !== ticket);
    else {
      this.#companies.delete(ticket);
      if (--company.members > 0) return;
      this.#running--;
      this.#cameHomeAt = performance.now();
    }
    this.#look();
  };

  #look(): void {
    clearTimeout(this.#timer);
    while (this.#waiting.length > 0 && this.#running < this.#options.atOnceMax) {
      const { members, isEnough } = this.#nextCompany();
      if (!isEnough) {
        if (this.#running > 0) return;
        const leftMs = this.#departsAt() - performance.now();
        if (leftMs > 0) {
          this.#timer = setTimeout(() => this.#look(), leftMs);
          return;
        }
      }
      this.#depart(members);
    }
  }

  /** Those in front that fit into one insert; enough: waiting for more of them has no use. */
  #nextCompany(): { members: Waiting[]; isEnough: boolean } {
    const { rowsMax, bytesMax, mayJoin } = this.#options;
    const [first, ...others] = this.#waiting as [Waiting, ...Waiting[]];
    if (first.load.alone || !mayJoin()) return { members: [first], isEnough: true };
    const members = [first];
    let { rows, bytes } = first.load;
    for (const one of others) {
      if (one.load.alone) continue;
      rows += one.load.rows;
      bytes += one.load.bytes;
      if (rows > rowsMax || bytes > bytesMax) return { members, isEnough: true };
      members.push(one);
    }
    return { members, isEnough: members.some(({ load }) => load.isFull) };
  }

  #departsAt(): number {
    const { lingerMs } = this.#options;
    const isBusy = performance.now() - this.#cameHomeAt < 2 * lingerMs;
    const isGathered = !isBusy || this.#waiting.length >= this.#lastMembers;
    return Math.max(this.#cameHomeAt + lingerMs, this.#waiting[0]!.since) + (isGathered ? 0 : GATHER_MS);
  }

  #depart(members: readonly Waiting[]): void {
    const company: Company = { members: members.length };
    if (members.length > 1) company.joint = new Joint(members.length);
    this.#lastMembers = members.length;
    this.#running++;
    const gone = new Set(members);
    this.#waiting = this.#waiting.filter((one) => !gone.has(one));
    for (const { ticket } of members) {
      this.#companies.set(ticket, company);
      ticket.grant(company.joint);
    }
  }
}
