// The pool of memory: what is given back is taken again, nothing is kept beyond its bound, and nothing that is not ours.
import t from 'tap';
import { SLAB_BYTES_MAX, Slabs } from '../src/slabs.ts';

t.test('what is given back is taken again, by whoever needs as much', (t) => {
  const slabs = new Slabs();
  for (const bytes of [1, 1024, 1025, 50_000, SLAB_BYTES_MAX]) {
    const slab = slabs.take(bytes);
    t.ok(slab.length >= bytes, `${slab.length} for ${bytes}`);
    const other = slabs.take(bytes);
    t.not(other, slab, 'one holder at a time');
    slabs.give(slab);
    t.equal(slabs.take(bytes), slab);
  }
  t.equal(slabs.kept, 0);
  t.end();
});

t.test('what lies unused is bounded, and the largest are not kept', (t) => {
  const slabs = new Slabs(10_000);
  const held = Array.from({ length: 5 }, () => slabs.take(4_000));
  for (const slab of held) slabs.give(slab);
  t.equal(slabs.kept, 8_192);
  const large = slabs.take(SLAB_BYTES_MAX + 1);
  t.equal(large.length, SLAB_BYTES_MAX + 1);
  slabs.give(large);
  t.equal(slabs.kept, 8_192);
  t.throws(() => slabs.give(Buffer.alloc(1_500)), /not a slab/);
  t.end();
});

t.test('sizes that nobody asks for any more make room for those that are in use', (t) => {
  const slabs = new Slabs(64 * 1024);
  const burst = [1, 2].map(() => slabs.take(32 * 1024));
  for (const slab of burst) slabs.give(slab);
  t.equal(slabs.kept, 64 * 1024, 'full of large ones');
  const small = Array.from({ length: 16 }, () => slabs.take(4 * 1024));
  for (const slab of small) slabs.give(slab);
  t.equal(slabs.kept, 64 * 1024, 'still at its bound');
  const again = new Set(small.map(() => slabs.take(4 * 1024)));
  t.ok(
    small.every((slab) => again.has(slab)),
    'every small one was kept',
  );
  for (const slab of again) slabs.give(slab);
  slabs.give(burst[0]!);
  t.ok(
    small.every(() => again.has(slabs.take(4 * 1024))),
    'and a large one that comes back late displaces none of them',
  );
  t.end();
});

t.test('what has grown holds what was written, and the shorter one is free', (t) => {
  const slabs = new Slabs();
  const short = slabs.take(1_000);
  short.write('words');
  const long = slabs.grow(short, 5, 5_000);
  t.ok(long.length >= 5_000);
  t.equal(long.toString('latin1', 0, 5), 'words');
  t.equal(slabs.take(1_000), short);
  t.end();
});
