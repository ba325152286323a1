// The anomaly pipeline against a real Redis and the real engine: every kind ends up as one row and one signal, whatever
// step its owner dies at; what was learnt survives a change of owner and counts no event twice; an erased agent's
// baseline is gone. Death is a Redis and a ClickHouse that answer no more from a given step on: before it was carried
// out, or after.
import t, { type Test } from 'tap';
import { listAnomalies } from '../../clickhouse/queries/list-anomalies.ts';
import { Baseline, decodeBaseline } from '../../pipelines/anomaly/baseline.ts';
import { observe } from '../../pipelines/anomaly/observe.ts';
import type { EventSummary } from '../../schemas/entry.ts';
import { SIGNAL_FIELD, type Signal, type SignalEntry } from '../../schemas/signal.ts';
import { ReadBarrier } from '../../src/streams/read-barrier.ts';
import { appendOf, eventually, freshAgent, makeEvent, sentScript, type TestAgent } from '../streams/harness.ts';
import { startClickHouse } from '../support/clickhouse.ts';
import { intercepted } from '../support/intercepted.ts';
import { startRedis } from '../support/redis.ts';
import { makeWorld, startPipelines, type World } from './harness.ts';

const servers = { redis: await startRedis(t), clickhouse: await startClickHouse(t) };
const START = Date.now() - 2 * 3_600_000;
const HISTORY_SECONDS = 420;
const ALL = ['blocked_event', 'error_rate', 'token_spike', 'volume_spike'];

type Made = ReturnType<typeof makeEvent>;

/** Seven minutes at five events a second; every fifth is a completion, every fiftieth an error. */
function history(agent: TestAgent): Made[] {
  return Array.from({ length: HISTORY_SECONDS * 5 }, (_, i) => {
    const type = i % 50 === 7 ? 'error' : i % 5 === 0 ? 'completion' : 'tool_call';
    const tokens = type === 'completion' ? { tokensUsed: 1_000 + ((i * 37) % 400) } : {};
    return makeEvent(agent, { received_at: START + i * 200, summary: { type, ...tokens } });
  });
}

/** Two seconds with 120 events, 40 errors among them, a completion of 50,000 tokens, a blocked event. */
function trouble(agent: TestAgent, afterMs = 0): Made[] {
  const from = START + (HISTORY_SECONDS + 5) * 1_000 + afterMs;
  const made = Array.from({ length: 118 }, (_, i) =>
    makeEvent(agent, { received_at: from + i * 16, summary: { type: i % 3 === 0 ? 'error' : 'tool_call' } }),
  );
  const at = { received_at: from + 1_990 };
  const policy = {
    policy_id: 'pol_1',
    name: 'No transfers',
    type: 'block_action',
    actions: ['block'],
    severity: 'low',
  };
  const blocked: Partial<EventSummary> = { outcome: 'blocked', reason: 'policy', policyId: 'pol_1' };
  return [
    ...made,
    makeEvent(agent, { ...at, summary: { type: 'completion', tokensUsed: 50_000, traceId: 'a-trace' } }),
    makeEvent(agent, { ...at, summary: { ...blocked, matches: [policy as never] } }),
  ];
}

async function append(world: World, agent: TestAgent, made: readonly Made[]): Promise<void> {
  for (let at = 0; at < made.length; at += 150) await world.appender.append(appendOf(agent, made.slice(at, at + 150)));
}

async function drained({ redis, keys }: World, agent: TestAgent): Promise<void> {
  const barrier = new ReadBarrier({ redis, keys, waitMs: 60_000 });
  if (!(await barrier.waitForAnomalies(agent.account, agent.agent))) throw new Error('did not drain');
}

async function signalsOf({ redis, keys }: World, agent: TestAgent): Promise<Signal[]> {
  const entries = await redis.xrange(keys.signals(keys.partitionOf(agent.account, agent.agent)), '-', '+');
  const all = entries.flatMap(([, [field, text]]) =>
    field === SIGNAL_FIELD ? (JSON.parse(text!) as SignalEntry).signals : [],
  );
  return all.filter((signal) => signal.agent === agent.agent);
}

