// Approvals in the registry: decided once, whatever comes at the same time, twice, late, or after a deletion.
// The journal is read back: its rows are what ClickHouse is given, its audit entries are what happened.
import fc from 'fast-check';
import { Cluster } from 'ioredis';
import t from 'tap';
import type { Approval } from '../../schemas/approval.ts';
import type { PolicyCreate } from '../../schemas/policy.ts';
import { isoTime } from '../../schemas/time.ts';
import { mintId } from '../../src/common/ids.ts';
import { SequenceStore } from '../../src/policy/quotas/sequence-store.ts';
import { type SpendOperation, SpendStore } from '../../src/policy/quotas/spend-store.ts';
import { ZERO } from '../../src/policy/sequences/summed-amount.ts';
import { Agents } from '../../src/registry/agents.ts';
import type { StoredEvent } from '../../src/registry/approvals/approval-review.ts';
import { ApprovalWaits } from '../../src/registry/approvals/approval-waits.ts';
import { Approvals } from '../../src/registry/approvals/approvals.ts';
import { Policies } from '../../src/registry/policies/policies.ts';
import { foundRegistry } from '../../src/registry/recovery/presence.ts';
import { startRedis } from '../support/redis.ts';
import { SEED } from '../support/seed.ts';
import { actor, connectStore, eventually, freshKeys, journalOf, newAccount, refusal, type Store } from './harness.ts';

/** Past the end of the test: an answer at the end of the wait is too late. */
const WAIT_MS = 600_000;

const server = await startRedis(t);
const { redis } = await connectStore(t, server.address);

const ASKS: PolicyCreate = { name: 'Payments', type: 'require_approval', conditions: {}, actions: ['block'] };

type World = Store & {
  account: string;
  agent: string;
  /** That asks: in force. */
  policy: string;
  approvals: Approvals;
  clock: { ms: number };
  /** The stored form of each event, by its id. */
  stored: Map<string, StoredEvent>;
};

/** An account with one agent, and a clock that the test moves. */
async function makeWorld({ pendingMax }: { pendingMax?: number } = {}): Promise<World> {
  // Keys of its own: deadlines lie beside each other in a shard, and each world has its own time.
  const store = { redis, keys: freshKeys() };
  await foundRegistry(store);
  const account = newAccount();
  const { agent } = await new Agents(store).register(account, { name: 'payer' }, actor);
  const { answer } = await new Policies(store).create(account, ASKS, actor);
  const clock = { ms: Date.now() };
  const stored = new Map<string, StoredEvent>();
  const approvals = new Approvals({
    ...store,
    fetchEvent: async (_account, _agent, event) => stored.get(event) ?? null,
    now: () => clock.ms,
    ...(pendingMax === undefined ? {} : { pendingMax }),
  });
  return { ...store, account, agent: agent.id, policy: JSON.parse(answer).id, approvals, clock, stored };
}

function request({ agent, policy, clock }: World, more: Partial<Approval> = {}): Approval {
  return {
    id: mintId('approval', clock.ms),
    agent_id: agent,
    event_id: mintId('event', clock.ms),
    policy_id: policy,
    policy_name: 'Payments',
    status: 'pending',
    outcome: 'pending',
    on_timeout: 'deny',
    created_at: isoTime(clock.ms),
    expires_at: isoTime(clock.ms + 60_000),
    decided_at: null,
    decided_by: null,
    reason: null,
    blocked_by: null,
    comment: null,
    ...more,
  };
}

const shardOf = ({ keys, account }: World) => keys.shardOf(account);

/** Statuses that the journal has brought to ClickHouse, in order, and the audit actions. */
async function toldOf(world: World, id: string): Promise<{ rows: string[]; audit: string[] }> {
  const entries = await journalOf(world, world.account);
  return {
    rows: entries.flatMap(({ rows = [] }) =>
      rows.filter(({ row }) => row['id'] === id).map(({ row }) => String(row['status'])),
    ),
    audit: entries.flatMap(({ audit }) =>
      audit.filter(({ resource_id }) => resource_id === id).map(({ action }) => action),
    ),
  };
}

