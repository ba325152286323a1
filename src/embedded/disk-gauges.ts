// Says in `/metrics` how much room the disk under the data folder has left (a part of the supervisor, which owns the
// folder).
// Invariant: polled by a timer, so that a file system that hangs holds up no scrape.
// Failure: while the file system does not answer, the last figures stay, and the log says so.
import { diskSpace } from '../common/disk-space.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { type Part, periodicPart } from '../process/lifecycle.ts';
import type { Log } from '../process/log.ts';

const POLL_MS = 10_000;

export function diskGauges({ folder, metrics, log }: { folder: string; metrics: Metrics; log: Log }): Part {
  return periodicPart('disk gauges', POLL_MS, async () => {
    try {
      const { free, size } = await diskSpace(folder);
      metrics.set('gatehouse_disk_free_bytes', {}, free);
      metrics.set('gatehouse_disk_size_bytes', {}, size);
    } catch (error) {
      log.warn({ err: error }, 'disk.look_failed');
    }
  });
}
