#!/usr/bin/env node
// The command line: finds the command, reads its options and the settings, runs it (`gatehouse help` lists them).
// Used everywhere; nothing but this file writes to standard output or chooses an exit status.
// A command's modules are loaded when it is called: a front's alone take longer to load than the supervisor to start.
// Exit status: 0 done, 1 failed, 2 called wrongly or a bad setting; `policies` and `hook` have more. Failures are one
// sentence on standard error; only a bug shows where it is.
import { parseArgs } from 'node:util';
import { type Command, UsageError, withAddresses } from '../commands/context.ts';
import type { McpOptions } from '../commands/mcp.ts';
import { entryOf } from '../common/entry.ts';
import { readAsset } from '../process/assets.ts';
import type { Config } from '../process/config.ts';
import { userFacingMessage } from '../process/report-failure.ts';

type Options = NonNullable<Parameters<typeof parseArgs>[0]>['options'];
/** The values of a command's options, as they are declared. */
type Values = Record<string, string | boolean | undefined>;
type Entry = {
  usage: string;
  help: string;
  options?: Options;
  /** The words that may follow beside options: names, in order, or any number of words. By itself none. */
  words?: readonly string[] | 'any';
} & (
  | { run: Command; say?: undefined; act?: undefined }
  /** Needs no settings: it works with wrong settings, too. */
  | { say: () => string; act?: undefined }
  /** The same, of a program that asks a service; resolves with the exit status. */
  | { act: (options: Values, args: readonly string[]) => Promise<number>; say?: undefined }
);

const USAGE_STATUS = 2;
/** The option that `gatehouse start` gives its workers: they leave when it is gone. Not for people, and in no help. */
const SUPERVISED: Options = { supervised: { type: 'boolean' } };

const OF_POLICIES: Options = { owner: { type: 'string' }, url: { type: 'string' } };

