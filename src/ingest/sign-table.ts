// Lays signs out for the search in wasm/signs.ts (made once per set of rules): a fingerprint of up to three folded
// bytes of each sign, a bit for the hash of each, and a hash of the bytes that stand there that leads to the signs
// which have just this fingerprint. wasm/signs.ts describes the layout.
import { getOrMake } from '../common/maps.ts';
import { SIGN_BITS } from '../policy/sought.ts';
import { ELEMENT, fingerprintOf, SIGN_CLASSES, type Sign } from '../policy/text-search/signs.ts';

const BUCKETS = 8;
/** Fingerprints for which the masks of a bucket are narrow: three of each, one position of a hundred by chance. */
const FEW_MAX = 24;
const MASKS_BYTES = 32;
const SHIFT_AT = 3 * MASKS_BYTES;
const ARE_FEW_AT = SHIFT_AT + 4;
const ENTRIES_PLACE_AT = ARE_FEW_AT + 4;
const CLASSES_PLACE_AT = ENTRIES_PLACE_AT + 4;
const BITMAP_AT = CLASSES_PLACE_AT + 4;
const HEADS_AT = BITMAP_AT + 8 * 1024;
const ENTRY_BYTES = 16;
const CLASS_BYTES = 32;
/** Fingerprints of one and two bytes have keys of their own. */
const KEY_OF_SHORT = [0, 0x01000000, 0x02000000];
const WHOLE = 3;
const HASH = 0x9e3779b1;
const HEADS_PER_ENTRY = 2;

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
  const entries: Entry[] = [];
  for (const [index, some] of signs.entries())
    for (const sign of some) {
      const number = index % SIGN_BITS;
      const elementsAt = elements.length;
      for (const element of sign.elements) elements.push(placed(element, classes));
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
  table.writeUInt32LE(shift, SHIFT_AT);
  placeMasks(table, entries);
  for (const { bytes, key } of entries) {
    if (bytes.length < WHOLE) continue;
    const hash = Math.imul(key, HASH) >>> 16;
    table[BITMAP_AT + (hash >> 3)]! |= 1 << (hash & 7);
  }
  table.writeUInt32LE(at + entriesAt, ENTRIES_PLACE_AT);
  table.writeUInt32LE(at + classesAt, CLASSES_PLACE_AT);
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
  const place = getOrMake(classes, low, () => classes.size);
  return ELEMENT.ofClass | place;
}

function spellings(bytes: readonly (readonly number[])[]): number[][] {
  return bytes.reduce<number[][]>((rows, some) => rows.flatMap((row) => some.map((byte) => [...row, byte])), [[]]);
}

function keyed(bytes: readonly number[]): { key: number; hash: number } {
  let key = KEY_OF_SHORT[bytes.length] ?? 0;
  for (let i = 0; i < bytes.length; i++) key |= bytes[i]! << (8 * i);
  return { key: key >>> 0, hash: 0 };
}

/** Masks of all fingerprints, where these are few; else of the short ones. */
function placeMasks(table: Buffer, entries: readonly Entry[]): void {
  const areFew = new Set(entries.map(({ key }) => key)).size <= FEW_MAX;
  table.writeUInt32LE(areFew ? 1 : 0, ARE_FEW_AT);
  const masked = areFew ? entries : entries.filter(({ bytes }) => bytes.length < WHOLE);
  for (const [bucket, some] of bucketsOf(masked).entries())
    for (const { bytes } of some) addToMasks(table, bytes, bucket);
}

/** Neighbours in order share a bucket, so its masks stay narrow. */
function bucketsOf(entries: readonly Entry[]): Entry[][] {
  const keys = [...new Set(entries.map(({ bytes }) => String.fromCharCode(...bytes)))].sort();
  const places = new Map(keys.map((key, i) => [key, Math.floor((i * BUCKETS) / keys.length)]));
  const buckets = Array.from({ length: BUCKETS }, (): Entry[] => []);
  for (const entry of entries) buckets[places.get(String.fromCharCode(...entry.bytes))!]!.push(entry);
  return buckets;
}

/** By the two halves of each byte; behind a short one any byte may stand. */
function addToMasks(table: Buffer, bytes: readonly number[], bucket: number): void {
  const bit = 1 << bucket;
  for (let i = 0; i < WHOLE; i++) {
    const at = i * MASKS_BYTES;
    const byte = bytes[i];
    if (byte === undefined) for (let n = at; n < at + MASKS_BYTES; n++) table[n]! |= bit;
    else {
      table[at + (byte & 15)]! |= bit;
      table[at + 16 + (byte >> 4)]! |= bit;
    }
  }
}
