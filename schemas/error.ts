// The one body of every error (decisions 2).
import Type from 'typebox';

export const ErrorDetail = Type.Object({
  path: Type.String({ description: 'JSON pointer into the body, or the name of a query parameter or header' }),
  message: Type.String(),
});
export type ErrorDetail = Type.Static<typeof ErrorDetail>;

export const ErrorBody = Type.Object({
  error: Type.Object({
    code: Type.String(),
    message: Type.String(),
    request_id: Type.String(),
    details: Type.Optional(Type.Array(ErrorDetail)),
    /** On a 5xx answer to a write: whether anything was kept. */
    recorded: Type.Optional(Type.Union([Type.Literal(false), Type.Literal('unknown')])),
  }),
});
