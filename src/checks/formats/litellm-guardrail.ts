// LiteLLM's generic guardrail API, as its documentation describes it: texts go out, an action comes back. What it would
// change (GUARDRAIL_INTERVENED) is a match with that label, since a check changes nothing.
import { type CheckFormat, NO_SPANS, Nonsense, objectIn } from './format.ts';

export const litellmGuardrail: CheckFormat = {
  request(_check, { texts, event }) {
    return JSON.stringify({
      texts,
      request_data: {},
      input_type: event.type === 'completion' ? 'response' : 'request',
      ...(event.traceId === undefined ? {} : { litellm_trace_id: event.traceId }),
      additional_provider_specific_params: {},
    });
  },
  verdict(answer) {
    switch (objectIn(answer)['action']) {
      case 'NONE':
        return { match: false, score: null, labels: [], spans: NO_SPANS };
      case 'BLOCKED':
        return { match: true, score: null, labels: ['blocked'], spans: NO_SPANS };
      case 'GUARDRAIL_INTERVENED':
        return { match: true, score: null, labels: ['intervened'], spans: NO_SPANS };
      default:
        throw new Nonsense();
    }
  },
};
