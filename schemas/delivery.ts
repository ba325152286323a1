// The delivery: the record of one notification to one target, with its attempts (decisions 7).
// Invariant: its id is also the `webhook-id`, the same in every attempt. It ends as delivered, failed or cancelled (its alert
// was deleted or became inactive before it was sent).
import Type from 'typebox';
import { CHANNELS, MAIL_TRANSPORTS, ResponseTime, SEVERITIES, TRIGGERS } from './common.ts';

export const DELIVERY_STATUSES = ['pending', 'delivered', 'failed', 'cancelled'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

export const DeliveryAttempt = Type.Object({
  at: ResponseTime,
  duration_ms: Type.Integer({ minimum: 0 }),
  /** HTTP status, or SMTP reply code; null: no answer. */
  status_code: Type.Union([Type.Integer(), Type.Null()]),
  /** null: it was taken. One word of a closed set, never the other side's text. */
  error: Type.Union([Type.String(), Type.Null()]),
});
export type DeliveryAttempt = Type.Static<typeof DeliveryAttempt>;

export const Delivery = Type.Object({
  id: Type.String(),
  alert_id: Type.String(),
  alert_name: Type.String(),
  agent_id: Type.Union([Type.String(), Type.Null()]),
  event_id: Type.Union([Type.String(), Type.Null()]),
  trigger: Type.Enum([...TRIGGERS]),
  severity: Type.Enum([...SEVERITIES]),
  channel: Type.Enum([...CHANNELS]),
  /** Scheme and host of a URL (its path may be a secret), or the mail address. */
  target: Type.String(),
  status: Type.Enum([...DELIVERY_STATUSES]),
  /** Signals that it tells of: 1, or more in a summary. */
  count: Type.Integer({ minimum: 1 }),
  test: Type.Boolean({ description: 'Asked for by POST /v1/alerts/{id}/test' }),
  transport: Type.Union([Type.Enum([...MAIL_TRANSPORTS]), Type.Null()], {
    description:
      'How the last attempt sent the mail: `smtp`, or `outbox`, a file in the data folder of the process that sent it. Null before the first attempt, and for other channels',
  }),
  attempts: Type.Array(DeliveryAttempt),
  next_attempt_at: Type.Union([ResponseTime, Type.Null()]),
  created_at: ResponseTime,
  updated_at: ResponseTime,
});
export type Delivery = Type.Static<typeof Delivery>;