t.test('opened once however often, in batches and alone', async (t) => {
  const world = await makeWorld();
  const { account, approvals } = world;
  const many = Array.from({ length: 250 }, () => request(world));
  t.same(await approvals.open(account, many.slice(0, 120)), { opened: 120, overflowed: 0 });
  t.same(await approvals.open(account, many), { opened: 130, overflowed: 0 });
  const again = await Promise.all([approvals.open(account, many), approvals.open(account, many)]);
  t.same(
    again.map(({ opened }) => opened),
    [0, 0],
  );
  const fresh = [...many.slice(0, 3), ...Array.from({ length: 20 }, () => request(world))];
  const both = await Promise.all([approvals.open(account, fresh), approvals.open(account, fresh.toReversed())]);
  t.equal(both[0]!.opened + both[1]!.opened, 20, 'at the same time: each by one of them');
  const entries = await journalOf(world, account);
  const opened = entries.flatMap(({ rows = [] }) => rows.map(({ row }) => row['id']));
  t.same(opened.sort(), [...many, ...fresh.slice(3)].map(({ id }) => id).sort(), 'one row each');
  t.ok(
    entries.slice(2).every(({ audit }) => audit.length === 0),
    'the event has its entry already',
  );
});

t.test('a decision stands: not again, not by time, not by an entry delivered again', async (t) => {
  const world = await makeWorld();
  const { account, approvals, clock } = world;
  const asked = request(world);
  await approvals.open(account, [asked]);
  clock.ms += 1_000;
  const decided = await approvals.decide(account, asked.id, { decision: 'deny', comment: 'no' }, actor);
  t.same(decided, {
    ...asked,
    ...{
      status: 'denied',
      outcome: 'blocked',
      reason: 'approval',
      decided_at: isoTime(clock.ms),
      decided_by: actor.actor,
      comment: 'no',
    },
  });
  await refusal(t, approvals.decide(account, asked.id, { decision: 'approve' }, actor), 'already_decided');
  t.same(await approvals.open(account, [asked]), { opened: 0, overflowed: 0 });
  clock.ms += 120_000;
  t.same((await approvals.expireDue(shardOf(world))).expired, []);
  t.same(await approvals.get(account, asked.id), decided);
  t.same(await toldOf(world, asked.id), { rows: ['pending', 'denied'], audit: ['approval.denied'] });
  t.equal(await approvals.get(newAccount(), asked.id), null, 'no other account knows it');
  t.equal(await approvals.decide(newAccount(), asked.id, { decision: 'approve' }, actor), null);
});

t.test('a deadline holds to the millisecond, with or without a request at that time', async (t) => {
  const world = await makeWorld();
  const { account, approvals, clock } = world;
  const [strict, lenient, late] = [request(world), request(world, { on_timeout: 'approve' }), request(world)];
  await approvals.open(account, [strict, lenient, late]);
  clock.ms += 59_999;
  t.same(await approvals.expireDue(shardOf(world)), { looked: 0, expired: [] });
  clock.ms += 1;
  await refusal(t, approvals.decide(account, late.id, { decision: 'approve' }, actor), 'already_decided');
  t.match(await approvals.get(account, late.id), { status: 'expired', outcome: 'blocked', decided_by: 'system' });
  const [one, two] = await Promise.all([approvals.expireDue(shardOf(world)), approvals.expireDue(shardOf(world))]);
  t.equal(one!.expired.length + two!.expired.length, 2, 'two tickers: each expiry is made once');
  t.match(await approvals.get(account, strict.id), { status: 'expired', outcome: 'blocked' });
  t.match(await approvals.get(account, lenient.id), { status: 'expired', outcome: 'allowed' });
  for (const { id } of [strict, lenient, late]) {
    t.same(await toldOf(world, id), { rows: ['pending', 'expired'], audit: ['approval.expired'] });
  }
});

