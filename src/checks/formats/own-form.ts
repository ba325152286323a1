// The form of our own, for a service that is written for it: the event and the policy go out, `{match, score, labels}`
// comes back, of which one is enough. Where the policy names `fields`, the event goes without its payload.
import { type CheckFormat, verdictIn } from './format.ts';

export const ownForm: CheckFormat = {
  request(_check, { texts, policy, event, payloadText }) {
    const { type, agentId, traceId, timestamp } = event;
    const head = JSON.stringify({ type, agent_id: agentId, trace_id: traceId ?? null, timestamp }).slice(0, -1);
    const payload = payloadText === undefined ? '' : `,"payload":${payloadText}`;
    return `{"event":${head}${payload}},"policy":${JSON.stringify(policy)},"texts":${JSON.stringify(texts)}}`;
  },
  verdict: verdictIn,
};
