// The delivery queue and its worker with a real Redis and a driven clock: attempts, retries, breakers, cancellation,
// claims.
import t from 'tap';
import type { AttemptResult } from '../../pipelines/alert/channel.ts';
import { BREAKER_OPEN_MS, RETRY_MS } from '../../pipelines/alert/schedule.ts';
import {
  ACCOUNT_HOST_SENDS_MAX,
  ACCOUNT_SENDS_MAX,
  CLAIM_MS,
  HOST_SENDS_MAX,
  LANE_SENDS_MAX,
  LANES_PER_LOOK,
  SENDS_MAX,
} from '../../pipelines/alert/worker.ts';
import { Agents } from '../../src/registry/agents.ts';
import { Deliveries, dropDeliveriesOf, LANE_WAITING_MAX, laneOf } from '../../src/registry/alerts/deliveries.ts';
import { restoreDeliveries } from '../../src/registry/recovery/restore-deliveries.ts';
import { actor, eventually, journalOf, newAccount, refusal } from '../registry/harness.ts';
import { startRedis } from '../support/redis.ts';
import { DELIVERED, FAILS, GONE, later, makeAlertWorld, makeSignal } from './alert-harness.ts';

const HANGS: AttemptResult = { outcome: 'retry', statusCode: null, error: 'timeout' };
const HOUR_MS = 3_600_000;
const redis = await startRedis(t);
const never = () => new Promise<AttemptResult>(() => undefined);

t.test('a signal becomes a notification, sent once, and its delivery ends as delivered', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const alert = await world.alert({});
  const signal = makeSignal(world.account);
  await world.dispatch([signal]);
  await world.settle();
  t.equal(world.targets.got.length, 1);
  const { notification, attempt, target } = world.targets.got[0]!;
  t.match(notification, { alert: { id: alert.id, name: alert.name }, signal, count: 1, test: false });
  t.match(notification.id, /^dlv_[0-9a-z]{26}$/);
  t.match(attempt, { number: 1, at: world.clock.now });
  t.equal(target, alert.target);
  t.same(await world.statuses(), { [notification.id]: 'delivered' });
  t.equal(await world.redis.hlen(world.keys.deliveries(world.account)), 0, 'nothing is left in the queue');
  await world.settleAfter(100 * HOUR_MS);
  t.equal(world.targets.got.length, 1);
});

t.test('ten attempts in 75 h 35 min, then it has failed, with the same id throughout', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const alert = await world.alert({});
  world.targets.answers.set(alert.target, () => FAILS);
  const start = world.clock.now;
  await world.dispatch([makeSignal(world.account)]);
  await world.settle();
  for (const wait of RETRY_MS) {
    const before = world.targets.got.length;
    await world.settleAfter(wait - 1);
    t.equal(world.targets.got.length, before, `not before ${wait / 1000} s have gone`);
    // The breaker opens with the fifth failure; by the sixth attempt's time it asks again.
    await world.settleAfter(1);
    t.equal(world.targets.got.length, before + 1, `after ${wait / 1000} s`);
  }
  t.equal(world.targets.got.length, 10);
  t.equal(world.clock.now - start, 75 * HOUR_MS + 35 * 60_000 + 5_000);
  t.equal(new Set(world.targets.ids()).size, 1);
  t.same(
    world.targets.got.map(({ attempt }) => attempt.number),
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
  );
  t.same(Object.values(await world.statuses()), ['failed']);
  const rows = (await journalOf(world, world.account)).flatMap(({ rows }) => rows ?? []);
  t.equal((JSON.parse(String(rows.at(-1)!.row['attempts'])) as unknown[]).length, 10, 'all attempts are shown');
  await world.settleAfter(100 * HOUR_MS);
  t.equal(world.targets.got.length, 10);
});

t.test('Retry-After is honoured where it is later than the schedule, up to a day', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const alert = await world.alert({});
  const asked = [60_000, 1_000, 30 * 24 * HOUR_MS];
  world.targets.answers.set(alert.target, ({ attempt }): AttemptResult => {
    const retryAfterMs = asked[attempt.number - 1];
    return retryAfterMs === undefined ? DELIVERED : { ...FAILS, statusCode: 429, retryAfterMs };
  });
  await world.dispatch([makeSignal(world.account)]);
  await world.settle();
  for (const wait of [60_000, RETRY_MS[1]!, 24 * HOUR_MS]) {
    const before = world.targets.got.length;
    await world.settleAfter(wait - 1);
    t.equal(world.targets.got.length, before);
    await world.settleAfter(1);
    t.equal(world.targets.got.length, before + 1, `after ${wait} ms`);
  }
  t.same(Object.values(await world.statuses()), ['delivered']);
});

