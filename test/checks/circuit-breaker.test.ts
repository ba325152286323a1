// A breaker of a check: when it opens, what it lets through, and when it closes.
import t from 'tap';
import { CircuitBreaker } from '../../src/checks/circuit-breaker.ts';

function breaker() {
  const changes: boolean[] = [];
  const made = new CircuitBreaker((isOpen) => changes.push(isOpen));
  const call = (failed: boolean, atMs: number) => {
    const ended = made.begin(atMs);
    ended?.(failed, atMs);
    return ended !== undefined;
  };
  return { made, changes, call };
}

t.test('half of 20 calls open it, fewer do not', async (t) => {
  const { made, changes, call } = breaker();
  for (let i = 0; i < 20; i++) call(i % 2 === 0 && i !== 0, i);
  t.notOk(made.isOpen, 'nine of twenty');
  call(true, 20);
  t.ok(made.isOpen);
  t.same(changes, [true]);
  t.notOk(call(false, 21), 'nothing is asked');
});

t.test('19 failures alone do not, nor 20 over more than 10 s', async (t) => {
  const { made, call } = breaker();
  for (let i = 0; i < 19; i++) call(true, i);
  t.notOk(made.isOpen);
  for (let i = 0; i < 60; i++) call(true, 20_000 + i * 1_000);
  t.notOk(made.isOpen);
});

t.test('after 5 s one call tries: it closes, or stays open for another 5 s', async (t) => {
  const { made, changes, call } = breaker();
  for (let i = 0; i < 20; i++) call(true, 0);
  t.notOk(call(false, 4_999));
  const trying = made.begin(5_000);
  t.ok(trying);
  t.notOk(made.begin(5_001), 'one alone');
  trying!(true, 6_000);
  t.notOk(call(false, 10_999));
  t.ok(call(false, 11_000));
  t.notOk(made.isOpen);
  t.same(changes, [true, false]);
  for (let i = 0; i < 19; i++) call(true, 11_001);
  t.notOk(made.isOpen, 'what failed before is forgotten');
});

t.test('what began before it opened and ends later says nothing', async (t) => {
  const { made, changes, call } = breaker();
  const late = made.begin(0)!;
  for (let i = 0; i < 20; i++) call(true, 1);
  late(false, 2);
  t.ok(made.isOpen);
  t.same(changes, [true]);
});
