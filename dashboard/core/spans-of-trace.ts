// Reads what the events of a trace say of their spans. The list gives no bodies, so they are read in pages that stay
// under PAGE_BYTES, and let go again as soon as their places are known.
// Invariant: at most SPANS_MAX events and BYTES_MAX bytes are read; what is behind them is counted as not read.
// Failure: an ApiError; what was read until then stays.
import { useEffect, useState } from 'preact/hooks';
import { ApiError, query, read } from './api.ts';
import type { List } from './queries.ts';
import { type SpanPlace, spanPlaceOf } from './span-tree.ts';
import type { EventRow, WholeEvent } from './types.ts';

/** A tree of more is read by no person; it is three seconds of reading. */
const SPANS_MAX = 2_000;
const BYTES_MAX = 32 * 1024 * 1024;
/** The bytes that are read in one task: a page of a MiB takes longer than a frame. */
const PAGE_BYTES = 256 * 1024;
const PAGE_EVENTS = 100;

/** `places`: by the event's id. */
type Spans = {
  places: ReadonlyMap<string, SpanPlace>;
  isWhole: boolean;
  error: ApiError | undefined;
  retry: () => void;
};

type Page = { events: WholeEvent[]; next_cursor: string | null };

/** The spans of the events that the trace has when it is opened. */
export function useSpans(trace: string, { items, hasMore, more, busy }: List<EventRow>): Spans {
  const [places, setPlaces] = useState<ReadonlyMap<string, SpanPlace>>(new Map());
  const [error, setError] = useState<ApiError>();
  const [attempt, setAttempt] = useState(0);
  const wanted = Math.min(items.length, SPANS_MAX);
  useEffect(() => {
    if (hasMore && !busy && items.length < SPANS_MAX) more();
  }, [hasMore, busy, items.length]);
  const isSkeleton = items.length > 0 && (!hasMore || items.length >= SPANS_MAX);
  useEffect(() => {
    if (!isSkeleton) return undefined;
    setError(undefined);
    const stop = new AbortController();
    readAll(trace, items.slice(0, SPANS_MAX), stop.signal, setPlaces).catch((failure: unknown) => {
      if (!stop.signal.aborted)
        setError(failure instanceof ApiError ? failure : new ApiError(0, 'internal', String(failure)));
    });
    return () => stop.abort();
  }, [trace, isSkeleton, attempt]);
  return { places, isWhole: isSkeleton && places.size >= wanted, error, retry: () => setAttempt(attempt + 1) };
}

async function readAll(
  trace: string,
  events: readonly EventRow[],
  signal: AbortSignal,
  found: (places: ReadonlyMap<string, SpanPlace>) => void,
): Promise<void> {
  const places = new Map<string, SpanPlace>();
  let cursor: string | undefined;
  for (let bytes = 0; places.size < events.length && bytes < BYTES_MAX; ) {
    let limit = 0;
    let size = 0;
    for (const { payload_bytes: one = 0 } of events.slice(places.size, places.size + PAGE_EVENTS)) {
      if (limit > 0 && size + one > PAGE_BYTES) break;
      limit++;
      size += one;
    }
    bytes += size;
    const path = `v1/traces/${encodeURIComponent(trace)}${query({ payload: 'full', limit, cursor })}`;
    const { value } = await read<Page>(path, { signal });
    for (const { id, payload } of value.events) places.set(id, spanPlaceOf(payload.text));
    found(new Map(places));
    if (value.next_cursor === null || value.events.length === 0) return;
    cursor = value.next_cursor;
  }
}
