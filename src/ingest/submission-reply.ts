// Renders what a submission is answered with: the event with its `policy_result`, the payload spliced in as the
// caller's own text (echoed back as submitted). The verdicts are all that an idempotent retry needs to be given the
// same bytes again: payloads come from the retry's own body, which is the same by its fingerprint.
import { exactIsoTime, isoTime } from '../../schemas/time.ts';
import type { Decision } from '../policy/judgement.ts';
import { type Element, EVENT_TOO_LARGE, isRejected, type ParsedSubmission, type Rejected } from './submission.ts';

/**
 * The verdict on one element of a request. `result` is the exact text of `policy_result`; `redacted` that of the
 * payload as it is kept, where a policy redacted it.
 */
export type Verdict =
  | { id: string; occurredAt: number; receivedAt: number; result: string; redacted?: string }
  | Rejected;

export function verdictOf(
  { resultJson: result, redacted }: Decision,
  event: { id: string; occurredAt: number; receivedAt: number },
): Verdict {
  return { ...event, result, ...(redacted === null ? {} : { redacted: redacted.payloadText }) };
}

export function renderEvent(agentId: string, submission: ParsedSubmission, verdict: Verdict): string {
  if ('rejected' in verdict) return renderRejected(verdict);
  const trace = submission.traceId === undefined ? '' : `,"trace_id":${JSON.stringify(submission.traceId)}`;
  const redacted = verdict.redacted === undefined ? '' : `,"redacted_payload":${verdict.redacted}`;
  return (
    `{"id":"${verdict.id}","agent_id":"${agentId}","type":"${submission.type}","payload":${submission.payloadText}${trace}` +
    `,"timestamp":"${exactIsoTime(verdict.occurredAt)}","received_at":"${isoTime(verdict.receivedAt)}","policy_result":${verdict.result}${redacted}}`
  );
}

export function renderBatch(agentId: string, elements: readonly Element[], verdicts: readonly Verdict[]): string {
  let text = '{"results":[';
  let total = 0;
  for (let i = 0; i < elements.length; i++) {
    const element = elements[i]!;
    const verdict = verdicts[i]!;
    if (i > 0) text += ',';
    if ('rejected' in verdict || isRejected(element)) {
      // The verdict first: a retry gets the answer of the first request, even if its clock has moved on.
      text += renderRejected('rejected' in verdict ? verdict : (element as Rejected));
    } else {
      text += renderEvent(agentId, element, verdict);
      total++;
    }
  }
  return `${text}],"total":${total}}`;
}

function renderRejected({ rejected: details, tooLarge }: Rejected): string {
  const [code, message] = tooLarge
    ? ['payload_too_large', EVENT_TOO_LARGE]
    : ['validation_failed', 'The event does not fit its schema.'];
  return JSON.stringify({ error: { code, message, details } });
}
