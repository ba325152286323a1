// Says on what a figure was measured. Without it a figure is worth nothing.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import os from 'node:os';
import { assetPath } from '../src/process/assets.ts';

export type Machine = {
  date: string;
  commit: string;
  cpus: number;
  cpuModel: string;
  memoryGb: number;
  system: string;
  node: string;
  redis: string;
  chdb: string;
  loadTool: string;
  /** The load average of the last minute shows what else ran. */
  loadAverage: number;
  /**
   * µs to touch a page of memory for the first time: a quarter where the memory is the machine's own, several where the
   * machine is a guest whose host gives a page when it is touched and takes it back soon after. What grows (a backlog,
   * files) pays that.
   */
  freshPageUs: number;
};

const PAGE_BYTES = 4_096;
const FRESH_PAGES = 16_384;

export function describeMachine(): Machine {
  const cpus = os.cpus();
  return {
    date: new Date().toISOString().slice(0, 16),
    commit: said('git', ['-C', assetPath('.'), 'rev-parse', '--short', 'HEAD']),
    cpus: cpus.length,
    cpuModel: cpus[0]?.model.trim() ?? 'unknown',
    memoryGb: Math.round(os.totalmem() / 1024 ** 3),
    // Without the name of its build, which says nothing elsewhere.
    system: `${os.type()} ${/^\d+\.\d+/.exec(os.release())?.[0] ?? os.release()}`,
    node: process.version,
    redis: /v=([0-9.]+)/.exec(said('redis-server', ['--version']))?.[1] ?? 'unknown',
    chdb: versionOf('chdb'),
    loadTool: /^wrk [^ ]+/.exec(said('wrk', ['-v']))?.[0] ?? 'autocannon',
    loadAverage: Number(os.loadavg()[0]!.toFixed(1)),
    freshPageUs: Number(freshPageUs().toFixed(1)),
  };
}

export function machineSentence(machine: Machine): string {
  const { cpus, cpuModel, memoryGb, system, node, redis, chdb, loadTool, loadAverage, freshPageUs, date, commit } =
    machine;
  return (
    `${date}, commit ${commit}: ${cpus} CPUs (${cpuModel}), ${memoryGb} GB, ${system}, Node ${node}, redis-server ${redis}, ` +
    `chdb ${chdb}, ${loadTool}; load average at the start ${loadAverage}, a fresh page of memory ${freshPageUs} µs`
  );
}

/** So large a piece is asked of the system again. */
function freshPageUs(): number {
  const bytes = Buffer.allocUnsafeSlow(FRESH_PAGES * PAGE_BYTES);
  const started = performance.now();
  for (let at = 0; at < bytes.length; at += PAGE_BYTES) bytes[at] = 1;
  return ((performance.now() - started) * 1_000) / FRESH_PAGES;
}

/** The output of a command; '' where the command is not there. wrk prints its version with status 1. */
function said(command: string, args: string[]): string {
  try {
    return execFileSync(command, args, { stdio: ['ignore', 'pipe', 'ignore'] })
      .toString()
      .trim();
  } catch (error) {
    return String((error as { stdout?: Buffer }).stdout ?? '').trim();
  }
}

function versionOf(dependency: string): string {
  try {
    const text = readFileSync(assetPath(`node_modules/${dependency}/package.json`), 'utf8');
    return (JSON.parse(text) as { version: string }).version;
  } catch {
    return 'not installed';
  }
}
