// Finds e-mail addresses and IP addresses (see detectors.ts for what holds for all).
import tlds from 'tlds' with { type: 'json' };
import type { Budget } from '../budget.ts';
import {
  firstOf,
  isAlphanumeric,
  isDigit,
  isHex,
  isWordOrDash,
  type Span,
  TRY_UNITS,
  touchesWord,
} from './detector-search.ts';

const LOCAL_CHARACTERS_MAX = 64;
const DOMAIN_CHARACTERS_MAX = 253;
/** Those that IANA delegates, in ASCII without `xn--` and in their own scripts. */
const TOP_LEVEL_DOMAINS = new Set(tlds);
/** An `@`, as it is, as a percent code (of one, too), an escape or an entity. */
export const AT_SIGN = '@|%(?:25)?40|\\\\u0040|&(?:#(?:64|x40)|commat);';
const NEXT_AT_SIGN = new RegExp(AT_SIGN, 'g');
/** `user:password@host` of a URL. */
const URL_USER = /:\/\/[^\s/@]{0,100}$/;
const URL_USER_CHARACTERS_MAX = 104;

export function findEmail(text: string, from: number, budget: Budget): Span | null {
  NEXT_AT_SIGN.lastIndex = from;
  for (let m = NEXT_AT_SIGN.exec(text); m !== null; m = NEXT_AT_SIGN.exec(text)) {
    budget.spend(TRY_UNITS / 4);
    const at = m.index;
    const start = text[at - 1] === '"' ? quotedStart(text, at, from) : localStart(text, at, from);
    const domain = at + m[0].length;
    const end = start < at && isDomainUnit(text.charCodeAt(domain)) ? domainEnd(text, domain, budget) : -1;
    if (end > 0 && !isPartOfAddress(text, start, end)) return { start, end };
  }
  return null;
}

/** Says whether the finding is the user of a URL, or of `git@host:path`. */
function isPartOfAddress(text: string, start: number, end: number): boolean {
  if (text[end] === ':' && /[A-Za-z0-9~_/.]/.test(text[end + 1] ?? ' ')) return true;
  return URL_USER.test(text.slice(Math.max(0, start - URL_USER_CHARACTERS_MAX), start));
}

function localStart(text: string, at: number, from: number): number {
  let start = at;
  const min = Math.max(from, at - LOCAL_CHARACTERS_MAX);
  while (start > min && isLocal(text.charCodeAt(start - 1))) start--;
  start = Math.min(at, start + escapeLength(text, start));
  while (start < at && !isWordOrDash(text.charCodeAt(start)) && text[start] !== '+' && text.charCodeAt(start) < 128)
    start++;
  return text[at - 1] === '.' ? at : start;
}

/** The length of what precedes a local part: the rest of an escape (`\\nalice@…`), percent codes (`%3Dalice@…`). */
function escapeLength(text: string, start: number): number {
  const isEscape = text[start - 1] === '\\' && text[start - 2] !== '\\';
  let length = isEscape ? (ESCAPE_REST.exec(text.slice(start, start + 5))?.[0].length ?? 0) : 0;
  while (PERCENT_CODE.test(text.slice(start + length, start + length + 3))) length += 3;
  return length;
}

const ESCAPE_REST = /^(?:u[0-9A-Fa-f]{4}|[bfnrt])/;
const PERCENT_CODE = /^%[0-9A-Fa-f]{2}/;

/** `"alice smith"@…`: where the quoted text begins; `at` if it does not. */
function quotedStart(text: string, at: number, from: number): number {
  const start = text.lastIndexOf('"', at - 2);
  return start < Math.max(from, at - LOCAL_CHARACTERS_MAX) || start === at - 1 ? at : start;
}

function domainEnd(text: string, start: number, budget: Budget): number {
  // A version, as in `name@1.2.3` and `name@v0.1.0-alpha.beta`.
  if (/^v?\d+\.\d/.test(text.slice(start, start + 8))) return -1;
  const labels: number[] = [start];
  const max = Math.min(text.length, start + DOMAIN_CHARACTERS_MAX);
  let i = start;
  while (i < max && (isDomainUnit(text.charCodeAt(i)) || (text[i] === '.' && isDomainUnit(text.charCodeAt(i + 1))))) {
    if (text[i] === '.') labels.push(i + 1);
    i++;
  }
  while (i > start && text[i - 1] === '-') i--;
  // The last label that is a top-level domain ends the address: what follows it is the sentence's.
  for (let last = labels.length - 1, end = i; last > 0; last--) {
    budget.spend(TRY_UNITS / 4);
    const top = text.slice(labels[last], end).toLowerCase();
    if (TOP_LEVEL_DOMAINS.has(top) || /^xn--[a-z0-9-]{2,59}$/.test(top)) return end;
    end = labels[last]! - 1;
  }
  return -1;
}

