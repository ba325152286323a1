// Lays signs out for the search in wasm/signs.ts (made once per set of rules): a fingerprint of up to four folded bytes
// of each sign, in eight buckets, searched for sixteen positions at a time by nibble masks of the first three; where one
// shows, a hash of the bytes that stand there leads to the signs that have just this fingerprint.
// wasm/signs.ts describes the layout.
import { SIGN_BITS } from '../policy/sought.ts';
import { ELEMENT, fingerprintOf, SIGN_CLASSES, type Sign } from '../policy/text-search/signs.ts';

const BUCKETS = 8;
const MASKED = 3;
const SHIFT_AT = 2 * MASKED * 16;
const SHORT_AT = SHIFT_AT + 4;
const ENTRIES_PLACE_AT = SHORT_AT + 4;
const CLASSES_PLACE_AT = ENTRIES_PLACE_AT + 4;
const BEYOND_AT = CLASSES_PLACE_AT + 4;
const HEADS_AT = BEYOND_AT + SIGN_BITS / 8;
const ENTRY_BYTES = 16;
const CLASS_BYTES = 32;
/** Fingerprints of one, two and three bytes have keys of their own. */
const KEY_OF_SHORT = [0, 0x11000000, 0x12000000, 0x13000000];
const HASH = 0x9e3779b1;
/** The hash is much larger than what is in it: most of what shows by the masks leads to nothing. */
const HEADS_PER_ENTRY = 8;

type Entry = {
  key: number;
  hash: number;
  bytes: readonly number[];
  sign: Sign;
  place: number;
  number: number;
  elementsAt: number;
};

/** The table's bytes, to be placed at `at`. `signs`: by their numbers. */
export function signTable(signs: readonly (readonly Sign[])[], at: number): Buffer {
  const classes = new Map<number, number>();
  const elements: number[] = [];
  const beyond = Buffer.alloc(SIGN_BITS / 8);
  const entries: Entry[] = [];
  for (const [index, some] of signs.entries())
    for (const sign of some) {
      const number = index % SIGN_BITS;
      const elementsAt = elements.length;
      for (const element of sign.elements) {
        elements.push(placed(element, classes));
        if (element >= 0x80 && element < 0x100) beyond[number >> 3]! |= 1 << (number & 7);
      }
      const { place, bytes } = fingerprintOf(sign)!;
      for (const spelling of spellings(bytes))
        entries.push({ ...keyed(spelling), bytes: spelling, sign, place, number, elementsAt });
    }
  const shift = 32 - Math.max(6, Math.ceil(Math.log2(HEADS_PER_ENTRY * Math.max(1, entries.length))));
  for (const entry of entries) entry.hash = Math.imul(entry.key, HASH) >>> shift;
  const entriesAt = HEADS_AT + 2 ** (32 - shift) * 4;
  const elementsAt = entriesAt + entries.length * ENTRY_BYTES;
  const classesAt = elementsAt + elements.length * 2;
  const table = Buffer.alloc(classesAt + classes.size * CLASS_BYTES);
  // Neighbours in order share bytes, so a bucket's masks stay narrow.
  entries.sort((a, b) => compareBytes(a.bytes, b.bytes));
  entries.forEach(({ bytes }, i) => {
    addToMasks(table, bytes, Math.floor((i * BUCKETS) / entries.length));
  });
  table.writeUInt32LE(shift, SHIFT_AT);
  table.writeUInt32LE(
    entries.reduce((lengths, { bytes }) => lengths | (1 << bytes.length), 0),
    SHORT_AT,
  );
  table.writeUInt32LE(at + entriesAt, ENTRIES_PLACE_AT);
  table.writeUInt32LE(at + classesAt, CLASSES_PLACE_AT);
  beyond.copy(table, BEYOND_AT);
  entries.sort((a, b) => a.hash - b.hash);
  entries.forEach(({ key, hash, sign, place, number, elementsAt: own }, i) => {
    const headAt = HEADS_AT + hash * 4;
    if (table.readUInt16LE(headAt + 2) === 0) table.writeUInt16LE(i, headAt);
    table.writeUInt16LE(table.readUInt16LE(headAt + 2) + 1, headAt + 2);
    const entry = entriesAt + i * ENTRY_BYTES;
    table.writeUInt32LE(key, entry);
    table.writeUInt32LE(at + elementsAt + 2 * own, entry + 4);
    table.writeUInt8(sign.elements.length, entry + 8);
    table.writeUInt8(place, entry + 9);
    table.writeUInt16LE(number, entry + 10);
    table.writeUInt8(sign.check, entry + 12);
  });
  elements.forEach((element, i) => {
    table.writeUInt16LE(element, elementsAt + 2 * i);
  });
  for (const [number, place] of classes) table.set(SIGN_CLASSES[number]!, classesAt + place * CLASS_BYTES);
  return table;
}

/** With the class by its place in the table. */
function placed(element: number, classes: Map<number, number>): number {
  const low = element & 0xff;
  if (element - low !== ELEMENT.ofClass) return element;
  let place = classes.get(low);
  if (place === undefined) {
    place = classes.size;
    classes.set(low, place);
  }
  return ELEMENT.ofClass | place;
}

function spellings(bytes: readonly (readonly number[])[]): number[][] {
  return bytes.reduce<number[][]>((rows, some) => rows.flatMap((row) => some.map((byte) => [...row, byte])), [[]]);
}

function keyed(bytes: readonly number[]): { key: number; hash: number } {
  const key = Buffer.from(bytes).readUIntLE(0, bytes.length);
  return { key: (key | (KEY_OF_SHORT[bytes.length] ?? 0)) >>> 0, hash: 0 };
}

function compareBytes(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i]! - b[i]!;
  return a.length - b.length;
}

/** A fingerprint that is shorter than the masks leaves the rest open. */
function addToMasks(table: Buffer, bytes: readonly number[], bucket: number): void {
  for (let i = 0; i < MASKED; i++) {
    const byte = bytes[i];
    for (let nibble = 0; nibble < 16; nibble++) {
      if (byte === undefined || (byte & 15) === nibble) table[i * 32 + nibble]! |= 1 << bucket;
      if (byte === undefined || byte >> 4 === nibble) table[i * 32 + 16 + nibble]! |= 1 << bucket;
    }
  }
}
