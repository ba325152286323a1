// Giving way: a child runs at a lower priority from its start on, or takes short turns, with every thread that it
// makes; it works without.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import os from 'node:os';
import t from 'tap';
import { lowerPriority, NICE, useShortTimeSlices } from '../../src/embedded/process-priority.ts';

t.test('a child gives way, and so do the threads that it starts', { skip: process.platform !== 'linux' }, async (t) => {
  const script = `
    const { readdirSync, readFileSync } = require('node:fs');
    process.stdin.once('data', () => {
      const stat = (id) => readFileSync('/proc/self/task/' + id + '/stat', 'utf8').split(') ').at(-1).split(' ');
      const nice = (id) => stat(id)[16] + (stat(id)[38] === '3' ? ' batch' : '');
      new (require('node:worker_threads').Worker)('setTimeout(() => undefined, 1e6)', { eval: true }).on('online', () => {
        console.log([...new Set(readdirSync('/proc/self/task').map(nice))].join());
        process.exit();
      });
    });`;
  const child = spawn(process.execPath, ['-e', script], { stdio: ['pipe', 'pipe', 'inherit'], detached: true });
  lowerPriority(child.pid!, NICE.clickhouse);
  t.equal(os.getPriority(child.pid), NICE.clickhouse);
  child.stdin.end('go');
  const [nices] = (await once(child.stdout, 'data')) as [Buffer];
  // Those that Node makes at its start may have been there already, on a machine that stands still for a moment.
  t.ok(nices.toString().trim().split(',').includes(`${NICE.clickhouse} batch`), `threads run at ${nices}`);
});

/**
 * ns that a process may run before another runs; undefined: this kernel does not say, or is older than 6.12.
 */
function turnNs(pid: number | string): number | undefined {
  const [major, minor] = os.release().split('.').map(Number);
  if (process.platform !== 'linux' || major! * 1_000 + minor! < 6_012) return undefined;
  const said = /^se\.slice\s*:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/sched`, 'utf8'))?.[1];
  return said === undefined ? undefined : Number(said);
}

t.test(
  'a process that clients wait for takes short time slices, and keeps its priority',
  { skip: turnNs('self') === undefined },
  async (t) => {
    const child = spawn('sleep', ['60'], { stdio: 'ignore' });
    t.teardown(() => child.kill());
    os.setPriority(child.pid!, 2);
    useShortTimeSlices(child.pid!);
    t.equal(turnNs(child.pid!), 300_000);
    t.equal(os.getPriority(child.pid), 2);
  },
);

t.test('what cannot be set is let be', async (t) => {
  t.doesNotThrow(() => lowerPriority(2 ** 22 + 1, NICE.pipelines), 'no such process');
  t.doesNotThrow(() => useShortTimeSlices(2 ** 22 + 1), 'nor this one');
});