t.test('nothing is let through for an agent that was switched off, in every way that settles it', async (t) => {
  const world = await makeWorld();
  const { account, agent, approvals, clock } = world;
  const [byPerson, byTime, byLatePerson] = ['deny', 'approve', 'approve'].map((on_timeout) =>
    request(world, { on_timeout: on_timeout as Approval['on_timeout'] }),
  ) as [Approval, Approval, Approval];
  await approvals.open(account, [byPerson, byTime, byLatePerson]);
  const agents = new Agents(world);
  await agents.patch(account, agent, { status: 'inactive' }, actor);
  await refusal(t, approvals.decide(account, byPerson.id, { decision: 'approve' }, actor), 'agent_inactive');
  t.match(await approvals.get(account, byPerson.id), { status: 'pending' }, 'nothing was decided');
  t.match(await approvals.decide(account, byPerson.id, { decision: 'deny' }, actor), { outcome: 'blocked' });
  clock.ms += 60_000;
  await refusal(t, approvals.decide(account, byLatePerson.id, { decision: 'approve' }, actor), 'already_decided');
  await approvals.expireDue(shardOf(world));
  for (const { id } of [byTime, byLatePerson])
    t.match(await approvals.get(account, id), { status: 'expired', outcome: 'blocked', reason: 'agent_inactive' });

  await agents.patch(account, agent, { status: 'active' }, actor);
  const again = request(world);
  await approvals.open(account, [again]);
  const settled = await approvals.decide(account, again.id, { decision: 'approve' }, actor);
  t.match(settled, { outcome: 'allowed', reason: 'approval' }, 'switched on again: let through');
});

t.test('what a policy made since blocks is not let through, and the policy is named', async (t) => {
  const world = await makeWorld();
  const { account, approvals, clock, stored } = world;
  const payment = (amount: number, on_timeout: Approval['on_timeout'] = 'deny') => {
    const asked = request(world, { on_timeout });
    const payloadText = `{"tool": "pay", "amount": ${amount}}`;
    stored.set(asked.event_id, { type: 'tool_call', traceId: undefined, occurredMs: clock.ms, payloadText });
    return asked;
  };
  const [large, small, largeByTime, smallByTime, unstored] = [
    payment(5_000),
    payment(5),
    payment(5_000, 'approve'),
    payment(5, 'approve'),
    payment(5),
  ];
  stored.delete(unstored.event_id);
  await approvals.open(account, [large, small, largeByTime, smallByTime, unstored]);
  const block: PolicyCreate = {
    name: 'no large payments',
    type: 'block_action',
    conditions: { 'payload.amount': { gt: 1_000 } },
    actions: ['block'],
  };
  const { id: policy } = JSON.parse((await new Policies(world).create(account, block, actor)).answer);
  t.match(await approvals.decide(account, large.id, { decision: 'approve' }, actor), {
    ...{ status: 'approved', outcome: 'blocked', reason: 'policy', blocked_by: policy, decided_by: actor.actor },
  });
  t.match(await approvals.decide(account, small.id, { decision: 'approve' }, actor), {
    ...{ status: 'approved', outcome: 'allowed', reason: 'approval', blocked_by: null },
  });
  const refused = await refusal(
    t,
    approvals.decide(account, unstored.id, { decision: 'approve' }, actor),
    'unavailable',
  );
  t.match(refused, { recorded: false }, 'one that cannot be judged yet is not let through');
  clock.ms += 60_000;
  await approvals.expireDue(shardOf(world));
  t.match(await approvals.get(account, largeByTime.id), { outcome: 'blocked', reason: 'policy', blocked_by: policy });
  t.match(await approvals.get(account, smallByTime.id), { outcome: 'allowed', reason: 'approval', blocked_by: null });
});

