// A lock of the operating system on a file (flock(2)): it holds across PID namespaces and containers that share the
// file, and across hosts where the file system carries locks, and it is gone when the last process that has the file
// open so is gone, however it ends. Used by the data folder (state-dir.ts) and the embedded Redis, whose process
// holds the lock of its folder itself. Node.js has no such call: the program `flock` (util-linux, busybox) takes the
// lock on a file that we have opened. A lock is of the open file, not of the process that asked for it, so it stays
// ours when `flock` has ended.
// Invariant: the file is never removed or replaced: two files of one name would be two locks.
// Failure: without that program nothing is locked, and FileLockError says what to install.

import { spawnSync } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { UserFacingError } from '../common/user-facing-error.ts';

export class FileLockError extends UserFacingError {
  override name = 'FileLockError';
}

/** The exit status of `flock -n` where another holds the lock. */
const HELD_STATUS = 1;
/**
 * Opens for reading and writing, makes the file if it is not there, and never empties it: that is for who gets the
 * lock.
 */
const OPEN = constants.O_RDWR | constants.O_CREAT;
/** The child's descriptor of the lock file: the first behind its standard streams. */
const LOCKED_FD = 3;

/**
 * Takes the lock of a file; undefined: another has it. The answer is the open file, to be closed to let go; who is
 * given it (a child's `stdio`) holds the lock as well. Throws FileLockError, or what opening throws.
 */
export function takeFileLock(file: string): number | undefined {
  const fd = openSync(file, OPEN, 0o600);
  try {
    if (flock(fd, '-x')) return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  closeSync(fd);
  return undefined;
}

/**
 * Is the lock of a file held? Takes a shared lock for a moment: a process that wants the exclusive lock tries
 * again.
 */
export function isFileLocked(file: string): boolean {
  let fd: number;
  try {
    fd = openSync(file, constants.O_RDONLY);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
  try {
    return !flock(fd, '-s');
  } finally {
    closeSync(fd);
  }
}

function flock(fd: number, kind: '-x' | '-s'): boolean {
  const { status, error, stderr } = spawnSync('flock', ['-n', kind, String(LOCKED_FD)], {
    stdio: ['ignore', 'ignore', 'pipe', fd],
    encoding: 'utf8',
  });
  if (status === 0) return true;
  if (status === HELD_STATUS && stderr === '') return false;
  const why = error === undefined ? stderr.trim() || `it ended with status ${status}` : error.message;
  throw new FileLockError(`cannot lock files: the program flock (package util-linux) is needed: ${why}.`);
}
