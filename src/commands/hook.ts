// `gatehouse hook`: for tools that run a command before they do something, and go by its exit status. Reads the hook
// from standard input, asks the service at the path of the tool that it is from (src/hooks), prints what that tool
// reads, and says no by status 2 with the reason on standard error.
// Invariants: a yes must be said: by an answer of the service about this hook, recorded and allowed, or known to ask
// about nothing. Whatever else happens is a no: a tool takes any other status for a hook that is broken, and goes on.
// All of it, from the start of the program on, ends within `--timeout`: a tool that has waited for long enough goes on,
// too.
import { once } from 'node:events';
import { ApiError } from '../../clients/typescript/src/errors.ts';
import { GatehouseError } from '../../clients/typescript/src/index.ts';
import { Transport } from '../../clients/typescript/src/transport.ts';
import { withoutRepeatedKeys } from '../common/json-text.ts';
import { APPROVAL_ANSWERED_SECONDS, HOOK_BYTES_MAX } from '../common/limits.ts';
import { ObjectText } from '../common/object-text.ts';
import type { HookTool } from '../hooks/hook-form.ts';
import { HOOK_TOOLS, toolOf } from '../hooks/hook-tools.ts';
import { withoutLargeMembers } from '../hooks/large-members.ts';
import { denied } from '../hooks/read-hook.ts';
import { serviceToAsk, UsageError } from './context.ts';

type Options = Record<string, string | boolean | undefined>;
/** The exit status and the output that the service sets for a command. */
type Ending = { status: number; stdout: string; stderr: string };

const DENIED = 2;
/** Below what any of the tools gives a hook by itself; a person needs longer, and then it must be set in both. */
const TIMEOUT_SECONDS = 10;
/** The seconds of `--timeout` that are left for all but the wait for a person. */
const MARGIN_SECONDS = 1;
const SECONDS_MAX = 3_600;
/** Where nothing listens: as long as a service takes that is started again. */
const AWAY_MS = 5_000;
/** A hook is sent up to this size; what a tool has done is sent without what makes it larger. */
const SENT_BYTES_MAX = 8 * 1024 * 1024;

export async function hook(options: Options): Promise<number> {
  process.once('uncaughtException', (error) => {
    process.stderr.write(`${sentence(error)}\n`);
    process.exit(DENIED);
  });
  const { status, stdout, stderr } = await asked(options).catch(
    (error: Error): Ending => ({
      status: DENIED,
      stdout: '',
      stderr: sentence(error),
    }),
  );
  await printed(process.stdout, stdout);
  await printed(process.stderr, stderr === '' ? '' : `${stderr}\n`);
  // A tool that leaves it open would keep this program.
  process.stdin.destroy();
  return status;
}

function sentence(error: Error): string {
  const status = error instanceof ApiError && error.status > 0 ? `${error.status} ` : '';
  return `Gatehouse could not be asked, so this is denied: ${status}${error.message}`;
}

async function printed(stream: NodeJS.WriteStream, text: string): Promise<void> {
  if (text !== '' && !stream.write(text)) await once(stream, 'drain');
}

async function asked(options: Options): Promise<Ending> {
  const { deadline, waitSeconds } = timesOf(options);
  const { url, key } = serviceToAsk(options['url']);
  const transport = new Transport(url, key, askingFetch(deadline, waitSeconds));
  const text = await inputBy(deadline);
  const read = objectOf(text);
  const tool = named(options['tool']) ?? toolOf(read);
  const query = new URLSearchParams({ form: 'command', wait: String(waitSeconds) });
  if (typeof options['agent'] === 'string') query.set('agent', options['agent']);
  try {
    const answer = await transport.call({
      method: 'POST',
      path: `/v1/hooks/${tool.name}?${query}`,
      body: sendable(text, read, tool),
      timeoutMs: deadline - performance.now(),
    });
    return endingOf(answer);
  } catch (error) {
    // In the tool's own words: some read standard output alone, or know no status.
    return denied(tool, read && tool.formOf(read).form, sentence(error as Error));
  }
}