t.test('410 turns the alert inactive, with an audit record of the system, and the delivery has failed', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const alert = await world.alert({});
  world.targets.answers.set(alert.target, () => GONE);
  await world.dispatch([makeSignal(world.account), makeSignal(world.account), makeSignal(world.account)]);
  await world.settle();
  t.equal((await world.alerts.get(world.account, alert.id))?.status, 'inactive');
  const statuses = Object.values(await world.statuses()).sort();
  t.ok(statuses.includes('failed'));
  t.ok(
    statuses.every((status) => status === 'failed' || status === 'cancelled'),
    statuses.join(),
  );
  t.ok(world.targets.got.length <= LANE_SENDS_MAX, 'what was not on its way yet is not sent');
  const audits = (await journalOf(world, world.account)).flatMap(({ audit }) => audit);
  const told = audits.filter(({ action }) => action === 'alert.updated');
  t.equal(told.length, 1);
  t.match(told[0], { actor: 'system', resource_id: alert.id, details: { reason: 'target_gone', changed: ['status'] } });
});

t.test('410 of a target that the alert has left meanwhile does not switch it off', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const alert = await world.alert({});
  const answer = later<AttemptResult>();
  world.targets.answers.set(alert.target, () => answer.promise);
  await world.dispatch([makeSignal(world.account)]);
  await world.worker.look();
  await eventually(() => world.targets.got.length === 1);
  // The same host: only the path is another.
  await world.alerts.patch(world.account, alert.id, { target: `${alert.target}-new` }, actor);
  answer.resolve(GONE);
  await world.worker.idle();
  t.same(Object.values(await world.statuses()), ['failed']);
  t.equal((await world.alerts.get(world.account, alert.id))?.status, 'active');
});

t.test('nothing is sent for an alert that was deleted or switched off while it waited', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const [gone, off] = [await world.alert({}), await world.alert({})];
  await world.dispatch([makeSignal(world.account)]);
  await world.alerts.remove(world.account, gone.id, actor);
  await world.alerts.patch(world.account, off.id, { status: 'inactive' }, actor);
  await world.settle();
  t.same(world.targets.got, []);
  t.same(Object.values(await world.statuses()), ['cancelled', 'cancelled']);
  t.equal(await world.redis.hlen(world.keys.deliveries(world.account)), 0);
});

t.test("a delivery that waits goes to its alert's new target", async (t) => {
  const world = await makeAlertWorld(t, redis);
  const alert = await world.alert({});
  world.targets.answers.set(alert.target, () => FAILS);
  await world.dispatch([makeSignal(world.account)]);
  await world.settle();
  const target = 'https://elsewhere.example.com/hook';
  await world.alerts.patch(world.account, alert.id, { target }, actor);
  await world.settleAfter(RETRY_MS[0]!);
  t.same(
    world.targets.got.map((got) => got.target),
    [alert.target, target],
  );
  t.equal(new Set(world.targets.ids()).size, 1);
  t.same(Object.values(await world.statuses()), ['delivered']);
});

t.test('a breaker opens after five failures on end, asks once a minute, and costs what waits no attempt', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const alert = await world.alert({});
  let answer: AttemptResult = FAILS;
  world.targets.answers.set(alert.target, () => answer);
  await world.dispatch(Array.from({ length: 20 }, () => makeSignal(world.account)));
  await world.settle();
  const opened = world.targets.got.length;
  t.ok(opened >= 5 && opened <= 5 + LANE_SENDS_MAX - 1, `${opened} attempts until it opened`);
  await world.settleAfter(BREAKER_OPEN_MS - 1);
  t.equal(world.targets.got.length, opened, 'open: nothing is sent');
  await world.settleAfter(1);
  t.equal(world.targets.got.length, opened + 1, 'half open: one asks');
  answer = DELIVERED;
  await world.settleAfter(BREAKER_OPEN_MS);
  await world.settleAfter(RETRY_MS[1]!);
  const statuses = Object.values(await world.statuses());
  t.same(statuses, Array(20).fill('delivered'), 'closed: everything goes out');
  t.equal(world.targets.got.length, 20 + opened + 1, 'each failure was one attempt, and no more');
});

