// Verifies an account's audit chains as they lie in ClickHouse and Redis (behind the endpoint and the command;
// verify.ts does the work). Bounded: one verification an account and VERIFICATIONS_MAX in all at once, since each holds
// up to 100 MB and most of a core; the next one is refused (503).
// Failure: ClickHouse or Redis away: throws what they throw; nothing is ever called valid that could not be read.

import type { KeyObject } from 'node:crypto';
import type { KeptOf } from '../../clickhouse/kept-reads.ts';
import { blockBefore, chainNames, firstBlockSince } from '../../clickhouse/queries/chain-blocks.ts';
import { decisionsAgainstLog, revisionsAgainstLog } from '../../clickhouse/queries/rows-against-log.ts';
import type { AuditVerification } from '../../schemas/audit-verification.ts';
import type { KeptTimes } from '../../schemas/retention.ts';
import { ServiceError } from '../common/errors.ts';
import { timeOfId } from '../common/ids.ts';
import { VERIFICATIONS_MAX } from '../common/limits.ts';
import type { Remembered } from './chain-cursor.ts';
import { genesis, packId } from './hash.ts';
import { keyOf, type Missing } from './ledger.ts';
import { Blocks, eventSource, keptNotes, readHeads, registrySource, type Stores, streamsOf } from './sources.ts';
import { REGISTRY_CHAIN, verifyChains } from './verify.ts';

export type VerifyOptions = {
  /** Epoch ms; events that arrived from here, up to and including there. */
  fromMs?: number | undefined;
  toMs?: number | undefined;
  /** How long it may take for the events, and again for the registry. */
  budgetMs: number;
  /** Heads that were kept elsewhere, by chain. */
  checkpoint?: ReadonlyMap<string, Remembered>;
  /** Resolves when everything acknowledged so far has been stored. False: not in time. */
  settle: () => Promise<boolean>;
  /** The one key whose notes of closed gaps are believed. Left out: each names its own, and the answer shows it. */
  trustedKey?: KeyObject | undefined;
  onMissing?: ((missing: Missing) => void) | undefined;
};

const DAY_MS = 24 * 60 * 60 * 1000;
/** The time before its expiry from which a row counts as gone: it may expire while we look. */
const EXPIRY_MARGIN_MS = 60 * 60 * 1000;

export class AuditVerifier {
  readonly #stores: Stores;
  readonly #contentsMs: number;
  readonly #keptOf: KeptOf;
  readonly #verifying = new Set<string>();

  /** `retentionDays`: for which chains hold their contents. `keptOf`: what is kept of an account's rows. */
  constructor(options: Stores & { retentionDays: number; keptOf: KeptOf }) {
    this.#stores = options;
    this.#contentsMs = options.retentionDays * DAY_MS;
    this.#keptOf = options.keptOf;
  }

  /** Throws ServiceError unavailable where too many are at it. */
  async verify(account: string, options: VerifyOptions): Promise<AuditVerification> {
    const isBusy = this.#verifying.has(account);
    if (isBusy || this.#verifying.size >= VERIFICATIONS_MAX) {
      const who = isBusy ? 'of this account' : 'of other accounts';
      throw new ServiceError('unavailable', `A verification ${who} is still running here.`, { retryAfterSeconds: 5 });
    }
    this.#verifying.add(account);
    try {
      return await this.#verify(account, options);
    } finally {
      this.#verifying.delete(account);
    }
  }

  async #verify(account: string, options: VerifyOptions): Promise<AuditVerification> {
    const { clickhouse, keys } = this.#stores;
    const { fromMs = 0, toMs, budgetMs, checkpoint = new Map<string, Remembered>(), settle } = options;
    const { trustedKey, onMissing } = options;
    const heads = await readHeads(this.#stores, account);
    const blocks = new Blocks(this.#stores, account);
    await blocks.refresh();
    // All that there can be: one may get its first entry while we look.
    const possible = streamsOf(keys, account).map((stream) => keys.chainOf(stream));
    const chains = new Set([...possible, ...(await chainNames(clickhouse, account)), ...checkpoint.keys()]);
    const remembered = [...chains].map((chain) => [chain, present(heads.get(chain), checkpoint.get(chain))] as const);
    const expiredBeforeMs = Date.now() - this.#contentsMs + EXPIRY_MARGIN_MS;
    const kept = await this.#keptOf(account);
    return verifyChains(
      {
        account,
        chains: [...chains].sort(),
        readPage: blocks.readPage,
        events: eventSource(clickhouse, account),
        registry: registrySource(clickhouse, account, trustedKey),
        notes: () => keptNotes(clickhouse, account, trustedKey),
        onMissing,
        differingRows: async () => {
          return [
            ...(await decisionsAgainstLog(clickhouse, account, { expiredBeforeMs: decisionsFrom(kept) })),
            ...(await revisionsAgainstLog(clickhouse, account)),
          ];
        },
        chainOf: (row) => keys.chainOf(keys.events(keys.partitionOf(account, row.agent))),
        remembered: new Map(remembered),
        startOf: (chain, from) => this.#startOf(account, chain, from),
        settle: async () => {
          const settled = await settle();
          await blocks.refresh();
          return settled;
        },
      },
      {
        fromMs,
        toMs: toMs === undefined ? Number.POSITIVE_INFINITY : toMs + 1,
        expiredBeforeMs,
        mayHaveExpired: timeOfId(account) < expiredBeforeMs,
        mayBeGone: goneOf(kept),
        deadlineMs: performance.now() + budgetMs,
      },
    );
  }

  /** The position behind the block before the first one that matters; what ties the two is checked as everywhere. */
  async #startOf(account: string, chain: string, fromMs: number): Promise<{ n: number; hash: Buffer }> {
    if (chain === REGISTRY_CHAIN) return { n: 0, hash: genesis(account, chain) };
    const { clickhouse } = this.#stores;
    const fromN = await firstBlockSince(clickhouse, { account, chain, fromMs });
    // Nothing in ClickHouse: what there is may wait in Redis, behind the last block.
    const place = fromN ?? Number.MAX_SAFE_INTEGER;
    const before = await blockBefore(clickhouse, { account, chain, n: place });
    return before ?? { n: 0, hash: genesis(account, chain) };
  }
}

/** Which rows of events the retention may have taken: an agent is 16 bytes as a key. */
function goneOf({ wholeFromMs, held }: KeptTimes): (atMs: number, agent: string) => boolean {
  if (held.all) return () => false;
  const heldAgents = new Set(held.agents.map((id) => keyOf(packId(id))));
  return (atMs, agent) => atMs < wholeFromMs + EXPIRY_MARGIN_MS && !heldAgents.has(agent);
}

/** Decisions on events that arrived earlier need not be there. */
function decisionsFrom({ othersFromMs, held }: KeptTimes): number {
  return held.all || held.traces.length > 0 ? 0 : othersFromMs + EXPIRY_MARGIN_MS;
}

function present(...some: (Remembered | undefined)[]): Remembered[] {
  return some.filter((one) => one !== undefined);
}
