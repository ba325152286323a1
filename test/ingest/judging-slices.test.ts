// Events of an account that is over its share of the loop: judged in slices, in turns, with a bound.
import { setImmediate as nextRound } from 'node:timers/promises';
import t from 'tap';
import { ServiceError } from '../../src/common/errors.ts';
import { JudgingSlices } from '../../src/ingest/judging-slices.ts';
import { loopShares, TooLong } from '../../src/policy/allowance.ts';

const HERE = { isGone: false };

/** A submission of so many events of so many ms each. */
function stepsOf(events: number, ms: number, judged: string[] = [], name = ''): () => boolean {
  let left = events;
  return () => {
    if (left === 0) return false;
    left--;
    for (const until = performance.now() + ms; performance.now() < until; );
    judged.push(name);
    return true;
  };
}

t.test('others have their turn between the slices of a submission', async (t) => {
  let rounds = 0;
  let isDone = false;
  const others = async () => {
    for (; !isDone; rounds++) await nextRound();
  };
  const [judged, step] = [[] as string[], stepsOf(40, 0.5)];
  const slices = new JudgingSlices();
  const counting = others();
  await slices.judge('acc', HERE, () => step() && judged.push('event') > 0);
  isDone = true;
  await counting;
  t.equal(judged.length, 40);
  t.ok(rounds >= 10, `${rounds} rounds of the loop`);
});

t.test('accounts take turns, and of one account the first comes first', async (t) => {
  const [slices, judged] = [new JudgingSlices(), [] as string[]];
  const send = (account: string, name: string) => slices.judge(account, HERE, stepsOf(2, 0, judged, name));
  await Promise.all([send('a', 'a1'), send('a', 'a2'), send('a', 'a3'), send('b', 'b1')]);
  t.same(judged.join(' '), 'a1 a1 a2 a2 b1 b1 a3 a3');
});

t.test('one account has so many in line, the next is refused, and another account is not', async (t) => {
  const [slices, judged] = [new JudgingSlices(), [] as string[]];
  const works = Array.from({ length: 258 }, () => slices.judge('a', HERE, stepsOf(1, 0, judged, 'a')));
  works.push(slices.judge('b', HERE, stepsOf(1, 0, judged, 'b')));
  const refused = (await Promise.allSettled(works)).filter(({ status }) => status === 'rejected');
  t.equal(refused.length, 1);
  const { reason } = refused[0] as PromiseRejectedResult;
  t.ok(reason instanceof ServiceError);
  t.match(reason, { code: 'unavailable', recorded: false, retryAfterSeconds: 1 });
  t.same([judged.length, judged.indexOf('b')], [258, 2]);
});

t.test('who leaves while events are judged is judged no further', async (t) => {
  const [caller, judged] = [{ isGone: false }, [] as string[]];
  const step = stepsOf(100, 2, judged);
  await new JudgingSlices().judge('acc', caller, () => {
    caller.isGone = judged.length >= 3;
    return step();
  });
  t.ok(judged.length < 6, `${judged.length} were judged`);
});

t.test('what a step throws ends the submission, and the next one has its turn', async (t) => {
  const [slices, judged] = [new JudgingSlices(), [] as string[]];
  const failing = () => {
    throw new TooLong('large');
  };
  await t.rejects(slices.judge('acc', HERE, failing), TooLong);
  await slices.judge('acc', HERE, stepsOf(1, 0, judged, 'next'));
  t.same(judged, ['next']);
});

t.test('an account over its share is in debt by no more than a tenth of a second', async (t) => {
  const shares = loopShares();
  const share = shares.begin('acc', 0);
  t.notOk(share.isSpent);
  for (let i = 0; i < 9; i++) share.spend(900_000);
  t.ok(share.isSpent, 'after 8 million units');
  for (let i = 0; i < 100; i++) share.inTurn.spend(900_000);
  t.ok(shares.begin('acc', 99).isSpent);
  t.notOk(shares.begin('acc', 101).isSpent);
  t.notOk(shares.begin('other', 0).isSpent, 'another account has its own');
  t.throws(() => share.spend(1_000_001), TooLong, 'one event may take only so much');
});
