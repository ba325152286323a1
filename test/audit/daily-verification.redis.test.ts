// The verification that runs by itself: over all accounts in slices, on after a restart, and what it says of the last
// one that went through. What a verification finds is given by a table here: that it finds it is held by other tests.
import t, { type Test } from 'tap';
import type { AuditVerification } from '../../schemas/audit-verification.ts';
import { isoTime } from '../../schemas/time.ts';
import { DailyVerification, readVerification } from '../../src/audit/daily-verification.ts';
import type { VerifyOptions } from '../../src/audit/verifier.ts';
import { mintId } from '../../src/common/ids.ts';
import { LEASE_MS } from '../../src/common/limits.ts';
import { connectCommands } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import { acquireLease } from '../../src/streams/lease.ts';
import { silent } from '../streams/harness.ts';
import { pause } from '../support/raw-http.ts';
import { opened, startRedis } from '../support/redis.ts';

const DAY_MS = 86_400_000;
const NOW = Date.parse('2026-11-20T00:00:00Z');

async function begin(t: Test) {
  const { address } = await startRedis(t);
  const redis = await opened(t, connectCommands(address));
  const keys = new Keys({ prefix: 'gh-', partitions: 1 });
  const ids = [mintId('account', NOW - 90 * DAY_MS), mintId('account', NOW - 80 * DAY_MS)].sort();
  const asked: { account: string; fromMs: number; toMs?: number }[] = [];
  const answers: Partial<AuditVerification>[] = [];
  const world = { nowMs: NOW, asked, answers, ids, takesMs: 0 };
  const make = (processName = 'backtests') =>
    new DailyVerification({
      ...{ redis, keys, retentionDays: 60, mayWork: () => true, log: silent, now: () => world.nowMs, processName },
      accounts: async () => ids,
      settle: async () => true,
      async verify(account: string, { fromMs, toMs }: VerifyOptions) {
        asked.push({ account, fromMs: fromMs!, ...(toMs === undefined ? {} : { toMs }) });
        await pause(world.takesMs);
        return { valid: true, truncated: false, faults: 0, ...answers.shift() } as AuditVerification;
      },
    });
  return { ...world, world, redis, keys, make, read: () => readVerification(redis, keys) };
}

t.test('all accounts, the first time whole, then what is new and a part of what is older', async (t) => {
  const { world, asked, ids, answers, make, read } = await begin(t);
  answers.push({ valid: null, truncated: true, continue_from: isoTime(NOW - 10 * DAY_MS) });
  await make().step();
  t.equal((await read()).verified, 0, 'nothing is verified yet');
  for (let n = 0; n < 3; n++) await make().step();
  t.same(asked, [
    { account: ids[0], fromMs: 0 },
    { account: ids[0], fromMs: NOW - 10 * DAY_MS },
    { account: ids[1], fromMs: 0 },
  ]);
  t.match(await read(), { verified: NOW, isRunning: false, invalid: [] });
  t.equal(await make().step(), false, 'not before a day is over');

  world.nowMs += DAY_MS;
  asked.length = 0;
  for (let n = 0; n < 5; n++) await make().step();
  t.equal(asked.length, 4);
  t.ok(asked[0]!.fromMs <= NOW && asked[0]!.toMs === undefined, 'what is new');
  const [, { fromMs, toMs }] = asked as [object, { fromMs: number; toMs: number }];
  t.ok(fromMs >= world.nowMs - 60 * DAY_MS && toMs <= NOW && toMs - fromMs > DAY_MS, 'and a thirtieth of the rest');
  t.match(await read(), { verified: world.nowMs, isRunning: false });
});

t.test('in thirty days each time has had its turn', async (t) => {
  const { world, asked, ids, make } = await begin(t);
  ids.length = 1;
  const seen: [number, number][] = [];
  for (let day = 0; day < 31; day++) {
    asked.length = 0;
    for (let n = 0; n < 4; n++) await make().step();
    for (const { fromMs, toMs } of asked) if (toMs !== undefined) seen.push([fromMs, toMs]);
    world.nowMs += DAY_MS;
  }
  // What has expired meanwhile need not.
  for (let ms = world.nowMs - 55 * DAY_MS; ms < NOW - 3 * DAY_MS; ms += DAY_MS / 2)
    t.ok(
      seen.some(([from, to]) => from <= ms + 2 * DAY_MS && to >= ms),
      isoTime(ms),
    );
});

t.test('what is invalid stays so until it is mended, and is looked at again, whole, after an hour', async (t) => {
  const { world, asked, ids, answers, make, read } = await begin(t);
  for (let n = 0; n < 3; n++) await make().step();
  world.nowMs += DAY_MS;
  answers.push({ valid: true }, { valid: false, faults: 1, first_invalid: null });
  for (let n = 0; n < 2; n++) await make().step();
  t.same((await read()).found, [ids[0]], 'said at once');
  for (let n = 0; n < 3; n++) await make().step();
  t.match(await read(), { invalid: [ids[0]], isRunning: false });
  world.nowMs += 3_600_000;
  asked.length = 0;
  answers.push({ valid: false, faults: 1, first_invalid: null });
  for (let n = 0; n < 4; n++) await make().step();
  t.same(asked[0], { account: ids[0], fromMs: 0 });
  t.match(await read(), { invalid: [ids[0]] });
  world.nowMs += 3_600_000;
  for (let n = 0; n < 4; n++) await make().step();
  t.match(await read(), { invalid: [], verified: world.nowMs });
});

t.test('a slice that got no further has more time the next time', async (t) => {
  const { answers, make, read } = await begin(t);
  const still = { valid: null, truncated: true, continue_from: isoTime(0) };
  answers.push(still, still, { valid: true });
  const budgets: number[] = [];
  for (let n = 0; n < 3; n++) {
    await make().step();
    budgets.push((await read()).budgetMs);
  }
  t.same(budgets, [10_000, 20_000, 5_000]);
});

t.test('a process that was killed over it is not waited for, one that is alive is', async (t) => {
  const { redis, keys, world, asked, make } = await begin(t);
  const names = { lease: keys.auditVerificationLease(), fence: keys.auditVerificationFence() };
  const started = (owner: string) => {
    const one = make(owner);
    one.start();
    t.teardown(() => one.stop());
  };
  const killed = await acquireLease(redis, names, { owner: 'backtests-1', retake: false });
  started('backtests-2');
  await pause(1_000);
  t.same(asked, [], 'its lease stands');
  world.takesMs = 2 * LEASE_MS;
  started('backtests-1');
  for (const deadline = performance.now() + 60_000; asked.length === 0 && performance.now() < deadline; )
    await pause(20);
  t.equal(asked.length, 1, 'under its own name it goes on at once');
  t.not(await redis.get(names.lease), killed!.text);
  await pause(1.5 * LEASE_MS);
  t.equal(asked.length, 1, 'a slice that takes longer than the lease keeps it');
  const left = await redis.pttl(names.lease);
  t.ok(left > 0 && left <= LEASE_MS, `others wait for ${left} ms at most`);
});
