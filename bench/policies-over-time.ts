// What policies cost an event that look at what was before, or at what was spent (a part of `policies`): none, a rate
// limit, 20 sequences of which events are steps and sinks, a budget whose prompts reserve and whose completions settle.
// The load of all four is the same: calls of a tool, and in each batch some prompts, each with its completion.
import { setTimeout as sleep } from 'node:timers/promises';
import { HttpClient } from './http-client.ts';
import { BATCH_EVENTS, bodiesOf, type PolicyOrder, type Requests, requestsOf, sampleEvent } from './workload.ts';

/** More reservations than a scope may have are under way in none. */
const CALL_EVERY = 25;
/** Two memories of sequences are read at once, some seconds each. */
const KNOWN_MS_MAX = 300_000;
const TOOL = 'get_reservation_details';

export const OVER_TIME: Readonly<Record<string, PolicyOrder[]>> = {
  'no policy over time': [],
  'a rate limit': [
    {
      ...{ name: 'limit', type: 'rate_limit', actions: ['block'] },
      conditions: { threshold: 1_000_000_000, window: '1m', per: 'agent' },
    },
  ],
  '20 sequences': Array.from({ length: 20 }, (_, i): PolicyOrder => {
    const [sink, step] = [i === 0 ? TOOL : `sink-${i}`, i === 1 ? TOOL : `step-${i}`];
    const conditions = { type: 'tool_call', tool: sink, after: [{ type: 'tool_call', tool: step }], within: '1h' };
    return { name: `sequence ${i}`, type: 'sequence', conditions, actions: ['block'] };
  }),
  'a budget': [
    {
      ...{ name: 'budget', type: 'budget', actions: ['block'] },
      conditions: { limit: { tokens: 10 ** 15 }, window: '1d', per: 'trace', estimate: 'worst', hold: '10s' },
    },
  ],
};

export function loadOverTime(agent: string, key: string, connections: number): Requests {
  return requestsOf([{ agent, key }], { events: BATCH_EVENTS, connections }, bodiesOf(BATCH_EVENTS, eventOf));
}

/** Every so many events a prompt, and behind it its completion. */
function eventOf(i: number): object {
  if (i % CALL_EVERY > 1) return sampleEvent(i);
  const call = i - (i % CALL_EVERY);
  const { trace_id, payload } = sampleEvent(call);
  const said = { model: 'bench-model', ...(i === call ? { token_count: 300, max_tokens: 500 } : {}) };
  if (i === call) return { type: 'prompt', trace_id, payload: { ...said, prompt: payload['result'] } };
  const usage = { prompt_tokens: 300, completion_tokens: 100 };
  return { type: 'completion', trace_id, payload: { ...said, response: payload['result'], usage } };
}

/** Until what was before is known to all of them: none matches for want of it. */
export async function untilKnown(service: { url: string; key: string }, { bodies }: Requests, agent: string) {
  const client = new HttpClient({ ...service, connections: 1 });
  try {
    for (const endMs = performance.now() + KNOWN_MS_MAX; performance.now() < endMs; await sleep(200)) {
      const { body } = await client.send('POST', `/v1/agents/${agent}/events/batch`, bodies[0]!);
      if (!body.includes('"state_unknown"')) return;
    }
    throw new Error(`what was before is not known after ${KNOWN_MS_MAX / 1000} s`);
  } finally {
    client.close();
  }
}
