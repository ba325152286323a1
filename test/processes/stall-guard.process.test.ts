// The stall guard, in processes of its own: one whose thread stands still is ended and says what it had begun, one that
// was stopped is not.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { assetPath } from '../../src/process/assets.ts';

const STILL_MS_MAX = 1_000;

/** A process with a guard, which runs `then` once the guard is up. */
function guarded(t: Test, then: string) {
  const of = (name: string) => JSON.stringify(assetPath(`build/src/${name}.js`));
  const script = `
    const { StallGuard } = await import(${of('process/stall-guard')});
    const { currentWork } = await import(${of('process/current-work')});
    const { createLog } = await import(${of('process/log')});
    const log = createLog({ level: 'info', processName: 'front-7' });
    new StallGuard({ processName: 'front-7', log, stillMsMax: ${STILL_MS_MAX} }).start();
    currentWork.note('acc_01m8ajtw8k87bh082xr3gczpbz', '/v1/agents/{id}/events/batch', 1234);
    setInterval(() => undefined, 100);
    await new Promise((done) => setTimeout(done, 500));
    process.stdout.write('up');
    ${then}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'pipe'] });
  t.teardown(() => child.kill('SIGKILL'));
  let said = '';
  child.stderr.on('data', (data: Buffer) => (said += data.toString()));
  return { child, said: () => said };
}

t.test('a thread that stands still is ended, and what it had begun is in the log', async (t) => {
  const { child, said } = guarded(t, 'for (;;);');
  const [, signal] = await once(child, 'close');
  t.equal(signal, 'SIGKILL');
  t.match(JSON.parse(said()), {
    level: 'error',
    msg: 'process.stands_still',
    process: 'front-7',
    begunLast: { account: 'acc_01m8ajtw8k87bh082xr3gczpbz', route: '/v1/agents/{id}/events/batch', bytes: 1234 },
  });
  t.ok(JSON.parse(said()).stillMs >= STILL_MS_MAX);
});

t.test('one that is busy by turns, or was stopped for longer, goes on', async (t) => {
  const turns = `
    for (let i = 0; i < 8; i++) {
      const until = performance.now() + ${STILL_MS_MAX / 2};
      while (performance.now() < until);
      await new Promise((done) => setTimeout(done, 300));
    }
    process.stdout.write('done');`;
  const { child, said } = guarded(t, turns);
  await once(child.stdout, 'data');
  child.kill('SIGSTOP');
  await sleep(3 * STILL_MS_MAX);
  child.kill('SIGCONT');
  const [data] = await once(child.stdout, 'data');
  t.match(String(data), 'done');
  t.equal(said(), '');
});
