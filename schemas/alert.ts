// The alert: the user's rule of when to be notified, and where. An alert is the rule, not an occurrence.

import Type from 'typebox';
import { CHANNELS, MAIL_TRANSPORTS, SEVERITIES, STATUSES, TRIGGERS } from './closed-sets.ts';
import { Name, ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

export const AlertConditions = Type.Object(
  {
    agent_id: Type.Optional(
      about(Type.String(), 'Only signals about this agent. Left out: about any agent, or none.', exampleId('agt')),
    ),
    severity: Type.Optional(
      about(Type.Enum([...SEVERITIES]), 'Only signals of this severity or a higher one. Left out: all.', 'high'),
    ),
  },
  { additionalProperties: false },
);
const ThrottleSeconds = Type.Integer({ minimum: 0, maximum: 86_400 });

export const AlertCreate = Type.Object(
  {
    name: about(Name, '1 to 200 characters; unique among the alerts of the account.', 'violations to the team'),
    trigger: about(Type.Enum([...TRIGGERS]), 'The kind of signal to be told of.'),
    channel: about(Type.Enum([...CHANNELS]), 'How to be told.', 'webhook'),
    target: about(
      Type.String({ minLength: 1, maxLength: 2048 }),
      'Where the channel leads: an https URL for `webhook` and `chat_app`, one plain address for `email`. It must lead to the public Internet.',
      'https://hooks.example.com/gatehouse',
    ),
    conditions: Type.Optional(
      about(AlertConditions, 'Which of the signals. Left out: all of this kind.', { severity: 'high' }),
    ),
    agent_id: Type.Optional(
      about(
        Type.Union([Type.String(), Type.Null()]),
        'The same as `conditions.agent_id`, which counts where both are given. null or left out: all agents.',
      ),
    ),
    throttle_seconds: Type.Optional(
      about(
        ThrottleSeconds,
        'Seconds, 0 to 86,400. Inside them further signals are counted and told in one summary. Left out: 0 for `webhook`, 60 for `email` and `chat_app`.',
        60,
      ),
    ),
    status: Type.Optional(about(Type.Enum([...STATUSES]), '`inactive`: it sends nothing. Left out: `active`.')),
  },
  { additionalProperties: false },
);
export type AlertCreate = Type.Static<typeof AlertCreate>;

export const AlertPatch = Type.Object(
  {
    name: Type.Optional(about(Name, 'The new name, unique among the alerts. Left out: as it is.')),
    trigger: Type.Optional(about(Type.Enum([...TRIGGERS]), 'The new kind of signal. Left out: as it is.')),
    channel: Type.Optional(
      about(Type.Enum([...CHANNELS]), 'The new channel; `target` must fit it. Left out: as it is.'),
    ),
    target: Type.Optional(
      about(
        Type.String({ minLength: 1, maxLength: 2048 }),
        'The new target, of the form that the channel asks for. Left out: as it is.',
      ),
    ),
    conditions: Type.Optional(about(AlertConditions, 'The new conditions, whole. Left out: as it is.')),
    agent_id: Type.Optional(
      about(Type.Union([Type.String(), Type.Null()]), 'The new agent; null: all agents. Left out: as it is.'),
    ),
    throttle_seconds: Type.Optional(about(ThrottleSeconds, 'Seconds, 0 to 86,400. Left out: as it is.')),
    status: Type.Optional(about(Type.Enum([...STATUSES]), '`inactive`: it sends nothing. Left out: as it is.')),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type AlertPatch = Type.Static<typeof AlertPatch>;

export const Alert = Type.Object({
  id: about(Type.String(), 'Id of the alert.', exampleId('alr')),
  name: about(Type.String(), 'Unique among the alerts of the account.', 'violations to the team'),
  trigger: about(Type.Enum([...TRIGGERS]), 'The kind of signal that it tells of.'),
  channel: about(Type.Enum([...CHANNELS]), 'How it tells.', 'webhook'),
  transport: about(
    Type.Union([Type.Enum([...MAIL_TRANSPORTS]), Type.Null()]),
    'How mails of this alert go: `smtp` by the mail server of GATEHOUSE_SMTP_URL, `outbox` without one: as files in the data folder. null: the channel is another one.',
    null,
  ),
  target: about(Type.String(), 'Where the channel leads.', 'https://hooks.example.com/gatehouse'),
  conditions: about(AlertConditions, 'Which of the signals; without a key: all of this kind.', { severity: 'high' }),
  /** `null` when the alert applies to all agents; else equal to `conditions.agent_id`. */
  agent_id: about(
    Type.Union([Type.String(), Type.Null()]),
    'The agent whose signals it tells of, equal to `conditions.agent_id`. null: all agents.',
    null,
  ),
  throttle_seconds: about(
    ThrottleSeconds,
    'Seconds in which further signals are counted and told in one summary. 0: each is told at once.',
    0,
  ),
  status: about(Type.Enum([...STATUSES]), '`inactive`: it sends nothing.'),
  created_at: about(ResponseTime, 'When it was made.'),
  updated_at: about(ResponseTime, 'When it was last changed.'),
});
export type Alert = Type.Static<typeof Alert>;

/** A webhook's signing secret `whsec_…` is shown in the answer that created the alert, and never again. */
export const AlertCreated = Type.Object({
  ...Alert.properties,
  secret: Type.Optional(
    about(
      Type.String(),
      'Signs the notifications of a webhook: `whsec_` and Base64. It is in this answer and nowhere else; `rotate-secret` makes another. Left out: the channel is another one.',
      'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    ),
  ),
});
/** As it is kept. How mails go is a setting, and so no part of it. */
export type AlertRecord = Omit<Alert, 'transport'> & {
  secret?: string;
  /** Secrets that were replaced, the newest first, each until when it still signs (epoch ms). */
  retired?: { secret: string; until: number }[];
};
export type AlertCreated = Type.Static<typeof AlertCreated>;
