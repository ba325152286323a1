// RowBinary, as far as our own tables need it (between the queries and the client): plain columns, one behind the other, no borders.
// 64-bit numbers are ours and stay under 2^53. A text that is cut short throws RowBinaryError.

class RowBinaryError extends Error {
  override name = 'RowBinaryError';
}

export class RowBinaryWriter {
  readonly #pieces: Buffer[] = [];

  text(value: string): this {
    const bytes = Buffer.from(value);
    this.#pieces.push(varint(bytes.length), bytes);
    return this;
  }

  uint32(value: number): this {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    this.#pieces.push(bytes);
    return this;
  }

  /** Int64, too: our numbers have no sign. */
  uint64(value: number): this {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt(value));
    this.#pieces.push(bytes);
    return this;
  }

  /** FixedString of just this length. */
  fixed(value: Buffer): this {
    this.#pieces.push(value);
    return this;
  }

  /** Array(FixedString(size)) of packed pieces. */
  fixedArray(packed: Buffer, size: number): this {
    this.#pieces.push(varint(packed.length / size), packed);
    return this;
  }

  done(): Buffer {
    return Buffer.concat(this.#pieces);
  }
}

export class RowBinaryReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.#at >= this.#bytes.length;
  }

  text(): string {
    return this.fixed(this.#varint()).toString();
  }

  uint32(): number {
    return this.fixed(4).readUInt32LE();
  }

  uint64(): number {
    return Number(this.fixed(8).readBigUInt64LE());
  }

  /** A view, not a copy. */
  fixed(length: number): Buffer {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new RowBinaryError('ClickHouse sent a row that is cut short');
    const bytes = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return bytes;
  }

  fixedArray(size: number): Buffer {
    return this.fixed(this.#varint() * size);
  }

  #varint(): number {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.fixed(1)[0]!;
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  }
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest % 128) | 128);
  }
}
