// Lays literals out for the search in wasm/find.ts (made once per set of rules): a fingerprint of three bytes of each literal, in
// eight buckets, looked for sixteen places at a time by nibble masks; where one shows, the bucket's literals are compared.
// The fingerprint is taken where a literal is rarest, since each place where it shows by chance costs a comparison.
// Layout: six masks of 16 bytes (low and high nibble of each byte of the fingerprint), eight pairs of u16 (first, count) that
// say which entries are a bucket's, then entries of 12 bytes (u32 place of the text, u16 length, u16 offset of the
// fingerprint, u32 number of the literal), then the texts.

const BUCKETS = 8;
const FINGERPRINT = 3;
const MASKS_BYTES = 2 * FINGERPRINT * 16;
const ENTRIES_AT = MASKS_BYTES + BUCKETS * 4;
const ENTRY_BYTES = 12;

/** The most common bytes of JSON texts, the most common first. */
const COMMON = Buffer.from(' etaoinsrhldcu"mpgfy,.w:b_v0123456789k-TASICEPRjxqzLNDMO/');

type Literal = { bytes: Buffer; number: number; offset: number };

/** The table's bytes, to be placed at `at`. */
export function literalTable(literals: readonly string[], at: number): Buffer {
  const parsed = literals.map((text, number): Literal => {
    const bytes = Buffer.from(text);
    return { bytes, number, offset: rarestPlace(bytes) };
  });
  // Neighbours in order share bytes, so a bucket's masks stay narrow.
  parsed.sort((a, b) => Buffer.compare(a.bytes.subarray(a.offset), b.bytes.subarray(b.offset)));
  const head = Buffer.alloc(ENTRIES_AT + parsed.length * ENTRY_BYTES);
  let textAt = at + head.length;
  parsed.forEach((literal, i) => {
    const bucket = Math.floor((i * BUCKETS) / parsed.length);
    addToMasks(head, literal, bucket);
    const countAt = MASKS_BYTES + bucket * 4 + 2;
    if (head.readUInt16LE(countAt) === 0) head.writeUInt16LE(i, countAt - 2);
    head.writeUInt16LE(head.readUInt16LE(countAt) + 1, countAt);
    const entry = ENTRIES_AT + i * ENTRY_BYTES;
    head.writeUInt32LE(textAt, entry);
    head.writeUInt16LE(literal.bytes.length, entry + 4);
    head.writeUInt16LE(literal.offset, entry + 6);
    head.writeUInt32LE(literal.number, entry + 8);
    textAt += literal.bytes.length;
  });
  return Buffer.concat([head, ...parsed.map(({ bytes }) => bytes)]);
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
