// The command line of the suite: which lines there are, what each answers, and which options it takes.
// It runs before bench/main.ts, which runs what is asked for. Invariant: an option that a line does not take, or a
// value that is none, is refused with a sentence before anything starts. Failure: CallError, which main.ts says with
// status 2.
import { parseArgs } from 'node:util';

export class CallError extends Error {
  override name = 'CallError';
}

type Option = { about: string; unit?: string; kind: 'number' | 'text' | 'flag' };

const OPTIONS = {
  turns: { kind: 'number', about: 'turns of each contender, of which medians are shown' },
  seconds: { kind: 'number', unit: 's', about: 'length of a turn, or of the line' },
  kills: { kind: 'number', about: 'processes to kill under load' },
  tries: { kind: 'number', about: 'repetitions' },
  hours: { kind: 'number', unit: 'h', about: 'agent-hours of traffic' },
  events: { kind: 'number', about: 'rows to make' },
  agents: { kind: 'number', about: 'agents' },
  rate: {
    kind: 'number',
    unit: 'events/s',
    about: 'the rate of a load; where to begin to hold, instead of searching for it',
  },
  data: { kind: 'text', about: 'folder in which the rows are kept, to take them up again' },
  keep: { kind: 'flag', about: 'write the result into bench/results, as JSON and as charts' },
  out: { kind: 'text', about: 'folder for the results; it is made' },
  url: { kind: 'text', about: 'a service of yours to measure, instead of one that is started' },
  key: { kind: 'text', about: 'its key; else GATEHOUSE_KEY' },
} as const satisfies Record<string, Option>;
type OptionName = keyof typeof OPTIONS;

/** Options of the call as a whole. */
const OF_ALL: readonly OptionName[] = ['out', 'url', 'key'];

type LineSpec = {
  about: string;
  /** Its options, each with what holds where it is left out. */
  options: Partial<Record<OptionName, number | string>>;
  /** The operands that may follow its name. */
  operands?: string;
  /** Its options with `--url`; left out: it looks inside, and measures only a service that it starts. */
  remote?: Partial<Record<OptionName, number | string>>;
};

