// What is wrong with a store, in words for the operator: reachability, credentials, schema, registry, or what it says
// itself. Made of the errors of both clients; used by the wait at a start, by `/readyz` and by `gatehouse doctor`.
// Invariant: an address is shown without user and password, and no value of a setting is.

import { ClickHouseError } from '../../clickhouse/errors.ts';
import { sentinelAddressOf, shownSentinelAddress } from '../common/sentinel-address.ts';
import { UserFacingError } from '../common/user-facing-error.ts';
import { isDiskFull } from '../redis/client.ts';

type StoreFaultKind = 'reachability' | 'credentials' | 'schema' | 'registry' | 'refusal' | 'certificate';
export type StoreFault = { kind: StoreFaultKind; reason: string };

/** Must an operator change something? Then waiting does not help. */
export function isFinal({ kind }: StoreFault): boolean {
  return kind === 'credentials' || kind === 'certificate';
}

/** The error that the person at a terminal reads when a store is unavailable. */
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
  const certificate = certificateFault(error);
  if (certificate !== undefined) return { kind: 'certificate', reason: certificate };
  if (CREDENTIALS.test(text))
    return { kind: 'credentials', reason: `user or password is refused (${text.split(':')[0]})` };
  if (isReply(error)) return { kind: 'refusal', reason: refusalIn(error, text) };
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
  const sentinels = sentinelAddressOf(urls);
  if (sentinels !== undefined) return shownSentinelAddress(sentinels);
  return urls
    .split(',')
    .map((url) => {
      if (url.trim().startsWith('unix:')) return url.trim().replace(/^unix:(\/\/)?/, '');
      const { protocol, host } = new URL(url.trim());
      return `${protocol}//${host}`;
    })
    .join(',');
}

/** undefined: TLS is not what failed. */
function certificateFault(error: unknown): string | undefined {
  const code = String((error as NodeJS.ErrnoException | undefined)?.code ?? '');
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return `its certificate is for another host (${code})`;
  if (code === 'CERT_HAS_EXPIRED') return `its certificate has expired (${code})`;
  if (/SELF_SIGNED|UNABLE_TO_(VERIFY|GET_ISSUER)|CERT_UNTRUSTED/.test(code))
    return `its certificate is signed by an authority that is not known here (${code}); GATEHOUSE_REDIS_TLS_CA names those that are`;
  if (/CERTIFICATE_(REQUIRED|UNKNOWN)|UNKNOWN_CA|BAD_CERTIFICATE|HANDSHAKE_FAILURE/.test(code))
    return `it does not take our certificate, or there is none (${code}); GATEHOUSE_REDIS_TLS_CERT and _KEY name it`;
  if (/^ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG)/.test(code)) return `it does not speak TLS (${code})`;
  return /^ERR_(SSL|TLS|OSSL)_/.test(code) ? `TLS fails (${code})` : undefined;
}

/** Replies that say of themselves little to those who set up the service, and what they mean for it. */
const REFUSALS: [said: RegExp, meaning: string][] = [
  [/^READONLY/, 'it is a replica, which takes no writes'],
  [/cluster support disabled/i, 'it is no node of a Cluster, but GATEHOUSE_REDIS_CLUSTER is set'],
  [/^(MOVED|ASK) /, 'it is a node of a Cluster, but GATEHOUSE_REDIS_CLUSTER is not set'],
  [/^CLUSTERDOWN/, 'the Cluster is down, or a part of it has no master'],
  [/^NOREPLICAS/, 'it has fewer replicas than it must have to take writes'],
  [/^OOM/, 'it has no memory left (maxmemory)'],
];

function refusalIn(error: unknown, text: string): string {
  if (isDiskFull(error)) return `the disk that it writes to is full (${text})`;
  const meaning = REFUSALS.find(([said]) => said.test(text))?.[1];
  return meaning === undefined ? text : `${meaning} (${text})`;
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