t.test('time lets nothing through that cannot be judged, and gives up on what is never stored', async (t) => {
  const world = await makeWorld();
  const { account, approvals, clock } = world;
  const asked = request(world, { on_timeout: 'approve' });
  await approvals.open(account, [asked]);
  const block: PolicyCreate = { name: 'all', type: 'block_action', conditions: {}, actions: ['block'] };
  await new Policies(world).create(account, block, actor);
  clock.ms += 60_000;
  t.same(await approvals.expireDue(shardOf(world)), { looked: 1, expired: [] });
  t.same(await approvals.expireDue(shardOf(world)), { looked: 0, expired: [] }, 'not tried again at once');
  t.match(await approvals.get(account, asked.id), { status: 'pending' });
  clock.ms += 16 * 60_000;
  t.equal((await approvals.expireDue(shardOf(world))).expired.length, 1);
  t.match(await approvals.get(account, asked.id), { status: 'expired', outcome: 'blocked', comment: /not stored/ });
});

t.test('time lets through for a policy that is in force alone', async (t) => {
  for (const end of ['inactive', 'gone'] as const) {
    const world = await makeWorld();
    const { account, policy, approvals, clock } = world;
    const asked = request(world, { on_timeout: 'approve' });
    await approvals.open(account, [asked]);
    const policies = new Policies(world);
    if (end === 'gone') await policies.remove(account, policy, actor);
    else await policies.patch(account, policy, { body: { status: 'inactive' } }, actor);
    clock.ms += 60_000;
    await approvals.expireDue(shardOf(world));
    const settled = await approvals.get(account, asked.id);
    t.match(settled, { status: 'expired', outcome: 'blocked', reason: 'approval', comment: /not in force/ }, end);
  }
});

t.test('more than may be pending: denied at once, and said so', async (t) => {
  const world = await makeWorld({ pendingMax: 5 });
  const { account, approvals } = world;
  const asked = Array.from({ length: 8 }, () => request(world, { on_timeout: 'approve' }));
  t.same(await approvals.open(account, asked), { opened: 8, overflowed: 3 });
  t.same(await approvals.open(account, asked), { opened: 0, overflowed: 0 });
  t.match(await approvals.get(account, asked[4]!.id), { status: 'pending' });
  const over = await approvals.get(account, asked[5]!.id);
  t.match(over, { status: 'denied', outcome: 'blocked', decided_by: 'system', comment: /pending/ });
  t.same(await toldOf(world, asked[5]!.id), { rows: ['denied'], audit: ['approval.denied'] });
  const flood = Array.from({ length: 30 }, () => request(world));
  t.same(await approvals.open(account, flood), { opened: 30, overflowed: 30 });
  t.same(await approvals.open(account, [...flood, request(world)]), { opened: 1, overflowed: 1 });
  for (const { id } of flood) t.same(await toldOf(world, id), { rows: ['denied'], audit: ['approval.denied'] });
  await approvals.decide(account, asked[0]!.id, { decision: 'approve' }, actor);
  t.same(await approvals.open(account, [request(world)]), { opened: 1, overflowed: 0 }, 'there is room again');
});

t.test('a deleted agent: unknown at once, no longer opened or decided, and nothing is left of it', async (t) => {
  const world = await makeWorld();
  const { account, agent, approvals, clock, keys, redis } = world;
  const [decided, pending, later] = [request(world), request(world), request(world)];
  await approvals.open(account, [decided, pending]);
  await approvals.decide(account, decided.id, { decision: 'approve' }, actor);
  const before = (await journalOf(world, account)).length;
  await new Agents(world).remove(account, agent, actor);
  for (const { id } of [decided, pending]) {
    t.equal(await approvals.get(account, id), null);
    t.equal(await approvals.decide(account, id, { decision: 'deny' }, actor), null);
  }
  t.same(await approvals.open(account, [later]), { opened: 0, overflowed: 0 });
  clock.ms += 120_000;
  t.same((await approvals.expireDue(shardOf(world))).expired, []);
  await approvals.dropAgent(account, agent);
  t.equal((await journalOf(world, account)).length, before + 1, 'nothing but the deletion was recorded');
  for (const key of [keys.approvals(account), keys.decidedApprovals(account)]) t.equal(await redis.exists(key), 0, key);
  for (const key of [keys.approvalDeadlines(shardOf(world)), keys.approvalDecisions(shardOf(world))]) {
    t.notOk(
      (await redis.zrange(key, '0', '-1')).some((member) => member.startsWith(account)),
      key,
    );
  }
});