t.test('four hundred targets that hang leave places to the one on their host that answers', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const host = 'https://shared.example.com';
  const hangs = () => new Promise<AttemptResult>((resolve) => setTimeout(resolve, 10, HANGS));
  for (let i = 0; i < 400; i++) {
    const { target } = await world.alert({ target: `${host}/dead/${i}` });
    world.targets.answers.set(target, hangs);
  }
  // Each fails once, and is known for it.
  await world.dispatch([makeSignal(world.account)]);
  for (let looks = 0; looks < 10 && world.targets.got.length < 400; looks++) await world.settle();
  t.equal(world.targets.got.length, 400);
  await world.alert({ target: `${host}/alive` });
  await world.dispatch([makeSignal(world.account)]);
  const before = world.targets.got.length;
  await world.worker.look();
  await eventually(() => world.targets.ids(`${host}/alive`).length === 1);
  const ahead = world.targets.got.slice(before).findIndex(({ target }) => target === `${host}/alive`);
  t.ok(ahead <= ACCOUNT_HOST_SENDS_MAX, `${ahead} dead ones were tried before it`);
  await world.worker.idle();
});

t.test('what waits behind a breaker ends after its time', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const alert = await world.alert({});
  world.targets.answers.set(alert.target, () => FAILS);
  await world.dispatch(Array.from({ length: 12 }, () => makeSignal(world.account)));
  await world.settle();
  await world.settleAfter(97 * HOUR_MS);
  t.same(Object.values(await world.statuses()), Array(12).fill('failed'));
});

t.test('a worker that is killed in the middle of a send: it is sent again, with the same id', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const alert = await world.alert({});
  world.targets.answers.set(alert.target, never);
  const killed = world.another();
  await world.dispatch([makeSignal(world.account)]);
  await killed.look();
  await eventually(() => world.targets.got.length === 1);
  world.targets.answers.clear();
  await world.settle();
  t.equal(world.targets.got.length, 1, 'it is claimed');
  await world.settleAfter(CLAIM_MS);
  t.equal(world.targets.got.length, 2);
  t.equal(new Set(world.targets.ids()).size, 1);
  t.same(Object.values(await world.statuses()), ['delivered']);
});

t.test('a result that comes after its claim was taken by another changes nothing', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const alert = await world.alert({});
  const late = later<AttemptResult>();
  world.targets.answers.set(alert.target, () => late.promise);
  const slow = world.another();
  await world.dispatch([makeSignal(world.account)]);
  await slow.look();
  await eventually(() => world.targets.got.length === 1);
  world.clock.now += CLAIM_MS;
  world.targets.answers.clear();
  await world.settle();
  t.same(Object.values(await world.statuses()), ['delivered']);
  late.resolve(FAILS);
  await slow.idle();
  t.same(Object.values(await world.statuses()), ['delivered']);
  t.equal(await world.redis.hlen(world.keys.deliveries(world.account)), 0);
});

t.test('never more at once than there are places: of a host, of an account, of all', async (t) => {
  const world = await makeAlertWorld(t, redis);
  for (let i = 0; i < 40; i++) {
    const alert = await world.alert({});
    world.targets.answers.set(alert.target, never);
  }
  await world.dispatch(Array.from({ length: 5 }, () => makeSignal(world.account)));
  await world.worker.look();
  await eventually(() => world.targets.running === ACCOUNT_SENDS_MAX);
  await world.worker.look();
  t.equal(world.targets.mostRunning, ACCOUNT_SENDS_MAX);
  t.ok(ACCOUNT_SENDS_MAX < SENDS_MAX, 'others have places left');
  const perHost = new Map<string, number>();
  for (const { target } of world.targets.got) perHost.set(target, (perHost.get(target) ?? 0) + 1);
  t.equal(Math.max(...perHost.values()), LANE_SENDS_MAX);
});

t.test('a host that hangs for many accounts, as a mail server may, takes no slot from others', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const target = 'https://shared.example.com/hook';
  world.targets.answers.set(target, never);
  for (let i = 0; i < SENDS_MAX; i++) {
    const account = newAccount();
    await world.alert({ target }, account);
    await world.dispatch(Array.from({ length: LANE_SENDS_MAX }, () => makeSignal(account)));
  }
  await world.worker.look();
  await eventually(() => world.targets.running > 0);
  const sound = await world.alert({});
  await world.dispatch([makeSignal(world.account)]);
  world.worker.start();
  await eventually(() => world.targets.ids(sound.target).length === 1);
  t.ok(world.targets.mostRunning <= HOST_SENDS_MAX + 1, `${world.targets.mostRunning} at once`);
});

