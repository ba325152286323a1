// A pipelines process for crash tests: runs Pipelines as its one argument says (JSON), and kills itself without
// warning before or after an insert when `die` says so. Not a test.
import { ClickHouse } from '../../clickhouse/client.ts';
import { Pipelines } from '../../pipelines/pipelines.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import { connectCommands, type RedisAddress, waitUntilReady } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import { silent } from '../streams/harness.ts';

export type VictimOptions = {
  redis: RedisAddress;
  clickhouse: { url: string; database: string };
  keys: { prefix: string; partitions: number };
  name: string;
  /** Chance of death at each insert, and where. */
  die?: { before: number; after: number };
  /** Inserts wait for the word `continue` before they are sent. */
  insertsWait?: boolean;
};

class DoomedClickHouse extends ClickHouse {
  readonly #victim: VictimOptions;

  constructor(victim: VictimOptions) {
    super({ ...victim.clickhouse, queryTimeoutSeconds: 60 });
    this.#victim = victim;
  }

  override async insertEvents(rows: readonly Buffer[], token: string): Promise<void> {
    const { die, insertsWait } = this.#victim;
    process.send?.('insert');
    if (insertsWait) await toldToGoOn;
    // Manifest written, insert not.
    if (Math.random() < (die?.before ?? 0)) process.kill(process.pid, 'SIGKILL');
    // Mid-insert: some of these are on their way when the end comes.
    const inserting = super.insertEvents(rows, token);
    if (Math.random() < (die?.after ?? 0) / 2)
      setTimeout(() => process.kill(process.pid, 'SIGKILL'), Math.random() * 20);
    await inserting;
    process.send?.('inserted');
    // Inserted, not acknowledged.
    if (Math.random() < (die?.after ?? 0)) process.kill(process.pid, 'SIGKILL');
  }

  /** Blocks of the audit chain: before they are sent, and before Redis forgets them. */
  override async insertBinary(table: string, columns: string, rows: readonly Buffer[], token?: string): Promise<void> {
    const { die } = this.#victim;
    process.send?.('insert of blocks');
    if (Math.random() < (die?.before ?? 0)) process.kill(process.pid, 'SIGKILL');
    await super.insertBinary(table, columns, rows, token);
    if (Math.random() < (die?.after ?? 0)) process.kill(process.pid, 'SIGKILL');
  }
}

const toldToGoOn = new Promise<void>((resolve) => {
  process.on('message', (message) => message === 'go on' && resolve());
});
const options = JSON.parse(process.argv[2]!) as VictimOptions;
const redis = connectCommands(options.redis);
await waitUntilReady(redis, 60_000);
const metrics = new Metrics({ processName: options.name });
const pipelines = new Pipelines({
  redis,
  keys: new Keys(options.keys),
  clickhouse: new DoomedClickHouse(options),
  metrics,
  log: silent,
  lingerMs: 10,
  processName: options.name,
});
process.on('message', async (message) => {
  if (message === 'count') {
    const counted = (await metrics.collect()).find(({ name }) => name === 'gatehouse_stored_rows_total');
    const events = counted?.values.filter(({ labels }) => labels.table === 'events') ?? [];
    process.send?.({ stored: events.reduce((sum, { value }) => sum + value, 0), held: pipelines.held() });
  }
  if (message === 'stop') {
    await pipelines.stop();
    process.exit(0);
  }
});
process.on('disconnect', () => process.exit(1));
await pipelines.start();
process.send?.('started');