const SPEED = { turns: 3, keep: 'no' };
export const LINES = {
  ingest: {
    about: 'events a second, single and in batches, against a bare echo and a Fastify server',
    options: { ...SPEED, seconds: 5 },
    remote: { turns: 3, seconds: 5 },
  },
  real: { about: 'the same with recorded agent runs', options: { ...SPEED, seconds: 5 }, operands: 'NDJSON files' },
  'end-to-end': {
    about: 'the rate at which the backlog stays flat; from the answer to findable',
    options: { seconds: 60, rate: 'searched for', keep: 'no' },
  },
  latency: {
    about: 'answers at 10, 50 and 80 % of the maximum, from when each was due',
    options: { ...SPEED, seconds: 10 },
    remote: { seconds: 10, rate: '10, 50 and 80 % of the maximum' },
  },
  policies: { about: 'what 5 to 1,000 policies and patterns cost', options: { ...SPEED, seconds: 4 } },
  bombs: { about: 'what the worst text of each kind of needle costs a byte', options: {} },
  shadows: { about: 'what 20 shadows beside 20 policies cost an event', options: { ...SPEED, seconds: 4 } },
  query: {
    about: 'lists, traces, searches and the audit log, also at depth',
    options: { events: 10_000_000, data: 'a folder that is removed', keep: 'no' },
    remote: { tries: 100 },
  },
  dashboard: {
    about: "from a click to the rows in a real browser, a large payload, what followers cost, an export's memory",
    options: { events: 10_000_000, data: 'a folder that is removed', keep: 'no' },
  },
  scale: {
    about: 'what grows with fronts, partitions, accounts and agents',
    options: { ...SPEED, seconds: 3, agents: 100_000 },
  },
  replicas: { about: 'what it costs to wait for a replica of Redis', options: { ...SPEED, seconds: 3 } },
  fsync: { about: 'what it costs to sync each write to the disk', options: { ...SPEED, seconds: 5 } },
  'counted-state': {
    about: 'what sequences and budgets keep in Redis, a mark, a scope and a reservation',
    options: { events: 100_000, keep: 'no' },
  },
  memory: { about: 'memory under load', options: { seconds: 600, keep: 'no' } },
  backup: {
    about: 'what callers notice of a backup',
    options: { ...SPEED, seconds: 20, rate: 5_000 },
  },
  followers: { about: 'what feeds and usage cost what comes in', options: { ...SPEED, seconds: 10 } },
  overload: { about: 'twice the maximum: goodput, refusals, memory', options: { seconds: 60, keep: 'no' } },
  neighbour: {
    about: 'what one account notices of the worst that another can do',
    options: { seconds: 8, turns: 1, keep: 'no' },
    operands: 'a part of what it does',
  },
  hooks: { about: 'how long an inference hook of 64 KB and of 10 MB waits', options: { tries: 200, keep: 'no' } },
  checks: { about: 'how long an event waits for a check that fails', options: { tries: 90, keep: 'no' } },
  spans: { about: 'spans by OTLP: how fast, and what others notice', options: { seconds: 8, keep: 'no' } },
  backtest: {
    about: 'how long a policy is replayed over 100,000 events, and what callers notice meanwhile',
    options: { events: 100_000, seconds: 10, turns: 3, keep: 'no' },
  },
  durability: { about: 'kills every part under load; counts what is missing or there twice', options: { kills: 20 } },
  'fresh-reads': { about: 'lists right after a write', options: { tries: 10_000 }, remote: { tries: 500 } },
  'in-force': { about: 'policy changes over two fronts', options: { tries: 100 } },
  'rate-limit': { about: '500 a second, hammered by four processes', options: { seconds: 5 } },
  anomalies: { about: 'steady traffic, and spikes in it', options: { hours: 10_000, agents: 4 } },
  alerts: {
    about: 'from a blocked event to the message; kills; bad targets',
    options: { tries: 300, kills: 20 },
    operands: 'a part of it',
  },
  audit: { about: 'tamperings, and ten times as many honest operations', options: { tries: 1_000 } },
  clients: { about: 'what a client costs the program that it is in', options: { seconds: 5, keep: 'no' } },
  watch: { about: 'what watched agents cost', options: { agents: 100_000 } },
} as const satisfies Record<string, LineSpec>;
export type LineName = keyof typeof LINES;
export type RemoteLine = 'ingest' | 'latency' | 'query' | 'fresh-reads';

const REMOTE_LINES = (Object.keys(LINES) as LineName[]).filter(
  (line): line is RemoteLine => (LINES[line] as LineSpec).remote !== undefined,
);

export type Call = {
  lines: LineName[];
  /** As it was typed, without the key. */
  typed: string;
  /** A service of the caller's: `lines` are then remote ones. */
  target: { url: string; key: string } | undefined;
  operands: string[];
  number: (name: OptionName) => number | undefined;
  text: (name: OptionName) => string | undefined;
};

