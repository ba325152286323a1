// The real engine for tests: the ClickHouse that GATEHOUSE_TEST_CLICKHOUSE_URL names, the engine that the files of one
// run share (GATEHOUSE_TEST_ENGINE_URL, scripts/test.mjs), or one child process of src/chdb-server in a folder of its
// own. Each test file makes databases of its own, so files can share one. Everything is torn down with the test.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { Test } from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import type { KeptOf } from '../../clickhouse/kept-reads.ts';
import { EVENT_COLUMNS, type RowValues } from '../../schemas/event-row.ts';
import type { ClickHouseServerOptions } from '../../src/chdb-server/clickhouse-server.ts';
import { mintId } from '../../src/common/ids.ts';
import { searchTextOf } from '../../src/common/search/payload-words.ts';
import { assetPath } from '../../src/process/assets.ts';
import { folderOf } from './folder.ts';

export type TestClickHouse = { url: string; makeDatabase(options?: DatabaseOptions): ClickHouse };
type DatabaseOptions = { queryTimeoutSeconds?: number; keptOf?: KeptOf };

let databases = 0;

/** Four times the service's own: a machine that stands still for a while is not what tests are about. */
const QUERY_SECONDS = 60;

/**
 * An engine to use, and databases in it. `makeDatabase` gives a client of a database that migrate() will make; it is
 * dropped afterwards.
 */
export async function startClickHouse(t: Test): Promise<TestClickHouse> {
  const given = process.env.GATEHOUSE_TEST_CLICKHOUSE_URL ?? process.env.GATEHOUSE_TEST_ENGINE_URL;
  const url = given ?? (await ownEngine(t));
  const makeDatabase = ({ queryTimeoutSeconds = QUERY_SECONDS, ...asked }: DatabaseOptions = {}) => {
    const clickhouse = new ClickHouse({
      url,
      database: `test_${process.pid}_${Date.now().toString(36)}_${++databases}`,
      queryTimeoutSeconds,
      ...asked,
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
  const folder = folderOf(t);
  const engine = await forkEngine({ path: path.join(folder, 'data'), port: 0 });
  t.teardown(() => engine.stop('SIGTERM'));
  return engine.url;
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

export type TestEvent = Omit<RowValues, 'type'> & { type: string };

/** The value of a column where a test does not care, by its kind. */
const NOTHING = { ascii: '', text: '', int64: 0, uint16: 0, nullableInt64: null, outcome: 'allowed' } as const;

/** An allowed event with nothing but what is given; it happened when it arrived. */
export function plainEvent(
  given: Partial<TestEvent> & Pick<TestEvent, 'account_id' | 'agent_id' | 'received_at'>,
): TestEvent {
  const nothing = Object.fromEntries(EVENT_COLUMNS.map(({ name, kind }) => [name, NOTHING[kind]])) as TestEvent;
  const id = mintId('event', given.received_at);
  return { ...nothing, id, type: 'custom', timestamp: given.received_at, payload: '{}', ...given };
}

/** RowBinary, written plainly from the table's own definition: the service's encoder is tested against this one. */
export function encodeRow(event: TestEvent): Buffer {
  return Buffer.concat(EVENT_COLUMNS.map(({ name, kind }) => encodeColumn(kind, event[name])));
}

/** As the store pipeline inserts it: with the words of its payload behind it, and what it cost. */
export function encodeStored(event: TestEvent & Pick<Beside, 'cost' | 'priced_by'>): Buffer {
  return withOthers(encodeRow(event), event.payload, event);
}

type Beside = { shadow?: string; cost?: number | null; priced_by?: string; settled?: string };

/** With what is stored beside a row: its words, what shadows said, what it cost and used of budgets. */
export function withOthers(row: Buffer, payload: string, beside: Beside = {}): Buffer {
  const { shadow = '', cost = null, priced_by: by = '', settled = '' } = beside;
  const words = encodeColumn('text', searchTextOf(Buffer.from(payload)));
  const costs = [encodeColumn('nullableInt64', cost), encodeColumn('text', by)];
  return Buffer.concat([row, words, encodeColumn('text', shadow), ...costs, encodeColumn('text', settled)]);
}

function encodeColumn(kind: keyof typeof NOTHING, value: string | number | null): Buffer {
  if (kind === 'outcome') return Buffer.from([{ allowed: 1, blocked: 2, pending: 3 }[value as TestEvent['outcome']]]);
  if (kind === 'int64') return int64(value as number);
  if (kind === 'uint16') return Buffer.from([(value as number) & 255, (value as number) >> 8]);
  if (kind === 'nullableInt64')
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
