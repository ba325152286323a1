// Gaps of the audit chains that a signed note closes: the note covers what was missing when it was made, nothing else,
// and only as long as it is itself as it was signed and chained.
import { createPrivateKey } from 'node:crypto';
import t, { type Test } from 'tap';
import { makeKeyPem, publicText } from '../../src/audit/checkpoint.ts';
import { DailyVerification, readVerification } from '../../src/audit/daily-verification.ts';
import { type GapNote, type GapRange, rangesOf, readGap, signGap } from '../../src/audit/gap-note.ts';
import type { Missing } from '../../src/audit/ledger.ts';
import { auditLog, SYSTEM } from '../../src/registry/audit.ts';
import { commit } from '../../src/registry/commit.ts';
import { startPipelines } from '../pipelines/harness.ts';
import { silent } from '../streams/harness.ts';
import { startClickHouse } from '../support/clickhouse.ts';
import { startRedis } from '../support/redis.ts';
import { type AuditWorld, makeAuditWorld, newAccount, newAgent, settle, submit } from './harness.ts';

const clickhouse = await startClickHouse(t);
const key = createPrivateKey(makeKeyPem());

async function begin(t: Test) {
  const redis = await startRedis(t, { single: true });
  const world = await makeAuditWorld(t, { redis, clickhouse, partitions: 1 });
  const account = newAccount();
  const who = { account, agent: await newAgent(world, account, 'one') };
  await startPipelines(t, world, { processName: 'first' });
  const ids = await submit(
    world,
    who,
    Array.from({ length: 40 }, () => ({})),
  );
  await settle(world, account);
  return { world, account, who, ids };
}

async function remove(world: AuditWorld, ids: readonly string[]): Promise<void> {
  await world.clickhouse.command('DELETE FROM events WHERE id IN {ids:Array(String)}', { ids });
}

async function missingOf(world: AuditWorld, account: string): Promise<Map<string, number[]>> {
  const missing = new Map<string, number[]>();
  const onMissing = ({ chain, n }: Missing) => missing.set(chain, [...(missing.get(chain) ?? []), n]);
  await world.verify(account, { onMissing });
  return missing;
}

function noteOf(account: string, ranges: GapRange[]): GapNote {
  const at = new Date().toISOString();
  const entries = ranges.reduce((sum, range) => sum + range.entries, 0);
  return signGap(account, { at, by: 'Ada', reason: 'restored', from: at, to: at, entries, ranges }, key);
}

async function keep(world: AuditWorld, account: string, details: GapNote): Promise<void> {
  const at = Date.now();
  const entry = auditLog({ action: 'chain.gap_closed', type: 'account', id: account, details }, SYSTEM, at);
  await commit(world, { account, at, guards: [], writes: [], changes: [], audit: [entry] });
  await settle(world, account);
}

t.test('a note covers what it says, and a row that is removed later is missing', async (t) => {
  const { world, account, ids } = await begin(t);
  await remove(world, [...ids.slice(5, 10), ids[20]!]);
  t.match(await world.verify(account), { valid: false, faults: 6, restored: 0, first_invalid: { kind: 'missing' } });
  const ranges = rangesOf(await missingOf(world, account));
  t.match(ranges, [
    { chain: 'events-0', entries: 5 },
    { chain: 'events-0', entries: 1 },
  ]);

  await keep(world, account, noteOf(account, ranges));
  const closed = await world.verify(account);
  t.match(closed, { valid: true, faults: 0, restored: 6, unsettled: 0 });
  t.equal(closed.entries, closed.intact + closed.restored);
  t.match(closed.closed_gaps, [{ by: 'Ada', reason: 'restored', entries: 6, public_key: publicText(key) }]);
  t.match(await world.verify(account, { trustedKey: createPrivateKey(makeKeyPem()) }), { valid: false, restored: 0 });
  t.match(await world.verify(account, { trustedKey: key }), { valid: true, restored: 6 });
  t.equal((await missingOf(world, account)).size, 0, 'nothing is left to be closed');

  await remove(world, [ids[30]!]);
  t.match(await world.verify(account), { valid: false, faults: 1, restored: 6, first_invalid: { kind: 'missing' } });
});

