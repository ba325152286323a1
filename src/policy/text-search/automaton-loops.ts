// The inner loops of the automata: one table look-up a character. They are plain functions of plain values, so that the
// compiler makes tight loops of them; everything else in an automaton runs once a state, these run once a character.
// A loop stops at whatever needs the automaton: a way that is gone for the first time, an accepting state, a surrogate,
// or a page of character classes that does not exist yet.

/**
 * A table entry is the next state's row. Below 0: UNKNOWN, the automaton must say; ACCEPTING - row, it accepts or is
 * a dead end.
 */
export const UNKNOWN = -1;
export const ACCEPTING = -2;
/** The tables of the inner loops. `flags[row]`: whether a state accepts (MATCHED) or is a dead end (DEAD). */
export type Tables = {
  table: Int32Array;
  flags: Uint8Array;
  latin: Uint16Array;
  pages: readonly (Uint16Array | undefined)[];
};
export const MATCHED = 1;
export const DEAD = 2;

/**
 * Runs forward until a state is unknown or accepting, or a character needs the automaton. Returns the row it reached;
 * `stopped[0]` is the index of the first character that was not read.
 */
export function runForward(
  text: string,
  from: number,
  stop: number,
  row: number,
  tables: Tables,
  stopped: Int32Array,
): number {
  const { table, latin, pages } = tables;
  let at = row;
  let i = from;
  for (; i < stop; i++) {
    const unit = text.charCodeAt(i);
    const page = unit < 256 ? latin : isSurrogate(unit) ? undefined : pages[unit >> 8];
    if (page === undefined) break;
    const next = table[at + page[unit & 255]!]!;
    if (next < 0) break;
    at = next;
  }
  stopped[0] = i;
  return at;
}

/** The same, but runs through accepting states: `stopped[1]` is the index of the last one. Stops at a dead end, too. */
export function runToLastMatch(
  text: string,
  from: number,
  stop: number,
  row: number,
  tables: Tables,
  stopped: Int32Array,
): number {
  const { table, latin, pages, flags } = tables;
  let at = row;
  let i = from;
  for (; i < stop; i++) {
    const unit = text.charCodeAt(i);
    const page = unit < 256 ? latin : isSurrogate(unit) ? undefined : pages[unit >> 8];
    if (page === undefined) break;
    let next = table[at + page[unit & 255]!]!;
    if (next < 0) {
      if (next === UNKNOWN || (flags[ACCEPTING - next]! & DEAD) !== 0) break;
      next = ACCEPTING - next;
      stopped[1] = i;
    }
    at = next;
  }
  stopped[0] = i;
  return at;
}

/** Runs backward from the character before `from` down to `stop`; sets `marks` where a state accepts. */
export function runBackward(
  text: string,
  from: number,
  stop: number,
  row: number,
  tables: Tables,
  marks: Uint8Array,
  stopped: Int32Array,
): number {
  const { table, latin, pages } = tables;
  let at = row;
  let i = from;
  for (; i > stop; i--) {
    const unit = text.charCodeAt(i - 1);
    const page = unit < 256 ? latin : isSurrogate(unit) ? undefined : pages[unit >> 8];
    if (page === undefined) break;
    let next = table[at + page[unit & 255]!]!;
    if (next < 0) {
      if (next === UNKNOWN) break;
      next = ACCEPTING - next;
      marks[i] = 1;
    }
    at = next;
  }
  stopped[0] = i;
  return at;
}

function isSurrogate(unit: number): boolean {
  return (unit & 0xf800) === 0xd800;
}

export function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

export function isLow(text: string, i: number): boolean {
  const unit = text.charCodeAt(i); // NaN past the end
  return unit >= 0xdc00 && unit <= 0xdfff;
}
