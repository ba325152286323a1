// Notes that close a gap of the audit chains: who says, when, from where to where and why, that rows are not there any
// more (`gatehouse audit close-gap`). A note is an entry `chain.gap_closed` of the audit log, so it is chained itself,
// and it carries a signature of the key that signs checkpoints.
// Invariant: a note covers as many missing rows in each of its ranges as were missing when it was made, and no more:
// what is removed later is found. It covers nothing that was changed or added.
// Failure: a note that is not as it was signed counts as none, and what it covered is missing again.
import { type KeyObject, sign, verify } from 'node:crypto';
import { publicText, readPublicKey } from './checkpoint.ts';

/** Entries `first` to `last` of a chain, of which `entries` have no row. */
export type GapRange = { chain: string; first: number; last: number; entries: number };

export type GapNote = {
  at: string;
  by: string;
  reason: string;
  /** When the rows had arrived, ISO 8601. */
  from: string;
  to: string;
  entries: number;
  ranges: GapRange[];
  /** The key that signed it; DER, base64. */
  public_key: string;
  /** Base64. */
  signature: string;
};

/** A note as the audit log has it; `entry`: the entry's id. */
export type KeptNote = GapNote & { entry: string };

/** An entry of the audit log stays readable. Past it the nearest ranges become one. */
const RANGES_MAX = 500;

export function signGap(account: string, note: Omit<GapNote, 'public_key' | 'signature'>, key: KeyObject): GapNote {
  const unsigned = { ...note, public_key: publicText(key) };
  return { ...unsigned, signature: sign(null, signedBytes(account, unsigned), key).toString('base64') };
}

/** The note in the details of an audit entry, if its signature is right. `trusted`: the one key that is believed. */
export function readGap(account: string, details: string, trusted?: KeyObject): GapNote | undefined {
  try {
    const note = JSON.parse(details) as GapNote;
    if (trusted !== undefined && note.public_key !== publicText(trusted)) return undefined;
    const key = readPublicKey(note.public_key);
    return verify(null, signedBytes(account, note), key, Buffer.from(note.signature, 'base64')) ? note : undefined;
  } catch {
    return undefined;
  }
}

function signedBytes(account: string, note: Omit<GapNote, 'signature'>): Buffer {
  const { at, by, reason, from, to, entries, public_key } = note;
  const ranges = note.ranges.map(({ chain, first, last, entries: count }) => [chain, first, last, count]);
  return Buffer.from(
    `gatehouse-gap\n${JSON.stringify([account, at, by, reason, from, to, entries, ranges, public_key])}`,
  );
}

/** Missing entries by chain: their numbers, in any order. */
export function rangesOf(missing: ReadonlyMap<string, readonly number[]>): GapRange[] {
  const ranges: GapRange[] = [];
  for (const [chain, numbers] of missing) {
    for (const n of [...numbers].sort((a, b) => a - b)) {
      const last = ranges.at(-1);
      if (last?.chain === chain && last.last === n - 1) {
        last.last = n;
        last.entries++;
      } else ranges.push({ chain, first: n, last: n, entries: 1 });
    }
  }
  return joined(ranges);
}

function joined(ranges: readonly GapRange[]): GapRange[] {
  const between = (i: number) => {
    const [before, here] = [ranges[i - 1], ranges[i]!];
    return before?.chain === here.chain ? here.first - before.last : Number.POSITIVE_INFINITY;
  };
  const borders = ranges.map((_, i) => i).sort((a, b) => between(b) - between(a));
  const kept = new Set(borders.slice(0, RANGES_MAX));
  const all: GapRange[] = [];
  for (const [i, range] of ranges.entries()) {
    const last = all.at(-1);
    if (last === undefined || kept.has(i) || last.chain !== range.chain) all.push({ ...range });
    else all[all.length - 1] = { ...last, last: range.last, entries: last.entries + range.entries };
  }
  return all;
}

/** Which range of the notes covers an entry. Of several the first. */
export class NotedRanges {
  readonly #byChain = new Map<string, NotedRange[]>();

  constructor(notes: readonly KeptNote[]) {
    for (const { entry, ranges } of notes) {
      for (const range of ranges) {
        const same = this.#byChain.get(range.chain) ?? [];
        this.#byChain.set(range.chain, same);
        same.push({ ...range, note: entry });
      }
    }
  }

  find(chain: string, n: number): NotedRange | undefined {
    return this.#byChain.get(chain)?.find(({ first, last }) => n >= first && n <= last);
  }
}

export type NotedRange = GapRange & { /** Id of the audit entry. */ note: string };
