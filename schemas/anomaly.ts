// The anomaly: a flagged event (spec 2.7, decisions 7).
import Type from 'typebox';
import { ANOMALY_KINDS, ResponseTime, SEVERITIES } from './common.ts';

export const Anomaly = Type.Object({
  id: Type.String(),
  agent_id: Type.String(),
  event_id: Type.Union([Type.String(), Type.Null()]),
  kind: Type.Enum([...ANOMALY_KINDS]),
  severity: Type.Enum([...SEVERITIES]),
  observed: Type.Union([Type.Number(), Type.Null()]),
  baseline: Type.Union([Type.Number(), Type.Null()]),
  score: Type.Union([Type.Number(), Type.Null()]),
  message: Type.String(),
  timestamp: ResponseTime,
  created_at: ResponseTime,
});
export type Anomaly = Type.Static<typeof Anomaly>;
