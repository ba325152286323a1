// Which parts the table of events has, and of which accounts and times their rows are, so that a search reads less
// (searched-events.ts).
//
// Invariant: a part never changes, it is replaced by others; so what is known of one holds for as long as there is one
// of its name and content. What is not known yet, of a new part, is looked up beside the searches, never awaited by
// one.
// Failure: a part that could not be looked up is searched as if nothing was known of it.
import { INSERT_ROWS_MAX } from '../../src/common/limits.ts';
import type { ClickHouse } from '../client.ts';

/** Between two looks at which parts there are. */
const LOOK_MS = 2_000;
/** A part with more rows is not looked at: looking takes 20 to 30 ms of CPU a million rows. */
const LOOK_ROWS_MAX = 50_000_000;
/** More are not known of. */
const PARTS_MAX = 2_000;

/** Epoch ms of the first and the last row in time; accounts in the order of the key. */
type Holds = { firstAccount: string; lastAccount: string; fromMs: number; toMs: number };
/** `holds`: undefined as long as it is not known. */
export type EventsPart = { name: string; level: number; rows: number; content: string; holds: Holds | undefined };

type State = { parts: EventsPart[]; askedAt: number; isLooking: boolean; holds: Map<string, Holds | undefined> };
const states = new WeakMap<ClickHouse, State>();

/** Largest first. */
export async function partsOf(clickhouse: ClickHouse): Promise<readonly EventsPart[]> {
  const state = states.get(clickhouse) ?? { parts: [], askedAt: -Infinity, isLooking: false, holds: new Map() };
  states.set(clickhouse, state);
  if (performance.now() - state.askedAt < LOOK_MS) return state.parts;
  const rows = await clickhouse.query<Omit<EventsPart, 'holds'>>(
    `SELECT name, level, toUInt32(rows) AS rows, hash_of_all_files AS content FROM system.parts
     WHERE database = currentDatabase() AND table = 'events' AND active ORDER BY rows DESC LIMIT ${PARTS_MAX}`,
  );
  state.parts = rows.map((row) => ({ ...row, holds: state.holds.get(keyOf(row)) }));
  state.askedAt = performance.now();
  if (!state.isLooking) void lookUp(clickhouse, state);
  return state.parts;
}

/** No merge has been at it, so it has no index of words (decision 5). */
export function isUnindexed({ level, rows }: EventsPart): boolean {
  return level === 0 && rows <= INSERT_ROWS_MAX;
}

/** A table that was restored may have parts of the same names that hold something else. */
const keyOf = ({ name, content }: Pick<EventsPart, 'name' | 'content'>) => `${name} ${content}`;

/** Looks one part up after the other. The few rows of a part without an index are not worth it. */
async function lookUp(clickhouse: ClickHouse, state: State): Promise<void> {
  const { parts, holds } = state;
  const keys = new Set(parts.map(keyOf));
  for (const key of holds.keys()) if (!keys.has(key)) holds.delete(key);
  state.isLooking = true;
  for (const part of parts) {
    if (isUnindexed(part) || part.rows > LOOK_ROWS_MAX || holds.has(keyOf(part))) continue;
    // Also where it fails: it is not asked again and again.
    part.holds = await holdsOf(clickhouse, part).catch(() => undefined);
    holds.set(keyOf(part), part.holds);
  }
  state.isLooking = false;
}

/** undefined: it is not there any more. */
async function holdsOf(clickhouse: ClickHouse, { name }: EventsPart): Promise<Holds | undefined> {
  const [row] = await clickhouse.query<Holds & { n: number }>(
    `SELECT count() AS n, min(account_id) AS firstAccount, max(account_id) AS lastAccount,
     toUnixTimestamp64Milli(min(timestamp)) AS fromMs, toUnixTimestamp64Milli(max(timestamp)) AS toMs
     FROM events WHERE _part = {part:String}`,
    { part: name },
    { settings: { optimize_use_projections: 0 } },
  );
  if (row === undefined || row.n === 0) return undefined;
  const { firstAccount, lastAccount, fromMs, toMs } = row;
  return { firstAccount, lastAccount, fromMs, toMs };
}
