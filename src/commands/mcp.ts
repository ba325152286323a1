// `gatehouse mcp`: stands between an agent and an MCP server, so that each call of a tool is judged before the server
// gets it (src/mcp/governor.ts). The server is a command, whose standard input and output it takes, or an address. The
// agent starts this command in place of the server's, or with --listen speaks HTTP to it.
// Invariant: standard output carries messages of MCP and nothing else; the key of Gatehouse is not handed to the
// server.
// Failure: a setting that is wrong is said before anything is started. When the server ends the command ends, with 1.
import { createHash } from 'node:crypto';
import path from 'node:path';
import { Gatehouse } from '../../clients/typescript/src/index.ts';
import { exactFetch } from '../mcp/exact-fetch.ts';
import { Governor } from '../mcp/governor.ts';
import { ToolPins } from '../mcp/pins.ts';
import type { ServerLink } from '../mcp/pipe.ts';
import { nameOf, startedAs } from '../mcp/server-name.ts';
import { environmentOfOthers, stateFolder } from '../process/config.ts';
import { serviceToAsk, UsageError } from './context.ts';

export type McpOptions = {
  agent?: string;
  name?: string;
  upstream?: string;
  header?: string[];
  listen?: string;
  'host-name'?: string[];
  url?: string;
  timeout?: string;
  wait?: string;
  drain?: string;
  'on-unavailable'?: string;
  pins?: string;
};

/** A client of MCP gives a request a minute. */
const TIMEOUT_SECONDS = 5;
const WAIT_SECONDS = 40;
const DRAIN_SECONDS = 60;
const SECONDS_MAX = 3_600;
const REPORT_MAX = 2_000;

export async function mcp(options: McpOptions, command: readonly string[]): Promise<number> {
  const upstream = upstreamOf(options, command);
  const server = options.name ?? (upstream === undefined ? nameOf(command) : upstream.hostname);
  // A server's words may be in it: they make no lines and no colours.
  const said = (text: string) => text.slice(0, REPORT_MAX).replace(/\p{Cc}+/gu, ' ');
  const report = (text: string) => void process.stderr.write(`gatehouse mcp: ${said(text)}\n`);
  const gatehouse = gatehouseOf(options);
  const drainMs = seconds('drain', options.drain, DRAIN_SECONDS) * 1000;
  const pins = pinsOf(options, server, upstream?.href ?? startedAs(command));
  const governor = new Governor({ gatehouse, server, pins, report });
  report(`policies see the tools of this server as "${server}/…"`);
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stop.abort());
  try {
    if (upstream === undefined) {
      const { ChildLink } = await import('../mcp/child-link.ts');
      return await piped(governor, new ChildLink(command, environmentOfOthers()), drainMs, stop.signal);
    }
    if (options.listen !== undefined) return await listening(governor, upstream, options, stop.signal);
    const { HttpLink } = await import('../mcp/http-link.ts');
    const link = new HttpLink({ url: upstream, headers: headersOf(options) }, report);
    return await piped(governor, link, drainMs, stop.signal);
  } finally {
    await gatehouse.close({ timeoutMs: 5_000 });
  }
}

/** `started`: what distinguishes servers of one name. */
function pinsOf({ pins }: McpOptions, server: string, started: string): ToolPins {
  const file = pins ?? path.join(stateFolder(), 'mcp', `${server.replace(/[^\w.-]+/g, '_')}.json`);
  return new ToolPins(file, `${server} ${createHash('sha256').update(started).digest('hex').slice(0, 16)}`);
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
    fetch: exactFetch,
  });
}

function seconds(name: string, text: string | undefined, otherwise: number): number {
  const value = text === undefined ? otherwise : Number(text);
  if (!(value >= 0 && value <= SECONDS_MAX))
    throw new UsageError(`--${name} must be a number of seconds, at most ${SECONDS_MAX}`);
  return value;
}

function upstreamOf(options: McpOptions, command: readonly string[]): URL | undefined {
  const { upstream, listen, header } = options;
  if ((upstream === undefined) === (command.length === 0))
    throw new UsageError('it must be said which server: --upstream URL, or -- and its command');
  if (upstream === undefined) {
    if (listen !== undefined || header !== undefined)
      throw new UsageError('--listen and --header are for a server with an --upstream address');
    return undefined;
  }
  if (listen === undefined && options['host-name'] !== undefined)
    throw new UsageError('--host-name says by which names --listen may be asked');
  if (!URL.canParse(upstream) || !/^https?:$/.test(new URL(upstream).protocol))
    throw new UsageError(`--upstream must be an address that begins with http:// or https://, not "${upstream}"`);
  return new URL(upstream);
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

async function piped(governor: Governor, server: ServerLink, drainMs: number, signal: AbortSignal): Promise<number> {
  const { pipe } = await import('../mcp/pipe.ts');
  const { stdin: input, stdout: output } = process;
  if ((await pipe(server, governor, { input, output, drainMs, signal })) === 'client') return 0;
  governor.options.report('the server has ended');
  return 1;
}

async function listening(governor: Governor, url: URL, options: McpOptions, signal: AbortSignal): Promise<number> {
  const [, host = '127.0.0.1', port] = /^(?:(.+):)?(\d{1,5})$/.exec(options.listen!) ?? [];
  if (port === undefined || Number(port) > 65_535)
    throw new UsageError('--listen must be a port, or a host, a colon and a port');
  const { listen } = await import('../mcp/http-proxy.ts');
  const proxy = await listen(governor, {
    ...{ url, headers: headersOf(options), host: host.replace(/^\[|\]$/g, ''), port: Number(port) },
    hostNames: options['host-name'] ?? [],
  });
  governor.options.report(`listening at ${proxy.url}`);
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  await proxy.close();
  return 0;
}
