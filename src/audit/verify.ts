// A whole verification of an account's audit chains (GET /v1/audit-logs/verify, `gatehouse audit verify`), written out.
//   rows       the list of approvals and the revisions of policies against what the audit log says was done to them
//   events     the chains of all event partitions against table `events`
//   registry   the registry's chain against table `audit_log`; says which agents' deletion is on record
//   settle     rows that no chain knows yet: wait until what was in flight has been chained, and search for them there
//   look again entries without a row, and rows without an entry: by id, wherever they are now
//   judge      a gap of a deleted agent is an erasure, a row of a time that a marker excepts is unchained, else a fault
// Invariant: honest work is never a fault, whatever continues meanwhile. What cannot be decided is counted as
// `unsettled`. Bounded in memory (ledger.ts) and in time: past its deadline it says from where to continue.
import type { DifferingRow } from '../../clickhouse/queries/rows-against-log.ts';
import type { AuditVerification } from '../../schemas/audit-verification.ts';
import { isoTime } from '../../schemas/time.ts';
import { derivedId } from '../common/ids.ts';
import { ChainCursor, type ReadPage, type Remembered } from './chain-cursor.ts';
import { type KeptNote, type NotedRange, NotedRanges } from './gap-note.ts';
import { isBlank, packId, unpackId } from './hash.ts';
import { keyOf, Ledger, type Missing, type Recovery, type RowSource, type SeenRow } from './ledger.ts';
import { type Violation, Violations } from './violations.ts';

// Rows and events come before the registry: an erasure that begins meanwhile is recorded there before it removes
// anything, so whose rows have begun to go is found on record later.

export const REGISTRY_CHAIN = 'registry';

/** The tables and chains of an account that are verified, wherever they are. */
type Verifiable = {
  account: string;
  /** Every chain that has entries, or of which some are remembered elsewhere. */
  chains: readonly string[];
  readPage: ReadPage;
  events: RowSource;
  registry: RowSource;
  /** Chain of an event row. */
  chainOf: (row: SeenRow) => string;
  /** By chain: heads of Redis, of checkpoints. */
  remembered: ReadonlyMap<string, readonly Remembered[]>;
  /** Where to begin with a chain so as to meet everything that arrived at `fromMs` or later. */
  startOf: (chain: string, fromMs: number) => Promise<{ n: number; hash: Buffer }>;
  /** Resolves when what was in flight has been chained and `readPage` knows it. False: not in time. */
  settle: () => Promise<boolean>;
  /** Rows of tables without a chain that are not what the audit log says. Left out: there are none. */
  differingRows?: () => Promise<DifferingRow[]>;
  /** Notes of the audit log that close gaps. One counts if its entry is in the chain. Left out: there are none. */
  notes?: () => Promise<KeptNote[]>;
  /** Hears of the entries that are missing, once it is known which were erased. */
  onMissing?: ((missing: Missing) => void) | undefined;
};

type VerifyLimits = {
  /** Events that arrived from here, epoch ms; 0: all. The registry is always verified whole. */
  fromMs: number;
  /** Up to here, not included; Infinity: all. */
  toMs: number;
  /** The chain itself holds nothing any more of what arrived before this. */
  expiredBeforeMs: number;
  /** May the retention have taken the row of an agent's event that arrived then? */
  mayBeGone: (atMs: number, agent: string) => boolean;
  /** May the account have anything that is? */
  mayHaveExpired: boolean;
  /** Monotonic ms; the registry may take as long again. */
  deadlineMs: number;
};

/** Missing entries that a note covers: how many, and one of them. */
type Noted = { count: number; first: { chain: string; n: number; atMs: number; packed: Buffer } };

/** A row may arrive at one front a little before one that was chained earlier. */
const DISORDER_MS = 60_000;

export async function verifyChains(given: Verifiable, limits: VerifyLimits): Promise<AuditVerification> {
  const verification = new Verification(given, limits);
  return verification.run();
}

class Verification {
  readonly #given: Verifiable;
  readonly #limits: VerifyLimits;
  readonly #faults = new Violations();
  #unchained = 0;
  #unsettled = 0;
  #erased = 0;
  #restored = 0;
  #notes = new NotedRanges([]);
  readonly #missing: Missing[] = [];

  constructor(given: Verifiable, limits: VerifyLimits) {
    this.#given = given;
    this.#limits = limits;
  }

