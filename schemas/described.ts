// Says what a member of a schema means: every one that callers meet has a description, and an example wherever its form
// does not give one (a closed set, a time, a number). Examples of whole answers are put together from these
// (src/http/openapi/examples.ts).
import type { TSchema } from 'typebox';

/** An identifier of this prefix, as examples show it. */
export function exampleId(prefix: string): string {
  return `${prefix}_01jd3fq5w0c8m2v7x4k9n6t1rz`;
}

/** The same schema, said of one member. What typebox keeps in it out of sight stays. */
export function about<S extends TSchema>(schema: S, description: string, ...examples: unknown[]): S {
  const said = { description, ...(examples.length === 0 ? {} : { examples }) };
  return Object.defineProperties(
    {},
    { ...Object.getOwnPropertyDescriptors(schema), ...Object.getOwnPropertyDescriptors(said) },
  ) as S;
}
