// Inflating bodies: what is counted, where the bytes lie, and who waits for whom. (bodies.path.test.ts sends them.)
import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { BufferPool } from '../../src/common/buffer-pool.ts';
import { BodyInflater, type InflatedBody } from '../../src/http/reading/inflate-body.ts';
import { BodyBudget } from '../../src/http/reading/read-body.ts';

const MiB = 1024 * 1024;
const isGone = () => false;
const all = { account: 'a', bytesMax: 8 * MiB, isGone };
const setUp = (bytesMax = 64 * MiB) => {
  const budget = new BodyBudget(bytesMax);
  return { budget, inflater: new BodyInflater(budget, new BufferPool()) };
};

t.test('what is small is there at once, the rest is inflated beside the loop; all of it is counted', async (t) => {
  for (const bytes of [0, 1, 65_536, 65_537, 300_000, 8 * MiB]) {
    const { budget, inflater } = setUp();
    const text = randomBytes(bytes);
    const given = inflater.inflate(gzipSync(text), all);
    // Random bytes take more room than they have: 64 KiB of them are no longer small.
    t.equal(given instanceof Promise, bytes > 60_000, `${bytes} bytes`);
    const body = await given;
    t.ok(body.bytes.equals(text));
    t.equal(body.bytes.buffer instanceof SharedArrayBuffer, bytes > 262_144, 'large ones where the thread sees them');
    t.equal(budget.held, bytes);
    body.release();
    t.equal(budget.held, 0);
  }
});

t.test('nothing is held of what is refused, and little is inflated of what is too large', async (t) => {
  const { budget, inflater } = setUp();
  let most = 0;
  const take = budget.take.bind(budget);
  budget.take = (bytes, account) => {
    const taken = take(bytes, account);
    most = Math.max(most, budget.held);
    return taken;
  };
  const bomb = gzipSync(Buffer.alloc(100 * MiB));
  await t.rejects(async () => inflater.inflate(bomb, { ...all, bytesMax: MiB }), { code: 'payload_too_large' });
  t.ok(most <= MiB, `${most} bytes at the most`);
  const sound = gzipSync(randomBytes(200_000));
  await t.rejects(async () => inflater.inflate(sound.subarray(0, -1), all), { code: 'malformed_json' });
  await t.rejects(async () => inflater.inflate(Buffer.alloc(10), all), { code: 'malformed_json' });
  await t.rejects(async () => inflater.inflate(sound, { ...all, isGone: () => true }), { code: 'unavailable' });
  t.equal(budget.held, 0);
  const small = setUp(100_000);
  await t.rejects(async () => small.inflater.inflate(sound, all), { code: 'unavailable' }, 'there is no room');
  t.equal(small.budget.held, 0);
});

t.test('an account has one body inflated at a time and a bounded line; another does not wait for it', async (t) => {
  const { budget, inflater } = setUp(1024 * MiB);
  const body = gzipSync(Buffer.alloc(8 * MiB));
  const order: string[] = [];
  const inflated = async (account: string) => {
    const made: InflatedBody = await inflater.inflate(body, { ...all, account });
    order.push(account);
    made.release();
  };
  const many = Array.from({ length: 70 }, () =>
    inflated('a').catch((error: { code: string; message: string }) => `${error.code} ${error.message}`),
  );
  const other = inflated('b');
  await other;
  t.ok(order.length <= 3, `${order.length - 1} of the first account's 70 came before the second's one`);
  const refused = (await Promise.all(many)).filter((one) => one !== undefined);
  t.equal(refused.length, 5, 'one under way, 64 in line');
  t.match(refused[0], /^unavailable .*64 of the account wait already; nothing was recorded/);
  t.equal(budget.held, 0);
});
