// Rows from before there were microseconds: stored by tables of then, and still in the streams when the new version
// starts. What was chained of them stays what it was, and what is chained now covers the microseconds.
import { createHash } from 'node:crypto';
import t from 'tap';
import { migrate, readMigrations } from '../../clickhouse/migrate.ts';
import { chainPage } from '../../clickhouse/queries/chain-blocks.ts';
import { partsToRewrite, rewriteErased } from '../../clickhouse/queries/erase-agent.ts';
import { listEvents } from '../../clickhouse/queries/list-events.ts';
import { getTrace, listTraces } from '../../clickhouse/queries/traces.ts';
import { ChainWriter } from '../../pipelines/store/chain.ts';
import { EVENT_ROW_COLUMNS } from '../../schemas/event-row.ts';
import { exactTime } from '../../schemas/time.ts';
import { packAgent } from '../../src/audit/hash.ts';
import { startPipelines } from '../pipelines/harness.ts';
import { appendOf, eventually, makeEvent } from '../streams/harness.ts';
import { startClickHouse } from '../support/clickhouse.ts';
import { startRedis } from '../support/redis.ts';
import { makeAuditWorld, newAccount, settle, submit } from './harness.ts';

const servers = { redis: await startRedis(t), clickhouse: await startClickHouse(t) };
const ALL = readMigrations();
const BEFORE = ALL.slice(
  0,
  ALL.findIndex(({ name }) => name.includes('microseconds')),
);
const COLUMNS_BEFORE = EVENT_ROW_COLUMNS.filter((name) => name !== 'timestamp_micros').join(', ');
/** Of all but the last column, which is two bytes. */
const rowOfBefore = (row: Buffer) => row.subarray(0, -2);
const leafOf = (row: Buffer) => createHash('sha256').update(row).digest();

t.test('tables and a chain of before verify after the migration, and whatever is added', async (t) => {
  const world = await makeAuditWorld(t, { ...servers, partitions: 1, migrations: BEFORE });
  const { appender, clickhouse, keys, redis, verify } = world;
  const account = newAccount();
  const agent = `agt_${account.slice(4)}`;
  const who = { account, agent };
  const now = Date.now();
  const stored = Array.from({ length: 40 }, (_, i) =>
    makeEvent(who, { timestamp: now - (i % 4), trace_id: `trace-${i % 3}` }),
  );
  await clickhouse.insertBinary(
    'events',
    COLUMNS_BEFORE,
    stored.map(({ row }) => rowOfBefore(row)),
    'before',
  );
  const entries = stored.map(({ id, row, summary }) => ({
    ...{ account, id, agent: packAgent(agent), leaf: leafOf(rowOfBefore(row)), atMs: summary.receivedAt },
  }));
  for (const command of await new ChainWriter(world).extend(keys.events(0), entries))
    await redis.call(command[0] as string, ...command.slice(1));

  t.same(
    await migrate(clickhouse, { retentionDays: 3_650 }),
    ALL.slice(BEFORE.length).map(({ name }) => name),
  );
  t.match(await verify(account), { valid: true, entries: 40, unchained: 0 });
  const list = async () => {
    const page = { limit: 500, offset: 0, order: 'asc' as const };
    const [all, ofAgent] = [
      await listEvents(clickhouse, account, page),
      await listEvents(clickhouse, account, { ...page, agentId: agent }),
    ];
    t.same(all, ofAgent, 'by the key as by the projection');
    const traces = await listTraces(clickhouse, account, { limit: 10, offset: 0 });
    const trace = await getTrace(clickhouse, account, 'trace-1');
    return { ids: all.items.map(({ id }) => id), times: all.items.map(({ timestamp_ms: at }) => at), traces, trace };
  };
  const inOrder = (events: readonly { id: string; at: number }[]) =>
    [...events].sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1)).map(({ id }) => id);
  const seen = stored.map(({ id, summary }) => ({ id, at: summary.occurredAt }));
  const before = await list();
  t.same(before.ids, inOrder(seen));
  t.equal(await partsToRewrite(clickhouse), 'some', 'the projection is made later');
  await rewriteErased(clickhouse);
  t.ok(await eventually(async () => (await partsToRewrite(clickhouse)) === 'none'));
  t.same(await list(), before, 'with it the same is read');

  // Sent by a front of before, behind it one of now, within the same milliseconds.
  await startPipelines(t, world);
  const late = stored.map((_, i) => {
    const made = makeEvent(who, { timestamp: now - (i % 4) });
    const row = rowOfBefore(made.row);
    return { ...made, row, summary: { ...made.summary, rowBytes: row.length } };
  });
  await appender.append(appendOf(who, late));
  const exact = Array.from({ length: 40 }, (_, i) => ({ timestamp: now - (i % 4), timestamp_micros: (i * 37) % 1000 }));
  const ids = await submit(world, who, exact);
  await settle(world, account);
  t.match(await verify(account), { valid: true, entries: 120, unchained: 0, unsettled: 0 });
  seen.push(...late.map(({ id, summary }) => ({ id, at: summary.occurredAt })));
  seen.push(...ids.map((id, i) => ({ id, at: exactTime(exact[i]!.timestamp, exact[i]!.timestamp_micros) })));
  const after = await list();
  t.same(after.ids, inOrder(seen));
  t.same(
    after.times,
    seen.map(({ at }) => at).sort((a, b) => a - b),
  );

  await world.flush();
  const chain = keys.chainOf(keys.events(0));
  const leaves = (await chainPage(clickhouse, { account, chain, fromN: 1 })).flatMap((block) =>
    Array.from({ length: block.count }, (_, i) => block.leaves.subarray(32 * i, 32 * (i + 1)).toString('hex')),
  );
  const isChained = (row: Buffer) => leaves.includes(leafOf(row).toString('hex'));
  t.ok(stored.every(({ row }) => isChained(rowOfBefore(row))));
  t.ok(
    late.every(({ row }) => isChained(row)),
    'as they came',
  );

  const [first] = ids;
  const set = (micros: number) =>
    clickhouse.command(
      'ALTER TABLE events UPDATE timestamp_micros = {micros:UInt16} WHERE id = {id:String}',
      { micros, id: first! },
      { mutations_sync: '2' },
    );
  for (const [micros, valid] of [
    [5, false],
    [0, true],
  ] as const) {
    await set(micros);
    const found = await verify(account);
    t.equal(found.valid, valid, `with ${micros} us`);
    if (!valid) t.match(found, { faults_by_kind: [{ kind: 'changed', count: 1 }] });
  }
});
