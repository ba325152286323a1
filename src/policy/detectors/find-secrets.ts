// Finds API keys, tokens and private keys (see detectors.ts for what holds for all).
import type { Budget } from '../budget.ts';
import { isWordOrDash, type Span, TRY_UNITS } from './detector-search.ts';

/** Issuers' own prefixes. Each try reads a bounded number of characters before it can fail. */
const ISSUED_KEY = new RegExp(
  `(?<![A-Za-z0-9])(?:${[
    'A[KS]IA[A-Z0-9]{16}',
    'AIza[\\w-]{35}',
    'gh[oprsu]_[A-Za-z0-9]{36,}',
    'github_pat_\\w{22,}',
    'glpat-[\\w-]{20,}',
    'xox[abeoprs]-[A-Za-z0-9-]{10,}',
    '[prs]k_(?:live|test)_[A-Za-z0-9]{16,}',
    'sk-[\\w-]{20,}',
    'SG\\.[\\w-]{16,64}\\.[\\w-]{16,64}',
    'npm_[A-Za-z0-9]{36}',
    'hf_[A-Za-z0-9]{30,64}',
    'gth_[A-Za-z0-9]{40}',
    'gsk_[A-Za-z0-9]{40,64}',
    'dop_v1_[0-9a-f]{64}',
    'pypi-AgE[\\w-]{50,}',
    'shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}',
    'whsec_[A-Za-z0-9+/=]{24,100}',
  ].join('|')})(?![A-Za-z0-9])`,
  'g',
);
/** `api_key = "…"`: what follows the word, if it looks random. */
const NAMED_KEY =
  /(?:api_?-?key|secret_?-?key|client_?-?secret|access_?-?token|auth_?-?token)["'\\]{0,2}\s{0,3}(?:=>|:=|[:=])\s{0,3}["'\\]{0,2}([\w.+/=-]{20,256})/gi;

export function findIssuedKey(text: string, from: number, budget: Budget): Span | null {
  ISSUED_KEY.lastIndex = from;
  for (let m = ISSUED_KEY.exec(text); m !== null; m = ISSUED_KEY.exec(text)) {
    budget.spend(TRY_UNITS);
    // `sk-` also begins ordinary names. Going on behind them is right: no part of a name without digits has one.
    if (!m[0].startsWith('sk-') || /\d/.test(m[0])) return { start: m.index, end: m.index + m[0].length };
  }
  return null;
}

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

/** Letters and digits well mixed, unlike a word, a path or a variable's name. */
function looksRandom(value: string): boolean {
  const changes = value.match(/[A-Za-z]\d|\d[A-Za-z]/g);
  return changes !== null && changes.length >= 3 && !/[./]{2}/.test(value);
}

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

const KEY_BEGIN = /-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----/g;
const KEY_END = '-----END ';

/** From the first line of the key to the end of its last one; to the end of the text if that is missing. */
export function findPrivateKey(text: string, from: number): Span | null {
  KEY_BEGIN.lastIndex = from;
  const m = KEY_BEGIN.exec(text);
  if (m === null) return null;
  const last = text.indexOf(KEY_END, m.index);
  const dashes = last < 0 ? -1 : text.indexOf('-----', last + KEY_END.length);
  return { start: m.index, end: dashes < 0 ? text.length : dashes + 5 };
}
