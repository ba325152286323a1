// A supervisor that is killed leaves nothing behind that is in the way of the next start: not a child that was just
// starting, nor one that was stopped.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { freePort } from '../../src/embedded/free-port.ts';
import { folderOf } from '../support/folder.ts';
import { hasOwnStores, launchService } from '../support/service.ts';

t.setTimeout(300_000);
const skip = hasOwnStores() ? false : 'the engines are not ours to kill';
const dataDir = folderOf(t);
const port = String(await freePort());
const launch = () => launchService({ dataDir, env: { GATEHOUSE_PORT: port, GATEHOUSE_FRONTS: '1' } });

t.test('a child whose supervisor is killed while it starts leaves by itself', { skip }, async (t) => {
  for (const [name, afterMs] of [
    ['front-1', 150],
    ['pipelines', 200],
    ['front-1', 330],
  ] as const) {
    const service = await launch();
    const killed = (await service.children()).find((child) => child.name === name)!;
    process.kill(killed.pid, 'SIGKILL');
    await sleep(afterMs);
    process.kill(service.pid, 'SIGKILL');
    await service.stop().catch(() => undefined);
    const next = await launch();
    t.equal((await fetch(`${next.url}/readyz`)).status, 200, `${name}, ${afterMs} ms: the next start has the port`);
    await next.stop();
  }
});

t.test('an engine that was stopped when its supervisor was killed is no hindrance', { skip }, async (t) => {
  const service = await launch();
  const engine = (await service.children()).find(({ name }) => name === 'clickhouse')!;
  process.kill(engine.pid, 'SIGSTOP');
  process.kill(service.pid, 'SIGKILL');
  await service.stop().catch(() => undefined);
  const next = await launch();
  t.equal((await fetch(`${next.url}/readyz`)).status, 200);
  t.throws(() => process.kill(engine.pid, 0), 'it was ended');
  await next.stop();
});
