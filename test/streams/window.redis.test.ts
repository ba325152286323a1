// The window that the groups of a process share: everything in order and once for each, few reads, bounded. Needs
// redis-server.
import t from 'tap';
import type { Commands } from '../../src/redis/client.ts';
import { type StreamEntry, StreamWindow } from '../../src/streams/window.ts';
import { intercepted } from '../support/intercepted.ts';
import { startRedis } from '../support/redis.ts';
import { connect, freshKeys } from './harness.ts';

const server = await startRedis(t);

class Follower {
  readonly seen: StreamEntry[] = [];
  readonly #window: StreamWindow;

  constructor(window: StreamWindow) {
    this.#window = window;
  }

  async read(): Promise<boolean> {
    const { entries, isEnd } = await this.#window.after(this, this.seen.at(-1)?.id ?? '0-0');
    this.seen.push(...entries);
    this.#window.pass(this, this.seen.at(-1)?.id ?? '0-0');
    return isEnd && entries.length === 0;
  }

  leave(): void {
    this.#window.leave(this);
  }
}

async function appended(redis: Commands, stream: string, count: number, bytes = 100): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) ids.push((await redis.xadd(stream, '*', 'r', Buffer.alloc(bytes)))!);
  return ids;
}

/** Counts what is asked of Redis. */
function counting(redis: Commands): { redis: Commands; reads: () => number } {
  let reads = 0;
  const counted = intercepted(redis, ({ name, go }) => {
    if (name === 'callBuffer') reads++;
    return go();
  });
  return { redis: counted, reads: () => reads };
}

t.test('three readers get every entry in order and once, and the same ones for one reading', async (t) => {
  const { redis, reads } = counting(await connect(t, server.address));
  const stream = freshKeys(1).events(0);
  const window = new StreamWindow({ redis, stream, bytesMax: 1e6 });
  const followers = [1, 2, 3].map(() => new Follower(window));
  const ids = await appended(redis, stream, 3);
  await Promise.all(followers.map((follower) => follower.read()));
  t.equal(reads(), 1, 'asked once for all three');
  t.equal(window.bytes, 0, 'what all have passed is not held');
  for (let round = 0; round < 30; round++) {
    ids.push(...(await appended(redis, stream, round % 7)));
    await Promise.all(followers.map((follower, i) => (round % (i + 2) === 0 ? follower.read() : undefined)));
  }
  for (const follower of followers) while (!(await follower.read()));
  for (const { seen } of followers) {
    t.same(
      seen.map(({ id }) => id),
      ids,
    );
  }
  t.equal(followers[0]!.seen[0], followers[2]!.seen[0], 'one and the same');
  t.equal(window.bytes, 0);
});

t.test('a reader that falls behind reads for himself, loses nothing and costs no memory', async (t) => {
  const redis = await connect(t, server.address);
  const stream = freshKeys(1).events(0);
  const window = new StreamWindow({ redis, stream, bytesMax: 5_000 });
  const [first, late, none] = [new Follower(window), new Follower(window), new Follower(window)];
  const ids = await appended(redis, stream, 2, 1_000);
  await late.read();
  await none.read();
  for (let round = 0; round < 10; round++) {
    ids.push(...(await appended(redis, stream, 5, 1_000)));
    while (!(await first.read()));
    t.ok(window.bytes <= 5_000, `${window.bytes} bytes held`);
  }
  while (!(await late.read()));
  for (const { seen } of [first, late]) {
    t.same(
      seen.map(({ id }) => id),
      ids,
    );
  }
  ids.push(...(await appended(redis, stream, 3, 1_000)));
  while (!(await late.read()));
  while (!(await first.read()));
  t.equal(late.seen.at(-1), first.seen.at(-1), 'and catches up');
  none.leave();
  t.equal(window.bytes, 0, 'nothing is held for who has left');
});

t.test('a lost answer changes nothing', async (t) => {
  const redis = await connect(t, server.address);
  const stream = freshKeys(1).events(0);
  let lose = 2;
  const losing = intercepted(redis, async ({ name, go }) => {
    const answer = await go();
    if (name === 'callBuffer' && lose-- > 0) throw new Error('Command timed out');
    return answer;
  });
  const window = new StreamWindow({ redis: losing, stream, bytesMax: 1e6 });
  const followers = [new Follower(window), new Follower(window)];
  const ids = await appended(redis, stream, 10);
  await Promise.all(followers.map((follower) => t.rejects(follower.read())));
  await t.rejects(followers[1]!.read());
  for (const follower of followers) {
    while (!(await follower.read()));
    t.same(
      follower.seen.map(({ id }) => id),
      ids,
    );
  }
});