  async run(): Promise<AuditVerification> {
    const { fromMs, toMs, deadlineMs } = this.#limits;
    const startedMs = performance.now();
    this.#notes = new NotedRanges((await this.#given.notes?.()) ?? []);
    const rows = await this.#differingRows();
    const ofEvents = this.#given.chains.filter((chain) => chain !== REGISTRY_CHAIN);
    const events = this.#ledger(await this.#cursors(ofEvents, fromMs), this.#given.events, {
      fromMs,
      toMs,
      deadlineMs,
    });
    await events.run();
    const registryDeadlineMs = performance.now() + (deadlineMs - startedMs);
    const whole = { fromMs: 0, toMs: Number.POSITIVE_INFINITY, deadlineMs: registryDeadlineMs };
    const registry = this.#ledger(await this.#cursors([REGISTRY_CHAIN], 0), this.#given.registry, whole);
    await registry.run();
    const ledgers = [events, registry] as const;
    const settled = await this.#settle(ledgers);
    for (const ledger of ledgers) {
      await ledger.lookAgain((agent) => registry.deleted.has(agent));
      await ledger.forgetErased();
      this.#judgeGaps(ledger, registry);
      this.#judgeStrays(ledger, { isRegistry: ledger === registry, settled });
      // The end is compared where it was reached.
      if (ledger.stoppedAtMs === null && !Number.isFinite(ledger === registry ? whole.toMs : toMs))
        for (const cursor of ledger.cursors) cursor.end();
    }
    this.#judgeRows(rows, registry);
    for (const missing of this.#missing) if (!registry.deleted.has(missing.agent)) this.#given.onMissing?.(missing);
    return this.#answer(events, registry);
  }

  /** A row and its entry come in one after the other: what differs is looked at again when both are in. */
  async #differingRows(): Promise<{ rows: DifferingRow[]; settled: boolean }> {
    const { differingRows, settle } = this.#given;
    const first = (await differingRows?.()) ?? [];
    if (first.length === 0) return { rows: [], settled: true };
    const settled = await settle();
    const name = ({ kind, resource, entry }: DifferingRow) => `${kind} ${resource} ${entry}`;
    const seen = new Set(first.map(name));
    return { rows: (await differingRows!()).filter((row) => seen.has(name(row))), settled };
  }

  #judgeRows({ rows, settled }: { rows: readonly DifferingRow[]; settled: boolean }, registry: Ledger): void {
    for (const { kind, entry, agent, atMs } of rows) {
      if (agent !== '' && registry.deleted.has(keyOf(packId(agent)))) continue;
      const isOpen = !settled || (agent !== '' && registry.stoppedAtMs !== null);
      if (isOpen) this.#unsettled++;
      else this.#faults.add({ chain: REGISTRY_CHAIN, kind, atMs, ...(entry === '' ? {} : { id: entry }) });
    }
  }

  #ledger(
    cursors: readonly ChainCursor[],
    source: RowSource,
    range: { fromMs: number; toMs: number; deadlineMs: number },
  ): Ledger {
    const { expiredBeforeMs, mayBeGone } = this.#limits;
    const expiry =
      source === this.#given.registry ? { expiredBeforeMs: 0, mayBeGone: () => false } : { expiredBeforeMs, mayBeGone };
    const onMissing = this.#given.onMissing && ((missing: Missing) => void this.#missing.push(missing));
    return new Ledger({ cursors, source, ...expiry, faults: this.#faults, notes: this.#notes, onMissing, ...range });
  }

  async #cursors(chains: readonly string[], fromMs: number): Promise<ChainCursor[]> {
    const { account, readPage, remembered, startOf } = this.#given;
    const { expiredBeforeMs, mayHaveExpired } = this.#limits;
    const cursors: ChainCursor[] = [];
    for (const chain of chains) {
      const start = fromMs > 0 ? await startOf(chain, fromMs) : undefined;
      cursors.push(
        new ChainCursor({
          ...{ account, chain, readPage, start },
          remembered: remembered.get(chain) ?? [],
          expiredBeforeMs: mayHaveExpired && chain !== REGISTRY_CHAIN ? expiredBeforeMs : null,
          onFault: this.#faults.add,
        }),
      );
    }
    return cursors;
  }

  async #settle(ledgers: readonly Ledger[]): Promise<boolean> {
    if (ledgers.every(({ strays }) => strays.size === 0)) return true;
    const settled = await this.#given.settle();
    for (const ledger of ledgers) if (ledger.stoppedAtMs === null) await ledger.catchUp();
    return settled;
  }

  /** Entries without a row. */
  #judgeGaps(ledger: Ledger, registry: Ledger): void {
    const noted = new Map<NotedRange, Noted>();
    for (const gaps of [ledger.gaps, ledger.blanks]) {
      for (const [agent, { count, kept, noted: covered }] of gaps) {
        if (registry.deleted.has(agent)) {
          this.#erased += count;
          for (const one of covered.values()) this.#erased += one.count;
          continue;
        }
        for (const [range, one] of covered)
          noted.set(range, { ...one, count: one.count + (noted.get(range)?.count ?? 0) });
        // All that were inspected again were there, and they are as many as are kept: after Redis had gone back in
        // time.
        if (registry.stoppedAtMs !== null || (count > 0 && kept[0] === undefined)) this.#unsettled += count;
        else if (count > 0) this.#addMissing(kept[0]!, count);
      }
    }
    this.#judgeNoted(noted, registry);
  }

  /** A note covers as many as it says, if it is in the chain as it was signed. */
  #judgeNoted(noted: ReadonlyMap<NotedRange, Noted>, registry: Ledger): void {
    const chained = new Set(registry.closings.map(({ entry }) => entry));
    for (const [range, { count, first }] of noted) {
      const covered = chained.has(range.note) ? Math.min(count, range.entries) : 0;
      this.#restored += covered;
      if (count === covered) continue;
      if (registry.stoppedAtMs !== null) this.#unsettled += count - covered;
      else this.#addMissing(first, count - covered);
    }
  }

  #addMissing({ chain, n, atMs, packed }: Noted['first'], count: number): void {
    const id = isBlank(packed) ? {} : { id: unpackId(chain === REGISTRY_CHAIN ? 'auditLog' : 'event', packed) };
    this.#faults.add({ chain, position: n, kind: 'missing', atMs, ...id }, count);
  }

  /** Rows without an entry. */
  #judgeStrays(ledger: Ledger, { isRegistry, settled }: { isRegistry: boolean; settled: boolean }): void {
    for (const row of ledger.strays.values()) {
      const chain = isRegistry ? REGISTRY_CHAIN : this.#given.chainOf(row);
      const isExcepted = (ledger.markers.get(chain) ?? []).some(
        ({ fromMs, toMs }) => row.atMs >= fromMs && row.atMs < toMs,
      );
      const lastMs = ledger.cursors.find((cursor) => cursor.chain === chain)?.lastMs ?? 0;
      // Of a ledger that stopped early the leaf may lie behind the stop.
      const isOpen = ledger.stoppedAtMs !== null || (!settled && row.atMs > lastMs - DISORDER_MS);
      if (isExcepted) this.#unchained++;
      else if (isOpen) this.#unsettled++;
      else this.#faults.add({ chain, kind: 'added', atMs: row.atMs, id: row.id });
    }
  }

  #answer(events: Ledger, registry: Ledger): AuditVerification {
    const stoppedMs = events.stoppedAtMs ?? (registry.stoppedAtMs === null ? null : this.#limits.fromMs);
    const cursors = [...registry.cursors, ...events.cursors].filter(({ n }) => n > 0);
    const chained = cursors.reduce((sum, { n }) => sum + n, 0);
    const entries = events.entries + registry.entries;
    const markers = events.marked + registry.marked;
    return {
      // What was not inspected is not valid.
      valid: this.#faults.count > 0 ? false : stoppedMs === null ? true : null,
      chained,
      markers,
      // Of a chain that overlaps itself more may have been met than its last number says.
      not_checked: Math.max(0, chained - markers - entries),
      entries,
      intact: events.intact + registry.intact,
      erased: this.#erased,
      expired: events.expired + registry.expired,
      unchained: this.#unchained,
      unsettled: this.#unsettled,
      faults: this.#faults.count,
      first_invalid: shown(this.#faults.first),
      faults_by_kind: this.#faults.kinds.map(({ kind, count, first }) => ({ kind, count, first: shown(first)! })),
      recovered: registry.recoveries.reduce((sum, { entries }) => sum + entries, 0),
      first_recovered: earliest(registry.recoveries),
      restored: this.#restored,
      closed_gaps: byTime(registry.closings).map(({ entry, at, by, reason, from, to, entries: count, public_key }) => {
        return { entry_id: entry, at, by, reason, from, to, entries: count, public_key };
      }),
      chains: cursors.map(({ chain, n, hash }) => ({ chain, entries: n, head: hash.toString('hex') })),
      truncated: stoppedMs !== null,
      continue_from: stoppedMs === null ? null : isoTime(stoppedMs),
    };
  }
}

function earliest(recoveries: readonly Recovery[]): AuditVerification['first_recovered'] {
  const [first] = [...recoveries].sort((a, b) => a.atMs - b.atMs);
  return first === undefined ? null : { chain: first.chain, entries: first.entries, at: isoTime(first.atMs) };
}

function byTime(notes: readonly KeptNote[]): KeptNote[] {
  return [...notes].sort((a, b) => (a.at < b.at ? -1 : 1));
}

function shown(fault: Violation | null): AuditVerification['first_invalid'] {
  if (fault === null) return null;
  const { chain, position, kind, atMs, id } = fault;
  return {
    chain,
    position: position ?? null,
    entry_id: id === undefined ? null : derivedId('auditLog', id),
    kind,
    at: isoTime(atMs),
  };
}
