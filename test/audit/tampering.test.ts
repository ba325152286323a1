// Tamperings with an audit trail in memory: each is found, and a trail that nobody touched is not complained of.
import t from 'tap';
import { HANDS, makeTrail, Random, rewrite, verifyTrail } from './tampering.ts';

const EACH = 12;
const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);

t.test(`a trail with erasures is valid, with and without a checkpoint (seed ${seed})`, async (t) => {
  for (let i = 0; i < 10; i++) {
    const trail = makeTrail(new Random(seed + i));
    for (const withCheckpoint of [true, false]) {
      const found = await verifyTrail(trail, { withCheckpoint });
      t.match(found, { valid: true, unchained: 0, unsettled: 0, first_invalid: null });
      t.ok(found.erased > 0);
    }
  }
});

for (const [name, hand] of Object.entries(HANDS)) {
  t.test(`${name}: found against a checkpoint, ${EACH} of ${EACH} (seed ${seed})`, async (t) => {
    const missed: number[] = [];
    for (let i = 0; i < EACH; i++) {
      const random = new Random(seed * 1_000 + i);
      const trail = makeTrail(random);
      hand(trail, random);
      const { valid, first_invalid } = await verifyTrail(trail);
      if (valid || first_invalid === null) missed.push(seed * 1_000 + i);
    }
    t.same(missed, []);
  });
}

t.test('a chain that was re-made whole is consistent in itself: the checkpoint alone finds it', async (t) => {
  for (let i = 0; i < EACH; i++) {
    const random = new Random(seed + i);
    const trail = makeTrail(random);
    rewrite(trail, random);
    t.match(await verifyTrail(trail, { withCheckpoint: false }), { valid: true });
    t.match(await verifyTrail(trail), { valid: false, first_invalid: { kind: 'head_mismatch' } });
  }
});

t.test('the entry that was touched is the one that is named', async (t) => {
  const trail = makeTrail(new Random(seed));
  const row = trail.rows.get('events-1')![40]!;
  row.bytes[0] = 0;
  t.match((await verifyTrail(trail)).first_invalid, {
    kind: 'changed',
    chain: 'events-1',
    entry_id: row.id.replace('evt_', 'log_'),
  });
  trail.rows.get('events-1')!.splice(40, 1);
  t.match((await verifyTrail(trail)).first_invalid, {
    kind: 'missing',
    chain: 'events-1',
    entry_id: row.id.replace('evt_', 'log_'),
  });
});
