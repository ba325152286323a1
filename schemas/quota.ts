// What an account may use, over all its keys: rates, and how much there may be of what is kept. Set by operators alone,
// by the command line or with a key of theirs: a key does not raise its own limits.
import Type from 'typebox';
import { about } from './described.ts';

export const QUOTA_MAX = 999_999_999;

const OrNone = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const Positive = Type.Integer({ minimum: 1, maximum: QUOTA_MAX });
export const QuotaRate = Type.Object(
  {
    per_second: about(Positive, 'So many a second.', 500),
    burst: about(Positive, 'So many at once.', 1000),
  },
  { additionalProperties: false },
);
const Rate = OrNone(QuotaRate);
const Count = OrNone(Positive);

export const Quotas = Type.Object({
  requests: about(Rate, 'Requests of all keys together. null: no bound but that of each key.'),
  events: about(Rate, 'Recorded events of all keys together. null: no bound.'),
  bytes: about(Rate, 'Bytes of the bodies in which recorded events came, inflated. null: no bound.'),
  stored_rows: about(Count, 'Stored events, as of half a minute ago. null: no bound.', 1_000_000),
  keys: about(Count, 'API keys. null: 1,000.', 20),
  agents: about(Count, 'Agents. null: no bound.', 100),
});
export type Quotas = Type.Static<typeof Quotas>;

/** A change of quotas: one that is left out stays as it is. */
export const QuotasPatch = Type.Partial(Quotas, { additionalProperties: false });

export const NO_QUOTAS: Quotas = {
  requests: null,
  events: null,
  bytes: null,
  stored_rows: null,
  keys: null,
  agents: null,
};
export const RATE_QUOTAS = ['requests', 'events', 'bytes'] as const;
export type RateQuota = (typeof RATE_QUOTAS)[number];
