// What tests of streams and pipelines share: a Redis of their own, events in the form in which ingest appends them,
// and a silent log. Rows are encoded by the plain encoder of test/support/clickhouse.ts.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { Test } from 'tap';
import type { EventSummary } from '../../schemas/entry.ts';
import { mintId } from '../../src/common/ids.ts';
import { readAsset } from '../../src/process/assets.ts';
import type { Log } from '../../src/process/log.ts';
import { type Commands, connectWriter, type RedisAddress, waitUntilReady } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import type { Append } from '../../src/streams/append.ts';
import { withRun } from '../../src/streams/redis-run.ts';
import { encodeRow, plainEvent, type TestEvent } from '../support/clickhouse.ts';
import { untilConnected } from '../support/redis.ts';

export const silent: Log = {
  error() {},
  warn() {},
  info() {},
  debug() {},
  child: () => silent,
  isLevelEnabled: () => false,
};

let prefixes = 0;

/** Keys that no other test uses. */
export function freshKeys(partitions = 2): Keys {
  return new Keys({ prefix: `t${process.pid}-${++prefixes}-`, partitions });
}

export async function connect(t: Test, address: RedisAddress): Promise<Commands> {
  const redis = untilConnected(connectWriter(address));
  t.teardown(async () => {
    redis.disconnect();
    if (redis.status !== 'end') await once(redis, 'end').catch(() => undefined);
  });
  await waitUntilReady(redis, 60_000);
  return redis;
}

/** The text of a script that compares the run of Redis, as it is sent. */
export function sentScript(name: string): { text: string; sha: string } {
  const plain = readAsset(`src/redis/${name}.lua`);
  const text = plain.includes('is_other_run') ? withRun(plain) : plain;
  return { text, sha: createHash('sha1').update(text).digest('hex') };
}

export type TestAgent = { account: string; agent: string };

export function freshAgent(): TestAgent {
  return { account: mintId('account', Date.now()), agent: mintId('agent', Date.now()) };
}

export type EventOptions = Partial<TestEvent> & { summary?: Partial<EventSummary>; row?: Buffer };

/** One event as ingest would append it. */
export function makeEvent(
  { account, agent }: TestAgent,
  options: EventOptions = {},
): { id: string; summary: EventSummary; row: Buffer } {
  const { summary: more, row: given, ...columns } = options;
  const now = columns.received_at ?? Date.now();
  const event = plainEvent({
    account_id: account,
    agent_id: agent,
    received_at: now,
    type: 'tool_call',
    payload: '{"tool":"search","query":"weather"}',
    request_id: 'test',
    ...columns,
  });
  const row = given ?? encodeRow(event);
  const summary: EventSummary = {
    account,
    agent,
    id: event.id,
    type: 'tool_call',
    occurredAt: event.timestamp,
    receivedAt: now,
    outcome: event.outcome,
    rowBytes: row.length,
    ...more,
  };
  return { id: event.id, summary, row };
}

/** The append of some events of one agent. */
export function appendOf(
  { account, agent }: TestAgent,
  events: readonly { summary: EventSummary; row: Buffer }[],
): Append {
  return {
    account,
    agent,
    summaries: events.map(({ summary }) => JSON.stringify(summary)),
    rows: Buffer.concat(events.map(({ row }) => row)),
  };
}

/**
 * Polls until `check` gives a truthy value; the last value decides. The bound is for what never comes, not for a slow
 * machine.
 */
export async function eventually<T>(check: () => Promise<T> | T, timeoutMs = 90_000): Promise<T> {
  const until = performance.now() + timeoutMs;
  for (;;) {
    const value = await check();
    if (value || performance.now() > until) return value;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
