// The policy: a rule that blocks, asks, alerts or logs.
// `conditions` is checked in two stages: its outer form here, its meaning by the policy engine when it compiles it.

import Type from 'typebox';
import { POLICY_ACTIONS, POLICY_MODES, POLICY_TYPES, REVISION_ACTIONS, SEVERITIES, STATUSES } from './closed-sets.ts';
import { Description, FreeObject, Name, RequestTime, ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

const Actions = Type.Array(Type.Enum([...POLICY_ACTIONS]), { minItems: 1, maxItems: 3, uniqueItems: true });
/** The owner of declared policies. */
export const Owner = Type.String({ minLength: 1, maxLength: 100 });
/** An array of 1-3 different actions; a single string is taken as an array of one. */
const ActionsIn = Type.Union([Actions, Type.Enum([...POLICY_ACTIONS])]);
const Conditions = FreeObject;

export const PolicyCreate = Type.Object(
  {
    name: about(Name, '1 to 200 characters; unique among the policies of the account.', 'no large payments'),
    type: about(Type.Enum([...POLICY_TYPES]), 'The kind of policy.'),
    agent_id: Type.Optional(
      about(
        Type.Union([Type.String(), Type.Null()]),
        'The one agent whose events it judges. null or left out: all agents.',
      ),
    ),
    conditions: about(Conditions, 'When the policy matches, in the form of its type.'),
    actions: about(ActionsIn, 'What a match does: 1 to 3 different actions, or one by itself.', ['block', 'alert']),
    severity: Type.Optional(
      about(
        Type.Enum([...SEVERITIES]),
        'How grave a match is. Left out: not said; signals then have `high` for `block`, `medium` for `alert`.',
        'high',
      ),
    ),
    description: Type.Optional(
      about(
        Description,
        'What the policy is for, and what an agent that it stops is told: why, and what to do instead. At most 2,000 characters. Left out: there is none.',
      ),
    ),
    status: Type.Optional(
      about(Type.Enum([...STATUSES]), '`inactive`: events are not judged by it. Left out: `active`.'),
    ),
    starts_at: Type.Optional(
      about(
        Type.Union([RequestTime, Type.Null()]),
        'From when it is in force; events are not judged by it before. Not for shadows, nor for the type `sequence`. null, left out, or a time that is over: at once.',
        null,
      ),
    ),
    mode: Type.Optional(
      about(
        Type.Enum([...POLICY_MODES]),
        '`shadow`: events are judged by it for 14 days, and nothing comes of it but what `policy_result.shadow` says. Left out: `enforce`.',
        'enforce',
      ),
    ),
    shadow_of: Type.Optional(
      about(
        Type.String(),
        'With `mode: shadow`: the policy that it is a changed copy of, of the same type; `agent_id` is that of the policy. Left out: of none.',
        exampleId('pol'),
      ),
    ),
  },
  { additionalProperties: false },
);
export type PolicyCreate = Type.Static<typeof PolicyCreate>;

/** `type` and `agent_id` are what a policy is; another type or scope is another policy. */
export const PolicyPatch = Type.Object(
  {
    name: Type.Optional(about(Name, 'The new name, unique among the policies. Left out: as it is.')),
    conditions: Type.Optional(about(Conditions, 'The new conditions, whole. Left out: as it is.')),
    actions: Type.Optional(
      about(ActionsIn, 'The new actions: 1 to 3 different ones, or one by itself. Left out: as they are.', ['log']),
    ),
    severity: Type.Optional(
      about(Type.Union([Type.Enum([...SEVERITIES]), Type.Null()]), 'The new severity; null: none. Left out: as it is.'),
    ),
    description: Type.Optional(about(Description, 'The new description. Left out: as it is.')),
    status: Type.Optional(
      about(Type.Enum([...STATUSES]), '`inactive`: events are not judged by it. Left out: as it is.'),
    ),
    starts_at: Type.Optional(
      about(
        Type.Union([RequestTime, Type.Null()]),
        'From when it is in force; events are not judged by it before. null, or a time that is over: at once. Left out: as it is.',
        null,
      ),
    ),
    owner: Type.Optional(
      about(
        Type.Union([Owner, Type.Null()]),
        'The owner by whom it is declared from now on; null: none, it is no longer declared. Left out: as it is.',
        'platform',
      ),
    ),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type PolicyPatch = Type.Static<typeof PolicyPatch>;

export const PolicyActivity = Type.Object({
  events_24h: about(Type.Integer({ minimum: 0 }), 'Events of the last 24 hours that it matched.', 42),
});

export const Policy = Type.Object({
  id: about(Type.String(), 'Id of the policy.', exampleId('pol')),
  revision: about(
    Type.Integer({ minimum: 1 }),
    'From 1, raised by each change. The `ETag` of the policy, and what a match names.',
    3,
  ),
  name: about(Type.String(), 'Unique among the policies of the account.', 'no large payments'),
  type: about(Type.Enum([...POLICY_TYPES]), 'The kind of policy.'),
  agent_id: about(
    Type.Union([Type.String(), Type.Null()]),
    'The one agent whose events it judges. null: all agents.',
    null,
  ),
  conditions: about(Conditions, 'When the policy matches, in the form of its type.'),
  actions: about(Actions, 'What a match does.', ['block', 'alert']),
  severity: about(
    Type.Union([Type.Enum([...SEVERITIES]), Type.Null()]),
    'How grave a match is. null: signals have `high` for `block`, `medium` for `alert`.',
    'high',
  ),
  description: Type.Optional(about(Type.String(), 'What the policy is for. Left out: there is none.')),
  status: about(Type.Enum([...STATUSES]), '`inactive`: events are not judged by it.'),
  mode: about(
    Type.Enum([...POLICY_MODES]),
    '`shadow`: it is judged beside the policies in force, and nothing comes of it but what `policy_result.shadow` says.',
    'enforce',
  ),
  shadow_of: Type.Optional(
    about(
      Type.String(),
      'Of a shadow: the policy that it is a changed copy of. It may have been deleted since. Left out: of none.',
      exampleId('pol'),
    ),
  ),
  shadow_of_revision: Type.Optional(
    about(
      Type.Integer({ minimum: 1 }),
      'Of a shadow: the revision at which the policy that it copies was when the shadow was made. Left out: it copies none.',
      3,
    ),
  ),
  expires_at: Type.Optional(
    about(ResponseTime, 'Of a shadow: when it is judged no longer, and made inactive. Left out of other policies.'),
  ),
  starts_at: Type.Optional(
    about(ResponseTime, 'From when it is in force. Left out: since it was made, or since it was last switched on.'),
  ),
  owner: Type.Optional(
    about(Type.String(), 'The owner by whom it is declared. Left out: it is not declared.', 'platform'),
  ),
  applied_revision: Type.Optional(
    about(
      Type.Integer({ minimum: 1 }),
      'The revision that the last declaration left it at; where it is not the present one, it was changed by hand since. Left out: it was never declared.',
      3,
    ),
  ),
  reset_at: Type.Optional(
    about(ResponseTime, 'Of a budget: when it was last reset; what was used before does not count. Left out: never.'),
  ),
  created_at: about(ResponseTime, 'When it was made.'),
  updated_at: about(ResponseTime, 'When it was last changed.'),
  activity: Type.Optional(
    about(PolicyActivity, 'What it did in the last day. Left out unless a list of policies is asked for it.'),
  ),
});
export type Policy = Type.Static<typeof Policy>;

/** How two texts of a policy differ in one place. */
export const PolicyDifference = Type.Object({
  path: about(Type.String(), 'JSON Pointer into the policy.', '/conditions/payload.amount/gt'),
  before: Type.Optional(about(Type.Unknown(), 'What stood there. Left out: nothing.', 1000)),
  after: Type.Optional(about(Type.Unknown(), 'What stands there from then on. Left out: nothing.', 500)),
});
export type PolicyDifference = Type.Static<typeof PolicyDifference>;

export const PolicyRevision = Type.Object({
  policy_id: about(Type.String(), 'The policy.', exampleId('pol')),
  revision: about(Type.Integer({ minimum: 1 }), 'Its number. A deletion has one, too: the last.', 3),
  action: about(Type.Enum([...REVISION_ACTIONS]), 'What was done to the policy.', 'updated'),
  actor: about(Type.String(), 'Who did it: `key:<key_id>`, or `system`.', `key:${exampleId('key')}`),
  created_at: about(ResponseTime, 'When it was done.'),
  restored_from: about(
    Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
    'The revision whose text was put back. null: none was.',
    null,
  ),
  differences: about(
    Type.Array(PolicyDifference),
    'What differs from the revision before. Empty: there is none before, or it is not known.',
  ),
  policy: about(Type.Union([Policy, Type.Null()]), 'The policy as it was from then on. null: deleted.'),
});
export type PolicyRevision = Type.Static<typeof PolicyRevision>;
