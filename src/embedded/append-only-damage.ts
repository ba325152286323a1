// What is behind the damage of an append-only file (redis-server.ts says that a file is damaged; `gatehouse doctor
// --repair` mends it). Redis's own tool cuts everything from the damage on: 25,000 acknowledged events in one case, for
// a sector of zeros. Commands behind it are whole, and what they say does not depend on the lost ones for most of what
// we keep: entries of streams above all.
// Invariant: the file is never changed in place; the old one stays beside the new one. What is kept begins at the start
// of a command, and each command is whole; payloads cannot pass for one, since JSON has no line end followed by an
// asterisk.
// Failure: throws what the file system says; nothing was changed then.
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';

/**
 * Offsets and sizes in bytes. `behind`: of whole commands behind the damage; `appended`: entries of streams among them.
 */
export type Damage = {
  file: string;
  size: number;
  at: number;
  lost: number;
  behind: { commands: number; appended: number; ranges: readonly [from: number, to: number][] };
};

const CHECK_MS_MAX = 120_000;
/** Line ends; commands are `*<n>`, their arguments `$<n>`. */
const [CR, LF, STAR, DOLLAR] = [0x0d, 0x0a, 0x2a, 0x24];
const ARGUMENTS_MAX = 1_000_000;

/**
 * Looks for damage in the file that holds the newest commands: whatever was damaged, it is the only one that is written
 * to. undefined: it is whole.
 */
export function findDamage(folder: string, env: Record<string, string | undefined>): Damage | undefined {
  const file = newestIncrement(folder);
  if (file === undefined) return undefined;
  const said = checked(file, env);
  const at = Number(/ok_up_to=(\d+)/.exec(said)?.[1] ?? Number.NaN);
  const bytes = readFileSync(file);
  if (!Number.isFinite(at) || at >= bytes.length) return undefined;
  const behind = wholeCommands(bytes, at);
  const kept = behind.ranges.reduce((sum, [from, to]) => sum + to - from, 0);
  return { file, size: bytes.length, at, lost: bytes.length - at - kept, behind };
}

/** Writes what is whole in place of the file; answers where the old one is now. */
export function repairDamage({ file, at, behind }: Damage): string {
  const bytes = readFileSync(file);
  const kept = `${file}.damaged`;
  const fresh = `${file}.repaired`;
  const handle = openSync(fresh, 'w', 0o600);
  for (const [from, to] of [[0, at], ...behind.ranges] as [number, number][])
    writeSync(handle, bytes.subarray(from, to));
  fsyncSync(handle);
  closeSync(handle);
  renameSync(file, kept);
  renameSync(fresh, file);
  return kept;
}

export function damageText({ size, at, lost, behind }: Damage): string {
  return (
    `at byte ${at} of ${size}; behind it ${behind.commands} commands are whole, ${behind.appended} of them entries of events and changes, ` +
    `and ${lost} bytes are not`
  );
}

/** In bytes; 0: there is none. */
export function sizeOfNewest(folder: string): number {
  const file = newestIncrement(folder);
  return file === undefined ? 0 : statSync(file).size;
}

function newestIncrement(folder: string): string | undefined {
  const directory = path.join(folder, 'appendonlydir');
  if (!existsSync(directory)) return undefined;
  const increments = readdirSync(directory)
    .map((name) => ({ name, number: Number(/\.(\d+)\.incr\.aof$/.exec(name)?.[1] ?? Number.NaN) }))
    .filter(({ number }) => Number.isFinite(number))
    .sort((a, b) => b.number - a.number);
  return increments[0] && path.join(directory, increments[0].name);
}

/** The output of redis-check-aof, which ends with status 1 where it finds something. */
function checked(file: string, env: Record<string, string | undefined>): string {
  try {
    return execFileSync('redis-check-aof', [file], {
      env: env as NodeJS.ProcessEnv,
      encoding: 'utf8',
      timeout: CHECK_MS_MAX,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  } catch (error) {
    return String((error as { stdout?: string }).stdout ?? '');
  }
}

/**
 * Behind the damage, wherever one begins again. A transaction whose beginning is gone is no transaction: its end is
 * left out.
 */
function wholeCommands(bytes: Buffer, from: number): Damage['behind'] {
  const ranges: [number, number][] = [];
  let [commands, appended, at] = [0, 0, from];
  let isInTransaction = false;
  while (at < bytes.length) {
    const command = readCommand(bytes, at);
    if (command === undefined) {
      const next = bytes.indexOf('\n*', at);
      if (next < 0) break;
      at = next + 1;
      continue;
    }
    const isEnd = command.name === 'EXEC';
    if (command.name === 'MULTI') isInTransaction = true;
    if (!isEnd || isInTransaction) {
      const last = ranges.at(-1);
      if (last?.[1] === at) last[1] = command.end;
      else ranges.push([at, command.end]);
      commands++;
      if (command.name === 'XADD') appended++;
    }
    if (isEnd) isInTransaction = false;
    at = command.end;
  }
  return { commands, appended, ranges };
}

function readCommand(bytes: Buffer, start: number): { name: string; end: number } | undefined {
  const count = readLength(bytes, start, STAR);
  if (count === undefined || count.value < 1 || count.value > ARGUMENTS_MAX) return undefined;
  let at = count.end;
  let name = '';
  for (let i = 0; i < count.value; i++) {
    const length = readLength(bytes, at, DOLLAR);
    if (length === undefined) return undefined;
    const end = length.end + length.value;
    if (bytes[end] !== CR || bytes[end + 1] !== LF) return undefined;
    if (i === 0) name = bytes.toString('latin1', length.end, end).toUpperCase();
    at = end + 2;
  }
  return /^[A-Z]+$/.test(name) ? { name, end: at } : undefined;
}

function readLength(bytes: Buffer, at: number, mark: number): { value: number; end: number } | undefined {
  if (bytes[at] !== mark) return undefined;
  let value = 0;
  let i = at + 1;
  for (; bytes[i]! >= 0x30 && bytes[i]! <= 0x39 && i - at < 12; i++) value = value * 10 + bytes[i]! - 0x30;
  return i > at + 1 && bytes[i] === CR && bytes[i + 1] === LF ? { value, end: i + 2 } : undefined;
}
