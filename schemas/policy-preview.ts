// What a draft of a policy would have matched of the newest events (POST /v1/policies/preview).

import Type from 'typebox';
import { about } from './described.ts';
import { ListedEvent } from './event.ts';

const Count = Type.Integer({ minimum: 0 });

export const PolicyPreview = Type.Object({
  events: about(Count, 'How many of the newest events were judged, by `timestamp`; at most 1,000.', 1_000),
  matched: about(Count, 'How many of them the policy would have matched.', 37),
  unknown: about(Count, 'Of how many it is not known, since what decides was redacted. They are not in `matched`.', 0),
  first: about(
    Type.Array(ListedEvent, { maxItems: 5 }),
    'The newest five that it would have matched, without payloads.',
  ),
  complete: about(
    Type.Boolean(),
    'Were all of the newest 1,000 judged that there are? false: they were too many bytes or too much work, or some are not stored yet.',
  ),
  approximate: about(
    Type.Boolean(),
    'true: of a rate limit, a sequence or a budget, which know of none before the oldest of these events although there were some.',
    false,
  ),
});
