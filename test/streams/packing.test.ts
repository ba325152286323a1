// Packed entries: the same bytes come back, whatever they are, and what was not packed by us is refused rather than
// believed.
import fc from 'fast-check';
import t from 'tap';
import { decodeEntry, ENTRY_VERSION, EntryFormatError, PACKED_ENTRY_VERSION } from '../../schemas/entry.ts';
import { PACKED_BYTES_MIN, pack, packEntry, unpack, unpackFields } from '../../src/streams/packing.ts';
import { runs } from '../support/seed.ts';

const SEED = 20260;
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 20_000 }),
  fc
    .tuple(fc.uint8Array({ minLength: 1, maxLength: 300 }), fc.nat(500))
    .map(([part, times]) => Buffer.concat(Array.from({ length: times }, () => part))),
);

const entryFields = (version: number, summaries: Buffer, rows?: Buffer) =>
  new Map([
    ['v', Buffer.from(String(version))],
    ['d', summaries],
    ...(rows === undefined ? [] : [['r', rows] as const]),
    ['g', Buffer.from('store')],
  ]);

t.test('what is unpacked is what was packed, and packing makes nothing much longer', (t) => {
  fc.assert(
    fc.property(bytes, (some) => {
      const original = Buffer.from(some);
      const packed = pack(original);
      if (packed.length > original.length * 1.004 + 20) throw new Error(`${packed.length} for ${original.length}`);
      return unpack(packed).equals(original);
    }),
    { seed: SEED, numRuns: runs(500) },
  );
  t.equal(unpack(pack(Buffer.alloc(0))).length, 0);
  t.ok(pack(Buffer.alloc(1_000_000)).length > 1_000_000 / 255, 'no block can hold more than is believed');
  t.end();
});

t.test('of changed bytes none are taken for more than they say, and nothing worse than an error comes of them', (t) => {
  const packed = pack(Buffer.from('{"tool":"search","query":"weather in Bern"}'.repeat(200)));
  let refused = 0;
  fc.assert(
    fc.property(fc.nat(packed.length - 1), fc.integer({ min: 1, max: 255 }), fc.nat(packed.length), (at, by, end) => {
      const changed = Buffer.from(packed);
      changed[at]! ^= by;
      for (const broken of [changed, packed.subarray(0, Math.min(end, packed.length - 1))]) {
        try {
          if (unpack(broken).length !== broken.readUInt32LE(0)) return false;
        } catch {
          refused++;
        }
      }
      return true;
    }),
    { seed: SEED, numRuns: runs(500) },
  );
  t.ok(refused > runs(500), `${refused} refused`);
  const huge = Buffer.from(packed);
  huge.writeUInt32LE(0xffff_ffff, 0);
  t.throws(() => unpack(huge), /cannot hold 4294967295/);
  t.throws(() => unpack(Buffer.alloc(3)), /3 bytes are no block/);
  t.throws(() => unpack(Buffer.alloc(4)), /4 bytes are no block/);
  for (const more of [-1, 1]) {
    const other = Buffer.from(packed);
    other.writeUInt32LE(packed.readUInt32LE(0) + more, 0);
    t.throws(() => unpack(other), `a length that is ${more} off`);
  }
  t.end();
});

t.test('an entry is packed from PACKED_BYTES_MIN on, both fields together', (t) => {
  const [summaries, rows] = [Buffer.from('[]'), Buffer.alloc(PACKED_BYTES_MIN - 2)];
  const packed = packEntry(summaries, rows);
  t.equal(packed.version, PACKED_ENTRY_VERSION);
  t.ok(unpack(packed.rows).equals(rows) && unpack(packed.summaries).equals(summaries));
  const small = rows.subarray(1);
  t.match(packEntry(summaries, small), { version: ENTRY_VERSION, summaries, rows: small });
  t.equal(PACKED_BYTES_MIN, 131_072, 'as it was measured');
  t.end();
});

t.test('an entry is unpacked to what a plain one is; one that is plain stays as it is', (t) => {
  const [summaries, rows] = [Buffer.from('[]'), Buffer.from('rows')];
  const plain = entryFields(ENTRY_VERSION, summaries, rows);
  t.equal(unpackFields(plain), plain);
  t.strictSame([...unpackFields(entryFields(PACKED_ENTRY_VERSION, pack(summaries), pack(rows)))], [...plain]);
  const withoutRows = unpackFields(entryFields(PACKED_ENTRY_VERSION, pack(summaries)));
  t.strictSame([...withoutRows], [...entryFields(ENTRY_VERSION, summaries)]);
  const ofAnother = new Map([['s', Buffer.from('3')]]);
  t.equal(unpackFields(ofAnother), ofAnother);
  t.end();
});

t.test('an entry of which one part cannot be unpacked stays packed, and is refused as what it is', (t) => {
  const sound = pack(Buffer.from('[]'));
  for (const broken of [
    entryFields(PACKED_ENTRY_VERSION, sound, Buffer.from('rows')),
    entryFields(PACKED_ENTRY_VERSION, sound.subarray(0, 5), sound),
  ]) {
    t.equal(unpackFields(broken), broken);
    t.throws(() => decodeEntry(unpackFields(broken)), new EntryFormatError('packed entry that cannot be unpacked'));
  }
  t.end();
});