/** undefined: `help` was printed instead. Throws CallError. */
export function readCall(
  args: readonly string[],
  print: (text: string) => void,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Call | undefined {
  const { values, positionals } = parse(args);
  const isRemote = values['url'] !== undefined;
  const [name = isRemote ? 'all' : undefined, ...operands] = positionals;
  if (name === undefined && values['help'] !== true) throw new CallError(`which line? One of ${lineNames()}, or all`);
  if (name !== undefined && name !== 'all' && !Object.hasOwn(LINES, name))
    throw new CallError(`there is no line "${name}"; there are ${lineNames()}, and all`);
  if (values['help'] === true) {
    print(name === undefined || name === 'all' ? helpOfAll() : helpOf(name as LineName));
    return undefined;
  }
  const all: readonly LineName[] = isRemote ? REMOTE_LINES : (Object.keys(LINES) as LineName[]);
  const lines = name === 'all' ? [...all] : [name as LineName];
  const { help: _help, ...given } = values;
  if (isRemote) checkRemote(lines);
  checkOptions(lines, given, isRemote);
  checkOperands(isRemote ? 'all' : name!, operands);
  const target = isRemote ? { url: String(values['url']), key: keyOf(values, env) } : undefined;
  return {
    lines,
    typed: [
      'npm run bench --',
      ...args.map((arg, i) => (args[i - 1] === '--key' ? '…' : arg.replace(/^--key=.*/, '--key=…'))),
    ].join(' '),
    target,
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

function checkRemote(lines: readonly LineName[]): void {
  const inside = lines.find((line) => !(REMOTE_LINES as LineName[]).includes(line));
  if (inside !== undefined)
    throw new CallError(
      `${inside} looks inside the service, so it takes no --url; these do without: ${REMOTE_LINES.join(', ')}`,
    );
}

function keyOf(values: Record<string, unknown>, env: Readonly<Record<string, string | undefined>>): string {
  const key = values['key'] ?? env['GATEHOUSE_KEY'];
  if (typeof key !== 'string' || key === '')
    throw new CallError('--url needs a key of that service: --key KEY, or GATEHOUSE_KEY');
  return key;
}

function checkOptions(lines: readonly LineName[], values: Record<string, unknown>, isRemote: boolean): void {
  if (values['keep'] === true && values['out'] !== undefined) throw new CallError('--keep and --out are two folders');
  if (values['key'] !== undefined && !isRemote) throw new CallError('--key belongs to a --url');
  for (const [name, value] of Object.entries(values)) {
    if (!OF_ALL.includes(name as OptionName) && !lines.some((line) => Object.hasOwn(optionsOf(line, isRemote), name)))
      throw new CallError(
        `${lines[0]}${isRemote ? ' of a --url' : ''} takes no --${name}; it takes ${optionNames(lines[0]!, isRemote)}`,
      );
    const { kind } = OPTIONS[name as OptionName] as Option;
    if (kind === 'number' && !(/^[0-9]{1,9}$/.test(String(value)) && Number(value) > 0))
      throw new CallError(`--${name} takes a whole number above 0`);
  }
}

function optionsOf(line: LineName, isRemote: boolean): Partial<Record<OptionName, number | string>> {
  const { options, remote = {} } = LINES[line] as LineSpec;
  return isRemote ? remote : options;
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
    `  ${'all'.padEnd(14)}every line, more than two hours`,
    '',
    'npm run bench -- --url URL --key KEY [LINE]',
    `A service of yours, from outside: ${REMOTE_LINES.join(', ')}; all of them where no line is named. It sends events to an`,
    'agent that it registers for that, and says at the end how to erase them.',
    '',
    'Results are a page (report.html), JSON, tables and charts in build/bench-results, or in the folder that --out names.',
  ].join('\n');
}

function helpOf(name: LineName): string {
  const { about, operands, remote } = LINES[name] as LineSpec;
  const rows = (isRemote: boolean) =>
    (Object.entries(optionsOf(name, isRemote)) as [OptionName, number | string][]).map(([option, byDefault]) => {
      const { about: what, unit } = OPTIONS[option] as Option;
      return `  ${`--${option}`.padEnd(12)}${what}${unit === undefined ? '' : `, in ${unit}`} (left out: ${byDefault})`;
    });
  return [
    `npm run bench -- ${name}${operands === undefined ? '' : ` [${operands}]`}: ${about}`,
    ...rows(false),
    `  ${'--out'.padEnd(12)}${OPTIONS.out.about} (left out: build/bench-results)`,
    ...(remote === undefined ? [] : [`With --url URL --key KEY, of a service of yours, it takes`, ...rows(true)]),
  ].join('\n');
}

function lineNames(): string {
  return Object.keys(LINES).join(', ');
}

function optionNames(name: LineName, isRemote: boolean): string {
  return [...Object.keys(optionsOf(name, isRemote)), 'out'].map((option) => `--${option}`).join(', ');
}
