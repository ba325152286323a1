// The outgoing feed: what is committed in the account, sent to a receiver in the order of commit (docs/feed.md). The
// other way round is GET /v1/feed, where the reader asks.
import Type from 'typebox';
import {
  BATCH_BODIES,
  FEED_FORMATS,
  FEED_TOPICS,
  OUTGOING_ERRORS,
  type OutgoingError,
  PAYLOAD_MODES,
  STATUSES,
} from './closed-sets.ts';
import { Name, ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';
import type { FeedPlace } from './feed.ts';

const Url = Type.String({ minLength: 9, maxLength: 2_000 });
/** A header's value: no line ends, and no blanks at its ends. */
const Authorization = Type.String({ pattern: '^[!-~]([ -~]{0,4094}[!-~])?$' });
const Topics = Type.Array(Type.Enum([...FEED_TOPICS]), {
  minItems: 1,
  maxItems: FEED_TOPICS.length,
  uniqueItems: true,
});
const PayloadMode = Type.Enum([...PAYLOAD_MODES]);
const Format = Type.Enum([...FEED_FORMATS]);
const Body = Type.Enum([...BATCH_BODIES]);
const NullableTime = Type.Union([ResponseTime, Type.Null()]);

const URL_IS =
  'Where it goes: batches are posted to an https address, by the rules of webhooks (no private one, port 443 or 8443); messages go to `syslog+tls://HOST[:PORT]`, port 6514 where none is said; objects to `s3+https://HOST[:PORT]/PATH[?region=REGION]`.';
const AUTHORIZATION_IS =
  'The whole value of the header `Authorization` of each batch; for S3 `KEY_ID:SECRET`, which must be there; not for syslog. Never shown again.';
const SUBMISSIONS_IS = 'false: the audit log comes without `event.submitted`, of which there is one for every event.';
const PAYLOAD_IS = 'How much of their payload events come with.';
const FORMAT_IS =
  '`json`: `topic` and `data`, as the feed has them. `ocsf`: an event of OCSF 1.5 for each row, which it holds as `raw_data`.';
const BODY_IS =
  '`array`: a batch is one JSON array. `lines`: a line of JSON for each row. To S3 both are lines; there `parquet` is a file of Parquet, with the columns `topic`, `id`, `at`, `agent_id` and `data`, of rows in the form `json`. Of no meaning for syslog.';

export const OutgoingFeedCreate = Type.Object(
  {
    name: about(Name, '1 to 200 characters; unique among the outgoing feeds.', 'siem'),
    url: about(Url, URL_IS, 'https://siem.example.com/gatehouse'),
    authorization: Type.Optional(
      about(Authorization, `${AUTHORIZATION_IS} Left out: none is sent.`, 'Splunk 7c2f0c1e-example'),
    ),
    topics: Type.Optional(
      about(Topics, 'What is sent; it stays. Left out: the audit log.', ['audit_log', 'anomalies']),
    ),
    submissions: Type.Optional(about(Type.Boolean(), `${SUBMISSIONS_IS} Left out: true.`)),
    payload: Type.Optional(about(PayloadMode, `${PAYLOAD_IS} Left out: \`full\`.`, 'full')),
    format: Type.Optional(about(Format, `${FORMAT_IS} Left out: \`json\`.`, 'json')),
    body: Type.Optional(about(Body, `${BODY_IS} Left out: \`array\`.`, 'array')),
    status: Type.Optional(
      about(Type.Enum([...STATUSES]), '`inactive`: nothing is sent, and the place is kept. Left out: `active`.'),
    ),
  },
  { additionalProperties: false },
);
export type OutgoingFeedCreate = Type.Static<typeof OutgoingFeedCreate>;

export const OutgoingFeedPatch = Type.Object(
  {
    name: Type.Optional(about(Name, 'The new name, unique among the outgoing feeds. Left out: as it is.')),
    url: Type.Optional(
      about(
        Url,
        `${URL_IS} Where there is an \`authorization\` it must be said again, or null: it is not sent elsewhere unasked. Left out: as it is.`,
        'https://siem.example.com/gatehouse',
      ),
    ),
    authorization: Type.Optional(
      about(Type.Union([Authorization, Type.Null()]), `${AUTHORIZATION_IS} null: none. Left out: as it is.`),
    ),
    submissions: Type.Optional(about(Type.Boolean(), `${SUBMISSIONS_IS} Left out: as it is.`)),
    payload: Type.Optional(about(PayloadMode, `${PAYLOAD_IS} Left out: as it is.`)),
    format: Type.Optional(about(Format, `${FORMAT_IS} Left out: as it is.`)),
    body: Type.Optional(about(Body, `${BODY_IS} Left out: as it is.`)),
    status: Type.Optional(
      about(Type.Enum([...STATUSES]), '`inactive`: nothing is sent, and the place is kept. Left out: as it is.'),
    ),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type OutgoingFeedPatch = Type.Static<typeof OutgoingFeedPatch>;

/** The progress of an outgoing feed so far. */
export const OutgoingFeedProgress = Type.Object({
  sent_rows: about(
    Type.Integer({ minimum: 0 }),
    'Rows that the receiver took, those that it got again among them.',
    10,
  ),
  last_sent_at: about(NullableTime, 'When it last took a batch. null: never.'),
  caught_up_at: about(NullableTime, 'All that was stored by then has been taken. null: not yet.'),
  failing_since: about(
    NullableTime,
    'Since when no batch was taken, and it is tried again. null: the last one was.',
    null,
  ),
  error: about(
    Type.Union([Type.Enum([...OUTGOING_ERRORS]), Type.Null()]),
    'Why not. `status`: it answered with another status than 2xx. `ahead`: the service was put back to a state before the place of this feed; make another one. null: the last one was taken.',
    null,
  ),
  status_code: about(Type.Union([Type.Integer(), Type.Null()]), 'With which status. null: there was no answer.', null),
  next_try_at: about(NullableTime, 'When it is tried again, at the latest. null: nothing failed.', null),
});

export const OutgoingFeed = Type.Object({
  id: about(Type.String(), 'Id of the outgoing feed.', exampleId('ofd')),
  name: about(Type.String(), 'Unique among the outgoing feeds of the account.', 'siem'),
  url: about(Type.String(), 'Where it goes, without its query.', 'https://siem.example.com/gatehouse'),
  authorization_set: about(Type.Boolean(), 'Whether a header `Authorization` is sent.', true),
  topics: about(Topics, 'What is sent.', ['audit_log', 'anomalies']),
  submissions: about(Type.Boolean(), SUBMISSIONS_IS),
  payload: about(PayloadMode, PAYLOAD_IS, 'full'),
  format: about(Format, FORMAT_IS, 'json'),
  body: about(Body, BODY_IS, 'array'),
  status: about(Type.Enum([...STATUSES]), '`inactive`: nothing is sent, and the place is kept.'),
  progress: about(OutgoingFeedProgress, 'What became of it so far.'),
  created_at: about(ResponseTime, 'When it was made.'),
  updated_at: about(ResponseTime, 'When it was last changed.'),
});
export type OutgoingFeed = Type.Static<typeof OutgoingFeed>;

export const OutgoingFeedCreated = Type.Object({
  ...OutgoingFeed.properties,
  secret: about(
    Type.String(),
    'Signs what is posted: `whsec_` and Base64. It is in this answer and nowhere else; `rotate-secret` makes another.',
    'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  ),
});
export type OutgoingFeedCreated = Type.Static<typeof OutgoingFeedCreated>;

/** As it is kept. `agent_id`: it is of the whole account, as all records with names say (named-records.ts). */
export type OutgoingFeedRecord = Omit<OutgoingFeed, 'authorization_set' | 'progress'> & {
  agent_id: null;
  authorization: string | null;
  secret: string;
  /** Secrets that were replaced, the newest first, each until when it still signs (epoch ms). */
  retired?: { secret: string; until: number }[];
  /** From here on, where Redis has lost how far it is; and when that was so (epoch ms). */
  place: FeedPlace;
  place_at: number;
};

/** How far it is. Times are epoch ms. */
export type OutgoingFeedState = {
  place: FeedPlace;
  sentRows: number;
  sentAt: number | null;
  caughtUpAt: number | null;
  /** Tries on end that failed. */
  failures: number;
  failingSince: number | null;
  error: OutgoingError | null;
  statusCode: number | null;
  nextTryAt: number | null;
};
