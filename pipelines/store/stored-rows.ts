// Rows as they are stored: behind each the words of its payload, for the search, what shadows would have made of the
// event, what it cost and what it used of budgets (between a batch's plan and its insert). None of it is part of the
// row that the audit chain knows. It follows from payload and summary alone: a batch that is written again is the same.
// A payload of 1 MiB takes some 60 ms; others wait for what is due meanwhile after SLICE_MS.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EventCost, EventSettled, EventSummary } from '../../schemas/entry.ts';
import { payloadOf } from '../../src/common/event-row-codec.ts';
import { RowBinaryWriter } from '../../src/common/row-binary.ts';
import { searchTextOf } from '../../src/common/search/payload-words.ts';

const PIECE_BYTES = 256 * 1024;
/** As long as a batch's other steps take of the loop. */
const SLICE_MS = 10;
/**
 * The column of a row whose payload shows its words by itself, 93 of 100 recorded ones, and of a row without shadows.
 */
const EMPTY_TEXT = Buffer.from([0]);
const LENGTH_BYTES_MAX = 10;
const NOTHING_BESIDE = {};
/** The cost of a row that says none: null, and no text. */
const NO_COST = Buffer.from([1, 0]);
const COST_BYTES = 9;

/**
 * `rows`: well-formed; `summaryOf`: by place. In few pieces: copying 8 MB is less than 20,000 writes to a socket.
 */
export async function storedRows(
  rows: readonly Buffer[],
  summaryOf: (row: number) => Pick<EventSummary, 'shadow' | 'cost' | 'settled'> = () => NOTHING_BESIDE,
): Promise<Buffer[]> {
  const pieces: Buffer[] = [];
  let [open, bytes]: [Buffer[], number] = [[], 0];
  let since = performance.now();
  for (const [i, row] of rows.entries()) {
    const words = textColumn(searchTextOf(payloadOf(row)));
    const { shadow, cost, settled } = summaryOf(i);
    const said = textColumn(shadow === undefined ? '' : JSON.stringify(shadow));
    const costs = cost === undefined ? NO_COST : costColumns(cost);
    const charged = textColumn(settled === undefined ? '' : settledText(settled));
    open.push(row, words, said, costs, charged);
    bytes += row.length + words.length + said.length + costs.length + charged.length;
    if (bytes >= PIECE_BYTES) {
      pieces.push(Buffer.concat(open, bytes));
      [open, bytes] = [[], 0];
    }
    if (performance.now() - since < SLICE_MS) continue;
    await nextTurn();
    since = performance.now();
  }
  if (bytes > 0) pieces.push(Buffer.concat(open, bytes));
  return pieces;
}

function settledText(settled: readonly EventSettled[]): string {
  return JSON.stringify(settled.map(({ by, scope, shown, amount }) => [by.policy, by.unit, scope, shown, amount]));
}

function costColumns({ by, millionths }: EventCost): Buffer {
  const writer = new RowBinaryWriter(COST_BYTES + by.length + LENGTH_BYTES_MAX);
  writer.nullableInt64(millionths);
  writer.ascii(by);
  return writer.bytes();
}

function textColumn(text: string): Buffer {
  if (text === '') return EMPTY_TEXT;
  const writer = new RowBinaryWriter(Buffer.byteLength(text) + LENGTH_BYTES_MAX);
  writer.text(text);
  return writer.bytes();
}
