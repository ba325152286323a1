// Closed-loop HTTP load: wrk where it is installed, else autocannon. Bounded in time.
// One run gives throughput and latency; a comparison alternates the runs and takes medians.
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import autocannon from 'autocannon';
import { ended, whenEnded } from './ending.ts';

type Load = {
  /** The server's address. */
  url: string;
  /** Taken in turn. `body` is an index: many requests may share one. */
  requests: { path: string; key: string; body: number }[];
  bodies: string[];
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

/** With the answers by status: where some are refused, their number says nothing of what was done. */
export type CountedResult = LoadResult & { statuses: Record<string, number>; errors: number; seconds: number };

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

/**
 * Requests and bodies travel in files that the script reads: a Lua source has room for 65,536 constants only. What fits
 * is put together before the run, so that the generator does as little as it can while it measures.
 */
const SCRIPT = `
local folder = FOLDER
local bodies, requests = {}, {}
local file = io.open(folder .. '/bodies', 'rb')
for length in io.lines(folder .. '/lengths') do bodies[#bodies + 1] = file:read(tonumber(length)) end
file:close()
local bytes = 0
for line in io.lines(folder .. '/requests') do
  local path, key, body = line:match('([^\\t]+)\\t([^\\t]+)\\t(%d+)')
  body = bodies[tonumber(body) + 1]
  requests[#requests + 1] = {'POST ' .. path .. ' HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nAuthorization: Bearer ' .. key ..
    '\\r\\nContent-Type: application/json\\r\\nContent-Length: ' .. #body .. '\\r\\n\\r\\n', body}
  bytes = bytes + #body
end
local whole = bytes < 200000000
if whole then for i = 1, #requests do requests[i] = requests[i][1] .. requests[i][2] end end
local at = 0
request = function()
  at = at % #requests + 1
  local next = requests[at]
  return whole and next or next[1] .. next[2]
end
`;

async function postWithWrk({ url, requests, bodies, connections, seconds }: Load): Promise<LoadResult> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'gatehouse-wrk-'));
  const removed = () => rm(folder, { recursive: true, force: true });
  return ended(async () => {
    const script = path.join(folder, 'load.lua');
    await writeFile(path.join(folder, 'bodies'), bodies.join(''));
    await writeFile(path.join(folder, 'lengths'), lines(bodies.map((body) => Buffer.byteLength(body))));
    await writeFile(path.join(folder, 'requests'), lines(requests.map((r) => `${r.path}\t${r.key}\t${r.body}`)));
    await writeFile(script, SCRIPT.replace('FOLDER', JSON.stringify(folder)));
    const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '--timeout', '10s', '-s', script, url];
    const text = await output('wrk', args);
    return {
      requestsPerSecond: Number(/Requests\/sec:\s+([0-9.]+)/.exec(text)?.[1] ?? Number.NaN),
      p50Ms: milliseconds(/50%\s+([0-9.]+)(us|ms|s)/.exec(text)),
      p99Ms: milliseconds(/99%\s+([0-9.]+)(us|ms|s)/.exec(text)),
      failed: Number(/Non-2xx or 3xx responses: ([0-9]+)/.exec(text)?.[1] ?? 0) + socketErrors(text),
      tool: 'wrk' as const,
    };
  }, removed);
}

function lines(values: readonly (string | number)[]): string {
  return values.map((value) => `${value}\n`).join('');
}

export async function postWithAutocannon({
  url,
  requests,
  bodies,
  connections,
  seconds,
}: Load): Promise<CountedResult> {
  const result = await autocannon({
    url,
    connections,
    duration: seconds,
    requests: requests.map(({ path, key, body }) => ({
      method: 'POST',
      path,
      body: bodies[body]!,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    })),
  });
  return {
    requestsPerSecond: result.requests.average,
    p50Ms: result.latency.p50,
    p99Ms: result.latency.p99,
    failed: result.non2xx + result.errors,
    tool: 'autocannon',
    statuses: Object.fromEntries(Object.entries(result.statusCodeStats).map(([status, { count }]) => [status, count])),
    errors: result.errors,
    seconds: result.duration,
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

function output(command: string, args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const strike = whenEnded(() => child.kill('SIGKILL'));
    let text = '';
    child.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    child.on('error', reject);
    child.on('exit', (code) => {
      strike();
      if (code === 0) resolve(text);
      else reject(new Error(`${command} ended with ${code}`));
    });
  });
}
