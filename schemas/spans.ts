// Spans of traces as OTLP/HTTP has them, for the description alone: src/otlp decodes them, and knows more of them.

import Type from 'typebox';
import { FreeObject } from './common.ts';
import { about } from './described.ts';

export const ExportTraceServiceRequest = Type.Object({
  resourceSpans: Type.Optional(
    about(
      Type.Array(FreeObject),
      'ResourceSpans of opentelemetry-proto, each of one program. Left out: there are none.',
      [{}],
    ),
  ),
});

export const ExportTraceServiceResponse = Type.Object({
  partialSuccess: Type.Optional(
    Type.Object(
      {
        rejectedSpans: about(
          Type.String(),
          'Spans that should have been kept and could not be; an integer as text.',
          '2',
        ),
        errorMessage: about(
          Type.String(),
          'Why, each reason once, with the place of the first span that has it.',
          '/resourceSpans/0/scopeSpans/0/spans/3: a span id is not 8 bytes that are not all 0, in JSON 16 digits in hex',
        ),
      },
      { description: 'Left out: all that is of interest is recorded.' },
    ),
  ),
});

export const RpcStatus = Type.Object({
  code: about(Type.Integer(), 'Of google.rpc.Code.', 14),
  message: about(
    Type.String(),
    'What is wrong, one sentence for people.',
    'The backlog is full; nothing was recorded.',
  ),
});
