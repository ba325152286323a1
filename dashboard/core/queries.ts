// Reads with a memory (@tanstack/query-core), as hooks: one value, or pages of a list that grow as they are scrolled.
// Invariant: what is on screen stays there while it is read again; an error never takes it away.
// Failure: an ApiError in `error`, and `retry` to ask again. A refusal (4xx) is not asked again by itself.
import {
  type InfiniteData,
  InfiniteQueryObserver,
  type InfiniteQueryObserverResult,
  onlineManager,
  QueryClient,
  QueryObserver,
  type QueryObserverResult,
} from '@tanstack/query-core';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type Answer, ApiError, read } from './api.ts';
import { PAYLOADS } from './json.ts';
import type { Page } from './types.ts';

/**
 * Pages of a list that are kept: scrolling further releases the first ones' memory by starting again at a time, not by
 * paging on.
 */
const PAGES_MAX = 200;
/** Two screens full: a page of twice as many takes a third longer. */
const PAGE_ROWS = 50;

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      gcTime: 120_000,
      retry: false, // what is wrong is said at once, with a button that asks again
      refetchOnWindowFocus: true,
    },
  },
});

/** Nothing is read while no one is signed in; then all that is on screen is read again. */
export function standStill(does: boolean): void {
  onlineManager.setOnline(!does);
  if (!does) void client.invalidateQueries();
}

export type Read<T> = {
  value: T | undefined;
  error: ApiError | undefined;
  /** Nothing is there yet. */
  waiting: boolean;
  /** It is being read, again or for the first time. */
  busy: boolean;
  incomplete: boolean;
  etag: string | null;
  retry: () => void;
};

/** Reads that the person waits for; the others go behind them, for the stores have few cores for all. */
let inFront = 0;
const releases: (() => void)[] = [];

async function goInFront<T>(run: () => Promise<T>): Promise<T> {
  inFront++;
  try {
    return await run();
  } finally {
    inFront--;
    if (inFront === 0) for (const release of releases.splice(0)) release();
  }
}

/** After a moment, in which the screen says what it reads. A read in front has a deadline, so this ends. */
export async function goBehind<T>(run: () => Promise<T>): Promise<T> {
  await new Promise((resolve) => setTimeout(resolve, BEHIND_MS));
  while (inFront > 0) await new Promise<void>((resolve) => releases.push(resolve));
  return run();
}

const BEHIND_MS = 30;

type ReadOptions<T> = {
  /** Asked again while the page is seen; where it goes by what there is, undefined: not. */
  everyMs?: number | ((value: T) => number | undefined);
  /** Not what the screen is there for: lets lists go first. */
  behind?: boolean;
  /** Shows what was there until the new is there, where the path changes. */
  keeps?: boolean;
  /** Keys whose values are kept as text; the same for everyone who reads the path. */
  kept?: readonly string[];
};

/** An answer that is not whole yet is asked for again so soon, so often: what is on its way is stored within seconds. */
const AGAIN_MS = 1_500;
const AGAIN_MAX = 20;

type QueryState<Data> = { state: { data?: Data | undefined; dataUpdateCount: number } };

type Every<Data> = number | ((data: Data) => number | undefined) | undefined;

function askedAgain<Data>(everyMs: Every<Data>, isWhole: (data: Data) => boolean) {
  return ({ state: { data, dataUpdateCount } }: QueryState<Data>): number | false => {
    if (typeof everyMs === 'number') return everyMs;
    if (data === undefined) return false;
    return everyMs?.(data) ?? (!isWhole(data) && dataUpdateCount < AGAIN_MAX && AGAIN_MS);
  };
}

/** `path` undefined: nothing is asked for. */
export function useRead<T>(
  path: string | undefined,
  { everyMs, behind, keeps, kept = PAYLOADS }: ReadOptions<T> = {},
): Read<T> {
  const order = behind === true ? goBehind : goInFront;
  const options = {
    queryKey: [path ?? ''],
    queryFn: ({ signal }: { signal: AbortSignal }) => order(() => read<T>(path!, { signal, kept })),
    enabled: path !== undefined,
    refetchInterval: askedAgain<Answer<T>>(
      typeof everyMs === 'function' ? ({ value }) => everyMs(value) : everyMs,
      ({ incomplete }) => !incomplete,
    ),
    ...(keeps === true ? { placeholderData: (before: Answer<T> | undefined) => before } : {}),
  };
  const observer = useMemo(() => new QueryObserver<Answer<T>, Error>(client, options), []);
  const result = useObserver(observer, options) as QueryObserverResult<Answer<T>>;
  return {
    value: result.data?.value,
    error: asApiError(result.error),
    waiting: result.isPending && path !== undefined,
    busy: result.isFetching,
    incomplete: result.data?.incomplete ?? false,
    etag: result.data?.etag ?? null,
    retry: () => void observer.refetch(),
  };
}

export type List<T> = {
  items: readonly T[];
  total: number;
  error: ApiError | undefined;
  waiting: boolean;
  busy: boolean;
  incomplete: boolean;
  hasMore: boolean;
  more: () => void;
  retry: () => void;
};