async function keptBaseline({ redis, keys }: World, agent: TestAgent): Promise<Baseline | null> {
  const bytes = await redis.getBuffer(keys.baseline(keys.partitionOf(agent.account, agent.agent), agent.agent));
  return bytes === null ? null : decodeBaseline(bytes);
}

/** The baseline that counted each of these events once. */
function reference(made: readonly Made[]): Baseline {
  const baseline = new Baseline();
  for (const { summary } of made) observe(baseline, summary);
  return baseline;
}

function sumsOf({ completions, slices, recent, second, volumeSince, errorSince, heldCount }: Baseline) {
  return { completions, slices, recent, second, volumeSince, errorSince, heldCount };
}

type Step = { script?: string; insert?: true; when: 'before' | 'after' };

/** A world that answers no more from a step on. */
function doomed(world: World, step: Step): { world: World; isDead: () => boolean } {
  let dead = false;
  const { text, sha } = step.script === undefined ? { text: '', sha: '' } : sentScript(step.script);
  const closed = () => Promise.reject(new Error('Connection is closed.'));
  const guarded = async (isStep: boolean, call: () => unknown) => {
    if (isStep && step.when === 'before') dead = true;
    if (dead) return closed();
    const answer = await call();
    if (isStep) dead = true;
    return dead ? closed() : answer;
  };
  const redis = intercepted(world.redis, ({ name, args, go }) => {
    if (name === 'on' || name === 'off') return go();
    const isScript = (name === 'evalsha' && args[0] === sha) || (name === 'eval' && args[0] === text);
    // The manifest's script also reads.
    const isStep = isScript && !(step.script === 'stream-manifest' && args.at(-2) === '');
    return guarded(isStep, go);
  });
  const clickhouse = intercepted(world.clickhouse, ({ name, go }) =>
    guarded(step.insert === true && name === 'insertRows', go),
  );
  return { world: { ...world, redis, clickhouse }, isDead: () => dead };
}

const STEPS: Step[] = [
  ...['stream-manifest', 'signals-append', 'baselines-save', 'stream-ack'].flatMap((script) => [
    { script, when: 'before' as const },
    { script, when: 'after' as const },
  ]),
  { insert: true, when: 'before' },
  { insert: true, when: 'after' },
];

t.test(
  'an owner that dies at any step: every anomaly is one row and one signal, and nothing is counted twice',
  async (t) => {
    const world = await makeWorld(t, { ...servers, partitions: 1 });
    const options = { processName: 'same', groups: ['anomaly'] as const };
    const subjects = STEPS.map((step) => ({ step, agent: freshAgent(), past: [] as Made[] }));
    const first = await startPipelines(t, world, options);
    for (const subject of subjects) {
      subject.past = history(subject.agent);
      await append(world, subject.agent, subject.past);
    }
    await drained(world, subjects[0]!.agent);
    await first.pipelines.stop();
    for (const { step, agent, past } of subjects) {
      const name = `${step.script ?? 'insert'}, ${step.when}`;
      t.equal((await keptBaseline(world, agent))?.completions, past.length / 5, `${name}: what was learnt is kept`);
      const victim = doomed(world, step);
      const dying = await startPipelines(t, victim.world, options);
      const present = trouble(agent);
      await append(world, agent, present);
      t.ok(await eventually(victim.isDead), `${name}: died`);
      await dying.pipelines.stop();
      const next = await startPipelines(t, world, options);
      await drained(world, agent);
      // The trouble continues: the same episodes.
      const more = trouble(agent, 2_500).slice(0, 60);
      await append(world, agent, more);
      await drained(world, agent);
      await next.pipelines.stop();
      await check(t, world, { name, agent, made: [...past, ...present, ...more] });
    }
  },
);

