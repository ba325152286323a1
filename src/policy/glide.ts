// The inner loops of the automata: one character, one look-up. They are functions of plain values, apart from the class that
// calls them, so that the compiler makes just that of them; everything else of an automaton runs once per state, these once per
// character. They stop at whatever needs a closer look: a state that was not made yet, news, a surrogate, a page of classes
// that was not made yet.

/** Entries of the table are the next state's row; below 0 they need a look: not made yet, or the state has news. */
export const UNKNOWN = -1;
export const NEWS = -2;
/** What the inner loops look things up in. `flags[row]` says what the news of a state is. */
export type Tables = {
  table: Int32Array;
  flags: Uint8Array;
  latin: Uint16Array;
  pages: readonly (Uint16Array | undefined)[];
};
export const FOUND_SOMETHING = 1;
export const DEAD = 2;

/**
 * The inner loop: goes on while states are there and have no news, and no character needs a closer look. Answers the row it
 * came to; `stopped[0]` is the character that was not read any more. Plain values only, so that it compiles to just that.
 */
export function glide(
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

/** The same, but takes news along: `stopped[1]` is the last place where something was found. Stops at a dead end, too. */
export function glideOver(
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
      if (next === UNKNOWN || (flags[NEWS - next]! & DEAD) !== 0) break;
      next = NEWS - next;
      stopped[1] = i;
    }
    at = next;
  }
  stopped[0] = i;
  return at;
}

/** Backwards from the character before `from` down to `stop`; marks the places of news. */
export function glideBack(
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
      next = NEWS - next;
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
