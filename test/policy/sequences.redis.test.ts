// What has occurred, as Redis keeps it and as it is kept in memory, against a plain reference that keeps everything:
// random policies and events, one by one and in batches, over 1, 2 and 8 fronts. And what fronts hear that ask at once.
import t, { type Test } from 'tap';
import { mintId } from '../../src/common/ids.ts';
import { EVENTS_AT_ONCE, SequenceStore, settledWrites } from '../../src/policy/quotas/sequence-store.ts';
import {
  isRepeatable,
  type Memory,
  type SequenceEvent,
  type SequenceMatch,
  type SequenceScope,
} from '../../src/policy/sequences/sequence-answer.ts';
import { laterMarks, SequenceMemory } from '../../src/policy/sequences/sequence-memory.ts';
import { limitOf, ZERO } from '../../src/policy/sequences/summed-amount.ts';
import { type Commands, connectCommands } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import { type PlainEvent, type PlainPart, type PlainPolicy, PlainSequences } from '../reference/sequences.ts';
import { opened, startRedis, untilConnected } from '../support/redis.ts';
import { randomFrom, runs, SEED } from '../support/seed.ts';

const server = await startRedis(t);
const keys = new Keys({ prefix: 'sequences-', partitions: 2 });
const CASES = runs(120);
const EVENTS = 60;
/** Far from what a test takes: Redis lets go of scopes by its own clock. */
const WINDOW_MS = 600_000;

function connect(t: Test): Promise<Commands> {
  return opened(t, untilConnected(connectCommands(server.address)));
}

type Random = () => number;
const oneOf = <T>(random: Random, of: readonly T[]): T => of[Math.floor(random() * of.length)]!;

function policy(random: Random): PlainPolicy {
  const steps = oneOf(random, [0, 1, 1, 2, 3]);
  const most = steps > 0 && random() < 0.3 ? oneOf(random, [0, 1_500_000, 2_000_001]) : null;
  return {
    steps,
    hasUnless: steps === 0 || random() < 0.3,
    atLeast: steps > 0 && most === null && random() < 0.4 ? oneOf(random, [2, 3]) : 1,
    windowMs: oneOf(random, [WINDOW_MS, WINDOW_MS / 4]),
    per: oneOf(random, ['trace', 'trace', 'agent', 'account'] as const),
    hasSame: random() < 0.4,
    blocks: random() < 0.3,
    most,
  };
}

function part(random: Random, { steps, hasUnless, hasSame }: PlainPolicy): PlainPart {
  const all = Array.from({ length: steps + 1 }, (_, place) => place).slice(hasUnless ? 0 : 1);
  const places = all.filter(() => random() < 0.3);
  return {
    places,
    any: places.filter((place) => place > 0 && random() < 0.3),
    isSink: random() < 0.4,
    value: hasSame ? oneOf(random, [null, 'x', 'x', 'y', 'y']) : '',
    amount: oneOf(random, [0, 1, 700_000, 999_999]),
  };
}

function event(random: Random, policies: readonly PlainPolicy[], atMs: number, submission: string): PlainEvent {
  return {
    id: mintId('event', atMs),
    agent: oneOf(random, ['one', 'two']),
    trace: oneOf(random, [null, 'a', 'a', 'b', 'c']),
    outcome: oneOf(random, ['allowed', 'allowed', 'allowed', 'allowed', 'blocked', 'pending'] as const),
    parts: policies.map((one) => part(random, one)),
    ...{ atMs, submission },
  };
}

/** Neighbours of which one is like the other. */
function alike(random: Random, ...of: [policies: readonly PlainPolicy[], atMs: number, submission: string]) {
  const first = event(random, ...of);
  return Array.from({ length: oneOf(random, [1, 1, 2, 4]) }, (_, i) =>
    i === 0 ? first : { ...first, id: mintId('event', first.atMs) },
  );
}

const memoryOf = (i: number, { steps, hasUnless, atLeast, windowMs, most }: PlainPolicy): Memory => {
  const name = `pol_${i}/m`;
  return { name, windowMs, steps, atLeast, hasUnless, most: most === null ? null : limitOf(most)! };
};

function scopeOf({ per }: PlainPolicy, { agent, trace }: PlainEvent): SequenceScope {
  if (per === 'account') return { own: 'account', agent: null };
  return per === 'agent' ? { own: `agent ${agent}`, agent: null } : { own: trace && `value ${trace}`, agent };
}

