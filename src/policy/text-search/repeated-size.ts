// How many instructions a pattern will make, about, from its text alone: a character, class or escape is one, and a
// repeat multiplies what is before it. Asked by program.ts before re2js lays the repeats out, so that refusing a
// pattern costs no more than reading it. What is no sound pattern has some size too; re2js says what is wrong with it.
const ESCAPED = /\\(?:Q.*?(?:\\E|$)|[pP]\{[^}]*\}|x\{[^}]*\}|.)/suy;
const CLASS = /\[\^?\]?(?:\[:[^\]]*:\]|\\.|[^\]\\])*\]/suy;
const GROUP = /\((?:\?(?:P?<\w*>|[a-zA-Z-]*:|[a-zA-Z-]+(?=\))))?/suy;
const REPEAT = /\{(\d+)(?:,(\d*))?\}/suy;

/** What is longer than one character, by the character that it begins with. */
const TOKENS: Readonly<Record<string, RegExp>> = { '\\': ESCAPED, '[': CLASS, '(': GROUP, '{': REPEAT };

/** Instructions, within a factor of eight. */
export function repeatedSize(pattern: string): number {
  const outer: number[] = [];
  let sum = 0;
  let last = 0;
  for (let at = 0; at < pattern.length; ) {
    const first = pattern[at]!;
    const token = tokenAt(pattern, at, TOKENS[first]);
    at += token?.[0].length ?? 1;
    if (first === '(') outer.push(sum);
    else if (first === ')') last = sum - (outer.pop() ?? 0);
    else if (first === '{' && token !== null) {
      sum += last * Math.max(0, Number(token[2] || token[1]) - 1);
      last = 0; // a repeat of a repeat is refused
    } else {
      last = 1;
      sum++;
    }
  }
  return sum;
}

function tokenAt(pattern: string, at: number, token: RegExp | undefined): RegExpExecArray | null {
  if (token === undefined) return null;
  token.lastIndex = at;
  return token.exec(pattern);
}
