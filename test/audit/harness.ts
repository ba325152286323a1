// What tests of the audit chain share: a world with pipelines, a registry in it, and its verification.
import type { Test } from 'tap';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { ChainFlusher } from '../../pipelines/store/chain-flush.ts';
import type { AuditVerification } from '../../schemas/audit-verification.ts';
import { AuditVerifier, type VerifyOptions } from '../../src/audit/verifier.ts';
import { mintId } from '../../src/common/ids.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import { keptNow } from '../../src/registry/accounts/account-retention.ts';
import { Agents } from '../../src/registry/agents.ts';
import { ReadBarrier } from '../../src/streams/read-barrier.ts';
import { makeWorld, type World } from '../pipelines/harness.ts';
import { appendOf, type EventOptions, makeEvent, silent } from '../streams/harness.ts';

export const ACTOR = { actor: 'key:key_1', requestId: 'test' };
const BUDGET_MS = 60_000;
const RETENTION = { retentionDays: 3_650, retentionMinDays: 1 };

export type AuditWorld = World & {
  agents: Agents;
  barrier: ReadBarrier;
  /** Copies the blocks that wait, without waiting for their time. */
  flush: () => Promise<void>;
  verify: (account: string, options?: Partial<VerifyOptions>) => Promise<AuditVerification>;
};

export async function makeAuditWorld(t: Test, servers: Parameters<typeof makeWorld>[1]): Promise<AuditWorld> {
  const world = await makeWorld(t, servers);
  const verifier = new AuditVerifier({ ...world, retentionDays: 3_650, keptOf: keptNow(world, RETENTION) });
  const barrier = new ReadBarrier({ ...world, waitMs: 60_000 });
  const { keys } = world;
  const flusher = new ChainFlusher({ ...world, log: silent, metrics: new Metrics({ processName: 'test' }) });
  const streams = [
    ...Array.from({ length: keys.partitions }, (_, partition) => keys.events(partition)),
    ...keys.ofShards(keys.journal),
  ];
  return {
    ...world,
    flush: () => flusher.flush(streams),
    agents: new Agents(world),
    barrier,
    verify: (account, options) =>
      verifier.verify(account, { budgetMs: BUDGET_MS, settle: () => barrier.waitForAuditLog(account), ...options }),
  };
}

export function newAccount(): string {
  return mintId('account', Date.now());
}

/** Registers an agent of that name and returns its id. */
export async function newAgent({ agents }: AuditWorld, account: string, name: string): Promise<string> {
  return (await agents.register(account, { name }, ACTOR)).agent.id;
}

/** Appends events of one agent; returns their ids. */
export async function submit(
  { appender }: World,
  who: { account: string; agent: string },
  events: readonly EventOptions[],
): Promise<string[]> {
  const made = events.map((options) => makeEvent(who, options));
  await appender.append(appendOf(who, made));
  return made.map(({ id }) => id);
}

/** Everything acknowledged is stored; throws if it is not. */
export async function settle({ barrier }: AuditWorld, account: string): Promise<void> {
  if (!(await barrier.waitForAuditLog(account))) throw new Error('did not drain');
}

export async function countBlocks(clickhouse: ClickHouse): Promise<number> {
  return (await clickhouse.query<{ n: number }>('SELECT count() AS n FROM audit_chain FINAL'))[0]!.n;
}
