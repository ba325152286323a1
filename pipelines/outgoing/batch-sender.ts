// One attempt to send a batch of an outgoing feed, and what came of it (behind outgoing-feed-worker.ts).
// To https it is an array or lines of JSON, signed as the webhooks of alerts are (docs/channels.md); its id follows
// from what it says, so a batch that is sent again as it was has the same one. To syslog it is a message for each row;
// to S3-compatible storage an object (s3-object.ts), of lines or of Parquet, which ClickHouse makes.
// Invariant: rows are passed on as their text; nothing of what users sent is parsed and printed again. A batch is taken
// with a 2xx and with nothing else (redirects are not followed), and by syslog as syslog.ts says.
// Failure: an error of a closed set, never the receiver's own words.

import { createHash } from 'node:crypto';
import os from 'node:os';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { rowsAsParquet } from '../../clickhouse/queries/rows-as-parquet.ts';
import type { OutgoingError } from '../../schemas/closed-sets.ts';
import type { FeedPlace } from '../../schemas/feed.ts';
import type { OutgoingFeedRecord } from '../../schemas/outgoing-feed.ts';
import type { FeedItem } from '../../src/audit/feed.ts';
import { onOneLine } from '../../src/common/exact-json.ts';
import type { GuardedHttps } from '../../src/egress/guarded-https.ts';
import { EgressError, type GuardedTls } from '../../src/egress/guarded-tls.ts';
import { secretsAt, signedHeaders } from '../../src/egress/sign-webhook.ts';
import { isS3Address, isSyslogAddress, s3Target, syslogTarget } from '../../src/egress/target-url.ts';
import { ocsfText } from './ocsf.ts';
import { timeOf } from './row-time.ts';
import { s3Object } from './s3-object.ts';
import { sendFrames, syslogFrame } from './syslog.ts';

/** A receiver may store a batch before it answers. */
const ATTEMPT_MS = 30_000;

/** `error`: null where it was taken. */
export type SendResult = { error: OutgoingError | null; statusCode: number | null };

/** `account`: whose feed it is. `place`: what is sent is behind it. `atMs`: when it is signed. */
type Attempt = { account: string; place: FeedPlace; atMs: number; signal: AbortSignal };

type BatchSenderOptions = {
  /** Makes files of Parquet. */
  clickhouse: ClickHouse;
  https: GuardedHttps;
  /** For what is no https. */
  way: GuardedTls;
  /** Names that the operator lets through (target-url.ts). */
  allowedHosts: ReadonlySet<string>;
};

export class BatchSender {
  readonly #options: BatchSenderOptions;

  constructor(options: BatchSenderOptions) {
    this.#options = options;
  }

  /** undefined: cut short by `signal`. Throws what is no answer of a receiver. */
  async send(feed: OutgoingFeedRecord, items: readonly FeedItem[], attempt: Attempt): Promise<SendResult | undefined> {
    try {
      if (isSyslogAddress(feed.url)) return await this.#tell(feed, items, attempt);
      if (isS3Address(feed.url)) return await this.#put(feed, items, attempt);
      return await this.#post(feed, items, attempt);
    } catch (error) {
      if (!(error instanceof EgressError)) throw error;
      return error.reason === 'aborted' ? undefined : { error: error.reason, statusCode: null };
    }
  }

  async #post(
    feed: OutgoingFeedRecord,
    items: readonly FeedItem[],
    { account, atMs, signal }: Attempt,
  ): Promise<SendResult> {
    const rows = items.map((item) => lineOf(item, feed.format, account));
    const body = feed.body === 'array' ? `[${rows.join(',\n')}]` : `${rows.join('\n')}\n`;
    const id = `ofb_${createHash('sha256').update(feed.id).update(body).digest('base64url').slice(0, 27)}`;
    const headers = {
      'content-type': feed.body === 'array' ? 'application/json' : 'application/x-ndjson',
      'user-agent': 'Gatehouse',
      ...(feed.authorization === null ? {} : { authorization: feed.authorization }),
      ...signedHeaders(secretsAt(feed, atMs), { id, atMs, body }),
    };
    const post = { headers, body: Buffer.from(body), timeoutMs: ATTEMPT_MS, signal };
    return resultOf((await this.#options.https.post(feed.url, post)).status);
  }

  async #put(
    feed: OutgoingFeedRecord,
    items: readonly FeedItem[],
    { account, place, atMs, signal }: Attempt,
  ): Promise<SendResult> {
    const to = s3Target(feed.url, this.#options.allowedHosts);
    if (typeof to === 'string') return { error: 'private_address', statusCode: null };
    const lines = Buffer.from(items.map((item) => `${lineOf(item, feed.format, account)}\n`).join(''));
    const body = feed.body === 'parquet' ? await this.#parquetOf(items, signal) : lines;
    const firstMs = timeOf(JSON.parse(items[0]!.text));
    const { url, headers } = s3Object(to, { feed, place, firstMs, lines, body, atMs });
    const put = { method: 'PUT', headers, body, timeoutMs: ATTEMPT_MS, signal } as const;
    return resultOf((await this.#options.https.post(url, put)).status);
  }

  #parquetOf(items: readonly FeedItem[], signal: AbortSignal): Promise<Buffer> {
    const rows = items.map(({ topic, text }) => {
      const row = JSON.parse(text) as { id?: string; agent_id?: string | null };
      return { topic, id: row.id ?? '', at: timeOf(row), agent_id: row.agent_id ?? null, data: onOneLine(text) };
    });
    return rowsAsParquet(this.#options.clickhouse, rows, signal);
  }

  async #tell(
    { url, format }: OutgoingFeedRecord,
    items: readonly FeedItem[],
    { account, signal }: Attempt,
  ): Promise<SendResult> {
    const { way, allowedHosts } = this.#options;
    const target = syslogTarget(url, allowedHosts);
    if (typeof target === 'string') return { error: 'private_address', statusCode: null };
    const host = os.hostname();
    const frames = items.map((item) =>
      syslogFrame(item.topic, { line: lineOf(item, format, account), host, atMs: timeOf(JSON.parse(item.text)) }),
    );
    await way.during(target, { timeoutMs: ATTEMPT_MS, signal }, (tls) => sendFrames(tls, frames));
    return { error: null, statusCode: null };
  }
}

function resultOf(status: number): SendResult {
  const isTaken = status >= 200 && status < 300;
  return { error: isTaken ? null : 'status', statusCode: isTaken ? null : status };
}

function lineOf(item: FeedItem, format: OutgoingFeedRecord['format'], account: string): string {
  return format === 'ocsf' ? ocsfText(item, account) : `{"topic":"${item.topic}","data":${onOneLine(item.text)}}`;
}