t.test('decisions are forgotten by their age', async (t) => {
  const world = await makeWorld();
  const { account, approvals, clock } = world;
  const asked = [request(world), request(world)];
  await approvals.open(account, asked);
  await approvals.decide(account, asked[0]!.id, { decision: 'approve' }, actor);
  clock.ms += 10_000;
  await approvals.decide(account, asked[1]!.id, { decision: 'approve' }, actor);
  await approvals.forget(shardOf(world), clock.ms);
  t.equal(await approvals.get(account, asked[0]!.id), null);
  t.match(await approvals.get(account, asked[1]!.id), { status: 'approved' });
});

t.test('while Redis is full time goes on: openings and expiries are made, a person is refused', async (t) => {
  const own = await startRedis(t);
  const full = await connectStore(t, own.address);
  const { agent } = await new Agents(full).register('acc_full', { name: 'payer' }, actor);
  const clock = { ms: Date.now() };
  const approvals = new Approvals({ ...full, now: () => clock.ms });
  const named = { policy: mintId('policy', clock.ms), stored: new Map() };
  const world = { ...full, ...named, account: 'acc_full', agent: agent.id, approvals, clock };
  const [first, second] = [request(world), request(world)];
  await approvals.open(world.account, [first]);
  const nodes = full.redis instanceof Cluster ? full.redis.nodes('master') : [full.redis];
  for (const node of nodes) await node.config('SET', 'maxmemory', '1mb');
  await approvals.open(world.account, [second]);
  const refused = await refusal(
    t,
    approvals.decide(world.account, first.id, { decision: 'approve' }, actor),
    'unavailable',
  );
  t.equal(refused.recorded, false);
  clock.ms += 60_000;
  t.equal((await approvals.expireDue(shardOf(world))).expired.length, 2);
});

t.test('property: whatever happens in whatever order ends in one outcome and one audit entry', async (t) => {
  const step = fc.constantFrom('open', 'approve', 'deny', 'expire', 'wait', 'batch');
  const run = fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(run, fc.constantFrom('deny' as const, 'approve' as const), async (turns, on_timeout) => {
      const world = await makeWorld();
      const { account, approvals, clock } = world;
      const asked = request(world, { on_timeout });
      const budget = await makeBudget(world);
      await budget.reserve(asked.event_id, 10);
      const won: string[] = [];
      // At no moment is it held for and denied, or pending and not.
      const isHeldAsDecided = async () => {
        const { outcome } = (await approvals.get(account, asked.id)) ?? { outcome: 'pending' };
        return (await budget.reserved()) === (outcome === 'blocked' ? 0 : 10);
      };
      const steps: Record<string, () => Promise<unknown>> = {
        open: () => approvals.open(account, [asked]),
        batch: () => approvals.open(account, [request(world), asked, request(world)]),
        approve: () => tryDeciding('approve'),
        deny: () => tryDeciding('deny'),
        expire: async () => {
          const { expired } = await approvals.expireDue(shardOf(world));
          for (const { id } of expired) if (id === asked.id) won.push('expired');
        },
        wait: async () => {
          clock.ms += 25_000;
        },
      };
      const tryDeciding = async (decision: 'approve' | 'deny') => {
        const done = await approvals.decide(account, asked.id, { decision }, actor).catch(() => null);
        if (done !== null) won.push(done.status);
      };
      for (const turn of turns) {
        await Promise.all(turn.map((name) => steps[name]!()));
        if (!(await isHeldAsDecided())) return false;
      }
      await approvals.open(account, [asked]);
      clock.ms += 60_000;
      await approvals.expireDue(shardOf(world));
      const end = await approvals.get(account, asked.id);
      const told = await toldOf(world, asked.id);
      const outcome =
        end!.status === 'approved' || (end!.status === 'expired' && on_timeout === 'approve') ? 'allowed' : 'blocked';
      return (
        won.length <= 1 &&
        (won.length === 0 ? end!.status === 'expired' : end!.status === won[0]) &&
        end!.outcome === outcome &&
        (await isHeldAsDecided()) &&
        told.rows.join() === `pending,${end!.status}` &&
        told.audit.join() === `approval.${end!.status}`
      );
    }),
    { seed: SEED, numRuns: 150 },
  );
  t.pass();
});

