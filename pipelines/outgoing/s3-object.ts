// A batch of an outgoing feed as an object in S3-compatible storage: lines of JSON, or a file of Parquet, under a name
// of its own, and the request that puts it there (behind batch-sender.ts).
//   PATH/FEED_ID/DAY/POSITION-DIGEST.ndjson, or .parquet
// DAY is that of its first row. POSITION grows from object to object of a feed: how many entries were handed out before
// it, over all chains and changes, so names sort as the feed goes. DIGEST is of the lines.
// Invariant: a batch that is sent again as it was writes the same object; one that was read once more, and holds
// more, is another object, so what comes late from a process that has lost its lease overwrites nothing but its own.
import { createHash } from 'node:crypto';
import type { FeedPlace } from '../../schemas/feed.ts';
import type { OutgoingFeedRecord } from '../../schemas/outgoing-feed.ts';
import { signedForS3 } from '../../src/egress/sign-s3.ts';
import type { S3Target } from '../../src/egress/target-url.ts';

type Batch = {
  feed: Pick<OutgoingFeedRecord, 'id' | 'authorization' | 'body'>;
  /** It holds what is behind it. */
  place: FeedPlace;
  /** When its first row was made. */
  firstMs: number;
  /** Its rows as lines, which it is named by. */
  lines: Buffer;
  body: Buffer;
  /** When it is signed. */
  atMs: number;
};

/** Enough for a million a second over 300 years. */
const POSITION_DIGITS = 16;
/** 96 bits. */
const DIGEST_CHARACTERS = 24;
const LINES = { ending: '.ndjson', type: 'application/x-ndjson' };
const PARQUET = { ending: '.parquet', type: 'application/vnd.apache.parquet' };

export function s3Object(
  { target: { url }, region }: S3Target,
  { feed, place, firstMs, lines, body, atMs }: Batch,
): { url: string; headers: Record<string, string> } {
  const kind = feed.body === 'parquet' ? PARQUET : LINES;
  const path = `${url.pathname.replace(/\/$/, '')}/${feed.id}/${nameOf(place, firstMs, lines)}${kind.ending}`;
  const [keyId = '', secret = ''] = splitAt(feed.authorization ?? '', ':');
  const headers = { host: url.host, 'content-type': kind.type };
  const request = { method: 'PUT', path, headers, body, atMs } as const;
  // A proxy may change the program's name, so it is not signed.
  const signed = { ...signedForS3(request, { keyId, secret, region }), 'user-agent': 'Gatehouse' };
  return { url: `${url.origin}${path}`, headers: signed };
}

function nameOf({ approvals, deliveries, chains }: FeedPlace, firstMs: number, lines: Buffer): string {
  const position = chains.reduce((sum, n) => sum + n, approvals + deliveries);
  const digest = createHash('sha256').update(lines).digest('hex').slice(0, DIGEST_CHARACTERS);
  const day = new Date(firstMs).toISOString().slice(0, 10);
  return `${day}/${String(position).padStart(POSITION_DIGITS, '0')}-${digest}`;
}

function splitAt(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return [text.slice(0, at), text.slice(at + 1)];
}
