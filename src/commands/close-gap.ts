// `gatehouse audit close-gap`: a signed note that rows of the audit chains are not there any more, of a history that
// was restored from a copy which lacked them. From then on `verify` is true again and says how many are `restored`.
// Without --yes it only says what it would close.
// Invariant: the note names each gap by its place in the chains, and covers nothing else: what is removed later is
// found. Who made it, when, why and with which key stands in the audit log for ever.
// Failure: one sentence; nothing was changed.
import { setTimeout as sleep } from 'node:timers/promises';
import { isoTime, parseTime } from '../../schemas/time.ts';
import { publicText } from '../audit/checkpoint.ts';
import { rangesOf, signGap } from '../audit/gap-note.ts';
import type { Missing } from '../audit/ledger.ts';
import { signingKey } from '../audit/signing-key.ts';
import type { Stores } from '../audit/sources.ts';
import { UserFacingError } from '../common/user-facing-error.ts';
import type { Config } from '../process/config.ts';
import { auditLog, SYSTEM } from '../registry/audit.ts';
import { commit } from '../registry/commit.ts';
import { ReadBarrier } from '../streams/read-barrier.ts';
import { SETTLE_MS, verifierOf, withStores } from './audit-commands.ts';
import { type Command, type Context, UsageError } from './context.ts';

class GapNotClosed extends UserFacingError {
  override name = 'GapNotClosed';
}

type Range = { fromMs: number; toMs: number };
type GapRequest = Range & { by: string; reason: string };
type MissingRows = { byChain: Map<string, number[]>; count: number; firstMs: number; lastMs: number };

/** 100 MB on the way. */
const MISSING_MAX = 1_000_000;
const LOOK_MS = 1_000;
const TEXT_CHARACTERS_MAX = 1_000;

export const auditCloseGap: Command = async (context) => {
  const asked = askedOf(context);
  await withStores(context, async (stores, config, account) => {
    const barrier = new ReadBarrier({ ...stores, waitMs: SETTLE_MS });
    const settle = () => barrier.waitForAuditLog(account.id);
    const found = await findMissing(stores, config, { account: account.id, asked, settle });
    if (found.count === 0)
      throw new GapNotClosed('no row that arrived in that time is missing without a note; nothing was changed');
    context.print(sentence(found));
    if (context.options['yes'] !== true) {
      context.print('nothing was changed; with --yes this is noted in the audit log');
      return;
    }
    const { by, reason } = asked;
    const entry = await noteGap(stores, config, { account: account.id, found, by, reason });
    while (!(await settle())) await sleep(LOOK_MS);
    context.print(`noted as ${entry}, signed with ${publicText(signingKey(config.dataDir))}`);
  });
};

/** Signs the note and keeps it in the audit log; resolves with the entry's id. */
export async function noteGap(
  stores: Stores,
  { dataDir }: Config,
  { account, found, by, reason }: { account: string; found: MissingRows; by: string; reason: string },
): Promise<string> {
  const at = Date.now();
  const times = { from: isoTime(found.firstMs), to: isoTime(found.lastMs) };
  const about = { at: isoTime(at), by, reason, ...times, entries: found.count, ranges: rangesOf(found.byChain) };
  const details = signGap(account, about, signingKey(dataDir));
  const entry = auditLog({ action: 'chain.gap_closed', type: 'account', id: account, details }, SYSTEM, at);
  await commit(stores, { account, at, guards: [], writes: [], changes: [], audit: [entry] });
  return entry.id;
}

function askedOf({ options }: Context): GapRequest {
  const time = (name: string) => {
    const ms = parseTime(String(options[name] ?? ''));
    if (ms === null) throw new UsageError(`--${name} takes an ISO 8601 date-time with an offset or Z`);
    return ms;
  };
  const text = (name: string) => {
    const given = String(options[name] ?? '').trim();
    if (given === '' || given.length > TEXT_CHARACTERS_MAX)
      throw new UsageError(`--${name} takes a text of 1 to ${TEXT_CHARACTERS_MAX} characters`);
    return given;
  };
  const asked = { fromMs: time('from'), toMs: time('to'), by: text('by'), reason: text('reason') };
  if (asked.toMs < asked.fromMs) throw new UsageError('--to is before --from');
  if (asked.toMs > Date.now()) throw new UsageError('--to is in the future');
  return asked;
}

/** The rows that arrived in that time, are missing, and are covered by no note. Throws GapNotClosed. */
export async function findMissing(
  stores: Stores,
  config: Config,
  { account, asked, settle }: { account: string; asked: Range; settle: () => Promise<boolean> },
): Promise<MissingRows> {
  const found: MissingRows = { byChain: new Map(), count: 0, firstMs: Number.POSITIVE_INFINITY, lastMs: 0 };
  const onMissing = ({ chain, n, atMs }: Missing) => {
    if (atMs < asked.fromMs || atMs > asked.toMs) return;
    if (++found.count > MISSING_MAX)
      throw new GapNotClosed(`more than ${MISSING_MAX} rows are missing; name a shorter time by --from and --to`);
    const numbers = found.byChain.get(chain) ?? [];
    found.byChain.set(chain, numbers);
    numbers.push(n);
    found.firstMs = Math.min(found.firstMs, atMs);
    found.lastMs = Math.max(found.lastMs, atMs);
  };
  // A row is stored before its entry is chained: one that is missing now does not come any more.
  const { truncated } = await verifierOf(stores, config).verify(account, {
    ...{ budgetMs: Number.POSITIVE_INFINITY, settle, onMissing },
    ...{ fromMs: asked.fromMs, toMs: asked.toMs },
  });
  if (truncated) throw new GapNotClosed('the chains could not be verified whole; name a shorter time');
  return found;
}

function sentence({ count, firstMs, lastMs, byChain }: MissingRows): string {
  const chains = [...byChain.keys()].join(', ');
  return `${count} rows are missing in ${chains}; they had arrived from ${isoTime(firstMs)} to ${isoTime(lastMs)}`;
}