t.test('a waiting request is woken by pub/sub, of a decision and of a deleted agent', async (t) => {
  const world = await makeWorld();
  const { account, approvals, redis, keys } = world;
  let looks = 0;
  const counted: Pick<Approvals, 'get' | 'look'> = {
    get: (...args) => approvals.get(...args).finally(() => looks++),
    look: (...args) => approvals.look(...args),
  };
  // One that listens and never polls.
  const listening = new ApprovalWaits({ address: server.address, keys, approvals: counted, pollMs: 3_600_000 });
  listening.start();
  t.teardown(() => listening.stop());
  await eventually(async () => {
    const counts = (await redis.pubsub('NUMSUB', keys.approvalNews(shardOf(world)))) as [string, number];
    return counts[1] === 1;
  });
  const [first, second] = [request(world), request(world)];
  await approvals.open(account, [first, second]);
  const never = new AbortController().signal;
  const told = listening.wait(account, first, WAIT_MS, never);
  await eventually(() => looks >= 1);
  await approvals.decide(account, first.id, { decision: 'approve' }, actor);
  t.match(await told, { status: 'approved' }, 'by pub/sub alone');
  t.match(
    await listening.wait(account, first, WAIT_MS, never),
    { status: 'approved' },
    'decided before the wait began',
  );
  const forsaken = listening.wait(account, second, WAIT_MS, never);
  await eventually(() => looks >= 4);
  await new Agents(world).remove(account, world.agent, actor);
  t.equal(await forsaken, null, 'its agent is gone');
});

t.test('the waits of one account leave room for those of others', async (t) => {
  const world = await makeWorld();
  const { account, approvals, keys } = world;
  const waits = new ApprovalWaits({ address: server.address, keys, approvals, max: 3, accountMax: 2 });
  t.teardown(() => waits.stop());
  const never = new AbortController().signal;
  const gone = new AbortController();
  const pending = request(world);
  await approvals.open(account, [pending]);
  const own = [waits.wait(account, pending, WAIT_MS, never), waits.wait(account, pending, WAIT_MS, gone.signal)];
  await refusal(t, waits.wait(account, pending, WAIT_MS, never), 'unavailable');
  const other = { ...(await makeWorld()), keys };
  const theirs = new Approvals({ redis, keys });
  const { agent } = await new Agents(other).register(other.account, { name: 'payer' }, actor);
  const asked = request({ ...other, agent: agent.id });
  await theirs.open(other.account, [asked]);
  own.push(waits.wait(other.account, asked, WAIT_MS, never));
  t.equal(waits.count, 3, 'theirs still waits');
  gone.abort();
  await own[1];
  own.push(waits.wait(account, pending, WAIT_MS, never));
  t.equal(waits.count, 3, 'a client that leaves makes room for its account');
  waits.answerAll();
  t.match(await Promise.all(own), Array(4).fill({ status: 'pending' }));
});

t.test('waits are bounded, and let go by a drain', async (t) => {
  const world = await makeWorld();
  const { account, approvals, keys } = world;
  const waits = new ApprovalWaits({ address: server.address, keys, approvals, max: 3, pollMs: 50, accountMax: 3 });
  t.teardown(() => waits.stop());
  const second = request(world);
  await approvals.open(account, [second]);
  const never = new AbortController().signal;
  waits.start();
  const gone = new AbortController();
  const three = [
    waits.wait(account, second, WAIT_MS, never),
    waits.wait(account, second, WAIT_MS, never),
    waits.wait(account, second, WAIT_MS, gone.signal),
  ];
  t.equal(waits.count, 3);
  await refusal(t, waits.wait(account, second, WAIT_MS, never), 'unavailable');
  gone.abort();
  await three[2];
  t.equal(waits.count, 2, 'who leaves makes room');
  const short = await waits.wait(account, second, 100, never);
  t.match(short, { status: 'pending' });
  waits.answerAll();
  for (const answer of await Promise.all(three)) t.match(answer, { id: second.id, status: 'pending' });
  t.match(await waits.wait(account, second, WAIT_MS, never), { status: 'pending' }, 'who comes later does not wait');
  t.equal(waits.count, 0);
});

