// Mints and recognises identifiers: prefix + 26 characters of lowercase Crockford base32 (48 bits of ms time, 15 of the
// slot in it, 65 random bits). Those of one process rise in the order in which they are made (steady-clock.ts), so of
// equal times they are the order of arrival. Nothing but this file and the writer of wasm-instance.ts knows of slots.
// An identifier of the wrong form is simply unknown: `isId` lets handlers answer 404 without a look-up.
import { createHash, randomFillSync } from 'node:crypto';
import { type Moment, STEADY_CLOCK } from './steady-clock.ts';

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
  backtest: 'bkt_',
  view: 'viw_',
  hold: 'hld_',
  connection: 'con_',
  check: 'chk_',
  outgoing_feed: 'ofd_',
} as const;
export type IdKind = keyof typeof ID_PREFIXES;

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const REMAINDER = /^[0-7][0-9abcdefghjkmnpqrstvwxyz]{25}$/;
const PREFIX_LENGTH = 4;
export const ID_TIME_CHARACTERS = 10;
const ID_SLOT_CHARACTERS = 3;
const RANDOM_CHARACTERS = 13;
export const ID_CHARACTERS = PREFIX_LENGTH + ID_TIME_CHARACTERS + ID_SLOT_CHARACTERS + RANDOM_CHARACTERS;

// One system call for many ids: randomness is drawn in blocks, a byte gives one character (its low five bits).
const pool = Buffer.allocUnsafe(RANDOM_CHARACTERS * 512);
let poolAt = pool.length;

let lastMs = -1;
let lastTime = '';

/** An id of just that moment, which has been taken from a clock. */
export function idAt(kind: IdKind, { ms, slot }: Moment): string {
  if (ms !== lastMs) {
    lastMs = ms;
    lastTime = idTime(ms);
  }
  if (poolAt === pool.length) {
    randomFillSync(pool);
    poolAt = 0;
  }
  let id = ID_PREFIXES[kind] + lastTime + slotText(slot);
  const end = poolAt + RANDOM_CHARACTERS;
  while (poolAt < end) id += ALPHABET[pool[poolAt++]! & 31];
  return id;
}

/** `atMs`: epoch ms, whole; the time of what is made, which the id keeps. */
export function mintId(kind: IdKind, atMs: number): string {
  return idAt(kind, STEADY_CLOCK.takeOf(atMs));
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

/** The id that follows from `text`: deriving it again gives the same one. It sorts by its moment like a minted one. */
export function hashedId(kind: IdKind, { ms, slot }: Moment, text: string): string {
  let id = ID_PREFIXES[kind] + idTime(ms) + slotText(slot);
  for (const byte of createHash('sha256').update(text).digest().subarray(0, RANDOM_CHARACTERS))
    id += ALPHABET[byte & 31];
  return id;
}

/** Writes what the characters of an id behind its time stand for, five bits a byte. The id must be well formed. */
export function putBehindTime(id: string, to: Uint8Array, at: number): void {
  for (let i = PREFIX_LENGTH + ID_TIME_CHARACTERS; i < ID_CHARACTERS; i++) to[at++] = ALPHABET.indexOf(id[i]!);
}

/** Epoch ms at which the id was minted. The id must be well formed. */
export function timeOfId(id: string): number {
  return numberOf(id, PREFIX_LENGTH, ID_TIME_CHARACTERS);
}

/** The same with its slot: what derived ids share, so that they sort as the ids that they follow from. */
export function momentOfId(id: string): Moment {
  return { ms: timeOfId(id), slot: numberOf(id, PREFIX_LENGTH + ID_TIME_CHARACTERS, ID_SLOT_CHARACTERS) };
}

function numberOf(id: string, from: number, length: number): number {
  let value = 0;
  for (let i = from; i < from + length; i++) value = value * 32 + ALPHABET.indexOf(id[i]!);
  return value;
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

function slotText(slot: number): string {
  return ALPHABET[slot >> 10]! + ALPHABET[(slot >> 5) & 31]! + ALPHABET[slot & 31]!;
}
