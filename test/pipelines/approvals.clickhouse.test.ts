// Approvals on their way through the pipelines: opened once though entries come again, remembered by ClickHouse when
// Redis has forgotten them, and erased with their agent.
import t from 'tap';
import { decidedApprovals, listApprovals } from '../../clickhouse/queries/list-approvals.ts';
import { ApprovalExpiry } from '../../pipelines/approval/expiry.ts';
import { openApprovals } from '../../pipelines/approval/open.ts';
import { mintId } from '../../src/common/ids.ts';
import { APPROVAL_KEPT_MS } from '../../src/common/limits.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import type { Actor } from '../../src/registry/accounts/principal.ts';
import { Agents } from '../../src/registry/agents.ts';
import { Approvals } from '../../src/registry/approvals/approvals.ts';
import { ReadBarrier } from '../../src/streams/read-barrier.ts';
import { appendOf, eventually, makeEvent, silent, type TestAgent } from '../streams/harness.ts';
import { startClickHouse } from '../support/clickhouse.ts';
import { startRedis } from '../support/redis.ts';
import { makeWorld, startPipelines, type World } from './harness.ts';

const servers = { redis: await startRedis(t), clickhouse: await startClickHouse(t) };
const actor: Actor = { actor: 'key:key_test', requestId: 'req-1' };

async function registered(world: World): Promise<TestAgent> {
  const account = mintId('account', Date.now());
  const { agent } = await new Agents(world).register(account, { name: 'payer' }, actor);
  return { account, agent: agent.id };
}

/** An event that waits, as ingest appends it. */
function pendingEvent(agent: TestAgent, receivedAt = Date.now(), timeoutSeconds = 3_600) {
  const approvalId = mintId('approval', receivedAt);
  const policyId = mintId('policy', receivedAt);
  const match = {
    policy_id: policyId,
    name: 'Payments',
    type: 'require_approval' as const,
    actions: ['block' as const],
    severity: null,
  };
  const summary = {
    ...{ outcome: 'pending' as const, reason: 'policy' as const, policyId, approvalId, matches: [match] },
    approval: { timeoutSeconds, onTimeout: 'deny' as const },
  };
  return makeEvent(agent, { outcome: 'pending', approval_id: approvalId, received_at: receivedAt, summary });
}

const optionsOf = (world: World, now = Date.now) => ({
  ...world,
  now,
  metrics: new Metrics({ processName: 'test' }),
  log: silent,
});
const barrierOf = (world: World) => new ReadBarrier({ ...world, waitMs: 60_000 });

t.test('killed between the opening and its acknowledgement: what is delivered again opens nothing', async (t) => {
  const world = await makeWorld(t, servers);
  const agent = await registered(world);
  const events = Array.from({ length: 5 }, () => pendingEvent(agent));
  await world.appender.append(appendOf(agent, events));
  // The effect without its acknowledgement is what a kill leaves behind.
  const summaries = events.map(({ summary }) => summary);
  await openApprovals(optionsOf(world), summaries);
  const approvals = new Approvals(world);
  const [first, second] = summaries.map(({ approvalId }) => approvalId!);
  const decided = await approvals.decide(agent.account, first!, { decision: 'approve' }, actor);
  const revision = world.keys.revision(world.keys.shardOf(agent.account));
  const changes = await world.redis.get(revision);
  await startPipelines(t, world, { groups: ['store', 'alert'] });
  t.ok(await barrierOf(world).waitForApprovals(agent.account, agent.agent));
  const { items, total } = await listApprovals(world.clickhouse, agent.account, { limit: 10, offset: 0 });
  t.equal(total, 5);
  t.same(
    items.find(({ id }) => id === first),
    decided,
  );
  t.match(
    items.find(({ id }) => id === second),
    {
      ...{
        status: 'pending',
        event_id: events[1]!.id,
        agent_id: agent.agent,
        policy_name: 'Payments',
        on_timeout: 'deny',
      },
      created_at: new Date(summaries[1]!.receivedAt).toISOString(),
      expires_at: new Date(summaries[1]!.receivedAt + 3_600_000).toISOString(),
    },
  );
  t.equal(await world.redis.get(revision), changes, 'and nothing was changed by the second delivery');
});

