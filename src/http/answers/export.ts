// Exports: every row of a list's filter as a file, NDJSON or CSV, streamed (beside the lists of events, audit log,
// anomalies, deliveries). Read by cursor, a few thousand rows at a time, each piece written before the next is read:
// memory is bounded whatever the length. Lines of NDJSON are the items of the list, byte for byte; payloads are never
// parsed.
// Invariant: a body that ends soundly holds every row of the filter. Where a read fails half-way, the process ends, or
// the caller may read no more (body-parts.ts), the connection is cut, and a client that may continues with the cursor
// of the last row that it has (`cursors=true`).
import Type from 'typebox';
import type { Listed, PageStart, Position } from '../../../schemas/paging.ts';
import { onOneLine } from '../../common/exact-json.ts';
import { EXPORT_ROWS_AT_ONCE } from '../../common/limits.ts';
import { cursorPaging, flag, oneOf, type QueryOf, RECORD_PAGE, sessionParameter } from '../reading/query.ts';
import type { AnswerSpec, Call, Parts, Reply } from '../route.ts';
import { BYTE_ORDER_MARK, type Cell, csvLine } from './csv.ts';
import { cursorBehind, type OpenPage, openPage } from './cursor.ts';
import { ask, markIncomplete } from './reply.ts';

const FORMATS = ['ndjson', 'csv'] as const;
const TYPES = { ndjson: 'application/x-ndjson; charset=utf-8', csv: 'text/csv; charset=utf-8' };

const { cursor } = cursorPaging(RECORD_PAGE);

/** Beside the filters of the list. */
export const exportParameters = {
  format: oneOf(
    '`ndjson` (the default): an item of the list a line. `csv`: as RFC 4180 has it, in UTF-8 with a byte-order mark, for spreadsheets',
    FORMATS,
  ),
  cursors: flag(
    '`true`: each row with its cursor, to go on behind it: `{"cursor":…,"item":…}` a line, or a last column `cursor`',
    false,
  ),
  cursor: { ...cursor, description: 'Cursor of a row, or `next_cursor` of the list: goes on behind it' },
  session: sessionParameter(),
};

export const EXPORT_ANSWER: Record<number, AnswerSpec> = {
  200: {
    description: 'The rows, in the order of the list. A body that is cut off is not all of them',
    contentType: 'application/x-ndjson',
    schema: Type.String(),
    example: '{"id":"evt_01jd5x0f6w3q8z5n7r2k9v4t1m","type":"prompt"}\n',
  },
};

type Exported<Row> = {
  /** The list's name, as its cursors know it. */
  list: string;
  /** The file's name. */
  name: string;
  /** False: what was acknowledged before may be missing. */
  complete: Promise<boolean>;
  read(start: PageStart, signal: AbortSignal): Promise<Listed<Row>>;
  positionOf(row: Row): Position;
  /** JSON text of the list's item. */
  text(row: Row): string;
  columns: readonly string[];
  cells(row: Row): readonly Cell[];
};

type ExportQuery = QueryOf<typeof exportParameters>;

/** The first rows are read before the answer begins, so that a refusal is answered as for the list. */
export async function exported<Row>(
  call: Call<unknown, ExportQuery>,
  { slots }: Pick<Parts, 'slots'>,
  what: Exported<Row>,
): Promise<Reply> {
  const { format = 'ndjson', cursors } = call.query;
  const asked = openPage({ ...call, query: { ...call.query, limit: EXPORT_ROWS_AT_ONCE } }, what.list);
  const release = slots.exports.take(call.principal);
  try {
    const complete = await what.complete;
    const first = await ask(() => what.read(asked, call.client.signal));
    const lines = new Lines(what, { format, cursors }, asked, asked.total ?? first.total ?? 0);
    const write: NonNullable<Reply['parts']> = async (parts) => {
      if (lines.header !== '') await parts.put(lines.header);
      for (let page = first; ; ) {
        for (const piece of lines.pieces(page.items)) await parts.put(piece);
        if (page.next === null) break;
        const start = { ...asked, offset: 0, after: page.next };
        page = await ask(() => what.read(start, parts.signal));
      }
    };
    const headers = { 'Content-Disposition': `attachment; filename="${what.name}.${format}"` };
    return markIncomplete(
      { status: 200, contentType: TYPES[format], headers, parts: write, onSent: release },
      complete,
    );
  } catch (error) {
    release();
    throw error;
  }
}

const PIECE_CHARACTERS = 64 * 1024;

/** Rows as lines, gathered to pieces of some size. */
class Lines<Row> {
  readonly header: string;
  readonly #what: Exported<Row>;
  readonly #how: { format: 'ndjson' | 'csv'; cursors: boolean };
  readonly #asked: OpenPage;
  readonly #total: number;
  #shown = 0;

  constructor(
    what: Exported<Row>,
    how: { format: 'ndjson' | 'csv'; cursors: boolean },
    asked: OpenPage,
    total: number,
  ) {
    this.#what = what;
    this.#how = how;
    this.#asked = asked;
    this.#total = total;
    const columns = [...what.columns, ...(how.cursors ? ['cursor'] : [])];
    this.header = how.format === 'csv' ? BYTE_ORDER_MARK + csvLine(columns) : '';
  }

  *pieces(rows: readonly Row[]): Generator<string> {
    let piece = '';
    for (const row of rows) {
      piece += this.#line(row);
      if (piece.length < PIECE_CHARACTERS) continue;
      yield piece;
      piece = '';
    }
    if (piece !== '') yield piece;
  }

  #line(row: Row): string {
    const { format, cursors } = this.#how;
    const { text, cells, positionOf } = this.#what;
    this.#shown++;
    const cursor = cursors ? cursorBehind(this.#asked, this.#shown, this.#total, positionOf(row)) : undefined;
    if (format === 'csv') return csvLine(cursor === undefined ? cells(row) : [...cells(row), cursor]);
    const line = onOneLine(text(row));
    return cursor === undefined ? `${line}\n` : `{"cursor":"${cursor}","item":${line}}\n`;
  }
}
