// The pool of memory: what is given back is taken again, nothing is kept beyond its bound, and nothing that is not
// ours.
import t from 'tap';
import { BUFFER_BYTES_MAX, BufferPool } from '../../src/common/buffer-pool.ts';

t.test('a released buffer is reused for the next request of its size', (t) => {
  const buffers = new BufferPool();
  for (const bytes of [1, 1024, 1025, 50_000, BUFFER_BYTES_MAX]) {
    const buffer = buffers.take(bytes);
    t.ok(buffer.length >= bytes, `${buffer.length} for ${bytes}`);
    const other = buffers.take(bytes);
    t.not(other, buffer, 'one holder at a time');
    buffers.release(buffer);
    t.equal(buffers.take(bytes), buffer);
  }
  t.equal(buffers.kept, 0);
  t.end();
});

t.test('what lies unused is bounded, and the largest are not kept', (t) => {
  const buffers = new BufferPool(10_000);
  const held = Array.from({ length: 5 }, () => buffers.take(4_000));
  for (const buffer of held) buffers.release(buffer);
  t.equal(buffers.kept, 8_192);
  const large = buffers.take(BUFFER_BYTES_MAX + 1);
  t.equal(large.length, BUFFER_BYTES_MAX + 1);
  buffers.release(large);
  t.equal(buffers.kept, 8_192);
  t.throws(() => buffers.release(Buffer.alloc(1_500)), /not a buffer/);
  t.end();
});

t.test('sizes that are no longer requested make room for those in use', (t) => {
  const buffers = new BufferPool(64 * 1024);
  const burst = [1, 2].map(() => buffers.take(32 * 1024));
  for (const buffer of burst) buffers.release(buffer);
  t.equal(buffers.kept, 64 * 1024, 'full of large ones');
  const small = Array.from({ length: 16 }, () => buffers.take(4 * 1024));
  for (const buffer of small) buffers.release(buffer);
  t.equal(buffers.kept, 64 * 1024, 'still at its bound');
  const again = new Set(small.map(() => buffers.take(4 * 1024)));
  t.ok(
    small.every((buffer) => again.has(buffer)),
    'every small one was kept',
  );
  for (const buffer of again) buffers.release(buffer);
  buffers.release(burst[0]!);
  t.ok(
    small.every(() => again.has(buffers.take(4 * 1024))),
    'and a large one that comes back late displaces none of them',
  );
  t.end();
});

t.test('what has grown holds what was written, and the shorter one is free', (t) => {
  const buffers = new BufferPool();
  const short = buffers.take(1_000);
  short.write('words');
  const long = buffers.grow(short, 5, 5_000);
  t.ok(long.length >= 5_000);
  t.equal(long.toString('latin1', 0, 5), 'words');
  t.equal(buffers.take(1_000), short);
  t.end();
});
