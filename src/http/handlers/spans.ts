// Spans of traces by OTLP/HTTP: what an agent that is instrumented with OpenTelemetry sends
// (`OTEL_EXPORTER_OTLP_ENDPOINT`). Bytes are handed on as they are; ingest/spans-intake.ts does the rest.

import { ExportTraceServiceRequest, ExportTraceServiceResponse } from '../../../schemas/spans.ts';
import { formOf } from '../../otlp/answers.ts';
import { eventBody, type Route, route } from '../route.ts';

export const spanRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/v1/traces',
    needs: 'submit',
    bound: 'handler',
    body: eventBody('spans', ExportTraceServiceRequest),
    takesChunks: true,
    operation: {
      id: 'sendSpans',
      tag: 'Traces',
      summary: 'Send spans by OTLP/HTTP',
      description:
        'Spans of models, tools and agents become events of the agents that they name, which are registered where they are new; other spans are ignored. A span that cannot be read is rejected by itself. Protobuf (`application/x-protobuf`) or JSON, plain or with gzip. Judged after the fact: `policy_result.enforced` is false. A span that comes again, by its trace and span id, is recorded once. Errors are `google.rpc.Status` in the form of the request.',
      answers: { 200: { description: 'What was of interest is recorded', schema: ExportTraceServiceResponse } },
      errors: ['unavailable'],
      bodyExample: { resourceSpans: [] },
    },
    submit: ({ account, actor, principal, body, requestId, contentType }, { spans }, caller) => {
      const boundTo = principal.agentId ?? undefined;
      const sent = { account, keyId: principal.keyId, requestId, boundTo, body, form: formOf(contentType)! };
      spans.submit(sent, actor, caller);
    },
  }),
];
