// Spans, log records and metrics as OTLP/HTTP has them, for the description alone: src/otlp decodes them, and knows
// more of them.

import Type from 'typebox';
import { FreeObject } from './common.ts';
import { about } from './described.ts';

function list(name: string) {
  const what = `${name} of opentelemetry-proto, each of one program. Left out: there are none.`;
  return Type.Optional(about(Type.Array(FreeObject), what, [{}]));
}

function rejected(what: string) {
  return about(Type.String(), `${what} that should have been kept and could not be; an integer as text.`, '2');
}

const errorMessage = about(
  Type.String(),
  'Why, each reason once, with the place of the first one that has it.',
  '/resourceSpans/0/scopeSpans/0/spans/3: a span id is not 8 bytes that are not all 0, in JSON 16 digits in hex',
);

function response<T extends Type.TProperties>(partialSuccess: T) {
  const description = 'Left out: all that is of interest is recorded.';
  return Type.Object({ partialSuccess: Type.Optional(Type.Object(partialSuccess, { description })) });
}

export const ExportTraceServiceRequest = Type.Object({ resourceSpans: list('ResourceSpans') });
export const ExportTraceServiceResponse = response({ rejectedSpans: rejected('Spans'), errorMessage });

export const ExportLogsServiceRequest = Type.Object({ resourceLogs: list('ResourceLogs') });
export const ExportLogsServiceResponse = response({ rejectedLogRecords: rejected('Log records'), errorMessage });

export const ExportMetricsServiceRequest = Type.Object({ resourceMetrics: list('ResourceMetrics') });
export const ExportMetricsServiceResponse = response({ rejectedDataPoints: rejected('Data points'), errorMessage });

export const RpcStatus = Type.Object({
  code: about(Type.Integer(), 'Of google.rpc.Code.', 14),
  message: about(
    Type.String(),
    'What is wrong, one sentence for people.',
    'The backlog is full; nothing was recorded.',
  ),
});
