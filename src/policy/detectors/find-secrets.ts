// Finds API keys, tokens and private keys (see detectors.ts for what holds for all).
import type { Budget } from '../budget.ts';
import { BORDER_BEFORE, isWordOrDash, type Span, TRY_UNITS } from './detector-search.ts';
import { ISSUED_KEY, KEY_NAME } from './issued-keys.ts';

/** Each try reads a bounded number of characters before it can fail. */
const ISSUED = new RegExp(`${BORDER_BEFORE}(?:${ISSUED_KEY})(?![A-Za-z0-9])`, 'g');
const QUOTES = '["\'\\\\]{0,3}';
/**
 * Between a name and its value: a sign, `is`, that of a pair (`"api_key", "…"`), an element, a cell or an attribute
 * `value`, or a percent code.
 */
const IS = `["'\\\\\\])]{0,4}(?:\\s{0,3}(?:=>|:=|[:=,>|])|\\s{1,3}(?:is(?=\\s)|value\\s?=)|(?:%2[02]|%3[ADad]){1,4}|\\\\u003[AaDd])\\s{0,3}`;
const SCHEME = '(?:bearer|basic|token|bot|api-?key)\\s{1,3}';
/** `api_key = "…"`, `--api-key …`, `Authorization: Bearer …`: what follows the name, if it looks random. */
const NAMED_KEY = new RegExp(
  `(?:${KEY_NAME}${IS}|--${KEY_NAME} {1,3}|authorization${IS}${QUOTES}(?:${SCHEME})?|bearer\\s{1,3})${QUOTES}([\\w.+/=~-]{19,255}[\\w+/=~-])`,
  'gi',
);

export function findIssuedKey(text: string, from: number, budget: Budget): Span | null {
  ISSUED.lastIndex = from;
  for (let m = ISSUED.exec(text); m !== null; m = ISSUED.exec(text)) {
    budget.spend(TRY_UNITS);
    if (!m[0].startsWith('sk-') || isKeyAfterSk(m[0])) return { start: m.index, end: m.index + m[0].length };
  }
  return null;
}

/** `sk-` also begins the names of branches, classes and files: their words are short, or have no digits. */
function isKeyAfterSk(found: string): boolean {
  return found.split(/[-_.]/).some((part) => part.length >= SK_PART_MIN && /\d/.test(part) && /[A-Za-z]/.test(part));
}

const SK_PART_MIN = 16;

export function findNamedKey(text: string, from: number, budget: Budget): Span | null {
  NAMED_KEY.lastIndex = from;
  for (let m = NAMED_KEY.exec(text); m !== null; m = NAMED_KEY.exec(text)) {
    budget.spend(2 * TRY_UNITS);
    const value = m[1]!;
    const end = m.index + m[0].length;
    if (looksRandom(value)) return { start: end - value.length, end };
  }
  return null;
}

/** Which of several it is may stand behind it. */
const CALLED_KEY = new RegExp(
  `${KEY_NAME}(?:[_-]?(?:\\d{1,2}|prod(?:uction)?|staging|dev|test|live|primary|secondary))?\\s?$`,
  'i',
);
const CALLED_AUTHORIZATION = /^\s?(?:proxy-|x-)?authorization\s?$/i;
/** A value as a whole, behind its scheme where it is a header's. */
const WHOLE_VALUE = new RegExp(`^\\s?(?:${SCHEME})?([\\w.+/=~-]{20,256})\\s?$`, 'i');
const NAME_CHARACTERS_MAX = 100;

/** `{"api_key": "…"}`, `{"name": "API_KEY", "value": "…"}`: a value that looks random under such a name. */
export function findKeyByName(name: string, value: string): Span | null {
  if (name.length > NAME_CHARACTERS_MAX || !(CALLED_KEY.test(name) || CALLED_AUTHORIZATION.test(name))) return null;
  const key = WHOLE_VALUE.exec(value)?.[1];
  if (key === undefined || !looksRandom(key)) return null;
  const start = value.lastIndexOf(key);
  return { start, end: start + key.length };
}

/** Letters and digits well mixed, unlike a word, a variable's name, or the path of a file or in a vault. */
function looksRandom(value: string): boolean {
  const changes = value.match(/[A-Za-z]\d|\d[A-Za-z]/g);
  if (changes === null || changes.length < 3 || /[./]{2}/.test(value)) return false;
  return !value.includes('/') || value.split('/').some((part) => part.length >= PATH_PART_MAX);
}

/** The words of a path are shorter, what lies between the slashes of base64 is mostly longer. */
const PATH_PART_MAX = 12;

const JWT_PART = /[\w-]/;
/** A header, as base64: `{"`, or with blanks or ends of lines between. */
export const JWT_BEGINS = ['eyJ', 'eyAi', 'eyAg', 'ewog', 'ewoi', 'ewoJ', 'ew0K', 'ewki'];
const JWT_BEGIN = new RegExp(JWT_BEGINS.join('|'), 'g');

