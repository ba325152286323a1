// Requests of spans that are held: once, within their bounds, taken by one front at a time, and there until they are
// recorded. Needs redis-server.
import t from 'tap';
import { HeldSpans } from '../../src/streams/held-spans.ts';
import { startRedis } from '../support/redis.ts';
import { connect, freshKeys } from './harness.ts';

const server = await startRedis(t, { single: true });
const redis = await connect(t, server.address);
const head = '{"form":"json"}';
const MIB = 1024 * 1024;

t.test('a request is held until it is recorded, and taken by one', async (t) => {
  const keys = freshKeys(3);
  const [one, other] = [new HeldSpans({ redis, keys }), new HeldSpans({ redis, keys })];
  const body = Buffer.from([0, 255, 10, 13]);
  t.ok(await one.hold('acc', head, body));
  const [held, ...more] = await other.oldest();
  t.match(held, { head, account: 'acc' });
  t.equal(more.length, 0);
  t.same([await one.take(held!), await other.take(held!)], [body, undefined], 'byte for byte, by one');
  t.equal((await one.oldest()).length, 1, 'it stays while it is recorded');
  await redis.del(keys.heldSpansTaken(held!.key.partition, held!.key.body));
  t.same(await other.take(held!), body, 'where that front ended another takes it');
  await Promise.all([one.end(held!), other.end(held!)]);
  t.same(await one.oldest(), []);
  t.equal(await one.take(held!), undefined, 'and then it is gone');
  const { partition, body: id } = held!.key;
  t.same(await redis.hgetall(keys.heldSpansBytes(partition)), { '': '0' }, 'nothing is left of it');
  t.equal(await redis.exists(keys.heldSpansBody(partition, id)), 0);
});

t.test('what is held has a bound, of an account and of all', async (t) => {
  const keys = freshKeys(1);
  const held = new HeldSpans({ redis, keys });
  const body = Buffer.alloc(8 * MIB - 2 * 1024, 'x');
  const hold = (account: string) => held.hold(account, head, body);
  t.same([await hold('a'), await hold('a'), await hold('a')], [true, true, false], 'the third of an account');
  const others = await Promise.all(['b', 'b', 'c', 'c', 'd', 'd', 'e'].map(hold));
  t.equal(others.filter((isHeld) => isHeld).length, 6, 'eight in all');
  for (const one of await held.oldest()) await held.end(one);
  t.ok(await hold('a'), 'there is room again');
});

t.test('small requests count for what they take', async (t) => {
  const held = new HeldSpans({ redis, keys: freshKeys(1) });
  const all = await Promise.all(Array.from({ length: 17_000 }, () => held.hold('acc', head, Buffer.from('x'))));
  const count = all.filter((isHeld) => isHeld).length;
  t.ok(count > 15_000 && count < 16_400, `${count} of a kilobyte each, in 16 MiB`);
  const [oldest] = await held.oldest();
  await new Promise((resolve) => setTimeout(resolve, 100));
  const [later] = await held.oldest();
  t.ok(later!.ageMs >= oldest!.ageMs + 100, 'it grows older');
});
