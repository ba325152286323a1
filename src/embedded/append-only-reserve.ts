// Reserves room on the disk behind the end of the embedded Redis's append-only file (called by disk-room.ts at each of
// its looks). On a full disk Redis answers writes that it could not append: they are in its memory alone, and lost if
// it is killed. The blocks reserved here belong to the file although its length stays, so an append succeeds whatever
// other programs write meanwhile.
// Invariant: between two calls Redis can append up to `bytes`, except to a file that a rewrite began in that time.
// Failure: without `fallocate` (util-linux), or on a file system that cannot reserve, nothing is reserved, and the free
// space that disk-room.ts keeps is all there is.
import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { environmentWith } from '../process/config.ts';
import { growingFiles } from './append-only-sync.ts';

/** `st_blocks` counts in these units on every system. */
const STAT_BLOCK_BYTES = 512;

type Reserved = 'reserved' | 'full' | 'unsupported';

/**
 * `folder`: the server's own. Below half of `bytes` the reservation is renewed, so that a process is started rarely.
 */
export async function reserveAppends(folder: string, bytes: number): Promise<Reserved> {
  let reserved: Reserved = 'reserved';
  for (const file of await growingFiles(folder).catch(() => [])) {
    const found = await stat(file).catch(() => undefined);
    if (found === undefined || found.blocks * STAT_BLOCK_BYTES - found.size >= bytes / 2) continue;
    const outcome = await reserve(file, found.size, bytes);
    if (outcome !== 'reserved') reserved = outcome;
  }
  return reserved;
}

async function reserve(file: string, from: number, bytes: number): Promise<Reserved> {
  const range = ['--offset', String(from), '--length', String(Math.ceil(bytes))];
  try {
    await promisify(execFile)('fallocate', ['--keep-size', ...range, file], {
      env: { ...environmentWith(), LC_ALL: 'C' } as NodeJS.ProcessEnv,
    });
    return 'reserved';
  } catch (error) {
    return error instanceof Error && /No space left/.test(error.message) ? 'full' : 'unsupported';
  }
}
