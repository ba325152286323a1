// Pages of the registry's lists (newest first, totals regardless of the page).
// Ids sort by creation, so newest first is by id, downwards.
import { cut, type Listed, type PageStart, type Position } from '../../schemas/paging.ts';

export type { Listed, PageStart as Page } from '../../schemas/paging.ts';

/** For resources of which an account has at most some thousand, read whole and filtered here. */
export function pageOf<T extends { id: string }>(all: readonly T[], { limit, offset, after }: PageStart): Listed<T> {
  const sorted = [...all].sort((a, b) => (a.id < b.id ? 1 : -1));
  const behind = after === undefined ? sorted.slice(offset) : sorted.filter(({ id }) => id < after.id);
  const { rows, ...at } = cut(behind.slice(0, limit + 1), limit, placeOf);
  return { items: rows, total: sorted.length, ...at };
}

/** Filters of lists of what has a name. `q`: characters in it, in upper or lower case. */
export type NamedFilter = { id?: readonly string[] | undefined; q?: string | undefined };
/** `agent_id`: of what may be scoped to an agent. */
export type NamedPage = PageStart & NamedFilter & { agent_id?: string | undefined };

export function fitsNamed({ id: ids, q }: NamedFilter): (record: { id: string; name: string }) => boolean {
  const words = q?.toLowerCase();
  return ({ id, name }) =>
    (ids === undefined || ids.includes(id)) && (words === undefined || name.toLowerCase().includes(words));
}

export function placeOf({ id }: { id: string }): Position {
  return { at: 0, id };
}