t.test('more hosts of one account that hang than a look reads do not hide those of another', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const { account, keys } = world;
  let other = newAccount();
  while (keys.shardOf(other) !== keys.shardOf(account)) other = newAccount();
  for (let i = 0; i < LANES_PER_LOOK + ACCOUNT_SENDS_MAX + 10; i++) {
    const { target } = await world.alert({});
    world.targets.answers.set(target, never);
  }
  await world.dispatch([makeSignal(account)]);
  world.clock.now += 1;
  const sound = await world.alert({}, other);
  await world.dispatch([makeSignal(other)]);
  for (let look = 0; look < 2; look++) await world.worker.look();
  await eventually(() => world.targets.ids(sound.target).length === 1);
  t.equal(world.targets.mostRunning, ACCOUNT_SENDS_MAX + 1);
});

t.test('one target that hangs and one that fails among fifty delay none of the others', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const all = [];
  for (let i = 0; i < 50; i++) all.push(await world.alert({}));
  const [hanging, failing, ...sound] = all;
  world.targets.answers.set(hanging!.target, never);
  world.targets.answers.set(failing!.target, () => FAILS);
  for (let i = 0; i < 4; i++) await world.dispatch([makeSignal(world.account)]);
  world.worker.start();
  await eventually(() => sound.every(({ target }) => world.targets.ids(target).length === 4));
  // Its second place comes with the next poll, where the account had but one left at first.
  await eventually(() => world.targets.ids(hanging!.target).length >= LANE_SENDS_MAX);
  await world.worker.look();
  t.equal(world.targets.ids(hanging!.target).length, LANE_SENDS_MAX, 'the one that hangs holds its own places');
});

t.test('a test notification goes past throttle and status; of a deleted alert it is cancelled', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const deliveries = new Deliveries(world);
  const alert = await world.alert({
    status: 'inactive',
    throttle_seconds: 3_600,
    conditions: { severity: 'critical' },
  });
  const shown = await deliveries.test(world.account, alert.id);
  t.match(shown, {
    alert_id: alert.id,
    test: true,
    status: 'pending',
    severity: 'critical',
    target: /^https:\/\/host-\d+\.example\.com$/,
  });
  await deliveries.test(world.account, alert.id);
  await world.settle();
  t.equal(world.targets.got.length, 2);
  t.ok(world.targets.got.every(({ notification }) => notification.test));
  await deliveries.test(world.account, alert.id);
  await world.alerts.remove(world.account, alert.id, actor);
  await world.settle();
  t.equal(world.targets.got.length, 2);
  t.same(Object.values(await world.statuses()).sort(), ['cancelled', 'delivered', 'delivered']);
  t.equal(await deliveries.test(world.account, alert.id), null);
});

t.test('a failed delivery is sent again under its id, once, and no other', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const deliveries = new Deliveries(world);
  const alert = await world.alert({});
  world.targets.answers.set(alert.target, () => ({ outcome: 'failed', statusCode: 400, error: 'rejected' }));
  await world.dispatch([makeSignal(world.account)]);
  await world.settle();
  const [row] = (await journalOf(world, world.account)).flatMap(({ rows }) => rows ?? []).slice(-1);
  const kept = {
    delivery: { ...row!.row, attempts: JSON.parse(String(row!.row['attempts'])) } as never,
    signal: JSON.parse(String(row!.row['signal'])),
  };
  t.match(kept.delivery, { status: 'failed' });
  world.targets.answers.clear();
  const again = await deliveries.redeliver(world.account, kept);
  t.match(again, { id: row!.row['id'], status: 'pending' });
  t.equal(again.attempts.length, 1, 'the old attempts are still shown');
  await refusal(t, deliveries.redeliver(world.account, kept), 'not_redeliverable');
  await world.settle();
  t.same(world.targets.ids(), [row!.row['id'], row!.row['id']]);
  t.equal(world.targets.got[1]!.attempt.number, 1, 'its schedule begins again');
  t.same(Object.values(await world.statuses()), ['delivered']);
  await world.alerts.patch(world.account, alert.id, { status: 'inactive' }, actor);
  await refusal(t, deliveries.redeliver(world.account, kept), 'not_redeliverable');
  await world.alerts.remove(world.account, alert.id, actor);
  await refusal(t, deliveries.redeliver(world.account, kept), 'not_redeliverable');
});

