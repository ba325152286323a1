// What Prometheus makes of our metrics and rules: its own `promtool`, from the PATH or from where the set-up put it,
// and for machines without one a reader of the text format that finds the faults which we could make.
import { spawnSync } from 'node:child_process';
import { programPath } from './programs.ts';

const RUN_MS_MAX = 120_000;

/** undefined: there is none on this machine. */
export function promtool(args: readonly string[], input = ''): { ok: boolean; output: string } | undefined {
  const program = programPath('promtool');
  if (program === undefined) return undefined;
  const { status, stdout, stderr, error } = spawnSync(program, args, { input, encoding: 'utf8', timeout: RUN_MS_MAX });
  return { ok: status === 0, output: `${stdout}${stderr}${error?.message ?? ''}` };
}

type Sample = { name: string; labels: Record<string, string>; value: number };
export type Exposition = { samples: Sample[]; types: Map<string, string>; faults: string[] };

/** Reads an answer of `/metrics`; `faults` says what Prometheus or `promtool check metrics` would find fault with. */
export function readExposition(text: string): Exposition {
  const read: Exposition = { samples: [], types: new Map(), faults: [] };
  const helped = new Set<string>();
  const seen = new Set<string>();
  let family = '';
  if (!text.endsWith('\n')) read.faults.push('the last line has no end');
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const [, kind, name, rest] = /^# (HELP|TYPE) ([a-z][a-z0-9_]*) (.+)$/.exec(line) ?? [];
    if (kind === 'HELP') helped.add(name!);
    if (kind === 'TYPE') {
      if (read.types.has(name!)) read.faults.push(`${name} has two types`);
      if (!helped.has(name!)) read.faults.push(`${name} has no help`);
      if ((rest === 'counter') !== name!.endsWith('_total')) read.faults.push(`${name} is a ${rest} by its type alone`);
      read.types.set(name!, rest!);
      family = name!;
    }
    if (kind !== undefined) continue;
    const sample = sampleOf(line);
    if (sample === undefined) read.faults.push(`cannot be read: ${line}`);
    else noteSample(read, seen, family, sample);
  }
  return read;
}

function sampleOf(line: string): Sample | undefined {
  const [, name, inner = '', value] =
    /^([a-z][a-z0-9_]*)(?:\{((?:[a-z_][a-z0-9_]*="(?:[^"\\]|\\[\\"n])*",?)*)\})? (\S+)$/.exec(line) ?? [];
  if (name === undefined) return undefined;
  const labels = [...inner.matchAll(/([a-z_][a-z0-9_]*)="((?:[^"\\]|\\.)*)"/g)].map(([, label, text]) => [label, text]);
  return { name, labels: Object.fromEntries(labels), value: value === '+Inf' ? Infinity : Number(value) };
}

function noteSample(read: Exposition, seen: Set<string>, family: string, sample: Sample): void {
  const { name, labels, value } = sample;
  const isOfFamily =
    read.types.get(family) === 'histogram' ? name.replace(/_(bucket|sum|count)$/, '') === family : name === family;
  if (!isOfFamily) read.faults.push(`${name} stands under ${family}`);
  if (Number.isNaN(value)) read.faults.push(`${name} is no number`);
  const series = name + JSON.stringify(Object.entries(labels).sort());
  if (seen.has(series)) read.faults.push(`${series} is there twice`);
  seen.add(series);
  read.samples.push(sample);
}
