// The policy: a rule that blocks, asks, alerts or logs (spec 2.5, decisions 6).
// `conditions` is checked in two stages: its outer form here, its meaning by the policy engine when it compiles it.
import Type from 'typebox';
import {
  Description,
  FreeObject,
  Name,
  POLICY_ACTIONS,
  POLICY_TYPES,
  ResponseTime,
  SEVERITIES,
  STATUSES,
} from './common.ts';

const Actions = Type.Array(Type.Enum([...POLICY_ACTIONS]), { minItems: 1, maxItems: 3, uniqueItems: true });
/** An array of 1-3 different actions; a single string is taken as an array of one. */
const ActionsIn = Type.Union([Actions, Type.Enum([...POLICY_ACTIONS])]);
const Conditions = FreeObject;

export const PolicyCreate = Type.Object(
  {
    name: Name,
    type: Type.Enum([...POLICY_TYPES]),
    agent_id: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    conditions: Conditions,
    actions: ActionsIn,
    severity: Type.Optional(Type.Enum([...SEVERITIES])),
    description: Type.Optional(Description),
    status: Type.Optional(Type.Enum([...STATUSES])),
  },
  { additionalProperties: false },
);
export type PolicyCreate = Type.Static<typeof PolicyCreate>;

/** `type` and `agent_id` are what a policy is; another type or scope is another policy. */
export const PolicyPatch = Type.Object(
  {
    name: Type.Optional(Name),
    conditions: Type.Optional(Conditions),
    actions: Type.Optional(ActionsIn),
    severity: Type.Optional(Type.Union([Type.Enum([...SEVERITIES]), Type.Null()])),
    description: Type.Optional(Description),
    status: Type.Optional(Type.Enum([...STATUSES])),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type PolicyPatch = Type.Static<typeof PolicyPatch>;

export const Policy = Type.Object({
  id: Type.String(),
  name: Type.String(),
  type: Type.Enum([...POLICY_TYPES]),
  agent_id: Type.Union([Type.String(), Type.Null()]),
  conditions: Conditions,
  actions: Actions,
  severity: Type.Union([Type.Enum([...SEVERITIES]), Type.Null()]),
  description: Type.Optional(Type.String()),
  status: Type.Enum([...STATUSES]),
  created_at: ResponseTime,
  updated_at: ResponseTime,
});
export type Policy = Type.Static<typeof Policy>;