/** As the engine would say it. */
function asked(policies: readonly PlainPolicy[], plain: PlainEvent): SequenceEvent {
  const placed = policies.map((one, i) => ({
    memory: memoryOf(i, one),
    scope: scopeOf(one, plain),
    value: plain.parts[i]!.value ?? '*',
    amount: limitOf(plain.parts[i]!.amount)!,
  }));
  const asks = placed.flatMap((of, i) =>
    plain.outcome !== 'blocked' && plain.parts[i]!.isSink
      ? [{ ...of, effect: policies[i]!.blocks ? ('blocked' as const) : ('allowed' as const) }]
      : [],
  );
  const marks = placed.flatMap((of, i) => {
    const { places, any } = plain.parts[i]!;
    const sorted = places.toSorted((a, b) => b - a);
    const marked = sorted.map((place) => ({ place, path: `/${place}`, isOfAnyOutcome: any.includes(place) }));
    return marked.length === 0 ? [] : [{ ...of, places: marked }];
  });
  const { id, outcome } = plain;
  return { id, agent: plain.agent, outcome, asks, marks, later: laterMarks(marks, outcome), waitMs: 600_000 };
}

/** For each policy: null, or the last step that occurred and what is waited for. */
type Told = (string | null)[];

function told(policies: readonly PlainPolicy[], plain: PlainEvent, answers: readonly (SequenceMatch | null)[]): Told {
  const left = [...answers];
  return policies.map(({ hasSame }, i) => {
    if (plain.outcome === 'blocked' || !plain.parts[i]!.isSink) return null;
    const answer = left.shift()!;
    if (answer === null) return null;
    // Of several values any will do.
    const isAny = hasSame && plain.parts[i]!.value === null;
    return `${isAny ? '' : (answer.after.at(-1)?.id ?? '')} ${answer.waitsFor ?? ''} ${answer.reason ?? ''}`;
  });
}

type World = {
  policies: PlainPolicy[];
  stores: SequenceStore[];
  account: string;
  memory: SequenceMemory;
  redis: Commands;
};

/** As the commit of an approval does. */
async function approve(redis: Commands, account: string, id: string, atMs: number): Promise<void> {
  for (const [command, ...args] of settledWrites(keys, account, { id, atMs })) await redis.call(command, ...args);
}

async function known(redis: Commands, account: string, policies: readonly PlainPolicy[]): Promise<void> {
  for (const [i, one] of policies.entries()) await redis.hset(keys.sequences(account), memoryOf(i, one).name, '1');
}

t.test('Redis, memory and the reference agree', async (t) => {
  const redis = await Promise.all(Array.from({ length: 8 }, () => connect(t)));
  const random = randomFrom(SEED);
  const counts = { events: 0, asked: 0, matched: 0, waiting: 0, approved: 0, joined: 0 };
  for (let run = 0; run < CASES; run++) {
    const policies = Array.from({ length: oneOf(random, [1, 2, 3]) }, () => policy(random));
    const account = mintId('account', run);
    await known(redis[0]!, account, policies);
    const stores = redis.slice(0, oneOf(random, [1, 2, 8])).map((one) => new SequenceStore(one, keys));
    await compare({ policies, stores, account, memory: new SequenceMemory(), redis: redis[0]! }, random, counts);
  }
  t.comment(JSON.stringify(counts));
  t.ok(counts.matched > counts.asked / 10 && counts.matched < counts.asked, 'both occur');
  t.ok(counts.waiting > 0 && counts.approved > 0 && counts.joined > 0);
});

