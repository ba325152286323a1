// Declared policies (POST /v1/policies/apply): what an owner declares, and the plan of what that changes.

import Type from 'typebox';
import { PLANNED_ACTIONS } from './closed-sets.ts';
import { about, exampleId } from './described.ts';
import { ErrorInfo } from './error.ts';
import { Owner, PolicyCreate, PolicyDifference } from './policy.ts';

/** As many as can be active. */
const DECLARED_POLICIES_MAX = 200;

const Hash = Type.String({ minLength: 1, maxLength: 100 });
const HASH_EXAMPLE = '4Jq0tVfVYy3Zb1u0y5mXo0Kx2nq7c3rJ8w9s1d6h2aE';

export const PolicyDeclaration = Type.Object(
  {
    owner: about(Owner, 'Who declares them. Policies of other owners are never touched.', 'platform'),
    policies: about(
      Type.Array(PolicyCreate, { maxItems: DECLARED_POLICIES_MAX }),
      `All policies of this owner, at most ${DECLARED_POLICIES_MAX}; one of the owner that is not among them is deleted. They are told apart by their names; one of the same text under a new name is renamed.`,
    ),
    dry_run: Type.Optional(about(Type.Boolean(), 'Only plan. Left out: apply.', true)),
    hash: Type.Optional(
      about(
        Hash,
        'Of the plan that is to be carried out. Needed unless `dry_run` is true; not heeded then.',
        HASH_EXAMPLE,
      ),
    ),
  },
  { additionalProperties: false },
);
export type PolicyDeclaration = Type.Static<typeof PolicyDeclaration>;

export const PlannedPolicy = Type.Object({
  action: about(
    Type.Enum([...PLANNED_ACTIONS]),
    'What is to be done. `replace`: `type` or `agent_id` differ, so it is deleted and made again, under another id.',
    'update',
  ),
  name: about(Type.String(), 'Name of the policy.', 'no large payments'),
  policy_id: about(
    Type.Union([Type.String(), Type.Null()]),
    'The policy as it is. null: there is none.',
    exampleId('pol'),
  ),
  revision: about(Type.Union([Type.Integer(), Type.Null()]), 'The revision that it is at. null: there is none.', 3),
  drifted: about(Type.Boolean(), 'It was declared before and changed by hand since, and the plan undoes that.', false),
  hints: about(
    Type.Array(Type.String()),
    'What else a person should know of it, in sentences: that it is renamed, what is lost with it, that it was deleted by hand. They are not part of the hash.',
    ['renamed from "large payments": what it has counted and what waits for it stays'],
  ),
  differences: about(Type.Array(PolicyDifference), 'Between the policy as it is and as it is declared.'),
});
export type PlannedPolicy = Type.Static<typeof PlannedPolicy>;

export const PolicyPlan = Type.Object({
  owner: about(Type.String(), 'Whose policies they are.', 'platform'),
  hash: about(Type.String(), 'Of this plan against this state: what is sent to carry it out.', HASH_EXAMPLE),
  applied: about(Type.Boolean(), 'It was carried out.', false),
  policies: about(Type.Array(PlannedPolicy), 'Each declared policy in its order, then those that are to be deleted.'),
});
export type PolicyPlan = Type.Static<typeof PolicyPlan>;

/** The answer in place of carrying out a plan that is not the present one. */
export const PolicyPlanConflict = Type.Object({
  error: about(ErrorInfo, 'That the plan is another one now.'),
  plan: about(PolicyPlan, 'The plan against the present state. Nothing was changed.'),
});
