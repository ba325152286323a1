// The whole service for a measurement: `gatehouse start` on a data folder of its own that goes with it. Parts under load
// are the real ones; only the request limit is out of the way, unless a line measures just that.
import { rm } from 'node:fs/promises';
import os from 'node:os';
import { type Environment, launchService, makeDataDir, type TestService } from '../test/support/service.ts';

export type BenchService = TestService;

const running = new Set<() => Promise<unknown>>();

export async function startBenchService(env: Environment): Promise<BenchService> {
  const dataDir = await makeDataDir();
  const service = await launchService({ dataDir, env: { GATEHOUSE_LOG_LEVEL: 'warn', ...env } });
  const stop = async () => {
    running.delete(stop);
    const exit = await service.stop();
    await rm(dataDir, { recursive: true, force: true });
    return exit;
  };
  running.add(stop);
  return { ...service, stop };
}

/** Whoever ends a measurement ends what it has started. */
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  process.once(signal, async () => {
    await Promise.allSettled([...running].map((stop) => stop()));
    process.exit(128 + os.constants.signals[signal]);
  });
}
