// The forms of a text the plain way, for the reference: the text as it was sent, and folded, character by character.
// Texts that are JSON are not made here; one-verdict.test.ts has them. Shares no code with src/policy/texts.

/** `from`: the stretch of the text as sent that a unit of the form comes from. */
type Form = { text: string; from: { start: number; end: number }[] };

const DASHES = '\u2212\u2043\u02d7\u2796';

export function formsOf(text: string): Form[] {
  const asSent = { text, from: Array.from({ length: text.length }, (_, i) => ({ start: i, end: i + 1 })) };
  const folded = foldedOf(text);
  return folded.text === text ? [asSent] : [asSent, folded];
}

/** The texts alone. */
export function textsOf(text: string): string[] {
  return formsOf(text).map((form) => form.text);
}

export function foldedOf(text: string): Form {
  const form: Form = { text: '', from: [] };
  for (let start = 0; start < text.length; ) {
    const end = characterEnd(text, start);
    let plain = '';
    for (const point of text.slice(start, end)) if (!showsNothing(point)) plain += point;
    plain = [...plain.normalize('NFKC')].map(plainPoint).join('');
    form.text += plain;
    for (const _ of plain.split('')) form.from.push({ start, end });
    start = end;
  }
  return form;
}

/** Strokes through a letter, among them. */
const STROKES = '\u0334\u0335\u0336\u0337\u0338\u20d2\u20d3\u20d8\u20d9\u20da\u20e5\u20e6\u20ea\u20eb';

function showsNothing(point: string): boolean {
  if ('\t\n\v\f\r\u0085'.includes(point)) return false;
  return /[\p{Cc}\p{Cf}\p{DI}]/u.test(point) || point === '\ufffc' || STROKES.includes(point);
}

function plainPoint(point: string): string {
  if (/\p{Zs}/u.test(point) || '\u2028\u2029\u0085\u2800'.includes(point)) return ' ';
  return /\p{Pd}/u.test(point) || DASHES.includes(point) ? '-' : point;
}

/** A character with what belongs to it. */
function characterEnd(text: string, start: number): number {
  const next = (at: number) => at + String.fromCodePoint(text.codePointAt(at)!).length;
  const is = (at: number, what: RegExp) => at < text.length && what.test(String.fromCodePoint(text.codePointAt(at)!));
  let end = next(start);
  if (is(start, /[\u1100-\u115f\ua960-\ua97c]/)) while (is(end, /[\u1160-\u11ff\ud7b0-\ud7fb]/)) end = next(end);
  while (is(end, /[\p{M}\p{Cf}\p{DI}]/u)) end = next(end);
  return end;
}
