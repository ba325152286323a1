// Encodes an accepted event for the stream (after the decision, before the append): its row, byte for
// byte as ClickHouse will be given it (RowBinary, columns of EVENT_ROW_COLUMNS), and its summary for the other pipelines.
// The payload is written once and never parsed again; the store pipeline only moves these bytes.
// Invariant: `rowBytes` in the summary is the length of the row. Encoding cannot fail: what comes here is checked.

import { createHash } from 'node:crypto';
import type { AgentRecord } from '../../schemas/agent.ts';
import type { Outcome } from '../../schemas/closed-sets.ts';
import type { JsonObject } from '../../schemas/common.ts';
import type { EventSummary, MatchSummary } from '../../schemas/entry.ts';
import type { Decision, RateCheck } from '../policy/judgement.ts';
import { redactPayload, redactTrace, TRACE_TOKEN_CHARACTERS } from '../policy/redact.ts';
import { counterName } from './rate-limit-batcher.ts';
import type { ParsedSubmission } from './submission.ts';
import { countOrNull, tokensUsed } from './token-usage.ts';

/** An event that has its id, its times and its decision. Times are epoch ms. */
export type AcceptedEvent = {
  account: string;
  agent: AgentRecord;
  id: string;
  submission: ParsedSubmission;
  receivedAt: number;
  decision: Decision;
  requestId: string;
};

/** Enum8 values; `clickhouse/` names them alike. */
const OUTCOME_VALUE: Record<Outcome, number> = { allowed: 1, blocked: 2, pending: 3 };

/** Room for what is as long in every row: six ids and names of up to 30 bytes, two times, two counts, lengths of all columns. */
const FIXED_BYTES_MAX = 320;
const MODEL_CHARACTERS_MAX = 200;
const TWO_32 = 2 ** 32;

/** Rows of one request, end to end, and the summaries that say where each ends. */
type EncodedEvents = { rows: Buffer; summaries: string[] };

export function encodeEvents(events: readonly AcceptedEvent[]): EncodedEvents {
  const stored = events.map(storedForm);
  const bytesMax = stored.reduce((sum, form) => sum + form.bytesMax, 0);
  const writer = new RowWriter(bytesMax);
  const summaries: string[] = new Array(events.length);
  for (let i = 0; i < events.length; i++) {
    const start = writer.length;
    writeRow(writer, events[i]!, stored[i]!);
    summaries[i] = JSON.stringify(summaryOf(events[i]!, stored[i]!, writer.length - start));
  }
  return { rows: writer.bytes(), summaries };
}

/** What is kept of a payload: the caller's text, or its redacted copy, and the columns drawn from it. */
type StoredForm = {
  traceId: string | undefined;
  text: string;
  searchText: string;
  model: string;
  tokenCount: number | null;
  tokensUsed: number | null;
  bytesMax: number;
};

function storedForm(event: AcceptedEvent): StoredForm {
  const { submission, decision } = event;
  const redacted = decision.redactions.length > 0;
  const text = redacted ? redactPayload(submission.payloadText, decision.redactions) : submission.payloadText;
  // Columns come from what is kept: a model name that held a secret is redacted there, too.
  const payload = redacted ? (JSON.parse(text) as JsonObject) : submission.payload;
  const searchText = text.includes('\\u') ? decodedStrings(payload) : '';
  const model = payload['model'];
  const { traceId } = submission;
  return {
    traceId: redacted && traceId !== undefined ? redactTrace(traceId, decision.redactions) : traceId,
    text,
    searchText,
    model: typeof model === 'string' && model.length <= MODEL_CHARACTERS_MAX ? model : '',
    tokenCount: countOrNull(payload['token_count']),
    tokensUsed: tokensUsed(payload),
    bytesMax: bytesMaxOf(event, text, searchText),
  };
}

/** A character is at most three bytes; payloads are measured, the rest is short. */
function bytesMaxOf({ submission, decision, requestId }: AcceptedEvent, text: string, searchText: string): number {
  const short =
    decision.resultJson.length +
    Math.max(TRACE_TOKEN_CHARACTERS, submission.traceId?.length ?? 0) +
    MODEL_CHARACTERS_MAX +
    requestId.length;
  return Buffer.byteLength(text) + Buffer.byteLength(searchText) + 3 * short + FIXED_BYTES_MAX;
}

