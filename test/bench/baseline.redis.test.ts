// The server that the bench suite compares with must do the same work: the same outcomes as Gatehouse's own engine and
// counters on the events and policies of the suite, every event in the stream before the answer, the same refusals.
import { Redis } from 'ioredis';
import t from 'tap';
import { makeServer } from '../../bench/baseline/server.ts';
import { FIVE_POLICIES, sampleEvent } from '../../bench/workload.ts';
import type { Policy } from '../../schemas/policy.ts';
import { checksOf, decide } from '../../src/policy/decide.ts';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import { Counters } from '../../src/policy/quotas/counters.ts';
import { connectCommands, waitUntilReady } from '../../src/redis/client.ts';
import * as support from '../policy/support.ts';
import { startRedis } from '../support/redis.ts';

const KEY = 'baseline-key-0123456789abcdef0123456789';
const AGENT = support.AGENT.id;
const THRESHOLD = 8;

/** The suite's policies; the rate limit low enough to be met. An hour, so that no window ends in the test. */
const policies = FIVE_POLICIES.map(({ name, type, conditions, actions }) => {
  const given = type === 'rate_limit' ? { ...conditions, threshold: THRESHOLD, window: '1h' } : conditions;
  return support.policy(type, given, actions as Policy['actions'], { name });
});

/** Events of the suite, and for each policy some that meet it, in payloads of several shapes. */
const events = [
  sampleEvent(0),
  { type: 'tool_call', payload: { tool: 'send_money', arguments: { amount: 5 } } },
  { type: 'tool_call', payload: { tool: 'pay', arguments: { amount: 1_000_001 } } },
  { type: 'tool_call', payload: { tool: 'pay', arguments: { amount: 1_000_000 } } },
  { type: 'custom', payload: { tool: 'rm' } },
  { type: 'completion', payload: { model: 'forbidden-model', response: 'no' } },
  { type: 'completion', payload: { model: 'gpt-4o', response: 'see <INFORMATION> there' } },
  { type: 'prompt', payload: { deep: [{ er: ['password=hunter2'] }] }, trace_id: 'trace-1' },
  { type: 'error', payload: { text: `key AKIA${'A'.repeat(16)}` }, timestamp: '2026-01-14T06:17:30.583Z' },
  { type: 'prompt', payload: { text: `sk-${'a'.repeat(19)}` } },
  { type: 'tool_call', payload: { tool: 'rm', note: 'BEGIN PRIVATE KEY', arguments: { amount: 9e9 } } },
  ...Array.from({ length: 6 }, (_, i) => sampleEvent(i)),
] as { type: Parameters<typeof support.event>[0]; payload: object }[];

t.test('the baseline decides as Gatehouse does on the events and policies of the suite', async (t) => {
  const { address } = await startRedis(t, { single: true });
  const url = address.url;
  const app = await makeServer({
    redisUrl: url,
    seed: {
      keys: { [KEY]: 'account' },
      agents: [AGENT],
      policies: policies as unknown as Parameters<typeof makeServer>[0]['seed']['policies'],
    },
    requestsPerSecond: 1_000,
  });
  t.teardown(() => app.close());
  const post = (path: string, payload: object, key = KEY) =>
    app.inject({ method: 'POST', url: path, headers: { authorization: `Bearer ${key}` }, payload });

  const single = await post(`/v1/agents/${AGENT}/events`, events[0]!);
  const batch = await post(`/v1/agents/${AGENT}/events/batch`, { events: events.slice(1) });
  t.equal(single.statusCode, 201);
  t.equal(batch.statusCode, 200);
  const answered = [single.json(), ...batch.json().results];

  const expected = await decisionsOfGatehouse(address);
  t.same(
    answered.map(({ policy_result: { outcome, reason, policy_id, matches } }) => ({
      outcome,
      reason,
      policy_id,
      matched: matches.map(({ name }: { name: string }) => name).toSorted(),
    })),
    expected,
  );
  t.equal(new Set(expected.flatMap(({ matched }) => matched)).size, 5, 'every policy was met');
  t.ok(expected.filter(({ outcome }) => outcome === 'allowed').length >= 4, 'and some events met none');
  t.same(
    answered.map(({ payload }) => payload),
    events.map(({ payload }) => payload),
    'echoed as sent',
  );

  const redis = new Redis(url);
  t.teardown(() => redis.disconnect());
  const kept = await redis.xrange('events', '-', '+');
  t.same(
    kept.map(([, fields]) => fields[1]),
    answered.map(({ id }) => id),
    'every answered event is in the stream, in order',
  );

  t.equal((await post(`/v1/agents/${AGENT}/events`, events[0]!, 'another')).statusCode, 401);
  t.equal((await post('/v1/agents/agt_unknown/events', events[0]!)).statusCode, 404);
  t.equal((await post(`/v1/agents/${AGENT}/events`, { type: 'other', payload: {} })).statusCode, 400);
  t.equal((await post(`/v1/agents/${AGENT}/events`, { ...events[0]!, extra: 1 })).statusCode, 400);
  const mixed = await post(`/v1/agents/${AGENT}/events/batch`, { events: [{ type: 1 }, events[0]!] });
  t.match(mixed.json(), { total: 1, results: [{ error: { code: 'validation_failed' } }, { type: 'tool_call' }] });
});

async function decisionsOfGatehouse(address: { url: string; cluster: boolean }) {
  const redis = connectCommands(address);
  await waitUntilReady(redis, 60_000);
  const counters = new Counters(redis);
  const rules = new RuleSet(policies);
  const decisions = [];
  for (const { type, payload, ...rest } of events) {
    const judgement = judge(rules, support.event(type, payload, rest));
    const taken = await counters.take(
      checksOf(judgement).map(({ policyId, threshold, windowMs, countsWhenOver }) => {
        return { key: `{gatehouse}${policyId}`, threshold, windowMs, count: 1, countsWhenOver };
      }),
    );
    const over = taken.map(({ granted }) => (granted === 0 ? 1 : 0));
    const { outcome, reason, policyId, matches } = decide(judgement, over, () => 'apr_01jd00000000000000000000aa');
    decisions.push({ outcome, reason, policy_id: policyId, matched: matches.map(({ name }) => name).toSorted() });
  }
  redis.disconnect();
  return decisions;
}