const COMMANDS: Record<string, Entry> = {
  start: {
    usage: 'start',
    help: 'run everything on this machine; engines that have no address are started in GATEHOUSE_DATA_DIR',
    run: async ({ config }) => (await import('./start.ts')).runStart(config),
  },
  front: {
    usage: 'front',
    help: 'run one front: the HTTP API; several share one port',
    options: SUPERVISED,
    run: ({ config, options }) => runFront(withAddresses(config), options),
  },
  pipelines: {
    usage: 'pipelines',
    help: 'run one pipelines process; several share the work',
    options: SUPERVISED,
    run: ({ config, options }) => runPipelines(withAddresses(config), options),
  },
  backtests: {
    usage: 'backtests',
    help: 'run one backtests process, at low priority: it replays policies over stored events; several share the work',
    options: SUPERVISED,
    run: ({ config, options }) => runBacktests(withAddresses(config), options),
  },
  migrate: {
    usage: 'migrate',
    help: 'make the tables in ClickHouse as they must be',
    run: async (context) => (await import('../commands/store-commands.ts')).migrateCommand(context),
  },
  'account create': {
    usage: 'account create NAME',
    words: ['NAME'],
    help: 'make an account and print its first admin key',
    run: async (context) => (await import('../commands/account-commands.ts')).accountCreate(context),
  },
  'account limit': {
    usage: 'account limit NAME [--per-second N --burst N] [--quota NAME=N[/BURST]|none]… | --default',
    words: ['NAME'],
    help: 'set the request limit of each key of an account, and quotas over all its keys (requests, events, bytes a second, stored_rows, keys, agents), or go by the settings again',
    options: {
      'per-second': { type: 'string' },
      burst: { type: 'string' },
      quota: { type: 'string', multiple: true },
      default: { type: 'boolean' },
    },
    run: async (context) => (await import('../commands/account-commands.ts')).accountLimit(context),
  },
  'account retention': {
    usage: 'account retention NAME --days N [--type TYPE=N]… | --default',
    words: ['NAME'],
    help: 'set for how many days events of an account are kept, all or by type, or go by the settings again',
    options: { days: { type: 'string' }, type: { type: 'string', multiple: true }, default: { type: 'boolean' } },
    run: async (context) => (await import('../commands/account-commands.ts')).accountRetention(context),
  },
  'account list': {
    usage: 'account list',
    help: 'show the accounts, a JSON line each',
    run: async (context) => (await import('../commands/account-commands.ts')).accountList(context),
  },
  'account delete': {
    usage: 'account delete NAME|ID --yes',
    words: ['NAME or id'],
    help: 'delete an account with its keys, agents, policies and alerts, and all that is kept of its agents',
    options: { yes: { type: 'boolean' } },
    run: async (context) => (await import('../commands/account-commands.ts')).accountDelete(context),
  },
  'hold create': {
    usage: 'hold create [--account NAME] [--agent ID | --trace ID] --reason TEXT',
    help: 'keep an account (default), one of its agents or a trace whatever its age: a legal hold',
    options: {
      account: { type: 'string' },
      agent: { type: 'string' },
      trace: { type: 'string' },
      reason: { type: 'string' },
    },
    run: async (context) => (await import('../commands/hold-commands.ts')).holdCreate(context),
  },
  'hold list': {
    usage: 'hold list [--account NAME]',
    help: 'show the holds of an account (default), a JSON line each',
    options: { account: { type: 'string' } },
    run: async (context) => (await import('../commands/hold-commands.ts')).holdList(context),
  },
  'hold release': {
    usage: 'hold release HOLD_ID [--account NAME]',
    words: ['the id of a hold'],
    help: 'let what was held go by its age again',
    options: { account: { type: 'string' } },
    run: async (context) => (await import('../commands/hold-commands.ts')).holdRelease(context),
  },
  'key list': {
    usage: 'key list [--account NAME]',
    help: 'show the API keys of an account (default), without the keys themselves, a JSON line each',
    options: { account: { type: 'string' } },
    run: async (context) => (await import('../commands/account-commands.ts')).keyList(context),
  },
  'key revoke': {
    usage: 'key revoke KEY_ID [--account NAME]',
    words: ['the id of a key'],
    help: 'end an API key; all fronts know within a second',
    options: { account: { type: 'string' } },
    run: async (context) => (await import('../commands/account-commands.ts')).keyRevoke(context),
  },
  'key create': {
    usage: 'key create [--account NAME] [--scope read|write|admin] [--agent ID] [--permissions LIST] [--label TEXT]',
    help: 'make an API key (of the account default, admin) and print it',
    options: {
      account: { type: 'string' },
      scope: { type: 'string' },
      agent: { type: 'string' },
      permissions: { type: 'string' },
      label: { type: 'string' },
    },
    run: async (context) => (await import('../commands/account-commands.ts')).keyCreate(context),
  },
  doctor: {
    usage: 'doctor [--json] [--repair]',
    help: 'look at settings, versions, data folder, disk, stores and clocks: a yes each, or what to do. --repair: go on with what is whole of damaged data',
    options: { json: { type: 'boolean' }, repair: { type: 'boolean' } },
    run: async (context) => (await import('../commands/doctor.ts')).doctor(context),
  },
  backup: {
    usage: 'backup DIR [--keep N] | s3://BUCKET/PREFIX [--full]',
    words: ['DIR'],
    help: 'back up the data folder of the service that runs, as it is at one moment; DIR keeps the newest N, or all. To s3://: stores of your own, by ClickHouse; only what is new, or all of it (--full)',
    options: { keep: { type: 'string' }, full: { type: 'boolean' } },
    run: async (context) => (await import('../commands/backup-commands.ts')).backup(context),
  },
  restore: {
    usage: 'restore DIR|s3://BUCKET/PREFIX [--check]',
    words: ['DIR'],
    help: 'make an empty data folder of a backup, of the newest one where DIR holds several; from s3:// into empty stores of your own. --check: only compare it with its sums',
    options: { check: { type: 'boolean' } },
    run: async (context) => (await import('../commands/backup-commands.ts')).restore(context),
  },
  'dead list': {
    usage: 'dead list [--limit N]',
    help: 'show what the pipelines could not process, a JSON line each (the oldest 100 of each stream)',
    options: { limit: { type: 'string' } },
    run: async (context) => (await import('../commands/dead-letter-commands.ts')).deadList(context),
  },
  'dead retry': {
    usage: 'dead retry ENTRY… | --all',
    words: 'any',
    help: 'put it back into its stream',
    options: { all: { type: 'boolean' } },
    run: async (context) => (await import('../commands/dead-letter-commands.ts')).deadRetry(context),
  },
  'cluster status': {
    usage: 'cluster status',
    help: 'show who shares the work, who owns which stream, how far behind it is and where it lies, a JSON line each',
    run: async (context) => (await import('../commands/cluster-commands.ts')).clusterStatus(context),
  },
  'registry restore': {
    usage: 'registry restore',
    help: 'make the registry of an empty Redis again from ClickHouse',
    run: async (context) => (await import('../commands/store-commands.ts')).registryRestore(context),
  },
  'audit verify': {
    usage: 'audit verify [--account NAME] [--checkpoint FILE] [--public-key KEY|FILE] [--from TIME]',
    help: 'recompute the audit chain of an account (default), and compare it with a checkpoint kept elsewhere',
    options: {
      account: { type: 'string' },
      checkpoint: { type: 'string' },
      'public-key': { type: 'string' },
      from: { type: 'string' },
    },
    run: async (context) => (await import('../commands/audit-commands.ts')).auditVerify(context),
  },
  'audit checkpoint': {
    usage: 'audit checkpoint [--account NAME]',
    help: 'print where the audit chain stands, signed, to be kept elsewhere',
    options: { account: { type: 'string' } },
    run: async (context) => (await import('../commands/audit-commands.ts')).auditCheckpoint(context),
  },
  'audit rotate-key': {
    usage: 'audit rotate-key',
    help: 'sign checkpoints with a new key from now on; it and the old one vouch for each other, which is printed',
    run: async (context) => (await import('../commands/audit-commands.ts')).auditRotateKey(context),
  },
  'audit close-gap': {
    usage: 'audit close-gap --from TIME --to TIME --by NAME --reason TEXT [--account NAME] [--yes]',
    help: 'note in the audit log, signed, that rows of that time are missing, as after a restore: they are no fault then. Without --yes: say which',
    options: {
      ...{ account: { type: 'string' }, from: { type: 'string' }, to: { type: 'string' } },
      ...{ by: { type: 'string' }, reason: { type: 'string' }, yes: { type: 'boolean' } },
    },
    run: async (context) => (await import('../commands/close-gap.ts')).auditCloseGap(context),
  },
  hook: {
    usage: 'hook [--url URL] [--agent NAME] [--tool NAME] [--timeout SECONDS] [--wait SECONDS]',
    help: 'answer a hook of a tool from standard input (GATEHOUSE_URL, GATEHOUSE_API_KEY; docs/joining.md). Status 2 denies, also where no answer can be had',
    options: {
      ...{ url: { type: 'string' }, agent: { type: 'string' }, tool: { type: 'string' } },
      ...{ timeout: { type: 'string' }, wait: { type: 'string' } },
    },
    act: async (options) => (await import('../commands/hook.ts')).hook(options),
  },
  mcp: {
    usage:
      'mcp --agent NAME (-- COMMAND … | --upstream URL [--header "NAME: VALUE"] [--listen PORT [--host-name NAME]])',
    words: 'any',
    help: 'stand before an MCP server: tools are called when policies allow it (GATEHOUSE_URL, GATEHOUSE_API_KEY; docs/joining.md)',
    options: {
      ...{ agent: { type: 'string' }, name: { type: 'string' }, pins: { type: 'string' }, url: { type: 'string' } },
      ...{ upstream: { type: 'string' }, header: { type: 'string', multiple: true }, listen: { type: 'string' } },
      ...{ timeout: { type: 'string' }, wait: { type: 'string' }, drain: { type: 'string' } },
      ...{ 'on-unavailable': { type: 'string' }, 'host-name': { type: 'string', multiple: true } },
    },
    act: async (options, command) => (await import('../commands/mcp.ts')).mcp(options as McpOptions, command),
  },
  'policies pull': {
    usage: 'policies pull [--owner NAME] [--url URL]',
    help: 'print the policies of an owner, or all, as a file for the next two (GATEHOUSE_URL, GATEHOUSE_API_KEY)',
    options: OF_POLICIES,
    act: async (options) => (await import('../commands/policy-commands.ts')).policiesPull(options),
  },
  'policies plan': {
    usage: 'policies plan FILE… --owner NAME [--json] [--url URL]',
    words: 'any',
    help: 'show what the policies declared in YAML or JSON would change. Status 3: there is something to do',
    options: { ...OF_POLICIES, json: { type: 'boolean' } },
    act: async (options, args) => (await import('../commands/policy-commands.ts')).policiesPlan(options, args),
  },
  'policies apply': {
    usage: 'policies apply FILE… --owner NAME [--hash HASH] [--allow-empty] [--json] [--url URL]',
    words: 'any',
    help: 'change it, all or nothing; with the hash of a plan only that one. Status 4: the policies were changed since',
    options: {
      ...OF_POLICIES,
      ...{ json: { type: 'boolean' }, hash: { type: 'string' }, 'allow-empty': { type: 'boolean' } },
    },
    act: async (options, args) => (await import('../commands/policy-commands.ts')).policiesApply(options, args),
  },
  'budgets check': {
    usage: 'budgets check [--url URL]',
    help: 'compare what budgets have counted with what is stored (GATEHOUSE_URL, GATEHOUSE_API_KEY). Status 1: they differ',
    options: { url: { type: 'string' } },
    act: async (options) => (await import('../commands/budget-commands.ts')).budgetsCheck(options),
  },
  'prices pull': {
    usage: 'prices pull [--url URL]',
    help: 'print what tokens cost the account, as a file for the next two (GATEHOUSE_URL, GATEHOUSE_API_KEY)',
    options: { url: { type: 'string' } },
    act: async (options) => (await import('../commands/price-commands.ts')).pricesPull(options),
  },
  'prices plan': {
    usage: 'prices plan FILE… [--url URL]',
    words: 'any',
    help: 'show what the prices declared in YAML or JSON would change. Status 3: there is something to do',
    options: { url: { type: 'string' } },
    act: async (options, args) => (await import('../commands/price-commands.ts')).pricesPlan(options, args),
  },
  'prices apply': {
    usage: 'prices apply FILE… [--revision N] [--allow-empty] [--url URL]',
    words: 'any',
    help: 'make them the price table; with the revision of a plan only then. Status 4: the prices were changed since',
    options: { url: { type: 'string' }, revision: { type: 'string' }, 'allow-empty': { type: 'boolean' } },
    act: async (options, args) => (await import('../commands/price-commands.ts')).pricesApply(options, args),
  },
  feed: {
    usage: 'feed --cursor FILE [--topics TOPICS] [--once] [--url URL]',
    help: 'print what is committed, a line of JSON each, from now on or from where FILE says (GATEHOUSE_URL, GATEHOUSE_API_KEY; docs/feed.md)',
    options: {
      ...{ cursor: { type: 'string' }, topics: { type: 'string' } },
      ...{ once: { type: 'boolean' }, url: { type: 'string' } },
    },
    act: async (options) => (await import('../commands/print-feed.ts')).printFeed(options),
  },
  help: { usage: 'help', help: 'show this', say: helpText },
  version: { usage: 'version', help: 'show the version', say: version },
};

