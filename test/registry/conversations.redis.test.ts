// What is remembered of conversations, on a real Redis: which messages were let through, who asked first about the
// others, what becomes of one that was stopped; how much of it is kept, and for how long.
import t from 'tap';
import { CONVERSATION_KEPT_MS, CONVERSATIONS_MAX, MESSAGES_KNOWN_MAX } from '../../src/common/limits.ts';
import { Conversations } from '../../src/registry/conversations.ts';
import { startRedis } from '../support/redis.ts';
import { connectStore, newAccount } from './harness.ts';

const { address } = await startRedis(t);
const store = await connectStore(t, address);
const { redis, keys } = store;
const conversations = new Conversations(store);

t.test('who asks first about a message asks for all, until it is settled', async (t) => {
  const key = { account: newAccount(), name: 'con_1/s-1' };
  t.same(await conversations.open(key, 'r1', ['a', 'b']), { seen: 0, askedBy: ['r1', 'r1'] });
  t.same(await conversations.open(key, 'r2', ['a', 'b', 'c']), { seen: 0, askedBy: ['r1', 'r1', 'r2'] });
  await conversations.settle(key, ['a', 'b']);
  t.same(await conversations.open(key, 'r3', ['a', 'b', 'c']), { seen: 2, askedBy: ['r2'] });
  t.same(await conversations.open(key, 'r3', ['a', 'x']), { seen: 1, askedBy: ['r3'] }, 'one that was edited');
  await conversations.settle(key, [], { digest: 'c', askedBy: 'r1', instead: '' });
  t.same((await conversations.open(key, 'r4', ['c'])).askedBy, ['r2'], 'what another asks about stays');
  await conversations.settle(key, [], { digest: 'c', askedBy: 'r2', instead: '' });
  t.same((await conversations.open(key, 'r4', ['c'])).askedBy, ['r4'], 'what was stopped is new');
  await conversations.settle(key, [], { digest: 'c', askedBy: 'r4', instead: 'apr_1 apr_2' });
  t.same((await conversations.open(key, 'r5', ['c'])).askedBy, ['apr_1 apr_2'], 'what waits is asked by its approvals');
  t.same(await conversations.open({ ...key, name: 'con_1/s-2' }, 'r6', ['a']), { seen: 0, askedBy: ['r6'] });
  t.same(await conversations.open({ ...key, account: newAccount() }, 'r6', ['a']), { seen: 0, askedBy: ['r6'] });
});

t.test('the newest messages are kept, for a day', async (t) => {
  const key = { account: newAccount(), name: 'con_1/long' };
  const digests = Array.from({ length: 3 * MESSAGES_KNOWN_MAX }, (_, i) => `m${i}`);
  for (const digest of digests) await conversations.settle(key, [digest]);
  const end = keys.conversationEnd(key.name);
  const seen = keys.seenMessages(key.account, end);
  t.equal(await redis.zcard(seen), MESSAGES_KNOWN_MAX);
  t.equal((await conversations.open(key, 'r', digests)).seen, digests.length);
  for (const one of [seen, keys.conversations(key.account)]) {
    const left = await redis.pttl(one);
    t.ok(left > CONVERSATION_KEPT_MS - 60_000 && left <= CONVERSATION_KEPT_MS, `${left} ms`);
  }
});

t.test('an account has so many, and the one that was silent longest is forgotten', async (t) => {
  const account = newAccount();
  const first = { account, name: 'con_1/first' };
  await conversations.open(first, 'r', ['a']);
  await conversations.settle(first, ['a']);
  const order = keys.conversations(account);
  const others = Array.from({ length: CONVERSATIONS_MAX - 1 }, (_, i) => ['9999999999999', `other-${i}`]).flat();
  await redis.zadd(order, ...others);
  t.equal(await redis.zcard(order), CONVERSATIONS_MAX);
  await conversations.open({ account, name: 'con_1/second' }, 'r', ['a']);
  t.equal(await redis.zcard(order), CONVERSATIONS_MAX);
  t.equal(await redis.exists(keys.seenMessages(account, keys.conversationEnd(first.name))), 0);
  t.equal((await conversations.open(first, 'r2', ['a'])).seen, 0, 'it is judged again');
});
