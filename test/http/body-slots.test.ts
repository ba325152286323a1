// Places for answers in parts: no account has all of them.
import t from 'tap';
import { ServiceError } from '../../src/common/errors.ts';
import { LASTING_OF_ACCOUNT_MAX, STREAMS_MAX } from '../../src/common/limits.ts';
import { BodySlots, bodySlots } from '../../src/http/answers/body-slots.ts';

const of = (account: string, agentId: string | null = null) => ({ account, agentId });

/** As many as it is given; the returns. */
function takeAll(slots: BodySlots, who: { account: string; agentId: string | null }): (() => void)[] {
  const returns: (() => void)[] = [];
  for (;;) {
    try {
      returns.push(slots.take(who));
    } catch (error) {
      if (!(error instanceof ServiceError) || error.status !== 503) throw error;
      return returns;
    }
  }
}

t.test('an account alone has its full number, also of each kind', async (t) => {
  const { streams, exports } = bodySlots();
  t.equal(takeAll(streams, of('a')).length, LASTING_OF_ACCOUNT_MAX);
  t.equal(takeAll(exports, of('a')).length, LASTING_OF_ACCOUNT_MAX);
});

t.test('T17: whatever others take, an account that has none gets a place', async (t) => {
  const slots = new BodySlots('streams', STREAMS_MAX);
  const had: number[] = [];
  for (let i = 0; i < 40; i++) {
    const before = slots.taken;
    takeAll(slots, of(`a${i}`));
    had.push(slots.taken - before);
  }
  t.ok(
    had.every((places) => places >= 1),
    had.join(' '),
  );
  t.same(had.slice(0, 5), [8, 8, 8, 8, 8], 'few accounts have their full number');
  t.throws(() => slots.take(of('a0')), { code: 'unavailable', retryAfterSeconds: 5 });
});

t.test('keys of agents have half of their account', async (t) => {
  const slots = new BodySlots('streams', STREAMS_MAX);
  const bound = [...takeAll(slots, of('a', 'agt_1')), ...takeAll(slots, of('a', 'agt_2'))];
  t.equal(bound.length, LASTING_OF_ACCOUNT_MAX / 2);
  const others = takeAll(slots, of('a'));
  t.equal(others.length, LASTING_OF_ACCOUNT_MAX / 2);
  t.throws(() => slots.take(of('a', 'agt_1')));
  for (const end of [...bound, ...others]) end();
  t.equal(slots.taken, 0);
  t.equal(takeAll(slots, of('a')).length, LASTING_OF_ACCOUNT_MAX, 'what is given back is free again');
});