t.test('a lost notice costs a poll, not the wait', async (t) => {
  const world = await makeWorld();
  const { account, approvals, keys, redis } = world;
  const asked = request(world);
  await approvals.open(account, [asked]);
  // A listener on keys of its own: it hears nothing of this account.
  const deaf = new ApprovalWaits({ keys: freshKeys(), address: server.address, approvals, pollMs: 50 });
  deaf.start();
  t.teardown(() => deaf.stop());
  const told = deaf.wait(account, asked, WAIT_MS, new AbortController().signal);
  await approvals.decide(account, asked.id, { decision: 'deny' }, actor);
  t.match(await told, { status: 'denied' });
  t.equal(await redis.hlen(keys.approvals(account)), 0);
});

t.test('an event that is approved has occurred, for the sequences of which it is a step', async (t) => {
  const world = await makeWorld();
  const { account, approvals, clock, keys } = world;
  const memory = { name: 'pol_1/m', windowMs: 60_000, steps: 0, atLeast: 1, hasUnless: true, most: null };
  await redis.hset(keys.sequences(account), memory.name, '1');
  const store = new SequenceStore(redis, keys);
  const placed = { memory, scope: { own: 'account', agent: null }, value: '', amount: ZERO };
  const places = [{ place: 0, path: '', isOfAnyOutcome: false }];
  const isBlocked = async () => {
    const event = {
      id: mintId('event', clock.ms),
      agent: world.agent,
      outcome: 'allowed' as const,
      marks: [],
      later: [],
      waitMs: 0,
    };
    const asked = { ...event, asks: [{ ...placed, effect: 'blocked' as const }] };
    const { answers } = await store.count(account, { events: [asked], submission: asked.id });
    return answers[0]![0] !== null;
  };
  const wait = async (more: Partial<Approval> = {}) => {
    const approval = request(world, more);
    const marks = [{ ...placed, places }];
    const event = {
      id: approval.event_id,
      agent: world.agent,
      outcome: 'pending' as const,
      asks: [],
      marks,
      later: marks,
      waitMs: 100_000,
    };
    await store.count(account, { events: [event], submission: event.id });
    await approvals.open(account, [approval]);
    return approval;
  };
  const denied = await wait();
  await approvals.decide(account, denied.id, { decision: 'deny' }, actor);
  t.equal(await isBlocked(), true);
  const approved = await wait();
  t.equal(await isBlocked(), true, 'it waits');
  const decision = approvals.decide(account, approved.id, { decision: 'approve' }, actor);
  t.equal((await decision)!.outcome, 'allowed');
  t.equal(await isBlocked(), false);
  t.equal(await redis.exists(keys.sequenceLater(account, approved.event_id)), 0);
});

/** A budget for 100, with what an event reserves and a completion uses of it. */
async function makeBudget({ account, agent, redis, keys }: World) {
  const spends = new SpendStore(redis, keys);
  const of = { policyId: mintId('policy', Date.now()), form: 'form' };
  const ask = async (operation: SpendOperation) => (await spends.run(account, [{ of, operation }]))[0]!;
  const scoped = { ms: 86_400_000, scope: agent, shown: agent, life: 86_400_000 };
  await ask({ op: 'begin', life: scoped.life });
  await ask({ op: 'known' });
  const who = { agent, who: 'who', model: 'model' };
  const estimate = { limit: 100, rate: 0, output: 0, expected: false, guess: 0, hold: 60_000, counted: false };
  return {
    reserve: (id: string, fixed: number) =>
      ask({ op: 'reserve', id, ...who, ...scoped, ...estimate, fixed, waits: true }),
    use: (id: string, target: string, amount: number) => ask({ op: 'use', id, ...who, target, amount, output: -1 }),
    reserved: async () => Number((await ask({ op: 'read', ms: scoped.ms, scope: agent, most: 1 }))[4]),
  };
}

