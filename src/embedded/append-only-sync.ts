// Brings the embedded Redis's append-only file to the disk once a second (beside redis-server, for as long as it runs).
// Redis's own `everysec` holds a write back in its memory, for up to 2 s, while an fdatasync of its own is running, and
// has answered the caller by then: a SIGKILL in that time loses what was acknowledged (with fdatasync slowed to 1.2 s,
// 657 acknowledged writes were gone). So Redis runs with `appendfsync no`, which writes before every answer, and the
// syncing is done from here: it is the file that is synced, whichever process asks for it. Throughput and p99 were the
// same.
// Invariant: at most one sync at a time, and the next begins no later than SYNC_EVERY_MS after the last one ended.
// Failure: after a failed sync it is unknown what the disk holds (the kernel forgets it has not written), so
// `onFailure` is called once and the syncing ends: the server must not continue as if its writes were durable.
import { open, readdir } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const SYNC_EVERY_MS = 1_000;
/** Where redis-server keeps its append-only files, below its own folder. */
const FOLDER = 'appendonlydir';

export class AppendOnlySync {
  readonly #folder: string;
  readonly #onFailure: (error: unknown) => void;
  readonly #stop = new AbortController();

  /** `folder`: the server's own. */
  constructor(folder: string, onFailure: (error: unknown) => void) {
    this.#folder = folder;
    this.#onFailure = onFailure;
    void this.#run();
  }

  /** The server ends; it syncs by itself at an orderly end. */
  stop(): void {
    this.#stop.abort();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await sleep(SYNC_EVERY_MS, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      try {
        await syncAll(this.#folder);
      } catch (error) {
        if (!signal.aborted) this.#onFailure(error);
        return;
      }
    }
  }
}

/**
 * Append-only files that grow: one, or two while a rewrite is under way, which syncs the base files itself; none before
 * the server has made its folder. `folder`: the server's own.
 */
export async function growingFiles(folder: string): Promise<string[]> {
  const names = await namesIn(path.join(folder, FOLDER));
  return names.filter((name) => name.endsWith('.incr.aof')).map((name) => path.join(folder, FOLDER, name));
}

async function syncAll(folder: string): Promise<void> {
  for (const file of await growingFiles(folder)) await sync(file);
}

async function sync(file: string): Promise<void> {
  try {
    const handle = await open(file);
    try {
      await handle.datasync();
    } finally {
      await handle.close();
    }
  } catch (error) {
    // A rewrite has taken its place.
    if (!isMissing(error)) throw error;
  }
}

/** Empty before the server has made its folder. */
async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
