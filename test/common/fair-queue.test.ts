// Whose query is next: bounds, turns of accounts, those who give up, and that no place is lost whatever happens.
import t from 'tap';
import { FairQueue, QueueFull } from '../../src/common/fair-queue.ts';
import { randomFrom, SEED } from '../support/seed.ts';

/** Work that ends on request. */
function held() {
  let end: () => void = () => undefined;
  const until = new Promise<void>((resolve) => (end = resolve));
  return { work: () => until, end };
}
const turn = () => new Promise((resolve) => setImmediate(resolve));

t.test('an account waits behind itself alone, and accounts take turns', async (t) => {
  const queue = new FairQueue({ max: 3, accountMax: 2, waitingMax: 10 });
  const order: string[] = [];
  const run = (account: string, name: string) => {
    const one = held();
    const done = queue.run(account, undefined, () => {
      order.push(name);
      return one.work();
    });
    return { end: one.end, done };
  };
  const many = Array.from({ length: 5 }, (_, i) => run('a', `a${i}`));
  const other = run('b', 'b0');
  await turn();
  t.same(order, ['a0', 'a1', 'b0'], 'two of the one, and the other at once');
  const later = [run('b', 'b1'), run('c', 'c0')];
  await turn();
  t.equal(order.length, 3, 'no more than three at once');
  many[0]!.end();
  await turn();
  t.same(order.slice(3), ['a2'], 'the one whose place it was comes first in line');
  many[1]!.end();
  await turn();
  many[2]!.end();
  await turn();
  t.same(order.slice(4), ['b1', 'c0'], 'then the others, though it has more in line');
  for (const one of [...many, other, ...later]) {
    one.end();
    await turn();
  }
  await Promise.all([...many, other, ...later].map(({ done }) => done));
  t.same(order.slice(6).sort(), ['a3', 'a4'], 'and all of them in the end');
});

t.test('a queue has a bound, and a waiter that gives up leaves it', async (t) => {
  const queue = new FairQueue({ max: 1, accountMax: 1, waitingMax: 1 });
  const first = held();
  const running = queue.run('a', undefined, first.work);
  const gone = new AbortController();
  const waiting = queue.run('a', gone.signal, async () => 'never');
  await t.rejects(queue.run('a', undefined, first.work), QueueFull);
  gone.abort(new Error('left'));
  await t.rejects(waiting, /left/);
  const next = queue.run('a', undefined, async () => 'served');
  first.end();
  await running;
  t.equal(await next, 'served');
  await t.rejects(
    queue.run('a', undefined, () => Promise.reject(new Error('broken'))),
    /broken/,
  );
  t.equal(await queue.run('a', undefined, async () => 'again'), 'again', 'a query that fails gives its place back');
});

t.test('no bound is passed and no place is lost, in any order', async (t) => {
  const random = randomFrom(SEED);
  const queue = new FairQueue({ max: 4, accountMax: 2, waitingMax: 1_000 });
  const underWay = new Map<string, number>();
  let most = 0;
  const one = async (account: string) => {
    const gone = new AbortController();
    if (random() < 0.2) setImmediate(() => gone.abort(new Error('left')));
    await queue
      .run(account, gone.signal, async () => {
        underWay.set(account, (underWay.get(account) ?? 0) + 1);
        most = Math.max(
          most,
          [...underWay.values()].reduce((sum, n) => sum + n, 0),
        );
        if (underWay.get(account)! > 2) t.fail(`${account} has more than its share`);
        for (let i = 0; i < random() * 4; i++) await turn();
        underWay.set(account, underWay.get(account)! - 1);
        if (random() < 0.1) throw new Error('broken');
      })
      .catch((error: Error) => {
        if (!/left|broken/.test(error.message)) throw error;
      });
  };
  await Promise.all(Array.from({ length: 1_000 }, () => one('abcde'[Math.floor(random() * 5)]!)));
  t.ok(most <= 4, `${most} at once`);
  const [a, b] = [held(), held()];
  const both = [queue.run('a', undefined, a.work), queue.run('a', undefined, b.work)];
  t.equal(await queue.run('b', undefined, async () => 'free'), 'free', 'all places are free');
  a.end();
  b.end();
  await Promise.all(both);
});
