// Question: how soon is a policy in force on every front after its creation was answered?
// Method: two fronts on one port; for each try a policy that blocks one made-up tool is created, then events naming
// that tool are sent over fresh connections (so that both fronts are met) until 12 in a row are blocked. The time from
// the answer of the creation to the last event that was still allowed is the delay; then the policy is deleted.
// Then the same of one among 1,000 policies while single events come in by an open loop: what these wait longer than
// before the changes is what laying the rules out again costs them.
import { setTimeout as sleep } from 'node:timers/promises';
import { HttpClient } from './http-client.ts';
import { openLoad, summarize } from './open-loop.ts';
import { policiesOf } from './policies.ts';
import { type BenchService, startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import { percentile, sorted } from './statistics.ts';
import { sampleEvent } from './workload.ts';

const IN_A_ROW = 12;
const TRY_MS_MAX = 5_000;
const PROMISE_MS = 1_000;
/** Policies of an account of which one is changed, and single events a second meanwhile. */
const MANY = 999;
const RATE = 200;
const CONNECTIONS = 16;
const PHASE_SECONDS = 15;
/** The pause before the next change: changes that follow at once are one. */
const BETWEEN_MS = 500;

export async function inForce(options: { tries: number }): Promise<boolean> {
  const service = await startBenchService({ GATEHOUSE_FRONTS: '2' });
  const client = new HttpClient({ ...service, connections: 4 });
  try {
    const [agent] = (await makeAgents(service, 1)) as [string];
    const delays: number[] = [];
    for (let i = 0; i < options.tries; i++) delays.push(await oneTry(service, client, agent, i));
    const few = delaysOf(delays);
    await setPolicies(service, policiesOf(MANY));
    const many = await amongMany(service, client, agent);
    process.stdout.write(`${JSON.stringify({ line: 'in-force', ...few, ofAThousand: many })}\n`);
    return few.late + many.late === 0;
  } finally {
    client.close();
    await service.stop();
  }
}

/** Single events by an open loop, without changes and then with them. */
async function amongMany(service: BenchService, client: HttpClient, agent: string) {
  const phase = { requestsPerSecond: RATE, seconds: PHASE_SECONDS };
  const load = openLoad({
    url: service.url,
    requests: [{ path: `/v1/agents/${agent}/events`, key: service.key, body: 0 }],
    bodies: [JSON.stringify(sampleEvent(0))],
    phases: [phase, phase],
    connections: CONNECTIONS,
  });
  await sleep(PHASE_SECONDS * 1_000);
  const delays: number[] = [];
  const end = performance.now() + PHASE_SECONDS * 1_000;
  for (let i = 0; performance.now() < end; i++) {
    delays.push(await oneTry(service, client, agent, i));
    await sleep(BETWEEN_MS);
  }
  const samples = await load;
  const of = (from: number, to?: number) => {
    const { p50Ms, p99Ms, maxMs } = summarize(samples, from * 1_000, to === undefined ? to : to * 1_000);
    return { p50Ms, p99Ms, maxMs };
  };
  return { ...delaysOf(delays), events: { still: of(1, PHASE_SECONDS), changed: of(PHASE_SECONDS) } };
}

function delaysOf(delays: readonly number[]) {
  const ascending = sorted(delays);
  const late = delays.filter((ms) => ms > PROMISE_MS).length;
  const at = (share: number) => Math.round(percentile(ascending, share));
  return { tries: delays.length, late, p50Ms: at(0.5), p99Ms: at(0.99), maxMs: at(1) };
}

async function oneTry(
  service: { url: string; key: string },
  client: HttpClient,
  agent: string,
  i: number,
): Promise<number> {
  const tool = `tool-${i}`;
  const policy = await client.json<{ id: string }>('POST', '/v1/policies', {
    name: tool,
    type: 'block_action',
    conditions: { tool },
    actions: ['block'],
  });
  const answered = performance.now();
  let lastAllowed = answered;
  for (let blocked = 0; blocked < IN_A_ROW; ) {
    // A connection of its own reaches whichever front the kernel picks.
    const fresh = new HttpClient({ ...service, connections: 1 });
    const event = await fresh.json<{ policy_result: { outcome: string } }>('POST', `/v1/agents/${agent}/events`, {
      type: 'tool_call',
      payload: { tool },
    });
    fresh.close();
    if (event.policy_result.outcome === 'blocked') blocked++;
    else {
      blocked = 0;
      lastAllowed = performance.now();
    }
    if (performance.now() - answered > TRY_MS_MAX) break;
  }
  await client.send('DELETE', `/v1/policies/${policy.id}`);
  return lastAllowed - answered;
}