export function findJwt(text: string, from: number, budget: Budget): Span | null {
  JWT_BEGIN.lastIndex = from;
  for (let m = JWT_BEGIN.exec(text); m !== null; m = JWT_BEGIN.exec(text)) {
    budget.spend(TRY_UNITS);
    const start = m.index;
    const header = partEnd(text, start);
    const payload = afterDot(text, header);
    const payloadEnd = payload < 0 ? -1 : partEnd(text, payload);
    const signature = payloadEnd > payload ? afterDot(text, payloadEnd) : -1;
    const isToken = signature > 0 && isJwtHeader(text.slice(start, header), budget);
    if (isToken && !JWT_PART.test(text[start - 1] ?? ' ')) return { start, end: tokenEnd(text, signature) };
    // Every further beginning in this part would end at the same position and fail alike.
    JWT_BEGIN.lastIndex = header;
  }
  return null;
}

/** Behind a dot, which may be a percent code; -1: there is none. */
function afterDot(text: string, i: number): number {
  if (text[i] === '.') return i + 1;
  return /^%2e/i.test(text.slice(i, i + 3)) ? i + 3 : -1;
}

function partEnd(text: string, from: number): number {
  let i = from;
  while (i < text.length && isWordOrDash(text.charCodeAt(i))) i++;
  return i;
}

/** A signed token has three parts, an encrypted one five. `from`: of the third. */
function tokenEnd(text: string, from: number): number {
  let end = partEnd(text, from);
  for (let part = 3; part < 5; part++) {
    const next = afterDot(text, end);
    if (next < 0 || !isWordOrDash(text.charCodeAt(next))) break;
    end = partEnd(text, next);
  }
  return end;
}

/** No shorter header can hold an `alg`, no header in use is longer. */
const JWT_HEADER_CHARACTERS_MIN = 14;
const JWT_HEADER_CHARACTERS_MAX = 8_192;

/** Not parsed: an error thrown for each of a thousand false starts would cost more than all else. */
function isJwtHeader(part: string, budget: Budget): boolean {
  if (part.length < JWT_HEADER_CHARACTERS_MIN || part.length > JWT_HEADER_CHARACTERS_MAX) return false;
  budget.spend(4 * TRY_UNITS + 4 * part.length);
  const header = Buffer.from(part, 'base64url').toString('latin1').trimEnd();
  return header.endsWith('}') && /"(?:alg|typ|enc)"\s{0,9}:/.test(header);
}

/** PEM of every label with a private key, OpenSSH and PGP among them; SSH2's; PuTTY's; age's. */
const KEY_BEGIN =
  /-----BEGIN(?: |%20|\+)((?:[A-Z0-9]{1,12}(?: |%20|\+)){0,3}PRIVATE(?: |%20|\+)KEY(?:(?: |%20|\+)BLOCK)?)-----|---- BEGIN (SSH2 (?:ENCRYPTED )?PRIVATE KEY) ----|PuTTY-User-Key-File-\d:|AGE-SECRET-KEY-1[A-Z0-9]{58}/g;
/** A line that can be a key's: base64, or a header of PEM. Line ends may be written as escapes or percent codes. */
const KEY_LINE =
  /(?:\s|\\[nrt]|%0[AaDd])*(?:[A-Za-z0-9+/]{16,}(?:=|%3[Dd]){0,2}|[A-Za-z][A-Za-z-]{2,30}: [^\n\\]{1,200})(?=\s|\\[nrt]|%0|["']|$)/y;
const PUTTY_END = /Private-(?:MAC|Hash): ?[0-9a-f]{40,64}/;
const KEY_LINES_MAX = 1_000;
/** An RSA key of 16,384 bits has 12,700 characters. */
const KEY_CHARACTERS_MAX = 16_384;

/**
 * From the first line of the key to the end of its last one: the END of its own label, or the last that can be a line.
 */
export function findPrivateKey(text: string, from: number, budget: Budget): Span | null {
  KEY_BEGIN.lastIndex = from;
  const m = KEY_BEGIN.exec(text);
  if (m === null) return null;
  budget.spend(TRY_UNITS);
  const begun = m.index + m[0].length;
  return { start: m.index, end: keyEnd(text, m, begun, budget) };
}

function keyEnd(text: string, [marker, label, ssh2]: RegExpExecArray, begun: number, budget: Budget): number {
  if (marker.startsWith('AGE-')) return begun;
  const rest = text.slice(begun, begun + KEY_CHARACTERS_MAX);
  budget.spend(rest.length / 4);
  if (marker.startsWith('PuTTY')) {
    const mac = PUTTY_END.exec(rest);
    return mac === null ? linesEnd(text, begun) : begun + mac.index + mac[0].length;
  }
  const blank = marker.slice('-----BEGIN'.length).startsWith('%20') ? '%20' : marker['-----BEGIN'.length];
  const end = ssh2 === undefined ? `-----END${blank}${label}-----` : `---- END ${ssh2} ----`;
  const at = rest.indexOf(end);
  return at < 0 ? linesEnd(text, begun) : begun + at + end.length;
}

function linesEnd(text: string, begun: number): number {
  let end = begun;
  for (let line = 0; line < KEY_LINES_MAX; line++) {
    KEY_LINE.lastIndex = end;
    if (!KEY_LINE.test(text)) break;
    end = KEY_LINE.lastIndex;
  }
  return end;
}
