// What `/metrics` says while a part of the whole service is away: each is a real process that is stopped (SIGSTOP, so
// that it hangs, the worst case: it is there and does not answer), and continues later.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { freePort } from '../../src/embedded/free-port.ts';
import { readExposition } from '../support/prometheus.ts';
import { startService } from '../support/service.ts';

const WAIT_MS_MAX = 120_000;

t.test('what is away is 0 in the metrics, and 1 again when it is back', async (t) => {
  const port = await freePort();
  const service = await startService(t, { stores: 'own', env: { GATEHOUSE_METRICS_PORT: String(port) } });
  /** Whether all series with this label have that value; no series at all is no. */
  const all = async (name: string, labels: Record<string, string>, wanted: number) => {
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const { samples, faults } = readExposition(text);
    if (faults.length > 0) t.fail(faults.join('\n'));
    const own = samples.filter(
      (one) => one.name === name && Object.entries(labels).every(([k, v]) => one.labels[k] === v),
    );
    return own.length > 0 && own.every(({ value }) => value === wanted);
  };
  const becomes = async (name: string, labels: Record<string, string>, wanted: number) => {
    const deadline = performance.now() + WAIT_MS_MAX;
    while (!(await all(name, labels, wanted)) && performance.now() < deadline) await sleep(250);
    t.ok(await all(name, labels, wanted), `${name}${JSON.stringify(labels)} becomes ${wanted}`);
  };
  const pidOf = async (child: string) => {
    const pid = (await service.children()).find(({ name }) => name === child)?.pid;
    if (pid === undefined) throw new Error(`${child} is not running`);
    return pid;
  };
  /** Hangs it, looks, and lets it continue, whatever comes of the look. */
  const without = async (child: string, look: () => Promise<void>) => {
    const pid = await pidOf(child);
    process.kill(pid, 'SIGSTOP');
    try {
      await look();
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  };

  for (const dependency of ['redis', 'clickhouse']) await becomes('gatehouse_dependency_up', { dependency }, 1);
  await without('clickhouse', async () => {
    await becomes('gatehouse_dependency_up', { dependency: 'clickhouse' }, 0);
    t.ok(await all('gatehouse_dependency_up', { dependency: 'redis' }, 1), 'Redis answers');
  });
  await becomes('gatehouse_dependency_up', { dependency: 'clickhouse' }, 1);
  await without('redis', async () => {
    await becomes('gatehouse_dependency_up', { dependency: 'redis' }, 0);
    t.ok(await all('gatehouse_dependency_up', { dependency: 'clickhouse' }, 1), 'ClickHouse answers');
  });
  await becomes('gatehouse_dependency_up', { dependency: 'redis' }, 1);

  for (const child of ['pipelines', 'front-1']) {
    await without(child, async () => {
      await becomes('gatehouse_up', { process: child }, 0);
      t.ok(await all('gatehouse_up', { process: 'supervisor' }, 1), 'the supervisor answers');
    });
    await becomes('gatehouse_up', { process: child }, 1);
  }
  t.ok(await all('gatehouse_restarts_total', {}, 0), 'none was started again, and each says so');
  process.kill(await pidOf('pipelines'), 'SIGKILL');
  await becomes('gatehouse_restarts_total', { child: 'pipelines' }, 1);
  await becomes('gatehouse_up', {}, 1);
});
