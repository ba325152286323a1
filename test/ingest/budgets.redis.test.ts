// The counters of budgets on a real Redis: random traces over several batchers against a reference in plain lists,
// many prompts at once, callers that are killed, what comes twice, late or never.
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { mintId } from '../../src/common/ids.ts';
import { SpendBatcher } from '../../src/ingest/spend-batcher.ts';
import {
  type Reserve,
  type Settle,
  type SpendAnswer,
  type SpendOf,
  type SpendOperation,
  SpendStore,
} from '../../src/policy/quotas/spend-store.ts';
import { type Commands, connectCommands } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import { ReferenceBudget } from '../reference/budgets.ts';
import { opened, replicaOf, startCluster, startRedis, untilConnected } from '../support/redis.ts';

const server = await startRedis(t, { single: true });
const keys = new Keys({ prefix: 'budgets-', partitions: 2 });
const account = mintId('account', Date.now());
const agent = mintId('agent', Date.now());
const WINDOW_MS = 86_400_000;
const LIFE_MS = 2 * WINDOW_MS;

type Front = { spends: SpendBatcher; store: SpendStore; redis: Commands };

async function front(t: Test, { address } = server): Promise<Front> {
  const redis = await opened(t, untilConnected(connectCommands(address)));
  const store = new SpendStore(redis, keys);
  return { store, redis, spends: new SpendBatcher(store) };
}

function ask({ spends }: Front, of: SpendOf, operation: SpendOperation): Promise<SpendAnswer> {
  return new Promise((resolve, refused) => {
    spends.ask(account, [{ of, operation }], { spent: ([answer]) => resolve(answer!), refused });
  });
}

/** A budget whose past is known. */
async function budget(one: Front): Promise<SpendOf> {
  const of = { policyId: mintId('policy', Date.now()), form: 'form' };
  await ask(one, of, { op: 'begin', life: LIFE_MS });
  await ask(one, of, { op: 'known' });
  return of;
}

const scoped = { ms: WINDOW_MS, scope: agent, shown: agent, life: LIFE_MS };
const reserving = (id: string, amount: number, more: Partial<Reserve> = {}): Reserve => ({
  op: 'reserve',
  ...{ id, agent, who: 'who', model: 'model', ...scoped, limit: 100, fixed: amount, rate: 0, output: 0 },
  ...{ expected: false, guess: 0, hold: 60_000, counted: false, ...more },
});
const using = (id: string, target: string, amount: number, who = 'who') =>
  ({ op: 'use', id, agent, who, model: 'model', target, amount, output: -1 }) as const;
const settling = (number: number, target: string, amount: number, more: Partial<Settle> = {}): Settle => ({
  ...{ op: 'settle', ...scoped, target, amount, limit: 100, warn: [], stream: 'stream', place: [number, 0, 0] },
  ...{ part: Math.floor((Date.now() * 60) / WINDOW_MS), at: Date.now() + 60_000, ...more },
});

async function stateOf(one: Front, of: SpendOf): Promise<{ spent: number; reserved: number }> {
  const [, , , spent, reserved] = await ask(one, of, { op: 'read', ms: WINDOW_MS, scope: agent, most: 1 });
  return { spent: Number(spent), reserved: Number(reserved) };
}

t.test('500 prompts at once over 8 fronts on a budget for 100: exactly 100', async (t) => {
  const fronts = await Promise.all(Array.from({ length: 8 }, () => front(t)));
  const of = await budget(fronts[0]!);
  const answers = await Promise.all(
    Array.from({ length: 500 }, (_, i) => ask(fronts[i % 8]!, of, reserving(`evt-${i}`, 1))),
  );
  t.equal(answers.filter(([word]) => word === 'yes').length, 100);
  t.same(await stateOf(fronts[0]!, of), { spent: 0, reserved: 100 });
});

