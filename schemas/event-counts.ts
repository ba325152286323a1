// Counts of events: over time, and by their values.
import Type from 'typebox';
import { ResponseTime } from './common.ts';
import { about } from './described.ts';

const TimeOrNull = Type.Union([ResponseTime, Type.Null()]);

const CostOrNone = Type.Optional(
  about(
    Type.Union([Type.String(), Type.Null()]),
    'With `costs=true`: what its events cost together, as far as that is known. null: of none it is. Left out of outcomes.',
    '1.25 USD',
  ),
);

export const Histogram = Type.Object({
  by: about(Type.String(), 'What the counts tell apart.', 'outcome'),
  from: about(TimeOrNull, 'Beginning of the first bucket, at or before the range. null: there is nothing to count.'),
  bucket_ms: about(
    Type.Integer({ minimum: 0 }),
    'Length of a bucket, in ms; in a `zone` it is what its clock shows. 0: there is none.',
    60_000,
  ),
  values: about(Type.Array(Type.String()), 'Values that are told apart, the most frequent first.', [
    'allowed',
    'blocked',
  ]),
  has_other: about(Type.Boolean(), 'true: there are more values, which count in `total` alone.', false),
  buckets: about(
    Type.Array(
      Type.Object({
        at: about(ResponseTime, 'When the bucket begins.'),
        total: about(Type.Integer({ minimum: 0 }), 'Events in it.', 42),
        counts: about(
          Type.Record(Type.String(), Type.Integer({ minimum: 0 })),
          'Of them by value, left out where there are none. By `policy_id` an event counts for each policy that matched.',
          { allowed: 40, blocked: 2 },
        ),
        cost: CostOrNone,
      }),
    ),
    'Every bucket of the range, empty ones too, in the order of time.',
  ),
});
export type Histogram = Type.Static<typeof Histogram>;

export const Facet = Type.Object({
  values: about(
    Type.Array(
      Type.Object({
        value: about(Type.String(), "The value. '' of `model`: events without one.", 'blocked'),
        name: Type.Optional(
          about(
            Type.String(),
            'What the agent or the policy is called. Left out: it has no name any more.',
            'support-bot',
          ),
        ),
        count: about(Type.Integer({ minimum: 0 }), 'Events with it.', 42),
        cost: CostOrNone,
      }),
    ),
    'The most frequent first, at most 50.',
  ),
  other: about(Type.Integer({ minimum: 0 }), 'Events of all further values together.', 0),
});
export type Facet = Type.Static<typeof Facet>;

export const Facets = Type.Object({
  outcome: about(Facet, 'By outcome.'),
  type: about(Facet, 'By type.'),
  agent_id: about(Facet, 'By agent.'),
  model: about(Facet, 'By model.'),
  policy_id: about(Facet, 'By policy that matched: an event counts for each.'),
  total: about(Type.Integer({ minimum: 0 }), 'Events that all filters together leave.', 42),
});
export type Facets = Type.Static<typeof Facets>;
