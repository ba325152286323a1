// The command line of the suite: which lines there are, what each answers, and which options it takes.
// Stands before bench/main.ts, which runs what is asked for. Invariant: an option that a line does not take, or a value that is none, is
// refused with a sentence before anything starts. Failure: CallError, which main.ts says with status 2.
import { parseArgs } from 'node:util';

export class CallError extends Error {
  override name = 'CallError';
}

type Option = { about: string; unit?: string; kind: 'number' | 'text' | 'flag' };

export const OPTIONS = {
  turns: { kind: 'number', about: 'turns of each contender, of which medians are shown' },
  seconds: { kind: 'number', unit: 's', about: 'length of a turn, or of the line' },
  kills: { kind: 'number', about: 'processes to kill under load' },
  tries: { kind: 'number', about: 'repetitions' },
  hours: { kind: 'number', unit: 'h', about: 'agent-hours of traffic' },
  events: { kind: 'number', about: 'rows to make' },
  agents: { kind: 'number', about: 'agents' },
  rate: { kind: 'number', unit: 'events/s', about: 'where to begin to hold, instead of searching for it' },
  data: { kind: 'text', about: 'folder in which the rows are kept, to take them up again' },
  keep: { kind: 'flag', about: 'write the result into bench/results, as JSON and as charts' },
} as const satisfies Record<string, Option>;
export type OptionName = keyof typeof OPTIONS;

export type LineSpec = {
  about: string;
  /** Its options, each with what holds where it is left out. */
  options: Partial<Record<OptionName, number | string>>;
  /** What may stand behind its name. */
  operands?: string;
};

const SPEED = { turns: 3, keep: 'no' };
export const LINES = {
  ingest: {
    about: 'events a second, single and in batches, against a bare echo and a Fastify server',
    options: { ...SPEED, seconds: 5 },
  },
  real: { about: 'the same with recorded agent runs', options: { ...SPEED, seconds: 5 }, operands: 'NDJSON files' },
  'end-to-end': {
    about: 'the rate at which the backlog stays flat; from the answer to findable',
    options: { seconds: 60, rate: 'searched for', keep: 'no' },
  },
  latency: {
    about: 'answers at 10, 50 and 80 % of the maximum, from when each was due',
    options: { ...SPEED, seconds: 10 },
  },
  policies: { about: 'what 5 to 200 policies and patterns cost', options: { ...SPEED, seconds: 4 } },
  query: {
    about: 'lists, traces, searches and the audit log, also at depth',
    options: { events: 10_000_000, data: 'a folder that is removed', keep: 'no' },
  },
  scale: {
    about: 'what grows with fronts, partitions, accounts and agents',
    options: { ...SPEED, seconds: 3, agents: 100_000 },
  },
  fsync: { about: 'what it costs to sync each write to the disk', options: { ...SPEED, seconds: 5 } },
  memory: { about: 'memory under load', options: { seconds: 600, keep: 'no' } },
  overload: { about: 'twice the maximum: goodput, refusals, memory', options: { seconds: 60, keep: 'no' } },
  durability: { about: 'kills every part under load; counts what is missing or there twice', options: { kills: 20 } },
  'fresh-reads': { about: 'lists right after a write', options: { tries: 10_000 } },
  'in-force': { about: 'policy changes over two fronts', options: { tries: 100 } },
  'rate-limit': { about: '500 a second, hammered by four processes', options: { seconds: 5 } },
  anomalies: { about: 'steady traffic, and spikes in it', options: { hours: 10_000, agents: 4 } },
  alerts: {
    about: 'from a blocked event to the message; kills; bad targets',
    options: { tries: 300, kills: 20 },
    operands: 'a part of it',
  },
  audit: { about: 'tamperings, and ten times as many honest operations', options: { tries: 1_000 } },
  watch: { about: 'what watched agents cost', options: { agents: 100_000 } },
} as const satisfies Record<string, LineSpec>;
export type LineName = keyof typeof LINES;

