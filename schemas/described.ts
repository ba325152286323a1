// Short ways to say what a member of a schema means: every one that callers meet has a description, and an example wherever its
// form does not give one (a closed set, a number from 0). Examples of whole answers are put together from these.
import Type, { type TSchema } from 'typebox';
import { ResponseTime } from './common.ts';

/** An identifier of this prefix (decisions 1), as examples show it. */
export function exampleId(prefix: string): string {
  return `${prefix}_01jd3fq5w0c8m2v7x4k9n6t1rz`;
}

export function id(prefix: string, description: string) {
  return Type.String({ description, examples: [exampleId(prefix)] });
}

/** A time of an answer. */
export function time(description: string) {
  return about(ResponseTime, description);
}

export function nullable<S extends TSchema>(schema: S, description: string, ...examples: unknown[]) {
  return Type.Union([schema, Type.Null()], { description, ...(examples.length === 0 ? {} : { examples }) });
}

/** The same schema, said of one member. What typebox keeps in it out of sight stays. */
export function about<S extends TSchema>(schema: S, description: string, ...examples: unknown[]): S {
  const said = { description, ...(examples.length === 0 ? {} : { examples }) };
  return Object.defineProperties(
    {},
    {
      ...Object.getOwnPropertyDescriptors(schema),
      ...Object.getOwnPropertyDescriptors(said),
    },
  ) as S;
}