t.test('after the deletion of an agent nothing about it is sent or recorded', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const agents = new Agents(world);
  const { agent } = await agents.register(world.account, { name: 'a' }, actor);
  const [alert, hanging] = [await world.alert({}), await world.alert({})];
  const answer = later<AttemptResult>();
  world.targets.answers.set(alert.target, () => FAILS);
  world.targets.answers.set(hanging.target, () => answer.promise);
  await world.dispatch([makeSignal(world.account, { agent: agent.id })]);
  await world.worker.look();
  await eventually(() => world.targets.got.length === 2);
  await agents.remove(world.account, agent.id, actor);
  const before = (await journalOf(world, world.account)).length;
  answer.resolve(FAILS);
  await world.worker.idle();
  await world.dispatch([makeSignal(world.account, { agent: agent.id })]);
  await world.settleAfter(RETRY_MS[0]!);
  t.equal(world.targets.got.filter(({ attempt }) => attempt.number > 1).length, 0, 'no further attempt');
  t.equal((await journalOf(world, world.account)).length, before, 'and no row');
  await dropDeliveriesOf(world, world.account, agent.id);
  t.equal(await world.redis.hlen(world.keys.deliveries(world.account)), 0);
});

t.test('an alert whose agent was deleted can still be tried, without naming the agent', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const agents = new Agents(world);
  const { agent } = await agents.register(world.account, { name: 'a' }, actor);
  const alert = await world.alert({ agent_id: agent.id });
  const deliveries = new Deliveries(world);
  t.match(await deliveries.test(world.account, alert.id), { agent_id: agent.id });
  await agents.remove(world.account, agent.id, actor);
  t.match(await deliveries.test(world.account, alert.id), { agent_id: null, test: true });
});

t.test('more than a host may have waiting is counted and notified in summaries', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const alert = await world.alert({});
  world.targets.answers.set(alert.target, () => FAILS);
  const total = LANE_WAITING_MAX + 500;
  for (let told = 0; told < total; told += 300) {
    await world.dispatch(Array.from({ length: 300 }, () => makeSignal(world.account)));
  }
  t.equal(await world.redis.hlen(world.keys.deliveries(world.account)), LANE_WAITING_MAX);
  world.targets.answers.clear();
  await world.settleAfter(BREAKER_OPEN_MS);
  await world.settleAfter(RETRY_MS[1]!);
  const told = new Map(world.targets.got.map(({ notification }) => [notification.id, notification.count]));
  t.equal(
    [...told.values()].reduce((a, b) => a + b, 0),
    total,
    'every signal is notified',
  );
  t.equal(told.size, LANE_WAITING_MAX + 1);
});

t.test('a queue that was lost is made again from the rows of ClickHouse', async (t) => {
  const world = await makeAlertWorld(t, redis);
  const [alert, deleted] = [await world.alert({}), await world.alert({})];
  for (const { target } of [alert, deleted]) world.targets.answers.set(target, () => FAILS);
  await world.dispatch([makeSignal(world.account)]);
  await world.settle();
  await world.alerts.remove(world.account, deleted.id, actor);
  const rows = (await journalOf(world, world.account)).flatMap(({ rows }) => rows ?? []);
  const newest = [...new Map(rows.map(({ row }) => [row['id'], row])).values()];
  const { keys, account } = world;
  const lanes = [alert, deleted].map(({ channel, target }) => keys.deliveryLane(account, laneOf(channel, target)));
  for (const key of [keys.deliveries(account), ...lanes]) t.equal(await world.redis.del(key), 1);
  const iso = (text: unknown) => `${String(text).replace(' ', 'T')}Z`;
  const kept = newest.map((row) => ({
    account: world.account,
    delivery: {
      ...row,
      attempts: JSON.parse(String(row['attempts'])),
      created_at: iso(row['created_at']),
      next_attempt_at: iso(row['next_attempt_at']),
    } as never,
    signal: JSON.parse(String(row['signal'])),
  }));
  t.equal(await restoreDeliveries(world, kept, () => true), 2);
  world.targets.answers.clear();
  await world.settle();
  t.equal(world.targets.got.length, 2, 'not before their time');
  await world.settleAfter(RETRY_MS[0]!);
  t.equal(world.targets.got.length, 3);
  t.equal(world.targets.got[2]!.attempt.number, 2, 'with the attempts that it has had');
  t.same(world.targets.ids(alert.target), [world.targets.ids(alert.target)[0], world.targets.ids(alert.target)[0]]);
  t.same(Object.values(await world.statuses()).sort(), ['cancelled', 'delivered']);
});
