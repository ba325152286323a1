// What a line of the suite hands in: its result as JSON, as a Markdown table and as charts, with the machine and the
// question, and of all lines of a run one page (page.ts).
// Files go to build/bench-results, which git ignores; with `--out` where it says, with `--keep` to bench/results, where
// they are kept.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { assetPath } from '../src/process/assets.ts';
import { type Chart, draw } from './chart.ts';
import { describeMachine, type Machine, machineSentence } from './machine.ts';
import { cellText, columnsOf, pageOf, type Row } from './page.ts';
import { rounded } from './statistics.ts';

export type { Row } from './page.ts';

type Findings = {
  /** Names the files, too. */
  line: string;
  question: string;
  /** The command that gives this again. */
  command: string;
  rows: Row[];
  charts?: Chart[];
  /** The facts that a reader must know beside the table, a sentence each. */
  notes?: string[];
};

type Handed = { findings: Findings; machine: Machine };

const run = {
  folder: assetPath('build/bench-results'),
  settings: '',
  handed: [] as Handed[],
  /** The line that is being measured. */
  current: undefined as { name: string; machine: Machine } | undefined,
};

/** Before the first line. `settings`: the call, without the key. Throws where the folder cannot be made. */
export function beginRun({ folder, settings }: { folder: string; settings: string }): void {
  mkdirSync(folder, { recursive: true });
  Object.assign(run, { folder, settings });
}

/** Called when a line begins: the load average then is what else ran. */
export function beginLine(name: string): Machine {
  const machine = describeMachine();
  run.current = { name, machine };
  process.stdout.write(`\n${name}: ${machineSentence(machine)}\n`);
  return machine;
}

/** Prints the table and writes the files. */
export function hand(findings: Findings, machine: Machine): void {
  const { folder } = run;
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
  run.handed.push({ findings, machine });
  run.current = undefined;
  writePage([]);
  process.stdout.write(`\n${table(findings.rows)}\n${(findings.notes ?? []).map((note) => `${note}\n`).join('')}`);
  process.stdout.write(`${JSON.stringify({ line: findings.line, rows: rest.rows })}\n`);
}

/** Says where the results are, if there are any. */
export function endRun(): void {
  if (run.handed.length > 0)
    process.stdout.write(`The page report.html, JSON, tables and charts are in ${run.folder}\n`);
}

/** Ends the run early: results so far stay; the line that was being measured is named as missing. */
export function breakRun(): void {
  const { current, handed } = run;
  if (current === undefined && handed.length === 0) return;
  writePage(current === undefined ? [] : [current.name]);
  endRun();
}

function writePage(incomplete: readonly string[]): void {
  const lines = run.handed.map(({ findings, machine }) => ({ ...findings, machine: machineSentence(machine) }));
  writeFileSync(path.join(run.folder, 'report.html'), pageOf({ settings: run.settings, lines, incomplete }));
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
  const columns = columnsOf(rows);
  const cells = rows.map((row) => columns.map((column) => cellText(row[column]).replaceAll('|', '\\|')));
  return [
    `| ${columns.join(' | ')} |`,
    `|${columns.map(() => '---').join('|')}|`,
    ...cells.map((c) => `| ${c.join(' | ')} |`),
  ].join('\n');
}
