// The anomaly: a flagged event (spec 2.7, decisions 7).
import Type from 'typebox';
import { ANOMALY_KINDS, ResponseTime, SEVERITIES } from './common.ts';
import { about, exampleId } from './described.ts';

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
