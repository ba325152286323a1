// The alert: the user's rule of when to be told, and where (spec 2.4, decisions 7). An alert is the rule, not an occurrence.
import Type from 'typebox';
import { CHANNELS, MAIL_TRANSPORTS, Name, ResponseTime, SEVERITIES, STATUSES, TRIGGERS } from './common.ts';

export const AlertConditions = Type.Object(
  { agent_id: Type.Optional(Type.String()), severity: Type.Optional(Type.Enum([...SEVERITIES])) },
  { additionalProperties: false },
);
const ThrottleSeconds = Type.Integer({ minimum: 0, maximum: 86_400 });

export const AlertCreate = Type.Object(
  {
    name: Name,
    trigger: Type.Enum([...TRIGGERS]),
    channel: Type.Enum([...CHANNELS]),
    target: Type.String({ minLength: 1, maxLength: 2048 }),
    conditions: Type.Optional(AlertConditions),
    agent_id: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    throttle_seconds: Type.Optional(ThrottleSeconds),
    status: Type.Optional(Type.Enum([...STATUSES])),
  },
  { additionalProperties: false },
);
export type AlertCreate = Type.Static<typeof AlertCreate>;

export const AlertPatch = Type.Object(
  {
    name: Type.Optional(Name),
    trigger: Type.Optional(Type.Enum([...TRIGGERS])),
    channel: Type.Optional(Type.Enum([...CHANNELS])),
    target: Type.Optional(Type.String({ minLength: 1, maxLength: 2048 })),
    conditions: Type.Optional(AlertConditions),
    agent_id: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    throttle_seconds: Type.Optional(ThrottleSeconds),
    status: Type.Optional(Type.Enum([...STATUSES])),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type AlertPatch = Type.Static<typeof AlertPatch>;

export const Alert = Type.Object({
  id: Type.String(),
  name: Type.String(),
  trigger: Type.Enum([...TRIGGERS]),
  channel: Type.Enum([...CHANNELS]),
  transport: Type.Union([Type.Enum([...MAIL_TRANSPORTS]), Type.Null()], {
    description:
      'How mails of this alert go: `smtp` by the mail server of GATEHOUSE_SMTP_URL, `outbox` without one: as files in the data folder. Null for other channels',
  }),
  target: Type.String(),
  conditions: AlertConditions,
  /** `null` when the alert applies to all agents; else equal to `conditions.agent_id`. */
  agent_id: Type.Union([Type.String(), Type.Null()]),
  throttle_seconds: ThrottleSeconds,
  status: Type.Enum([...STATUSES]),
  created_at: ResponseTime,
  updated_at: ResponseTime,
});
export type Alert = Type.Static<typeof Alert>;

/** A webhook's signing secret `whsec_…` is shown in the answer that created the alert, and never again. */
export const AlertCreated = Type.Object({ ...Alert.properties, secret: Type.Optional(Type.String()) });
/** As it is kept. How mails go is a setting, and so no part of it. */
export type AlertRecord = Omit<Alert, 'transport'> & { secret?: string };
