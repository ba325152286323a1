// The shared asynchronous helpers, by counts and order, never by the clock.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Periodic, withTimeout } from '../../src/common/async.ts';

t.test('Periodic', async (t) => {
  t.test('never has two runs at once, and a request meanwhile joins the run under way', async (t) => {
    let [running, most, runs] = [0, 0, 0];
    const periodic = new Periodic(1, async () => {
      most = Math.max(most, ++running);
      await sleep(10);
      running--;
      runs++;
    });
    periodic.start();
    await Promise.all([periodic.run(), periodic.run()]);
    t.equal(runs, 1);
    while (runs < 4) await sleep(1);
    await periodic.stop();
    t.equal(most, 1);
  });

  t.test('stops after the run under way, and begins no other', async (t) => {
    let [ended, begun] = [0, 0];
    const periodic = new Periodic(1, async () => {
      begun++;
      await sleep(20);
      ended++;
    });
    periodic.start();
    t.ok(periodic.isStarted);
    while (begun === 0) await sleep(1);
    await periodic.stop();
    t.notOk(periodic.isStarted);
    t.equal(ended, 1);
    await sleep(10);
    t.equal(begun, 1);
  });
});

t.test('withTimeout', async (t) => {
  const never = new Promise<string>(() => undefined);
  t.equal(await withTimeout(Promise.resolve('in time'), 60_000, () => 'late'), 'in time');
  t.equal(await withTimeout(never, 1, () => 'late'), 'late');
  await t.rejects(
    withTimeout(Promise.reject(new Error('its own')), 60_000, () => 'late'),
    { message: 'its own' },
  );
  const late = () => {
    throw new Error('timed out');
  };
  await t.rejects(withTimeout(never, 1, late), { message: 'timed out' });
});