async function compare(
  { policies, stores, account, memory, redis }: World,
  random: Random,
  counts: Record<'events' | 'asked' | 'matched' | 'waiting' | 'approved' | 'joined', number>,
): Promise<void> {
  const plain = new PlainSequences(policies);
  const waiting: string[] = [];
  let atMs = Date.UTC(2026, 10, 20);
  for (let done = 0; done < EVENTS; ) {
    atMs += Math.floor((random() * WINDOW_MS) / 12);
    const runs = Array.from({ length: oneOf(random, [1, 1, 1, 4]) }, () => alike(random, policies, atMs, `${done}`));
    const batch = runs.flat();
    const expected = batch.map((one) =>
      plain.next(one).map((is, i) => {
        const isAny = policies[i]!.hasSame && one.parts[i]!.value === null;
        return is === null ? null : `${isAny ? '' : (is.after.at(-1) ?? '')} ${is.waitsFor ?? ''} `;
      }),
    );
    const inMemory = batch.map((one) =>
      told(policies, one, memory.next(asked(policies, one), atMs, `${done}`).answers),
    );
    const groups = runs.flatMap((run) => (isRepeatable(asked(policies, run[0]!)) ? [run] : run.map((one) => [one])));
    const events = groups.map((group) => ({
      ...asked(policies, group.at(-1)!),
      ...(group.length > 1 && { times: group.length }),
    }));
    const counted = await oneOf(random, stores).count(account, { events, submission: `${done}` }, atMs);
    done += batch.length;
    counts.joined += batch.length - groups.length;
    const inRedis = groups.flatMap((group, i) => group.map((one) => told(policies, one, counted.answers[i]!)));
    const [is, other, wanted] = [inRedis, inMemory, expected].map((one) => JSON.stringify(one));
    const where = () => `${JSON.stringify({ policies, batch }, null, 1)}\nwanted ${wanted}`;
    if (other !== wanted) throw new Error(`in memory ${other}\n${where()}`);
    if (is !== wanted) throw new Error(`in Redis ${is}\n${where()}`);
    counts.events += batch.length;
    for (const one of batch)
      counts.asked += one.outcome === 'blocked' ? 0 : one.parts.filter(({ isSink }) => isSink).length;
    for (const one of expected.flat()) if (one !== null) counts.matched++;
    for (const one of expected.flat()) if (one?.split(' ')[1]) counts.waiting++;
    const recorded = batch.filter(({ outcome }) => outcome === 'allowed' && random() < 0.7).map(({ id }) => id);
    for (const id of recorded) {
      plain.recorded(id);
      memory.settle(id, atMs);
    }
    if (recorded.length > 0) await oneOf(random, stores).settle(account, recorded, atMs);
    waiting.push(...batch.filter(({ outcome }) => outcome === 'pending').map(({ id }) => id));
    if (waiting.length === 0 || random() < 0.7) continue;
    const [id] = waiting.splice(Math.floor(random() * waiting.length), 1);
    atMs += 1;
    plain.approve(id!, atMs);
    memory.settle(id!, atMs);
    await approve(redis, account, id!, atMs);
    counts.approved++;
  }
}

const ONCE: Memory = { name: 'pol_once/m', windowMs: WINDOW_MS, steps: 1, atLeast: 1, hasUnless: false, most: null };

/** It blocks what comes after one of its kind. */
function once(over: Partial<SequenceEvent> = {}, of: { memory?: Memory; scope?: SequenceScope; value?: string } = {}) {
  const { memory = ONCE, scope = { own: 'account', agent: null }, value = '' } = of;
  const places = [{ place: 1, path: '/tool', isOfAnyOutcome: false }];
  const event: SequenceEvent = {
    ...{ id: mintId('event', 0), agent: 'one', outcome: 'allowed', later: [], waitMs: 0 },
    asks: [{ memory, scope, value, amount: ZERO, effect: 'blocked' }],
    marks: [{ memory, scope, value, amount: ZERO, places }],
  };
  return { ...event, ...over };
}

t.test('of events that come at once to two fronts exactly one is the first', async (t) => {
  const redis = [await connect(t), await connect(t)];
  const account = mintId('account', 0);
  await redis[0]!.hset(keys.sequences(account), ONCE.name, '1');
  const stores = redis.map((one) => new SequenceStore(one, keys));
  const events = Array.from({ length: 200 }, () => once());
  const answers = await Promise.all(
    events.map((one, i) => stores[i % 2]!.count(account, { events: [one], submission: `${i}` })),
  );
  const passed = events.filter((_, i) => answers[i]!.answers[0]![0] === null);
  t.equal(passed.length, 1);
  for (const { answers: of } of answers)
    if (of[0]![0] !== null)
      t.same(
        of[0]![0]!.after.map(({ id, path }) => ({ id, path })),
        [{ id: passed[0]!.id, path: '/tool' }],
      );
});

t.test('a batch of more events than one call takes is in order', async (t) => {
  const redis = await connect(t);
  const account = mintId('account', 0);
  await redis.hset(keys.sequences(account), ONCE.name, '1');
  const events = Array.from({ length: 120 }, () => once());
  const { answers } = await new SequenceStore(redis, keys).count(account, { events, submission: 'one' });
  t.same(
    answers.map(([match]) => match === null),
    events.map((_, i) => i === 0),
  );
});

t.test('where what occurred is not known it counts as having occurred', async (t) => {
  const store = new SequenceStore(await connect(t), keys);
  const account = mintId('account', 0);
  const { answers } = await store.count(account, { events: [once({ marks: [] }), once()], submission: 'one' });
  t.same(answers, [[{ after: [], reason: 'state_unknown' }], [{ after: [], reason: 'state_unknown' }]]);
});

