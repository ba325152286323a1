// What a caller's text looks like: characters that draw nothing, or turn the order of those around them, are named by
// their code points, so that what is read is what is stored, and texts that differ look different. The one place that
// decides it; parts/literal.tsx draws it on the page, and attributes and options, which hold text alone, take `visible`.
// Invariant: where a script needs such a character to be written (ZWNJ in Persian, joiners in Hindi, emoji of several
// parts, flags, keycaps), it stays, once, and there alone. Linear in the text; a text without any is not copied.

/** Characters of the text, or the names of those that cannot be seen. */
type Piece = string | { names: string };

/** The three flags that are written by tags. Every other tag is a letter that no one sees. */
const FLAGS =
  '\\u{1f3f4}\\u{e0067}\\u{e0062}(?:\\u{e0065}\\u{e006e}\\u{e0067}|\\u{e0073}\\u{e0063}\\u{e0074}|\\u{e0077}\\u{e006c}\\u{e0073})\\u{e007f}';
const UNSEEN = '[\\p{C}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\u2800]';
const ANY = new RegExp(UNSEEN, 'u');
const RUNS = new RegExp(`${FLAGS}|${UNSEEN}+`, 'gu');

const JOINED =
  '\\p{sc=Arab}\\p{sc=Syrc}\\p{sc=Nkoo}\\p{sc=Mand}\\p{sc=Mong}\\p{sc=Phag}\\p{sc=Mani}\\p{sc=Adlm}\\p{sc=Rohg}';
const VIRAMAS =
  '\\u094d\\u09cd\\u0a4d\\u0acd\\u0b4d\\u0bcd\\u0c4d\\u0ccd\\u0d4d\\u0dca\\u1039\\u103a\\u17d2\\u1b44\\ua8c4\\ua9c0';
const INDIC =
  '\\p{sc=Deva}\\p{sc=Beng}\\p{sc=Guru}\\p{sc=Gujr}\\p{sc=Orya}\\p{sc=Taml}\\p{sc=Telu}\\p{sc=Knda}\\p{sc=Mlym}\\p{sc=Sinh}';

/**
 * Which characters are needed behind and before what. No lookaheads: where one meets `$` and a pair of surrogates,
 * Chromium 156 finds nothing.
 */
const NEEDED: { of: RegExp; behind: RegExp; before?: RegExp }[] = [
  // signs of Arabic, Syriac and Kaithi around a number or a text, which are drawn
  { of: /[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u{110bd}\u{110cd}]/u, behind: /(?:)/ },
  { of: /\u200c/, behind: new RegExp(`[${JOINED}]\\p{M}*$`, 'u'), before: new RegExp(`^[${JOINED}]`, 'u') },
  { of: /[\u200c\u200d]/, behind: new RegExp(`[${VIRAMAS}]$`, 'u') },
  { of: /\u200d/, behind: new RegExp(`[${INDIC}]$`, 'u'), before: new RegExp(`^[${VIRAMAS}]`, 'u') },
  {
    of: /\u200d/,
    behind: /\p{Extended_Pictographic}(?:\p{Emoji_Modifier}|\ufe0f)*$/u,
    before: /^\p{Extended_Pictographic}/u,
  },
  { of: /[\ufe0e\ufe0f]/, behind: /\p{Extended_Pictographic}$/u },
  { of: /\ufe0f/, behind: /[0-9#*]$/, before: /^\u20e3/ },
  { of: /[\ufe00-\ufe02\u{e0100}-\u{e01ef}]/u, behind: /\p{sc=Han}$/u },
  { of: /[\u180b-\u180f]/, behind: /[\u1820-\u18aa]$/ },
];
/** As far as a rule looks behind and before: an emoji has a modifier, a letter has few marks. */
const AROUND = 12;

/** `lines`: a break of a line is one there, and a tab a tab; elsewhere they are named. */
export function piecesOf(text: string, lines = false): Piece[] {
  if (!ANY.test(text)) return [text];
  const pieces: Piece[] = [];
  let shown = 0;
  const put = (from: number, names: string[], to: number) => {
    if (from > shown) pieces.push(text.slice(shown, from));
    pieces.push({ names: inShort(names) });
    shown = to;
  };
  for (const { 0: run, index } of text.matchAll(RUNS)) {
    if (run.startsWith('\u{1f3f4}')) continue;
    let names: string[] = [];
    let from = index;
    let at = index;
    for (const char of run) {
      const end = at + char.length;
      if (isSeen(text, char, at, end, lines)) {
        if (names.length > 0) put(from, names, at);
        names = [];
        from = end;
      } else names.push(nameOf(char));
      at = end;
    }
    if (names.length > 0) put(from, names, at);
  }
  if (shown < text.length) pieces.push(text.slice(shown));
  return pieces;
}

/** The text with names in brackets. */
export function visible(text: string): string {
  return piecesOf(text)
    .map((piece) => (typeof piece === 'string' ? piece : `[${piece.names}]`))
    .join('');
}

function isSeen(text: string, char: string, from: number, to: number, lines: boolean): boolean {
  if (lines && (char === '\n' || char === '\t' || (char === '\r' && text[to] === '\n'))) return true;
  const behind = text.slice(Math.max(0, from - AROUND), from);
  const before = text.slice(to, to + AROUND);
  return NEEDED.some(
    (rule) => rule.of.test(char) && rule.behind.test(behind) && (rule.before === undefined || rule.before.test(before)),
  );
}

function nameOf(char: string): string {
  return `U+${char.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`;
}

/** `U+200B×3 U+202E`: a thousand of one kind say no more than their number. */
function inShort(names: readonly string[]): string {
  const counted: [string, number][] = [];
  for (const name of names) {
    const last = counted.at(-1);
    if (last?.[0] === name) last[1]++;
    else counted.push([name, 1]);
  }
  return counted.map(([name, count]) => (count === 1 ? name : `${name}×${count}`)).join(' ');
}
