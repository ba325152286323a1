// Closed-loop HTTP load: wrk where it is installed, else autocannon. Bounded in time; loopback only.
// One run gives throughput and latency; whoever compares runs them in turns and takes medians.
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import autocannon from 'autocannon';

export type Load = {
  url: string;
  body: string;
  headers: Record<string, string>;
  connections: number;
  seconds: number;
};
export type LoadResult = {
  requestsPerSecond: number;
  p50Ms: number;
  p99Ms: number;
  failed: number;
  tool: 'wrk' | 'autocannon';
};

export async function post(load: Load): Promise<LoadResult> {
  return (await hasWrk()) ? postWithWrk(load) : postWithAutocannon(load);
}

async function hasWrk(): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn('wrk', ['-v'], { stdio: 'ignore' });
    child.on('error', () => resolve(false));
    child.on('exit', () => resolve(true));
  });
}

async function postWithWrk({ url, body, headers, connections, seconds }: Load): Promise<LoadResult> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'gatehouse-bench-'));
  try {
    const script = path.join(folder, 'post.lua');
    const headerLines = Object.entries(headers).map(([name, value]) => `wrk.headers[${lua(name)}] = ${lua(value)}`);
    await writeFile(script, [`wrk.method = "POST"`, `wrk.body = ${lua(body)}`, ...headerLines].join('\n'));
    const text = await output('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '-s', script, url]);
    return {
      requestsPerSecond: Number(/Requests\/sec:\s+([0-9.]+)/.exec(text)?.[1] ?? Number.NaN),
      p50Ms: milliseconds(/50%\s+([0-9.]+)(us|ms|s)/.exec(text)),
      p99Ms: milliseconds(/99%\s+([0-9.]+)(us|ms|s)/.exec(text)),
      failed: Number(/Non-2xx or 3xx responses: ([0-9]+)/.exec(text)?.[1] ?? 0) + socketErrors(text),
      tool: 'wrk',
    };
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function postWithAutocannon({ url, body, headers, connections, seconds }: Load): Promise<LoadResult> {
  const result = await autocannon({ url, method: 'POST', body, headers, connections, duration: seconds });
  return {
    requestsPerSecond: result.requests.average,
    p50Ms: result.latency.p50,
    p99Ms: result.latency.p99,
    failed: result.non2xx + result.errors,
    tool: 'autocannon',
  };
}

function socketErrors(text: string): number {
  const m = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(text);
  return m === null ? 0 : m.slice(1).reduce((sum, n) => sum + Number(n), 0);
}

function milliseconds(m: RegExpExecArray | null): number {
  if (m === null) return Number.NaN;
  return Number(m[1]) * { us: 0.001, ms: 1, s: 1000 }[m[2] as 'us' | 'ms' | 's'];
}

/** A Lua string literal for any text: every byte that is not plain goes as a decimal escape. */
function lua(text: string): string {
  const bytes = [...Buffer.from(text)];
  return `"${bytes.map((b) => (b >= 0x20 && b < 0x7f && b !== 0x22 && b !== 0x5c ? String.fromCharCode(b) : `\\${String(b).padStart(3, '0')}`)).join('')}"`;
}

function output(command: string, args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    let text = '';
    child.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    child.on('error', reject);
    child.on('exit', (code) => (code === 0 ? resolve(text) : reject(new Error(`${command} ended with ${code}`))));
  });
}
