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

export function placeOf({ id }: { id: string }): Position {
  return { at: 0, id };
}
