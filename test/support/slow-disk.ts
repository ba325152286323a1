// A disk that others write to without rest, for tests that ask what a slow one changes. It needs no right and no module
// of the system: some writers fill a file, wait until it is on the disk, and empty it. Each fsync of the service then
// waits behind theirs.
// Invariant: the writers hold `WRITERS` files of `FILE_BYTES`, in a folder that goes with the test. Failure: what a
// writer throws ends the test's process.
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { Test } from 'tap';
import { folderOf } from './folder.ts';

/** Each is a thread: it waits for the disk while the test goes on. */
const WRITERS = 4;
/** The bytes that a writer writes between two waits, for which a fsync of others waits: some 10 ms on an SSD. */
const FILE_BYTES = 8 * 1024 * 1024;
const FSYNCS = 50;
const PAGE_BYTES = 4096;

const BEFORE_MS = 1_000;
const WRITER = `
  const { fsyncSync, ftruncateSync, openSync, writeSync } = require('node:fs');
  const { file, size, fsyncs } = require('node:worker_threads').workerData;
  const [open, bytes] = [openSync(file, 'w'), Buffer.alloc(size, 7)];
  for (;;) {
    writeSync(open, bytes, 0, size, 0);
    fsyncSync(open);
    Atomics.add(fsyncs, 0, 1);
    ftruncateSync(open, 0);
  }`;

/** Milliseconds of an fsync, in the middle; and how often the writers have waited for the disk so far. */
export type SlowDisk = { quietMs: number; slowedMs: number; fsyncs: () => number };

/** Returns when the disk is slow; it is until the test ends. */
export async function slowDisk(t: Test): Promise<SlowDisk> {
  const folder = folderOf(t, 'slow-disk');
  const quietMs = fsyncMs(folder);
  const fsyncs = new Int32Array(new SharedArrayBuffer(4));
  for (let n = 0; n < WRITERS; n++) {
    const workerData = { file: path.join(folder, `writer-${n}`), size: FILE_BYTES, fsyncs };
    const writer = new Worker(WRITER, { eval: true, workerData });
    t.teardown(() => writer.terminate());
  }
  await sleep(BEFORE_MS);
  return { quietMs, slowedMs: fsyncMs(folder), fsyncs: () => Atomics.load(fsyncs, 0) };
}

function fsyncMs(folder: string): number {
  const file = openSync(path.join(folder, 'measured'), 'w');
  try {
    const times = Array.from({ length: FSYNCS }, () => {
      const begun = performance.now();
      writeSync(file, Buffer.alloc(PAGE_BYTES, 1));
      fdatasyncSync(file);
      return performance.now() - begun;
    });
    return times.sort((a, b) => a - b)[FSYNCS / 2]!;
  } finally {
    closeSync(file);
  }
}
