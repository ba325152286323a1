// The cursor of the feed: a place in it as text, which means the same at every front. Short enough for an address with
// 256 partitions: numbers in base 36, of the registry's chain and of each partition's.
// Invariant: a cursor only ever says where to continue; the account comes from the key. Refused with 400
// `validation_failed` that names `after`: no cursor, one of another account, of other topics or another number of
// partitions, or so old that what came since may not be there any more.
import { createHash } from 'node:crypto';
import { FEED_TOPICS, type FeedTopic } from '../../../schemas/closed-sets.ts';
import type { FeedPlace } from '../../../schemas/feed.ts';
import type { ServiceError } from '../../common/errors.ts';
import { FEED_RESUME_MS_MAX } from '../../common/limits.ts';
import { validationFailed } from '../../common/validation.ts';

const VERSION = '1';
const FORM = /^1\.[\w-]{12}(\.[0-9a-z]{1,11}){5,}$/;

type FeedCursor = { place: FeedPlace; topics: FeedTopic[] };

export function feedCursor(account: string, { place, topics }: FeedCursor): string {
  const mask = FEED_TOPICS.reduce((sum, topic, i) => sum + (topics.includes(topic) ? 2 ** i : 0), 0);
  const numbers = [Date.now(), mask, place.approvals, place.deliveries, ...place.chains];
  return [VERSION, digestOf(account), ...numbers.map((number) => number.toString(36))].join('.');
}

/**
 * `chains`: how many a place has. `keptFromMs`: what came before may be gone. Throws ServiceError validation_failed.
 */
export function readFeedCursor(
  account: string,
  text: string,
  { chains, keptFromMs }: { chains: number; keptFromMs: number },
): FeedCursor {
  if (!FORM.test(text)) throw badFeedCursor('is not a cursor that the feed has answered');
  const [, of, ...numbers] = text.split('.');
  if (of !== digestOf(account)) throw badFeedCursor('is of another account');
  const [atMs, mask, approvals, deliveries, ...places] = numbers.map((number) => Number.parseInt(number, 36));
  if (![atMs, mask, approvals, deliveries, ...places].every(Number.isSafeInteger) || mask! >= 2 ** FEED_TOPICS.length)
    throw badFeedCursor('is not a cursor that the feed has answered');
  if (places.length !== chains)
    throw badFeedCursor('is of a service with another number of partitions; begin again without it');
  if (atMs! < Math.max(Date.now() - FEED_RESUME_MS_MAX, keptFromMs))
    throw badFeedCursor(
      'is older than seven days, or than what is kept of the account; export what came since, and begin again without it',
    );
  const topics = FEED_TOPICS.filter((_, i) => Math.floor(mask! / 2 ** i) % 2 === 1);
  return { place: { approvals: approvals!, deliveries: deliveries!, chains: places }, topics };
}

export function badFeedCursor(message: string): ServiceError {
  return validationFailed('The feed cannot go on from there.', [{ path: 'after', message }]);
}

function digestOf(account: string): string {
  return createHash('sha256').update(`feed ${account}`).digest('base64url').slice(0, 12);
}