async function check(t: Test, world: World, given: { name: string; agent: TestAgent; made: Made[] }): Promise<void> {
  const { name, agent, made } = given;
  const page = { agentId: agent.agent, limit: 50, offset: 0 };
  const { items, total } = await listAnomalies(world.clickhouse, agent.account, page);
  t.same(items.map(({ kind }) => kind).sort(), ALL, `${name}: four rows`);
  t.equal(total, 4);
  const signals = await signalsOf(world, agent);
  const ids = [...new Set(signals.map(({ id }) => id))].sort();
  t.same(ids, items.map(({ id }) => `anomaly_detected/${id}`).sort(), `${name}: a signal each`);
  const kept = await keptBaseline(world, agent);
  t.same(sumsOf(kept!), sumsOf(reference(made)), `${name}: each event counted once`);
}

t.test('rows and signals say what was seen; the list finds them by kind, severity, agent and time', async (t) => {
  const world = await makeWorld(t, { ...servers, partitions: 1 });
  const agent = freshAgent();
  const { count } = await startPipelines(t, world, { groups: ['anomaly'] });
  await append(world, agent, [...history(agent), ...trouble(agent)]);
  await drained(world, agent);
  const list = async (filter: object) =>
    (await listAnomalies(world.clickhouse, agent.account, { limit: 50, offset: 0, ...filter })).items;
  const all = await list({});
  t.same(all.map(({ kind }) => kind).sort(), ALL);
  t.equal(new Set(all.map(({ id }) => id)).size, 4, 'ids differ by kind');
  for (const { kind, severity, id } of all) {
    t.same(
      (await list({ kind })).map((item) => item.id),
      [id],
    );
    t.ok((await list({ kind, severity })).length === 1);
  }
  const [spike] = await list({ kind: 'token_spike' });
  t.match(spike, { agent_id: agent.agent, observed: 50_000, severity: 'high' });
  t.match(spike!.message, /^A completion used 50,000 tokens; this agent usually uses about 1,200\.$/);
  t.equal((await list({ kind: 'volume_spike' }))[0]!.event_id, null, 'a rate is not one event');
  t.same(await list({ agentId: freshAgent().agent }), []);
  t.same(await list({ to: START + HISTORY_SECONDS * 1_000 }), []);
  t.equal((await list({ from: START + HISTORY_SECONDS * 1_000, to: Date.now() })).length, 4);
  const signals = await signalsOf(world, agent);
  t.match(
    signals.find(({ anomaly }) => anomaly?.kind === 'token_spike'),
    {
      trigger: 'anomaly_detected',
      severity: 'high',
      event: { id: spike!.event_id, type: 'completion', traceId: 'a-trace' },
      anomaly: { id: spike!.id, observed: 50_000 },
    },
  );
  t.match(
    signals.find(({ anomaly }) => anomaly?.kind === 'blocked_event'),
    {
      severity: 'low',
      policies: [{ id: 'pol_1', name: 'No transfers', type: 'block_action', severity: 'low' }],
    },
  );
  for (const kind of ALL) t.equal(await count('gatehouse_anomalies_total', { kind }), 1);
});

t.test('an erased agent leaves no baseline, and what still comes of it brings none back', async (t) => {
  const world = await makeWorld(t, { ...servers, partitions: 1 });
  const { redis, keys } = world;
  const agent = freshAgent();
  await startPipelines(t, world);
  await append(world, agent, history(agent).slice(0, 300));
  await drained(world, agent);
  t.ok(await eventually(async () => (await keptBaseline(world, agent)) !== null));
  const shard = keys.shardOf(agent.account);
  await redis.sadd(keys.tombstones(agent.account), agent.agent);
  await redis.hset(keys.erasures(shard), agent.agent, JSON.stringify({ account: agent.account, at: Date.now() }));
  t.ok(await eventually(async () => (await redis.hlen(keys.erasures(shard))) === 0), 'erased');
  t.equal(await redis.get(keys.baseline(0, agent.agent)), '-');
  t.ok((await redis.pttl(keys.baseline(0, agent.agent))) > 0, 'the mark goes too');
  // A front that has not heard of it yet.
  await append(world, agent, trouble(agent));
  await drained(world, agent);
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  t.equal(await redis.get(keys.baseline(0, agent.agent)), '-');
  t.same((await listAnomalies(world.clickhouse, agent.account, { limit: 50, offset: 0 })).items, []);
});
