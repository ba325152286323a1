// One object of JSON in the spellings of other languages, nearly valid, and inside other text (not-json.test.ts and
// ../attack/targets.ts), and what JavaScript itself reads in a text.
import { createContext, runInContext } from 'node:vm';

const deep = (levels: number) => `${'['.repeat(levels)}1${']'.repeat(levels)}`;
const inString = (text: string, times: number): string =>
  times === 0 ? text : inString(JSON.stringify(text), times - 1);

/** Each of them holds the members, whatever else. `read`: there is one reading, and the members are found in it. */
export const SPELLINGS: [name: string, spell: (members: string) => string, isRead: boolean][] = [
  ['NaN', (members) => `{${members},"x":NaN}`, true],
  ['Infinity', (members) => `{${members},"x":[Infinity,-Infinity]}`, true],
  ['nan of Python', (members) => `{${members},"x":nan}`, true],
  ['a key twice', (members) => `{${members},${members.replace(/:.*/, ':5')}}`, false],
  ['a key twice in a member', (members) => `{${members},"x":{"a":1,"\\u0061":2}}`, false],
  ['too deep', (members) => `{${members},"x":${deep(65)}}`, false],
  ['a trailing comma', (members) => `{${members},}`, true],
  ['a trailing comma in a list', (members) => `[{${members}},]`, true],
  ['comments', (members) => `// a\n{ /* b */ ${members} // c\n}`, true],
  ['comments of Python', (members) => `{ # a\n${members}}`, true],
  ['single quotes', (members) => `{${members.replaceAll('"', "'")}}`, true],
  ['literals of Python', (members) => `{${members}, 'x': None, "y": (True, {1, 2}), u'z': False}`, true],
  ['keys without quotes', (members) => `{${members.replace(/^"(\w+)"/, '$1')}}`, true],
  ['a long name first', (members) => `{${'n'.repeat(2_000)}: 1, ${members}}`, true],
  ['a long number first', (members) => `[${'1'.repeat(2_000)}, {${members}}]`, true],
  ['undefined', (members) => `{${members},"x":undefined}`, true],
  ['raw control characters', (members) => `{${members},"x":"a\nb\u0001c\td"}`, true],
  ['escapes of JavaScript', (members) => `{${members},"x":"\\x41\\u{1f600}\\\nb"}`, true],
  ['escapes with two meanings', (members) => `{${members},"x":"\\d"}`, false],
  ['cut in a text', (members) => `{${members},"x":"abc`, false],
  ['cut in a list', (members) => `{${members},"x":[1,2`, false],
  ['more behind it', (members) => `{${members}} and so on`, false],
  ['two in a row', (members) => `{"x":1}\n{${members}}`, false],
  ['a call', (members) => `{${members},"x":Decimal("1")}`, false],
  ['a hexadecimal number', (members) => `{${members},"x":0x10}`, false],
  ['a plus', (members) => `{${members},"x":+1}`, false],
  ['a plus first', (members) => `[+1, {${members}}]`, false],
  ['a point first', (members) => `[.5, {${members}}]`, false],
  ['an operator first', (members) => `[!0, {${members}}]`, false],
  ['void first', (members) => `[void 0, {${members}}]`, false],
  ['a pattern of JavaScript first', (members) => `[/[/]x\\//g, {${members}}]`, false],
  ['joined texts', (members) => `{${members},"x":"a" "b"}`, false],
  ['a computed key', (members) => `{["x"]: 1, ${members}}`, false],
  ['a JSON string', (members) => inString(`{${members}}`, 1), true],
  ['a JSON string in a JSON string', (members) => inString(`{${members}}`, 2), true],
  ['a fourth level', (members) => inString(`{${members}}`, 3), false],
  ['a JSON string that is cut', (members) => inString(`{${members}}`, 1).slice(0, -1), false],
  ['in single quotes as a whole', (members) => `'{${members.replaceAll("'", "\\'")}}'`, true],
  ['the inside of a string', (members) => inString(`{${members}}`, 1).slice(1, -1), true],
  ['a fenced block', (members) => `\`\`\`json\n{${members}}\n\`\`\``, true],
  ['a fenced block without a name, text behind', (members) => `\`\`\`\n{${members}}\n\`\`\`\nThat is it.`, true],
  ['a byte-order mark', (members) => `\ufeff{${members}}`, true],
  ['blanks of other kinds', (members) => `\u00a0\u200b\v{${members}}`, true],
];

const context = createContext({}, { codeGeneration: { strings: false, wasm: false } });

const STRINGS = /"(?:\\[\s\S]?|[^"\\])*(?:"|$)|'(?:\\[\s\S]?|[^'\\])*(?:'|$)/g;
/** Calls, assignments, templates, and operators between two values: a program, no way to write a value down. */
const COMPUTES =
  /[()=`+]|\.\.\.|[\w"'/)\]}]\s*[-*%&|^<>?]|\d\s*\/|[\w"'/)\]}]\s+\/(?![/*])|\b(?:in|instanceof|typeof|delete|new|class|await)\b(?!\s*:)/;

/**
 * Does JavaScript read an object whose `amount` is more than 1,000, in lists and in texts of such? Literals alone: what
 * a program computes is no text of JSON.
 */
export function isMoreByJavaScript(text: string): boolean {
  if (COMPUTES.test(text.replaceAll(STRINGS, '""'))) return false;
  try {
    // In a list of its own: a comma between two would make the last of them the value.
    const read = runInContext(`[${text.replace(/^\ufeff/, '')}\n]`, context, { timeout: 100 }) as unknown[];
    return read.length === 1 && isMore(read[0]);
  } catch {
    return false;
  }
}

function isMore(value: unknown): boolean {
  if (typeof value === 'string') return /^[\s\ufeff]*[[{"]/.test(value) && isMoreByJavaScript(value);
  if (Array.isArray(value)) return value.some(isMore);
  const amount = typeof value === 'object' && value !== null ? (value as { amount?: unknown }).amount : undefined;
  return typeof amount === 'number' && amount > 1000;
}
