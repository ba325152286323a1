// Question: how much of Redis's memory do sequences and budgets count by?
// Method: the counters' own scripts on a Redis that holds nothing else; `used_memory` before and after. A mark is an
// event that is a step of a sequence: of a value of `same` in a scope the last ways are kept, not the marks, so a
// million of them take what their scopes and values take. The bounds are in src/common/limits.ts and redis/spend.lua.
import type { Test } from 'tap';
import { mintId } from '../src/common/ids.ts';
import { SEQUENCE_SCOPES_MAX, SEQUENCE_VALUES_MAX } from '../src/common/limits.ts';
import { SequenceStore } from '../src/policy/quotas/sequence-store.ts';
import { type SpendOperation, SpendStore } from '../src/policy/quotas/spend-store.ts';
import { ZERO } from '../src/policy/sequences/summed-amount.ts';
import { type Commands, connectCommands, waitUntilReady } from '../src/redis/client.ts';
import { Keys } from '../src/redis/keys.ts';
import { startRedis } from '../test/support/redis.ts';
import { beginLine, hand, type Row } from './report.ts';

const DAY_MS = 86_400_000;
const AT_ONCE = 500;
const ACCOUNT = mintId('account', Date.now());
const keys = new Keys({ prefix: 'bench-', partitions: 2 });

/** `add`: adds those from one number up to another. */
type Counted = { what: string; count: number; add: (from: number, to: number) => Promise<unknown> };

export async function countedState({ events }: { events: number }): Promise<boolean> {
  const machine = beginLine('counted-state');
  const teardowns: (() => unknown)[] = [];
  const owner = { teardown: (end: () => unknown) => void teardowns.push(end) } as unknown as Test;
  const { address } = await startRedis(owner, { single: true });
  const redis = connectCommands(address);
  try {
    await waitUntilReady(redis, 10_000);
    const rows: Row[] = [];
    for (const counted of [...sequences(redis, events), ...budgets(redis, events)])
      rows.push(await measured(redis, counted));
    const question = 'how much of Redis do marks and scopes of sequences, scopes and reservations of budgets take?';
    hand({ line: 'counted-state', question, command: 'npm run bench -- counted-state', rows }, machine);
    return true;
  } finally {
    redis.disconnect();
    for (const end of teardowns.toReversed()) await end();
  }
}

async function measured(redis: Commands, { what, count, add }: Counted): Promise<Row> {
  const used = async () => Number(/used_memory:(\d+)/.exec(await redis.info('memory'))![1]);
  await add(0, 1); // scripts, and what all of them share
  const before = await used();
  for (let from = 1; from < count; from += AT_ONCE) await add(from, Math.min(count, from + AT_ONCE));
  const each = ((await used()) - before) / (count - 1);
  return { what, 'how many': count, 'bytes each': Math.round(each), 'MB a million': Math.round(each) };
}

/** `where`: value and scope of the mark of a number. */
type Marked = { what: string; count: number; atLeast?: number; where: (i: number) => [value: string, scope: number] };

function sequences(redis: Commands, events: number): Counted[] {
  const store = new SequenceStore(redis, keys);
  const scopes = SEQUENCE_SCOPES_MAX;
  const values = SEQUENCE_VALUES_MAX;
  const all: Marked[] = [
    { what: 'scope of a sequence', count: scopes, where: (i) => ['', i] },
    { what: 'mark in a scope that is there', count: events, where: (i) => ['', i % 10] },
    { what: 'value of `same` in a scope', count: events, where: (i) => [`${i % values}`, Math.floor(i / values)] },
    { what: 'mark with `at_least` 100', count: events, atLeast: 100, where: (i) => ['', Math.floor(i / 100)] },
  ];
  return all.map(({ what, count, atLeast = 1, where }, n) => {
    const memory = { name: `pol_${n}/m`, windowMs: DAY_MS, steps: 1, atLeast, hasUnless: false, most: null };
    const markOf = (i: number) => {
      const [value, scope] = where(i);
      const [id, agent] = [mintId('event', Date.now()), mintId('agent', scope)];
      const places = [{ place: 1, path: '/arguments/path', isOfAnyOutcome: false }];
      const marks = [{ memory, scope: { own: `agent ${scope}`, agent: null }, value, amount: ZERO, places }];
      return { ...{ id, agent, asks: [], later: [], waitMs: 0 }, outcome: 'allowed' as const, marks };
    };
    const add = async (from: number, to: number) => {
      if (from === 0) await redis.hset(keys.sequences(ACCOUNT), memory.name, '1');
      const marked = Array.from({ length: to - from }, (_, k) => markOf(from + k));
      await store.count(ACCOUNT, { events: marked, submission: `${from}` });
    };
    return { what, count, add };
  });
}

function budgets(redis: Commands, events: number): Counted[] {
  const store = new SpendStore(redis, keys);
  const all: [what: string, operations: (i: number) => SpendOperation[]][] = [
    ['scope of a budget in which something is spent', (i) => [settled(i, i)]],
    ['reservation', (i) => [reserved(i)]],
    ['call that is settled, until twice its hold', (i) => [reserved(i), used(i), settled(i, i % 100)]],
  ];
  return all.map(([what, operations], n) => {
    const of = { policyId: `pol_${n}`, form: 'form' };
    const add = async (from: number, to: number) => {
      const asked = Array.from({ length: to - from }, (_, k) => operations(from + k)).flat();
      if (from === 0) asked.unshift({ op: 'begin', life: DAY_MS }, { op: 'known' });
      await store.run(
        ACCOUNT,
        asked.map((operation) => ({ of, operation })),
      );
    };
    return { what, count: events, add };
  });
}

const idOf = (i: number) => `evt_${String(i).padStart(26, '0')}`;
const scoped = (scope: number) => ({ ms: DAY_MS, scope: `scope-${scope}`, shown: `scope-${scope}`, life: DAY_MS });
const who = (i: number) => ({ agent: 'agent', who: `who-${i % 1_000}`, model: 'model' });
const ESTIMATE = { limit: 10 ** 15, fixed: 1, rate: 0, output: 0, expected: false, guess: 0, hold: 600_000 };

const reserved = (i: number): SpendOperation => ({
  ...{ op: 'reserve', id: idOf(i), ...who(i), ...scoped(i % 100), ...ESTIMATE, counted: false },
});

const used = (i: number): SpendOperation => ({
  ...{ op: 'use', id: `done-${i}`, ...who(i), target: idOf(i), amount: 1, output: -1 },
});

function settled(i: number, scope: number): SpendOperation {
  const part = Math.floor((Date.now() * 60) / DAY_MS);
  const at = { at: Date.now() + 60_000, part, stream: 'stream', place: [i + 1, 0, 0] as const };
  return { op: 'settle', ...scoped(scope), amount: 1, target: idOf(i), limit: 10 ** 15, warn: [], ...at };
}
