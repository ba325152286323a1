// To a policy every blank is one: a space in its patterns and texts stands for a tab or the end of a line as well
// (used by operators on text and by data filters; what is beyond ASCII is a space once it is folded, folded.ts).
// Expressions and schemas are exact and do not come here.

const OTHER_BLANKS = /[\t-\r]/g;
/** Tokens in which a space is no character by itself: quoted stretches, escapes, classes. Last, a space that is one. */
const TOKEN = /\\Q[\s\S]*?(?:\\E|$)|\\[\s\S]|\[\^?\]?(?:\\[\s\S]|\[:\^?[a-z]+:\]|[^\]\\])*\]| /g;

/** An RE2 pattern in which a space takes any blank. */
export function patternOfBlanks(source: string): string {
  if (!source.includes(' ')) return source;
  return source.replace(TOKEN, (token) => {
    if (token.startsWith('\\Q')) return token.replaceAll(' ', '\\E[\\t-\\r ]\\Q');
    return token === ' ' || token === '\\ ' ? '[\\t-\\r ]' : token;
  });
}

/** A text with a space for each blank. */
export function withSpaces(text: string): string {
  return text.replace(OTHER_BLANKS, ' ');
}
