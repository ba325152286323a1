// Words of a notification that callers chose (names, messages), made fit for people's channels (behind chat and
// e-mail).
// Invariant: what comes out is one line without control characters, line ends of any alphabet, halves of surrogate
// pairs or marks that turn the direction of reading, and no longer than asked for.

/** C0, C1 and Unicode's line ends. */
const CONTROLS = /[\p{Cc}\u2028\u2029]+/gu;
/** Directional marks, embeddings, overrides and isolates: with them `gnp.exe` reads as `exe.png`. */
const DIRECTION = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
/** Invisible, and no chat or mail program sees a mention or an address across it. */
export const BREAK = '\u200b';

/** One line of at most `charactersMax` UTF-16 units. */
export function oneLine(text: string, charactersMax: number): string {
  // Cut first: the rest is work in proportion to what is kept. What is replaced never grows.
  const short = cut(text, charactersMax).toWellFormed();
  return short.replace(CONTROLS, ' ').replace(DIRECTION, '').trim();
}

/** At most `charactersMax` UTF-16 units, no pair cut in two; an ellipsis says that something is missing. */
export function cut(text: string, charactersMax: number): string {
  if (text.length <= charactersMax) return text;
  const last = text.charCodeAt(charactersMax - 2);
  const isHighHalf = last >= 0xd800 && last <= 0xdbff;
  return `${text.slice(0, charactersMax - (isHighHalf ? 2 : 1))}…`;
}

/**
 * Addresses (`https://…`, `www.…`, `mailto:…`) and links in Markdown (`[text](…)`) come apart: a name must not lead
 * anywhere.
 */
export function unlinked(text: string): string {
  return text
    .replace(/:(?=\/\/)/g, `$&${BREAK}`)
    .replace(/\b(www)\./gi, `$1${BREAK}.`)
    .replace(/\b(mailto|tel|sms|javascript|data):/gi, `$1${BREAK}:`)
    .replace(/\](?=[([])/g, `$&${BREAK}`);
}
