// Where an account's chains are in ClickHouse, once it has all that Redis knew when it was asked (for checkpoints, by
// command and by HTTP). Taken off ClickHouse, so that a checkpoint stays true even if Redis is lost afterwards.
// Failure: CheckpointError where the pipelines do not copy the chains in time.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { chainEnds, chainNames } from '../../clickhouse/queries/chain-blocks.ts';
import { type ChainHead, CheckpointError } from './checkpoint.ts';
import { readHeads, type Stores } from './sources.ts';

const LOOK_MS = 500;

/** `settle`: resolves when everything acknowledged is stored. `timeoutMs`: for the chains to follow. */
export async function flushedHeads(
  stores: Stores,
  account: string,
  { settle, timeoutMs }: { settle: () => Promise<boolean>; timeoutMs: number },
): Promise<ChainHead[]> {
  await settle();
  const wanted = await readHeads(stores, account);
  const until = performance.now() + timeoutMs;
  for (;;) {
    const heads = await storedHeads(stores.clickhouse, account);
    const entriesOf = new Map(heads.map(({ chain, entries }) => [chain, entries]));
    const late = [...wanted].filter(([chain, { n }]) => (entriesOf.get(chain) ?? 0) < n);
    if (late.length === 0) return heads;
    if (performance.now() > until)
      throw new CheckpointError(
        `${late.length} chains have entries that are not in ClickHouse yet; do the pipelines run?`,
      );
    await sleep(LOOK_MS);
  }
}

async function storedHeads(clickhouse: ClickHouse, account: string): Promise<ChainHead[]> {
  const heads: ChainHead[] = [];
  for (const chain of await chainNames(clickhouse, account)) {
    const end = (await chainEnds(clickhouse, chain, new Map([[account, 0]]))).get(account);
    if (end !== undefined) heads.push({ chain, entries: end.n, head: end.hash.toString('hex') });
  }
  return heads;
}
