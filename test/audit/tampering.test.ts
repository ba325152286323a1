// Tamperings with an audit trail in memory: each is found, and an untouched trail is valid.
import t from 'tap';
import { type ChainBlock, ID_BYTES } from '../../schemas/chain.ts';
import { packId, timeOfPacked } from '../../src/audit/hash.ts';
import { mintId } from '../../src/common/ids.ts';
import { SEED } from '../support/seed.ts';
import { erase, HANDS, makeTrail, Random, rewrite, type Trail, verifyTrail } from './tampering.ts';

const EACH = 12;
const seed = SEED % 1_000_000;

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

for (const chain of ['events-0', 'registry']) {
  t.test(`an erasure between a row and its entry is no fault, a row that stays is one (${chain})`, async (t) => {
    for (const isAdded of [false, true]) {
      const trail = makeTrail(new Random(seed));
      const [rows, blocks] = [trail.rows.get(chain)!, trail.blocks.get(chain)!];
      const { agent } =
        chain === 'registry' ? rows.find(({ entry }) => entry?.action === 'agent.updated')! : rows.at(-1)!;
      const added = rows.find((row) => row.agent !== agent && row.agent !== '')!;
      if (isAdded) rows.push({ ...added, id: mintId(chain === 'registry' ? 'auditLog' : 'event', added.atMs) });
      // The rows are stored; their entries are on their way.
      trail.blocks.set(chain, blocks.slice(0, 1));
      trail.heads.clear();
      const settle = async () => {
        trail.blocks.set(chain, blocks);
        erase(trail, agent);
        return true;
      };
      const found = await verifyTrail(trail, { withCheckpoint: false, settle });
      t.match(found, isAdded ? { valid: false, faults: 1, first_invalid: { kind: 'added', chain } } : { valid: true });
    }
  });
}

const NOTHING = Buffer.alloc(0);

/** A block whose contents have expired, as ClickHouse leaves it; `lastMs` is its own word. */
function emptied(block: ChainBlock, lastMs = block.lastMs): ChainBlock {
  return { ...block, lastMs, leaves: NOTHING, agents: NOTHING, ids: NOTHING };
}

/**
 * Lets the first half of a chain of events expire. Returns where the retention begins and how many blocks are empty.
 */
function expireHalf(trail: Trail, chain: string): { expiredBeforeMs: number; empty: number } {
  const blocks = trail.blocks.get(chain)!;
  const empty = blocks.length >> 1;
  const expiredBeforeMs = Math.max(...blocks.slice(0, empty).map(({ lastMs }) => lastMs)) + 1;
  trail.blocks.set(
    chain,
    blocks.map((block, i) => (i < empty ? emptied(block) : block)),
  );
  trail.rows.set(
    chain,
    trail.rows.get(chain)!.filter(({ atMs }) => atMs >= expiredBeforeMs),
  );
  return { expiredBeforeMs, empty };
}

t.test('what has expired is no fault, also where two have copied the same blocks', async (t) => {
  for (let i = 0; i < EACH; i++) {
    const trail = makeTrail(new Random(seed + i));
    const { expiredBeforeMs, empty } = expireHalf(trail, 'events-0');
    t.match(await verifyTrail(trail, { expiredBeforeMs }), { valid: true, first_invalid: null });
    const blocks = trail.blocks.get('events-0')!;
    const before = blocks.findLastIndex((_, j) => j < empty - 1 && blocks[j + 1]!.count > 1);
    blocks[before] = { ...blocks[before]!, count: blocks[before]!.count + 1 };
    t.match(await verifyTrail(trail, { expiredBeforeMs }), { valid: true, first_invalid: null });
  }
});

t.test(
  'a block among younger ones that was given out as expired is missing, whatever it says of its time',
  async (t) => {
    for (let i = 0; i < EACH; i++) {
      const random = new Random(seed + i);
      const trail = makeTrail(random);
      const { expiredBeforeMs } = expireHalf(trail, 'events-0');
      const blocks = trail.blocks.get('events-0')!;
      // Behind an entry that has not expired: what lies before the first of those may have expired as well.
      const young = blocks.findIndex((block) => timesOf(block).some((atMs) => atMs >= expiredBeforeMs));
      const at = young + 1 + random.below(blocks.length - young - 1);
      const ids = new Set(idsOf(blocks[at]!));
      trail.rows.set(
        'events-0',
        trail.rows.get('events-0')!.filter(({ id }) => !ids.has(packId(id).toString('hex'))),
      );
      blocks[at] = emptied(blocks[at]!, 1);
      for (const withCheckpoint of [true, false]) {
        const found = await verifyTrail(trail, { expiredBeforeMs, withCheckpoint });
        t.match(found, { valid: false, first_invalid: { kind: 'missing', chain: 'events-0' } });
      }
    }
  },
);

/** When its entries were made; none once its contents are gone. */
function timesOf({ ids }: ChainBlock): number[] {
  return Array.from({ length: ids.length / ID_BYTES }, (_, i) => timeOfPacked(ids.subarray(i * ID_BYTES)));
}

function idsOf({ ids, count }: ChainBlock): string[] {
  return Array.from({ length: count }, (_, i) => ids.toString('hex', i * 16, (i + 1) * 16));
}

t.test('the end of a chain is asked for once, not with each block of the others', async (t) => {
  const trail = makeTrail(new Random(seed), 3_000);
  trail.blocks.set('events-7', []);
  const reads = new Map<string, number>();
  const start = performance.now();
  const found = await verifyTrail(trail, {}, (chain) => reads.set(chain, (reads.get(chain) ?? 0) + 1));
  t.equal(found.valid, true);
  const blocks = [...trail.blocks.values()].flat().length;
  // It is known for a second.
  const asks = 2 + (performance.now() - start) / 1_000;
  t.ok(blocks > 30, `${blocks} blocks`);
  t.ok(reads.get('events-7')! <= Math.max(asks, 10), `${reads.get('events-7')} questions for a chain without a block`);
});
