// How lists are cut into pages: where a page begins, and what it hands on.
// It is between the HTTP handlers, who read it off a request, and what lists: the registry and the queries of
// ClickHouse.
// Invariant: a page behind a position reads on from there by the key that the list is ordered by, so its cost does not
// grow with its depth, and nothing that was there when the list began is shown twice or passed over, whatever arrives
// meanwhile.

/** An item's position in a list's order: by time and id, or by id alone. */
export type Position = {
  /** Epoch ms, to the microsecond where the list has these; 0 where ids alone give the order. */
  at: number;
  id: string;
};

export type PageStart = {
  limit: number;
  /** Items passed over; 0 behind a position. */
  offset: number;
  /** The last item of the page before. */
  after?: Position | undefined;
  /** When the first page was asked for, epoch ms; for what may move in its list afterwards. */
  begunAt?: number | undefined;
};

export type Listed<T> = {
  items: T[];
  /** The position of each item. */
  positions: readonly Position[];
  /** All that match. null behind a position: they were counted when the list began. */
  total: number | null;
  /** The position of the last item, where more follow. */
  next: Position | null;
  /** There are fewer than asked for: more bytes than one answer may have follow. */
  isShort?: true;
};

/** Cuts what was read with one more than `limit`: that one says that more follow. */
export function cut<Row>(rows: readonly Row[], limit: number, positionOf: (row: Row) => Position) {
  const shown = rows.slice(0, limit);
  const positions = shown.map(positionOf);
  return { rows: shown, positions, next: rows.length > limit ? positions.at(-1)! : null };
}

/** The first `count` of them alone. */
export function shortened<T>(listed: Listed<T>, count: number): Listed<T> {
  if (count >= listed.items.length) return listed;
  const positions = listed.positions.slice(0, count);
  return { ...listed, items: listed.items.slice(0, count), positions, next: positions.at(-1)!, isShort: true };
}
