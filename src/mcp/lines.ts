// Messages of MCP over standard input and output: one a line, each way. Lines are acted on at once, in the order in
// which they come, and not one after the other has been done.
// Bounds: a line of MESSAGE_BYTES_MAX, of a larger one its ends; lines of IN_HAND_BYTES_MAX that are not yet done,
// past which no more is read.
// Failure: a stream that breaks has ended. What cannot be read as a message comes as a Fault.
import type { Readable, Writable } from 'node:stream';
import { type Incoming, MESSAGE_BYTES_MAX, readMessages, type Side, tooLarge } from './message.ts';

const IN_HAND_BYTES_MAX = 2 * MESSAGE_BYTES_MAX;
/** The end of a line that is too large is kept, where its id may stand. */
const END_BYTES = 64 * 1024;
const LINE_END = 0x0a;

/** Resolves when the stream has ended and all is done. `act` must not reject. */
export async function eachLine(
  stream: Readable,
  from: Side,
  act: (incoming: Incoming) => Promise<void>,
): Promise<void> {
  const inHand = new Set<Promise<void>>();
  let bytesInHand = 0;
  const line = new Line();
  const take = () => {
    const { bytes } = line;
    const incoming = line.take(from);
    if (incoming === undefined) return;
    bytesInHand += bytes;
    const work = act(incoming).finally(() => {
      bytesInHand -= bytes;
      inHand.delete(work);
    });
    inHand.add(work);
  };
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      let start = 0;
      for (let end = chunk.indexOf(LINE_END); end >= 0; end = chunk.indexOf(LINE_END, start)) {
        line.add(chunk.subarray(start, end));
        take();
        start = end + 1;
      }
      line.add(chunk.subarray(start));
      while (bytesInHand > IN_HAND_BYTES_MAX) await Promise.race(inHand);
    }
  } catch {
    // It has ended as well.
  }
  take();
  await Promise.all(inHand);
}

/** Resolves when it may be followed by more. A stream that has ended takes nothing. */
export async function writeLine(stream: Writable, text: string): Promise<void> {
  if (!stream.writable) return;
  // Ends of lines stand between values alone: in a string of JSON they are escaped.
  if (stream.write(`${text.replace(/[\r\n]+/g, ' ')}\n`)) return;
  await new Promise<void>((resolve) => {
    const done = () => {
      for (const event of ['drain', 'close', 'error'] as const) stream.off(event, done);
      resolve();
    };
    for (const event of ['drain', 'close', 'error'] as const) stream.on(event, done);
  });
}

/** The line that is coming in. */
class Line {
  #parts: Buffer[] = [];
  #tail: Buffer = Buffer.alloc(0);
  bytes = 0;

  add(part: Buffer): void {
    this.bytes += part.length;
    if (this.bytes <= MESSAGE_BYTES_MAX) {
      this.#parts.push(part);
      return;
    }
    if (this.#tail.length === 0) this.#parts = [Buffer.concat(this.#parts).subarray(0, END_BYTES)];
    this.#tail = Buffer.from(Buffer.concat([this.#tail, part]).subarray(-END_BYTES));
  }

  /** undefined: it is blank. */
  take(from: Side): Incoming | undefined {
    const isWhole = this.bytes <= MESSAGE_BYTES_MAX;
    const text = Buffer.concat(this.#parts).toString();
    const tail = this.#tail.toString();
    this.#parts = [];
    this.#tail = Buffer.alloc(0);
    this.bytes = 0;
    if (!isWhole) return tooLarge(text, tail);
    return text.trim() === '' ? undefined : readMessages(text.trim(), from);
  }
}
