// One attempt to send a batch of an outgoing feed, and what came of it (behind outgoing-feed-worker.ts).
// A batch is an array or lines of JSON, signed as the webhooks of alerts are (docs/channels.md). Its id follows from
// what it says, so a batch that is sent again as it was has the same one.
// Invariant: rows are passed on as their text; nothing of what users sent is parsed and printed again. A batch counts
// as taken with a 2xx and with nothing else; redirects are not followed.
// Failure: an error of a closed set, never the receiver's own words.
import { createHash } from 'node:crypto';
import type { OutgoingError } from '../../schemas/closed-sets.ts';
import type { OutgoingFeedRecord } from '../../schemas/outgoing-feed.ts';
import type { FeedItem } from '../../src/audit/feed.ts';
import type { GuardedHttps } from '../../src/egress/guarded-https.ts';
import { EgressError } from '../../src/egress/guarded-tls.ts';
import { secretsAt, signedHeaders } from '../../src/egress/sign-webhook.ts';
import { ocsfText } from './ocsf.ts';

/** A receiver may store a batch before it answers. */
const ATTEMPT_MS = 30_000;

/** `error`: null where it was taken. */
export type SendResult = { error: OutgoingError | null; statusCode: number | null };

/** `account`: whose feed it is. `atMs`: when it is signed. */
type Attempt = { account: string; atMs: number; signal: AbortSignal };

export class BatchSender {
  readonly #https: GuardedHttps;

  constructor(https: GuardedHttps) {
    this.#https = https;
  }

  /** undefined: cut short by `signal`. Throws what is no answer of a receiver. */
  async send(
    feed: OutgoingFeedRecord,
    items: readonly FeedItem[],
    { account, atMs, signal }: Attempt,
  ): Promise<SendResult | undefined> {
    const rows = items.map((item) => lineOf(item, feed.format, account));
    const body = feed.body === 'array' ? `[${rows.join(',\n')}]` : `${rows.join('\n')}\n`;
    const id = `ofb_${createHash('sha256').update(feed.id).update(body).digest('base64url').slice(0, 27)}`;
    const headers = {
      'content-type': feed.body === 'array' ? 'application/json' : 'application/x-ndjson',
      'user-agent': 'Gatehouse',
      ...(feed.authorization === null ? {} : { authorization: feed.authorization }),
      ...signedHeaders(secretsAt(feed, atMs), { id, atMs, body }),
    };
    try {
      const post = { headers, body: Buffer.from(body), timeoutMs: ATTEMPT_MS, signal };
      const { status } = await this.#https.post(feed.url, post);
      const isTaken = status >= 200 && status < 300;
      return { error: isTaken ? null : 'status', statusCode: isTaken ? null : status };
    } catch (error) {
      if (!(error instanceof EgressError)) throw error;
      return error.reason === 'aborted' ? undefined : { error: error.reason, statusCode: null };
    }
  }
}

function lineOf(item: FeedItem, format: OutgoingFeedRecord['format'], account: string): string {
  return format === 'ocsf' ? ocsfText(item, account) : `{"topic":"${item.topic}","data":${item.text}}`;
}
