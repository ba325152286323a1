// What judging costs by itself, without sockets, Redis and replies, in which it drowns: ns of processor time an event
// in this process, in turns, medians. Two ways: `plain`, as most events go (read, search for literals, ask the index),
// and `values`, as an event goes that some rule might match (every rule that the index leaves, on the parsed payload).

import type { AgentRecord } from '../schemas/agent.ts';
import type { EventType } from '../schemas/closed-sets.ts';
import type { JsonObject } from '../schemas/common.ts';
import type { Policy } from '../schemas/policy.ts';
import { atOnce } from '../src/common/steps.ts';
import { WasmCodec } from '../src/ingest/wasm-codec.ts';
import { judge, RuleSet } from '../src/policy/engine.ts';
import { median } from './statistics.ts';
import type { PolicyOrder } from './workload.ts';

/** Microseconds of one measurement; process.cpuUsage counts single ones. */
const MEASURED_US = 60_000;
const TURNS = 5;

export type Inside = { plainNs: number; valuesNs: number };
type Setting = { policies: readonly PolicyOrder[]; body: string; events: number };

const agent = {
  id: 'agt_01jd5x0f6w3q8z5n7r2k9v4t1m',
  name: 'bench',
  status: 'active',
  metadata: {},
} as unknown as AgentRecord;

/** In the order of the settings. `body` is a batch of so many events. */
export function costsInside(settings: readonly Setting[]): Inside[] {
  const codec = new WasmCodec();
  const work = settings.map((setting) => workOf(setting, codec));
  const taken = work.map(() => ({ plain: [] as number[], values: [] as number[] }));
  for (let turn = 0; turn <= TURNS; turn++) {
    work.forEach(({ events, read, judged }, i) => {
      const [plainNs, valuesNs] = [cpuNs(read) / events, cpuNs(judged) / events];
      if (turn === 0) return; // the compiler warms up
      taken[i]!.plain.push(plainNs);
      taken[i]!.values.push(valuesNs);
    });
  }
  return taken.map((one) => ({ plainNs: median(one.plain), valuesNs: median(one.values) }));
}

/** ns of processor time to read and judge a body's events once: the fastest of so many runs. */
export function judgingCost(setting: Setting, runs: number): number {
  const { read } = workOf(setting, new WasmCodec());
  let fastest = Number.POSITIVE_INFINITY;
  for (let run = 0; run < runs; run++) {
    const { user, system } = process.cpuUsage();
    read();
    const after = process.cpuUsage();
    fastest = Math.min(fastest, after.user + after.system - user - system);
  }
  return fastest * 1_000;
}

function workOf({ policies, body, events }: Setting, codec: WasmCodec) {
  const rules = new RuleSet(policies.map(policyOf));
  const bytes = Buffer.from(body);
  const now = Date.now();
  const ids = { account: 'acc_bench', agentId: agent.id, requestId: 'bench', idempotencyKey: undefined };
  const views = (JSON.parse(body) as { events: { type: EventType; payload: JsonObject }[] }).events.map((event) => ({
    ...event,
    trace_id: undefined,
    agent_id: agent.id,
    timestamp: new Date(now).toISOString(),
    payloadText: JSON.stringify(event.payload),
    agent,
  }));
  return {
    events,
    read() {
      const request = { ...ids, shape: 'many' as const, body: bytes };
      const decoded = codec.decode(request, { rules, nowMs: now, eventBytesMax: bytes.length });
      if (decoded === undefined) throw new Error('the body is not read on its bytes');
      for (let i = 0; i < events; i++) atOnce(decoded.judging(i, agent, rules));
      decoded.release();
    },
    judged() {
      for (const view of views) judge(rules, view);
    },
  };
}

function policyOf(order: PolicyOrder, i: number): Policy {
  const id = `pol_${String(i).padStart(26, '0')}`;
  return { ...order, id, agent_id: null, severity: null, status: 'active' } as unknown as Policy;
}

/** The CPU time that one run of the work takes. */
function cpuNs(work: () => void): number {
  const before = process.cpuUsage();
  for (let runs = 1; ; runs++) {
    work();
    const { user, system } = process.cpuUsage(before);
    if (user + system >= MEASURED_US) return ((user + system) * 1000) / runs;
  }
}
