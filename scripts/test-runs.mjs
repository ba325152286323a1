// What the scripts that run tests share: the runner, and what test files share in one run.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export const root = path.dirname(path.dirname(new URL(import.meta.url).pathname));

/** Runs tap with these arguments. Resolves with its exit status. */
export function tap(args, env = {}) {
  const program = path.join(root, 'node_modules', '.bin', 'tap');
  const child = spawn(program, args, { cwd: root, env: { ...process.env, ...env }, stdio: 'inherit' });
  return new Promise((resolve) => child.on('exit', (code) => resolve(code ?? 1)));
}

/** One ClickHouse engine in a folder of its own. */
export async function startEngine() {
  const { forkEngine } = await import('../build/test/support/clickhouse.js');
  const folder = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-engine-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    const engine = await forkEngine({ path: path.join(folder, 'clickhouse'), port: 0 });
    engine.child.stdout.resume();
    return { url: engine.url, stop: () => engine.stop('SIGTERM').finally(remove) };
  } catch (error) {
    remove();
    throw error;
  }
}

/** The engine and the whole service of one run; `env` tells the tests where they are. */
export async function startShared() {
  const { launchService, makeDataDir } = await import('../build/test/support/service.js');
  const dataDir = await makeDataDir();
  const started = [{ stop: () => rmSync(dataDir, { recursive: true, force: true }) }];
  const stop = async () => {
    for (const one of started.reverse()) await one.stop();
  };
  try {
    const engine = await startEngine();
    started.push(engine);
    const service = await launchService({ dataDir, env: { GATEHOUSE_LOG_LEVEL: 'warn' } });
    started.push(service);
    const given = { url: service.url, addresses: await service.addresses() };
    return {
      env: { GATEHOUSE_TEST_ENGINE_URL: engine.url, GATEHOUSE_TEST_SERVICE: JSON.stringify(given) },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