function timesOf({ timeout, wait }: Options): { deadline: number; waitSeconds: number } {
  const asked = wait === undefined ? undefined : seconds('wait', wait, 0);
  const otherwise = asked === undefined ? TIMEOUT_SECONDS : asked + AWAY_MS / 1000;
  const timeoutSeconds = timeout === undefined ? otherwise : seconds('timeout', timeout, 0.1);
  const waitSeconds = Math.min(asked ?? timeoutSeconds, timeoutSeconds, APPROVAL_ANSWERED_SECONDS);
  // From the start of the program on, which is when the tool began to wait.
  return { deadline: timeoutSeconds * 1000, waitSeconds: Math.floor(waitSeconds) };
}

function seconds(name: string, text: string | boolean, min: number): number {
  const value = typeof text === 'string' && /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= SECONDS_MAX) return value;
  throw new UsageError(`--${name} must be a number of seconds, from ${min} to ${SECONDS_MAX}`);
}

function named(name: string | boolean | undefined): HookTool | undefined {
  if (name === undefined) return undefined;
  const tool = HOOK_TOOLS.find((one) => one.name === name);
  if (tool === undefined) throw new UsageError(`--tool must be one of ${HOOK_TOOLS.map((one) => one.name).join(', ')}`);
  return tool;
}

/** A `fetch` that waits for a person no longer than there is time, and does not try what cannot succeed. */
function askingFetch(deadline: number, waitSeconds: number): typeof fetch {
  /** Since when nothing listens. */
  let awayMs: number | undefined;
  return async (to, init) => {
    const url = new URL(String(to));
    const leftSeconds = Math.floor((deadline - performance.now()) / 1000) - MARGIN_SECONDS;
    url.searchParams.set('wait', String(Math.max(0, Math.min(waitSeconds, leftSeconds))));
    try {
      const response = await fetch(url, init);
      awayMs = undefined;
      return response;
    } catch (error) {
      const { message } = ((error as Error).cause ?? error) as Error;
      awayMs ??= performance.now();
      // Ports that no program may ask by fetch.
      const isHopeless = message === 'bad port' || performance.now() - awayMs > AWAY_MS;
      throw isHopeless ? new ApiError(0, 'unreachable', `${url.host} cannot be reached: ${message}`) : error;
    }
  };
}

async function inputBy(deadline: number): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  const late = setTimeout(() => {
    process.stdin.destroy(new GatehouseError('standard input was not at its end in time'));
  }, deadline - performance.now());
  try {
    for await (const part of process.stdin as AsyncIterable<Buffer>) {
      parts.push(part);
      bytes += part.length;
      if (bytes > HOOK_BYTES_MAX) throw new GatehouseError(`the hook is larger than ${HOOK_BYTES_MAX} bytes`);
    }
  } finally {
    clearTimeout(late);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(parts));
  } catch {
    throw new GatehouseError('the hook is not UTF-8');
  }
}

/** undefined: it is none, or has a key twice; the service says what is wrong with it. */
function objectOf(text: string): ObjectText | undefined {
  try {
    return withoutRepeatedKeys(text) === text ? ObjectText.of(text.trim()) : undefined;
  } catch {
    return undefined;
  }
}

function sendable(text: string, hook: ObjectText | undefined, tool: HookTool): string {
  if (Buffer.byteLength(text) <= SENT_BYTES_MAX) return text;
  const isAfter = hook !== undefined && tool.formOf(hook).form?.isAfter === true;
  const sent = isAfter ? withoutLargeMembers(Buffer.from(text), tool) : undefined;
  if (sent === undefined || sent.length > SENT_BYTES_MAX)
    throw new GatehouseError(`the hook is larger than ${SENT_BYTES_MAX} bytes`);
  return sent.toString();
}

/** Throws where it is no answer of the service: something else may listen there. */
function endingOf(answer: unknown): Ending {
  const { command } = (answer ?? {}) as { command?: Partial<Ending> & { event_id?: unknown } };
  const { status, stdout, stderr, event_id: event } = command ?? {};
  const isSaid = (status === 0 || status === 2) && (event === null || /^evt_/.test(String(event)));
  if (!isSaid || typeof stdout !== 'string' || typeof stderr !== 'string')
    throw new GatehouseError('what answers at this address is not Gatehouse');
  return { status, stdout, stderr };
}
