// Both sides of `gatehouse mcp` for tests that look at the text itself: a client of raw lines or raw HTTP, the program
// between, and a server that answers as a file says (raw-server.ts). All are processes and sockets.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { Test } from 'tap';
import { assetPath } from '../../src/process/assets.ts';
import { pause } from '../support/raw-http.ts';
import type { RawAnswer } from './raw-server.ts';

const CLI = assetPath('build/service/cli.js');
const SERVER = assetPath('build/test/mcp/raw-server.js');
const WAIT_MS = 60_000;

type Transport = 'command' | 'address' | 'stream' | 'http' | 'http stream';
export const TRANSPORTS: readonly Transport[] = ['command', 'address', 'stream', 'http', 'http stream'];

export type PeerOptions = {
  agent: string;
  transport?: Transport;
  args?: string[];
  serverEnv?: Record<string, string>;
  /** The server of the test's own, in place of raw-server.ts. */
  upstream?: string;
  /** More words of the server's command. */
  command?: string[];
};

/** A client, the program and a server, ended with the test. */
export class RawPeers {
  readonly agent: string;
  readonly transport: Transport;
  readonly folder: string;
  /** The program's standard output by lines, and its standard error. */
  readonly lines: string[] = [];
  said = '';
  child!: ChildProcess;
  url: URL | undefined;
  /** A server at an address. */
  upstream: ChildProcess | undefined;

  private constructor({ agent, transport = 'command' }: PeerOptions, folder: string) {
    this.agent = agent;
    this.transport = transport;
    this.folder = folder;
    this.answers({});
    writeFileSync(this.#log, '');
  }

  static async start(
    t: Test,
    service: { url: string; key: string },
    options: PeerOptions,
    folder?: string,
  ): Promise<RawPeers> {
    const made = folder ?? mkdtempSync(path.join(os.tmpdir(), 'gatehouse-raw-'));
    if (folder === undefined) t.teardown(() => rmSync(made, { recursive: true, force: true }));
    const peers = new RawPeers(options, made);
    await peers.#start(t, service, options);
    return peers;
  }

  get #log(): string {
    return path.join(this.folder, 'log');
  }

  /** By the name of a tool, or a method. */
  answers(answers: Record<string, RawAnswer>): void {
    const isStream = this.transport.endsWith('stream');
    const all = Object.entries(answers).map(([name, { text, before, ...rest }]) => {
      const { events = text === undefined ? undefined : [...(before ?? []), text].map(eventOf) } = rest;
      const asEvents = isStream && events !== undefined && rest.status === undefined;
      return [
        name,
        {
          ...rest,
          ...(text === undefined ? {} : { text }),
          ...(before && { before }),
          ...(asEvents ? { events } : {}),
        },
      ];
    });
    writeFileSync(path.join(this.folder, 'answers'), JSON.stringify(Object.fromEntries(all)));
  }

  /** The lines that the server got, as they came. */
  reached(): string[] {
    return readFileSync(this.#log, 'utf8').split('\n').filter(Boolean);
  }

  requests(): { method: string; url: string; headers: Record<string, string> }[] {
    return readFileSync(`${this.#log}.http`, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));
  }

  /** One line, or the body of a POST. */
  send(text: string): void {
    if (this.url === undefined) this.child.stdin!.write(`${text}\n`);
    else void this.post(text).then(({ messages }) => this.lines.push(...messages));
  }

  async post(
    body: string,
    headers: Record<string, string> = {},
  ): Promise<{ status: number; text: string; messages: string[] }> {
    const response = await fetch(this.url!, {
      ...{ method: 'POST', body },
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
    });
    const text = await response.text();
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
    return { status: response.status, text, messages: isStream ? dataOf(text) : text === '' ? [] : [text] };
  }

  /** The first line that came since, which has this. */
  async got(part: string | RegExp, from = 0): Promise<string> {
    const isIt = (line: string) => (typeof part === 'string' ? line.includes(part) : part.test(line));
    return this.until(() => this.lines.slice(from).find(isIt), `${part}`);
  }

  /** Sends it and gives the next line. */
  async ask(text: string): Promise<string> {
    const from = this.lines.length;
    this.send(text);
    return this.until(() => this.lines[from], text);
  }

  async until<T>(look: () => T | undefined, what: string): Promise<T> {
    for (const deadline = performance.now() + WAIT_MS; performance.now() < deadline; await pause(10)) {
      const found = look();
      if (found !== undefined) return found;
    }
    throw new Error(`${this.transport}: nothing came for ${what}. ${this.said.slice(-500)}`);
  }

  /** Resolves with the exit status. */
  async end(): Promise<number | null> {
    this.child.stdin?.end();
    if (this.child.exitCode === null && this.child.signalCode === null) await once(this.child, 'exit');
    return this.child.exitCode;
  }

  async #start(t: Test, service: { url: string; key: string }, options: PeerOptions): Promise<void> {
    const { args = [], serverEnv = {}, command = [] } = options;
    const { transport, folder, agent } = this;
    const env = { PATH: process.env['PATH']!, HOME: folder, XDG_STATE_HOME: path.join(folder, 'state') };
    const raw = { RAW_ANSWERS: path.join(folder, 'answers'), RAW_LOG: this.#log, ...serverEnv };
    const own = { GATEHOUSE_URL: service.url, GATEHOUSE_API_KEY: service.key };
    const ours = ['mcp', '--name', 'raw', '--agent', agent, ...args];
    if (transport === 'command') ours.push('--', process.execPath, SERVER, ...command);
    else {
      ours.push('--upstream', options.upstream ?? (await this.#startServer(t, { ...env, ...raw })));
      if (transport.startsWith('http')) ours.push('--listen', '0');
    }
    this.child = this.#spawn(t, [CLI, ...ours], { ...env, ...raw, ...own });
    this.child.stderr!.on('data', (chunk: Buffer) => {
      this.said += chunk.toString();
    });
    if (transport.startsWith('http'))
      this.url = new URL(
        await this.until(() => /listening at (http:\/\/127\.0\.0\.1:\d+\/\w+)/.exec(this.said)?.[1], 'an address'),
      );
    else createInterface({ input: this.child.stdout! }).on('line', (line) => this.lines.push(line));
  }

  async #startServer(t: Test, env: Record<string, string>): Promise<string> {
    this.upstream = this.#spawn(t, [SERVER, '0'], env);
    return firstUrl(this.upstream.stdout!);
  }

  #spawn(t: Test, args: string[], env: Record<string, string>): ChildProcess {
    const child = spawn(process.execPath, args, { env, stdio: 'pipe' });
    child.stdin.on('error', () => undefined);
    t.teardown(async () => {
      child.kill('SIGTERM');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    });
    return child;
  }
}

async function firstUrl(stream: Readable): Promise<string> {
  for await (const line of createInterface({ input: stream })) {
    stream.resume();
    return line;
  }
  throw new Error('the server said no address');
}

export function eventOf(text: string): string {
  return `event: message\ndata: ${text}\n\n`;
}

function dataOf(stream: string): string[] {
  return stream
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => line.slice('data: '.length));
}
