// Pages of the registry's lists (decisions 1: newest first, totals regardless of the page).
// Ids sort by creation, so newest first is by id, downwards.
export type Page = { limit: number; offset: number };
export type Listed<T> = { items: T[]; total: number };

/** For resources of which an account has at most some thousand, read whole and filtered here. */
export function pageOf<T extends { id: string }>(all: readonly T[], { limit, offset }: Page): Listed<T> {
  const sorted = [...all].sort((a, b) => (a.id < b.id ? 1 : -1));
  return { items: sorted.slice(offset, offset + limit), total: sorted.length };
}
