// Policies and matches as unions by type, for the API's description: each type has its own `conditions` and `detail`.
// Made from the plain forms in policy.ts and event.ts, which validate; a field that is added there is a field of each
// type here. Why two forms: see policy-conditions.ts.

import Type, { type TProperties, type TSchema } from 'typebox';
import { POLICY_TYPES, type PolicyType } from './closed-sets.ts';

import { PolicyMatch } from './event.ts';
import {
  BudgetDetail,
  ConditionsDetail,
  DataFilterDetail,
  ExternalCheckDetail,
  RateLimitDetail,
  SequenceDetail,
} from './match-detail.ts';
import { Policy, PolicyCreate, PolicyPatch } from './policy.ts';
import { CONDITIONS } from './policy-conditions.ts';
import { component } from './schema-keywords.ts';

const NAMES: Record<PolicyType, string> = {
  block_action: 'BlockAction',
  rate_limit: 'RateLimit',
  data_filter: 'DataFilter',
  require_approval: 'RequireApproval',
  sequence: 'Sequence',
  external_check: 'ExternalCheck',
  budget: 'Budget',
};

const DETAILS: Record<PolicyType, { name: string; schema: TSchema }> = {
  block_action: { name: 'ConditionsDetail', schema: ConditionsDetail },
  rate_limit: { name: 'RateLimitDetail', schema: RateLimitDetail },
  data_filter: { name: 'DataFilterDetail', schema: DataFilterDetail },
  require_approval: { name: 'ConditionsDetail', schema: ConditionsDetail },
  sequence: { name: 'SequenceDetail', schema: SequenceDetail },
  external_check: { name: 'ExternalCheckDetail', schema: ExternalCheckDetail },
  budget: { name: 'BudgetDetail', schema: BudgetDetail },
};

/** name -> schema, of everything here that stands among the components of the description. */
export const POLICY_COMPONENTS: Record<string, TSchema> = Object.fromEntries(
  POLICY_TYPES.flatMap((type) => {
    const name = NAMES[type];
    const conditions = {
      conditions: component(CONDITIONS[type].name, 'When the policy matches, in the form of its type.'),
    };
    const detail = { detail: component(DETAILS[type].name, 'What the match says beyond the policy itself.') };
    return [
      [CONDITIONS[type].name, CONDITIONS[type].schema],
      [`${name}Policy`, ofType(Policy, type, conditions, `A policy of the type \`${type}\`.`)],
      [`${name}PolicyCreate`, ofType(PolicyCreate, type, conditions, `A policy of the type \`${type}\` to create.`)],
      [DETAILS[type].name, DETAILS[type].schema],
      [`${name}Match`, ofType(PolicyMatch, type, detail, `A match of a policy of the type \`${type}\`.`)],
    ];
  }),
);

export const PolicyByType = union('Policy', Policy);
export const PolicyCreateByType = union('PolicyCreate', PolicyCreate);
export const PolicyMatchByType = union('Match', PolicyMatch);

/** A change names no type: `conditions` are those of the policy's own. */
export const PolicyPatchByType = Type.Object(
  {
    ...PolicyPatch.properties,
    conditions: Type.Optional(
      Type.Union(
        POLICY_TYPES.map((type) => component(CONDITIONS[type].name)),
        {
          description:
            'The new conditions, whole, of the form that the type of the policy asks for. Left out: as they are.',
        },
      ),
    ),
  },
  annotated(PolicyPatch),
);

type ObjectSchema = TSchema & { properties: TProperties };

/** Description and bounds of an object, without its members. */
function annotated(schema: ObjectSchema): Record<string, unknown> {
  const {
    properties: _p,
    required: _r,
    type: _t,
    examples: _e,
    ...others
  } = schema as ObjectSchema & Record<string, unknown>;
  return others;
}

function ofType(schema: ObjectSchema, type: PolicyType, more: TProperties, description: string): TSchema {
  const own = { type: Type.Literal(type, { description: `\`${type}\`: which form the other fields have.` }), ...more };
  // In the order of the plain form.
  return Type.Object({ ...schema.properties, ...own }, { ...annotated(schema), description });
}

function union(suffix: string, plain: ObjectSchema): TSchema {
  const to = (type: PolicyType) => `#/components/schemas/${NAMES[type]}${suffix}`;
  const { description, examples } = plain as ObjectSchema & { description?: string; examples?: unknown[] };
  return Type.Unsafe({
    oneOf: POLICY_TYPES.map((type) => ({ $ref: to(type) })),
    discriminator: { propertyName: 'type', mapping: Object.fromEntries(POLICY_TYPES.map((type) => [type, to(type)])) },
    ...(description === undefined ? {} : { description }),
    ...(examples === undefined ? {} : { examples }),
  });
}
