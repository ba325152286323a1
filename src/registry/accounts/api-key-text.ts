// The text of an API key: `gth_` + 40 base62 characters, the last 6 a CRC-32 of everything before them.
// It runs before the look-up: a mistyped or made-up `gth_` key is refused without one, and secret scanners recognize
// ours. A bootstrap key has no such form: any other text of 32-200 `[A-Za-z0-9_-]` is looked up by its hash, but for
// one that begins as keys of operators do (process/operator-keys.ts).
// Invariant: nothing but the SHA-256 of a key is ever stored. With 200 random bits it needs no salt and no slow hash.
import { createHash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PREFIX = 'gth_';
const RANDOM_CHARACTERS = 34;
const CHECK_CHARACTERS = 6;
const OURS = /^gth_[0-9A-Za-z]{40}$/;
const OTHER = /^(?!gop_)[A-Za-z0-9_-]{32,200}$/;
/** Largest multiple of 62 that a byte holds: bytes from there on would favour some characters. */
const FAIR_BYTES = 248;

export function mintApiKey(): string {
  let text = PREFIX;
  while (text.length < PREFIX.length + RANDOM_CHARACTERS) {
    for (const byte of randomBytes(RANDOM_CHARACTERS)) {
      if (byte < FAIR_BYTES && text.length < PREFIX.length + RANDOM_CHARACTERS)
        text += ALPHABET[byte % ALPHABET.length];
    }
  }
  return text + checkOf(text);
}

/** null: malformed, or its check does not fit; no key of this text can exist. */
export function parseApiKey(text: string): { sha256: string } | null {
  const sound = text.startsWith(PREFIX)
    ? OURS.test(text) && checkOf(text.slice(0, -CHECK_CHARACTERS)) === text.slice(-CHECK_CHARACTERS)
    : OTHER.test(text);
  return sound ? { sha256: sha256Of(text) } : null;
}

/** Hex. */
export function sha256Of(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** The last four characters, to distinguish keys. */
export function hintOf(text: string): string {
  return text.slice(-4);
}

function checkOf(text: string): string {
  let rest = crc32(text);
  let check = '';
  for (let i = 0; i < CHECK_CHARACTERS; i++) {
    check = ALPHABET[rest % ALPHABET.length] + check;
    rest = Math.floor(rest / ALPHABET.length);
  }
  return check;
}
