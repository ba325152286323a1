// What policy tests share: policies and events in one line, CPU time, the recorded events.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { EventType, PolicyAction, PolicyType } from '../../schemas/closed-sets.ts';
import type { JsonObject } from '../../schemas/common.ts';
import type { Policy } from '../../schemas/policy.ts';
import { parseExact } from '../../src/common/exact-json.ts';
import { decide } from '../../src/policy/decide.ts';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import type { Decision, EventView } from '../../src/policy/judgement.ts';
import { assetPath } from '../../src/process/assets.ts';
import { cpuMsOf } from '../support/own-time.ts';

export const AGENT = {
  id: 'agt_01jd00000000000000000000aa',
  name: 'assistant',
  metadata: { team: 'red' },
  status: 'active' as const,
  created_at: '2026-01-01T00:00:00.000Z',
  updated_at: '2026-01-01T00:00:00.000Z',
};

let minted = 0;

/** Policies in the order of creation. */
export function policy(
  type: PolicyType,
  conditions: object,
  actions: PolicyAction[] = ['block'],
  rest: Partial<Policy> = {},
): Policy {
  minted++;
  return {
    id: `pol_${String(minted).padStart(26, '0')}`,
    revision: 1,
    name: `policy ${minted}`,
    type,
    agent_id: null,
    conditions: conditions as Record<string, unknown>,
    actions,
    severity: null,
    status: 'active',
    mode: 'enforce',
    created_at: AGENT.created_at,
    updated_at: AGENT.updated_at,
    ...rest,
  };
}

/** `payload` as an object, or as the text that was sent. */
export function event(type: EventType, payload: object | string, rest: Partial<EventView> = {}): EventView {
  const payloadText = typeof payload === 'string' ? payload : JSON.stringify(payload);
  return {
    type,
    trace_id: undefined,
    agent_id: AGENT.id,
    timestamp: '2026-11-20T17:28:00.000Z',
    payload: parseExact(payloadText) as JsonObject,
    payloadText,
    agent: AGENT,
    ...rest,
  };
}

/** `over`: seconds until each limit that is over has room again. */
export function decideOn(rules: RuleSet, view: EventView, over: number[] = []): Decision {
  return decide(judge(rules, view), over, () => 'apr_01jd00000000000000000000aa');
}

/** Does one policy with these conditions match? */
export function matches(type: PolicyType, conditions: object, view: EventView): boolean {
  return decideOn(new RuleSet([policy(type, conditions)]), view).matches.length > 0;
}

/** The bound that policies promise, in ms of CPU. */
const BOUND_MS = 50;
/** Runs before a cost over the bound is believed. */
const RUNS_MAX = 12;
/** CPU ms of `yardstick` on the machine on which the promise was measured. */
const YARDSTICK_MS = 2.3;

/**
 * CPU ms of the cheapest of a few runs: what the work costs, without what the machine was doing besides. A cost over
 * the bound is set against a fixed piece of work beside it, since a core that is shared, or slower than ours, makes CPU
 * time longer as well.
 */
export function cpuMs(runs: number, work: () => void): number {
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < runs || (best >= BOUND_MS && i < RUNS_MAX); i++) {
    const cost = cpuMsOf(work);
    const slowed = cost < BOUND_MS ? 1 : Math.max(1, cpuMsOf(yardstick) / YARDSTICK_MS);
    best = Math.min(best, cost / slowed);
  }
  return best;
}

const LETTERS = 'abcdefghij'.repeat(1_000);
let hash = 7;

/** A million steps over characters, as an automaton takes them. */
function yardstick(): void {
  for (let round = 0; round < 100; round++) {
    for (let i = 0; i < LETTERS.length; i++) hash = (Math.imul(hash, 1_103_515_245) + LETTERS.charCodeAt(i)) | 0;
  }
}

for (let warm = 0; warm < 20; warm++) yardstick();

/** Recorded work of agents, or null where the folder is not there. */
export function recordedEvents(): EventView[] | null {
  return recordedRuns()?.map(({ view }) => ({ ...view, agent_id: AGENT.id })) ?? null;
}

/** `label`: what became of the whole run, where the recording says it. */
export function recordedRuns(): { view: EventView; label: string | undefined }[] | null {
  const folder = path.join(assetPath('.'), '..', 'shared', 'data');
  if (!existsSync(folder)) return null;
  const files = readdirSync(folder).filter((file) => file.endsWith('.ndjson'));
  return files.sort().flatMap((file) => {
    const lines = readFileSync(path.join(folder, file), 'utf8').split('\n').filter(Boolean);
    return lines.map((line) => {
      const { type, payload, ...rest } = JSON.parse(line) as Pick<EventView, 'type' | 'timestamp'> & {
        payload: object;
        trace_id: string;
        trace_label?: string;
        agent: string;
      };
      const { trace_id, timestamp, agent: agent_id } = rest;
      return { view: event(type, payload, { trace_id, timestamp, agent_id }), label: rest.trace_label };
    });
  });
}
