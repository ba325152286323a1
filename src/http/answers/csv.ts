// CSV as RFC 4180 has it: CRLF, a cell in quotes where it must be. It is for spreadsheets, which take a file for UTF-8
// only where a byte-order mark begins it. They take a cell that begins with one of `= + - @`, also in full width or
// behind blanks, with a tab or a line end, for a formula, which would run with the rights of the person who opens the
// file: such a cell gets an apostrophe before it.

export const BYTE_ORDER_MARK = '\ufeff';
/** Signs as they are, in full width and small; before them what is blank or not to be seen. */
const FORMULA = /^[\p{Z}\p{C}]*[=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212]|^[\t\r\n]/u;
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