function pagesOf<T>(path: string | undefined, limit: number, kept = PAYLOADS) {
  return {
    queryKey: ['list', path ?? '', limit],
    queryFn: ({ signal, pageParam }: { signal: AbortSignal; pageParam: unknown }) => {
      const cursor = pageParam === '' ? '' : `&cursor=${encodeURIComponent(String(pageParam))}`;
      const at = `${path}${path!.includes('?') ? '&' : '?'}limit=${limit}${cursor}`;
      return goInFront(() => read<Page<T>>(at, { signal, kept }));
    },
    initialPageParam: '',
  };
}

/** Begins to read a value before its screen is there. */
export function warmRead(path: string): void {
  void client.prefetchQuery({
    queryKey: [path],
    queryFn: ({ signal }) => goInFront(() => read(path, { signal })),
  });
}

/** Begins to read a list before its screen is there. */
export function warmList(path: string): void {
  void client.prefetchInfiniteQuery(pagesOf(path, PAGE_ROWS));
}

type ListOptions = {
  everyMs?: number;
  /** The member of the answer that holds the list's items. */
  name?: string;
  limit?: number;
  /** Shows what was there until the new is there, where only the beginning of the range has moved. */
  keeps?: boolean;
  /** As of a read. */
  kept?: readonly string[];
};

/** `path` with the filters, without `limit` and `cursor`. */
export function useList<T>(
  path: string | undefined,
  { everyMs, name = 'items', limit = PAGE_ROWS, keeps, kept }: ListOptions = {},
): List<T> {
  const options = {
    ...pagesOf<T>(path, limit, kept),
    getNextPageParam: (last: Answer<Page<T>>, all: unknown[]) =>
      all.length < PAGES_MAX ? last.value.next_cursor : null,
    enabled: path !== undefined,
    ...(keeps === true ? { placeholderData: keptPages<T>(path) } : {}),
    refetchInterval: askedAgain<{ pages: Answer<Page<T>>[] }>(everyMs, ({ pages }) =>
      pages.every(({ incomplete }) => !incomplete),
    ),
  };
  const observer = useMemo(() => new InfiniteQueryObserver(client, options), []);
  const result = useObserver(observer, options) as InfiniteQueryObserverResult<InfiniteData<Answer<Page<T>>>>;
  const pages = result.data?.pages;
  const items = useMemo(
    () => (pages ?? []).flatMap(({ value }) => (value as unknown as Record<string, T[]>)[name]!),
    [pages],
  );
  /** How long the list was when more was asked for while it was being read again: then it is read on, after that. */
  const wanted = useRef<number | undefined>(undefined);
  useEffect(() => {
    if (result.isFetching || wanted.current === undefined) return;
    const isStill = wanted.current === items.length;
    wanted.current = undefined;
    if (isStill && result.hasNextPage) void observer.fetchNextPage();
  }, [result.isFetching]);
  return {
    items,
    total: pages?.[0]?.value.total ?? 0,
    error: asApiError(result.error),
    waiting: result.isPending && path !== undefined,
    busy: result.isFetching,
    incomplete: pages?.some((page) => page.incomplete) ?? false,
    hasMore: result.hasNextPage,
    more: () => {
      if (!result.hasNextPage) return;
      if (result.isFetching) wanted.current = items.length;
      else void observer.fetchNextPage();
    },
    retry: () => void observer.refetch(),
  };
}

const FROM = /([?&])from=[^&]*/;

function keptPages<T>(path = '') {
  type Pages = InfiniteData<Answer<Page<T>>> | undefined;
  return (before: Pages, of: { queryKey: readonly unknown[] } | undefined): Pages =>
    of !== undefined && pathOfKey(of.queryKey).replace(FROM, '$1') === path.replace(FROM, '$1') ? before : undefined;
}

/** Reads a list to its end while `isNeeded`: what is searched for in the page may stand on any of its pages. */
export function useWhole({ hasMore, busy, error, more, items }: List<unknown>, isNeeded: boolean): void {
  useEffect(() => {
    if (isNeeded && hasMore && !busy && error === undefined) more();
  }, [isNeeded, hasMore, busy, items.length]);
}

/** Removes answers under the prefix: they are not read again, although they may still be on screen for a moment. */
export function forget(prefix: string): void {
  client.removeQueries({ predicate: ({ queryKey }) => pathOfKey(queryKey).startsWith(prefix) });
}

/** Reads again the answers under these prefixes, wherever they are on screen: something in them was changed. */
export function changed(...prefixes: string[]): void {
  void client.invalidateQueries({
    predicate: ({ queryKey }) => prefixes.some((prefix) => pathOfKey(queryKey).startsWith(prefix)),
  });
}

function pathOfKey(queryKey: readonly unknown[]): string {
  return String(queryKey[0] === 'list' ? queryKey[1] : queryKey[0]);
}

type Observer = {
  setOptions(options: never): void;
  getCurrentResult(): unknown;
  subscribe(tell: () => void): () => void;
};

function useObserver(observer: Observer, options: { queryKey: unknown[]; enabled: boolean }): unknown {
  const [, again] = useState(0);
  const key = JSON.stringify([options.queryKey, options.enabled]);
  useMemo(() => observer.setOptions(options as never), [key]);
  useEffect(() => observer.subscribe(() => again((n) => n + 1)), [observer]);
  return observer.getCurrentResult();
}

function asApiError(error: unknown): ApiError | undefined {
  if (error === null || error === undefined) return undefined;
  return error instanceof ApiError ? error : new ApiError(0, 'internal', String(error));
}