async function main(argv: readonly string[]): Promise<void> {
  const print = (line: string) => void process.stdout.write(`${line}\n`);
  const { entry, rest } = find(argv);
  if (rest.includes('--help') || rest.includes('-h')) return print(`usage: gatehouse ${entry.usage}\n  ${entry.help}`);
  const { positionals, values } = parseOptions(rest, entry);
  if (entry.say !== undefined) return print(entry.say());
  checkWords(entry, positionals);
  const options = values as Values;
  if (entry.act !== undefined) {
    process.exitCode = await entry.act(options, positionals);
    return;
  }
  const { readConfig } = await import('../process/config.ts');
  await entry.run({ config: readConfig(), args: positionals, options, print });
}

/** The command is the first word, or the first two. */
function find(argv: readonly string[]): { entry: Entry; rest: string[] } {
  const asked = argv[0] === undefined || argv[0] === '--help' || argv[0] === '-h' ? 'help' : argv[0];
  const words = asked === '--version' || asked === '-v' ? ['version'] : [asked, ...argv.slice(1)];
  for (const count of [2, 1]) {
    const name = words.slice(0, count).join(' ');
    const entry = entryOf(COMMANDS, name);
    if (entry !== undefined && words.length >= count) return { entry, rest: words.slice(count) };
  }
  const related = Object.values(COMMANDS).filter(({ usage }) => usage.startsWith(`${words[0]} `));
  const known =
    related.length > 0 ? `: ${related.map(({ usage }) => usage).join(', ')}` : '; "gatehouse help" lists them';
  throw new UsageError(`there is no command "${words.slice(0, 2).join(' ')}"${known}`);
}

