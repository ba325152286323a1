// The whole service for a measurement: `gatehouse start` on a data folder of its own that goes with it. Parts under
// load are the real ones; only the request limit is out of the way, unless a line measures just that.
import { rm } from 'node:fs/promises';
import { type Environment, launchService, makeDataDir, type TestService } from '../test/support/service.ts';
import { whenEnded } from './ending.ts';

export type BenchService = TestService;

export async function startBenchService(env: Environment): Promise<BenchService> {
  const dataDir = await makeDataDir();
  const removed = () => rm(dataDir, { recursive: true, force: true });
  const strikeFolder = whenEnded(removed);
  let strike = (): unknown => undefined;
  const service = await launchService({
    dataDir,
    env: { GATEHOUSE_LOG_LEVEL: 'warn', ...env },
    onSpawn: (end) => {
      strike = whenEnded(end);
    },
  });
  const stop = async () => {
    const exit = await service.stop();
    strike();
    await removed();
    strikeFolder();
    return exit;
  };
  return { ...service, stop };
}
