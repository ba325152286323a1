// What an agent that is instrumented with OpenTelemetry sends by OTLP/HTTP (`OTEL_EXPORTER_OTLP_ENDPOINT`): spans, log
// records and metrics, each to a path of its own and all in one way. Bytes are handed on as they are;
// ingest/spans-intake.ts does the rest.

import type Type from 'typebox';
import {
  ExportLogsServiceRequest,
  ExportLogsServiceResponse,
  ExportMetricsServiceRequest,
  ExportMetricsServiceResponse,
  ExportTraceServiceRequest,
  ExportTraceServiceResponse,
} from '../../../schemas/spans.ts';
import { formOf } from '../../otlp/answers.ts';
import type { OtlpSignal } from '../../otlp/span.ts';
import { eventBody, type Operation, type Route, route } from '../route.ts';

const FORMS = 'Protobuf (`application/x-protobuf`) or JSON, plain or with gzip.';
const ERRORS = 'Errors are `google.rpc.Status` in the form of the request.';

type OperationText = Pick<Operation, 'id' | 'tag' | 'summary' | 'description' | 'answers' | 'bodyExample'>;

function otlpRoute(signal: OtlpSignal, request: Type.TSchema, operation: OperationText): Route {
  return route({
    method: 'POST',
    path: `/v1/${signal}`,
    needs: 'submit',
    bound: 'handler',
    body: eventBody('otlp', request),
    takesChunks: true,
    operation: { ...operation, errors: ['unavailable'] },
    submit: ({ account, actor, principal, body, requestId, contentType }, { spans }, caller) => {
      const boundTo = principal.agentId ?? undefined;
      const sent = { account, requestId, boundTo, body, form: formOf(contentType)!, signal };
      spans.submit(sent, actor, caller);
    },
  });
}

export const spanRoutes: Route[] = [
  otlpRoute('traces', ExportTraceServiceRequest, {
    id: 'sendSpans',
    tag: 'Traces',
    summary: 'Send spans by OTLP/HTTP',
    description: `Spans of models, tools and agents become events of the agents that they name, which are registered where they are new; other spans are ignored. A span that cannot be read is rejected by itself. ${FORMS} Judged after the fact: \`policy_result.enforced\` is false. A span that comes again, by its trace and span id, is recorded once. ${ERRORS}`,
    answers: { 200: { description: 'What was of interest is recorded', schema: ExportTraceServiceResponse } },
    bodyExample: { resourceSpans: [] },
  }),
  otlpRoute('logs', ExportLogsServiceRequest, {
    id: 'sendLogs',
    tag: 'Traces',
    summary: 'Send log records by OTLP/HTTP',
    description: `Log records that are events of generative AI (\`gen_ai.…\`) become events, those of one span together, judged as spans are; other log records are accepted and not kept. A record that cannot be read is rejected by itself. ${FORMS} Records that are sent again together are recorded once. ${ERRORS}`,
    answers: { 200: { description: 'What was of interest is recorded', schema: ExportLogsServiceResponse } },
    bodyExample: { resourceLogs: [] },
  }),
  otlpRoute('metrics', ExportMetricsServiceRequest, {
    id: 'sendMetrics',
    tag: 'Traces',
    summary: 'Send metrics by OTLP/HTTP',
    description: `Accepted, so that an exporter that sends all signals to one address has no errors, and not kept. ${FORMS} ${ERRORS}`,
    answers: { 200: { description: 'They came; nothing of them is kept', schema: ExportMetricsServiceResponse } },
    bodyExample: { resourceMetrics: [] },
  }),
];
