// The delivery: the record of one notification to one target, with its attempts.
// Invariant: its id is also the `webhook-id`, the same in every attempt. It ends as delivered, failed or cancelled (its
// alert was deleted or became inactive before it was sent).

import Type from 'typebox';
import { CHANNELS, DELIVERY_STATUSES, MAIL_TRANSPORTS, SEVERITIES, TRIGGERS } from './closed-sets.ts';
import { ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

export const DeliveryAttempt = Type.Object({
  at: about(ResponseTime, 'When it was begun.'),
  duration_ms: about(Type.Integer({ minimum: 0 }), 'How long it took, in ms.', 84),
  /** HTTP status, or SMTP reply code; null: no answer. */
  status_code: about(
    Type.Union([Type.Integer(), Type.Null()]),
    'HTTP status, or SMTP reply code. null: there was no answer.',
    204,
  ),
  /** null: it was taken. One word of a closed set. */
  error: about(
    Type.Union([Type.String(), Type.Null()]),
    'What went wrong, one word of a closed set (docs/channels.md). null: it was taken.',
    null,
  ),
  answer: about(
    Type.Union([Type.String(), Type.Null()]),
    'The first 200 characters of what the other side answered, blanks and control characters as single spaces. null: nothing.',
    'no_service',
  ),
});
export type DeliveryAttempt = Type.Static<typeof DeliveryAttempt>;

export const Delivery = Type.Object({
  id: about(Type.String(), 'Id of the delivery, and the `webhook-id` of every attempt.', exampleId('dlv')),
  alert_id: about(Type.String(), 'The alert that told.', exampleId('alr')),
  alert_name: about(Type.String(), 'The name that the alert had then.', 'violations to the team'),
  agent_id: about(
    Type.Union([Type.String(), Type.Null()]),
    'The agent that it tells of. null: none.',
    exampleId('agt'),
  ),
  event_id: about(
    Type.Union([Type.String(), Type.Null()]),
    'The event that it tells of. null: none.',
    exampleId('evt'),
  ),
  trigger: about(Type.Enum([...TRIGGERS]), 'The kind of signal.'),
  severity: about(Type.Enum([...SEVERITIES]), 'Severity of the signal.', 'high'),
  channel: about(Type.Enum([...CHANNELS]), 'How it is told.', 'webhook'),
  /** Scheme and host of a URL (its path may be a secret), or the mail address. */
  target: about(
    Type.String(),
    'Scheme and host of a URL (its path may be a secret), or the mail address.',
    'https://hooks.example.com',
  ),
  status: about(Type.Enum([...DELIVERY_STATUSES]), 'What became of it.', 'delivered'),
  /** Number of signals: 1, or more in a summary. */
  count: about(Type.Integer({ minimum: 1 }), 'Signals that it tells of: 1, or more in a summary.', 1),
  test: about(
    Type.Boolean({ description: 'Asked for by POST /v1/alerts/{id}/test' }),
    'true: asked for by `POST /v1/alerts/{id}/test`.',
    false,
  ),
  transport: about(
    Type.Union([Type.Enum([...MAIL_TRANSPORTS]), Type.Null()]),
    'How the last attempt sent the mail: `smtp`, or `outbox`, a file in the data folder of the process that sent it. null: before the first attempt, and for other channels.',
    null,
  ),
  attempts: about(Type.Array(DeliveryAttempt), 'Its attempts, oldest first; the last 30 at most.'),
  next_attempt_at: about(Type.Union([ResponseTime, Type.Null()]), 'When it is tried next. null: it has ended.', null),
  created_at: about(ResponseTime, 'When it was made.'),
  updated_at: about(ResponseTime, 'When something last came of it.'),
});
export type Delivery = Type.Static<typeof Delivery>;