t.test('of an event that is denied, in every way, budgets hold nothing; of one that is approved they do', async (t) => {
  const world = await makeWorld({ pendingMax: 3 });
  const { account, agent, approvals, clock, keys, redis } = world;
  const [one, two] = [await makeBudget(world), await makeBudget(world)];
  const wait = async (more: Partial<Approval> = {}) => {
    const approval = request(world, more);
    for (const budget of [one, two]) t.match(await budget.reserve(approval.event_id, 10), ['yes']);
    await approvals.open(account, [approval]);
    return approval;
  };
  const held = async () => [await one.reserved(), await two.reserved()];
  const [approved, denied, expired] = [await wait(), await wait(), await wait()];
  const overflowed = await wait();
  t.match(await approvals.get(account, overflowed.id), { status: 'denied' });
  t.same(await held(), [30, 30], 'what was denied for want of room is gone');
  await approvals.decide(account, approved.id, { decision: 'approve' }, actor);
  await approvals.decide(account, denied.id, { decision: 'deny' }, actor);
  t.same(await held(), [20, 20]);
  await refusal(t, approvals.decide(account, denied.id, { decision: 'deny' }, actor), 'already_decided');
  await approvals.open(account, [denied]);
  t.same(await held(), [20, 20], 'once');
  t.match(await one.use('done-1', '', 4), ['found', agent, approved.event_id], 'the oldest that is open still');
  t.match(await one.use('late', denied.event_id, 7), ['own', '', ''], 'one that comes all the same is charged whole');
  clock.ms += 60_000;
  await Promise.all([approvals.expireDue(shardOf(world)), approvals.expireDue(shardOf(world))]);
  t.match(await approvals.get(account, expired.id), { status: 'expired', outcome: 'blocked' });
  t.same(await held(), [4, 10]);

  const ran = await wait();
  await one.use('done-2', ran.event_id, 6);
  await approvals.decide(account, ran.id, { decision: 'deny' }, actor);
  t.same(await held(), [10, 10], 'what was used without waiting is held until it is charged');
  t.match(await one.use('done-3', ran.event_id, 6), ['twice']);

  const late = await wait({ on_timeout: 'approve' });
  clock.ms += 60_000;
  await approvals.expireDue(shardOf(world));
  t.match(await approvals.get(account, late.id), { outcome: 'allowed' });
  t.same(await held(), [20, 20], 'what time lets through is held');
  t.ok((await redis.pttl(keys.budgetsWaiting(account, late.event_id))) > 0, 'what is noted has an end');
});

t.test('of what an erased agent waited for, or was let do, budgets hold nothing', async (t) => {
  const world = await makeWorld();
  const { account, agent, approvals, keys, redis } = world;
  const budget = await makeBudget(world);
  const wait = async () => {
    const approval = request(world);
    t.match(await budget.reserve(approval.event_id, 10), ['yes']);
    await approvals.open(account, [approval]);
    return approval;
  };
  const [pending, approved, ran] = [await wait(), await wait(), await wait()];
  await approvals.decide(account, approved.id, { decision: 'approve' }, actor);
  await budget.use('done', ran.event_id, 6);
  t.equal(await budget.reserved(), 26);
  await new Agents(world).remove(account, agent, actor);
  for (let time = 1; time <= 2; time++) {
    await approvals.dropAgent(account, agent);
    t.equal(await budget.reserved(), 6, 'what was used is held until it is charged');
  }
  for (const { event_id: event } of [pending, approved, ran])
    t.equal(await redis.exists(keys.budgetsWaiting(account, event)), 0);
});