t.test('events that are alike are asked about once, unless a log has to have each', async (t) => {
  const redis = await connect(t);
  const store = new SequenceStore(redis, keys);
  const account = mintId('account', 0);
  const events = [{ ...once({ asks: [] }), times: 3 }];
  t.match(await store.count(account, { events, submission: 'one' }), { isUnasked: true, answers: [] });
  t.equal(await redis.llen(keys.sequenceLog(account, ONCE.name)), 0, 'nothing was done');
  const tooMany = Array.from({ length: EVENTS_AT_ONCE }, () => once({ asks: [] }));
  await redis.hset(keys.sequences(account), ONCE.name, '1');
  t.match(await store.count(account, { events: [...events, ...tooMany], submission: 'one' }), { isUnasked: true });
  t.equal((await store.count(account, { events, submission: 'one' })).answers.length, 1);
  const { answers } = await store.count(account, { events: [once()], submission: 'two' });
  t.match(answers, [[{ after: [{ id: events[0]!.id }] }]], 'the last of them is kept');
});

t.test('values and scopes beyond those that are kept count as having occurred, in Redis and in memory', async (t) => {
  const redis = await connect(t);
  const account = mintId('account', 0);
  await redis.hset(keys.sequences(account), ONCE.name, '1');
  const limits = { values: 3, scopes: 2 };
  const store = new SequenceStore(redis, keys, limits);
  const memory = new SequenceMemory(limits);
  const seen: (string | null)[] = [];
  let atMs = Date.UTC(2026, 10, 20);
  const ask = async (scope: string, value: string) => {
    const event = once({}, { scope: { own: scope, agent: null }, value });
    const { answers } = await store.count(account, { events: [event], submission: 'one' }, atMs);
    t.same(memory.next(event, atMs, 'one').answers, answers[0]);
    const [match] = answers[0]!;
    seen.push(match === null ? null : (match!.reason ?? 'after'));
    atMs += 1;
  };
  for (const value of ['1', '2', '3', '4', '5', '1']) await ask('one', value);
  t.same(
    seen.splice(0),
    [null, null, null, null, 'budget', 'after'],
    'the fourth did not fit, so the fifth is not known',
  );
  for (const scope of ['two', 'three', 'four', 'two']) await ask(scope, '1');
  t.same(seen.splice(0), [null, null, 'budget', 'after']);
  atMs += WINDOW_MS;
  for (const scope of ['three', 'four', 'three']) await ask(scope, '1');
  t.same(seen, [null, null, 'after'], 'a window later there is room');
  t.ok((await redis.pttl(keys.sequenceScope(account, ONCE.name, 'three'))) > 0, 'and all of it goes by itself');
  t.ok((await redis.pttl(keys.sequenceScopes(account, ONCE.name))) > 0);
});

t.test('an agent that is erased is in nothing that is kept; that something occurred stays', async (t) => {
  const redis = await connect(t);
  const account = mintId('account', 0);
  const store = new SequenceStore(redis, keys);
  await redis.hset(keys.sequences(account), ONCE.name, '1');
  const own = { scope: { own: null, agent: 'one' } };
  const shared = { scope: { own: 'value a', agent: 'one' } };
  const [first, second, other] = [once({}, own), once({ asks: [] }, shared), once({ agent: 'two', asks: [] })];
  for (const event of [first, second, other]) await store.count(account, { events: [event], submission: event.id });
  const kept = async () => {
    const scopes = await redis.zrange(keys.sequenceScopes(account, ONCE.name), '0', '-1');
    const states = await Promise.all(scopes.map((scope) => redis.hvals(scope)));
    return { scopes: scopes.length, text: states.flat().join() };
  };
  const before = await kept();
  for (const text of [first.id, second.id, other.id, 'one']) t.match(before.text, text);
  t.equal(before.scopes, 4);
  await redis.hdel(keys.sequences(account), ONCE.name);
  await store.forgetAgent(account, 'one');
  const after = await kept();
  t.equal(after.scopes, 2, 'its own are gone');
  for (const text of [first.id, second.id, 'one']) t.notMatch(after.text, text);
  t.match(after.text, other.id);
  await redis.hset(keys.sequences(account), ONCE.name, '1');
  const asked = once({ agent: 'two', marks: [] }, shared);
  const { answers } = await store.count(account, { events: [asked], submission: 'one' });
  t.match(answers, [[{ after: [{ id: '', path: '' }] }]], 'who did it is not said');
  await store.forgetAgent(account, 'one');
});
