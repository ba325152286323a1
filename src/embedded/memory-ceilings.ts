// How much memory the embedded engines may take where no setting says so: shares of what there is, of the machine or of
// the cgroup that we run in, so that a small container is not ended by the kernel for what Redis and ClickHouse think
// that they may have.
// Invariant: both together are at most two thirds of it, from 1 GB on; the rest is for our own processes and for the
// copies that Redis makes while it rewrites its file.

import os from 'node:os';

const MiB = 1024 * 1024;
const REDIS = { share: 0.2, minimum: 64 * MiB, maximum: 2_048 * MiB };
/** Below its minimum the engine refuses to start. */
const CLICKHOUSE = { share: 0.45, minimum: 512 * MiB, maximum: 4_096 * MiB };

/** Bytes that this process and its children may use; a limit of the cgroup counts where it is lower. */
export function memoryBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, os.totalmem()) : os.totalmem();
}

export function memoryCeilings(bytes: number): { redisBytes: number; clickhouseBytes: number } {
  return { redisBytes: shareOf(bytes, REDIS), clickhouseBytes: shareOf(bytes, CLICKHOUSE) };
}

function shareOf(bytes: number, { share, minimum, maximum }: typeof REDIS): number {
  return Math.round(Math.max(minimum, Math.min(maximum, bytes * share)));
}
