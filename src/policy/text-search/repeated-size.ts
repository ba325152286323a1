// How many instructions a pattern will make, about, from its text alone: a character, class or escape is one, and a
// repeat multiplies what is before it. Asked by program.ts before re2js lays the repeats out, so that refusing a
// pattern costs no more than reading it. What is no sound pattern has some size too; re2js says what is wrong with it.
const ESCAPED = /\\(?:Q(?<quoted>.*?)(?:\\E|$)|[pP]\{[^}]*\}|x\{[^}]*\}|.)/suy;
const CLASS = /\[\^?\]?(?:\[:[^\]]*:\]|\\.|[^\]\\])*\]/suy;
const GROUP = /\((?:\?(?:P?<\w*>|[a-zA-Z-]*:|(?<flags>[a-zA-Z-]*)\)))?/suy;
const REPEAT = /\{(\d+)(?:,(\d*))?\}/suy;

/** The tokens that are longer than one character, by the character that they begin with. */
const TOKENS: Readonly<Record<string, RegExp>> = { '\\': ESCAPED, '[': CLASS, '(': GROUP, '{': REPEAT };

/** Instructions; at most eight times as many are made. */
export function repeatedSize(pattern: string): number {
  const outer: number[] = [];
  let sum = 0;
  let last = 0;
  for (let at = 0; at < pattern.length; ) {
    const first = pattern[at]!;
    const token = tokenAt(pattern, at, TOKENS[first]);
    at += token?.[0].length ?? 1;
    // Flags and an empty quotation are nothing: a repeat behind them repeats what is before them.
    const { quoted, flags } = token?.groups ?? {};
    if (flags !== undefined || quoted === '') continue;
    if (first === '(') {
      outer.push(sum);
      sum += token![0].endsWith(':') ? 1 : 2; // what it captures is noted down at both ends
    } else if (first === ')') last = sum - (outer.pop() ?? 0);
    else if (first === '{' && token !== null) {
      const more = last * Math.max(0, Number(token[2] || token[1]) - 1);
      sum += more;
      last += more;
    } else if (first === '*' || first === '+' || first === '?') {
      last++;
      sum++;
    } else {
      last = 1;
      sum += quoted?.length ?? 1;
    }
  }
  return sum;
}

function tokenAt(pattern: string, at: number, token: RegExp | undefined): RegExpExecArray | null {
  if (token === undefined) return null;
  token.lastIndex = at;
  return token.exec(pattern);
}
