// The keywords that `payload_schema` of a policy may have, for the API's description (under policy-conditions.ts).
// It describes and does not validate: src/policy/conditions/payload-schema.ts does.
import Type, { type TSchema } from 'typebox';

/** A schema that is under this name among the components of the description. */
export function component(name: string, description?: string): TSchema {
  return Type.Unsafe({ $ref: `#/components/schemas/${name}`, ...(description === undefined ? {} : { description }) });
}

const subschema = (description: string) => component('PayloadSchema', description);
const byName = (description: string) => ({
  type: 'object',
  additionalProperties: component('PayloadSchema'),
  description,
});
const list = (description: string) => ({ type: 'array', minItems: 1, items: component('PayloadSchema'), description });
const number = (description: string) => ({ type: 'number', description });
const count = (description: string) => ({ type: 'integer', minimum: 0, description });
const words = (description: string) => ({ type: 'array', items: { type: 'string' }, description });
const TYPES = ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'];

/** One entry a keyword of the subset in src/policy/conditions/payload-schema.ts. */
const PAYLOAD_SCHEMA_KEYWORDS = {
  type: {
    anyOf: [
      { type: 'string', enum: TYPES },
      { type: 'array', minItems: 1, uniqueItems: true, items: { type: 'string', enum: TYPES } },
    ],
    description: 'Type of the value, or the types that it may have.',
  },
  enum: { type: 'array', items: {}, description: 'The value is one of these.' },
  const: { description: 'The value is this.' },
  multipleOf: { type: 'number', exclusiveMinimum: 0, description: 'A number is a multiple of this.' },
  maximum: number('A number is at most this.'),
  exclusiveMaximum: number('A number is less than this.'),
  minimum: number('A number is at least this.'),
  exclusiveMinimum: number('A number is greater than this.'),
  maxLength: count('A string has at most so many characters.'),
  minLength: count('A string has at least so many characters.'),
  pattern: { type: 'string', description: 'A string matches this RE2 pattern somewhere.' },
  maxItems: count('An array has at most so many items.'),
  minItems: count('An array has at least so many items.'),
  maxContains: count('At most so many items fit `contains`.'),
  minContains: count('At least so many items fit `contains`.'),
  maxProperties: count('An object has at most so many keys.'),
  minProperties: count('An object has at least so many keys.'),
  required: words('Keys that an object must have.'),
  dependentRequired: {
    type: 'object',
    additionalProperties: { type: 'array', items: { type: 'string' } },
    description: 'Keys that an object must have where it has another.',
  },
  properties: byName('Schemas of the values of an object, by key.'),
  patternProperties: byName('Schemas of the values of an object, by an RE2 pattern of the key.'),
  additionalProperties: subschema('Schema of all other values of an object; `false`: there are none.'),
  propertyNames: subschema('Schema of the keys of an object.'),
  unevaluatedProperties: subschema('Schema of the values that no other keyword has looked at.'),
  dependentSchemas: byName('Schemas of the object where it has a key.'),
  items: subschema('Schema of the items of an array, behind those of `prefixItems`.'),
  prefixItems: list('Schemas of the first items of an array, in their order.'),
  contains: subschema('Schema that at least one item of an array fits.'),
  unevaluatedItems: subschema('Schema of the items that no other keyword has looked at.'),
  allOf: list('All of these hold.'),
  anyOf: list('At least one of these holds.'),
  oneOf: list('Exactly one of these holds.'),
  not: subschema('This does not hold.'),
  if: subschema('Where this holds `then` must, else `else`.'),
  // biome-ignore lint/suspicious/noThenProperty: JSON Schema's word
  then: subschema('Must hold where `if` does.'),
  else: subschema('Must hold where `if` does not.'),
  title: { type: 'string', description: 'For readers alone.' },
  description: { type: 'string', description: 'For readers alone.' },
  $comment: { type: 'string', description: 'For readers alone.' },
  default: { description: 'For readers alone: nothing is filled in.' },
  examples: { type: 'array', items: {}, description: 'For readers alone.' },
  deprecated: { type: 'boolean', description: 'For readers alone.' },
  readOnly: { type: 'boolean', description: 'For readers alone.' },
  writeOnly: { type: 'boolean', description: 'For readers alone.' },
  $schema: {
    type: 'string',
    const: 'https://json-schema.org/draft/2020-12/schema',
    description: 'The one dialect that is taken; may be left out.',
  },
};

export const PayloadSchema = Type.Unsafe({
  anyOf: [{ type: 'boolean' }, { type: 'object', additionalProperties: false, properties: PAYLOAD_SCHEMA_KEYWORDS }],
  description:
    'A JSON Schema (2020-12) for payloads, of a safe subset: no references, no `uniqueItems`, no `format`; at most 500 nodes and 10 levels.',
  examples: [{ type: 'object', required: ['model'], properties: { model: { enum: ['gpt-4o', 'gpt-4o-mini'] } } }],
});
