// Makes replies (for everything but submissions, whose text ingest has made already).
// Rows of events are spliced in as text: a payload is never parsed on its way out.
// An answer from ClickHouse that did not come is 503: the same request may succeed later.

import { ClickHouseError } from '../../../clickhouse/errors.ts';
import { type Listed, shortened } from '../../../schemas/paging.ts';
import { ServiceError } from '../../common/errors.ts';
import { exactJson } from '../../common/exact-json.ts';
import { QueueFull } from '../../common/fair-queue.ts';
import { PAGE_BYTES_MAX } from '../../common/limits.ts';
import type { Reply } from '../route.ts';
import { cursorBehind, type OpenPage } from './cursor.ts';

export function json(status: number, value: unknown): Reply {
  return { status, body: exactJson(value) };
}

/** With the revision as its ETag. */
export function versioned(value: { revision: number }): Reply {
  return { ...json(200, value), headers: { ETag: etagOf(value.revision) } };
}

export function etagOf(revision: number): string {
  return `"${revision}"`;
}

export const NO_CONTENT: Reply = { status: 204 };

/** `items` are JSON texts. `name`: what the list calls them. */
export function textPage(asked: OpenPage, listed: Listed<string>, name = 'items'): Reply {
  const { items, next, total: counted, isShort } = shortened(listed, withinPage(listed.items));
  const total = asked.total ?? counted ?? 0;
  const next_cursor = next === null ? null : cursorBehind(asked, items.length, total, next);
  const fields = { total, limit: asked.limit, offset: asked.before, next_cursor };
  const body = `{"${name}":[${items.join(',')}],${JSON.stringify(fields).slice(1)}`;
  return markShort({ status: 200, body }, isShort === true);
}

export function page(asked: OpenPage, { items, ...listed }: Listed<unknown>, name?: string): Reply {
  return textPage(asked, { ...listed, items: items.map(exactJson) }, name);
}

/** How many of these texts an answer may hold: PAGE_BYTES_MAX, and one in any case. */
function withinPage(texts: readonly string[]): number {
  let bytes = 0;
  for (const [i, text] of texts.entries()) {
    bytes += Buffer.byteLength(text) + 1;
    if (bytes > PAGE_BYTES_MAX && i > 0) return i;
  }
  return texts.length;
}

/** Marks a page that ended early, for its size. */
export function markShort(reply: Reply, isShort: boolean): Reply {
  return isShort ? { ...reply, headers: { ...reply.headers, 'Gatehouse-Short-Page': 'true' } } : reply;
}

/** Marks an answer that may lack writes which were acknowledged before it was asked for. */
export function markIncomplete(reply: Reply, complete: boolean): Reply {
  return complete ? reply : { ...reply, headers: { ...reply.headers, 'Gatehouse-Incomplete': 'true' } };
}

/** The agent whose writes alone a list has to wait for; null: those of all. */
export function onlyOne(agents: readonly string[] | undefined): string | null {
  return agents?.length === 1 ? agents[0]! : null;
}

/** The same for a list that waits on several kinds of writes. */
export function allComplete(waits: Promise<boolean>[]): Promise<boolean> {
  return Promise.all(waits).then((complete) => complete.every(Boolean));
}

/** `complete`: false where what was written before may not be stored yet; then the 404 says so. */
export function found<T>(value: T | null | undefined, what: string, complete = true): T {
  if (value === null || value === undefined) throw notFound(what, complete);
  return value;
}

export function notFound(what: string, complete = true): ServiceError {
  return complete
    ? new ServiceError('not_found', `No such ${what}.`)
    : new ServiceError('not_found', `No such ${what}, or it is not stored yet.`, { incomplete: true });
}

/** Runs a query of ClickHouse for a reader. */
export async function ask<T>(query: () => Promise<T>): Promise<T> {
  try {
    return await query();
  } catch (cause) {
    if (cause instanceof QueueFull)
      throw new ServiceError('unavailable', `The account asks for too much at once: ${cause.message}.`, {
        retryAfterSeconds: 1,
        cause,
      });
    if (!(cause instanceof ClickHouseError) || !cause.canRetry) throw cause;
    throw new ServiceError('unavailable', 'The store of events cannot answer this now.', {
      retryAfterSeconds: 1,
      internal: `clickhouse ${cause.codeName}`,
      cause,
    });
  }
}
