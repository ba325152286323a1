// What a shell makes of the text in an expansion: `$'…'`, braces, the operators of `${…}` (used by
// shell-word-reader.ts). Pure, over strings; what cannot be known is UNKNOWN.

/** Stands in a word for what the text does not say; no word of a shell holds this character. */
export const UNKNOWN = '\0';

/** The match of a sticky pattern at a place; null: none. */
export function readAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

const ANSI_ESCAPE =
  /\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c([\s\S])|([\s\S]))/y;
const ANSI_PLAIN = /[^'\\]+/y;
const ANSI_NAMED: Readonly<Record<string, string>> = {
  ...{ a: '\x07', b: '\b', e: '\x1b', E: '\x1b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' },
};

/** The decoded text of `$'…'` from `at` on, and where it ends. */
export function ansiC(text: string, at: number): { text: string; end: number } {
  let decoded = '';
  while (at < text.length && text[at] !== "'") {
    const plain = readAt(ANSI_PLAIN, text, at);
    const found = plain ?? readAt(ANSI_ESCAPE, text, at);
    if (found === null) break;
    decoded += plain === null ? unescaped(found) : plain[0];
    at += found[0].length;
  }
  return { text: decoded, end: at + 1 };
}

/** The escapes of `$'…'`, `echo -e` and `printf`. */
export function withEscapes(text: string): string {
  return text.includes('\\') ? ansiC(text.replaceAll("'", "\\'").replaceAll('\\0', '\\'), 0).text : text;
}

function unescaped([, hex, short, long, octal, control, other]: RegExpExecArray): string {
  const code = hex ?? short ?? long;
  if (code !== undefined) return characterOf(Number.parseInt(code, 16));
  if (octal !== undefined) return characterOf(Number.parseInt(octal, 8) & 0xff);
  if (control !== undefined) return characterOf(control.charCodeAt(0) & 0x1f);
  return ANSI_NAMED[other!] ?? ('\'"\\?'.includes(other!) ? other! : `\\${other}`);
}

function characterOf(code: number): string {
  return code > 0x10ffff ? '' : String.fromCodePoint(code);
}

/** Where the brace at `at` closes, before a blank and before `limit`; -1: nowhere. */
export function closingBrace(text: string, at: number, limit: number): number {
  let open = 0;
  for (let i = at; i < limit; i++) {
    const c = text[i]!;
    if (c === '\\') i++;
    else if (c === "'" || c === '"') {
      const end = text.indexOf(c, i + 1);
      if (end < 0 || end >= limit) return -1;
      i = end;
    } else if (c === '{') open++;
    else if (c === '}') {
      if (--open === 0) return i;
    } else if (' \t\n;|&<>'.includes(c)) return -1;
  }
  return -1;
}

const SEQUENCE = /^(?:([A-Za-z])\.\.([A-Za-z])|(-?\d{1,6})\.\.(-?\d{1,6}))(?:\.\.-?\d{1,6})?$/;
const SEQUENCE_MAX = 26;

/** The alternatives of what is between braces; null: there are none, and the braces stand for themselves. */
export function splitAlternatives(inner: string): string[] | null {
  const sequence = SEQUENCE.exec(inner);
  if (sequence !== null) return membersOf(sequence);
  const alternatives: string[] = [];
  let start = 0;
  let open = 0;
  for (let i = 0; i < inner.length; i++) {
    const c = inner[i]!;
    if (c === '\\') i++;
    else if (c === "'" || c === '"') i = inner.indexOf(c, i + 1);
    else if (c === '{') open++;
    else if (c === '}') open--;
    else if (c === ',' && open === 0) {
      alternatives.push(inner.slice(start, i));
      start = i + 1;
    }
  }
  return alternatives.length === 0 ? null : [...alternatives, inner.slice(start)];
}

function membersOf([, first, last, from, to]: RegExpExecArray): string[] {
  const [start, end] = first === undefined ? [Number(from), Number(to)] : [first.charCodeAt(0), last!.charCodeAt(0)];
  const count = Math.abs(end - start) + 1;
  if (count > SEQUENCE_MAX) return [UNKNOWN];
  return Array.from({ length: count }, (_, i) => {
    const code = start + (end < start ? -i : i);
    return first === undefined ? String(code) : String.fromCharCode(code);
  });
}

/** `${name<operator>operand}`. */
export function parameterValue(texts: readonly string[], operator: string, operand: string): string[] {
  return [...new Set(texts.flatMap((text) => valuesOf(text, operator, operand)))];
}

function valuesOf(text: string, operator: string, operand: string): string[] {
  const isUnknown = text.includes(UNKNOWN);
  switch (operator.replace(/^:(?=.)/, '')) {
    case '-':
    case '=':
      return isUnknown || text === '' ? [operand] : [text];
    case '+':
      return isUnknown ? ['', operand] : [text === '' ? '' : operand];
    default:
      return [isUnknown || operand.includes(UNKNOWN) ? UNKNOWN : changed(text, operator, operand)];
  }
}

function changed(text: string, operator: string, operand: string): string {
  const isPattern = /[*?[]/.test(operand);
  switch (operator) {
    case ':': {
      const [offset = '', length] = operand.split(':').map((part) => part.trim());
      const start = Number(offset);
      if (!Number.isInteger(start) || (length !== undefined && !Number.isInteger(Number(length)))) return UNKNOWN;
      const from = start < 0 ? Math.max(0, text.length + start) : start;
      if (length === undefined) return text.slice(from);
      return Number(length) < 0 ? text.slice(from, Number(length)) : text.slice(from, from + Number(length));
    }
    case '#':
    case '##':
      return isPattern ? UNKNOWN : text.startsWith(operand) ? text.slice(operand.length) : text;
    case '%':
    case '%%':
      return isPattern ? UNKNOWN : text.endsWith(operand) ? text.slice(0, text.length - operand.length) : text;
    case '/':
    case '//':
    case '/#':
    case '/%': {
      if (isPattern) return UNKNOWN;
      const [wanted = '', put = ''] = operand.split('/', 2);
      if (wanted === '') return text;
      return operator === '//' ? text.replaceAll(wanted, () => put) : text.replace(wanted, () => put);
    }
    case '^^':
      return text.toUpperCase();
    case ',,':
      return text.toLowerCase();
    case '^':
      return text.slice(0, 1).toUpperCase() + text.slice(1);
    case ',':
      return text.slice(0, 1).toLowerCase() + text.slice(1);
    case '@':
      return operand === 'U' ? text.toUpperCase() : operand === 'L' ? text.toLowerCase() : text;
    default:
      return text;
  }
}
