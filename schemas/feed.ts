// A page of the feed: what was committed behind a place, and the place behind it (docs/feed.md).
import Type from 'typebox';
import { FEED_TOPICS } from './closed-sets.ts';
import { FreeObject } from './common.ts';
import { about, exampleId } from './described.ts';

/** The place up to which rows went out. `chains`: the last entry of the registry's chain, and of each partition's. */
export type FeedPlace = { approvals: number; deliveries: number; chains: readonly number[] };

export const FeedItem = Type.Object({
  topic: about(Type.Enum([...FEED_TOPICS, 'gap']), 'What it is.', 'audit_log'),
  data: about(
    FreeObject,
    'The row as the list of its topic has it. Of a `gap`: `chain`, and the numbers `from` and `to` of entries that the audit chain lacks.',
    { id: exampleId('log'), action: 'policy.created' },
  ),
});

export const FeedPage = Type.Object({
  items: about(Type.Array(FeedItem), 'What was committed behind `after`, oldest first. Empty: nothing yet.'),
  cursor: about(
    Type.String(),
    'The place behind these items: sent as `after` it gives what comes next. Keep it once the items are dealt with.',
    '1.9Yd2kQx0aBcD.mi2x4k9c.1.0.0.2a.7s.0.1f',
  ),
  has_more: about(Type.Boolean(), 'There is more already: ask again at once.', false),
});
