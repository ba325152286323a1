// What is wrong with a store, in words for the operator: reachability, credentials, schema, or what it says
// itself. Made of the errors of both clients; used by the wait at a start, by `/readyz` and by `gatehouse doctor`.
// Invariant: an address is shown without user and password, and no value of a setting is.

import { ClickHouseError } from '../../clickhouse/errors.ts';
import { UserFacingError } from '../common/user-facing-error.ts';
import { isDiskFull } from '../redis/client.ts';

type StoreFaultKind = 'reachability' | 'credentials' | 'schema' | 'refusal';
export type StoreFault = { kind: StoreFaultKind; reason: string };

/** What the person at a terminal reads when a store is unavailable. */
export class StoreError extends UserFacingError {
  override name = 'StoreError';
}

const CREDENTIALS = /^(WRONGPASS|NOAUTH|NOPERM)|invalid password|without any password configured/i;
/** Codes of ClickHouse: user unknown, password missing, authentication failed, not enough privileges. */
const CLICKHOUSE_CREDENTIALS = new Set([192, 193, 194, 497, 516]);
/** Unknown table, unknown database. */
const CLICKHOUSE_SCHEMA = new Set([60, 81]);

/** `connectError`: why there is no connection, where that is known; the command itself cannot say it. */
export function redisFault(cause: unknown, connectError?: Error): StoreFault {
  const error = connectError ?? cause;
  const text = wordsOf(error);
  if (CREDENTIALS.test(text))
    return { kind: 'credentials', reason: `user or password is refused (${text.split(':')[0]})` };
  if (isReply(error))
    return { kind: 'refusal', reason: isDiskFull(error) ? `the disk that it writes to is full (${text})` : text };
  return { kind: 'reachability', reason: reachability(error) };
}

export function clickhouseFault(cause: unknown): StoreFault {
  if (!(cause instanceof ClickHouseError) || cause.code === null) {
    const inner = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause;
    return { kind: 'reachability', reason: reachability(inner) };
  }
  const { code, codeName } = cause;
  if (CLICKHOUSE_CREDENTIALS.has(code))
    return { kind: 'credentials', reason: `user or password is refused (${codeName})` };
  if (CLICKHOUSE_SCHEMA.has(code))
    return { kind: 'schema', reason: `${codeName}: "gatehouse migrate" makes the tables` };
  return { kind: 'refusal', reason: codeName };
}

/** An address without user and password; several, as of a Cluster, stay separated by commas. */
export function shownAddress(urls: string): string {
  return urls
    .split(',')
    .map((url) => {
      if (url.trim().startsWith('unix:')) return url.trim().replace(/^unix:(\/\/)?/, '');
      const { protocol, host } = new URL(url.trim());
      return `${protocol}//${host}`;
    })
    .join(',');
}

function isReply(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError';
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message.slice(0, 200) : String(error);
}

/** The system's code says most; what ioredis says of its own stream says nothing to a person. */
function reachability(error: unknown): string {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  const words: Record<string, string> = {
    ECONNREFUSED: 'nothing listens there (ECONNREFUSED)',
    ENOTFOUND: 'there is no such host (ENOTFOUND)',
    EAI_AGAIN: 'the name of the host cannot be looked up (EAI_AGAIN)',
    ETIMEDOUT: 'it does not answer (ETIMEDOUT)',
    ECONNRESET: 'it closed the connection (ECONNRESET)',
    ENOENT: 'there is no such socket (ENOENT)',
  };
  if (typeof code === 'string') return words[code] ?? code;
  const text = wordsOf(error);
  return /writeable|timed out|timeout|is closed|isn't ready|aborted/i.test(text) ? 'it does not answer' : text;
}
