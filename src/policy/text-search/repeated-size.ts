// How many instructions a pattern will make, about, from its text alone: a character, class or escape is one, and a
// repeat multiplies what is before it. Asked by program.ts before re2js lays the repeats out, so that refusing a
// pattern costs no more than reading it. What is no sound pattern has some size too; re2js says what is wrong with it.
const ESCAPED = /\\(?:Q.*?(?:\\E|$)|[pP]\{[^}]*\}|x\{[^}]*\}|.)/suy;
const CLASS = /\[\^?\]?(?:\[:[^\]]*:\]|\\.|[^\]\\])*\]/suy;
const GROUP = /\((?:\?(?:P?<\w*>|[a-zA-Z-]*:|[a-zA-Z-]+(?=\))))?/suy;
const REPEAT = /\{(\d+)(?:,(\d*))?\}/suy;

const TOKENS: Readonly<Record<string, RegExp>> = { '\\': ESCAPED, '[': CLASS, '(': GROUP };

export function repeatedSize(pattern: string): number {
  const outer: number[] = [];
  let sum = 0;
  let last = 0;
  const tokenAt = (token: RegExp, at: number) => {
    token.lastIndex = at;
    return token.exec(pattern);
  };
  for (let at = 0; at < pattern.length; ) {
    const character = pattern[at]!;
    const repeat = character === '{' ? tokenAt(REPEAT, at) : null;
    if (repeat !== null) {
      sum += last * Math.max(0, Number(repeat[2] || repeat[1]) - 1);
      last = 0; // a repeat of a repeat is refused
      at += repeat[0].length;
      continue;
    }
    const token = TOKENS[character] === undefined ? null : tokenAt(TOKENS[character]!, at);
    if (character === '(') outer.push(sum);
    if (character === ')') last = sum - (outer.pop() ?? 0);
    else if (character !== '(') {
      last = 1;
      sum++;
    }
    at += token?.[0].length ?? 1;
  }
  return sum;
}
