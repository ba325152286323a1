// Reads an answer of the service without touching payloads and conditions: each stays the text that it is, because
// JSON.parse would turn `1.0` into 1, `12345678901234567890` into 12345678901234567000 and `1e400` into Infinity.
// Everything else of the answer is parsed as usual. Failure: text that is no JSON throws SyntaxError, as JSON.parse
// does.

/** A JSON value as text. */
export type RawJson = { text: string };

const QUOTE = 34;
const BACKSLASH = 92;
const OPEN = new Set([91, 123]);
const CLOSE = new Set([93, 125]);

/** Names of keys whose values are kept: of every answer but those below. */
export const PAYLOADS: readonly string[] = ['payload'];
/**
 * The texts of answers about policies: what they ask for, and what was changed in it, number by number as it was
 * written.
 */
export const POLICY_TEXTS: readonly string[] = ['conditions', 'before', 'after'];

/** The texts of the audit log: what an entry says, which may hold any of the above. */
export const AUDIT_TEXTS: readonly string[] = ['details'];

/** Values of keys of these names, at any depth, come as RawJson; what is inside of one stays in its text. */
export function parseKeeping(text: string, names: readonly string[]): unknown {
  const kept: string[] = [];
  let out = '';
  let copied = 0;
  for (let at = 0; at < text.length; ) {
    if (text.charCodeAt(at) !== QUOTE) {
      at++;
      continue;
    }
    const end = endOfString(text, at);
    const name = names.find((one) => end - at === one.length + 2 && text.startsWith(one, at + 1));
    const colon = name === undefined ? -1 : colonBehind(text, end);
    if (colon < 0) {
      at = end;
      continue;
    }
    const from = skipSpace(text, colon + 1);
    const to = endOfValue(text, from);
    out += `${text.slice(copied, from)}{"${name}":${kept.length}}`;
    kept.push(text.slice(from, to));
    copied = to;
    at = to;
  }
  // The number that represents a kept text is met before the object around it.
  return JSON.parse(out + text.slice(copied), (key, value) => {
    if (!names.includes(key)) return value;
    return typeof value === 'number' ? value : { text: kept[(value as Record<string, number>)[key]!] };
  });
}

/** An object of `fields`, and of `texts`, which stand in it as they are. */
export function jsonWith(fields: object, texts: Record<string, string>): string {
  const plain = JSON.stringify(fields).slice(1, -1);
  const members = Object.entries(texts).map(([name, text]) => `${JSON.stringify(name)}:${text}`);
  return `{${[plain, ...members].filter((one) => one !== '').join(',')}}`;
}

/** Behind the closing quote; `at` is the opening one. */
export function endOfString(text: string, at: number): number {
  for (let from = at + 1; ; ) {
    const quote = text.indexOf('"', from);
    if (quote < 0) return text.length;
    let slashes = 0;
    while (text.charCodeAt(quote - 1 - slashes) === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return quote + 1;
    from = quote + 1;
  }
}

export function skipSpace(text: string, at: number): number {
  while (at < text.length && text.charCodeAt(at) <= 32) at++;
  return at;
}

/** Behind the number or the word that begins at `at`, however long it is. */
export function endOfWord(text: string, at: number): number {
  let end = at;
  while (end < text.length && !',]} \n\r\t'.includes(text[end]!)) end++;
  return Math.max(end, at + 1);
}

function colonBehind(text: string, at: number): number {
  const next = skipSpace(text, at);
  return text[next] === ':' ? next : -1;
}

/** Behind the value that begins at `from`. */
export function endOfValue(text: string, from: number): number {
  const first = text.charCodeAt(from);
  if (first === QUOTE) return endOfString(text, from);
  if (!OPEN.has(first)) return endOfWord(text, from);
  for (let at = from, depth = 0; at < text.length; ) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = endOfString(text, at);
      continue;
    }
    if (OPEN.has(code)) depth++;
    if (CLOSE.has(code) && --depth === 0) return at + 1;
    at++;
  }
  return text.length;
}
