// RowBinary, as far as our own tables need it: columns one after the other without borders, texts with a LEB128 length
// in front, integers little-endian. Event rows are written by the codecs of ingest and walked over by the store
// pipeline and the audit log; blocks of the audit chain are written and read whole.
// Invariant: 64-bit integers are ours, without a sign and under 2^53. Failure: a text that ends early throws
// RowBinaryError.

export class RowBinaryError extends Error {
  override name = 'RowBinaryError';
}

/** Node's own encoders without the argument checks of `write`; the types leave them out. */
export type FastBuffer = Buffer & {
  latin1Write(text: string, offset: number): number;
  utf8Write(text: string, offset: number): number;
};

const TWO_32 = 2 ** 32;

/** Writes into memory that it allocates once. */
export class RowBinaryWriter {
  length = 0;
  readonly #bytes: FastBuffer;

  /** `bytesMax`: at least what is going to be written. */
  constructor(bytesMax: number) {
    this.#bytes = Buffer.allocUnsafe(bytesMax) as FastBuffer;
  }

  /**
   * The bytes written. A copy where most of the memory is unused: the result may wait for Redis, the rest should not.
   */
  bytes(): Buffer {
    const { length } = this;
    return length * 2 < this.#bytes.length
      ? Buffer.from(this.#bytes.subarray(0, length))
      : this.#bytes.subarray(0, length);
  }

  /** Text of one byte a character. */
  ascii(text: string): void {
    this.#varint(text.length);
    this.length += this.#bytes.latin1Write(text, this.length);
  }

  text(text: string): void {
    const bytes = Buffer.byteLength(text);
    this.#varint(bytes);
    this.length +=
      bytes === text.length ? this.#bytes.latin1Write(text, this.length) : this.#bytes.utf8Write(text, this.length);
  }

  byte(value: number): void {
    this.#bytes[this.length++] = value;
  }

  uint16(value: number): void {
    this.length = this.#bytes.writeUInt16LE(value, this.length);
  }

  uint32(value: number): void {
    this.length = this.#bytes.writeUInt32LE(value, this.length);
  }

  int64(value: number): void {
    this.#bytes.writeInt32LE(value | 0, this.length);
    this.#bytes.writeInt32LE(Math.floor(value / TWO_32), this.length + 4);
    this.length += 8;
  }

  nullableInt64(value: number | null): void {
    this.byte(value === null ? 1 : 0);
    if (value !== null) this.int64(value);
  }

  /** FixedString of just this length. */
  fixed(value: Buffer): void {
    this.#bytes.set(value, this.length);
    this.length += value.length;
  }

  /** Array(FixedString(size)) of packed pieces. */
  fixedArray(packed: Buffer, size: number): void {
    this.#varint(packed.length / size);
    this.fixed(packed);
  }

  #varint(value: number): void {
    while (value > 127) {
      this.#bytes[this.length++] = (value & 127) | 128;
      value >>>= 7;
    }
    this.#bytes[this.length++] = value;
  }
}

export class RowBinaryReader {
  /** Offset of what is read next. */
  at = 0;
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.at >= this.#bytes.length;
  }

  text(): string {
    const length = this.#varint();
    return this.#bytes.toString('utf8', this.#pass(length), this.at);
  }

  /** A view, not a copy. */
  textBytes(): Buffer {
    return this.fixed(this.#varint());
  }

  skipText(): void {
    this.#pass(this.#varint());
  }

  byte(): number {
    return this.#bytes[this.#pass(1)]!;
  }

  uint16(): number {
    return this.#bytes.readUInt16LE(this.#pass(2));
  }

  uint32(): number {
    return this.#bytes.readUInt32LE(this.#pass(4));
  }

  int64(): number {
    return Number(this.#bytes.readBigInt64LE(this.#pass(8)));
  }

  skipInt64(): void {
    this.#pass(8);
  }

  nullableInt64(): number | null {
    const isNull = this.byte();
    if (isNull > 1) throw new RowBinaryError('a nullable column is neither null nor a value');
    return isNull === 1 ? null : this.int64();
  }

  /** A view, not a copy. */
  fixed(length: number): Buffer {
    return this.#bytes.subarray(this.#pass(length), this.at);
  }

  fixedArray(size: number): Buffer {
    return this.fixed(this.#varint() * size);
  }

  /** Returns where the passed bytes begin. */
  #pass(length: number): number {
    const start = this.at;
    if (start + length > this.#bytes.length) throw new RowBinaryError('a row is cut short');
    this.at += length;
    return start;
  }

  #varint(): number {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.byte();
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  }
}