export type Call = {
  lines: LineName[];
  operands: string[];
  number: (name: OptionName) => number | undefined;
  text: (name: OptionName) => string | undefined;
};

/** undefined: `help` was printed instead. Throws CallError. */
export function readCall(args: readonly string[], print: (text: string) => void): Call | undefined {
  const { values, positionals } = parse(args);
  const [name, ...operands] = positionals;
  if (name === undefined && values['help'] !== true) throw new CallError(`which line? One of ${lineNames()}, or all`);
  if (name !== undefined && name !== 'all' && !Object.hasOwn(LINES, name))
    throw new CallError(`there is no line "${name}"; there are ${lineNames()}, and all`);
  if (values['help'] === true) {
    print(name === undefined || name === 'all' ? helpOfAll() : helpOf(name as LineName));
    return undefined;
  }
  const lines = name === 'all' ? (Object.keys(LINES) as LineName[]) : [name as LineName];
  const { help: _help, ...given } = values;
  checkOptions(lines, given);
  checkOperands(name!, operands);
  return {
    lines,
    operands,
    number: (option) => (values[option] === undefined ? undefined : Number(values[option])),
    text: (option) => values[option] as string | undefined,
  };
}

function parse(args: readonly string[]): { values: Record<string, unknown>; positionals: string[] } {
  const options = Object.fromEntries(
    Object.entries<Option>(OPTIONS).map(([name, { kind }]) => [
      name,
      { type: kind === 'flag' ? 'boolean' : 'string' } as const,
    ]),
  );
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { ...options, help: { type: 'boolean', short: 'h' } },
    });
  } catch (error) {
    const [first] = (error as Error).message.split('. To specify');
    throw new CallError(`${first}; npm run bench -- --help shows what there is`);
  }
}

function checkOptions(lines: readonly LineName[], values: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(values)) {
    if (!lines.some((line) => Object.hasOwn(LINES[line].options, name)))
      throw new CallError(`${lines[0]} takes no --${name}; it takes ${optionNames(lines[0]!)}`);
    const { kind } = OPTIONS[name as OptionName] as Option;
    if (kind === 'number' && !(/^[0-9]{1,9}$/.test(String(value)) && Number(value) > 0))
      throw new CallError(`--${name} takes a whole number above 0`);
  }
}

function checkOperands(name: string, operands: readonly string[]): void {
  const { operands: takes } = (name === 'all' ? {} : LINES[name as LineName]) as { operands?: string };
  if (operands.length > 0 && takes === undefined) throw new CallError(`what is "${operands[0]}" meant to be?`);
}

function helpOfAll(): string {
  const lines = Object.entries<LineSpec>(LINES).map(([name, { about }]) => `  ${name.padEnd(14)}${about}`);
  return [
    'npm run bench -- LINE [--option value …], or: npm run bench -- LINE --help',
    'Each line starts a service of its own on loopback, and removes it. bench/README.md says what was measured.',
    '',
    ...lines,
    `  ${'all'.padEnd(14)}every line, nearly two hours`,
  ].join('\n');
}

function helpOf(name: LineName): string {
  const { about, options, operands } = LINES[name] as LineSpec;
  const rows = (Object.entries(options) as [OptionName, number | string][]).map(([option, byDefault]) => {
    const { about: what, unit } = OPTIONS[option] as Option;
    return `  ${`--${option}`.padEnd(12)}${what}${unit === undefined ? '' : `, in ${unit}`} (left out: ${byDefault})`;
  });
  return [`npm run bench -- ${name}${operands === undefined ? '' : ` [${operands}]`}: ${about}`, ...rows].join('\n');
}

function lineNames(): string {
  return Object.keys(LINES).join(', ');
}

function optionNames(name: LineName): string {
  return Object.keys(LINES[name].options)
    .map((option) => `--${option}`)
    .join(', ');
}
