// Makes known what occurred in the window of one sequence, by what is stored (called by memory-worker.ts).
//   begin    take the lease, remove what an earlier try has left, wait until no front has anything in hand that it
//            judged without the policy, and until what was acknowledged is stored
//   page     stored events of the window by their arrival, judged again (past-steps.ts)
//   log      what fronts have counted meanwhile (src/redis/sequences.lua); an event of it is left out of the pages
//   keep     both, by their time, through the script that fronts ask
//   end      where the log has no more, and the policy is as it was read, the memory is known: one script
// Invariant: an event that was counted before the end is in the memory once. Whatever is killed or lost at any moment
// leaves a memory that is not known, which matches; the next try begins at the beginning.
// Failure: what cannot be done now is `again`, for the next look.
import type { ClickHouse } from '../../clickhouse/client.ts';
import { waitStates } from '../../clickhouse/queries/decided-approvals.ts';
import { type ReplayPage, ReplayPages, type ReplayRow } from '../../clickhouse/queries/replayed-events.ts';
import type { AgentRecord } from '../../schemas/agent.ts';
import type { Policy } from '../../schemas/policy.ts';
import { Periodic, Slices } from '../../src/common/async.ts';
import { IN_FORCE_MS, SEQUENCE_LEASE_MS } from '../../src/common/limits.ts';
import { type Built, type Logged, type PastEvent, SequenceStore } from '../../src/policy/quotas/sequence-store.ts';
import { allOf, openOf } from '../../src/policy/sequences/sequence-memory.ts';
import type { RegistryStore } from '../../src/registry/commit.ts';
import { untilAnswered } from '../../src/streams/submissions-in-hand.ts';
import { PastSteps } from './past-steps.ts';

type BuildParts = RegistryStore & {
  clickhouse: ClickHouse;
  /** Are events and decisions stored that were acknowledged before? Waits for it, for a while. */
  whenStored: (account: string) => Promise<boolean>;
  /** Agents of the account whose events are on their way out. */
  erasing: (account: string) => Promise<string[]>;
  signal: AbortSignal;
};
/** `text`: the policy's record. */
type Wanted = { account: string; policy: Policy; text: string; traceKey: string };

/** The number of items in one call to a store. */
const KEPT_AT_ONCE = 500;
/** The entries of the log, a kilobyte each, that are held until stored events have caught up with it. */
const HELD_MAX = 50_000;

/** Why this try comes to nothing. */
class Again extends Error {
  override name = 'Again';
}

export class MemoryBuild {
  readonly #parts: BuildParts;
  readonly #wanted: Wanted;
  readonly #store: SequenceStore;
  readonly #steps: PastSteps;
  readonly #agents = new Map<string, AgentRecord | null>();
  readonly #slices = new Slices();
  #token = '';
  /** Entries of the log that were read. */
  #read = 0;
  /** Those that are not kept yet, and decisions, by their time. */
  #held: PastEvent[] = [];
  #ready: PastEvent[] = [];
  readonly #logged = new Set<string>();
  readonly #approved = new Set<string>();
  /** Approvals that were not decided when they were looked at. */
  readonly #waiting: string[] = [];

  constructor(parts: BuildParts, wanted: Wanted) {
    this.#parts = parts;
    this.#wanted = wanted;
    this.#store = new SequenceStore(parts.redis, parts.keys);
    this.#steps = new PastSteps(wanted.policy, wanted.traceKey);
  }