t.test('what is held ends by itself: the callers are gone, and left is limit less spent', async (t) => {
  const one = await front(t);
  const of = await budget(one);
  const held = Array.from({ length: 10 }, (_, i) => ask(one, of, reserving(`evt-${i}`, 10, { hold: 2_000 })));
  await Promise.all(held);
  t.match(await ask(one, of, reserving('late', 1)), ['no', '1', '0'], 'all of it is held');
  // Half of them come back with what they used.
  for (let i = 0; i < 5; i++) {
    t.match(await ask(one, of, using(`done-${i}`, `evt-${i}`, 3)), ['found', agent, `evt-${i}`]);
    await ask(one, of, settling(i + 1, `evt-${i}`, 3));
  }
  t.same(await stateOf(one, of), { spent: 15, reserved: 50 });
  await sleep(2_050);
  t.same(await stateOf(one, of), { spent: 15, reserved: 0 });
  t.match(await ask(one, of, reserving('all', 85)), ['yes', '85', '0'], 'to the unit');
});

t.test('of the largest limit and the lowest price it is said at once what fits', async (t) => {
  const one = await front(t);
  const of = await budget(one);
  for (const [rate, fits] of [
    [1, '1000000000000'],
    [9_999, '1000000000000'],
    [1_000_000_007, '999999992999'],
  ] as const) {
    const [word, , , tokens] = await ask(one, of, reserving(`at ${rate}`, 7, { limit: 10 ** 15, rate, output: 1 }));
    t.same([word, tokens], ['yes', fits]);
  }
});

t.test('what is counted stays below what a counter holds, however much events say', async (t) => {
  const one = await front(t);
  const of = await budget(one);
  const most = Number.MAX_SAFE_INTEGER;
  const each = Array.from({ length: 1_100 }, (_, i) => i + 1);
  await Promise.all(each.map((i) => ask(one, of, settling(i, '', most))));
  await Promise.all(each.map((i) => ask(one, of, reserving(`evt-${i}`, most, { counted: true }))));
  await Promise.all(each.map((i) => ask(one, of, using(`done-${i}`, `evt-${i}`, most))));
  const { spent, reserved } = await stateOf(one, of);
  t.ok(spent >= 9e15 && reserved > 9e17);
  t.match(await ask(one, of, reserving('late', 1)), ['no']);
  await Promise.all(each.map((i) => ask(one, of, settling(1_100 + i, `evt-${i}`, 0))));
  t.match(await stateOf(one, of), { reserved: 0 }, 'what was let go of is what was held');
});

t.test('settlements that come twice, late, or from another', async (t) => {
  const one = await front(t);
  const of = await budget(one);
  await ask(one, of, reserving('evt-1', 10, { hold: 200 }));
  t.match(await ask(one, of, reserving('evt-1', 10, { hold: 200 })), ['yes', '10', '90'], 'an id is reserved for once');
  t.match(await ask(one, of, { ...using('x', 'evt-1', 1), agent: 'another' }), ['own'], 'it is not its call');
  t.match(await ask(one, of, using('done', 'evt-1', 4)), ['found', agent, 'evt-1']);
  t.match(await ask(one, of, using('done', 'evt-1', 4)), ['found'], 'the same event again');
  t.match(await ask(one, of, using('again', 'evt-1', 4)), ['twice'], 'another for the same prompt');
  await ask(one, of, settling(1, 'evt-1', 4));
  await ask(one, of, settling(1, 'evt-1', 4));
  t.same(await stateOf(one, of), { spent: 4, reserved: 0 }, 'delivered twice, charged once');
  await ask(one, of, settling(1, '', 4, { stream: 'other' }));
  t.equal((await stateOf(one, of)).spent, 8, 'places are of their stream');
  await ask(one, of, reserving('evt-2', 10, { hold: 100 }));
  await sleep(150);
  t.equal((await stateOf(one, of)).reserved, 0);
  t.match(await ask(one, of, using('late', 'evt-2', 7)), ['found', agent, 'evt-2'], 'late, and its scope is known');
  t.match(await ask(one, of, using('lone', '', 7, 'whoever')), ['own']);
});