t.test('the verification that runs by itself finds a gap, and that it was closed', async (t) => {
  const { world, account, ids } = await begin(t);
  let nowMs = Date.now();
  const daily = new DailyVerification({
    ...{ redis: world.redis, keys: world.keys, retentionDays: 3_650, mayWork: () => true, log: silent },
    ...{ accounts: async () => [account], settle: async () => true, now: () => nowMs },
    verify: (id, options) => world.verify(id, options),
  });
  const whole = async () => {
    for (let n = 0; n < 3; n++) await daily.step();
    return readVerification(world.redis, world.keys);
  };
  t.match(await whole(), { verified: nowMs, invalid: [] });
  await remove(world, [ids[3]!]);
  nowMs += 25 * 3_600_000;
  t.match(await whole(), { verified: nowMs, invalid: [account] });
  await keep(world, account, noteOf(account, rangesOf(await missingOf(world, account))));
  nowMs += 3_600_000;
  t.match(await whole(), { verified: nowMs, invalid: [] });
});

t.test('a range that spans rows which are there covers no more than were missing', async (t) => {
  const { world, account, ids } = await begin(t);
  await remove(world, [ids[3]!, ids[8]!]);
  const numbers = (await missingOf(world, account)).get('events-0')!;
  const [first, last] = [Math.min(...numbers), Math.max(...numbers)];
  await keep(world, account, noteOf(account, [{ chain: 'events-0', first, last, entries: 2 }]));
  t.match(await world.verify(account), { valid: true, restored: 2 });
  await remove(world, [ids[5]!]);
  t.match(await world.verify(account), { valid: false, faults: 1, restored: 2 });
});

t.test('a note that was changed, or never signed, covers nothing', async (t) => {
  const { world, account, ids } = await begin(t);
  await remove(world, [ids[3]!]);
  const ranges = rangesOf(await missingOf(world, account));
  const note = noteOf(account, ranges);
  await keep(world, account, { ...note, reason: 'another' });
  await keep(world, account, noteOf(newAccount(), ranges));
  t.match(await world.verify(account), { valid: false, faults: 1, restored: 0, closed_gaps: [] });
  await keep(world, account, note);
  t.match(await world.verify(account), { valid: true, restored: 1 });
  await world.clickhouse.command(
    `INSERT INTO audit_log (account_id, id, action, actor, resource_type, resource_id, details, created_at)
     SELECT account_id, id, action, 'key:other', resource_type, resource_id, details, created_at FROM audit_log FINAL
     WHERE action = 'chain.gap_closed' AND details LIKE {like:String}`,
    { like: `%${note.signature}%` },
  );
  t.match(await world.verify(account), { valid: false, restored: 0 }, 'a note whose entry was changed is none');
});

t.test('an erasure of what a note covers is an erasure', async (t) => {
  const { world, account, who, ids } = await begin(t);
  await remove(world, [ids[3]!]);
  await keep(world, account, noteOf(account, rangesOf(await missingOf(world, account))));
  t.match(await world.verify(account), { valid: true, restored: 1 });
  await world.agents.remove(account, who.agent, { actor: 'key:key_1', requestId: 'test' });
  await settle(world, account);
  t.match(await world.verify(account), { valid: true, restored: 0, faults: 0 });
});

t.test('many gaps become few ranges, which keep their numbers', async (t) => {
  const numbers = Array.from({ length: 3_000 }, (_, i) => 1 + 3 * i + (i % 7));
  const ranges = rangesOf(
    new Map([
      ['events-0', numbers],
      ['registry', [7]],
    ]),
  );
  t.ok(ranges.length <= 501, `${ranges.length}`);
  t.equal(
    ranges.reduce((sum, { entries }) => sum + entries, 0),
    3_001,
  );
  t.ok(ranges.every(({ first, last, entries }) => last - first + 1 >= entries));
  const note = noteOf('acc_1', ranges);
  t.ok(readGap('acc_1', JSON.stringify(note)));
  t.notOk(readGap('acc_2', JSON.stringify(note)), 'of another account');
  t.notOk(readGap('acc_1', '{"ranges": 3}'));
});
