// Wakes readers of idle streams (between a read that found nothing and the next one).
// An idle stream is empty, since entries that every group has acknowledged are trimmed: so its length shows whether
// there is something to read. One look at all streams (src/redis/many-keys.ts) replaces a read for each group. A stream
// that holds entries wakes its readers every time, also a group that has read them all: that reader then polls by
// reading.
// Failure: if Redis is unreachable all readers are woken, and their next read reports the error.
import { READ_POLL_MS } from '../common/limits.ts';
import type { Commands } from '../redis/client.ts';
import { streamLengths } from '../redis/many-keys.ts';

export class StreamPoller {
  readonly #redis: Commands;
  readonly #waiting = new Map<string, Set<() => void>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(redis: Commands) {
    this.#redis = redis;
  }

  /** Resolves when the stream has entries, READ_POLL_MS from now at the earliest, or when the signal is aborted. */
  wait(stream: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(stream) ?? new Set();
      this.#waiting.set(stream, waiting);
      const wake = () => {
        signal.removeEventListener('abort', wake);
        waiting.delete(wake);
        resolve();
      };
      waiting.add(wake);
      signal.addEventListener('abort', wake);
      this.#timer ??= setTimeout(this.#poll, READ_POLL_MS);
    });
  }

  readonly #poll = async (): Promise<void> => {
    const streams = [...this.#waiting].filter(([, waiting]) => waiting.size > 0).map(([stream]) => stream);
    const lengths = await streamLengths(this.#redis, streams).catch(() => undefined);
    this.#timer = undefined;
    streams.forEach((stream, i) => {
      if (lengths?.[i] !== 0) for (const wake of [...this.#waiting.get(stream)!]) wake();
    });
    if ([...this.#waiting.values()].some((waiting) => waiting.size > 0))
      this.#timer ??= setTimeout(this.#poll, READ_POLL_MS);
  };
}