t.test('what was before is read once, and what comes meanwhile is counted', async (t) => {
  const one = await front(t);
  const of = { policyId: mintId('policy', Date.now()), form: 'form' };
  t.match(await ask(one, of, reserving('evt-1', 1)), ['unknown']);
  await ask(one, of, settling(1, '', 5));
  const [from] = await ask(one, of, { op: 'begin', life: LIFE_MS });
  await ask(one, of, settling(2, '', 7, { at: Number(from) - 1 }));
  await ask(one, of, settling(3, '', 11, { at: Number(from) }));
  const part = Math.floor((Date.now() * 60) / WINDOW_MS);
  const parts = [part - 61, 1_000, part - 1, 12];
  await ask(one, of, { op: 'fill', ...scoped, parts });
  await ask(one, of, { op: 'fill', ...scoped, parts });
  await ask(one, of, { op: 'known' });
  t.same(await stateOf(one, of), { spent: 23, reserved: 0 }, 'that of before from the rows, that of after by itself');
  t.match(await ask(one, of, reserving('evt-1', 77)), ['yes', '77', '0']);
  await ask(one, of, { op: 'forget' });
  await ask(one, of, { op: 'fill', ...scoped, parts, from: Number(from) });
  await ask(one, of, { op: 'known', from: Number(from) });
  t.match(await ask(one, of, reserving('evt-2', 1)), ['unknown'], 'who was at it when it was forgotten does nothing');
  t.same(await stateOf(one, of), { spent: 0, reserved: 0 });
});

t.test('a front whose clock jumps: what is charged is what its rows say, as long as they say it', async (t) => {
  const one = await front(t);
  const of = await budget(one);
  const nowMs = Date.now();
  const at = (aheadMs: number) => ({
    ...{ at: nowMs + 60_000 + aheadMs, part: Math.floor(((nowMs + aheadMs) * 60) / WINDOW_MS) },
    ms: WINDOW_MS,
  });
  await ask(one, of, reserving('evt-1', 10));
  await ask(one, of, settling(1, 'evt-1', 4, at(300_000)));
  await ask(one, of, settling(2, '', 5, at(0)));
  await ask(one, of, settling(3, '', 6, { ...at(0), part: at(-WINDOW_MS / 2).part }));
  t.same(await stateOf(one, of), { spent: 15, reserved: 0 }, 'none is lost, and each is charged once');
  await ask(one, of, settling(4, '', 7, { ...at(0), part: at(-2 * WINDOW_MS).part }));
  t.equal((await stateOf(one, of)).spent, 15, 'what came in a window that is over is charged to that');
  t.match(await ask(one, of, reserving('evt-2', 86)), ['no', '86', '85'], 'to the unit');
});

t.test('expected: what 95 of 100 calls of the agent and model stayed within', async (t) => {
  const one = await front(t);
  const of = await budget(one);
  const call = { limit: 1_000_000, rate: 1_000_000, output: -1, expected: true, guess: 500 };
  t.match(await ask(one, of, reserving('evt-0', 10, call)), ['yes', '510'], 'nothing is known yet');
  for (let i = 0; i < 40; i++)
    await ask(one, of, { ...using(`done-${i}`, '', 0, 'none'), output: i < 39 ? 100 : 9_000 });
  const [, usual] = await ask(one, of, reserving('evt-1', 10, call));
  t.ok(Number(usual) >= 110 && Number(usual) <= 10 + 100 * 2 ** 0.25 + 1, String(usual));
  t.match(await ask(one, of, reserving('evt-2', 10, { ...call, output: 20 })), ['yes', '30'], 'no more than it allows');
  t.match(await ask(one, of, reserving('evt-3', 10, { ...call, expected: false, output: 9 })), ['yes', '19']);
});

t.test('shares are said once a window, and again where an entry is delivered again', async (t) => {
  const one = await front(t);
  const of = await budget(one);
  const warn = [0.5, 0.9];
  t.same((await ask(one, of, settling(1, '', 49, { warn }))).slice(1), []);
  t.same((await ask(one, of, settling(2, '', 1, { warn }))).slice(1), ['0.5']);
  t.same((await ask(one, of, settling(2, '', 1, { warn }))).slice(1), ['0.5'], 'the same place');
  t.same((await ask(one, of, settling(3, '', 50, { warn }))).slice(1), ['0.9']);
  t.same((await ask(one, of, settling(4, '', 1, { warn }))).slice(1), []);
});

