// What tests of ingestion share: the parts around it without Redis, one agent, a standing clock.
// Counters grant as Redis would if no time passed; each body begins with none taken.
import type { AgentRecord } from '../../schemas/agent.ts';
import type { Policy } from '../../schemas/policy.ts';
import { ServiceError } from '../../src/common/errors.ts';
import { SteadyClock } from '../../src/common/steady-clock.ts';
import type { Codec } from '../../src/ingest/codec.ts';
import { Ingest } from '../../src/ingest/ingest.ts';
import type { Answer, IngestParts, IngestRequest, ShadowParts } from '../../src/ingest/ingest-parts.ts';
import type { Shape } from '../../src/ingest/json.ts';
import { JsonCodec } from '../../src/ingest/json-codec.ts';
import { RateLimitBatcher } from '../../src/ingest/rate-limit-batcher.ts';
import { ShadowCounters } from '../../src/ingest/shadow-counters.ts';
import { WasmCodec } from '../../src/ingest/wasm-codec.ts';
import { shadowAllowances } from '../../src/policy/allowance.ts';
import { RuleSet } from '../../src/policy/engine.ts';
import { PolicyError } from '../../src/policy/policy-error.ts';
import { SequenceMemory } from '../../src/policy/sequences/sequence-memory.ts';
import { Keys } from '../../src/redis/keys.ts';
import type { Append, AppendCaller } from '../../src/streams/append.ts';

export const NOW = Date.UTC(2026, 10, 20, 17, 28, 0, 123);
/** By the counters' clock. */
export const COUNTED_AT = NOW + 7;
export const account = 'acc_01jd5x0f6w3q8z5n7r2k9v4t1m';
export const agentId = 'agt_01jd5x0f6w3q8z5n7r2k9v4t1m';
export const agent = {
  id: agentId,
  name: 'one',
  status: 'active',
  metadata: { team: 'red' },
} as unknown as AgentRecord;
export const requestId = 'r-1';

export type Seen = { answer: string | ServiceError; summaries: string; rows: Buffer };

/** Both codecs as a front has them, and the one that reads every body. */
export const JSON_CODEC: readonly Codec[] = [new JsonCodec()];
export const CODECS: readonly Codec[] = [new WasmCodec(), ...JSON_CODEC];

/** Submits a body to ingestion as it is in a front. */
export async function take(
  rules: RuleSet,
  body: Buffer,
  shape: Shape,
  codecs: readonly Codec[],
  shadow: Partial<ShadowParts> = {},
): Promise<Seen> {
  const appended: Append[] = [];
  const parts = {
    cache: { agent: () => ({ record: agent }), rules: () => rules },
    rateLimits: freshGate(),
    sequences: freshSequences(),
    spends: NO_SPENDS,
    shadow: {
      counters: new ShadowCounters({ limits: freshGate(), spends: NO_SPENDS, sequences: freshSequences() }),
      allowances: shadowAllowances(),
      onJudged: () => undefined,
      ...shadow,
    },
    // What it is given stands only until the next body is read.
    appender: {
      appendFor: (append: Append, caller: AppendCaller) => {
        appended.push(copied(append));
        caller.appended();
      },
    },
    backlog: { full: () => false },
    clock: standingClock(),
    onAccepted: () => undefined,
    onMatched: () => undefined,
    onBytes: () => undefined,
    onUnevaluated: () => undefined,
  } as unknown as IngestParts;
  let answer: Seen['answer'];
  try {
    const request = { account, agentId, shape, body, requestId, idempotencyKey: undefined };
    const { body: text, release } = await submitted(new Ingest(parts, codecs), request);
    answer = text.toString();
    release?.();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    answer = error;
  }
  return {
    answer,
    summaries: appended.map(({ summaries }) => summaries.map((summary) => summary.toString()).join(',')).join(','),
    rows: Buffer.concat(appended.map(({ rows }) => rows)),
  };
}

/** As a promise. */
export function submitted(ingest: Ingest, request: IngestRequest): Promise<Answer> {
  return new Promise((accepted, refused) =>
    ingest.submit(request, { accepted, refused, offloaded: () => undefined, isGone: false, whenGone: () => undefined }),
  );
}

/** It says NOW. */
export function standingClock(): SteadyClock {
  return new SteadyClock({ wallMs: () => NOW, monotonicMs: () => 0, originMs: NOW });
}

function copied({ rows, summaries, ...append }: Append): Append {
  return { ...append, rows: Buffer.from(rows), summaries: summaries.map(String) };
}

/** Budgets are asked of a real Redis alone. */
const NO_SPENDS: IngestParts['spends'] = {
  ask: () => {
    throw new Error('a budget was asked');
  },
  release: () => undefined,
};

/** As Redis would say it if no time passed. */
export function freshSequences(): IngestParts['sequences'] {
  const memory = new SequenceMemory();
  return {
    ask: (_account, { events, submission }, waiter) =>
      void setImmediate(() =>
        waiter.sequencesCounted({
          atMs: COUNTED_AT,
          answers: events.map((event) => memory.next(event, COUNTED_AT, submission).answers),
        }),
      ),
    settle: async (_account, ids, atMs) => {
      for (const id of ids) memory.settle(id, atMs);
    },
  };
}

function freshGate(): RateLimitBatcher {
  const places = new Map<string, number>();
  const counters: ConstructorParameters<typeof RateLimitBatcher>[0] = {
    take: async (checks) =>
      checks.map(({ key, threshold, windowMs, count }) => {
        const before = places.get(key) ?? 0;
        places.set(key, before + count);
        const granted = Math.max(0, Math.min(count, threshold - before));
        const freeInMs = granted < count ? windowMs : 0;
        return { granted, freeInMs, atMs: COUNTED_AT, leased: 0, bucket: 0, usableMs: 0 };
      }),
  };
  return new RateLimitBatcher(counters, new Keys({ prefix: '', partitions: 1 }));
}

/** Whatever is random in what was made. */
export function blotted(text: string): string {
  return text.replace(/(evt|apr)_[0-9a-hjkmnp-tv-z]{26}/g, (id) => `${id.slice(0, 14)}…`);
}

export type PolicyOrder = {
  type: string;
  conditions: object;
  actions: readonly string[];
  agent_id?: string | null;
  severity?: string | null;
  description?: string;
};

export function policiesOf(orders: readonly PolicyOrder[]): Policy[] {
  return orders.map((order, i) => ({
    id: `pol_${String(i).padStart(26, '0')}`,
    revision: i + 1,
    name: `p${i}`,
    agent_id: null,
    severity: null,
    status: 'active',
    mode: 'enforce',
    ...order,
  })) as unknown as Policy[];
}

/** null: one of them would have been refused. */
export function ruleSet(policies: readonly Policy[]): RuleSet | null {
  try {
    return new RuleSet(policies);
  } catch (error) {
    if (error instanceof PolicyError) return null;
    throw error;
  }
}