  /** `busy`: another process does it. `again`: not now. Throws what the stores throw. */
  async run(): Promise<'known' | 'busy' | string> {
    const { account } = this.#wanted;
    const token = await this.#store.begin(account, this.#steps.memory);
    if (token === null) return 'busy';
    this.#token = token;
    // One that has lost it hears so from the next call that keeps something.
    const renewing = new Periodic(SEQUENCE_LEASE_MS / 4, () => this.#keep([]).then(noop, noop));
    renewing.start();
    try {
      const erasing = await this.#parts.erasing(account);
      await this.#settled();
      await this.#pages(erasing);
      await this.#check(erasing);
      await this.#end(erasing);
      return 'known';
    } catch (error) {
      if (error instanceof Again) return error.message;
      throw error;
    } finally {
      await renewing.stop();
      await this.#store.release(account, this.#steps.memory, token).catch(() => undefined);
    }
  }

  /** Whatever fronts do not have in the log is stored then. */
  async #settled(): Promise<void> {
    const { whenStored, signal } = this.#parts;
    await untilAnswered(this.#parts, { waitMs: IN_FORCE_MS, signal }).catch((error: unknown) => {
      throw signal.aborted ? new Again('stopped') : error;
    });
    if (!(await whenStored(this.#wanted.account))) throw new Again('not_stored');
  }

  async #pages(erasing: readonly string[]): Promise<void> {
    const { clickhouse, signal } = this.#parts;
    const { account, policy } = this.#wanted;
    const pages = new ReplayPages(clickhouse, this.#steps.needs);
    const range = {
      ...{ account, agentId: policy.agent_id, excludeAgents: erasing },
      fromMs: Date.now() - this.#steps.memory.windowMs,
      toMs: Date.now() + 86_400_000,
    };
    for (let after: { at: number; id: string } | undefined; ; ) {
      const page = await pages.next(range, after, signal);
      const rows = rowsOf(page);
      await this.#rows(rows, erasing);
      const last = rows.at(-1);
      if (page.isLast || last === undefined) return;
      after = { at: last.receivedMs, id: last.id };
      if (signal.aborted) throw new Again('stopped');
    }
  }

  async #rows(rows: readonly ReplayRow[], erasing: readonly string[]): Promise<void> {
    const { clickhouse } = this.#parts;
    const pending = rows.filter(({ outcome }) => outcome === 'pending').map(({ id }) => id);
    const waits = await waitStates(clickhouse, this.#wanted.account, pending);
    // Counted before it is stored, so what is in a page is in the log by now, if it is at all.
    await this.#readLog(erasing);
    for (const row of rows) {
      await this.#slices.next();
      if (row.payload === '' || this.#logged.has(row.id)) continue;
      const agent = this.#agents.get(row.agentId) ?? (await this.#agentOf(row.agentId));
      if (agent === null) continue;
      const wait = waits.get(row.id);
      const [came, decided] = this.#steps.of(row, agent, wait);
      if (came === undefined) continue;
      this.#take(came.atMs);
      this.#ready.push(came);
      if (decided !== undefined) this.#hold(decided);
      else if (row.outcome === 'pending' && wait !== undefined) this.#waiting.push(wait.approvalId);
      if (this.#ready.length >= KEPT_AT_ONCE) await this.#flush();
    }
  }

  async #readLog(erasing: readonly string[]): Promise<number> {
    const entries = await this.#store.logged(this.#wanted.account, this.#steps.memory, this.#read);
    if (entries === null) throw new Again('log_full');
    this.#read += entries.length;
    for (const entry of entries) {
      if (!entry.isRecorded) this.#logged.add(entry.id);
      else if (this.#approved.has(entry.id)) continue;
      const { atMs, isRecorded } = entry;
      const logged = erasing.includes(entry.agent) ? this.#withoutAgent(entry) : entry;
      this.#hold({ atMs, isRecorded, logged });
    }
    return entries.length;
  }

  /** An entry of an agent that is erased, without who did it: what it did in scopes shared with others stays done. */
  #withoutAgent(entry: Logged): Logged {
    const { keys } = this.#parts;
    const { account } = this.#wanted;
    const own = [allOf(entry.agent), openOf(entry.agent)].map((scope) =>
      keys.sequenceScope(account, this.#steps.memory.name, scope),
    );
    const places = entry.places.map((place) => ({ ...place, path: '' }));
    return { ...entry, ...{ id: '', agent: '', places }, scopes: entry.scopes.filter((scope) => !own.includes(scope)) };
  }

  #hold(past: PastEvent): void {
    if (past.event !== undefined) this.#approved.add(past.event.id);
    if (this.#held.length >= HELD_MAX) throw new Again('too_many');
    this.#held.push(past);
  }

  /** Moves the held events up to this time to those that are ready, in the order of their times. */
  #take(beforeMs: number): void {
    if (this.#held.length === 0) return;
    const due = this.#held.filter(({ atMs }) => atMs <= beforeMs);
    if (due.length === 0) return;
    this.#held = this.#held.filter(({ atMs }) => atMs > beforeMs);
    this.#ready.push(...due.sort((a, b) => a.atMs - b.atMs));
  }

  async #flush(): Promise<void> {
    const ready = this.#ready;
    this.#ready = [];
    await this.#keep(ready);
  }

  async #keep(past: readonly PastEvent[], ends = false): Promise<Built | undefined> {
    const { account, policy, text } = this.#wanted;
    const of = { memory: this.#steps.memory, token: this.#token, read: this.#read, ends };
    const built = await this.#store.build(account, { ...of, policy: { id: policy.id, text } }, past);
    if (built === 'lost' || built === 'changed') throw new Again(built);
    return built;
  }

  /** Nothing that was read was decided, or erased, since. */
  async #check(erasing: readonly string[]): Promise<void> {
    const { redis, keys } = this.#parts;
    const { account } = this.#wanted;
    for (let from = 0; from < this.#waiting.length; from += KEPT_AT_ONCE) {
      const some = this.#waiting.slice(from, from + KEPT_AT_ONCE);
      const decided = await redis.hmget(keys.decidedApprovals(account), ...some);
      if (decided.some((one) => one !== null)) throw new Again('decided');
    }
    const now = await this.#parts.erasing(account);
    if (now.some((agent) => !erasing.includes(agent))) throw new Again('erased');
    for (const [agent, record] of this.#agents)
      if (record !== null && (await redis.exists(keys.agent(account, agent))) === 0) throw new Again('erased');
  }

  async #end(erasing: readonly string[]): Promise<void> {
    for (;;) {
      await this.#readLog(erasing);
      this.#take(Number.POSITIVE_INFINITY);
      const ready = this.#ready;
      this.#ready = [];
      if ((await this.#keep(ready, true)) === 'known') return;
      if (this.#parts.signal.aborted) throw new Again('stopped');
    }
  }

  async #agentOf(agent: string): Promise<AgentRecord | null> {
    const { redis, keys } = this.#parts;
    const text = await redis.get(keys.agent(this.#wanted.account, agent));
    const record = text === null ? null : (JSON.parse(text) as AgentRecord);
    this.#agents.set(agent, record);
    return record;
  }
}

function noop(): void {}

function rowsOf(page: ReplayPage): ReplayRow[] {
  const rows: ReplayRow[] = [];
  for (let row = page.next(); row !== undefined; row = page.next()) rows.push(row);
  return rows;
}
