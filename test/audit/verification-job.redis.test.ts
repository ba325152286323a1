// Verifications that accounts order: the windows of time that a job is made of, how it goes on after a kill, and what
// ends it. What a verification finds is given by a table here: that it finds it is held by other tests.
import t, { type Test } from 'tap';
import type { AuditVerification } from '../../schemas/audit-verification.ts';
import { isoTime } from '../../schemas/time.ts';
import { VerificationJobs } from '../../src/audit/verification-job.ts';
import { VerificationWorker } from '../../src/audit/verification-worker.ts';
import type { VerifyOptions } from '../../src/audit/verifier.ts';
import { mintId } from '../../src/common/ids.ts';
import { connectCommands } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import { silent } from '../streams/harness.ts';
import { opened, startRedis } from '../support/redis.ts';

const DAY_MS = 86_400_000;
const REGISTRY = 3;
type Window = { fromMs: number; toMs: number; budgetMs: number };
type Finds = (asked: Window) => Partial<AuditVerification> | Error;

async function begin(t: Test) {
  const { address } = await startRedis(t);
  const redis = await opened(t, connectCommands(address));
  const keys = new Keys({ prefix: 'gh-', partitions: 1 });
  const bornMs = Date.now() - 64 * DAY_MS;
  const account = mintId('account', bornMs);
  const asked: Window[] = [];
  const world = { finds: (() => ({})) as Finds };
  const jobs = new VerificationJobs({ redis, keys });
  /** An event a day. */
  const entriesOf = ({ fromMs, toMs }: Window) => {
    const from = Math.max(0, Math.ceil((fromMs - bornMs) / DAY_MS));
    return Math.max(0, Math.min(63, Math.floor((toMs - bornMs) / DAY_MS)) - from + 1);
  };
  const make = (processName: string) =>
    new VerificationWorker({
      ...{ redis, keys, mayWork: () => true, settle: async () => true, log: silent, processName },
      async verify(_account: string, { fromMs = 0, toMs = Number.POSITIVE_INFINITY, budgetMs }: VerifyOptions) {
        const one = { fromMs, toMs, budgetMs };
        asked.push(one);
        const found = world.finds(one);
        if (found instanceof Error) throw found;
        const chains = [{ chain: 'registry', entries: REGISTRY, head: '' }];
        const whole = { valid: true, truncated: false, continue_from: null, markers: 0, faults: 0, chains };
        return { ...whole, entries: entriesOf(one) + REGISTRY, ...found } as unknown as AuditVerification;
      },
    });
  const read = () => jobs.get(account, Date.now());
  const run = async (by: VerificationWorker) => {
    for (let n = 0; n < 200 && (await read())?.status !== 'done'; n++) await by.look();
  };
  const whole = { fromMs: null, toMs: null };
  const order = (range: { fromMs: number | null; toMs: number | null } = whole) =>
    jobs.order(account, range, Date.now());
  return { redis, keys, account, bornMs, asked, world, jobs, make, read, run, order };
}

/** Each window that was verified begins where the one before ended, and the last is open. */
function tiles(t: Test, windows: readonly Window[]): void {
  t.equal(windows[0]?.fromMs, 0, 'from the first entry of a chain');
  for (const [i, { fromMs }] of windows.entries()) if (i > 0) t.equal(fromMs, windows[i - 1]!.toMs + 1, `window ${i}`);
  t.equal(windows.at(-1)?.toMs, Number.POSITIVE_INFINITY);
}

t.test('windows do not overlap, grow where they are quick, and count each entry once', async (t) => {
  const { asked, make, read, run, order } = await begin(t);
  t.match(await order(), { status: 'waiting', share: 0, verified_until: null, valid: null, found: null });
  const worker = make('backtests');
  await worker.look();
  const running = (await read())!;
  t.match(running, { status: 'running', valid: null, found: null });
  t.ok(running.share > 0.12 && running.share < 0.13 && running.entries > REGISTRY, `${running.share} is done`);
  await run(worker);
  t.match(await read(), { status: 'done', share: 1, valid: true, entries: 64 + REGISTRY, found: { valid: true } });
  t.ok(asked.length < 8, `${asked.length} windows`);
  tiles(t, asked);
  asked.length = 0;
  await worker.look();
  t.same(asked, [], 'nothing is left to be done');
});

