// Mints and recognises identifiers: prefix + 26 characters of lowercase Crockford base32 (48-bit ms time, 80 random
// bits). They sort by creation. An identifier of the wrong form is simply unknown: `isId` lets handlers answer 404
// without a look-up.
import { createHash, randomFillSync } from 'node:crypto';

export const ID_PREFIXES = {
  agent: 'agt_',
  event: 'evt_',
  alert: 'alr_',
  policy: 'pol_',
  auditLog: 'log_',
  account: 'acc_',
  apiKey: 'key_',
  anomaly: 'ano_',
  approval: 'apr_',
  delivery: 'dlv_',
  session: 'ses_',
} as const;
export type IdKind = keyof typeof ID_PREFIXES;

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const REMAINDER = /^[0-7][0-9abcdefghjkmnpqrstvwxyz]{25}$/;
const PREFIX_LENGTH = 4;
export const ID_TIME_CHARACTERS = 10;
const RANDOM_CHARACTERS = 16;
export const ID_CHARACTERS = PREFIX_LENGTH + ID_TIME_CHARACTERS + RANDOM_CHARACTERS;

// One system call for many ids: randomness is drawn in blocks, a byte gives one character (its low five bits).
const pool = Buffer.allocUnsafe(RANDOM_CHARACTERS * 512);
let poolAt = pool.length;

let lastMs = -1;
let lastTime = '';

export function mintId(kind: IdKind, nowMs: number): string {
  if (nowMs !== lastMs) {
    lastMs = nowMs;
    lastTime = idTime(nowMs);
  }
  if (poolAt === pool.length) {
    randomFillSync(pool);
    poolAt = 0;
  }
  let id = ID_PREFIXES[kind] + lastTime;
  const end = poolAt + RANDOM_CHARACTERS;
  while (poolAt < end) id += ALPHABET[pool[poolAt++]! & 31];
  return id;
}

export function isId(kind: IdKind, text: string): boolean {
  return text.startsWith(ID_PREFIXES[kind]) && REMAINDER.test(text.slice(PREFIX_LENGTH));
}

/**
 * The id of another kind with the same remainder: how a derived record (an event's audit entry, its anomaly) gets a
 * name that a replay makes again.
 */
export function derivedId(kind: IdKind, from: string): string {
  return ID_PREFIXES[kind] + from.slice(PREFIX_LENGTH);
}

/**
 * The id that follows from `text`: deriving it again gives the same one. It sorts by `atMs` like a minted one.
 */
export function hashedId(kind: IdKind, atMs: number, text: string): string {
  let id = ID_PREFIXES[kind] + idTime(atMs);
  for (const byte of createHash('sha256').update(text).digest().subarray(0, RANDOM_CHARACTERS))
    id += ALPHABET[byte & 31];
  return id;
}

/** Epoch ms at which the id was minted. The id must be well formed. */
export function timeOfId(id: string): number {
  let ms = 0;
  for (let i = PREFIX_LENGTH; i < PREFIX_LENGTH + ID_TIME_CHARACTERS; i++) ms = ms * 32 + ALPHABET.indexOf(id[i]!);
  return ms;
}

/** The characters of an id that hold its time. */
export function idTime(ms: number): string {
  let text = '';
  for (let i = 0; i < ID_TIME_CHARACTERS; i++) {
    text = ALPHABET[ms % 32]! + text;
    ms = Math.floor(ms / 32);
  }
  return text;
}
