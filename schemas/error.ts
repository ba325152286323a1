// The one body of every error: a code, a message, the path of each mistake.
import Type from 'typebox';
import { about } from './described.ts';

export const ErrorDetail = Type.Object({
  path: about(
    Type.String({ description: 'JSON pointer into the body, or the name of a query parameter or header' }),
    'JSON Pointer into the body, or the name of a query parameter or header.',
    '/conditions/window',
  ),
  message: about(Type.String(), 'What is wrong there.', 'is required'),
});
export type ErrorDetail = Type.Static<typeof ErrorDetail>;

export const ErrorInfo = Type.Object(
  {
    code: about(Type.String(), 'What went wrong, for programs.'),
    message: about(
      Type.String(),
      'What went wrong, one sentence for people. It may change.',
      'The policy does not compile.',
    ),
    request_id: about(Type.String(), 'The `X-Request-Id` of the request.', 'checkout-7f3a'),
    details: Type.Optional(
      about(Type.Array(ErrorDetail), 'What is wrong and where; left out where there is nothing to add.'),
    ),
    /** On a 5xx answer to a write: whether anything was kept. */
    recorded: Type.Optional(
      about(
        Type.Union([Type.Literal(false), Type.Literal('unknown')]),
        'On a 5xx answer to a write: `false`, nothing was kept and it can be sent again; `unknown`, send it again with the same `Idempotency-Key`. Left out elsewhere.',
      ),
    ),
  },
  { description: 'What went wrong, for programs and for people.' },
);

export const ErrorBody = Type.Object({ error: about(ErrorInfo, 'What went wrong.') });
