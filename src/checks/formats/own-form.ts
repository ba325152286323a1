// The form of our own, for a service that is written for it: the event and the policy go out, `{match, score, labels}`
// comes back, of which one is enough, and the places of what was found in `spans`. Where the policy names `fields`, the
// event goes without its payload.
import { type CheckFormat, listIn, objectIn, verdictIn } from './format.ts';
import { FoundPlaces } from './found-places.ts';

export const ownForm: CheckFormat = {
  request(_check, { texts, policy, event, payloadText }) {
    const { type, agentId, traceId, timestamp } = event;
    const head = JSON.stringify({ type, agent_id: agentId, trace_id: traceId ?? null, timestamp }).slice(0, -1);
    const payload = payloadText === undefined ? '' : `,"payload":${payloadText}`;
    return `{"event":${head}${payload}},"policy":${JSON.stringify(policy)},"texts":${JSON.stringify(texts)}}`;
  },
  verdict(answer, texts) {
    const { spans } = objectIn(answer);
    const places = new FoundPlaces(texts);
    const found = spans === undefined ? [] : listIn(spans).map(objectIn);
    return { ...verdictIn(answer), spans: found.map((span) => places.ofText(span)) };
  },
};