function parseOptions(args: string[], entry: Entry) {
  try {
    const options = entry.options ?? {};
    return parseArgs({ args: joined(args, options), options, allowPositionals: true });
  } catch (error) {
    throw new UsageError(`${(error as Error).message.split('. To specify')[0]}; usage: gatehouse ${entry.usage}`);
  }
}

/** A value that begins with one dash, as one hash in 64 does, is taken for the value of the option before it. */
function joined(args: string[], options: NonNullable<Options>): string[] {
  const all: string[] = [];
  const end = args.includes('--') ? args.indexOf('--') : args.length;
  for (const arg of args.slice(0, end)) {
    const before = all.at(-1);
    const isValue = /^-[^-]/.test(arg) && before?.startsWith('--') && options[before.slice(2)]?.type === 'string';
    if (isValue) all[all.length - 1] = `${before}=${arg}`;
    else all.push(arg);
  }
  return [...all, ...args.slice(end)];
}

function checkWords({ words = [], usage, act }: Entry, given: readonly string[]): void {
  if (words === 'any') return;
  if (given.length < words.length) throw new UsageError(`${words[given.length]} is missing; usage: gatehouse ${usage}`);
  if (given.length === words.length) return;
  const settings = act === undefined ? ' Settings are environment variables (docs/settings.md).' : '';
  throw new UsageError(`what is "${given[words.length]}" meant to be? Usage: gatehouse ${usage}.${settings}`);
}

