// `gatehouse mcp`: stands between an agent and an MCP server, so that each call of a tool is judged before the server
// gets it (src/mcp/governor.ts). The server is a command, whose standard input and output it takes, or an address. The
// agent starts this command in place of the server's, or with --listen speaks HTTP to it.
// Invariant: standard output carries messages of MCP and nothing else; the key of Gatehouse is not handed to the
// server.
// Failure: a setting that is wrong is said before anything is started. When the server ends the command ends, with 1.
import path from 'node:path';
import type { Transport } from '@modelcontextprotocol/client';
import { Gatehouse } from '../../clients/typescript/src/index.ts';
import { Governor } from '../mcp/governor.ts';
import { ToolPins } from '../mcp/pins.ts';
import { environmentOfOthers, stateFolder } from '../process/config.ts';
import { serviceToAsk, UsageError } from './context.ts';

export type McpOptions = {
  agent?: string;
  name?: string;
  upstream?: string;
  header?: string[];
  listen?: string;
  url?: string;
  timeout?: string;
  wait?: string;
  'on-unavailable'?: string;
  pins?: string;
};

/** A client of MCP gives a request a minute. */
const TIMEOUT_SECONDS = 5;
const WAIT_SECONDS = 40;
const SECONDS_MAX = 3_600;
/** What runs a server is not its name. */
const LAUNCHERS = new Set([
  'npx',
  'bunx',
  'uvx',
  'uv',
  'node',
  'bun',
  'deno',
  'python',
  'python3',
  'docker',
  'run',
  'sh',
]);

export async function mcp(options: McpOptions, command: readonly string[]): Promise<number> {
  const upstream = upstreamOf(options, command);
  const server = options.name ?? (upstream === undefined ? nameOf(command) : upstream.hostname);
  const report = (text: string) => void process.stderr.write(`gatehouse mcp: ${text}\n`);
  const gatehouse = gatehouseOf(options);
  const pins = new ToolPins(
    options.pins ?? path.join(stateFolder(), 'mcp', `${server.replace(/[^\w.-]+/g, '_')}.json`),
  );
  const governor = new Governor({ gatehouse, server, pins, report });
  report(`policies see the tools of this server as "${server}/…"`);
  try {
    if (upstream !== undefined && options.listen !== undefined) return await listening(governor, upstream, options);
    return await piped(governor, upstream === undefined ? await child(command) : await remote(upstream, options));
  } finally {
    await gatehouse.close({ timeoutMs: 5_000 });
  }
}

function gatehouseOf(options: McpOptions): Gatehouse {
  const { url, key } = serviceToAsk(options.url);
  if (options.agent === undefined) throw new UsageError('--agent must say which agent uses the tools');
  const onUnavailable = options['on-unavailable'] ?? 'block';
  if (onUnavailable !== 'block' && onUnavailable !== 'allow')
    throw new UsageError('--on-unavailable must be block or allow');
  return new Gatehouse({
    ...{ url, key, agent: options.agent, onUnavailable },
    timeoutMs: seconds('timeout', options.timeout, TIMEOUT_SECONDS) * 1000,
    approvals: { waitMs: seconds('wait', options.wait, WAIT_SECONDS) * 1000 },
  });
}

function seconds(name: string, text: string | undefined, otherwise: number): number {
  const value = text === undefined ? otherwise : Number(text);
  if (!(value >= 0 && value <= SECONDS_MAX))
    throw new UsageError(`--${name} must be a number of seconds, at most ${SECONDS_MAX}`);
  return value;
}

function upstreamOf({ upstream, listen, header }: McpOptions, command: readonly string[]): URL | undefined {
  if ((upstream === undefined) === (command.length === 0))
    throw new UsageError('it must be said which server: --upstream URL, or -- and its command');
  if (upstream === undefined) {
    if (listen !== undefined || header !== undefined)
      throw new UsageError('--listen and --header are for a server with an --upstream address');
    return undefined;
  }
  if (!URL.canParse(upstream) || !/^https?:$/.test(new URL(upstream).protocol))
    throw new UsageError(`--upstream must be an address that begins with http:// or https://, not "${upstream}"`);
  return new URL(upstream);
}

/** The first word that is no launcher and no option, without its folder, scope, version and ending. */
export function nameOf(command: readonly string[]): string {
  const isName = (word: string) => !word.startsWith('-') && !LAUNCHERS.has(path.basename(word));
  const word = command.find(isName) ?? command[0]!;
  return path.basename(word.replace(/(?<=.)@[^/@]*$/, '')).replace(/\.(?:[cm]?[jt]s|py|sh)$/, '');
}

function headersOf({ header = [] }: McpOptions): Record<string, string> {
  return Object.fromEntries(
    header.map((line) => {
      const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):\s*(.*)$/.exec(line) ?? [];
      if (name === undefined) throw new UsageError('--header must be a name, a colon and a value');
      return [name, value!];
    }),
  );
}

async function child([command, ...args]: readonly string[]): Promise<Transport> {
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  return new StdioClientTransport({ command: command!, args, env: environmentOfOthers() });
}

async function remote(upstream: URL, options: McpOptions): Promise<Transport> {
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  return new StreamableHTTPClientTransport(upstream, { requestInit: { headers: headersOf(options) } });
}

async function piped(governor: Governor, server: Transport): Promise<number> {
  const [{ StdioServerTransport }, { pipe }] = await Promise.all([
    import('@modelcontextprotocol/server/stdio'),
    import('../mcp/pipe.ts'),
  ]);
  const client = new StdioServerTransport();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void client.close());
  const closed = await pipe(client, server, governor);
  if (closed === 'client') return 0;
  governor.options.report('the server has ended');
  return 1;
}

async function listening(governor: Governor, upstream: URL, options: McpOptions): Promise<number> {
  const [, host = '127.0.0.1', port] = /^(?:(.+):)?(\d{1,5})$/.exec(options.listen!) ?? [];
  if (port === undefined || Number(port) > 65_535)
    throw new UsageError('--listen must be a port, or a host, a colon and a port');
  const { listen } = await import('../mcp/http-proxy.ts');
  const at = { upstream, headers: headersOf(options), host: host.replace(/^\[|\]$/g, ''), port: Number(port) };
  const proxy = await listen(governor, at);
  governor.options.report(`listening at ${proxy.url}`);
  await new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve());
  });
  await proxy.close();
  return 0;
}