t.test('delivered again after Redis has forgotten the decision: ClickHouse is asked, and knows', async (t) => {
  const world = await makeWorld(t, servers);
  const agent = await registered(world);
  const receivedAt = Date.now() - APPROVAL_KEPT_MS - 3_600_000;
  const [event, late] = [pendingEvent(agent, receivedAt), pendingEvent(agent, receivedAt, 7 * 86_400)];
  await openApprovals(
    optionsOf(world, () => receivedAt),
    [event.summary],
  );
  const { account } = agent;
  const id = event.summary.approvalId!;
  await new Approvals({ ...world, now: () => receivedAt + 1_000 }).decide(account, id, { decision: 'deny' }, actor);
  const expiry = new ApprovalExpiry(optionsOf(world));
  t.equal(await expiry.forget(), 0, 'not before ClickHouse has it');
  t.match(await new Approvals(world).get(account, id), { status: 'denied' });
  await startPipelines(t, world, { groups: ['store'] });
  t.ok(await barrierOf(world).waitForJournal(account));
  t.equal(await expiry.forget(), 1);
  t.equal(await new Approvals(world).get(account, id), null);
  await openApprovals(optionsOf(world), [event.summary, late.summary]);
  t.equal(await new Approvals(world).get(account, id), null, 'it stays closed');
  t.match(
    await new Approvals(world).get(account, late.summary.approvalId!),
    { status: 'pending' },
    'its neighbour was never open',
  );
  t.match(await decidedApprovals(world.clickhouse, account, { ids: [id] }), [{ status: 'denied', outcome: 'blocked' }]);
});

t.test('an agent is deleted: rows, records and deadlines of its approvals go, and none expires', async (t) => {
  const world = await makeWorld(t, servers);
  const { redis, keys, clickhouse } = world;
  const agent = await registered(world);
  const other = {
    account: agent.account,
    agent: (await new Agents(world).register(agent.account, { name: 'other' }, actor)).agent.id,
  };
  await startPipelines(t, world, { groups: ['store', 'anomaly', 'alert'] });
  const events = [pendingEvent(agent, Date.now(), 1), pendingEvent(agent), pendingEvent(other)];
  await world.appender.append(appendOf(agent, events.slice(0, 2)));
  await world.appender.append(appendOf(other, events.slice(2)));
  t.ok(await barrierOf(world).waitForApprovals(agent.account, null));
  await new Approvals(world).decide(agent.account, events[1]!.summary.approvalId!, { decision: 'approve' }, actor);
  await new Agents(world).remove(agent.account, agent.agent, actor);
  // Still in flight when the agent went.
  const flying = pendingEvent(agent);
  await world.appender.append(appendOf(agent, [flying]));
  t.ok(await eventually(async () => (await redis.hlen(keys.erasures(keys.shardOf(agent.account)))) === 0));
  t.ok(await barrierOf(world).waitForApprovals(agent.account, null));
  await new ApprovalExpiry(optionsOf(world, () => Date.now() + 86_400_000 / 2)).look();
  t.ok(await barrierOf(world).waitForJournal(agent.account));
  const rows = await clickhouse.query<{ agent_id: string; status: string }>(
    'SELECT agent_id, status FROM approvals FINAL',
  );
  t.same(rows, [{ agent_id: other.agent, status: 'expired' }]);
  const logs = await clickhouse.query<{ n: number }>(
    "SELECT toUInt32(count()) AS n FROM audit_log FINAL WHERE action LIKE 'approval.%' AND about_agent = {agent:String}",
    { agent: agent.agent },
  );
  t.equal(logs[0]!.n, 0);
  t.same(await redis.hkeys(keys.decidedApprovals(agent.account)), [events[2]!.summary.approvalId]);
  t.equal(await redis.hlen(keys.approvals(agent.account)), 0);
});
