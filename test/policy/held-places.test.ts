// Places that are held in advance, by themselves: how many are asked for, until when they may be used, what goes back.
import t from 'tap';
import { HELD_BACK_MS, HELD_MS, HELD_PLACES_MIN } from '../../src/limits.ts';
import { HeldPlaces } from '../../src/policy/held-places.ts';

const MINUTE = 60_000;
const granted = (held: number, usableMs = 1_000) => ({ held, bucket: 77, usableMs, atMs: 1_000_000 });

/** A counter that was asked for `places` at 0 and at `nowMs`; what it then asks for. */
function asked(places: number, nowMs: number, windowMs = MINUTE) {
  const held = new HeldPlaces();
  held.ask(1, windowMs, 0);
  return { held, asked: held.ask(places, windowMs, nowMs) };
}

t.test('asked for is what the next while will need; nothing by who comes now and then', async (t) => {
  t.equal(new HeldPlaces().ask(100, MINUTE, 5_000).hold, 0, 'a counter that nobody knows');
  t.equal(asked(100, 100).asked.hold, (100 * HELD_MS) / 100);
  t.equal(asked(1_000, 50).asked.hold, (1_000 * HELD_MS) / 50);
  t.equal(asked(1, 1).asked.hold, 0, 'two of one tick');
  t.equal(asked(5, 10_000).asked.hold, 0);
  t.equal(asked(HELD_PLACES_MIN - 1, HELD_MS).asked.hold, 0);
  t.equal(asked(HELD_PLACES_MIN, HELD_MS).asked.hold, HELD_PLACES_MIN);
});

t.test('a flow of lone events is noticed within some milliseconds, one that is too slow never', async (t) => {
  const after = (everyMs: number) => {
    const held = new HeldPlaces();
    for (let nowMs = 0; nowMs < 10_000; nowMs += everyMs) if (held.ask(1, MINUTE, nowMs).hold > 0) return nowMs;
    return undefined;
  };
  t.equal(after(1), 2);
  t.equal(after(10), 20, 'a hundred a second');
  t.equal(after(14), undefined);
});

t.test('a window whose sixtieth is over before the places are back holds none', async (t) => {
  const shortest = 60 * (HELD_MS + HELD_BACK_MS);
  t.equal(asked(100, 100, shortest - 1).asked.hold, 0);
  t.ok(asked(100, 100, shortest).asked.hold > 0);
});

t.test('places are used once, in their time, and what is left goes back with the next call', async (t) => {
  const { held, asked: call } = asked(100, 100);
  held.answered(call, granted(50), 100, 103);
  t.notOk(held.take(51, 104), 'all or none');
  t.ok(held.take(30, 104));
  t.equal(held.timeAt(106), 1_000_003, "by Redis's clock, as it was at the latest when the answer came");
  t.notOk(held.take(21, 104));
  t.ok(held.take(15, 104));
  held.putBack(15);
  t.equal(held.left, 20);
  t.notOk(held.take(1, 100 + HELD_MS), 'not a moment longer than from when the call was sent');
  t.equal(held.backInMs(100 + HELD_MS), HELD_BACK_MS);
  const next = held.ask(3, MINUTE, 100 + HELD_MS);
  t.match(next, { back: 20, backBucket: 77 });
  t.equal(next.hold, 33, '30 that were held and 3 now, in one time of holding');
  t.equal(held.left, 0);
  t.equal(held.backInMs(300), undefined);
});

t.test('no place outlives the sub-bucket in which it was counted', async (t) => {
  const { held, asked: call } = asked(100, 100);
  held.answered(call, granted(50, 7), 100, 106);
  t.ok(held.take(1, 106.9));
  t.equal(held.timeAt(106.9), 1_000_000);
  t.notOk(held.take(1, 107));
});

t.test('while a hold is on its way no other is asked for; one that was not answered holds nothing', async (t) => {
  const { held, asked: call } = asked(100, 100);
  t.equal(held.ask(100, MINUTE, 101).hold, 0);
  held.answered(call, undefined, 100, 102);
  t.notOk(held.take(1, 102));
  const again = held.ask(100, MINUTE, 150);
  t.equal(again.hold, (200 * HELD_MS) / 50);
  held.answered(again, granted(0), 150, 151);
  t.notOk(held.take(1, 151), 'Redis had none to spare');
  t.equal(held.ask(0, MINUTE, 160).hold, 0, 'nobody asked');
});
