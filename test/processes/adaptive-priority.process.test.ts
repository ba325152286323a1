// Adaptive priority: how the priorities of children change while they run, read off the kernel; the clock is driven,
// but for the silence.
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { AdaptivePriority, LOWERED_NICE } from '../../src/embedded/adaptive-priority.ts';
import { NICE } from '../../src/embedded/process-priority.ts';
import { createLog } from '../../src/process/log.ts';

const log = createLog({ level: 'silent', processName: 'test' });
const skip = !existsSync('/proc/self/autogroup') && 'a kernel without autogroups';

/** Leads a session of its own, as the supervisor's children do. */
function sleeper(t: Test): number {
  const child: ChildProcess = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' });
  t.teardown(() => child.kill());
  return child.pid!;
}

const groupNice = (pid: number) => Number(/nice (-?\d+)/.exec(readFileSync(`/proc/${pid}/autogroup`, 'utf8'))![1]);

function begin(t: Test) {
  const pids = { pipelines: sleeper(t), clickhouse: sleeper(t) };
  let nowMs = 1_000_000;
  const priority = new AdaptivePriority({ pidOf: (child) => pids[child], log, now: () => nowMs });
  priority.start();
  t.teardown(() => priority.stop());
  /**
   * Says the same for so long, and then what the children have, once the kernel has taken it: without privileges it
   * takes one change in 100 ms.
   */
  const after = async (ms: number, behindMs: number): Promise<string> => {
    for (const endMs = nowMs + ms; nowMs < endMs; ) {
      nowMs += 250;
      priority.heard(behindMs);
    }
    for (let i = 0; i < 4; i++) {
      await sleep(110);
      priority.heard(behindMs);
    }
    return state();
  };
  const state = () => {
    const { pipelines, clickhouse } = pids;
    const nices = `${groupNice(pipelines)} ${groupNice(clickhouse)}`;
    if (nices === `${LOWERED_NICE.pipelines} ${LOWERED_NICE.clickhouse}`) return 'lowered';
    return nices === `${NICE.pipelines} ${NICE.clickhouse}` ? 'usual' : nices;
  };
  return { pids, after, state };
}

t.test(
  'who keeps up for two seconds is lowered, who is a second behind is not, and it takes longer each time',
  { skip },
  async (t) => {
    const { after } = begin(t);
    t.equal(await after(1_750, 200), 'usual');
    t.equal(await after(250, 200), 'lowered');
    t.equal(await after(10_000, 900), 'lowered', 'as long as it keeps up');
    t.equal(await after(250, 1_100), 'usual', 'at once');
    t.equal(await after(1_500, 300), 'usual');
    t.equal(await after(500, 300), 'lowered', 'it had lasted: two seconds again');
    t.equal(await after(250, 5_000), 'usual');
    t.equal(await after(3_500, 300), 'usual', 'it had not lasted');
    t.equal(await after(500, 300), 'lowered', 'after four seconds');
  },
);

t.test('with nothing to store no process is lowered for longer than a minute', { skip }, async (t) => {
  const { after } = begin(t);
  t.equal(await after(10_000, 0), 'usual', 'no other work');
  t.equal(await after(250, 200), 'lowered');
  t.equal(await after(60_000, 0), 'lowered');
  t.equal(await after(500, 0), 'usual');
});

t.test('who falls silent has the usual weight, a new child of the same name too', { skip }, async (t) => {
  const { pids, after, state } = begin(t);
  t.equal(await after(2_000, 200), 'lowered');
  for (let i = 0; state() !== 'usual' && i < 100; i++) await sleep(100);
  t.equal(state(), 'usual');
  t.equal(await after(4_000, 200), 'lowered');
  pids.pipelines = sleeper(t);
  t.equal(await after(250, 200), 'lowered', 'the new one as well');
  pids.clickhouse = 2 ** 22 + 1;
  await t.resolves(async () => {
    for (const behindMs of [200, 2_000]) await after(250, behindMs).catch(() => undefined);
  }, 'one that is gone');
  t.equal(groupNice(pids.pipelines), NICE.pipelines, 'the other one is dealt with');
});
