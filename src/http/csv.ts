// CSV as RFC 4180 has it: CRLF, a cell in quotes where it must be. A spreadsheet takes a cell that begins with one of
// `= + - @`, a tab or a line end for a formula, which would run with the rights of the person who opens the file: such
// a cell gets an apostrophe before it.

const FORMULA = /^[=+\-@\t\r\n]/;
const NUMBER = /^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$/;
const QUOTED = /[",\r\n]/;

export type Cell = string | number | boolean | null | undefined;

/** One line with its end. null and undefined are empty cells. */
export function csvLine(cells: readonly Cell[]): string {
  return `${cells.map(cellText).join(',')}\r\n`;
}

function cellText(cell: Cell): string {
  if (cell === null || cell === undefined) return '';
  const text = String(cell);
  const harmless = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return QUOTED.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}
