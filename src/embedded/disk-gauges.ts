// Says in `/metrics` how much room the disk under the data folder has left (a part of the supervisor, which owns the
// folder).
// Invariant: inspected by a timer, so that a file system that hangs holds up no scrape.
// Failure: what cannot be asked leaves the last figures standing, and says so in the log.
import { statfs } from 'node:fs/promises';
import type { Metrics } from '../metrics/metrics.ts';
import type { Part } from '../process/lifecycle.ts';
import type { Log } from '../process/log.ts';

const LOOK_MS = 10_000;

export class DiskGauges implements Part {
  readonly name = 'disk gauges';
  readonly #options: { folder: string; metrics: Metrics; log: Log };
  #timer: NodeJS.Timeout | undefined;
  #looking = false;

  constructor(options: { folder: string; metrics: Metrics; log: Log }) {
    this.#options = options;
  }

  async start(): Promise<void> {
    this.#timer = setInterval(() => void this.#look(), LOOK_MS);
    this.#timer.unref();
    await this.#look();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    const { folder, metrics, log } = this.#options;
    try {
      const { bsize, bavail, blocks } = await statfs(folder);
      metrics.set('gatehouse_disk_free_bytes', {}, bavail * bsize);
      metrics.set('gatehouse_disk_size_bytes', {}, blocks * bsize);
    } catch (error) {
      log.warn({ err: error }, 'disk.look_failed');
    } finally {
      this.#looking = false;
    }
  }
}
