// Text inside text: which strings are looked into as the JSON that they hold. The one notion of it for policies
// (src/policy/texts/text-forms.ts) and for the search (search/payload-words.ts): a string whose first character that is
// no blank is `{` or `[`, and which parses, within the depth of a payload, to three levels.
import { JSON_DEPTH_MAX } from './limits.ts';

/** How deep text inside text inside text is looked into. */
export const INNER_LEVELS_MAX = 3;

const BLANKS = ' \t\n\r';
const OPENS = '{[';
const CLOSES = '}]';

/** By its first and last character: of a text that is not JSON mostly no error has to be made. */
export function looksLikeJson(text: string): boolean {
  if (text.charCodeAt(0) > 0x20 && !OPENS.includes(text[0]!)) return false;
  let first = 0;
  while (first < text.length && BLANKS.includes(text[first]!)) first++;
  if (first >= text.length - 1 || !OPENS.includes(text[first]!)) return false;
  let last = text.length - 1;
  while (BLANKS.includes(text[last]!)) last--;
  return CLOSES.includes(text[last]!);
}

/** The value inside; undefined: there is none. `parse` throws SyntaxError at what is not JSON. */
export function innerValue<T>(text: string, parse: (text: string) => T): T | undefined {
  if (!looksLikeJson(text)) return undefined;
  try {
    const value = parse(text);
    return isWithinDepth(value, JSON_DEPTH_MAX) ? value : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function isWithinDepth(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (levels === 0) return false;
  for (const key in value) if (!isWithinDepth((value as Record<string, unknown>)[key], levels - 1)) return false;
  return true;
}
