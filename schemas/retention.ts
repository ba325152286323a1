// How long what is stored of an account is kept, and what is held whatever its age (legal hold).
import Type from 'typebox';
import { EVENT_TYPES, type EventType } from './closed-sets.ts';
import { about } from './described.ts';

/** ClickHouse reckons in 32-bit seconds, which end in 2106: with 36,500 days rows expired at once. */
export const RETENTION_DAYS_MAX = 20_000;

const Days = Type.Integer({ minimum: 1, maximum: RETENTION_DAYS_MAX });
const OwnDays = Type.Union([Days, Type.Null()]);
const DaysByType = Type.Object(
  Object.fromEntries(
    EVENT_TYPES.map((type) => [type, about(Days, `Days for which events of the type \`${type}\` are kept.`, 30)]),
  ) as ByType<typeof Days>,
  { additionalProperties: false },
);

/** As it can be set; what is left out goes by what is above it. */
export const RetentionPatch = Type.Object(
  {
    days: Type.Optional(
      about(OwnDays, 'Days for which events are kept, and what hangs on them. null: as the operator says.', 90),
    ),
    days_by_type: Type.Optional(
      about(
        Type.Partial(DaysByType, { additionalProperties: false }),
        'Days of single types of events, instead of `days`. A type that is left out goes by `days`.',
        { prompt: 30 },
      ),
    ),
  },
  { additionalProperties: false },
);

type ByType<T> = Record<EventType, T>;
export type OwnRetention = { days: number | null; days_by_type: Partial<ByType<number>> };

export const RetentionInForce = Type.Object({
  days: about(Days, 'Days for which events are kept, unless their type has its own.', 365),
  days_by_type: about(DaysByType, 'Days for which events of each type are kept.', {
    prompt: 30,
    completion: 365,
    tool_call: 365,
    error: 365,
    custom: 365,
  }),
  least_days: about(Days, 'An account can set no fewer.', 1),
  most_days: about(Days, 'An account can set no more.', 365),
});
export type RetentionInForce = Type.Static<typeof RetentionInForce>;

/** The rows of an account kept at a moment. Times are epoch ms of arrival; earlier arrivals are past the retention. */
export type KeptTimes = {
  fromMs: number;
  /** Types of events that have a time of their own. */
  byType: readonly (readonly [EventType, number])[];
  /** The same of anomalies, approvals and deliveries: as the type of event that is kept the longest. */
  othersFromMs: number;
  /** The time from which everything is kept, whatever it is. */
  wholeFromMs: number;
  /** The legal holds: rows under one are kept whatever their age. */
  held: { all: boolean; agents: readonly string[]; traces: readonly string[] };
};
