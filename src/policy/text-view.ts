// What rules ask of an event whose bytes alone have been read (types; between demands.ts and the codec on bytes).
import type { EventType } from '../../schemas/closed-sets.ts';

/** An event of which only the text has been inspected. Signs and paths are those of a set, by number (sought.ts). */
export type TextView = {
  type: EventType;
  agent_id: string;
  trace_id: string | undefined;
  /** The payload's size. */
  bytes: number;
  /** May any text be found in it, whatever its bytes show? */
  readonly isOdd: boolean;
  /** The bits of signs that show in payload or trace_id: 32 of them; whatever is found is found only where one does. */
  shown(word: number): number;
  /** May one of these show? */
  hasAny(word: number, mask: number): boolean;
  /** The value right at a path, through objects alone: undefined, nothing; UNKNOWN (sought.ts), something long. */
  at(path: number): unknown;
  /** Bytes of it as JSON, and the first of them; 0: nothing stands there. */
  lengthAt(path: number): number;
  firstAt(path: number): number;
  /** May the path lead to more: into lists, into text inside text, by keys that are folded to its own? */
  isElsewhere(path: number): boolean;
};
/** The first bytes of an object and of a text. */
export const OPEN = 0x7b;
export const QUOTE = 0x22;
/**
 * The kinds of values at a path, by the first byte: something; no object; no text; something that is no text. Where
 * nothing stands there is neither an object nor a text.
 */
export const STANDS = { there: 0, notObject: 1, notText: 2, otherThanText: 3 } as const;
export type Stands = { path: number; what: (typeof STANDS)[keyof typeof STANDS] };
/** One of these bits must be set (sought.ts), or one of these stand. */
export type Pivot = { bits: readonly number[]; stands: readonly Stands[] };
/** false: what it is asked about cannot be so. */
export type Demand = (event: TextView) => boolean;
