// What a page may not do: hold up who uses it by a task of more than 50 ms. Tasks are timed by the clock on the wall,
// so on a machine that others share a short task can seem to be a long one: a loop of which it is known what it takes
// runs in the page before and after, and says how far the clock can be believed.
// Invariant: a task that the page itself makes long is so in each try, so one try without any is enough; only where
// the machine was quiet, and no try was without, the page is at fault. That the browser reports long tasks is seen.
import type { Page } from 'playwright-core';
import type { Test } from 'tap';

const TASK_MS_MAX = 50;
/** The ms that the loop takes in the page where nothing comes between: 10.3 was the fastest of 40. */
const LOOP_MS = 10;
/** Where one of many loops took more than this many times as long, the machine is busy. */
const SLOWNESS_MAX = 2;
const TRIES = 4;
/** A machine can get busy between two quiet loops, but hardly so often. */
const QUIET_TRIES_MIN = 2;

/** Runs in each document before its own scripts. */
const OBSERVE = `globalThis.longTasks = [];
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) longTasks.push(Math.round(duration));
}).observe({ type: 'longtask', buffered: true })`;
/** How long the slowest of some loops took, in milliseconds. */
const LOOPS = `(() => {
  const loop = () => { let x = 0; for (let i = 0; i < 2_000_000; i++) x = (x * 31 + i) | 0; return x; };
  for (let i = 0; i < 20; i++) loop();
  let slowest = 0;
  for (let i = 0; i < 20; i++) {
    const began = performance.now();
    loop();
    slowest = Math.max(slowest, performance.now() - began);
  }
  return slowest;
})()`;
const LONG_TASK = `void setTimeout(() => {
  const end = performance.now() + ${2 * TASK_MS_MAX};
  while (performance.now() < end);
})`;

/** `work` begins with a load of the page, and can be done again. */
export async function noLongTask(t: Test, page: Page, work: () => Promise<void>): Promise<void> {
  await page.addInitScript(OBSERVE);
  let quiet = 0;
  for (let tries = 0; tries < TRIES; tries++) {
    const before = await page.evaluate<number>(LOOPS);
    await work();
    const tasks = await page.evaluate<number[]>('longTasks');
    const slowness = Math.max(before, await page.evaluate<number>(LOOPS)) / LOOP_MS;
    t.comment(
      `tasks of ${JSON.stringify(tasks)} ms; the slowest loop took ${slowness.toFixed(1)} times what it should`,
    );
    if (tasks.length === 0) {
      await page.evaluate(LONG_TASK);
      await page.waitForFunction(`longTasks.some((ms) => ms >= ${TASK_MS_MAX})`);
      t.pass(`no task over ${TASK_MS_MAX} ms, and one that is would have been seen`);
      return;
    }
    if (slowness <= SLOWNESS_MAX) quiet++;
  }
  if (quiet >= QUIET_TRIES_MIN) t.fail(`a task over ${TASK_MS_MAX} ms in each of ${TRIES} tries, on a quiet machine`);
  else t.comment('the machine is busy: nothing is said of long tasks');
}