t.test('a window that takes too long is halved, and a registry that does gets more time', async (t) => {
  const { asked, bornMs, world, make, read, run, order } = await begin(t);
  await order();
  const done: Window[] = [];
  let isSlow = true;
  world.finds = (one) => {
    if (Math.min(one.toMs, Date.now()) - Math.max(one.fromMs, Date.now() - 64 * DAY_MS) > 5 * DAY_MS)
      return { valid: null, truncated: true, continue_from: isoTime(Math.max(one.fromMs, bornMs) + DAY_MS) };
    if (isSlow && one.budgetMs < 80_000) return { valid: null, truncated: true, continue_from: isoTime(one.fromMs) };
    isSlow = false;
    done.push(one);
    return {};
  };
  await run(make('backtests'));
  t.match(await read(), { status: 'done', valid: true, entries: 64 + REGISTRY });
  tiles(t, done);
  t.ok(asked.length > done.length);
});

t.test('one that was killed goes on from its last window, and one that is away is tried again', async (t) => {
  const { asked, world, make, run, read, order } = await begin(t);
  await order();
  await make('backtests').look();
  world.finds = () => new Error('the store is away');
  await make('backtests').look();
  t.match(await read(), { status: 'running', valid: null });
  const kept = asked.length;
  world.finds = () => ({});
  await run(make('backtests'));
  t.equal(asked[kept]!.fromMs, asked[0]!.toMs + 1);
  t.match(await read(), { status: 'done', entries: 64 + REGISTRY });
});

t.test('what cannot be read again and again is given up, and an account beside it goes on', async (t) => {
  const { asked, world, make, read, order } = await begin(t);
  await order();
  world.finds = () => new Error('memory limit exceeded');
  const worker = make('backtests');
  for (let n = 0; n < 19; n++) await worker.look();
  t.match(await read(), { status: 'waiting', finished_at: null });
  t.ok(asked[1]!.toMs < asked[0]!.toMs, 'less of it is tried');
  await worker.look();
  t.match(await read(), { status: 'failed', valid: null, finished_at: String });
  await worker.look();
  t.equal(asked.length, 20, 'it is not tried any more');
});

t.test('a registry that takes long is no progress of a young account', async (t) => {
  const { asked, world, make, read, run, order } = await begin(t);
  await order();
  world.finds = ({ budgetMs }) =>
    budgetMs < 40_000 ? { valid: null, truncated: true, continue_from: isoTime(Date.now() - 365 * DAY_MS) } : {};
  await run(make('backtests'));
  t.match(await read(), { status: 'done', valid: true });
  t.ok(asked.length < 20, `${asked.length} tries`);
});

t.test('what is not valid ends it', async (t) => {
  const { asked, world, make, read, run, order } = await begin(t);
  await order();
  world.finds = ({ fromMs }) => (fromMs > 0 ? { valid: false, faults: 2 } : {});
  await run(make('backtests'));
  t.equal(asked.length, 2);
  t.match(await read(), { status: 'done', valid: false, found: { valid: false, faults: 2 } });
});

t.test('a range is kept to, and an order takes the place of the one before', async (t) => {
  const { redis, keys, account, bornMs, asked, world, jobs, make, read, run, order } = await begin(t);
  const range = { fromMs: bornMs + 10 * DAY_MS, toMs: bornMs + 20 * DAY_MS };
  await order();
  const worker = make('backtests');
  let isFirst = true;
  world.finds = () => {
    // The order comes while a window of the one before is verified.
    if (isFirst) void order(range);
    isFirst = false;
    return {};
  };
  await worker.look();
  t.match(await read(), { status: 'waiting', from: isoTime(range.fromMs), to: isoTime(range.toMs), entries: 0 });
  asked.length = 0;
  await run(worker);
  t.equal(asked[0]!.fromMs, range.fromMs);
  t.equal(asked.at(-1)!.toMs, range.toMs);
  t.match(await read(), { status: 'done', entries: 11 + REGISTRY, verified_until: isoTime(range.toMs) });
  await order();
  t.ok(await jobs.remove(account));
  t.notOk(await jobs.remove(account), 'once');
  asked.length = 0;
  await worker.look();
  t.same([asked, await read()], [[], null]);
  t.same(await redis.smembers(keys.verificationsWanted(keys.shardOf(account))), []);
});
