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
