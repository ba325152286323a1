// Encodes an accepted event for the stream (after the decision, before the append): its row, byte for
// byte as ClickHouse will be given it (RowBinary, schemas/event-row.ts), and its summary for the other pipelines.
// The payload is written once and never parsed again; the store pipeline only moves these bytes.
// Invariant: `rowBytes` in the summary is the length of the row. Encoding cannot fail: what comes here is checked.

import { createHash } from 'node:crypto';
import type { AgentRecord } from '../../schemas/agent.ts';
import type { JsonObject } from '../../schemas/common.ts';
import type { EventSummary, MatchSummary } from '../../schemas/entry.ts';
import type { RowValues } from '../../schemas/event-row.ts';
import { microsOf } from '../../schemas/time.ts';
import { writeEventRow } from '../common/event-row-codec.ts';
import { RowBinaryWriter } from '../common/row-binary.ts';
import { ALLOWED, type Decision, type RateCheck } from '../policy/judgement.ts';
import { TRACE_TOKEN_CHARACTERS } from '../policy/redaction/redaction.ts';
import { counterName } from './rate-limit-batcher.ts';
import type { ParsedSubmission } from './submission.ts';
import { countOrNull, mayChangeColumns, tokensUsed } from './token-usage.ts';

/** An event that has its id, its times and its decision. Times are epoch ms, whole. */
export type AcceptedEvent = {
  account: string;
  agent: AgentRecord;
  id: string;
  submission: ParsedSubmission;
  receivedAt: number;
  decision: Decision;
  requestId: string;
};

/**
 * Room for what is as long in every row: six ids and names of up to 30 bytes, two times, two counts, lengths of all
 * columns.
 */
const FIXED_BYTES_MAX = 320;
export const MODEL_CHARACTERS_MAX = 200;

/** Rows of one request, end to end, and the summaries that say where each ends. */
type EncodedEvents = { rows: Buffer; summaries: string[] };

export function encodeEvents(events: readonly AcceptedEvent[]): EncodedEvents {
  const stored = events.map(storedForm);
  const bytesMax = stored.reduce((sum, form) => sum + form.bytesMax, 0);
  const writer = new RowBinaryWriter(bytesMax);
  const summaries: string[] = new Array(events.length);
  for (let i = 0; i < events.length; i++) {
    const start = writer.length;
    writeEventRow(writer, rowOf(events[i]!, stored[i]!));
    summaries[i] = JSON.stringify(summaryOf(events[i]!, stored[i]!, writer.length - start));
  }
  return { rows: writer.bytes(), summaries };
}

/** The form of a payload that is kept: the caller's text, or its redacted copy, and the columns drawn from it. */
type StoredForm = {
  traceId: string | undefined;
  text: string;
  model: string;
  tokenCount: number | null;
  tokensUsed: number | null;
  bytesMax: number;
};

function storedForm(event: AcceptedEvent): StoredForm {
  const { submission, decision } = event;
  const { payloadText: text, traceId } = decision.redacted ?? submission;
  // Columns come from what is kept: a model name that held a secret is redacted there, too.
  const isOwn = decision.redacted === null || !mayChangeColumns(submission.payload, decision.redacted.changed);
  const payload = isOwn ? submission.payload : (JSON.parse(text) as JsonObject);
  const model = payload['model'];
  return {
    traceId,
    text,
    model: typeof model === 'string' && model.length <= MODEL_CHARACTERS_MAX ? model : '',
    tokenCount: countOrNull(payload['token_count']),
    // What agents and workflows used in sum stands under `usage` of their spans, and was counted by its parts.
    tokensUsed: decision.observed === true ? countOrNull(payload['tokens_used']) : tokensUsed(payload),
    bytesMax: bytesMaxOf(event, text),
  };
}

/** A character is at most three bytes; payloads are measured, the rest is short. */
function bytesMaxOf({ submission, decision, requestId }: AcceptedEvent, text: string): number {
  const short =
    decision.resultJson.length +
    Math.max(TRACE_TOKEN_CHARACTERS, submission.traceId?.length ?? 0) +
    MODEL_CHARACTERS_MAX +
    requestId.length;
  return Buffer.byteLength(text) + 3 * short + FIXED_BYTES_MAX;
}

function rowOf(event: AcceptedEvent, form: StoredForm): RowValues {
  const { submission, decision } = event;
  return {
    account_id: event.account,
    agent_id: event.agent.id,
    id: event.id,
    type: submission.type,
    trace_id: form.traceId ?? '',
    timestamp: Math.floor(submission.occurredAt),
    received_at: event.receivedAt,
    payload: form.text,
    outcome: decision.outcome,
    reason: decision.reason ?? '',
    policy_id: decision.policyId ?? '',
    approval_id: decision.approvalId ?? '',
    policy_result: decision === ALLOWED ? '' : decision.resultJson,
    model: form.model,
    token_count: form.tokenCount,
    tokens_used: form.tokensUsed,
    request_id: event.requestId,
    timestamp_micros: microsOf(submission.occurredAt),
  };
}

function summaryOf(event: AcceptedEvent, form: StoredForm, rowBytes: number): EventSummary {
  const { submission, decision } = event;
  const summary: EventSummary = {
    account: event.account,
    agent: event.agent.id,
    id: event.id,
    type: submission.type,
    occurredAt: submission.occurredAt,
    receivedAt: event.receivedAt,
    outcome: decision.outcome,
    rowBytes,
  };
  if (decision.reason !== null) summary.reason = decision.reason;
  if (decision.policyId !== null) summary.policyId = decision.policyId;
  if (decision.observed === true) summary.observed = true;
  if (decision.approvalId !== undefined) summary.approvalId = decision.approvalId;
  if (decision.approval !== undefined) {
    const { timeoutSeconds, onTimeout } = decision.approval;
    summary.approval = { timeoutSeconds, onTimeout };
  }
  if (form.traceId !== undefined) summary.traceId = form.traceId;
  if (form.tokensUsed !== null) summary.tokensUsed = form.tokensUsed;
  if (decision.matches.length > 0) {
    summary.matches = decision.matches.map(({ detail: _detail, ...match }): MatchSummary => match);
    for (const check of decision.limits ?? []) {
      const match = summary.matches.find(({ policy_id }) => policy_id === check.policyId);
      if (match !== undefined) match.limit = limitOf(event, check);
    }
    for (const { policyId, ...limit } of decision.exhausted ?? []) {
      const match = summary.matches.find(({ policy_id }) => policy_id === policyId);
      if (match !== undefined) match.limit = limit;
    }
  }
  return summary;
}

/** Which counter: a hash, since its name holds text of the payload. 96 bits of it distinguish a service's counters. */
function limitOf({ account, agent }: AcceptedEvent, check: RateCheck): NonNullable<MatchSummary['limit']> {
  const name = counterName(account, agent.id, check);
  return {
    counter: createHash('sha256').update(name).digest('base64url').slice(0, 16),
    windowMs: check.windowMs,
  };
}