/** Keys and strings of a value, one a line: what a text search sees of a payload that is written with \u escapes. */
function decodedStrings(value: unknown): string {
  const lines: string[] = [];
  collectStrings(value, lines);
  return lines.join('\n');
}

function collectStrings(value: unknown, lines: string[]): void {
  if (typeof value === 'string') lines.push(value);
  else if (typeof value === 'number' || typeof value === 'boolean') lines.push(String(value));
  else if (Array.isArray(value)) for (const item of value) collectStrings(item, lines);
  else if (typeof value === 'object' && value !== null) {
    for (const key of Object.keys(value)) {
      lines.push(key);
      collectStrings((value as JsonObject)[key], lines);
    }
  }
}

function writeRow(writer: RowWriter, event: AcceptedEvent, form: StoredForm): void {
  const { submission, decision } = event;
  writer.ascii(event.account);
  writer.ascii(event.agent.id);
  writer.ascii(event.id);
  writer.ascii(submission.type);
  writer.text(form.traceId ?? '');
  writer.int64(submission.occurredAt);
  writer.int64(event.receivedAt);
  writer.text(form.text);
  writer.text(form.searchText);
  writer.byte(OUTCOME_VALUE[decision.outcome]);
  writer.ascii(decision.reason ?? '');
  writer.ascii(decision.policyId ?? '');
  writer.ascii(decision.approvalId ?? '');
  writer.text(decision.outcome === 'allowed' && decision.matches.length === 0 ? '' : decision.resultJson);
  writer.text(form.model);
  writer.nullableInt64(form.tokenCount);
  writer.nullableInt64(form.tokensUsed);
  writer.ascii(event.requestId);
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
  }
  return summary;
}

/** Which counter: a hash, since its name holds text of the payload. 96 bits of it tell a service's counters apart. */
function limitOf({ account, agent }: AcceptedEvent, check: RateCheck): NonNullable<MatchSummary['limit']> {
  const name = counterName(account, agent.id, check);
  return {
    counter: createHash('sha256').update(name).digest('base64url').slice(0, 16),
    windowMs: check.windowMs,
  };
}

/** Node's own encoders without the argument checks of `write`; the types leave them out. */
export type FastBuffer = Buffer & {
  latin1Write(text: string, offset: number): number;
  utf8Write(text: string, offset: number): number;
};

/** Writes RowBinary: strings with a LEB128 length in front, integers little-endian. */
class RowWriter {
  length = 0;
  readonly #bytes: FastBuffer;

  constructor(bytesMax: number) {
    this.#bytes = Buffer.allocUnsafe(bytesMax) as FastBuffer;
  }

  bytes(): Buffer {
    // A copy where most of the room is unused: the buffer may wait for Redis, its room should not.
    const { length } = this;
    return length * 2 < this.#bytes.length
      ? Buffer.from(this.#bytes.subarray(0, length))
      : this.#bytes.subarray(0, length);
  }

  /** Text of one byte a character. */
  ascii(text: string): void {
    this.#varint(text.length);
    this.length += this.#bytes.latin1Write(text, this.length);
  }

  text(text: string): void {
    const bytes = Buffer.byteLength(text);
    this.#varint(bytes);
    this.length +=
      bytes === text.length ? this.#bytes.latin1Write(text, this.length) : this.#bytes.utf8Write(text, this.length);
  }

  byte(value: number): void {
    this.#bytes[this.length++] = value;
  }

  int64(value: number): void {
    this.#bytes.writeInt32LE(value | 0, this.length);
    this.#bytes.writeInt32LE(Math.floor(value / TWO_32), this.length + 4);
    this.length += 8;
  }

  nullableInt64(value: number | null): void {
    this.byte(value === null ? 1 : 0);
    if (value !== null) this.int64(value);
  }

  #varint(value: number): void {
    while (value > 127) {
      this.#bytes[this.length++] = (value & 127) | 128;
      value >>>= 7;
    }
    this.#bytes[this.length++] = value;
  }
}
