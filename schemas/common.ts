// The words every resource shares: identifiers, times and the form of a page (closed sets: closed-sets.ts).
// Used everywhere: all other folders import these, and schemas import typebox alone.
// Invariant: what two schemas share is written once, here.
import Type from 'typebox';
import { about } from './described.ts';
import './time.ts';

/** Any JSON value as JSON.parse makes it. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** A time that a request carries: what parseTime reads. Some write a hundred digits behind the second; no one more. */
export const RequestTime = Type.String({ format: 'date-time', maxLength: 150 });
/** UTC with milliseconds, the only form that responses use. */
export const ResponseTime = Type.String({ format: 'date-time', examples: ['2026-11-20T17:28:00.000Z'] });

/** Half of a pair of surrogates has no bytes of its own, so that two such names would be one in a store. */
export const WELL_FORMED = '^[^\\ud800-\\udfff]*$';
export const Name = Type.String({ minLength: 1, maxLength: 200, pattern: WELL_FORMED });
export const Description = Type.String({ maxLength: 2000 });
/**
 * String values only. Not Type.Record: its key pattern passes over keys that hold a line end, and with them their
 * values.
 */
export const Metadata = Type.Unsafe<Record<string, string>>(
  Type.Object(
    {},
    {
      additionalProperties: Type.String({ maxLength: 2000 }),
      propertyNames: Type.String({ maxLength: 200 }),
      maxProperties: 100,
    },
  ),
);
/** Any JSON object, with nothing demanded of it. */
export const FreeObject = Type.Unsafe<Record<string, unknown>>(Type.Object({}, { additionalProperties: true }));

export const NextCursor = about(
  Type.Union([Type.String(), Type.Null()]),
  'Sent as `cursor`, with the same filters and order, it gives the items behind the last one. null: there are none.',
  null,
);

/** The fields of a page beside its items. */
export const PAGE_FIELDS = {
  total: about(
    Type.Integer({ minimum: 0 }),
    'How many fit the filters, whatever the page. Behind a cursor: when the list began.',
    1,
  ),
  limit: about(Type.Integer(), 'How many items a page holds at most, as asked for or by default.', 20),
  offset: about(Type.Integer({ minimum: 0 }), 'How many items of the list come before this page.', 0),
  next_cursor: NextCursor,
};

/** The envelope of every list but the audit log's, which says `logs` for `items`. */
export function page<T extends Type.TSchema>(item: T) {
  return Type.Object({
    items: about(Type.Array(item), 'The items of this page.'),
    ...PAGE_FIELDS,
  });
}