/** Also outside ASCII: letters and digits of any script. */
function isDomainUnit(unit: number): boolean {
  return isWordOrDash(unit) || isForeignLetter(unit);
}

function isLocal(unit: number): boolean {
  return isAlphanumeric(unit) || (unit < 128 ? "._%+-'".includes(String.fromCharCode(unit)) : isForeignLetter(unit));
}

function isForeignLetter(unit: number): boolean {
  return unit >= 128 && /[\p{L}\p{N}\p{M}]/u.test(String.fromCharCode(unit));
}

const IPV4 = /(?<!\d\.)(?:\d{1,3}\.){3}\d{1,3}(?![A-Za-z0-9]|_|\.\d)/g;
/** Right before a version's number: `Chrome/120.0.0.0`, `Version=13.0.0.0`, `section 3.1.2.4`. */
const VERSION_BEFORE =
  /(?:[A-Za-z]\/|(?:version|\b(?:ver|v|release|section|chapter|clause|sec|build))\.?["']?\s{0,2}[:=]?\s{0,2}["']?)$/i;
const VERSION_CHARACTERS_MAX = 16;
const IPV6_CHARACTERS_MAX = 45;

export function findIpv4(text: string, from: number, budget: Budget): Span | null {
  return firstOf(IPV4, text, from, budget, (found, start) => {
    const parts = found.split('.');
    if (!parts.every((part) => Number(part) <= 255 && (part.length === 1 || part[0] !== '0'))) return false;
    // Loopback and the unspecified address are no one's.
    if (parts[0] === '127' || found === '0.0.0.0') return false;
    return !VERSION_BEFORE.test(text.slice(Math.max(0, start - VERSION_CHARACTERS_MAX), start));
  });
}

/** Runs of hex digits, colons and dots, each inspected once. */
export function findIpv6(text: string, from: number, budget: Budget): Span | null {
  for (let colon = text.indexOf(':', from); colon >= 0; ) {
    budget.spend(TRY_UNITS);
    let start = colon;
    while (start > from && colon - start < 5 && isHex(text.charCodeAt(start - 1))) start--;
    let end = colon;
    while (
      end < text.length &&
      (isHex(text.charCodeAt(end)) || text[end] === ':' || (text[end] === '.' && isDigit(text.charCodeAt(end + 1))))
    )
      end++;
    const next = end;
    if (text[end - 1] === ':' && text[end - 2] !== ':') end--;
    const isBracketed = text[start - 1] === '[' && text[end] === ']' && !/[\w)\]]/.test(text[start - 2] ?? ' ');
    if (
      end - start <= IPV6_CHARACTERS_MAX &&
      !touchesWord(text, start, end) &&
      isIpv6(text.slice(start, end), isBracketed)
    )
      return { start, end };
    colon = text.indexOf(':', next);
  }
  return null;
}

function isIpv6(address: string, isBracketed: boolean): boolean {
  if (address === '::1' || address === '::') return false; // loopback, unspecified
  const halves = address.split('::');
  if (halves.length > 2) return false;
  const groups = halves.flatMap((half) => (half === '' ? [] : half.split(':')));
  const last = groups.at(-1) ?? '';
  const embedded = last.includes('.');
  if (embedded && !/^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.|$)){4}$/.test(`${last}`)) return false;
  const plain = embedded ? groups.slice(0, -1) : groups;
  if (!plain.every((group) => /^[0-9A-Fa-f]{1,4}$/.test(group))) return false;
  const count = plain.length + (embedded ? 2 : 0);
  if (halves.length === 1) return count === 8;
  // `a::b`, `1::2` and `x[100::2]` are names and slices of program text.
  if (count >= 8 || (!embedded && count < 3 && !isBracketed)) return false;
  return embedded || (groups.some((group) => group.length >= 3) && /\d/.test(address));
}
