// The chain over the real engines: what is stored is chained, honest work is never a fault, and what is done to the tables is found.
import t from 'tap';
import { startPipelines } from '../pipelines/harness.ts';
import { eventually } from '../streams/harness.ts';
import { startClickHouse } from '../support/clickhouse.ts';
import { startRedis } from '../support/redis.ts';
import { countBlocks, makeAuditWorld, newAccount, newAgent, settle, submit } from './harness.ts';

t.setTimeout(180_000);

const servers = { redis: await startRedis(t), clickhouse: await startClickHouse(t) };

const HOSTILE = [
  '{"a":"\\u0000\\ud800"}',
  `{"text":"${'\u0000'}"}`.replace('\u0000', '\\u0000'),
  `{"long":"${'x'.repeat(300_000)}"}`,
  '{"n":1e400,"m":12345678901234567890,"é":"\u{1f600}","tab":"\\t"}',
];

t.test('rows come back as the bytes that were chained, whatever is in them', async (t) => {
  const world = await makeAuditWorld(t, servers);
  await startPipelines(t, world);
  const account = newAccount();
  const agent = await newAgent(world, account, 'hostile');
  const now = Date.now();
  const rows = [
    ...HOSTILE.map((payload) => ({ payload })),
    { payload: '{}', timestamp: 0 },
    { payload: '{}', timestamp: Date.parse('2000-01-01T00:00:00Z') },
    { payload: '{}', timestamp: Date.parse('2299-12-31T23:59:59.999Z') },
    { payload: '{}', token_count: 0, tokens_used: null },
    { payload: '{}', token_count: -(2 ** 53), tokens_used: 2 ** 53 },
    { payload: '{}', trace_id: '\u0000\u0001\u00ff\ufeff', request_id: '', model: 'm'.repeat(200) },
    { payload: '{}', search_text: 'a\u0000b\nc', reason: 'policy', policy_id: 'pol_x', outcome: 'blocked' as const },
    { payload: '{}', outcome: 'pending' as const, approval_id: 'apr_x', policy_result: '{"outcome":"pending"}' },
    { payload: '{}', received_at: now - 40 * 24 * 3_600_000 },
  ];
  await submit(world, { account, agent }, rows);
  await settle(world, account);
  const found = await world.verify(account);
  t.match(found, { valid: true, entries: rows.length + 1, erased: 0, unchained: 0, unsettled: 0, first_invalid: null });
  t.equal(found.chains.length, 2);
});

t.test('blocks wait in Redis, are copied, and verify the same before, while and after', async (t) => {
  const world = await makeAuditWorld(t, servers);
  await startPipelines(t, world);
  const account = newAccount();
  const agent = await newAgent(world, account, 'one');
  for (let i = 0; i < 5; i++) {
    await submit(world, { account, agent }, [{}, {}, {}]);
    await settle(world, account);
    t.match(await world.verify(account), { valid: true, entries: 4 + 3 * i });
  }
  t.ok(await eventually(async () => (await countBlocks(world.clickhouse)) >= 2, 20_000), 'copied');
  const pending = world.keys.chainPending(world.keys.events(world.keys.partitionOf(account, agent)));
  t.ok(await eventually(async () => (await world.redis.xlen(pending)) === 0, 20_000), 'nothing waits any more');
  t.match(await world.verify(account), { valid: true, entries: 16 });
  t.equal((await world.verify(newAccount())).chains.length, 0, 'another account has no chain');
});
