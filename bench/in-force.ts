// Question: how soon is a policy in force on every front after its creation was answered?
// Method: two fronts on one port; for each try a policy that blocks one made-up tool is created, then events naming
// that tool are sent over fresh connections (so that both fronts are met) until 12 in a row are blocked. The time from
// the answer of the creation to the last event that was still allowed is the delay; then the policy is deleted.
import { HttpClient } from './http-client.ts';
import { startBenchService } from './service.ts';

const IN_A_ROW = 12;
const TRY_MS_MAX = 5_000;
const PROMISE_MS = 1_000;

export async function inForce(options: { tries: number }): Promise<boolean> {
  const service = await startBenchService({ GATEHOUSE_FRONTS: '2' });
  const client = new HttpClient({ ...service, connections: 4 });
  const delays: number[] = [];
  try {
    const agent = (await client.json<{ id: string }>('POST', '/v1/agents', { name: 'in-force' })).id;
    for (let i = 0; i < options.tries; i++) delays.push(await oneTry(service, client, agent, i));
  } finally {
    client.close();
    await service.stop();
  }
  delays.sort((a, b) => a - b);
  const late = delays.filter((ms) => ms > PROMISE_MS).length;
  const at = (share: number) => Math.round(delays[Math.min(delays.length - 1, Math.floor(delays.length * share))]!);
  process.stdout.write(
    `${JSON.stringify({ line: 'in-force', tries: delays.length, late, p50Ms: at(0.5), p99Ms: at(0.99), maxMs: at(1) })}\n`,
  );
  return late === 0;
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
