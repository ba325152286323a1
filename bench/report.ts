// What a line of the suite hands in: its result as JSON, as a Markdown table and as charts, with the machine and the question.
// Files go to build/bench-results, which git ignores; with `--keep` to bench/results, where they are kept.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { assetPath } from '../src/assets.ts';
import { type Chart, draw, readable } from './chart.ts';
import { describeMachine, type Machine, machineSentence } from './machine.ts';
import { rounded } from './statistics.ts';

type Cell = string | number | undefined;
export type Row = Record<string, Cell>;

export type Findings = {
  /** Names the files, too. */
  line: string;
  question: string;
  /** The command that gives this again. */
  command: string;
  rows: Row[];
  charts?: Chart[];
  /** What a reader must know beside the table, a sentence each. */
  notes?: string[];
};

const results = () => assetPath(process.argv.includes('--keep') ? 'bench/results' : 'build/bench-results');

/** Called when a line begins: the load average then is what else ran. */
export function beginLine(name: string): Machine {
  const machine = describeMachine();
  process.stdout.write(`\n${name}: ${machineSentence(machine)}\n`);
  return machine;
}

/** Prints the table and writes the files. */
export function hand(findings: Findings, machine: Machine): void {
  const folder = results();
  mkdirSync(folder, { recursive: true });
  const charts = (findings.charts ?? []).map((chart, i) => {
    const name = `${findings.line}${i === 0 ? '' : `-${i + 1}`}.svg`;
    writeFileSync(path.join(folder, name), draw(chart));
    return name;
  });
  const { charts: _drawn, ...given } = findings;
  const rest = { ...given, rows: given.rows.map(roundedRow) };
  writeFileSync(path.join(folder, `${findings.line}.json`), `${JSON.stringify({ ...rest, machine }, null, 1)}\n`);
  writeFileSync(path.join(folder, `${findings.line}.md`), markdown(findings, machine, charts));
  process.stdout.write(`\n${table(findings.rows)}\n${(findings.notes ?? []).map((note) => `${note}\n`).join('')}`);
  process.stdout.write(`${JSON.stringify({ line: findings.line, rows: rest.rows })}\n`);
  process.stdout.write(`JSON, table and charts are in ${folder}\n`);
}

export function progress(sentence: string): void {
  process.stdout.write(`  ${new Date().toISOString().slice(11, 19)} ${sentence}\n`);
}

function markdown(findings: Findings, machine: Machine, charts: readonly string[]): string {
  const { line, question, command, rows, notes = [] } = findings;
  return [
    `## ${line}`,
    `\`${command}\`: ${question}`,
    `Machine: ${machineSentence(machine)}.`,
    table(rows),
    ...notes,
    ...charts.map((name) => `![${line}](results/${name})`),
    '',
  ].join('\n\n');
}

function roundedRow(row: Row): Row {
  const cells = Object.entries(row).map(([column, cell]) => [
    column,
    typeof cell === 'number' ? rounded(cell, 4) : cell,
  ]);
  return Object.fromEntries(cells) as Row;
}

/** Columns in the order in which rows bring them. */
export function table(rows: readonly Row[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cells = rows.map((row) => columns.map((column) => cellText(row[column])));
  return [
    `| ${columns.join(' | ')} |`,
    `|${columns.map(() => '---').join('|')}|`,
    ...cells.map((c) => `| ${c.join(' | ')} |`),
  ].join('\n');
}

function cellText(cell: Cell): string {
  if (cell === undefined) return '';
  return typeof cell === 'number' ? readable(cell) : cell.replaceAll('|', '\\|');
}
