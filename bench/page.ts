// The results of a run as one page: every line with its question, table, notes and charts, and on what it was measured.
// Invariant: one file that needs nothing else: styles and charts are in it, there is no script and nothing is
// fetched. What is in it as text is escaped. It reads in light and in dark.
import { type Chart, draw, escaped, readable } from './chart.ts';

type Cell = string | number | undefined;
export type Row = Record<string, Cell>;

type PageLine = {
  line: string;
  question: string;
  command: string;
  rows: Row[];
  charts?: Chart[];
  notes?: string[];
  /** On what, in a sentence. */
  machine: string;
};

type Page = {
  /** The call that this is the result of. */
  settings: string;
  lines: PageLine[];
  /** Lines that were ended half-way and have no result. */
  incomplete: readonly string[];
};

const STYLE = `
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { padding: 0.3rem 0.7rem; border-bottom: 1px solid #8a939d55; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
code { font: 13px ui-monospace, monospace; }
.machine { color: #6e7781; font-size: 13px; }
.incomplete { border-left: 4px solid #d9822b; padding-left: 0.7rem; }
svg { max-width: 100%; height: auto; margin: 1rem 0; }`;

export function pageOf({ settings, lines, incomplete }: Page): string {
  const missing = incomplete.map(
    (line) =>
      `<p class="incomplete">The run was ended while <b>${escaped(line)}</b> was measured: it has no result.</p>`,
  );
  return `${[
    '<!doctype html>',
    '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
    `<title>Gatehouse: measured</title><style>${STYLE}</style></head><body>`,
    `<h1>Gatehouse: measured</h1><p><code>${escaped(settings)}</code></p>`,
    ...missing,
    ...lines.map(section),
    '</body></html>',
  ].join('\n')}\n`;
}

function section({ line, question, command, rows, charts = [], notes = [], machine }: PageLine): string {
  return [
    `<section><h2>${escaped(line)}</h2><p>${escaped(question)}</p>`,
    htmlTable(rows),
    ...notes.map((note) => `<p>${escaped(note)}</p>`),
    ...charts.map(draw),
    `<p class="machine"><code>${escaped(command)}</code><br>${escaped(machine)}</p></section>`,
  ].join('\n');
}

function htmlTable(rows: readonly Row[]): string {
  const columns = columnsOf(rows);
  const head = columns.map((column) => `<th scope="col">${escaped(column)}</th>`).join('');
  const body = rows.map(
    (row) => `<tr>${columns.map((column) => `<td>${escaped(cellText(row[column]))}</td>`).join('')}</tr>`,
  );
  return `<table><thead><tr>${head}</tr></thead><tbody>${body.join('\n')}</tbody></table>`;
}

/** Columns in the order in which rows bring them. */
export function columnsOf(rows: readonly Row[]): string[] {
  return [...new Set(rows.flatMap((row) => Object.keys(row)))];
}

export function cellText(cell: Cell): string {
  if (cell === undefined) return '';
  return typeof cell === 'number' ? readable(cell) : cell;
}
