// `null` in an optional field is the same as leaving it out: clients write what they do not know as null (between the
// parser of a body and the check against its schema, src/http/request.ts and src/ingest/submission.ts).
// Only run after a check has failed: a body without such a null pays nothing, and one whose schema gives null a meaning
// there (an alert of all agents) has passed.
// Invariant: nothing goes but members that the schema has, does not require, and does not take null for. What is free
// (payloads, metadata, conditions) is never looked into.
import type { TSchema } from 'typebox';

type Form = {
  type?: string | readonly string[];
  properties?: Readonly<Record<string, TSchema>>;
  required?: readonly string[];
  items?: TSchema;
  anyOf?: readonly TSchema[];
};

/** Takes such members out of the value itself. */
export function dropOptionalNulls(schema: TSchema, value: unknown): void {
  const { properties, required = [], items } = schema as Form;
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) {
    if (items !== undefined) for (const item of value) dropOptionalNulls(items, item);
    return;
  }
  if (properties === undefined) return;
  for (const [name, form] of Object.entries(properties)) {
    if (!Object.hasOwn(value, name)) continue;
    const item = (value as Record<string, unknown>)[name];
    if (item !== null) dropOptionalNulls(form, item);
    else if (!required.includes(name) && !takesNull(form)) delete (value as Record<string, unknown>)[name];
  }
}

export function takesNull(schema: TSchema): boolean {
  const { type, anyOf } = schema as Form;
  return type === 'null' || (Array.isArray(type) && type.includes('null')) || (anyOf?.some(takesNull) ?? false);
}