async function runFront(config: Config, { supervised }: { supervised?: unknown }): Promise<void> {
  (await import('../process/config.ts')).setHeadBytesMax(); // before uWebSockets.js is loaded, which reads it then
  const [{ runWorker }, { frontParts }] = await Promise.all([import('./worker-process.ts'), import('./front.ts')]);
  return runWorker(config, { kind: 'front', isSupervised: supervised === true }, frontParts);
}

async function runPipelines(config: Config, { supervised }: { supervised?: unknown }): Promise<void> {
  const [{ runWorker }, { pipelinesParts }] = await Promise.all([
    import('./worker-process.ts'),
    import('./pipelines-process.ts'),
  ]);
  return runWorker(config, { kind: 'pipelines', isSupervised: supervised === true }, pipelinesParts);
}

async function runBacktests(config: Config, { supervised }: { supervised?: unknown }): Promise<void> {
  const [{ runWorker }, { backtestsParts }] = await Promise.all([
    import('./worker-process.ts'),
    import('./backtests-process.ts'),
  ]);
  return runWorker(config, { kind: 'backtests', isSupervised: supervised === true }, backtestsParts);
}

function helpText(): string {
  const width = 34;
  const lines = Object.values(COMMANDS).map(({ usage, help }) =>
    usage.length < width ? `  ${usage.padEnd(width)}${help}` : `  ${usage}\n  ${''.padEnd(width)}${help}`,
  );
  return [
    `Gatehouse ${version()}`,
    'usage: gatehouse COMMAND',
    '',
    ...lines,
    '',
    'Settings: docs/settings.md lists them.',
  ].join('\n');
}

function version(): string {
  return (JSON.parse(readAsset('package.json')) as { version: string }).version;
}

function fail(error: unknown): void {
  const isUsage = error instanceof Error && ['ConfigError', 'UsageError'].includes(error.name);
  process.stderr.write(`gatehouse: ${userFacingMessage(error) ?? (error as Error).stack ?? error}\n`);
  // Whatever it has begun: connections, timers and the channel to a supervisor would keep it alive. A hook that fails
  // must be a no, which is status 2 to the tools that run it.
  process.exit(isUsage || process.argv[2] === 'hook' ? USAGE_STATUS : 1);
}

await main(process.argv.slice(2)).catch(fail);
