// Finds API keys, tokens and private keys (see detectors.ts for what holds for all).
import type { Budget } from '../budget.ts';
import { BORDER_BEFORE, isWordOrDash, type Span, TRY_UNITS } from './detector-search.ts';
import { ISSUED_KEY, KEY_NAME } from './issued-keys.ts';

/** Each try reads a bounded number of characters before it can fail. */
const ISSUED = new RegExp(`${BORDER_BEFORE}(?:${ISSUED_KEY})(?![A-Za-z0-9])`, 'g');
/** `api_key = "…"`, `--api-key …`, `Authorization: Bearer …`: what follows the name, if it looks random. */
const NAMED_KEY = new RegExp(
  `(?:${KEY_NAME}["'\\\\]{0,3}\\s{0,3}(?:=>|:=|[:=])\\s{0,3}|--${KEY_NAME} {1,3}|authorization["'\\\\]{0,3}\\s{0,3}[:=]\\s{0,3}["'\\\\]{0,3}bearer\\s{1,3})["'\\\\]{0,3}([\\w.+/=~-]{20,256})`,
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

const CALLED_KEY = new RegExp(`${KEY_NAME}$`, 'i');
const CALLED_AUTHORIZATION = /^(?:proxy-)?authorization$/i;
/** A value as a whole, behind `Bearer` where it is a header's. */
const WHOLE_VALUE = /^(?:bearer\s{1,3})?([\w.+/=~-]{20,256})$/i;
const NAME_CHARACTERS_MAX = 100;

/** `{"api_key": "…"}`, `{"name": "API_KEY", "value": "…"}`: a value that looks random under such a name. */
export function findKeyByName(name: string, value: string): Span | null {
  const found = WHOLE_VALUE.exec(value);
  if (found === null || name.length > NAME_CHARACTERS_MAX) return null;
  const isHeader = CALLED_AUTHORIZATION.test(name) && found[0] !== found[1];
  if (!isHeader && !CALLED_KEY.test(name)) return null;
  return looksRandom(found[1]!) ? { start: value.length - found[1]!.length, end: value.length } : null;
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

export function findJwt(text: string, from: number, budget: Budget): Span | null {
  for (let start = text.indexOf('eyJ', from); start >= 0; ) {
    budget.spend(TRY_UNITS);
    const header = partEnd(text, start);
    const payload = text[header] === '.' ? partEnd(text, header + 1) : -1;
    const isToken = payload > header + 1 && text[payload] === '.' && isJwtHeader(text.slice(start, header), budget);
    if (isToken && !JWT_PART.test(text[start - 1] ?? ' ')) return { start, end: tokenEnd(text, payload) };
    // Every further `eyJ` of this part would end at the same position and fail alike.
    start = text.indexOf('eyJ', header);
  }
  return null;
}

function partEnd(text: string, from: number): number {
  let i = from;
  while (i < text.length && isWordOrDash(text.charCodeAt(i))) i++;
  return i;
}

/** A signed token has three parts, an encrypted one five. */
function tokenEnd(text: string, secondDot: number): number {
  let end = partEnd(text, secondDot + 1);
  for (let part = 3; part < 5 && text[end] === '.' && isWordOrDash(text.charCodeAt(end + 1)); part++)
    end = partEnd(text, end + 1);
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
  /-----BEGIN ((?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?)-----|---- BEGIN (SSH2 (?:ENCRYPTED )?PRIVATE KEY) ----|PuTTY-User-Key-File-\d:|AGE-SECRET-KEY-1[A-Z0-9]{58}/g;
/** A line that can be a key's: base64, or a header of PEM. Line ends may be written as escapes. */
const KEY_LINE =
  /(?:\s|\\[nrt])*(?:[A-Za-z0-9+/]{16,}={0,2}|[A-Za-z][A-Za-z-]{2,30}: [^\n\\]{1,200})(?=\s|\\[nrt]|["']|$)/y;
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
  const end = ssh2 === undefined ? `-----END ${label}-----` : `---- END ${ssh2} ----`;
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
