// The real engine for tests: one child process of src/chdb-server in a folder of its own, or the ClickHouse that
// GATEHOUSE_TEST_CLICKHOUSE_URL names. Each test file makes databases of its own, so files can share one engine.
// Everything is torn down with the test.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import { EVENT_ROW_COLUMNS } from '../../schemas/event-row.ts';
import type { ClickHouseServerOptions } from '../../src/chdb-server/clickhouse-server.ts';
import { mintId } from '../../src/common/ids.ts';
import { assetPath } from '../../src/process/assets.ts';

export type TestClickHouse = { url: string; makeDatabase(options?: { queryTimeoutSeconds?: number }): ClickHouse };

let databases = 0;

/** Four times the service's own: a machine that stands still for a while is not what tests are about. */
const QUERY_SECONDS = 60;

/**
 * An engine to use, and databases in it. `makeDatabase` gives a client of a database that migrate() will make; it is
 * dropped afterwards.
 */
export async function startClickHouse(t: Test): Promise<TestClickHouse> {
  const given = process.env.GATEHOUSE_TEST_CLICKHOUSE_URL;
  const url = given ?? (await ownEngine(t));
  const makeDatabase = ({ queryTimeoutSeconds = QUERY_SECONDS } = {}) => {
    const clickhouse = new ClickHouse({
      url,
      database: `test_${process.pid}_${Date.now().toString(36)}_${++databases}`,
      queryTimeoutSeconds,
    });
    t.teardown(async () => {
      if (given !== undefined)
        await clickhouse.withDatabase('default').command(`DROP DATABASE IF EXISTS ${clickhouse.database}`);
      await clickhouse.close();
    });
    return clickhouse;
  };
  return { url, makeDatabase };
}

async function ownEngine(t: Test): Promise<string> {
  const folder = makeFolder(t);
  const engine = await forkEngine({ path: path.join(folder, 'data'), port: 0 });
  t.teardown(() => engine.stop('SIGTERM'));
  return engine.url;
}

export function makeFolder(t: Test): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-clickhouse-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export type EngineProcess = {
  url: string;
  port: number;
  child: ChildProcess;
  stop(signal: NodeJS.Signals): Promise<number | null>;
};

/** Starts an engine process and waits until it serves. Rejects with what it said when it will not. */
export async function forkEngine(options: ClickHouseServerOptions): Promise<EngineProcess> {
  const child = fork(assetPath('build/service/clickhouse-server-main.js'), [JSON.stringify(options)], {
    env: { ...process.env, UV_THREADPOOL_SIZE: '16' },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  let said = '';
  child.stderr!.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  const exited = once(child, 'exit') as Promise<[number | null]>;
  const ready = once(child.stdout!, 'data') as Promise<[Buffer]>;
  const first = await Promise.race([ready, exited.then(([code]) => code)]);
  if (!Array.isArray(first)) throw new EngineRefused(first, said.trim().split('\n').at(-1) ?? '');
  const { port } = JSON.parse(first[0].toString()) as { port: number };
  const stop = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    return (await exited)[0];
  };
  return { url: `http://127.0.0.1:${port}`, port, child, stop };
}

export class EngineRefused extends Error {
  readonly code: number | null;

  constructor(code: number | null, said: string) {
    super(said);
    this.code = code;
  }
}

export type TestEvent = {
  account_id: string;
  agent_id: string;
  id: string;
  type: string;
  trace_id: string;
  timestamp: number;
  received_at: number;
  payload: string;
  search_text: string;
  outcome: 'allowed' | 'blocked' | 'pending';
  reason: string;
  policy_id: string;
  approval_id: string;
  policy_result: string;
  model: string;
  token_count: number | null;
  tokens_used: number | null;
  request_id: string;
};

/** An allowed event in which nothing stands but what is given; it happened when it arrived. */
export function plainEvent(
  given: Partial<TestEvent> & Pick<TestEvent, 'account_id' | 'agent_id' | 'received_at'>,
): TestEvent {
  return {
    id: mintId('event', given.received_at),
    type: 'custom',
    trace_id: '',
    timestamp: given.received_at,
    payload: '{}',
    search_text: '',
    outcome: 'allowed',
    reason: '',
    policy_id: '',
    approval_id: '',
    policy_result: '',
    model: '',
    token_count: null,
    tokens_used: null,
    request_id: '',
    ...given,
  };
}

/** RowBinary, written plainly from the table's own definition: the service's encoder is tested against this one. */
export function encodeRow(event: TestEvent): Buffer {
  return Buffer.concat(EVENT_ROW_COLUMNS.map((column) => encodeColumn(column, event[column])));
}

function encodeColumn(column: string, value: string | number | null): Buffer {
  if (column === 'outcome') return Buffer.from([{ allowed: 1, blocked: 2, pending: 3 }[value as TestEvent['outcome']]]);
  if (column === 'timestamp' || column === 'received_at') return int64(value as number);
  if (column === 'token_count' || column === 'tokens_used')
    return value === null ? Buffer.from([1]) : Buffer.concat([Buffer.from([0]), int64(value as number)]);
  const bytes = Buffer.from(value as string);
  return Buffer.concat([varint(bytes.length), bytes]);
}

function int64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(value));
  return bytes;
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>>= 7) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest & 127) | 128);
  }
}
