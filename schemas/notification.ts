// What a webhook is sent (docs/channels.md): one form for each trigger, distinguished by `type`.
// The API's description shows these forms under `webhooks`; pipelines/alert/channels/webhook.ts makes the bodies, and
// tests hold what is really sent against them.

import Type, { type TSchema } from 'typebox';
import { ANOMALY_KINDS, EVENT_TYPES, OUTCOMES, POLICY_TYPES, SEVERITIES, type Trigger } from './closed-sets.ts';
import { ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

export const NotifiedAlert = Type.Object({
  id: about(Type.String(), 'Id of the alert.', exampleId('alr')),
  name: about(Type.String(), 'Its name, cut at 200 characters.', 'violations to the team'),
});

export const NotifiedPolicy = Type.Object({
  id: about(Type.String(), 'Id of the policy.', exampleId('pol')),
  name: about(Type.String(), 'Its name, cut at 200 characters.', 'no secrets'),
  type: about(Type.Enum([...POLICY_TYPES]), 'Its type.', 'data_filter'),
  severity: about(Type.Union([Type.Enum([...SEVERITIES]), Type.Null()]), 'Its severity. null: it has none.', 'high'),
});

export const NotifiedEvent = Type.Object({
  id: about(Type.String(), 'Id of the event. Its payload is never sent.', exampleId('evt')),
  type: Type.Optional(
    about(Type.Enum([...EVENT_TYPES]), 'What kind of event it is. Left out where an approval expired.', 'tool_call'),
  ),
  timestamp: Type.Optional(about(ResponseTime, 'When it happened, by the caller. Left out where an approval expired.')),
  outcome: Type.Optional(
    about(
      Type.Enum([...OUTCOMES]),
      'What was made of it. `pending`: it waits, see `approval`. Left out where an anomaly was found.',
      'pending',
    ),
  ),
  trace_id: Type.Optional(about(Type.String(), 'Its trace, cut at 300 characters. Left out: none.', 'conversation-1')),
});

export const NotifiedApproval = Type.Object({
  id: about(Type.String(), 'Id of the approval: decide by `POST /v1/approvals/{id}`.', exampleId('apr')),
  expires_at: about(ResponseTime, 'When the time is up.'),
});

const NumberOrNull = Type.Union([Type.Number(), Type.Null()]);

export const NotifiedAnomaly = Type.Object({
  id: about(Type.String(), 'Id of the anomaly.', exampleId('ano')),
  kind: about(Type.Enum([...ANOMALY_KINDS]), 'What was unusual.'),
  observed: about(NumberOrNull, 'What was seen. null for `blocked_event`.', 9200),
  baseline: about(NumberOrNull, 'What is usual, in the same unit. null for `blocked_event`.', 410),
  score: about(NumberOrNull, 'How far the two are apart. null for `blocked_event`.', 7.3),
});

export const NotifiedSilence = Type.Object({
  since: about(ResponseTime, 'When the agent was last heard.'),
  heartbeat_seconds: about(Type.Integer(), 'Seconds for which it may be silent.', 300),
});

const signal = {
  id: about(
    Type.String(),
    'Names the occurrence; the same in every notification of it.',
    `policy_violation/${exampleId('evt')}`,
  ),
  severity: about(Type.Enum([...SEVERITIES]), 'How grave it is.', 'high'),
  agent_id: about(
    Type.Union([Type.String(), Type.Null()]),
    'The agent that it is about. null: none, or one that was deleted since.',
    exampleId('agt'),
  ),
  agent_name: about(
    Type.Union([Type.String(), Type.Null()]),
    'Its name, cut at 200 characters. null: as for `agent_id`.',
    'support-bot',
  ),
  timestamp: about(ResponseTime, 'When it happened, by our clock.'),
  message: about(
    Type.String(),
    'One sentence for people, cut at 1,000 characters. It may quote names that callers chose.',
    'Policy "no secrets" blocked an event (tool_call).',
  ),
};

const policies = Type.Optional(
  about(
    Type.Array(NotifiedPolicy),
    'The policies that matched, at most 20. Left out in a test, and where the agent was deleted since.',
  ),
);
const BY_TRIGGER = {
  policy_violation: {
    policies,
    reason: Type.Optional(
      about(
        Type.Literal('approval_expired'),
        '`approval_expired`: there was no decision in time. Left out: it was raised for the event itself.',
      ),
    ),
  },
  anomaly_detected: {
    policies: Type.Optional(about(Type.Array(NotifiedPolicy), 'For `blocked_event`: the policies that matched.')),
    anomaly: Type.Optional(about(NotifiedAnomaly, 'The anomaly. Left out in a test.')),
  },
  agent_down: {
    silence: Type.Optional(about(NotifiedSilence, 'Since when it has been silent. Left out in a test.')),
  },
  rate_limit_exceeded: {
    policies: Type.Optional(about(Type.Array(NotifiedPolicy), 'The rate limit, if it is one of a policy.')),
    api_key_id: Type.Optional(
      about(Type.String(), 'The key that is over its request limit, if it is that.', exampleId('key')),
    ),
  },
  budget_warning: {
    policies: Type.Optional(about(Type.Array(NotifiedPolicy), 'The budget.')),
    share: Type.Optional(about(Type.Number(), 'The share of its limit that is spent. Left out in a test.', 0.8)),
  },
  budget_exhausted: { policies: Type.Optional(about(Type.Array(NotifiedPolicy), 'The budget.')) },
  check_failing: {
    check: Type.Optional(
      about(
        Type.Object({
          id: about(Type.String(), 'Its id.', exampleId('chk')),
          name: about(Type.String(), 'Its name.', 'guard'),
        }),
        'The check. Left out in a test.',
      ),
    ),
  },
} satisfies Record<Trigger, Record<string, TSchema>>;

function notification<T extends Trigger, S extends (typeof BY_TRIGGER)[T]>(trigger: T, more: S, when: string) {
  const Signal = Type.Object({ ...signal, ...more }, { description: 'What happened; in a summary the newest.' });
  return Type.Object(
    {
      type: Type.Literal(trigger, { description: 'The kind of signal.' }),
      timestamp: about(ResponseTime, 'When the notification was made; the same in every attempt.'),
      data: Type.Object(
        {
          alert: about(NotifiedAlert, 'The alert that tells.'),
          signal: Signal,
          event: Type.Optional(about(NotifiedEvent, 'The event that it follows from. Left out: none.')),
          approval: Type.Optional(
            about(NotifiedApproval, 'What the event waits for, or waited for. Left out: nothing.'),
          ),
          url: Type.Optional(
            about(
              Type.String(),
              'Where to look at it: the approval, the event or the agent. Left out where the service does not know its public address.',
              `https://gatehouse.example.com/ui/approvals?id=${exampleId('apr')}`,
            ),
          ),
          count: about(Type.Integer({ minimum: 1 }), 'Signals that this tells of: 1, or more in a summary.', 1),
          test: Type.Optional(about(Type.Boolean(), 'true: a test notification; nothing has happened. Left out else.')),
        },
        { description: 'What is told.' },
      ),
    },
    { description: when },
  );
}

export const WEBHOOK_NOTIFICATIONS = {
  policy_violation: notification(
    'policy_violation',
    BY_TRIGGER.policy_violation,
    'A policy with `block` or `alert` among its actions matched an event.',
  ),
  anomaly_detected: notification('anomaly_detected', BY_TRIGGER.anomaly_detected, 'An anomaly was flagged.'),
  agent_down: notification('agent_down', BY_TRIGGER.agent_down, 'An agent fell silent.'),
  rate_limit_exceeded: notification(
    'rate_limit_exceeded',
    BY_TRIGGER.rate_limit_exceeded,
    'A rate limit of a policy, or the request limit of a key, is over.',
  ),
  budget_warning: notification(
    'budget_warning',
    BY_TRIGGER.budget_warning,
    'A share of a budget that the policy names is spent.',
  ),
  budget_exhausted: notification('budget_exhausted', BY_TRIGGER.budget_exhausted, 'A call did not fit into a budget.'),
  check_failing: notification(
    'check_failing',
    BY_TRIGGER.check_failing,
    'A check failed so often that it is not asked for now.',
  ),
};
