// Places for batches that leave together, and the joint they leave with: who gets a place when, and how a joint ends for each.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Departures, type DeparturesOptions } from '../../pipelines/departures.ts';
import { Joint, type Outcome } from '../../pipelines/joint.ts';
import type { Load } from '../../pipelines/slots.ts';

const LINGER_MS = 120;

function departures(options: Partial<DeparturesOptions> = {}): Departures {
  return new Departures({
    atOnceMax: 2,
    lingerMs: LINGER_MS,
    rowsMax: 100,
    bytesMax: 1_000,
    mayJoin: () => true,
    ...options,
  });
}

function load(more: Partial<Load> = {}): () => Load {
  return () => ({ rows: 10, bytes: 10, isFull: false, alone: false, ...more });
}

t.test('a lone batch goes at once, and alone', async (t) => {
  const ticket = departures().queue(load());
  t.ok(ticket.granted);
  t.equal(ticket.joint, undefined);
});

t.test('what comes while a company is away leaves together, after it has come home and the linger', async (t) => {
  const places = departures();
  const away = places.queue(load());
  const waiting = [places.queue(load()), places.queue(load()), places.queue(load())];
  await sleep(2 * LINGER_MS);
  t.same(
    waiting.map(({ granted }) => granted),
    [false, false, false],
    'not full: one company at a time',
  );
  away.giveBack();
  const homeAt = performance.now();
  await Promise.all(waiting.map(({ turn }) => turn));
  t.ok(performance.now() - homeAt >= LINGER_MS - 2);
  const [joint] = waiting.map((ticket) => ticket.joint);
  t.ok(joint);
  t.ok(waiting.every((ticket) => ticket.joint === joint));
  const next = places.queue(load());
  for (const ticket of waiting.slice(1)) ticket.giveBack();
  await sleep(2 * LINGER_MS);
  t.notOk(next.granted, 'the place is free when the last one is home');
  waiting[0]!.giveBack();
  await next.turn;
  t.equal(next.joint, undefined);
});

t.test('under load a company waits for as many as left before, but not for long', async (t) => {
  const places = departures();
  const first = places.queue(load());
  const both = [places.queue(load()), places.queue(load())];
  first.giveBack();
  await Promise.all(both.map(({ turn }) => turn));
  for (const ticket of both) ticket.giveBack();
  const one = places.queue(load());
  await sleep(LINGER_MS + 20);
  t.notOk(one.granted, 'one of two');
  const other = places.queue(load());
  await Promise.all([one.turn, other.turn]);
  t.equal(one.joint, other.joint);
  for (const ticket of [one, other]) ticket.giveBack();
  const alone = places.queue(load());
  await alone.turn;
  t.equal(alone.joint, undefined, 'the other has nothing to send');
});

t.test('no more leave together than one insert may hold; enough for one goes beside the one that runs', async (t) => {
  for (const big of [load({ rows: 60 }), load({ bytes: 600 })]) {
    const places = departures();
    const first = places.queue(load());
    const waiting = [places.queue(big), places.queue(big), places.queue(load())];
    t.same(
      waiting.map(({ granted }) => granted),
      [true, false, false],
      'the second does not fit in with the first; the third does not overtake it',
    );
    t.equal(waiting[0]!.joint, undefined);
    waiting[0]!.giveBack();
    first.giveBack();
    await Promise.all(waiting.slice(1).map(({ turn }) => turn));
    t.equal(waiting[1]!.joint, waiting[2]!.joint);
  }
  const places = departures();
  const tickets = [load(), load({ isFull: true }), load({ isFull: true })].map((one) => places.queue(one));
  t.same(
    tickets.map(({ granted }) => granted),
    [true, true, false],
    'a full one does not wait, but there are two places',
  );
});

t.test('a batch that must go alone has a place of its own, and so have all where none may join', async (t) => {
  const places = departures();
  const first = places.queue(load());
  const alone = places.queue(load({ alone: true }));
  t.ok(alone.granted, 'it waits for nobody');
  const others = [places.queue(load()), places.queue(load({ alone: true })), places.queue(load())];
  alone.giveBack();
  first.giveBack();
  await Promise.all(others.map(({ turn }) => turn));
  t.equal(others[1]!.joint, undefined);
  t.equal(others[0]!.joint, others[2]!.joint);
  const apart = departures({ mayJoin: () => false });
  const tickets = Array.from({ length: 3 }, () => apart.queue(load()));
  t.same(
    tickets.map(({ granted }) => granted),
    [true, true, false],
  );
  tickets[0]!.giveBack();
  t.ok(tickets[2]!.granted, 'without a linger');
  t.equal(tickets[2]!.joint, undefined);
});

t.test('a company with a stuck member is waited for no longer than bearable', async (t) => {
  const places = departures({ stuckMs: 200 });
  const stuck = places.queue(load());
  const full = places.queue(load({ isFull: true }));
  const leftAt = performance.now();
  const waiting = [places.queue(load()), places.queue(load())];
  await sleep(100);
  t.notOk(waiting[0]!.granted);
  await Promise.all(waiting.map(({ turn }) => turn));
  t.ok(performance.now() - leftAt >= 195, 'both places were taken by then');
  t.equal(waiting[0]!.joint, waiting[1]!.joint);
  stuck.giveBack();
  full.giveBack();
  const next = places.queue(load());
  await sleep(20);
  t.notOk(next.granted, 'the company that left last is still away');
  for (const ticket of waiting) ticket.giveBack();
  await next.turn;
});

t.test(
  'a ticket that is given back before its turn frees nothing, and its joint is broken if it had one',
  async (t) => {
    const places = departures({ atOnceMax: 1 });
    const first = places.queue(load());
    const gone = places.queue(load());
    const [left, stays] = [places.queue(load()), places.queue(load())];
    gone.giveBack();
    t.notOk(left.granted);
    first.giveBack();
    await Promise.all([left.turn, stays.turn]);
    const outcome = stays.joint!.join('part', never(t));
    left.giveBack();
    t.equal(await outcome, 'alone');
  },
);

function never(t: { fail: (message: string) => unknown }): () => Promise<Outcome> {
  return async () => {
    t.fail('a broken joint was carried out');
    return 'done';
  };
}

t.test('a joint is carried out once, by the last to join, with all parts; all learn how it ended', async (t) => {
  const joint = new Joint<string>(3);
  const runs: string[][] = [];
  const run = async (parts: readonly string[]): Promise<Outcome> => {
    runs.push([...parts]);
    await sleep(20);
    return 'unknown';
  };
  const outcomes = await Promise.all(['a', 'b', 'c'].map((part) => joint.join(part, run)));
  t.same(outcomes, ['unknown', 'unknown', 'unknown']);
  t.same(runs, [['a', 'b', 'c']]);
  joint.leave();
  t.equal(await joint.outcome, 'unknown', 'to leave afterwards changes nothing');
  t.not(joint.token, new Joint(3).token);
});

t.test('who does not come in time, or leaves, lets the others go alone; who comes late goes alone, too', async (t) => {
  const slow = new Joint<string>(2, 50);
  t.equal(await slow.join('a', never(t)), 'alone');
  t.equal(await slow.join('b', never(t)), 'alone', 'late');
  const left = new Joint<string>(2);
  left.leave();
  t.equal(await left.join('a', never(t)), 'alone');
});
