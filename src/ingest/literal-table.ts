// Lays literals out for the search in wasm/find.ts (made once per set of rules): a fingerprint of three bytes of each
// literal, in eight buckets, searched for sixteen positions at a time by nibble masks; where one shows, a hash of the
// three bytes that stand there leads to the literals that have just this fingerprint, however many others there are.
// The fingerprint is taken where a literal is rarest, since each position where it shows by chance costs a look-up.
// wasm/find.ts describes the layout.

const BUCKETS = 8;
const FINGERPRINT = 3;
const MASKS_BYTES = 2 * FINGERPRINT * 16;
const SHIFT_AT = MASKS_BYTES;
const SHORT_AT = SHIFT_AT + 4;
const ENTRIES_PLACE_AT = SHORT_AT + 4;
const HEADS_AT = ENTRIES_PLACE_AT + 8;
const ENTRY_BYTES = 16;
/** Literals of two bytes and of one have keys of their own. */
const KEY_OF_SHORT = [0, 0x02000000, 0x01000000];
const HASH = 0x9e3779b1;

/** The most common bytes of JSON texts, the most common first. */
const COMMON = Buffer.from(' etaoinsrhldcu"mpgfy,.w:b_v0123456789k-TASICEPRjxqzLNDMO/');

type Literal = { bytes: Buffer; number: number; offset: number; key: number; hash: number };

/** The table's bytes, to be placed at `at`. */
export function literalTable(literals: readonly string[], at: number): Buffer {
  const bits = Math.max(4, Math.ceil(Math.log2(2 * literals.length)));
  const parsed = literals.map((text, number) => literalOf(text, number, 32 - bits));
  const heads = 2 ** bits * 4;
  const entriesAt = HEADS_AT + heads;
  const head = Buffer.alloc(entriesAt + parsed.length * ENTRY_BYTES);
  // Neighbours in order share bytes, so a bucket's masks stay narrow.
  parsed.sort((a, b) => Buffer.compare(a.bytes.subarray(a.offset), b.bytes.subarray(b.offset)));
  parsed.forEach((literal, i) => {
    addToMasks(head, literal, Math.floor((i * BUCKETS) / parsed.length));
  });
  head.writeUInt32LE(32 - bits, SHIFT_AT);
  head.writeUInt32LE(
    parsed.reduce((lengths, { bytes }) => lengths | (bytes.length < FINGERPRINT ? bytes.length : 0), 0),
    SHORT_AT,
  );
  head.writeUInt32LE(at + entriesAt, ENTRIES_PLACE_AT);
  parsed.sort((a, b) => a.hash - b.hash);
  let textAt = at + head.length;
  parsed.forEach((literal, i) => {
    const headAt = HEADS_AT + literal.hash * 4;
    if (head.readUInt16LE(headAt + 2) === 0) head.writeUInt16LE(i, headAt);
    head.writeUInt16LE(head.readUInt16LE(headAt + 2) + 1, headAt + 2);
    writeEntry(head, entriesAt + i * ENTRY_BYTES, literal, textAt);
    textAt += literal.bytes.length;
  });
  return Buffer.concat([head, ...parsed.map(({ bytes }) => bytes)]);
}

function literalOf(text: string, number: number, shift: number): Literal {
  const bytes = Buffer.from(text);
  const offset = rarestPlace(bytes);
  const length = Math.min(FINGERPRINT, bytes.length);
  const key = bytes.readUIntLE(offset, length) | (KEY_OF_SHORT[length] ?? 0);
  return { bytes, number, offset, key, hash: Math.imul(key, HASH) >>> shift };
}

function writeEntry(head: Buffer, entry: number, { key, bytes, offset, number }: Literal, textAt: number): void {
  head.writeUInt32LE(key, entry);
  head.writeUInt32LE(textAt, entry + 4);
  head.writeUInt16LE(bytes.length, entry + 8);
  head.writeUInt16LE(offset, entry + 10);
  head.writeUInt32LE(number, entry + 12);
}

/** A literal that is shorter than the fingerprint leaves the rest of it open. */
function addToMasks(head: Buffer, { bytes, offset }: Literal, bucket: number): void {
  for (let i = 0; i < FINGERPRINT; i++) {
    const byte = bytes[offset + i];
    for (let nibble = 0; nibble < 16; nibble++) {
      if (byte === undefined || (byte & 15) === nibble) head[i * 32 + nibble]! |= 1 << bucket;
      if (byte === undefined || byte >> 4 === nibble) head[i * 32 + 16 + nibble]! |= 1 << bucket;
    }
  }
}

function rarestPlace(bytes: Buffer): number {
  let best = 0;
  let rarity = -1;
  for (let at = 0; at + FINGERPRINT <= bytes.length; at++) {
    let sum = 0;
    for (let i = at; i < at + FINGERPRINT; i++) sum += rarityOf(bytes[i]!);
    if (sum > rarity) [best, rarity] = [at, sum];
  }
  return best;
}

function rarityOf(byte: number): number {
  const place = COMMON.indexOf(byte);
  return place < 0 ? 2 * COMMON.length : place;
}