t.test('nothing is reserved or charged that a master takes along when it dies: a replica has it', async (t) => {
  const redis = await startCluster(t, { replicas: 1 });
  const one = await front(t, redis);
  const of = await budget(one);
  const slot = Number(await one.redis.call('CLUSTER', 'KEYSLOT', keys.budget(account, of.policyId, of.form)));
  // Three masters share the slots in their order.
  const master = redis.servers[Math.min(2, Math.floor(slot / 5461))]!;
  const replica = await replicaOf(redis.servers, master);
  t.match(await ask(one, of, reserving('evt-1', 10)), ['yes']);
  replica.child.kill('SIGSTOP');
  await t.rejects(ask(one, of, reserving('evt-2', 10)), { code: 'unavailable', recorded: false });
  await t.rejects(one.store.run(account, [{ of, operation: settling(1, 'evt-1', 4) }]), { name: 'RedisUnavailable' });
  replica.child.kill('SIGCONT');
  await ask(one, of, settling(1, 'evt-1', 4));
  t.same(await stateOf(one, of), { spent: 4, reserved: 10 }, 'what is tried again is charged once; the other ends');
});

const STEP = fc.record({
  kind: fc.constantFrom('prompt', 'prompt', 'completion', 'completion', 'lost', 'error', 'again'),
  who: fc.constantFrom('a', 'b'),
  amount: fc.integer({ min: 0, max: 40 }),
  saysUse: fc.boolean(),
  target: fc.nat({ max: 20 }),
  namesIt: fc.boolean(),
});

for (const fronts of [1, 2, 8])
  t.test(`random traces over ${fronts} batchers count as the reference does`, async (t) => {
    const all = await Promise.all(Array.from({ length: fronts }, () => front(t)));
    await fc.assert(
      fc.asyncProperty(fc.array(STEP, { maxLength: 60 }), fc.boolean(), async (steps, counted) => {
        const of = await budget(all[0]!);
        const reference = new ReferenceBudget({ limit: 100, windowMs: WINDOW_MS, holdMs: 60_000, isCounted: counted });
        const prompts: string[] = [];
        const settlements: Settle[] = [];
        for (const [i, { kind, who, amount, saysUse, target: nth, namesIt }] of steps.entries()) {
          const one = all[i % fronts]!;
          const [id, nowMs] = [`evt-${i}`, Date.now()];
          const target = namesIt ? (prompts[nth % Math.max(1, prompts.length)] ?? '') : '';
          if (kind === 'prompt') {
            const [word] = await ask(one, of, reserving(id, amount, { who, counted }));
            const fits = reference.reserve(id, { agent, who, amount }, nowMs);
            if (word !== (fits ? 'yes' : 'no')) throw new Error(`prompt ${word} ${fits}`);
            prompts.push(id);
          } else if (kind === 'again') {
            const last = settlements.at(-1);
            if (last !== undefined) await ask(one, of, last);
          } else if (kind === 'error') {
            const about = { agent, who, target };
            const [word, , found] = await ask(one, of, { op: 'release', id, ...about });
            const expected = reference.release(about, nowMs);
            if (word !== expected.word || (word === 'found' && found !== expected.target))
              throw new Error(`released ${word} ${found} ${JSON.stringify(expected)}`);
          } else {
            const used = saysUse ? amount : -1;
            const [word, , found, , charged] = await ask(one, of, using(id, target, used, who));
            const expected = reference.use(id, { agent, who, target, amount: used }, nowMs);
            if (word !== expected.word || (word === 'found' && found !== expected.target))
              throw new Error(`${word} ${found} ${JSON.stringify(expected)}`);
            if (word === 'twice') continue;
            if (Number(charged) !== expected.amount) throw new Error(`charged ${charged} ${expected.amount}`);
            if (kind === 'lost') {
              if (word === 'found') {
                await ask(one, of, { op: 'unuse', id, agent, who: '', target: found! });
                reference.unuse(id, found!);
              }
              continue;
            }
            const settlement = settling(i + 1, expected.target, expected.amount, { part: reference.partOf(nowMs) });
            settlements.push(settlement);
            await ask(one, of, settlement);
            reference.settle(String(i), expected, nowMs);
          }
          const { spent, reserved } = await stateOf(all[(i + 1) % fronts]!, of);
          if (spent !== reference.spent(nowMs) || reserved !== reference.reserved(nowMs))
            throw new Error(`state ${spent} ${reserved} ${reference.spent(nowMs)} ${reference.reserved(nowMs)}`);
        }
      }),
      { numRuns: 60 },
    );
    t.pass();
  });
