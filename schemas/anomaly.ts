// The anomaly: an event that was flagged, or the silence of an agent, as it is listed.

import Type from 'typebox';
import { ANOMALY_KINDS, SEVERITIES } from './closed-sets.ts';
import { ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';
import { SummaryOfEvent } from './event.ts';

export const Anomaly = Type.Object({
  id: about(Type.String(), 'Id of the anomaly.', exampleId('ano')),
  agent_id: about(Type.String(), 'The agent that it was seen at.', exampleId('agt')),
  event_id: about(
    Type.Union([Type.String(), Type.Null()]),
    "The event that was flagged. null: a rate (`error_rate`, `volume_spike`), which is not one event's doing.",
    exampleId('evt'),
  ),
  policy_id: about(
    Type.Union([Type.String(), Type.Null()]),
    'Of a `blocked_event`: the policy that blocked it. null: none, or flagged before this was kept.',
    exampleId('pol'),
  ),
  kind: about(Type.Enum([...ANOMALY_KINDS]), 'What was unusual.'),
  severity: about(
    Type.Enum([...SEVERITIES]),
    'How far from usual; for `blocked_event` that of the policy, `high` where it has none.',
    'high',
  ),
  observed: about(
    Type.Union([Type.Number(), Type.Null()]),
    'What was seen: tokens, a share of errors from 0 to 1, or events in 10 s. null for `blocked_event`.',
    9200,
  ),
  baseline: about(
    Type.Union([Type.Number(), Type.Null()]),
    'What is usual for the agent, in the same unit. null for `blocked_event`.',
    410,
  ),
  score: about(
    Type.Union([Type.Number(), Type.Null()]),
    'How far the two are apart, by the measure of the kind; larger is further. null for `blocked_event`.',
    7.3,
  ),
  message: about(
    Type.String(),
    'One sentence for people.',
    'A completion used 9,200 tokens; this agent usually uses about 410.',
  ),
  timestamp: about(ResponseTime, 'When it happened: the time of the event, or when the rate was seen.'),
  created_at: about(ResponseTime, 'When it was flagged.'),
});
export type Anomaly = Type.Static<typeof Anomaly>;

export const ListedAnomaly = Type.Object({ ...Anomaly.properties, summary: SummaryOfEvent });

const NumberOrNull = Type.Union([Type.Number(), Type.Null()]);

export const SeriesPoint = Type.Object({
  at: about(ResponseTime, 'When the completion arrived, or when the window begins.'),
  value: about(NumberOrNull, 'Tokens, share of errors, or events. null: no events in the window, so no share.', 412),
  event_id: Type.Optional(about(Type.String(), 'The completion. Left out: it is a window.', exampleId('evt'))),
});
export type SeriesPoint = Type.Static<typeof SeriesPoint>;

export const AnomalySeries = Type.Object({
  anomaly: about(Anomaly, 'The anomaly.'),
  bucket_ms: about(
    Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
    'Length of a window, in ms. null: the points are single completions, or there are none.',
    10_000,
  ),
  baseline: about(NumberOrNull, 'What was usual when it was flagged. null for `blocked_event`.', 410),
  threshold: about(
    NumberOrNull,
    'Nothing below this is ever flagged: twice the usual, and 50 events in a window of `volume_spike`. null for `blocked_event`.',
    820,
  ),
  points: about(Type.Array(SeriesPoint), 'In the order of time. Empty for `blocked_event`.'),
});
